use std::sync::Arc;

use karpenter_core::Node;
use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::node::Stage;
use karpenter_core::pod::Phase;
use karpenter_core::world::DisruptionBudget;
use karpenter_testkit::express::{at_least, at_most, exists, is_absent, is_in, not_in, selecting};
use karpenter_testkit::{NodeBuilder, PodBuilder, node, pod, world};

use super::*;

fn named(nodes: &[Node]) -> FxHashMap<&str, &Node> {
    nodes.iter().map(|node| (&*node.name, node)).collect()
}

fn provisionable(pod: PodBuilder, nodes: Vec<NodeBuilder>) -> bool {
    let nodes: Vec<Node> = nodes.into_iter().map(|node| node.0).collect();
    is_provisionable(&pod.build(), &named(&nodes))
}

#[test]
fn a_pod_waits_when_the_scheduler_found_it_no_node() {
    // covers: SCH-POD-01, SCH-POD-02, SCH-POD-03
    for (pod, want, why) in [
        (pod("p"), true, "unschedulable"),
        (pod("p").scheduled_reason(None), false, "not looked at yet"),
        (pod("p").scheduled_reason(Some("SchedulingGated")), false, "gated"),
        (pod("p").scheduled_reason(Some("unschedulable")), false, "another scheduler's word"),
        (pod("p").on("n").scheduled_reason(Some("Unschedulable")), false, "bound"),
        (pod("p").daemon_of("d"), false, "a daemon"),
        (pod("p").owned_by("v1", "Node", "n"), false, "a static pod"),
        (pod("p").owned_by("extensions/v1beta1", "DaemonSet", "d"), true, "owned by something else of that name"),
        (pod("p").owned_by("apps/v1", "ReplicaSet", "r"), true, "owned by a ReplicaSet"),
        (pod("p").terminating(), true, "going"),
        (pod("p").phase(Phase::Running), true, "in another phase"),
        (pod("p").priority(-100), true, "of low priority"),
    ] {
        assert_eq!(provisionable(pod, vec![]), want, "{why}");
    }
}

#[test]
fn a_nomination_hides_a_pod_unless_the_node_is_going_or_still_coming() {
    // covers: SCH-POD-04
    let nominated = || pod("p").nominated("n");
    for (nodes, want, why) in [
        (vec![node("n")], false, "preempting on a node that is there"),
        (vec![node("n").of_pool("default")], false, "preempting on one of ours"),
        (vec![node("n").deleting()], true, "the node is going"),
        (vec![node("n").of_pool("default").stage(Stage::Registered)], true, "the node is still starting"),
        (vec![node("n").of_pool("default").stage(Stage::Launched)], true, "the node is not there yet"),
    ] {
        assert_eq!(provisionable(nominated(), nodes), want, "{why}");
    }
}

#[test]
fn who_needs_another_place_when_the_node_goes() {
    // covers: SCH-POD-06, SCH-POD-07
    let running = || pod("p").on("n");
    for (pod, want, why) in [
        (running(), true, "active"),
        (running().phase(Phase::Pending), true, "bound and starting"),
        (running().phase(Phase::Succeeded), false, "done"),
        (running().phase(Phase::Failed), false, "failed"),
        (running().terminating(), false, "going"),
        (running().terminating().owned_by("apps/v1", "ReplicaSet", "r"), false, "replaced already"),
        (running().terminating().owned_by("apps/v1", "StatefulSet", "s"), true, "its successor waits for it"),
        (running().owned_by("apps/v1", "StatefulSet", "s").terminating().phase(Phase::Failed), false, "and done"),
        (running().daemon_of("d"), false, "a daemon"),
        (running().owned_by("v1", "Node", "n"), false, "a static pod"),
    ] {
        assert_eq!(is_reschedulable(&pod.build()), want, "{why}");
    }
}

#[test]
fn protection_from_disruption() {
    // covers: SCH-POD-08, SCH-POD-09
    let now = world().build(); // 2026-01-02T00:00:00Z
    let with = |value: &str| pod("p").on("n").do_not_disrupt(value);
    for (pod, want, why) in [
        (pod("p").on("n"), false, "nothing is said"),
        (with("true"), true, "for good"),
        (with("false"), false, "anything else is ignored"),
        (with("1h"), true, "not started yet"),
        (with("1h").started("2026-01-01T23:00:01Z"), true, "within the hour"),
        (with("1h").started("2026-01-01T23:00:00Z"), false, "the hour is over"),
        (with("0s"), false, "not positive"),
        (with("-1h"), false, "negative"),
        (with("true").terminating(), false, "going anyway"),
        (with("true").phase(Phase::Succeeded), false, "done anyway"),
    ] {
        assert_eq!(is_protected(&pod.build(), &now), want, "{why}");
    }
}

