use super::*;
use crate::AmiFamily;
use crate::catalogue::{Accelerator, AcceleratorKind, RegionFacts};
use crate::nodeclass::ReservationKind;
use crate::testing::{REGION as US_EAST_1, facts, family, label, resolved, subnet};

fn of(facts: &TypeFacts, class: &NodeClassFacts) -> Requirements {
    let region = RegionFacts {
        zones: [("r-1a".into(), "id-1".into()), ("r-1b".into(), "id-2".into())].into(),
        ..RegionFacts::default()
    };
    let offered = ["r-1a".into(), "r-1b".into()].into();
    requirements(facts, "r-1", class, &Zones::of(class, &region), &offered, &mut Texts::default())
}

fn values(requirements: &Requirements, key: &str) -> Vec<String> {
    let requirement = requirements.0.get(key).unwrap_or_else(|| panic!("{key} is not decided"));
    assert!(!requirement.open);
    requirement.values.iter().map(|value| value.to_string()).collect()
}

#[test]
fn labels_of_a_well_known_type() {
    // covers: AWS-IT-10, AWS-IT-11, AWS-IT-12, AWS-IT-13, AWS-IT-14, AWS-IT-15, AWS-IT-17, AWS-IT-18, AWS-IT-19
    // covers: AWS-IT-20, AWS-IT-21, AWS-IT-22, AWS-IT-23, AWS-IT-24, AWS-IT-25, AWS-IT-26, AWS-IT-27, AWS-IT-30
    let m5d = resolved("m5d.large", &NodeClassFacts::default());
    for (key, want) in [
        (INSTANCE_TYPE, "m5d.large"),
        (ARCH, "amd64"),
        (OS, "linux"),
        (REGION, US_EAST_1),
        (CAPACITY_TYPE, "on-demand spot"),
        (labels::CPU, "2"),
        (labels::MEMORY, "8192"),
        (labels::CATEGORY, "m"),
        (labels::GENERATION, "5"),
        (labels::FAMILY, "m5d"),
        (labels::SIZE, "large"),
        (labels::CAPABILITY_FLEX, "false"),
        (labels::CPU_MANUFACTURER, "intel"),
        (labels::CPU_CLOCK_MHZ, "3100"),
        (labels::HYPERVISOR, "nitro"),
        (labels::ENCRYPTION_IN_TRANSIT, "false"),
        (labels::NITRO_SANDBOX, "false"),
        (labels::LOCAL_NVME, "75"),
        (labels::EBS_BANDWIDTH, "4750"),
        (labels::NETWORK_BANDWIDTH, "750"),
        (labels::TENANCY, "dedicated default"),
        // What does not apply is decided too: the label does not exist.
        (WINDOWS_BUILD, ""),
        (labels::GPU_NAME, ""),
        (labels::GPU_COUNT, ""),
        (labels::ACCELERATOR_NAME, ""),
        (labels::CAPACITY_RESERVATION_ID, ""),
    ] {
        assert_eq!(label(&m5d, key).join(" "), want, "{key}");
    }
    assert_eq!(label(&m5d, ZONE).len(), label(&m5d, labels::ZONE_ID).len());
}

#[test]
fn what_other_types_have_instead() {
    // covers: AWS-IT-11, AWS-IT-15, AWS-IT-20, AWS-IT-21, AWS-IT-22, AWS-IT-23, AWS-IT-24, AWS-IT-25, AWS-IT-26
    // covers: AWS-IT-27
    for (name, key, want) in [
        ("m6g.large", ARCH, "arm64"),
        ("m6g.large", labels::CPU_MANUFACTURER, "aws"),
        ("m6a.large", labels::CPU_MANUFACTURER, "amd"),
        ("u-6tb1.112xlarge", CAPACITY_TYPE, "on-demand"),
        ("p5e.48xlarge", CAPACITY_TYPE, "on-demand spot"), // also sold as capacity blocks
        ("m7i-flex.large", labels::CAPABILITY_FLEX, "true"),
        ("m5.metal", labels::HYPERVISOR, ""),
        ("m4.large", labels::HYPERVISOR, "xen"),
        ("m6in.large", labels::ENCRYPTION_IN_TRANSIT, "true"),
        ("m5.xlarge", labels::NITRO_SANDBOX, "true"),
        ("m5.24xlarge", labels::NETWORK_BANDWIDTH, "25000"),
        ("p6-b200.48xlarge", labels::NETWORK_BANDWIDTH, "3200000"), // summed over its cards
        ("m4.large", labels::NETWORK_BANDWIDTH, ""),                // "Moderate"
        ("m5.large", labels::LOCAL_NVME, ""),
        ("d2.xlarge", labels::LOCAL_NVME, ""), // disks, but not over NVMe
        ("r3.large", labels::EBS_BANDWIDTH, ""),
        ("t2.large", labels::CPU_CLOCK_MHZ, "2300"),
    ] {
        let found = resolved(name, &NodeClassFacts::default());
        assert_eq!(label(&found, key).join(" "), want, "{name} {key}");
    }
    let mut unknown_clock = facts("m5.large");
    unknown_clock.clock_mhz = None;
    let found = of(&unknown_clock, &NodeClassFacts::default());
    assert_eq!(values(&found, labels::CPU_CLOCK_MHZ), ["0"]);
}

