//! Which taints keep a pod away.

use karpenter_core::taints::{Effect, TolerationOperator};
use karpenter_core::{Taint, Toleration};

/// The first taint that keeps a pod with these tolerations from being scheduled.
pub(crate) fn hard<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    let keeps_away = |taint: &&Taint| match taint.effect {
        Effect::NoSchedule | Effect::NoExecute => !tolerated(taint, tolerations),
        Effect::PreferNoSchedule => false,
    };
    taints.iter().find(keeps_away)
}

/// Whether every taint is tolerated, those that only ask included.
pub(crate) fn all(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    taints.iter().all(|taint| tolerated(taint, tolerations))
}

fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| matches(toleration, taint))
}

fn matches(toleration: &Toleration, taint: &Taint) -> bool {
    if toleration.effect.is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    if !toleration.key.is_empty() && toleration.key != taint.key {
        return false;
    }
    let numbers = || Some((taint.value.parse::<i64>().ok()?, toleration.value.parse::<i64>().ok()?));
    match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Lt => numbers().is_some_and(|(theirs, mine)| theirs < mine),
        TolerationOperator::Gt => numbers().is_some_and(|(theirs, mine)| theirs > mine),
    }
}

/// The pod's tolerations as they are once it sits on a node with these taints: where that has a soft taint the pod
/// minds, relaxation must have made it accept all of them.
pub(crate) fn as_placed(tolerations: &[Toleration], taints: &[Taint]) -> Vec<Toleration> {
    let mut own = tolerations.to_vec();
    if !all(taints, tolerations) {
        own.push(Toleration {
            key: String::new(),
            operator: TolerationOperator::Exists,
            value: String::new(),
            effect: Some(Effect::PreferNoSchedule),
        });
    }
    own
}
