use karpenter_core::labels::NODEPOOL;
use karpenter_core::node::Stage;
use karpenter_core::pod::Phase;
use karpenter_core::world::DisruptionBudget;
use karpenter_testkit::express::selecting;
use karpenter_testkit::pod;

use super::*;

fn pdb(allowed: i32) -> DisruptionBudget {
    DisruptionBudget {
        namespace: "default".into(),
        name: "web".into(),
        selector: Some(selecting(&[("app", "web")])),
        never_allows: false,
        disruptions_allowed: allowed,
        always_allows_unready: false,
    }
}

#[test]
fn the_first_check_that_fails_is_told() {
    // covers: DIS-CAND-01, DIS-CAND-03, DIS-CAND-13
    type Change = fn(NodeBuilder) -> NodeBuilder;
    let same: Change = |node| node;
    type Row = (Change, fn(&mut NodeFacts), &'static str);
    let table: [Row; 9] = [
        (same, |facts| facts.in_queue = true, "Node is already being disrupted"),
        (|node| node.stage(Stage::Launched), |_| {}, "Nodeclaim does not have an associated node"),
        (|node| node.stage(Stage::Registered), |facts| facts.nominated = true, "Node isn't initialized"),
        (|node| node.deleting(), |facts| facts.nominated = true, "Node is deleting or marked for deletion"),
        (same, |facts| facts.nominated = true, "Node is nominated for a pending pod"),
        (same, |facts| facts.do_not_disrupt = true, "Disruption is blocked through"),
        (same, |facts| facts.unreadable = Some("Pod n/p".into()), "Object cannot be read (Pod n/p)"),
        (|node| node.without_label(NODEPOOL), |_| {}, "Node doesn't have required label"),
        (|node| node.label(NODEPOOL, "other"), |_| {}, "NodePool not found (NodePool=other)"),
    ];
    for (change, facts, want) in table {
        let scene = scene();
        let built = change(scene.of_type("a", "small", ON_DEMAND));
        let scene = scene.add(built, facts);
        assert!(scene.why("a").starts_with(want), "{want}: {}", scene.why("a"));
        assert_eq!(scene.commands(), Vec::<String>::new(), "{want}");
    }
}

#[test]
fn a_pool_without_types_keeps_its_own_nodes_only() {
    // covers: DIS-CAND-07
    let scene = scene().pool("other", |pool| pool, |facts| facts.instance_types = Arc::new([]));
    let built = scene.of_type("b", "small", ON_DEMAND).of_pool("other");
    let scene = scene.node("a", "small").add(built, |_| {});
    assert_eq!(scene.commands(), ["empty a -> "]);
    assert_eq!(scene.why("b"), "NodePool not found (NodePool=other)");
}

#[test]
fn pods_hold_their_node() {
    // covers: DIS-CAND-04, LC-POD-12, LC-POD-17
    let base = || scene().node("a", "small").node("b", "large").pod(pod("stays").do_not_disrupt("true").on("b"));
    let held = |pod: PodBuilder| base().pod(pod.app("web").on("a"));
    assert_eq!(held(pod("p")).commands(), ["single a -> "]);
    let protected = held(pod("p").do_not_disrupt("true"));
    assert!(protected.why("a").contains("Pod has"), "{}", protected.why("a"));
    // Protection is looked for on all pods before any budget is.
    let mut both = held(pod("p")).pod(pod("q").do_not_disrupt("true").on("a"));
    both.world = both.world.disruption_budget(pdb(0));
    assert_eq!(both.why("a"), "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/q)");
    let mut blocked = held(pod("p"));
    blocked.world = blocked.world.disruption_budget(pdb(0));
    assert_eq!(blocked.why("a"), "Pdb prevents pod evictions (PodDisruptionBudget=default/web)");
    let miss = blocked.propose().nodes[0].nearest_miss.clone();
    assert_eq!(miss, Some(Miss::PodDisruptionBudget { name: "default/web".into() }));
    let mut allowed = held(pod("p")).pod(pod("q").app("web").on("a"));
    allowed.world = allowed.world.disruption_budget(pdb(1));
    assert_eq!(allowed.commands(), ["single a -> "], "each pod is judged alone");
}

#[test]
fn budgets_hold_only_pods_that_would_be_evicted() {
    // covers: LC-POD-15, LC-POD-16, LC-POD-19
    let budget = |namespace: &str, name: &str, never: bool| DisruptionBudget {
        namespace: namespace.into(),
        name: name.into(),
        never_allows: never,
        ..pdb(0)
    };
    let judged = |budgets: &[DisruptionBudget], pod: PodBuilder| {
        let world = world().pod(pod.app("web").on("a"));
        let world = budgets.iter().fold(world, |world, budget| world.disruption_budget(budget.clone())).build();
        let mut all = crate::pods::Budgets::new(&world);
        let pod = &world.pods[0];
        (all.lets_move(pod, world.now), all.holding(pod, world.now).is_some())
    };
    let plain = || pod("p");
    let (never, today) = (budget("default", "web", true), budget("default", "web", false));
    let (moves, held) = (true, true);
    for (budgets, pod, want) in [
        (vec![], plain(), (moves, !held)),
        (vec![never.clone()], plain(), (!moves, held)),
        (vec![today.clone()], plain(), (moves, held)),
        (vec![today.clone(), budget("default", "twin", false)], plain(), (!moves, held)),
        (vec![budget("elsewhere", "web", true)], plain(), (moves, !held)),
        (vec![never.clone()], plain().do_not_disrupt("true"), (!moves, !held)),
        (vec![never.clone()], plain().tolerate("karpenter.sh/disrupted"), (moves, !held)),
        (vec![never.clone()], plain().terminating(), (!moves, !held)),
        (vec![], plain().daemon_of("agent"), (!moves, !held)),
        (vec![DisruptionBudget { always_allows_unready: true, ..never.clone() }], plain().unready(), (moves, !held)),
        (vec![DisruptionBudget { always_allows_unready: true, ..never.clone() }], plain(), (!moves, held)),
        (vec![never.clone()], plain().unready(), (!moves, held)),
    ] {
        assert_eq!(judged(&budgets, pod.clone()), want, "{budgets:?} {}", pod.name());
    }
    let mut other = never;
    other.selector = Some(karpenter_core::selector::Selector::invalid());
    assert_eq!(judged(&[other], plain()), (moves, !held), "it selects somebody else");
}

#[test]
fn a_bounded_drain_lets_drift_pass_what_holds_pods_and_nothing_else() {
    // covers: DIS-CAND-05, DIS-SIM-04
    let drifted = Drifted { reason: "NodePoolDrifted".into(), since: "2026-01-01T00:00:00Z".parse().unwrap() };
    let with = |bounded: bool| {
        let scene = scene();
        let built = scene.of_type("a", "small", ON_DEMAND);
        let scene = scene.add(built, |facts| {
            facts.drifted = Some(drifted.clone());
            facts.bounded_drain = bounded;
        });
        scene.pod(pod("p").cpu("1").do_not_disrupt("true").on("a"))
    };
    assert_eq!(with(false).commands(), Vec::<String>::new());
    // The pod that is held gets no room elsewhere.
    assert_eq!(with(true).commands(), ["drift a -> "]);
}

#[test]
fn what_is_not_worth_moving_makes_a_node_empty() {
    // covers: DIS-CAND-08, DIS-CAND-09, DIS-EMPTY-05, DIS-EMPTY-07
    for (pod, empty) in [
        (pod("p").daemon_of("agent"), true),
        (pod("p").owned_by("v1", "Node", "a"), true),
        (pod("p").phase(Phase::Succeeded), true),
        (pod("p").terminating(), true),
        (pod("p").deletion_cost("-2147483648"), true),
        (pod("p"), false),
        (pod("p").terminating().owned_by("apps/v1", "StatefulSet", "db"), false),
    ] {
        let phase = pod.clone().build().phase;
        let mut on = pod.on("a");
        if phase == Phase::Succeeded {
            on = on.phase(phase);
        }
        let scene = scene().node("a", "small").pod(on);
        let commands = scene.propose().commands;
        assert_eq!(commands.first().is_some_and(|command| command.method == Method::Empty), empty, "{commands:?}");
    }
}

#[test]
fn candidates_come_by_what_they_save_for_their_trouble_then_by_name() {
    // covers: DIS-CAND-10, DIS-EMPTY-03
    let scene = scene().node("b", "small").node("a", "small").node("c", "large");
    let commands = scene.propose().commands;
    let names: Vec<&str> = commands[0].candidates.iter().map(|candidate| &*candidate.name).collect();
    assert_eq!(names, ["c", "a", "b"]);
    assert_eq!(commands[0].savings, 120_000);
}

#[test]
fn an_unknown_price_is_nothing_and_keeps_no_empty_node() {
    // covers: DIS-CAND-06, DIS-EMPTY-01
    let scene = scene();
    let built = scene.of_type("a", "small", ON_DEMAND).label("node.kubernetes.io/instance-type", "gone");
    let scene = scene.add(built, |_| {});
    assert_eq!(scene.commands(), ["empty a -> "]);
    assert_eq!(scene.propose().commands[0].savings, 0);
}

#[test]
fn static_pools_are_left_alone() {
    // covers: DIS-CAND-12
    let scene = scene().rules(|pool| pool.is_static = true).node("a", "small");
    assert_eq!(scene.commands(), Vec::<String>::new());
    assert_eq!(scene.why("a"), "NodePool \"default\" is static");
}
