//! The end of nodes: how pods leave, what may hold them up, and what ends a node in the first place.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::conditions::Status::{False, True, Unknown};
use karpenter_api::labels;
use karpenter_controllers::termination::{Evictions, SharedEntries, Termination};
use karpenter_index::{Key, Kind, Unreadable};
use serde_json::{Value, json};

use crate::objects::{self, BUDGETS, CLAIMS, DEPLOYMENTS, NODES, PODS, POOLS};
use crate::stage::Stage;

fn protected() -> Value {
    json!({"annotations": {labels::DO_NOT_DISRUPT: "true"}})
}

/// A ready claim with so many pods of an app on its node; answers the node's name.
async fn occupied(stage: &Stage, claim: Value, app: &str, count: usize, metadata: Value, spec: Value) -> String {
    let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
    stage.create(CLAIMS, claim).await;
    let node = stage.ready_node(&name).await;
    stage.create(DEPLOYMENTS, objects::deployment(app, count, metadata, spec)).await;
    stage.runs(app, count).await;
    node
}

async fn delete_claim(stage: &Stage, name: &str) {
    stage.delete(&format!("{CLAIMS}/{name}")).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_a_drain_open() {
    // covers: LC-TERM-10, LC-TERM-26, LC-TERM-31
    let stage = Stage::new().await;
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    let node = occupied(&stage, objects::claim("one", json!({})), "web", 2, json!({}), json!({})).await;
    delete_claim(&stage, "one").await;
    stage.pass(3_600).await;
    assert_eq!(stage.running("web").await.len(), 2, "no pod was touched");
    assert!(stage.node(&node).await.is_some() && stage.cloud.instances().len() == 1);
    assert!(stage.is("one", "Drained", Unknown, "Draining").await);
    let blocked = stage.metric("karpenter_pods_eviction_requests_total", "code=\"429\"");
    // Two pods, each at most every five minutes: as long as nothing changes, the answer is known.
    assert!((20.0..40.0).contains(&blocked), "{blocked}");
    let told = stage.events("FailedDraining").await;
    assert!(told.iter().all(|(object, _)| *object == format!("Node/{node}")), "{told:?}");
    stage.delete(&format!("{BUDGETS}/web")).await;
    stage.claim_is_gone("one", 60).await;
}

scenarios![
    a_node_is_drained_before_its_machine_goes,
    an_empty_node_is_watched_for_five_seconds,
    two_budgets_over_one_pod_block_it,
    removing_the_annotation_lets_the_pod_go,
    an_annotation_nobody_understands_protects_nobody,
    tiers_leave_in_order,
    deleting_the_node_is_deleting_the_claim,
    deleting_a_pool_ends_its_nodes_gracefully,
    a_users_finalizer_keeps_the_object_and_nothing_else,
    a_node_whose_machine_is_gone_is_not_drained,
];

async fn a_node_is_drained_before_its_machine_goes(stage: &Stage) {
    // covers: LC-TERM-01, LC-TERM-11, LC-TERM-12, LC-TERM-13, LC-TERM-18, LC-TERM-20, LC-TERM-25, LC-TERM-26, LC-TERM-27, LC-TERM-28, LC-TERM-39, LC-TERM-40, LC-TERM-42, LC-GEN-16, API-CD-26, API-CD-28, API-EV-14, API-EV-16, API-EV-25, API-EV-26
    let node = occupied(stage, objects::claim("old", json!({})), "web", 3, json!({}), json!({})).await;
    stage.create(CLAIMS, objects::claim("new", json!({}))).await;
    let other = stage.ready_node("new").await;
    delete_claim(stage, "old").await;
    let draining = || async { stage.is("old", "Drained", Unknown, "Draining").await };
    stage.until("it drains", 5, draining).await;
    let object = stage.get(&format!("{NODES}/{node}")).await.unwrap();
    assert_eq!(object["metadata"]["labels"][labels::EXCLUDE_FROM_LOAD_BALANCERS], "karpenter");
    let taints = object["spec"]["taints"].as_array().unwrap();
    assert!(taints.iter().any(|taint| taint["key"] == labels::DISRUPTED_TAINT && taint["effect"] == "NoSchedule"));
    let stopping = || async { stage.is("old", "InstanceTerminating", True, "InstanceTerminating").await };
    stage.until("the machine stops", 60, stopping).await;
    assert!(
        stage.is("old", "Drained", True, "Drained").await
            && stage.is("old", "VolumesDetached", True, "VolumesDetached").await
    );
    assert!(stage.node(&node).await.is_some(), "the node stays until the machine is gone");
    stage.claim_is_gone("old", 60).await;
    assert!(stage.node(&node).await.is_none());
    stage.runs("web", 3).await;
    assert!(stage.running("web").await.iter().all(|(_, on)| *on == other));
    assert_eq!(stage.cloud.instances().len(), 1);

    // Everything in order: no eviction before the deletion, no release before the cloud said so.
    if stage.is_real() {
        return;
    }
    let effects = stage.scythe.done();
    let first = |parts: &[&str]| effects.iter().position(|effect| effect.has(parts)).unwrap();
    let taint = first(&["PATCH", "/nodes/", labels::DISRUPTED_TAINT]);
    let evicted = first(&["POST", "/eviction"]);
    let stopped = first(&["cloud delete"]);
    let gone = effects.iter().position(|effect| effect.has(&["cloud delete"]) && effect.answer == "not found").unwrap();
    let released = first(&["PATCH", "/nodes/", "$deleteFromPrimitiveList/finalizers"]);
    assert!(taint < evicted && evicted < stopped && stopped < gone && gone < released, "{effects:#?}");
    assert!(effects.iter().filter(|effect| effect.has(&["/eviction"])).all(|effect| effect.sent.contains("\"uid\"")));

    assert_eq!(stage.metric("karpenter_pods_eviction_requests_total", "code=\"200\""), 3.0);
    assert_eq!(stage.metric("karpenter_pods_drained_total", "Forceful Termination"), 3.0);
    assert_eq!(stage.metric("karpenter_nodes_drained_total", ""), 1.0);
    assert_eq!(stage.metric("karpenter_nodes_terminated_total", "zone-a"), 1.0);
    assert_eq!(stage.metric("karpenter_nodeclaims_terminated_total", "zone-a"), 1.0);
    assert_eq!(stage.metric("karpenter_nodeclaims_instance_termination_duration_seconds_count", ""), 1.0);
    assert_eq!(stage.metric("karpenter_nodes_lifetime_duration_seconds_count", ""), 1.0);
    assert_eq!(stage.events("Evicted").await.len(), 3);
    for (reason, message) in [
        ("Registered", "Status condition transitioned, Type: Registered, Status: Unknown -> True, Reason: Registered"),
        ("Finalized", "Finalized karpenter.sh/termination"),
    ] {
        let events = stage.events(reason).await;
        assert!(events.contains(&("NodeClaim/old".to_owned(), message.to_owned())), "{reason}: {events:?}");
    }
    assert!(
        stage.events("FailedDraining").await.iter().any(|(_, text)| text.ends_with("3 pods are waiting to be evicted"))
    );
}

async fn an_empty_node_is_watched_for_five_seconds(stage: &Stage) {
    // covers: LC-TERM-19
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    stage.ready_node("one").await;
    delete_claim(stage, "one").await;
    let took = stage.until("it is drained", 30, || async { stage.is("one", "Drained", True, "Drained").await }).await;
    assert!((4.0..7.0).contains(&took), "{took}");
}

async fn two_budgets_over_one_pod_block_it(stage: &Stage) {
    // covers: LC-TERM-26
    for name in ["a", "b"] {
        let mut budget = objects::budget("web", 1);
        budget["metadata"]["name"] = json!(name);
        stage.create(BUDGETS, budget).await;
    }
    occupied(stage, objects::claim("one", json!({})), "web", 1, json!({}), json!({})).await;
    delete_claim(stage, "one").await;
    stage.pass(20).await;
    assert_eq!(stage.running("web").await.len(), 1);
    assert!(stage.metric("karpenter_pods_eviction_requests_total", "code=\"500\"") > 0.0);
    // Both: the one that stays need not know of the pod yet, which counted for the other.
    for name in ["a", "b"] {
        stage.delete(&format!("{BUDGETS}/{name}")).await;
    }
    stage.claim_is_gone("one", 60).await;
}

#[tokio::test(start_paused = true)]
async fn protected_pods_hold_a_drain_open_until_the_protection_ends() {
    // covers: LC-TERM-31, LC-POD-09, LC-POD-11, API-EV-23, API-EV-24
    let stage = Stage::new().await;
    let metadata = json!({"annotations": {labels::DO_NOT_DISRUPT: "20m"}});
    occupied(&stage, objects::claim("one", json!({})), "job", 1, metadata, json!({})).await;
    delete_claim(&stage, "one").await;
    stage.pass(1_000).await;
    assert_eq!(stage.running("job").await.len(), 1);
    assert!(!stage.events("DoNotDisruptUntil").await.is_empty());
    assert_eq!(stage.metric("karpenter_pods_eviction_requests_total", ""), 0.0, "not even asked");
    stage.claim_is_gone("one", 300).await;
    assert!(!stage.events("DoNotDisruptGracePeriodElapsed").await.is_empty());
}

async fn an_annotation_nobody_understands_protects_nobody(stage: &Stage) {
    // covers: LC-POD-11, API-EV-22
    let metadata = json!({"annotations": {labels::DO_NOT_DISRUPT: "yes"}});
    occupied(stage, objects::claim("one", json!({})), "job", 1, metadata, json!({})).await;
    delete_claim(stage, "one").await;
    stage.claim_is_gone("one", 60).await;
    assert_eq!(stage.events("InvalidDoNotDisruptAnnotation").await.len(), 1);
}

async fn removing_the_annotation_lets_the_pod_go(stage: &Stage) {
    // covers: LC-TERM-31
    occupied(stage, objects::claim("one", json!({})), "job", 1, protected(), json!({})).await;
    delete_claim(stage, "one").await;
    stage.pass(if stage.is_real() { 20 } else { 600 }).await;
    let (pod, _) = stage.running("job").await.remove(0);
    stage.patch(&format!("{PODS}/{pod}"), json!({"metadata": {"annotations": {labels::DO_NOT_DISRUPT: null}}})).await;
    stage.claim_is_gone("one", 60).await;
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_bounds_the_drain_whatever_protects_the_pods() {
    // covers: LC-TERM-07, LC-TERM-09, LC-TERM-15, LC-TERM-29, LC-TERM-44, LC-TERM-45, API-EV-15, API-EV-18
    let stage = Stage::new().await;
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    let claim = objects::claim("one", json!({"terminationGracePeriod": "10m"}));
    let node = occupied(&stage, claim, "web", 1, json!({}), json!({"terminationGracePeriodSeconds": 120})).await;
    let more = objects::deployment("job", 1, protected(), json!({"terminationGracePeriodSeconds": 30}));
    stage.create(DEPLOYMENTS, more).await;
    stage.runs("job", 1).await;
    let start = tokio::time::Instant::now();
    delete_claim(&stage, "one").await;
    stage.pass(2).await;
    let claim = stage.claim("one").await.unwrap();
    let deletion = claim.metadata.deletion_timestamp.clone().unwrap().0;
    let deadline = deletion + jiff::SignedDuration::from_mins(10);
    assert_eq!(claim.metadata.annotations.unwrap()[labels::TERMINATION_TIMESTAMP], deadline.to_string());
    stage.pass(470).await;
    assert_eq!((stage.running("web").await.len(), stage.running("job").await.len()), (1, 1));
    stage.until("the one with the longer grace goes", 15, || async { stage.running("web").await.is_empty() }).await;
    assert_eq!(stage.running("job").await.len(), 1);
    stage.until("then the other", 100, || async { stage.running("job").await.is_empty() }).await;
    stage.claim_is_gone("one", 120).await;
    let took = start.elapsed().as_secs();
    assert!((570..=660).contains(&took), "{took}");
    let told = stage.events("Disrupted").await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().any(|(_, text)| text.contains("of its 120 terminationGracePeriodSeconds")), "{told:?}");
    let deadlines: Vec<String> =
        stage.events("TerminationGracePeriodExpiring").await.into_iter().map(|(object, _)| object).collect();
    assert!(deadlines.contains(&"NodeClaim/one".to_owned()) && deadlines.contains(&format!("Node/{node}")));
    let forced: Vec<_> = stage.scythe.done().into_iter().filter(|effect| effect.has(&["DELETE", "/pods/"])).collect();
    assert!(
        forced.iter().all(|effect| effect.sent.contains("\"uid\"") && effect.sent.contains("gracePeriodSeconds")),
        "{forced:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_read_stops_the_node_where_it_is() {
    // covers: LC-TERM-08, LC-TERM-09
    let stage = Stage::new().await;
    let mut claim = objects::claim("one", json!({"terminationGracePeriod": "10m"}));
    claim["metadata"]["annotations"] = json!({labels::TERMINATION_TIMESTAMP: "soon"});
    occupied(&stage, claim, "web", 1, json!({}), json!({})).await;
    delete_claim(&stage, "one").await;
    stage.pass(900).await;
    assert_eq!(stage.running("web").await.len(), 1);
    let claim = stage.claim("one").await.unwrap();
    assert_eq!(claim.metadata.annotations.unwrap()[labels::TERMINATION_TIMESTAMP], "soon", "never changed");
    let passed = json!({"metadata": {"annotations": {labels::TERMINATION_TIMESTAMP: "2026-01-01T00:00:00Z"}}});
    stage.patch(&format!("{CLAIMS}/one"), passed).await;
    stage.claim_is_gone("one", 120).await;
}

async fn tiers_leave_in_order(stage: &Stage) {
    // covers: LC-TERM-14, LC-TERM-16, LC-TERM-17, LC-POD-08
    let daemons = "/apis/apps/v1/namespaces/default/daemonsets";
    stage.create(daemons, objects::daemon_set("logs", json!({}))).await;
    stage.create(daemons, objects::daemon_set("network", json!({"tolerations": [{"operator": "Exists"}]}))).await;
    let node = occupied(stage, objects::claim("one", json!({})), "web", 2, json!({}), json!({})).await;
    let critical = json!({"priorityClassName": "system-cluster-critical"});
    stage.create(DEPLOYMENTS, objects::deployment("dns", 1, json!({}), critical)).await;
    for app in ["dns", "logs", "network"] {
        stage.runs(app, 1).await;
    }
    let on_node = stage.list(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")).await;
    assert_eq!(on_node.len(), 5);
    delete_claim(stage, "one").await;
    stage.claim_is_gone("one", 120).await;
    if stage.is_real() {
        return;
    }
    let effects = stage.scythe.done();
    let evicted: Vec<String> = effects
        .iter()
        .filter(|effect| effect.has(&["/eviction"]) && effect.answer == "201")
        .map(|effect| {
            let pod = effect.name.rsplit('/').nth(1).unwrap();
            pod.split('-').next().unwrap().to_owned()
        })
        .collect();
    assert_eq!(evicted, ["web", "web", "logs", "dns"], "and the one that tolerates everything stays");
}

#[tokio::test(start_paused = true)]
async fn expiry_waits_for_nobody_and_its_drain_for_everybody() {
    // covers: LC-EXP-01, LC-EXP-02, LC-EXP-05, LC-EXP-06, LC-GEN-25
    let stage = Stage::new().await;
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    let claim = objects::claim("one", json!({"expireAfter": "1h"}));
    occupied(&stage, claim, "web", 2, json!({}), json!({})).await;
    let deleting =
        || async { stage.claim("one").await.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()) };
    stage.pass(3_480).await;
    assert!(!deleting().await);
    stage.until("it expires", 121, deleting).await;
    stage.pass(600).await;
    assert_eq!(stage.running("web").await.len(), 2, "the drain respects the budget");
    assert_eq!(stage.metric("karpenter_nodeclaims_disrupted_total", "reason=\"expired\""), 1.0);
    assert_eq!(stage.metric("karpenter_pods_disruption_initiated_total", "reason=\"expired\""), 2.0);
    stage.delete(&format!("{BUDGETS}/web")).await;
    stage.claim_is_gone("one", 60).await;
}

#[tokio::test(start_paused = true)]
async fn claims_expire_that_never_became_nodes() {
    // covers: LC-EXP-06
    let stage = Stage::new().await;
    stage.cloud.plan(|plan| plan.dud = true);
    stage.create(CLAIMS, objects::claim("dud", json!({"expireAfter": "5m"}))).await;
    stage.pass(295).await;
    assert!(stage.claim("dud").await.unwrap().metadata.deletion_timestamp.is_none());
    stage.claim_is_gone("dud", 60).await;
    assert_eq!(stage.metric("karpenter_nodeclaims_disrupted_total", "expired"), 1.0);
}

async fn deleting_the_node_is_deleting_the_claim(stage: &Stage) {
    // covers: LC-TERM-02, CP-E3
    let claim = objects::claim("one", json!({"terminationGracePeriod": "1h"}));
    let node = occupied(stage, claim, "web", 1, json!({}), json!({})).await;
    stage.delete(&format!("{NODES}/{node}")).await;
    stage.claim_is_gone("one", 60).await;
    assert!(stage.node(&node).await.is_none() && stage.cloud.instances().is_empty());
    assert_eq!(stage.metric("karpenter_pods_eviction_requests_total", "code=\"200\""), 1.0, "gracefully");
}

async fn deleting_a_pool_ends_its_nodes_gracefully(stage: &Stage) {
    // covers: LC-GEN-15
    let pool = stage.create(POOLS, objects::pool("p", json!({}))).await;
    occupied(stage, objects::claim_of(&pool, "p-1", json!({})), "web", 2, json!({}), json!({})).await;
    stage.delete(&format!("{POOLS}/p")).await;
    stage.claim_is_gone("p-1", 90).await;
    assert_eq!(stage.metric("karpenter_pods_eviction_requests_total", "code=\"200\""), 2.0);
    assert!(stage.cloud.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn volumes_are_detached_before_the_machine_goes() {
    // covers: LC-TERM-34, LC-TERM-36, LC-TERM-37, API-CD-27, API-EV-17
    let stage = Stage::new().await;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"},
        "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"});
    stage.create("/apis/storage.k8s.io/v1/storageclasses", class).await;
    stage.create(CLAIMS, objects::claim("old", json!({}))).await;
    let node = stage.ready_node("old").await;
    stage.create("/apis/apps/v1/namespaces/default/statefulsets", objects::database("db")).await;
    stage.runs("db", 1).await;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let attached = || async {
        stage.list(attachments).await.iter().filter(|attachment| attachment["spec"]["nodeName"] == *node).count()
    };
    assert_eq!(attached().await, 1);
    // Somebody holds on to the volume.
    let name = stage.list(attachments).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{attachments}/{name}");
    let finalizers = stage.get(&path).await.unwrap()["metadata"]["finalizers"].clone();
    let mut held = finalizers.as_array().unwrap().clone();
    held.push(json!("example.com/held"));
    stage.patch(&path, json!({"metadata": {"finalizers": held}})).await;
    delete_claim(&stage, "old").await;
    let awaiting = || async { stage.is("old", "VolumesDetached", Unknown, "AwaitingVolumeDetachment").await };
    stage.until("its volume is awaited", 60, awaiting).await;
    stage.pass(300).await;
    assert_eq!(attached().await, 1);
    assert!(!stage.scythe.done().iter().any(|effect| effect.has(&["cloud delete"])), "the machine runs");
    let told = stage.events("AwaitingVolumeDetachment").await;
    assert!(
        told.iter().all(|(object, text)| *object == format!("Node/{node}") && text.contains(&name)) && !told.is_empty()
    );
    stage.patch(&path, json!({"metadata": {"finalizers": null}})).await;
    stage.claim_is_gone("old", 60).await;
    assert!(!stage.scythe.done().iter().any(|effect| effect.has(&["volumeattachments"])), "not by us");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_also_ends_the_wait_for_volumes() {
    // covers: LC-TERM-36
    let stage = Stage::new().await;
    let claim = objects::claim("one", json!({"terminationGracePeriod": "2m"}));
    stage.create(CLAIMS, claim).await;
    let node = stage.ready_node("one").await;
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": "stuck", "finalizers": ["example.com/held"]},
        "spec": {"attacher": "other.example.com", "nodeName": node, "source": {"persistentVolumeName": "pv"}}});
    stage.create("/apis/storage.k8s.io/v1/volumeattachments", attachment).await;
    delete_claim(&stage, "one").await;
    stage.pass(100).await;
    assert!(stage.is("one", "VolumesDetached", Unknown, "AwaitingVolumeDetachment").await);
    let gave_up = || async { stage.is("one", "VolumesDetached", False, "TerminationGracePeriodElapsed").await };
    stage.until("it goes on without", 30, gave_up).await;
    stage.claim_is_gone("one", 60).await;
}

async fn a_users_finalizer_keeps_the_object_and_nothing_else(stage: &Stage) {
    // covers: LC-GEN-11, LC-TERM-39, LC-TERM-40
    let mut claim = objects::claim("one", json!({}));
    claim["metadata"]["finalizers"] = json!(["example.com/mine"]);
    let node = occupied(stage, claim, "web", 1, json!({}), json!({})).await;
    let both = json!(["example.com/mine", labels::TERMINATION_FINALIZER]);
    stage.patch(&format!("{NODES}/{node}"), json!({"metadata": {"finalizers": both}})).await;
    delete_claim(stage, "one").await;
    let stopped = || async { stage.cloud.instances().is_empty() };
    stage.until("the machine is gone", 60, stopped).await;
    stage.pass(30).await;
    let object = stage.get(&format!("{NODES}/{node}")).await.unwrap();
    assert_eq!(object["metadata"]["finalizers"], json!(["example.com/mine"]), "only ours was taken");
    assert!(stage.claim("one").await.is_some(), "the claim waits for its node");
    stage.patch(&format!("{NODES}/{node}"), json!({"metadata": {"finalizers": null}})).await;
    stage.pass(10).await;
    let claim = stage.claim("one").await.unwrap();
    assert_eq!(claim.metadata.finalizers.as_deref().unwrap(), ["example.com/mine"]);
    stage.patch(&format!("{CLAIMS}/one"), json!({"metadata": {"finalizers": null}})).await;
    stage.claim_is_gone("one", 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_disappears_takes_its_claim_with_it() {
    // covers: LC-GC-01, LC-GC-02, LC-GC-04, LC-TERM-06
    let stage = Stage::alone().await;
    let node = occupied(&stage, objects::claim("one", json!({})), "web", 2, json!({}), json!({})).await;
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    stage.lose_machine("one").await;
    stage.claim_is_gone("one", 300).await;
    assert!(stage.node(&node).await.is_none());
    assert_eq!(stage.metric("karpenter_nodeclaims_disrupted_total", "garbage_collected"), 1.0);
    assert_eq!(stage.metric("karpenter_pods_disruption_initiated_total", "garbage_collected"), 2.0);
    assert_eq!(stage.metric("karpenter_pods_eviction_requests_total", ""), 0.0, "nothing is left to drain");
}

async fn a_node_whose_machine_is_gone_is_not_drained(stage: &Stage) {
    // covers: LC-TERM-06
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    let node = occupied(stage, objects::claim("one", json!({})), "web", 2, json!({}), json!({})).await;
    // The cloud's own controller deletes the node while it still looks well; once it does not, nothing holds it.
    stage.lose_machine("one").await;
    stage.claim_is_gone("one", 120).await;
    assert!(stage.node(&node).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_trusted_collects_nobody() {
    // covers: LC-GC-05, LC-GC-06, CP-J5
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    stage.ready_node("one").await;
    // Its kubelet is silent, so nothing but the provider speaks for it.
    stage.silence("one", true).await;
    stage.cloud.plan(|plan| plan.list_fails = true);
    stage.pass(600).await;
    stage.cloud.plan(|plan| (plan.list_fails, plan.list_is_empty) = (false, true));
    stage.pass(600).await;
    assert!(stage.claim("one").await.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()));
    assert_eq!(stage.cloud.instances().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_ready_node_proves_the_provider_wrong() {
    // covers: LC-GC-02
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let node = stage.ready_node("one").await;
    // The provider forgets the machine, and the kubelet goes on.
    stage.forget_machine("one").await;
    stage.pass(600).await;
    assert!(stage.claim("one").await.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()));
    assert!(stage.node(&node).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_never_registered_is_left_to_its_timeout() {
    // covers: LC-GC-03
    let stage = Stage::new().await;
    stage.cloud.plan(|plan| plan.dud = true);
    stage.create(CLAIMS, objects::claim("dud", json!({}))).await;
    stage.until("it is launched", 5, || async { stage.is("dud", "Launched", True, "Launched").await }).await;
    stage.forget_machine("dud").await;
    stage.pass(600).await;
    assert!(stage.claim("dud").await.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()));
    stage.claim_is_gone("dud", 400).await;
    assert_eq!(stage.metric("karpenter_nodeclaims_disrupted_total", "reason=\"registration_timeout\""), 1.0);
}

#[tokio::test(start_paused = true)]
async fn only_nodes_that_are_ours_are_ended() {
    // covers: LC-GEN-02, LC-TERM-04
    let stage = Stage::new().await;
    let nodes = [
        ("ours", json!({labels::EC2_NODE_CLASS: ""}), labels::TERMINATION_FINALIZER),
        (
            "theirs",
            json!({"eks.amazonaws.com/nodeclass": "default", labels::NODEPOOL: "p"}),
            labels::TERMINATION_FINALIZER,
        ),
        ("unguarded", json!({labels::EC2_NODE_CLASS: "default"}), "example.com/held"),
    ];
    for (name, labels, finalizer) in &nodes {
        let metadata = json!({"name": name, "labels": labels, "finalizers": [finalizer]});
        stage
            .create(NODES, json!({"metadata": metadata, "spec": {"providerID": format!("test:///zone-a/{name}")}}))
            .await;
        stage.delete(&format!("{NODES}/{name}")).await;
    }
    stage.until("ours goes", 60, || async { stage.node("ours").await.is_none() }).await;
    stage.pass(600).await;
    for (name, _, finalizer) in &nodes[1..] {
        let node = stage.get(&format!("{NODES}/{name}")).await.unwrap();
        assert_eq!(node["metadata"]["finalizers"], json!([finalizer]));
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        assert!(taints.iter().all(|taint| taint["key"] != labels::DISRUPTED_TAINT), "{name}: {taints:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_vanish_leave_the_eviction_queue() {
    // covers: LC-TERM-33
    let mut stage = Stage::new().await;
    let node = occupied(&stage, objects::claim("one", json!({})), "web", 3, protected(), json!({})).await;
    let (entries, settings) = (SharedEntries::default(), stage.settings.clone());
    stage.kill();
    stage.start_with(vec![
        Arc::new(Termination::new(entries.clone(), &settings)),
        Arc::new(Evictions::new(entries.clone(), &settings)),
    ]);
    stage.delete(&format!("{NODES}/{node}")).await;
    stage.until("they are waited for", 30, || async { entries.len() == 3 }).await;
    // By now each of them is looked at every ten seconds.
    stage.pass(120).await;
    for (pod, _) in stage.running("web").await {
        stage.delete(&format!("{PODS}/{pod}?gracePeriodSeconds=0")).await;
    }
    stage.until("nobody is waited for", 2, || async { entries.is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn the_cloud_is_asked_until_it_has_forgotten_the_machine() {
    // covers: LC-TERM-38
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    stage.ready_node("one").await;
    stage.cloud.plan(|plan| (plan.stops_fail, plan.stopping) = (3, Duration::from_secs(60)));
    let asked = |answer: &str| {
        stage.scythe.done().iter().filter(|effect| effect.has(&["cloud delete"]) && effect.answer == answer).count()
    };
    delete_claim(&stage, "one").await;
    stage.until("the cloud fails", 30, || async { asked("failed") > 0 }).await;
    // Drained, and two or three attempts with growing pauses; nothing is said to be stopping yet.
    stage.until("it fails again", 30, || async { asked("failed") == 3 || asked("stopping") > 0 }).await;
    assert_eq!(asked("failed"), 3);
    if asked("stopping") == 0 {
        assert!(!stage.is("one", "InstanceTerminating", True, "InstanceTerminating").await, "an error is no answer");
    }
    let stopping = || async { stage.is("one", "InstanceTerminating", True, "InstanceTerminating").await };
    stage.until("the order is accepted", 30, stopping).await;
    // After two seconds and after five, then every five, whatever happens to its Node and claim, and to others. That is no more
    // often than upstream asks.
    stage.pass(20).await;
    let before = asked("stopping");
    assert!((4..=6).contains(&before), "{before} in the first twenty seconds");
    stage.pass(30).await;
    let more = asked("stopping") - before;
    assert!((5..=6).contains(&more), "{more} in half a minute");
    assert_eq!(asked("not found"), 0);
    assert!(stage.claim("one").await.is_some(), "it is not let go before the cloud has forgotten its machine");
    stage.claim_is_gone("one", 60).await;
    assert!(asked("not found") > 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_read_spares_its_claim() {
    // covers: LC-GC-08
    let stage = Stage::alone().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let node = stage.ready_node("one").await;
    // No sweep, until all that is to be said of the lost machine is written down.
    stage.cloud.plan(|plan| plan.list_fails = true);
    stage.lose_machine("one").await;
    stage.pass(120).await;
    let (key, index) = (Key::cluster(&node), &stage.context.index);
    let path = format!("/api/v1/nodes/{node}");
    let version: u64 =
        stage.get(&path).await.unwrap()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(index.remove(Kind::Node, &key, version).is_some());
    let unreadable = json!({"metadata": {"name": node, "resourceVersion": (version + 1).to_string()}});
    index.apply_unreadable(Unreadable::of(Kind::Node, &unreadable.to_string(), "it makes no sense"));
    stage.cloud.plan(|plan| plan.list_fails = false);
    stage.pass(900).await;
    assert!(stage.claim("one").await.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()));
    // Once it can be read again, it speaks for itself.
    stage.patch(&path, json!({"metadata": {"labels": {"now": "readable"}}})).await;
    stage.claim_is_gone("one", 300).await;
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_of_the_cloud_sweeps_come_soon() {
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    stage.ready_node("one").await;
    let planted = stage.cloud.plant("nobody's");
    stage.forget_machine("one").await;
    stage.silence("one", true).await;
    stage.cloud.plan(|plan| plan.list_fails = true);
    stage.pass(2_400).await;
    assert!(stage.cloud.instances().contains(&planted) && stage.claim("one").await.is_some());
    stage.cloud.plan(|plan| plan.list_fails = false);
    stage.until("the leak is found", 150, || async { !stage.cloud.instances().contains(&planted) }).await;
    stage.claim_is_gone("one", 150).await;
}

#[tokio::test(start_paused = true)]
async fn machines_that_nobody_holds_are_swept() {
    // covers: LC-GC-07, AWS-GC-01, CP-J1, CP-E13, INV-1
    let stage = Stage::new().await;
    let node = occupied(&stage, objects::claim("one", json!({})), "web", 1, json!({}), json!({})).await;
    let planted = stage.cloud.plant("nobody's");
    stage.pass(28).await;
    assert!(stage.cloud.instances().contains(&planted), "it may be a launch that is not written down yet");
    stage.until("it is swept", 30, || async { stage.cloud.instances().len() == 1 }).await;
    // A user takes our finalizer off a claim with a living machine.
    delete_claim(&stage, "one").await;
    stage.patch(&format!("{CLAIMS}/one"), json!({"metadata": {"finalizers": null}})).await;
    stage.claim_is_gone("one", 5).await;
    stage.until("its machine is swept", 180, || async { stage.cloud.instances().is_empty() }).await;
    stage.until("and its node", 60, || async { stage.node(&node).await.is_none() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_several_claims_is_drained_and_let_go() {
    // covers: LC-TERM-05, CP-E14
    let stage = Stage::new().await;
    let node = occupied(&stage, objects::claim("one", json!({})), "web", 1, json!({}), json!({})).await;
    let id = stage.claim("one").await.unwrap().status.unwrap().provider_id.unwrap();
    stage.kill_and_wait().await;
    stage.create(CLAIMS, objects::claim("two", json!({}))).await;
    stage.patch(&format!("{CLAIMS}/two/status"), json!({"status": {"providerID": id, "conditions": [
        {"type": "Launched", "status": "True", "reason": "Launched", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Registered", "status": "True", "reason": "Registered", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})).await;
    let mut stage = stage;
    stage.start();
    stage.pass(2).await;
    stage.delete(&format!("{NODES}/{node}")).await;
    let gone = || async { stage.node(&node).await.is_none() };
    stage.until("the node is gone", 60, gone).await;
    assert_eq!(stage.metric("karpenter_pods_eviction_requests_total", "code=\"200\""), 1.0);
    assert!(
        !stage.scythe.done().iter().any(|effect| effect.has(&["cloud delete"])),
        "the machine is not the node's business"
    );
    delete_claim(&stage, "one").await;
    delete_claim(&stage, "two").await;
    stage.claim_is_gone("one", 60).await;
    stage.claim_is_gone("two", 60).await;
    assert!(stage.cloud.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_late_is_drained_too() {
    // covers: LC-TERM-21
    let stage = Stage::new().await;
    stage.create(CLAIMS, objects::claim("one", json!({}))).await;
    let node = stage.ready_node("one").await;
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": "held", "finalizers": ["example.com/held"]},
        "spec": {"attacher": "other.example.com", "nodeName": node, "source": {"persistentVolumeName": "pv"}}});
    stage.create("/apis/storage.k8s.io/v1/volumeattachments", attachment).await;
    delete_claim(&stage, "one").await;
    stage.until("it is drained", 30, || async { stage.is("one", "Drained", True, "Drained").await }).await;
    // Bound past the scheduler, which would not have it.
    let pod = json!({"metadata": {"name": "late", "labels": {"app": "late"}}, "spec": {"nodeName": node,
        "containers": [{"name": "main", "image": "example.com/app:1"}]}});
    stage.create(PODS, pod).await;
    let evicted = || async { stage.get(&format!("{PODS}/late")).await.is_none() };
    stage.until("it is evicted", 60, evicted).await;
    assert_eq!(stage.metric("karpenter_pods_eviction_requests_total", "code=\"200\""), 1.0);
    let path = "/apis/storage.k8s.io/v1/volumeattachments/held";
    stage.patch(path, json!({"metadata": {"finalizers": null}})).await;
    stage.delete_if_there(path).await;
    stage.claim_is_gone("one", 60).await;
}
