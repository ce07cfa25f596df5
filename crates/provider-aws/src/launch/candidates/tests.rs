use karpenter_ec2::nodeclass::{CapacityReservation, ReservationKind};

use super::*;
use crate::testing::{ZONES, claim, facts, types};

fn names(found: &[InstanceType]) -> Vec<&str> {
    found.iter().map(|kind| &*kind.name).collect()
}

fn pick(types: &[Arc<InstanceType>], requirements: &[(&str, &str, &[&str])]) -> Result<Vec<InstanceType>, LaunchError> {
    let words = karpenter_ec2::vocabulary();
    candidates(types, &Ask::of(&claim(requirements), &words), true)
}

const CAPACITY: &str = CAPACITY_TYPE;
const TYPE: &str = "node.kubernetes.io/instance-type";

fn reservation(id: &str, kind: ReservationKind, zone: &str, remaining: u32) -> CapacityReservation {
    CapacityReservation {
        id: id.into(),
        instance_type: "m5.large".into(),
        zone: zone.into(),
        kind,
        interruptible: false,
        expiring: false,
        remaining,
    }
}

#[test]
fn only_what_fits_and_can_be_had_is_asked_for() {
    // covers: AWS-FLEET-01, AWS-FLEET-02
    let all = types(&facts(), &["c5.large", "m5.large", "m5.xlarge", "m6g.large"]);
    let x86 = [("kubernetes.io/arch", "In", ["amd64"].as_slice()), (CAPACITY, "In", &["on-demand"])];
    assert_eq!(names(&pick(&all, &x86).unwrap()), ["c5.large", "m5.large", "m5.xlarge"], "cheapest first");
    let elsewhere = [("topology.kubernetes.io/zone", "In", ["us-east-1f"].as_slice())];
    assert!(matches!(pick(&all, &elsewhere), Err(LaunchError::InsufficientCapacity { .. })));
    let mut large = claim(&x86);
    let requests = serde_json::from_value(serde_json::json!({"requests": {"cpu": "3"}})).unwrap();
    large.spec.resources = Some(requests);
    let words = karpenter_ec2::vocabulary();
    assert_eq!(names(&candidates(&all, &Ask::of(&large, &words), true).unwrap()), ["m5.xlarge"]);
    let closed: Vec<Arc<InstanceType>> = all
        .iter()
        .map(|kind| {
            let mut kind = InstanceType::clone(kind);
            kind.offerings.iter_mut().for_each(|offering| offering.available = false);
            Arc::new(kind)
        })
        .collect();
    assert!(pick(&closed, &x86).is_err());
}

#[test]
fn metal_and_devices_only_where_nothing_else_is_left() {
    // covers: AWS-FLEET-06
    let all = types(&facts(), &["g4dn.xlarge", "inf2.xlarge", "m5.large", "m5.metal"]);
    let on_demand = (CAPACITY, "In", ["on-demand"].as_slice());
    assert_eq!(names(&pick(&all, &[on_demand]).unwrap()), ["m5.large"]);
    let exotic = (TYPE, "In", ["g4dn.xlarge", "m5.metal"].as_slice());
    assert_eq!(names(&pick(&all, &[on_demand, exotic]).unwrap()), ["g4dn.xlarge", "m5.metal"]);
    let mut wide = claim(&[on_demand]);
    wide.spec
        .requirements
        .push(serde_json::from_value(serde_json::json!({"key": TYPE, "operator": "Exists", "minValues": 2})).unwrap());
    let words = karpenter_ec2::vocabulary();
    assert_eq!(candidates(&all, &Ask::of(&wide, &words), true).unwrap().len(), 4, "minValues keeps them");
}

#[test]
fn spot_dearer_than_on_demand_is_left_out() {
    // covers: AWS-FLEET-07
    let all = types(&facts(), &["m5.large", "m5.4xlarge"]);
    let both = [(CAPACITY, "In", ["spot", "on-demand"].as_slice())];
    let found = pick(&all, &both).unwrap();
    let dear = found.iter().find(|kind| &*kind.name == "m5.4xlarge").unwrap();
    assert!(dear.offerings.iter().all(|offering| !is_of(offering, SPOT)), "0.3072 is more than 0.096");
    let cheap = found.iter().find(|kind| &*kind.name == "m5.large").unwrap();
    assert!(cheap.offerings.iter().any(|offering| is_of(offering, SPOT)));
    let spot_only = pick(&all, &[(CAPACITY, "In", &["spot"])]).unwrap();
    assert!(spot_only.iter().all(|kind| kind.offerings.iter().any(|offering| is_of(offering, SPOT))));
}

#[test]
fn the_sixty_cheapest_must_keep_min_values() {
    // covers: AWS-FLEET-08
    let catalogue = karpenter_ec2::catalogue::builtin::catalogue();
    let region = &catalogue.regions["us-east-1"];
    let many: Vec<&str> = catalogue
        .for_sale(region)
        .filter(|facts| !facts.bare_metal && facts.gpus.is_empty() && facts.accelerators.is_empty() && facts.vcpus >= 4)
        .map(|facts| &*facts.name)
        .take(200)
        .collect();
    let all = types(&facts(), &many);
    let found = pick(&all, &[(CAPACITY, "In", &["on-demand"])]).unwrap();
    assert_eq!(found.len(), MOST_TYPES);
    let prices: Vec<MicroUsd> = found
        .iter()
        .map(|kind| {
            kind.offerings.iter().filter(|o| o.available && is_of(o, ON_DEMAND)).map(|o| o.price).min().unwrap()
        })
        .collect();
    assert!(prices.is_sorted());
    let mut wide = claim(&[(CAPACITY, "In", &["on-demand"])]);
    wide.spec
        .requirements
        .push(serde_json::from_value(serde_json::json!({"key": TYPE, "operator": "Exists", "minValues": 61})).unwrap());
    let words = karpenter_ec2::vocabulary();
    let ask = Ask::of(&wide, &words);
    assert!(matches!(candidates(&all, &ask, true), Err(LaunchError::InsufficientCapacity { .. })));
    assert_eq!(candidates(&all, &ask, false).unwrap().len(), MOST_TYPES, "best effort");
}

