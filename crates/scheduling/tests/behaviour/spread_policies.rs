//! nodeAffinityPolicy and nodeTaintsPolicy: which nodes and domains a spread looks at.

use karpenter_core::labels::ZONE;
use karpenter_core::pod::{NodePolicy, Spread};
use karpenter_core::taints::{Effect, TolerationOperator};
use karpenter_testkit::express::{is_in, spread};
use karpenter_testkit::{PodBuilder, WorldBuilder, pod, world};

use crate::seen::{WEB, full_node, roomy_in, roomy_pool, seen};

fn web() -> PodBuilder {
    pod("web").app("web")
}

fn looking(affinity: NodePolicy, taints: NodePolicy) -> Spread {
    Spread { node_affinity: affinity, node_taints: taints, ..spread(ZONE, 1, WEB) }
}

use NodePolicy::{Honor, Ignore};

/// Two zones, a node in each with a label; a web pod runs in zone 1.
fn labelled(team_of_first: &str) -> WorldBuilder {
    let pool = roomy_pool("default").types(roomy_in(&["1", "2"])).label("team", "red");
    let start = world().pool(pool).node(full_node("a", "1").label("team", team_of_first));
    start.node(full_node("b", "2").label("team", "red")).pod(pod("running").app("web").on("a"))
}

#[test]
fn nodes_the_owner_cannot_use_count_only_where_affinity_is_ignored() {
    // covers: SCH-TOPO-25
    for (policy, team, want) in
        [(Honor, "red", "2=1"), (Honor, "blue", "1=1"), (Ignore, "blue", "2=1"), (Ignore, "red", "2=1")]
    {
        let selecting = web().select("team", "red").spread(looking(policy, Ignore));
        assert_eq!(seen(labelled(team).pod(selecting)).zones_of("web"), want, "{policy:?}, node of {team}");
        let requiring = web().require(vec![is_in("team", &["red"])]).spread(looking(policy, Ignore));
        assert_eq!(seen(labelled(team).pod(requiring)).zones_of("web"), want, "{policy:?}, node of {team}");
    }
}

#[test]
fn any_required_alternative_makes_a_node_count() {
    // covers: SCH-TOPO-25
    let either = |teams: [&str; 2]| {
        let pod = web().require(vec![is_in("team", &["red"])]).require(vec![is_in("team", &[teams[1]])]);
        pod.spread(looking(Honor, Ignore))
    };
    assert_eq!(seen(labelled("green").pod(either(["red", "green"]))).zones_of("web"), "2=1");
    assert_eq!(seen(labelled("green").pod(either(["red", "blue"]))).zones_of("web"), "1=1");
}

#[test]
fn domains_of_nodes_the_owner_cannot_use_count_only_where_affinity_is_ignored() {
    // covers: SCH-TOPO-04, SCH-TOPO-25
    let start = || {
        let pool = roomy_pool("default").types(roomy_in(&["1"])).label("team", "red");
        world().pool(pool).node(full_node("old", "9").label("team", "blue"))
    };
    for (policy, want) in [(Honor, "1=3"), (Ignore, "1=1")] {
        let pods = web().select("team", "red").spread(looking(policy, Ignore)).replicas(3);
        assert_eq!(seen(start().pods(pods)).zones(), want, "{policy:?}");
    }
}

#[test]
fn tainted_nodes_count_unless_taints_are_honoured() {
    // covers: SCH-TOPO-26
    let start = |effect| {
        let start = world().pool(roomy_pool("default").types(roomy_in(&["1", "2"])));
        let start = start.node(full_node("a", "1").taint_of("gpu", "yes", effect)).node(full_node("b", "2"));
        start.pod(pod("running").app("web").on("a"))
    };
    for effect in [Effect::NoSchedule, Effect::NoExecute, Effect::PreferNoSchedule] {
        for (policy, tolerates, want) in
            [(Ignore, false, "2=1"), (Honor, false, "1=1"), (Honor, true, "2=1"), (Ignore, true, "2=1")]
        {
            let mut pod = web().spread(looking(Honor, policy));
            if tolerates {
                pod = pod.toleration("gpu", TolerationOperator::Equal, "yes", None);
            }
            assert_eq!(seen(start(effect).pod(pod)).zones_of("web"), want, "{effect:?} {policy:?} {tolerates}");
        }
    }
}

