//! What pools say of themselves, and repair.

use karpenter_api::conditions::Status::{self, False, True, Unknown};
use karpenter_api::labels;
use karpenter_controllers::Settings;
use serde_json::{Value, json};

use crate::objects::{self, CLAIMS, CLASSES, DEPLOYMENTS, NODES, POOLS};
use crate::silence::Trouble;
use crate::stage::Stage;

async fn says(stage: &Stage, kind: &str, reason: &str) -> bool {
    stage.pool("p").await.condition(kind).is_some_and(|condition| condition.reason == reason)
}

#[tokio::test(start_paused = true)]
async fn a_pool_follows_its_class() {
    // covers: NP-READY-01, NP-READY-02, API-CD-11
    let stage = Stage::new().await;
    let mut foreign = objects::pool("foreign", json!({}));
    foreign["spec"]["template"]["spec"]["nodeClassRef"]["group"] = json!("eks.amazonaws.com");
    stage.create(POOLS, foreign).await;
    stage.create(POOLS, objects::pool("p", json!({}))).await;
    stage.until("it is ready", 5, || async { stage.pool("p").await.condition_status("Ready") == True }).await;
    stage.class_is_ready("default", false).await;
    stage.until("it is not", 5, || says(&stage, "NodeClassReady", "SubnetsNotFound")).await;
    assert_eq!(stage.pool("p").await.condition_status("Ready"), False);
    stage.class_is_ready("default", true).await;
    stage.until("it is again", 5, || async { stage.pool("p").await.condition_status("Ready") == True }).await;
    // Nobody has looked at the class yet.
    stage.patch(&format!("{CLASSES}/default/status"), json!({"status": {"conditions": null}})).await;
    stage.until("nobody knows", 5, || says(&stage, "NodeClassReady", "NodeClassReadinessUnknown")).await;
    assert_eq!(stage.pool("p").await.condition_status("NodeClassReady"), False);
    stage.patch(&format!("{CLASSES}/default"), json!({"metadata": {"finalizers": ["example.com/mine"]}})).await;
    stage.delete(&format!("{CLASSES}/default")).await;
    stage.until("its class is going", 5, || says(&stage, "NodeClassReady", "NodeClassTerminating")).await;
    stage.patch(&format!("{CLASSES}/default"), json!({"metadata": {"finalizers": null}})).await;
    stage.until("its class is gone", 5, || says(&stage, "NodeClassReady", "NodeClassNotFound")).await;
    let foreign = stage.pool("foreign").await;
    assert!(foreign.condition("NodeClassReady").is_none() && foreign.condition("ValidationSucceeded").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_cannot_work_says_why() {
    // covers: NP-VALID-01, API-CD-10
    let stage = Stage::new().await;
    let twice = json!({"taints": [{"key": "a", "effect": "NoSchedule"}], "startupTaints": [{"key": "a", "effect": "NoSchedule"}]});
    stage.create(POOLS, objects::pool("p", twice)).await;
    stage.until("it says so", 5, || says(&stage, "ValidationSucceeded", "NodePoolValidationFailed")).await;
    let pool = stage.pool("p").await;
    assert_eq!((pool.condition_status("ValidationSucceeded"), pool.condition_status("Ready")), (False, False));
    let why = pool.condition("ValidationSucceeded").unwrap().message.clone();
    assert!(why.contains("spec.template.spec.startupTaints[0]"), "{why}");
    stage.patch(&format!("{POOLS}/p"), json!({"spec": {"template": {"spec": {"startupTaints": null}}}})).await;
    stage.until("it is well", 5, || async { stage.pool("p").await.condition_status("Ready") == True }).await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_carries_the_hash_of_its_template() {
    // covers: NP-HASH-01
    let stage = Stage::new().await;
    stage.create(POOLS, objects::pool("p", json!({}))).await;
    let has_hash = || async {
        let pool = stage.pool("p").await;
        let annotations = pool.metadata.annotations.clone().unwrap_or_default();
        annotations.get(labels::NODEPOOL_HASH) == Some(&karpenter_api::nodepool_hash(&pool))
            && annotations.get(labels::NODEPOOL_HASH_VERSION).is_some_and(|version| version == "v3")
    };
    stage.until("it has its hash", 5, has_hash).await;
    let before = stage.pool("p").await.metadata.annotations.unwrap()[labels::NODEPOOL_HASH].clone();
    stage.patch(&format!("{POOLS}/p"), json!({"spec": {"template": {"spec": {"expireAfter": "99h"}}}})).await;
    stage.until("it follows", 5, has_hash).await;
    assert_ne!(stage.pool("p").await.metadata.annotations.unwrap()[labels::NODEPOOL_HASH], before);
}

#[tokio::test(start_paused = true)]
async fn a_pool_counts_what_its_nodes_have() {
    // covers: NP-COUNT-01, NP-COUNT-02, NP-COUNT-03, CP-I3
    let mut stage = Stage::new().await;
    let pool = stage.create(POOLS, objects::pool("p", json!({}))).await;
    let counted = |resource: &'static str, amount: &'static str, nodes: i64| {
        let stage = &stage;
        move || async move {
            let status = stage.pool("p").await.status.unwrap_or_default();
            let has = status.resources.unwrap_or_default().get(resource).is_some_and(|quantity| quantity.0 == amount);
            has && status.nodes == nodes
        }
    };
    stage.until("it counts zero", 10, counted("cpu", "0", 0)).await;
    stage.cloud.plan(|plan| (plan.cpu, plan.real_cpu) = (8, Some(6)));
    stage.create(CLAIMS, objects::claim_of(&pool, "p-1", json!({}))).await;
    stage.until("it counts what was bought", 15, counted("cpu", "8", 1)).await;
    stage.ready_node("p-1").await;
    stage.until("it counts what came", 15, counted("cpu", "6", 1)).await;
    stage.kill();
    stage.pass(60).await;
    stage.start();
    for _ in 0..20 {
        stage.pass(1).await;
        assert_eq!(stage.pool("p").await.status.unwrap().nodes, 1, "a restart writes no low numbers");
    }
    stage.delete(&format!("{CLAIMS}/p-1")).await;
    stage.claim_is_gone("p-1", 60).await;
    let none = || async { stage.pool("p").await.status.unwrap().nodes == 0 };
    stage.until("it counts zero again", 10, none).await;
}

async fn health_is(stage: &Stage, status: Status) -> bool {
    let pool = stage.pool("p").await;
    let kind = "NodeRegistrationHealthy";
    pool.condition(kind).is_some() && pool.condition_status(kind) == status
}

#[tokio::test(start_paused = true)]
async fn registrations_decide_a_pools_health() {
    // covers: NP-HEALTH-01, NP-HEALTH-03, NP-HEALTH-04, NP-HEALTH-06, NP-HEALTH-08, LC-REG-13, API-CD-12, CP-I4
    let mut stage = Stage::new().await;
    let pool = stage.create(POOLS, objects::pool("p", json!({}))).await;
    stage.until("it is unknown", 5, || health_is(&stage, Unknown)).await;
    stage.create(CLAIMS, objects::claim_of(&pool, "p-1", json!({}))).await;
    stage.ready_node("p-1").await;
    stage.until("it is healthy", 5, || health_is(&stage, True)).await;
    stage.kill();
    stage.start();
    stage.pass(30).await;
    assert!(health_is(&stage, True).await, "a restart changes nothing");
    stage.patch(&format!("{POOLS}/p"), json!({"spec": {"weight": 5}})).await;
    stage.until("a change makes it unknown", 5, || health_is(&stage, Unknown)).await;
    // The outcome of a claim that is none of the pool's does not count.
    let stranger = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000", "name": "p"}});
    let mut claim = objects::claim_of(&stranger, "stranger", json!({}));
    claim["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    stage.create(CLAIMS, claim).await;
    stage.ready_node("stranger").await;
    assert!(health_is(&stage, Unknown).await);
}

#[tokio::test(start_paused = true)]
async fn claims_and_nodes_of_older_versions_are_made_ours() {
    // covers: LC-HYD-01, LC-HYD-02, LC-HYD-03, API-NC-07
    let stage = Stage::new().await;
    let mut claim = objects::claim("one", json!({}));
    claim["metadata"].as_object_mut().unwrap().remove("labels");
    stage.create(CLAIMS, claim).await;
    let node = stage.ready_node("one").await;
    let label = |object: &Value| object["metadata"]["labels"][labels::EC2_NODE_CLASS].clone();
    assert_eq!(label(&stage.get(&format!("{CLAIMS}/one")).await.unwrap()), "default");
    let path = format!("{NODES}/{node}");
    stage.patch(&path, json!({"metadata": {"labels": {labels::EC2_NODE_CLASS: null}}})).await;
    let labelled = || async { label(&stage.get(&path).await.unwrap()) == "default" };
    stage.until("the node has it again", 5, labelled).await;
    stage.create(NODES, json!({"metadata": {"name": "theirs"}, "spec": {"providerID": "other:///x"}})).await;
    stage.pass(10).await;
    assert_eq!(label(&stage.get(&format!("{NODES}/theirs")).await.unwrap()), Value::Null);
}

fn repairing() -> Settings {
    Settings { node_repair: true, ..Settings::default() }
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_node_is_replaced_when_its_time_is_up() {
    // covers: LC-REPAIR-01, LC-REPAIR-02, LC-REPAIR-05, LC-REPAIR-06, API-CD-65
    let stage = Stage::with(repairing()).await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    stage.ready_node("one").await;
    let protected = json!({"annotations": {labels::DO_NOT_DISRUPT: "true"}});
    stage.create(DEPLOYMENTS, objects::deployment("web", 1, protected, json!({}))).await;
    stage.runs("web", 1).await;
    stage.silence("one", true).await;
    stage.pass(29 * 60).await;
    assert!(stage.claim("one").await.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()));
    stage.claim_is_gone("one", 600).await;
    assert_eq!(stage.metric("karpenter_nodeclaims_disrupted_total", "reason=\"unhealthy\""), 1.0);
    let labels = "condition=\"ready\"";
    assert_eq!(stage.metric("karpenter_nodeclaims_unhealthy_disrupted_total", labels), 1.0);
    assert!(stage.cloud.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_repaired_while_others_cannot_be_seen() {
    let stage = Stage::with(repairing()).await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    stage.ready_node("one").await;
    stage.silence("one", true).await;
    stage.pass(25 * 60).await;
    // Nobody tells any more whether it, or most others, are well.
    stage.reads.suffer("/nodes", Trouble::Unanswered);
    stage.pass(20 * 60).await;
    let claim = stage.claim("one").await.unwrap();
    assert!(claim.metadata.deletion_timestamp.is_none());
    let deadline = claim.metadata.annotations.unwrap_or_default();
    assert!(!deadline.contains_key(labels::TERMINATION_TIMESTAMP), "nor is its time up");
    stage.reads.recover();
    stage.claim_is_gone("one", 300).await;
}

#[tokio::test(start_paused = true)]
async fn too_many_unhealthy_nodes_are_somebody_elses_problem() {
    // covers: LC-REPAIR-03, LC-REPAIR-04, API-EV-13
    let stage = Stage::with(repairing()).await;
    let pool = stage.create(POOLS, objects::pool("p", json!({}))).await;
    for name in ["p-1", "p-2", "p-3"] {
        stage.create(CLAIMS, objects::claim_of(&pool, name, json!({}))).await;
    }
    for name in ["p-1", "p-2", "p-3"] {
        stage.ready_node(name).await;
    }
    stage.silence("p-1", true).await;
    stage.silence("p-2", true).await;
    stage.pass(40 * 60).await;
    let blocked = stage.events("NodeRepairBlocked").await;
    assert!(!blocked.is_empty() && blocked.iter().all(|(object, _)| object.starts_with("Node/")), "{blocked:?}");
    for name in ["p-1", "p-2", "p-3"] {
        assert!(stage.claim(name).await.unwrap().metadata.deletion_timestamp.is_none(), "{name}");
    }
    stage.silence("p-2", false).await;
    stage.claim_is_gone("p-1", 900).await;
    assert!(stage.claim("p-2").await.unwrap().metadata.deletion_timestamp.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_left_by_a_repair_that_never_came_is_taken_back() {
    // covers: LC-REPAIR-08, CP-G1, CP-G2
    use crate::scythe::When;
    for recovers in [true, false] {
        let mut stage = Stage::with(repairing()).await;
        stage.create(CLAIMS, objects::claim("one", json!({}))).await;
        stage.ready_node("one").await;
        stage.silence("one", true).await;
        stage.scythe.arm(When::Before, |effect| effect.has(&["DELETE", "nodeclaims/one"]));
        let scythe = stage.scythe.clone();
        stage.until("repair begins", 2_400, || async { scythe.is_dead() }).await;
        stage.kill();
        let annotated = || async {
            let annotations = stage.claim("one").await.and_then(|claim| claim.metadata.annotations).unwrap_or_default();
            annotations.contains_key(labels::TERMINATION_TIMESTAMP)
        };
        assert!(annotated().await);
        if recovers {
            stage.silence("one", false).await;
            stage.pass(60).await;
        }
        stage.start();
        match recovers {
            false => drop(stage.claim_is_gone("one", 120).await),
            true => {
                let annotated = || async {
                    let claim = stage.claim("one").await.unwrap();
                    !claim.metadata.annotations.unwrap_or_default().contains_key(labels::TERMINATION_TIMESTAMP)
                };
                stage.until("the deadline is taken back", 30, annotated).await;
                assert!(stage.claim("one").await.unwrap().metadata.deletion_timestamp.is_none());
            }
        }
    }
}
