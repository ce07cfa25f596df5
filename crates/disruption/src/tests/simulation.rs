use jiff::{SignedDuration, Timestamp};
use karpenter_core::node::Stage;
use karpenter_core::settings::PreferencePolicy;
use karpenter_testkit::express::node_term;
use karpenter_testkit::pod;

use super::*;

fn later(seconds: i64) -> Option<Timestamp> {
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    Some(now + SignedDuration::from_secs(seconds))
}

#[test]
fn nodes_that_go_are_no_targets() {
    // covers: DIS-SIM-01
    // The only room is on a node that is going.
    let scene = scene().node("a", "small").pod(pod("p").cpu("1500m").on("a"));
    let built = scene.of_type("b", "large", ON_DEMAND).deleting();
    assert_eq!(scene.add(built, |_| {}).commands(), Vec::<String>::new());
}

#[test]
fn a_node_that_is_not_ready_does_not_count() {
    // covers: DIS-SIM-06, DIS-SIM-07
    let scene = scene().node("a", "small").pod(pod("p").cpu("1500m").on("a"));
    let built = scene.of_type("b", "large", ON_DEMAND).stage(Stage::Registered);
    let scene = scene.add(built, |facts| facts.consolidatable = false);
    assert_eq!(scene.commands(), Vec::<String>::new());
    assert_eq!(scene.why("a"), "Pod default/p would schedule against uninitialized node/b");
    // One that is ready comes first, whatever its name.
    let ready = scene.node("c", "large").pod(pod("q").do_not_disrupt("true").on("c"));
    assert_eq!(ready.commands(), ["single a -> "]);
}

#[test]
fn without_a_pool_to_buy_from_nodes_may_still_go() {
    let mut scene = scene().node("a", "large").pod(pod("p").cpu("1").on("a"));
    scene.world.0.pools.clear();
    assert_eq!(scene.commands(), Vec::<String>::new());
    let room = scene.node("b", "small").pod(pod("q").do_not_disrupt("true").on("b"));
    assert_eq!(room.commands(), ["single a -> "]);
}

#[test]
fn nodes_that_are_not_quiet_take_no_pods_that_move() {
    // covers: DIS-CONSAFTER-09, SCH-EXIST-13
    let with = |until: Option<Timestamp>| {
        let scene = scene().node("a", "small").pod(pod("p").cpu("1500m").on("a"));
        let built = scene.of_type("b", "large", ON_DEMAND);
        let scene = scene.add(built, |facts| {
            facts.quiet_from = until;
            facts.consolidatable = false;
        });
        scene.pod(pod("q").cpu("1").do_not_disrupt("true").on("b"))
    };
    assert_eq!(with(None).commands(), ["single a -> "]);
    assert_eq!(with(later(-1)).commands(), ["single a -> "]);
    assert_eq!(with(later(30)).commands(), Vec::<String>::new());
}

#[test]
fn drift_does_not_wait_for_quiet_nodes() {
    // covers: DIS-CONSAFTER-10
    let scene = scene();
    let (a, b) = (scene.of_type("a", "small", ON_DEMAND), scene.of_type("b", "large", ON_DEMAND));
    let since = "2026-01-01T00:00:00Z".parse().unwrap();
    let scene = scene.add(a, |facts| facts.drifted = Some(Drifted { reason: "NodePoolDrifted".into(), since }));
    let scene = scene.add(b, |facts| facts.quiet_from = later(30));
    let scene = scene.pod(pod("p").cpu("1500m").on("a")).pod(pod("q").cpu("1").do_not_disrupt("true").on("b"));
    assert_eq!(scene.commands(), ["drift a -> "]);
}

