//! Fleets that cost more than they need to become cheaper, within the rules, and then come to rest.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use karpenter_apiserver::{Effect, Fault};
use karpenter_controllers::roster::all;
use karpenter_controllers::{CommandObserver, Settings};
use serde_json::{Value, json};

use super::disruption::{condition, draining, tainted};
use super::lab::{CLAIMS, DEPLOYMENTS, Lab, NODES, PODS, POOLS, deployment, running};

const PDBS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn underutilized(after: &str, nodes: &str) -> Value {
    json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": after, "budgets": [{"nodes": nodes}]})
}

async fn cluster(lab: &mut Lab, disruption: Value) {
    lab.node_class().await;
    lab.pool("main", json!({"disruption": disruption})).await;
    lab.run(all(&Settings::default()));
}

/// What runs costs, in cents an hour; small machines are five, large ones nineteen.
async fn cents(lab: &Lab) -> u32 {
    let price = |node: &Value| match node["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str().unwrap() {
        "small" => 5,
        _ => 19,
    };
    lab.list(NODES).await.iter().map(price).sum()
}

/// Names of all pods there ever were, as far as they were seen.
async fn note(lab: &Lab, app: &str, seen: &mut BTreeSet<String>) {
    for pod in lab.pods(app).await {
        seen.insert(pod["metadata"]["name"].as_str().unwrap().to_owned());
    }
}

#[tokio::test(start_paused = true)]
async fn observers_see_what_is_decided_and_what_starts_and_computations_may_take_long() {
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"})).await;
    let seen = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let (decided, started, clock) = (seen.clone(), seen.clone(), lab.context.clock.clone());
    let at = clock.clone();
    let of_decisions: CommandObserver = Box::new(move |_, _, commands| {
        assert!(!commands.is_empty());
        decided.lock().unwrap().0.push(at.now());
    });
    let of_starts: CommandObserver = Box::new(move |snapshot, _, commands| {
        let there = |name: &str| snapshot.world.nodes.iter().any(|node| &*node.name == name);
        assert!(commands.iter().flat_map(|command| &command.candidates).all(|candidate| there(&candidate.name)));
        started.lock().unwrap().1.push(clock.now());
    });
    assert!(lab.context.decision_observer.set(of_decisions).is_ok());
    assert!(lab.context.start_observer.set(of_starts).is_ok());
    lab.deployment("web", 1, "1").await;
    lab.settle(60).await;
    assert_eq!(running(&lab.pods("web").await), 1);
    assert!(lab.context.compute_time.set(Box::new(|| Duration::from_secs(20))).is_ok());
    lab.scale("web", 0).await;
    lab.settle(60).await;
    assert_eq!(lab.list(NODES).await.len(), 1, "a search, 15 seconds, and the validation");
    lab.settle(120).await;
    assert!(lab.list(NODES).await.is_empty());
    let seen = seen.lock().unwrap();
    let (decided, started) = (seen.0.first().unwrap(), seen.1.as_slice());
    let [started] = started else { panic!("{started:?}") };
    assert!(started.duration_since(*decided).as_secs() >= 35, "{decided} {started}");
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_loses_most_of_its_pods_shrinks_within_its_budget() {
    // covers: DIS-LOOP-08, DIS-VALID-06, SEED0-32, SEED3-12, API-EV-10
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("30s", "10%")).await;
    lab.deployment("web", 80, "1").await;
    lab.settle(120).await;
    assert_eq!(running(&lab.pods("web").await), 80);
    let (before, nodes) = (cents(&lab).await, lab.claims().await.len());
    // Every node keeps a few: which pods go is chosen by their names.
    let mut seen = BTreeSet::new();
    let pods = lab.pods("web").await;
    let mut names: Vec<&str> = pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
    names.sort_by_key(|name| name.chars().rev().collect::<String>());
    for name in &names[..48] {
        let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}}});
        lab.patch(&format!("/api/v1/namespaces/default/pods/{name}"), cost).await;
    }
    lab.scale("web", 32).await;
    lab.settle(20).await;
    note(&lab, "web", &mut seen).await;
    let most_at_once = nodes.div_ceil(10);
    for _ in 0..240 {
        lab.settle(5).await;
        note(&lab, "web", &mut seen).await;
        let claims = lab.claims().await;
        let going = claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_string()).count();
        assert!(going <= most_at_once, "{going} at once, of {nodes}");
    }
    // 32 pods of one core: four large machines, at 76 cents; nothing cheaper holds them.
    let after = cents(&lab).await;
    assert!(before >= 190 && after <= 79, "from {before} to {after} cents");
    assert_eq!(running(&lab.pods("web").await), 32);
    let moved = seen.len() - 32;
    assert!(moved <= 2 * 32, "nobody moved more than twice: {moved}");
    println!("shrunk from {before} to {after} cents with {moved} evictions of 32 pods");
}

