//! From upstream to us and back: what the one wrote the other takes over, and no node is replaced for it.
//!
//! Upstream's part is played by hand, in the words of its release 1.14.1: the hashes are what its own code makes of these
//! very objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_api::NodeClaim;
use karpenter_controllers::{Context, Settings};
use karpenter_provider::CloudProvider;
use karpenter_runtime::{Amazon, Autoscaler};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::lab::{CLAIMS, CLASSES, DEPLOYMENTS, Lab, NODES, POOLS, Place, condition};

const POOL_HASH: &str = "5448167955501246549";
const CLASS_HASH: &str = "13976694168386652841";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NODE_COUNT: usize = 3;

fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "finalizers": ["karpenter.k8s.aws/termination"], "annotations": {
            "karpenter.k8s.aws/ec2nodeclass-hash": CLASS_HASH, "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5"}},
        "spec": {"role": "KarpenterNodeRole-swap", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "swap"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "swap"}}], "tags": {"team": "platform"}},
    })
}

fn pool() -> Value {
    let one = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "general", "annotations": {
            "karpenter.sh/nodepool-hash": POOL_HASH, "karpenter.sh/nodepool-hash-version": "v3"}},
        "spec": {
            "template": {"metadata": {"labels": {"team": "platform"}}, "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [one("kubernetes.io/arch", "amd64"), one("karpenter.sh/capacity-type", "on-demand"),
                    one("node.kubernetes.io/instance-type", "m5.large")]}},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}]}},
    })
}

/// A claim before its launch.
fn claim(name: &str, pool_uid: &Value) -> Value {
    let one = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": {"karpenter.sh/nodepool": "general", "team": "platform",
                "karpenter.k8s.aws/ec2nodeclass": "default", "karpenter.sh/capacity-type": "on-demand",
                "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.large"},
            "annotations": {"karpenter.sh/nodepool-hash": POOL_HASH, "karpenter.sh/nodepool-hash-version": "v3",
                "karpenter.sh/nodeclaim-min-values-relaxed": "false"},
            "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "general", "uid": pool_uid,
                "blockOwnerDeletion": true}]},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "expireAfter": "720h",
            "resources": {"requests": {"cpu": "1", "memory": "1Gi", "pods": "1"}},
            "requirements": [one("karpenter.sh/nodepool", "general"), one("team", "platform"),
                one("karpenter.k8s.aws/ec2nodeclass", "default"), one("kubernetes.io/arch", "amd64"),
                one("karpenter.sh/capacity-type", "on-demand"), one("node.kubernetes.io/instance-type", "m5.large")]},
    })
}

