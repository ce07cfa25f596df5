use karpenter_core::node::Stage;
use karpenter_testkit::pod;

use super::*;

fn three_empty() -> Scene {
    scene().node("a", "small").node("b", "small").node("c", "small")
}

#[test]
fn the_least_budget_for_a_reason_holds() {
    // covers: DIS-BUDGET-01, DIS-BUDGET-02, DIS-BUDGET-07, DIS-BUDGET-12, API-NP-41, API-NP-42
    let only = |reasons: &[&str], nodes: &str| Budget {
        reasons: Some(reasons.iter().map(|reason| (*reason).to_owned()).collect()),
        ..budget(nodes)
    };
    for (budgets, want) in [
        (vec![], 3),
        (vec![budget("2")], 2),
        (vec![budget("34%")], 2),
        (vec![budget("33%")], 1),
        (vec![budget("2"), budget("1")], 1),
        (vec![budget("0")], 0),
        (vec![only(&["Drifted"], "0")], 3),
        (vec![only(&["Empty"], "1")], 1),
        (vec![only(&[], "0")], 3),
        (vec![budget("some")], 0),
    ] {
        let scene = three_empty().rules(|pool| pool.budgets = budgets.clone());
        let taken: usize = scene.propose().commands.iter().map(|command| command.candidates.len()).sum();
        assert_eq!(taken, want, "{budgets:?}");
        assert_eq!(scene.propose().held_back, want < 3, "{budgets:?}");
    }
}

#[test]
fn schedules_are_looked_at_in_utc() {
    // covers: DIS-BUDGET-05, DIS-BUDGET-06, API-NP-43, API-NP-44, Q-04
    // It is midnight between Thursday and Friday.
    for (schedule, hours, want) in [
        ("@daily", 1, 0),
        ("0 20 * * *", 8, 0),
        ("0 20 * * *", 4, 3),
        ("0 9 * * mon-fri", 8, 3),
        ("nonsense", 1, 0),
        ("0 0 * * tue-mon", 1, 0),
        ("@dailyfoo", 1, 0),
    ] {
        let duration = Some(Duration::from_secs(hours * 3600));
        let asleep = Budget { schedule: Some(schedule.into()), duration, ..budget("0") };
        let scene = three_empty().rules(|pool| pool.budgets = vec![asleep]);
        let taken: usize = scene.propose().commands.iter().map(|command| command.candidates.len()).sum();
        assert_eq!(taken, want, "{schedule}");
    }
}

/// Two pools, of which nobody may be taken from `closed`.
fn open_and_closed() -> Scene {
    let only = |name: &'static str| is_in("node.kubernetes.io/instance-type", &[name]);
    scene()
        .pool("default", |pool| pool.require(is_in(CAPACITY_TYPE, &[ON_DEMAND])).require(only("large")), |_| {})
        .pool(
            "closed",
            |pool| pool.require(is_in(CAPACITY_TYPE, &[ON_DEMAND])),
            |facts| facts.budgets = vec![budget("0")],
        )
}

#[test]
fn only_the_budget_of_the_pool_that_loses_a_node_counts() {
    // covers: DIS-BUDGET-11
    let of_pool = |scene: &Scene, name: &str, pool: &str| scene.of_type(name, "large", ON_DEMAND).of_pool(pool);
    // Pods go to a node of a pool whose budget is spent.
    let scene = open_and_closed();
    let (leaves, takes) = (of_pool(&scene, "leaves", "default"), of_pool(&scene, "takes", "closed"));
    let receiving = scene
        .add(leaves, |_| {})
        .add(takes, |_| {})
        .pod(pod("p").cpu("1").on("leaves"))
        .pod(pod("q").cpu("6").on("takes"));
    let taken = |scene: &Scene| -> Vec<String> {
        let proposal = scene.propose();
        let all = proposal.commands.iter().flat_map(|command| &command.candidates);
        all.map(|candidate| candidate.name.to_string()).collect()
    };
    assert_eq!(taken(&receiving), ["leaves"]);
    // And the other way round the open budget helps nobody.
    let scene = open_and_closed();
    let (stays, takes) = (of_pool(&scene, "stays", "closed"), of_pool(&scene, "takes", "default"));
    let kept = scene
        .add(stays, |_| {})
        .add(takes, |facts| facts.do_not_disrupt = true)
        .pod(pod("p").cpu("1").on("stays"))
        .pod(pod("q").cpu("6").on("takes"));
    assert_eq!(taken(&kept), Vec::<String>::new());
}

#[test]
fn nodes_of_the_pool_that_are_there_are_counted() {
    // covers: DIS-BUDGET-03
    // Half of two is one, and half of three rounds up to two: what counts shows in how many go.
    type Change = fn(NodeBuilder) -> NodeBuilder;
    let as_it_is: Change = |node| node;
    let facts: fn(&mut NodeFacts) = |facts| facts.do_not_disrupt = true;
    for (what, change, facts, want) in [
        ("an initialized node", as_it_is, facts, 2),
        ("one that is not initialized", |node: NodeBuilder| node.stage(Stage::Registered), facts, 1),
        ("one that is given back", as_it_is, |facts: &mut NodeFacts| facts.instance_terminating = true, 1),
        ("somebody else's", |node: NodeBuilder| node.stage(Stage::Unmanaged), facts, 1),
    ] {
        let scene = scene().node("a", "small").node("b", "small").rules(|pool| pool.budgets = vec![budget("50%")]);
        let third = change(scene.of_type("c", "small", ON_DEMAND));
        let scene = scene.add(third, facts).pod(pod("p").cpu("1").on("c"));
        let taken: usize = scene.propose().commands.iter().map(|command| command.candidates.len()).sum();
        assert_eq!(taken, want, "{what}");
    }
}

#[test]
fn what_is_gone_or_not_ready_takes_from_the_budget() {
    // covers: DIS-BUDGET-04
    for (change, want) in [
        ((|_| {}) as fn(&mut NodeFacts), 2),
        (|facts| facts.ready = false, 1),
        // Given back to the cloud already: neither counted nor taken. A third of 3 rounds up to the same.
        (|facts| facts.instance_terminating = true, 2),
    ] {
        let scene = three_empty().rules(|pool| pool.budgets = vec![budget("2")]);
        let built = scene.of_type("d", "small", ON_DEMAND);
        let scene = scene.add(built, |facts| {
            facts.nominated = true;
            change(facts);
        });
        let taken: usize = scene.propose().commands.iter().map(|command| command.candidates.len()).sum();
        assert_eq!(taken, want);
    }
}

#[test]
fn a_node_that_goes_for_one_reason_takes_from_the_budgets_of_all() {
    // covers: DIS-BUDGET-04, DIS-BUDGET-08
    let scene = scene().rules(|pool| pool.budgets = vec![budget("1")]);
    let scene = scene.node("a", "small").node("b", "small").node("c", "large");
    let scene = scene.pod(pod("p").cpu("1").on("b")).pod(pod("q").cpu("1").on("c"));
    let taken: usize = scene.propose().commands.iter().map(|command| command.candidates.len()).sum();
    assert_eq!(taken, 1);
    assert!(scene.why("b").contains("due to blocking budget"), "{}", scene.why("b"));
}

#[test]
fn a_pause_stops_everything_at_once() {
    let paused = three_empty().rules(|pool| pool.paused = true);
    assert_eq!(paused.commands(), Vec::<String>::new());
    assert_eq!(paused.why("a"), "Disruption is paused for NodePool \"default\"");
    let mut all = three_empty();
    all.policy.paused = true;
    assert_eq!(all.why("a"), "Disruption is paused");
}
