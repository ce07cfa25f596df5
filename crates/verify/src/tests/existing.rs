//! Pods planned onto nodes that exist.

use karpenter_core::labels::ZONE;
use karpenter_core::taints::{Effect, TolerationOperator};
use karpenter_testkit::express::{at_least, at_most, exists, is_absent, is_in, node_term, not_in};
use karpenter_testkit::{PodBuilder, node, pod, world};

use super::draft;
use crate::{Violation, verify};

const NANO: i128 = 1_000_000_000;

fn overfull(resource: &str, wanted: i128, allocatable: i128) -> Violation {
    Violation::Overfull {
        node: "n".to_owned(),
        as_it_may_be: "it is".to_owned(),
        resource: resource.to_owned(),
        wanted,
        allocatable,
    }
}

#[test]
fn going_away_is_no_target() {
    let it = |n| draft(world().node(n).pod(pod("p"))).on("n", &["p"]);
    it(node("n")).sound();
    it(node("n").deleting()).breaks(Violation::OnDeletingNode { node: "n".to_owned() });
}

#[test]
fn room_is_what_running_pods_leave() {
    let it = |cpu: &str| {
        let running = world().node(node("n")).pod(pod("old").cpu("1").on("n"));
        let done = pod("done").cpu("4").on("n").phase(karpenter_core::pod::Phase::Failed);
        draft(running.pod(done).pod(pod("p").cpu(cpu))).on("n", &["p"])
    };
    it("3").sound();
    it("3001m").breaks(overfull("cpu", 4_001_000_000, 4 * NANO));
}

#[test]
fn a_node_short_of_something_else_takes_pods() {
    let mut short = draft(world().node(node("n").room("gpu", "1")).pod(pod("p").cpu("1"))).on("n", &["p"]);
    short.world.pods.push(pod("old").request("gpu", "2").on("n").build());
    short.sound();
}

