use super::*;
use crate::catalogue::SpotPrices;
use crate::nodeclass::{PlacementGroup, ReservationKind};
use crate::testing::{facts, subnet};
use crate::{Ec2Settings, Place, resolve};

fn region() -> RegionFacts {
    let zone = |letter: &str| -> Arc<str> { format!("r-1{letter}").into() };
    RegionFacts {
        zones: ["a", "b", "c"].map(|letter| (zone(letter), format!("id-{letter}").into())).into(),
        offered: [
            ("m5.large".into(), Arc::new([zone("a"), zone("b")].into())),
            ("c5.large".into(), Arc::new([zone("c")].into())),
        ]
        .into(),
        on_demand: [("m5.large".into(), MicroUsd(100_000)), ("c5.large".into(), MicroUsd(5_000_000))].into(),
        ..RegionFacts::default()
    }
}

struct Shop {
    region: RegionFacts,
    class: NodeClassFacts,
    circumstances: Circumstances,
    settings: Ec2Settings,
}

impl Shop {
    fn new() -> Self {
        Self {
            region: region(),
            class: NodeClassFacts::default(),
            circumstances: Circumstances::default(),
            settings: Ec2Settings::default(),
        }
    }

    fn offerings(&self, name: &str) -> Vec<Offering> {
        let place = Place { name: "r-1", facts: &self.region };
        let facts = [facts(name)];
        resolve(&facts, place, &self.class, &self.settings, &self.circumstances).unwrap().remove(0).offerings
    }

    /// `a on-demand 100000`, with a `!` in front where it cannot be bought.
    fn list(&self, name: &str) -> Vec<String> {
        let line = |offering: &Offering| {
            let zone = offering.zone().unwrap();
            let sign = if offering.available { "" } else { "!" };
            let kind = offering.capacity_type().unwrap();
            format!("{sign}{} {kind} {}", zone.trim_start_matches("r-1"), offering.price.0)
        };
        self.offerings(name).iter().map(line).collect()
    }
}

fn zones(letters: &[&str]) -> Option<Vec<crate::nodeclass::Subnet>> {
    let one = |letter: &&str| subnet(&format!("s-{letter}"), &format!("r-1{letter}"), Some(&format!("id-{letter}")));
    Some(letters.iter().map(one).collect())
}

#[test]
fn every_zone_and_usage_class_once() {
    // covers: AWS-OFF-01, AWS-OFF-03, AWS-OFF-06
    let shop = Shop::new();
    assert_eq!(
        shop.list("m5.large"),
        [
            "a on-demand 100000",
            "a spot 40000",
            "b on-demand 100000",
            "b spot 40000",
            "!c on-demand 100000",
            "!c spot 40000",
        ]
    );
    // Sold on demand only, and not sold here at all.
    assert_eq!(shop.list("u-6tb1.112xlarge"), ["!a on-demand 0", "!b on-demand 0", "!c on-demand 0"]);
}

#[test]
fn a_zone_needs_a_subnet() {
    // covers: AWS-OFF-01, AWS-OFF-02, AWS-OFF-05
    let mut shop = Shop::new();
    shop.class.subnets = zones(&["b", "c"]);
    let found = shop.list("m5.large");
    assert_eq!(found.iter().filter(|line| !line.starts_with('!')).count(), 2, "{found:?}");
    assert!(found.contains(&"!a on-demand 100000".to_owned()) && found.contains(&"b spot 40000".to_owned()));
    let ids: Vec<bool> = shop.offerings("m5.large").iter().map(|o| o.requirements.has(labels::ZONE_ID)).collect();
    assert_eq!(ids, [false, false, true, true, true, true], "where a subnet tells it");
}

#[test]
fn offerings_say_that_they_are_no_reservation() {
    // covers: AWS-OFF-05
    for offering in Shop::new().offerings("m5.large") {
        for key in [
            labels::CAPACITY_RESERVATION_ID,
            labels::CAPACITY_RESERVATION_TYPE,
            labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
        ] {
            assert_eq!(offering.requirements.0.get(key), Some(&Requirement::absent()), "{key}");
        }
    }
}

