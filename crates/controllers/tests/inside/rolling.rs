//! Nodes that are replaced: first the new one, then the old one goes; and everything that can happen in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use karpenter_apiserver::{Effect as Breakage, Fault};
use karpenter_controllers::Settings;
use karpenter_controllers::decision::Decision;
use karpenter_controllers::roster::all;
use serde_json::{Value, json};

use super::disruption::{condition, tainted};
use super::lab::{CLAIMS, CLASSES, Lab, NODES, POOLS, START, running};
use super::scythe::When;
use super::silence::Trouble;

/// So many large nodes, each with one pod that fills it, in a pool that drifts within a budget and does nothing else.
pub(crate) async fn fleet(lab: &mut Lab, count: i32, budget: &str) {
    lab.node_class().await;
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": budget}]});
    lab.pool("main", json!({"disruption": disruption})).await;
    lab.run(all(&Settings::default()));
    lab.deployment("web", count, "7").await;
    lab.settle(120).await;
    assert_eq!(running(&lab.pods("web").await), usize::try_from(count).unwrap());
    assert_eq!(lab.claims().await.len(), usize::try_from(count).unwrap());
}

/// The pool asks for something else from now on.
pub(crate) async fn edit(lab: &Lab, value: &str) {
    lab.patch(&format!("{POOLS}/main"), json!({"spec": {"template": {"metadata": {"labels": {"team": value}}}}})).await;
}

/// How many nodes are what the pool asks for now, of how many.
pub(crate) async fn rolled(lab: &Lab, value: &str) -> (usize, usize) {
    let nodes = lab.list(NODES).await;
    (nodes.iter().filter(|node| node["metadata"]["labels"]["team"] == value).count(), nodes.len())
}

fn deleting(claims: &[Value]) -> usize {
    claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_string()).count()
}

/// Waits until all nodes are new and nothing is under way; looks now and then on the way.
async fn roll_out(lab: &Lab, value: &str, within: u64, mut look: impl FnMut(&[Value], &[Value])) {
    for _ in 0..within / 2 {
        lab.settle(2).await;
        look(&lab.claims().await, &lab.pods("web").await);
        let (new, all) = rolled(lab, value).await;
        if new == all && deleting(&lab.claims().await) == 0 {
            // The last pod still has to start.
            return lab.settle(30).await;
        }
    }
    panic!("not rolled within {within} s: {:?}, {:#?}", rolled(lab, value).await, lab.claims().await);
}

