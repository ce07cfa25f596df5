//! Changes that may let a pod in: everything in its way that is a field somebody wrote.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::pod::Pod;
use karpenter_core::quantity::Format;
use karpenter_core::requirement::Expression;
use karpenter_core::resources::{CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, NODES, PODS};
use karpenter_core::storage::{BindingMode, Storage};
use karpenter_core::taints::{Effect, TolerationOperator, untolerated};
use karpenter_core::{Operator, PodShape, Pool, Quantity, Requirements, Taint, Toleration};

use super::change::{Change, ClassChange, PodChange, PoolChange, with_value};
use super::screen::Screen;
use crate::template;
use crate::volumes;

/// How many values of a key are tried.
const VALUES: usize = 4;

impl Screen<'_, '_> {
    /// Candidates for a pod, the smallest first. `alike`: how many pods like it are left over.
    pub(super) fn candidates(&mut self, index: usize, class: Option<usize>, alike: u32) -> Vec<Change> {
        let world = self.problem.world;
        let (pod, order) = (&world.pods[index], template::order(world));
        let reach = volumes::alternatives(pod, &world.storage, &world.vocabulary);
        let invalid = class.is_none();
        let asked = self.asked(&pod.shape, &reach);
        let mut able = BTreeSet::new();
        if !invalid {
            able.extend(order.iter().filter(|pool| !self.types(**pool, &world.pools[**pool], &asked, None).is_empty()));
        }
        let somewhere = !able.is_empty() || !invalid && !self.nodes(&asked, None).is_empty();
        let mut found: Vec<Change> = Vec::new();
        if let Some(class) = class.filter(|_| somewhere) {
            found.extend(self.topology_changes(pod, class, &able, alike));
        }
        for change in self.pod_changes(&pod.shape, &order) {
            if !somewhere && self.helps(pod, &order, &change, &reach) {
                found.push(Change::Pod(change));
            }
        }
        for pool in order.iter().filter(|pool| !invalid && !able.contains(*pool)) {
            found.extend(self.request_changes(*pool, pod, &reach).into_iter().map(Change::Pod));
            for change in self.pool_changes(*pool, pod, &reach, alike) {
                let mut changed = world.pools[*pool].clone();
                change.apply(&mut changed);
                let asked = self.asked(&pod.shape, &reach);
                if !self.types(*pool, &changed, &asked, None).is_empty() {
                    found.push(Change::Pool(*pool, change));
                }
            }
        }
        for change in class_changes(pod, &world.storage) {
            let mut storage = world.storage.clone();
            change.on_storage(&mut storage);
            let reach = volumes::alternatives(pod, &storage, &world.vocabulary);
            let valid = volumes::fault(pod, &storage).is_none();
            let asked = self.asked(&pod.shape, &reach);
            if valid && order.iter().any(|pool| !self.types(*pool, &world.pools[*pool], &asked, None).is_empty()) {
                found.push(change);
            }
        }
        found.sort_by_key(Change::size);
        let mut seen: Vec<Change> = Vec::new();
        for change in found {
            if !seen.contains(&change) {
                seen.push(change);
            }
        }
        seen
    }

    /// Whether some pool or node would take the pod with the change.
    fn helps(&mut self, pod: &Pod, order: &[usize], change: &PodChange, reach: &[Requirements]) -> bool {
        let mut shape = (*pod.shape).clone();
        change.apply(&mut shape);
        let world = self.problem.world;
        if volumes::fault(pod, &world.storage).is_some() {
            return false;
        }
        let asked = self.asked(&shape, reach);
        order.iter().any(|pool| !self.types(*pool, &world.pools[*pool], &asked, None).is_empty())
            || !self.nodes(&asked, None).is_empty()
    }

