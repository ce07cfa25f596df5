use serde_json::json;

use super::*;
use crate::testing::{quantity, subnet, volume};

#[test]
fn an_empty_class_is_al2023_everywhere() {
    assert_eq!(facts(&json!({})).unwrap(), NodeClassFacts::default());
    assert_eq!(facts(&json!({"spec": {}, "status": {"subnets": []}})).unwrap(), NodeClassFacts::default());
}

#[test]
fn the_family_is_written_or_that_of_the_alias() {
    for (spec, want) in [
        (json!({"amiFamily": "Bottlerocket"}), AmiFamily::Bottlerocket),
        (json!({"amiSelectorTerms": [{"alias": "al2@latest"}]}), AmiFamily::Al2),
        (json!({"amiSelectorTerms": [{"alias": "windows2025@v20260101"}]}), AmiFamily::Windows2025),
        (json!({"amiSelectorTerms": [{"alias": "bottlerocket"}]}), AmiFamily::Bottlerocket),
        (json!({"amiFamily": "Custom", "amiSelectorTerms": [{"alias": "al2023@latest"}]}), AmiFamily::Custom),
        (json!({"amiSelectorTerms": [{"id": "ami-1"}]}), AmiFamily::Al2023),
    ] {
        assert_eq!(facts(&json!({"spec": spec})).unwrap().ami_family, want, "{spec}");
    }
}

#[test]
fn every_field_arrives() {
    let object = json!({
        "spec": {
            "kubelet": {
                "maxPods": 42, "podsPerCore": 3,
                "kubeReserved": {"cpu": "100m", "memory": "max_pods * 11"},
                "systemReserved": {"memory": "1Gi"},
                "evictionHard": {"memory.available": "5%", "nodefs.available": "2Gi"}
            },
            "blockDeviceMappings": [
                {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "7Gi"}},
                {"deviceName": "/dev/xvdb", "rootVolume": true}
            ],
            "instanceStorePolicy": "RAID0",
            "networkInterfaces": [{"networkCardIndex": 1, "deviceIndex": 2, "interfaceType": "efa-only"}],
            "connectionTracking": {},
            "cpuOptions": {"nestedVirtualization": "enabled"}
        },
        "status": {
            "subnets": [{"id": "s-1", "zone": "r-1a", "zoneID": "id-1"}, {"id": "s-2", "zone": "r-1b"}],
            "capacityReservations": [{"id": "cr-1", "instanceType": "m5.large", "availabilityZone": "r-1a",
                "reservationType": "capacity-block", "interruptible": true, "state": "expiring",
                "instanceMatchCriteria": "open", "ownerID": "1"}]
        }
    });
    let amount = |text: &str| Reserved::Amount(quantity(text));
    let want = NodeClassFacts {
        ami_family: AmiFamily::Al2023,
        kubelet: KubeletFacts {
            max_pods: Some(MaxPods::Count(42)),
            pods_per_core: Some(3),
            kube_reserved: [
                ("cpu".to_owned(), amount("100m")),
                ("memory".to_owned(), Reserved::Expression("max_pods * 11".to_owned())),
            ]
            .into(),
            system_reserved: [("memory".to_owned(), amount("1Gi"))].into(),
            eviction_memory: Some(Threshold::Percent(5.0)),
            eviction_nodefs: Some(Threshold::Amount(quantity("2Gi"))),
        },
        block_devices: vec![
            volume("/dev/xvda", Some("7Gi")),
            BlockDevice { root_volume: true, ebs: None, ..volume("/dev/xvdb", None) },
        ],
        instance_store_raid0: true,
        network_interfaces: Some(vec![NetworkInterface { card: 1, device: 2, kind: InterfaceKind::EfaOnly }]),
        connection_tracking: true,
        nested_virtualization: true,
        placement_group: None,
        subnets: Some(vec![subnet("s-1", "r-1a", Some("id-1")), subnet("s-2", "r-1b", None)]),
        capacity_reservations: vec![CapacityReservation {
            id: "cr-1".into(),
            instance_type: "m5.large".into(),
            zone: "r-1a".into(),
            kind: ReservationKind::CapacityBlock,
            interruptible: true,
            expiring: true,
            remaining: 0,
        }],
    };
    assert_eq!(facts(&object).unwrap(), want);
    let expression = facts(&json!({"spec": {"kubelet": {"maxPods": "min(110, max_pods)"}}})).unwrap();
    assert_eq!(expression.kubelet.max_pods, Some(MaxPods::Expression("min(110, max_pods)".to_owned())));
}

#[test]
fn all_faults_are_reported_with_their_fields() {
    // covers: AWS-KC-20
    let object = json!({
        "spec": {
            "amiFamily": "Plan9",
            "kubelet": {"maxPods": -1, "podsPerCore": "many", "kubeReserved": {"cpu": "-1", "memory": 3},
                        "systemReserved": [], "evictionHard": {"memory.available": "101%", "nodefs.available": "much"}},
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "big"}, "rootVolume": "yes"}],
            "networkInterfaces": [{"deviceIndex": 0, "interfaceType": "cable"}]
        },
        "status": {"subnets": [{"id": "s-1"}]}
    });
    let faults = facts(&object).unwrap_err();
    let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "spec.amiFamily",
            "spec.kubelet.maxPods",
            "spec.kubelet.podsPerCore",
            "spec.kubelet.kubeReserved[\"cpu\"]",
            "spec.kubelet.kubeReserved[\"memory\"]",
            "spec.kubelet.systemReserved",
            "spec.kubelet.evictionHard.memory.available",
            "spec.kubelet.evictionHard.nodefs.available",
            "spec.blockDeviceMappings[0].ebs.volumeSize",
            "spec.blockDeviceMappings[0].rootVolume",
            "spec.networkInterfaces[0].networkCardIndex",
            "spec.networkInterfaces[0].interfaceType",
            "status.subnets[0].zone",
        ]
    );
    assert_eq!(
        faults[0].to_string(),
        "spec.amiFamily: \"Plan9\" is none of AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025"
    );
}
