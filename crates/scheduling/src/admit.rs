//! Which pods enter a pass: those that wait for a node, and those whose node is going away.

use karpenter_core::do_not_disrupt::DoNotDisrupt;
use karpenter_core::labels::{CAPACITY_TYPE, CAPACITY_TYPES, NODEPOOL, Vocabulary, is_label_value, is_qualified_name};
use karpenter_core::plan::{LeftOver, Reason};
use karpenter_core::pod::{NodeTerm, Pod};
use karpenter_core::requirement::{Expression, Operator};
use karpenter_core::taints::{Effect, Taint, untolerated};
use karpenter_core::world::World;
use karpenter_core::{PodShape, Requirements};
use rustc_hash::FxHashMap;

use crate::volumes;

/// The pods of a pass, by position in the world, and those that validation keeps out of it.
pub(crate) struct Admitted {
    pub(crate) pods: Vec<usize>,
    pub(crate) ignored: Vec<LeftOver>,
}

pub(crate) fn admit(world: &World) -> Admitted {
    let nodes: FxHashMap<&str, &karpenter_core::Node> = world.nodes.iter().map(|node| (&*node.name, node)).collect();
    let mut admitted = Admitted { pods: Vec::new(), ignored: Vec::new() };
    // Pods of one workload share a shape, so each is judged once.
    let mut judged: FxHashMap<*const PodShape, Option<Reason>> = FxHashMap::default();
    let anybody_leaves = world.nodes.iter().any(|node| node.deleting);
    for (index, pod) in world.pods.iter().enumerate() {
        if pod.node.is_some() && !anybody_leaves {
            continue;
        }
        let waits = is_provisionable(pod, &nodes);
        if !waits && !moves(pod, &nodes, world) {
            continue;
        }
        let fault = if waits {
            let shape_fault = judged.entry(std::sync::Arc::as_ptr(&pod.shape));
            let shape_fault = shape_fault.or_insert_with(|| shape_fault_of(&pod.shape, &world.vocabulary)).clone();
            shape_fault.or_else(|| volumes::fault(pod, &world.storage).map(|message| Reason::Invalid { message }))
        } else {
            None
        };
        match fault {
            None => admitted.pods.push(index),
            Some(reason) => admitted.ignored.push(LeftOver { pod: index, reason, nearest_miss: None }),
        }
    }
    admitted
}

/// Pods without a node that are no part of a pass and would be refused by it.
pub(crate) fn refused_bystanders(world: &World) -> Vec<LeftOver> {
    let nodes: FxHashMap<&str, &karpenter_core::Node> = world.nodes.iter().map(|node| (&*node.name, node)).collect();
    let mut refused = Vec::new();
    for (index, pod) in world.pods.iter().enumerate() {
        if pod.node.is_some() || is_provisionable(pod, &nodes) {
            continue;
        }
        let of_volumes = || volumes::fault(pod, &world.storage).map(|message| Reason::Invalid { message });
        if let Some(reason) = shape_fault_of(&pod.shape, &world.vocabulary).or_else(of_volumes) {
            refused.push(LeftOver { pod: index, reason, nearest_miss: None });
        }
    }
    refused
}

/// Waiting for a node that kube-scheduler could not find. A nomination hides the pod (it is preempting), unless it is
/// to a node that is going, or of ours and not yet there. A nomination to a node the world does not know still hides
/// it: whoever made the world drops those to nodes that are gone.
pub(crate) fn is_provisionable(pod: &Pod, nodes: &FxHashMap<&str, &karpenter_core::Node>) -> bool {
    let preempting = pod
        .nominated_node
        .as_ref()
        .is_some_and(|name| nodes.get(&**name).is_none_or(|node| !node.deleting && node.is_initialized()));
    pod.scheduled_reason.as_deref() == Some("Unschedulable")
        && pod.node.is_none()
        && !preempting
        && !pod.is_daemon()
        && !pod.is_node_owned()
}

/// On a node that is going away, and free to leave it.
fn moves(pod: &Pod, nodes: &FxHashMap<&str, &karpenter_core::Node>, world: &World) -> bool {
    let leaving = pod.node.as_ref().is_some_and(|name| nodes.get(&**name).is_some_and(|node| node.deleting));
    leaving && is_reschedulable(pod) && !is_protected(pod, world) && !is_blocked(pod, world)
}

