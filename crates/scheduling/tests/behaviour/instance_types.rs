//! Instance types and offerings: what can be bought, and in which order it is listed.

use karpenter_core::labels::{CAPACITY_TYPE, ZONE};
use karpenter_core::resources::CPU;
use karpenter_testkit::express::is_in;
use karpenter_testkit::fake::{self, TypeBuilder, sold};
use karpenter_testkit::{pod, pool, world};

use crate::seen::{Seen, seen};

fn kind(name: &str) -> TypeBuilder {
    fake::instance_type(name)
}

fn listed(seen: &Seen) -> String {
    seen.type_names(&seen.plan.new_nodes[0])
}

#[test]
fn what_is_sold_out_is_not_bought() {
    // covers: SCH-IT-01, SCH-IT-03, SCH-IT-04
    let types = || {
        vec![
            kind("gone").offerings(vec![sold("test-zone-1", "spot").unavailable()]).build(),
            kind("half")
                .offerings(vec![sold("test-zone-1", "spot").unavailable(), sold("test-zone-2", "spot")])
                .build(),
            kind("here").offerings(vec![sold("test-zone-1", "spot")]).build(),
        ]
    };
    let start = || world().pool(pool("default").types(types()));
    assert_eq!(listed(&seen(start().pod(pod("p")))), "half here");
    assert_eq!(listed(&seen(start().pod(pod("p").zone("test-zone-1")))), "here");
}

#[test]
fn requirements_offering_and_room_must_come_from_one_type() {
    // covers: SCH-IT-04
    let types = vec![
        kind("large-elsewhere").cpu("16").offerings(vec![sold("test-zone-2", "spot")]).build(),
        kind("small-here").cpu("2").offerings(vec![sold("test-zone-1", "spot")]).build(),
    ];
    let seen = seen(world().pool(pool("default").types(types)).pod(pod("p").cpu("8").zone("test-zone-1")));
    assert_eq!(seen.left(), "p");
}

#[test]
fn types_are_listed_cheapest_first_by_what_the_claim_may_buy() {
    // covers: SCH-IT-08, SCH-IT-09, SCH-NEW-30
    let priced = |name: &str, spot, on_demand| {
        kind(name)
            .offerings(vec![sold("test-zone-1", "spot").at(spot), sold("test-zone-1", "on-demand").at(on_demand)])
            .build()
    };
    let types = || vec![priced("a", 30, 100), priced("b", 10, 300), priced("c", 20, 200), priced("d", 20, 50)];
    let start = || world().pool(pool("default").types(types()));
    assert_eq!(listed(&seen(start().pod(pod("p")))), "b c d a", "equal prices by name");
    assert_eq!(listed(&seen(start().pod(pod("p").select(CAPACITY_TYPE, "on-demand")))), "d a c b");
    let on_demand_pool = world().pool(pool("default").types(types()).require(is_in(CAPACITY_TYPE, &["on-demand"])));
    assert_eq!(listed(&seen(on_demand_pool.pod(pod("p")))), "d a c b");
}

#[test]
fn a_zones_prices_count_only_in_that_zone() {
    // covers: SCH-IT-08, SCH-IT-09
    let by_zone = |name: &str, one, two| {
        kind(name).offerings(vec![sold("test-zone-1", "spot").at(one), sold("test-zone-2", "spot").at(two)]).build()
    };
    let start = || world().pool(pool("default").types(vec![by_zone("a", 10, 90), by_zone("b", 20, 30)]));
    let one = seen(start().pod(pod("p").zone("test-zone-1")));
    let two = seen(start().pod(pod("p").zone("test-zone-2")));
    assert_eq!((listed(&one), listed(&two)), ("a b".to_owned(), "b a".to_owned()));
    assert_eq!((one.plan.price().0, two.plan.price().0), (10, 30));
    let launch = &two.plan.new_nodes[0].launch;
    assert_eq!((&*launch.instance_type, &*launch.zone, &*launch.capacity_type), ("b", "test-zone-2", "spot"));
}

#[test]
fn pods_join_as_long_as_one_type_holds_them_and_the_list_only_shrinks() {
    // covers: SCH-NEW-19, SCH-NEW-20
    let start = |pods| world().pool(pool("default").types(fake::incremental(4))).replicas(pods, pod("p").cpu("900m"));
    for (pods, want) in
        [(1, "fake-it-0 fake-it-1 fake-it-2 fake-it-3"), (2, "fake-it-1 fake-it-2 fake-it-3"), (4, "fake-it-3")]
    {
        let seen = seen(start(pods));
        assert_eq!((seen.sizes(), listed(&seen).as_str()), (vec![pods], want));
    }
    assert_eq!(seen(start(5)).sizes(), [4, 1]);
}

#[test]
fn only_the_cheapest_six_hundred_are_listed() {
    // covers: SCH-NEW-30
    let types: Vec<_> = (0..650).map(|i| kind(&format!("t-{i:03}")).price(1_000 + (i * 7 % 650)).build()).collect();
    let seen = seen(world().pool(pool("default").types(types)).pod(pod("p")));
    let node = &seen.plan.new_nodes[0];
    assert_eq!(node.instance_types.len(), 600);
    let price = |kind: &usize| seen.world.pools[0].instance_types[*kind].offerings[0].price;
    assert!(node.instance_types.is_sorted_by_key(price));
    assert_eq!(node.instance_types.iter().map(price).max().unwrap().0, 1_599);
}

#[test]
fn combinations_no_type_offers_cannot_be_had() {
    // covers: SCH-NEW-21
    let types = || {
        vec![
            kind("amd").cpu("8").room(fake::VENDOR_A, "1").build(),
            kind("arm").cpu("8").arch("arm64").systems(&["linux"]).room(fake::VENDOR_B, "1").build(),
        ]
    };
    let start = || world().pool(pool("default").types(types()));
    let a = || pod("a").request(fake::VENDOR_A, "1");
    let b = || pod("b").request(fake::VENDOR_B, "1");
    assert_eq!(seen(start().pod(a()).pod(b())).sizes(), [1, 1]);
    assert_eq!(seen(start().pod(a().request(fake::VENDOR_B, "1"))).left(), "a");
    assert_eq!(seen(start().pod(a().select("kubernetes.io/arch", "arm64"))).left(), "a");
    let archs =
        start().pod(pod("x").select("kubernetes.io/arch", "arm64")).pod(pod("y").select("kubernetes.io/arch", "amd64"));
    assert_eq!(seen(archs).sizes(), [1, 1]);
    let systems =
        start().pod(pod("x").select("kubernetes.io/os", "windows")).pod(pod("y").select("kubernetes.io/arch", "arm64"));
    assert_eq!(seen(systems).sizes(), [1, 1]);
    let zones = start().pod(pod("x").zone("test-zone-1")).pod(pod("y").zone("test-zone-2"));
    let zones = seen(zones);
    assert_eq!((zones.sizes(), zones.per(ZONE, "").as_str()), (vec![1, 1], "test-zone-1=1 test-zone-2=1"));
    let names = start().pod(pod("x").select("node.kubernetes.io/instance-type", "amd"));
    assert_eq!(listed(&seen(names)), "amd");
}

#[test]
fn a_type_that_would_be_overcommitted_when_empty_is_never_used() {
    // covers: SCH-NEW-05, SCH-RES-11
    let tiny = kind("tiny").room(CPU, "50m").build();
    let seen = seen(world().pool(pool("default").types(vec![tiny, kind("fine").build()])).pod(pod("p")));
    assert_eq!(listed(&seen), "fine", "100m are kept for the kubelet");
}