    /// Node selection, tolerations and ports: whatever pools and nodes can say no to.
    fn pod_changes(&mut self, shape: &PodShape, order: &[usize]) -> Vec<PodChange> {
        let world = self.problem.world;
        let words = &world.vocabulary;
        let mut found = Vec::new();
        for pool in order {
            let missing = untolerated_hard(&world.pools[*pool].taints, &shape.tolerations);
            match missing.as_slice() {
                [] => {}
                [one] => found.push(PodChange::Toleration(of_taint(one))),
                _ => found.push(PodChange::Toleration(of_everything())),
            }
        }
        let bases: Vec<Requirements> =
            order.iter().map(|pool| template::base_requirements(&world.pools[*pool], words)).collect();
        let offered = |key: &str| -> Vec<Arc<str>> {
            let mut values: Vec<Arc<str>> = Vec::new();
            for base in bases.iter().filter(|base| base.has(words.normalize(key))) {
                let requirement = base.get(words.normalize(key));
                values.extend(requirement.values.into_iter().filter(|_| !requirement.open));
            }
            let mut seen = BTreeSet::new();
            values.retain(|value| seen.insert(value.clone()));
            values.truncate(VALUES);
            values
        };
        for (key, from) in &shape.node_selector {
            let entry = |to| PodChange::Selector { key: key.clone(), from: from.clone(), to };
            found.push(entry(None));
            found.extend(offered(key).into_iter().filter(|v| **v != **from).map(|v| entry(Some(v.to_string()))));
        }
        if shape.node_selector.len() > 1 {
            found.push(PodChange::NoSelector);
        }
        for (term, of) in shape.required_node_affinity.iter().enumerate() {
            for (expression, from) in of.expressions.iter().enumerate() {
                // A term that says nothing selects nothing.
                if of.expressions.len() > 1 {
                    found.push(PodChange::NoAffinityExpression { term, expression, from: from.clone() });
                }
                let excluded = if from.operator == Operator::NotIn { from.values.clone() } else { Vec::new() };
                for value in offered(&from.key).iter().chain(&excluded) {
                    if let Some(to) = with_value(from, value) {
                        let from = from.values.clone();
                        found.push(PodChange::AffinityValues { term, expression, from, to });
                    }
                }
            }
        }
        if !shape.required_node_affinity.is_empty() {
            found.push(PodChange::NoNodeAffinity);
        }
        if shape.required_node_affinity.len() > 1 {
            found.extend((0..shape.required_node_affinity.len()).map(|term| PodChange::NoAffinityTerm { term }));
        }
        for (port, from) in shape.host_ports.iter().enumerate() {
            found.push(PodChange::NoHostPort { port, from: from.clone() });
        }
        found
    }

    /// Each resource lowered to the most that the pool, its claims or an existing node have for it.
    fn request_changes(&mut self, pool: usize, pod: &Pod, reach: &[Requirements]) -> Vec<PodChange> {
        let spec = &self.problem.world.pools[pool];
        let asked = self.asked(&pod.shape, reach);
        let mut found = Vec::new();
        for (name, from) in pod.shape.requests.iter().filter(|(name, _)| *name != PODS) {
            let resource = self.problem.names.id(name);
            let most = self.most(pool, spec, &asked, resource);
            let to = rounded(name, most);
            // Everybody has something of these; what is none at all is a matter of other resources.
            let basic = name == CPU || name == MEMORY || name == EPHEMERAL_STORAGE;
            let possible = if basic { to > Quantity::ZERO } else { self.has_room_without(pool, pod, reach, name) };
            if to < from && possible {
                found.push(PodChange::Request { resource: name.to_owned(), from, to });
            }
        }
        found
    }

    fn has_room_without(&mut self, pool: usize, pod: &Pod, reach: &[Requirements], resource: &str) -> bool {
        let id = self.problem.names.id(resource);
        let asked = self.asked(&pod.shape, reach);
        let spec = &self.problem.world.pools[pool];
        !self.types(pool, spec, &asked, Some(id)).is_empty() || !self.nodes(&asked, Some(id)).is_empty()
    }

    fn pool_changes(&mut self, index: usize, pod: &Pod, reach: &[Requirements], alike: u32) -> Vec<PoolChange> {
        let world = self.problem.world;
        let (pool, words) = (&world.pools[index], &world.vocabulary);
        let asked = self.asked(&pod.shape, reach);
        let mut wanted: Vec<Requirements> =
            asked.sets.iter().map(|set| self.problem.terms.to_requirements(*set)).collect();
        wanted.extend(reach.iter().cloned());
        let values = |key: &str| -> Vec<Arc<str>> {
            let of = wanted.iter().filter(|set| set.has(key)).map(|set| set.get(key)).filter(|r| !r.open);
            let all: BTreeSet<Arc<str>> = of.flat_map(|requirement| requirement.values).collect();
            all.into_iter().take(VALUES).collect()
        };
        let mut found = Vec::new();
        for (requirement, from) in pool.requirements.iter().enumerate() {
            for value in values(words.normalize(&from.key)) {
                if let Some(to) = with_value(from, &value) {
                    found.push(PoolChange::Values { requirement, from: from.values.clone(), to });
                }
            }
            found.push(PoolChange::NoRequirement { requirement, from: from.clone() });
            if let Some(least) = from.min_values {
                let lower = |to| PoolChange::MinValues { requirement, from: least, to };
                found.extend((1..least).rev().map(|to| lower(Some(to))));
                found.push(lower(None));
            }
        }
        for (key, from) in &pool.labels {
            let label = |to| PoolChange::Label { key: key.clone(), from: from.clone(), to };
            let wanted = values(words.normalize(key));
            if !wanted.is_empty() {
                found.push(label(None));
            }
            found.extend(wanted.iter().filter(|value| ***value != **from).map(|v| label(Some(v.to_string()))));
        }
        found.extend(added_requirements(pool, &wanted, words));
        let missing = untolerated_hard(&pool.taints, &pod.shape.tolerations);
        match missing.as_slice() {
            [] => {}
            [one] => {
                let taint = pool.taints.iter().position(|taint| taint == *one).expect("it is one of the pool's");
                found.push(PoolChange::NoTaint { taint, from: (*one).clone() });
            }
            _ => found.push(PoolChange::NoTaints),
        }
        found.extend(self.limit_changes(index, pool, pod, reach, alike));
        found
    }

