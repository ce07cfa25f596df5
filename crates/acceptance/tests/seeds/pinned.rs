//! 000: one class pinned to a release for a general pool and a GPU pool, managed by Terraform.

use std::collections::BTreeSet;

use karpenter_aws_sim::Warning;
use serde_json::{Value, json};

use super::files::{object, objects, sources, written};
use super::lab::{CLAIMS, CLASSES, Lab, NODES, PODS, POOLS, Place, is_true, label};
use super::plans::{asking, merge, plan, pod};

const MANIFESTS: &[&str] = &["000/manifests"];

async fn lab() -> Lab {
    let lab = Lab::new(Place { region: "ap-southeast-3", cluster: "piksel-dev-cluster", ..Place::default() }).await;
    lab.apply(objects(MANIFESTS)).await;
    lab.settle(10).await;
    lab
}

#[tokio::test(start_paused = true)]
async fn the_class_is_admitted_and_resolves_to_the_pinned_release() {
    // covers: SEED0-10, SEED0-11, SEED0-12, SEED0-14
    let lab = lab().await;
    let class = lab.get(&format!("{CLASSES}/default")).await;
    assert!(is_true(&class, "Ready"), "{}", class["status"]);
    let written = object(MANIFESTS, "EC2NodeClass", "default");
    assert_eq!(class["spec"]["role"], written["spec"]["role"], "passed on as it is");
    assert!(class["status"]["instanceProfile"].as_str().is_some_and(|name| !name.is_empty()));
    let images = class["status"]["amis"].as_array().unwrap();
    assert!(images.len() >= 2, "standard and accelerated ones: {images:?}");
    let calls = lab.region.calls();
    assert!(calls["GetParameter"] > 0, "{calls:?}");
    let subnets: BTreeSet<&str> =
        class["status"]["subnets"].as_array().unwrap().iter().map(|subnet| subnet["id"].as_str().unwrap()).collect();
    assert!(!subnets.is_empty());
    lab.apply(objects(&["000/workloads/api.yaml"])).await;
    lab.settle(120).await;
    for one in lab.instances() {
        assert!(subnets.contains(one.instance.subnet_id.as_deref().unwrap()), "{:?}", one.instance);
    }
    assert!(!lab.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn applying_again_changes_nothing() {
    // covers: SEED0-09
    let lab = lab().await;
    lab.apply(objects(&["000/workloads"])).await;
    lab.settle(180).await;
    for written in objects(MANIFESTS) {
        let path = if written["kind"] == "NodePool" { POOLS } else { CLASSES };
        let path = format!("{path}/{}", written["metadata"]["name"].as_str().unwrap());
        let first = lab.apply_again(&written).await;
        lab.settle(30).await;
        let before = lab.get(&path).await;
        let again = lab.apply_again(&written).await;
        assert_eq!(
            again["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"],
            "{path}: nothing is written"
        );
        assert_eq!(
            (&again["spec"], &again["metadata"]["generation"]),
            (&first["spec"], &first["metadata"]["generation"])
        );
        assert_eq!(first["metadata"]["generation"], 1, "{path}: defaults came with the first write and stayed");
    }
}

#[test]
fn general_nodes_are_nitro_amd64_of_a_new_generation_with_4_to_192_cpus() {
    // covers: SEED0-15, SEED0-16, SEED0-17
    let number = |text: String| text.parse::<u32>().unwrap();
    let spelled = |requirements: Value| {
        let mut pool = object(MANIFESTS, "NodePool", "default");
        let kept = pool["spec"]["template"]["spec"]["requirements"].as_array().unwrap().clone();
        let cpus = "karpenter.k8s.aws/instance-cpu";
        let mut list: Vec<Value> = kept.into_iter().filter(|entry| entry["key"] != cpus).collect();
        for entry in requirements.as_array().unwrap() {
            list.push(json!({"key": cpus, "operator": entry[0], "values": [entry[1]]}));
        }
        pool["spec"]["template"]["spec"]["requirements"] = json!(list);
        pool
    };
    let class = object(MANIFESTS, "EC2NodeClass", "default");
    let pods: Vec<Value> = [("small", "100m", "128Mi"), ("wide", "60", "64Gi"), ("fat", "2", "300Gi")]
        .iter()
        .map(|(name, cpu, memory)| asking(name, json!({"cpu": cpu, "memory": memory})))
        .collect();
    let mut spellings = vec![object(MANIFESTS, "NodePool", "default")];
    spellings.push(spelled(json!([["Gte", "4"], ["Lte", "192"]])));
    spellings.push(spelled(json!([["Gt", "3"], ["Lt", "193"]])));
    for pool in spellings {
        let planned = plan("ap-southeast-3", vec![written(&[class.clone(), pool]), written(&pods)]);
        assert!(planned.plan.left_over.is_empty(), "{:?}", planned.plan.left_over);
        assert!(!planned.plan.new_nodes.is_empty());
        for node in &planned.plan.new_nodes {
            let of = |key: &str| planned.label(node, &format!("karpenter.k8s.aws/instance-{key}"));
            assert!((4..=192).contains(&number(of("cpu"))));
            assert!(number(of("generation")) > 2);
            assert!(["c", "m", "r", "t"].contains(&of("category").as_str()));
            assert_eq!(of("hypervisor"), "nitro");
            assert_eq!(planned.label(node, "kubernetes.io/arch"), "amd64");
        }
    }
}

#[test]
fn a_pool_buys_no_more_than_its_limit() {
    // covers: SEED0-18, SEED2-08, SEED1-35
    let class = object(MANIFESTS, "EC2NodeClass", "default");
    for (limits, cpu, memory) in
        [(json!({"cpu": 64}), 64, u64::MAX), (json!({"cpu": 1000, "memory": "100Gi"}), 1000, 100)]
    {
        let mut pool = object(MANIFESTS, "NodePool", "default");
        pool["spec"]["limits"] = limits;
        let pods: Vec<Value> =
            (0..100).map(|number| asking(&format!("p{number}"), json!({"cpu": "1500m", "memory": "4Gi"}))).collect();
        let planned = plan("ap-southeast-3", vec![written(&[class.clone(), pool]), written(&pods)]);
        let bought = |resource: &str| -> u64 {
            let of =
                |node| planned.label(node, &format!("karpenter.k8s.aws/instance-{resource}")).parse::<u64>().unwrap();
            planned.plan.new_nodes.iter().map(of).sum()
        };
        assert!(bought("cpu") <= cpu, "{}", bought("cpu"));
        // What counts is what is left of a machine's memory below its hypervisor.
        assert!(bought("memory") * 925 / 1000 / 1024 <= memory, "{}", bought("memory"));
        assert!(!planned.plan.new_nodes.is_empty() && !planned.plan.left_over.is_empty());
        assert!(matches!(planned.why("default"), karpenter_core::plan::PoolReason::Limit { .. }));
    }
}

#[test]
fn gpu_nodes_are_for_pods_that_tolerate_them() {
    // covers: SEED0-21
    let gpu = |tolerations: Value| {
        let container = json!({"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
        pod("train", json!({"tolerations": tolerations, "containers": [container]}))
    };
    let of = |pod: Value| plan("ap-southeast-3", sources(MANIFESTS).into_iter().chain([written(&[pod])]).collect());
    let tolerating = of(gpu(json!([{"key": "nvidia.com/gpu", "operator": "Exists"}])));
    assert_eq!(tolerating.only_pool(), Some("gpu"));
    let types: BTreeSet<String> = ["g5.xlarge", "g5.2xlarge", "g5.4xlarge"].map(str::to_owned).into();
    assert!(tolerating.types(&tolerating.plan.new_nodes[0]).is_subset(&types));
    let refused = of(gpu(json!([])));
    assert_eq!(refused.only_pool(), None);
    assert!(matches!(refused.why("gpu"), karpenter_core::plan::PoolReason::Taint { .. }));
    assert_eq!(of(asking("web", json!({"cpu": "1"}))).only_pool(), Some("default"));
}

#[tokio::test(start_paused = true)]
async fn gpu_nodes_get_the_image_with_drivers_from_the_same_class_and_stay_when_empty() {
    // covers: SEED0-20, SEED0-23
    let lab = lab().await;
    lab.apply(objects(&["000/workloads"])).await;
    lab.settle(240).await;
    assert_eq!(lab.running().await, 8);
    let mut images = [BTreeSet::new(), BTreeSet::new()];
    for one in lab.instances() {
        images[usize::from(one.instance.instance_type.starts_with("g5."))].insert(one.instance.image_id);
    }
    assert!(images.iter().all(|images| images.len() == 1), "{images:?}");
    assert_ne!(images[0], images[1], "of one class");
    lab.scale("inference", 0).await;
    lab.scale("api", 0).await;
    lab.settle(900).await;
    let left = lab.list(CLAIMS).await;
    assert!(!left.is_empty(), "never, not even when empty");
    assert!(left.iter().all(|claim| label(claim, "karpenter.sh/nodepool") == "gpu"), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_goes_half_a_minute_after_its_last_pod_and_one_with_pods_stays() {
    // covers: SEED0-19, SEED1-41, SEED2-02
    let lab = lab().await;
    lab.apply(objects(&["000/workloads/api.yaml"])).await;
    lab.settle(600).await;
    let claims = lab.list(CLAIMS).await.len();
    assert!(claims > 0);
    assert_eq!(lab.running().await, 6, "ten minutes with pods, and nothing is consolidated");
    lab.scale("api", 0).await;
    lab.settle(25).await;
    assert!(lab.list(CLAIMS).await.iter().all(|claim| claim["metadata"]["deletionTimestamp"].is_null()), "too early");
    lab.settle(60).await;
    let ending =
        lab.list(CLAIMS).await.iter().filter(|claim| !claim["metadata"]["deletionTimestamp"].is_null()).count();
    let gone = claims - lab.list(CLAIMS).await.len();
    assert!(ending + gone > 0, "{ending} {gone}");
    lab.settle(600).await;
    assert!(lab.list(CLAIMS).await.is_empty());
    assert_eq!(lab.region.price_per_hour().0, 0);
}

#[tokio::test(start_paused = true)]
async fn images_are_looked_up_once_a_day_and_machines_come_from_fleets() {
    // covers: SEED0-24, SEED0-33, SEED2-04, SEED1-50
    let lab = lab().await;
    let before = lab.region.calls();
    assert!(before["GetParameter"] > 0);
    lab.apply(objects(&["000/workloads"])).await;
    lab.settle(120).await;
    let after = lab.region.calls();
    let more = |call: &str| after[call] - before.get(call).copied().unwrap_or_default();
    assert!(
        (1..=lab.launches().len() as u64).contains(&more("CreateFleet")),
        "one for each claim, or fewer: {after:?}"
    );
    lab.settle(1800).await;
    assert_eq!(lab.region.calls()["GetParameter"], before["GetParameter"], "half an hour later it is still known");
}

#[tokio::test(start_paused = true)]
async fn a_reclaimed_node_is_replaced_and_drained_and_hooks_of_auto_scaling_are_not_ours() {
    // covers: SEED0-30, SEED0-31, SEED2-10, SEED3-14
    let lab = lab().await;
    lab.apply(objects(&["000/workloads/api.yaml"])).await;
    lab.settle(240).await;
    let hook = json!({"version": "0", "source": "aws.autoscaling", "detail-type": "EC2 Instance-terminate Lifecycle Action",
        "detail": {"EC2InstanceId": lab.instances()[0].instance.id}});
    lab.region.send_message(&hook.to_string());
    lab.settle(60).await;
    assert_eq!(lab.region.queue_length(), 0, "consumed");
    let before: BTreeSet<String> = lab.list(NODES).await.iter().map(name).collect();
    assert!(
        lab.list(CLAIMS).await.iter().all(|claim| claim["metadata"]["deletionTimestamp"].is_null()),
        "and nothing done"
    );
    for node in lab.list(NODES).await {
        for key in [
            "karpenter.sh/nodepool",
            "karpenter.sh/capacity-type",
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/zone",
        ] {
            assert!(!label(&node, key).is_empty(), "{key}");
        }
    }
    let victim = lab.instances()[0].clone();
    lab.region.warn(&victim.instance.id, Warning::SpotInterruption);
    lab.settle(6).await;
    let node = victim.node_name.unwrap();
    let tainted = lab.get(&format!("{NODES}/{node}")).await;
    let taints = tainted["spec"]["taints"].as_array().cloned().unwrap_or_default();
    assert!(taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted"), "{taints:?}");
    lab.settle(240).await;
    let after: BTreeSet<String> = lab.list(NODES).await.iter().map(name).collect();
    assert!(!after.contains(&node) && after.difference(&before).next().is_some(), "{before:?} {after:?}");
    assert_eq!(lab.running().await, 6);
    assert!(!lab.events("SpotInterrupted").await.is_empty());
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn pods_follow_their_volumes_and_attach_limits_hold() {
    // covers: SEED0-26
    let claim = |pod: &str, volume: &str| {
        let mut pod = asking(pod, json!({"cpu": "100m"}));
        let volumes = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": volume}}]});
        merge(&mut pod["spec"], volumes);
        pod
    };
    let storage = |name: &str, zone: &str| {
        let terms =
            json!([{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]);
        [
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}")},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "gp3",
                    "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{name}")},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}),
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"storageClassName": "gp3", "volumeName": format!("pv-{name}"), "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}}),
        ]
    };
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com"});
    for zone in ["ap-southeast-3a", "ap-southeast-3c"] {
        let mut world = vec![class.clone(), claim("db", "data")];
        world.extend(storage("data", zone));
        let planned = plan("ap-southeast-3", sources(MANIFESTS).into_iter().chain([written(&world)]).collect());
        let [node] = &planned.plan.new_nodes[..] else { panic!("{:?}", planned.plan) };
        assert_eq!(&*node.launch.zone, zone);
    }
    // A node with room for pods, and for one volume more than it has; two pods with volumes wait.
    let zone = "ap-southeast-3a";
    for (limit, on_node) in [(2, 1), (3, 2)] {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here", "labels": {
                "topology.kubernetes.io/zone": zone, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": "here"}},
            "status": {"capacity": {"cpu": "8", "memory": "16Gi", "pods": "50"}, "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "50"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        let driver =
            json!({"name": "ebs.csi.aws.com", "nodeID": "here", "topologyKeys": [], "allocatable": {"count": limit}});
        let csi = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "here"}, "spec": {"drivers": [driver]}});
        let mut running = claim("old", "first");
        running["spec"]["nodeName"] = json!("here");
        running["status"] = json!({"phase": "Running"});
        let mut world = vec![class.clone(), node, csi, running, claim("a", "second"), claim("b", "third")];
        for name in ["first", "second", "third"] {
            world.extend(storage(name, zone));
        }
        let planned = plan("ap-southeast-3", sources(MANIFESTS).into_iter().chain([written(&world)]).collect());
        let placed: usize = planned.plan.existing.values().map(Vec::len).sum();
        assert_eq!(placed, on_node, "with room for {limit} volumes");
        assert_eq!(planned.plan.new_nodes.len(), usize::from(on_node == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_and_pods_carry_what_operators_look_at() {
    // covers: SEED3-20, SEED1-40
    let lab = lab().await;
    lab.apply(objects(&["000/workloads/api.yaml"])).await;
    lab.settle(180).await;
    let ours = lab.list(&format!("{NODES}?labelSelector=karpenter.sh/nodepool")).await;
    assert_eq!(ours.len(), lab.list(CLAIMS).await.len());
    assert!(ours.iter().all(|node| label(node, "node.kubernetes.io/instance-type").contains('.')));
    for (path, kind) in [(POOLS, "NodePoolList"), (CLASSES, "EC2NodeClassList")] {
        assert_eq!(lab.get(path).await["kind"], kind);
    }
    assert!(lab.list(PODS).await.iter().all(|pod| pod["spec"]["nodeName"].is_string()));
}

#[test]
fn a_limit_on_gpus_is_kept_and_told() {
    // covers: SEED0-22, API-NP-40
    let mut train = asking("train", json!({"cpu": "1"}));
    train["spec"]["tolerations"] = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
    train["spec"]["containers"][0]["resources"]["limits"] = json!({"nvidia.com/gpu": "1"});
    let pods: Vec<Value> = (0..40)
        .map(|number| {
            let mut pod = train.clone();
            pod["metadata"]["name"] = json!(format!("train-{number}"));
            pod
        })
        .collect();
    let planned = plan("ap-southeast-3", sources(MANIFESTS).into_iter().chain([written(&pods)]).collect());
    let gpus: u64 = planned
        .plan
        .new_nodes
        .iter()
        .map(|node| planned.label(node, "karpenter.k8s.aws/instance-gpu-count").parse::<u64>().unwrap())
        .sum();
    assert_eq!((gpus, planned.plan.left_over.len()), (30, 10), "no 31st");
    let karpenter_core::plan::PoolReason::Limit { resource, .. } = planned.why("gpu") else {
        panic!("{:?}", planned.why("gpu"))
    };
    assert_eq!(&**resource, "gpu");
}

#[tokio::test(start_paused = true)]
async fn a_limit_on_gpus_holds_while_pods_keep_coming_and_is_measured() {
    // covers: SEED0-22, API-NP-40, EXT-07
    let lab = lab().await;
    lab.patch(&format!("{POOLS}/gpu"), json!({"spec": {"limits": {"gpu": 3}}})).await;
    let mut inference = object(&["000/workloads/inference.yaml"], "Deployment", "inference");
    inference["spec"]["replicas"] = json!(2);
    lab.apply(vec![inference]).await;
    lab.settle(180).await;
    lab.scale("inference", 6).await;
    lab.settle(240).await;
    let gpus = |nodes: &[Value]| -> u64 {
        let of =
            |node: &Value| node["status"]["capacity"]["nvidia.com/gpu"].as_str().unwrap_or("0").parse::<u64>().unwrap();
        nodes.iter().map(of).sum()
    };
    assert_eq!(gpus(&lab.list(NODES).await), 3);
    let page = lab.metrics();
    for line in [
        "karpenter_nodepools_limit{resource_type=\"gpu\",nodepool=\"gpu\"} 3",
        "karpenter_nodepools_usage{resource_type=\"gpu\",nodepool=\"gpu\"} 3",
        "karpenter_nodepools_usage{resource_type=\"nvidia.com/gpu\",nodepool=\"gpu\"} 3",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert!(!page.contains("resource_type=\"gpu\",nodepool=\"default\""), "only beside its limit");
    let events = lab.events("FailedScheduling").await;
    let told = |event: &Value| event["message"].as_str().unwrap().contains("limit");
    assert!(events.iter().any(told), "{events:?}");
}