fn conditions(kinds: &[&str]) -> Value {
    let all = kinds.iter().map(|kind| {
        json!({"type": kind, "status": "True", "reason": kind, "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    Value::Array(all.collect())
}

/// One pod on each node.
fn workload(replicas: usize) -> Value {
    let container = json!({"name": "main", "image": "example.com/web:1", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}}})
}

/// Our controllers as a process of its own, which ends with it.
struct Ours {
    context: Arc<Context>,
    process: JoinHandle<()>,
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.process.abort();
    }
}

async fn start(lab: &Lab) -> Ours {
    let (client, clock) = (lab.client.clone(), lab.clock.clone());
    let amazon = Amazon::start(client.clone(), &clock, lab.region.aws(), lab.facts.clone()).await.unwrap();
    let autoscaler = Autoscaler::new(client, clock, &amazon, Settings::default());
    Ours { context: autoscaler.context.clone(), process: tokio::spawn(autoscaler.run()) }
}

/// A cluster with nodes of upstream's.
async fn of_upstream() -> Lab {
    let lab = Lab::new(Place { cluster: "swap", idle: true, ..Place::default() }).await;
    lab.apply(vec![class(), pool()]).await;
    // What the class's selectors come to is EC2's business, and anybody's answer is the same: ours fills it in.
    let resolving = start(&lab).await;
    lab.settle(20).await;
    resolving.process.abort();
    let provider = resolving.context.provider.clone();
    let hashes = json!({"metadata": {"annotations": class()["metadata"]["annotations"]}});
    lab.patch(&format!("{CLASSES}/default"), hashes).await;
    let pool_uid = lab.get(&format!("{POOLS}/general")).await["metadata"]["uid"].clone();
    for number in 0..NODE_COUNT {
        buy(&lab, &*provider, &format!("general-{number}abcd"), &pool_uid).await;
    }
    lab.apply(vec![workload(NODE_COUNT)]).await;
    lab.settle(30).await;
    assert_eq!(lab.running().await, NODE_COUNT);
    lab
}

/// A claim with its instance and its Node, complete.
async fn buy(lab: &Lab, provider: &dyn CloudProvider, name: &str, pool_uid: &Value) {
    let path = format!("{CLAIMS}/{name}");
    lab.apply(vec![claim(name, pool_uid)]).await;
    let stored: NodeClaim = serde_json::from_value(lab.get(&path).await).unwrap();
    let machine = provider.create(&stored).await.unwrap();
    lab.settle(90).await;
    let nodes = lab.list(NODES).await;
    let node = nodes.iter().find(|node| node["spec"]["providerID"] == machine.provider_id.as_str()).unwrap();
    let node_name = node["metadata"]["name"].as_str().unwrap();
    let mut annotations = stored.metadata.annotations.clone().unwrap();
    for (key, value) in [
        ("karpenter.k8s.aws/ec2nodeclass-hash", CLASS_HASH),
        ("karpenter.k8s.aws/ec2nodeclass-hash-version", "v5"),
        ("karpenter.k8s.aws/instance-profile-name", &machine.annotations["karpenter.k8s.aws/instance-profile-name"]),
        ("karpenter.k8s.aws/tagged", "true"),
        ("compatibility.karpenter.k8s.aws/cluster-name-tagged", "true"),
    ] {
        annotations.insert(key.to_owned(), value.to_owned());
    }
    let mut labels = machine.labels.clone();
    labels.extend(stored.metadata.labels.clone().unwrap());
    lab.patch(&path, json!({"metadata": {"annotations": annotations, "labels": labels}})).await;
    let amounts = |resources: &karpenter_core::Resources| -> Value {
        resources.iter().map(|(name, amount)| (name.to_owned(), json!(amount.to_string()))).collect()
    };
    let kinds = ["Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound", "Consolidatable"];
    let status = json!({"providerID": machine.provider_id, "imageID": machine.image_id, "nodeName": node_name,
        "capacity": amounts(&machine.capacity), "allocatable": amounts(&machine.allocatable),
        "lastPodEventTime": "2026-01-01T00:00:00Z", "conditions": conditions(&kinds)});
    lab.patch(&format!("{path}/status"), json!({"status": status})).await;
    labels.insert("karpenter.sh/registered".to_owned(), "true".to_owned());
    labels.insert("karpenter.sh/initialized".to_owned(), "true".to_owned());
    let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name, "uid": stored.metadata.uid,
        "blockOwnerDeletion": true});
    let synced = json!({"metadata": {"labels": labels, "annotations": annotations,
        "finalizers": ["karpenter.sh/termination"], "ownerReferences": [owner]}, "spec": {"taints": []}});
    lab.patch(&format!("{NODES}/{node_name}"), synced).await;
    let tags = [("Name", node_name), ("karpenter.sh/nodeclaim", name)];
    let tags = tags.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let instance = machine.provider_id.rsplit('/').next().unwrap().to_owned();
    lab.region.aws().ec2.create_tags(&[instance], &tags).await.unwrap();
}

