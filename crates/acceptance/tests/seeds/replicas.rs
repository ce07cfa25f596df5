//! Two replicas, one of which works: whichever moment it ends at, the other goes on where it was.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use karpenter_controllers::{Settings, Shift};
use karpenter_runtime::leadership::{Leadership, fence_aws};
use karpenter_runtime::lease::{DURATION, Election, RETRY};
use karpenter_runtime::{Amazon, Autoscaler};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::files::{object, objects};
use super::lab::{CLAIMS, CLASSES, DEPLOYMENTS, Lab, NODES, POOLS, Place, is_true};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/karpenter/leases/karpenter-leader-election";
/// Between two looks at who leads.
const TICK: Duration = Duration::from_millis(100);

/// A process, as far as this matters: it watches, works once it leads, and is gone in the middle of whatever it does.
struct Replica {
    name: String,
    process: JoinHandle<()>,
}

impl Replica {
    fn start(lab: &Lab, number: usize) -> Self {
        let name = format!("karpenter-{number}");
        let (client, clock, region, facts) =
            (lab.client.clone(), lab.clock.clone(), lab.region.clone(), lab.facts.clone());
        let identity = name.clone();
        let process = tokio::spawn(async move {
            let leadership = Leadership::elected();
            let fenced = leadership.fence(client.clone());
            let aws = fence_aws(region.aws(), &leadership);
            let amazon = Amazon::start(fenced.clone(), &clock, aws, facts).await.unwrap();
            let autoscaler = Autoscaler::new(fenced, clock.clone(), &amazon, Settings::default());
            let (lead, mut leads) = watch::channel(false);
            let mut election =
                Election::new(client, clock, "karpenter", "karpenter-leader-election", &identity, leadership);
            let start = async move {
                if leads.wait_for(|yes| *yes).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let working = autoscaler.work(Shift { start: start.boxed(), end: std::future::pending().boxed() });
            let leading = async {
                election.acquire().await;
                lead.send_replace(true);
                election.hold().await;
            };
            tokio::select! {
                () = working => {}
                () = leading => {}
            }
        });
        Self { name, process }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.process.abort();
    }
}

async fn leader(lab: &Lab) -> Option<String> {
    let lease = lab.send("GET", LEASE, None).await.ok()?;
    lease["spec"]["holderIdentity"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Waits until somebody of these leads; how long it took.
async fn await_leader(lab: &Lab, among: &[Replica]) -> (String, Duration) {
    let began = Instant::now();
    loop {
        let led = leader(lab).await.filter(|name| among.iter().any(|replica| replica.name == *name));
        match led {
            Some(name) => return (name, began.elapsed()),
            None => tokio::time::sleep(TICK).await,
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nobody leads");
    }
}

/// Numbers that look drawn, the same ones every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn names(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(|object| object["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
}

/// A node for each pod, so that there is much to buy.
fn apart() -> Value {
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}});
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

#[tokio::test(start_paused = true)]
async fn a_hundred_leaders_end_at_any_moment_and_nothing_is_bought_twice_or_lost() {
    // covers: API-HM-53, API-HM-54
    const ROUNDS: usize = 100;
    let lab = Lab::new(Place { cluster: "eks-cluster-dev", idle: true, ..Place::default() }).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}});
    lab.send("POST", "/api/v1/namespaces", Some(namespace)).await.unwrap();
    lab.apply(objects(&["003/manifests"])).await;
    let gone_at_once = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    lab.patch(&format!("{POOLS}/general"), json!({"spec": {"disruption": gone_at_once}})).await;
    let mut web = object(&["003/workloads/web.yaml"], "Deployment", "web");
    web["spec"]["replicas"] = json!(0);
    web["spec"]["template"]["spec"]["affinity"] = apart();
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(1);
    lab.apply(vec![web]).await;
    let mut dice = Dice(7);
    let mut next = 2;
    let mut replicas = vec![Replica::start(&lab, 0), Replica::start(&lab, 1)];
    let (mut led, _) = await_leader(&lab, &replicas).await;
    lab.settle(10).await;
    let (mut claims, mut slowest) = (BTreeSet::new(), Duration::ZERO);
    for round in 0..ROUNDS {
        // Work begins, and the leader ends at some moment of it: while pods are batched, planned, claims created,
        // machines bought, nodes joining, or nodes going.
        let pods = dice.below(5) as usize;
        lab.scale("web", pods).await;
        let moment = Duration::from_millis(match round % 3 {
            0 => 900 + dice.below(2_500),
            1 => dice.below(20_000),
            _ => dice.below(90_000),
        });
        tokio::time::sleep(moment).await;
        claims.extend(names(&lab.list(CLAIMS).await));
        replicas.retain(|replica| replica.name != led);
        assert_eq!(replicas.len(), 1, "round {round}");
        let (name, took) = await_leader(&lab, &replicas).await;
        assert!(took <= DURATION + RETRY + TICK, "round {round}: {took:?} until {name} led");
        (led, slowest) = (name, slowest.max(took));
        replicas.push(Replica::start(&lab, next));
        next += 1;
        for _ in 0..40 {
            claims.extend(names(&lab.list(CLAIMS).await));
            if lab.running().await == pods && lab.list(CLAIMS).await.len() == lab.instances().len() {
                break;
            }
            lab.settle(5).await;
        }
        assert_eq!(lab.running().await, pods, "round {round}: every pod runs");
        assert_eq!(lab.list(CLAIMS).await.len(), lab.instances().len(), "round {round}: each claim has its machine");
    }
    assert!(lab.region.launched() > 30, "there was something to lose: {}", lab.region.launched());
    lab.scale("web", 0).await;
    lab.settle(900).await;
    claims.extend(names(&lab.list(CLAIMS).await));
    assert!(lab.list(NODES).await.is_empty() && lab.list(CLAIMS).await.is_empty() && lab.instances().is_empty());
    let (machines, claims) = (lab.region.launched(), claims.len() as u64);
    assert!(machines <= claims, "{machines} machines for {claims} claims: none has two");
    assert_eq!(lab.get(&format!("{DEPLOYMENTS}/web")).await["spec"]["replicas"], 0);
    assert!(slowest >= DURATION / 2, "nobody let go of the lease: {slowest:?}");
}

