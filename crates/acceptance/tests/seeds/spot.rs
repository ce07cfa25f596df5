//! 003: spot pools with an on-demand fallback, and what its troubleshooting chapter promises.

use karpenter_controllers::decision::Decision;
use serde_json::{Value, json};

use super::files::{object, objects, sources, written};
use super::lab::{CLAIMS, CLASSES, DEPLOYMENTS, Lab, NODES, PODS, POOLS, Place, condition, is_true, label};
use super::plans::{Planned, asking, merge, plan, pod};

const MANIFESTS: &[&str] = &["003/manifests"];

async fn lab() -> Lab {
    let lab = Lab::new(Place { cluster: "eks-cluster-dev", ..Place::default() }).await;
    lab.apply(objects(MANIFESTS)).await;
    lab.settle(10).await;
    lab
}

fn planned(pods: &[Value]) -> Planned {
    plan("us-east-1", sources(MANIFESTS).into_iter().chain([written(pods)]).collect())
}

#[tokio::test(start_paused = true)]
async fn the_manifests_are_taken_as_they_are() {
    // covers: SEED3-08, SEED3-09, SEED3-10, SEED3-44
    let lab = lab().await;
    let class = lab.get(&format!("{CLASSES}/default")).await;
    assert!(is_true(&class, "Ready"), "{}", class["status"]);
    assert_eq!(class["spec"]["amiSelectorTerms"][0]["alias"], "al2023", "stored as written");
    assert!(!class["status"]["amis"].as_array().unwrap().is_empty());
    for (pool, expires) in [("general", "720h"), ("batch", "720h"), ("critical", "720h")] {
        let pool = lab.get(&format!("{POOLS}/{pool}")).await;
        assert!(is_true(&pool, "Ready"), "{}", pool["status"]);
        assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], expires);
    }
    let general = lab.get(&format!("{POOLS}/general")).await;
    assert_eq!(
        (&general["spec"]["disruption"]["consolidationPolicy"], &general["spec"]["disruption"]["consolidateAfter"]),
        (&json!("WhenEmptyOrUnderutilized"), &json!("1m"))
    );
}

#[tokio::test(start_paused = true)]
async fn from_a_pending_pod_to_a_running_one_with_each_step_to_be_seen() {
    // covers: SEED3-01, SEED3-11
    let lab = lab().await;
    let mut web = object(&["003/workloads/web.yaml"], "Deployment", "web");
    web["spec"]["replicas"] = json!(1);
    lab.apply(vec![web]).await;
    lab.settle(5).await;
    let launch = lab.launches().first().cloned().expect("within five seconds");
    let Decision::Launch(bought) = &launch.decision else { panic!() };
    assert_eq!((&*bought.pool, &*bought.expected.capacity_type, bought.pods.len()), ("general", "spot", 1));
    assert_eq!(lab.region.instances().len(), 1, "and it is bought");
    lab.settle(120).await;
    let claims = lab.list(CLAIMS).await;
    let [claim] = &claims[..] else { panic!("{claims:?}") };
    for step in ["Launched", "Registered", "Initialized"] {
        assert!(is_true(claim, step), "{step}: {}", claim["status"]);
    }
    assert_eq!(lab.running().await, 1);
    assert!(!lab.events("Nominated").await.is_empty());
    let node = claim["status"]["nodeName"].as_str().unwrap();
    assert_eq!(lab.list(PODS).await[0]["spec"]["nodeName"], node);
}

#[tokio::test(start_paused = true)]
async fn an_idle_cluster_has_no_nodes_left() {
    // covers: SEED3-02
    let lab = lab().await;
    lab.apply(objects(&["003/workloads"])).await;
    lab.settle(180).await;
    assert_eq!(lab.running().await, 4);
    lab.scale("web", 0).await;
    lab.settle(900).await;
    assert!(lab.list(NODES).await.is_empty() && lab.list(CLAIMS).await.is_empty());
    assert_eq!(lab.region.price_per_hour().0, 0);
}

