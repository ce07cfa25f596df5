use karpenter_testkit::pod;

use super::*;

fn drifted(since: &str) -> Option<Drifted> {
    Some(Drifted { reason: "NodePoolDrifted".into(), since: since.parse().unwrap() })
}

fn with(scene: Scene, name: &str, since: &str) -> Scene {
    let built = scene.of_type(name, "small", ON_DEMAND);
    scene.add(built, |facts| facts.drifted = drifted(since))
}

#[test]
fn those_without_pods_go_first_then_whoever_has_drifted_longest() {
    // covers: DIS-DRIFT-10, DIS-DRIFT-11, DIS-DRIFT-12, DIS-DRIFT-14, DIS-LOOP-08
    // Consolidation is off, which does not matter; each gets what its pods need, whatever it costs.
    let scene = scene().rules(|pool| pool.consolidate_after = None);
    let scene = with(scene, "new", "2026-01-01T12:00:00Z");
    let scene = with(scene, "old", "2026-01-01T01:00:00Z");
    let scene = with(scene, "bare", "2026-01-01T18:00:00Z");
    let scene = scene.pod(pod("p").cpu("1500m").on("new")).pod(pod("q").cpu("1500m").on("old"));
    let commands = scene.propose().commands;
    assert!(commands.iter().all(|command| command.method.reason() == "Drifted"));
    assert_eq!(scene.commands(), ["drift bare -> ", "drift old -> small on-demand", "drift new -> small on-demand"]);
}

#[test]
fn an_empty_node_that_drifted_goes_as_empty() {
    // covers: DIS-EMPTY-08
    assert_eq!(with(scene(), "a", "2026-01-01T00:00:00Z").commands(), ["empty a -> "]);
}

#[test]
fn drift_has_its_own_budget() {
    // covers: DIS-BUDGET-08
    let none = Budget { reasons: Some(vec!["Drifted".into()]), ..budget("0") };
    let scene = with(scene().rules(|pool| pool.budgets = vec![none]), "a", "2026-01-01T00:00:00Z");
    let scene = scene.pod(pod("p").cpu("1500m").on("a"));
    assert_eq!(scene.commands(), Vec::<String>::new());
}

#[test]
fn a_pod_without_a_place_keeps_a_drifted_node() {
    // covers: DIS-DRIFT-13, DIS-SIM-05
    let scene = with(scene(), "a", "2026-01-01T00:00:00Z").pod(pod("p").select("team", "gone").on("a"));
    assert_eq!(scene.commands(), Vec::<String>::new());
    assert!(scene.why("a").contains("Pod default/p would not find another place"), "{}", scene.why("a"));
}

#[test]
fn nodes_of_static_pools_go_one_for_one_the_longest_drifted_first() {
    // covers: STATIC-17, STATIC-20, DIS-CAND-12, DIS-LOOP-08
    // Whether they hold pods, or pods would find another place, does not matter.
    let fixed = |spare: u32, nodes: &str| {
        let nodes = nodes.to_owned();
        let scene = scene().rules(move |pool| {
            (pool.is_static, pool.spare, pool.budgets) = (true, spare, vec![budget(&nodes)]);
        });
        let scene = with(scene, "new", "2026-01-01T12:00:00Z");
        let scene = with(scene, "old", "2026-01-01T01:00:00Z");
        let scene = with(scene, "bare", "2026-01-01T18:00:00Z");
        scene.node("fine", "small").pod(pod("p").select("team", "gone").on("old")).pod(pod("q").on("new"))
    };
    let all = ["drift old -> ", "drift new -> ", "drift bare -> "];
    let commands = fixed(9, "100%").propose().commands;
    assert!(commands.iter().all(|one| one.method == Method::StaticDrift && one.decision() == "replace"));
    assert_eq!(fixed(9, "100%").commands(), all);
    assert_eq!(fixed(2, "100%").commands(), all[..2]);
    assert_eq!(fixed(9, "1").commands(), all[..1]);
    assert!(fixed(0, "100%").commands().is_empty());
    assert!(fixed(0, "100%").why("old").contains("may have no other node to replace it"));
    assert!(fixed(9, "1").why("new").contains("budget"), "{}", fixed(9, "1").why("new"));
}