fn uids(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(|object| object["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn nodes_of_upstream_are_taken_over_and_none_is_replaced() {
    let lab = of_upstream().await;
    let (claims, nodes) = (lab.list(CLAIMS).await, lab.list(NODES).await);
    let instances: BTreeSet<String> = lab.instances().into_iter().map(|one| one.instance.id).collect();
    let launched = lab.region.launched();
    let ours = start(&lab).await;
    lab.settle(4 * 3600).await;
    assert_eq!(lab.region.launched(), launched, "nothing was bought");
    assert_eq!(lab.instances().into_iter().map(|one| one.instance.id).collect::<BTreeSet<_>>(), instances);
    let (after, nodes_after) = (lab.list(CLAIMS).await, lab.list(NODES).await);
    assert_eq!((uids(&after), uids(&nodes_after)), (uids(&claims), uids(&nodes)));
    assert_eq!(lab.running().await, NODE_COUNT);
    for claim in &after {
        assert!(condition(claim, "Drifted").is_null(), "{claim}");
        assert_eq!(condition(claim, "Ready")["lastTransitionTime"], "2026-01-01T00:00:00Z", "as it was left");
        let annotations = &claim["metadata"]["annotations"];
        assert_eq!(annotations["karpenter.sh/nodepool-hash"], POOL_HASH);
        // A class of another version of the hash is hashed anew, with its claims, and none of them drifts for it.
        assert_eq!(annotations["karpenter.k8s.aws/ec2nodeclass-hash-version"], "v6");
    }
    for node in &nodes_after {
        assert!(node["spec"]["taints"].is_null() && node["spec"]["unschedulable"].is_null(), "{node}");
    }
    drop(ours);
}

#[tokio::test(start_paused = true)]
async fn what_we_leave_behind_is_what_upstream_would_have_written() {
    let lab = of_upstream().await;
    let theirs = lab.list(CLAIMS).await.remove(0);
    let their_node = lab.list(NODES).await.remove(0);
    let known = uids(&lab.list(CLAIMS).await);
    let ours = start(&lab).await;
    lab.settle(60).await;
    lab.patch(&format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": NODE_COUNT + 1}})).await;
    lab.settle(300).await;
    assert_eq!(lab.running().await, NODE_COUNT + 1);
    // We go, in whatever state things are.
    drop(ours);
    let is_new = |object: &&Value| !known.contains(object["metadata"]["uid"].as_str().unwrap());
    let claims = lab.list(CLAIMS).await;
    let mine = claims.iter().find(is_new).unwrap();
    for field in ["labels", "annotations"] {
        assert_eq!(keys(&mine["metadata"][field]), keys(&theirs["metadata"][field]), "{field} of a claim");
    }
    assert_eq!(mine["metadata"]["finalizers"], theirs["metadata"]["finalizers"]);
    assert_eq!(mine["metadata"]["ownerReferences"], theirs["metadata"]["ownerReferences"]);
    assert_eq!(mine["spec"]["nodeClassRef"], theirs["spec"]["nodeClassRef"]);
    assert_eq!(mine["spec"]["expireAfter"], theirs["spec"]["expireAfter"]);
    assert_eq!((keys(&mine["spec"]), keys(&mine["status"])), (keys(&theirs["spec"]), keys(&theirs["status"])));
    let kinds = |claim: &Value| -> BTreeSet<String> {
        let all = claim["status"]["conditions"].as_array().unwrap().iter();
        all.map(|condition| condition["type"].as_str().unwrap().to_owned()).collect()
    };
    assert!(kinds(mine).is_subset(&kinds(&theirs)), "{:?}", kinds(mine));
    let nodes = lab.list(NODES).await;
    let my_node = nodes.iter().find(|node| node["metadata"]["name"] == mine["status"]["nodeName"]).unwrap();
    for field in ["labels", "finalizers"] {
        assert_eq!(keys(&my_node["metadata"][field]), keys(&their_node["metadata"][field]), "{field} of a node");
    }
    let of_karpenter = |node: &Value| -> BTreeSet<String> {
        keys(&node["metadata"]["annotations"]).into_iter().filter(|key| key.contains("karpenter")).collect()
    };
    assert!(of_karpenter(my_node).is_subset(&of_karpenter(&their_node)), "{:?}", of_karpenter(my_node));
    let owner = &my_node["metadata"]["ownerReferences"][0];
    assert_eq!(keys(owner), keys(&their_node["metadata"]["ownerReferences"][0]));
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("NodeClaim"), &mine["metadata"]["uid"]));
    // The checks of upstream's drift: both sides carry its own hash of the pool, and of the class a version that is not
    // its own, which it hashes anew before it compares.
    let (pool, class) = (lab.get(&format!("{POOLS}/general")).await, lab.get(&format!("{CLASSES}/default")).await);
    for object in claims.iter().chain([&pool]) {
        let annotations = &object["metadata"]["annotations"];
        assert_eq!(annotations["karpenter.sh/nodepool-hash"], POOL_HASH);
        assert_eq!(annotations["karpenter.sh/nodepool-hash-version"], "v3");
    }
    let version = &class["metadata"]["annotations"]["karpenter.k8s.aws/ec2nodeclass-hash-version"];
    for claim in &claims {
        assert_eq!(&claim["metadata"]["annotations"]["karpenter.k8s.aws/ec2nodeclass-hash-version"], version);
    }
    assert_eq!(class["metadata"]["finalizers"], json!(["karpenter.k8s.aws/termination"]));
    assert!(pool["metadata"]["finalizers"].is_null());
    // Definitions of upstream's can take the place of ours: nothing is stored in a version that they do not have.
    for definition in lab.list(CRDS).await {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let only = match name.split_once('.').unwrap().0 {
            "nodeoverlays" => "v1alpha1",
            "capacitybuffers" => continue,
            _ => "v1",
        };
        assert_eq!(definition["status"]["storedVersions"], json!([only]), "{name}");
    }
    // Nothing else of ours is on the pods or on the instances.
    for pod in lab.list("/api/v1/namespaces/default/pods").await {
        assert!(keys(&pod["metadata"]["annotations"]).iter().all(|key| !key.contains("karpenter")), "{pod}");
    }
    let tags: BTreeSet<Vec<String>> =
        lab.instances().into_iter().map(|one| one.instance.tags.into_keys().collect()).collect();
    assert_eq!(tags.len(), 1, "the instances of both have the same tags: {tags:?}");
}
