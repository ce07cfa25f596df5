use crate::lab::{DEPLOYMENTS, Lab, PODS, deployment, ready, template};
use serde_json::{Value, json};

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const STATEFUL: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DAEMONS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test(start_paused = true)]
async fn a_new_template_rolls_out_and_an_undo_brings_the_old_set_back() {
    let lab = Lab::with_machines(1, 4).await;
    lab.create(DEPLOYMENTS, deployment("web", 4, "1")).await;
    lab.settle(60).await;
    let path = format!("{DEPLOYMENTS}/web");
    let image = |tag: &str| {
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": format!("example.com/app:{tag}"),
        "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}]}}}})
    };
    lab.patch(&path, image("2")).await;
    lab.settle(120).await;
    let pods = lab.pods("web").await;
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|p| ready(p) && p["spec"]["containers"][0]["image"] == "example.com/app:2"));
    let seen = lab.get(&path).await.unwrap();
    assert_eq!(seen["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "2");
    assert_eq!(condition(&seen, "Progressing")["reason"], "NewReplicaSetAvailable", "{seen}");
    let sets = lab.list(SETS).await;
    assert_eq!(sets.len(), 2);
    let first = sets.iter().find(|s| s["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1").unwrap();
    assert_eq!(first["spec"]["replicas"], 0);
    let hash = &first["metadata"]["labels"]["pod-template-hash"];
    assert_eq!(first["metadata"]["name"], json!(format!("web-{}", hash.as_str().unwrap())));
    lab.patch(&path, image("1")).await;
    lab.settle(120).await;
    let sets = lab.list(SETS).await;
    assert_eq!(sets.len(), 2, "the old set serves again");
    let again = sets.iter().find(|s| s["metadata"]["uid"] == first["metadata"]["uid"]).unwrap();
    assert_eq!(
        (&again["spec"]["replicas"], &again["metadata"]["annotations"]["deployment.kubernetes.io/revision"]),
        (&json!(4), &json!("3"))
    );
    assert_eq!(again["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"], "1");
}

#[tokio::test(start_paused = true)]
async fn a_rollout_never_leaves_its_bounds() {
    let lab = Lab::with_machines(2, 4).await;
    let mut body = deployment("web", 4, "500m");
    body["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    lab.create(DEPLOYMENTS, body).await;
    lab.settle(60).await;
    let next = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
    lab.patch(&format!("{DEPLOYMENTS}/web"), next).await;
    for _ in 0..120 {
        lab.settle(1).await;
        let pods = lab.pods("web").await;
        let living: Vec<_> = pods.iter().filter(|p| p["metadata"]["deletionTimestamp"].is_null()).collect();
        assert!(living.len() <= 5, "{} pods", living.len());
        assert!(living.iter().filter(|p| ready(p)).count() >= 4);
    }
    assert!(lab.pods("web").await.iter().all(|p| p["metadata"]["annotations"]["version"] == "2"));
}

#[tokio::test(start_paused = true)]
async fn recreate_waits_for_the_old_pods() {
    let lab = Lab::with_machines(3, 2).await;
    let mut body = deployment("web", 2, "500m");
    body["spec"]["strategy"] = json!({"type": "Recreate"});
    lab.create(DEPLOYMENTS, body).await;
    lab.settle(60).await;
    lab.patch(
        &format!("{DEPLOYMENTS}/web"),
        json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}),
    )
    .await;
    for _ in 0..60 {
        lab.settle(1).await;
        let versions: std::collections::BTreeSet<String> =
            lab.pods("web").await.iter().map(|p| p["metadata"]["annotations"]["version"].to_string()).collect();
        assert!(versions.len() <= 1, "{versions:?} at once");
    }
    assert_eq!(lab.pods("web").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failing_rollout_is_reported() {
    let lab = Lab::with_machines(4, 1).await;
    let mut body = deployment("web", 1, "8");
    body["spec"]["progressDeadlineSeconds"] = json!(30);
    lab.create(DEPLOYMENTS, body).await;
    lab.settle(60).await;
    let seen = lab.get(&format!("{DEPLOYMENTS}/web")).await.unwrap();
    assert_eq!(condition(&seen, "Progressing")["reason"], "ProgressDeadlineExceeded", "{seen}");
    let pods = lab.pods("web").await;
    let scheduled = condition(&pods[0], "PodScheduled");
    assert_eq!(
        scheduled["message"],
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_starts_and_updates_in_order() {
    let lab = Lab::with_machines(5, 3).await;
    lab.create(STATEFUL, json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
        "spec": {"replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "500m")}})).await;
    let mut before = 0;
    for _ in 0..90 {
        lab.settle(1).await;
        let pods = lab.pods("db").await;
        assert!(pods.len() <= before + 1);
        assert!(pods.iter().rev().skip(1).all(ready), "a pod before its predecessor was ready");
        before = pods.len();
    }
    let pods = lab.pods("db").await;
    let names: Vec<_> = pods.iter().map(|p| p["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2"]);
    assert_eq!(pods[1]["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
    lab.patch(
        &format!("{STATEFUL}/db"),
        json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}),
    )
    .await;
    lab.settle(120).await;
    let pods = lab.pods("db").await;
    assert!(pods.iter().all(|p| p["metadata"]["annotations"]["version"] == "2" && ready(p)));
    let status = &lab.get(&format!("{STATEFUL}/db")).await.unwrap()["status"];
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!((&status["readyReplicas"], &status["updatedReplicas"]), (&json!(3), &json!(3)));
    lab.patch(&format!("{STATEFUL}/db"), json!({"spec": {"replicas": 1}})).await;
    lab.settle(60).await;
    assert_eq!(lab.pods("db").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_follows_the_nodes() {
    let lab = Lab::with_machines(6, 2).await;
    lab.create(
        DAEMONS,
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "100m")}}),
    )
    .await;
    lab.settle(30).await;
    assert_eq!(lab.pods("agent").await.iter().filter(|p| ready(p)).count(), 2);
    lab.cluster.handle().add_machine(crate::lab::machine(3)).await.unwrap();
    lab.settle(30).await;
    let pods = lab.pods("agent").await;
    let mut nodes: Vec<_> = pods.iter().map(|p| p["spec"]["nodeName"].as_str().unwrap()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["node-1", "node-2", "node-3"]);
    let status = &lab.get(&format!("{DAEMONS}/agent")).await.unwrap()["status"];
    assert_eq!(
        (&status["desiredNumberScheduled"], &status["numberReady"], &status["numberMisscheduled"]),
        (&json!(3), &json!(3), &json!(0))
    );
    lab.patch(
        &format!("{DAEMONS}/agent"),
        json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}),
    )
    .await;
    lab.settle(120).await;
    assert!(lab.pods("agent").await.iter().all(|p| p["metadata"]["annotations"]["version"] == "2"));
    lab.patch("/api/v1/nodes/node-1", json!({"spec": {"taints": [{"key": "out", "effect": "NoExecute"}]}})).await;
    lab.settle(30).await;
    assert_eq!(lab.pods("agent").await.len(), 2);
}

fn job(name: &str, spec: Value, command: &[&str]) -> Value {
    let mut body = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec});
    body["spec"]["template"] = json!({"metadata": {"labels": {"app": name}}, "spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/task", "command": command}]}});
    body
}

