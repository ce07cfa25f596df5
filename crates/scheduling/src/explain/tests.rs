use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::plan::{PoolReason, Reason, TopologyKind, TypeFailure};
use karpenter_core::settings::MinValuesPolicy;
use karpenter_core::storage::BindingMode;
use karpenter_core::{Pod, World};
use karpenter_testkit::express::{at_least, is_in, with_min_values};
use karpenter_testkit::fake::{self, instance_type, sold};
use karpenter_testkit::{PodBuilder, PoolBuilder, node, pod, pool, quantity, world};

use crate::{Packing, solve_with};

fn reason_of(world: &World, name: &str) -> Reason {
    let plan = solve_with(world, Packing::FirstMatch);
    let left = plan.left_over.into_iter().find(|left| &*world.pods[left.pod].name == name);
    left.unwrap_or_else(|| panic!("{name} was placed")).reason
}

fn only_reason(world: &World, name: &str) -> PoolReason {
    match reason_of(world, name) {
        Reason::Pools(mut reasons) if reasons.len() == 1 => reasons.remove(0).1,
        other => panic!("not one pool's reason: {other:?}"),
    }
}

fn general() -> PoolBuilder {
    pool("general").types(fake::default_six())
}

fn alone(pool: PoolBuilder, pod: PodBuilder) -> PoolReason {
    only_reason(&world().pool(pool).pod(pod).build(), "web")
}

fn web() -> PodBuilder {
    pod("web").app("web").cpu("1")
}

#[test]
fn a_taint_is_named() {
    let reason = alone(general().taint("gpu"), web());
    assert_eq!(reason, PoolReason::Taint { taint: "gpu:NoSchedule".to_owned() });
}

#[test]
fn an_undefined_key_comes_with_a_hint_and_every_disjoint_key_is_named() {
    // covers: SCH-REQ-38
    for (key, hint) in [
        ("zone", Some(ZONE)),
        ("node.io/zone", Some(ZONE)),
        ("topology.kubernetes.io/regio", Some("topology.kubernetes.io/region")),
        ("example.com/nothing-like-it", None),
    ] {
        let asks = web().select(key, "a").select("zzz", "b").zone("nowhere").select("size", "huge");
        let pool = general().require(is_in(ZONE, &["test-zone-1"])).require(is_in("size", &["small"]));
        let PoolReason::Incompatible { keys, undefined, hint: found } = alone(pool, asks) else {
            panic!("{key} is not the reason");
        };
        assert_eq!(undefined.as_deref(), Some(key), "only the first undefined key");
        assert_eq!(found.as_deref(), hint, "{key}");
        assert_eq!(keys.iter().map(|key| &**key).collect::<Vec<_>>(), ["size", ZONE]);
    }
}

#[test]
fn a_contradiction_names_its_key() {
    let pod = web().zone("test-zone-1").require(vec![is_in(ZONE, &["test-zone-2"])]);
    assert_eq!(alone(general(), pod), PoolReason::Contradiction { key: ZONE.into() });
}

#[test]
fn limits_name_what_is_short() {
    // covers: SCH-NEW-09, SCH-NEW-10, SCH-NEW-14
    let types = || vec![instance_type("four").build(), instance_type("eight").cpu("8").build()];
    for (limit, amount, cpu, want) in [
        ("cpu", "3", "1", "cpu"),
        ("nodes", "0", "1", "nodes"),
        ("memory", "1Gi", "1", "memory"),
        ("cpu", "5", "6", "cpu"),
    ] {
        let pool = pool("general").types(types()).limit(limit, amount);
        let reason = alone(pool, web().cpu(cpu));
        assert_eq!(reason, PoolReason::Limit { resource: want.to_owned() }, "{limit} {amount} for {cpu}");
    }
    let pool = pool("general").types(types()).limit("nodes", "1");
    let world = world().pool(pool).replicas(2, web().cpu("5")).build();
    let plan = solve_with(&world, Packing::FirstMatch);
    assert_eq!((plan.new_nodes.len(), plan.left_over.len()), (1, 1), "what fits is placed");
}

#[test]
fn min_values_name_their_keys_before_anything_else() {
    // covers: SCH-ERR-08, SCH-NEW-06, SCH-NEW-29
    let sizes = || with_min_values(is_in("size", &["small", "large"]), 2);
    let types = || vec![instance_type("a").build(), instance_type("b").cpu("16").memory("16Gi").build()];
    let two = || pool("general").types(types()).require(sizes());
    // Only the large one holds it, which is one size of two.
    assert_eq!(alone(two(), web().cpu("8")), PoolReason::MinValues { keys: vec!["size".into()] });
    // Nothing holds it: that is no question of flexibility.
    assert!(matches!(alone(two(), web().cpu("80")), PoolReason::Types(_)));
    // A pool that can never keep its promise is out from the start, and says so beside one that is not.
    let never = pool("never").types(vec![instance_type("a").build()]).require(sizes());
    let world = world().pool(never).pool(general().taint("gpu")).pod(web()).build();
    let Reason::Pools(reasons) = reason_of(&world, "web") else { panic!("pools have reasons") };
    assert_eq!(reasons[0], (0, PoolReason::MinValues { keys: vec!["size".into()] }));
    assert!(matches!(reasons[1], (1, PoolReason::Taint { .. })));
}

