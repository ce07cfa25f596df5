//! EC2NodeClasses.

use serde_json::{Map, Value, json};

use super::{ALIAS_VERSION, UBUNTU, annotation, existing, remove_annotation, set_annotation};
use crate::ec2nodeclass::{AmiAlias, AmiFamily, LATEST};

const FAMILY: &str = "amiFamily";
const TERMS: &str = "amiSelectorTerms";
const DEVICES: &str = "blockDeviceMappings";
/// Part of the annotation: v1 has no Ubuntu images of its own to fall back to.
const INCOMPATIBLE: &str = "incompatible";
/// An image that is never found: the class is not ready until somebody names one.
const NO_IMAGE: &str = "ami-placeholder";
const UBUNTU_FAMILY: &str = "Ubuntu";

/// Fields of v1 that v1beta1 has no place for.
const NEW: [&str; 7] = [
    "kubelet",
    "capacityReservationSelectorTerms",
    "placementGroupSelector",
    "ipPrefixCount",
    "networkInterfaces",
    "connectionTracking",
    "cpuOptions",
];

/// The families v1beta1 had, but for Ubuntu.
const OLD_FAMILIES: [AmiFamily; 6] = [
    AmiFamily::Al2,
    AmiFamily::Al2023,
    AmiFamily::Bottlerocket,
    AmiFamily::Custom,
    AmiFamily::Windows2019,
    AmiFamily::Windows2022,
];

pub(super) fn up(class: &mut Value) {
    let version = remove_annotation(class, ALIAS_VERSION);
    let Some(spec) = existing(class, "/spec") else { return };
    let Some(family) = spec.get(FAMILY).and_then(Value::as_str).map(str::to_owned) else { return };
    let has_terms = spec.get(TERMS).and_then(Value::as_array).is_some_and(|terms| !terms.is_empty());
    if family == UBUNTU_FAMILY {
        let injected = ubuntu_up(spec, has_terms);
        set_annotation(class, UBUNTU, &injected.join(","));
        return;
    }
    match OLD_FAMILIES.into_iter().find(|known| known.as_str() == family) {
        None | Some(AmiFamily::Custom) => drop(spec.insert(FAMILY.to_owned(), AmiFamily::Custom.as_str().into())),
        Some(_) if has_terms => {}
        Some(family) => {
            let alias = format!("{}@{}", family.alias_name(), version.as_deref().unwrap_or(LATEST));
            spec.shift_remove(FAMILY);
            spec.insert(TERMS.to_owned(), json!([{"alias": alias}]));
        }
    }
}

/// Ubuntu boots with AL2's user data. Answers what had to be put in.
fn ubuntu_up(spec: &mut Map<String, Value>, has_terms: bool) -> Vec<&'static str> {
    let mut injected = vec![FAMILY];
    spec.insert(FAMILY.to_owned(), AmiFamily::Al2.as_str().into());
    if spec.get(DEVICES).and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert(DEVICES.to_owned(), ubuntu_devices());
        injected.push(DEVICES);
    }
    if !has_terms {
        spec.insert(TERMS.to_owned(), json!([{"id": NO_IMAGE}]));
        injected.push(INCOMPATIBLE);
    }
    injected
}

fn ubuntu_devices() -> Value {
    let ebs = json!({"encrypted": true, "volumeSize": "20Gi", "volumeType": "gp3"});
    json!([{"deviceName": "/dev/sda1", "rootVolume": true, "ebs": ebs}])
}

pub(super) fn down(class: &mut Value) {
    let ubuntu = annotation(class, UBUNTU).map(str::to_owned);
    remove_annotation(class, UBUNTU);
    let mut pinned = None;
    if let Some(spec) = existing(class, "/spec") {
        NEW.iter().for_each(|field| drop(spec.shift_remove(*field)));
        for device in spec.get_mut(DEVICES).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(ebs) = device.get_mut("ebs").and_then(Value::as_object_mut) {
                ebs.shift_remove("volumeInitializationRate");
            }
        }
        match ubuntu {
            Some(injected) => ubuntu_down(spec, &injected),
            None => pinned = images_down(spec),
        }
    }
    if let Some(version) = pinned {
        set_annotation(class, ALIAS_VERSION, &version);
    }
    if let Some(status) = existing(class, "/status") {
        status.shift_remove("capacityReservations");
    }
}

fn ubuntu_down(spec: &mut Map<String, Value>, injected: &str) {
    let parts: Vec<&str> = injected.split(',').collect();
    if spec.get(FAMILY).and_then(Value::as_str) == Some(AmiFamily::Al2.as_str()) {
        spec.insert(FAMILY.to_owned(), UBUNTU_FAMILY.into());
    }
    if parts.contains(&DEVICES) && spec.get(DEVICES) == Some(&ubuntu_devices()) {
        spec.shift_remove(DEVICES);
    }
    if parts.contains(&INCOMPATIBLE) && spec.get(TERMS) == Some(&json!([{"id": NO_IMAGE}])) {
        spec.shift_remove(TERMS);
    }
}

/// The family as v1beta1 shows it. Answers the version of an alias that is not just the latest.
fn images_down(spec: &mut Map<String, Value>) -> Option<String> {
    let old = |family: AmiFamily| if OLD_FAMILIES.contains(&family) { family } else { AmiFamily::Custom };
    let terms = spec.get(TERMS).and_then(Value::as_array).cloned().unwrap_or_default();
    let alias = terms.iter().find_map(|term| AmiAlias::parse(term.get("alias")?.as_str()?));
    if let Some(alias) = alias {
        spec.shift_remove(TERMS);
        spec.insert(FAMILY.to_owned(), old(alias.family).as_str().into());
        return (alias.version != LATEST).then(|| alias.version.to_owned());
    }
    let written = spec.get(FAMILY).and_then(Value::as_str).map(str::to_owned);
    let family = written.as_deref().and_then(AmiFamily::parse).map_or(AmiFamily::Custom, old);
    spec.insert(FAMILY.to_owned(), family.as_str().into());
    let without_parameters = terms.into_iter().filter_map(|mut term| {
        let map = term.as_object_mut()?;
        map.shift_remove("ssmParameter");
        map.shift_remove("alias");
        (!map.is_empty()).then_some(term)
    });
    let kept: Vec<Value> = without_parameters.collect();
    if kept.is_empty() {
        spec.shift_remove(TERMS);
    } else {
        spec.insert(TERMS.to_owned(), kept.into());
    }
    None
}