#[test]
fn pods_are_counted_too() {
    let it = |count| {
        let names: Vec<String> = (0..count).map(|i| format!("p-{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        draft(world().node(node("n").room("pods", "2")).replicas(count, pod("p"))).on("n", &names)
    };
    it(2).sound();
    it(3).breaks(overfull("pods", 3 * NANO, 2 * NANO));
}

#[test]
fn daemons_still_to_come_keep_their_room() {
    let one = |daemon: PodBuilder, there: Option<PodBuilder>| {
        let mut here = world().node(node("n")).daemon_set(daemon).pod(pod("p").cpu("3500m"));
        if let Some(there) = there {
            here = here.pod(there.daemon_of("logs").on("n"));
        }
        draft(here).on("n", &["p"])
    };
    one(pod("logs").cpu("1"), None).breaks(overfull("cpu", 4_500_000_000, 4 * NANO));
    // Here already, and smaller than the template says: the pod that runs tells what the next one will be.
    one(pod("logs").cpu("1"), Some(pod("logs-1").cpu("500m"))).sound();
    one(pod("logs").cpu("1").zone("elsewhere"), None).sound();
    one(pod("logs").cpu("1").require(vec![is_in("team", &["x"])]).require(vec![is_absent("team")]), None)
        .breaks(overfull("cpu", 4_500_000_000, 4 * NANO));
    one(pod("logs").cpu("1").wants_devices(), None).sound();
    // A running pod is pinned to its node; the template says where the next one goes.
    let elsewhere = pod("logs-1").cpu("1").require(vec![exists("never")]);
    let mut pinned = one(pod("logs").cpu("1").require(vec![is_absent("never")]), None);
    pinned.world.pods.push(elsewhere.daemon_of("logs").on("gone").build());
    pinned.breaks(overfull("cpu", 4_500_000_000, 4 * NANO));
    // Somebody else's pod tells nothing about this set, and a pod of another kind of owner is no daemon.
    let mut others = one(pod("logs").cpu("1"), None);
    others.world.pods.push(pod("net-1").daemon_of("net").on("gone").build());
    others.breaks(overfull("cpu", 4_500_000_000, 4 * NANO));
    let mut set = one(pod("logs").cpu("400m"), None);
    set.world.pods.push(pod("s-0").cpu("200m").owned_by("apps/v1", "StatefulSet", "s").on("n").build());
    set.breaks(overfull("cpu", 4_100_000_000, 4 * NANO));
}

#[test]
fn a_daemon_that_came_unexpectedly_makes_no_room() {
    let here =
        world().node(node("n")).daemon_set(pod("logs").cpu("1").zone("elsewhere")).daemon_set(pod("net").cpu("1"));
    let it = here.pod(pod("logs-1").cpu("1").daemon_of("logs").on("n")).pod(pod("p").cpu("2"));
    // The daemon that is there counts against all that are to come, so nothing of `net` is left to wait for.
    draft(it).on("n", &["p"]).sound();
    let big = world().node(node("n")).pod(pod("logs-1").cpu("2").daemon_of("logs").on("n"));
    draft(big.pod(pod("p").cpu("3"))).on("n", &["p"]).breaks(overfull("cpu", 5 * NANO, 4 * NANO));
}

#[test]
fn taints_are_tolerated() {
    use TolerationOperator::{Equal, Exists, Gt, Lt};
    let rows: Vec<(PodBuilder, Effect, bool)> = vec![
        (pod("p"), Effect::NoSchedule, false),
        (pod("p"), Effect::NoExecute, false),
        (pod("p"), Effect::PreferNoSchedule, true),
        (pod("p").tolerate("team"), Effect::NoSchedule, true),
        (pod("p").tolerate("other"), Effect::NoSchedule, false),
        (pod("p").toleration("", Exists, "", None), Effect::NoSchedule, true),
        (pod("p").toleration("team", Equal, "5", None), Effect::NoSchedule, true),
        (pod("p").toleration("team", Equal, "6", None), Effect::NoSchedule, false),
        (pod("p").toleration("team", Exists, "", Some(Effect::NoExecute)), Effect::NoSchedule, false),
        (pod("p").toleration("team", Lt, "6", None), Effect::NoSchedule, true),
        (pod("p").toleration("team", Lt, "5", None), Effect::NoSchedule, false),
        (pod("p").toleration("team", Gt, "4", None), Effect::NoSchedule, true),
        (pod("p").toleration("team", Gt, "5", None), Effect::NoSchedule, false),
        (pod("p").toleration("team", Gt, "x", None), Effect::NoSchedule, false),
    ];
    for (pod, effect, fine) in rows {
        let why = format!("{:?} {effect:?}", pod.shape.tolerations);
        let it = draft(world().node(node("n").taint_of("team", "5", effect)).pod(pod)).on("n", &["p"]);
        let expected = Violation::Untolerated {
            pod: "default/p".to_owned(),
            node: "n".to_owned(),
            taint: format!("team=5:{}", effect.as_str()),
        };
        assert_eq!(verify(&it.world, &it.plan), if fine { vec![] } else { vec![expected] }, "{why}");
    }
}

#[test]
fn labels_are_selected_strictly() {
    let rows: Vec<(&str, PodBuilder, bool)> = vec![
        ("same zone", pod("p").zone("z1"), true),
        ("other zone", pod("p").zone("z2"), false),
        ("old spelling", pod("p").select("failure-domain.beta.kubernetes.io/zone", "z1"), true),
        ("no such label", pod("p").select("team", "x"), false),
        ("in", pod("p").require(vec![is_in(ZONE, &["z0", "z1"])]), true),
        ("not in", pod("p").require(vec![not_in(ZONE, &["z1"])]), false),
        ("not in, absent", pod("p").require(vec![not_in("team", &["x"])]), true),
        ("exists", pod("p").require(vec![exists("team")]), false),
        ("absent", pod("p").require(vec![is_absent("team")]), true),
        ("large enough", pod("p").require(vec![at_least("cpus", 4)]), true),
        ("not larger", pod("p").require(vec![at_least("cpus", 5)]), false),
        ("small enough", pod("p").require(vec![at_most("cpus", 4)]), true),
        ("no number", pod("p").require(vec![at_most(ZONE, 4)]), false),
        ("all of a term", pod("p").require(vec![is_in(ZONE, &["z1"]), exists("team")]), false),
        ("one of the terms", pod("p").require(vec![exists("team")]).require(vec![is_in(ZONE, &["z1"])]), true),
    ];
    for (why, pod, fine) in rows {
        let it = draft(world().node(node("n").zone("z1").label("cpus", "4")).pod(pod)).on("n", &["p"]);
        let expected = Violation::NotSelected {
            pod: "default/p".to_owned(),
            node: "n".to_owned(),
            as_it_may_be: "it is".to_owned(),
        };
        assert_eq!(verify(&it.world, &it.plan), if fine { vec![] } else { vec![expected] }, "{why}");
    }
}

#[test]
fn ports_are_free() {
    let clash = |pod: &str, other: &str| Violation::PortClash {
        node: "n".to_owned(),
        pod: format!("default/{pod}"),
        other: format!("default/{other}"),
    };
    let with = |old: PodBuilder| draft(world().node(node("n")).pod(old.on("n")).pod(pod("p").port(80))).on("n", &["p"]);
    with(pod("old").port(80)).breaks(clash("p", "old"));
    with(pod("old").port_at("10.0.0.1", 80, "TCP")).breaks(clash("p", "old"));
    with(pod("old").port(81)).sound();
    with(pod("old").port_at("0.0.0.0", 80, "UDP")).sound();
    let at = |ip: &str| {
        let here = world().node(node("n")).pod(pod("old").port_at("10.0.0.1", 80, "TCP").on("n"));
        draft(here.pod(pod("p").port_at(ip, 80, "TCP"))).on("n", &["p"])
    };
    at("10.0.0.2").sound();
    at("10.0.0.1").breaks(clash("p", "old"));
    at("::").breaks(clash("p", "old"));
    let two = draft(world().node(node("n")).replicas(2, pod("p").port(80))).on("n", &["p-0", "p-1"]);
    two.breaks(clash("p-1", "p-0"));
}

#[test]
fn volumes_are_within_reach() {
    let in_zone = |zone: &str| {
        let here = world().node(node("n").zone("z1")).zonal_claim("data", zone);
        draft(here.pod(pod("p").claim("data"))).on("n", &["p"])
    };
    in_zone("z1").sound();
    let far = Violation::VolumeOutOfReach {
        pod: "default/p".to_owned(),
        claim: "data".to_owned(),
        node: "n".to_owned(),
        as_it_may_be: "it is".to_owned(),
    };
    in_zone("z2").breaks(far.clone());
    let of_class = |zones: &[&str]| {
        let late = karpenter_core::storage::BindingMode::WaitForFirstConsumer;
        let here = world().node(node("n").zone("z1")).storage_class("c", late, zones).waiting_claim("data", "c");
        draft(here.pod(pod("p").claim("data"))).on("n", &["p"])
    };
    of_class(&[]).sound();
    of_class(&["z0", "z1"]).sound();
    of_class(&["z0"]).breaks(far.clone());
    // Any term will do; of a local volume the host does not count.
    let local = |is_local| {
        let there = vec![
            node_term(vec![is_in(ZONE, &["z2"])]),
            node_term(vec![is_in("kubernetes.io/hostname", &["elsewhere"])]),
        ];
        let mut here = world().node(node("n").zone("z1")).bound_claim("data", "d", there);
        here.0.storage.volumes.values_mut().for_each(|volume| volume.is_local = is_local);
        draft(here.pod(pod("p").claim("data"))).on("n", &["p"])
    };
    local(true).sound();
    local(false).breaks(far);
}

#[test]
fn no_more_volumes_than_attach() {
    let it = |limit, second: &str| {
        let storage = world().zonal_claim("a", "z1").zonal_claim("b", "z1");
        let here = storage.node(node("n").zone("z1").volume_limit("ebs.csi.aws.com", limit));
        let running = here.pod(pod("old").claim("a").on("n"));
        draft(running.pod(pod("p").claim(second))).on("n", &["p"])
    };
    it(2, "b").sound();
    it(1, "a").sound();
    it(1, "b").breaks(Violation::TooManyVolumes {
        node: "n".to_owned(),
        driver: "ebs.csi.aws.com".to_owned(),
        attached: 2,
        limit: 1,
    });
}
