//! What AWS does on bad days, for hours of virtual time: nodes still come, nothing is left behind, and nobody is told the
//! same thing all day. And what we ask of AWS on good ones.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, Once};

use karpenter_apiserver::{Effect, Fault};
use karpenter_aws_sim::{Limits, Script, Target, Warning};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;

const HOUR: u64 = 3600;
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// Counts errors by what they say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Complaints(Arc<Mutex<BTreeMap<String, usize>>>);

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
    /// Those of this thread, while the guard is held.
    pub(crate) fn heard() -> (Self, DefaultGuard) {
        // With one listener in the process, whether a line is of interest is asked on the thread that comes by first, and
        // that may be another test's. Somebody who never listens makes it two.
        static ANOTHER: Once = Once::new();
        ANOTHER.call_once(|| drop(tracing::subscriber::set_global_default(NoSubscriber::default())));
        let complaints = Self::default();
        (complaints.clone(), tracing::subscriber::set_default(complaints))
    }

    pub(crate) fn of(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|(line, _)| line.contains(text)).map(|(_, count)| count).sum()
    }
}

/// A few families are as good as all of them, and hours go by much faster.
pub(crate) fn few_families(options: &mut Options) {
    let mut catalogue = (*options.catalogue).clone();
    let families = ["m5.", "c5.", "r5.", "m6i.", "c6i."];
    catalogue.types.retain(|facts| families.iter().any(|family| facts.name.starts_with(family)));
    options.catalogue = Arc::new(catalogue);
}

impl Lab {
    async fn plain(seed: u64) -> Self {
        Self::with(seed, |options, _| few_families(options)).await
    }

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

