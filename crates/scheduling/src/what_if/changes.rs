//! Which pods of one moment are which of the next.

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
            let is_here = |old: usize| before.get(old).is_some_and(|old| old.uid == pod.uid);
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
                Some(old) if before[old] == *pod => found.same[old] = Some(at as u32),
                _ => found.new.push(at as u32),
            }
        }
        found
    }

    /// Positions before of pods that are gone, or not like this any more.
    pub fn gone(&self) -> impl Iterator<Item = usize> {
        self.same.iter().enumerate().filter(|(_, now)| now.is_none()).map(|(at, _)| at)
    }
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
