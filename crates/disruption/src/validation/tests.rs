//! What validation makes of commands that were decided together.

use crate::{Budget, NodeFacts, PoolFacts, propose};
use karpenter_core::labels::{CAPACITY_TYPE, ON_DEMAND};
use karpenter_core::{InstanceType, World};
use karpenter_testkit::express::is_in;
use karpenter_testkit::fake::{instance_type, sold};
use karpenter_testkit::{node, pod, pool, world};

use super::*;

const TEAM: &str = "team";
const ZONE: &str = "test-zone-1";

fn kinds() -> Arc<[Arc<InstanceType>]> {
    let kind = |name: &str, cpu: u64| {
        let of = instance_type(name).cpu(&cpu.to_string()).memory(&format!("{}Gi", 4 * cpu)).pods("110");
        Arc::new(of.offerings(vec![sold(ZONE, ON_DEMAND).at(cpu * 10_000)]).build())
    };
    [kind("small", 2), kind("medium", 4), kind("large", 8)].into()
}

/// Three large nodes whose pods would fit on a medium one, and another team's large node with a pod for a small one.
fn cluster(types: &Arc<[Arc<InstanceType>]>) -> World {
    let mut built = world();
    for (name, team) in [("ours", "o"), ("theirs", "t")] {
        let of = pool(name).label(TEAM, team).shared_types(types).require(is_in(CAPACITY_TYPE, &[ON_DEMAND]));
        built = built.pool(of);
    }
    for (name, of_pool, team) in [("a", "ours", "o"), ("b", "ours", "o"), ("c", "ours", "o"), ("d", "theirs", "t")] {
        built = built.node(node(name).of_pool(of_pool).of_type(&types[2], ZONE, ON_DEMAND).label(TEAM, team));
        let runs = pod(&format!("on-{name}")).cpu("500m").memory("4500Mi").select(TEAM, team).on(name);
        built = built.pod(runs);
    }
    built.build()
}

fn snapshot<'w>(world: &'w World, types: &Arc<[Arc<InstanceType>]>, promised: &[&str]) -> Snapshot<'w> {
    let facts =
        PoolFacts { budgets: vec![Budget::always("100%")], instance_types: types.clone(), ..PoolFacts::default() };
    let of = |name: &str| NodeFacts { nominated: promised.contains(&name), ..NodeFacts::default() };
    let nodes = world.nodes.iter().map(|node| of(&node.name)).collect();
    Snapshot { world, nodes, pools: world.pools.iter().map(|pool| (pool.name.clone(), facts.clone())).collect() }
}

#[test]
fn a_set_of_which_one_node_goes_its_own_way_yields_nothing_and_others_go_on() {
    // covers: DIS-SIM-02, DIS-MULTI-09, DIS-VALID-02
    let types = kinds();
    let before = cluster(&types);
    let found = |promised: &[&str]| propose(&snapshot(&before, &types, promised), &Policy::default()).commands;
    let (together, alone) = (found(&["d"]), found(&["a", "b", "c"]));
    let commands = [together, alone].concat();
    let shown: Vec<(Method, usize, usize)> =
        commands.iter().map(|one| (one.method, one.candidates.len(), one.replacements.len())).collect();
    assert_eq!(shown, [(Method::Multi, 3, 1), (Method::Single, 1, 1)]);
    let names =
        |validated: &Validated| validated.held.iter().map(|name| name.to_string()).collect::<Vec<_>>().join(",");
    for (marked, want, refused) in [(None, "a,b,c", None), (Some("b"), "", Some(Refusal::Churn))] {
        let mut now = before.clone();
        now.nodes.iter_mut().for_each(|node| node.deleting = Some(&*node.name) == marked);
        let snapshot = snapshot(&now, &types, &[]);
        let mut validation = Validation::new(&snapshot, &Policy::default(), &commands);
        let validated = validation.validate(&commands[0]);
        assert_eq!((names(&validated).as_str(), &validated.refused), (want, &refused), "{marked:?}");
        let validated = validation.validate(&commands[1]);
        assert_eq!((names(&validated).as_str(), &validated.refused), ("d", &None), "{marked:?}");
    }
}

#[test]
fn a_node_that_was_promised_to_a_pod_stays() {
    // covers: STATE-24, DIS-VALID-02
    let types = kinds();
    let before = cluster(&types);
    let commands = propose(&snapshot(&before, &types, &["d"]), &Policy::default()).commands;
    assert_eq!(commands.iter().map(|one| one.candidates.len()).collect::<Vec<_>>(), [3]);
    let promised = snapshot(&before, &types, &["b"]);
    let validated = Validation::new(&promised, &Policy::default(), &commands).validate(&commands[0]);
    assert_eq!(validated, Validated { failed: 3, refused: Some(Refusal::Budget), ..Validated::default() });
    let all = snapshot(&before, &types, &["a", "b", "c", "d"]);
    assert!(propose(&all, &Policy::default()).commands.is_empty(), "nor is it found again");
}

#[test]
fn a_node_that_holds_a_buffer_goes_like_any_other_unless_it_is_empty() {
    // covers: SCH-BUF-24
    let types = kinds();
    let before = cluster(&types);
    let with_buffer = |world| {
        let mut snapshot = snapshot(world, &types, &[]);
        snapshot.nodes.iter_mut().for_each(|facts| facts.holds_buffer = true);
        snapshot
    };
    let snapshot = with_buffer(&before);
    let commands = propose(&snapshot, &Policy::default()).commands;
    assert_eq!(commands.iter().map(|one| one.candidates.len()).sum::<usize>(), 4);
    let mut validation = Validation::new(&snapshot, &Policy::default(), &commands);
    assert!(commands.iter().all(|command| validation.validate(command).refused.is_none()));
    let mut empty = before.clone();
    empty.pods.clear();
    assert!(propose(&with_buffer(&empty), &Policy::default()).commands.is_empty());
}