/// Will need a place elsewhere: active, or a terminating StatefulSet pod, whose successor waits for it to be gone.
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    (pod.is_active() || pod.terminating && !pod.is_terminal() && pod.owned_by("apps/v1", "StatefulSet"))
        && !pod.is_daemon()
        && !pod.is_node_owned()
}

/// `karpenter.sh/do-not-disrupt` is in force.
pub(crate) fn is_protected(pod: &Pod, world: &World) -> bool {
    let asked = pod.shape.do_not_disrupt.as_deref().filter(|_| pod.is_active()).map(DoNotDisrupt::parse);
    asked.is_some_and(|asked| asked.is_in_force(pod.started.map(|started| world.now.duration_since(started))))
}

/// A disruption budget that can never allow its eviction, or more than one budget.
pub(crate) fn is_blocked(pod: &Pod, world: &World) -> bool {
    let disrupted = Taint { key: "karpenter.sh/disrupted".into(), value: String::new(), effect: Effect::NoSchedule };
    let tolerates = untolerated(std::slice::from_ref(&disrupted), &pod.shape.tolerations).is_none();
    if !pod.is_active() || tolerates || pod.is_node_owned() || is_protected(pod, world) {
        return false;
    }
    let budgets: Vec<_> = world
        .disruption_budgets
        .iter()
        .filter(|budget| budget.namespace == pod.namespace)
        .filter(|budget| budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.shape.labels)))
        .collect();
    budgets.len() > 1 || budgets.iter().any(|b| b.never_allows && !(b.always_allows_unready && pod.unready))
}

fn shape_fault_of(shape: &PodShape, words: &Vocabulary) -> Option<Reason> {
    if hard_requirements(shape, words).0.get(NODEPOOL).is_some_and(avoids) {
        return Some(Reason::AvoidsManagedNodes);
    }
    let selected = shape.node_selector.iter().find_map(|(key, value)| {
        let expression = Expression::new(key, Operator::In, &[value]);
        expression_fault(&expression, words).map(|fault| format!("spec.nodeSelector: {fault}"))
    });
    let message = selected.or_else(|| {
        shape.required_node_affinity.iter().enumerate().find_map(|(at, term)| {
            const FIELD: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
            term_fault(term, words).map(|fault| format!("{FIELD}.nodeSelectorTerms[{at}]: {fault}"))
        })
    });
    message.map(|message| Reason::Invalid { message })
}

fn avoids(requirement: &karpenter_core::Requirement) -> bool {
    requirement.operator() == Operator::DoesNotExist
}

/// Selector and first alternative together.
fn hard_requirements(shape: &PodShape, words: &Vocabulary) -> Requirements {
    let mut set = Requirements::from_labels(&shape.node_selector, words);
    if let Some(term) = shape.required_node_affinity.first() {
        set.add_all(&Requirements::from_expressions(&term.expressions, words));
    }
    set
}

fn term_fault(term: &NodeTerm, words: &Vocabulary) -> Option<String> {
    if term.has_match_fields {
        return Some("matchFields is not supported".to_owned());
    }
    if let Some(unknown) = &term.unknown_operator {
        return Some(format!("unsupported operator in {unknown:?}"));
    }
    term.expressions.iter().find_map(|expression| expression_fault(expression, words))
}

/// What is wrong with one expression of a pod's node selection.
pub(crate) fn expression_fault(expression: &Expression, words: &Vocabulary) -> Option<String> {
    let key = words.normalize(&expression.key);
    if !is_qualified_name(key) {
        return Some(format!("{key:?} is not a label key"));
    }
    if words.is_restricted(key) {
        return Some(format!("label {key} is restricted"));
    }
    if let Some(value) = expression.values.iter().find(|value| !is_label_value(value)) {
        return Some(format!("{value:?} is not a value for label {key}"));
    }
    match expression.operator {
        Operator::In if expression.values.is_empty() => Some(format!("{key} In needs values")),
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
            let number = expression.values.first().and_then(|value| value.parse::<i64>().ok());
            let fine = expression.values.len() == 1 && number.is_some_and(|number| number >= 0);
            (!fine).then(|| format!("{key} {} needs one whole number of at least 0", expression.operator.as_str()))
        }
        Operator::In if key == CAPACITY_TYPE => {
            let known = expression.values.iter().any(|value| CAPACITY_TYPES.contains(&&**value));
            (!known).then(|| format!("{key} In needs at least one of {}", CAPACITY_TYPES.join(", ")))
        }
        Operator::In | Operator::NotIn | Operator::Exists | Operator::DoesNotExist => None,
    }
}

#[cfg(test)]
mod tests;
