//! Empty nodes go, and everything that can keep them.

use karpenter_apiserver::{Effect, Fault};
use karpenter_controllers::Settings;
use karpenter_controllers::roster::all;
use serde_json::{Value, json};

use super::lab::{CLAIMS, Lab, NODES, POOLS, running};

const TAINT: &str = "karpenter.sh/disrupted";

/// So many large nodes, each with one pod that fills it.
async fn nodes(lab: &mut Lab, count: i32, disruption: Value) {
    lab.node_class().await;
    lab.pool("main", json!({"disruption": disruption})).await;
    lab.run(all(&Settings::default()));
    lab.deployment("web", count, "7").await;
    lab.settle(120).await;
    assert_eq!(running(&lab.pods("web").await), usize::try_from(count).unwrap());
    assert_eq!(lab.claims().await.len(), usize::try_from(count).unwrap());
}

fn when_empty(after: &str, nodes: &str) -> Value {
    json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": after, "budgets": [{"nodes": nodes}]})
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

async fn consolidatable(lab: &Lab) -> usize {
    let claims = lab.claims().await;
    claims.iter().filter(|claim| condition(claim, "Consolidatable").is_some_and(|c| c["status"] == "True")).count()
}

/// Claims on their way out that a budget counts: those whose instance does not terminate yet.
pub(crate) fn draining(claims: &[Value]) -> usize {
    let going = claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_string());
    let terminates = |claim: &Value| condition(claim, "InstanceTerminating").is_some_and(|of| of["status"] == "True");
    going.filter(|claim| !terminates(claim)).count()
}

pub(crate) fn tainted(nodes: &[Value]) -> usize {
    let has =
        |node: &&Value| node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == TAINT);
    nodes.iter().filter(has).count()
}

#[tokio::test(start_paused = true)]
async fn the_quiet_time_starts_with_each_pod_that_comes_or_goes() {
    // covers: DIS-CONSAFTER-01, DIS-CONSAFTER-02, DIS-CONSAFTER-06, DIS-CONSAFTER-08, API-CD-23
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("5m", "100%")).await;
    assert_eq!(consolidatable(&lab).await, 0);
    lab.settle(300).await;
    assert_eq!(consolidatable(&lab).await, 1, "five minutes after its pod came");
    let before = lab.claims().await[0]["status"]["lastPodEventTime"].clone();
    lab.scale("web", 0).await;
    lab.settle(15).await;
    let claim = &lab.claims().await[0];
    assert_ne!(claim["status"]["lastPodEventTime"], before);
    assert!(condition(claim, "Consolidatable").is_none(), "removed, not False");
    lab.patch(&format!("{POOLS}/main"), json!({"spec": {"disruption": {"consolidateAfter": "1m"}}})).await;
    lab.settle(50).await;
    assert_eq!(consolidatable(&lab).await, 1, "the pool's change counts at once");
    lab.settle(120).await;
    assert!(lab.claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restart_starts_no_quiet_time_anew() {
    // covers: DIS-CONSAFTER-04, INV-8
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("5m", "100%")).await;
    let before = lab.claims().await[0]["status"]["lastPodEventTime"].clone();
    assert!(before.is_string());
    lab.run(all(&Settings::default()));
    lab.settle(60).await;
    assert_eq!(lab.claims().await[0]["status"]["lastPodEventTime"], before);
}