#[test]
fn the_name_tells_category_and_generation() {
    // covers: AWS-IT-18
    for (name, want) in [
        ("m5.large", Some(("m", "5"))),
        ("u-6tb1.metal", Some(("u", "1"))),
        ("u7i-12tb.224xlarge", Some(("u", "7"))),
        ("hpc7g.4xlarge", Some(("hpc", "7"))),
        ("p6-b200.48xlarge", Some(("p", "6"))),
        ("m7i-flex.large", Some(("m", "7"))),
        ("x1e.xlarge", Some(("x", "1"))),
        ("inf2.xlarge", Some(("inf", "2"))),
        ("mac-m4.metal", None),
        ("m5large", None),
        ("5m.large", None),
        ("u-6tb.metal", None),
    ] {
        assert_eq!(category_and_generation(name), want, "{name}");
    }
}

#[test]
fn family_and_size_are_the_two_sides_of_a_single_dot() {
    // covers: AWS-IT-19
    for (name, family, size) in [("m5.large", "m5", "large"), ("a.b.c", "", ""), ("nodot", "", "")] {
        let mut facts = facts("m5.large");
        facts.name = name.into();
        let found = of(&facts, &NodeClassFacts::default());
        let found = (values(&found, labels::FAMILY).concat(), values(&found, labels::SIZE).concat());
        assert_eq!(found, (family.to_owned(), size.to_owned()), "{name}");
    }
}

#[test]
fn windows_runs_on_amd64_only() {
    // covers: AWS-IT-12, AWS-IT-16
    for (image, build) in [
        (AmiFamily::Windows2019, "10.0.17763"),
        (AmiFamily::Windows2022, "10.0.20348"),
        (AmiFamily::Windows2025, "10.0.26100"),
    ] {
        let class = family(image);
        let amd64 = resolved("m5.large", &class);
        assert_eq!((label(&amd64, OS), label(&amd64, WINDOWS_BUILD)), (vec!["windows".into()], vec![build.into()]));
        let arm64 = resolved("m6g.large", &class);
        assert!(label(&arm64, OS).is_empty(), "nothing matches it");
    }
}

#[test]
fn the_first_known_architecture_counts() {
    // covers: AWS-IT-11
    let mut facts = facts("m5.large");
    facts.arch = vec!["i386".into(), "x86_64".into(), "arm64".into()];
    assert_eq!(values(&of(&facts, &NodeClassFacts::default()), ARCH), ["amd64"]);
}

#[test]
fn zones_sell_the_type_and_hold_a_subnet() {
    // covers: AWS-IT-13, AWS-IT-14
    let class = |subnets| NodeClassFacts { subnets: Some(subnets), ..NodeClassFacts::default() };
    let facts = facts("m5.large");
    let some = of(
        &facts,
        &class(vec![
            subnet("s1", "r-1b", Some("id-2")),
            subnet("s2", "r-1b", Some("id-2")),
            subnet("s3", "r-1z", Some("id-9")),
        ]),
    );
    assert_eq!((values(&some, ZONE), values(&some, labels::ZONE_ID)), (vec!["r-1b".into()], vec!["id-2".into()]));
    let without_ids = of(&facts, &class(vec![subnet("s1", "r-1a", None), subnet("s2", "r-1b", None)]));
    assert_eq!(values(&without_ids, ZONE), ["r-1a", "r-1b"]);
    assert!(!without_ids.has(labels::ZONE_ID));
    let elsewhere = of(&facts, &class(vec![subnet("s3", "r-1z", Some("id-9"))]));
    assert!(values(&elsewhere, ZONE).is_empty() && !elsewhere.has(labels::ZONE_ID));
}

