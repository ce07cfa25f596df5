//! Why a pod found no place, in words. Rendered only when somebody reads it.

use karpenter_core::World;
use karpenter_core::plan::{PoolReason, Reason, TopologyConstraint, TopologyKind, TypeFailure};

use crate::amounts::listed;

/// How many keys or values a message lists before it only counts.
const SHOWN: usize = 5;

/// A short name for programs: what kept the pod out, where all pools agree on it.
pub fn code(reason: &Reason) -> &'static str {
    match reason {
        Reason::Invalid { .. } => "InvalidPod",
        Reason::AvoidsManagedNodes => "AvoidsManagedNodes",
        Reason::DevicesIgnored => "DevicesIgnored",
        Reason::NoPools => "NoNodePools",
        Reason::NoInstanceTypes => "NoInstanceTypes",
        Reason::ReservedCapacityDeferred => "ReservedCapacityDeferred",
        Reason::Pools(pools) => {
            let mut codes = pools.iter().map(|(_, reason)| pool_code(reason));
            let first = codes.next().unwrap_or("NoNodePools");
            if codes.all(|code| code == first) { first } else { "NoNodePoolFits" }
        }
    }
}

fn pool_code(reason: &PoolReason) -> &'static str {
    match reason {
        PoolReason::Taint { .. } => "Taint",
        PoolReason::Contradiction { .. } => "Contradiction",
        PoolReason::Incompatible { .. } => "Incompatible",
        PoolReason::Limit { .. } => "Limit",
        PoolReason::MinValues { .. } => "MinValues",
        PoolReason::Topology { .. } => "Topology",
        PoolReason::Volumes { .. } => "Volumes",
        PoolReason::HostPort => "HostPort",
        PoolReason::Types(_) => "InstanceTypes",
        PoolReason::NoTypes => "NoInstanceTypes",
    }
}

pub fn reason(world: &World, reason: &Reason) -> String {
    match reason {
        Reason::Invalid { message } => message.clone(),
        Reason::AvoidsManagedNodes => "the pod excludes nodes that have a NodePool".to_owned(),
        Reason::DevicesIgnored => "the pod asks for devices through ResourceClaims, which are ignored".to_owned(),
        Reason::NoPools => "there is no NodePool to launch a node from".to_owned(),
        Reason::NoInstanceTypes => {
            "the requirements of the NodePools leave no instance type that is available".to_owned()
        }
        Reason::ReservedCapacityDeferred => {
            "reserved capacity that fits is taken in this pass; it is tried again".to_owned()
        }
        Reason::Pools(pools) => {
            let told = pools.iter().map(|(pool, reason)| {
                let name = world.pools.get(*pool).map_or("?", |pool| &*pool.name);
                format!("NodePool {name}: {}", pool_reason(reason))
            });
            told.collect::<Vec<_>>().join("; ")
        }
    }
}

fn pool_reason(reason: &PoolReason) -> String {
    match reason {
        PoolReason::Taint { taint } => format!("the pod does not tolerate {taint}"),
        PoolReason::Contradiction { key } => {
            format!("no node, with the label {key} or without it, can meet all that the pod asks of it")
        }
        PoolReason::Incompatible { keys, undefined, hint } => {
            let mut parts = Vec::new();
            if let Some(key) = undefined {
                let hint = hint.as_ref().map(|hint| format!(", did you mean {hint}?")).unwrap_or_default();
                parts.push(format!("the label {key} is asked for and not defined{hint}"));
            }
            if !keys.is_empty() {
                parts.push(format!("requirements have nothing in common on {}", some(keys)));
            }
            parts.join(", and ")
        }
        PoolReason::Limit { resource } if resource.is_empty() => {
            "every instance type would exceed the limits".to_owned()
        }
        PoolReason::Limit { resource } if resource == "nodes" => "the limit of nodes is reached".to_owned(),
        PoolReason::Limit { resource } => format!("every instance type would exceed the limit of {resource}"),
        PoolReason::MinValues { keys } => format!("minValues cannot be met for {}", some(keys)),
        PoolReason::Topology { constraint } => topology(constraint),
        PoolReason::Volumes { keys } => format!("the pod's volumes cannot be reached, by {}", some(keys)),
        PoolReason::HostPort => "a host port is taken on every node that could be launched".to_owned(),
        PoolReason::Types(failure) => types(failure),
        PoolReason::NoTypes => "its requirements leave no instance type that is available".to_owned(),
    }
}

fn some<T: AsRef<str>>(keys: &[T]) -> String {
    let mut text = keys.iter().take(SHOWN).map(T::as_ref).collect::<Vec<_>>().join(", ");
    if keys.len() > SHOWN {
        text += &format!(" and {} more", keys.len() - SHOWN);
    }
    text
}

fn topology(constraint: &TopologyConstraint) -> String {
    let kind = match constraint.kind {
        TopologyKind::Spread => "topology spread",
        TopologyKind::Affinity => "pod affinity",
        TopologyKind::AntiAffinity => "pod anti-affinity",
        TopologyKind::InverseAntiAffinity => "another pod's anti-affinity",
    };
    let counts: Vec<String> = constraint.counts.iter().map(|(domain, count)| format!("{domain}: {count}")).collect();
    format!(
        "{kind} over {} cannot be met (counts {}; the pod allows {}, the node {})",
        constraint.key,
        if counts.is_empty() { "none".to_owned() } else { counts.join(", ") },
        constraint.pod_domains,
        constraint.node_domains,
    )
}

/// Which criteria no type met: alone, in pairs, or only all three together.
fn types(failure: &TypeFailure) -> String {
    let missing: Vec<&str> = [
        (failure.requirements_met, "meets the requirements"),
        (failure.fits, "is large enough"),
        (failure.has_offering, "has an offering that fits"),
    ]
    .into_iter()
    .filter_map(|(met, text)| (!met).then_some(text))
    .collect();
    let what = match missing.as_slice() {
        [] if failure.requirements_and_fits => {
            "no instance type that meets the requirements and is large enough has an offering that fits".to_owned()
        }
        [] if failure.fits_and_offering => {
            "no instance type that is large enough and has an offering that fits meets the requirements".to_owned()
        }
        [] if failure.requirements_and_offering => {
            "no instance type that meets the requirements and has an offering that fits is large enough".to_owned()
        }
        [] => {
            "no instance type meets the requirements, is large enough and has an offering that fits at once".to_owned()
        }
        [one] => format!("no instance type {one}"),
        several => format!("no instance type {}", several.join(", or ")),
    };
    let (least, most) = (listed(&failure.requests.0), listed(&failure.requests.1));
    let needed = if least == most { least } else { format!("at least {least}, at most {most}") };
    let typo = if failure.suspicious_cpu { "; a million CPUs or more: was m meant instead of M?" } else { "" };
    let requirements = if failure.requirements.is_empty() { "none" } else { &failure.requirements };
    format!("{what} (requirements: {requirements}; needed with daemons: {needed}{typo})")
}

#[cfg(test)]
mod tests;