#[tokio::test(start_paused = true)]
async fn a_pool_rolls_within_its_budget_new_nodes_first() {
    // covers: DIS-DRIFT-10, DIS-DRIFT-12, DIS-DRIFT-14, DIS-DRIFT-17, DIS-QUEUE-04, DIS-QUEUE-10, DIS-QUEUE-12
    // covers: DIS-QUEUE-03, DIS-QUEUE-16, DIS-QUEUE-21, DIS-QUEUE-22, API-EV-06, API-EV-07, API-EV-08, SEED2-29
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 10, "10%").await;
    edit(&lab, "a").await;
    let (mut most, mut least) = (0, usize::MAX);
    roll_out(&lab, "a", 3000, |claims, pods| {
        most = most.max(deleting(claims));
        least = least.min(running(pods));
        for claim in claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_string()) {
            assert!(condition(claim, "DisruptionReason").is_some_and(|c| c["reason"] == "Drifted"), "{claim}");
        }
    })
    .await;
    assert_eq!(most, 1, "a tenth of ten");
    assert!(least >= 9, "each new node is there before its pod has to move: {least} ran");
    assert_eq!(running(&lab.pods("web").await), 10);
    assert_eq!(lab.shop.bought(), 20, "one new node for each old one");
    // Set apart, then bought for, then deleted, and nobody evicted before.
    let effects = lab.scythe.done();
    let first = |parts: &[&str]| effects.iter().position(|effect| effect.has(parts) && effect.answer.starts_with('2'));
    let order = [
        first(&["PATCH /api/v1/nodes/", "karpenter.sh/disrupted"]),
        first(&["PATCH", "/nodeclaims/", "DisruptionReason"]),
        first(&["POST", "/nodeclaims", "\"team\":\"a\""]),
        first(&["DELETE", "/nodeclaims/"]),
        first(&["POST", "/eviction"]),
    ];
    assert!(order.is_sorted() && order.iter().all(Option::is_some), "{order:?}");
    let text = lab.metrics();
    let replaced = "karpenter_voluntary_disruption_decisions_total{decision=\"replace\",reason=\"drifted\",consolidation_type=\"\"} 10\n";
    assert!(text.contains(replaced), "{text}");
    let made =
        "karpenter_nodeclaims_created_total{reason=\"drifted\",nodepool=\"main\",min_values_relaxed=\"false\"} 10\n";
    assert!(text.contains(made), "{text}");
    let labels = "reason=\"drifted\",nodepool=\"main\",capacity_type=\"on-demand\",consolidation_policy=\"\"";
    let gone = format!("karpenter_nodeclaims_disrupted_total{{{labels},termination_mode=\"graceful\"}} 10\n");
    assert!(text.contains(&gone), "{text}");
    let pods = format!("karpenter_pods_disruption_initiated_total{{{labels},termination_mode=\"graceful\"}} 10\n");
    assert!(text.contains(&pods), "{text}");
    let events = lab.events("NodeClaim").await;
    for wanted in [
        "DisruptionLaunching Launching NodeClaim: Drifted",
        "DisruptionWaitingReadiness Waiting on readiness to continue disruption",
        "DisruptionTerminating Disrupting NodeClaim: Drifted",
    ] {
        assert!(events.iter().any(|text| text == wanted), "{wanted}: {events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_waits_for_its_watches_before_it_goes() {
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 1, "100%").await;
    let old = lab.claims().await[0]["metadata"]["name"].clone();
    let stays = async |lab: &Lab| {
        let claims = lab.claims().await;
        let claim = claims.iter().find(|claim| claim["metadata"]["name"] == old);
        claim.is_some_and(|claim| claim["metadata"]["deletionTimestamp"].is_null())
    };
    // Storage classes were last heard of now. Before anybody notices, a replacement is bought; when it is ready, they have.
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "disk.example.com"});
    lab.create("/apis/storage.k8s.io/v1/storageclasses", class).await;
    lab.settle(1).await;
    lab.reads.suffer("/storageclasses", Trouble::Unanswered);
    lab.settle(60).await;
    edit(&lab, "a").await;
    lab.settle(25).await;
    assert_eq!(lab.claims().await.len(), 2, "its replacement is on its way");
    lab.settle(200).await;
    assert_eq!(rolled(&lab, "a").await, (1, 2));
    assert!(stays(&lab).await, "what says whether it may go is out of date");
    lab.reads.recover();
    lab.settle(90).await;
    assert!(!stays(&lab).await);
    // What is not begun is not begun either.
    lab.settle(60).await;
    lab.reads.suffer("/storageclasses", Trouble::Unanswered);
    lab.settle(100).await;
    edit(&lab, "b").await;
    lab.settle(300).await;
    assert_eq!((rolled(&lab, "b").await, lab.claims().await.len()), ((0, 1), 1));
    lab.reads.recover();
    lab.settle(240).await;
    assert_eq!(rolled(&lab, "b").await, (1, 1));
}

