//! Taints and tolerations.

use k8s_openapi::api::core::v1 as core_v1;
use karpenter_core::taints::{Effect, Taint, Toleration, TolerationOperator};

use super::Faults;
use crate::path::Path;

/// An effect of a later Kubernetes keeps pods away, as far as anybody knows.
pub(super) fn taints(wire: Option<&Vec<core_v1::Taint>>, at: &Path<'_>, faults: &mut Faults) -> Vec<Taint> {
    let mut taints = Vec::new();
    for (position, taint) in wire.into_iter().flatten().enumerate() {
        let effect = match Effect::parse(&taint.effect) {
            Some(effect) => effect,
            None => {
                unknown_effect(&taint.effect, &at.index(position), faults);
                Effect::NoSchedule
            }
        };
        taints.push(Taint { key: taint.key.clone(), value: taint.value.clone().unwrap_or_default(), effect });
    }
    taints
}

/// What a toleration of a later Kubernetes tolerates is not known: nothing, then.
pub(super) fn tolerations(
    wire: Option<&Vec<core_v1::Toleration>>,
    at: &Path<'_>,
    faults: &mut Faults,
) -> Vec<Toleration> {
    let mut tolerations = Vec::new();
    for (position, toleration) in wire.into_iter().flatten().enumerate() {
        let at = at.index(position);
        let operator = match toleration.operator.as_deref() {
            None | Some("" | "Equal") => TolerationOperator::Equal,
            Some("Exists") => TolerationOperator::Exists,
            Some("Lt") => TolerationOperator::Lt,
            Some("Gt") => TolerationOperator::Gt,
            Some(other) => {
                faults.careful(&at.field("operator"), format!("{other:?} is not one of Equal, Exists, Lt, Gt"));
                continue;
            }
        };
        let effect = match toleration.effect.as_deref() {
            None | Some("") => None,
            Some(text) => match Effect::parse(text) {
                Some(effect) => Some(effect),
                None => {
                    unknown_effect(text, &at, faults);
                    continue;
                }
            },
        };
        tolerations.push(Toleration {
            key: toleration.key.clone().unwrap_or_default(),
            operator,
            value: toleration.value.clone().unwrap_or_default(),
            effect,
        });
    }
    tolerations
}

fn unknown_effect(text: &str, at: &Path<'_>, faults: &mut Faults) {
    faults.careful(&at.field("effect"), format!("{text:?} is not one of NoSchedule, PreferNoSchedule, NoExecute"));
}