    /// Each limit raised by the smallest node that would do, by one for each pod like this, or removed.
    fn limit_changes(
        &mut self,
        index: usize,
        pool: &Pool,
        pod: &Pod,
        reach: &[Requirements],
        alike: u32,
    ) -> Vec<PoolChange> {
        let mut found = Vec::new();
        let asked = self.asked(&pod.shape, reach);
        for (name, from) in pool.limits.iter() {
            let mut unlimited = pool.clone();
            unlimited.limits.0.remove(name);
            let types = self.types(index, &unlimited, &asked, None);
            let capacity = |kind: usize| match name {
                NODES => Quantity::from_units(1),
                _ => pool.instance_types[kind].capacity.counted(name),
            };
            let Some(least) = types.iter().map(capacity).min() else { continue };
            let used = self.used(index, name);
            let limit = |to| PoolChange::Limit { resource: name.to_owned(), from, to };
            for count in BTreeSet::from([1, alike]) {
                let more = Quantity::from_nanos(least.nanos() * i128::from(count), from.format());
                found.push(limit(Some(Quantity::from_nanos((used + more).nanos(), from.format()))));
            }
            found.push(limit(None));
        }
        if pool.limits.0.len() > 1 {
            found.push(PoolChange::NoLimits);
        }
        found
    }
}

/// A requirement for each custom key that is asked for and that the pool does not define.
fn added_requirements(
    pool: &Pool,
    wanted: &[Requirements],
    words: &karpenter_core::labels::Vocabulary,
) -> Vec<PoolChange> {
    let base = template::base_requirements(pool, words);
    let mut found = Vec::new();
    for (key, requirement) in wanted.iter().flat_map(|set| set.iter()) {
        if base.has(key) || words.is_well_known(key) || words.is_restricted(key) || requirement.tolerates_absence() {
            continue;
        }
        if let Some(value) = requirement.pick() {
            found.push(PoolChange::Requirement(Expression::new(key, Operator::In, &[&*value])));
        }
    }
    found
}

/// What a pod's claims without a volume could be spared by their class.
fn class_changes(pod: &Pod, storage: &Storage) -> Vec<Change> {
    let mut found = Vec::new();
    for claim in pod.claims.iter().filter_map(|name| storage.claims.get(&(pod.namespace.clone(), name.clone()))) {
        let Some(name) = claim.class.as_ref().filter(|_| claim.volume.is_none()) else { continue };
        let Some(class) = storage.classes.get(name) else { continue };
        if class.binding == BindingMode::Immediate {
            found.push(Change::StorageClass(name.clone(), ClassChange::WaitForFirstConsumer));
        }
        if !class.allowed_topologies.is_empty() {
            found.push(Change::StorageClass(name.clone(), ClassChange::NoAllowedTopologies));
        }
    }
    found
}

/// Soft taints are given in to before a pod is left over.
fn untolerated_hard<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Vec<&'t Taint> {
    let hard = taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    hard.filter(|taint| untolerated(std::slice::from_ref(*taint), tolerations).is_some()).collect()
}

fn of_taint(taint: &Taint) -> Toleration {
    let (key, value, effect) = (taint.key.clone(), taint.value.clone(), Some(taint.effect));
    let operator = if value.is_empty() { TolerationOperator::Exists } else { TolerationOperator::Equal };
    Toleration { key, operator, value, effect }
}

fn of_everything() -> Toleration {
    Toleration { key: String::new(), operator: TolerationOperator::Exists, value: String::new(), effect: None }
}

/// Rounded down to what people write: thousandths of CPUs, whole Mi of memory and disk, whole things of everything else.
fn rounded(resource: &str, nanos: i128) -> Quantity {
    const UNIT: i128 = 1_000_000_000;
    let bytes = resource == MEMORY || resource == EPHEMERAL_STORAGE || resource.starts_with(HUGEPAGES_PREFIX);
    let (step, format) = match resource {
        CPU => (UNIT / 1000, Format::DecimalSi),
        _ if bytes && nanos >= UNIT << 20 => (UNIT << 20, Format::BinarySi),
        _ if bytes => (UNIT, Format::BinarySi),
        _ => (UNIT, Format::DecimalSi),
    };
    Quantity::from_nanos(nanos.max(0) / step * step, format)
}