#[tokio::test(start_paused = true)]
async fn under_a_budget_of_one_node_the_next_goes_as_soon_as_the_instance_before_it_terminates() {
    // covers: DIS-BUDGET-04
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "1")).await;
    lab.deployment("web", 40, "1").await;
    lab.settle(120).await;
    let nodes = lab.claims().await.len();
    assert!(nodes >= 4, "{nodes}");
    lab.scale("web", 0).await;
    let (mut seen, mut went) = (BTreeSet::new(), Vec::new());
    for second in 0..180 {
        lab.settle(1).await;
        let claims = lab.claims().await;
        let going = claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_string());
        assert!(draining(&claims) <= 1, "{claims:?}");
        let name = |claim: &Value| claim["metadata"]["name"].as_str().unwrap().to_owned();
        let fresh = going.map(name).filter(|name| seen.insert(name.clone()));
        went.extend(fresh.map(|_| second));
    }
    assert_eq!(went.len(), nodes, "{went:?}");
    // A pass decides about all of them, and none waits for another pass, its validation, or the end of an instance.
    let waits: Vec<i32> = went.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.iter().all(|wait| *wait <= 8), "{went:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_goes_are_promised_to_the_one_that_takes_them() {
    // covers: DIS-QUEUE-03
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "100%")).await;
    // Five and three cores on each of two large nodes.
    for app in ["wide", "narrow"] {
        lab.deployment(app, 2, if app == "wide" { "5" } else { "3" }).await;
    }
    lab.settle(120).await;
    assert_eq!(cents(&lab).await, 38);
    lab.scale("wide", 0).await;
    let node_of = |pod: &Value| pod["spec"]["nodeName"].as_str().unwrap().to_owned();
    let before = lab.pods("narrow").await;
    for _ in 0..12_000 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if tainted(&lab.list(NODES).await) > 0 {
            break;
        }
    }
    let nodes = lab.list(NODES).await;
    let going: Vec<&Value> = nodes.iter().filter(|node| tainted(std::slice::from_ref(node)) == 1).collect();
    let [going] = going.as_slice() else { panic!("{nodes:#?}") };
    let moves = before.iter().find(|pod| going["metadata"]["name"] == *node_of(pod)).unwrap();
    let takes = before.iter().find(|pod| going["metadata"]["name"] != *node_of(pod)).map(node_of).unwrap();
    // Before its pod has arrived there.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let machines = lab.context.index.machines();
    let of = |name: &str| machines.iter().find(|one| one.reduced.as_ref().is_some_and(|node| *node.name == *name));
    assert!(of(going["metadata"]["name"].as_str().unwrap()).is_some_and(|machine| machine.marked));
    let target = of(&takes).unwrap();
    let nominated = lab.context.index.is_nominated(&target.id, lab.context.clock.now());
    assert!(!target.marked && nominated, "it stays for them");
    lab.settle(2).await;
    let events = lab.list("/api/v1/events").await;
    let promised = events.iter().any(|event| {
        let message = event["message"].as_str().unwrap();
        event["involvedObject"]["uid"] == moves["metadata"]["uid"]
            && event["reason"] == "Nominated"
            && message.ends_with(&format!("node/{takes}"))
    });
    assert!(promised, "{events:#?}");
}

/// How often the loop looked at the cluster in so many seconds: each look asks what can be bought.
async fn looks(lab: &Lab, seconds: u64) -> u32 {
    let before = lab.shop.asked_by("disruption").times;
    lab.settle(seconds).await;
    lab.shop.asked_by("disruption").times - before
}

