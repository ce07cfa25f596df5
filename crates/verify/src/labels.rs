//! Label expressions and selectors, evaluated against the labels of one concrete node or pod.

use std::collections::BTreeMap;

use karpenter_core::labels::{HOSTNAME, Vocabulary};
use karpenter_core::pod::{NodeTerm, PodTerm};
use karpenter_core::requirement::Expression;
use karpenter_core::selector::{Selector, SelectorOperator};
use karpenter_core::{Labels, Node, Operator, PodShape, Requirement, World};

/// Something with labels, under canonical keys.
pub(crate) trait Labelled {
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labelled for BTreeMap<&str, &str> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).copied()
    }
}

/// The key that a deprecated spelling stands for.
pub(crate) fn canonical<'a>(words: &'a Vocabulary, key: &'a str) -> &'a str {
    words.aliases.get(key).map_or(key, String::as_str)
}

/// A node's labels; one without a hostname label is known by its name.
pub(crate) fn of_node<'w>(world: &'w World, node: &'w Node) -> BTreeMap<&'w str, &'w str> {
    let mut labels = BTreeMap::new();
    labels.insert(HOSTNAME, &*node.name);
    for (key, value) in &node.labels {
        labels.insert(canonical(&world.vocabulary, key), value);
    }
    labels
}

pub(crate) fn holds(words: &Vocabulary, expression: &Expression, on: &impl Labelled) -> bool {
    holds_for(expression, on.label(canonical(words, &expression.key)))
}

/// Whether a node with this value, or without one, satisfies the expression.
pub(crate) fn holds_for(expression: &Expression, value: Option<&str>) -> bool {
    let listed = || value.is_some_and(|value| expression.values.iter().any(|v| &**v == value));
    let numbers = || {
        let mine = value?.parse::<i64>().ok()?;
        let theirs = expression.values.first()?.parse::<i64>().ok()?;
        Some((mine, theirs))
    };
    match expression.operator {
        Operator::In => listed(),
        Operator::NotIn => !listed(),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt => numbers().is_some_and(|(mine, theirs)| mine > theirs),
        Operator::Lt => numbers().is_some_and(|(mine, theirs)| mine < theirs),
        Operator::Gte => numbers().is_some_and(|(mine, theirs)| mine >= theirs),
        Operator::Lte => numbers().is_some_and(|(mine, theirs)| mine <= theirs),
    }
}

/// Whether a claim with this requirement may become a node with this value, or without one.
pub(crate) fn admits(requirement: &Requirement, value: Option<&str>) -> bool {
    let bounded = requirement.at_least.is_some() || requirement.at_most.is_some();
    let Some(value) = value else {
        // Absence is what an empty list demands and what exclusions allow.
        return if requirement.open {
            !requirement.values.is_empty() && !bounded
        } else {
            requirement.values.is_empty()
        };
    };
    let listed = requirement.values.iter().any(|v| &**v == value);
    let number = value.parse::<i64>().ok();
    let inside = |number: i64| {
        requirement.at_least.is_none_or(|least| least <= number)
            && requirement.at_most.is_none_or(|most| number <= most)
    };
    listed != requirement.open && (!bounded || number.is_some_and(inside))
}

pub(crate) fn term_holds(words: &Vocabulary, term: &NodeTerm, on: &impl Labelled) -> bool {
    !term.has_match_fields && expressions_hold(words, term, on)
}

/// The same without a look at `matchFields`: with those the DaemonSet controller pins each pod to its node.
pub(crate) fn expressions_hold(words: &Vocabulary, term: &NodeTerm, on: &impl Labelled) -> bool {
    term.unknown_operator.is_none() && term.expressions.iter().all(|expression| holds(words, expression, on))
}

pub(crate) fn node_selector_holds(words: &Vocabulary, selector: &Labels, on: &impl Labelled) -> bool {
    selector.iter().all(|(key, value)| on.label(canonical(words, key)) == Some(value.as_str()))
}

/// Node selector and required node affinity.
pub(crate) fn selects_node(words: &Vocabulary, shape: &PodShape, on: &impl Labelled) -> bool {
    let terms = &shape.required_node_affinity;
    node_selector_holds(words, &shape.node_selector, on)
        && (terms.is_empty() || terms.iter().any(|term| term_holds(words, term, on)))
}

/// An absent selector selects nothing, an empty one everything.
pub(crate) fn selector_matches(selector: Option<&Selector>, labels: &Labels) -> bool {
    let Some(selector) = selector else { return false };
    let holds = |expression: &karpenter_core::selector::SelectorExpression| {
        let value = labels.get(&expression.key);
        let listed = value.is_some_and(|value| expression.values.contains(value));
        match expression.operator {
            SelectorOperator::In => listed,
            SelectorOperator::NotIn => !listed,
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    };
    !selector.is_invalid() && selector.expressions().iter().all(holds)
}

/// Whether an affinity term of a pod in `home` looks at pods of `namespace`.
pub(crate) fn term_covers(world: &World, home: &str, term: &PodTerm, namespace: &str) -> bool {
    if term.namespaces.iter().any(|name| &**name == namespace) {
        return true;
    }
    match &term.namespace_selector {
        Some(selector) => {
            world.namespaces.get(namespace).is_some_and(|labels| selector_matches(Some(selector), labels))
        }
        None => term.namespaces.is_empty() && home == namespace,
    }
}
