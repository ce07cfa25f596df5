//! The engine: nothing is lost, nothing is done twice at once, one bad object stops nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use karpenter_apiserver::{Effect, Fault};
use karpenter_controllers::{Action, Context, Error, Reconciler, Result, Shift};
use karpenter_index::{Change, Key, Kind};
use serde_json::json;

use super::lab::{Lab, NODES};
use super::silence::Trouble;

/// Knows of every Node what the last reconciliation saw.
#[derive(Default)]
struct Mirror {
    seen: Mutex<BTreeMap<String, Option<String>>>,
    /// How often each key was looked at.
    looks: Mutex<BTreeMap<String, u32>>,
}

#[async_trait]
impl Reconciler for Mirror {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        assert!(&*change.key.name != "sleeper", "a bug about waking");
        if change.kind == Kind::Node { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        *self.looks.lock().unwrap().entry(key.name.to_string()).or_default() += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
        if key.name.starts_with("panic") {
            panic!("a bug about {key}");
        }
        if key.name.starts_with("bad") {
            return Err(Error::other("never works"));
        }
        let node = context.index.node(&key.name);
        let mark = node.map(|node| node.metadata.labels.as_ref().and_then(|all| all.get("mark").cloned()));
        self.seen.lock().unwrap().insert(key.name.to_string(), mark.flatten());
        Ok(Action::Done)
    }
}

fn fault(path: &str, per_mille: u32, effect: Effect) -> Fault {
    Fault { methods: vec!["GET".into()], path_contains: path.into(), per_mille, times: None, effect }
}

