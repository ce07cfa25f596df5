use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_core::labels::ON_DEMAND;
use karpenter_disruption::{Budget, Command, Drifted, NodeFacts, Policy, PoolFacts, Snapshot, propose};
use karpenter_testkit::express::spread;
use karpenter_testkit::{fake, node, pod, pool, world};

use super::*;

const ZONE_A: &str = "test-zone-1";

fn facts(types: &Arc<[Arc<InstanceType>]>) -> PoolFacts {
    PoolFacts { budgets: vec![Budget::always("100%")], instance_types: types.clone(), ..PoolFacts::default() }
}

/// Two half-empty nodes of one type, the second with a pod that fits beside the first's.
fn two_nodes() -> (World, Arc<[Arc<InstanceType>]>) {
    let types: Arc<[Arc<InstanceType>]> = fake::incremental(8).into_iter().map(Arc::new).collect();
    let kind = types[5].clone();
    let on = |name: &str| node(name).of_pool("default").of_type(&kind, ZONE_A, ON_DEMAND);
    let world = world()
        .pool(pool("default").shared_types(&types))
        .node(on("a"))
        .node(on("b"))
        .pod(pod("one").cpu("1").on("a"))
        .pod(pod("two").cpu("500m").on("b"));
    (world.build(), types)
}

fn judged(change: impl FnOnce(&mut Snapshot<'_>, &mut Vec<Command>)) -> Vec<String> {
    let (world, types) = two_nodes();
    let pools = BTreeMap::from([(Arc::from("default"), facts(&types))]);
    let mut snapshot = Snapshot { world: &world, nodes: vec![NodeFacts::default(); 2], pools };
    let mut commands = propose(&snapshot, &Policy::default()).commands;
    assert!(!commands.is_empty());
    change(&mut snapshot, &mut commands);
    verify_commands(&snapshot, &Policy::default(), &commands).into_iter().map(|fault| fault.what).collect()
}

#[test]
fn what_is_proposed_is_within_the_rules() {
    assert_eq!(judged(|_, _| {}), Vec::<String>::new());
}

#[test]
fn what_breaks_a_rule_is_found() {
    type Break = fn(&mut Snapshot<'_>, &mut Vec<Command>);
    let table: [(&str, Break); 9] = [
        ("nominated", |snapshot, _| snapshot.nodes.iter_mut().for_each(|node| node.nominated = true)),
        ("annotated", |snapshot, _| snapshot.nodes.iter_mut().for_each(|node| node.do_not_disrupt = true)),
        ("cannot be read", |snapshot, _| {
            snapshot.nodes.iter_mut().for_each(|node| node.unreadable = Some("Pod n/p".into()));
        }),
        ("not consolidatable", |snapshot, _| snapshot.nodes.iter_mut().for_each(|node| node.consolidatable = false)),
        ("paused", |snapshot, _| snapshot.pools.values_mut().for_each(|pool| pool.paused = true)),
        ("loses", |snapshot, _| snapshot.pools.values_mut().for_each(|pool| pool.budgets[0].nodes = "0".into())),
        ("in no list", |_, commands| commands[0].moves.clear()),
        ("saves", |_, commands| commands[0].savings += 1),
        ("goes twice", |_, commands| {
            let again = commands[0].clone();
            commands.push(again);
        }),
    ];
    for (want, change) in table {
        let found = judged(change);
        assert!(found.iter().any(|what| what.contains(want)), "{want}: {found:?}");
    }
}

#[test]
fn pods_of_a_static_pool_need_no_place_for_its_node_to_be_replaced() {
    let (world, types) = two_nodes();
    let drifted = NodeFacts {
        drifted: Some(Drifted { reason: "NodePoolDrifted".into(), since: world.now }),
        ..NodeFacts::default()
    };
    let pool = PoolFacts { is_static: true, spare: 2, ..facts(&types) };
    let pools = BTreeMap::from([(Arc::from("default"), pool)]);
    let snapshot = Snapshot { world: &world, nodes: vec![drifted; 2], pools };
    let commands = propose(&snapshot, &Policy::default()).commands;
    assert!(commands.iter().any(|command| command.method == Method::StaticDrift), "{commands:?}");
    assert_eq!(verify_commands(&snapshot, &Policy::default(), &commands), Vec::new());
}

#[test]
fn pods_that_may_come_elsewhere_excuse_an_uneven_spread() {
    let web = |name: &str| pod(name).app("web").spread(spread(ZONE, 1, &[("app", "web")]));
    let mut world = world().pod(web("one")).pod(web("two")).build();
    let name = format!("{}/{}", world.pods[0].namespace, world.pods[0].name);
    assert!(spreads_with(&world, &name, &[1]));
    assert!(!spreads_with(&world, &name, &[]), "nobody else waits");
    Arc::make_mut(&mut world.pods[1].shape).labels = Default::default();
    assert!(!spreads_with(&world, &name, &[1]), "another workload");
}

#[test]
fn what_starts_is_judged_in_the_cluster_as_it_is_by_then() {
    type Meanwhile = fn(&mut World, &mut Vec<NodeFacts>, &mut PoolFacts);
    let table: [(&str, Meanwhile); 6] = [
        ("", |_, _, _| {}),
        ("is not there", |world, facts, _| {
            world.nodes.clear();
            facts.clear();
        }),
        ("nominated", |_, facts, _| facts.iter_mut().for_each(|node| node.nominated = true)),
        ("is going already", |_, facts, _| facts.iter_mut().for_each(|node| node.in_queue = true)),
        ("paused", |_, _, pool| pool.paused = true),
        ("loses", |_, _, pool| pool.budgets[0].nodes = "0".into()),
    ];
    for (want, change) in table {
        let (decided, types) = two_nodes();
        let pools = BTreeMap::from([(Arc::from("default"), facts(&types))]);
        let snapshot = Snapshot { world: &decided, nodes: vec![NodeFacts::default(); 2], pools };
        let commands = propose(&snapshot, &Policy::default()).commands;
        assert!(!commands.is_empty());
        let (mut world, mut nodes, mut pool) = (decided.clone(), snapshot.nodes.clone(), facts(&types));
        // Positions are others by now.
        world.nodes.reverse();
        change(&mut world, &mut nodes, &mut pool);
        let now = Snapshot { world: &world, nodes, pools: BTreeMap::from([(Arc::from("default"), pool)]) };
        let found: Vec<String> =
            verify_start(&now, &Policy::default(), &commands).into_iter().map(|fault| fault.what).collect();
        assert_eq!(found.is_empty(), want.is_empty(), "{want}: {found:?}");
        assert!(want.is_empty() || found.iter().any(|what| what.contains(want)), "{want}: {found:?}");
    }
}

#[test]
fn budgets_are_read_as_the_reference_reads_them() {
    let now: jiff::Timestamp = "2026-01-02T00:00:00Z".parse().unwrap(); // A Friday.
    let budget = |schedule: &str, hours: u64| Budget {
        reasons: None,
        nodes: "10%".into(),
        schedule: Some(schedule.into()),
        duration: Some(Duration::from_secs(hours * 3600)),
    };
    for (schedule, hours, want) in [
        ("@daily", 1, 2),
        ("0 20 * * *", 8, 2),
        ("0 20 * * *", 4, usize::MAX),
        ("0 0 1 * *", 48, 2),
        ("30 9 * * mon-fri", 1, usize::MAX),
        ("0 */6 */2 * fri", 1, 2),
        ("nonsense", 1, 0),
    ] {
        assert_eq!(allowed_disruptions(&[budget(schedule, hours)], 11, "Empty", now), want, "{schedule} {hours}");
    }
}
