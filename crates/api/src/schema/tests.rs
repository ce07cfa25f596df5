//! The types and the schemas say the same thing about every field.

use serde_json::{Map, Value, json};

use super::{Schema, Shape, schema_of};
use crate::kind::Kind;
use crate::validation::unknown_fields;
use crate::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, Object, apply_defaults};

/// A value with every property the schema knows. `1h` will do for every text: it is a duration, too.
fn sample(schema: &Schema) -> Value {
    match &schema.shape {
        Shape::Object { properties, .. } => {
            Value::Object(properties.iter().map(|(name, schema)| ((*name).to_owned(), sample(schema))).collect())
        }
        Shape::Map { values, .. } => json!({"some.key": sample(values)}),
        Shape::Open => json!({"any": {"thing": [1, "two", {"three": null}]}}),
        Shape::List { items, .. } => json!([sample(items)]),
        Shape::Text { date_time: true, .. } => json!("2026-01-02T03:04:05Z"),
        Shape::Text { one_of, .. } => json!(one_of.first().unwrap_or(&"1h")),
        Shape::Integer { .. } => json!(7),
        Shape::Boolean => json!(true),
        Shape::Quantity => json!("7"),
        Shape::Metadata => json!({"name": "n", "labels": {"a": "b"}}),
    }
}

fn round_trip(kind: Kind, value: Value) -> Value {
    fn through<T: Object>(value: Value) -> Value {
        serde_json::from_value::<T>(value).unwrap().to_value()
    }
    match kind {
        Kind::NodePool => through::<NodePool>(value),
        Kind::NodeClaim => through::<NodeClaim>(value),
        Kind::NodeOverlay => through::<NodeOverlay>(value),
        Kind::CapacityBuffer => through::<CapacityBuffer>(value),
        Kind::EC2NodeClass => through::<EC2NodeClass>(value),
    }
}

#[test]
fn no_field_is_lost_on_the_way_through_the_types() {
    // covers: API-EC2-19
    for kind in Kind::ALL {
        let mut full = sample(schema_of(kind));
        full["apiVersion"] = kind.api_version().into();
        full["kind"] = kind.as_str().into();
        let back = round_trip(kind, full.clone());
        assert_eq!(back, full, "{kind:?}");
        assert_eq!(unknown_fields(kind, &back), Vec::<String>::new());
    }
}

/// Only what must be there.
fn minimal(schema: &Schema) -> Value {
    match &schema.shape {
        Shape::Object { properties, required } => {
            let needed = properties.iter().filter(|(name, _)| required.contains(name));
            Value::Object(needed.map(|(name, schema)| ((*name).to_owned(), minimal(schema))).collect())
        }
        Shape::List { .. } => json!([]),
        _ => sample(schema),
    }
}

#[test]
fn absent_fields_take_the_same_defaults_in_types_and_schemas() {
    for kind in Kind::ALL {
        let mut object = minimal(schema_of(kind));
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.as_str().into();
        object["metadata"] = json!({});
        if kind == Kind::EC2NodeClass {
            object["spec"] = minimal(schema_of(kind).property("spec").unwrap());
        }
        let mut defaulted = object.clone();
        apply_defaults(kind, &mut defaulted);
        assert_eq!(round_trip(kind, object), defaulted, "{kind:?}");
    }
}

#[test]
fn an_empty_object_inside_a_list_or_status_is_completed_alike() {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {},
        "spec": {
            "template": {"spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []}},
            "disruption": {"budgets": [{}]},
        },
        "status": {},
    });
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {},
        "spec": {"subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": [],
            "metadataOptions": {"httpTokens": "optional"}},
        "status": {"capacityReservations": [{"availabilityZone": "z", "id": "cr-1", "instanceMatchCriteria": "open",
            "instanceType": "t", "ownerID": "012345678901"}]},
    });
    for (kind, object) in [(Kind::NodePool, pool), (Kind::EC2NodeClass, class)] {
        let mut defaulted = object.clone();
        apply_defaults(kind, &mut defaulted);
        assert_eq!(round_trip(kind, object), defaulted, "{kind:?}");
    }
}

#[test]
fn lists_without_type_information_and_quantities_as_numbers_are_read() {
    let read = round_trip(
        Kind::NodePool,
        json!({"spec": {"limits": {"cpu": 1000}, "template": {"spec": {
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}}),
    );
    assert_eq!(read["kind"], "NodePool");
    assert_eq!(read["spec"]["limits"]["cpu"], "1000");
    let empty: EC2NodeClass = serde_json::from_value(Value::Object(Map::new())).unwrap();
    assert_eq!(empty.spec.ami_selector_terms, []);
    assert!(serde_json::from_value::<NodePool>(json!({"kind": "NodeClaim", "spec": {}})).is_err());
}
