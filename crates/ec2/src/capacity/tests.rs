use super::*;
use crate::AmiFamily;
use crate::catalogue::Gpu;
use crate::nodeclass::{KubeletFacts, MaxPods};
use crate::testing::{amount, facts, family, quantity, resolved, resolved_with, volume};
use crate::{Circumstances, Ec2Settings};

#[test]
fn cpu_is_the_default_vcpus() {
    // covers: AWS-IT-33
    for (name, vcpus) in [("m5.large", "2"), ("t4g.small", "2"), ("u-6tb1.112xlarge", "448")] {
        assert_eq!(amount(&resolved(name, &NodeClassFacts::default()).capacity, "cpu"), vcpus);
    }
}

#[test]
fn memory_is_nominal_less_what_the_machine_keeps() {
    // covers: AWS-IT-34
    for (name, percent, mib) in [
        ("m5.large", 0.075, 8192 - 615), // 614.4 rounded up
        ("m5.large", 0.0, 8192),
        ("m5.large", 0.05, 8192 - 410),
        ("t4g.small", 0.075, 1984 - 149), // 64 MiB less on Graviton, then 148.8 rounded up
        ("t4g.small", 0.0, 2048 - 64),
    ] {
        let bytes = estimated_memory(&facts(name), percent).units();
        assert_eq!(bytes, mib * MIB, "{name} at {percent}");
    }
}

#[test]
fn graviton_is_told_by_the_first_architecture() {
    // covers: AWS-IT-34
    let mut both = facts("t4g.small");
    both.arch = vec!["x86_64".into(), "arm64".into()];
    assert_eq!(estimated_memory(&both, 0.0).units(), 2048 * MIB);
}

#[test]
fn interfaces_bound_the_number_of_pods() {
    // covers: AWS-IT-39
    for (name, reserved, want) in [
        ("t3.large", 0, 35),
        ("m5.xlarge", 0, 58),
        ("m6idn.32xlarge", 0, 394), // of two network cards only the default one counts
        ("t3.large", 1, 24),
        ("t3.large", 3, 0),
        ("t3.large", 9, 0),
    ] {
        assert_eq!(pods_by_interfaces(&facts(name), reserved, None), want, "{name} less {reserved}");
    }
    let interface = |card, kind| NetworkInterface { card, device: 1, kind };
    let efa = [
        interface(0, InterfaceKind::Interface),
        interface(0, InterfaceKind::EfaOnly),
        interface(1, InterfaceKind::EfaOnly),
    ];
    assert_eq!(pods_by_interfaces(&facts("t3.large"), 0, Some(&efa)), 24, "one of them on card 0");
}

#[test]
fn max_pods_then_interfaces_then_a_fixed_number() {
    // covers: AWS-IT-38, API-EC2-32
    let windows = AmiFamily::Windows2022;
    for (family, max_pods, per_core, want) in [
        (AmiFamily::Al2023, None, None, 35),
        (AmiFamily::Al2, None, None, 35),
        (AmiFamily::Custom, None, None, 35),
        (AmiFamily::Bottlerocket, None, None, 35),
        (windows, None, None, 110),
        (windows, Some(20), None, 20),
        (AmiFamily::Al2023, Some(200), None, 200),
        (AmiFamily::Al2023, Some(200), Some(10), 20),
        (AmiFamily::Al2023, Some(15), Some(10), 15),
        (AmiFamily::Al2023, None, Some(10), 20),
        (AmiFamily::Al2023, None, Some(100), 35),
        (AmiFamily::Al2023, None, Some(0), 35),
        (windows, None, Some(10), 20),
        (AmiFamily::Bottlerocket, None, Some(10), 35),
    ] {
        let class = NodeClassFacts {
            kubelet: KubeletFacts {
                max_pods: max_pods.map(MaxPods::Count),
                pods_per_core: per_core,
                ..KubeletFacts::default()
            },
            ..crate::testing::family(family)
        };
        let found = amount(&resolved("t3.large", &class).capacity, "pods");
        assert_eq!(found, want.to_string(), "{family:?} {max_pods:?} {per_core:?}");
    }
    let settings = Ec2Settings { reserved_enis: 1, ..Ec2Settings::default() };
    let class = NodeClassFacts::default();
    let reserved = resolved_with("t3.large", &class, &settings, &Circumstances::default());
    assert_eq!(amount(&reserved.capacity, "pods"), "24");
}

