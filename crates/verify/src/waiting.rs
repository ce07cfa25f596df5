//! Which pods a plan must answer for, and whether each is answered for once.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use karpenter_core::labels::{CAPACITY_TYPE, CAPACITY_TYPES, HOSTNAME, NODEPOOL, is_label_value, is_qualified_name};
use karpenter_core::plan::Plan;
use karpenter_core::pod::{Owner, Phase};
use karpenter_core::requirement::Expression;
use karpenter_core::taints::Effect;
use karpenter_core::{Operator, Pod, Taint, World};

use crate::cluster::Cluster;
use crate::labels::{canonical, selector_matches};
use crate::violation::Violation;
use crate::{tolerations, volumes};

/// Why a pod needs a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Pending,
    /// Its node is going away.
    Moving,
}

pub(crate) fn waiting(world: &World, pod: &Pod) -> Option<Waiting> {
    if provisionable(world, pod) {
        return Some(Waiting::Pending);
    }
    let node = pod.node.as_ref()?;
    let leaving = world.nodes.iter().any(|n| n.deleting && n.name == *node);
    (leaving && reschedulable_now(world, pod)).then_some(Waiting::Moving)
}

fn owned_by(pod: &Pod, api_version: &str, kind: &str) -> bool {
    let by = |owner: &Owner| &*owner.api_version == api_version && &*owner.kind == kind;
    pod.owners.iter().any(by)
}

fn belongs_to_its_node(pod: &Pod) -> bool {
    owned_by(pod, "apps/v1", "DaemonSet") || owned_by(pod, "v1", "Node")
}

fn provisionable(world: &World, pod: &Pod) -> bool {
    pod.scheduled_reason.as_deref() == Some("Unschedulable")
        && pod.node.is_none()
        && !pod.nominated_node.as_ref().is_some_and(|name| holds_its_nomination(world, name))
        && !belongs_to_its_node(pod)
}

/// A nomination speaks of preemption only where the node is there, stays, and is complete.
fn holds_its_nomination(world: &World, name: &str) -> bool {
    use karpenter_core::node::Stage::{Initialized, Unmanaged};
    let complete = |node: &&karpenter_core::Node| !node.deleting && matches!(node.stage, Initialized | Unmanaged);
    world.nodes.iter().filter(complete).any(|node| &*node.name == name)
}

pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.phase, Phase::Failed | Phase::Succeeded)
}

fn reschedulable_now(world: &World, pod: &Pod) -> bool {
    let active = !is_terminal(pod) && !pod.terminating;
    let returns = pod.terminating && !is_terminal(pod) && owned_by(pod, "apps/v1", "StatefulSet");
    if belongs_to_its_node(pod) || !(active || returns) {
        return false;
    }
    !(active && (protected(world, pod) || budget_blocks(world, pod)))
}

/// Needs another place when its node goes, whatever holds it.
pub(crate) fn returns(pod: &Pod) -> bool {
    let active = !is_terminal(pod) && !pod.terminating;
    let successor = pod.terminating && !is_terminal(pod) && owned_by(pod, "apps/v1", "StatefulSet");
    !belongs_to_its_node(pod) && (active || successor)
}

/// Nobody asks the eviction API to take it.
pub(crate) fn stays_with_its_node(world: &World, pod: &Pod) -> bool {
    tolerates_disruption(pod) || owned_by(pod, "v1", "Node") || protected(world, pod)
}

fn tolerates_disruption(pod: &Pod) -> bool {
    let disrupted =
        Taint { key: "karpenter.sh/disrupted".to_owned(), value: String::new(), effect: Effect::NoSchedule };
    tolerations::all(&[disrupted], &pod.shape.tolerations)
}

/// `karpenter.sh/do-not-disrupt`: `true`, or a duration from the pod's start.
pub(crate) fn protected(world: &World, pod: &Pod) -> bool {
    let Some(value) = &pod.shape.do_not_disrupt else { return false };
    if &**value == "true" {
        return true;
    }
    let Some(length) = go_duration(value).filter(|length| length.is_positive()) else { return false };
    pod.started.is_none_or(|start| start + length > world.now)
}

/// `1h30m`, as Go writes durations: numbers with units, nothing between them.
fn go_duration(text: &str) -> Option<SignedDuration> {
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let mut rest = unsigned;
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let units = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(units);
        let scale: i128 = match unit {
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" | "µs" | "μs" => 1_000,
            "ns" => 1,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let fraction: String = fraction.chars().take(12).collect();
        let parse = |digits: &str| if digits.is_empty() { Ok(0) } else { digits.parse::<i128>() };
        let part = parse(&fraction).ok()? * scale / 10_i128.pow(fraction.len() as u32);
        nanos = nanos.checked_add(parse(whole).ok()?.checked_mul(scale)?)?.checked_add(part)?;
        rest = tail;
    }
    (!unsigned.is_empty()).then(|| i64::try_from(nanos).ok().map(SignedDuration::from_nanos)).flatten()
}

fn budget_blocks(world: &World, pod: &Pod) -> bool {
    if tolerates_disruption(pod) {
        return false;
    }
    let mine: Vec<_> = world
        .disruption_budgets
        .iter()
        .filter(|budget| budget.namespace == pod.namespace)
        .filter(|budget| selector_matches(budget.selector.as_ref(), &pod.shape.labels))
        .collect();
    let blocks = |budget: &&karpenter_core::world::DisruptionBudget| {
        budget.never_allows && !(budget.always_allows_unready && pod.unready)
    };
    mine.len() > 1 || mine.iter().any(blocks)
}