#[tokio::test(start_paused = true)]
async fn a_cluster_in_which_nothing_can_be_done_is_left_alone() {
    // covers: DIS-CONSOL-02, DIS-EMPTY-06, DIS-MULTI-10, STATE-30
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "100%")).await;
    lab.deployment("web", 7, "1").await;
    lab.settle(600).await;
    let resting = looks(&lab, 1_500).await;
    let once = resting / 5;
    assert!(once >= 1 && resting == 5 * once, "every five minutes: {resting} questions");
    lab.scale("web", 6).await;
    assert!(looks(&lab, 30).await >= once, "something changed");
    // What a budget holds back may go at any time.
    let held = json!({"spec": {"disruption": underutilized("0s", "0")}});
    lab.patch(&format!("{POOLS}/main"), held).await;
    lab.scale("web", 0).await;
    lab.settle(60).await;
    let held_back = looks(&lab, 300).await / once;
    assert!((28..=32).contains(&held_back), "every ten seconds: {held_back}");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_replaced_by_a_cheaper_one_and_then_nothing_moves_for_a_day() {
    // covers: DIS-QUEUE-01, DIS-CONSOL-05, DIS-CONSOL-10, API-EV-10
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("30s", "100%")).await;
    lab.deployment("web", 7, "1").await;
    lab.settle(120).await;
    assert_eq!(cents(&lab).await, 19, "one large machine for seven");
    lab.scale("web", 1).await;
    lab.settle(300).await;
    assert_eq!(cents(&lab).await, 5, "a small one for the last");
    assert_eq!(running(&lab.pods("web").await), 1);
    assert_eq!(lab.shop.bought(), 2);
    let text = lab.metrics();
    let wanted = "decisions_total{decision=\"replace\",reason=\"underutilized\",consolidation_type=\"single\"} 1\n";
    assert!(text.contains(wanted), "{text}");
    let labels = "reason=\"underutilized\",nodepool=\"main\",capacity_type=\"on-demand\",\
        consolidation_policy=\"WhenEmptyOrUnderutilized\",termination_mode=\"graceful\"";
    assert!(text.contains(&format!("karpenter_nodeclaims_disrupted_total{{{labels}}} 1\n")), "{text}");
    let events = lab.events("Node").await;
    assert!(events.iter().any(|text| text.starts_with("ConsolidationCandidate ")), "{events:?}");
    let (pods, claims) = (lab.pods("web").await, lab.claims().await);
    lab.settle(24 * 3600).await;
    let name = |objects: &[Value]| objects.iter().map(|object| object["metadata"]["uid"].clone()).collect::<Vec<_>>();
    assert_eq!((name(&lab.pods("web").await), name(&lab.claims().await)), (name(&pods), name(&claims)));
    assert_eq!(lab.shop.bought(), 2);
    // What keeps the node is told and kept.
    let events = lab.events("NodeClaim").await;
    assert!(
        events.iter().any(|text| text.starts_with("Unconsolidatable Can't replace with a cheaper node")),
        "{events:?}"
    );
    let (_, records) = lab.context.recorder.judgements().unwrap();
    assert_eq!(records.len(), 1);
    assert!(records[0].command.is_none() && records[0].kept_by[0].starts_with("Can't replace"), "{records:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_pod_that_cannot_be_read_is_neither_empty_nor_moved() {
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("30s", "100%")).await;
    lab.deployment("web", 6, "1").await;
    let mut odd = deployment("odd", 1, "1");
    odd["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(33);
    lab.create(DEPLOYMENTS, odd).await;
    lab.settle(120).await;
    assert_eq!(cents(&lab).await, 19, "one large machine for seven");
    // From now on the controllers cannot read it: first while others are there, then alone.
    lab.crash();
    lab.scythe.garble(r#""terminationGracePeriodSeconds":33"#, r#""terminationGracePeriodSeconds":"x33""#);
    lab.run(all(&Settings::default()));
    lab.settle(60).await;
    lab.scale("web", 0).await;
    lab.settle(900).await;
    assert_eq!((cents(&lab).await, lab.shop.bought()), (19, 1), "nobody knows where else it could run");
    let name = lab.pods("odd").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    for kind in ["Node", "NodeClaim"] {
        let wanted = format!("DisruptionBlocked Object cannot be read (Pod default/{name})");
        let events = lab.events(kind).await;
        assert!(events.contains(&wanted), "{kind}: {events:?}");
    }
    assert!(lab.events("Pod").await.iter().any(|text| text.starts_with("Unreadable ")));
    lab.scythe.clear();
    lab.patch(&format!("{}/{name}", PODS), json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    lab.settle(300).await;
    assert_eq!(cents(&lab).await, 5, "it is moved like any other");
    assert_eq!(running(&lab.pods("odd").await), 1);
}

#[tokio::test(start_paused = true)]
async fn nodes_whose_objects_cannot_be_read_stay() {
    let text = [
        // The claim, the pool, and the budget of the pods of a namespace.
        (r#""lastPodEventTime":""#, r#""lastPodEventTime":{},"lost":""#),
        (r#""weight":17"#, r#""weight":"x""#),
        (r#""maxUnavailable":"99%""#, r#""maxUnavailable":{}"#),
    ];
    for (from, to) in text {
        let mut lab = Lab::new(1).await;
        lab.node_class().await;
        lab.pool("main", json!({"weight": 17, "disruption": underutilized("30s", "100%")})).await;
        lab.run(all(&Settings::default()));
        let pdb = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "others"},
            "spec": {"maxUnavailable": "99%", "selector": {"matchLabels": {"app": "others"}}}});
        lab.create(PDBS, pdb).await;
        lab.deployment("web", 7, "1").await;
        lab.settle(120).await;
        assert_eq!(cents(&lab).await, 19);
        lab.crash();
        lab.scythe.garble(from, to);
        lab.run(all(&Settings::default()));
        lab.settle(30).await;
        lab.scale("web", 1).await;
        lab.settle(900).await;
        assert_eq!((cents(&lab).await, lab.shop.bought()), (19, 1), "{from}");
        lab.scythe.clear();
        lab.run(all(&Settings::default()));
        lab.settle(300).await;
        assert_eq!(cents(&lab).await, 5, "{from}: readable again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_pods_holds_a_node_for_minutes_and_then_lets_it_go() {
    // covers: DIS-VALID-07, API-EV-04, DIS-CAND-04
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "100%")).await;
    lab.deployment("web", 7, "1").await;
    lab.settle(120).await;
    let pdb = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    lab.create(PDBS, pdb).await;
    lab.scale("web", 1).await;
    lab.settle(300).await;
    assert_eq!(cents(&lab).await, 19, "the last pod may not go");
    for kind in ["Node", "NodeClaim"] {
        let events = lab.events(kind).await;
        let told = events.iter().any(|text| {
            text.starts_with("DisruptionBlocked Pdb prevents pod evictions") && text.contains("default/web")
        });
        assert!(told, "{kind}: {events:?}");
    }
    assert_eq!(lab.shop.bought(), 1, "and nothing was bought for it");
    lab.delete(&format!("{PDBS}/web")).await;
    lab.settle(180).await;
    assert_eq!(cents(&lab).await, 5);
    assert_eq!(running(&lab.pods("web").await), 1);
}

#[tokio::test(start_paused = true)]
async fn what_comes_during_the_wait_stops_a_replacement() {
    // covers: DIS-VALID-05, DIS-VALID-07, DIS-CONSOL-10, API-EV-11
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "100%")).await;
    lab.deployment("web", 7, "1").await;
    lab.settle(120).await;
    lab.scale("web", 1).await;
    // Found, and waiting to be looked at again.
    let mut found = false;
    for _ in 0..40 {
        lab.settle(1).await;
        found |= lab.events("Node").await.iter().any(|text| text.starts_with("ConsolidationCandidate "));
        if found {
            break;
        }
    }
    assert!(found);
    let pod = lab.pods("web").await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let protect = |value: Value| json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}});
    lab.patch(&format!("/api/v1/namespaces/default/pods/{pod}"), protect(json!("true"))).await;
    lab.settle(60).await;
    assert_eq!(lab.shop.bought(), 1);
    assert_eq!(tainted(&lab.list(NODES).await), 0);
    let events = lab.events("Node").await;
    let rejected = events.iter().find(|text| text.starts_with("ConsolidationRejected ")).expect("it is told");
    assert!(rejected.contains("reason: churn"), "{rejected}");
    let failed = "karpenter_voluntary_disruption_failed_validations_total{consolidation_type=\"single\"} 1\n";
    assert!(lab.metrics().contains(failed), "{}", lab.metrics());
    lab.patch(&format!("/api/v1/namespaces/default/pods/{pod}"), protect(Value::Null)).await;
    lab.settle(120).await;
    assert_eq!(cents(&lab).await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_stock_out_of_six_hours_is_no_storm_and_is_recovered_from() {
    // covers: DIS-QUEUE-11, DIS-QUEUE-15
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "100%")).await;
    lab.deployment("web", 7, "1").await;
    lab.settle(120).await;
    // Only those who try to buy one find out.
    lab.shop.sell_out_secretly("small");
    lab.scale("web", 1).await;
    lab.settle(6 * 3600).await;
    assert_eq!(running(&lab.pods("web").await), 1);
    assert_eq!(cents(&lab).await, 19, "no churn");
    assert_eq!(tainted(&lab.list(NODES).await), 0);
    let tries: Vec<_> = lab.shop.attempts().into_iter().skip(1).map(|(at, _)| at).collect();
    for window in tries.windows(3) {
        assert!(window[2].duration_since(window[0]) > Duration::from_mins(1), "three within a minute");
    }
    assert!((20..=110).contains(&tries.len()), "a few an hour: {}", tries.len());
    lab.shop.sell_out("small", true);
    lab.settle(900).await;
    assert_eq!(cents(&lab).await, 5, "recovered");
}