#[test]
fn spot_prices_are_known_by_zone_or_not_at_all() {
    // covers: AWS-OFF-02, AWS-OFF-03, AWS-PRICE-02, AWS-PRICE-11
    let mut shop = Shop::new();
    shop.region.spot = SpotPrices::LikeOnDemand;
    assert!(shop.list("m5.large").contains(&"a spot 100000".to_owned()));
    shop.region.spot.known_mut().entry("m5.large".into()).or_default().insert("r-1b".into(), MicroUsd(30_000));
    assert_eq!(shop.list("m5.large")[..4], ["a on-demand 100000", "!a spot 0", "b on-demand 100000", "b spot 30000"]);
}

#[test]
fn an_overlay_prices_what_nobody_else_does() {
    // covers: AWS-OFF-04
    let mut shop = Shop::new();
    shop.circumstances.overlay_prices = [("m5.large".into(), MicroUsd(7)), ("c5.large".into(), MicroUsd(7))].into();
    shop.region.on_demand.remove("m5.large");
    assert_eq!(shop.list("m5.large")[..2], ["a on-demand 7", "a spot 7"]);
    assert!(shop.list("c5.large").contains(&"c on-demand 5000000".to_owned()));
}

#[test]
fn windows_costs_what_linux_costs() {
    // covers: AWS-PRICE-12
    let mut shop = Shop::new();
    let linux = shop.list("m5.large");
    shop.class.ami_family = crate::AmiFamily::Windows2022;
    assert_eq!(shop.list("m5.large"), linux);
}

#[test]
fn what_ran_out_is_unavailable() {
    // covers: AWS-OFF-02, AWS-OFF-08
    let mut shop = Shop::new();
    let pool = (CapacityClass::Spot, Arc::from("r-1a"));
    shop.circumstances.out_of_stock = [("m5.large".into(), [pool].into())].into();
    assert_eq!(shop.list("m5.large")[..3], ["a on-demand 100000", "!a spot 40000", "b on-demand 100000"]);
    shop.circumstances = Circumstances { closed_classes: [CapacityClass::Spot].into(), ..Circumstances::default() };
    assert_eq!(
        shop.list("m5.large")[..4],
        ["a on-demand 100000", "!a spot 40000", "b on-demand 100000", "!b spot 40000"]
    );
}

#[test]
fn a_zone_is_shut_when_shifted_or_all_its_subnets_are_full() {
    // covers: AWS-OFF-02, AWS-OFF-09
    let mut shop = Shop::new();
    shop.circumstances.shifted_zones = ["id-a".into()].into();
    assert_eq!(
        shop.list("m5.large")[..4],
        ["!a on-demand 100000", "!a spot 40000", "b on-demand 100000", "b spot 40000"]
    );
    shop.circumstances.shifted_zones.clear();
    shop.class.subnets = zones(&["a", "b"]);
    shop.class.subnets.as_mut().unwrap().push(subnet("s-a2", "r-1a", Some("id-a")));
    let available = |shop: &Shop| shop.list("m5.large").iter().filter(|line| !line.starts_with('!')).count();
    shop.circumstances.full_subnets = ["s-a".into()].into();
    assert_eq!(available(&shop), 4, "the second subnet has room");
    shop.circumstances.full_subnets.insert("s-a2".into());
    assert_eq!(available(&shop), 2);
    // A zone without subnets of the class is not full; it is out of reach anyway.
    shop.class.subnets = None;
    assert_eq!(available(&shop), 4);
}

