//! What AWS does on bad days, for hours of virtual time: nodes still come, nothing is left behind, and nobody is told the
//! same thing all day.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use karpenter_aws_sim::{Limits, Script, Target, Warning};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;

const HOUR: u64 = 3600;

/// Counts errors by what they say.
#[derive(Clone, Default)]
struct Complaints(Arc<Mutex<BTreeMap<String, usize>>>);

#[derive(Default)]
struct Words {
    controller: String,
    message: String,
    error: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "controller" => self.controller = text.trim_matches('"').to_owned(),
            "message" => self.message = text,
            "error" => self.error = text,
            _ => {}
        }
    }
}

impl Subscriber for Complaints {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words::default();
        event.record(&mut words);
        let line = format!("{}: {}: {}", words.controller, words.message, words.error);
        *self.0.lock().unwrap().entry(line).or_default() += 1;
    }
}

impl Complaints {
    fn of(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(line, _)| line.contains(text)).map(|(_, count)| count).sum()
    }
}

impl Lab {
    fn fail(&self, operation: &'static str, code: &str) {
        let target = Target::Call { operation, server_fault: true };
        self.region.script(Script::new(target, code, u32::MAX));
    }

    async fn running(&self) -> usize {
        let pods = self.list("/api/v1/namespaces/default/pods").await;
        pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
    }

    async fn scale(&self, app: &str, replicas: usize) {
        let body = json!({"spec": {"replicas": replicas}});
        send(&self.client, "PATCH", &format!("{DEPLOYMENTS}/{app}"), Some(body)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_throttling_leaves_nothing_behind() {
    let lab = Lab::with(11, |options, _| {
        options.rates.throttled = 0.10;
        options.limits = Some(Limits::EC2);
    });
    let lab = lab.await;
    lab.pool().await;
    lab.settle(60).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 12)).await;
    lab.settle(900).await;
    assert_eq!(lab.running().await, 12);
    lab.scale("even", 40).await;
    lab.settle(900).await;
    assert_eq!(lab.running().await, 40);
    lab.scale("even", 0).await;
    lab.settle(HOUR - 1860).await;
    let fired = lab.region.faults_fired();
    assert!(fired["throttled"] > 20, "{fired:?}");
    assert!(!fired.contains_key("limited"), "never faster than an account may be: {fired:?}");
    assert!(lab.list("/apis/karpenter.sh/v1/nodeclaims").await.is_empty());
    assert!(lab.list("/api/v1/nodes").await.is_empty());
    assert_eq!(lab.region.price_per_hour().0, 0);
    assert_eq!(lab.region.template_count(), 0, "templates go too");
}

#[tokio::test(start_paused = true)]
async fn a_day_without_prices_and_an_hour_without_the_queue() {
    // covers: AWS-PRICE-02, AWS-PRICE-03, AWS-INT-15
    let complaints = Complaints::default();
    let _listening = tracing::subscriber::set_default(complaints.clone());
    let lab = Lab::with(7, |_, settings| settings.interruption_queue = Some("simulated".to_owned())).await;
    lab.fail("GetProducts", "InternalError");
    lab.fail("DescribeSpotPriceHistory", "InternalError");
    lab.fail("ReceiveMessage", "ServiceUnavailable");
    lab.pool_of(&["spot", "on-demand"]).await;
    lab.settle(60).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 4)).await;
    lab.settle(240).await;
    assert_eq!(lab.running().await, 4, "bundled prices do");
    lab.settle(HOUR - 300).await;
    // The queue is back: a warning is heard in time.
    lab.region.clear_scripts();
    lab.fail("GetProducts", "InternalError");
    lab.fail("DescribeSpotPriceHistory", "InternalError");
    let victim = lab.region.instances().into_iter().find(|one| one.ended_at.is_none()).unwrap();
    lab.region.warn(&victim.instance.id, Warning::SpotInterruption);
    lab.settle(45).await;
    assert_eq!(lab.region.queue_length(), 0);
    lab.settle(23 * HOUR).await;
    assert_eq!(lab.running().await, 4);
    for (what, calls) in [("on-demand prices", "GetProducts"), ("spot prices", "DescribeSpotPriceHistory")] {
        assert!(lab.region.calls()[calls] > 100, "{calls} was tried all day");
        assert_eq!(complaints.of(what), 1, "{what}: {:?}", complaints.0.lock().unwrap());
    }
    assert_eq!(complaints.of("interruption: "), 1, "{:?}", complaints.0.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn half_of_what_a_region_sells_may_be_gone() {
    let lab = Lab::new(13).await;
    let types = lab.region.options().catalogue.types.clone();
    for (number, facts) in types.iter().enumerate() {
        if number % 2 == 0 {
            let target = Target::Pool { class: None, instance_type: Some(facts.name.to_string()), zone: None };
            lab.region.script(Script::new(target, "InsufficientInstanceCapacity", u32::MAX));
        }
    }
    lab.pool().await;
    lab.settle(10).await;
    for shape in SHAPES {
        lab.create(DEPLOYMENTS, deployment(shape, 4)).await;
    }
    lab.settle(600).await;
    assert_eq!(lab.running().await, SHAPES.len() * 4);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_at_rest_asks_for_nothing_but_what_it_refreshes() {
    // covers: AWS-MET-12, AWS-IT-03, AWS-PRICE-03
    let lab = Lab::with(3, |_, settings| settings.interruption_queue = Some("simulated".to_owned())).await;
    lab.pool().await;
    lab.settle(10).await;
    let before = lab.region.calls();
    for shape in SHAPES {
        lab.create(DEPLOYMENTS, deployment(shape, 20)).await;
    }
    const LAUNCH: u64 = 600;
    lab.settle(LAUNCH).await;
    assert_eq!(lab.running().await, SHAPES.len() * 20);
    let launched = lab.region.calls();
    let reads = launched["DescribeInstances"] - before.get("DescribeInstances").copied().unwrap_or(0);
    assert!(reads <= LAUNCH, "at most one a second: {reads}");
    lab.settle(HOUR).await;
    let after = lab.region.calls();
    // In an hour: what each controller's interval comes to, and one for where the hour begins.
    let bound = |call: &str| match call {
        // Garbage collection, both ways, every two minutes.
        "DescribeInstances" => 62,
        // Three queries a minute.
        "DescribeInstanceStatus" => 183,
        // Twenty seconds of waiting each.
        "ReceiveMessage" => 181,
        // What the node class means is looked up every minute.
        "DescribeSubnets" | "DescribeSecurityGroups" => 61,
        "DescribeImages" => 64,
        // Permissions are checked every half an hour, with a template that is deleted a minute later.
        "CreateFleet"
        | "RunInstances"
        | "CreateLaunchTemplate"
        | "DescribeLaunchTemplates"
        | "DeleteLaunchTemplate" => 3,
        "GetInstanceProfile" => 5,
        "ListInstanceProfiles" => 3,
        _ => 0,
    };
    for (call, count) in &after {
        let made = count - launched.get(call).copied().unwrap_or(0);
        assert!(made <= bound(call), "{call}: {made} in an hour");
    }
    let day = 12 * HOUR;
    lab.settle(day).await;
    let later = lab.region.calls();
    for call in ["DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory"] {
        assert_eq!(later[call] - after[call], 1, "{call} every twelve hours");
    }
    assert_eq!(later["GetProducts"] - after["GetProducts"], 2, "two queries");
}