#[tokio::test(start_paused = true)]
async fn looking_alone_promises_nothing() {
    // covers: DIS-SIM-11
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "0")).await;
    lab.deployment("web", 16, "1").await;
    lab.settle(120).await;
    let nodes = lab.claims().await.len();
    let mut faulty = deployment("faulty", 1, "1");
    faulty["spec"]["template"]["spec"]["nodeSelector"] = json!({"karpenter.sh/no-such-label": "x"});
    lab.create("/apis/apps/v1/namespaces/default/deployments", faulty).await;
    lab.scale("web", 3).await;
    let duration = |lab: &Lab| lab.metric("karpenter_scheduler_scheduling_duration_seconds_count", "disruption");
    let before = duration(&lab);
    lab.settle(300).await;
    assert!(duration(&lab) > before, "looks are simulations of the controller `disruption`");
    assert_eq!(lab.claims().await.len(), nodes, "what a budget of nothing keeps stays");
    for pod in lab.pods("faulty").await.iter().chain(&lab.pods("web").await) {
        assert!(pod["status"]["nominatedNodeName"].is_null(), "{pod}");
    }
    assert_eq!(lab.metric("karpenter_scheduler_ignored_pods_count", ""), 1.0, "who fails validation is counted");
    let events = lab.events("Pod").await;
    assert!(events.iter().any(|event| event.starts_with("FailedScheduling Failed to schedule pod")), "{events:?}");
    assert_eq!(tainted(&lab.list(NODES).await), 0);
}

