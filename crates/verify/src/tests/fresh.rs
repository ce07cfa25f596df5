//! New nodes.

use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_core::{MicroUsd, Requirement};
use karpenter_testkit::express::{exists, is_in, not_in};
use karpenter_testkit::fake::{ZONES, instance_type, sold};
use karpenter_testkit::{PodBuilder, WorldBuilder, pod, pool, world};

use super::draft::Draft;
use super::{catalogue, draft};
use crate::{Violation, verify};

fn node() -> String {
    "new-0".to_owned()
}

fn one(pod: PodBuilder) -> Draft {
    draft(world().pool(catalogue()).pod(pod)).fresh(&["p"])
}

fn plain() -> Draft {
    one(pod("p").cpu("1"))
}

#[test]
fn an_ordinary_new_node_is_sound() {
    plain().sound();
}

#[test]
fn a_node_is_for_pods() {
    draft(world().pool(catalogue())).fresh(&[]).breaks(Violation::NoPods { node: node() });
}

#[test]
fn every_type_holds_the_pods() {
    let too_small = Violation::Overfull {
        node: node(),
        as_it_may_be: "small test-zone-1 spot".to_owned(),
        resource: "cpu".to_owned(),
        wanted: 3_000_000_000,
        allocatable: 1_900_000_000,
    };
    one(pod("p").cpu("3")).breaks(too_small);
    draft(world().pool(catalogue()).pod(pod("p").cpu("3"))).fresh_in(&["p"], &["large"], &ZONES).sound();
}

#[test]
fn huge_pages_come_out_of_memory() {
    let it = |huge: &str| {
        let kind = instance_type("small").memory("4Gi").room("hugepages-2Mi", huge).price(100);
        let here = world().pool(pool("default").types(vec![kind.build()]));
        draft(here.pod(pod("p").memory("3Gi"))).fresh_in(&["p"], &["small"], &ZONES)
    };
    it("512Mi").sound();
    assert!(matches!(verify(&it("2Gi").world, &it("2Gi").plan)[..], [Violation::Overfull { .. }]));
}

#[test]
fn daemons_that_run_on_a_type_need_room_there() {
    let it = |daemon: PodBuilder, more: &[(&str, &str)]| {
        let here = world().pool(catalogue()).daemon_set(daemon).pod(pod("p").cpu("1500m"));
        draft(here).fresh(&["p"]).with_daemons(more)
    };
    it(pod("logs").cpu("400m"), &[("cpu", "400m"), ("pods", "1")]).sound();
    let overfull = |at: &str| Violation::Overfull {
        node: node(),
        as_it_may_be: at.to_owned(),
        resource: "cpu".to_owned(),
        wanted: 2_000_000_000,
        allocatable: 1_900_000_000,
    };
    it(pod("logs").cpu("500m"), &[]).breaks(overfull("small test-zone-1 spot"));
    // It runs in one zone only, but that is one the node may get.
    it(pod("logs").cpu("500m").zone("test-zone-3"), &[]).breaks(overfull("small test-zone-3 on-demand"));
    it(pod("logs").cpu("500m").select(INSTANCE_TYPE, "large"), &[]).sound();
    it(pod("logs").cpu("500m").select("team", "x"), &[]).sound();
    it(pod("logs").cpu("500m").select("karpenter.sh/registered", "true"), &[])
        .breaks(overfull("small test-zone-1 spot"));
}

#[test]
fn daemons_of_tainted_pools_tolerate_the_taint() {
    let it = |daemon: PodBuilder| {
        let tainted = catalogue().taint("team");
        let here = world().pool(tainted).daemon_set(daemon.cpu("500m"));
        draft(here.pod(pod("p").cpu("1500m").tolerate("team"))).fresh(&["p"])
    };
    it(pod("logs")).sound();
    assert_eq!(verify(&it(pod("logs").tolerate("team")).world, &it(pod("logs")).plan).len(), 1);
}

#[test]
fn taints_of_the_pool_are_tolerated() {
    let it = |p: PodBuilder| draft(world().pool(catalogue().taint("team")).pod(p)).fresh(&["p"]);
    it(pod("p").tolerate("team")).sound();
    it(pod("p")).breaks(Violation::Untolerated {
        pod: "default/p".to_owned(),
        node: node(),
        taint: "team:NoSchedule".to_owned(),
    });
}

fn not_selected(at: &str) -> Violation {
    Violation::NotSelected { pod: "default/p".to_owned(), node: node(), as_it_may_be: at.to_owned() }
}