/// Family, mappings, whether RAID0, type, size.
#[test]
fn ephemeral_storage_is_the_first_that_applies() {
    // covers: AWS-IT-40, AWS-IT-41
    let root = |device: &str, size| BlockDevice { root_volume: true, ..volume(device, size) };
    let without_ebs = |device: &str| BlockDevice { ebs: None, ..volume(device, None) };
    let al2023 = AmiFamily::Al2023;
    for (family, mappings, raid0, name, want) in [
        (al2023, vec![], false, "m5.large", "20Gi"),
        (AmiFamily::Bottlerocket, vec![], false, "m5.large", "20Gi"),
        (AmiFamily::Windows2019, vec![], false, "m5.large", "50Gi"),
        (AmiFamily::Custom, vec![], false, "m5.large", "20Gi"),
        // The instance store, where there is one.
        (al2023, vec![root("/dev/xvda", Some("9Gi"))], true, "m5d.large", "75G"),
        (al2023, vec![root("/dev/xvda", Some("9Gi"))], true, "m5.large", "9Gi"),
        (al2023, vec![], false, "m5d.large", "20Gi"),
        // The marked root volume, if it has a size.
        (al2023, vec![volume("/dev/xvda", Some("1Gi")), root("/dev/sdf", Some("7Gi"))], false, "m5.large", "7Gi"),
        (al2023, vec![volume("/dev/xvda", Some("1Gi")), root("/dev/sdf", None)], false, "m5.large", "1Gi"),
        // The family's own device.
        (al2023, vec![volume("/dev/xvdb", Some("3Gi"))], false, "m5.large", "20Gi"),
        (al2023, vec![volume("/dev/xvdb", Some("3Gi")), volume("/dev/xvda", Some("5G"))], false, "m5.large", "5G"),
        (AmiFamily::Bottlerocket, vec![volume("/dev/xvda", Some("3Gi"))], false, "m5.large", "20Gi"),
        (AmiFamily::Bottlerocket, vec![volume("/dev/xvdb", Some("3Gi"))], false, "m5.large", "3Gi"),
        (AmiFamily::Windows2025, vec![volume("/dev/sda1", Some("3Gi"))], false, "m5.large", "3Gi"),
        (AmiFamily::Windows2025, vec![volume("/dev/sda1", None)], false, "m5.large", "50Gi"),
        // A custom image: the last mapping.
        (AmiFamily::Custom, vec![volume("/a", Some("3Gi")), volume("/b", Some("4Gi"))], false, "m5.large", "4Gi"),
        (AmiFamily::Custom, vec![volume("/a", Some("3Gi")), volume("/b", None)], false, "m5.large", "20Gi"),
        (AmiFamily::Custom, vec![root("/a", Some("3Gi")), volume("/b", Some("4Gi"))], false, "m5.large", "3Gi"),
        // Mappings without an ebs section are passed over.
        (al2023, vec![without_ebs("/dev/xvda"), volume("/dev/xvda", Some("6Gi"))], false, "m5.large", "6Gi"),
        (al2023, vec![BlockDevice { root_volume: true, ..without_ebs("/x") }], false, "m5.large", "20Gi"),
        (AmiFamily::Custom, vec![volume("/a", Some("3Gi")), without_ebs("/b")], false, "m5.large", "3Gi"),
        (AmiFamily::Custom, vec![without_ebs("/b")], false, "m5.large", "20Gi"),
    ] {
        let class =
            NodeClassFacts { block_devices: mappings, instance_store_raid0: raid0, ..crate::testing::family(family) };
        assert_eq!(ephemeral_storage(&facts(name), &class), quantity(want), "{class:?} {name}");
    }
}