/// Why a pending pod must be left out of every pass, if it must.
pub(crate) fn invalid(world: &World, pod: &Pod) -> Option<String> {
    let words = &world.vocabulary;
    let shape = &pod.shape;
    if shape.wants_devices && world.settings.ignore_device_requests {
        return Some("it asks for devices, which are ignored".to_owned());
    }
    for (key, value) in &shape.node_selector {
        let expression = Expression::new(key, Operator::In, &[value]);
        if let Some(fault) = invalid_expression(world, &expression) {
            return Some(fault);
        }
    }
    for term in &shape.required_node_affinity {
        if term.has_match_fields {
            return Some("a required node affinity term has matchFields".to_owned());
        }
        if let Some(operator) = &term.unknown_operator {
            return Some(format!("unknown operator in {operator}"));
        }
        let fault = term.expressions.iter().find_map(|expression| invalid_expression(world, expression));
        if fault.is_some() {
            return fault;
        }
    }
    let first = shape.required_node_affinity.first();
    let avoids = |e: &Expression| canonical(words, &e.key) == NODEPOOL && e.operator == Operator::DoesNotExist;
    if first.is_some_and(|term| term.expressions.iter().any(avoids)) {
        return Some("it avoids managed nodes".to_owned());
    }
    volumes::invalid(world, pod)
}

fn invalid_expression(world: &World, expression: &Expression) -> Option<String> {
    let key = canonical(&world.vocabulary, &expression.key);
    let count = expression.values.len();
    let natural = |value: &str| value.parse::<i64>().is_ok_and(|number| number >= 0);
    let one_number = count == 1 && natural(&expression.values[0]);
    let fault = if restricted(world, key) {
        "a restricted key"
    } else if !is_qualified_name(key) {
        "a key that is no qualified name"
    } else if !expression.values.iter().all(|value| is_label_value(value)) {
        "a value that no label can have"
    } else {
        match expression.operator {
            Operator::In if count == 0 => "no value to be in",
            Operator::In
                if key == CAPACITY_TYPE && !expression.values.iter().any(|v| CAPACITY_TYPES.contains(&&**v)) =>
            {
                "no known capacity type"
            }
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte if !one_number => {
                "no natural number to compare with"
            }
            Operator::In
            | Operator::NotIn
            | Operator::Exists
            | Operator::DoesNotExist
            | Operator::Gt
            | Operator::Lt
            | Operator::Gte
            | Operator::Lte => return None,
        }
    };
    Some(format!("{fault}: {key}"))
}

fn restricted(world: &World, key: &str) -> bool {
    if world.vocabulary.well_known.contains(key) {
        return false;
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |restricted: &String| domain == restricted || domain.ends_with(&format!(".{restricted}"));
    key == HOSTNAME || world.vocabulary.restricted_domains.iter().any(within)
}

/// Positions that point nowhere.
pub(crate) fn positions(world: &World, plan: &Plan, found: &mut Vec<Violation>) {
    let mut outside = |place: &str, position: usize, count: usize| {
        if position >= count {
            let place = place.to_owned();
            found.push(Violation::UnknownPosition { place, position });
        }
    };
    for (i, new) in plan.new_nodes.iter().enumerate() {
        outside(&format!("pool of new-{i}"), new.pool, world.pools.len());
        let types = world.pools.get(new.pool).map_or(0, |pool| pool.instance_types.len());
        new.instance_types.iter().for_each(|kind| outside(&format!("instance types of new-{i}"), *kind, types));
        new.pods.iter().for_each(|pod| outside(&format!("pods of new-{i}"), *pod, world.pods.len()));
    }
    for (node, pods) in &plan.existing {
        outside("existing nodes", *node, world.nodes.len());
        pods.iter().for_each(|pod| outside(&format!("pods of existing node {node}"), *pod, world.pods.len()));
    }
    for (name, list) in [("left over", &plan.left_over), ("ignored", &plan.ignored)] {
        list.iter().for_each(|left| outside(name, left.pod, world.pods.len()));
    }
}

/// Each pod that needs a place is in exactly one list, and no other is.
pub(crate) fn bookkeeping(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    let mut listed: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (pod, place) in cluster.placements() {
        listed.entry(pod).or_default().push(cluster.name(place));
    }
    for (name, list) in [("left over", &cluster.plan.left_over), ("ignored", &cluster.plan.ignored)] {
        for left in list {
            listed.entry(left.pod).or_default().push(name.to_owned());
        }
    }
    for (pod, places) in &listed {
        let key = cluster.pod_name(*pod);
        if places.len() > 1 {
            found.push(Violation::ListedTwice { pod: key.clone(), places: places.clone() });
        }
        if cluster.waiting[*pod].is_none() {
            found.push(Violation::NotWaiting { pod: key, place: places[0].clone() });
        }
    }
    for (pod, why) in cluster.waiting.iter().enumerate() {
        if why.is_some() && !listed.contains_key(&pod) {
            found.push(Violation::Lost { pod: cluster.pod_name(pod) });
        }
    }
    for (pod, place) in cluster.placements() {
        // A pod that runs already has been through validation once; moving it does not ask again.
        let fault = match cluster.waiting[pod] {
            Some(Waiting::Pending) => invalid(cluster.world, &cluster.world.pods[pod]),
            Some(Waiting::Moving) | None => None,
        };
        if let Some(why) = fault {
            let place = cluster.name(place);
            found.push(Violation::PlacedThoughInvalid { pod: cluster.pod_name(pod), place, why });
        }
    }
    for left in &cluster.plan.ignored {
        let pending = cluster.waiting[left.pod] == Some(Waiting::Pending);
        if pending && invalid(cluster.world, &cluster.world.pods[left.pod]).is_none() {
            found.push(Violation::IgnoredThoughValid { pod: cluster.pod_name(left.pod) });
        }
    }
}