#[test]
fn batch_work_goes_to_its_pool_and_critical_work_falls_back_on_demand() {
    // covers: SEED3-40
    let mut batch = asking("job", json!({"cpu": "3"}));
    batch["spec"]["tolerations"] =
        json!([{"key": "workload", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]);
    merge(&mut batch["spec"], json!({"nodeSelector": {"karpenter.sh/nodepool": "batch"}}));
    let planned_batch = planned(&[batch]);
    assert_eq!(planned_batch.only_pool(), Some("batch"));
    let types = planned_batch.types(&planned_batch.plan.new_nodes[0]);
    assert!(types.iter().all(|one| ["c5.xlarge", "c5.2xlarge", "c6i.xlarge"].contains(&one.as_str())), "{types:?}");
    let mut critical = asking("bank", json!({"cpu": "2"}));
    let not_spot =
        json!({"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]}]});
    critical["spec"]["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [not_spot]}}});
    let planned_critical = planned(&[critical]);
    assert_eq!(planned_critical.only_pool(), Some("critical"));
    assert_eq!(&*planned_critical.plan.new_nodes[0].launch.capacity_type, "on-demand");
    assert_eq!(
        planned(&[asking("web", json!({"cpu": "1"}))]).only_pool(),
        Some("general"),
        "the cheaper one otherwise"
    );
}

#[test]
fn a_claim_keeps_many_types_and_requests_decide() {
    // covers: SEED3-41, SEED3-42, SEED3-30
    let wide = planned(&[asking("web", json!({"cpu": "1", "memory": "1Gi"}))]);
    let kept = wide.plan.new_nodes[0].instance_types.len();
    assert!((60..=600).contains(&kept), "{kept}");
    let limits = |requests: Value, limits: Value| {
        pod(
            "p",
            json!({"containers": [{"name": "main", "image": "x", "resources": {"requests": requests, "limits": limits}}]}),
        )
    };
    let (low, high) = (json!({"cpu": "100m", "memory": "128Mi"}), json!({"cpu": "30", "memory": "100Gi"}));
    let modest = planned(&[limits(low.clone(), low.clone())]);
    let greedy = planned(&[limits(low, high)]);
    assert_eq!(modest.plan.new_nodes[0].launch, greedy.plan.new_nodes[0].launch);
    assert_eq!(planned(&[pod("bare", json!({}))]).plan.new_nodes.len(), 1, "a pod that asks for nothing is a pod, too");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_work_says_why_and_its_pools_are_not_ready() {
    // covers: SEED3-24, SEED3-25, SEED3-26, SEED3-27, SEED3-29
    let lab = lab().await;
    let class = |name: &str, change: Value| {
        let mut class = object(MANIFESTS, "EC2NodeClass", "default");
        class["metadata"]["name"] = json!(name);
        merge(&mut class["spec"], change);
        class
    };
    for (name, change, kind) in [
        ("subnets", json!({"subnetSelectorTerms": [{"id": "subnet-0gone"}]}), "SubnetsReady"),
        ("groups", json!({"securityGroupSelectorTerms": [{"id": "sg-0gone"}]}), "SecurityGroupsReady"),
        ("images", json!({"amiSelectorTerms": [{"id": "ami-0gone"}]}), "AMIsReady"),
    ] {
        let mut pool = object(MANIFESTS, "NodePool", "general");
        pool["metadata"]["name"] = json!(name);
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!(name);
        let mut class = class(name, change);
        if kind == "AMIsReady" {
            class["spec"]["amiFamily"] = json!("AL2023");
        }
        lab.apply(vec![class, pool]).await;
        lab.settle(30).await;
        let class = lab.get(&format!("{CLASSES}/{name}")).await;
        assert_eq!(condition(&class, kind)["status"], "False", "{name}: {}", class["status"]);
        assert!(!condition(&class, kind)["message"].as_str().unwrap().is_empty());
        assert_eq!(condition(&class, "Ready")["status"], "False");
        let pool = lab.get(&format!("{POOLS}/{name}")).await;
        assert_eq!(condition(&pool, "Ready")["status"], "False", "{}", pool["status"]);
    }
    for (alias, admitted) in
        [("al2023", true), ("al2023@latest", true), ("al2023@v19990101", true), ("gentoo@latest", false)]
    {
        let name = alias.replace('@', "-");
        let one = class(&name, json!({"amiSelectorTerms": [{"alias": alias}]}));
        assert_eq!(lab.send("POST", CLASSES, Some(one)).await.is_ok(), admitted, "{alias}");
    }
}

/// A deployment with one pod per node, so that there is something to disrupt.
fn lonely(name: &str, replicas: usize) -> Value {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}});
    let mut web = object(&["003/workloads/web.yaml"], "Deployment", "web");
    web["metadata"]["name"] = json!(name);
    web["spec"]["replicas"] = json!(replicas);
    web["spec"]["selector"]["matchLabels"] = json!({"app": name});
    web["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
    web["spec"]["template"]["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    web
}

#[tokio::test(start_paused = true)]
async fn an_annotated_node_is_left_alone_and_five_quiet_minutes_are_waited_for() {
    // covers: SEED3-35, SEED3-36, SEED3-39
    let lab = lab().await;
    for (pool, policy, after) in [("general", "WhenEmpty", "5m"), ("batch", "WhenEmptyOrUnderutilized", "30s")] {
        let disruption =
            json!({"consolidationPolicy": policy, "consolidateAfter": after, "budgets": [{"nodes": "100%"}]});
        lab.patch(&format!("{POOLS}/{pool}"), json!({"spec": {"disruption": disruption}})).await;
    }
    lab.apply(vec![lonely("web", 2)]).await;
    lab.settle(240).await;
    let nodes = lab.list(NODES).await;
    assert_eq!(nodes.len(), 2);
    let kept = nodes[0]["metadata"]["name"].as_str().unwrap();
    lab.patch(
        &format!("{NODES}/{kept}"),
        json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}),
    )
    .await;
    lab.scale("web", 0).await;
    lab.settle(280).await;
    assert_eq!(lab.list(NODES).await.len(), 2, "not yet");
    lab.settle(600).await;
    let left = lab.list(NODES).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["name"], kept);
}

#[tokio::test(start_paused = true)]
async fn pods_get_the_time_they_ask_for_when_a_node_goes() {
    // covers: SEED3-38
    let lab = lab().await;
    lab.apply(vec![lonely("web", 1)]).await;
    lab.settle(180).await;
    let node = lab.list(NODES).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    lab.delete(&format!("{NODES}/{node}")).await;
    let mut leaving = None;
    for _ in 0..60 {
        lab.settle(1).await;
        let pods = lab.list(PODS).await;
        leaving = leaving.or_else(|| pods.into_iter().find(|pod| !pod["metadata"]["deletionTimestamp"].is_null()));
    }
    let leaving = leaving.expect("it is evicted");
    assert_eq!(leaving["metadata"]["deletionGracePeriodSeconds"], 120);
    assert_eq!(leaving["spec"]["nodeName"], node);
    lab.settle(300).await;
    assert_eq!(lab.running().await, 1);
    assert!(lab.list(NODES).await.iter().all(|one| one["metadata"]["name"] != node));
}

#[tokio::test(start_paused = true)]
async fn a_protected_pod_keeps_its_node() {
    // covers: SEED3-37
    let lab = lab().await;
    let mut protected = lonely("web", 1);
    protected["spec"]["template"]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    protected["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m"}});
    lab.apply(vec![protected]).await;
    lab.settle(180).await;
    let before = lab.list(CLAIMS).await;
    // Something that would drift it: the pool wants another label.
    lab.patch(&format!("{POOLS}/general"), json!({"spec": {"template": {"metadata": {"labels": {"new": "yes"}}}}}))
        .await;
    lab.settle(900).await;
    let after = lab.list(CLAIMS).await;
    assert_eq!(after.len(), 1);
    assert_eq!(after[0]["metadata"]["name"], before[0]["metadata"]["name"]);
    assert!(is_true(&after[0], "Drifted"), "{}", after[0]["status"]);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_others_are_used_and_never_taken_away() {
    // covers: SEED3-46
    let lab = lab().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "group-1", "labels": {
            "kubernetes.io/hostname": "group-1", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": "us-east-1a"}},
        "spec": {"providerID": "aws:///us-east-1a/i-0123456789abcdef0"},
        "status": {"capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"}, "allocatable": {"cpu": "4", "memory": "15Gi", "pods": "58"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}]}});
    lab.apply(vec![node]).await;
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}],
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "58"}, "allocatable": {"cpu": "4", "memory": "15Gi", "pods": "58"}}});
    lab.patch(&format!("{NODES}/group-1/status"), status).await;
    lab.settle(5).await;
    lab.apply(objects(&["003/workloads"])).await;
    lab.settle(30).await;
    assert!(lab.launches().is_empty(), "its room is enough");
    let pods = lab.list(PODS).await;
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] == "group-1"), "{pods:?}");
    lab.delete(&format!("{DEPLOYMENTS}/web")).await;
    lab.settle(900).await;
    let left = lab.list(NODES).await;
    assert_eq!(left.len(), 1);
    assert_eq!((label(&left[0], "karpenter.sh/nodepool"), &left[0]["metadata"]["name"]), ("", &json!("group-1")));
}

