//! The region itself: machines, faults, the queue, and that one seed is one history.

use std::time::Duration;

use karpenter_aws_sim::{Limits, MachineEvent, Options, Rates, Region, Warning};
use karpenter_core::taints::Effect;
use karpenter_ec2::interruption::{self, Kind};
use karpenter_provider::CloudProvider;
use karpenter_provider_aws::calls::{DescribeInstances, Filter, InstanceState, ReceiveMessages};
use serde_json::json;

use crate::lab::{CAPACITY, Lab, TYPE, claim, default_spec, on_demand, quiet, tags};

#[tokio::test(start_paused = true)]
async fn a_machine_is_what_its_user_data_says() {
    // covers: AWS-SIM-07, AWS-UD-01, AWS-UD-03, AWS-UD-04
    let lab = Lab::new(quiet(1)).await;
    let mut machines = lab.region.machines();
    let mut spec = default_spec();
    spec["kubelet"] = json!({"maxPods": 17, "kubeReserved": {"cpu": "500m"}});
    lab.ready_with(spec).await;
    let mut ask = claim("one", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["m5.xlarge"])]);
    ask.metadata.labels.get_or_insert_default().insert("team".to_owned(), "a".to_owned());
    let taint = json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]);
    ask.spec.taints = serde_json::from_value(taint).unwrap();
    let launched = lab.provider.create(&ask).await.unwrap();
    let Some(MachineEvent::Started(machine)) = machines.recv().await else { panic!("no machine") };
    assert_eq!(machine.provider_id, launched.provider_id);
    let label = |key: &str| machine.labels.get(key).map(String::as_str);
    assert_eq!(label("team"), Some("a"));
    assert_eq!(label("karpenter.sh/nodepool"), Some("pool"));
    assert_eq!(label("karpenter.sh/capacity-type"), Some("on-demand"));
    assert_eq!(label("node.kubernetes.io/instance-type"), Some("m5.xlarge"));
    assert_eq!(label("topology.kubernetes.io/zone"), Some(launched.zone.as_str()));
    assert_eq!(label("eks-node-viewer/instance-price"), Some("0.192000"));
    assert_eq!(machine.taints.len(), 2);
    assert!(machine.taints.iter().any(|t| t.key == "karpenter.sh/unregistered" && t.effect == Effect::NoExecute));
    assert_eq!(machine.capacity.get("pods").units(), 17);
    assert_eq!(machine.allocatable.get("cpu").milli(), 3500);
    let (told, real) = (launched.capacity.get("memory"), machine.capacity.get("memory"));
    assert!(told < real, "the estimate {told} is below the true {real}");
    assert_eq!(machine.boot_delay, Duration::from_secs(30));
    lab.region.kill(&lab.region.instances()[0].instance.id, InstanceState::ShuttingDown);
    let stopped = MachineEvent::Stopped { name: machine.name.clone(), provider_id: machine.provider_id.clone() };
    assert_eq!(machines.recv().await, Some(stopped));
}

#[tokio::test(start_paused = true)]
async fn instances_are_found_by_state_and_tag_and_end_in_steps() {
    // covers: AWS-SIM-09, AWS-SIM-10, AWS-SIM-13, AWS-CP-15
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    lab.provider.create(&on_demand("one")).await.unwrap();
    let id = lab.region.instances()[0].instance.id.clone();
    let ec2 = lab.region.aws().ec2;
    let find = |filters: Vec<Filter>| {
        let ec2 = ec2.clone();
        async move { ec2.describe_instances(&DescribeInstances { filters, ..Default::default() }).await.unwrap().len() }
    };
    assert_eq!(find(vec![Filter::new("tag-key", ["karpenter.sh/nodepool"])]).await, 1);
    assert_eq!(find(vec![Filter::new("tag-key", ["nonsense"])]).await, 0);
    assert_eq!(
        find(vec![Filter::new("tag:karpenter.sh/nodepool", ["pool"]), Filter::new("instance-state-name", ["stopped"])])
            .await,
        0
    );
    ec2.create_tags(std::slice::from_ref(&id), &tags(&[("Name", "x"), ("karpenter.sh/nodepool", "other")]))
        .await
        .unwrap();
    let found = lab.region.instances().remove(0).instance.tags;
    assert_eq!((found["Name"].as_str(), found["karpenter.sh/nodepool"].as_str(), found.len()), ("x", "other", 5));
    let changes = ec2.terminate_instances(std::slice::from_ref(&id)).await.unwrap();
    assert_eq!(changes[0].state, InstanceState::ShuttingDown);
    assert_eq!(find(vec![Filter::new("instance-state-name", ["shutting-down"])]).await, 1);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(find(vec![Filter::new("instance-state-name", ["terminated"])]).await, 1);
    tokio::time::sleep(Duration::from_secs(3700)).await;
    let gone = ec2.describe_instances(&DescribeInstances { ids: vec![id], ..Default::default() }).await.unwrap_err();
    assert_eq!(gone.code, "InvalidInstanceID.NotFound");
}

