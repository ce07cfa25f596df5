//! Which pods of one moment are which of the next.

use std::sync::Arc;

use karpenter_core::Pod;
use rustc_hash::FxHashMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodChanges {
    /// By position before: the position now of a pod that is the same in every respect.
    pub same: Vec<Option<u32>>,
    /// Positions now of pods that were not there, or not like this.
    pub new: Vec<u32>,
}

impl PodChanges {
    /// Pods are known by their uids. Lists may be in any order; most of the time it is the same one, with a pod more or
    /// less.
    pub fn between(before: &[Pod], now: &[Pod]) -> Self {
        let mut found = Self { same: vec![None; before.len()], new: Vec::new() };
        let mut by_uid: Option<FxHashMap<&str, usize>> = None;
        let mut next = 0;
        for (at, pod) in now.iter().enumerate() {
            let is_here = |old: usize| before.get(old).is_some_and(|old| is_one(&old.uid, &pod.uid));
            let old = if is_here(next) {
                Some(next)
            } else if is_here(next + 1) {
                Some(next + 1)
            } else if now.get(at + 1).is_some_and(|after| before.get(next).is_some_and(|old| old.uid == after.uid)) {
                None
            } else {
                let index = || before.iter().enumerate().map(|(at, pod)| (&*pod.uid, at)).collect();
                by_uid.get_or_insert_with(index).get(&*pod.uid).copied()
            };
            if let Some(old) = old {
                next = old + 1;
            }
            match old {
                Some(old) if is_same(&before[old], pod) => found.same[old] = Some(at as u32),
                _ => found.new.push(at as u32),
            }
        }
        found
    }

    /// Nobody came, and nobody else is at another position than before.
    pub fn is_in_place(&self) -> bool {
        self.same.iter().enumerate().all(|(at, now)| now.is_none_or(|now| now == at as u32))
    }

    /// Whoever stayed comes before whoever it came before.
    pub fn is_in_order(&self) -> bool {
        self.same.iter().flatten().is_sorted()
    }

    pub fn is_empty(&self) -> bool {
        self.new.is_empty() && self.same.iter().enumerate().all(|(at, now)| *now == Some(at as u32))
    }

    /// Positions before of pods that are gone, or not like this any more.
    pub fn gone(&self) -> impl Iterator<Item = usize> {
        self.same.iter().enumerate().filter(|(_, now)| now.is_none()).map(|(at, _)| at)
    }
}

/// What two moments share is not compared letter by letter.
fn is_one(a: &Arc<str>, b: &Arc<str>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn are_one(a: Option<&Arc<str>>, b: Option<&Arc<str>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => is_one(a, b),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// As `==`, which follows every pointer.
fn is_same(a: &Pod, b: &Pod) -> bool {
    // All fields by name: a new one is a compile error here.
    let Pod {
        namespace,
        name,
        uid,
        created,
        shape,
        phase,
        terminating,
        node,
        nominated_node,
        scheduled_reason,
        unready,
        started,
        owners,
        claims,
        deletion_cost,
        restarts,
        ready_after,
    } = a;
    is_one(uid, &b.uid)
        && (*phase, *terminating, *unready) == (b.phase, b.terminating, b.unready)
        && (*created, *started) == (b.created, b.started)
        && (*restarts, *ready_after) == (b.restarts, b.ready_after)
        && is_one(namespace, &b.namespace)
        && is_one(name, &b.name)
        && are_one(node.as_ref(), b.node.as_ref())
        && are_one(nominated_node.as_ref(), b.nominated_node.as_ref())
        && are_one(scheduled_reason.as_ref(), b.scheduled_reason.as_ref())
        && are_one(deletion_cost.as_ref(), b.deletion_cost.as_ref())
        && (Arc::ptr_eq(shape, &b.shape) || *shape == b.shape)
        && (Arc::ptr_eq(owners, &b.owners) || *owners == b.owners)
        && (Arc::ptr_eq(claims, &b.claims) || *claims == b.claims)
}

#[cfg(test)]
mod tests {
    use karpenter_testkit::pod;

    use super::*;

    #[test]
    fn pods_are_found_again_by_uid_in_any_order() {
        let list = |names: &str| -> Vec<Pod> {
            let one = |name: char| {
                let mut pod = pod(&name.to_lowercase().to_string()).build();
                pod.uid = name.to_lowercase().to_string().into();
                pod.terminating = name.is_uppercase();
                pod
            };
            names.chars().map(one).collect()
        };
        for (before, now, same, new) in [
            ("abc", "abc", vec![Some(0), Some(1), Some(2)], vec![]),
            ("abc", "ac", vec![Some(0), None, Some(1)], vec![]),
            ("abc", "abxc", vec![Some(0), Some(1), Some(3)], vec![2]),
            ("abc", "aBc", vec![Some(0), None, Some(2)], vec![1]),
            ("abcd", "dxab", vec![Some(2), Some(3), None, Some(0)], vec![1]),
            ("abcdef", "af", vec![Some(0), None, None, None, None, Some(1)], vec![]),
            ("", "a", vec![], vec![0]),
            ("a", "", vec![None], vec![]),
        ] {
            let found = PodChanges::between(&list(before), &list(now));
            assert_eq!((found.same, found.new), (same, new), "{before} {now}");
        }
    }
}
