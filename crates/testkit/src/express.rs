//! Expressions and selectors in a few words.

use karpenter_core::pod::{NodeTerm, PodTerm, Spread};
use karpenter_core::requirement::Expression;
use karpenter_core::selector::{Selector, SelectorExpression};
use karpenter_core::{Labels, Operator};

use karpenter_core::pod::{NodePolicy, WhenUnsatisfiable};

pub fn is_in(key: &str, values: &[&str]) -> Expression {
    Expression::new(key, Operator::In, values)
}

pub fn not_in(key: &str, values: &[&str]) -> Expression {
    Expression::new(key, Operator::NotIn, values)
}

pub fn exists(key: &str) -> Expression {
    Expression::new(key, Operator::Exists, &[])
}

pub fn is_absent(key: &str) -> Expression {
    Expression::new(key, Operator::DoesNotExist, &[])
}

pub fn at_least(key: &str, least: i64) -> Expression {
    Expression::new(key, Operator::Gte, &[&least.to_string()])
}

pub fn at_most(key: &str, most: i64) -> Expression {
    Expression::new(key, Operator::Lte, &[&most.to_string()])
}

/// The same with `minValues`, for NodePools.
pub fn with_min_values(expression: Expression, count: u32) -> Expression {
    Expression { min_values: Some(count), ..expression }
}

pub fn labels(items: &[(&str, &str)]) -> Labels {
    items.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// Selects pods that carry all these labels; none given selects every pod.
pub fn selecting(items: &[(&str, &str)]) -> Selector {
    Selector::new(items.iter().map(|(k, v)| SelectorExpression::equals(k, v)))
}

pub fn node_term(expressions: Vec<Expression>) -> NodeTerm {
    NodeTerm { expressions, ..NodeTerm::default() }
}

/// A pod affinity term in the pod's own namespace.
pub fn pod_term(key: &str, items: &[(&str, &str)]) -> PodTerm {
    PodTerm {
        topology_key: key.into(),
        selector: Some(selecting(items)),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

/// A hard spread with Kubernetes' default policies.
pub fn spread(key: &str, max_skew: i32, items: &[(&str, &str)]) -> Spread {
    Spread {
        topology_key: key.into(),
        max_skew,
        min_domains: None,
        when: WhenUnsatisfiable::DoNotSchedule,
        selector: Some(selecting(items)),
        match_label_keys: Vec::new(),
        node_affinity: NodePolicy::Honor,
        node_taints: NodePolicy::Ignore,
    }
}
