use karpenter_ec2::catalogue::CapacityClass;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Fake, ZONES, at, class};
use crate::unavailable::Scope;

struct Shop {
    fake: Arc<Fake>,
    types: Types,
    unavailable: Unavailable,
    reservations: Reservations,
}

impl Shop {
    async fn new() -> Self {
        Self::with(Ec2Settings::default()).await
    }

    async fn with(settings: Ec2Settings) -> Self {
        let fake = Arc::new(Fake::default());
        *fake.sold.lock().unwrap() = vec![("m5.large", ZONES.to_vec()), ("c5.large", vec![ZONES[0]])];
        let types = Types::new(fake.aws(), settings);
        types.refresh().await.unwrap();
        Self { types, unavailable: Unavailable::default(), reservations: Reservations::new(fake.aws()), fake }
    }

    fn list(&self, class: &EC2NodeClass, now: i64) -> InstanceTypes {
        self.types.list(class, None, &self.unavailable, &self.reservations, &BTreeSet::new(), at(now)).unwrap()
    }

    /// Whether the second class is answered from what the first left behind.
    fn shares(&self, one: &EC2NodeClass, other: &EC2NodeClass) -> bool {
        Arc::ptr_eq(&self.list(one, 0), &self.list(other, 1))
    }
}

fn with_status(class: &EC2NodeClass, field: &str, value: Value) -> EC2NodeClass {
    let mut object = serde_json::to_value(class).unwrap();
    object["status"][field] = value;
    serde_json::from_value(object).unwrap()
}

#[tokio::test]
async fn types_and_zones_are_asked_for_in_pages_and_together() {
    // covers: AWS-IT-02
    let shop = Shop::new().await;
    assert_eq!(shop.fake.asked(), ["DescribeInstanceTypes 100", "DescribeInstanceTypeOfferings 1000"]);
    let zones = |name: &str| shop.types.market().region.offered[name].iter().map(|z| z.to_string()).collect::<Vec<_>>();
    assert_eq!((zones("m5.large"), zones("c5.large")), (ZONES.map(str::to_owned).to_vec(), vec![ZONES[0].to_owned()]));
    let listed = shop.list(&class(json!({})), 0);
    let offered = listed[0].offerings.iter().filter_map(|offering| offering.zone()).collect::<BTreeSet<_>>();
    assert_eq!((&*listed[0].name, offered.len()), ("c5.large", 2), "every known zone, sold there or not");
}

#[tokio::test]
async fn a_refresh_that_fails_or_brings_nothing_new_changes_nothing() {
    // covers: AWS-IT-03, AWS-IT-04
    let (shop, class) = (Shop::new().await, class(json!({})));
    let first = shop.list(&class, 0);
    shop.types.refresh().await.unwrap();
    assert!(Arc::ptr_eq(&first, &shop.list(&class, 1)), "nothing new");
    let sold = std::mem::take(&mut *shop.fake.sold.lock().unwrap());
    assert!(shop.types.refresh().await.is_err());
    assert!(Arc::ptr_eq(&first, &shop.list(&class, 2)), "what was known stays");
    *shop.fake.sold.lock().unwrap() = sold.into_iter().chain([("r5.large", vec![ZONES[0]])]).collect();
    shop.types.refresh().await.unwrap();
    assert_eq!(shop.list(&class, 3).len(), 3);
}

#[tokio::test]
async fn a_list_is_kept_for_five_minutes_under_what_decides_it() {
    // covers: AWS-IT-06
    let (shop, plain) = (Shop::new().await, class(json!({})));
    let first = shop.list(&plain, 0);
    assert!(Arc::ptr_eq(&first, &shop.list(&plain, 299)));
    assert!(!Arc::ptr_eq(&first, &shop.list(&plain, 300)));
    let interfaces = json!([{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]);
    let reservation = json!([{"availabilityZone": ZONES[0], "id": "cr-1", "instanceMatchCriteria": "open", "state": "active",
        "instanceType": "m5.large", "ownerID": "1", "reservationType": "default"}]);
    for other in [
        with_status(&plain, "amis", json!([{"id": "ami-other", "requirements": []}])),
        with_status(&plain, "subnets", json!([{"id": "s", "zone": ZONES[0], "zoneID": "use1-az1"}])),
        class(json!({"kubelet": {"maxPods": 9}})),
        class(json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "99Gi"}}]})),
        with_status(&plain, "capacityReservations", reservation),
        class(json!({"networkInterfaces": interfaces})),
        class(json!({"instanceStorePolicy": "RAID0"})),
        class(json!({"amiFamily": "Custom"})),
    ] {
        assert!(!shop.shares(&plain, &other), "{:?} {:?}", other.spec, other.status);
    }
    for same in [class(json!({"tags": {"a": "b"}})), class(json!({"userData": "x"})), class(json!({"role": "other"}))] {
        assert!(shop.shares(&plain, &same), "{:?}", same.spec);
    }
}

