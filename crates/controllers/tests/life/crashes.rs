//! The process dies between two effects, a new one starts, and nothing is lost, leaked or done twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use karpenter_api::conditions::Status::{self, True};
use karpenter_api::labels;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_apiserver::{Effect as Breakage, Fault};
use karpenter_provider::LaunchError;
use kube::{Api, Client};
use serde_json::json;

use crate::objects::{self, BUDGETS, CLAIMS, DEPLOYMENTS, NODES, POOLS};
use crate::scythe::{Effect, When};
use crate::stage::Stage;

async fn claim(client: Client, name: &str) -> Option<NodeClaim> {
    Api::<NodeClaim>::all(client).get_opt(name).await.unwrap()
}

async fn is_ready(client: Client, name: String) -> bool {
    claim(client, &name).await.is_some_and(|claim| claim.condition_status("Ready") == True)
}

async fn is_gone(client: Client, name: String) -> bool {
    claim(client, &name).await.is_none()
}

/// A claim's whole life: it becomes a node, a pod runs there, it is deleted and goes. The scythe may fall at any moment.
/// Afterwards everything must be as if it had not, and on the way no rule may have been broken.
async fn whole_life(stage: &mut Stage, name: &str) {
    let before = stage.scythe.done().len();
    stage.create(CLAIMS, objects::claim(name, json!({"terminationGracePeriod": "1h"}))).await;
    stage.survives("it becomes ready", 200, |client| is_ready(client, name.to_owned())).await;
    stage.create(DEPLOYMENTS, objects::deployment(name, 1, json!({}), json!({}))).await;
    stage.runs(name, 1).await;
    let lived = stage.scythe.done().len();
    stage.delete(&format!("{CLAIMS}/{name}")).await;
    stage.survives("it is gone", 200, |client| is_gone(client, name.to_owned())).await;
    stage.delete(&format!("{DEPLOYMENTS}/{name}")).await;
    // A sweep may still be needed; then nothing is left of anything.
    let cloud = stage.cloud.clone();
    stage.survives("no machine is left", 180, |_| std::future::ready(cloud.instances().is_empty())).await;
    let nodes = stage.list(NODES).await;
    assert!(nodes.is_empty(), "{nodes:?}");
    if stage.scythe.is_dead() {
        stage.kill();
        stage.start();
    }
    let effects = stage.scythe.done();
    nobody_left(&effects[before..lived]);
    judge(name, &effects[before..]);
}

/// Nobody leaves before the claim is deleted: neither a restart nor a server that fails disrupts a pod.
fn nobody_left(effects: &[Effect]) {
    let left = |effect: &&Effect| effect.has(&["/eviction"]) || effect.has(&["DELETE"]);
    assert_eq!(effects.iter().find(left), None);
}

/// The standing rules, over what was done in a claim's life. What they speak of must have happened: nothing comes before
/// something that never came.
fn judge(name: &str, effects: &[Effect]) {
    let done = |effect: &&Effect| effect.answer.starts_with('2') || effect.name.starts_with("cloud");
    let effects: Vec<&Effect> = effects.iter().filter(done).collect();
    let text = format!("{effects:#?}");
    let first = |what: &str, at: &[usize]| -> usize { *at.first().unwrap_or_else(|| panic!("no {what}: {text}")) };
    // One machine, and a finalizer before it.
    let created = positions(&effects, |effect| effect.has(&["cloud create", name]));
    let machines: std::collections::BTreeSet<&str> = created.iter().map(|at| effects[*at].answer.as_str()).collect();
    assert_eq!(machines.len(), 1, "one machine: {text}");
    let guarded = positions(&effects, |effect| effect.has(&["PATCH", "nodeclaims", labels::TERMINATION_FINALIZER]));
    assert!(first("finalizer", &guarded) < first("launch", &created), "launched before the finalizer: {text}");
    // The node is closed before anybody leaves.
    let left = positions(&effects, |effect| effect.has(&["/eviction"]) || effect.has(&["DELETE", "/pods/"]));
    let closed = positions(&effects, |effect| effect.has(&["PATCH", "/nodes/", labels::DISRUPTED_TAINT]));
    assert!(first("taint", &closed) < first("eviction", &left), "evicted from an open node: {text}");
    // Nobody is let go before the cloud has forgotten the machine, and no claim that was written since it was read.
    let forgotten = positions(&effects, |effect| effect.has(&["cloud delete"]) && effect.answer == "not found");
    let of_node = positions(&effects, |effect| effect.has(&["$deleteFromPrimitiveList/finalizers"]));
    let of_claim = positions(&effects, |effect| effect.has(&["PATCH", "nodeclaims", "\"finalizers\":[]"]));
    let forgotten = first("\"not found\" of the cloud", &forgotten);
    assert!(forgotten < first("release of the node", &of_node), "node released too early: {text}");
    assert!(forgotten < first("release of the claim", &of_claim), "claim released too early: {text}");
    assert!(of_claim.iter().all(|at| effects[*at].sent.contains("\"resourceVersion\"")), "{text}");
    // Whom they delete, they name.
    let named = effects.iter().filter(|effect| effect.has(&["DELETE"]) || effect.has(&["/eviction"]));
    assert!(named.clone().all(|effect| effect.sent.contains("\"uid\"")), "{text}");
}

