use karpenter_core::MicroUsd;
use karpenter_core::labels::{INSTANCE_TYPE, ZONE};
use karpenter_testkit::express::with_min_values;
use karpenter_testkit::pod;

use super::*;

#[test]
fn pods_that_fit_elsewhere_let_their_node_go() {
    // covers: DIS-CONSOL-16, DIS-BAL-12
    let scene = scene().node("a", "small").node("b", "small");
    let scene = scene.pod(pod("p").cpu("1").on("a")).pod(pod("q").cpu("500m").on("b"));
    let commands = scene.propose().commands;
    assert_eq!(commands.len(), 1);
    assert_eq!(commands[0].decision(), "delete");
    assert_eq!(commands[0].savings, 20_000);
    assert_eq!(commands[0].moves.len(), 1);
    // Somebody else's node will do as well.
    let theirs = self::scene().node("a", "small").add(node("theirs"), |_| {}).pod(pod("p").cpu("1").on("a"));
    assert_eq!(theirs.commands(), ["single a -> "]);
}

#[test]
fn a_node_that_is_too_large_becomes_a_cheaper_one() {
    // covers: DIS-CONSOL-06, SCH-NEW-44
    let scene = scene().node("a", "large").pod(pod("p").cpu("1500m").on("a"));
    assert_eq!(scene.commands(), ["single a -> small on-demand"]);
    let command = &scene.propose().commands[0];
    // What costs as much as before is not on the list.
    assert_eq!(
        command.replacements[0].instance_types.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["small", "medium"]
    );
    assert_eq!((command.price_before(), command.price_after()), (MicroUsd(80_000), MicroUsd(20_000)));
    let right = self::scene().node("a", "small").pod(pod("p").cpu("1500m").on("a"));
    assert_eq!(right.commands(), Vec::<String>::new());
    assert!(right.why("a").starts_with("Can't replace with a cheaper node"), "{}", right.why("a"));
    let miss = right.propose().nodes[0].nearest_miss.clone();
    assert_eq!(miss, Some(Miss::Price { below: MicroUsd(20_000), cheapest: MicroUsd(20_000) }));
}

#[test]
fn the_dearest_launch_counts() {
    // covers: DIS-CONSOL-06, SCH-IT-10
    // Cheap in one zone, dear in another, and nobody says which.
    let dear =
        kind("small", 2).offerings(vec![sold(ZONE_A, ON_DEMAND).at(20_000), sold("test-zone-2", ON_DEMAND).at(90_000)]);
    let types: Arc<[_]> = [dear, kind("large", 8)].into_iter().map(|kind| Arc::new(kind.build())).collect();
    let scene = |pinned: bool| {
        let p = pod("p").cpu("1500m").on("a");
        Scene::with(types.clone()).node("a", "large").pod(if pinned { p.select(ZONE, ZONE_A) } else { p })
    };
    assert_eq!(scene(false).commands(), Vec::<String>::new());
    assert_eq!(scene(true).commands(), ["single a -> small on-demand"]);
}

#[test]
fn min_values_must_hold_for_what_is_cheaper() {
    // covers: DIS-CONSOL-07
    let flexible = |count: u32| {
        let names = ["nano", "small", "medium", "large"];
        let scene = scene().pool(
            "default",
            |p| {
                p.require(is_in(CAPACITY_TYPE, &[ON_DEMAND]))
                    .require(with_min_values(is_in(INSTANCE_TYPE, &names), count))
            },
            |_| {},
        );
        let mut scene = scene.node("a", "large").pod(pod("p").cpu("1500m").on("a"));
        // However lenient new nodes are otherwise.
        scene.world = scene.world.settings(|s| s.min_values = karpenter_core::settings::MinValuesPolicy::BestEffort);
        scene
    };
    assert_eq!(flexible(2).commands().len(), 1);
    assert_eq!(flexible(3).commands(), Vec::<String>::new());
    assert!(flexible(3).why("a").contains("minValues"), "{}", flexible(3).why("a"));
}

