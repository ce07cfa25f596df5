use karpenter_testkit::pod;

use super::*;

/// Types of 2 CPUs at slightly different prices, and a large one.
fn many(count: u64) -> Arc<[Arc<InstanceType>]> {
    let small = (0..count).map(|at| {
        let price = 10_000 + 10 * at;
        let offerings = vec![sold(ZONE_A, ON_DEMAND).at(price * 3), sold(ZONE_A, SPOT).at(price)];
        kind(&format!("small-{at:02}"), 2).offerings(offerings)
    });
    small.chain([kind("large", 8)]).map(|kind| Arc::new(kind.build())).collect()
}

fn with(count: u64, gate: bool) -> Scene {
    let mut scene = Scene::with(many(count)).pool("default", |pool| pool, |_| {});
    scene.policy.spot_to_spot = gate;
    scene.spot("a", "large").pod(pod("p").cpu("1500m").on("a"))
}

#[test]
fn spot_is_not_replaced_by_spot_without_the_gate() {
    // covers: DIS-SPOT-01
    assert_eq!(with(20, false).commands(), Vec::<String>::new());
    assert!(with(20, false).why("a").starts_with("SpotToSpotConsolidation is disabled"));
    assert_eq!(with(20, false).propose().nodes[0].nearest_miss, Some(Miss::SpotToSpot));
    // Going without a replacement needs no gate.
    let small = Scene::with(many(3)).spot("a", "small-00").spot("b", "large");
    let small = small.pod(pod("p").cpu("1").on("a")).pod(pod("q").cpu("1").do_not_disrupt("true").on("b"));
    assert_eq!(small.commands(), ["single a -> "]);
}

#[test]
fn one_node_needs_fifteen_cheaper_types_and_gets_the_cheapest_fifteen() {
    // covers: DIS-SPOT-02, DIS-SPOT-04, DIS-SPOT-05, DIS-SPOT-06, DIS-CONSOL-09
    assert!(
        with(14, true).why("a").contains("requires 15 cheaper instance type options"),
        "{}",
        with(14, true).why("a")
    );
    assert!(with(14, true).why("a").ends_with("got 14"));
    let command = with(20, true).propose().commands.remove(0);
    assert_eq!(shown(&command), "single a -> small-00 spot");
    assert_eq!(command.replacements[0].instance_types.len(), 15);
    let asked = command.replacements[0].node.requirements.get(CAPACITY_TYPE);
    assert_eq!(asked.values.iter().map(|value| &**value).collect::<Vec<_>>(), [SPOT]);
}

#[test]
fn min_values_make_the_list_longer() {
    // covers: DIS-SPOT-05
    let names: Vec<String> = (0..20).map(|at| format!("small-{at:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["large"]).collect();
    let asked = karpenter_testkit::express::with_min_values(is_in("node.kubernetes.io/instance-type", &names), 17);
    let mut scene = Scene::with(many(20)).pool("default", |pool| pool.require(asked), |_| {});
    scene.policy.spot_to_spot = true;
    let scene = scene.spot("a", "large").pod(pod("p").cpu("1500m").on("a"));
    assert_eq!(scene.propose().commands[0].replacements[0].instance_types.len(), 17);
}

#[test]
fn several_nodes_need_no_choice() {
    // covers: DIS-SPOT-03
    let types: Arc<[_]> = [kind("odd", 3).offerings(vec![sold(ZONE_A, SPOT).at(12_000)]), kind("medium", 4)]
        .into_iter()
        .map(|kind| Arc::new(kind.build()))
        .collect();
    let mut scene = Scene::with(types).pool("default", |pool| pool, |_| {});
    scene.policy.spot_to_spot = true;
    let scene = scene.spot("a", "odd").spot("b", "odd");
    let scene = scene.pod(pod("p").cpu("1800m").on("a")).pod(pod("q").cpu("1800m").on("b"));
    assert_eq!(scene.commands(), ["multi a,b -> medium spot"]);
}