#[tokio::test(start_paused = true)]
async fn a_budget_lets_so_many_go_at_once() {
    // covers: DIS-EMPTY-03, DIS-BUDGET-04, DIS-BUDGET-10, DIS-BUDGET-12, DIS-LOOP-11
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 4, when_empty("0s", "1")).await;
    let text = lab.metrics();
    for kind in ["multi", "single"] {
        let never = format!("consolidation_timeouts_total{{consolidation_type=\"{kind}\"}} 0\n");
        assert!(text.contains(&never), "{text}");
    }
    lab.scale("web", 0).await;
    let of_pool = "nodepool=\"main\",reason=\"Empty\"";
    let (mut most, mut consuming, mut eligible) = (0, 0.0, 0.0);
    for _ in 0..400 {
        lab.settle(1).await;
        consuming = f64::max(consuming, lab.metric("karpenter_nodepools_nodes_consuming_budgets", of_pool));
        eligible = f64::max(eligible, lab.metric("karpenter_voluntary_disruption_eligible_nodes", "reason=\"empty\""));
        most = most.max(draining(&lab.claims().await));
    }
    assert_eq!(most, 1);
    assert!(lab.claims().await.is_empty(), "one after the other");
    assert_eq!(lab.metric("karpenter_nodepools_allowed_disruptions", of_pool), 1.0, "whatever is under way");
    assert_eq!((consuming, eligible), (1.0, 4.0));
    let voluntary =
        |name: &str, labels: &str| lab.metric(&format!("karpenter_voluntary_disruption_{name}"), labels) as u32;
    let empty = "decision=\"delete\",reason=\"empty\",consolidation_type=\"empty\"";
    assert_eq!(voluntary("decisions_total", &format!("{{{empty}}}")), 4);
    assert_eq!(voluntary("decisions_by_nodepool_total", &format!("{{nodepool=\"main\",{empty}}}")), 4);
    let evaluated = "{reason=\"empty\",consolidation_type=\"empty\"}";
    assert!(voluntary("decision_evaluation_duration_seconds_count", evaluated) >= 4);
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_loses_a_race_is_written_anew() {
    // covers: DIS-QUEUE-07
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("0s", "100%")).await;
    lab.server.inject(Fault {
        methods: vec!["PATCH".into()],
        path_contains: "/nodes/node-0001".into(),
        per_mille: 1000,
        times: Some(3),
        effect: Effect::Conflict,
    });
    lab.scale("web", 0).await;
    let answers = || -> Vec<String> {
        let tainting = |effect: &super::scythe::Effect| effect.has(&["PATCH /api/v1/nodes/", TAINT]);
        lab.scythe.done().into_iter().filter(tainting).map(|effect| effect.answer).collect()
    };
    for _ in 0..2_000 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        if !answers().is_empty() {
            break;
        }
    }
    // After 10, 50 and 250 ms: the command need not be decided again.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(answers().get(..4), Some(["409", "409", "409", "200"].map(str::to_owned).as_slice()));
    lab.settle(60).await;
    assert!(lab.claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_drains_stays_closed_whatever_becomes_of_us() {
    // covers: LC-TERM-43
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("0s", "100%")).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    lab.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await;
    let name = lab.claims().await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    lab.delete(&format!("{CLAIMS}/{name}")).await;
    lab.settle(30).await;
    // Neither passes of disruption nor another process open the node again.
    for round in 0..10 {
        lab.settle(60).await;
        let node = lab.list(NODES).await.into_iter().find(|node| node["metadata"]["name"] == "node-0001").unwrap();
        assert_eq!(tainted(std::slice::from_ref(&node)), 1, "{round}");
        assert_eq!(node["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"], "karpenter");
        let claim = lab.get(&format!("{CLAIMS}/{name}")).await.unwrap();
        assert!(condition(&claim, "Drained").is_some_and(|c| c["status"] == "Unknown"), "{round}: {claim}");
        if round == 5 {
            lab.run(all(&Settings::default()));
        }
    }
    lab.delete("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web").await;
    lab.settle(120).await;
    assert!(lab.get(&format!("{CLAIMS}/{name}")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_nothing_keeps_all_and_says_so() {
    // covers: DIS-BUDGET-09, API-EV-05
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 2, when_empty("0s", "0")).await;
    lab.scale("web", 0).await;
    lab.settle(300).await;
    assert_eq!(lab.claims().await.len(), 2);
    let events = lab.events("NodePool").await;
    let told = events.iter().filter(|text| text.starts_with("DisruptionBlocked") && text.contains("Empty")).count();
    assert!((2..=6).contains(&told), "once a minute: {told}");
    lab.patch(
        &format!("{POOLS}/main"),
        json!({"spec": {"disruption": {"budgets": [{"nodes": "1", "schedule": "@hourly",
        "duration": "10m", "reasons": ["Drifted"]}]}}}),
    )
    .await;
    lab.settle(120).await;
    assert!(lab.claims().await.is_empty(), "a budget for other reasons is none for this");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_during_the_wait_stops_the_command() {
    // covers: DIS-VALID-01, DIS-VALID-03, DIS-EMPTY-04
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 2, when_empty("0s", "100%")).await;
    lab.scale("web", 0).await;
    // Long enough for the pods to be gone and the command to be found, not for its validation.
    lab.settle(14).await;
    assert!(lab.pods("web").await.is_empty());
    assert_eq!(lab.claims().await.len(), 2);
    lab.deployment("late", 1, "7").await;
    lab.settle(120).await;
    assert_eq!(running(&lab.pods("late").await), 1);
    assert_eq!(lab.claims().await.len(), 1, "the other one went");
    assert_eq!(lab.shop.bought(), 2, "and no third was bought");
}

#[tokio::test(start_paused = true)]
async fn each_command_waits_its_own_time() {
    // covers: DIS-VALID-01
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("0s", "100%")).await;
    lab.deployment("more", 1, "7").await;
    lab.settle(120).await;
    assert_eq!(lab.claims().await.len(), 2);
    let mut gone_after = Vec::new();
    lab.scale("web", 0).await;
    for second in 0..90 {
        if second == 8 {
            lab.scale("more", 0).await;
        }
        let there = lab.claims().await.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_null()).count();
        while gone_after.len() < 2 - there {
            gone_after.push(second);
        }
        lab.settle(1).await;
    }
    let [first, second] = gone_after[..] else { panic!("{gone_after:?}") };
    assert!(first >= 15, "{first}");
    assert!((second - first - 8i32).abs() <= 3, "the second is not kept waiting by the first: {first}, {second}");
}

