//! Who must be in the plan, and where.

use karpenter_core::plan::{LeftOver, Reason};
use karpenter_core::pod::Phase;
use karpenter_core::storage::BindingMode;
use karpenter_core::world::DisruptionBudget;
use karpenter_testkit::express::{is_absent, is_in, selecting};
use karpenter_testkit::{PodBuilder, node, pod, world};

use super::{catalogue, draft};
use crate::{Violation, verify};

fn lost(name: &str) -> Violation {
    Violation::Lost { pod: format!("default/{name}") }
}

#[test]
fn every_waiting_pod_is_listed_once() {
    let two = || world().pool(catalogue()).replicas(2, pod("web").cpu("500m"));
    draft(two()).fresh(&["web-0", "web-1"]).sound();
    draft(two()).fresh(&["web-0"]).breaks(lost("web-1"));
    let places = vec!["new-0".to_owned(), "left over".to_owned()];
    let mut twice = draft(two()).fresh(&["web-0", "web-1"]);
    let (reason, nearest_miss) = (Reason::ReservedCapacityDeferred, None);
    twice.plan.left_over.push(LeftOver { pod: 1, reason, nearest_miss });
    twice.breaks(Violation::ListedTwice { pod: "default/web-1".to_owned(), places });
}

#[test]
fn positions_must_exist() {
    let mut wrong = draft(world().pool(catalogue()).pod(pod("web"))).fresh(&["web"]);
    wrong.plan.new_nodes[0].pods.push(7);
    wrong.plan.existing.insert(3, vec![]);
    let place = |name: &str, position| Violation::UnknownPosition { place: name.to_owned(), position };
    let found = verify(&wrong.world, &wrong.plan);
    assert_eq!(found, [place("pods of new-0", 7), place("existing nodes", 3)]);
}

#[test]
fn only_unschedulable_pods_that_belong_to_nobody_wait() {
    let rows: Vec<(&str, PodBuilder, bool)> = vec![
        ("plain", pod("p"), true),
        ("gated", pod("p").scheduled_reason(Some("SchedulingGated")), false),
        ("never tried", pod("p").scheduled_reason(None), false),
        ("running", pod("p").on("stays"), false),
        ("daemon", pod("p").daemon_of("logs"), false),
        ("static", pod("p").owned_by("v1", "Node", "stays"), false),
        ("being deleted", pod("p").terminating(), true),
        ("nominated to a node", pod("p").nominated("stays"), false),
        ("nominated to nowhere", pod("p").nominated("gone"), true),
        ("nominated to a leaving node", pod("p").nominated("leaves"), true),
        ("nominated to a starting node", pod("p").nominated("starts"), true),
    ];
    for (why, pod, waits) in rows {
        let starting = node("starts").of_pool("default").stage(karpenter_core::node::Stage::Registered);
        let nodes = world().node(node("stays")).node(node("leaves").deleting()).node(starting);
        let it = draft(nodes.pool(catalogue()).pod(pod));
        let expected = if waits { vec![lost("p")] } else { vec![] };
        assert_eq!(verify(&it.world, &it.plan), expected, "{why}");
    }
}

#[test]
fn a_pod_that_does_not_wait_is_not_placed() {
    let it = draft(world().pool(catalogue()).node(node("n")).pod(pod("web").on("n"))).fresh(&["web"]);
    let (pod, place) = ("default/web".to_owned(), "new-0".to_owned());
    it.breaks(Violation::NotWaiting { pod, place });
}

