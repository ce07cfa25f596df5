use super::*;
use crate::disruption::candidate::tests::{Sketch, named};

fn allowance(allowed: u32) -> Allowance {
    Allowance { nodes: 10, allowed, consumed: 0 }
}

fn names(candidates: &[Candidate]) -> Vec<&str> {
    candidates.iter().map(Candidate::name).collect()
}

#[test]
fn only_quiet_empty_nodes_of_dynamic_pools_are_of_interest() {
    // covers: DIS-EMPTY-01, DIS-CAND-12
    let quiet = Sketch { consolidatable: true, ..Sketch::named("a") };
    for (sketch, want) in [
        (quiet.clone(), Interest::Yes),
        (Sketch { policy: "WhenEmptyOrUnderutilized", ..quiet.clone() }, Interest::Yes),
        (Sketch { policy: "Balanced", ..quiet.clone() }, Interest::Yes),
        (Sketch { consolidatable: false, ..quiet.clone() }, Interest::No),
        (Sketch { cost: 2.0, ..quiet.clone() }, Interest::No),
        (Sketch { consolidate_after: "Never", ..quiet.clone() }, Interest::Disabled),
        (Sketch { replicas: Some(1), ..quiet.clone() }, Interest::No),
    ] {
        assert_eq!(interest(&sketch.candidate()), want, "{sketch:?}");
    }
}

#[test]
fn the_best_savings_go_first_within_each_pools_budget() {
    // covers: DIS-EMPTY-03, DIS-BUDGET-11, DIS-BUDGET-12, DIS-CAND-10
    let priced = |name, price| Sketch { price, ..Sketch::named(name) }.candidate();
    let other = |name, price| Sketch { price, pool: "other", ..Sketch::named(name) }.candidate();
    let candidates = vec![priced("b", 1), priced("c", 3), other("x", 9), priced("a", 1), priced("d", 2)];
    let allowances = [("p".to_owned(), allowance(3)), ("other".to_owned(), allowance(0))].into();
    let choice = choose(candidates, &allowances);
    assert_eq!(names(&choice.chosen), ["c", "d", "a"], "equal ones by name");
    assert!(choice.held_back);
    let all = choose(vec![named("a")], &[("p".to_owned(), allowance(1))].into());
    assert!(!all.held_back);
}

#[test]
fn a_command_goes_on_with_what_is_still_valid() {
    // covers: DIS-EMPTY-04, DIS-VALID-03, DIS-VALID-05
    let proposed = [named("a"), named("b"), named("c")];
    let now = vec![named("b"), named("c"), named("new")];
    let two = [("p".to_owned(), allowance(2))].into();
    let valid = still_valid(&proposed, now.clone(), &two);
    assert_eq!((names(&valid.chosen), valid.failed), (vec!["b", "c"], 0));
    let one = [("p".to_owned(), allowance(1))].into();
    let valid = still_valid(&proposed, now, &one);
    assert_eq!((names(&valid.chosen), valid.failed), (vec!["b"], 1));
    let valid = still_valid(&proposed, vec![named("new")], &two);
    assert_eq!((names(&valid.chosen), valid.failed), (vec![], 3));
}
