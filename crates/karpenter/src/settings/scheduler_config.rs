//! What the cluster's kube-scheduler spreads by default, so that pods without constraints of their own are planned as
//! they will really be placed.

use std::collections::BTreeSet;

use karpenter_core::labels::is_qualified_name;
use karpenter_core::pod::{NodePolicy, WhenUnsatisfiable};
use karpenter_core::settings::DefaultSpread;
use serde::Deserialize;
use serde_json::Value;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SchedulerConfig {
    pod_topology_spread: Option<PodTopologySpread>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodTopologySpread {
    #[serde(default)]
    default_constraints: Vec<Constraint>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    #[serde(default)]
    max_skew: i32,
    #[serde(default)]
    topology_key: String,
    #[serde(default)]
    when_unsatisfiable: String,
    min_domains: Option<i32>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
    label_selector: Option<Value>,
    match_label_keys: Option<Value>,
}

/// Empty text means no defaults.
pub(crate) fn parse(text: &str) -> Result<Vec<DefaultSpread>, Vec<String>> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let config: SchedulerConfig =
        serde_saphyr::from_str(text).map_err(|error| vec![error.without_snippet().to_string().replace('\n', " ")])?;
    let constraints = config.pod_topology_spread.unwrap_or_default().default_constraints;
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    let mut spread = Vec::new();
    for (position, constraint) in constraints.into_iter().enumerate() {
        let at = format!("podTopologySpread.defaultConstraints[{position}]");
        if !seen.insert((constraint.topology_key.clone(), constraint.when_unsatisfiable.clone())) {
            faults.push(format!("{at}: repeats the topologyKey and whenUnsatisfiable of another entry"));
        }
        spread.extend(checked(constraint, &at, &mut faults));
    }
    if faults.is_empty() { Ok(spread) } else { Err(faults) }
}

fn checked(constraint: Constraint, at: &str, faults: &mut Vec<String>) -> Option<DefaultSpread> {
    let before = faults.len();
    let mut fault = |field: &str, message: String| faults.push(format!("{at}.{field}: {message}"));
    if constraint.max_skew < 1 {
        fault("maxSkew", "must be at least 1".to_owned());
    }
    if !is_qualified_name(&constraint.topology_key) {
        fault("topologyKey", format!("{:?} is not a label name", constraint.topology_key));
    }
    let when = match constraint.when_unsatisfiable.as_str() {
        "DoNotSchedule" => Some(WhenUnsatisfiable::DoNotSchedule),
        "ScheduleAnyway" => Some(WhenUnsatisfiable::ScheduleAnyway),
        other => {
            fault("whenUnsatisfiable", format!("{other:?} is not one of DoNotSchedule, ScheduleAnyway"));
            None
        }
    };
    let mut policy = |field: &str, text: Option<&str>, default| match text {
        None | Some("") => default,
        Some("Honor") => NodePolicy::Honor,
        Some("Ignore") => NodePolicy::Ignore,
        Some(other) => {
            fault(field, format!("{other:?} is not one of Honor, Ignore"));
            default
        }
    };
    let node_affinity = policy("nodeAffinityPolicy", constraint.node_affinity_policy.as_deref(), NodePolicy::Honor);
    let node_taints = policy("nodeTaintsPolicy", constraint.node_taints_policy.as_deref(), NodePolicy::Ignore);
    if constraint.label_selector.is_some() {
        fault("labelSelector", "is not allowed: it follows from each pod's owner and services".to_owned());
    }
    if constraint.match_label_keys.is_some() {
        fault("matchLabelKeys", "is not allowed".to_owned());
    }
    if faults.len() > before {
        return None;
    }
    Some(DefaultSpread {
        topology_key: constraint.topology_key,
        max_skew: constraint.max_skew,
        min_domains: constraint.min_domains,
        when: when?,
        node_affinity,
        node_taints,
    })
}