#[tokio::test(start_paused = true)]
async fn a_controllers_config_map_pauses_everything() {
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    lab.pool("main", json!({"disruption": underutilized("0s", "100%")})).await;
    let settings = Settings { config_map: Some(("default".into(), "karpenter".into())), ..Settings::default() };
    lab.run_with(all(&settings), settings.clone());
    let maps = "/api/v1/namespaces/default/configmaps";
    let annotations = json!({"karpenter.sh/pause-disruption": "while we look"});
    lab.create(
        maps,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "karpenter", "annotations": annotations}}),
    )
    .await;
    lab.deployment("web", 7, "1").await;
    lab.settle(120).await;
    lab.scale("web", 0).await;
    lab.settle(600).await;
    assert_eq!(lab.claims().await.len(), 1, "not even an empty node goes");
    lab.delete(&format!("{maps}/karpenter")).await;
    lab.settle(90).await;
    assert!(lab.claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_protects_a_pod_is_told_when_its_node_is_looked_at() {
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "100%")).await;
    for (app, value) in [("timed", "1h"), ("typo", "soon"), ("always", "true")] {
        let mut made = deployment(app, 1, "100m");
        made["spec"]["template"]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": value});
        lab.create(DEPLOYMENTS, made).await;
    }
    // At rest every node is looked at again after five minutes.
    lab.settle(700).await;
    let events = lab.events("Pod").await;
    let of = |reason: &str| events.iter().filter(|event| event.starts_with(reason)).cloned().collect::<Vec<_>>();
    assert!(of("Evicted").is_empty() && lab.claims().await.len() == 1, "nothing was evicted: {events:?}");
    let until = of("DoNotDisruptUntil The karpenter.sh/do-not-disrupt grace period will elapse at 2026-01-01T01:0");
    assert!(!until.is_empty(), "{events:?}");
    let invalid = "InvalidDoNotDisruptAnnotation Invalid karpenter.sh/do-not-disrupt annotation: failed to parse \"soon\" as a duration";
    assert!(!of(invalid).is_empty(), "{events:?}");
    lab.settle(3600).await;
    let events = lab.events("Pod").await;
    let elapsed = "DoNotDisruptGracePeriodElapsed The karpenter.sh/do-not-disrupt grace period has elapsed";
    assert!(events.iter().any(|event| event.starts_with(elapsed)), "{events:?}");
}