#[test]
fn a_command_that_was_refused_is_not_found_again_and_the_next_best_is() {
    let types = kinds();
    let before = cluster(&types);
    let snapshot = snapshot(&before, &types, &["d"]);
    let commands = propose(&snapshot, &Policy::default()).commands;
    let [first] = commands.as_slice() else { panic!("{commands:?}") };
    let refused = [crate::Refused::of(first)].into();
    let others = propose(&snapshot, &Policy { refused, ..Policy::default() }).commands;
    assert!(!others.is_empty() && others.iter().all(|other| crate::Refused::of(other) != crate::Refused::of(first)));
}

#[test]
fn a_command_places_pods_under_what_it_assumed() {
    let types = kinds();
    let before = cluster(&types);
    let snapshot = snapshot(&before, &types, &["d"]);
    let mut command = propose(&snapshot, &Policy::default()).commands.remove(0);
    // One of three: its pod fits on either of the others, unless those are known to go.
    command.candidates.truncate(1);
    let refusal =
        |command: &Command| Validation::new(&snapshot, &Policy::default(), [command]).validate(command).refused;
    assert_eq!(refusal(&command), Some(Refusal::Scheduling), "no new node is needed");
    command.assumes.closed = ["a", "b", "c"].map(Into::into).into();
    assert_eq!(refusal(&command), None);
}

/// A large node with a pod for a small one, and two empty ones; all of one pool, of which one node may go.
fn beside_empty_nodes(types: &Arc<[Arc<InstanceType>]>) -> World {
    let mut built = world().pool(pool("ours").shared_types(types).require(is_in(CAPACITY_TYPE, &[ON_DEMAND])));
    for name in ["a", "b", "c"] {
        built = built.node(node(name).of_pool("ours").of_type(&types[2], ZONE, ON_DEMAND));
    }
    built.pod(pod("on-a").cpu("1").on("a")).build()
}

fn with_budget<'w>(world: &'w World, types: &Arc<[Arc<InstanceType>]>, nodes: &str) -> Snapshot<'w> {
    let mut snapshot = snapshot(world, types, &[]);
    snapshot.pools.values_mut().for_each(|pool| pool.budgets = vec![Budget::always(nodes)]);
    snapshot
}

#[test]
fn empty_nodes_that_wait_for_a_budget_take_nobody() {
    // covers: DIS-VALID-02
    let types = kinds();
    let before = beside_empty_nodes(&types);
    let policy = Policy { ahead: Some(3), ..Policy::default() };
    let now = with_budget(&before, &types, "1");
    let commands = propose(&now, &policy).commands;
    let shown: Vec<(Method, usize, usize)> =
        commands.iter().map(|one| (one.method, one.candidates.len(), one.replacements.len())).collect();
    assert_eq!(shown, [(Method::Empty, 2, 0), (Method::Single, 1, 1)]);
    let mut validation = Validation::new(&now, &policy, &commands);
    let refused: Vec<Option<Refusal>> = commands.iter().map(|one| validation.validate(one).refused).collect();
    assert_eq!(refused, [None, Some(Refusal::Budget)], "it waits for the empty ones");
    // The empty ones wait among the commands of another pass.
    let alone = |world: &World| {
        let snapshot = with_budget(world, &types, "3");
        Validation::new(&snapshot, &policy, [&commands[1]]).validate(&commands[1]).refused
    };
    assert_eq!(alone(&before), None, "it carries along that they go");
    let mut filled = before.clone();
    filled.pods.push(pod("on-b").cpu("500m").on("b").build());
    assert_eq!(alone(&filled), Some(Refusal::Scheduling), "one of them stays: there is room");
}

#[test]
fn what_was_decided_beside_drifted_nodes_holds_beside_them() {
    let types = kinds();
    let mut before = beside_empty_nodes(&types);
    for name in ["b", "c"] {
        let node = before.nodes.iter_mut().find(|node| &*node.name == name).unwrap();
        node.labels.insert(TEAM.to_owned(), "t".to_owned());
    }
    // Only `b` is a place for the pod of `c`, which is drifted and would be one for the pod of `a`.
    before.pods.push(pod("on-b").cpu("7").on("b").build());
    before.pods.push(pod("on-c").cpu("250m").select(TEAM, "t").on("c").build());
    let mut now = snapshot(&before, &types, &[]);
    now.nodes[2].drifted = Some(crate::Drifted { reason: "NodePoolDrifted".into(), since: before.now });
    let commands = propose(&now, &Policy::default()).commands;
    let shown: Vec<(Method, usize, usize)> =
        commands.iter().map(|one| (one.method, one.candidates.len(), one.replacements.len())).collect();
    assert_eq!(shown, [(Method::Drift, 1, 0), (Method::Single, 1, 1)], "{commands:?}");
    let mut validation = Validation::new(&now, &Policy::default(), &commands);
    assert!(commands.iter().all(|command| validation.validate(command).refused.is_none()));
    let alone = Validation::new(&now, &Policy::default(), [&commands[1]]).validate(&commands[1]);
    assert_eq!(alone.refused, None, "though drift could not be started");
}
