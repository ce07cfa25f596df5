use crate::lab::{DEPLOYMENTS, Lab, PODS, deployment, machine, ready};
use karpenter_cluster::kubelet::fleet::Pressure;
use serde_json::{Value, json};
use std::time::Duration;

fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().map(|t| format!("{}:{}", t["key"].as_str().unwrap(), t["effect"].as_str().unwrap())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_machine_boots_registers_and_becomes_ready() {
    let lab = Lab::new(1);
    let mut slow = machine(1);
    slow.boot_delay = Duration::from_secs(30);
    slow.ready_delay = Duration::from_secs(20);
    slow.device_delay = Duration::from_secs(40);
    slow.devices.insert("example.com/gpu".into(), k8s_openapi::apimachinery::pkg::api::resource::Quantity("1".into()));
    slow.provider_id = "aws:///zone-a/i-1".into();
    slow.csi_drivers.push(karpenter_cluster::kubelet::CsiDriver {
        name: "ebs.csi.aws.com".into(),
        limit: Some(26),
        topology_keys: vec![],
    });
    lab.cluster.handle().add_machine(slow).await.unwrap();
    lab.settle(29).await;
    assert!(lab.get("/api/v1/nodes/node-1").await.is_none());
    lab.settle(5).await;
    let node = lab.get("/api/v1/nodes/node-1").await.unwrap();
    assert_eq!(node["spec"]["providerID"], "aws:///zone-a/i-1");
    assert!(!ready(&node));
    assert!(taints(&node).contains(&"node.kubernetes.io/not-ready:NoSchedule".to_owned()), "{:?}", taints(&node));
    lab.settle(20).await;
    let node = lab.get("/api/v1/nodes/node-1").await.unwrap();
    assert!(ready(&node) && taints(&node).is_empty(), "{:?}", taints(&node));
    assert!(node["status"]["allocatable"]["example.com/gpu"].is_null());
    lab.settle(20).await;
    assert_eq!(lab.get("/api/v1/nodes/node-1").await.unwrap()["status"]["allocatable"]["example.com/gpu"], "1");
    assert!(lab.get("/apis/storage.k8s.io/v1/csinodes/node-1").await.is_some());
    assert!(lab.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn pressure_becomes_a_taint_and_goes_again() {
    let lab = Lab::with_machines(2, 1).await;
    lab.cluster.handle().press("node-1", Pressure::Memory, true).await.unwrap();
    lab.settle(2).await;
    assert_eq!(
        taints(&lab.get("/api/v1/nodes/node-1").await.unwrap()),
        ["node.kubernetes.io/memory-pressure:NoSchedule"]
    );
    lab.cluster.handle().press("node-1", Pressure::Memory, false).await.unwrap();
    lab.settle(2).await;
    assert!(taints(&lab.get("/api/v1/nodes/node-1").await.unwrap()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_tainted_and_its_pods_move_on() {
    let lab = Lab::with_machines(3, 2).await;
    lab.create(DEPLOYMENTS, deployment("web", 4, "500m")).await;
    lab.settle(60).await;
    lab.cluster.handle().silence("node-1", true).await.unwrap();
    lab.settle(40).await;
    assert!(ready(&lab.get("/api/v1/nodes/node-1").await.unwrap()), "nobody gives up so soon");
    lab.settle(15).await;
    let node = lab.get("/api/v1/nodes/node-1").await.unwrap();
    assert_eq!(
        taints(&node),
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]
    );
    assert_eq!(lab.pods("web").await.len(), 4);
    // Five minutes of patience, then replacements elsewhere; the old pods cannot end while nobody ends them.
    lab.settle(330).await;
    let pods = lab.pods("web").await;
    let leaving = pods.iter().filter(|p| !p["metadata"]["deletionTimestamp"].is_null()).count();
    assert_eq!(
        (pods.len() - leaving, pods.iter().filter(|p| ready(p) && p["spec"]["nodeName"] == "node-2").count()),
        (4, 4),
        "{leaving} leaving"
    );
    assert!(leaving > 0);
    lab.cluster.handle().silence("node-1", false).await.unwrap();
    lab.settle(60).await;
    assert!(ready(&lab.get("/api/v1/nodes/node-1").await.unwrap()));
    assert_eq!(lab.pods("web").await.len(), 4, "the kubelet is back and lets them go");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_machine_that_is_gone_are_collected() {
    let lab = Lab::with_machines(4, 2).await;
    lab.create(DEPLOYMENTS, deployment("web", 4, "500m")).await;
    lab.settle(60).await;
    lab.cluster.handle().remove_machine("node-1").await.unwrap();
    lab.settle(120).await;
    assert!(lab.get("/api/v1/nodes/node-1").await.is_none(), "the cloud removes the node");
    let pods = lab.pods("web").await;
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|p| ready(p) && p["spec"]["nodeName"] == "node-2"));
    assert_eq!(lab.cluster.handle().machines().await.unwrap(), ["node-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_higher_priority_evicts_and_takes_the_place() {
    let lab = Lab::with_machines(5, 1).await;
    for (name, value) in [("low", 1), ("high", 100)] {
        lab.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value}),
        )
        .await;
    }
    let pod = |name: &str, class: &str, cpu: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": class}},
        "spec": {"priorityClassName": class, "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
    };
    lab.create(PODS, pod("a", "low", "2")).await;
    lab.create(PODS, pod("b", "low", "2")).await;
    lab.settle(30).await;
    lab.create(PODS, pod("c", "high", "1")).await;
    lab.settle(1).await;
    let waiting = lab.get(&format!("{PODS}/c")).await.unwrap();
    assert_eq!(waiting["status"]["nominatedNodeName"], "node-1", "{waiting}");
    lab.settle(40).await;
    let placed = lab.get(&format!("{PODS}/c")).await.unwrap();
    assert!(ready(&placed), "{placed}");
    assert!(placed["status"]["nominatedNodeName"].is_null());
    assert_eq!(lab.pods("low").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_nominated_from_outside_goes_there_and_others_leave_its_room() {
    let lab = Lab::with_machines(6, 1).await;
    let pod = |name: &str, cpu: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"schedulingGates": [{"name": "example.com/wait"}], "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
    };
    lab.create(PODS, pod("expected", "3")).await;
    lab.patch(&format!("{PODS}/expected/status"), json!({"status": {"nominatedNodeName": "node-1"}})).await;
    lab.settle(1).await;
    let mut greedy = pod("greedy", "2");
    greedy["spec"].as_object_mut().unwrap().remove("schedulingGates");
    lab.create(PODS, greedy).await;
    lab.settle(5).await;
    let refused = lab.get(&format!("{PODS}/greedy")).await.unwrap();
    assert!(refused["spec"]["nodeName"].is_null(), "the room is kept: {refused}");
    lab.patch(&format!("{PODS}/expected"), json!({"spec": {"schedulingGates": null}})).await;
    lab.settle(5).await;
    assert_eq!(lab.get(&format!("{PODS}/expected")).await.unwrap()["spec"]["nodeName"], "node-1");
}

#[tokio::test(start_paused = true)]
async fn written_heartbeats_keep_nodes_alive() {
    let lab = Lab::with(7, |s| s.kubelets.heartbeats = karpenter_cluster::kubelet::Heartbeats::Written);
    lab.cluster.handle().add_machine(machine(1)).await.unwrap();
    lab.settle(600).await;
    assert!(ready(&lab.get("/api/v1/nodes/node-1").await.unwrap()));
    let lease = lab.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1").await.unwrap();
    let renewed: jiff::Timestamp = lease["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
    assert!(renewed.to_string().as_str() >= "2026-01-01T00:09:40Z", "{renewed}");
}

#[tokio::test(start_paused = true)]
async fn pods_run_on_while_their_kubelet_is_restarted() {
    let mut lab = Lab::with_machines(1, 1).await;
    lab.create(DEPLOYMENTS, deployment("web", 2, "100m")).await;
    lab.settle(60).await;
    let gist = |pods: &[Value]| -> Vec<Value> {
        let of =
            |pod: &Value| json!([pod["metadata"]["uid"], pod["status"]["podIP"], pod["status"]["phase"], ready(pod)]);
        pods.iter().map(of).collect()
    };
    let before = gist(&lab.pods("web").await);
    assert!(before.iter().all(|pod| pod[2] == "Running" && pod[3] == true), "{before:?}");
    lab.restart("2026-01-01T00:01:05Z".parse().unwrap());
    lab.cluster.handle().add_machine(machine(1)).await.unwrap();
    for _ in 0..60 {
        lab.settle(1).await;
        assert_eq!(gist(&lab.pods("web").await), before);
    }
    lab.patch(&format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 4}})).await;
    lab.settle(60).await;
    let pods = lab.pods("web").await;
    let addresses: std::collections::BTreeSet<&str> =
        pods.iter().map(|pod| pod["status"]["podIP"].as_str().unwrap()).collect();
    assert_eq!(addresses.len(), 4, "an address that is in use is given to nobody else");
}
