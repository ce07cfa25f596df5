//! What the controller checks of objects the API server has admitted. An object with a fault here is not ready: it is
//! kept, reported in a condition, and not used for new capacity.

use k8s_openapi::api::core::v1::Taint;

use super::{Fault, kubelet, names};
use crate::labels;
use crate::requirement::{NodeSelectorRequirement, operator};
use crate::{EC2NodeClass, NodeOverlay, NodePool};

/// The resources an overlay may not add: what every instance type has, and what the provider reports itself.
const WELL_KNOWN_RESOURCES: [&str; 9] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "vpc.amazonaws.com/pod-eni",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
    "vpc.amazonaws.com/efa",
];

const SPEC: &str = "spec.template.spec";

/// Faults of a NodePool's template: labels, taints, requirements.
pub fn nodepool(pool: &NodePool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (key, value) in pool.spec.template.labels() {
        label(&format!("spec.template.metadata.labels[{key}]"), key, value, &mut faults);
    }
    let spec = &pool.spec.template.spec;
    let mut seen = Vec::new();
    taints("taints", spec.taints.as_deref(), &mut seen, &mut faults);
    taints("startupTaints", spec.startup_taints.as_deref(), &mut seen, &mut faults);
    for (i, given) in spec.requirements.iter().enumerate() {
        let field = format!("{SPEC}.requirements[{i}]");
        requirement(&field, given, &mut faults);
        if given.key == labels::NODEPOOL {
            push(&mut faults, format!("{field}.key"), "a NodePool cannot require its own label");
        }
    }
    faults
}

/// Faults of a NodeOverlay: requirements and added capacity.
pub fn nodeoverlay(overlay: &NodeOverlay) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (i, given) in overlay.spec.requirements.iter().enumerate() {
        let field = format!("spec.requirements[{i}]");
        requirement(&field, given, &mut faults);
        if given.operator == operator::NOT_IN && given.values().is_empty() {
            push(&mut faults, format!("{field}.values"), "NotIn needs at least one value");
        }
    }
    for name in overlay.spec.capacity.iter().flatten().map(|(name, _)| name) {
        if WELL_KNOWN_RESOURCES.contains(&name.as_str()) {
            let message = format!("{name} is known from the instance type and cannot be added");
            push(&mut faults, format!("spec.capacity[{name}]"), message);
        }
    }
    faults
}

/// Faults of an EC2NodeClass that can be told without asking AWS: kubelet settings, and tags of ours. Whether expressions
/// are allowed is a feature gate's matter, see [`kubelet::has_expressions`].
pub fn ec2nodeclass(class: &EC2NodeClass) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Some(settings) = &class.spec.kubelet {
        faults.extend(kubelet::validate(settings));
        faults.extend(kubelet::unsupported_by(class.ami_family(), settings));
    }
    faults.extend(ec2nodeclass_tags(class));
    faults
}

/// Tags of a class that the controller sets itself, and tags without a key.
pub fn ec2nodeclass_tags(class: &EC2NodeClass) -> Vec<Fault> {
    let ours = [labels::NODEPOOL, labels::NODECLAIM_TAG, labels::EC2_NODE_CLASS, labels::EKS_CLUSTER_NAME_TAG];
    let refused = |key: &str| key.is_empty() || ours.contains(&key) || is_cluster_tag(key);
    let keys = class.spec.tags.iter().flatten().map(|(key, _)| key).filter(|key| refused(key));
    keys.map(|key| Fault { field: format!("spec.tags[{key}]"), message: "is set by the controller".to_owned() })
        .collect()
}

