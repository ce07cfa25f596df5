use karpenter_core::labels::ZONE;
use karpenter_core::storage::{StorageClass, Volume};
use karpenter_testkit::express::{is_in, node_term};
use karpenter_testkit::{pod, world};

use super::*;

fn claim() -> VolumeClaim {
    VolumeClaim::default()
}

fn bound(volume: &str) -> VolumeClaim {
    VolumeClaim { volume: Some(volume.into()), bind_completed: true, ..claim() }
}

fn of_class(class: &str) -> VolumeClaim {
    VolumeClaim { class: Some(class.into()), ..claim() }
}

fn storage() -> Storage {
    let class = |binding, provisioner: &str| StorageClass {
        provisioner: provisioner.into(),
        binding,
        allowed_topologies: Vec::new(),
    };
    Storage {
        claims: Default::default(),
        volumes: [
            ("pv".into(), Volume { driver: Some("ebs.csi.aws.com".into()), ..Volume::default() }),
            ("going".into(), Volume { terminating: true, ..Volume::default() }),
            ("plain".into(), Volume::default()),
        ]
        .into(),
        classes: [
            ("waits".into(), class(BindingMode::WaitForFirstConsumer, "ebs.csi.aws.com")),
            ("at-once".into(), class(BindingMode::Immediate, "ebs.csi.aws.com")),
            ("in-tree".into(), class(BindingMode::WaitForFirstConsumer, "kubernetes.io/aws-ebs")),
            ("custom".into(), class(BindingMode::WaitForFirstConsumer, "example.com/disk")),
        ]
        .into(),
    }
}

#[test]
fn claims_that_keep_a_pod_out() {
    // covers: SCH-VOL-02, SCH-VOL-03, SCH-VOL-04, SCH-VOL-05, SCH-VOL-06, SCH-VOL-07, SCH-VOL-08
    for (claim, fault) in [
        (None, Some("does not exist")),
        (Some(VolumeClaim { terminating: true, ..bound("pv") }), Some("is being deleted")),
        (Some(VolumeClaim { lost: true, ..bound("pv") }), Some("has lost its volume")),
        (Some(bound("pv")), None),
        (Some(bound("missing")), Some("PersistentVolume missing does not exist")),
        (Some(bound("going")), Some("PersistentVolume going is being deleted")),
        (Some(VolumeClaim { bind_completed: false, ..bound("pv") }), Some("is not yet bound")),
        (Some(VolumeClaim { class: Some("".into()), ..bound("pv") }), None),
        (Some(VolumeClaim { class: Some("no-such-class".into()), ..bound("pv") }), None),
        (Some(VolumeClaim { class: Some("at-once".into()), ..bound("pv") }), None),
        (Some(claim()), Some("names no StorageClass")),
        (Some(of_class("")), Some("names no StorageClass")),
        (Some(of_class("no-such-class")), Some("StorageClass no-such-class does not exist")),
        (Some(of_class("at-once")), Some("binds immediately")),
        (Some(of_class("waits")), None),
    ] {
        let mut storage = storage();
        if let Some(claim) = &claim {
            storage.claims.insert(("default".into(), "data".into()), claim.clone());
        }
        let found = super::fault(&pod("p").claim("data").build(), &storage);
        match fault {
            None => assert_eq!(found, None, "{claim:?}"),
            Some(part) => {
                let found = found.unwrap_or_else(|| panic!("{claim:?} is fine"));
                assert!(found.contains("default/data") && found.contains(part), "{found}");
            }
        }
    }
    let elsewhere = pod("p").namespace("other").claim("data").build();
    let mut storage = storage();
    storage.claims.insert(("default".into(), "data".into()), bound("pv"));
    assert!(super::fault(&elsewhere, &storage).is_some(), "claims belong to a namespace");
    assert_eq!(super::fault(&pod("p").build(), &storage), None, "no claims, no fault");
}

#[test]
fn the_driver_a_claim_counts_against() {
    // covers: SCH-VOL-12, SCH-VOL-26
    for (claim, want) in [
        (bound("pv"), Some("ebs.csi.aws.com")),
        (VolumeClaim { class: Some("custom".into()), ..bound("pv") }, Some("ebs.csi.aws.com")),
        (bound("plain"), None),
        (VolumeClaim { class: Some("waits".into()), ..bound("missing") }, None),
        (of_class("waits"), Some("ebs.csi.aws.com")),
        (of_class("in-tree"), Some("ebs.csi.aws.com")),
        (of_class("custom"), Some("example.com/disk")),
        (of_class("no-such-class"), None),
        (claim(), None),
    ] {
        assert_eq!(driver(&claim, &storage()).as_deref(), want, "{claim:?}");
    }
}

