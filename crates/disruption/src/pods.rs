//! Pods as a node's end sees them, and the PodDisruptionBudgets that hold them.

use jiff::Timestamp;
use karpenter_core::do_not_disrupt::DoNotDisrupt;
use karpenter_core::taints::{Effect, Taint, untolerated};
use karpenter_core::world::DisruptionBudget;
use karpenter_core::{Pod, PodShape, World};
use rustc_hash::FxHashMap;

/// Will need a place elsewhere: active, or a terminating StatefulSet pod, whose successor waits for it to be gone.
pub fn is_reschedulable(pod: &Pod) -> bool {
    let waits_for_successor = pod.terminating && pod.owned_by("apps/v1", "StatefulSet");
    (pod.is_active() || waits_for_successor) && !pod.is_daemon() && !pod.is_node_owned()
}

/// `karpenter.sh/do-not-disrupt` is in force.
pub fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    let asked = pod.shape.do_not_disrupt.as_deref().map(DoNotDisrupt::parse);
    asked.is_some_and(|asked| asked.is_in_force(pod.started.map(|started| now.duration_since(started))))
}

/// Whether voluntary disruption may take the pod's node.
pub fn is_disruptable(pod: &Pod, now: Timestamp) -> bool {
    !pod.is_active() || !is_protected(pod, now)
}

/// The eviction API may be asked to take it.
pub fn is_evictable(pod: &Pod, now: Timestamp) -> bool {
    pod.is_active() && !tolerates_disruption(&pod.shape) && !pod.is_node_owned() && !is_protected(pod, now)
}

fn tolerates_disruption(shape: &PodShape) -> bool {
    let taint = Taint { key: "karpenter.sh/disrupted".into(), value: String::new(), effect: Effect::NoSchedule };
    untolerated(std::slice::from_ref(&taint), &shape.tolerations).is_none()
}

/// Which budgets concern a pod, found once for each namespace and shape.
pub struct Budgets<'w> {
    by_namespace: FxHashMap<&'w str, Vec<&'w DisruptionBudget>>,
    found: FxHashMap<(*const PodShape, &'w str), Vec<&'w DisruptionBudget>>,
}

impl<'w> Budgets<'w> {
    pub fn new(world: &'w World) -> Self {
        let mut by_namespace: FxHashMap<&str, Vec<&DisruptionBudget>> = FxHashMap::default();
        for budget in &world.disruption_budgets {
            by_namespace.entry(&budget.namespace).or_default().push(budget);
        }
        by_namespace.values_mut().for_each(|budgets| budgets.sort_by(|a, b| a.name.cmp(&b.name)));
        Self { by_namespace, found: FxHashMap::default() }
    }

    /// Those that select the pod, by name.
    pub fn concerning(&mut self, pod: &'w Pod) -> &[&'w DisruptionBudget] {
        let Some(all) = self.by_namespace.get(&*pod.namespace) else { return &[] };
        let key = (std::sync::Arc::as_ptr(&pod.shape), &*pod.namespace);
        self.found.entry(key).or_insert_with(|| {
            let selects = |budget: &&&DisruptionBudget| {
                budget.selector.as_ref().is_some_and(|selector| selector.matches(&pod.shape.labels))
            };
            all.iter().filter(selects).copied().collect()
        })
    }

    /// The budgets that hold a pod right now: all of them when there are several, for the API refuses that, or the one
    /// that allows no disruption. Each pod is judged alone, and one that would not be evicted is never held.
    pub fn holding(&mut self, pod: &'w Pod, now: Timestamp) -> Option<Vec<String>> {
        if self.by_namespace.is_empty() || !is_evictable(pod, now) {
            return None;
        }
        let concerning = self.concerning(pod);
        let holds = match concerning {
            [] => false,
            [one] => one.disruptions_allowed <= 0 && !(one.always_allows_unready && pod.unready),
            _ => true,
        };
        holds.then(|| concerning.iter().map(|budget| format!("{}/{}", budget.namespace, budget.name)).collect())
    }

    /// No eviction of this pod can ever be allowed: by several budgets, or one that never allows any.
    pub fn hold_for_good(&mut self, pod: &'w Pod, now: Timestamp) -> bool {
        if self.by_namespace.is_empty() || !is_evictable(pod, now) {
            return false;
        }
        let concerning = self.concerning(pod);
        let never = |budget: &&DisruptionBudget| budget.never_allows && !(budget.always_allows_unready && pod.unready);
        concerning.len() > 1 || concerning.iter().any(never)
    }

    /// Moves when its node goes: reschedulable, free to leave, and not held for good.
    pub fn lets_move(&mut self, pod: &'w Pod, now: Timestamp) -> bool {
        is_reschedulable(pod) && is_disruptable(pod, now) && !self.hold_for_good(pod, now)
    }
}