#[tokio::test(start_paused = true)]
async fn messages_come_back_until_they_are_deleted() {
    // covers: AWS-SIM-17
    let lab = Lab::new(quiet(1)).await;
    let sqs = lab.region.aws().sqs;
    let url = sqs.get_queue_url("simulated").await.unwrap();
    assert_eq!(sqs.get_queue_url("other").await.unwrap_err().code, "AWS.SimpleQueueService.NonExistentQueue");
    for (warning, kind) in [
        (Warning::SpotInterruption, Kind::SpotInterrupted),
        (Warning::RebalanceRecommendation, Kind::RebalanceRecommendation),
        (Warning::ScheduledChange, Kind::ScheduledChange),
        (Warning::Stopping, Kind::InstanceStopped),
        (Warning::Terminated, Kind::InstanceTerminated),
        (Warning::CapacityReservation, Kind::CapacityReservationInterrupted),
    ] {
        lab.region.warn("i-1", warning);
        let received = sqs.receive_messages(&poll(&url)).await.unwrap();
        let message = interruption::parse(&received[0].body).unwrap();
        assert_eq!((message.kind, message.instances), (kind, vec!["i-1".to_owned()]));
        assert_eq!(message.time, Some((lab.now)()).map(|now| jiff::Timestamp::from_second(now.as_second()).unwrap()));
        let again = sqs.receive_messages(&poll(&url)).await.unwrap();
        assert_eq!(again[0].id, received[0].id, "not deleted, so it comes again");
        sqs.delete_message(&url, &received[0].receipt_handle).await.unwrap();
        assert_eq!(lab.region.queue_length(), 1, "an old handle deletes nothing");
        sqs.delete_message(&url, &again[0].receipt_handle).await.unwrap();
        assert_eq!(lab.region.queue_length(), 0);
    }
    let waited = tokio::time::Instant::now();
    assert!(sqs.receive_messages(&poll(&url)).await.unwrap().is_empty());
    assert_eq!(waited.elapsed(), Duration::from_secs(20), "a long poll");
    assert!(sqs.delete_message(&url, "nonsense").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn spot_is_reclaimed_two_minutes_after_the_warning() {
    // covers: AWS-SIM-17
    let rates = Rates { spot_reclaims_per_hour: 2.0, ..Rates::default() };
    let lab = Lab::new(Options { rates, ..quiet(3) }).await;
    lab.ready().await;
    let mut machines = lab.region.machines();
    lab.provider.create(&claim("one", &[(CAPACITY, "In", &["spot"]), (TYPE, "In", &["m5.large"])])).await.unwrap();
    let _ = machines.recv().await;
    let (sqs, url) = (lab.region.aws().sqs, "q");
    let warned = loop {
        let received = sqs.receive_messages(&poll(url)).await.unwrap();
        for message in &received {
            sqs.delete_message(url, &message.receipt_handle).await.unwrap();
        }
        let kinds: Vec<Kind> = received.iter().map(|m| interruption::parse(&m.body).unwrap().kind).collect();
        if kinds.contains(&Kind::SpotInterrupted) {
            break tokio::time::Instant::now();
        }
    };
    assert!(matches!(machines.recv().await, Some(MachineEvent::Stopped { .. })));
    assert_eq!(warned.elapsed().as_secs(), 120);
    assert!(lab.region.faults_fired()["spot_reclaimed"] >= 1);
}

#[tokio::test(start_paused = true)]
async fn limits_hold_calls_back() {
    // covers: AWS-SIM-15
    let lab = Lab::new(Options { limits: Some(Limits::EC2), ..quiet(1) }).await;
    lab.ready().await;
    let ec2 = lab.region.aws().ec2;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let mut refused = 0;
    for _ in 0..150 {
        let answer = ec2.describe_instances(&DescribeInstances::default()).await;
        refused += usize::from(answer.is_err_and(|error| error.code == "RequestLimitExceeded"));
    }
    assert_eq!(refused, 50, "a burst of a hundred reads");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(ec2.describe_instances(&DescribeInstances::default()).await.is_ok());
}

/// What happened, to the letter.
async fn history(seed: u64) -> String {
    let options = Options { rates: Rates::ROUGH, ..crate::lab::options(seed) };
    let lab = Lab::new(options).await;
    lab.ready().await;
    let mut machines = lab.region.machines();
    let mut told = String::new();
    for round in 0..40 {
        let types: &[&str] = &["m5.large", "c5.large", "m6i.large", "r5.large"];
        let capacity: &[&str] = if round % 2 == 0 { &["spot"] } else { &["on-demand"] };
        let ask = claim(&format!("claim-{round}"), &[(CAPACITY, "In", capacity), (TYPE, "In", types)]);
        let answer =
            lab.provider.create(&ask).await.map(|machine| machine.provider_id).map_err(|error| error.to_string());
        told.push_str(&format!("{answer:?}\n"));
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    while let Ok(event) = machines.try_recv() {
        told.push_str(&format!("{event:?}\n"));
    }
    told.push_str(&format!("{:?} {:?} {}", lab.region.faults_fired(), lab.region.calls(), lab.region.save().concat()));
    told
}

#[tokio::test(start_paused = true)]
async fn one_seed_is_one_history() {
    let first = history(7).await;
    assert_eq!(first, history(7).await);
    assert_ne!(first, history(8).await);
    for kind in ["throttled", "refused_pool", "slow_machine"] {
        assert!(first.contains(kind), "no {kind} in {first}");
    }
}

#[tokio::test(start_paused = true)]
async fn prices_move_and_most_spot_is_cheaper() {
    // covers: AWS-PRICE-02, AWS-PRICE-03
    let lab = Lab::new(quiet(1)).await;
    let pool = lab.ready().await;
    let price = |types: &[std::sync::Arc<karpenter_core::InstanceType>], class: &str| {
        let kind = types.iter().find(|kind| &*kind.name == "m5.large").unwrap();
        kind.offerings.iter().find(|o| o.capacity_type().as_deref() == Some(class)).unwrap().price
    };
    let types = lab.provider.instance_types(&pool).await.unwrap();
    assert_eq!(price(&types, "spot"), price(&types, "on-demand"), "until the first refresh");
    let fetch = || async { karpenter_provider_aws::prices::spot(&lab.region.aws(), (lab.now)()).await.unwrap() };
    let first = fetch().await;
    lab.parts.types.set_spot_prices(first.clone()).unwrap();
    let types = lab.provider.instance_types(&pool).await.unwrap();
    assert!(price(&types, "spot") < price(&types, "on-demand"));
    tokio::time::sleep(Duration::from_secs(12 * 3600)).await;
    assert_ne!(first, fetch().await);
    let on_demand = karpenter_provider_aws::prices::on_demand(&lab.region.aws()).await.unwrap();
    assert_eq!(on_demand["m5.large"].0, 96_000);
    assert!(on_demand.contains_key("m5.metal"));
}

#[tokio::test(start_paused = true)]
async fn money_is_counted_by_the_second() {
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    lab.provider.create(&claim("one", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["m5.large"])])).await.unwrap();
    assert_eq!(lab.region.price_per_hour().0, 96_000);
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(lab.region.spent().0, 48_000);
    let id = lab.region.instances()[0].instance.id.clone();
    lab.region.kill(&id, InstanceState::ShuttingDown);
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!((lab.region.spent().0, lab.region.price_per_hour().0), (48_000, 0));
}

#[test]
fn a_region_without_prices_borrows_them() {
    let now: karpenter_provider_aws::ttl::Now = std::sync::Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    let region = Region::new(Options::new("eu-west-1", 1, "x"), now);
    assert_eq!(region.price_per_hour().0, 0);
}

fn poll(url: &str) -> ReceiveMessages {
    let twenty = Duration::from_secs(20);
    ReceiveMessages { url: url.to_owned(), at_most: 10, visibility: twenty, wait: twenty }
}
