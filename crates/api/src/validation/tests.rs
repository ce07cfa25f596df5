use std::collections::BTreeSet;

use serde_json::{Value, json};

use self::cases::Case;
use super::*;
use crate::defaulting::apply_defaults;
use crate::schema::{Check, Schema, Shape};
use crate::{EC2NodeClass, NodePool, parse};

mod cases;

fn kind_of(object: &Value) -> Kind {
    let text = |field: &str| object[field].as_str().unwrap();
    Kind::of(text("apiVersion"), text("kind")).unwrap()
}

fn faults_of(case: &Case) -> Vec<Fault> {
    let kind = kind_of(&case.object);
    let mut object = case.object.clone();
    apply_defaults(kind, &mut object);
    match &case.old {
        None => validate(kind, &object),
        Some(old) => {
            let mut old = old.clone();
            apply_defaults(kind, &mut old);
            validate_update(kind, &old, &object)
        }
    }
}

/// Runs the cases of these behaviours. A refusal must name the expected field or something below it, and nothing else.
fn admission(ids: &[&str]) {
    let all = cases::all();
    for id in ids {
        let cases: Vec<_> = all.iter().filter(|case| case.id == *id).collect();
        assert!(!cases.is_empty(), "{id} has no case");
        for case in cases {
            let faults = faults_of(case);
            let object = &case.object;
            match case.refused {
                None => assert_eq!(faults, [], "{id}: must be admitted: {object}"),
                Some(field) => {
                    assert!(!faults.is_empty(), "{id}: must be refused for {field}: {object}");
                    let stray = faults.iter().find(|fault| !fault.field.starts_with(field));
                    assert_eq!(stray, None, "{id}: expected faults at {field} only: {object}");
                }
            }
        }
    }
}

#[test]
fn durations() {
    // covers: API-NP-01, API-NP-02, API-NP-03
    admission(&["API-NP-01", "API-NP-02", "API-NP-03"]);
}

#[test]
fn consolidation_policies_and_budgets() {
    // covers: API-NP-06, API-NP-07, API-NP-08
    admission(&["API-NP-06", "API-NP-07", "API-NP-08"]);
}

#[test]
fn taints_and_requirements() {
    // covers: API-NP-09, API-NP-10, API-NP-11, API-NP-12, API-NP-13, API-NP-14, API-NP-15, API-NP-16
    admission(&[
        "API-NP-09",
        "API-NP-10",
        "API-NP-11",
        "API-NP-12",
        "API-NP-13",
        "API-NP-14",
        "API-NP-15",
        "API-NP-16",
    ]);
}

#[test]
fn label_domains() {
    // covers: API-NP-20, API-NP-21, API-NP-22, API-NP-23, API-NP-24
    admission(&["API-NP-20", "API-NP-21", "API-NP-22", "API-NP-23", "API-NP-24", "API-NP-31"]);
}

#[test]
fn class_references_and_static_pools() {
    // covers: API-NP-25, API-NP-26, API-NP-27, API-NP-28, API-NP-29, API-NP-39, STATIC-21
    admission(&["API-NP-25", "API-NP-26", "API-NP-27", "API-NP-28", "API-NP-29", "API-NP-39"]);
}

#[test]
fn nodeclaims() {
    // covers: API-NC-01, API-NC-02, API-NC-03, API-NC-04
    admission(&["API-NC-01", "API-NC-02", "API-NC-03", "API-NC-04"]);
}

#[test]
fn nodeoverlays() {
    // covers: API-NO-01, API-NO-02, API-NO-03, API-NO-04, SCH-OVERLAY-01
    admission(&["API-NO-01", "API-NO-02", "API-NO-03", "API-NO-04", "API-NO-05", "API-NO-06"]);
}

#[test]
fn capacity_buffers() {
    // covers: API-CB-01
    admission(&["API-CB-01"]);
}

#[test]
fn classes_identity_and_images() {
    // covers: API-EC2-01, API-EC2-02, API-EC2-03, API-EC2-04, API-EC2-05, API-EC2-07, API-EC2-08
    // covers: AWS-NC-14, AWS-AMI-02, AWS-AMI-03
    admission(&[
        "API-EC2-01",
        "API-EC2-02",
        "API-EC2-03",
        "API-EC2-04",
        "API-EC2-05",
        "API-EC2-06",
        "API-EC2-07",
        "API-EC2-08",
    ]);
}

#[test]
fn classes_selectors_and_tags() {
    // covers: API-EC2-09, API-EC2-10, API-EC2-11, API-EC2-12, API-EC2-18, AWS-NC-15, AWS-NC-16
    admission(&["API-EC2-09", "API-EC2-10", "API-EC2-11", "API-EC2-12", "API-EC2-18"]);
}

#[test]
fn classes_devices_and_options() {
    // covers: API-EC2-13, API-EC2-14, API-EC2-15, API-EC2-16, API-EC2-17, API-EC2-19
    // covers: AWS-NC-17, AWS-NC-19, AWS-NC-20, AWS-NC-21
    admission(&["API-EC2-13", "API-EC2-14", "API-EC2-15", "API-EC2-16", "API-EC2-17", "API-EC2-19", "fields"]);
}