#[test]
fn lowered_min_values_are_no_reason() {
    let sizes = with_min_values(is_in("size", &["small", "large"]), 2);
    let one = pool("general").types(vec![instance_type("a").build()]).require(sizes);
    let lenient = world().settings(|settings| settings.min_values = MinValuesPolicy::BestEffort);
    let world = lenient.pool(one).pod(web().cpu("80")).build();
    assert!(matches!(only_reason(&world, "web"), PoolReason::Types(_)));
}

#[test]
fn without_any_template_the_requirements_are_to_blame() {
    // covers: SCH-NEW-07, SCH-NEW-08
    let nowhere = general().require(is_in(ZONE, &["nowhere"]));
    assert_eq!(reason_of(&world().pool(nowhere.clone()).pod(web()).build(), "web"), Reason::NoInstanceTypes);
    let contradicting = general().require(is_in(ZONE, &["test-zone-1"])).require(is_in(ZONE, &["test-zone-2"]));
    assert_eq!(reason_of(&world().pool(contradicting).pod(web()).build(), "web"), Reason::NoInstanceTypes);
    assert_eq!(reason_of(&world().pod(web()).build(), "web"), Reason::NoPools);
    let beside = world().pool(nowhere).pool(pool("other").types(fake::default_six()).taint("gpu")).pod(web()).build();
    let Reason::Pools(reasons) = reason_of(&beside, "web") else { panic!("pools have reasons") };
    assert_eq!(reasons.len(), 2);
    assert!(reasons.contains(&(0, PoolReason::NoTypes)));
}

#[test]
fn pools_come_in_the_order_in_which_they_are_tried() {
    // covers: SCH-ERR-09
    let tainted = |name: &str, weight| pool(name).types(fake::default_six()).weight(weight).taint(name);
    let world = world().pool(tainted("a", 0)).pool(tainted("b", 0)).pool(tainted("heavy", 10)).pod(web()).build();
    let Reason::Pools(reasons) = reason_of(&world, "web") else { panic!("pools have reasons") };
    let told: Vec<_> = reasons.iter().map(|(pool, reason)| (&*world.pools[*pool].name, reason.clone())).collect();
    let taint = |key: &str| PoolReason::Taint { taint: format!("{key}:NoSchedule") };
    assert_eq!(told, [("heavy", taint("heavy")), ("b", taint("b")), ("a", taint("a"))]);
}

fn failure(pool: PoolBuilder, pod: PodBuilder) -> TypeFailure {
    match alone(pool, pod) {
        PoolReason::Types(failure) => failure,
        other => panic!("not the types: {other:?}"),
    }
}

#[test]
fn a_type_failure_says_which_criteria_no_type_met() {
    // covers: SCH-ERR-06
    let met = |f: &TypeFailure| [f.requirements_met, f.fits, f.has_offering];
    let pairs = |f: &TypeFailure| [f.requirements_and_fits, f.requirements_and_offering, f.fits_and_offering];
    let spot = |zone: &str| vec![sold(zone, "spot")];
    let two = || {
        let small = instance_type("small").offerings(spot("test-zone-1"));
        let large = instance_type("large").cpu("16").offerings(spot("test-zone-2"));
        pool("general").types(vec![small.build(), large.build()])
    };
    let large = failure(two(), web().cpu("80"));
    assert_eq!((met(&large), pairs(&large)), ([true, false, true], [false, true, false]));
    assert_eq!(large.requests.0.get("cpu"), quantity("80"));
    let apart = failure(two(), web().cpu("8").select("node.kubernetes.io/instance-type", "small"));
    assert_eq!((met(&apart), pairs(&apart)), ([true, true, true], [false, true, true]));
    assert!(apart.requirements.contains("node.kubernetes.io/instance-type In [small]"), "{}", apart.requirements);
    assert!(!apart.requirements.contains("karpenter.sh/registered"), "{}", apart.requirements);
    let elsewhere = failure(two(), web().cpu("8").zone("test-zone-1"));
    assert_eq!((met(&elsewhere), pairs(&elsewhere)), ([true, true, true], [false, true, false]));
    let not_sold = failure(two(), web().select("karpenter.sh/capacity-type", "on-demand"));
    assert_eq!(met(&not_sold), [false, true, false]);
}

#[test]
fn a_million_cpus_look_like_a_typo() {
    // covers: SCH-ERR-07
    assert!(failure(general(), web().cpu("1M")).suspicious_cpu);
    assert!(!failure(general(), web().cpu("999999")).suspicious_cpu);
}

#[test]
fn what_is_needed_includes_daemons_as_a_range() {
    // covers: SCH-DS-13
    let daemons = pod("agent").cpu("500m");
    let on_large = pod("large-agent").cpu("2").select("size", "large");
    let types = vec![instance_type("a").build(), instance_type("b").cpu("8").memory("16Gi").build()];
    let world =
        world().pool(pool("general").types(types)).daemon_set(daemons).daemon_set(on_large).pod(web().cpu("6")).build();
    let PoolReason::Types(failure) = only_reason(&world, "web") else { panic!("the types are too small") };
    assert_eq!(failure.requests.0.get("cpu"), quantity("6500m"));
    assert_eq!(failure.requests.1.get("cpu"), quantity("8500m"));
    assert!(!failure.fits);
}

