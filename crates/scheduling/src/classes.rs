//! Pods with the same scheduling-relevant spec, and every form they take as preferences are given up.

use std::sync::Arc;

use karpenter_core::pod::Pod;
use karpenter_core::ports::HostPort;
use karpenter_core::{PodShape, Requirement, Requirements, Toleration, World};
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::columns::{Amount, Amounts, ResId, ResourceNames};
use crate::daemons::alternatives;
use crate::groups::{GroupId, Groups, Kind, LookId, Looks, Namespaces, pod_group, spread_group};
use crate::relax::{relax, unrelaxed};
use crate::spread_defaults::Defaults;
use crate::terms::{KeyId, SetId, Terms};
use crate::volumes;

#[derive(Clone)]
pub(crate) struct Class {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) look: LookId,
    pub(crate) requests: Amounts,
    /// The same for classes with equal requests.
    pub(crate) size: usize,
    pub(crate) ports: Vec<HostPort>,
    /// Alternatives of where its volumes can be reached; empty: they do not care.
    pub(crate) volumes: Vec<SetId>,
    /// The pods have claims that count against attach limits.
    pub(crate) has_claims: bool,
    pub(crate) wants_devices: bool,
    /// As it is, then with one constraint after the other given up.
    pub(crate) variants: Vec<Variant>,
    /// Groups that count a placement of this class.
    pub(crate) counted_in: Vec<GroupId>,
    /// Groups of others' anti-affinity that keep it out.
    pub(crate) kept_out_by: Vec<GroupId>,
    /// Groups in which its own required anti-affinity counts.
    pub(crate) keeps_out: Vec<GroupId>,
}

/// What a pod that asks for nothing is counted with where nodes are chosen by price: it takes something all the same, and
/// a node full of such pods is no bargain if they cannot run there.
const LEAST: [(ResId, Amount); 2] = [(ResId::CPU, 25_000_000), (ResId::MEMORY, (64 << 20) * 1_000_000_000)];

impl Class {
    /// What its pods count with in a choice by price.
    pub(crate) fn counted(&self) -> Amounts {
        let mut counted = self.requests.clone();
        if LEAST.iter().all(|(resource, _)| counted.get(*resource) == 0) {
            counted.add(&Amounts(LEAST.as_slice().into()));
        }
        counted
    }
}

#[derive(Clone)]
pub(crate) struct Variant {
    /// Selector, active alternative and heaviest preference.
    pub(crate) set: SetId,
    /// Without preferences: the pod's own domains for topology.
    pub(crate) strict: SetId,
    /// A key on which its own constraints exclude each other.
    pub(crate) contradiction: Option<KeyId>,
    pub(crate) tolerations: Vec<Toleration>,
    /// Constraints it owns.
    pub(crate) owned: Vec<GroupId>,
    /// Templates whose taints it tolerates.
    pub(crate) templates: Bits,
}

/// Pods that stay where they are, as topology sees them: how they look, on which node, and what they keep out.
pub(crate) struct Bound {
    pub(crate) looks: Looks,
    /// Node name and look of each.
    pub(crate) pods: Vec<(Arc<str>, LookId)>,
    /// Node name and group of each required anti-affinity term of a pod that stays.
    pub(crate) keeping_out: Vec<(Arc<str>, GroupId)>,
}

type ClassKey = (Arc<str>, *const PodShape, Vec<SetId>, bool, u64);

/// What makes two pods one class: namespace, shape, volumes, and whether there are any.
type ClassContent = (Arc<str>, Arc<PodShape>, Vec<SetId>, bool);

pub(crate) struct Classes<'w> {
    world: &'w World,
    namespaces: Namespaces<'w>,
    defaults: Defaults<'w>,
    soft_taints: bool,
    classes: Vec<Class>,
    looks: Looks,
    by_key: FxHashMap<ClassKey, usize>,
    by_content: FxHashMap<ClassContent, usize>,
    sizes: FxHashMap<Amounts, usize>,
}

impl<'w> Classes<'w> {
    pub(crate) fn new(world: &'w World, soft_taints: bool) -> Self {
        Self {
            world,
            namespaces: Namespaces::new(world),
            defaults: Defaults::new(world),
            soft_taints,
            classes: Vec::new(),
            looks: Looks::default(),
            by_key: FxHashMap::default(),
            by_content: FxHashMap::default(),
            sizes: FxHashMap::default(),
        }
    }

