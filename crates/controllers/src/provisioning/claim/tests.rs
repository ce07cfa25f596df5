use std::sync::Arc;

use karpenter_core::labels::ZONE;
use karpenter_core::plan::Launch;
use karpenter_core::requirement::{Expression, Operator};
use karpenter_core::{InstanceType, MicroUsd, Offering, Resources};

use super::*;

fn offering(zone: &str, capacity_type: &str, available: bool) -> Offering {
    let mut requirements = Requirements::new();
    requirements.add(ZONE, Requirement::one(zone));
    requirements.add(CAPACITY_TYPE, Requirement::one(capacity_type));
    Offering { requirements, price: MicroUsd(1), available, reservation: None }
}

fn pool(offerings: Vec<Offering>) -> Pool {
    let instance_type = |name: &str| {
        Arc::new(InstanceType {
            name: name.into(),
            requirements: Requirements::new(),
            capacity: Resources::new(),
            overhead: Default::default(),
            offerings: offerings.clone(),
        })
    };
    Pool {
        name: "p".into(),
        weight: 0,
        labels: Default::default(),
        node_class_label: ("c".into(), "d".into()),
        taints: Vec::new(),
        requirements: Vec::new(),
        limits: Resources::new(),
        instance_types: Arc::from([instance_type("b.large"), instance_type("a.large"), instance_type("c.large")]),
    }
}

fn node(requirements: Requirements, min_values_relaxed: bool) -> NewNode {
    NewNode {
        pool: 0,
        pods: Vec::new(),
        requirements,
        labels: Default::default(),
        instance_types: [0, 1].into(),
        requests: Resources::new(),
        min_values_relaxed,
        reservations: Vec::new(),
        launch: Launch {
            instance_type: "a.large".into(),
            zone: "a".into(),
            capacity_type: "spot".into(),
            price: MicroUsd(1),
        },
    }
}

fn texts(requirements: &Requirements) -> Vec<String> {
    let shown = |r: NodeSelectorRequirement| {
        let least = r.min_values.map(|count| format!(" min {count}")).unwrap_or_default();
        format!("{} {} {}{least}", r.key, r.operator, r.values().join(","))
    };
    written(requirements).into_iter().map(shown).collect()
}

#[test]
fn a_claim_lists_its_types_and_only_capacity_types_it_can_have() {
    // covers: SCH-NEW-33, SCH-NEW-34
    let pool =
        pool(vec![offering("a", "spot", true), offering("a", "on-demand", false), offering("b", "reserved", true)]);
    let mut asked = Requirements::new();
    asked.add(ZONE, Requirement::one("a"));
    let floor = Expression { min_values: Some(2), ..Expression::new(INSTANCE_TYPE, Operator::Exists, &[]) };
    asked.add(INSTANCE_TYPE, Requirement::from_expression(&floor));
    for simulated in [HOSTNAME, REGISTERED, INITIALIZED] {
        asked.add(simulated, Requirement::one("true"));
    }
    assert_eq!(
        texts(&narrowed(&pool, &node(asked, false))),
        [
            "karpenter.sh/capacity-type In spot",
            "node.kubernetes.io/instance-type In a.large,b.large min 2",
            "topology.kubernetes.io/zone In a",
        ]
    );
    let nothing = narrowed(&self::pool(Vec::new()), &node(Requirements::new(), false));
    assert!(!nothing.has(CAPACITY_TYPE), "omitted when there are none");
}

#[test]
fn exclusions_beside_a_bound_are_written_too() {
    // covers: SCH-GAP-01
    let mut requirements = Requirements::new();
    requirements.add("n", Requirement::from_expression(&Expression::new("n", Operator::Gt, &["4"])));
    requirements.add("n", Requirement::from_expression(&Expression::new("n", Operator::NotIn, &["7"])));
    assert_eq!(texts(&requirements), ["n Gte 5", "n NotIn 7"]);
}

#[test]
fn a_lowered_floor_is_annotated() {
    // covers: SCH-NEW-28
    for relaxed in [true, false] {
        let made = node_claim(&pool(Vec::new()), &NodePool::default(), &node(Requirements::new(), relaxed));
        let all = made.metadata.annotations.unwrap();
        assert_eq!(all["karpenter.sh/nodeclaim-min-values-relaxed"], relaxed.to_string());
    }
}
