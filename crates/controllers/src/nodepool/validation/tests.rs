use super::*;
use karpenter_api::conditions::{NODE_CLASS_READY, READY, Status};
use serde_json::{Value, json};

fn pool(spec: Value) -> NodePool {
    let mut template = json!({"nodeClassRef": {"group": "g", "kind": "K", "name": "n"}, "requirements": []});
    template.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"template": {"spec": template}}})).unwrap()
}

#[test]
fn faults_are_told_by_field() {
    // covers: NP-VALID-01, API-CD-10
    let requirement = |key: &str, operator: &str, values: &[&str]| json!({"requirements": [{"key": key, "operator": operator, "values": values}]});
    let taints = json!({"taints": [{"key": "a", "effect": "NoSchedule"}], "startupTaints": [{"key": "a", "effect": "NoSchedule"}]});
    for (spec, field) in [
        (requirement("karpenter.sh/nodepool", "In", &["x"]), "spec.template.spec.requirements[0].key"),
        (requirement("kubernetes.io/hostname", "In", &["x"]), "spec.template.spec.requirements[0]"),
        (requirement("karpenter.sh/capacity-type", "In", &["cheap"]), "spec.template.spec.requirements[0]"),
        (requirement("a", "Near", &["x"]), "spec.template.spec.requirements[0]"),
        (taints, "spec.template.spec.startupTaints[0]"),
    ] {
        let mut pool = pool(spec.clone());
        judge(&mut pool, Timestamp::UNIX_EPOCH);
        let said = pool.condition(VALIDATION_SUCCEEDED).unwrap();
        assert_eq!((said.status.as_str(), said.reason.as_str()), ("False", "NodePoolValidationFailed"), "{spec}");
        assert!(said.message.contains(field), "{}", said.message);
        assert_eq!(pool.condition_status(READY), Status::False);
    }
}

#[test]
fn a_valid_pool_waits_for_its_class_alone() {
    // covers: NP-VALID-01, NP-VALID-02
    let spec =
        json!({"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["cheap", "spot"]}]});
    let mut pool = pool(spec);
    judge(&mut pool, Timestamp::UNIX_EPOCH);
    assert_eq!(pool.condition_status(VALIDATION_SUCCEEDED), Status::True);
    assert_eq!(pool.condition_status(READY), Status::Unknown);
    pool.conditions_at(Timestamp::UNIX_EPOCH).set_true(NODE_CLASS_READY);
    assert_eq!(pool.condition_status(READY), Status::True);
}