#[test]
fn what_may_be_spot_or_on_demand_becomes_spot() {
    // covers: DIS-CONSOL-08, DIS-SPOT-07
    let scene = scene().pool("default", |pool| pool, |_| {}).node("a", "large").pod(pod("p").cpu("7").on("a"));
    let command = &scene.propose().commands[0];
    // The same type as spot is cheaper, and on-demand must not happen instead.
    assert_eq!(shown(command), "single a -> large spot");
    let asked = command.replacements[0].node.requirements.get(CAPACITY_TYPE);
    assert_eq!(asked.values.iter().map(|value| &**value).collect::<Vec<_>>(), [SPOT]);
}

#[test]
fn a_reservation_that_is_cheaper_takes_over() {
    // covers: DIS-CONSOL-13
    let reserved = kind("large", 8)
        .offerings(vec![sold(ZONE_A, ON_DEMAND).at(80_000), sold(ZONE_A, "reserved").at(80).reserved("cr-1", 1)]);
    let types: Arc<[_]> = [reserved].into_iter().map(|kind| Arc::new(kind.build())).collect();
    let scene =
        Scene::with(types).pool("default", |pool| pool, |_| {}).node("a", "large").pod(pod("p").cpu("7").on("a"));
    assert_eq!(scene.commands(), ["single a -> large reserved"]);
}

#[test]
fn waiting_pods_keep_the_room_they_need() {
    // covers: DIS-CONSOL-14, DIS-SIM-03
    let two = || {
        scene()
            .node("a", "small")
            .node("b", "small")
            .pod(pod("p").cpu("950m").on("a"))
            .pod(pod("q").cpu("950m").on("b"))
    };
    assert_eq!(two().commands().len(), 1);
    // It fits beside one of them, so not all of them fit on one node.
    assert_eq!(two().pod(pod("waits").cpu("950m")).commands(), Vec::<String>::new());
}

