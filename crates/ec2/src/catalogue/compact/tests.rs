use super::*;
use crate::catalogue::{
    Accelerator, AcceleratorKind, CapacityClass, EbsOptimization, Gpu, NetworkCard, RegionFacts, TypeFacts,
};

fn text(value: &str) -> Arc<str> {
    Arc::from(value)
}

/// A type with every cell filled in one way or the other.
fn laden() -> TypeFacts {
    TypeFacts {
        name: text("x9.metal"),
        arch: vec![text("i386"), text("x86_64")],
        cpu_manufacturer: Some(text("Intel")),
        clock_mhz: Some(3100),
        cpu_features: vec![text("nested-virtualization"), text("amd-sev-snp")],
        vcpus: 96,
        memory_mib: 393_216,
        hypervisor: None,
        bare_metal: true,
        usage_classes: vec![CapacityClass::CapacityBlock, CapacityClass::OnDemand, CapacityClass::Spot],
        ipv4_per_eni: 50,
        default_network_card: 1,
        network_cards: vec![NetworkCard { max_enis: 15 }, NetworkCard { max_enis: 7 }],
        network_mbps: Some(25_000),
        efa_max: 2,
        ena: Some(false),
        branch_limits: Some(BranchLimits { trunking: false, branch_enis: 107 }),
        encryption_in_transit: true,
        nitro_enclaves: Some(false),
        ebs_optimized: EbsOptimization::Supported,
        ebs_max_mbps: Some(19_000),
        local_disk_gb: 900,
        local_disk_is_nvme: true,
        gpus: vec![Gpu { name: text("Radeon Pro V520"), manufacturer: text("AMD"), count: 4, memory_mib: 8192 }],
        accelerators: vec![Accelerator {
            kind: AcceleratorKind::Neuron,
            name: text("Inferentia2"),
            manufacturer: text("AWS"),
            count: 6,
            cores_per_device: 2,
        }],
        placement_strategies: vec![text("cluster"), text("spread")],
    }
}

fn bare() -> TypeFacts {
    TypeFacts {
        name: text("a1.nano"),
        arch: vec![text("arm64")],
        cpu_manufacturer: None,
        clock_mhz: None,
        cpu_features: Vec::new(),
        vcpus: 1,
        memory_mib: 512,
        hypervisor: Some(text("nitro")),
        bare_metal: false,
        usage_classes: Vec::new(),
        ipv4_per_eni: 4,
        default_network_card: 0,
        network_cards: vec![NetworkCard { max_enis: 2 }],
        network_mbps: None,
        efa_max: 0,
        ena: None,
        branch_limits: None,
        encryption_in_transit: false,
        nitro_enclaves: None,
        ebs_optimized: EbsOptimization::Unsupported,
        ebs_max_mbps: None,
        local_disk_gb: 0,
        local_disk_is_nvme: false,
        gpus: Vec::new(),
        accelerators: Vec::new(),
        placement_strategies: Vec::new(),
    }
}

/// Eight zones, so that offers need a second character.
fn sample() -> Compact {
    let zones: Vec<Arc<str>> = "abcdefgh".chars().map(|letter| text(&format!("r-1{letter}"))).collect();
    let region = RegionFacts {
        zones: zones.iter().map(|zone| (zone.clone(), text(&format!("id-{zone}")))).collect(),
        offered: [(text("x9.metal"), Arc::new([zones[0].clone(), zones[7].clone()].into()))].into(),
        on_demand: [(text("x9.metal"), MicroUsd(1_234_567)), (text("gone.large"), MicroUsd(1))].into(),
        ..RegionFacts::default()
    };
    let priced_only = RegionFacts { on_demand: [(text("x9.metal"), MicroUsd(7))].into(), ..RegionFacts::default() };
    let network =
        |facts: &TypeFacts| NetworkFacts { baseline_mbps: facts.network_mbps, branch_limits: facts.branch_limits };
    let trunk =
        NetworkFacts { baseline_mbps: None, branch_limits: Some(BranchLimits { trunking: true, branch_enis: 9 }) };
    Compact {
        as_of: "2026-01-02".to_owned(),
        sources: "a test".to_owned(),
        catalogue: Catalogue {
            origin: "the built-in one, of 2026-01-02".to_owned(),
            types: vec![bare(), laden()],
            regions: [("r-1".to_owned(), region), ("z-1".to_owned(), priced_only)].into(),
        },
        network: [(text("x9.metal"), network(&laden())), (text("gone.large"), trunk)].into(),
    }
}

#[test]
fn what_is_written_reads_back_the_same() {
    let text = write(&sample());
    assert_eq!(parse(&text).unwrap(), sample(), "{text}");
    assert_eq!(write(&parse(&text).unwrap()), text);
}

#[test]
fn an_edit_by_hand_is_noticed() {
    let good = write(&sample());
    let edited = good.replace("1234567", "1234568");
    assert!(matches!(parse(&edited), Err(CompactError::Checksum { .. })));
    assert_eq!(parse("something else"), Err(CompactError::Magic));
    assert_eq!(parse(&good.replace("sources: ", "origin: ")), Err(CompactError::Header("sources")));
}

#[test]
fn a_bad_cell_is_named() {
    let good = write(&sample());
    for (from, to, want) in [
        ("r-1a=id-r-1a", "r-1a", "a zone"),
        (",393216,", ",lots,", "MiB"),
        ("15|7", "15|x", "cards"),
        (",50,1,", ",50,2,", "card"),
        (",bos,", ",boz,", "usage"),
        (",s19000,", ",q19000,", "EBS"),
        ("Pro V520:AMD:4", "Pro V520:AMD:four", "GPUs"),
        ("neuron:", "neutron:", "accelerators"),
        ("x9.metal,25000,", "x9.metal,fast,", "Mbps"),
        (",-107", ",-many", "branch interfaces"),
        (",1234567,", ",cheap,", "a price"),
    ] {
        assert!(good.contains(from), "{from} in {good}");
        let (head, body) = good.split_once("[regions]").unwrap();
        let body = format!("[regions]{}", body.replacen(from, to, 1));
        let (head, _) = head.split_once("checksum").unwrap();
        let text = format!("{head}checksum: {:016x}\n{body}", checksum(&body));
        match parse(&text) {
            Err(CompactError::Line { cell, .. }) => assert_eq!(cell, want, "{from} to {to}"),
            other => panic!("{from} to {to}: {other:?}"),
        }
    }
}