#[test]
fn pods_select_the_node_whatever_it_becomes() {
    let zonal = || world().pool(catalogue()).pod(pod("p").zone("test-zone-2"));
    draft(zonal()).fresh_in(&["p"], &["small"], &["test-zone-2"]).sound();
    // The launch may still go elsewhere.
    let it = draft(zonal()).fresh_in(&["p"], &["small"], &["test-zone-2", "test-zone-3"]);
    it.breaks(not_selected("small test-zone-3 on-demand"));
    let sized = |terms: PodBuilder| draft(world().pool(catalogue()).pod(terms)).fresh(&["p"]);
    sized(pod("p").require(vec![is_in(INSTANCE_TYPE, &["small", "large"])])).sound();
    sized(pod("p").select(INSTANCE_TYPE, "small")).breaks(not_selected("large test-zone-1 spot"));
    // Each guise may be selected by another term.
    sized(pod("p").require(vec![is_in("size", &["small"])]).require(vec![is_in("size", &["large"])])).sound();
    sized(pod("p").require(vec![exists("special")])).breaks(not_selected("small test-zone-1 spot"));
}

#[test]
fn a_label_the_type_leaves_open_is_pinned_by_the_claim() {
    let systems = || world().pool(catalogue()).pod(pod("p").select("kubernetes.io/os", "linux"));
    draft(systems()).fresh(&["p"]).breaks(not_selected("small test-zone-1 spot darwin"));
    let pin = |claim: &mut karpenter_core::plan::NewNode| {
        claim.requirements.add("kubernetes.io/os", Requirement::one("linux"))
    };
    draft(systems()).fresh(&["p"]).bend(pin).sound();
}

#[test]
fn volumes_are_within_reach_of_every_guise() {
    let here = || world().pool(catalogue()).zonal_claim("data", "test-zone-2").pod(pod("p").claim("data"));
    draft(here()).fresh_in(&["p"], &["small"], &["test-zone-2"]).sound();
    draft(here()).fresh(&["p"]).breaks(Violation::VolumeOutOfReach {
        pod: "default/p".to_owned(),
        claim: "data".to_owned(),
        node: node(),
        as_it_may_be: "small test-zone-1 spot".to_owned(),
    });
}

#[test]
fn ports_are_not_shared_with_pods_or_daemons() {
    let clash =
        |pod: &str, other: &str| Violation::PortClash { node: node(), pod: pod.to_owned(), other: other.to_owned() };
    let two = |other: u16| {
        let here = world().pool(catalogue()).pod(pod("a").port(80)).pod(pod("b").port(other));
        draft(here).fresh(&["a", "b"])
    };
    two(81).sound();
    two(80).breaks(clash("default/b", "default/a"));
    let daemon = |d: PodBuilder| {
        let here = world().pool(catalogue()).daemon_set(d).pod(pod("p").port(80));
        draft(here).fresh_in(&["p"], &["small"], &ZONES)
    };
    daemon(pod("logs").port(81)).sound();
    daemon(pod("logs").port(80)).breaks(clash("default/p", "daemon logs"));
    daemon(pod("logs").port(80).select(INSTANCE_TYPE, "large")).sound();
}

#[test]
fn the_list_of_types_is_sorted_and_not_too_long() {
    let swapped = plain().bend(|claim| claim.instance_types = claim.instance_types.iter().rev().copied().collect());
    swapped.breaks(Violation::TypesUnsorted { node: node(), dearer: "large".to_owned(), cheaper: "small".to_owned() });
    plain()
        .bend(|claim| claim.instance_types = [0, 0, 1].into())
        .breaks(Violation::TypeTwice { node: node(), instance_type: "small".to_owned() });
    let none = verify(&plain().world, &plain().bend(|claim| claim.instance_types = [].into()).plan);
    assert!(none.contains(&Violation::NoTypes { node: node() }), "{none:?}");
}