#[test]
fn a_spread_over_a_zone_that_nobody_sells_names_its_counts() {
    // covers: SCH-TOPO-55
    let pool = general().require(is_in(ZONE, &["test-zone-1"]));
    let world = world()
        .pool(pool)
        .node(node("n2").zone("test-zone-2").cpu("0"))
        .pods(web().named("more").cpu("1").zone_spread(1).replicas(3))
        .build();
    let plan = solve_with(&world, Packing::FirstMatch);
    let left: Vec<&Pod> = plan.left_over.iter().map(|left| &world.pods[left.pod]).collect();
    assert_eq!(left.len(), 2, "one more than in the empty zone, and no more");
    let PoolReason::Topology { constraint } = only_reason(&world, &left[0].name) else { panic!("the spread") };
    assert_eq!(constraint.kind, TopologyKind::Spread);
    assert_eq!(&*constraint.key, ZONE);
    assert_eq!(constraint.counts, [("test-zone-1".into(), 1), ("test-zone-2".into(), 0)]);
    assert_eq!((&*constraint.pod_domains, &*constraint.node_domains), ("Exists", "In [test-zone-1]"));
}

#[test]
fn at_most_25_domains_are_listed() {
    // covers: SCH-TOPO-55
    let names: Vec<String> = (10..40).map(|i| format!("rack-{i}")).collect();
    let racks: Vec<&str> = names.iter().map(String::as_str).collect();
    let pool = general().require(is_in("example.com/rack", &racks));
    let pod = web().affinity("example.com/rack", &[("app", "nobody")]);
    let PoolReason::Topology { constraint } = alone(pool, pod) else { panic!("the affinity") };
    assert_eq!(constraint.kind, TopologyKind::Affinity);
    assert_eq!(constraint.counts.len(), 25);
    assert_eq!(&*constraint.counts[0].0, "rack-10");
}

#[test]
fn anti_affinity_and_the_anti_affinity_of_others_are_told_apart() {
    let full = |name: &str| node(name).zone("test-zone-1").cpu("1").of_pool("general");
    let zonal = general().require(is_in(ZONE, &["test-zone-1"]));
    let mine = world()
        .pool(zonal.clone())
        .node(full("n1"))
        .pod(pod("first").app("db").cpu("1").on("n1"))
        .pod(web().anti_affinity(ZONE, &[("app", "db")]))
        .build();
    let PoolReason::Topology { constraint } = only_reason(&mine, "web") else { panic!("anti-affinity") };
    assert_eq!(constraint.kind, TopologyKind::AntiAffinity);
    let theirs = world()
        .pool(zonal)
        .node(full("n1"))
        .pod(pod("first").app("db").cpu("1").on("n1").anti_affinity(ZONE, &[("app", "web")]))
        .pod(web())
        .build();
    let PoolReason::Topology { constraint } = only_reason(&theirs, "web") else { panic!("their anti-affinity") };
    assert_eq!(constraint.kind, TopologyKind::InverseAntiAffinity);
    assert_eq!(constraint.counts, [("test-zone-1".into(), 1)]);
}

#[test]
fn an_affinity_to_a_host_that_is_full_names_the_host() {
    let world = world()
        .pool(general())
        .node(node("n1").cpu("1"))
        .pod(pod("first").app("db").cpu("1").on("n1"))
        .pod(web().affinity(HOSTNAME, &[("app", "db")]))
        .build();
    let PoolReason::Topology { constraint } = only_reason(&world, "web") else { panic!("affinity") };
    assert_eq!((constraint.kind, &*constraint.key), (TopologyKind::Affinity, HOSTNAME));
    assert_eq!(constraint.counts, [("n1".into(), 1)]);
}

#[test]
fn volumes_out_of_reach_name_the_key() {
    let world = world()
        .pool(general().require(is_in(ZONE, &["test-zone-1"])))
        .storage_class("fast", BindingMode::WaitForFirstConsumer, &["test-zone-2"])
        .waiting_claim("data", "fast")
        .pod(web().claim("data"))
        .build();
    assert_eq!(only_reason(&world, "web"), PoolReason::Volumes { keys: vec![ZONE.into()] });
}

#[test]
fn a_port_of_a_daemon_is_taken_everywhere() {
    let world = world().pool(general()).daemon_set(pod("agent").port(9100)).pod(web().port(9100)).build();
    assert_eq!(only_reason(&world, "web"), PoolReason::HostPort);
}

#[test]
fn the_reason_is_that_of_the_most_relaxed_form() {
    let pod = web().cpu("80").prefer(1, vec![is_in(ZONE, &["nowhere"])]).require(vec![at_least("integer", 1)]);
    assert!(matches!(alone(general(), pod), PoolReason::Types(failure) if !failure.fits));
}
