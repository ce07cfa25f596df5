//! What users do beyond the first deployment: pausing, protected volumes, partial updates, crashes, slow ends.

use crate::lab::{DEPLOYMENTS, Lab, PODS, deployment, ready, template};
use karpenter_cluster::furniture;
use serde_json::{Value, json};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

fn progressing(deployment: &Value) -> (&Value, &Value) {
    let conditions = deployment["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|c| c["type"] == "Progressing").unwrap();
    (&found["status"], &found["reason"])
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_waits_and_says_so() {
    let lab = Lab::with_machines(1, 3).await;
    let path = format!("{DEPLOYMENTS}/web");
    let made = lab.create(DEPLOYMENTS, deployment("web", 3, "100m")).await;
    lab.settle(60).await;
    let seen = lab.get(&path).await.unwrap();
    assert_eq!(seen["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(seen["metadata"]["generation"], made["metadata"]["generation"], "a revision is no change of mind");

    lab.patch(&path, json!({"spec": {"paused": true}})).await;
    let image = json!([{"name": "main", "image": "example.com/app:2"}]);
    lab.patch(&path, json!({"spec": {"template": {"spec": {"containers": image}}}})).await;
    lab.settle(3600).await;
    let seen = lab.get(&path).await.unwrap();
    assert_eq!(
        progressing(&seen),
        (&json!("Unknown"), &json!("DeploymentPaused")),
        "an hour is no failure to progress"
    );
    assert_eq!(lab.list("/apis/apps/v1/namespaces/default/replicasets").await.len(), 1);
    lab.patch(&path, json!({"spec": {"replicas": 5}})).await;
    lab.settle(60).await;
    assert_eq!(lab.pods("web").await.len(), 5, "its size is followed all the same");

    lab.patch(&path, json!({"spec": {"paused": false}})).await;
    lab.settle(120).await;
    let pods = lab.pods("web").await;
    assert!(pods.iter().all(|p| p["spec"]["containers"][0]["image"] == "example.com/app:2" && ready(p)));
    let seen = lab.get(&path).await.unwrap();
    assert_eq!(progressing(&seen), (&json!("True"), &json!("NewReplicaSetAvailable")));
}

#[tokio::test(start_paused = true)]
async fn the_default_class_provides_and_what_is_used_is_protected() {
    let lab = Lab::with_machines(1, 3).await;
    furniture::install(&lab.client).await.unwrap();
    furniture::install(&lab.client).await.expect("a second time changes nothing");
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    lab.create(CLAIMS, claim).await;
    lab.settle(60).await;
    let path = format!("{CLAIMS}/data");
    let seen = lab.get(&path).await.unwrap();
    assert_eq!((&seen["spec"]["storageClassName"], &seen["status"]["phase"]), (&json!("standard"), &json!("Pending")));
    let mut pod = template("writer", "100m");
    pod["metadata"]["name"] = json!("writer");
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    lab.create(PODS, pod).await;
    lab.settle(60).await;
    assert!(ready(&lab.get(&format!("{PODS}/writer")).await.unwrap()));
    let volume = lab.get(&path).await.unwrap()["spec"]["volumeName"].as_str().unwrap().to_owned();
    let volume = format!("/api/v1/persistentvolumes/{volume}");

    lab.delete(&volume).await;
    lab.delete(&path).await;
    lab.settle(60).await;
    let seen = lab.get(&path).await.expect("a pod uses it");
    assert_eq!(seen["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert!(lab.get(&volume).await.is_some(), "a claim is bound to it");
    lab.delete(&format!("{PODS}/writer")).await;
    lab.settle(60).await;
    assert!(lab.get(&path).await.is_none() && lab.get(&volume).await.is_none(), "nobody is left to protect them from");
}

fn stateful(strategy: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {"replicas": 3,
        "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "100m"),
        "updateStrategy": strategy}})
}

async fn images(lab: &Lab) -> Vec<String> {
    let mut pods = lab.pods("db").await;
    pods.sort_by_key(|p| p["metadata"]["name"].to_string());
    pods.iter().map(|p| p["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_updates_as_far_as_it_may() {
    let (old, new) = ("example.com/app:1".to_owned(), "example.com/app:2".to_owned());
    let update = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": new}]}}}});

    let lab = Lab::with_machines(1, 3).await;
    lab.create(SETS, stateful(json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}))).await;
    lab.settle(120).await;
    lab.patch(&format!("{SETS}/db"), update.clone()).await;
    lab.settle(120).await;
    assert_eq!(images(&lab).await, [old.clone(), old.clone(), new.clone()]);
    lab.delete(&format!("{PODS}/db-0")).await;
    lab.settle(60).await;
    assert_eq!(images(&lab).await, [old.clone(), old.clone(), new.clone()], "below the partition the old comes back");
    let status = &lab.get(&format!("{SETS}/db")).await.unwrap()["status"];
    assert_eq!((&status["updatedReplicas"], &status["currentReplicas"]), (&json!(1), &json!(2)), "{status}");
    let pod = lab.get(&format!("{PODS}/db-2")).await.unwrap();
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], status["updateRevision"]);
    lab.patch(&format!("{SETS}/db"), json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})).await;
    lab.settle(120).await;
    assert_eq!(images(&lab).await, vec![new.clone(); 3]);

    let lab = Lab::with_machines(2, 3).await;
    lab.create(SETS, stateful(json!({"type": "OnDelete"}))).await;
    lab.settle(120).await;
    lab.patch(&format!("{SETS}/db"), update).await;
    lab.settle(120).await;
    assert_eq!(images(&lab).await, vec![old.clone(); 3]);
    lab.delete(&format!("{PODS}/db-1")).await;
    lab.settle(60).await;
    assert_eq!(images(&lab).await, [old.clone(), new, old]);
}

