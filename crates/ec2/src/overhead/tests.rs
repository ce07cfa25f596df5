use super::*;
use crate::nodeclass::{MaxPods, NodeClassFacts, Reserved};
use crate::testing::{amount, family, quantity, resolved};
use crate::{AmiFamily, nodeclass};

fn class(kubelet: KubeletFacts) -> NodeClassFacts {
    NodeClassFacts { kubelet, ..NodeClassFacts::default() }
}

#[test]
fn allocatable_is_capacity_less_all_three() {
    // covers: AWS-IT-48
    let kubelet = KubeletFacts {
        system_reserved: [("cpu".to_owned(), Reserved::Amount(quantity("100m")))].into(),
        ..KubeletFacts::default()
    };
    let m5 = resolved("m5.large", &class(kubelet));
    let allocatable = m5.allocatable();
    assert_eq!(amount(&allocatable, "cpu"), "1830m", "2 - 70m - 100m");
    assert_eq!(amount(&allocatable, "memory"), format!("{}Mi", 7577 - 574 - 100));
    assert_eq!(amount(&allocatable, "ephemeral-storage"), "17Gi", "20Gi - 1Gi - 2Gi");
}

#[test]
fn the_kubelets_share_of_cpu_shrinks_with_size() {
    // covers: AWS-IT-49
    for (vcpus, want) in [(1, 60), (2, 70), (3, 75), (4, 80), (5, 82), (8, 90), (96, 310), (448, 1190)] {
        assert_eq!(kube_reserved_millicores(vcpus), want, "{vcpus} vCPUs");
    }
}

#[test]
fn the_kubelets_memory_follows_the_pods() {
    // covers: AWS-IT-50
    for (family, max_pods, pods) in [
        (AmiFamily::Al2, None, 29),
        (AmiFamily::Al2, Some(110), 29),
        (AmiFamily::Al2023, Some(110), 29),
        (AmiFamily::Custom, Some(110), 29),
        (AmiFamily::Bottlerocket, None, 29),
        (AmiFamily::Bottlerocket, Some(110), 110),
        (AmiFamily::Windows2022, None, 110),
        (AmiFamily::Windows2022, Some(8), 8),
    ] {
        let mut class = crate::testing::family(family);
        class.kubelet.max_pods = max_pods.map(MaxPods::Count);
        let memory = resolved("m5.large", &class).overhead.kube_reserved.get(MEMORY);
        assert_eq!(memory.units(), (11 * pods + 255) * MIB, "{family:?} {max_pods:?}");
    }
    // Reserved interfaces leave pods out, not the memory that is kept for them.
    let settings = crate::Ec2Settings { reserved_enis: 1, ..crate::Ec2Settings::default() };
    for (family, pods) in [(AmiFamily::Al2023, 29), (AmiFamily::Bottlerocket, 20)] {
        let class = crate::testing::family(family);
        let m5 = crate::testing::resolved_with("m5.large", &class, &settings, &crate::Circumstances::default());
        assert_eq!(amount(&m5.capacity, "pods"), "20");
        assert_eq!(m5.overhead.kube_reserved.get(MEMORY).units(), (11 * pods + 255) * MIB, "{family:?}");
    }
}

#[test]
fn reserved_settings_replace_what_is_computed() {
    // covers: AWS-IT-51, AWS-IT-52
    let reserved = |items: &[(&str, &str)]| {
        items.iter().map(|(name, text)| ((*name).to_owned(), Reserved::Amount(quantity(text)))).collect()
    };
    let plain = resolved("m5.large", &NodeClassFacts::default()).overhead;
    assert_eq!(amount(&plain.kube_reserved, "ephemeral-storage"), "1Gi");
    assert!(plain.system_reserved.is_empty());
    let kubelet = KubeletFacts {
        kube_reserved: reserved(&[("memory", "1Gi"), ("pid", "100")]),
        system_reserved: reserved(&[("memory", "200Mi")]),
        ..KubeletFacts::default()
    };
    let given = resolved("m5.large", &class(kubelet)).overhead;
    let kube = ["cpu", "memory", "ephemeral-storage", "pid"].map(|name| amount(&given.kube_reserved, name));
    assert_eq!(kube, ["70m", "1Gi", "1Gi", "100"]);
    let system: Vec<_> = given.system_reserved.iter().map(|(name, q)| (name, q.to_string())).collect();
    assert_eq!(system, [("memory", "200Mi".to_owned())]);
}

#[test]
fn eviction_thresholds() {
    // covers: AWS-IT-53, AWS-IT-54
    let memory = 7577 * MIB;
    let percent = |p: f64| Some(Threshold::Percent(p));
    let given = |text: &str| Some(Threshold::Amount(quantity(text)));
    let disk = 20 * GIB;
    for (hard_memory, hard_nodefs, want_memory, want_disk) in [
        (None, None, 100 * MIB, disk / 10),
        (given("300Mi"), None, 300 * MIB, disk / 10),
        (None, given("3Gi"), 100 * MIB, 3 * GIB),
        (percent(5.0), percent(15.0), (memory as f64 * 0.05).ceil() as i64, 3_221_225_472),
        (percent(2.5), percent(3.3), 198_626_509, 708_669_604),
        (percent(100.0), percent(100.0), 0, 0),
        (percent(0.0), percent(0.0), 0, 0),
    ] {
        let kubelet =
            KubeletFacts { eviction_memory: hard_memory, eviction_nodefs: hard_nodefs, ..KubeletFacts::default() };
        let found = resolved("m5.large", &class(kubelet)).overhead.eviction_threshold;
        let found = (found.get(MEMORY).units(), found.get(EPHEMERAL_STORAGE).units());
        assert_eq!(found, (want_memory, want_disk), "{hard_memory:?} {hard_nodefs:?}");
    }
}

#[test]
fn a_percentage_of_many_terabytes_is_exact() {
    // covers: AWS-IT-54
    let found = amount_of(Threshold::Percent(15.0), quantity("55920G"));
    assert_eq!(found, quantity("8388G"));
}

fn amount_of(threshold: Threshold, capacity: Quantity) -> Quantity {
    super::amount(threshold, capacity)
}

#[test]
fn soft_thresholds_change_nothing() {
    // covers: AWS-IT-54
    let read = |kubelet: &str| {
        let text = format!(r#"{{"spec": {{"kubelet": {kubelet}}}}}"#);
        nodeclass::json::facts(&serde_json::from_str(&text).unwrap()).unwrap()
    };
    let soft =
        read(r#"{"evictionSoft": {"memory.available": "50%"}, "evictionSoftGracePeriod": {"memory.available": "1m"}}"#);
    assert_eq!(resolved("m5.large", &soft), resolved("m5.large", &read("{}")));
}

#[test]
fn the_estimate_is_not_more_than_real_nodes_report() {
    // covers: AWS-IT-55
    for (name, memory, cpu) in [
        ("t4g.small", "1408312Ki", "1930m"),
        ("t4g.medium", "3377496Ki", "1930m"),
        ("t4g.xlarge", "15136012Ki", "3920m"),
        ("m5.large", "7220184Ki", "1930m"),
    ] {
        let allocatable = resolved(name, &family(AmiFamily::Al2023)).allocatable();
        assert!(allocatable.get(MEMORY) <= quantity(memory), "{name}: {}", allocatable.get(MEMORY));
        assert!(allocatable.get(CPU) <= quantity(cpu), "{name}: {}", allocatable.get(CPU));
    }
}