fn positions(effects: &[&Effect], is: impl Fn(&Effect) -> bool) -> Vec<usize> {
    effects.iter().enumerate().filter(|(_, effect)| is(effect)).map(|(at, _)| at).collect()
}

/// How many effects there are in a life without a crash.
async fn effects_of_a_life(stage: &mut Stage) -> usize {
    let before = stage.scythe.done().len();
    whole_life(stage, "smooth").await;
    stage.scythe.done().len() - before
}

#[tokio::test(start_paused = true)]
async fn dying_before_any_effect_loses_nothing() {
    // covers: INV-2, INV-3, INV-4, INV-5, INV-8, CP-J4
    sweep(When::Before).await;
}

#[tokio::test(start_paused = true)]
async fn dying_after_any_effect_loses_nothing() {
    // covers: INV-2, INV-3, INV-4, INV-5, INV-8, CP-J4
    sweep(When::After).await;
}

#[tokio::test(start_paused = true)]
async fn two_controllers_at_once_do_no_more_harm_than_one() {
    // covers: INV-7
    let mut stage = Stage::new().await;
    // Another process that does not know that it leads no more.
    stage.start_another();
    for round in 0..3 {
        whole_life(&mut stage, &format!("twice-{round}")).await;
    }
    let effects = stage.scythe.done();
    let conflicts = effects.iter().filter(|effect| effect.answer == "409").count();
    assert!(conflicts > 0, "both were at work");
}