#[tokio::test(start_paused = true)]
async fn no_budget_for_drift_means_no_drift() {
    // covers: DIS-DRIFT-12, DIS-BUDGET-09
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 2, "0").await;
    edit(&lab, "a").await;
    lab.settle(600).await;
    assert_eq!(rolled(&lab, "a").await, (0, 2));
    assert_eq!(lab.shop.bought(), 2);
    let events = lab.events("NodePool").await;
    assert!(events.iter().any(|text| text.starts_with("DisruptionBlocked") && text.contains("Drifted")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_be_bought_leaves_the_old_node_as_it_was() {
    // covers: DIS-QUEUE-11, DIS-QUEUE-15, DIS-DRIFT-15, DIS-DRIFT-16, DIS-LOOP-12, CP-J2
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 1, "100%").await;
    let name = lab.claims().await[0]["metadata"]["name"].clone();
    // Nobody knows yet that it cannot be had.
    lab.shop.sell_out_secretly("large");
    edit(&lab, "a").await;
    lab.settle(10).await;
    let claims = lab.claims().await;
    let old = claims.iter().find(|claim| claim["metadata"]["name"] == name).unwrap();
    let since = condition(old, "Drifted").unwrap()["lastTransitionTime"].clone();
    lab.settle(600).await;
    let claims = lab.claims().await;
    let old = claims.iter().find(|claim| claim["metadata"]["name"] == name).unwrap();
    assert!(old["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(condition(old, "Drifted").unwrap()["lastTransitionTime"], since);
    assert_eq!(running(&lab.pods("web").await), 1);
    // One minute, two, four, eight, half of it chance: no storm, and nobody buys for the pod beside.
    let attempts = lab.shop.attempts().len() - 1;
    assert!((2..=6).contains(&attempts), "{attempts}");
    let records = lab.context.recorder.decisions_since(1);
    let alone = records.iter().filter(|one| matches!(one.decision, Decision::Launch(_))).count();
    let commands = records.iter().filter(|one| matches!(one.decision, Decision::Disrupt { .. })).count();
    assert_eq!((alone, commands), (attempts, attempts));
    let failures = "karpenter_voluntary_disruption_queue_failures_total{decision=\"replace\",reason=\"drifted\",consolidation_type=\"replace\"}";
    assert!(lab.metrics().contains(failures), "{}", lab.metrics());
    lab.shop.sell_out("large", true);
    roll_out(&lab, "a", 900, |_, _| {}).await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_cannot_be_started_stops_no_other() {
    // covers: DIS-LOOP-07
    for effect in [Breakage::InternalError, Breakage::Conflict] {
        let mut lab = Lab::new(1).await;
        fleet(&mut lab, 2, "100%").await;
        let fault = Fault {
            methods: vec!["POST".into()],
            path_contains: "/nodeclaims".into(),
            per_mille: 1000,
            times: Some(1),
            effect: effect.clone(),
        };
        lab.server.inject(fault);
        edit(&lab, "a").await;
        lab.settle(10).await;
        assert_eq!(lab.claims().await.len(), 3, "{effect:?}: both were to be replaced, one of them is");
        assert_eq!(lab.shop.bought(), 3, "{effect:?}");
        roll_out(&lab, "a", 900, |_, _| {}).await;
        assert_eq!(lab.shop.bought(), 4, "{effect:?}: what was started was not started again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_who_deletes_the_replacement_stops_the_command() {
    // covers: CP-J2, DIS-QUEUE-11
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 1, "100%").await;
    edit(&lab, "a").await;
    lab.settle(10).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 2);
    assert_eq!(tainted(&lab.list(NODES).await), 1);
    let new = claims.iter().max_by_key(|claim| claim["metadata"]["creationTimestamp"].to_string()).unwrap();
    let new = new["metadata"]["name"].as_str().unwrap().to_owned();
    lab.delete(&format!("{CLAIMS}/{new}")).await;
    lab.settle(20).await;
    assert_eq!(tainted(&lab.list(NODES).await), 0, "rolled back");
    assert_eq!(running(&lab.pods("web").await), 1);
    roll_out(&lab, "a", 900, |_, pods| assert!(!pods.is_empty())).await;
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_goes_its_own_way_does_not_stop_the_command() {
    // covers: CP-J3, DIS-QUEUE-17, DIS-QUEUE-18
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 1, "100%").await;
    let old = lab.claims().await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    edit(&lab, "a").await;
    lab.settle(10).await;
    assert_eq!(lab.claims().await.len(), 2);
    lab.delete(&format!("{CLAIMS}/{old}")).await;
    lab.settle(1200).await;
    assert_eq!(rolled(&lab, "a").await, (1, 1));
    assert_eq!(running(&lab.pods("web").await), 1);
    assert_eq!(lab.shop.bought(), 2, "what was bought for it is used");
    assert!(!lab.metrics().contains("queue_failures_total{"), "{}", lab.metrics());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_becomes_ready_is_waited_for_and_then_given_up() {
    // covers: DIS-QUEUE-09, DIS-QUEUE-14, DIS-QUEUE-15
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 1, "100%").await;
    lab.shop.sell_duds(true);
    edit(&lab, "a").await;
    lab.settle(590).await;
    assert_eq!(tainted(&lab.list(NODES).await), 1, "for ten minutes");
    lab.settle(30).await;
    assert_eq!(tainted(&lab.list(NODES).await), 0);
    let claims = lab.claims().await;
    assert!(claims.iter().all(|claim| condition(claim, "DisruptionReason").is_none()));
    assert_eq!((claims.len(), deleting(&claims)), (2, 0), "what was bought stays, as any other");
    let failures = lab.metric("karpenter_voluntary_disruption_queue_failures_total", "reason=\"drifted\"");
    assert_eq!(failures, 1.0, "one replacement that was not complete");
    assert_eq!(running(&lab.pods("web").await), 1);
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_replacement_cannot_be_created_is_taken_back() {
    // covers: DIS-QUEUE-06
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 1, "100%").await;
    // The server refuses new claims for a while.
    lab.server.inject(Fault {
        methods: vec!["POST".into()],
        path_contains: "/nodeclaims".into(),
        per_mille: 1000,
        times: None,
        effect: Breakage::InternalError,
    });
    edit(&lab, "a").await;
    lab.settle(40).await;
    assert_eq!(lab.claims().await.len(), 1);
    assert_eq!(tainted(&lab.list(NODES).await), 0, "what was begun is taken back by the next pass");
    lab.server.clear_faults();
    roll_out(&lab, "a", 600, |_, _| {}).await;
}

#[tokio::test(start_paused = true)]
async fn replacements_that_were_created_beside_one_that_was_not_go_again() {
    // covers: DIS-QUEUE-08
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
    lab.pool("main", json!({"disruption": disruption})).await;
    lab.run(all(&Settings::default()));
    lab.deployment("web", 4, "1500m").await;
    lab.settle(120).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1, "a large one for all four");
    let old = claims[0]["metadata"]["name"].as_str().unwrap().to_owned();
    // Without large ones each pod needs a node of its own, none of which is launched yet when the last cannot be created.
    lab.shop.sell_out("large", false);
    lab.shop.close();
    lab.settle(5).await;
    lab.server.inject(Fault {
        methods: vec!["POST".into()],
        path_contains: "/nodeclaims".into(),
        per_mille: 1000,
        times: Some(1),
        effect: Breakage::InternalError,
    });
    edit(&lab, "a").await;
    lab.settle(20).await;
    let effects = lab.scythe.done();
    let created = |answer: &str| {
        let asked = |effect: &&super::scythe::Effect| effect.has(&["POST", "/nodeclaims", "\"team\":\"a\""]);
        effects.iter().filter(asked).filter(|effect| effect.answer == answer).count()
    };
    assert_eq!((created("500"), created("201")), (1, 3));
    let claims = lab.claims().await;
    assert_eq!((claims.len(), &claims[0]["metadata"]["name"]), (1, &json!(old)), "those that were created are gone");
    assert_eq!(tainted(&lab.list(NODES).await), 0);
    assert_eq!(running(&lab.pods("web").await), 4);
}

#[tokio::test(start_paused = true)]
async fn replacements_come_from_pools_that_are_dynamic_ready_and_staying() {
    // covers: DIS-SIM-08
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 2, "100%").await;
    lab.pool("fixed", json!({"replicas": 0})).await;
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "missing"});
    let unready = json!({"spec": {"requirements": [], "nodeClassRef": class}});
    lab.pool("unready", json!({"weight": 50, "template": unready})).await;
    lab.pool("going", json!({"weight": 40})).await;
    for (name, weight) in [("light", 10), ("heavy", 20)] {
        lab.pool(name, json!({"weight": weight, "disruption": {"consolidateAfter": "Never"}})).await;
    }
    lab.settle(5).await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    lab.patch(&format!("{POOLS}/going"), held).await;
    lab.delete(&format!("{POOLS}/going")).await;
    edit(&lab, "a").await;
    lab.settle(300).await;
    let claims = lab.claims().await;
    let pools: Vec<&Value> = claims.iter().map(|claim| &claim["metadata"]["labels"]["karpenter.sh/nodepool"]).collect();
    assert_eq!(pools, ["heavy", "heavy"], "the heaviest of those that may");
    assert_eq!(running(&lab.pods("web").await), 2);
}