#[test]
fn in_tree_provisioners_are_known_by_their_csi_drivers() {
    // covers: SCH-VOL-12
    for (provisioner, want) in [
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
        ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
        ("kubernetes.io/azure-file", "file.csi.azure.com"),
        ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
        ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
        ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
        ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
        ("efs.csi.aws.com", "efs.csi.aws.com"),
    ] {
        assert_eq!(csi_driver(provisioner), want);
    }
}

/// The zones of each alternative for a pod with claims `a` and, where given, `b`.
fn zones_of(volumes: &[&[&[&str]]]) -> Vec<String> {
    let names = ["a", "b", "c"];
    let (mut start, mut user) = (world(), pod("p"));
    for (name, terms) in names.iter().zip(volumes) {
        let terms = terms.iter().map(|zones| match zones {
            [] => node_term(vec![]),
            zones => node_term(vec![is_in(ZONE, zones)]),
        });
        start = start.bound_claim(name, "ebs.csi.aws.com", terms.collect());
        user = user.claim(name);
    }
    let world = start.build();
    let found = alternatives(&user.build(), &world.storage, &world.vocabulary);
    found.iter().map(|set| set.get(ZONE).values.iter().cloned().collect::<Vec<_>>().join("|")).collect()
}

#[test]
fn volumes_combine_as_a_cross_product() {
    // covers: SCH-VOL-13, SCH-VOL-16, SCH-VOL-17, SCH-VOL-18
    for (volumes, want) in [
        (&[][..], vec![]),
        (&[&[&["1"][..], &["2"]][..]], vec!["1", "2"]),
        (&[&[]], vec![]),
        (&[&[&[]]], vec![]),
        (&[&[&[], &["1"]]], vec!["1"]),
        (&[&[], &[&["1"]]], vec!["1"]),
        (&[&[&["1"]], &[]], vec!["1"]),
        (&[&[&["1"], &["2"]], &[&["2"], &["3"]]], vec!["2"]),
        (&[&[&["1", "2"]], &[&["2", "3"], &["1"]]], vec!["2", "1"]),
        (&[&[&["1"]], &[&["2"], &["3"]]], vec!["", ""]),
        (&[&[&["1"], &["2"]], &[&["1"], &["2"]], &[&["2"]]], vec!["2"]),
    ] {
        assert_eq!(zones_of(volumes), want, "{volumes:?}");
    }
}

#[test]
fn a_class_says_where_its_volumes_are_made() {
    // covers: SCH-VOL-14, SCH-VOL-16, SCH-VOL-22
    let old = Expression::new("failure-domain.beta.kubernetes.io/zone", Operator::In, &["1", "2"]);
    let mut storage = storage();
    let class = storage.classes.get_mut("waits").unwrap();
    class.allowed_topologies = vec![vec![old], vec![], vec![is_in(ZONE, &["3"]), is_in("rack", &["r"])]];
    storage.claims.insert(("default".into(), "data".into()), of_class("waits"));
    storage.claims.insert(("default".into(), "unknown".into()), of_class("no-such-class"));
    let words = world().build().vocabulary;
    let found = alternatives(&pod("p").claim("data").claim("unknown").claim("gone").build(), &storage, &words);
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["topology.kubernetes.io/zone In [1, 2]", "rack In [r], topology.kubernetes.io/zone In [3]"]);
}

#[test]
fn hostnames_of_local_volumes_are_forgotten() {
    // covers: SCH-VOL-15
    let shown = |is_local: bool, expressions: Vec<Expression>| {
        let mut world = world().bound_claim("data", "local", vec![node_term(expressions)]).build();
        world.storage.volumes.values_mut().for_each(|volume| volume.is_local = is_local);
        let found = alternatives(&pod("p").claim("data").build(), &world.storage, &world.vocabulary);
        found.iter().map(|set| set.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let host = || is_in(HOSTNAME, &["n"]);
    assert_eq!(shown(true, vec![host()]), [Vec::<String>::new()], "an alternative without constraint");
    assert_eq!(shown(true, vec![host(), is_in(ZONE, &["1"])]), [[ZONE]]);
    assert_eq!(shown(false, vec![host()]), [[HOSTNAME]]);
}