/// The ConfigMap cannot be read, as while the API server is overloaded.
fn unreadable_switch() -> Fault {
    Fault {
        methods: vec!["GET".to_owned()],
        path_contains: "/configmaps/karpenter".to_owned(),
        per_mille: 1000,
        times: None,
        effect: Effect::InternalError,
    }
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_cannot_be_read_stays_as_it_was_and_at_first_is_on() {
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    lab.pool("main", json!({"disruption": underutilized("0s", "100%")})).await;
    let settings = Settings { config_map: Some(("default".into(), "karpenter".into())), ..Settings::default() };
    lab.server.inject(unreadable_switch());
    lab.run_with(all(&settings), settings.clone());
    lab.deployment("web", 7, "1").await;
    lab.settle(120).await;
    lab.scale("web", 0).await;
    lab.settle(600).await;
    assert_eq!(lab.claims().await.len(), 1, "nobody knows yet whether it is on");
    lab.server.clear_faults();
    lab.settle(90).await;
    assert!(lab.claims().await.is_empty(), "it is not there, so it is off");

    lab.scale("web", 7).await;
    lab.settle(120).await;
    lab.server.inject(unreadable_switch());
    lab.scale("web", 0).await;
    lab.settle(120).await;
    assert!(lab.claims().await.is_empty(), "it was off when it was last read");
    lab.server.clear_faults();

    let maps = "/api/v1/namespaces/default/configmaps";
    let annotations = json!({"karpenter.sh/pause-disruption": "true"});
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "karpenter", "annotations": annotations}});
    lab.create(maps, map).await;
    lab.scale("web", 7).await;
    lab.settle(120).await;
    lab.server.inject(unreadable_switch());
    lab.scale("web", 0).await;
    lab.settle(600).await;
    assert_eq!(lab.claims().await.len(), 1, "it was on when it was last read");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_cannot_go_keep_no_others() {
    // covers: DIS-LOOP-06, DIS-CAND-03
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "100%")).await;
    lab.deployment("web", 16, "1").await;
    lab.settle(120).await;
    assert_eq!(lab.claims().await.len(), 2);
    let kept = lab.list(NODES).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let protect = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    lab.patch(&format!("{NODES}/{kept}"), protect).await;
    lab.scale("web", 1).await;
    lab.settle(300).await;
    let nodes = lab.list(NODES).await;
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0]["metadata"]["name"], *kept);
    assert_eq!(running(&lab.pods("web").await), 1);
    assert!(condition(&lab.claims().await[0], "DisruptionReason").is_none());
    lab.patch(&format!("{POOLS}/main"), json!({"spec": {"disruption": {"budgets": []}}})).await;
    assert_eq!(lab.list(CLAIMS).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_balanced_pool_says_what_it_approved() {
    // covers: DIS-BAL-10, DIS-BAL-11, API-EV-12
    let mut lab = Lab::new(1).await;
    let disruption =
        json!({"consolidationPolicy": "Balanced", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    cluster(&mut lab, disruption).await;
    lab.deployment("web", 7, "1").await;
    lab.settle(120).await;
    lab.scale("web", 1).await;
    lab.settle(180).await;
    assert_eq!(cents(&lab).await, 5);
    // All there is to disrupt, for three quarters of the price.
    for kind in ["Node", "NodeClaim"] {
        let events = lab.events(kind).await;
        let told = events.iter().find(|text| text.starts_with("ConsolidationApproved ")).expect("it is told");
        assert_eq!(told, "ConsolidationApproved score 0.74 >= threshold 0.50 (k: 2, savings 73.7%, disruption 100.0%)");
    }
    let labels = "decision=\"approved\",nodepool=\"main\",policy=\"Balanced\"";
    assert!(
        lab.metrics().contains(&format!("karpenter_consolidation_score_count{{{labels}}} 1\n")),
        "{}",
        lab.metrics()
    );
    assert!(lab.metrics().contains(&format!("karpenter_consolidation_moves_total{{{labels}}} 1\n")));
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_search_is_not_lost() {
    // covers: DIS-CONSOL-03
    let mut lab = Lab::new(1).await;
    cluster(&mut lab, underutilized("0s", "100%")).await;
    lab.deployment("web", 7, "1").await;
    lab.settle(400).await;
    // A look takes half a minute from now on, and the pods go in the middle of one.
    lab.shop.slow_down(Duration::from_secs(15));
    lab.patch(&format!("{POOLS}/main"), json!({"spec": {"weight": 3}})).await;
    lab.settle(10).await;
    lab.scale("web", 0).await;
    lab.settle(20).await;
    lab.shop.slow_down(Duration::ZERO);
    lab.settle(120).await;
    assert!(lab.claims().await.is_empty(), "long before everything is looked at anyway");
}
