//! Room for pods that do not exist yet.

use std::time::Duration;

use karpenter_controllers::Settings;
use karpenter_controllers::roster::all;
use serde_json::{Value, json};

use super::lab::{Lab, NODES, PODS, running};

const BUFFERS: &str = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers";
const TEMPLATES: &str = "/api/v1/namespaces/default/podtemplates";

fn settings() -> Settings {
    Settings { capacity_buffers: true, ..Settings::default() }
}

/// A pool that gives back what is not used as soon as it may.
async fn open(lab: &mut Lab) {
    lab.node_class().await;
    let disruption = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}]});
    lab.pool("main", json!({"disruption": disruption})).await;
    lab.run_with(all(&settings()), settings());
    lab.settle(5).await;
}

fn template(name: &str, cpu: &str) -> Value {
    let container = json!({"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}});
    json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name, "namespace": "default"},
        "template": {"metadata": {"labels": {"app": "spare"}}, "spec": {"containers": [container]}}})
}

fn buffer(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Status and reason of a condition.
async fn told(lab: &Lab, name: &str, kind: &str) -> (String, String) {
    let buffer = lab.get(&format!("{BUFFERS}/{name}")).await.unwrap();
    let conditions = buffer["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// Waits for something that does not last: a machine that is on its way counts as there.
async fn hear(lab: &Lab, name: &str, kind: &str, want: (String, String)) {
    for _ in 0..50 {
        if told(lab, name, kind).await == want {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{kind} of {name} never was {want:?}");
}

fn said(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test(start_paused = true)]
async fn room_is_bought_kept_used_and_given_back() {
    // covers: API-CB-04, API-CB-05, API-CB-06, SCH-BATCH-03, SCH-BUF-02, SCH-BUF-06, SCH-BUF-10, SCH-BUF-11, SCH-BUF-15
    // covers: SCH-BUF-16, SCH-BUF-17, SCH-BUF-18, SCH-BUF-23, SCH-BUF-24, SCH-GAP-19, API-CD-31, API-CD-32
    let mut lab = Lab::new(1).await;
    open(&mut lab).await;
    lab.create(TEMPLATES, template("chunk", "1")).await;
    lab.create(BUFFERS, buffer("spare", json!({"podTemplateRef": {"name": "chunk"}, "replicas": 2}))).await;
    hear(&lab, "spare", "Provisioning", said("False", "RequiresNewCapacity")).await;
    assert_eq!(told(&lab, "spare", "ReadyForProvisioning").await, said("True", "Resolved"));
    let status = lab.get(&format!("{BUFFERS}/spare")).await.unwrap()["status"].clone();
    assert_eq!((&status["replicas"], &status["podTemplateRef"]["name"]), (&json!(2), &json!("chunk")));
    assert_eq!(status["provisioningStrategy"], "buffer.x-k8s.io/active-capacity");
    lab.settle(120).await;
    assert_eq!(lab.claims().await.len(), 1, "two chunks fit on a small machine");
    assert_eq!(told(&lab, "spare", "Provisioning").await, said("True", "FitsExistingCapacity"));
    assert!(lab.list(PODS).await.is_empty(), "nobody but the solver sees those pods");
    assert!(lab.events("Pod").await.is_empty());
    // A node that holds nothing else is not empty, and its room is nowhere else.
    let claim = lab.claims().await[0]["metadata"]["uid"].clone();
    lab.settle(900).await;
    let claims = lab.claims().await;
    assert_eq!((claims.len(), &claims[0]["metadata"]["uid"]), (1, &claim));
    // A pod that exists has it at once, and what it took is bought again.
    lab.deployment("web", 1, "1").await;
    lab.settle(5).await;
    assert!(lab.pods("web").await[0]["spec"]["nodeName"].is_string());
    lab.settle(180).await;
    assert_eq!(running(&lab.pods("web").await), 1);
    let uids = |claims: Vec<Value>| claims.iter().map(|claim| claim["metadata"]["uid"].clone()).collect::<Vec<_>>();
    let two = uids(lab.claims().await);
    assert_eq!(two.len(), 2);
    assert_eq!(told(&lab, "spare", "Provisioning").await, said("True", "FitsExistingCapacity"));
    // The pod would fit on the other node, but then not both chunks would.
    lab.settle(900).await;
    assert_eq!(uids(lab.claims().await), two);
    // Without the buffer only the pod counts.
    lab.delete(&format!("{BUFFERS}/spare")).await;
    lab.settle(600).await;
    assert_eq!(lab.claims().await.len(), 1);
    assert_eq!(lab.list(NODES).await.len(), 1);
    assert_eq!(running(&lab.pods("web").await), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_holds_pods_and_room_is_replaced_by_a_cheaper_one() {
    // covers: SCH-BUF-24
    let mut lab = Lab::new(1).await;
    open(&mut lab).await;
    lab.deployment("big", 1, "6").await;
    lab.deployment("web", 1, "300m").await;
    lab.settle(120).await;
    lab.create(TEMPLATES, template("chunk", "500m")).await;
    lab.create(BUFFERS, buffer("spare", json!({"podTemplateRef": {"name": "chunk"}, "replicas": 1}))).await;
    lab.settle(120).await;
    let sizes = async |lab: &Lab| {
        let nodes = lab.list(NODES).await;
        let size = |node: &Value| node["metadata"]["labels"]["node.kubernetes.io/instance-type"].clone();
        nodes.iter().map(size).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&lab).await, ["large"], "all of it fits");
    assert_eq!(told(&lab, "spare", "Provisioning").await, said("True", "FitsExistingCapacity"));
    lab.scale("big", 0).await;
    lab.settle(300).await;
    assert_eq!(sizes(&lab).await, ["small"], "with the pod, and with the room");
    assert_eq!(running(&lab.pods("web").await), 1);
    assert_eq!(told(&lab, "spare", "Provisioning").await, said("True", "FitsExistingCapacity"));
}

#[tokio::test(start_paused = true)]
async fn a_buffer_says_what_it_cannot_find() {
    // covers: API-CB-03, API-CB-05, API-CD-31, API-CD-32, SCH-BUF-01, SCH-BUF-07, SCH-BUF-08, SCH-BUF-09, SCH-BUF-19, SCH-BUF-21
    let mut lab = Lab::new(1).await;
    open(&mut lab).await;
    lab.create(BUFFERS, buffer("nothing", json!({"replicas": 1}))).await;
    lab.create(BUFFERS, buffer("template", json!({"podTemplateRef": {"name": "chunk"}, "replicas": 1}))).await;
    let web = json!({"apiGroup": "apps", "kind": "Deployment", "name": "web"});
    lab.create(BUFFERS, buffer("workload", json!({"scalableRef": web, "percentage": 50}))).await;
    let job = json!({"apiGroup": "batch", "kind": "Job", "name": "web"});
    lab.create(BUFFERS, buffer("other", json!({"scalableRef": job, "replicas": 1}))).await;
    lab.settle(3).await;
    let ready = "ReadyForProvisioning";
    assert_eq!(told(&lab, "nothing", ready).await, said("False", "ResolutionFailed"));
    assert_eq!(told(&lab, "template", ready).await, said("False", "PodTemplateNotFound"));
    assert_eq!(told(&lab, "workload", ready).await, said("False", "ScalableRefNotFound"));
    assert_eq!(told(&lab, "other", ready).await, said("False", "ResolutionFailed"));
    // A template wakes its buffers, a workload is looked for every half a minute.
    lab.create(TEMPLATES, template("chunk", "1")).await;
    lab.deployment("web", 3, "1").await;
    lab.settle(3).await;
    assert_eq!(told(&lab, "template", ready).await, said("True", "Resolved"));
    lab.settle(31).await;
    assert_eq!(told(&lab, "workload", ready).await, said("True", "Resolved"));
    let replicas =
        async |name: &str| lab.get(&format!("{BUFFERS}/{name}")).await.unwrap()["status"]["replicas"].clone();
    assert_eq!(replicas("workload").await, json!(2), "half of three, rounded up");
    lab.settle(120).await;
    assert_eq!(told(&lab, "nothing", "Provisioning").await, said("False", "NotReadyForProvisioning"));
    lab.scale("web", 0).await;
    lab.settle(60).await;
    assert_eq!(replicas("workload").await, json!(0));
    lab.settle(60).await;
    assert_eq!(told(&lab, "workload", "Provisioning").await, said("False", "BufferEmpty"));
    // One of the same name elsewhere is another one.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "else"}});
    lab.create("/api/v1/namespaces", namespace).await;
    let elsewhere = BUFFERS.replace("default", "else");
    let mut twin = buffer("template", json!({"podTemplateRef": {"name": "chunk"}, "replicas": 1}));
    twin["metadata"]["namespace"] = json!("else");
    lab.create(&elsewhere, twin).await;
    lab.settle(60).await;
    assert_eq!(told(&lab, "template", "Provisioning").await, said("True", "FitsExistingCapacity"));
    let twin = lab.get(&format!("{elsewhere}/template")).await.unwrap();
    let conditions = twin["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|condition| condition["status"] == "False"), "{conditions:?}");
    // Another template is another shape.
    lab.patch(&format!("{TEMPLATES}/chunk"), template("chunk", "5")).await;
    hear(&lab, "template", "Provisioning", said("False", "RequiresNewCapacity")).await;
}
