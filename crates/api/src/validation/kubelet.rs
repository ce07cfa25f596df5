//! The kubelet map of an EC2NodeClass. The API server takes anything there; the controller refuses what a kubelet would
//! refuse, or would ignore without a word.

mod fields;

use serde_json::Value;

use super::Fault;
use crate::duration::GoDuration;
use crate::ec2nodeclass::{AmiFamily, KubeletConfiguration};
use crate::quantity::{Sign, sign};

const EVICTION_SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
const RESERVED_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// The fields the controller itself understands, and can therefore apply on every family of images.
const INTERPRETED: [&str; 12] = [
    "clusterDNS",
    "maxPods",
    "podsPerCore",
    "systemReserved",
    "kubeReserved",
    "evictionHard",
    "evictionSoft",
    "evictionSoftGracePeriod",
    "evictionMaxPodGracePeriod",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "cpuCFSQuota",
];

/// Everything wrong with the map, whatever the family of images.
pub fn validate(kubelet: &KubeletConfiguration) -> Vec<Fault> {
    let mut faults = fields::check(kubelet);
    if kubelet.contains_key("registerWithTaints") {
        faults
            .push(fault("registerWithTaints", "cannot be set: the controller registers nodes with taints of its own"));
    }
    for field in ["evictionHard", "evictionSoft", "evictionMinimumReclaim"] {
        for (signal, value) in strings(kubelet, field) {
            faults.extend(signal_fault(field, signal));
            faults.extend(threshold_fault(value).map(|message| fault(&format!("{field}[{signal}]"), &message)));
        }
    }
    for (signal, value) in strings(kubelet, "evictionSoftGracePeriod") {
        faults.extend(signal_fault("evictionSoftGracePeriod", signal));
        if !GoDuration::parse(value).is_ok_and(|duration| duration.nanos() >= 0) {
            let message = format!("{value:?} is not a duration of zero or more");
            faults.push(fault(&format!("evictionSoftGracePeriod[{signal}]"), &message));
        }
    }
    faults.extend(unmatched(kubelet, "evictionSoft", "evictionSoftGracePeriod"));
    faults.extend(unmatched(kubelet, "evictionSoftGracePeriod", "evictionSoft"));
    for field in ["kubeReserved", "systemReserved"] {
        for (resource, value) in strings(kubelet, field) {
            let path = format!("{field}[{resource}]");
            if !RESERVED_RESOURCES.contains(&resource) {
                let message = format!("{resource:?} cannot be reserved, only {}", RESERVED_RESOURCES.join(", "));
                faults.push(fault(&path, &message));
            }
            if value.starts_with('-') {
                faults.push(fault(&path, &format!("{value:?} is negative")));
            }
        }
    }
    faults.extend(number_faults(kubelet));
    faults
}

/// Fields that nodes of this family would silently ignore.
pub fn unsupported_by(family: AmiFamily, kubelet: &KubeletConfiguration) -> Vec<Fault> {
    let everything = matches!(family, AmiFamily::Al2023 | AmiFamily::Custom);
    if everything {
        return Vec::new();
    }
    let family_name = family.as_str();
    let unknown = kubelet.keys().filter(|field| !INTERPRETED.contains(&field.as_str()));
    unknown.map(|field| fault(field, &format!("is not supported on {family_name}"))).collect()
}

/// Settings that upstream 1.14 accepts and nodes of this family cannot apply. They are ignored as upstream ignores
/// them, which is worth saying.
pub fn ignored_by(family: AmiFamily, kubelet: &KubeletConfiguration) -> Vec<Fault> {
    let everything = matches!(family, AmiFamily::Al2023 | AmiFamily::Custom);
    if everything {
        return Vec::new();
    }
    let family_name = family.as_str();
    let mut ignored = Vec::new();
    if family == AmiFamily::Bottlerocket && kubelet.get("podsPerCore").is_some_and(|value| !value.is_null()) {
        ignored.push(fault("podsPerCore", &format!("is ignored on {family_name}")));
    }
    if kubelet.get("clusterDNS").and_then(Value::as_array).is_some_and(|servers| servers.len() > 1) {
        let message = format!("{family_name} takes one address only, the others are ignored");
        ignored.push(fault("clusterDNS", &message));
    }
    ignored
}

/// Whether any value is an expression to be computed per instance type: a textual `maxPods`, or a reservation that is
/// not a quantity.
pub fn has_expressions(kubelet: &KubeletConfiguration) -> bool {
    let reserved = ["kubeReserved", "systemReserved"].into_iter().flat_map(|field| strings(kubelet, field));
    kubelet.get("maxPods").is_some_and(Value::is_string) || reserved.into_iter().any(|(_, value)| sign(value).is_none())
}

fn signal_fault(field: &str, signal: &str) -> Option<Fault> {
    let known = EVICTION_SIGNALS.contains(&signal);
    let message = || format!("{signal:?} is not an eviction signal, which are {}", EVICTION_SIGNALS.join(", "));
    (!known).then(|| fault(&format!("{field}[{signal}]"), &message()))
}

/// A percentage of the resource, or an amount of it.
fn threshold_fault(value: &str) -> Option<String> {
    let fine = match value.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().is_ok_and(|percent| (0.0..=100.0).contains(&percent)),
        None => sign(value).is_some_and(|sign| sign != Sign::Negative),
    };
    (!fine).then(|| format!("{value:?} is neither a percentage from 0% to 100% nor a quantity of zero or more"))
}

/// A soft threshold without grace period is ignored by the kubelet, a grace period without threshold refused.
fn unmatched(kubelet: &KubeletConfiguration, from: &str, to: &str) -> Vec<Fault> {
    let counterparts = strings(kubelet, to);
    strings(kubelet, from)
        .into_iter()
        .filter(|(signal, _)| !counterparts.iter().any(|(other, _)| other == signal))
        .map(|(signal, _)| fault(&format!("{from}[{signal}]"), &format!("has no matching {to}")))
        .collect()
}

fn number_faults(kubelet: &KubeletConfiguration) -> Vec<Fault> {
    let mut faults = Vec::new();
    let number = |field: &str| kubelet.get(field).and_then(Value::as_i64);
    let (high, low) = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent");
    for field in [high, low] {
        if let Some(percent) = number(field).filter(|percent| !(0..=100).contains(percent)) {
            faults.push(fault(field, &format!("{percent} is not between 0 and 100")));
        }
    }
    for field in ["podsPerCore", "evictionMaxPodGracePeriod", "maxPods"] {
        if let Some(count) = number(field).filter(|count| *count < 0) {
            faults.push(fault(field, &format!("{count} is negative")));
        }
    }
    if let (Some(top), Some(bottom)) = (number(high), number(low))
        && top <= bottom
    {
        faults.push(fault(high, &format!("{top} must be greater than {low} ({bottom})")));
    }
    faults
}

/// The entries of a map of strings. A value that is not a string has been reported as such and is passed over.
fn strings<'a>(kubelet: &'a KubeletConfiguration, field: &str) -> Vec<(&'a str, &'a str)> {
    let entries = kubelet.get(field).and_then(Value::as_object).into_iter().flatten();
    let mut strings: Vec<_> = entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect();
    strings.sort_unstable();
    strings
}

fn fault(field: &str, message: &str) -> Fault {
    Fault { field: format!("spec.kubelet.{field}"), message: message.to_owned() }
}

#[cfg(test)]
mod tests;
