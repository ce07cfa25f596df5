//! Node selector terms and requirements.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use karpenter_api::requirement::NodeSelectorRequirement as PoolRequirement;
use karpenter_core::pod::NodeTerm;
use karpenter_core::requirement::{Expression, Operator};

use super::Faults;
use crate::path::Path;

/// Unknown operators are kept as such: validation refuses the pod then, and says why.
pub(super) fn node_term(wire: &NodeSelectorTerm) -> NodeTerm {
    let mut term = NodeTerm {
        has_match_fields: wire.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()),
        ..NodeTerm::default()
    };
    for requirement in wire.match_expressions.iter().flatten() {
        match expression(requirement) {
            Some(known) => term.expressions.push(known),
            None => term.unknown_operator = Some(format!("{} {}", requirement.key, requirement.operator).into()),
        }
    }
    term
}

fn expression(wire: &NodeSelectorRequirement) -> Option<Expression> {
    Some(Expression {
        key: wire.key.as_str().into(),
        operator: Operator::parse(&wire.operator)?,
        values: texts(wire.values.as_deref().unwrap_or_default()),
        min_values: None,
    })
}

pub(super) fn pool_requirement(wire: &PoolRequirement, at: &Path<'_>, faults: &mut Faults) -> Option<Expression> {
    let Some(operator) = Operator::parse(&wire.operator) else {
        let known = Operator::ALL.map(Operator::as_str).join(", ");
        faults.add(&at.field("operator"), format!("{:?} is not one of {known}", wire.operator));
        return None;
    };
    let min_values = match wire.min_values.map(u32::try_from) {
        None => None,
        Some(Ok(count)) => Some(count),
        Some(Err(_)) => {
            faults.add(&at.field("minValues"), "must be a positive number");
            None
        }
    };
    Some(Expression { key: wire.key.as_str().into(), operator, values: texts(wire.values()), min_values })
}

fn texts(values: &[String]) -> Vec<Arc<str>> {
    values.iter().map(|value| value.as_str().into()).collect()
}
