//! Label selectors.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use karpenter_core::selector::{Selector, SelectorExpression, SelectorOperator};

/// An operator Kubernetes does not know makes the whole selector select nothing, as it does there.
pub fn selector(wire: &LabelSelector) -> Selector {
    let labels = wire.match_labels.iter().flatten();
    let mut all: Vec<_> = labels.map(|(key, value)| SelectorExpression::equals(key, value)).collect();
    for expression in wire.match_expressions.iter().flatten() {
        let operator = match expression.operator.as_str() {
            "In" => SelectorOperator::In,
            "NotIn" => SelectorOperator::NotIn,
            "Exists" => SelectorOperator::Exists,
            "DoesNotExist" => SelectorOperator::DoesNotExist,
            _ => return Selector::invalid(),
        };
        all.push(SelectorExpression {
            key: expression.key.clone(),
            operator,
            values: expression.values.clone().unwrap_or_default(),
        });
    }
    Selector::new(all)
}
