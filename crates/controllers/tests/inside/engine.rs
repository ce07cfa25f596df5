//! The engine: nothing is lost, nothing is done twice at once, one bad object stops nobody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use karpenter_apiserver::{Effect, Fault};
use karpenter_controllers::{Action, Context, Error, Reconciler, Result};
use karpenter_index::{Change, Key, Kind};
use serde_json::json;

use super::lab::{Lab, NODES};

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
