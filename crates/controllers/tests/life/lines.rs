//! What the log says of a life.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Once;

use karpenter_api::labels;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::objects::{self, BUDGETS, CLAIMS, DEPLOYMENTS};
use crate::stage::Stage;

/// One line: what it says, and with which fields.
#[derive(Clone, Debug, Default)]
struct Line(BTreeMap<String, String>);

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

#[derive(Clone, Default)]
struct Lines(Rc<RefCell<Vec<Line>>>);

thread_local! {
    /// What this thread's test has logged. Other tests run beside it, each on its own thread.
    static LINES: Lines = Lines::default();
}

/// One subscriber for the whole process: one that comes and goes with a test may find that another thread's test, which
/// has none, made the process forget a line's place.
struct ToThread;

impl Subscriber for ToThread {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("karpenter") && *metadata.level() <= tracing::Level::DEBUG
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        LINES.with(|lines| lines.0.borrow_mut().push(line));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Lines {
    fn of_this_thread() -> Self {
        static LISTENING: Once = Once::new();
        LISTENING.call_once(|| {
            tracing::subscriber::set_global_default(ToThread).expect("nobody else listens");
        });
        LINES.with(Self::clone)
    }

    /// The lines with this message.
    fn saying(&self, message: &str) -> Vec<BTreeMap<String, String>> {
        let all = self.0.borrow();
        all.iter().map(|line| line.0.clone()).filter(|line| line["message"] == message).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn every_step_of_a_life_is_one_line() {
    // covers: API-LG-14, API-LG-15, API-LG-16, API-LG-18, API-LG-19, API-LG-20, API-LG-24, API-LG-40
    let lines = Lines::of_this_thread();
    let stage = Stage::new().await;
    stage.cloud.plan(|plan| plan.real_cpu = Some(1));
    let spec = json!({"terminationGracePeriod": "1h", "resources": {"requests": {"cpu": "1"}}});
    stage.create(CLAIMS, objects::claim("one", spec)).await;
    let node = stage.ready_node("one").await;
    stage.pass(700).await;
    stage.delete(&format!("{CLAIMS}/one")).await;
    stage.claim_is_gone("one", 60).await;
    let id = "test:///zone-a/i-0001";
    let wanted: [(&str, Vec<(&str, &str)>); 9] = [
        (
            "launched node",
            vec![
                ("node", "i-0001"),
                ("instance_type", "test.large"),
                ("capacity_type", "on-demand"),
                ("compat", "true"),
            ],
        ),
        (
            "launched nodeclaim",
            vec![
                ("claim", "one"),
                ("provider_id", id),
                ("instance_type", "test.large"),
                ("zone", "zone-a"),
                ("capacity_type", "on-demand"),
                ("allocatable", "cpu 4, memory 16Gi, pods 110"),
            ],
        ),
        ("registered nodeclaim", vec![("claim", "one"), ("provider_id", id), ("node", &node)]),
        ("initialized nodeclaim", vec![("claim", "one"), ("provider_id", id), ("node", &node)]),
        (
            "tainted node",
            vec![
                ("node", &node),
                ("taint.Key", labels::DISRUPTED_TAINT),
                ("taint.Value", ""),
                ("taint.Effect", "NoSchedule"),
            ],
        ),
        ("annotated nodeclaim", vec![("claim", "one")]),
        ("deleted node", vec![("node", &node)]),
        ("deleted nodeclaim", vec![("claim", "one")]),
        (
            "failed consistency check",
            vec![("claim", "one"), ("issue", "expected 4 of resource cpu, but found 1 (25.0% of expected)")],
        ),
    ];
    for (message, fields) in wanted {
        let found = lines.saying(message);
        assert_eq!(found.len(), 1, "{message}: {found:?}");
        for (name, value) in fields {
            assert_eq!(found[0].get(name).map(String::as_str), Some(value), "{message}: {name}: {found:?}");
        }
    }
    assert!(lines.saying("initialized nodeclaim")[0]["allocatable"].contains("cpu 1, "));
    assert!(lines.saying("annotated nodeclaim")[0].contains_key(labels::TERMINATION_TIMESTAMP));
}

#[tokio::test(start_paused = true)]
async fn what_is_collected_given_up_or_forced_is_a_line_each() {
    // covers: API-LG-31
    let lines = Lines::of_this_thread();
    let stage = Stage::alone().await;
    stage.cloud.plan(|plan| plan.dud = true);
    stage.create(CLAIMS, objects::claim("dud", json!({}))).await;
    stage.until("it is launched", 5, || async { stage.cloud.instances().len() == 1 }).await;
    stage.cloud.plan(|plan| plan.dud = false);
    stage.create(CLAIMS, objects::claim("old", json!({"expireAfter": "5m"}))).await;
    stage.create(CLAIMS, objects::claim("lost", json!({}))).await;
    for name in ["old", "lost"] {
        stage.ready_node(name).await;
    }
    let lost = stage.claim("lost").await.unwrap().status.unwrap().provider_id.unwrap();
    stage.lose_machine("lost").await;
    let planted = stage.cloud.plant("nobody's");
    stage.pass(1_000).await;
    stage.create(CLAIMS, objects::claim("forced", json!({"terminationGracePeriod": "1m"}))).await;
    stage.ready_node("forced").await;
    stage.create(BUDGETS, objects::budget("web", 0)).await;
    stage.create(DEPLOYMENTS, objects::deployment("web", 1, json!({}), json!({}))).await;
    stage.runs("web", 1).await;
    stage.delete(&format!("{CLAIMS}/forced")).await;
    stage.claim_is_gone("forced", 200).await;
    for (message, fields) in [
        ("terminating due to timeout", vec![("claim", "dud"), ("timeout", "900s"), ("reason", "registration_timeout")]),
        ("deleting expired nodeclaim", vec![("claim", "old")]),
        (
            "garbage collecting nodeclaim with no cloudprovider representation",
            vec![("claim", "lost"), ("provider_id", lost.as_str())],
        ),
        ("garbage collected cloudprovider instance", vec![("provider_id", planted.as_str())]),
        ("deleting pod", vec![]),
    ] {
        let found = lines.saying(message);
        assert_eq!(found.len(), 1, "{message}: {found:?}");
        for (name, value) in fields {
            let is = found[0].get(name).map(|text| text.trim_matches('"'));
            assert_eq!(is, Some(value), "{message}: {name}: {found:?}");
        }
    }
}