#[test]
fn a_reservation_may_be_passed_over() {
    // covers: DIS-SIM-13, SCH-RESV-08, SCH-LOOP-16
    // One unit is left and two nodes want it: in a simulation the second gets something else.
    let reserved = kind("medium", 4)
        .offerings(vec![sold(ZONE_A, ON_DEMAND).at(40_000), sold(ZONE_A, "reserved").at(40).reserved("cr-1", 1)]);
    let types: Arc<[_]> = [reserved, kind("large", 8)].into_iter().map(|kind| Arc::new(kind.build())).collect();
    let scene = Scene::with(types).pool("default", |pool| pool, |_| {}).node("a", "large").node("b", "large");
    let apart = |name: &str| pod(name).app("x").cpu("3").anti_affinity("kubernetes.io/hostname", &[("app", "x")]);
    let scene = scene.pod(apart("p").on("a")).pod(apart("q").on("b"));
    let bought: Vec<String> = scene
        .propose()
        .commands
        .iter()
        .flat_map(|command| command.replacements.iter().map(|new| new.node.launch.capacity_type.to_string()))
        .collect();
    assert_eq!(bought.len(), 2, "{:?}", scene.commands());
    assert_eq!(bought.iter().filter(|kind| *kind == "reserved").count(), 1, "{bought:?}");
}

#[test]
fn limits_get_back_what_a_node_took() {
    // The pool may not grow, but a smaller node in the place of a larger one is no growth.
    let scene =
        scene().pool("default", |pool| pool.limit("cpu", "8").require(is_in(CAPACITY_TYPE, &[ON_DEMAND])), |_| {});
    let scene = scene.node("a", "large").pod(pod("p").cpu("1500m").on("a"));
    assert_eq!(scene.commands(), ["single a -> small on-demand"]);
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let types: Arc<[_]> = karpenter_testkit::fake::incremental(12).into_iter().map(Arc::new).collect();
    let size = karpenter_testkit::cluster::Size { nodes: 450, pods: 2_000, pools: 3, full: 70 };
    let world = karpenter_testkit::cluster::cluster(size, &types, &karpenter_testkit::fake::ZONES, 5);
    let facts = scene().pools["default"].clone();
    let pools = world
        .pools
        .iter()
        .map(|pool| (pool.name.clone(), PoolFacts { instance_types: pool.instance_types.clone(), ..facts.clone() }));
    let snapshot =
        Snapshot { world: &world, nodes: vec![NodeFacts::default(); world.nodes.len()], pools: pools.collect() };
    let with = |threads| propose(&snapshot, &Policy { threads, ..Policy::default() });
    let one = with(1);
    assert!(!one.commands.is_empty());
    assert_eq!(one, with(3));
}

#[test]
fn preferences_hold_in_a_trial_only_where_the_controller_respects_them() {
    // covers: DIS-SIM-09
    let with = |preferences: PreferencePolicy| {
        let wish = vec![is_in("node.kubernetes.io/instance-type", &["large"])];
        let mut scene = scene().node("a", "large").pod(pod("p").cpu("1500m").prefer(1, wish).on("a"));
        scene.world.0.settings.preferences = preferences;
        scene
    };
    // Nothing is cheaper than what it prefers, so it stays; only what is impossible is given up.
    assert_eq!(with(PreferencePolicy::Respect).commands(), Vec::<String>::new());
    assert_eq!(with(PreferencePolicy::Ignore).commands(), ["single a -> small on-demand"]);
    let mut impossible = with(PreferencePolicy::Respect);
    let wish = vec![is_in("node.kubernetes.io/instance-type", &["none such"])];
    impossible.world.0.pods.clear();
    let impossible = impossible.pod(pod("p").cpu("1500m").prefer(1, wish).on("a"));
    assert_eq!(impossible.commands(), ["single a -> small on-demand"]);
}

#[test]
fn the_old_hostname_of_a_local_volume_is_not_held_against_a_replacement() {
    // covers: DIS-SIM-10
    let with = |is_local: bool| {
        let mut scene = scene().node("a", "large").pod(pod("p").cpu("1500m").claim("data").on("a"));
        let reachable = vec![node_term(vec![is_in("kubernetes.io/hostname", &["a"])])];
        scene.world = scene.world.bound_claim("data", "local", reachable);
        scene.world.0.storage.volumes.values_mut().for_each(|volume| volume.is_local = is_local);
        scene
    };
    assert_eq!(with(true).commands(), ["single a -> small on-demand"]);
    assert_eq!(with(false).commands(), Vec::<String>::new());
}
