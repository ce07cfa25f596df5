//! Topology groups: spread, affinity and anti-affinity constraints that several pods share.
//!
//! Pods that carry a constraint *own* its group; pods its selector matches *count* in it. Groups of every relaxation of
//! every pod exist from the start, so that each sees all placements of the pass.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::labels::{HOSTNAME, Labels};
use karpenter_core::pod::{NodePolicy, PodTerm, Spread};
use karpenter_core::selector::{Selector, SelectorExpression, SelectorOperator};
use karpenter_core::{PodShape, Toleration, World};
use rustc_hash::FxHashMap;

use crate::terms::SetId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupId(pub(crate) u32);

/// Pods with equal namespace and labels look alike to every selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LookId(pub(crate) u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Spread,
    Affinity,
    AntiAffinity,
    /// Counts the pods that own a required anti-affinity; keeps out those its selector matches.
    Inverse,
}

/// The identity of a group. Everything that makes two constraints decide differently is part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    /// As users wrote it, aliases resolved.
    pub(crate) key: Arc<str>,
    pub(crate) namespaces: Arc<BTreeSet<Arc<str>>>,
    pub(crate) selector: Option<Selector>,
    pub(crate) max_skew: i64,
    pub(crate) min_domains: Option<i64>,
    pub(crate) filter: Option<Filter>,
}

/// Which nodes a spread counts: those the owner could use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Filter {
    /// Alternatives; empty when node affinity is ignored.
    pub(crate) affinity: Vec<SetId>,
    /// Present when taints are honoured.
    pub(crate) tolerations: Option<Vec<Toleration>>,
}

#[derive(Clone, Default)]
pub(crate) struct Groups {
    pub(crate) all: Vec<Group>,
    ids: FxHashMap<Group, GroupId>,
}

impl Groups {
    pub(crate) fn intern(&mut self, group: Group) -> GroupId {
        if let Some(id) = self.ids.get(&group) {
            return *id;
        }
        let id = GroupId(self.all.len() as u32);
        self.all.push(group.clone());
        self.ids.insert(group, id);
        id
    }

    pub(crate) fn get(&self, id: GroupId) -> &Group {
        &self.all[id.0 as usize]
    }
}

impl Group {
    pub(crate) fn is_hostname(&self) -> bool {
        &*self.key == HOSTNAME
    }
}

/// Resolves the namespaces of affinity terms, each list once.
pub(crate) struct Namespaces<'w> {
    labels: Vec<(Arc<str>, &'w Labels)>,
    own: FxHashMap<Arc<str>, Arc<BTreeSet<Arc<str>>>>,
}

impl<'w> Namespaces<'w> {
    pub(crate) fn new(world: &'w World) -> Self {
        static NONE: Labels = Labels::new();
        let mut names: BTreeSet<Arc<str>> = world.namespaces.keys().cloned().collect();
        names.extend(world.pods.iter().map(|pod| pod.namespace.clone()));
        let labels = names.into_iter().map(|name| {
            let labels = world.namespaces.get(&name).unwrap_or(&NONE);
            (name, labels)
        });
        Self { labels: labels.collect(), own: FxHashMap::default() }
    }

    pub(crate) fn only(&mut self, namespace: &Arc<str>) -> Arc<BTreeSet<Arc<str>>> {
        let set = self.own.entry(namespace.clone());
        set.or_insert_with(|| Arc::new([namespace.clone()].into())).clone()
    }

    /// No list and no selector: the pod's own. A list: exactly that. A selector: what it matches, and the list.
    pub(crate) fn of(&mut self, term: &PodTerm, pod_namespace: &Arc<str>) -> Arc<BTreeSet<Arc<str>>> {
        let mut names: BTreeSet<Arc<str>> = term.namespaces.iter().cloned().collect();
        match &term.namespace_selector {
            None if names.is_empty() => return self.only(pod_namespace),
            None => {}
            Some(selector) => {
                let matching = self.labels.iter().filter(|(_, labels)| selector.matches(labels));
                names.extend(matching.map(|(name, _)| name.clone()));
            }
        }
        Arc::new(names)
    }
}

