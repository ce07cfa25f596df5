//! What the log says of a plan.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use karpenter_controllers::Settings;
use karpenter_controllers::roster::provisioning;
use karpenter_core::settings::PreferencePolicy;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::lab::Lab;

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

thread_local! {
    /// What this thread's test has logged. Other tests run beside it, each on its own thread.
    static LINES: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// One subscriber for the whole process, as tests run on threads of their own.
struct ToThread;

impl Subscriber for ToThread {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("karpenter") && *metadata.level() <= tracing::Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        line.0.insert("level".to_owned(), event.metadata().level().to_string());
        event.record(&mut line);
        LINES.with(|lines| lines.borrow_mut().push(line));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The lines with this message.
fn saying(message: &str) -> Vec<BTreeMap<String, String>> {
    LINES.with(|lines| {
        lines.borrow().iter().map(|line| line.0.clone()).filter(|line| line["message"] == message).collect()
    })
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_told_from_its_pods_to_its_claims() {
    // covers: API-LG-10, API-LG-11, API-LG-13, API-NP-45, SCH-BATCH-24
    tracing::subscriber::set_global_default(ToThread).expect("this is the only test that listens");
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    let template = json!({"spec": {"requirements": [],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}});
    lab.pool("unready", json!({"template": template})).await;
    // Before that it may become ready by itself, and nothing is said.
    lab.settle(31).await;
    lab.run(provisioning());
    polite(&lab).await;
    lab.deployment("web", 7, "1").await;
    lab.deployment("huge", 1, "4000").await;
    lab.settle(5).await;
    let claims = lab.claims().await;
    assert!(claims.iter().all(|claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"] == "main"));

    let found = &saying("found provisionable pod(s)")[0];
    assert!(found["Pods"].contains("default/huge-") && found["Pods"].ends_with(" and 4 other(s)"), "{found:?}");
    assert_eq!(found["Pods"].matches("default/").count(), 5);
    assert!(found.contains_key("duration"));
    let computed = &saying("computed new nodeclaim(s) to fit pod(s)")[0];
    assert_eq!((computed["nodeclaims"].clone(), computed["pods"].as_str()), (claims.len().to_string(), "8"));
    let created = saying("created nodeclaim");
    assert_eq!(created.len(), claims.len());
    assert_eq!(created[0]["pool"], "main");
    assert!(created[0]["requests"].contains("cpu") && !created[0]["instance_types"].is_empty(), "{created:?}");
    assert!(claims.iter().any(|claim| claim["metadata"]["name"] == created[0]["claim"].as_str()));
    let skipped = &saying("ignoring nodepool, not ready")[0];
    assert_eq!((skipped["pool"].as_str(), skipped["level"].as_str()), ("unready", "ERROR"));
    let unplaced = &saying("could not schedule pod")[0];
    assert!(unplaced["pod"].starts_with("default/huge-") && unplaced["level"] == "ERROR", "{unplaced:?}");

    // Wishes are told of, unless they count for nothing.
    let wishes = || {
        let apart = saying("pod(s) have a preferred Anti-Affinity which can prevent consolidation");
        let spread = saying("pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation");
        (apart.len(), spread.len(), apart[0]["pods"].clone())
    };
    assert_eq!(wishes(), (1, 1, "default/polite".to_owned()));
    let mut lab = Lab::new(2).await;
    lab.ready_pool("main").await;
    let mut settings = Settings::default();
    settings.scheduling.preferences = PreferencePolicy::Ignore;
    lab.run_with(provisioning(), settings);
    polite(&lab).await;
    lab.settle(5).await;
    assert_eq!(lab.claims().await.len(), 1);
    assert_eq!(wishes().0, 1, "nothing new");
}

/// A pod that wishes to be apart from others and spread, and does not insist.
async fn polite(lab: &Lab) {
    let selector = json!({"matchLabels": {"app": "polite"}});
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "polite", "labels": {"app": "polite"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
            "topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 1, "podAffinityTerm": term}]}}}});
    lab.create("/api/v1/namespaces/default/pods", pod).await;
}