/// No rule is there for show: each has a case that only it, or it among others, refuses.
#[test]
fn every_rule_refuses_something() {
    let refused: BTreeSet<String> = cases::all().iter().flat_map(faults_of).map(|fault| fault.message).collect();
    let mut messages = BTreeSet::new();
    for kind in Kind::ALL {
        collect_messages(schema_of(kind), &mut messages);
    }
    assert!(messages.len() > 60, "only {} rules found", messages.len());
    let silent: Vec<_> = messages.iter().filter(|message| !refused.contains(**message)).collect();
    assert!(silent.is_empty(), "rules that refused nothing: {silent:#?}");
}

fn collect_messages(schema: &Schema, messages: &mut BTreeSet<&'static str>) {
    messages.extend(schema.rules.iter().map(|rule| rule.message));
    match &schema.shape {
        Shape::Object { properties, .. } => properties.iter().for_each(|(_, s)| collect_messages(s, messages)),
        Shape::Map { values: inner, .. } | Shape::List { items: inner, .. } => collect_messages(inner, messages),
        _ => {}
    }
}

/// A change may only be judged where the schema can line up old and new: along objects, not inside lists or maps.
#[test]
fn transition_rules_stand_at_objects() {
    fn check(schema: &Schema, reachable: bool) {
        let transition = schema.rules.iter().any(|rule| matches!(rule.check, Check::Transition(_)));
        assert!(reachable || !transition, "unreachable transition rule at {:?}", schema.description);
        match &schema.shape {
            Shape::Object { properties, .. } => properties.iter().for_each(|(_, s)| check(s, reachable)),
            Shape::Map { values: inner, .. } | Shape::List { items: inner, .. } => check(inner, false),
            _ => {}
        }
    }
    Kind::ALL.into_iter().for_each(|kind| check(schema_of(kind), true));
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        }}},
    })
}

#[test]
fn every_fault_is_reported_at_once_with_its_path() {
    let mut object = pool();
    object["spec"]["wieght"] = json!(5);
    object["spec"]["weight"] = json!("5");
    object["spec"]["disruption"] = json!({"consolidateAfter": "soon", "budgets": [{"nodes": "1"}, {"nodes": "all"}]});
    object["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "a", "operator": "In"}, {"key": "kubernetes.io/hostname"}]);
    object["metadata"] = json!({"name": "Not_A_Name", "lables": {}});
    let faults = parse::<NodePool>(object).unwrap_err();
    let fields: Vec<_> = faults.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "metadata.lables",
            "spec.wieght",
            "metadata.name",
            "spec.disruption.budgets[1].nodes",
            "spec.disruption.consolidateAfter",
            "spec.template.spec.requirements[1].operator",
            "spec.template.spec.requirements[1].key",
            "spec.template.spec.requirements[0]",
            "spec.weight",
        ]
    );
    assert_eq!(faults[1].to_string(), "spec.wieght: unknown field");
    assert_eq!(faults[8].to_string(), "spec.weight: must be an integer, not the string \"5\"");
}

#[test]
fn parsing_names_what_is_not_an_object_of_ours() {
    for (object, field) in [
        (json!("text"), ""),
        (json!({"metadata": {"name": "a"}}), "spec"),
        (json!({"metadata": 5, "spec": {}}), "metadata"),
        (json!({"spec": pool()["spec"]}), "metadata.name"),
        (json!({"metadata": {"name": "a", "labels": {"a": 5}}, "spec": pool()["spec"]}), "metadata"),
    ] {
        let faults = parse::<NodePool>(object.clone()).unwrap_err();
        assert!(faults.iter().any(|fault| fault.field == field), "{object}: {faults:?}");
    }
    let mut claim = pool();
    claim["kind"] = json!("NodeClaim");
    let faults = parse::<NodePool>(claim).unwrap_err();
    assert!(faults[0].message.contains("expected \"NodePool\""), "{faults:?}");
}

#[test]
fn an_unknown_status_field_of_a_newer_controller_is_no_fault() {
    let mut object = pool();
    object["status"] = json!({"nodes": 3, "somethingNew": true});
    assert_eq!(parse::<NodePool>(object).unwrap().status.unwrap().nodes, 3);
}

#[test]
fn typed_objects_are_validated_like_raw_ones() {
    let mut class: EC2NodeClass = serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": {}})).unwrap();
    let messages: Vec<_> = validate_create(&class).into_iter().map(|fault| fault.message).collect();
    assert!(messages.contains(&"must specify exactly one of ['role', 'instanceProfile']".to_owned()), "{messages:?}");
    assert!(messages.contains(&"subnetSelectorTerms cannot be empty".to_owned()), "{messages:?}");
    class.spec.role = Some("r".to_owned());

    let old: NodePool = parse(pool()).unwrap();
    let mut new = old.clone();
    assert_eq!(validate_change(&old, &new), []);
    new.spec.replicas = Some(1);
    assert_eq!(validate_change(&old, &new).len(), 1);
}