#[test]
fn pods_of_leaving_nodes_move_unless_protected() {
    let budget = |never_allows, always_allows_unready| DisruptionBudget {
        namespace: "default".into(),
        name: "b".into(),
        selector: Some(selecting(&[("app", "web")])),
        never_allows,
        disruptions_allowed: 1,
        always_allows_unready,
    };
    let web = || pod("p").app("web").on("leaves");
    let rows: Vec<(&str, PodBuilder, Vec<DisruptionBudget>, bool)> = vec![
        ("plain", web(), vec![], true),
        ("done", web().phase(Phase::Succeeded), vec![], false),
        ("terminating", web().terminating(), vec![], false),
        ("terminating, comes back", web().terminating().owned_by("apps/v1", "StatefulSet", "s"), vec![], true),
        ("daemon", web().daemon_of("d"), vec![], false),
        ("protected", web().do_not_disrupt("true"), vec![], false),
        ("protected for long", web().do_not_disrupt("48h").started("2026-01-01T00:00:00Z"), vec![], false),
        ("protected long ago", web().do_not_disrupt("1h30m").started("2026-01-01T00:00:00Z"), vec![], true),
        ("protected, not started", web().do_not_disrupt("1h"), vec![], false),
        ("nonsense", web().do_not_disrupt("soon"), vec![], true),
        ("with a fraction", web().do_not_disrupt("1.5h"), vec![], false),
        ("with nothing but a fraction", web().do_not_disrupt(".5h"), vec![], false),
        ("milliseconds", web().do_not_disrupt("500ms"), vec![], false),
        ("no number", web().do_not_disrupt("h"), vec![], true),
        ("only a point", web().do_not_disrupt(".h"), vec![], true),
        ("no unit", web().do_not_disrupt("90"), vec![], true),
        ("unknown unit", web().do_not_disrupt("1d"), vec![], true),
        ("no time at all", web().do_not_disrupt("0s"), vec![], true),
        ("nothing", web().do_not_disrupt(""), vec![], true),
        ("until just now", web().do_not_disrupt("24h").started("2026-01-01T00:00:00Z"), vec![], true),
        ("budget allows", web(), vec![budget(false, false)], true),
        ("budget never allows", web(), vec![budget(true, false)], false),
        ("budget allows unready", web().unready(), vec![budget(true, true)], true),
        ("two budgets", web(), vec![budget(false, false), budget(false, false)], false),
        ("not evictable", web().tolerate("karpenter.sh/disrupted"), vec![budget(true, false)], true),
    ];
    for (why, pod, budgets, moves) in rows {
        let mut here = world().node(node("stays")).node(node("leaves").deleting()).pool(catalogue()).pod(pod);
        here.0.disruption_budgets = budgets;
        let it = draft(here);
        let expected = if moves { vec![lost("p")] } else { vec![] };
        assert_eq!(verify(&it.world, &it.plan), expected, "{why}");
    }
}

#[test]
fn invalid_pods_are_ignored_and_valid_ones_are_not() {
    let rows: Vec<(&str, PodBuilder, bool)> = vec![
        ("plain", pod("p"), true),
        ("selects a zone", pod("p").zone("test-zone-1"), true),
        ("selects a host", pod("p").select("kubernetes.io/hostname", "x"), false),
        ("restricted domain", pod("p").select("karpenter.sh/registered", "true"), false),
        ("below a restricted domain", pod("p").require(vec![is_in("x.karpenter.sh/y", &["z"])]), false),
        ("second term is bad", pod("p").require(vec![]).require(vec![is_in("team", &[])]), false),
        ("unknown capacity type", pod("p").select("karpenter.sh/capacity-type", "free"), false),
        ("no value", pod("p").select("team", "not a value"), false),
        ("negative bound", pod("p").require(vec![karpenter_testkit::express::at_least("cpus", -1)]), false),
        ("avoids us", pod("p").require(vec![is_absent("karpenter.sh/nodepool")]), false),
        ("wants devices", pod("p").wants_devices(), false),
        ("no such claim", pod("p").claim("nowhere"), false),
        ("bound claim", pod("p").claim("bound"), true),
        ("waits for its pod", pod("p").claim("waiting"), true),
        ("waits for others", pod("p").claim("immediate"), false),
    ];
    for (why, pod, valid) in rows {
        let here = || {
            let storage = world()
                .zonal_claim("bound", "test-zone-1")
                .storage_class("late", BindingMode::WaitForFirstConsumer, &[])
                .storage_class("early", BindingMode::Immediate, &[])
                .waiting_claim("waiting", "late")
                .waiting_claim("immediate", "early");
            storage.pod(pod.clone())
        };
        let ignored = draft(here()).ignored(&["p"]);
        let it = Violation::IgnoredThoughValid { pod: "default/p".to_owned() };
        assert_eq!(verify(&ignored.world, &ignored.plan), if valid { vec![it] } else { vec![] }, "{why}");
        let placed = draft(here().node(node("n").zone("test-zone-1"))).on("n", &["p"]);
        let refused = |v: &Violation| matches!(v, Violation::PlacedThoughInvalid { .. });
        assert_eq!(verify(&placed.world, &placed.plan).iter().any(refused), !valid, "{why}");
    }
}

#[test]
fn claims_must_be_in_order() {
    let claim = |change: fn(&mut karpenter_core::storage::VolumeClaim)| {
        let mut here = world().zonal_claim("c", "test-zone-1").pod(pod("p").claim("c"));
        here.0.storage.claims.values_mut().for_each(change);
        draft(here).ignored(&["p"])
    };
    claim(|c| c.terminating = true).sound();
    claim(|c| c.lost = true).sound();
    claim(|c| c.bind_completed = false).sound();
    claim(|c| c.volume = Some("gone".into())).sound();
    claim(|_| ()).breaks(Violation::IgnoredThoughValid { pod: "default/p".to_owned() });
}
