//! Placement groups and capacity blocks, from the node class to the machine.

use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_aws_sim::{Options, Script, Target};
use karpenter_provider::{CloudProvider, LaunchError, Machine, Registration};
use karpenter_provider_aws::calls::{CapacityReservation, PlacementGroup};
use karpenter_provider_aws::expiring_blocks;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::lab::{CAPACITY, Lab, TYPE, ZONE, claim, default_spec, quiet};

const GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
const PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";

fn group(id: &str, name: &str, strategy: &str, partitions: u32) -> PlacementGroup {
    PlacementGroup { id: id.into(), name: name.into(), strategy: strategy.into(), partitions }
}

fn with(selector: Value) -> Value {
    let mut spec = default_spec();
    spec["placementGroupSelector"] = selector;
    spec
}

async fn lab_with(groups: Vec<PlacementGroup>) -> Lab {
    Lab::new(Options { placement_groups: groups, ..quiet(1) }).await
}

fn ask(name: &str, more: &[(&str, &str, &[&str])]) -> NodeClaim {
    let mut all = vec![(CAPACITY, "In", ["on-demand"].as_slice()), (TYPE, "In", &["m5.large", "c5.large"])];
    all.extend_from_slice(more);
    claim(name, &all)
}

fn held(mut claim: NodeClaim, machine: &Machine) -> NodeClaim {
    claim.metadata.labels.get_or_insert_default().extend(machine.labels.clone());
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id = Some(machine.image_id.clone());
    claim
}

#[tokio::test(start_paused = true)]
async fn a_selector_means_a_group() {
    // covers: AWS-PG-01, AWS-PG-02, AWS-PG-03, AWS-PG-04
    let lab = lab_with(vec![group("pg-1", "one", "cluster", 0), group("pg-2", "two", "spread", 0)]).await;
    lab.create_class(with(json!({"name": "two"}))).await;
    lab.settle_class().await;
    let resolved = || async { lab.parts.placement_groups.last(&lab.class().await, (lab.now)()).map(|group| group.id) };
    assert_eq!(
        (lab.condition("PlacementGroupReady").await.0.as_str(), resolved().await.as_deref()),
        ("True", Some("pg-2"))
    );
    let asked = lab.region.calls()["DescribePlacementGroups"];
    lab.settle_class().await;
    assert_eq!(lab.region.calls()["DescribePlacementGroups"], asked, "not within the minute");
    lab.patch_class(json!({"spec": {"placementGroupSelector": {"name": null, "id": "pg-1"}}})).await;
    lab.settle_class().await;
    assert_eq!(resolved().await.as_deref(), Some("pg-1"));
    // EC2 fails: the condition says so, and launches go on with what was known.
    tokio::time::sleep(Duration::from_secs(61)).await;
    let failing = Target::Call { operation: "DescribePlacementGroups", server_fault: true };
    lab.region.script(Script::new(failing, "InternalError", 1));
    assert!(lab.classes.reconcile(&lab.class().await).await.is_err());
    assert_eq!(lab.condition("PlacementGroupReady").await.1, "PlacementGroupResolutionFailed");
    assert_eq!(resolved().await.as_deref(), Some("pg-1"));
    // It is gone: nothing is kept, so the state does not flip back.
    lab.region.set_placement_groups(Vec::new());
    lab.settle_class().await;
    assert_eq!(lab.condition("PlacementGroupReady").await.1, "PlacementGroupNotFound");
    assert_eq!(resolved().await, None);
    tokio::time::sleep(Duration::from_secs(10)).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("PlacementGroupReady").await.1, "PlacementGroupNotFound");
    lab.patch_class(json!({"spec": {"placementGroupSelector": null}})).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("PlacementGroupReady").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_launched_into_the_group_and_the_partition_it_asks_for() {
    // covers: AWS-PG-05, AWS-PG-06, AWS-PG-07, AWS-PG-08, AWS-PG-09
    let lab = lab_with(vec![group("pg-1", "one", "partition", 12)]).await;
    lab.ready_with(with(json!({"name": "one"}))).await;
    let constrained = ask("constrained", &[(PARTITION, "NotIn", &["1", "2"])]);
    let machine = lab.provider.create(&constrained).await.unwrap();
    let label = |machine: &Machine, key: &str| machine.labels.get(key).cloned();
    assert_eq!((label(&machine, GROUP_ID), label(&machine, PARTITION)), (Some("pg-1".into()), Some("3".into())));
    let id = machine.provider_id.rsplit('/').next().unwrap().to_owned();
    let launched = |id: &str| lab.region.instances().into_iter().find(|one| one.instance.id == id).unwrap().instance;
    assert_eq!((launched(&id).placement_group_id.as_deref(), launched(&id).partition), (Some("pg-1"), Some(3)));
    let known = held(constrained, &machine);
    assert!(matches!(lab.provider.registration(&known).await, Ok(Registration::Proceed)));
    // Without a wish EC2 chooses, and until it has told nothing registers.
    let free = ask("free", &[]);
    let machine = lab.provider.create(&free).await.unwrap();
    assert_eq!(label(&machine, PARTITION).as_deref(), Some(""));
    let mut waiting = held(free, &machine);
    let told = launched(machine.provider_id.rsplit('/').next().unwrap()).partition.unwrap().to_string();
    match lab.provider.registration(&waiting).await.unwrap() {
        Registration::Relabel(labels) => assert_eq!(labels, [(PARTITION.to_owned(), told)]),
        other => panic!("{other:?}"),
    }
    waiting.status.as_mut().unwrap().provider_id = None;
    assert!(matches!(lab.provider.registration(&waiting).await, Ok(Registration::Wait { .. })));
}

