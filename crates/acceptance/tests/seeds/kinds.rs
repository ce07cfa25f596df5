//! Objects of ours over their lives, whoever makes and deletes them.

use serde_json::{Value, json};

use super::files::{object, objects, sources, written};
use super::lab::{CLAIMS, CLASSES, Lab, NODES, POOLS, Place, condition, is_true};
use super::plans::{asking, plan};

const MANIFESTS: &[&str] = &["003/manifests"];

async fn lab() -> Lab {
    let lab = Lab::new(Place { cluster: "eks-cluster-dev", ..Place::default() }).await;
    lab.apply(objects(MANIFESTS)).await;
    lab.settle(10).await;
    lab
}

fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c5.large"]}]}})
}

#[tokio::test(start_paused = true)]
async fn a_claim_made_by_hand_lives_like_any_other_and_ends_with_its_node() {
    // covers: API-NC-05, API-NC-06
    let lab = lab().await;
    lab.apply(vec![claim("mine", "default"), claim("yours", "default")]).await;
    lab.settle(180).await;
    for name in ["mine", "yours"] {
        let claim = lab.get(&format!("{CLAIMS}/{name}")).await;
        assert!(is_true(&claim, "Initialized"), "{name}: {}", claim["status"]);
    }
    assert_eq!((lab.list(NODES).await.len(), lab.instances().len()), (2, 2));
    // The claim's end is that of its node and machine, and the other way round.
    lab.delete(&format!("{CLAIMS}/mine")).await;
    lab.settle(120).await;
    assert_eq!((lab.list(NODES).await.len(), lab.instances().len()), (1, 1));
    let node = lab.list(NODES).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    lab.delete(&format!("{NODES}/{node}")).await;
    lab.settle(120).await;
    assert!(lab.list(CLAIMS).await.is_empty() && lab.list(NODES).await.is_empty() && lab.instances().is_empty());
    // A pool takes everything of its own along.
    lab.apply(objects(&["003/workloads"])).await;
    lab.settle(180).await;
    assert!(!lab.list(CLAIMS).await.is_empty());
    lab.delete("/apis/apps/v1/namespaces/default/deployments/web").await;
    lab.delete(&format!("{POOLS}/general")).await;
    lab.settle(300).await;
    assert!(lab.list(CLAIMS).await.is_empty() && lab.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_be_found_is_told_of_with_a_reason() {
    // covers: API-EV-37, EXT-17, Q-12
    let lab = lab().await;
    lab.apply(vec![claim("lost", "nowhere")]).await;
    lab.settle(60).await;
    let events = lab.events("NodeClassResolutionFailed").await;
    let about = events.iter().find(|event| event["involvedObject"]["name"] == "lost");
    let about = about.unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!((&about["type"], &about["involvedObject"]["kind"]), (&json!("Warning"), &json!("NodeClaim")));
    assert!(lab.instances().is_empty());
    let all = lab.list("/api/v1/events").await;
    let ours = all.iter().filter(|event| event["source"]["component"] == "karpenter");
    assert!(ours.into_iter().all(|event| event["reason"].as_str().is_some_and(|reason| !reason.is_empty())));
}

#[tokio::test(start_paused = true)]
async fn pools_of_another_provider_are_not_ours() {
    // covers: API-NP-37
    let lab = lab().await;
    let mut foreign = object(MANIFESTS, "NodePool", "general");
    foreign["metadata"]["name"] = json!("foreign");
    foreign["spec"]["template"]["spec"]["nodeClassRef"] =
        json!({"group": "cloud.example.com", "kind": "ExampleNodeClass", "name": "default"});
    foreign["spec"]["limits"] = json!({"cpu": 5});
    lab.apply(vec![foreign]).await;
    lab.apply(objects(&["003/workloads"])).await;
    lab.settle(120).await;
    let found = lab.get(&format!("{POOLS}/foreign")).await;
    assert_eq!(found["metadata"]["annotations"], Value::Null, "no hash");
    assert_eq!(found["status"]["conditions"], Value::Null, "no conditions");
    assert!(!lab.metrics().contains("foreign"), "no series");
    assert!(!lab.list(CLAIMS).await.is_empty(), "the others go on");
    assert!(is_true(&lab.get(&format!("{POOLS}/general")).await, "Ready"));
}

#[test]
fn labels_can_be_compared_as_numbers_and_unknown_ones_lead_nowhere() {
    // covers: API-LB-02, API-LB-03
    let with = |requirements: Value, selector: Value| {
        let mut pool = object(MANIFESTS, "NodePool", "general");
        pool["spec"]["template"]["spec"]["requirements"] = requirements;
        let mut pod = asking("p", json!({"cpu": "1"}));
        pod["spec"]["nodeSelector"] = selector;
        let class = object(MANIFESTS, "EC2NodeClass", "default");
        plan("us-east-1", vec![written(&[class, pool, pod])])
    };
    let key = "karpenter.k8s.aws/instance-cpu";
    for (operator, bound, allowed) in [("Gt", 8, 9..=192), ("Gte", 8, 8..=192), ("Lt", 8, 1..=7), ("Lte", 8, 1..=8)] {
        let planned = with(json!([{"key": key, "operator": operator, "values": [bound.to_string()]}]), json!({}));
        let types = planned.types(&planned.plan.new_nodes[0]);
        let pool = &planned.world.pools[0];
        for kind in pool.instance_types.iter().filter(|kind| types.contains(&*kind.name)) {
            let cpus: u32 = kind.requirements.get(key).pick().unwrap().parse().unwrap();
            assert!(allowed.contains(&cpus), "{operator} {bound}: {} has {cpus}", kind.name);
        }
    }
    let selector = || json!({"example.com/team": "blue"});
    assert!(with(json!([]), selector()).plan.new_nodes.is_empty(), "no pool declares it");
    for declared in [
        json!([{"key": "example.com/team", "operator": "In", "values": ["blue", "green"]}]),
        json!([{"key": "example.com/team", "operator": "Exists"}]),
    ] {
        let planned = with(declared, selector());
        assert_eq!(planned.plan.new_nodes[0].labels.get("example.com/team").map(|value| &**value), Some("blue"));
    }
    assert!(!sources(MANIFESTS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_class_tells_what_it_is_waiting_for() {
    // covers: API-CD-45, API-CD-46
    let lab = lab().await;
    let class = |name: &str, change: Value| {
        let mut class = object(MANIFESTS, "EC2NodeClass", "default");
        class["metadata"]["name"] = json!(name);
        super::plans::merge(&mut class["spec"], change);
        class
    };
    lab.apply(vec![
        class("grouped", json!({"placementGroupSelector": {"name": "nowhere"}})),
        class("kubelet", json!({"kubelet": {"registerWithTaints": []}})),
        class("formula", json!({"kubelet": {"maxPods": "vcpus * 10"}})),
        class("waiting", json!({"subnetSelectorTerms": [{"id": "subnet-0gone"}]})),
    ])
    .await;
    lab.settle(60).await;
    let plain = lab.get(&format!("{CLASSES}/default")).await;
    assert!(is_true(&plain, "PlacementGroupReady"), "there without a selector: {}", plain["status"]);
    for (name, kind, reason) in [
        ("grouped", "PlacementGroupReady", "PlacementGroupNotFound"),
        ("kubelet", "ValidationSucceeded", "InvalidKubeletConfiguration"),
        ("formula", "ValidationSucceeded", "KubeletExpressionsDisabled"),
        ("waiting", "ValidationSucceeded", "DependenciesNotReady"),
    ] {
        let class = lab.get(&format!("{CLASSES}/{name}")).await;
        let told = condition(&class, kind);
        assert_eq!(
            (&told["status"], &told["reason"]),
            (&json!("False"), &json!(reason)),
            "{name}: {}",
            class["status"]
        );
        assert!(!is_true(&class, "Ready"), "{name}");
    }
}