#[test]
fn reservations_are_nearly_free_while_they_last() {
    // covers: AWS-CR-07, AWS-PRICE-13
    let mut shop = Shop::new();
    let reservation = |id: &str, zone: &str, remaining, expiring| CapacityReservation {
        id: id.into(),
        instance_type: "c5.large".into(),
        zone: zone.into(),
        kind: ReservationKind::CapacityBlock,
        interruptible: false,
        expiring,
        remaining,
    };
    shop.class.capacity_reservations = vec![
        reservation("cr-1", "r-1c", 2, false),
        reservation("cr-empty", "r-1c", 0, false),
        reservation("cr-old", "r-1c", 2, true),
        reservation("cr-elsewhere", "r-1a", 2, false),
    ];
    let reserved: Vec<_> = shop.offerings("c5.large").into_iter().filter(|o| o.reservation.is_some()).collect();
    let ids: Vec<_> = reserved.iter().map(|o| (o.reservation.as_ref().unwrap().id.to_string(), o.available)).collect();
    let want = [("cr-elsewhere", false), ("cr-1", true), ("cr-empty", false), ("cr-old", false)];
    assert_eq!(ids, want.map(|(id, available)| (id.to_owned(), available)), "by zone");
    let first = &reserved[1];
    assert_eq!(first.price, MicroUsd(5_000_000).fraction(1, 10_000_000));
    assert_eq!(first.reservation.as_ref().unwrap().remaining, 2);
    for (key, value) in [
        (CAPACITY_TYPE, RESERVED),
        (ZONE, "r-1c"),
        (labels::ZONE_ID, "id-c"),
        (labels::CAPACITY_RESERVATION_ID, "cr-1"),
        (labels::CAPACITY_RESERVATION_TYPE, "capacity-block"),
        (labels::CAPACITY_RESERVATION_INTERRUPTIBLE, "false"),
    ] {
        assert_eq!(first.requirements.0.get(key), Some(&Requirement::one(value)), "{key}");
    }
    let mut unpriced = Shop { region: shop.region.clone(), class: shop.class.clone(), ..Shop::new() };
    unpriced.region.on_demand.clear();
    let free = unpriced.offerings("c5.large").into_iter().find(|o| o.available && o.reservation.is_some()).unwrap();
    assert_eq!(free.price, MicroUsd(0), "paid for already, whatever it would cost");
    shop.circumstances.shifted_zones = ["id-c".into()].into();
    assert!(shop.offerings("c5.large").iter().all(|offering| !offering.available));
    shop.settings.reserved_capacity = false;
    assert!(shop.offerings("c5.large").iter().all(|offering| offering.reservation.is_none()));
}

#[test]
fn partitions_multiply_offerings() {
    // covers: AWS-PG-06, AWS-PG-10
    let mut shop = Shop::new();
    let group = |strategy| Some(PlacementGroup { id: "pg-1".into(), strategy });
    shop.class.placement_group = group(PlacementStrategy::Spread);
    assert_eq!(shop.offerings("m5.large").len(), 6);
    shop.class.placement_group = group(PlacementStrategy::Partition { count: 2 });
    let found = shop.offerings("m5.large");
    let partitions: Vec<_> = found.iter().map(|o| o.requirements.get(labels::PLACEMENT_GROUP_PARTITION)).collect();
    assert_eq!(found.len(), 12);
    assert_eq!(partitions[..2], [Requirement::one("1"), Requirement::one("2")]);
    let available = found.iter().filter(|offering| offering.available).count();
    let zone = found.iter().find(|offering| offering.available).and_then(|offering| offering.zone()).unwrap();
    let refused = (crate::catalogue::CapacityClass::OnDemand, zone.clone(), "2".into());
    shop.circumstances.closed_partitions = [("m5.large".into(), [refused].into())].into();
    let left = shop.offerings("m5.large");
    assert_eq!(left.iter().filter(|offering| offering.available).count(), available - 1, "that partition alone");
    let one = |partition: &str| {
        let of = left.iter().find(|o| {
            o.zone() == Some(zone.clone())
                && o.capacity_type().as_deref() == Some("on-demand")
                && o.requirements.get(labels::PLACEMENT_GROUP_PARTITION) == Requirement::one(partition)
        });
        of.unwrap().available
    };
    assert_eq!((one("1"), one("2")), (true, false));
}

#[test]
fn what_one_stage_adds_the_next_one_sees() {
    // covers: AWS-OFF-17
    let mut shop = Shop::new();
    shop.class.capacity_reservations = vec![CapacityReservation {
        id: "cr-1".into(),
        instance_type: "m5.large".into(),
        zone: "r-1a".into(),
        kind: ReservationKind::Default,
        interruptible: false,
        expiring: false,
        remaining: 2,
    }];
    let without = shop.offerings("m5.large");
    let reserved = |offerings: &[Offering]| offerings.iter().filter(|one| one.reservation.is_some()).count();
    assert_eq!(reserved(&without), 1);
    shop.class.placement_group =
        Some(PlacementGroup { id: "pg-1".into(), strategy: PlacementStrategy::Partition { count: 3 } });
    let within = shop.offerings("m5.large");
    assert_eq!((within.len(), reserved(&within)), (without.len() * 3, 3), "reserved ones are in every partition too");
}