#[tokio::test(start_paused = true)]
async fn refusals_stay_in_the_group_and_in_the_partition() {
    // covers: AWS-PG-10, AWS-PG-11
    let lab = lab_with(vec![group("pg-1", "one", "partition", 3)]).await;
    let pool = lab.ready_with(with(json!({"name": "one"}))).await;
    let none_left = || Target::Pool { class: None, instance_type: None, zone: None };
    lab.region.script(Script::new(none_left(), "InsufficientInstanceCapacity", 6));
    let there = [(ZONE, "In", ["us-east-1a"].as_slice()), (PARTITION, "In", &["2"])];
    assert!(lab.provider.create(&ask("one", &there)).await.is_err());
    lab.region.clear_scripts();
    let types = lab.provider.instance_types(&pool).await.unwrap();
    let available = |name: &str, partition: &str| {
        let kind = types.iter().find(|kind| &*kind.name == name).unwrap();
        let here = kind
            .offerings
            .iter()
            .filter(|o| o.zone().as_deref() == Some("us-east-1a") && o.capacity_type().as_deref() == Some("on-demand"));
        here.filter(|o| o.available && o.requirements.get(PARTITION).allows(partition)).count()
    };
    assert_eq!((available("m5.large", "1"), available("m5.large", "2"), available("m5.xlarge", "2")), (1, 0, 1));
    // A class without the group sees nothing of it.
    let outside = Lab::new(quiet(1)).await;
    outside.ready().await;
    assert!(outside.provider.create(&ask("outside", &[(ZONE, "In", &["us-east-1a"])])).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_spread_group_closes_its_zone_for_every_type() {
    // covers: AWS-PG-11
    let lab = lab_with(vec![group("pg-1", "one", "spread", 0)]).await;
    let pool = lab.ready_with(with(json!({"id": "pg-1"}))).await;
    let target = Target::Pool { class: None, instance_type: Some("c5.large".to_owned()), zone: None };
    let message = "You have exceeded the limit of instances in this spread placement group (7) in this zone";
    let script = Script { message: message.to_owned(), ..Script::new(target, "InsufficientInstanceCapacity", 1) };
    lab.region.script(script);
    let refused = lab.provider.create(&ask("one", &[(ZONE, "In", &["us-east-1a"])])).await;
    let types = lab.provider.instance_types(&pool).await.unwrap();
    let open = |name: &str, zone: &str| {
        let kind = types.iter().find(|kind| &*kind.name == name).unwrap();
        kind.offerings.iter().any(|o| {
            o.available && o.zone().as_deref() == Some(zone) && o.capacity_type().as_deref() == Some("on-demand")
        })
    };
    assert!(!open("c5.large", "us-east-1a") && !open("m5.large", "us-east-1a"), "{refused:?}");
    assert!(open("c5.large", "us-east-1b") && open("r5.large", "us-east-1a"), "only what was asked for");
}

#[tokio::test(start_paused = true)]
async fn machines_outside_their_group_or_reservation_have_drifted() {
    // covers: AWS-DRIFT-07, AWS-DRIFT-08
    let lab = Lab::new(Options { reservations: vec![block("cr-1", "default", None)], ..quiet(1) }).await;
    let mut spec = default_spec();
    spec["capacityReservationSelectorTerms"] = json!([{"id": "cr-1"}]);
    lab.ready_with(spec).await;
    let reserved = claim("reserved", &[(CAPACITY, "In", &["reserved"]), (TYPE, "In", &["m5.large"])]);
    let machine = lab.provider.create(&reserved).await.unwrap();
    let mut reserved = held(reserved, &machine);
    let drift = |claim: &NodeClaim| {
        let (provider, claim) = (lab.provider.clone(), claim.clone());
        async move { provider.is_drifted(&claim).await.unwrap() }
    };
    assert_eq!(drift(&reserved).await, None);
    lab.patch_class(json!({"spec": {"capacityReservationSelectorTerms": null}})).await;
    lab.settle_class().await;
    assert_eq!(drift(&reserved).await.as_deref(), Some("CapacityReservationDrift"));
    // It fell back to on-demand, which only a fresh look tells.
    lab.region.end_reservation(machine.provider_id.rsplit('/').next().unwrap());
    assert_eq!(drift(&reserved).await, None);
    reserved.metadata.labels.as_mut().unwrap().insert(GROUP_ID.to_owned(), "pg-1".to_owned());
    assert_eq!(drift(&reserved).await.as_deref(), Some("PlacementGroupDrift"), "the class has none");
    lab.region.set_placement_groups(vec![group("pg-1", "one", "spread", 0), group("pg-2", "two", "spread", 0)]);
    for (name, want) in [("one", None), ("two", Some("PlacementGroupDrift"))] {
        lab.patch_class(json!({"spec": {"placementGroupSelector": {"name": name}}})).await;
        lab.settle_class().await;
        assert_eq!(drift(&reserved).await.as_deref(), want, "{name}");
    }
}

fn block(id: &str, kind: &str, end: Option<jiff::Timestamp>) -> CapacityReservation {
    CapacityReservation {
        id: id.to_owned(),
        zone: "us-east-1a".to_owned(),
        instance_type: "m5.large".to_owned(),
        instance_match_criteria: "targeted".to_owned(),
        owner_id: "000000000000".to_owned(),
        reservation_type: kind.to_owned(),
        interruptible: false,
        available: 2,
        end,
        tags: Default::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn machines_leave_a_capacity_block_before_it_ends() {
    // covers: AWS-CR-05, AWS-CR-14
    let end: jiff::Timestamp = "2026-01-02T01:00:00Z".parse().unwrap();
    let reservations = vec![block("cr-block", "capacity-block", Some(end)), block("cr-default", "default", Some(end))];
    let lab = Lab::new(Options { reservations, ..quiet(1) }).await;
    let mut spec = default_spec();
    spec["capacityReservationSelectorTerms"] = json!([{"id": "cr-block"}, {"id": "cr-default"}]);
    let pool = lab.ready_with(spec).await;
    let claims = Api::<NodeClaim>::all(lab.client.clone());
    // A reservation that is gone must not hide that another one ends.
    let ids = [
        ("in-block", Some("cr-block")),
        ("in-default", Some("cr-default")),
        ("in-vanished", Some("cr-vanished")),
        ("plain", None),
    ];
    for (name, id) in ids {
        let mut stored = ask(name, &[]);
        stored.metadata.uid = None;
        stored.metadata.finalizers = Some(vec!["karpenter.sh/termination".to_owned()]);
        let labels = stored.metadata.labels.get_or_insert_default();
        labels.extend(id.map(|id| ("karpenter.k8s.aws/capacity-reservation-id".to_owned(), id.to_owned())));
        claims.create(&PostParams::default(), &stored).await.unwrap();
    }
    let states = || async {
        let listed = lab.class().await.status.unwrap().capacity_reservations.unwrap();
        listed.into_iter().map(|one| (one.id, one.state)).collect::<Vec<_>>()
    };
    let pairs =
        |block: &str| [("cr-block", block), ("cr-default", "active")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    tokio::time::sleep(Duration::from_secs(20 * 60 - 70)).await;
    lab.settle_class().await;
    assert_eq!(states().await, pairs("active"));
    assert_eq!(expiring_blocks::round(&lab.parts).await.unwrap(), 0);
    tokio::time::sleep(Duration::from_secs(71)).await;
    lab.settle_class().await;
    assert_eq!(states().await, pairs("expiring"), "forty minutes before its end");
    let types = lab.provider.instance_types(&pool).await.unwrap();
    let of = |id: &str| {
        let all = types.iter().flat_map(|kind| &kind.offerings);
        all.filter(|o| o.reservation.as_ref().is_some_and(|r| &*r.id == id)).all(|o| o.available)
    };
    assert!(!of("cr-block") && of("cr-default"));
    assert_eq!(expiring_blocks::round(&lab.parts).await.unwrap(), 1);
    let mut deleting = Vec::new();
    for claim in claims.list(&Default::default()).await.unwrap() {
        deleting.extend(claim.metadata.deletion_timestamp.is_some().then(|| claim.metadata.name.unwrap()));
    }
    assert_eq!(deleting, ["in-block"]);
    assert_eq!(expiring_blocks::round(&lab.parts).await.unwrap(), 0, "once");
    let refused = claim(
        "late",
        &[(CAPACITY, "In", &["reserved"]), ("karpenter.k8s.aws/capacity-reservation-type", "In", &["capacity-block"])],
    );
    assert!(matches!(lab.provider.create(&refused).await, Err(LaunchError::InsufficientCapacity { .. })));
}