#[tokio::test(start_paused = true)]
async fn nodes_are_set_apart_before_they_go() {
    // covers: DIS-QUEUE-22, API-CD-25, API-EV-08
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("0s", "100%")).await;
    // The claim cannot be deleted for a while.
    lab.server.inject(Fault {
        methods: vec!["DELETE".into()],
        path_contains: "/nodeclaims/".into(),
        per_mille: 1000,
        times: Some(3),
        effect: Effect::Unavailable,
    });
    lab.scale("web", 0).await;
    let mut seen = false;
    for _ in 0..600 {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let claims = lab.claims().await;
        let Some(claim) = claims.first() else { break };
        if claim["metadata"]["deletionTimestamp"].is_null() && tainted(&lab.list(NODES).await) == 1 {
            seen |=
                condition(claim, "DisruptionReason").is_some_and(|c| c["reason"] == "Empty" && c["status"] == "True");
        }
    }
    assert!(seen, "taint and reason before the deletion, which is tried again");
    lab.settle(60).await;
    assert!(lab.claims().await.is_empty());
    let events = lab.events("NodeClaim").await;
    assert!(events.iter().any(|text| text == "DisruptionTerminating Disrupting NodeClaim: Empty"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_left_on_a_node_is_taken_back() {
    // covers: DIS-LOOP-03, DIS-QUEUE-20, CP-H10
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("1h", "100%")).await;
    lab.crash();
    let node = lab.list(NODES).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let taint =
        json!({"spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}, {"key": "own", "effect": "NoSchedule"}]}});
    lab.patch(&format!("{NODES}/{node}"), taint).await;
    let claim = lab.claims().await[0].clone();
    let mut conditions = claim["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({"type": "DisruptionReason", "status": "True", "reason": "Empty", "message": "Empty",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    let name = claim["metadata"]["name"].as_str().unwrap();
    lab.patch(&format!("{CLAIMS}/{name}/status"), json!({"status": {"conditions": conditions}})).await;
    lab.run(all(&Settings::default()));
    lab.settle(15).await;
    let nodes = lab.list(NODES).await;
    assert_eq!(tainted(&nodes), 0);
    assert_eq!(nodes[0]["spec"]["taints"][0]["key"], "own", "and nothing else");
    assert!(condition(&lab.claims().await[0], "DisruptionReason").is_none());
    // A claim that is not launched holds the first pass up, for as long as launches are tried and no longer.
    lab.crash();
    lab.shop.close();
    lab.patch(&format!("{NODES}/{node}"), json!({"spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]}})).await;
    let mut waiting = lab.claims().await[0].clone();
    waiting["metadata"] = json!({"name": "by-hand"});
    waiting.as_object_mut().unwrap().remove("status");
    lab.create(CLAIMS, waiting).await;
    lab.run(all(&Settings::default()));
    lab.settle(240).await;
    assert_eq!(tainted(&lab.list(NODES).await), 1);
    lab.settle(150).await;
    assert_eq!(tainted(&lab.list(NODES).await), 0, "five minutes, and a last attempt");
}

#[tokio::test(start_paused = true)]
async fn passes_never_overlap_however_long_one_takes() {
    // covers: DIS-LOOP-01
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 2, when_empty("0s", "0")).await;
    // Each pass asks what can be bought, and the answer takes longer than the pause between two.
    lab.shop.slow_down(std::time::Duration::from_secs(17));
    let node = lab.list(NODES).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let before = lab.shop.asked_by("disruption").times;
    lab.scale("web", 0).await;
    for round in 0..30 {
        // Whatever makes it look again.
        let kept = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": (round % 2 == 0).to_string()}}});
        lab.patch(&format!("{NODES}/{node}"), kept).await;
        lab.settle(10).await;
    }
    let asked = lab.shop.asked_by("disruption");
    assert!(asked.times - before >= 5, "{asked:?}");
    assert_eq!(asked.at_once, 1, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_pool_that_is_not_ready_still_go_within_its_budget() {
    // covers: NP-READY-03
    let mut lab = Lab::new(1).await;
    let settings = Settings { static_capacity: true, ..Settings::default() };
    lab.node_class().await;
    lab.pool("main", json!({"disruption": when_empty("0s", "1")})).await;
    lab.run_with(all(&settings), settings.clone());
    lab.deployment("web", 2, "7").await;
    lab.settle(120).await;
    assert_eq!(lab.claims().await.len(), 2);
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "SubnetsNotFound",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]}});
    lab.patch(&format!("{}/default/status", super::lab::CLASSES), unready).await;
    lab.settle(5).await;
    let pool = lab.get(&format!("{POOLS}/main")).await.unwrap();
    assert!(condition(&pool, "Ready").is_some_and(|c| c["status"] == "False"), "{pool}");
    // Neither pods nor replicas make it grow.
    lab.deployment("more", 1, "7").await;
    lab.pool("fixed", json!({"replicas": 2})).await;
    lab.settle(120).await;
    assert_eq!(lab.claims().await.len(), 2);
    assert_eq!(running(&lab.pods("more").await), 0);
    lab.scale("more", 0).await;
    lab.scale("web", 0).await;
    let mut most = 0;
    for _ in 0..300 {
        lab.settle(1).await;
        most = most.max(draining(&lab.claims().await));
    }
    assert!(lab.claims().await.is_empty(), "empty nodes go all the same");
    assert_eq!(most, 1, "and its budget counts");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_cannot_be_carried_out_is_rolled_back_in_time() {
    // covers: DIS-QUEUE-15
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("0s", "100%")).await;
    lab.server.inject(Fault {
        methods: vec!["DELETE".into()],
        path_contains: "/nodeclaims/".into(),
        per_mille: 1000,
        times: None,
        effect: Effect::Unavailable,
    });
    lab.scale("web", 0).await;
    lab.settle(120).await;
    assert_eq!(tainted(&lab.list(NODES).await), 1);
    lab.patch(&format!("{POOLS}/main"), json!({"spec": {"disruption": {"consolidateAfter": "Never"}}})).await;
    lab.settle(600).await;
    assert_eq!(tainted(&lab.list(NODES).await), 0);
    assert!(condition(&lab.claims().await[0], "DisruptionReason").is_none());
    assert!(!lab.context.index.machines()[0].marked);
}

#[tokio::test(start_paused = true)]
async fn what_keeps_a_node_is_told_on_it_and_its_claim() {
    // covers: DIS-CAND-02, DIS-EMPTY-02, API-EV-04, API-EV-09, API-EV-38
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("Never", "100%")).await;
    lab.scale("web", 0).await;
    lab.settle(60).await;
    assert_eq!(lab.claims().await.len(), 1);
    for kind in ["Node", "NodeClaim"] {
        let events = lab.events(kind).await;
        let told = events.iter().any(|text| text == "Unconsolidatable NodePool \"main\" has consolidation disabled");
        assert!(told, "{kind}: {events:?}");
    }
    let told = async || {
        let events = lab.events("Node").await;
        events.into_iter().filter(|text| text.starts_with("Unconsolidatable ")).count()
    };
    let before = told().await;
    lab.settle(1_800).await;
    assert_eq!(told().await - before, 2, "once in a quarter of an hour");
    let node = lab.list(NODES).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let kept = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    lab.patch(&format!("{NODES}/{node}"), kept).await;
    lab.settle(150).await;
    for kind in ["Node", "NodeClaim"] {
        let events = lab.events(kind).await;
        assert!(
            events.iter().any(|text| text.starts_with("DisruptionBlocked Disruption is blocked")),
            "{kind}: {events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_the_wait_leaves_nothing_behind() {
    // covers: DIS-VALID-08, DIS-QUEUE-20
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("0s", "100%")).await;
    lab.scale("web", 0).await;
    lab.settle(14).await;
    lab.crash();
    lab.settle(60).await;
    assert_eq!(tainted(&lab.list(NODES).await), 0);
    assert_eq!(lab.claims().await.len(), 1);
    lab.run(all(&Settings::default()));
    lab.settle(120).await;
    assert!(lab.claims().await.is_empty(), "decided anew");
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_while_a_claim_is_still_to_be_launched() {
    // covers: DIS-LOOP-02, STATE-02
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("0s", "100%")).await;
    lab.shop.close();
    lab.scale("web", 0).await;
    let mut claim = lab.claims().await[0].clone();
    claim["metadata"] = json!({"name": "by-hand"});
    claim.as_object_mut().unwrap().remove("status");
    lab.create(CLAIMS, claim).await;
    // Its launch fails again and again.
    lab.settle(60).await;
    assert_eq!(lab.claims().await.len(), 2);
    assert_eq!(tainted(&lab.list(NODES).await), 0);
    lab.delete(&format!("{CLAIMS}/by-hand")).await;
    lab.settle(120).await;
    assert!(lab.claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn budgets_that_cannot_be_read_keep_their_own_nodes_only() {
    // covers: DIS-LOOP-09, DIS-BUDGET-06, DIS-BUDGET-08
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("0s", "100%")).await;
    let wrong = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%", "schedule": "99 99 * * *", "duration": "1h"}]});
    lab.pool("other", json!({"disruption": wrong, "weight": 10})).await;
    lab.settle(5).await;
    lab.deployment("more", 1, "7").await;
    lab.settle(60).await;
    for app in ["web", "more"] {
        lab.scale(app, 0).await;
    }
    lab.settle(120).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["metadata"]["labels"]["karpenter.sh/nodepool"], "other");
    // A person may still take it.
    lab.delete(&format!("{CLAIMS}/{}", claims[0]["metadata"]["name"].as_str().unwrap())).await;
    lab.settle(60).await;
    assert!(lab.claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_nobody_may_write_to_holds_up_no_other() {
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 2, when_empty("0s", "100%")).await;
    // What a crash left on it cannot be taken back.
    lab.patch(&format!("{NODES}/node-0001"), json!({"spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]}}))
        .await;
    lab.server.inject(Fault {
        methods: vec!["PATCH".into()],
        path_contains: "/nodes/node-0001".into(),
        per_mille: 1000,
        times: None,
        effect: Effect::InternalError,
    });
    lab.settle(3_600).await;
    lab.scale("web", 0).await;
    lab.settle(90).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["status"]["nodeName"], "node-0001");
    lab.server.clear_faults();
    lab.settle(90).await;
    assert!(lab.claims().await.is_empty(), "nor is it looked at ever later");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_set_apart_stays_and_the_others_go() {
    // covers: DIS-QUEUE-05
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 2, when_empty("0s", "100%")).await;
    lab.server.inject(Fault {
        methods: vec!["PATCH".into()],
        path_contains: "/nodes/node-0001".into(),
        per_mille: 1000,
        times: None,
        effect: Effect::InternalError,
    });
    lab.scale("web", 0).await;
    lab.settle(90).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["status"]["nodeName"], "node-0001");
    lab.server.clear_faults();
    lab.settle(60).await;
    assert!(lab.claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_that_has_drifted_goes_as_empty() {
    // covers: DIS-EMPTY-08
    let mut lab = Lab::new(1).await;
    let budgets = json!([{"nodes": "0", "reasons": ["Drifted"]}]);
    nodes(&mut lab, 1, json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": budgets})).await;
    let claim = lab.claims().await[0].clone();
    let mut conditions = claim["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    let name = claim["metadata"]["name"].as_str().unwrap();
    lab.patch(&format!("{CLAIMS}/{name}/status"), json!({"status": {"conditions": conditions}})).await;
    lab.scale("web", 0).await;
    lab.settle(90).await;
    assert!(lab.claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_on_a_node_of_several_claims_start_no_quiet_time() {
    // covers: DIS-CONSAFTER-03
    let mut lab = Lab::new(1).await;
    nodes(&mut lab, 1, when_empty("5m", "100%")).await;
    lab.crash();
    let mut twin = lab.claims().await[0].clone();
    let before = twin["status"]["lastPodEventTime"].clone();
    let status = twin.as_object_mut().unwrap().remove("status").unwrap();
    twin["metadata"] = json!({"name": "twin", "labels": twin["metadata"]["labels"]});
    lab.create(CLAIMS, twin).await;
    lab.patch(&format!("{CLAIMS}/twin/status"), json!({"status": status})).await;
    lab.run(karpenter_controllers::disruption::reconcilers());
    lab.settle(30).await;
    lab.scale("web", 0).await;
    lab.settle(60).await;
    let times: Vec<Value> = lab.claims().await.iter().map(|one| one["status"]["lastPodEventTime"].clone()).collect();
    assert_eq!(times, [before.clone(), before.clone()], "nobody can tell whose node it is");
    lab.delete(&format!("{CLAIMS}/twin")).await;
    lab.settle(5).await;
    lab.scale("web", 1).await;
    lab.settle(30).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1);
    assert_ne!(claims[0]["status"]["lastPodEventTime"], before);
}