#[tokio::test(start_paused = true)]
async fn jobs_complete_fail_and_clean_up() {
    let lab = Lab::with_machines(7, 2).await;
    lab.create(JOBS, job("good", json!({"completions": 5, "parallelism": 2}), &["sleep", "10"])).await;
    lab.create(JOBS, job("bad", json!({"backoffLimit": 1}), &["sh", "-c", "sleep 1; exit 3"])).await;
    lab.create(
        JOBS,
        job("indexed", json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}), &["true"]),
    )
    .await;
    lab.create(JOBS, job("short", json!({"ttlSecondsAfterFinished": 20}), &["true"])).await;
    for _ in 0..30 {
        lab.settle(1).await;
        let running = lab.pods("good").await.iter().filter(|p| p["status"]["phase"] == "Running").count();
        assert!(running <= 2);
    }
    lab.settle(120).await;
    let good = lab.get(&format!("{JOBS}/good")).await.unwrap();
    assert_eq!(
        (&good["status"]["succeeded"], &condition(&good, "Complete")["status"]),
        (&json!(5), &json!("True")),
        "{good}"
    );
    let bad = lab.get(&format!("{JOBS}/bad")).await.unwrap();
    assert_eq!(
        (&bad["status"]["failed"], &condition(&bad, "Failed")["reason"]),
        (&json!(2), &json!("BackoffLimitExceeded")),
        "{bad}"
    );
    let indexed = lab.get(&format!("{JOBS}/indexed")).await.unwrap();
    assert_eq!(
        (&indexed["status"]["completedIndexes"], &indexed["status"]["succeeded"]),
        (&json!("0-2"), &json!(3)),
        "{indexed}"
    );
    assert!(lab.get(&format!("{JOBS}/short")).await.is_none());
    let pods = lab.list(PODS).await;
    assert!(pods.iter().all(|p| p["metadata"]["finalizers"].is_null()), "every pod was let go");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_runs_on_time_and_keeps_a_short_history() {
    let lab = Lab::with_machines(8, 1).await;
    let template = job("unused", json!({}), &["sleep", "5"])["spec"]["template"].clone();
    lab.create(
        CRON,
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}}}}),
    )
    .await;
    lab.settle(3600 + 120).await;
    let jobs = lab.list(JOBS).await;
    assert_eq!(jobs.len(), 3, "three are kept");
    assert!(jobs.iter().all(|j| condition(j, "Complete")["status"] == "True"));
    let cron = lab.get(&format!("{CRON}/tick")).await.unwrap();
    assert_eq!(cron["status"]["lastScheduleTime"], "2026-01-01T01:00:00Z");
    assert!(cron["status"]["active"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_and_services_have_endpoints() {
    let lab = Lab::with_machines(9, 3).await;
    lab.create(DEPLOYMENTS, deployment("web", 4, "500m")).await;
    lab.create(BUDGETS, json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}})).await;
    lab.create(
        "/api/v1/namespaces/default/services",
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}}),
    )
    .await;
    lab.settle(60).await;
    let status = &lab.get(&format!("{BUDGETS}/web")).await.unwrap()["status"];
    assert_eq!(
        (&status["currentHealthy"], &status["desiredHealthy"], &status["disruptionsAllowed"], &status["expectedPods"]),
        (&json!(4), &json!(3), &json!(1), &json!(4)),
        "{status}"
    );
    let slices = lab.list("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dweb").await;
    assert_eq!(slices.len(), 1);
    let endpoints = slices[0]["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 4);
    assert!(endpoints.iter().all(|e| e["conditions"]["ready"] == true && e["zone"].is_string()));
    assert_eq!(slices[0]["ports"][0]["port"], 8080);
    // An eviction the budget allows, and one it does not.
    let pods = lab.pods("web").await;
    let evict = |pod: &Value| format!("{PODS}/{}/eviction", pod["metadata"]["name"].as_str().unwrap());
    let eviction = |pod: &Value| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"], "namespace": "default"}});
    lab.create(&evict(&pods[0]), eviction(&pods[0])).await;
    let body = serde_json::to_vec(&eviction(&pods[1])).unwrap();
    let request = http::Request::post(evict(&pods[1])).header("content-type", "application/json").body(body).unwrap();
    let refused = lab.client.request::<Value>(request).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 429));
    lab.settle(60).await;
    assert_eq!(lab.pods("web").await.iter().filter(|p| ready(p)).count(), 4);
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_furnished_and_emptied() {
    let lab = Lab::with(10, |s| s.root_ca = Some("CERTIFICATE".into()));
    lab.cluster.handle().add_machine(crate::lab::machine(1)).await.unwrap();
    lab.create("/api/v1/namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))
        .await;
    lab.settle(5).await;
    assert!(lab.get("/api/v1/namespaces/shop/serviceaccounts/default").await.is_some());
    assert_eq!(
        lab.get("/api/v1/namespaces/shop/configmaps/kube-root-ca.crt").await.unwrap()["data"]["ca.crt"],
        "CERTIFICATE"
    );
    let mut body = deployment("web", 2, "100m");
    body["metadata"]["namespace"] = json!("shop");
    lab.create("/apis/apps/v1/namespaces/shop/deployments", body).await;
    lab.settle(30).await;
    lab.delete("/api/v1/namespaces/shop").await;
    lab.settle(120).await;
    assert!(lab.get("/api/v1/namespaces/shop").await.is_none());
    assert!(lab.list("/api/v1/pods").await.is_empty());
}