#[test]
fn at_most_600_types_are_listed() {
    let it = |count: usize| {
        let kind = |i: usize| instance_type(&format!("t{i:03}")).price(100 + i as u64).build();
        let names: Vec<String> = (0..count).map(|i| format!("t{i:03}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let pool = pool("default").types((0..count).map(kind).collect());
        draft(world().pool(pool).pod(pod("p"))).fresh_in(&["p"], &names, &ZONES)
    };
    it(600).sound();
    it(601).breaks(Violation::TooManyTypes { node: node(), count: 601 });
}

#[test]
fn listed_types_can_be_bought() {
    let it = |dead: bool| {
        let offer = |zone: &str, ct: &str| if dead { sold(zone, ct).unavailable() } else { sold(zone, ct) };
        let all = vec![offer("test-zone-1", "spot"), offer("test-zone-1", "on-demand")];
        let large = instance_type("large").price(400).offerings(all);
        let small = instance_type("small").price(100);
        let here = world().pool(pool("default").types(vec![small.build(), large.build()]));
        draft(here.pod(pod("p"))).fresh_in(&["p"], &["small", "large"], &["test-zone-1"])
    };
    it(false).sound();
    let gone = Violation::NotForSale { node: node(), instance_type: "large".to_owned() };
    it(true).breaks(gone.clone());
    // Sold, but not where the claim's own requirements allow.
    let elsewhere = it(false).bend(|claim| {
        claim.requirements.0.insert(ZONE.into(), Requirement::one("test-zone-2"));
        claim.launch.zone = "test-zone-2".into();
    });
    elsewhere.breaks(gone);
}

#[test]
fn requirements_say_what_may_be_launched() {
    let none = plain().bend(|claim| drop(claim.requirements.0.remove(CAPACITY_TYPE)));
    none.breaks(Violation::CapacityTypesNotRequired { node: node() });
}

#[test]
fn the_pool_is_met_whatever_is_launched() {
    let in_zones = |zones: &[&str]| {
        let pool = catalogue().require(is_in(ZONE, &["test-zone-1", "test-zone-2"]));
        draft(world().pool(pool).pod(pod("p"))).fresh_in(&["p"], &["small"], zones)
    };
    in_zones(&["test-zone-1", "test-zone-2"]).sound();
    let unmet =
        |at: &str, key: &str| Violation::PoolNotMet { node: node(), as_it_may_be: at.to_owned(), key: key.to_owned() };
    in_zones(&["test-zone-2", "test-zone-3"]).breaks(unmet("small test-zone-3 on-demand", ZONE));
    let labelled = |value: &str| {
        draft(world().pool(catalogue().label("size", value)).pod(pod("p"))).fresh_in(&["p"], &["small"], &ZONES)
    };
    labelled("small").sound();
    labelled("large").breaks(unmet("small test-zone-1 spot", "size"));
}

fn of(pool: karpenter_testkit::PoolBuilder, p: PodBuilder) -> WorldBuilder {
    world().pool(pool).pod(p)
}

#[test]
fn custom_labels_come_from_pool_or_pods() {
    let label = |value: &'static str| {
        move |claim: &mut karpenter_core::plan::NewNode| drop(claim.labels.insert("team".to_owned(), value.to_owned()))
    };
    let key = || "team".to_owned();
    let pool = || catalogue().require(is_in("team", &["red", "blue"]));
    draft(of(pool(), pod("p"))).fresh(&["p"]).bend(label("red")).sound();
    draft(of(pool(), pod("p"))).fresh(&["p"]).bend(label("green")).breaks(Violation::PoolNotMet {
        node: node(),
        as_it_may_be: "small test-zone-1 spot".to_owned(),
        key: key(),
    });
    let invented = Violation::InventedLabel { node: node(), key: key() };
    draft(of(catalogue(), pod("p"))).fresh(&["p"]).bend(label("red")).breaks(invented);
    // A pod that only excludes a value leaves the label to others.
    let excludes = pod("p").require(vec![not_in("team", &["blue"])]);
    draft(of(catalogue(), excludes)).fresh(&["p"]).bend(label("red")).sound();
    let here = of(catalogue(), pod("p").require(vec![not_in("team", &["blue"])])).pod(pod("q"));
    draft(here).fresh(&["p", "q"]).bend(label("red")).sound();
    let well_known = plain().bend(|claim| drop(claim.labels.insert(ZONE.to_owned(), "test-zone-1".to_owned())));
    well_known.breaks(Violation::InventedLabel { node: node(), key: ZONE.to_owned() });
    let asked = draft(of(pool(), pod("p"))).fresh(&["p"]).bend(label("red"));
    asked
        .bend(|claim| claim.requirements.add("team", Requirement::one("blue")))
        .breaks(Violation::LabelNotRequired { node: node(), key: key() });
}

#[test]
fn template_labels_are_kept() {
    let it = || draft(of(catalogue().label("team", "red"), pod("p"))).fresh(&["p"]);
    it().sound();
    let lost = Violation::TemplateLabelLost { node: node(), key: "team".to_owned() };
    it().bend(|claim| drop(claim.labels.remove("team"))).breaks(lost.clone());
    it().bend(|claim| drop(claim.labels.insert("team".to_owned(), "blue".to_owned()))).breaks(lost);
}

#[test]
fn requests_are_those_of_pods_and_daemons() {
    let wrong = || Violation::RequestsWrong { node: node(), resource: "cpu".to_owned() };
    let set = |text: &'static str| {
        move |claim: &mut karpenter_core::plan::NewNode| claim.requests.set("cpu", karpenter_testkit::quantity(text))
    };
    plain().bend(set("1")).sound();
    plain().bend(set("999m")).breaks(wrong());
    plain().bend(set("1001m")).breaks(wrong());
    let daemon = || draft(of(catalogue(), pod("p").cpu("1")).daemon_set(pod("d").cpu("200m"))).fresh(&["p"]);
    daemon().bend(set("1200m")).sound();
    daemon().bend(set("1201m")).breaks(wrong());
}