/// `kubernetes.io/cluster/<cluster name>`
fn is_cluster_tag(key: &str) -> bool {
    let name = key.strip_prefix("kubernetes.io/cluster/").unwrap_or_default().as_bytes();
    name.first().is_some_and(u8::is_ascii_alphanumeric)
        && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// Values of an `In` requirement that mean nothing, in a requirement that is valid thanks to its other values. They are
/// ignored, and worth a line in the log.
pub fn ignored_values(requirement: &NodeSelectorRequirement) -> Vec<&str> {
    match labels::known_values(labels::normalized(&requirement.key)) {
        Some(known) if requirement.operator == operator::IN => {
            requirement.values().iter().map(String::as_str).filter(|value| !known.contains(value)).collect()
        }
        _ => Vec::new(),
    }
}

fn label(field: &str, key: &str, value: &str, faults: &mut Vec<Fault>) {
    if key == labels::NODEPOOL {
        push(faults, field, "a NodePool's own label cannot be set");
    }
    if let Err(fault) = names::qualified_name(key) {
        push(faults, field, format!("the key {key:?} {fault}"));
    }
    if let Err(fault) = names::label_value(value) {
        push(faults, field, format!("the value {value:?} {fault}"));
    }
    if labels::is_restricted(key) {
        push(faults, field, restricted(key));
    }
}

fn taints<'a>(list: &str, taints: Option<&'a [Taint]>, seen: &mut Vec<(&'a str, &'a str)>, faults: &mut Vec<Fault>) {
    for (i, taint) in taints.into_iter().flatten().enumerate() {
        let field = format!("{SPEC}.{list}[{i}]");
        if let Err(fault) = names::qualified_name(&taint.key) {
            push(faults, format!("{field}.key"), format!("{:?} {fault}", taint.key));
        }
        let value = taint.value.as_deref().unwrap_or_default();
        if let Err(fault) = names::qualified_name(value)
            && !value.is_empty()
        {
            push(faults, format!("{field}.value"), format!("{value:?} {fault}"));
        }
        if !["NoSchedule", "PreferNoSchedule", "NoExecute", ""].contains(&taint.effect.as_str()) {
            push(faults, format!("{field}.effect"), format!("{:?} is not an effect", taint.effect));
        }
        let pair = (taint.key.as_str(), taint.effect.as_str());
        if seen.contains(&pair) {
            push(faults, field, format!("{}:{} occurs twice over taints and startupTaints", pair.0, pair.1));
        }
        seen.push(pair);
    }
}

fn requirement(field: &str, given: &NodeSelectorRequirement, faults: &mut Vec<Fault>) {
    let key = labels::normalized(&given.key);
    let (op, values) = (given.operator.as_str(), given.values());
    if !operator::ALL.contains(&op) {
        push(faults, format!("{field}.operator"), format!("{op:?} is not one of {}", operator::ALL.join(", ")));
    }
    if labels::is_restricted(key) {
        push(faults, format!("{field}.key"), restricted(key));
    }
    if let Some(fault) = known_values_fault(key, given) {
        push(faults, format!("{field}.values"), fault);
    }
    if let Err(fault) = names::qualified_name(key) {
        push(faults, format!("{field}.key"), format!("{key:?} {fault}"));
    }
    for (i, value) in values.iter().enumerate() {
        if let Err(fault) = names::label_value(value) {
            push(faults, format!("{field}.values[{i}]"), format!("{value:?} {fault}"));
        }
    }
    if op == operator::IN {
        if values.is_empty() {
            push(faults, format!("{field}.values"), "In needs at least one value");
        }
        if given.min_values.is_some_and(|floor| (values.len() as i64) < floor) {
            push(faults, format!("{field}.values"), "has fewer values than minValues asks for");
        }
    }
    if operator::is_numeric(op) {
        let single = match values {
            [value] => value.parse::<i64>().is_ok_and(|number| number >= 0),
            _ => false,
        };
        if !single {
            push(faults, format!("{field}.values"), format!("{op} needs exactly one integer that is not negative"));
        }
    }
}

/// Some known value must be there, and as many as `minValues` asks for. Others beside them are only ignored.
fn known_values_fault(key: &str, given: &NodeSelectorRequirement) -> Option<String> {
    let known = labels::known_values(key).filter(|_| given.operator == operator::IN)?;
    let count = given.values().iter().filter(|value| known.contains(&value.as_str())).count();
    let known = known.join(", ");
    if count == 0 {
        return Some(format!("none of the values is one of {known}"));
    }
    let floor = given.min_values.filter(|floor| (count as i64) < *floor)?;
    Some(format!("only {count} of the values are among {known}, but minValues is {floor}"))
}

fn restricted(key: &str) -> String {
    format!("{key} is reserved: use a well-known label, or one outside {} and {}", labels::GROUP, labels::AWS_GROUP)
}

fn push(faults: &mut Vec<Fault>, field: impl Into<String>, message: impl Into<String>) {
    faults.push(Fault { field: field.into(), message: message.into() });
}

#[cfg(test)]
mod tests;
