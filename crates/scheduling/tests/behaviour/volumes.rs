//! Volumes: where a pod can reach them, and how many a node can attach.

use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::plan::{PoolReason, Reason};
use karpenter_core::storage::{BindingMode, VolumeClaim};
use karpenter_testkit::express::{is_in, node_term};
use karpenter_testkit::{WorldBuilder, node, pod, world};

use crate::seen::{WEB, full_node, roomy, seen};

const EBS: &str = "ebs.csi.aws.com";

fn zones(values: &[&str]) -> karpenter_core::pod::NodeTerm {
    node_term(vec![is_in(ZONE, values)])
}

#[test]
fn a_bound_claim_goes_where_its_volume_is() {
    // covers: SCH-VOL-13, SCH-VOL-22
    assert_eq!(
        seen(world().pool(roomy()).zonal_claim("data", "test-zone-3").pod(pod("p").claim("data"))).zones(),
        "3=1"
    );
    let old = node_term(vec![is_in("failure-domain.beta.kubernetes.io/zone", &["test-zone-2"])]);
    assert_eq!(
        seen(world().pool(roomy()).bound_claim("data", EBS, vec![old]).pod(pod("p").claim("data"))).zones(),
        "2=1"
    );
    let unreachable = seen(world().pool(roomy()).zonal_claim("data", "none").pod(pod("p").claim("data")));
    assert_eq!(unreachable.left(), "p");
}

#[test]
fn an_unbound_claim_goes_where_its_class_makes_volumes() {
    // covers: SCH-VOL-14, SCH-VOL-08
    let start = |zones: &[&str]| {
        let start = world().pool(roomy()).storage_class("gp3", BindingMode::WaitForFirstConsumer, zones);
        seen(start.waiting_claim("data", "gp3").pod(pod("p").claim("data"))).zones()
    };
    assert_eq!(start(&["test-zone-2"]), "2=1");
    assert_eq!(start(&["test-zone-2", "test-zone-3"]), "2|3=1");
    assert_eq!(start(&[]), "*=1");
}

#[test]
fn the_first_alternative_that_passes_everything_is_taken() {
    // covers: SCH-VOL-20, SCH-VOL-13
    let start = |terms: Vec<karpenter_core::pod::NodeTerm>| world().pool(roomy()).bound_claim("data", EBS, terms);
    let two = || vec![zones(&["test-zone-1"]), zones(&["test-zone-2"])];
    assert_eq!(seen(start(two()).pod(pod("p").claim("data"))).zones(), "1=1");
    assert_eq!(seen(start(two()).pod(pod("p").claim("data").zone("test-zone-2"))).zones(), "2=1");
    let crowded = start(two()).node(full_node("n", "1")).pod(pod("w").app("web").on("n"));
    assert_eq!(
        seen(crowded.pod(pod("p").claim("data").anti_affinity(ZONE, WEB))).zones(),
        "2=1",
        "topology is a later check"
    );
    let sold = start(vec![zones(&["none"]), zones(&["test-zone-3"])]);
    assert_eq!(seen(sold.pod(pod("p").claim("data"))).zones(), "3=1", "so are the types");
    let neither = seen(start(two()).pod(pod("p").claim("data").zone("test-zone-3")));
    let Reason::Pools(pools) = neither.reason("p") else { panic!("{:?}", neither.reason("p")) };
    assert!(matches!(&pools[0].1, PoolReason::Volumes { keys } if keys.iter().any(|key| &**key == ZONE)), "{pools:?}");
}

#[test]
fn two_anti_affine_pods_end_in_different_zones_of_their_volumes() {
    // covers: SCH-VOL-21
    let two = || vec![zones(&["test-zone-1"]), zones(&["test-zone-2"])];
    let start = world().pool(roomy()).bound_claim("a", EBS, two()).bound_claim("b", EBS, two());
    let apart = |name: &str| pod(name).app("web").claim(name).anti_affinity(ZONE, WEB);
    let seen = seen(start.pod(apart("a")).pod(apart("b")));
    assert_eq!((seen.zones().as_str(), seen.left().as_str()), ("1=1 2=1", ""));
}

#[test]
fn a_volume_narrows_the_claim_for_those_who_join() {
    // covers: SCH-VOL-21, SCH-NEW-19
    let start = world().pool(roomy()).zonal_claim("data", "test-zone-2");
    let start = start.pod(pod("a").cpu("2").claim("data"));
    let shared = seen(start.clone().pod(pod("b").cpu("1")));
    assert_eq!((shared.zones().as_str(), shared.sizes()), ("2=2", vec![2]));
    let apart = seen(start.pod(pod("b").cpu("1").zone("test-zone-1")));
    assert_eq!(apart.sizes(), [1, 1]);
}

#[test]
fn several_volumes_must_be_reached_at_once() {
    // covers: SCH-VOL-17, SCH-VOL-18
    let with = |a: Vec<karpenter_core::pod::NodeTerm>, b: Vec<karpenter_core::pod::NodeTerm>| {
        seen(
            world().pool(roomy()).bound_claim("a", EBS, a).bound_claim("b", EBS, b).pod(pod("p").claim("a").claim("b")),
        )
    };
    let one = |zone: &str| zones(&[&format!("test-zone-{zone}")]);
    assert_eq!(with(vec![one("1"), one("2")], vec![one("2"), one("3")]).zones(), "2=1");
    assert_eq!(
        with(vec![zones(&["test-zone-1", "test-zone-2"])], vec![zones(&["test-zone-2", "test-zone-3"])]).zones(),
        "2=1"
    );
    let apart = with(vec![one("1")], vec![one("2")]);
    assert_eq!(
        (apart.left().as_str(), apart.ignored().as_str()),
        ("p", ""),
        "it fails with a reason instead of vanishing"
    );
}