fn budget(name: &str, never_allows: bool) -> DisruptionBudget {
    DisruptionBudget {
        namespace: "default".into(),
        name: name.into(),
        selector: Some(selecting(&[("app", "web")])),
        never_allows,
        disruptions_allowed: 0,
        always_allows_unready: false,
    }
}

#[test]
fn budgets_that_can_never_allow_an_eviction_block_it() {
    // covers: SCH-POD-08, SCH-POD-10, SCH-POD-11
    let web = || pod("p").app("web").on("n");
    let unready = || DisruptionBudget { always_allows_unready: true, ..budget("a", true) };
    for (budgets, pod, want, why) in [
        (vec![], web(), false, "no budget"),
        (vec![budget("a", true)], web(), true, "never"),
        (vec![budget("a", false)], web(), false, "sometimes"),
        (vec![budget("a", false), budget("b", false)], web(), true, "more than one budget"),
        (vec![budget("a", true)], pod("p").app("other").on("n"), false, "not selected"),
        (vec![budget("a", true)], web().namespace("other"), false, "of another namespace"),
        (vec![DisruptionBudget { selector: None, ..budget("a", true) }], web(), false, "selects nobody"),
        (vec![unready()], web(), true, "ready"),
        (vec![unready()], web().unready(), false, "unready, which it allows"),
        (vec![budget("a", true)], web().unready(), true, "unready, which it does not allow"),
        (vec![budget("a", true)], web().tolerate("karpenter.sh/disrupted"), false, "it would not be evicted"),
        (vec![budget("a", true)], web().owned_by("v1", "Node", "n"), false, "a static pod"),
        (vec![budget("a", true)], web().do_not_disrupt("true"), false, "protected otherwise"),
        (vec![budget("a", true)], web().terminating(), false, "going anyway"),
    ] {
        let world = budgets.into_iter().fold(world(), |world, budget| world.disruption_budget(budget)).build();
        assert_eq!(is_blocked(&pod.build(), &world), want, "{why}");
    }
}

#[test]
fn the_pods_of_a_pass() {
    // covers: SCH-POD-05, SCH-POD-08, SCH-POD-12
    let world = world()
        .node(node("here"))
        .node(node("leaving").deleting())
        .disruption_budget(budget("a", true))
        .pod(pod("waits"))
        .pod(pod("runs").on("here"))
        .pod(pod("moves").on("leaving"))
        .pod(pod("protected").on("leaving").do_not_disrupt("true"))
        .pod(pod("blocked").app("web").on("leaving"))
        .pod(pod("daemon").daemon_of("d").on("leaving"))
        .pod(pod("gone").on("no-such-node"))
        .pod(pod("invalid").select(HOSTNAME, "x"))
        .pod(pod("last"))
        .build();
    let admitted = admit(&world);
    let names = |pods: &[usize]| pods.iter().map(|pod| world.pods[*pod].name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&admitted.pods), ["waits", "moves", "last"]);
    let ignored: Vec<usize> = admitted.ignored.iter().map(|left| left.pod).collect();
    assert_eq!(names(&ignored), ["invalid"]);
}

