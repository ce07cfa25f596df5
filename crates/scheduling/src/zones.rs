//! Which zone each waiting pod is bound to, before anything is placed: for those who watch where demand is stuck.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::labels::ZONE;
use karpenter_core::pod::Phase;
use karpenter_core::requirement::Operator;
use karpenter_core::{Requirement, Requirements};

use crate::problem::Problem;
use crate::solution::BASELINE;
use crate::state::State;
use crate::volumes;

/// Several zones will do.
const FLEXIBLE: &str = "flexible";
/// What the pod asks for excludes itself.
const NONE: &str = "none";

/// Waiting pods by zone name, `flexible` or `none`. Pods that still run elsewhere do not wait.
pub(crate) fn count(problem: &mut Problem<'_>) -> BTreeMap<Arc<str>, usize> {
    let mut of_class: Vec<Option<Arc<str>>> = vec![None; problem.classes.len()];
    let mut counted = BTreeMap::new();
    let world = problem.world;
    let mut state = None;
    for at in 0..problem.pods.len() {
        let (index, class) = (problem.pods[at].index, problem.pods[at].class);
        if world.pods[index].phase != Phase::Pending {
            continue;
        }
        if of_class[class].is_none() {
            let state = state.get_or_insert_with(|| State::new(problem, BASELINE));
            of_class[class] = Some(zone(problem, state, index, class));
        }
        let zone = of_class[class].clone().expect("it was just found");
        *counted.entry(zone).or_default() += 1;
    }
    counted
}

/// Selectors and required affinity, volumes, and topology constraints of the pod's own, all together.
fn zone(problem: &mut Problem<'_>, state: &State, index: usize, class: usize) -> Arc<str> {
    let topology = match topology(problem, state, class) {
        Some(domains) if domains.is_empty() => return NONE.into(),
        other => other,
    };
    let key = problem.terms.key(ZONE);
    let strict = problem.classes[class].variants[0].strict;
    let own = problem.terms.get(strict, key).map(|id| problem.terms.requirement(id).clone());
    let own = own.as_deref().cloned().unwrap_or_else(Requirement::any);
    let world = problem.world;
    let volumes = of_volumes(&volumes::alternatives(&world.pods[index], &world.storage, &world.vocabulary));
    let listed: Vec<Arc<str>> = match (&volumes, &topology) {
        _ if own.operator() == Operator::In => own.values.iter().cloned().collect(),
        (Some(volumes), _) => volumes.values.iter().cloned().collect(),
        (None, Some(domains)) => domains.clone(),
        (None, None) => return FLEXIBLE.into(),
    };
    let left = |zone: &&Arc<str>| {
        own.allows(zone)
            && volumes.as_ref().is_none_or(|volumes| volumes.allows(zone))
            && topology.as_ref().is_none_or(|domains| domains.contains(zone))
    };
    let mut left = listed.iter().filter(left);
    match (left.next(), left.next()) {
        (Some(one), None) => one.clone(),
        (Some(_), Some(_)) => FLEXIBLE.into(),
        (None, _) => NONE.into(),
    }
}

/// The zones in which the pod's volumes can be reached, if they care.
fn of_volumes(alternatives: &[Requirements]) -> Option<Requirement> {
    let mut merged: Option<Requirement> = None;
    for alternative in alternatives {
        let one = alternative.get(ZONE);
        if one.operator() != Operator::In {
            return None;
        }
        match &mut merged {
            Some(merged) => merged.values.extend(one.values),
            None => merged = Some(one),
        }
    }
    merged
}

