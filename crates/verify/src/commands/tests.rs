use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_core::labels::ON_DEMAND;
use karpenter_disruption::{Budget, Command, NodeFacts, Policy, PoolFacts, Snapshot, propose};
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
        assert_eq!(budgets::allowed_for_test(&[budget(schedule, hours)], 11, now), want, "{schedule} {hours}");
    }
}