#[tokio::test]
async fn order_does_not_matter_and_neither_does_the_end_of_a_reservation() {
    // covers: AWS-IT-07
    let (shop, plain) = (Shop::new().await, class(json!({})));
    let reversed = |class: &EC2NodeClass| {
        let mut other = class.clone();
        let status = other.status.as_mut().unwrap();
        status.subnets.as_mut().unwrap().reverse();
        status.amis.as_mut().unwrap().reverse();
        other.spec.block_device_mappings.iter_mut().for_each(|list| list.reverse());
        other.spec.network_interfaces.iter_mut().for_each(|list| list.reverse());
        other
    };
    assert!(shop.shares(&plain, &reversed(&plain)));
    let interface =
        |device: u32, kind: &str| json!({"networkCardIndex": 0, "deviceIndex": device, "interfaceType": kind});
    let full = class(json!({
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "99Gi"}}, {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "9Gi"}},
        ],
        "networkInterfaces": [interface(0, "interface"), interface(1, "interface")],
    }));
    assert!(shop.shares(&full, &reversed(&full)));
    let reservation = |id: &str, end: &str| {
        json!({"availabilityZone": ZONES[0], "id": id, "endTime": end, "state": "active",
        "instanceMatchCriteria": "open", "instanceType": "m5.large", "ownerID": "1", "reservationType": "default"})
    };
    let (day, year) = ("2026-01-02T00:00:00Z", "2027-01-01T00:00:00Z");
    let with = |list: Value| with_status(&plain, "capacityReservations", list);
    let soon = with(json!([reservation("cr-1", day), reservation("cr-2", day)]));
    assert!(shop.shares(&soon, &with(json!([reservation("cr-1", year), reservation("cr-2", year)]))));
    assert!(!shop.shares(&soon, &with(json!([reservation("cr-2", day), reservation("cr-1", day)]))));
}

#[tokio::test]
async fn a_new_list_holds_on_to_what_did_not_change_and_to_no_old_list() {
    let (shop, class) = (Shop::new().await, class(json!({})));
    let other = with_status(&class, "amis", json!([{"id": "ami-other", "requirements": []}]));
    let first = shop.list(&class, 0);
    shop.list(&other, 0);
    assert_eq!(shop.types.lock().len(), 2);
    shop.types.observe_memory(&class, "m5.large", "7000Mi".parse().unwrap(), at(1));
    let second = shop.list(&class, 1);
    let same: Vec<bool> = first.iter().zip(second.iter()).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
    assert_eq!(same, [true, false], "c5.large, m5.large");
    assert_eq!(shop.types.lock().len(), 1, "the other one is out of date as well");
}

#[tokio::test]
async fn the_least_memory_that_a_node_reported_counts() {
    // covers: AWS-IT-35, AWS-IT-36
    let (shop, plain) = (Shop::new().await, class(json!({})));
    let memory = |class: &EC2NodeClass, now: i64| {
        let listed = shop.list(class, now);
        listed.iter().find(|kind| &*kind.name == "m5.large").unwrap().capacity.get("memory").to_string()
    };
    let tell = |amount: &str, now: i64| shop.types.observe_memory(&plain, "m5.large", amount.parse().unwrap(), at(now));
    let estimate = memory(&plain, 0);
    tell("7800Mi", 0);
    assert_eq!(memory(&plain, 1), "7800Mi");
    tell("7900Mi", 1);
    assert_eq!(memory(&plain, 2), "7800Mi", "the lowest");
    tell("7700Mi", 2);
    assert_eq!(memory(&plain, 3), "7700Mi");
    let other = with_status(&plain, "amis", json!([{"id": "ami-other", "requirements": []}]));
    assert_eq!(memory(&other, 4), estimate, "other images may keep more for themselves");
    let days = 24 * 3600;
    tell("7700Mi", 50 * days);
    assert_eq!(memory(&plain, 61 * days), "7700Mi", "said again, so it holds for longer");
    assert_eq!(memory(&plain, 111 * days), estimate, "sixty days after it was last said");
}

#[tokio::test]
async fn formulas_are_kept_from_their_last_use_and_broken_ones_are_not() {
    // covers: AWS-KC-19
    let shop = Shop::with(Ec2Settings { kubelet_expressions: true, ..Ec2Settings::default() }).await;
    let class = class(json!({"kubelet": {"maxPods": "vcpus * 7", "kubeReserved": {"cpu": "vcpus +"}}}));
    let kubelet = wire_facts(&class).unwrap().kubelet;
    let hour = 3600;
    let first = shop.types.formulas(&kubelet, at(0));
    assert_eq!(first.keys().collect::<Vec<_>>(), ["vcpus * 7"], "what does not compile is tried anew each time");
    let same = |now: i64| Arc::ptr_eq(&first["vcpus * 7"], &shop.types.formulas(&kubelet, at(now))["vcpus * 7"]);
    assert!(same(11 * hour) && same(22 * hour), "each use renews it");
    assert!(!same(34 * hour));
}

#[tokio::test]
async fn a_list_brought_up_to_date_is_the_list_made_anew() {
    // covers: AWS-IT-06
    let (shop, class) = (Shop::new().await, class(json!({})));
    let anew = |shop: &Shop, now: i64| {
        shop.types.lock().clear();
        shop.list(&class, now)
    };
    for (zone, memory, second) in [(ZONES[0], "7000Mi", 1), (ZONES[1], "7000Mi", 2), (ZONES[1], "6900Mi", 3)] {
        let before = shop.list(&class, second);
        shop.unavailable.mark_pool(CapacityClass::Spot, "m5.large", zone, &Scope::default(), at(second));
        shop.types.observe_memory(&class, "m5.large", memory.parse().unwrap(), at(second));
        let listed = shop.list(&class, second);
        assert!(Arc::ptr_eq(&before[0], &listed[0]), "nothing happened to {}", before[0].name);
        assert_ne!(before[1], listed[1]);
        assert_eq!(*listed, *anew(&shop, second), "{zone} {memory}");
    }
    let before = shop.list(&class, 3);
    shop.unavailable.mark_class(CapacityClass::Spot, at(4));
    let listed = shop.list(&class, 4);
    assert_ne!(before[0], listed[0], "this concerns all of them");
    assert_eq!(*listed, *anew(&shop, 4));
}