#[tokio::test(start_paused = true)]
async fn what_upstream_wrote_is_taken_over_and_no_node_is_replaced() {
    // covers: API-EC2-62, API-NP-48
    let lab = Lab::new(Place { cluster: "eks-cluster-dev", idle: true, ..Place::default() }).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}});
    lab.send("POST", "/api/v1/namespaces", Some(namespace)).await.unwrap();
    lab.apply(objects(&["003/manifests"])).await;
    let before = Replica::start(&lab, 0);
    let mut web = object(&["003/workloads/web.yaml"], "Deployment", "web");
    web["spec"]["replicas"] = json!(5);
    web["spec"]["template"]["spec"]["affinity"] = apart();
    lab.apply(vec![web]).await;
    lab.settle(300).await;
    assert_eq!(lab.running().await, 5);
    drop(before);
    // Release 1.14.1 has the hash of node classes in an older version, and writes no mark of ours.
    let old = json!({"metadata": {"annotations": {
        "karpenter.k8s.aws/ec2nodeclass-hash": "1234567890", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5"}}});
    lab.patch(&format!("{CLASSES}/default"), old.clone()).await;
    let claims = lab.list(CLAIMS).await;
    assert_eq!(claims.len(), 5);
    for claim in &claims {
        let name = claim["metadata"]["name"].as_str().unwrap();
        assert_eq!(claim["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
        assert_eq!(claim["metadata"]["annotations"]["karpenter.sh/nodepool-hash-version"], "v3");
        lab.patch(&format!("{CLAIMS}/{name}"), old.clone()).await;
    }
    let machines = || -> BTreeSet<String> { lab.instances().into_iter().map(|one| one.instance.id).collect() };
    let (running, nodes) = (machines(), names(&lab.list(NODES).await));
    let _after = Replica::start(&lab, 1);
    lab.settle(3600).await;
    assert_eq!((machines(), names(&lab.list(NODES).await)), (running, nodes), "an hour later they are all the same");
    let class = lab.get(&format!("{CLASSES}/default")).await;
    for claim in lab.list(CLAIMS).await {
        assert!(!is_true(&claim, "Drifted"), "{}", claim["status"]);
        for key in ["karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version"] {
            assert_eq!(claim["metadata"]["annotations"][key], class["metadata"]["annotations"][key], "{key}");
        }
        assert_eq!(claim["metadata"]["annotations"]["karpenter.k8s.aws/ec2nodeclass-hash-version"], "v6");
    }
    // The other way round it is the same: whoever finds a version that is not theirs writes their own beside it.
    assert_eq!(lab.running().await, 5);
}
