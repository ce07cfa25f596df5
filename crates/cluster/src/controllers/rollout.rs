//! The arithmetic of rolling updates: how many replicas the new and the old sets should have next.

use super::replicas::scaled;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use std::sync::Arc;

/// How far a rollout may go above and below the wanted number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub surge: i32,
    pub unavailable: i32,
}

impl Bounds {
    pub fn of(deployment: &Deployment) -> Self {
        let Some(spec) = &deployment.spec else { return Self { surge: 0, unavailable: 0 } };
        let replicas = spec.replicas.unwrap_or(1);
        if is_recreate(deployment) || replicas == 0 {
            return Self { surge: 0, unavailable: 0 };
        }
        let rolling = spec.strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
        let quarter = k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String("25%".into());
        let surge = scaled(rolling.and_then(|r| r.max_surge.as_ref()).unwrap_or(&quarter), replicas, true);
        let unavailable = scaled(rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&quarter), replicas, false);
        // With both at zero nothing could ever move.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { surge, unavailable: unavailable.min(replicas) }
    }
}

pub fn is_recreate(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|s| s.strategy.as_ref());
    strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate")
}

pub fn wanted(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
}

pub fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0)
}

pub fn total(sets: &[&Arc<ReplicaSet>]) -> i32 {
    sets.iter().map(|s| wanted(s)).sum()
}

/// The next size of the new set: as large as the surge allows.
pub fn new_size(deployment: &Deployment, all: &[&Arc<ReplicaSet>], new: i32) -> i32 {
    let replicas = deployment.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
    if is_recreate(deployment) {
        return replicas;
    }
    let most = replicas + Bounds::of(deployment).surge;
    let now = total(all);
    if now >= most {
        return new;
    }
    new + (most - now).min(replicas - new)
}

/// The next sizes of the old sets, oldest first: unhealthy replicas go at once, healthy ones as far as availability
/// allows.
pub fn old_sizes(deployment: &Deployment, new: Option<&Arc<ReplicaSet>>, old: &[&Arc<ReplicaSet>]) -> Vec<i32> {
    let replicas = deployment.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
    let mut sizes: Vec<i32> = old.iter().map(|s| wanted(s)).collect();
    let all: i32 = sizes.iter().sum::<i32>() + new.map_or(0, |n| wanted(n));
    let least = replicas - Bounds::of(deployment).unavailable;
    let new_unavailable = new.map_or(0, |n| wanted(n) - available(n));
    let mut removable = all - least - new_unavailable;
    if removable <= 0 {
        return sizes;
    }
    for (size, set) in sizes.iter_mut().zip(old) {
        let unhealthy = (*size - available(set)).max(0).min(removable);
        *size -= unhealthy;
        removable -= unhealthy;
    }
    let available_now: i32 = old.iter().map(|s| available(s)).sum::<i32>() + new.map_or(0, |n| available(n));
    let mut spare = available_now - least;
    for (size, _) in sizes.iter_mut().zip(old) {
        let down = (*size).min(spare.max(0));
        *size -= down;
        spare -= down;
    }
    sizes
}

/// New sizes for all active sets when the deployment's own size changed in the middle of a rollout: everybody gets a
/// share of the change. Newest first when growing, oldest first when shrinking.
pub fn proportional(
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    most_before: impl Fn(&ReplicaSet) -> i32,
) -> Vec<(usize, i32)> {
    let replicas = deployment.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
    let total: i32 = sets.iter().map(|s| wanted(s)).sum();
    let allowed = if replicas > 0 { replicas + Bounds::of(deployment).surge } else { 0 };
    let to_add = allowed - total;
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|&i| {
        let age = super::replicas::created(&sets[i].metadata);
        (std::cmp::Reverse(wanted(&sets[i])), if to_add > 0 { -age.as_second() } else { age.as_second() })
    });
    let mut added = 0;
    let mut sizes: Vec<(usize, i32)> = Vec::new();
    for &i in &order {
        let share = if to_add == 0 {
            0
        } else {
            share(&sets[i], replicas + Bounds::of(deployment).surge, to_add, added, &most_before)
        };
        sizes.push((i, wanted(&sets[i]) + share));
        added += share;
    }
    if let Some(first) = sizes.first_mut() {
        first.1 = (first.1 + to_add - added).max(0);
    }
    sizes
}

fn share(set: &ReplicaSet, allowed: i32, to_add: i32, added: i32, most_before: &impl Fn(&ReplicaSet) -> i32) -> i32 {
    let size = wanted(set);
    let before = most_before(set).max(1);
    let exact = f64::from(size) * f64::from(allowed) / f64::from(before);
    let fraction = exact.round() as i32 - size;
    let left = to_add - added;
    if to_add > 0 { fraction.min(left).max(0) } else { fraction.max(left).min(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(replicas: i32, surge: &str, unavailable: &str) -> Deployment {
        let spec = json!({"metadata": {"name": "d"}, "spec": {"replicas": replicas, "selector": {}, "template": {},
            "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}});
        serde_json::from_value(spec).unwrap()
    }

    fn set(replicas: i32, available: i32) -> Arc<ReplicaSet> {
        let set = json!({"metadata": {"name": "r"}, "spec": {"replicas": replicas, "selector": {}},
            "status": {"replicas": replicas, "availableReplicas": available}});
        Arc::new(serde_json::from_value(set).unwrap())
    }

    #[test]
    fn a_rollout_moves_within_its_bounds() {
        for (why, replicas, new, old, want_new, want_old) in [
            ("starts with the surge", 10, (0, 0), (10, 10), 3, 8),
            ("waits for the new ones", 10, (3, 0), (10, 10), 3, 8),
            ("goes on as they come", 10, (3, 3), (8, 8), 5, 5),
            ("ends", 10, (10, 10), (2, 2), 10, 0),
            ("removes what does not work first", 10, (3, 0), (10, 4), 3, 8),
        ] {
            let d = deployment(replicas, "25%", "25%");
            let (new, old) = (set(new.0, new.1), set(old.0, old.1));
            assert_eq!(new_size(&d, &[&new, &old], wanted(&new)), want_new, "{why}");
            assert_eq!(old_sizes(&d, Some(&new), &[&old]), [want_old], "{why}");
        }
    }

    #[test]
    fn bounds_round_in_favour_of_moving() {
        assert_eq!(Bounds::of(&deployment(3, "25%", "25%")), Bounds { surge: 1, unavailable: 0 });
        assert_eq!(Bounds::of(&deployment(3, "0%", "0%")), Bounds { surge: 0, unavailable: 1 });
    }

    #[test]
    fn a_change_of_size_in_a_rollout_is_shared() {
        let d = deployment(20, "0%", "25%");
        let sizes = proportional(&d, &[set(6, 6), set(4, 4)], |_| 10);
        assert_eq!(sizes.iter().map(|(_, s)| s).sum::<i32>(), 20);
        assert_eq!(sizes, [(0, 12), (1, 8)]);
    }
}