#[test]
fn a_local_volume_lets_the_pod_move() {
    // covers: SCH-VOL-15
    let with = |local: bool, terms: Vec<karpenter_core::requirement::Expression>| {
        let mut start = world().pool(roomy()).bound_claim("data", "local", vec![node_term(terms)]);
        start.0.storage.volumes.values_mut().for_each(|volume| volume.is_local = local);
        seen(start.pod(pod("p").claim("data")))
    };
    let host = || is_in(HOSTNAME, &["old-node"]);
    let zone = || is_in(ZONE, &["test-zone-2"]);
    assert_eq!(with(true, vec![host()]).zones(), "*=1", "nothing else is asked for");
    assert_eq!(with(true, vec![host(), zone()]).zones(), "2=1", "the zone still counts");
    assert_eq!(with(false, vec![host()]).left(), "p", "other volumes keep their host");
}

/// A node that attaches so many volumes of a driver, and claims bound to volumes of it.
fn attaching(limit: Option<u32>, claims: &[&str]) -> WorldBuilder {
    let mut host = node("n");
    if let Some(limit) = limit {
        host = host.volume_limit(EBS, limit);
    }
    claims.iter().fold(world().pool(roomy()).node(host), |world, claim| world.bound_claim(claim, EBS, vec![]))
}

#[test]
fn a_node_attaches_no_more_than_its_limit() {
    // covers: SCH-VOL-23, SCH-VOL-24
    let claims = ["a", "b", "c"];
    for (limit, want) in
        [(Some(0), ""), (Some(1), "p-a"), (Some(2), "p-a p-b"), (Some(3), "p-a p-b p-c"), (None, "p-a p-b p-c")]
    {
        let start = attaching(limit, &claims);
        let seen = seen(claims.iter().fold(start, |world, claim| world.pod(pod(&format!("p-{claim}")).claim(claim))));
        assert_eq!(seen.on("n"), want, "{limit:?}");
    }
    let two_at_once = attaching(Some(1), &claims).pod(pod("p").claim("a").claim("b"));
    assert_eq!(seen(two_at_once).on("n"), "");
}

#[test]
fn a_claim_counts_once_however_many_use_it() {
    // covers: SCH-VOL-24, SCH-VOL-25
    let shared = attaching(Some(1), &["a", "b"]).replicas(3, pod("p").claim("a"));
    assert_eq!(seen(shared).on("n"), "p-0 p-1 p-2");
    let running = |pod: karpenter_testkit::PodBuilder| attaching(Some(1), &["a", "b"]).pod(pod.on("n"));
    assert_eq!(seen(running(pod("r").claim("a")).pod(pod("p").claim("a"))).on("n"), "p");
    assert_eq!(seen(running(pod("r").claim("a")).pod(pod("p").claim("b"))).on("n"), "");
    let done = pod("r").claim("a").on("n").phase(karpenter_core::pod::Phase::Succeeded);
    assert_eq!(seen(attaching(Some(1), &["a", "b"]).pod(done).pod(pod("p").claim("b"))).on("n"), "p", "released");
}

#[test]
fn only_volumes_of_the_limited_driver_count() {
    // covers: SCH-VOL-23, SCH-VOL-12, SCH-VOL-26
    let start = || attaching(Some(1), &["a"]).pod(pod("r").claim("a").on("n"));
    let nfs = start().bound_claim("share", "nfs.example.com", vec![]).pod(pod("p").claim("share"));
    assert_eq!(seen(nfs).on("n"), "p");
    let mut driverless = start().bound_claim("share", EBS, vec![]);
    driverless.0.storage.volumes.get_mut("pv-share").unwrap().driver = None;
    assert_eq!(seen(driverless.pod(pod("p").claim("share"))).on("n"), "p", "no driver is known");
    let waiting = start().storage_class("gp3", BindingMode::WaitForFirstConsumer, &[]).waiting_claim("new", "gp3");
    assert_eq!(seen(waiting.pod(pod("p").claim("new"))).on("n"), "", "its class says which driver it will be");
}

#[test]
fn claims_that_vanished_count_for_nothing() {
    // covers: SCH-VOL-26
    let mut start = attaching(Some(1), &["a"]).pod(pod("r").claim("gone").on("n")).pod(pod("q").claim("lost").on("n"));
    let unbound = VolumeClaim { class: Some("no-such-class".into()), ..VolumeClaim::default() };
    start.0.storage.claims.insert(("default".into(), "lost".into()), unbound);
    assert_eq!(seen(start.pod(pod("p").claim("a"))).on("n"), "p");
}

#[test]
fn new_nodes_have_no_attach_limits() {
    let names: Vec<String> = (0..60).map(|i| format!("c{i}")).collect();
    let start = names.iter().fold(world().pool(roomy()), |world, name| world.bound_claim(name, EBS, vec![]));
    let seen = seen(names.iter().fold(start, |world, name| world.pod(pod(name).claim(name))));
    assert_eq!(seen.sizes(), [60]);
}

#[test]
fn a_pod_with_a_bad_claim_is_left_out_and_nobody_else() {
    // covers: SCH-VOL-02, SCH-VOL-11, SCH-POD-12, SCH-POD-17, SCH-POD-18, SCH-GAP-04
    let seen = seen(world().pool(roomy()).pod(pod("bad").claim("missing")).pod(pod("good")));
    assert_eq!((seen.ignored().as_str(), seen.left().as_str(), seen.new_nodes()), ("bad", "", vec!["good".to_owned()]));
    let Reason::Invalid { message } = seen.reason("bad") else { panic!("{:?}", seen.reason("bad")) };
    assert!(message.contains("default/missing"), "{message}");
}