#[test]
fn gpu_labels_need_a_single_kind() {
    // covers: AWS-IT-28
    let keys = [labels::GPU_NAME, labels::GPU_MANUFACTURER, labels::GPU_COUNT, labels::GPU_MEMORY];
    let all = |requirements: &Requirements| keys.map(|key| values(requirements, key).concat());
    let class = NodeClassFacts::default();
    assert_eq!(all(&of(&facts("g4dn.12xlarge"), &class)), ["t4", "nvidia", "4", "16384"]);
    assert_eq!(all(&of(&facts("m5.large"), &class)), [""; 4]);
    let mut two = facts("g4dn.12xlarge");
    two.gpus.push(two.gpus[0].clone());
    assert_eq!(all(&of(&two, &class)), [""; 4]);
    two.gpus.truncate(1);
    two.gpus[0].name = "Radeon Pro V520".into();
    assert_eq!(values(&of(&two, &class), labels::GPU_NAME), ["radeon-pro-v520"]);
}

#[test]
fn accelerator_labels_prefer_neuron() {
    // covers: AWS-IT-29
    let device = |kind, name: &str, maker: &str| Accelerator {
        kind,
        name: name.into(),
        manufacturer: maker.into(),
        count: 3,
        cores_per_device: 2,
    };
    let (neuron, inference) = (AcceleratorKind::Neuron, AcceleratorKind::Inference);
    let trainium = || device(neuron, "Trainium Two", "Anybody");
    let qualcomm = || device(inference, "Cloud AI 100", "Qualcomm Inc");
    for (devices, want) in [
        (vec![trainium()], ["trainium-two", "aws", "3"]),
        (vec![qualcomm(), trainium()], ["trainium-two", "aws", "3"]),
        (vec![qualcomm()], ["cloud-ai-100", "qualcomm-inc", "3"]),
        (vec![trainium(), trainium()], [""; 3]),
        (vec![trainium(), trainium(), qualcomm()], [""; 3]),
        (vec![qualcomm(), qualcomm()], [""; 3]),
        (vec![device(AcceleratorKind::Fpga, "x", "Xilinx")], [""; 3]),
        (vec![], [""; 3]),
    ] {
        let mut facts = facts("m5.large");
        facts.accelerators = devices;
        let found = of(&facts, &NodeClassFacts::default());
        let keys = [labels::ACCELERATOR_NAME, labels::ACCELERATOR_MANUFACTURER, labels::ACCELERATOR_COUNT];
        assert_eq!(keys.map(|key| values(&found, key).concat()), want, "{:?}", facts.accelerators);
    }
}

#[test]
fn reservations_of_the_type_show_in_its_labels() {
    // covers: AWS-IT-15, AWS-IT-31
    let reservation = |id: &str, name: &str, kind, interruptible| CapacityReservation {
        id: id.into(),
        instance_type: name.into(),
        zone: "r-1a".into(),
        kind,
        interruptible,
        expiring: false,
        remaining: 1,
    };
    let class = NodeClassFacts {
        capacity_reservations: vec![
            reservation("cr-1", "m5.large", ReservationKind::Default, false),
            reservation("cr-2", "m5.large", ReservationKind::CapacityBlock, true),
            reservation("cr-3", "c5.large", ReservationKind::Default, false),
        ],
        ..NodeClassFacts::default()
    };
    let keys = [
        CAPACITY_TYPE,
        labels::CAPACITY_RESERVATION_ID,
        labels::CAPACITY_RESERVATION_TYPE,
        labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
    ];
    let found = |name: &str| {
        let requirements = of(&facts(name), &class);
        keys.map(|key| values(&requirements, key).join(" "))
    };
    assert_eq!(found("m5.large"), ["on-demand reserved spot", "cr-1 cr-2", "capacity-block default", "false true"]);
    assert_eq!(found("m5.xlarge"), ["on-demand spot", "", "", ""]);
}

#[test]
fn a_placement_group_shows_its_partitions() {
    // covers: AWS-PG-05
    let class = |strategy| NodeClassFacts {
        placement_group: Some(PlacementGroup { id: "pg-1".into(), strategy }),
        ..NodeClassFacts::default()
    };
    let facts = facts("m5.large");
    let partitioned = of(&facts, &class(PlacementStrategy::Partition { count: 3 }));
    assert_eq!(values(&partitioned, labels::PLACEMENT_GROUP_ID), ["pg-1"]);
    assert_eq!(values(&partitioned, labels::PLACEMENT_GROUP_PARTITION), ["1", "2", "3"]);
    let spread = of(&facts, &class(PlacementStrategy::Spread));
    assert!(spread.has(labels::PLACEMENT_GROUP_ID) && !spread.has(labels::PLACEMENT_GROUP_PARTITION));
    assert!(!of(&facts, &NodeClassFacts::default()).has(labels::PLACEMENT_GROUP_ID));
}