#[tokio::test(start_paused = true)]
async fn drift_that_failed_is_tried_again_though_nothing_changes() {
    // covers: DIS-DRIFT-15
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 1, "100%").await;
    lab.server.inject(Fault {
        methods: vec!["POST".into()],
        path_contains: "/nodeclaims".into(),
        per_mille: 1000,
        times: Some(1),
        effect: Breakage::InternalError,
    });
    edit(&lab, "a").await;
    // A minute at most until it is tried again, and some seconds more until the old node is gone.
    roll_out(&lab, "a", 120, |_, _| {}).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_rolled_before_an_edited_class_is_reconciled() {
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 2, "100%").await;
    lab.patch(&format!("{CLASSES}/default"), json!({"spec": {"tags": {"team": "a"}}})).await;
    edit(&lab, "a").await;
    lab.settle(8).await;
    assert_eq!((tainted(&lab.list(NODES).await), lab.claims().await.len()), (0, 2), "it may not be launched from yet");
    let condition = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": START,
        "observedGeneration": 2});
    lab.patch(&format!("{CLASSES}/default/status"), json!({"status": {"conditions": [condition]}})).await;
    lab.settle(2).await;
    assert_eq!(lab.claims().await.len(), 4);
    roll_out(&lab, "a", 120, |_, _| {}).await;
    // A class that nobody reconciles stops nothing for long.
    lab.patch(&format!("{CLASSES}/default"), json!({"spec": {"tags": {"team": "b"}}})).await;
    edit(&lab, "b").await;
    lab.settle(20).await;
    assert_eq!(lab.claims().await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_what_is_under_way_and_everything_after() {
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 2, "100%").await;
    edit(&lab, "a").await;
    lab.settle(10).await;
    assert!(tainted(&lab.list(NODES).await) > 0);
    let pause = |value: Value| json!({"metadata": {"annotations": {"karpenter.sh/pause-disruption": value}}});
    lab.patch(&format!("{POOLS}/main"), pause(json!("true"))).await;
    lab.settle(3).await;
    assert_eq!(tainted(&lab.list(NODES).await), 0, "at once");
    lab.settle(900).await;
    let names: BTreeSet<String> =
        lab.claims().await.iter().map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    lab.settle(900).await;
    assert_eq!(rolled(&lab, "a").await.0, names.len() - 2, "both old nodes are there");
    let events = lab.events("NodeClaim").await;
    assert!(events.iter().any(|text| text.contains("paused")), "{events:?}");
    lab.patch(&format!("{POOLS}/main"), pause(Value::Null)).await;
    roll_out(&lab, "a", 900, |_, _| {}).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_claim_says_of_its_end_counts_and_not_what_its_pool_says_now() {
    // covers: LC-EXP-04
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let template = |after: &str| {
        json!({"spec": {"requirements": [], "expireAfter": after,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}})
    };
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    lab.pool("main", json!({"disruption": disruption, "template": template("1h")})).await;
    lab.run(all(&Settings::default()));
    lab.deployment("web", 1, "7").await;
    lab.settle(120).await;
    let name = lab.claims().await[0]["metadata"]["name"].clone();
    lab.patch(&format!("{POOLS}/main"), json!({"spec": {"template": template("5m")}})).await;
    lab.settle(1800).await;
    let claims = lab.claims().await;
    assert_eq!((claims.len(), &claims[0]["metadata"]["name"]), (1, &name), "five minutes are not for it");
    assert!(claims[0]["metadata"]["deletionTimestamp"].is_null());
    assert!(
        condition(&claims[0], "Drifted").is_some_and(|c| c["status"] == "True" && c["reason"] == "NodePoolDrifted")
    );
    lab.settle(2100).await;
    assert!(lab.claims().await.iter().all(|claim| claim["metadata"]["name"] != name), "its own hour is over");
}

/// What was written about a claim until it was launched, whatever its name: method, path, and whether it carries the
/// finalizer, the provider's labels and the provider id.
fn launch_of(lab: &Lab, name: &str) -> Vec<(String, [bool; 3])> {
    let effects = lab.scythe.done();
    let about = effects.iter().filter(|effect| effect.name.contains(&format!("/nodeclaims/{name}")));
    let mut launch = Vec::new();
    for effect in about {
        let has = ["karpenter.sh/termination", "node.kubernetes.io/instance-type", "providerID"];
        let has = has.map(|part| effect.sent.contains(part));
        launch.push((effect.name.replace(name, "it"), has));
        if has[2] {
            return launch;
        }
    }
    panic!("never launched: {name} {launch:?}");
}

#[tokio::test(start_paused = true)]
async fn all_claims_are_launched_alike_whatever_they_were_made_for() {
    // covers: LC-LAUNCH-12
    let mut lab = Lab::new(1).await;
    let settings = Settings { static_capacity: true, ..Settings::default() };
    lab.node_class().await;
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]});
    lab.pool("main", json!({"disruption": disruption})).await;
    lab.pool("fixed", json!({"replicas": 1})).await;
    lab.run_with(all(&settings), settings.clone());
    lab.deployment("web", 1, "7").await;
    lab.settle(120).await;
    let of_pool = |claims: &[Value], pool: &str| -> Vec<String> {
        let mine = claims.iter().filter(|claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"] == pool);
        mine.map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let claims = lab.claims().await;
    let (provisioned, fixed) = (of_pool(&claims, "main"), of_pool(&claims, "fixed"));
    assert_eq!((provisioned.len(), fixed.len()), (1, 1));
    edit(&lab, "a").await;
    lab.settle(300).await;
    let replacement = of_pool(&lab.claims().await, "main");
    assert!(replacement.len() == 1 && replacement != provisioned, "{replacement:?}");
    let launch = launch_of(&lab, &provisioned[0]);
    assert_eq!(launch.last().map(|(name, _)| name.as_str()), Some("PUT /apis/karpenter.sh/v1/nodeclaims/it/status"));
    assert!(launch.len() >= 2, "labels, then the status: {launch:?}");
    assert_eq!(launch_of(&lab, &fixed[0]), launch, "of a static pool");
    assert_eq!(launch_of(&lab, &replacement[0]), launch, "in place of another");
}

/// A roll of two nodes that is cut at a chosen effect, and what must hold afterwards.
async fn cut(name: &str, when: When, parts: &'static [&'static str], nth: usize) {
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 2, "100%").await;
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    lab.scythe.arm(when, move |effect| {
        let hit = effect.has(parts) && (when == When::Before || effect.answer.starts_with('2'));
        hit && counter.fetch_add(1, Ordering::Relaxed) == nth
    });
    edit(&lab, "a").await;
    let mut evicted_early = false;
    for _ in 0..300 {
        lab.settle(1).await;
        if lab.scythe.is_dead() {
            break;
        }
    }
    assert!(lab.scythe.is_dead(), "{name}: the moment never came");
    lab.settle(5).await;
    assert_eq!(running(&lab.pods("web").await), 2, "{name}: nobody was moved by a dying process");
    lab.run(all(&Settings::default()));
    roll_out(&lab, "a", 1500, |claims, pods| evicted_early |= pods.len() < 2 && deleting(claims) == 0).await;
    assert!(!evicted_early, "{name}");
    assert_eq!(running(&lab.pods("web").await), 2, "{name}");
    lab.settle(300).await;
    let claims = lab.claims().await;
    assert_eq!(tainted(&lab.list(NODES).await), 0, "{name}");
    assert!(claims.iter().all(|claim| condition(claim, "DisruptionReason").is_none()), "{name}: {claims:#?}");
    assert_eq!((claims.len(), lab.shop.running().len()), (2, 2), "{name}: what was bought too much is gone again");
    assert!(lab.shop.bought() <= 6, "{name}: {} bought", lab.shop.bought());
}