    /// The class of a pending pod, compiled when its first member is seen.
    pub(crate) fn class_of(
        &mut self,
        index: usize,
        terms: &mut Terms,
        names: &mut ResourceNames,
        groups: &mut Groups,
    ) -> usize {
        let pod = &self.world.pods[index];
        let volumes: Vec<SetId> = if pod.claims.is_empty() {
            Vec::new()
        } else {
            let found = volumes::alternatives(pod, &self.world.storage, &self.world.vocabulary);
            found.iter().map(|set| terms.set(set)).collect()
        };
        let has_claims = !pod.claims.is_empty();
        let owner = if self.defaults.is_empty() { 0 } else { self.defaults.owner_tag(pod) };
        let key = (pod.namespace.clone(), Arc::as_ptr(&pod.shape), volumes.clone(), has_claims, owner);
        if let Some(class) = self.by_key.get(&key) {
            return *class;
        }
        let shape = self.defaults.apply(pod);
        let content = (pod.namespace.clone(), shape.clone(), volumes.clone(), has_claims);
        let class = match self.by_content.get(&content) {
            Some(class) => *class,
            None => {
                let look = self.looks.intern(&pod.namespace, &shape);
                let class = self.compile(pod, shape, look, volumes, terms, names, groups);
                self.classes.push(class);
                self.by_content.insert(content, self.classes.len() - 1);
                self.classes.len() - 1
            }
        };
        self.by_key.insert(key, class);
        class
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of the problem under construction")]
    fn compile(
        &mut self,
        pod: &Pod,
        shape: Arc<PodShape>,
        look: LookId,
        volumes: Vec<SetId>,
        terms: &mut Terms,
        names: &mut ResourceNames,
        groups: &mut Groups,
    ) -> Class {
        let mut relaxed = unrelaxed(&shape, self.world.settings.preferences);
        let mut variants = vec![self.variant(&relaxed, &shape, &pod.namespace, terms, groups)];
        while relax(&mut relaxed, self.soft_taints) {
            variants.push(self.variant(&relaxed, &shape, &pod.namespace, terms, groups));
        }
        let keeps_out = self.keeps_out(&shape, &pod.namespace, groups);
        let (requests, next) = (names.amounts(&shape.requests), self.sizes.len());
        let size = *self.sizes.entry(requests.clone()).or_insert(next);
        Class {
            look,
            requests,
            size,
            ports: shape.host_ports.clone(),
            volumes,
            has_claims: !pod.claims.is_empty(),
            wants_devices: shape.wants_devices,
            variants,
            counted_in: Vec::new(),
            kept_out_by: Vec::new(),
            keeps_out,
            shape,
        }
    }

    fn keeps_out(&mut self, shape: &PodShape, namespace: &Arc<str>, groups: &mut Groups) -> Vec<GroupId> {
        let mut kept: Vec<GroupId> = Vec::new();
        for term in &shape.required_pod_anti_affinity {
            let (names, key) = (self.namespaces.of(term, namespace), self.topology_key(&term.topology_key));
            kept.push(groups.intern(pod_group(Kind::Inverse, term, names, key)));
        }
        kept.sort_unstable();
        kept.dedup();
        kept
    }

    fn topology_key(&self, key: &Arc<str>) -> Arc<str> {
        match self.world.vocabulary.normalize(key) {
            same if same == &**key => key.clone(),
            other => Arc::from(other),
        }
    }

    /// `original` is the pod as kube-scheduler sees it: which nodes a spread counts does not change with what was given up.
    fn variant(
        &mut self,
        shape: &PodShape,
        original: &PodShape,
        namespace: &Arc<str>,
        terms: &mut Terms,
        groups: &mut Groups,
    ) -> Variant {
        let words = &self.world.vocabulary;
        let mut all: Vec<(Arc<str>, Requirement)> = Vec::new();
        let mut note = |set: Requirements| all.extend(set.0);
        note(Requirements::from_labels(&shape.node_selector, words));
        if let Some(term) = shape.required_node_affinity.first() {
            for expression in &term.expressions {
                note(Requirements::from_expressions([expression], words));
            }
        }
        let (strict, contradiction) = combined(&all);
        let mut preferred = strict.clone();
        if let Some(heaviest) = shape.preferred_node_affinity.first() {
            preferred.add_all(&Requirements::from_expressions(&heaviest.term.expressions, words));
            let both = heaviest.term.expressions.iter().flat_map(|e| Requirements::from_expressions([e], words).0);
            let clash = combined(&all.iter().cloned().chain(both).collect::<Vec<_>>()).1;
            if contradiction.is_none() && clash.is_some() {
                // An impossible preference must fail this variant, and only this one.
                return self.finish_variant((shape, original), namespace, (&preferred, &strict, clash), terms, groups);
            }
        }
        self.finish_variant((shape, original), namespace, (&preferred, &strict, contradiction), terms, groups)
    }

    fn finish_variant(
        &mut self,
        (shape, original): (&PodShape, &PodShape),
        namespace: &Arc<str>,
        (set, strict, contradiction): (&Requirements, &Requirements, Option<Arc<str>>),
        terms: &mut Terms,
        groups: &mut Groups,
    ) -> Variant {
        let mut owned: Vec<GroupId> = Vec::new();
        let affinity = alternatives(original, &original.required_node_affinity, terms);
        for spread in &shape.spread {
            let names = self.namespaces.only(namespace);
            let key = self.topology_key(&spread.topology_key);
            owned.push(groups.intern(spread_group(spread, shape, names, &affinity, key)));
        }
        let near = shape.required_pod_affinity.iter();
        let near = near.chain(shape.preferred_pod_affinity.iter().map(|weighted| &weighted.term));
        let far = shape.required_pod_anti_affinity.iter();
        let far = far.chain(shape.preferred_pod_anti_affinity.iter().map(|weighted| &weighted.term));
        let of = |kind| move |term| (kind, term);
        for (kind, term) in near.map(of(Kind::Affinity)).chain(far.map(of(Kind::AntiAffinity))) {
            let (names, key) = (self.namespaces.of(term, namespace), self.topology_key(&term.topology_key));
            owned.push(groups.intern(pod_group(kind, term, names, key)));
        }
        owned.sort_unstable();
        owned.dedup();
        Variant {
            set: terms.set(set),
            strict: terms.set(strict),
            contradiction: contradiction.map(|key| terms.key(&key)),
            tolerations: shape.tolerations.clone(),
            owned,
            templates: Bits::new(),
        }
    }

    /// Adds the pods that stay where they are, and tells each class which groups see it.
    pub(crate) fn finish(mut self, pending: &[usize], groups: &mut Groups) -> (Vec<Class>, Bound) {
        let mut is_pending = vec![false; self.world.pods.len()];
        pending.iter().for_each(|index| is_pending[*index] = true);
        let (mut pods, mut keeping_out) = (Vec::new(), Vec::new());
        for (index, pod) in self.world.pods.iter().enumerate() {
            let Some(node) = pod.node.as_ref().filter(|_| !is_pending[index]) else {
                continue;
            };
            for group in self.keeps_out(&pod.shape, &pod.namespace, groups) {
                if !pod.is_terminal() {
                    keeping_out.push((node.clone(), group));
                }
            }
            if pod.is_active() {
                pods.push((node.clone(), self.looks.intern(&pod.namespace, &pod.shape)));
            }
        }
        let mut counted: Vec<Vec<GroupId>> = vec![Vec::new(); self.looks.len()];
        let mut kept_out: Vec<Vec<GroupId>> = vec![Vec::new(); self.looks.len()];
        for (index, group) in groups.all.iter().enumerate() {
            let lists = if group.kind == Kind::Inverse { &mut kept_out } else { &mut counted };
            for look in self.looks.selected(group) {
                lists[look.0 as usize].push(GroupId(index as u32));
            }
        }
        for class in &mut self.classes {
            class.counted_in = counted[class.look.0 as usize].clone();
            class.kept_out_by = kept_out[class.look.0 as usize].clone();
        }
        (self.classes, Bound { looks: self.looks, pods, keeping_out })
    }
}

/// All of them together, and the first key on which they exclude each other although one wants the label to be there.
pub(crate) fn combined(all: &[(Arc<str>, Requirement)]) -> (Requirements, Option<Arc<str>>) {
    let (mut set, mut contradiction) = (Requirements::new(), None);
    for (key, requirement) in all {
        if contradiction.is_none() && set.has(key) && set.get(key).contradicts(requirement) {
            contradiction = Some(key.clone());
        }
        set.add(key, requirement.clone());
    }
    (set, contradiction)
}
