use super::*;
use crate::nodeclass::{InterfaceKind, PlacementGroup, PlacementStrategy};
use crate::testing::{facts, family, resolved};

#[test]
fn a_type_that_does_not_fit_is_listed_with_nothing_for_sale() {
    // covers: AWS-IT-56, AWS-IT-57
    for (name, image, fit) in [
        ("a1.large", AmiFamily::Al2023, false),
        ("a1.large", AmiFamily::Al2, true),
        ("a1.large", AmiFamily::Bottlerocket, true),
        ("a1.large", AmiFamily::Custom, true),
        ("m6g.large", AmiFamily::Al2023, true),
    ] {
        let instance_type = resolved(name, &family(image));
        assert!(!instance_type.offerings.is_empty(), "{name}");
        let available = instance_type.offerings.iter().any(|offering| offering.available);
        assert_eq!(available, fit, "{name} {image:?}");
    }
}

#[test]
fn interfaces_need_their_slots() {
    // covers: AWS-IT-58
    let nic = |card, device, kind| NetworkInterface { card, device, kind };
    let plain = InterfaceKind::Interface;
    let efa = InterfaceKind::EfaOnly;
    for (name, interfaces, want) in [
        ("m5.large", vec![], true),
        ("m5.large", vec![nic(0, 0, plain), nic(0, 2, plain)], true),
        ("m5.large", vec![nic(0, 3, plain)], false),
        ("m5.large", vec![nic(1, 0, plain)], false),
        ("m5.large", vec![nic(0, 1, efa)], false),
        ("m6idn.32xlarge", vec![nic(0, 0, plain), nic(0, 1, efa), nic(1, 1, efa)], true),
        ("m6idn.32xlarge", vec![nic(0, 1, efa), nic(0, 2, efa), nic(1, 1, efa)], false),
        ("m4.large", vec![nic(0, 0, plain)], false), // without ENA
    ] {
        let class = NodeClassFacts { network_interfaces: Some(interfaces), ..NodeClassFacts::default() };
        assert_eq!(fits(&facts(name), &class), want, "{name} {:?}", class.network_interfaces);
    }
    assert_eq!(facts("m4.large").ena, Some(false));
    let mut unknown = facts("m4.large");
    unknown.ena = None;
    let class = NodeClassFacts { network_interfaces: Some(vec![nic(0, 0, plain)]), ..NodeClassFacts::default() };
    assert!(fits(&unknown, &class), "not known to lack it");
}

#[test]
fn nested_virtualization_needs_the_processor() {
    // covers: AWS-IT-59
    let able = facts("m8i.large");
    assert!(able.cpu_features.iter().any(|feature| &**feature == "nested-virtualization"));
    for (facts, asked, want) in
        [(&able, true, true), (&facts("m5.large"), true, false), (&facts("m5.large"), false, true)]
    {
        let class = NodeClassFacts { nested_virtualization: asked, ..NodeClassFacts::default() };
        assert_eq!(fits(facts, &class), want, "{} {asked}", facts.name);
    }
}

#[test]
fn a_placement_group_needs_its_strategy() {
    // covers: AWS-IT-60
    assert_eq!(facts("t3.large").placement_strategies.len(), 2, "no cluster for burstable types");
    for (name, strategy, want) in [
        ("t3.large", PlacementStrategy::Cluster, false),
        ("t3.large", PlacementStrategy::Spread, true),
        ("t3.large", PlacementStrategy::Partition { count: 3 }, true),
        ("m5.large", PlacementStrategy::Cluster, true),
    ] {
        let group = PlacementGroup { id: "pg-1".into(), strategy };
        let class = NodeClassFacts { placement_group: Some(group), ..NodeClassFacts::default() };
        assert_eq!(fits(&facts(name), &class), want, "{name} {strategy:?}");
    }
}

#[test]
fn connection_tracking_needs_nitro() {
    // covers: AWS-IT-61
    for (name, tracking, want) in
        [("m5.large", true, true), ("m4.large", true, false), ("m5.metal", true, false), ("m4.large", false, true)]
    {
        let class = NodeClassFacts { connection_tracking: tracking, ..NodeClassFacts::default() };
        assert_eq!(fits(&facts(name), &class), want, "{name} {tracking}");
    }
}