#[tokio::test(start_paused = true)]
async fn three_nodes_at_a_third_become_one_or_two() {
    // covers: SEED3-13, SEED3-12
    let lab = lab().await;
    let requirements = json!([
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c5.xlarge"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]);
    let disruption = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
    let spec = json!({"spec": {"template": {"spec": {"requirements": requirements}}, "disruption": disruption}});
    lab.patch(&format!("{POOLS}/general"), spec).await;
    for pool in ["batch", "critical"] {
        lab.delete(&format!("{POOLS}/{pool}")).await;
    }
    lab.settle(5).await;
    let of = |name: &str, cpu: &str| {
        let mut web = object(&["003/workloads/web.yaml"], "Deployment", "web");
        web["metadata"]["name"] = json!(name);
        web["spec"]["replicas"] = json!(3);
        web["spec"]["selector"] = json!({"matchLabels": {"app": name}});
        web["spec"]["template"]["metadata"]["labels"] = json!({"app": name});
        web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
        web
    };
    // Two thirds of each node are taken by others, who then leave.
    lab.apply(vec![of("filler", "2400m"), of("web", "1200m")]).await;
    lab.settle(240).await;
    assert_eq!((lab.running().await, lab.list(NODES).await.len()), (6, 3));
    lab.scale("filler", 0).await;
    lab.settle(900).await;
    let left = lab.list(NODES).await.len();
    assert!((1..=2).contains(&left), "{left}");
    assert_eq!(lab.running().await, 3, "all pods run");
}

#[test]
fn spot_costs_less() {
    // covers: SEED3-48
    let pod = || asking("web", json!({"cpu": "3", "memory": "6Gi"}));
    let spot = planned(&[pod()]);
    let mut dear = pod();
    dear["spec"]["nodeSelector"] = json!({"karpenter.sh/capacity-type": "on-demand"});
    let on_demand = planned(&[dear]);
    let price = |planned: &Planned| planned.plan.new_nodes[0].launch.price.0 as f64;
    assert_eq!(&*spot.plan.new_nodes[0].launch.capacity_type, "spot");
    assert!(price(&spot) < price(&on_demand) * 0.7, "{} {}", price(&spot), price(&on_demand));
}
