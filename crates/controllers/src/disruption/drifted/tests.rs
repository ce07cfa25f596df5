use karpenter_core::labels::ZONE;
use karpenter_core::{MicroUsd, Offering, Resources};
use serde_json::{Value, json};

use super::*;

fn claim(labels: Value, annotations: Value) -> NodeClaim {
    let class = json!({"group": "g", "kind": "K", "name": "n"});
    serde_json::from_value(json!({
        "metadata": {"name": "c", "labels": labels, "annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeClassRef": class, "requirements": []},
    }))
    .unwrap()
}

fn pool(requirements: Value, annotations: Value) -> NodePool {
    let class = json!({"group": "g", "kind": "K", "name": "n"});
    serde_json::from_value(json!({
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": requirements}}},
    }))
    .unwrap()
}

fn hashes(hash: Option<&str>, version: Option<&str>) -> Value {
    let mut annotations = json!({});
    for (key, value) in [(api::NODEPOOL_HASH, hash), (api::NODEPOOL_HASH_VERSION, version)] {
        if let Some(value) = value {
            annotations[key] = json!(value);
        }
    }
    annotations
}

#[test]
fn hashes_are_compared_when_both_have_one_of_the_same_version() {
    // covers: DIS-DRIFT-03
    for (mine, pools, want) in [
        ((Some("1"), Some("v3")), (Some("1"), Some("v3")), None),
        ((Some("1"), Some("v3")), (Some("2"), Some("v3")), Some(POOL_DRIFTED)),
        ((Some("1"), Some("v2")), (Some("2"), Some("v3")), None),
        ((None, Some("v3")), (Some("2"), Some("v3")), None),
        ((Some("1"), None), (Some("2"), Some("v3")), None),
        ((Some("1"), Some("v3")), (None, Some("v3")), None),
        ((Some("1"), Some("v3")), (Some("2"), None), None),
    ] {
        let claim = claim(json!({}), hashes(mine.0, mine.1));
        let pool = pool(json!([]), hashes(pools.0, pools.1));
        assert_eq!(from_pool(&claim, &pool, &Vocabulary::kubernetes()), Ok(want), "{mine:?} {pools:?}");
    }
}

#[test]
fn labels_must_satisfy_the_requirements_of_today() {
    // covers: DIS-DRIFT-04
    let one =
        |key: &str, operator: &str, values: &[&str]| json!([{"key": key, "operator": operator, "values": values}]);
    let labels = json!({ZONE: "a", "size": "4"});
    for (requirements, drifted) in [
        (json!([]), false),
        (one(ZONE, "In", &["a", "b"]), false),
        (one(ZONE, "In", &["b"]), true),
        (one(ZONE, "NotIn", &["a"]), true),
        (one("missing", "In", &["x"]), true),
        (one("missing", "Exists", &[]), true),
        (one("missing", "NotIn", &["x"]), false),
        (one("missing", "DoesNotExist", &[]), false),
        (one("size", "Gt", &["3"]), false),
        (one("size", "Gt", &["4"]), true),
        // A key that instance types define is no exception: the claim has it or it does not.
        (one(CAPACITY_TYPE, "In", &["spot"]), true),
    ] {
        let found = from_pool(
            &claim(labels.clone(), json!({})),
            &pool(requirements.clone(), json!({})),
            &Vocabulary::kubernetes(),
        );
        assert_eq!(found, Ok(drifted.then_some(REQUIREMENTS_DRIFTED)), "{requirements}");
    }
    // The hash goes first.
    let (claim, pool) =
        (claim(labels, hashes(Some("1"), Some("v3"))), pool(one(ZONE, "In", &["b"]), hashes(Some("2"), Some("v3"))));
    assert_eq!(from_pool(&claim, &pool, &Vocabulary::kubernetes()), Ok(Some(POOL_DRIFTED)));
}

#[test]
fn the_type_is_looked_for_after_an_hour_and_then_every_half() {
    // covers: DIS-DRIFT-05
    let claim = claim(json!({}), json!({}));
    let at =
        |minutes: i64| "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_mins(minutes);
    for (found, now, due) in [(None, 60, false), (None, 61, true), (Some(61), 91, false), (Some(61), 92, true)] {
        assert_eq!(is_type_check_due(&claim, found.map(at), at(now)), due, "{found:?} {now}");
    }
}

fn kind(name: &str, offerings: &[(&str, &str)]) -> Arc<InstanceType> {
    let offering = |(zone, capacity): &(&str, &str)| {
        let mut requirements = Requirements::new();
        requirements.add(ZONE, Requirement::one(zone));
        requirements.add(CAPACITY_TYPE, Requirement::one(capacity));
        Offering { requirements, price: MicroUsd(1), available: false, reservation: None }
    };
    Arc::new(InstanceType {
        name: name.into(),
        requirements: Requirements::new(),
        capacity: Resources::default(),
        overhead: Default::default(),
        offerings: offerings.iter().map(offering).collect(),
    })
}

#[test]
fn a_type_is_known_while_one_offering_matches_available_or_not() {
    // covers: DIS-DRIFT-05, DIS-DRIFT-06
    let types = [kind("a", &[("1", ON_DEMAND), ("1", "spot")])];
    let words = Vocabulary { reservation_id: Some("cloud/reservation-id".to_owned()), ..Vocabulary::kubernetes() };
    for (labels, known) in [
        (json!({INSTANCE_TYPE: "a", ZONE: "1", CAPACITY_TYPE: "spot"}), true),
        (json!({INSTANCE_TYPE: "a", ZONE: "2", CAPACITY_TYPE: "spot"}), false),
        (json!({INSTANCE_TYPE: "b", ZONE: "1", CAPACITY_TYPE: "spot"}), false),
        (json!({ZONE: "1", CAPACITY_TYPE: "spot"}), false),
        // Fallen out of its reservation, or not relabelled yet.
        (
            json!({INSTANCE_TYPE: "a", ZONE: "1", CAPACITY_TYPE: RESERVED, "cloud/reservation-id": "r",
            "cloud/reservation-type": "default"}),
            true,
        ),
    ] {
        assert_eq!(is_type_known(&claim(labels.clone(), json!({})), &types, &words), known, "{labels}");
    }
}