/// The selector of a spread constraint with the pod's own values of `matchLabelKeys`. A key that is there already
/// changes nothing.
pub(crate) fn spread_selector(spread: &Spread, labels: &Labels) -> Option<Selector> {
    let own = spread.match_label_keys.iter().filter_map(|key| Some(SelectorExpression::equals(key, labels.get(key)?)));
    let own: Vec<_> = own.collect();
    match (&spread.selector, own.is_empty()) {
        (None, true) => None,
        (None, false) => Some(Selector::new(own)),
        (Some(selector), _) => Some(selector.and(own)),
    }
}

pub(crate) fn spread_group(
    spread: &Spread,
    shape: &PodShape,
    namespaces: Arc<BTreeSet<Arc<str>>>,
    affinity: &[SetId],
    key: Arc<str>,
) -> Group {
    let honor = |policy: NodePolicy| policy == NodePolicy::Honor;
    Group {
        kind: Kind::Spread,
        key,
        namespaces,
        selector: spread_selector(spread, &shape.labels),
        max_skew: i64::from(spread.max_skew),
        min_domains: spread.min_domains.map(i64::from),
        filter: Some(Filter {
            affinity: if honor(spread.node_affinity) { affinity.to_vec() } else { Vec::new() },
            tolerations: honor(spread.node_taints).then(|| shape.tolerations.clone()),
        }),
    }
}

pub(crate) fn pod_group(kind: Kind, term: &PodTerm, namespaces: Arc<BTreeSet<Arc<str>>>, key: Arc<str>) -> Group {
    let (selector, filter) = (term.selector.clone(), None);
    Group { kind, key, namespaces, selector, max_skew: i64::MAX, min_domains: None, filter }
}

/// Finds the looks a group's selector matches without trying each of them.
#[derive(Default)]
pub(crate) struct Looks {
    all: Vec<(Arc<str>, Arc<PodShape>)>,
    ids: FxHashMap<(Arc<str>, Arc<Labels>), LookId>,
    by_label: FxHashMap<(String, String), Vec<LookId>>,
    by_shape: FxHashMap<(Arc<str>, *const PodShape), LookId>,
}

impl Looks {
    pub(crate) fn intern(&mut self, namespace: &Arc<str>, shape: &Arc<PodShape>) -> LookId {
        let pointer = (namespace.clone(), Arc::as_ptr(shape));
        if let Some(id) = self.by_shape.get(&pointer) {
            return *id;
        }
        let next = LookId(self.all.len() as u32);
        let id = *self.ids.entry((namespace.clone(), Arc::new(shape.labels.clone()))).or_insert(next);
        if id == next {
            self.all.push((namespace.clone(), shape.clone()));
            for (key, value) in &shape.labels {
                self.by_label.entry((key.clone(), value.clone())).or_default().push(id);
            }
        }
        self.by_shape.insert(pointer, id);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// In ascending order.
    pub(crate) fn selected(&self, group: &Group) -> Vec<LookId> {
        let Some(selector) = &group.selector else {
            return Vec::new();
        };
        let matches = |id: &LookId| {
            let (namespace, shape) = &self.all[id.0 as usize];
            group.namespaces.contains(namespace) && selector.matches(&shape.labels)
        };
        let equality =
            selector.expressions().iter().find(|e| e.operator == SelectorOperator::In && e.values.len() == 1);
        match equality {
            Some(e) => {
                let candidates = self.by_label.get(&(e.key.clone(), e.values[0].clone()));
                candidates.into_iter().flatten().filter(|id| matches(id)).copied().collect()
            }
            None => (0..self.all.len() as u32).map(LookId).filter(|id| matches(id)).collect(),
        }
    }
}