/// The zones that every constraint of the pod's own accepts, if it has any over zones.
fn topology(problem: &mut Problem<'_>, state: &State, class: usize) -> Option<Vec<Arc<str>>> {
    let key = problem.terms.key(ZONE);
    let table = problem.domains.table(key)?;
    let variant = &problem.classes[class].variants[0];
    let (set, owned) = (variant.set, variant.owned.clone());
    let of_zone = |id: &&crate::groups::GroupId| problem.domains.groups[id.0 as usize].table == Some(table);
    let owned: Vec<_> = owned.iter().filter(of_zone).copied().collect();
    if owned.is_empty() {
        return None;
    }
    let wanted = problem.terms.get(set, key);
    let mut acceptable = crate::bits::Bits::clone(&problem.domains.allowed(table, wanted, &problem.terms));
    for id in owned {
        problem.accept(state, class, 0, id, table, &mut acceptable);
    }
    let names = &problem.domains.keys[table].names;
    Some(acceptable.iter().map(|at| names[at].clone()).collect())
}

#[cfg(test)]
mod tests {
    use karpenter_core::labels::{INSTANCE_TYPE, ZONE};
    use karpenter_testkit::express::{exists, is_in, with_min_values};
    use karpenter_testkit::fake::instance_type;
    use karpenter_testkit::{PodBuilder, pod, pool, world};

    use crate::{Deadline, Observed, WithoutTypes, solve_observed};

    fn zones(pods: Vec<PodBuilder>) -> Vec<(String, usize)> {
        let here = world().pool(pool("default").types(vec![instance_type("small").build()]));
        let here = here.zonal_claim("disk", "test-zone-2");
        let here = pods.into_iter().fold(here, |here, pod| here.pod(pod)).build();
        let seen = solve_observed(&here, &Deadline::default());
        assert_eq!(seen.plan, crate::solve(&here), "looking changes nothing");
        seen.zones.into_iter().map(|(zone, count)| (zone.to_string(), count)).collect()
    }

    #[test]
    fn pods_are_counted_where_they_are_bound_to() {
        // covers: SCH-ERR-17
        let either = pod("either").require(vec![is_in(ZONE, &["test-zone-1", "test-zone-2"])]);
        let torn = pod("torn").zone("test-zone-1").claim("disk");
        let pods =
            vec![pod("a").zone("test-zone-1"), pod("b").zone("test-zone-1"), either, torn, pod("c").claim("disk")];
        let counted = [("flexible", 2), ("none", 1), ("test-zone-1", 2), ("test-zone-2", 1)];
        let counted = counted.map(|(zone, count)| (zone.to_owned(), count));
        assert_eq!(zones(pods.into_iter().chain([pod("free")]).collect()), counted);
    }

    #[test]
    fn a_spread_leaves_zones_open_until_the_skew_forbids_them() {
        // covers: SCH-ERR-17
        assert_eq!(zones(vec![pod("p").app("web").zone_spread(1)]), [("flexible".to_owned(), 1)]);
        let bound = pod("p").app("web").zone_spread(1).zone("test-zone-3");
        assert_eq!(zones(vec![bound]), [("test-zone-3".to_owned(), 1)]);
        assert!(zones(Vec::new()).is_empty());
    }

    #[test]
    fn pools_without_types_and_wishes_given_up_are_told() {
        let small = || vec![instance_type("small").build()];
        let few = with_min_values(exists(INSTANCE_TYPE), 2);
        let none = is_in(INSTANCE_TYPE, &["other"]);
        let here = world().pool(pool("default").types(small()));
        let here = here.pool(pool("few").types(small()).require(few)).pool(pool("none").types(small()).require(none));
        let wishing = pod("p").prefer(1, vec![is_in(ZONE, &["elsewhere"])]);
        let Observed { plan, without_types, relaxed, .. } =
            solve_observed(&here.pod(pod("q")).pod(wishing).build(), &Deadline::default());
        assert!(plan.left_over.is_empty(), "{plan:?}");
        assert_eq!(
            without_types,
            [WithoutTypes { pool: 2, min_values: false }, WithoutTypes { pool: 1, min_values: true }]
        );
        assert_eq!(relaxed, [(1, 1)]);
    }
}