#[test]
fn capacity_types_are_preferred_in_order() {
    // covers: AWS-FLEET-09
    let words = karpenter_ec2::vocabulary();
    let mut class = facts();
    let plain = types(&class, &["m5.large"]);
    class.capacity_reservations = vec![reservation("cr-1", ReservationKind::Default, ZONES[0], 1)];
    let reserved = types(&class, &["m5.large"]);
    let of = |types: &[Arc<InstanceType>], allowed: &[&str]| {
        let ask = claim(&[(CAPACITY, "In", allowed)]);
        let ask = Ask::of(&ask, &words);
        capacity_type(&candidates(types, &ask, true).unwrap(), &ask)
    };
    assert_eq!(of(&reserved, &["reserved", "spot", "on-demand"]), RESERVED);
    assert_eq!(of(&plain, &["reserved", "spot", "on-demand"]), SPOT);
    assert_eq!(of(&plain, &["reserved", "on-demand"]), ON_DEMAND);
    assert_eq!(of(&reserved, &["on-demand"]), ON_DEMAND);
}

#[test]
fn reservations_are_narrowed_to_what_a_fleet_takes() {
    // covers: AWS-FLEET-03, AWS-FLEET-04, AWS-FLEET-05
    let reserved = [(CAPACITY, "In", ["reserved", "on-demand"].as_slice())];
    let ids = |found: &[InstanceType]| -> Vec<String> {
        let offerings = found.iter().flat_map(|kind| &kind.offerings);
        offerings.filter_map(|offering| offering.reservation.as_ref()).map(|r| r.id.to_string()).collect()
    };
    let mut class = facts();
    class.capacity_reservations = vec![
        reservation("cr-few", ReservationKind::Default, ZONES[0], 1),
        reservation("cr-many", ReservationKind::Default, ZONES[0], 5),
        reservation("cr-other", ReservationKind::Default, ZONES[1], 2),
        reservation("cr-block", ReservationKind::CapacityBlock, ZONES[0], 9),
    ];
    let all = types(&class, &["m5.large", "m5.xlarge"]);
    let found = pick(&all, &reserved).unwrap();
    assert_eq!((names(&found), ids(&found)), (vec!["m5.large"], vec!["cr-many".to_owned(), "cr-other".to_owned()]));
    class.capacity_reservations = vec![
        reservation("cr-block-1", ReservationKind::CapacityBlock, ZONES[0], 9),
        reservation("cr-block-2", ReservationKind::CapacityBlock, ZONES[1], 9),
    ];
    let found = pick(&types(&class, &["m5.large", "m5.xlarge"]), &reserved).unwrap();
    assert_eq!(ids(&found), ["cr-block-1"]);
    class.capacity_reservations.clear();
    assert_eq!(
        pick(&types(&class, &["m5.large", "m5.xlarge"]), &reserved).unwrap().len(),
        2,
        "none matches, none is filtered"
    );
}

#[test]
fn tenancy_is_default_if_it_may_be() {
    // covers: AWS-FLEET-10
    let words = karpenter_ec2::vocabulary();
    let of = |requirements: &[(&str, &str, &[&str])]| tenancy(&Ask::of(&claim(requirements), &words));
    assert_eq!(of(&[]), "default");
    assert_eq!(of(&[(aws::TENANCY, "In", &["dedicated", "default"])]), "default");
    assert_eq!(of(&[(aws::TENANCY, "In", &["dedicated"])]), "dedicated");
}

#[test]
fn of_two_blocks_the_one_that_would_cost_less_is_taken() {
    // covers: AWS-FLEET-03, AWS-FLEET-04, AWS-PRICE-13
    let block = |id: &str, name: &str| CapacityReservation {
        instance_type: name.into(),
        ..reservation(id, ReservationKind::CapacityBlock, ZONES[0], 1)
    };
    let mut class = facts();
    class.capacity_reservations = vec![block("cr-dear", "c5.4xlarge"), block("cr-cheap", "m5.large")];
    let found = pick(&types(&class, &["c5.4xlarge", "m5.large"]), &[(CAPACITY, "In", &["reserved"])]).unwrap();
    assert_eq!(names(&found), ["m5.large"], "both are nearly free");
    // Of two kinds of reservation the cheaper one wins, not the one that comes first.
    class.capacity_reservations = vec![
        CapacityReservation { kind: ReservationKind::Default, ..block("cr-default", "c5.4xlarge") },
        block("cr-block", "m5.large"),
    ];
    let found = pick(&types(&class, &["c5.4xlarge", "m5.large"]), &[(CAPACITY, "In", &["reserved"])]).unwrap();
    assert_eq!(names(&found), ["m5.large"]);
}