#[tokio::test(start_paused = true)]
async fn no_event_is_lost_when_lists_fail_and_watches_break() {
    // covers: STATE-08
    for seed in 0..5 {
        let mut lab = Lab::new(seed).await;
        let mirror = Arc::new(Mirror::default());
        lab.server.inject(fault("/nodes", 300, Effect::InternalError));
        lab.server.inject(fault("/nodes", 200, Effect::TooManyRequests { retry_after_seconds: 1 }));
        lab.server.inject(fault("/nodes", 200, Effect::Latency(Duration::from_millis(300))));
        lab.run(vec![mirror.clone()]);
        let mut want: BTreeMap<String, Option<String>> = BTreeMap::new();
        for round in 0..60_u64 {
            let name = format!("n{}", (round * 7 + seed) % 11);
            let path = format!("{NODES}/{name}");
            match (want.get(&name).cloned().flatten(), round % 5) {
                (None, _) => {
                    let mark = round.to_string();
                    let node = json!({"metadata": {"name": name, "labels": {"mark": mark}}});
                    lab.create(NODES, node).await;
                    want.insert(name, Some(mark));
                }
                (Some(_), 4) => {
                    lab.delete(&path).await;
                    want.insert(name, None);
                }
                (Some(_), _) => {
                    let mark = round.to_string();
                    lab.patch(&path, json!({"metadata": {"labels": {"mark": mark}}})).await;
                    want.insert(name, Some(mark));
                }
            }
            match round % 7 {
                1 => lab.server.drop_watches(),
                3 => lab.server.expire_watches(),
                5 => lab.server.compact(),
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(137)).await;
        }
        lab.server.clear_faults();
        lab.settle(30).await;
        // What came and went while the watch was down was never seen, and need not have been.
        want.retain(|_, mark| mark.is_some());
        mirror.seen.lock().unwrap().retain(|_, mark| mark.is_some());
        assert_eq!(*mirror.seen.lock().unwrap(), want, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_bad_object_stops_nobody_and_is_tried_ever_later() {
    let mut lab = Lab::new(1).await;
    let mirror = Arc::new(Mirror::default());
    lab.run(vec![mirror.clone()]);
    for name in ["bad", "panic", "good"] {
        lab.create(NODES, json!({"metadata": {"name": name, "labels": {"mark": "1"}}})).await;
    }
    lab.settle(10).await;
    assert_eq!(mirror.seen.lock().unwrap().get("good"), Some(&Some("1".to_owned())));
    let looks = mirror.looks.lock().unwrap().clone();
    // 5 ms doubling: after ten seconds some eleven attempts, not thousands.
    for name in ["bad", "panic"] {
        assert!((8..=14).contains(&looks[name]), "{name}: {}", looks[name]);
    }
    lab.patch(&format!("{NODES}/good"), json!({"metadata": {"labels": {"mark": "2"}}})).await;
    lab.settle(1).await;
    assert_eq!(mirror.seen.lock().unwrap().get("good"), Some(&Some("2".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn one_change_that_a_controller_cannot_take_up_stops_nobody() {
    let mut lab = Lab::new(1).await;
    let mirror = Arc::new(Mirror::default());
    lab.create(NODES, json!({"metadata": {"name": "sleeper"}})).await;
    lab.run(vec![mirror.clone()]);
    lab.create(NODES, json!({"metadata": {"name": "good", "labels": {"mark": "1"}}})).await;
    lab.settle(10).await;
    assert_eq!(mirror.seen.lock().unwrap().get("good"), Some(&Some("1".to_owned())));
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &lab.context.metrics.plain_registry()).unwrap();
    let line = page.lines().find(|line| line.starts_with("controller_runtime_reconcile_panics_total")).unwrap();
    assert!(line.contains("mirror") && !line.ends_with(" 0"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_write_is_known_before_the_watch_tells_it() {
    // covers: STATE-06
    let mut lab = Lab::new(1).await;
    lab.run(Vec::new());
    lab.settle(1).await;
    lab.server.inject(fault("/nodes", 1000, Effect::InternalError));
    lab.server.drop_watches();
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    lab.context.create::<k8s_openapi::api::core::v1::Node>(&node).await.unwrap();
    assert!(lab.context.index.node("n").is_some());
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_before_the_lease_is_told_with_it() {
    let mut lab = Lab::new(1).await;
    lab.create(NODES, json!({"metadata": {"name": "odd"}, "spec": {"unschedulable": true}})).await;
    lab.scythe.garble("\"unschedulable\":true", "\"unschedulable\":7");
    let start = Box::pin(tokio::time::sleep(Duration::from_secs(15)));
    // Whoever does not lead may not write.
    let fence = Fault { methods: vec!["POST".into()], ..fault("/events", 1000, Effect::InternalError) };
    lab.server.inject(fence);
    lab.run_for(Shift { start, end: Box::pin(std::future::pending()) }, vec![Arc::new(Mirror::default())]);
    lab.settle(14).await;
    assert_eq!(lab.context.index.unreadable_keys(Kind::Node), [Key::cluster("odd")]);
    lab.server.clear_faults();
    lab.settle(5).await;
    let told = lab.events("Node").await;
    assert_eq!(told.iter().filter(|event| event.starts_with("Unreadable")).count(), 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn of_many_objects_that_cannot_be_read_each_is_told_in_its_turn() {
    let mut lab = Lab::new(1).await;
    for number in 0..50 {
        let node = json!({"metadata": {"name": format!("odd-{number}")}, "spec": {"unschedulable": true}});
        lab.create(NODES, node).await;
    }
    lab.scythe.garble("\"unschedulable\":true", "\"unschedulable\":7");
    lab.run(vec![Arc::new(Mirror::default())]);
    let told = async |lab: &Lab| {
        let events = lab.list("/api/v1/events").await.into_iter().filter(|event| event["reason"] == "Unreadable");
        let named = events.map(|event| event["involvedObject"]["name"].as_str().unwrap().to_owned());
        named.collect::<std::collections::BTreeSet<_>>().len()
    };
    lab.settle(5).await;
    let soon = told(&lab).await;
    assert!((20..30).contains(&soon), "not all at once: {soon}");
    lab.settle(300).await;
    assert_eq!(told(&lab).await, 50);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_went_silent_goes_on_where_it_was() {
    // covers: STATE-08
    let mut lab = Lab::new(1).await;
    let mirror = Arc::new(Mirror::default());
    lab.run(vec![mirror.clone()]);
    lab.create(NODES, json!({"metadata": {"name": "a", "labels": {"mark": "1"}}})).await;
    lab.create(NODES, json!({"metadata": {"name": "b", "labels": {"mark": "1"}}})).await;
    lab.settle(200).await;
    let (lists, looks) = (lab.reads.asked("LIST", "/nodes"), mirror.looks.lock().unwrap().clone());
    lab.reads.suffer("/nodes", Trouble::Forgotten);
    lab.patch(&format!("{NODES}/a"), json!({"metadata": {"labels": {"mark": "2"}}})).await;
    lab.delete(&format!("{NODES}/b")).await;
    lab.settle(30).await;
    assert_eq!(mirror.seen.lock().unwrap()["a"].as_deref(), Some("1"), "nobody says anything");
    // The silence began some seconds before, with the last bookmark.
    lab.settle(50).await;
    let want = BTreeMap::from([("a".to_owned(), Some("2".to_owned())), ("b".to_owned(), None)]);
    assert_eq!(*mirror.seen.lock().unwrap(), want);
    lab.settle(200).await;
    assert_eq!(lab.reads.asked("LIST", "/nodes"), lists, "it knows where it was");
    for (name, before) in looks {
        assert_eq!(mirror.looks.lock().unwrap()[&name], before + 1, "{name}: each event is told once");
    }
    assert!(lab.context.is_fresh() && lab.context.hung().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_lets_a_byte_through_now_and_then_is_not_fresh() {
    let mut lab = Lab::new(1).await;
    let mirror = Arc::new(Mirror::default());
    lab.run(vec![mirror.clone()]);
    lab.create(NODES, json!({"metadata": {"name": "a", "labels": {"mark": "1"}}})).await;
    lab.settle(100).await;
    lab.reads.suffer("/nodes", Trouble::Trickles);
    lab.patch(&format!("{NODES}/a"), json!({"metadata": {"labels": {"mark": "2"}}})).await;
    lab.settle(100).await;
    for _ in 0..300 {
        lab.settle(1).await;
        assert!(!lab.context.is_fresh(), "nothing whole has come for minutes");
    }
    assert_eq!(mirror.seen.lock().unwrap()["a"].as_deref(), Some("1"));
    assert!(lab.context.hung().is_empty(), "waiting is not hanging: {:?}", lab.context.hung());
    lab.reads.recover();
    lab.settle(90).await;
    assert_eq!(mirror.seen.lock().unwrap()["a"].as_deref(), Some("2"));
    assert!(lab.context.is_fresh());
}

#[tokio::test(start_paused = true)]
async fn what_happens_while_no_watch_says_a_word_is_listed() {
    let mut lab = Lab::new(1).await;
    let mirror = Arc::new(Mirror::default());
    lab.run(vec![mirror.clone()]);
    lab.settle(100).await;
    lab.reads.suffer("/nodes", Trouble::Mute);
    lab.settle(200).await;
    for mark in ["1", "2", "3"] {
        let node = json!({"metadata": {"name": format!("n{mark}"), "labels": {"mark": mark}}});
        lab.create(NODES, node).await;
        lab.settle(100).await;
        let seen = mirror.seen.lock().unwrap().get(&format!("n{mark}")).cloned();
        assert!(seen.is_some() || !lab.context.is_fresh(), "{mark}: what it does not know of it calls recent");
        assert!(seen.is_some(), "lists are answered");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_not_asked_without_a_pause() {
    for (trouble, lists) in [(Trouble::EndsAtOnce, 0), (Trouble::FailsInside(500), 0), (Trouble::FailsInside(410), 15)]
    {
        let mut lab = Lab::new(1).await;
        lab.run(vec![Arc::new(Mirror::default())]);
        lab.settle(20).await;
        let before = (lab.reads.asked("WATCH", "/nodes"), lab.reads.asked("LIST", "/nodes"));
        lab.reads.suffer("/nodes", trouble);
        lab.settle(60).await;
        let watches = lab.reads.asked("WATCH", "/nodes") - before.0;
        assert!((5..=15).contains(&watches), "{trouble:?}: asked {watches} times in a minute");
        let listed = lab.reads.asked("LIST", "/nodes") - before.1;
        assert!(listed <= lists, "{trouble:?}: listed {listed} times");
        // A watch that is accepted and ends at once has told nothing.
        lab.settle(60).await;
        assert!(!lab.context.is_fresh() || trouble == Trouble::FailsInside(410), "{trouble:?}");
        lab.reads.recover();
        lab.settle(20).await;
        assert!(lab.context.is_fresh(), "{trouble:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_we_may_not_read_and_need_not_holds_nothing_up() {
    let mut lab = Lab::new(1).await;
    let settings = karpenter_controllers::Settings { capacity_buffers: true, ..Default::default() };
    lab.reads.suffer("/podtemplates", Trouble::Refused(403));
    lab.run_with(vec![Arc::new(Mirror::default())], settings);
    for granted in [false, true, false] {
        if granted {
            lab.reads.recover();
        } else {
            lab.reads.suffer("/podtemplates", Trouble::Refused(403));
        }
        lab.settle(600).await;
        assert!(lab.context.is_fresh(), "{granted}: {:?}", lab.context.freshness.stale(&Kind::ALL));
        assert!(lab.context.hung().is_empty(), "{:?}", lab.context.hung());
    }
    lab.reads.suffer("/nodes", Trouble::Refused(403));
    lab.settle(600).await;
    assert!(!lab.context.is_fresh(), "nodes are needed");
}

#[tokio::test(start_paused = true)]
async fn what_could_be_read_is_not_given_up_for_one_refusal() {
    let mut lab = Lab::new(1).await;
    let settings = karpenter_controllers::Settings { capacity_buffers: true, ..Default::default() };
    let containers = json!([{"name": "main", "image": "example.com/app:1"}]);
    let template = json!({"metadata": {"name": "room"}, "template": {"spec": {"containers": containers}}});
    lab.create("/api/v1/namespaces/default/podtemplates", template).await;
    // An API server that has just started knows nobody's rights.
    lab.reads.suffer("/podtemplates", Trouble::Refused(403));
    lab.run_with(vec![Arc::new(Mirror::default())], settings);
    let room = Key::new("default", "room");
    lab.settle(5).await;
    assert!(lab.context.index.pod_template(&room).is_none() && lab.context.is_fresh(), "nobody waits for it");
    lab.reads.recover();
    lab.settle(30).await;
    assert!(lab.context.index.pod_template(&room).is_some(), "it is asked for again soon");
    for (code, given_up) in [(403, true), (401, false), (500, false)] {
        lab.reads.suffer("/podtemplates", Trouble::Refused(code));
        lab.settle(85).await;
        assert!(lab.context.index.pod_template(&room).is_some(), "{code} may be over in a moment");
        lab.settle(35).await;
        assert!(!lab.context.is_fresh(), "{code}: nothing is decided on what it was");
        lab.settle(600).await;
        assert_eq!(lab.context.index.pod_template(&room).is_none(), given_up, "{code}");
        assert_eq!(lab.context.is_fresh(), given_up, "{code}");
        lab.reads.recover();
        lab.settle(310).await;
        assert!(lab.context.is_fresh() && lab.context.index.pod_template(&room).is_some(), "{code} is over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_set_back_asks_for_another_process() {
    let mut lab = Lab::new(1).await;
    lab.run(vec![Arc::new(Mirror::default())]);
    lab.create(NODES, json!({"metadata": {"name": "a"}})).await;
    lab.settle(100).await;
    assert!(lab.context.is_fresh() && lab.context.hung().is_empty());
    lab.reads.suffer("/nodes", Trouble::Restored);
    lab.settle(20).await;
    assert_eq!(lab.context.hung(), ["the API server's history of Node has gone back"]);
    lab.reads.recover();
    lab.settle(100).await;
    assert!(!lab.context.is_fresh(), "what is known of a later time cannot be told from what is true");
}

/// Never comes to an end.
struct Stuck;

#[async_trait]
impl Reconciler for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        if change.kind == Kind::Node { vec![change.key.clone()] } else { Vec::new() }
    }

    async fn reconcile(&self, _key: &Key, _context: &Context) -> Result<Action> {
        std::future::pending().await
    }

    fn longest(&self) -> Duration {
        Duration::from_secs(60)
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_never_ends_is_known_to_hang() {
    let mut lab = Lab::new(1).await;
    lab.run(vec![Arc::new(Stuck), Arc::new(Mirror::default())]);
    lab.settle(3_600).await;
    assert!(lab.context.hung().is_empty(), "an engine with nothing to do is well");
    lab.create(NODES, json!({"metadata": {"name": "a"}})).await;
    lab.settle(59).await;
    assert!(lab.context.hung().is_empty());
    lab.settle(3).await;
    assert_eq!(lab.context.hung().len(), 1);
    assert!(lab.context.hung()[0].starts_with("stuck is busy with a for 6"), "{:?}", lab.context.hung());
}