fn pod(name: &str, command: &[&str], restart: &str) -> Value {
    let containers = json!([{"name": "main", "image": "busybox", "command": command}]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": restart, "containers": containers}})
}

#[tokio::test(start_paused = true)]
async fn a_crashing_container_is_restarted_ever_later() {
    let lab = Lab::with_machines(1, 1).await;
    lab.create(PODS, pod("crash", &["sh", "-c", "sleep 1; exit 3"], "Always")).await;
    let path = format!("{PODS}/crash");
    lab.settle(600).await;
    let status = lab.get(&path).await.unwrap()["status"]["containerStatuses"][0].clone();
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 3, "{status}");
    let after_ten_minutes = status["restartCount"].as_i64().unwrap();
    // Ten seconds, doubled each time up to five minutes.
    assert!((5..=7).contains(&after_ten_minutes), "{status}");
    assert_eq!(status["state"]["waiting"]["reason"], "CrashLoopBackOff", "{status}");
    lab.settle(3600).await;
    let status = lab.get(&path).await.unwrap()["status"]["containerStatuses"][0].clone();
    let in_an_hour = status["restartCount"].as_i64().unwrap() - after_ten_minutes;
    assert!((11..=13).contains(&in_an_hour), "{in_an_hour}");
}

#[tokio::test(start_paused = true)]
async fn pods_take_the_time_they_are_given_to_end() {
    let lab = Lab::with_machines(1, 1).await;
    let mut slow = pod("slow", &["server"], "Always");
    slow["spec"]["terminationGracePeriodSeconds"] = json!(100);
    slow["spec"]["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 40}}});
    lab.create(PODS, slow).await;
    lab.settle(30).await;
    let path = format!("{PODS}/slow");
    lab.delete(&path).await;
    lab.settle(39).await;
    let leaving = lab.get(&path).await.expect("its hook still runs");
    assert!(!leaving["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(leaving["status"]["phase"], "Running");
    lab.settle(10).await;
    assert!(lab.get(&path).await.is_none());
}