#[test]
fn what_a_candidate_needs_is_checked_in_order() {
    // covers: DIS-CONSOL-01
    type Change = fn(NodeBuilder) -> NodeBuilder;
    type Row = (Change, fn(&mut NodeFacts), fn(&mut PoolFacts), &'static str);
    let table: [Row; 6] = [
        (|n| n.label(INSTANCE_TYPE, "gone").without_label(ZONE), |_| {}, |_| {}, "Instance Type \"gone\" not found"),
        (
            |n| n.without_label(CAPACITY_TYPE).without_label(ZONE),
            |_| {},
            |_| {},
            "Node does not have label \"karpenter.sh/capacity-type\"",
        ),
        (
            |n| n.without_label(ZONE),
            |_| {},
            |p| p.consolidate_after = None,
            "Node does not have label \"topology.kubernetes.io/zone\"",
        ),
        (
            |n| n,
            |f| f.consolidatable = false,
            |p| p.consolidate_after = None,
            "NodePool \"default\" has consolidation disabled",
        ),
        (
            |n| n,
            |f| f.consolidatable = false,
            |p| p.policy = ConsolidationPolicy::WhenEmpty,
            "NodePool \"default\" has consolidation policy WhenEmpty, but node is not empty (pods=1)",
        ),
        (|n| n, |f| f.consolidatable = false, |_| {}, "Node is not yet consolidatable"),
    ];
    for (change, facts, rules, want) in table {
        let scene = scene().rules(rules);
        let built = change(scene.of_type("a", "large", ON_DEMAND));
        let scene = scene.add(built, facts).pod(pod("p").cpu("1").on("a"));
        assert!(scene.why("a").split("; ").any(|why| why == want), "{want}: {}", scene.why("a"));
        assert_eq!(scene.commands(), Vec::<String>::new());
    }
}

#[test]
fn several_nodes_become_one() {
    // covers: DIS-MULTI-02, DIS-MULTI-11
    // Alone neither has a cheaper place; together they fit one that costs less than both.
    let types: Arc<[_]> =
        [kind("odd", 3).price(30_000), kind("medium", 4)].into_iter().map(|kind| Arc::new(kind.build())).collect();
    let scene = Scene::with(types).pool("other", |pool| pool.require(is_in(CAPACITY_TYPE, &[ON_DEMAND])), |_| {});
    let other = scene.of_type("b", "odd", ON_DEMAND).of_pool("other");
    let scene = scene.node("a", "odd").add(other, |_| {});
    let scene = scene.pod(pod("p").cpu("1800m").on("a")).pod(pod("q").cpu("1800m").on("b"));
    assert_eq!(scene.commands(), ["multi a,b -> medium on-demand"]);
}

#[test]
fn a_node_is_not_replaced_by_another_of_its_kind() {
    // covers: DIS-MULTI-05, DIS-MULTI-06
    // Two large ones and a small one, whose pods all fit a small one: the two large ones simply go.
    let scene = scene().node("l1", "large").node("l2", "large").node("s", "small");
    let scene = scene.pod(pod("p").cpu("300m").on("l1")).pod(pod("q").cpu("300m").on("l2"));
    let scene = scene.pod(pod("r").cpu("800m").on("s"));
    let proposal = scene.propose();
    assert!(proposal.commands.iter().all(|command| command.replacements.is_empty()), "{:?}", scene.commands());
    let gone: usize = proposal.commands.iter().map(|command| command.candidates.len()).sum();
    assert_eq!((gone, proposal.nodes.len()), (2, 3));
    // Into something cheaper than the small one they may all go.
    let tiny = self::scene().node("l1", "large").node("l2", "large").node("s", "small");
    let tiny = tiny.pod(pod("p").cpu("300m").on("l1")).pod(pod("q").cpu("300m").on("l2"));
    let tiny = tiny.pod(pod("r").cpu("300m").on("s"));
    let saved: i64 = tiny.propose().commands.iter().map(|command| command.savings).sum();
    assert_eq!(saved, 80_000 + 80_000 + 20_000 - 10_000);
}

#[test]
fn only_what_budgets_allow_is_taken_together_best_first() {
    // covers: DIS-MULTI-01, DIS-SINGLE-03
    let scene = scene().rules(|pool| pool.budgets = vec![budget("1")]).node("home", "large");
    let scene = scene.node("x", "small").node("y", "medium").pod(pod("h").cpu("4").do_not_disrupt("true").on("home"));
    let scene = scene.pod(pod("p").cpu("500m").on("x")).pod(pod("q").cpu("500m").on("y"));
    assert_eq!(scene.commands(), ["single y -> "]);
    assert!(scene.why("x").contains("allowed=1, consumed=1"), "{}", scene.why("x"));
    assert!(scene.propose().held_back);
}

#[test]
fn disruption_can_be_given_a_price() {
    let mut scene = scene().node("a", "large").pod(pod("p").cpu("7").on("a")).node("b", "small");
    scene = scene.pod(pod("q").cpu("500m").on("b")).pod(pod("r").cpu("400m").on("b"));
    assert_eq!(scene.commands(), ["single b -> "]);
    scene.policy.threshold = Some(MicroUsd(10_001));
    assert_eq!(scene.commands(), Vec::<String>::new());
    assert_eq!(scene.why("b"), "Would save $0.0200/h, its disruption is priced at $0.0200/h");
    // A Job's pod loses its work, which weighs as much as ten ordinary ones.
    scene.policy.threshold = Some(MicroUsd(1_100));
    assert_eq!(scene.commands(), ["single b -> "]);
    let job = scene.pod(pod("j").cpu("10m").owned_by("batch/v1", "Job", "j").on("b"));
    assert!(job.why("b").contains("disruption is priced at"), "{}", job.why("b"));
}