#[test]
fn devices_are_counted_by_their_maker() {
    // covers: AWS-IT-42, AWS-IT-43
    for (name, resource, want) in [
        ("g4dn.12xlarge", NVIDIA_GPU, "4"),
        ("g4dn.12xlarge", AMD_GPU, "0"),
        ("g6f.large", NVIDIA_GPU, "0"), // an eighth of a GPU
        ("m5.large", NVIDIA_GPU, "0"),
        ("inf2.24xlarge", NEURON, "6"),
        ("inf2.24xlarge", NEURON_CORE, "12"),
        ("trn1.32xlarge", NEURON_CORE, "32"),
        ("m5.large", NEURON, "0"),
    ] {
        let capacity = resolved(name, &NodeClassFacts::default()).capacity;
        assert_eq!(amount(&capacity, resource), want, "{name} {resource}");
    }
    let mut mixed = facts("m5.large");
    let gpu = |maker: &str, count| Gpu { name: "x".into(), manufacturer: maker.into(), count, memory_mib: 1 };
    mixed.gpus = vec![gpu("AMD", 1), gpu("Habana", 8), gpu("AMD", 2), gpu("nvidia", 5)];
    let capacity = capacity(&mixed, &NodeClassFacts::default(), quantity("1Gi"), 1);
    let counts = [AMD_GPU, HABANA_GAUDI, NVIDIA_GPU].map(|resource| amount(&capacity, resource));
    assert_eq!(counts, ["3", "8", "0"], "makers are spelled exactly");
}

#[test]
fn branch_interfaces_need_trunking() {
    // covers: AWS-IT-44
    let pod_eni = |name: &str| amount(&resolved(name, &NodeClassFacts::default()).capacity, POD_ENI);
    assert_eq!((pod_eni("m5.large"), pod_eni("t3.large")), ("9".to_owned(), "0".to_owned()));
    let limits = facts("t3.large").branch_limits;
    assert!(limits.is_some_and(|limits| !limits.trunking), "listed, but without trunks: {limits:?}");
}

#[test]
fn windows_nodes_have_addresses_to_give() {
    // covers: AWS-IT-45
    let windows = family(AmiFamily::Windows2022);
    let has = |name: &str, class: &NodeClassFacts| resolved(name, class).capacity.0.get(PRIVATE_IPV4).copied();
    assert_eq!(has("m5.large", &windows), Some(quantity("9")));
    assert_eq!(has("m5.large", &NodeClassFacts::default()), None);
    assert_eq!(has("m6g.large", &windows), None, "there is no Windows for arm64");
    let mut unlisted = facts("m5.large");
    unlisted.branch_limits = None;
    assert!(capacity(&unlisted, &windows, quantity("1"), 1).get(PRIVATE_IPV4).is_zero());
}

#[test]
fn efa_interfaces_are_the_types_or_those_asked_for() {
    // covers: AWS-IT-46
    let interface = |device, kind| NetworkInterface { card: 0, device, kind };
    for (interfaces, want) in [
        (None, "2"),
        (Some(vec![]), "0"),
        (Some(vec![interface(0, InterfaceKind::Interface)]), "0"),
        (Some(vec![interface(0, InterfaceKind::Interface), interface(1, InterfaceKind::EfaOnly)]), "1"),
    ] {
        let class = NodeClassFacts { network_interfaces: interfaces, ..NodeClassFacts::default() };
        assert_eq!(amount(&resolved("m6idn.32xlarge", &class).capacity, EFA), want, "{class:?}");
    }
}

#[test]
fn exotic_types_are_those_with_devices() {
    for (name, want) in [("g4dn.xlarge", true), ("inf2.xlarge", true), ("m5.large", false), ("m5.metal", false)] {
        assert_eq!(has_exotic_devices(&resolved(name, &NodeClassFacts::default())), want, "{name}");
    }
}
