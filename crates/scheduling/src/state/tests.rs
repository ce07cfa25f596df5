use karpenter_testkit::benchmark::mixed_world;
use karpenter_testkit::fake;

use super::*;
use crate::first_match;
use crate::place::Reserving;
use crate::solution::BASELINE;

/// Everything a rollback must restore, as text.
fn picture(state: &State) -> String {
    let groups: Vec<_> = state.groups.iter().map(|g| (&g.domains, &g.nodes, &g.claims.some, g.populated)).collect();
    let claims: Vec<_> =
        state.claims.iter().map(|c| (c.set, c.types.iter().collect::<Vec<_>>(), &c.total, &c.pods)).collect();
    let counts: Vec<Vec<usize>> = state.by_count.iter().map(|bits| bits.iter().collect()).collect();
    let shapes: Vec<Vec<usize>> = state.shapes.iter().map(|shape| shape.claims.iter().collect()).collect();
    let some: Vec<Vec<usize>> = groups.iter().map(|(_, _, some, _)| some.iter().collect()).collect();
    let sums: Vec<_> = groups.iter().map(|(domains, _, _, populated)| (domains.to_vec(), *populated)).collect();
    let full = |lists: Vec<Vec<usize>>| lists.into_iter().filter(|list| !list.is_empty()).collect::<Vec<_>>();
    format!(
        "{claims:?} {:?} {:?} {some:?} {sums:?} {:?} {:?}",
        full(counts),
        full(shapes),
        state.limits,
        state.node_limits
    )
}

#[test]
fn a_rollback_restores_everything_and_solving_again_gives_the_same() {
    // covers: SCH-LOOP-13
    let world = mixed_world(300, fake::incremental(50), 7);
    let mut problem = Problem::compile(&world);
    let mut state = State::new(&problem, BASELINE);
    let queue: Vec<usize> = (0..problem.pods.len()).collect();
    let (first, rest) = queue.split_at(120);
    first_match::solve(&mut problem, &mut state, first, Reserving::Strict);
    let (mark, before) = (state.mark(), picture(&state));
    first_match::solve(&mut problem, &mut state, rest, Reserving::Strict);
    let after = picture(&state);
    assert_ne!(before, after);
    state.rollback(mark);
    assert_eq!(picture(&state), before);
    first_match::solve(&mut problem, &mut state, rest, Reserving::Strict);
    assert_eq!(picture(&state), after);
}