#[test]
fn expressions_kubernetes_or_we_would_refuse() {
    // covers: SCH-POD-13, SCH-REQ-35, SCH-REQ-36, SCH-REQ-37
    let words = world().build().vocabulary;
    let long = "x".repeat(64);
    for (expression, fault) in [
        (is_in("team", &["a"]), None),
        (not_in("team", &[]), None),
        (exists("example.com/team"), None),
        (is_absent("kubernetes.io/anything"), None),
        (is_in("team", &[""]), None),
        (is_in("team", &[]), Some("needs values")),
        (is_in("-team", &["a"]), Some("is not a label key")),
        (is_in("a/b/c", &["a"]), Some("is not a label key")),
        (is_in("team", &["a b"]), Some("is not a value")),
        (is_in("team", &["a", &long]), Some("is not a value")),
        (exists(HOSTNAME), Some("restricted")),
        (exists("karpenter.sh/custom"), Some("restricted")),
        (exists("sub.karpenter.sh/custom"), Some("restricted")),
        (exists(NODEPOOL), None),
        (at_least("tier", 0), None),
        (at_least("tier", -1), Some("is not a value")),
        (at_most("tier", -1), Some("is not a value")),
        (Expression::new("tier", Operator::Gt, &["1", "2"]), Some("whole number")),
        (Expression::new("tier", Operator::Lt, &[]), Some("whole number")),
        (Expression::new("tier", Operator::Lt, &["x"]), Some("whole number")),
        (Expression::new("tier", Operator::Gt, &["7"]), None),
        (is_in(CAPACITY_TYPE, &["spot"]), None),
        (is_in(CAPACITY_TYPE, &["spot", "unheard-of"]), None),
        (is_in(CAPACITY_TYPE, &["unheard-of"]), Some("at least one of reserved, spot, on-demand")),
        (not_in(CAPACITY_TYPE, &["unheard-of"]), None),
        (is_in("failure-domain.beta.kubernetes.io/zone", &["a"]), None),
    ] {
        let found = expression_fault(&expression, &words);
        assert_eq!(found.is_some(), fault.is_some(), "{expression:?}: {found:?}");
        if let (Some(found), Some(part)) = (found, fault) {
            assert!(found.contains(part), "{found}");
        }
    }
}

fn refused(pod: PodBuilder) -> Option<String> {
    let world = world().pod(pod).build();
    admit(&world).ignored.into_iter().next().map(|left| match left.reason {
        Reason::Invalid { message } => message,
        other => format!("{other:?}"),
    })
}

#[test]
fn every_term_is_looked_at_and_the_fault_is_named() {
    // covers: SCH-POD-12, SCH-POD-13, SCH-POD-14
    assert_eq!(refused(pod("p").zone("a").require(vec![exists(ZONE)]).prefer(1, vec![exists(HOSTNAME)])), None);
    let selector = refused(pod("p").select("karpenter.sh/x", "y")).unwrap();
    assert!(selector.starts_with("spec.nodeSelector: ") && selector.contains("karpenter.sh/x"), "{selector}");
    let second = refused(pod("p").require(vec![exists(ZONE)]).require(vec![exists(ZONE), exists(HOSTNAME)])).unwrap();
    assert!(second.contains("nodeSelectorTerms[1]") && second.contains(HOSTNAME), "{second}");
    let mut fields = pod("p").require(vec![exists(ZONE)]);
    fields.shape.required_node_affinity[0].has_match_fields = true;
    assert!(refused(fields).unwrap().contains("matchFields"));
    let mut operator = pod("p").require(vec![exists(ZONE)]);
    operator.shape.required_node_affinity[0].unknown_operator = Some("zone Near".into());
    assert!(refused(operator).unwrap().contains("zone Near"));
}

#[test]
fn who_avoids_managed_nodes_is_no_fault() {
    // covers: SCH-POD-15, SCH-GAP-03
    let avoiding = Some(format!("{:?}", Reason::AvoidsManagedNodes));
    assert_eq!(refused(pod("p").require(vec![is_absent(NODEPOOL)])), avoiding);
    assert_eq!(refused(pod("p").select(NODEPOOL, "a").require(vec![is_in(NODEPOOL, &["b"])])), avoiding);
    assert_eq!(refused(pod("p").require(vec![exists(ZONE)]).require(vec![is_absent(NODEPOOL)])), None);
    assert_eq!(refused(pod("p").prefer(1, vec![is_absent(NODEPOOL)])), None);
    assert_eq!(refused(pod("p").require(vec![not_in(NODEPOOL, &["a"])])), None);
}

#[test]
fn pods_of_one_shape_are_judged_alike_and_volumes_one_by_one() {
    // covers: SCH-POD-12, SCH-POD-17
    let mut replicas = pod("p").select(HOSTNAME, "x").replicas(3);
    replicas.push(pod("q").build());
    let world_of = |pods: Vec<karpenter_core::Pod>| world().pods(pods).zonal_claim("data", "z").build();
    assert_eq!(admit(&world_of(replicas)).ignored.len(), 3);
    let mut with_claims = pod("p").claim("data").replicas(2);
    with_claims[1].claims = Arc::new(["missing".into()]);
    let admitted = admit(&world_of(with_claims));
    assert_eq!((admitted.pods, admitted.ignored.len()), (vec![0], 1));
}