/// One life per effect, cut there.
async fn sweep(when: When) {
    let mut stage = Stage::new().await;
    let count = effects_of_a_life(&mut stage).await;
    assert!(count > 15, "{count}");
    for position in 0..count {
        let seen = Arc::new(AtomicUsize::new(0));
        stage.scythe.arm(when, move |_| seen.fetch_add(1, Ordering::Relaxed) == position);
        whole_life(&mut stage, &format!("life-{position}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_named_crash_point_of_a_claims_life() {
    // covers: CP-B1, CP-B2, CP-B3, CP-B4, CP-B7, CP-C2, CP-C5, CP-E1, CP-E2, CP-E4, CP-E5, CP-E6, CP-E8, CP-E10, CP-E11, CP-E12
    let mut stage = Stage::new().await;
    let claims = "PATCH /apis/karpenter.sh/v1/nodeclaims/";
    let statuses = "PUT /apis/karpenter.sh/v1/nodeclaims/";
    let nodes = "PATCH /api/v1/nodes/";
    let points: [(&str, When, Vec<&'static str>, &str); 18] = [
        ("b1", When::After, vec![claims, labels::TERMINATION_FINALIZER], "2"),
        ("b1-not-yet", When::Before, vec!["cloud create"], ""),
        ("b2", When::After, vec!["cloud create"], "test:"),
        ("b3", When::Before, vec![claims, "test.example/launched"], ""),
        ("b4", When::After, vec![claims, "test.example/launched"], "2"),
        ("b7", When::After, vec![statuses, "/status", "providerID"], "2"),
        ("c2", When::After, vec![nodes, labels::REGISTERED], "2"),
        ("c5", When::After, vec![nodes, labels::INITIALIZED], "2"),
        ("e1", When::Before, vec![claims, labels::TERMINATION_TIMESTAMP], ""),
        ("e2", When::After, vec![claims, labels::TERMINATION_TIMESTAMP], "2"),
        ("e4", When::After, vec![nodes, labels::DISRUPTED_TAINT], "2"),
        ("e5", When::Before, vec!["POST", "/eviction"], ""),
        ("e6", When::After, vec!["POST", "/eviction"], "201"),
        ("e8", When::Before, vec![statuses, "/status", "Draining"], ""),
        ("e10", When::After, vec!["cloud delete"], "stopping"),
        ("e11", When::After, vec!["cloud delete"], "not found"),
        ("e12", When::After, vec![nodes, "$deleteFromPrimitiveList/finalizers"], "2"),
        ("e12-late", When::Before, vec![claims, "\"finalizers\":[]"], ""),
    ];
    for (name, when, parts, answer) in points {
        let fell = Arc::new(AtomicUsize::new(0));
        let seen = fell.clone();
        stage.scythe.arm(when, move |effect| {
            let chosen = effect.has(&parts) && (when == When::Before || effect.answer.starts_with(answer));
            seen.fetch_add(usize::from(chosen), Ordering::Relaxed);
            chosen
        });
        whole_life(&mut stage, name).await;
        assert_eq!(fell.load(Ordering::Relaxed), 1, "{name}: the moment never came");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_deleted_while_its_launch_cannot_be_stored_takes_its_machine_along() {
    // covers: CP-B5, LC-LAUNCH-03, LC-LAUNCH-11
    let stage = Stage::new().await;
    let broken = Fault {
        methods: vec!["PATCH".into()],
        path_contains: "/nodeclaims/one".into(),
        per_mille: 1_000,
        times: None,
        effect: Breakage::InternalError,
    };
    // The finalizer is stored, and from then on nothing.
    let mut claim = objects::claim("one", json!({}));
    claim["metadata"]["finalizers"] = json!([labels::TERMINATION_FINALIZER]);
    stage.server().inject(broken);
    stage.create(CLAIMS, claim).await;
    stage.until("it is launched", 5, || async { stage.cloud.instances().len() == 1 }).await;
    stage.pass(60).await;
    let creates = stage.scythe.done().iter().filter(|effect| effect.has(&["cloud create"])).count();
    assert_eq!(creates, 1, "what is remembered is not bought again");
    stage.delete(&format!("{CLAIMS}/one")).await;
    stage.pass(5).await;
    stage.server().clear_faults();
    stage.claim_is_gone("one", 90).await;
    assert!(stage.cloud.instances().is_empty(), "gone with its claim, not swept later");
    let effects = stage.scythe.done();
    let gone = effects.iter().position(|effect| effect.has(&["cloud delete"]) && effect.answer == "not found");
    let released = effects.iter().position(|effect| effect.has(&["PATCH", "\"finalizers\":[]"]));
    assert!(gone.zip(released).is_some_and(|(gone, released)| gone < released), "{effects:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_deleted_while_nobody_remembers_its_machine_leaves_it_to_the_sweep() {
    // covers: CP-B5, INV-1, LC-GC-07, LC-TERM-41
    let mut stage = Stage::new().await;
    stage.scythe.arm(When::After, |effect| effect.has(&["cloud create"]));
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let scythe = stage.scythe.clone();
    stage.until("it dies", 5, || async { scythe.is_dead() }).await;
    stage.kill();
    stage.delete(&format!("{CLAIMS}/one")).await;
    stage.start();
    stage.claim_is_gone("one", 10).await;
    assert_eq!(stage.cloud.instances().len(), 1, "nobody knows whose it is");
    let asked = |effect: &Effect| effect.has(&["cloud delete"]);
    assert!(!stage.scythe.done().iter().any(asked), "nor what the cloud could be asked to stop");
    // Thirty seconds, a sweep, and the time it takes to stop.
    stage.until("it is swept", 30 + 10 + 12 + 5, || async { stage.cloud.instances().is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_launch_is_refused_again_or_works_after_all() {
    // covers: CP-B6
    for again in [true, false] {
        let mut stage = Stage::new().await;
        let refusal = || LaunchError::InsufficientCapacity { message: "none left".into() };
        stage.cloud.refuse(refusal());
        if again {
            stage.cloud.refuse(refusal());
        }
        stage.scythe.arm(When::Before, |effect| effect.has(&["DELETE", "nodeclaims/one"]));
        stage.create(CLAIMS, objects::claim("one", json!({}))).await;
        stage.dies_and_comes_back(10).await;
        match again {
            true => drop(stage.claim_is_gone("one", 10).await),
            false => drop(stage.ready_node("one").await),
        }
        assert_eq!(stage.cloud.instances().len(), usize::from(!again));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_registration_only_the_node_knows_of_is_drained() {
    // covers: CP-C3, LC-REG-15
    let mut stage = Stage::new().await;
    stage
        .scythe
        .arm(When::After, |effect| effect.has(&["PATCH /api/v1/nodes/", labels::REGISTERED]) && effect.answer == "200");
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let scythe = stage.scythe.clone();
    stage.until("it dies", 60, || async { scythe.is_dead() }).await;
    stage.kill();
    stage.create(DEPLOYMENTS, objects::deployment("web", 2, json!({}), json!({}))).await;
    stage.runs("web", 2).await;
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    let claim = stage.claim("one").await.unwrap();
    assert_ne!(claim.condition_status("Registered"), True);
    stage.delete(&format!("{CLAIMS}/one")).await;
    stage.start();
    stage.pass(300).await;
    assert_eq!(stage.running("web").await.len(), 2, "they hold the drain open, as they may");
    assert_eq!(stage.cloud.instances().len(), 1);
    stage.delete(&format!("{BUDGETS}/web")).await;
    stage.claim_is_gone("one", 60).await;
}

#[tokio::test(start_paused = true)]
async fn outcomes_may_be_counted_twice_and_the_condition_stays_right() {
    // covers: CP-C4, CP-D1, CP-I4
    let mut stage = Stage::new().await;
    let pool = stage.create(POOLS, objects::pool("p", json!({}))).await;
    let healthy = |pool: &NodePool| pool.condition_status("NodeRegistrationHealthy");
    // The pool was told that the node registered, the claim was not.
    stage.scythe.arm(When::After, |effect| {
        effect.has(&["PUT", "nodepools/p/status", "NodeRegistrationHealthy\",\"status\":\"True"])
            || effect.has(&[
                "PUT",
                "nodepools/p/status",
                "\"type\":\"NodeRegistrationHealthy\"",
                "\"reason\":\"NodeRegistrationHealthy\"",
            ])
    });
    stage.create(CLAIMS, objects::claim_of(&pool, "p-1", json!({}))).await;
    stage.dies_and_comes_back(60).await;
    stage.ready_node("p-1").await;
    assert_eq!(healthy(&stage.pool("p").await), True);

    // The pool was told of a second failure, and the claim is still there.
    for _ in 0..100 {
        stage.cloud.refuse(LaunchError::create("denied", "Unauthorized", "a policy is missing"));
    }
    stage.scythe.arm(When::Before, |effect| effect.has(&["DELETE", "nodeclaims/p-"]));
    for name in ["p-2", "p-3", "p-4"] {
        stage.create(CLAIMS, objects::claim_of(&pool, name, json!({}))).await;
    }
    stage.dies_and_comes_back(400).await;
    for name in ["p-2", "p-3", "p-4"] {
        stage.claim_is_gone(name, 120).await;
    }
    assert_eq!(healthy(&stage.pool("p").await), Status::False);
    assert!(stage.is("p-1", "Ready", True, "Ready").await);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_sent_is_not_counted_again() {
    // covers: CP-D2, CP-F1, INV-4
    let mut stage = Stage::new().await;
    stage.scythe.arm(When::After, |effect| effect.has(&["DELETE", "nodeclaims/one"]));
    stage.create(CLAIMS, objects::claim("one", json!({"expireAfter": "5m"}))).await;
    stage.dies_and_comes_back(400).await;
    let uid = stage.claim("one").await.unwrap().metadata.uid.unwrap();
    stage.claim_is_gone("one", 60).await;
    assert_eq!(stage.metric("karpenter_nodeclaims_disrupted_total", ""), 0.0, "the count died with its process");
    let effects = stage.scythe.done();
    let mut sent = effects.iter().filter(|effect| effect.has(&["DELETE", "nodeclaims/one"])).peekable();
    assert!(sent.peek().is_some() && sent.all(|effect| effect.sent.contains(&uid)), "this very claim: {effects:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_is_not_sent_again() {
    // covers: CP-E7
    let mut stage = Stage::new().await;
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    stage.create(CLAIMS, objects::claim("one", json!({"terminationGracePeriod": "2m"}))).await;
    stage.ready_node("one").await;
    // The pod takes all the time it is given.
    let slow = json!({"terminationGracePeriodSeconds": 100, "containers": [{"name": "main", "image": "example.com/app:1",
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "100"]}}}}]});
    stage.create(DEPLOYMENTS, objects::deployment("web", 1, json!({}), slow)).await;
    stage.runs("web", 1).await;
    stage.scythe.arm(When::After, |effect| effect.has(&["DELETE", "/pods/web"]));
    stage.delete(&format!("{CLAIMS}/one")).await;
    stage.dies_and_comes_back(120).await;
    stage.claim_is_gone("one", 200).await;
    let sent = stage.scythe.done().iter().filter(|effect| effect.has(&["DELETE", "/pods/web"])).count();
    assert_eq!(sent, 1, "the pod was going in time");
}

#[tokio::test(start_paused = true)]
async fn what_volumes_a_node_waits_for_is_read_anew() {
    // covers: CP-E9
    let mut stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let node = stage.ready_node("one").await;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let attachment = |name: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": name, "finalizers": ["example.com/held"]},
        "spec": {"attacher": "other.example.com", "nodeName": node, "source": {"persistentVolumeName": name}}})
    };
    stage.create(attachments, attachment("a")).await;
    stage.delete(&format!("{CLAIMS}/one")).await;
    let awaiting = || async { stage.is("one", "VolumesDetached", Status::Unknown, "AwaitingVolumeDetachment").await };
    stage.until("the volume is awaited", 30, awaiting).await;
    stage.kill();
    stage.create(attachments, attachment("b")).await;
    stage.patch(&format!("{attachments}/a"), json!({"metadata": {"finalizers": null}})).await;
    stage.start();
    stage.pass(60).await;
    assert_eq!(stage.cloud.instances().len(), 1, "another volume is attached");
    stage.patch(&format!("{attachments}/b"), json!({"metadata": {"finalizers": null}})).await;
    stage.delete_if_there(&format!("{attachments}/b")).await;
    stage.claim_is_gone("one", 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_got_half_through_is_finished() {
    // covers: CP-F2
    let mut stage = Stage::alone().await;
    for name in ["a", "b", "c"] {
        stage.create(CLAIMS, objects::claim(name, json!({}))).await;
    }
    for name in ["a", "b", "c"] {
        stage.ready_node(name).await;
        stage.lose_machine(name).await;
    }
    let seen = AtomicUsize::new(0);
    stage.scythe.arm(When::Before, move |effect| {
        effect.has(&["DELETE", "nodeclaims/"]) && seen.fetch_add(1, Ordering::Relaxed) == 1
    });
    stage.dies_and_comes_back(400).await;
    for name in ["a", "b", "c"] {
        stage.claim_is_gone(name, 300).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hash_migration_that_got_half_through_is_finished() {
    // covers: CP-I1, NP-HASH-08, NP-HASH-09
    let mut stage = Stage::new().await;
    let pool = stage.create(POOLS, objects::pool("p", json!({}))).await;
    let names = ["p-1", "p-2"];
    for name in ["p-1", "p-2", "p-3"] {
        stage.create(CLAIMS, objects::claim_of(&pool, name, json!({}))).await;
        stage.ready_node(name).await;
    }
    stage.kill();
    // One has drifted: whether it still has cannot be told by a hash of another version.
    let mut drifted = stage.get(&format!("{CLAIMS}/p-3")).await.unwrap()["status"]["conditions"].clone();
    drifted.as_array_mut().unwrap().push(json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    stage.patch(&format!("{CLAIMS}/p-3/status"), json!({"status": {"conditions": drifted}})).await;
    let old = json!({"metadata": {"annotations": {labels::NODEPOOL_HASH: "1", labels::NODEPOOL_HASH_VERSION: "v2"}}});
    stage.patch(&format!("{POOLS}/p"), old.clone()).await;
    for name in ["p-1", "p-2", "p-3"] {
        stage.patch(&format!("{CLAIMS}/{name}"), old.clone()).await;
    }
    stage.start();
    stage.scythe.arm(When::After, |effect| effect.has(&["PATCH", "nodeclaims/p-1", labels::NODEPOOL_HASH_VERSION]));
    stage.dies_and_comes_back(10).await;
    stage.pass(5).await;
    let pool = stage.pool("p").await;
    let want = karpenter_api::nodepool_hash(&pool);
    assert_eq!(pool.metadata.annotations.as_ref().unwrap()[labels::NODEPOOL_HASH], want);
    for name in names {
        let annotations = stage.claim(name).await.unwrap().metadata.annotations.unwrap();
        assert_eq!(
            (annotations[labels::NODEPOOL_HASH].as_str(), annotations[labels::NODEPOOL_HASH_VERSION].as_str()),
            (want.as_str(), "v3")
        );
    }
    let drifted = stage.get(&format!("{CLAIMS}/p-3")).await.unwrap();
    let annotations = &drifted["metadata"]["annotations"];
    assert_eq!(
        (&annotations[labels::NODEPOOL_HASH], &annotations[labels::NODEPOOL_HASH_VERSION]),
        (&json!("1"), &json!("v3"))
    );
    assert!(objects::condition(&drifted, "Drifted").is_some_and(|condition| condition["status"] == "True"));
    // The claims were all written before the pool, and those that were written before the crash not again.
    let effects = stage.scythe.done();
    for name in ["p-1", "p-2", "p-3"] {
        let claim = format!("nodeclaims/{name}");
        let migrated = |effect: &&Effect| effect.has(&["PATCH", &claim, labels::NODEPOOL_HASH_VERSION, "v3"]);
        assert_eq!(effects.iter().filter(migrated).count(), 1, "{name}");
    }
    let last_claim =
        effects.iter().rposition(|effect| effect.has(&["PATCH", "nodeclaims/", labels::NODEPOOL_HASH_VERSION]));
    let pool = effects.iter().rposition(|effect| effect.has(&["PATCH", "nodepools/p", labels::NODEPOOL_HASH_VERSION]));
    assert!(last_claim.zip(pool).is_some_and(|(last_claim, pool)| last_claim < pool), "{effects:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_rough_day_of_the_api_server_loses_nothing() {
    // covers: LC-GEN-11, INV-2, INV-3
    let mut stage = Stage::new().await;
    let fault =
        |effect: Breakage| Fault { methods: Vec::new(), path_contains: "/".into(), per_mille: 40, times: None, effect };
    for round in 0..4 {
        let mut faults = Vec::new();
        for effect in [
            Breakage::Conflict,
            Breakage::InternalError,
            Breakage::Unavailable,
            Breakage::Timeout,
            Breakage::Latency(std::time::Duration::from_millis(700)),
        ] {
            let mut fault = fault(effect);
            // Only what the controllers write; users and kubelets have their own troubles.
            fault.path_contains = ["/nodeclaims", "/nodes/", "/eviction", "/nodepools"][round].into();
            fault.methods = vec!["PATCH".into(), "POST".into(), "DELETE".into()];
            fault.per_mille = if round == 1 { 40 } else { 100 };
            faults.push(fault);
        }
        stage.server().drop_watches();
        whole_life_through(&mut stage, &format!("rough-{round}"), &faults).await;
    }
}

fn break_server(stage: &Stage, faults: &[Fault]) {
    faults.iter().for_each(|fault| stage.server().inject(fault.clone()));
}

/// A whole life on a server that fails; only the user's own requests are spared.
async fn whole_life_through(stage: &mut Stage, name: &str, faults: &[Fault]) {
    let before = stage.scythe.done().len();
    stage.create(CLAIMS, objects::claim(name, json!({}))).await;
    break_server(stage, faults);
    stage.survives("it becomes ready", 400, |client| is_ready(client, name.to_owned())).await;
    stage.server().expire_watches();
    stage.server().clear_faults();
    stage.create(DEPLOYMENTS, objects::deployment(name, 2, json!({}), json!({}))).await;
    stage.runs(name, 2).await;
    let lived = stage.scythe.done().len();
    stage.delete(&format!("{CLAIMS}/{name}")).await;
    break_server(stage, faults);
    stage.survives("it is gone", 600, |client| is_gone(client, name.to_owned())).await;
    stage.server().clear_faults();
    stage.delete(&format!("{DEPLOYMENTS}/{name}")).await;
    let cloud = stage.cloud.clone();
    stage.survives("no machine is left", 180, |_| std::future::ready(cloud.instances().is_empty())).await;
    let effects = stage.scythe.done();
    nobody_left(&effects[before..lived]);
    judge(name, &effects[before..]);
    stage.pass(30).await;
}
