use std::sync::Arc;

use karpenter_core::pod::{NodePolicy, NodeTerm, PodTerm, Spread};
use karpenter_core::requirement::{Expression, Operator};

use super::*;

fn node_term(value: &str) -> NodeTerm {
    NodeTerm { expressions: vec![Expression::new("key", Operator::In, &[value])], ..NodeTerm::default() }
}

fn pod_term(key: &str) -> PodTerm {
    PodTerm { topology_key: key.into(), selector: None, namespaces: Vec::new(), namespace_selector: None }
}

fn weighted<T>(weight: i32, term: T) -> Weighted<T> {
    Weighted { weight, term }
}

fn spread(key: &str, when: WhenUnsatisfiable) -> Spread {
    Spread {
        topology_key: Arc::from(key),
        max_skew: 1,
        min_domains: None,
        when,
        selector: None,
        match_label_keys: Vec::new(),
        node_affinity: NodePolicy::Honor,
        node_taints: NodePolicy::Ignore,
    }
}

fn everything() -> PodShape {
    let anyway = WhenUnsatisfiable::ScheduleAnyway;
    PodShape {
        required_node_affinity: vec![node_term("first"), node_term("last")],
        preferred_node_affinity: vec![weighted(1, node_term("light")), weighted(9, node_term("heavy"))],
        preferred_pod_affinity: vec![weighted(5, pod_term("a")), weighted(5, pod_term("b"))],
        preferred_pod_anti_affinity: vec![weighted(5, pod_term("c"))],
        spread: vec![
            spread("hard", WhenUnsatisfiable::DoNotSchedule),
            spread("A", anyway),
            spread("B", anyway),
            spread("C", anyway),
        ],
        ..PodShape::default()
    }
}

/// What is left, in a word for each constraint.
fn left(shape: &PodShape) -> String {
    let nodes = |terms: &[NodeTerm]| terms.iter().map(|t| t.expressions[0].values[0].to_string()).collect::<Vec<_>>();
    let preferred: Vec<NodeTerm> = shape.preferred_node_affinity.iter().map(|w| w.term.clone()).collect();
    let mut words = nodes(&shape.required_node_affinity);
    words.extend(shape.preferred_pod_affinity.iter().map(|w| w.term.topology_key.to_string()));
    words.extend(shape.preferred_pod_anti_affinity.iter().map(|w| w.term.topology_key.to_string()));
    words.extend(nodes(&preferred));
    words.extend(shape.spread.iter().map(|s| s.topology_key.to_string()));
    words.extend(shape.tolerations.iter().map(|_| "tolerates".to_owned()));
    words.join(" ")
}

#[test]
fn constraints_are_given_up_in_order() {
    // covers: SCH-PREF-02, SCH-PREF-03, SCH-PREF-04, SCH-PREF-05, SCH-PREF-06, SCH-PREF-07, SCH-REQ-22, SCH-REQ-23
    let mut shape = unrelaxed(&everything(), PreferencePolicy::Respect);
    let mut steps = vec![left(&shape)];
    while relax(&mut shape, true) {
        steps.push(left(&shape));
    }
    assert_eq!(
        steps,
        [
            "first last a b c heavy light hard A B C",
            "last a b c heavy light hard A B C",
            "last b c heavy light hard A B C",
            "last c heavy light hard A B C",
            "last heavy light hard A B C",
            "last light hard A B C",
            "last hard A B C",
            "last hard C B",
            "last hard B",
            "last hard",
            "last hard tolerates",
        ]
    );
}

#[test]
fn soft_taints_are_tolerated_only_where_there_are_any_and_once() {
    // covers: SCH-PREF-07
    let mut shape = PodShape::default();
    assert!(!relax(&mut shape, false));
    assert!(relax(&mut shape, true));
    assert!(!relax(&mut shape, true));
}

#[test]
fn ignored_preferences_cost_no_attempt() {
    // covers: SCH-PREF-12, SCH-PREF-13
    let mut shape = unrelaxed(&everything(), PreferencePolicy::Ignore);
    assert_eq!(left(&shape), "first last hard");
    assert!(relax(&mut shape, false));
    assert_eq!(left(&shape), "last hard");
    assert!(!relax(&mut shape, false));
}