#[test]
fn launches_follow_the_rules() {
    let launch = |kind: &'static str, zone: &'static str, capacity_type: &'static str| {
        move |claim: &mut karpenter_core::plan::NewNode| {
            claim.launch.instance_type = kind.into();
            claim.launch.zone = zone.into();
            claim.launch.capacity_type = capacity_type.into();
        }
    };
    let wrong = |said: &str| Violation::Launch {
        node: node(),
        said: said.to_owned(),
        expected: "small test-zone-1 spot".to_owned(),
    };
    plain().bend(launch("small", "test-zone-1", "spot")).sound();
    plain().bend(launch("small", "test-zone-2", "spot")).breaks(wrong("small test-zone-2 spot"));
    plain().bend(launch("small", "test-zone-1", "on-demand")).breaks(wrong("small test-zone-1 on-demand"));
    plain().bend(launch("large", "test-zone-1", "spot")).breaks(wrong("large test-zone-1 spot"));
    plain().bend(|claim| claim.launch.price = MicroUsd(99)).breaks(Violation::Price {
        node: node(),
        said: MicroUsd(99),
        costs: MicroUsd(100),
    });
}

#[test]
fn dear_spot_and_special_types_are_passed_over() {
    let both = |spot: u64| vec![sold("test-zone-1", "spot").at(spot), sold("test-zone-1", "on-demand").at(100)];
    let it = |types: Vec<karpenter_core::InstanceType>, names: &[&str]| {
        draft(of(pool("default").types(types), pod("p"))).fresh_in(&["p"], names, &["test-zone-1"])
    };
    let buy = |kind: &'static str, capacity_type: &'static str, price| {
        move |claim: &mut karpenter_core::plan::NewNode| {
            claim.launch.instance_type = kind.into();
            claim.launch.capacity_type = capacity_type.into();
            claim.launch.price = MicroUsd(price);
        }
    };
    let dear = |spot| it(vec![instance_type("small").offerings(both(spot)).build()], &["small"]);
    dear(100).bend(buy("small", "spot", 100)).sound();
    dear(101).bend(buy("small", "on-demand", 100)).sound();
    assert_eq!(verify(&dear(101).world, &dear(101).bend(buy("small", "spot", 101)).plan).len(), 1);
    let gpu = || instance_type("gpu").room("nvidia.com/gpu", "1").price(50).build();
    let metal = || instance_type("metal").label("karpenter.k8s.aws/instance-size", "metal-24xl").price(60).build();
    let usual = || instance_type("usual").price(90).build();
    let names = ["gpu", "metal", "usual"];
    it(vec![gpu(), metal(), usual()], &names).bend(buy("usual", "spot", 90)).sound();
    it(vec![gpu(), metal()], &names[..2]).bend(buy("gpu", "spot", 50)).sound();
    let dearer = it(vec![gpu(), metal()], &names[..2]).bend(buy("metal", "spot", 60));
    assert!(matches!(verify(&dearer.world, &dearer.plan)[..], [Violation::Launch { .. }]));
    let large = || instance_type("large").label("karpenter.k8s.aws/instance-size", "large").price(70).build();
    it(vec![metal(), large()], &["metal", "large"]).bend(buy("large", "spot", 70)).sound();
    // With minValues nothing is struck out.
    let mut flexible = it(vec![gpu(), metal(), usual()], &names).bend(buy("gpu", "spot", 50));
    let key: std::sync::Arc<str> = INSTANCE_TYPE.into();
    flexible.last().requirements.0.get_mut(&key).unwrap().min_values = Some(1);
    flexible.sound();
}

#[test]
fn only_the_sixty_cheapest_types_are_named_at_launch() {
    // Sixty on-demand types are cheaper than the only spot one, which minValues keeps from being struck out.
    let it = |on_demand: usize| {
        let only = |ct: &str| vec![sold("test-zone-1", ct)];
        let kind = |i: usize| instance_type(&format!("t{i:02}")).price(100).offerings(only("on-demand")).build();
        let mut types: Vec<_> = (0..on_demand).map(kind).collect();
        types.push(instance_type("x").price(200).offerings(only("spot")).build());
        let names: Vec<String> = types.iter().map(|kind| kind.name.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut it = draft(of(pool("default").types(types), pod("p"))).fresh_in(&["p"], &names, &["test-zone-1"]);
        let key: std::sync::Arc<str> = INSTANCE_TYPE.into();
        it.last().requirements.0.get_mut(&key).unwrap().min_values = Some(1);
        it
    };
    let spot = |claim: &mut karpenter_core::plan::NewNode| {
        claim.launch.instance_type = "x".into();
        claim.launch.price = MicroUsd(200);
    };
    it(59).bend(spot).sound();
    it(60).bend(|claim| claim.launch.capacity_type = "on-demand".into()).sound();
}