#[tokio::test(start_paused = true)]
async fn dying_while_nodes_are_set_apart() {
    // covers: CP-H1, CP-H2
    cut("h1 tainted", When::After, &["PATCH /api/v1/nodes/", "karpenter.sh/disrupted"], 0).await;
    cut("h1 reason", When::Before, &["PATCH", "/nodeclaims/", "DisruptionReason"], 0).await;
    cut("h2", When::Before, &["POST", "/nodeclaims"], 0).await;
}

#[tokio::test(start_paused = true)]
async fn dying_with_replacements_on_their_way() {
    // covers: CP-H3, CP-H4, CP-H5
    cut("h3", When::After, &["POST", "/nodeclaims"], 0).await;
    cut("h4", When::After, &["POST", "/nodeclaims"], 1).await;
    cut("h5", When::After, &["PATCH /api/v1/nodes/", "karpenter.sh/registered"], 0).await;
}

#[tokio::test(start_paused = true)]
async fn dying_around_the_deletion_of_candidates() {
    // covers: CP-H6, CP-H7, CP-H8
    cut("h6", When::Before, &["DELETE", "/nodeclaims/"], 0).await;
    cut("h7", When::After, &["DELETE", "/nodeclaims/"], 0).await;
    cut("h8", When::After, &["DELETE", "/nodeclaims/"], 1).await;
}