    fn calls_since(&self, before: &BTreeMap<&'static str, u64>) -> BTreeMap<&'static str, u64> {
        let made = self.region.calls().into_iter();
        made.map(|(call, count)| (call, count - before.get(call).copied().unwrap_or(0))).collect()
    }

    fn is_alive(&self, id: &str) -> bool {
        self.region.instances().iter().any(|one| one.instance.id == id && one.ended_at.is_none())
    }

    /// Launched and never written down, as by a process that died in between; the instance's id and provider id.
    async fn lost_machine(&self, name: &str) -> (String, String) {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]},
        });
        let machine = self.context.provider.create(&serde_json::from_value(claim).unwrap()).await.unwrap();
        (machine.provider_id.rsplit('/').next().unwrap().to_owned(), machine.provider_id)
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_throttling_leaves_nothing_behind() {
    let lab = Lab::with(11, |options, _| {
        few_families(options);
        options.rates.throttled = 0.10;
        options.limits = Some(Limits::EC2);
    });
    let lab = lab.await;
    lab.pool().await;
    lab.settle(60).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 6)).await;
    lab.settle(900).await;
    assert_eq!(lab.running().await, 6);
    lab.scale("even", 16).await;
    lab.settle(900).await;
    assert_eq!(lab.running().await, 16);
    lab.scale("even", 0).await;
    lab.settle(HOUR - 1860).await;
    let fired = lab.region.faults_fired();
    assert!(fired["throttled"] > 20, "{fired:?}");
    assert!(!fired.contains_key("limited"), "never faster than an account may be: {fired:?}");
    assert!(lab.list(CLAIMS).await.is_empty());
    assert!(lab.list("/api/v1/nodes").await.is_empty());
    assert_eq!(lab.region.price_per_hour().0, 0);
    assert_eq!(lab.region.template_count(), 0, "templates go too");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_still_looked_at_is_nobodys_error() {
    let (complaints, _listening) = Complaints::heard();
    let lab = Lab::plain(31).await;
    lab.fail("DescribeSubnets", "InternalError");
    // Pods may be there before any pool is.
    lab.create(DEPLOYMENTS, deployment(SHAPES[0], 1)).await;
    lab.settle(5).await;
    lab.pool().await;
    lab.settle(20).await;
    for text in ["unable to resolve instance types", "asking for instance types", "could not schedule pod"] {
        assert_eq!(complaints.of(text), 0, "{:?}", complaints.0.lock().unwrap());
    }
    lab.region.clear_scripts();
    lab.settle(180).await;
    assert_eq!(lab.running().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_came_during_an_outage_is_looked_at_soon_after_it() {
    let lab = Lab::plain(37).await;
    lab.fail("DescribeSubnets", "InternalError");
    lab.pool().await;
    lab.create(DEPLOYMENTS, deployment(SHAPES[0], 1)).await;
    lab.settle(2_400).await;
    assert_eq!(lab.running().await, 0);
    lab.region.clear_scripts();
    lab.settle(300).await;
    assert_eq!(lab.running().await, 1, "its turn comes within a minute");
}

#[tokio::test(start_paused = true)]
async fn half_of_what_a_region_sells_may_be_gone() {
    let (complaints, _listening) = Complaints::heard();
    let lab = Lab::plain(13).await;
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
    let said = complaints.0.lock().unwrap().clone();
    assert!(said.values().all(|count| *count == 1), "once for each cause: {said:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_the_queue_and_a_day_without_prices() {
    // covers: AWS-PRICE-02, AWS-PRICE-03, AWS-INT-15, AWS-IT-03
    let (complaints, _listening) = Complaints::heard();
    let lab = Lab::with(7, |options, settings| {
        few_families(options);
        settings.interruption_queue = Some("simulated".to_owned());
    });
    let lab = lab.await;
    let no_prices = || {
        lab.fail("GetProducts", "InternalError");
        lab.fail("DescribeSpotPriceHistory", "InternalError");
    };
    no_prices();
    lab.fail("ReceiveMessage", "ServiceUnavailable");
    lab.pool_of(&["spot", "on-demand"]).await;
    lab.settle(60).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 4)).await;
    lab.settle(240).await;
    assert_eq!(lab.running().await, 4, "bundled prices do");
    lab.settle(HOUR - 300).await;
    // The queue is back: a warning is heard in time.
    lab.region.clear_scripts();
    no_prices();
    let victim = lab.region.instances().into_iter().find(|one| one.ended_at.is_none()).unwrap();
    lab.region.warn(&victim.instance.id, Warning::SpotInterruption);
    lab.settle(45).await;
    assert_eq!(lab.region.queue_length(), 0);
    let hour = lab.region.calls();
    // Nobody asks for anything until the day is nearly over.
    lab.scale("even", 0).await;
    lab.settle(23 * HOUR).await;
    let made = lab.calls_since(&hour);
    for call in ["DescribeInstanceTypes", "DescribeInstanceTypeOfferings"] {
        assert_eq!(made[call], 2, "{call} every twelve hours");
    }
    lab.scale("even", 4).await;
    lab.settle(240).await;
    assert_eq!(lab.running().await, 4, "nodes still come");
    for (what, calls) in [("on-demand prices", "GetProducts"), ("spot prices", "DescribeSpotPriceHistory")] {
        assert!(lab.region.calls()[calls] > 100, "{calls} was tried all day");
        assert_eq!(complaints.of(what), 1, "{what}: {:?}", complaints.0.lock().unwrap());
    }
    assert_eq!(complaints.of("interruption: "), 1, "{:?}", complaints.0.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_reclaim_does_not_wait_for_watches_that_cannot_be_opened() {
    let lab = Lab::with(19, |options, settings| {
        few_families(options);
        settings.interruption_queue = Some("simulated".to_owned());
    });
    let lab = lab.await;
    lab.pool_of(&["spot"]).await;
    lab.settle(60).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 1)).await;
    lab.settle(240).await;
    assert_eq!(lab.running().await, 1);
    // Answers about claims come, but later than any watch waits for them.
    lab.server.inject(Fault {
        methods: vec!["GET".to_owned()],
        path_contains: "/nodeclaims".to_owned(),
        per_mille: 1000,
        times: None,
        effect: Effect::Latency(Duration::from_secs(65)),
    });
    lab.server.drop_watches();
    lab.settle(120).await;
    assert!(!lab.context.is_fresh());
    let victim = lab.region.instances().into_iter().find(|one| one.ended_at.is_none()).unwrap();
    lab.region.warn(&victim.instance.id, Warning::SpotInterruption);
    lab.settle(100).await;
    assert!(!lab.context.is_fresh(), "nothing was heard of claims since");
    assert_eq!(lab.region.queue_length(), 0, "the warning was taken");
    lab.server.clear_faults();
    let claims = lab.list(CLAIMS).await;
    assert!(
        claims.iter().any(|claim| claim["metadata"]["deletionTimestamp"].is_string()),
        "and acted upon: {claims:?}"
    );
}

/// What each refresh comes to in an hour, and one more for where the hour begins.
fn in_an_hour(call: &str) -> u64 {
    match call {
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
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_at_rest_asks_for_nothing_but_what_it_refreshes() {
    // covers: AWS-MET-12
    let lab = Lab::with(3, |options, settings| {
        few_families(options);
        settings.interruption_queue = Some("simulated".to_owned());
    });
    let lab = lab.await;
    lab.pool().await;
    lab.settle(10).await;
    let before = lab.region.calls();
    for shape in SHAPES {
        lab.create(DEPLOYMENTS, deployment(shape, 6)).await;
    }
    const LAUNCH: u64 = 600;
    lab.settle(LAUNCH).await;
    assert_eq!(lab.running().await, SHAPES.len() * 6);
    let reads = lab.calls_since(&before)["DescribeInstances"];
    assert!(reads <= LAUNCH, "at most one a second: {reads}");
    let launched = lab.region.calls();
    lab.settle(HOUR).await;
    for (call, made) in lab.calls_since(&launched) {
        assert!(made <= in_an_hour(call), "{call}: {made} in an hour");
    }
}

#[tokio::test(start_paused = true)]
async fn a_launch_of_many_nodes_is_few_calls() {
    // covers: AWS-BATCH-01, AWS-MET-12
    const NODES: usize = 50;
    let lab = Lab::plain(31).await;
    lab.pool().await;
    lab.settle(10).await;
    let before = lab.region.calls();
    // One on each node, whatever its size.
    let mut alone = deployment(("alone", "1", "1Gi"), NODES);
    let port = json!([{"containerPort": 8080, "hostPort": 8080}]);
    alone["spec"]["template"]["spec"]["containers"][0]["ports"] = port;
    lab.create(DEPLOYMENTS, alone).await;
    lab.settle(60).await;
    let made = lab.calls_since(&before);
    // The sweeps of these first minutes, and a look at all machines that wait for their tags every 15 seconds, and whenever
    // one comes that was not among them; once it was one for each.
    assert!(made["DescribeInstances"] <= 20, "{made:?}");
    // Until the last of them has its tags.
    let mut seconds = 60;
    let tagged = |claim: &Value| claim["metadata"]["annotations"]["karpenter.k8s.aws/tagged"] == "true";
    while lab.list(CLAIMS).await.iter().filter(|claim| tagged(claim)).count() < NODES {
        lab.settle(30).await;
        seconds += 30;
        assert!(seconds < 600, "{:?}", lab.calls_since(&before));
    }
    assert_eq!(lab.running().await, NODES);
    let made = lab.calls_since(&before);
    // One of each is the check of what we may do.
    let fleets = made["CreateFleet"] - made["RunInstances"];
    assert!(fleets * 50 <= NODES as u64, "{made:?}");
    assert_eq!(made["CreateTags"], NODES as u64);
    assert!(made["DescribeInstances"] <= seconds / 4, "{made:?} in {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn only_machines_that_are_ours_by_every_tag_are_collected() {
    // covers: AWS-GC-01, AWS-GC-04
    let lab = Lab::plain(17).await;
    lab.pool().await;
    lab.settle(30).await;
    let mut machines = Vec::new();
    for untagged in ["", "karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass", "eks:eks-cluster-name"] {
        let (id, _) = lab.lost_machine(&format!("lost-{}", machines.len())).await;
        lab.region.untag(&id, untagged);
        machines.push((untagged, id));
    }
    // Somebody else is quicker: what is gone already is no failure.
    let (gone, _) = lab.lost_machine("gone").await;
    let target = Target::Call { operation: "TerminateInstances", server_fault: false };
    lab.region.script(Script::new(target, "InvalidInstanceID.NotFound", 2));
    lab.settle(120).await;
    for (untagged, id) in &machines {
        assert_eq!(lab.is_alive(id), !untagged.is_empty(), "without {untagged:?}");
    }
    assert!(!lab.is_alive(&gone));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_written_while_machines_are_listed_keeps_its_machine() {
    // covers: AWS-GC-02
    const LATENCY: Duration = Duration::from_secs(4);
    let lab = Lab::with(23, |options, _| {
        few_families(options);
        options.latency = karpenter_aws_sim::Span::exactly(LATENCY);
    });
    let lab = lab.await;
    lab.pool().await;
    lab.settle(90).await;
    let asked_for = tokio::time::Instant::now();
    let (id, provider_id) = lab.lost_machine("late").await;
    let asked = || lab.region.calls()["DescribeInstances"];
    // Up to the list that finds it old enough to be collected when it comes back.
    loop {
        let before = asked();
        while asked() == before {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if asked_for.elapsed() + LATENCY > Duration::from_secs(30) {
            break;
        }
    }
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "late", "labels": {"karpenter.sh/nodepool": "default"}, "finalizers": ["karpenter.sh/termination"]},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": []},
    });
    lab.create(CLAIMS, claim).await;
    let conditions = json!([{"type": "Launched", "status": "True", "reason": "Launched", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let status = json!({"status": {"providerID": provider_id, "conditions": conditions}});
    send(&lab.client, "PATCH", &format!("{CLAIMS}/late/status"), Some(status)).await;
    lab.settle(40).await;
    assert!(lab.is_alive(&id), "the claims were read after the list");
    let (lost, _) = lab.lost_machine("lost").await;
    lab.settle(80).await;
    assert!(!lab.is_alive(&lost), "what no claim holds is collected all the same");
}

#[tokio::test(start_paused = true)]
async fn a_class_goes_as_soon_as_the_last_of_its_claims_has() {
    // covers: AWS-NC-10
    let lab = Lab::plain(29).await;
    lab.pool().await;
    lab.settle(10).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 1)).await;
    lab.settle(180).await;
    assert_eq!(lab.list(CLAIMS).await.len(), 1);
    let class = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default";
    send(&lab.client, "DELETE", class, Some(json!({}))).await;
    lab.settle(30).await;
    assert_eq!(lab.list("/apis/karpenter.k8s.aws/v1/ec2nodeclasses").await.len(), 1, "its claim still needs it");
    lab.scale("even", 0).await;
    let name = lab.list(CLAIMS).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    send(&lab.client, "DELETE", &format!("{CLAIMS}/{name}"), Some(json!({}))).await;
    while !lab.list(CLAIMS).await.is_empty() {
        lab.settle(1).await;
    }
    // It would look again by itself after ten minutes.
    lab.settle(20).await;
    assert!(lab.list("/apis/karpenter.k8s.aws/v1/ec2nodeclasses").await.is_empty());
}
