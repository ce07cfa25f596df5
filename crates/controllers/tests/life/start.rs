//! From a claim to a usable node, and what becomes of claims that do not get there.

use karpenter_api::conditions::Status::{False, True, Unknown};
use karpenter_api::labels;
use karpenter_apiserver::{Effect as Breakage, Fault};
use karpenter_controllers::Settings;
use karpenter_provider::LaunchError;
use serde_json::{Value, json};

use crate::objects::{self, CLAIMS, NODES, POOLS};
use crate::stage::Stage;

fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "effect": effect})
}

#[tokio::test(start_paused = true)]
async fn a_claim_becomes_a_node() {
    // covers: LC-GEN-21, LC-GEN-22, LC-GEN-24, LC-LAUNCH-01, LC-LAUNCH-04, LC-REG-01, LC-REG-03, LC-REG-04, LC-REG-06, LC-REG-08, LC-REG-14, LC-INIT-01, LC-INIT-06, LC-INIT-11, API-CD-20, API-CD-21
    let stage = Stage::new().await;
    let spec = json!({"taints": [taint("dedicated", "NoSchedule")], "startupTaints": [taint("booting", "NoSchedule")],
        "resources": {"requests": {"cpu": "1"}}});
    stage.create(CLAIMS, objects::claim("one", spec)).await;
    stage.until("it is launched", 5, || async { stage.is("one", "Launched", True, "Launched").await }).await;
    assert!(stage.is("one", "Registered", Unknown, "NodeNotFound").await);
    let claim = stage.claim("one").await.unwrap();
    assert_eq!(claim.metadata.finalizers.as_deref().unwrap(), [labels::TERMINATION_FINALIZER]);
    assert_eq!(claim.metadata.labels.as_ref().unwrap()[labels::ZONE], "zone-a");

    // What was done, in this order.
    let effects = stage.scythe.done();
    let place = |parts: &[&str]| effects.iter().position(|effect| effect.has(parts)).unwrap();
    let finalizer = place(&["PATCH", "nodeclaims/one", labels::TERMINATION_FINALIZER]);
    let launch = place(&["cloud create one"]);
    let metadata = place(&["PATCH", "nodeclaims/one", "test.large"]);
    let status = place(&["PUT", "nodeclaims/one/status", "providerID"]);
    assert!(finalizer < launch && launch < metadata && metadata < status, "{effects:#?}");

    stage.until("it is registered", 60, || async { stage.is("one", "Registered", True, "Registered").await }).await;
    let name = stage.claim("one").await.unwrap().status.unwrap().node_name.unwrap();
    let starting = || async { stage.is("one", "Initialized", Unknown, "StartupTaintsExist").await };
    stage.until("its startup taint is waited for", 60, starting).await;
    let node = stage.get(&format!("{NODES}/{name}")).await.unwrap();
    let keys: Vec<&str> =
        node["spec"]["taints"].as_array().unwrap().iter().map(|t| t["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["dedicated", "booting"], "no longer unregistered");
    assert_eq!(node["metadata"]["ownerReferences"][0]["name"], "one");
    assert_eq!(node["metadata"]["finalizers"], json!([labels::TERMINATION_FINALIZER]));
    assert_eq!(node["metadata"]["labels"][labels::REGISTERED], "true");
    assert_eq!(node["metadata"]["labels"][labels::INITIALIZED], Value::Null);
    assert_eq!(stage.metric("karpenter_nodes_created_total", "zone-a"), 1.0);

    stage.patch(&format!("{NODES}/{name}"), json!({"spec": {"taints": [taint("dedicated", "NoSchedule")]}})).await;
    stage.ready_node("one").await;
    let node = stage.get(&format!("{NODES}/{name}")).await.unwrap();
    assert_eq!(node["metadata"]["labels"][labels::INITIALIZED], "true");

    // Nothing of this is ever done again: taints stay as people want them, and what was initialized stays so.
    stage.patch(&format!("{NODES}/{name}"), json!({"spec": {"taints": [taint("mine", "NoSchedule")]}})).await;
    stage.patch(&format!("{CLAIMS}/one"), json!({"metadata": {"labels": {"later": "x"}}})).await;
    stage.silence("one", true).await;
    stage.pass(900).await;
    assert!(stage.is("one", "Initialized", True, "Initialized").await);
    let node = stage.get(&format!("{NODES}/{name}")).await.unwrap();
    let taints = node["spec"]["taints"].as_array().unwrap();
    assert!(taints.iter().all(|taint| taint["key"] != "booting" && taint["key"] != "dedicated"), "{taints:?}");
    assert_eq!(node["metadata"]["labels"]["later"], Value::Null);
    assert_eq!(stage.metric("karpenter_nodes_created_total", ""), 1.0, "counted once");
    assert_eq!(stage.cloud.instances().len(), 1, "and never launched twice");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ours_is_not_touched() {
    // covers: LC-GEN-01
    let stage = Stage::new().await;
    let mut claim = objects::claim("theirs", json!({"expireAfter": "1h"}));
    claim["spec"]["nodeClassRef"] = json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
    stage.create(CLAIMS, claim).await;
    stage.pass(7_200).await;
    let claim = stage.claim("theirs").await.unwrap();
    assert!(
        claim.status.is_none() && claim.metadata.finalizers.is_none() && claim.metadata.deletion_timestamp.is_none()
    );
    assert!(stage.cloud.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_bought_is_given_up_at_once() {
    // covers: LC-LAUNCH-05, LC-LAUNCH-06, LC-LAUNCH-09, LC-LIVE-08, NP-HEALTH-07, API-EV-20
    let stage = Stage::new().await;
    let pool = stage.create(POOLS, objects::pool("p", json!({}))).await;
    let errors = [
        (LaunchError::InsufficientCapacity { message: "no instance type left".into() }, "insufficient_capacity", 1),
        (LaunchError::NodeClassNotReady { message: "no subnets".into() }, "nodeclass_not_ready", 0),
    ];
    for (error, reason, events) in errors {
        stage.cloud.refuse(error);
        stage.create(CLAIMS, objects::claim_of(&pool, reason.replace('_', "-").as_str(), json!({}))).await;
        stage.claim_is_gone(&reason.replace('_', "-"), 5).await;
        let labels = format!("reason=\"{reason}\",nodepool=\"p\"");
        assert_eq!(stage.metric("karpenter_nodeclaims_disrupted_total", &labels), 1.0, "{reason}");
        let told = stage.events("InsufficientCapacityError").await;
        assert_eq!(told.iter().filter(|(object, _)| object.contains(&reason.replace('_', "-"))).count(), events);
    }
    let (object, message) = stage.events("InsufficientCapacityError").await.remove(0);
    assert_eq!(object, "NodeClaim/insufficient-capacity");
    assert!(message.contains("no instance type left"), "{message}");
    assert!(stage.cloud.instances().is_empty());
    let healthy = stage.pool("p").await;
    assert_eq!(healthy.condition_status("NodeRegistrationHealthy"), Unknown, "no failure of the pool");
}

#[tokio::test(start_paused = true)]
async fn other_launch_errors_are_retried_with_back_off() {
    // covers: LC-LAUNCH-07
    let stage = Stage::new().await;
    for _ in 0..4 {
        stage.cloud.refuse(LaunchError::create("denied", "Unauthorized", "a policy is missing"));
    }
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let told = || async { stage.is("one", "Launched", Unknown, "Unauthorized").await };
    stage.until("the claim says why", 5, told).await;
    // One, two, four and eight seconds between the attempts.
    let took =
        stage.until("it is launched", 60, || async { stage.is("one", "Launched", True, "Launched").await }).await;
    assert!((13.0..18.0).contains(&took), "{took}");
    let attempts = stage.scythe.done().iter().filter(|effect| effect.has(&["cloud create"])).count();
    assert_eq!(attempts, 5);
    stage.ready_node("one").await;
}

#[tokio::test(start_paused = true)]
async fn devices_are_waited_for_where_they_are_asked_for_and_not_ignored() {
    // covers: LC-INIT-07
    for (ignored, drivers, waits) in
        [(false, Some(" gpu.example.com , "), true), (false, Some(" , "), false), (false, None, false)]
    {
        let mut settings = Settings::default();
        settings.scheduling.ignore_device_requests = ignored;
        let stage = Stage::with(settings).await;
        let mut claim = objects::claim("one", json!({}));
        if let Some(drivers) = drivers {
            claim["metadata"]["annotations"] = json!({labels::REQUESTED_DRA_DRIVERS: drivers});
        }
        stage.create(CLAIMS, claim).await;
        if !waits {
            stage.ready_node("one").await;
            continue;
        }
        stage.pass(120).await;
        assert!(stage.is("one", "Initialized", Unknown, "DRADriverPoolsNotPublished").await, "{drivers:?}");
        let id = stage.claim("one").await.unwrap().status.unwrap().provider_id.unwrap();
        let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {"driver": "gpu.example.com", "nodeName": crate::cloud::node_name(&id), "devices": [],
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}});
        stage.create("/apis/resource.k8s.io/v1/resourceslices", slice).await;
        stage.ready_node("one").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_never_launches_times_out() {
    // covers: LC-LIVE-02, LC-LIVE-05, NP-HEALTH-05
    let stage = Stage::new().await;
    let pool = stage.create(POOLS, objects::pool("p", json!({}))).await;
    for _ in 0..100 {
        stage.cloud.refuse(LaunchError::create("denied", "Unauthorized", "a policy is missing"));
    }
    for name in ["a", "b"] {
        stage.create(CLAIMS, objects::claim_of(&pool, name, json!({}))).await;
    }
    stage.pass(299).await;
    assert!(stage.claim("a").await.is_some());
    // A retry may be up to a minute away.
    stage.claim_is_gone("a", 65).await;
    stage.claim_is_gone("b", 65).await;
    let labels = "reason=\"launch_timeout\",nodepool=\"p\"";
    assert_eq!(stage.metric("karpenter_nodeclaims_disrupted_total", labels), 2.0);
    let pool = stage.pool("p").await;
    let healthy = pool.condition("NodeRegistrationHealthy").unwrap();
    assert_eq!((healthy.status.as_str(), healthy.reason.as_str()), ("False", "Unauthorized"));
    assert_eq!(pool.condition_status("Ready"), True, "it does not keep the pool from being used");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_becomes_a_node_times_out() {
    // covers: LC-LIVE-03, LC-TERM-03, LC-TERM-40
    let stage = Stage::new().await;
    stage.cloud.plan(|plan| plan.dud = true);
    stage.create(CLAIMS, objects::claim("dud", json!({}))).await;
    stage.pass(899).await;
    assert!(stage.claim("dud").await.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()));
    stage.claim_is_gone("dud", 60).await;
    assert_eq!(stage.metric("karpenter_nodeclaims_disrupted_total", "registration_timeout"), 1.0);
    assert!(stage.cloud.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_nodes_for_one_claim_are_never_resolved() {
    // covers: LC-REG-02, LC-GEN-04, API-CD-21
    let stage = Stage::new().await;
    stage.cloud.plan(|plan| plan.dud = true);
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    stage.until("it is launched", 5, || async { stage.is("one", "Launched", True, "Launched").await }).await;
    stage.pass(600).await;
    let id = stage.claim("one").await.unwrap().status.unwrap().provider_id.unwrap();
    stage.kill_and_wait().await;
    for name in ["x", "y"] {
        let node = json!({"metadata": {"name": name}, "spec": {"providerID": id}});
        stage.create(NODES, node).await;
    }
    let mut stage = stage;
    stage.start();
    let doubled = || async { stage.is("one", "Registered", False, "MultipleNodesFound").await };
    stage.until("both are seen", 5, doubled).await;
    stage.delete(&format!("{NODES}/x")).await;
    stage.pass(890).await;
    assert!(stage.is("one", "Registered", False, "MultipleNodesFound").await, "final");
    stage.claim_is_gone("one", 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_the_race_taint_is_registered_with_a_warning() {
    // covers: LC-REG-07, API-EV-21
    let stage = Stage::new().await;
    stage.cloud.plan(|plan| plan.dud = true);
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    stage.until("it is launched", 5, || async { stage.is("one", "Launched", True, "Launched").await }).await;
    let id = stage.claim("one").await.unwrap().status.unwrap().provider_id.unwrap();
    stage.create(NODES, json!({"metadata": {"name": "bare"}, "spec": {"providerID": id}})).await;
    stage.until("it is registered", 5, || async { stage.is("one", "Registered", True, "Registered").await }).await;
    let told = || async { !stage.events("UnregisteredTaintMissing").await.is_empty() };
    stage.until("it is told", 5, told).await;
    assert_eq!(stage.events("UnregisteredTaintMissing").await[0].0, "NodeClaim/one");
}

#[tokio::test(start_paused = true)]
async fn a_provider_may_hold_registration_up() {
    // covers: LC-REG-09, LC-REG-10, CP-C1
    let stage = Stage::new().await;
    stage.cloud.plan(|plan| plan.waits = true);
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let pending = || async { stage.is("one", "Registered", Unknown, "RegistrationHookPending").await };
    stage.until("the hook is waited for", 60, pending).await;
    stage.pass(30).await;
    let nodes = stage.list(NODES).await;
    assert_eq!(nodes[0]["metadata"]["finalizers"], json!([labels::TERMINATION_FINALIZER]), "synced already");
    assert_eq!(nodes[0]["metadata"]["labels"][labels::REGISTERED], Value::Null);
    let taints = nodes[0]["spec"]["taints"].as_array().unwrap();
    assert!(taints.iter().any(|taint| taint["key"] == labels::UNREGISTERED_TAINT), "closed: {taints:?}");
    stage.cloud.plan(|plan| plan.waits = false);
    stage.ready_node("one").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_smaller_than_it_should_be_is_told() {
    // covers: LC-CONS-01, LC-CONS-04, LC-CONS-05, API-CD-29, API-EV-19
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("well", json!({"resources": {"requests": {"cpu": "1"}}}))).await;
    stage.ready_node("well").await;
    stage.cloud.plan(|plan| plan.real_cpu = Some(2));
    stage.create(CLAIMS, objects::claim("short", json!({"resources": {"requests": {"cpu": "1"}}}))).await;
    stage.ready_node("short").await;
    let found = || async { stage.is("short", "ConsistentStateFound", False, "ConsistencyCheckFailed").await };
    stage.until("it is found", 700, found).await;
    assert!(stage.is("well", "ConsistentStateFound", True, "ConsistentStateFound").await);
    stage.pass(2).await;
    let events = stage.events("FailedConsistencyCheck").await;
    let message = "expected 4 of resource cpu, but found 2 (50.0% of expected)";
    assert_eq!(events, [("NodeClaim/short".to_owned(), message.to_owned())]);
    stage.pass(3_600).await;
    assert!(stage.claim("short").await.unwrap().metadata.deletion_timestamp.is_none(), "nothing follows");
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_learns_late_reaches_claim_and_node() {
    // covers: LC-REG-11
    let stage = Stage::new().await;
    stage.cloud.plan(|plan| plan.late_label = true);
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let node = stage.ready_node("one").await;
    for path in [format!("{CLAIMS}/one"), format!("{NODES}/{node}")] {
        let object = stage.get(&path).await.unwrap();
        assert_eq!(object["metadata"]["labels"]["test.example/late"], "known", "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn there_is_no_hurry_to_be_initialized() {
    // covers: LC-INIT-10, LC-INIT-02
    let stage = Stage::new().await;
    let spec = json!({"startupTaints": [taint("booting", "NoSchedule")]});
    stage.create(CLAIMS, objects::claim("one", spec)).await;
    let waiting = || async { stage.is("one", "Initialized", Unknown, "StartupTaintsExist").await };
    stage.until("its startup taint is waited for", 60, waiting).await;
    stage.pass(24 * 3_600).await;
    assert!(waiting().await && stage.claim("one").await.unwrap().metadata.deletion_timestamp.is_none());
    // A second node with its id makes nobody's node of it.
    let id = stage.claim("one").await.unwrap().status.unwrap().provider_id.unwrap();
    stage.create(NODES, json!({"metadata": {"name": "double"}, "spec": {"providerID": id}})).await;
    let nobody = || async { stage.is("one", "Initialized", Unknown, "NodeNotFound").await };
    stage.until("there is no one node", 5, nobody).await;
    stage.delete(&format!("{NODES}/double")).await;
    stage.until("there is again", 5, waiting).await;
}

fn broken(method: &str, path: &str, effect: Breakage) -> Fault {
    let methods = vec![method.to_owned()];
    Fault { methods, path_contains: path.to_owned(), per_mille: 1_000, times: Some(3), effect }
}

#[tokio::test(start_paused = true)]
async fn a_node_patch_that_fails_is_tried_again() {
    // covers: LC-REG-12
    for effect in [Breakage::Conflict, Breakage::InternalError, Breakage::Timeout] {
        let stage = Stage::new().await;
        stage.cloud.plan(|plan| plan.boot = std::time::Duration::from_secs(20));
        stage.create(CLAIMS, objects::claim("one", json!({}))).await;
        stage.until("it is launched", 5, || async { stage.is("one", "Launched", True, "Launched").await }).await;
        stage.server().inject(broken("PATCH", "/api/v1/nodes/", effect));
        stage.ready_node("one").await;
        assert_eq!(stage.metric("karpenter_nodes_created_total", ""), 1.0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_say_meanwhile_is_not_overwritten() {
    // covers: LC-GEN-12, LC-GEN-11
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    stage.until("it is launched", 5, || async { stage.is("one", "Launched", True, "Launched").await }).await;
    // Somebody else writes a condition while the controllers' view of the claim stands still.
    let slow = Breakage::Latency(std::time::Duration::from_secs(2));
    stage.server().inject(Fault { times: Some(1), ..broken("PUT", "/nodeclaims/one/status", slow) });
    stage.until("the node comes", 60, || async { !stage.list(NODES).await.is_empty() }).await;
    let path = format!("{CLAIMS}/one/status");
    let mut conditions = stage.get(&path).await.unwrap()["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({"type": "Drifted", "status": "True", "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    stage.patch(&path, json!({"status": {"conditions": conditions}})).await;
    stage.ready_node("one").await;
    assert!(stage.is("one", "Drifted", True, "Test").await, "it is still said");
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_need_not_be_written() {
    // covers: LC-GEN-13
    let stage = Stage::new().await;
    // Gone between the look and the write, again and again, from the first write to the last.
    for delay in [0, 10, 100, 1_000] {
        let slow = Breakage::Latency(std::time::Duration::from_millis(delay));
        stage.server().inject(Fault { times: Some(2), ..broken("PATCH", "/nodeclaims/", slow) });
        stage.create(CLAIMS, objects::claim("one", json!({}))).await;
        tokio::time::sleep(std::time::Duration::from_millis(delay / 2)).await;
        stage.delete(&format!("{CLAIMS}/one")).await;
        stage.claim_is_gone("one", 60).await;
    }
    stage.until("nothing is left", 60, || async { stage.cloud.instances().is_empty() }).await;
    // And the controllers are well.
    stage.create(CLAIMS, objects::claim("two", json!({}))).await;
    stage.ready_node("two").await;
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_history() {
    let run = || async {
        let stage = Stage::new().await;
        let pool = stage.create(POOLS, objects::pool("p", json!({}))).await;
        for name in ["p-1", "p-2", "p-3"] {
            stage.create(CLAIMS, objects::claim_of(&pool, name, json!({"expireAfter": "10m"}))).await;
        }
        for name in ["p-1", "p-2", "p-3"] {
            stage.ready_node(name).await;
        }
        stage.create(objects::DEPLOYMENTS, objects::deployment("web", 9, json!({}), json!({}))).await;
        stage.pass(1_200).await;
        stage.server().digest()
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test(start_paused = true)]
async fn the_taint_of_unregistered_nodes_that_somebody_restores_is_taken_off_again() {
    let stage = Stage::new().await;
    let spec = json!({"startupTaints": [taint("booting", "NoSchedule")]});
    stage.create(CLAIMS, objects::claim("one", spec)).await;
    stage.until("it is registered", 60, || async { stage.is("one", "Registered", True, "Registered").await }).await;
    let name = stage.claim("one").await.unwrap().status.unwrap().node_name.unwrap();
    let path = format!("{NODES}/{name}");
    let has_taint = || async {
        let node = stage.get(&path).await.unwrap();
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["key"] == labels::UNREGISTERED_TAINT)
    };
    let is_open = || async { !has_taint().await };
    // An agent removes its own startup taint from what it read before the node was registered.
    let stale = json!({"spec": {"taints": [taint(labels::UNREGISTERED_TAINT, "NoExecute")]}});
    stage.patch(&path, stale.clone()).await;
    stage.until("it is taken off", 1, is_open).await;
    stage.ready_node("one").await;
    let events = stage.events("UnregisteredTaintRestored").await;
    let about: Vec<&str> = events.iter().map(|(object, _)| object.as_str()).collect();
    assert!(about.contains(&"NodeClaim/one") && about.contains(&&*format!("Node/{name}")), "{events:?}");

    // As often as it comes back, and no faster each time.
    let mut slowest = 0.0;
    for _ in 0..8 {
        stage.patch(&path, stale.clone()).await;
        slowest = f64::max(slowest, stage.until("it is taken off again", 130, is_open).await);
    }
    assert!(slowest > 30.0, "whoever writes it all the time is met ever later: {slowest}");
    stage.patch(&path, json!({"spec": {"taints": [taint("mine", "NoExecute")]}})).await;
    stage.pass(600).await;
    let node = stage.get(&path).await.unwrap();
    assert_eq!(node["spec"]["taints"][0]["key"], "mine", "other taints are nobody's business");
}

#[tokio::test(start_paused = true)]
async fn devices_are_waited_for_unless_they_are_ignored() {
    // covers: LC-INIT-07
    for (ignored, initialized) in [(true, True), (false, Unknown)] {
        let mut settings = Settings::default();
        settings.scheduling.ignore_device_requests = ignored;
        let stage = Stage::with(settings).await;
        let mut claim = objects::claim("one", json!({}));
        claim["metadata"]["annotations"] = json!({labels::REQUESTED_DRA_DRIVERS: "gpu.example.com"});
        stage.create(CLAIMS, claim).await;
        stage.pass(180).await;
        let (found, why) = stage.condition("one", "Initialized").await.unwrap();
        assert_eq!(found, initialized, "ignored: {ignored}, {why}");
    }
}