#[tokio::test(start_paused = true)]
async fn dying_while_a_command_is_rolled_back() {
    // covers: CP-H9, CP-H12
    for parts in [["PATCH /api/v1/nodes/", "\"taints\""], ["PATCH", "\"conditions\""]] {
        let mut lab = Lab::new(1).await;
        fleet(&mut lab, 1, "100%").await;
        edit(&lab, "a").await;
        lab.settle(10).await;
        assert_eq!(tainted(&lab.list(NODES).await), 1);
        let claims = lab.claims().await;
        let new = claims.iter().max_by_key(|claim| claim["metadata"]["creationTimestamp"].to_string()).unwrap();
        let new = new["metadata"]["name"].as_str().unwrap().to_owned();
        let old = claims.iter().find(|claim| claim["metadata"]["name"] != *new).unwrap()["metadata"]["name"].clone();
        let old = old.as_str().unwrap().to_owned();
        lab.scythe.arm(When::After, move |effect| {
            effect.has(&parts) && (effect.name.contains("/nodes/") || effect.name.contains(&old))
        });
        lab.delete(&format!("{CLAIMS}/{new}")).await;
        lab.settle(60).await;
        assert!(lab.scythe.is_dead(), "the moment never came");
        lab.run(all(&Settings::default()));
        // At most one attempt more: that the pool failed before is forgotten.
        roll_out(&lab, "a", 900, |_, _| {}).await;
        assert_eq!(running(&lab.pods("web").await), 1);
        assert!(lab.shop.bought() <= 4, "{}", lab.shop.bought());
        assert_eq!(tainted(&lab.list(NODES).await), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn commands_go_side_by_side_while_the_budget_lets_them() {
    // covers: DIS-QUEUE-19, DIS-DRIFT-17
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 3, "2").await;
    edit(&lab, "a").await;
    let mut most = 0;
    for _ in 0..150 {
        lab.settle(2).await;
        // A node whose instance terminates leaves its place in the budget to the next.
        let claims = lab.claims().await;
        let terminates =
            |claim: &&Value| condition(claim, "InstanceTerminating").is_some_and(|of| of["status"] == "True");
        let ending: Vec<&Value> = claims.iter().filter(terminates).map(|claim| &claim["status"]["nodeName"]).collect();
        let mut nodes = lab.list(NODES).await;
        nodes.retain(|node| !ending.contains(&&node["metadata"]["name"]));
        most = most.max(tainted(&nodes));
    }
    assert_eq!(most, 2, "the second starts when the first has its machine, not when it is done");
    assert_eq!(rolled(&lab, "a").await, (3, 3));
    assert_eq!(running(&lab.pods("web").await), 3);
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_leave_a_node_that_goes_get_room_again_and_again() {
    // covers: DIS-QUEUE-23
    let mut lab = Lab::new(1).await;
    fleet(&mut lab, 1, "0").await;
    let pdb = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    lab.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", pdb).await;
    let old = lab.claims().await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    lab.delete(&format!("{CLAIMS}/{old}")).await;
    for bought in 2..4 {
        lab.settle(60).await;
        assert_eq!(lab.shop.bought(), bought, "though no pod waits for a node");
        let claims = lab.claims().await;
        let new = claims.iter().find(|claim| claim["metadata"]["deletionTimestamp"].is_null()).unwrap();
        lab.delete(&format!("{CLAIMS}/{}", new["metadata"]["name"].as_str().unwrap())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_process_plans_the_pods_that_wait_before_it_takes_nodes() {
    // covers: CP-I5
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    lab.pool("main", json!({"disruption": disruption})).await;
    lab.run(all(&Settings::default()));
    lab.deployment("web", 1, "7").await;
    lab.settle(120).await;
    lab.crash();
    // Its pod goes, and another comes that nobody has planned: no scheduler is that slow, but a node may be unready.
    lab.scale("web", 0).await;
    lab.settle(5).await;
    let node = lab.list(NODES).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    lab.patch(&format!("{NODES}/{node}"), json!({"spec": {"unschedulable": true}})).await;
    lab.deployment("late", 1, "7").await;
    lab.settle(5).await;
    lab.run(all(&Settings::default()));
    lab.settle(60).await;
    let effects = lab.scythe.done();
    let taint = effects.iter().position(|effect| effect.has(&["PATCH /api/v1/nodes/", "karpenter.sh/disrupted"]));
    let bought = effects.iter().rposition(|effect| effect.has(&["POST", "/nodeclaims"]));
    assert!(bought.is_some() && taint.is_none_or(|taint| taint > bought.unwrap()), "{taint:?} {bought:?}");
    lab.settle(60).await;
    assert_eq!(running(&lab.pods("late").await), 1);
}
