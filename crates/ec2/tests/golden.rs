//! Compares with the reference's answers for every type of us-east-1. They are not part of this repository: the test
//! runs where the environment variable `KARPENTER_SHARED` names the folder that holds them, and says so otherwise.

#![allow(clippy::unwrap_used, reason = "helpers of a test; clippy knows only functions marked as tests")]

use std::path::{Path, PathBuf};

use karpenter_ec2::listing::{Offerings, json_line};
use karpenter_ec2::{Catalogue, Ec2Settings, NodeClassFacts, catalogue, instance_types, nodeclass};
use serde_json::Value;

const CLASSES: [&str; 9] = [
    "al2",
    "al2023",
    "bottlerocket",
    "bottlerocket-storage",
    "custom",
    "kubelet",
    "settings",
    "storage",
    "windows2022",
];

fn shared() -> Option<PathBuf> {
    let folder = std::env::var_os("KARPENTER_SHARED").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: KARPENTER_SHARED names no folder with golden answers");
    }
    folder
}

fn unpacked(path: &Path) -> String {
    let unpack = std::process::Command::new("gzip").arg("-dc").arg(path).output().unwrap();
    assert!(unpack.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&unpack.stderr));
    String::from_utf8(unpack.stdout).unwrap()
}

fn node_class(path: &Path) -> NodeClassFacts {
    let text = std::fs::read_to_string(path).unwrap();
    nodeclass::json::facts(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn compare(catalogue: &Catalogue, golden: &Path, class: &str) -> usize {
    let facts = node_class(&golden.join(format!("{class}.nodeclass.json")));
    let mut settings = Ec2Settings::default();
    if class == "settings" {
        settings.vm_memory_overhead_percent = 0.05;
        settings.reserved_enis = 1;
    }
    let offerings = if class == "al2023" { Offerings::Shown } else { Offerings::Hidden };
    let types = instance_types(catalogue, "us-east-1", &facts, &settings).unwrap();
    let want = unpacked(&golden.join(format!("{class}.jsonl.gz")));
    assert_eq!(types.len(), want.lines().count(), "{class}: number of types");
    for (line, instance_type) in want.lines().zip(&types) {
        let want: Value = serde_json::from_str(line).unwrap();
        let found: Value = serde_json::from_str(&json_line(instance_type, offerings)).unwrap();
        assert_eq!(found, want, "{class}: {}", instance_type.name);
    }
    types.len()
}

/// The built-in catalogue knows one label more, and no price of a few types that were new when the answers were made;
/// what both describe is the same.
#[test]
fn the_built_in_catalogue_agrees_with_the_reference() {
    let Some(shared) = shared() else { return };
    let builtin = catalogue::builtin::catalogue();
    let settings = Ec2Settings::default();
    let types = instance_types(builtin, "us-east-1", &NodeClassFacts::default(), &settings).unwrap();
    let want = unpacked(&shared.join("golden/catalog/al2023.jsonl.gz"));
    let mut compared = 0;
    for line in want.lines() {
        let want: Value = serde_json::from_str(line).unwrap();
        let name = want["name"].as_str().unwrap();
        let Some(instance_type) = types.iter().find(|t| *t.name == *name) else {
            assert_eq!(builtin.regions["us-east-1"].on_demand_price(name), None, "{name} is missing");
            continue;
        };
        let mut found: Value = serde_json::from_str(&json_line(instance_type, Offerings::Shown)).unwrap();
        let sandbox = found["labels"].as_object_mut().unwrap().remove("karpenter.k8s.aws/nitro-sandbox");
        assert!(sandbox.is_some(), "{}", instance_type.name);
        assert_eq!(found, want, "{}", instance_type.name);
        compared += 1;
    }
    assert!(compared > 1300 && compared == types.len(), "{compared} of {}", types.len());
}

#[test]
fn every_type_is_as_the_reference_has_it() {
    let Some(shared) = shared() else { return };
    let catalogue = catalogue::folder::load_dir(&shared.join("data")).unwrap();
    for class in CLASSES {
        assert!(compare(&catalogue, &shared.join("golden/catalog"), class) > 1000, "{class}");
    }
}
