use karpenter_core::plan::Plan;
use karpenter_testkit::benchmark::mixed_world;
use karpenter_testkit::fake;

use super::*;
use crate::solve;

/// With a vocabulary of its own nothing is known of the world.
fn solved_afresh(world: &World) -> Plan {
    let mut other = world.clone();
    other.vocabulary = Arc::new(Vocabulary::clone(&world.vocabulary));
    solve(&other)
}

/// As after a refusal: these types are offered less, and are others in memory.
fn refused(world: &World, which: impl Fn(usize) -> bool) -> World {
    let mut other = world.clone();
    for pool in &mut other.pools {
        let types = pool.instance_types.iter().enumerate().map(|(at, kind)| {
            if !which(at) {
                return kind.clone();
            }
            let mut kind = InstanceType::clone(kind);
            kind.offerings.iter_mut().step_by(2).for_each(|offering| offering.available = false);
            Arc::new(kind)
        });
        pool.instance_types = types.collect();
    }
    other
}

#[test]
fn plans_do_not_tell_whether_tables_were_kept() {
    let world = mixed_world(60, fake::incremental(50), 7);
    let first = solve(&world);
    assert_eq!(first, solve(&world), "kept");
    assert_eq!(first, solved_afresh(&world));
    let few = refused(&world, |at| at % 9 == 0);
    assert_eq!(solve(&few), solved_afresh(&few));
    let back = solve(&world);
    assert_eq!(first, back, "and back again");
    let most = refused(&world, |at| at % 9 != 0);
    assert_eq!(solve(&most), solved_afresh(&most));
}

#[test]
fn types_that_change_otherwise_are_compiled_anew() {
    let world = mixed_world(20, fake::incremental(50), 3);
    let tables = TypeTables::of(&world);
    let kinds = |types: &[Types]| -> Vec<Vec<Weak<InstanceType>>> {
        types.iter().map(|types| types.iter().map(Arc::downgrade).collect()).collect()
    };
    let (before, changes) = (lists(&world), kinds(&lists(&world)));
    let with = |change: fn(&mut InstanceType)| -> Vec<Types> {
        let anew = |types: &Types| {
            let mut kinds: Vec<Arc<InstanceType>> = types.to_vec();
            change(Arc::make_mut(&mut kinds[5]));
            Types::from(kinds)
        };
        before.iter().map(anew).collect()
    };
    let is_same = |types: &[Types]| tables.offered_anew(&changes, types).is_some();
    assert!(is_same(&with(|_| {})));
    assert!(is_same(&with(|kind| kind.offerings.iter_mut().for_each(|offering| offering.available = false))));
    assert!(is_same(&with(|kind| kind.capacity.set("memory", karpenter_testkit::quantity("1Gi")))));
    assert!(!is_same(&with(|kind| drop(kind.offerings.pop()))));
    assert!(!is_same(&with(|kind| kind.requirements.add("example.com/new", karpenter_core::Requirement::one("x")))));
    assert!(!is_same(&with(|kind| kind.capacity.set("example.com/new", karpenter_testkit::quantity("1")))));
}