#[test]
fn domains_behind_taints_are_left_out_where_taints_are_honoured() {
    // covers: SCH-TOPO-06, SCH-TOPO-26
    let open = || roomy_pool("open").types(roomy_in(&["1", "2"]));
    let closed = || roomy_pool("closed").types(roomy_in(&["3"])).taint("closed");
    let pods = |policy| web().spread(looking(Honor, policy)).replicas(5);
    let start = || world().pool(open()).pool(closed());
    assert_eq!(seen(start().pods(pods(Ignore))).zones(), "1=1 2=1");
    assert_eq!(seen(start().pods(pods(Honor))).zones(), "1=3 2=2");
    let tolerating = web().tolerate("closed").spread(looking(Honor, Honor)).replicas(5);
    assert_eq!(seen(start().pods(tolerating)).zones(), "1=2 2=2 3=1");
    // Somewhere the zone can be had without taints, so it is a domain, if a full one.
    let also = roomy_pool("also").types(roomy_in(&["3"])).limit("nodes", "0");
    assert_eq!(seen(start().pool(also).pods(pods(Honor))).zones(), "1=1 2=1");
}

#[test]
fn tainted_nodes_add_no_domain_where_taints_are_honoured() {
    // covers: SCH-TOPO-04, SCH-TOPO-26
    let start = || world().pool(roomy_pool("default").types(roomy_in(&["1"]))).node(full_node("old", "9").taint("gpu"));
    for (policy, want) in [(Ignore, "1=1"), (Honor, "1=3")] {
        assert_eq!(seen(start().replicas(3, web().spread(looking(Honor, policy)))).zones(), want, "{policy:?}");
    }
}

#[test]
fn placements_behind_taints_are_not_counted_where_taints_are_honoured() {
    // covers: SCH-TOPO-13, SCH-TOPO-26
    let tainted = roomy_pool("tainted").require(is_in(ZONE, &["test-zone-1"])).taint("gpu").label("gpu", "yes");
    let start = || world().pool(tainted.clone()).pool(roomy_pool("default").types(roomy_in(&["1", "2"])));
    let first = || pod("large").app("web").cpu("4").select("gpu", "yes").tolerate("gpu");
    for (policy, want) in [(Ignore, "2=1"), (Honor, "1=1")] {
        assert_eq!(seen(start().pod(first()).pod(web().spread(looking(Honor, policy)))).zones_of("web"), want);
    }
}

#[test]
fn workloads_of_exclusive_pools_are_each_balanced_over_what_they_reach() {
    // covers: SCH-TOPO-27
    // Nodes of the other pool are behind a taint, so a workload counts its own pods in the shared domain.
    let pool = |name: &str, racks: &[&str]| {
        roomy_pool(name).taint_of("only", name, Effect::NoSchedule).require(is_in("rack", racks))
    };
    let of = |name: &str| {
        let pod = pod(name).app("web").toleration("only", TolerationOperator::Equal, name, None);
        pod.spread(Spread { topology_key: "rack".into(), ..looking(Honor, Honor) })
    };
    let start = world().pool(pool("one", &["foo", "bar"])).pool(pool("two", &["foo", "baz"]));
    let seen = seen(start.replicas(2, of("one")).replicas(4, of("two")));
    assert_eq!((seen.per("rack", "one").as_str(), seen.per("rack", "two").as_str()), ("bar=1 foo=1", "baz=2 foo=2"));
    assert_eq!((seen.per("rack", "").as_str(), seen.left().as_str()), ("bar=1 baz=2 foo=3", ""));
}

#[test]
fn pods_on_nodes_the_owner_cannot_use_make_no_domain_known() {
    // covers: SCH-TOPO-09, SCH-TOPO-25, SCH-TOPO-26
    let start = |node: karpenter_testkit::NodeBuilder| {
        let pool = roomy_pool("default").types(roomy_in(&["1"])).label("team", "red");
        world().pool(pool).node(node).pod(pod("running").app("web").on("old"))
    };
    let other_team = full_node("old", "9").label("team", "blue");
    let tainted = full_node("old", "9").label("team", "red").taint("gpu");
    let usable = full_node("old", "9").label("team", "red");
    for (node, want) in [(other_team, "1=4"), (tainted, "1=4"), (usable, "1=2")] {
        let pods = web().select("team", "red").spread(looking(Honor, Honor)).replicas(4);
        assert_eq!(seen(start(node).pods(pods)).zones(), want);
    }
}
