//! The domains of each topology key, which of them each group knows, and how many pods each holds at the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::labels::HOSTNAME;
use karpenter_core::taints::untolerated;
use karpenter_core::{Node, Requirement, Requirements, World};
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::catalog::Catalog;
use crate::classes::Bound;
use crate::existing::ExistingNode;
use crate::groups::{Filter, GroupId, Groups, Kind};
use crate::template::base_requirements;
use crate::terms::{KeyId, ReqId, SetId, Terms};

/// Dense tables: a domain is a position in its key's names, which are sorted, so that the first of equals is the one
/// whose name comes first.
#[derive(Clone)]
pub(crate) struct Domains {
    pub(crate) keys: Arc<[KeyDomains]>,
    by_key: FxHashMap<KeyId, usize>,
    /// By group.
    pub(crate) groups: Arc<[GroupDomains]>,
    allowed: FxHashMap<(usize, Option<ReqId>), Arc<Bits>>,
}

#[derive(Clone)]
pub(crate) struct KeyDomains {
    pub(crate) key: KeyId,
    pub(crate) names: Vec<Arc<str>>,
    /// Existing nodes in each domain.
    pub(crate) nodes: Vec<Bits>,
}

#[derive(Clone)]
pub(crate) struct GroupDomains {
    /// In `Domains::keys`; nothing for the hostname, whose domains are the targets themselves.
    pub(crate) table: Option<usize>,
    pub(crate) known: Bits,
    /// By domain; empty for the hostname.
    pub(crate) counts: Vec<u32>,
    /// For the hostname: existing nodes with matching pods, in ascending order.
    pub(crate) hosts: Vec<(u32, u32)>,
    /// Hosts that hold matching pods and are no targets.
    pub(crate) elsewhere: u32,
}

/// A value of a key some pool can create, and under which pools' taints.
type Creatable = FxHashMap<KeyId, FxHashMap<Arc<str>, Vec<usize>>>;

impl Domains {
    pub(crate) fn new(
        world: &World,
        groups: &Groups,
        nodes: &[ExistingNode],
        bound: &Bound,
        catalogs: &mut [Catalog],
        terms: &mut Terms,
    ) -> Self {
        let keys: BTreeSet<&str> = groups.all.iter().map(|group| &*group.key).filter(|key| *key != HOSTNAME).collect();
        let creatable = creatable(world, &keys, catalogs, terms);
        let (mut of_keys, mut by_key): (Vec<KeyDomains>, FxHashMap<KeyId, usize>) = Default::default();
        for name in keys {
            let key = terms.key(name);
            let mut names: BTreeSet<Arc<str>> =
                creatable.get(&key).into_iter().flatten().map(|(d, _)| d.clone()).collect();
            names.extend(
                world.nodes.iter().filter_map(|n| n.labels.get(name)).map(|value| Arc::<str>::from(value.as_str())),
            );
            let names: Vec<Arc<str>> = names.into_iter().collect();
            let mut of = vec![Bits::zeros(nodes.len()); names.len()];
            for (index, node) in nodes.iter().enumerate() {
                if let Some(at) = world.nodes[node.index].labels.get(name).and_then(|v| position(&names, v)) {
                    of[at].insert(index);
                }
            }
            by_key.insert(key, of_keys.len());
            of_keys.push(KeyDomains { key, names, nodes: of });
        }
        let mut places = Places::new(world, nodes, bound, terms);
        let mut of_groups = Vec::with_capacity(groups.all.len());
        for (index, group) in groups.all.iter().enumerate() {
            let table = (!group.is_hostname()).then(|| by_key[&terms.key(&group.key)]);
            let known = match table {
                None => Bits::new(),
                Some(table) => known(&of_keys[table], group.filter.as_ref(), &creatable, world, &mut places, terms),
            };
            let counts = vec![0; table.map_or(0, |table| of_keys[table].names.len())];
            let mut of_group = GroupDomains { table, known, counts, hosts: Vec::new(), elsewhere: 0 };
            places.count(GroupId(index as u32), group, &mut of_group, &of_keys, terms);
            of_groups.push(of_group);
        }
        Self { keys: of_keys.into(), by_key, groups: of_groups.into(), allowed: FxHashMap::default() }
    }

    pub(crate) fn table(&self, key: KeyId) -> Option<usize> {
        self.by_key.get(&key).copied()
    }

    /// The domains of a key that a requirement on it allows; all of them where there is none.
    pub(crate) fn allowed(&mut self, table: usize, req: Option<ReqId>, terms: &Terms) -> Arc<Bits> {
        if let Some(bits) = self.allowed.get(&(table, req)) {
            return bits.clone();
        }
        let names = &self.keys[table].names;
        let allows = |name: &Arc<str>| req.is_none_or(|req| terms.requirement(req).allows(name));
        let bits: Bits = names.iter().enumerate().filter(|(_, name)| allows(name)).map(|(at, _)| at).collect();
        let bits = Arc::new(bits);
        self.allowed.insert((table, req), bits.clone());
        bits
    }
}

pub(crate) fn position(names: &[Arc<str>], name: &str) -> Option<usize> {
    names.binary_search_by(|probe| (**probe).cmp(name)).ok()
}

/// From every pool and each type it can buy: what both allow, where that is a list; and a pool's own lists, type or no type.
fn creatable(world: &World, keys: &BTreeSet<&str>, catalogs: &mut [Catalog], terms: &mut Terms) -> Creatable {
    let mut found = Creatable::default();
    for (index, pool) in world.pools.iter().enumerate() {
        let mut own = Requirements::from_expressions(&pool.requirements, &world.vocabulary);
        own.add_all(&Requirements::from_labels(&pool.labels, &world.vocabulary));
        let base = terms.set(&base_requirements(pool, &world.vocabulary));
        let catalog = catalogs.iter_mut().find(|catalog| Arc::ptr_eq(&catalog.types, &pool.instance_types));
        let catalog = catalog.expect("every pool's types were compiled");
        let usable = catalog.usable(base, terms);
        for name in keys {
            let key = terms.key(name);
            let mut values: BTreeSet<Arc<str>> = BTreeSet::new();
            let mut note = |requirement: &Requirement| {
                if !requirement.open {
                    values.extend(requirement.values.iter().cloned());
                }
            };
            if own.has(name) {
                note(&own.get(name));
            }
            for (req, _) in catalog.groups(key).iter().filter(|(_, of)| of.intersects(&usable.types)) {
                note(&own.get(name).intersect(terms.requirement(*req)));
            }
            let of_key = found.entry(key).or_default();
            for value in values {
                of_key.entry(value).or_default().push(index);
            }
        }
    }
    found
}

fn known(
    table: &KeyDomains,
    filter: Option<&Filter>,
    creatable: &Creatable,
    world: &World,
    places: &mut Places<'_>,
    terms: &mut Terms,
) -> Bits {
    let mut known = Bits::zeros(table.names.len());
    let tolerations = filter.and_then(|filter| filter.tolerations.as_ref());
    for (name, pools) in creatable.get(&table.key).into_iter().flatten() {
        let reachable = |pool: &usize| {
            tolerations.is_none_or(|tolerations| untolerated(&world.pools[*pool].taints, tolerations).is_none())
        };
        if pools.iter().any(reachable) {
            known.insert(position(&table.names, name).expect("the table holds every creatable value"));
        }
    }
    for (at, of) in table.nodes.iter().enumerate() {
        if !known.contains(at) && of.iter().any(|node| places.has_node(node) && places.passes(node, filter, terms)) {
            known.insert(at);
        }
    }
    known
}

/// Where pods that stay are, and which nodes a filter passes.
struct Places<'a> {
    world: &'a World,
    nodes: &'a [ExistingNode],
    bound: &'a Bound,
    /// By look: the nodes its pods are on, in `World::nodes`, with how many.
    by_look: Vec<FxHashMap<usize, u32>>,
    by_name: FxHashMap<&'a str, usize>,
    /// Position as a target, by position in the world.
    target: Vec<Option<usize>>,
    sets: Vec<SetId>,
    passed: FxHashMap<(usize, Filter), bool>,
}

impl<'a> Places<'a> {
    fn new(world: &'a World, nodes: &'a [ExistingNode], bound: &'a Bound, terms: &mut Terms) -> Self {
        // Also nodes that are still on their way: pods that were planned for them count where they will be.
        let by_name: FxHashMap<&str, usize> =
            world.nodes.iter().enumerate().map(|(index, node)| (&*node.name, index)).collect();
        let mut by_look = vec![FxHashMap::default(); bound.looks.len()];
        for (node, look) in &bound.pods {
            if let Some(node) = by_name.get(&**node) {
                *by_look[look.0 as usize].entry(*node).or_insert(0) += 1;
            }
        }
        let mut target = vec![None; world.nodes.len()];
        nodes.iter().enumerate().for_each(|(at, node)| target[node.index] = Some(at));
        let set = |(node, target): (&Node, &Option<usize>)| match target {
            Some(at) => nodes[*at].set,
            None => terms.of_node(node),
        };
        let sets = world.nodes.iter().zip(&target).map(set).collect();
        Self { world, nodes, bound, by_look, by_name, target, sets, passed: FxHashMap::default() }
    }

    fn has_node(&self, target: usize) -> bool {
        self.world.nodes[self.nodes[target].index].has_node
    }

    fn passes(&mut self, target: usize, filter: Option<&Filter>, terms: &mut Terms) -> bool {
        self.passes_at(self.nodes[target].index, filter, terms)
    }

    fn passes_at(&mut self, index: usize, filter: Option<&Filter>, terms: &mut Terms) -> bool {
        let Some(filter) = filter else { return true };
        if filter.tolerations.is_none() && filter.affinity.iter().all(|set| *set == SetId::EMPTY) {
            return true;
        }
        let key = (index, filter.clone());
        if let Some(known) = self.passed.get(&key) {
            return *known;
        }
        let taints = &self.world.nodes[index].taints;
        let tolerated = filter.tolerations.as_ref().is_none_or(|mine| untolerated(taints, mine).is_none());
        let selected = filter.affinity.is_empty()
            || filter.affinity.iter().any(|set| terms.compatible(self.sets[index], *set, false));
        self.passed.insert(key, tolerated && selected);
        tolerated && selected
    }

    /// Pods of this pass are not counted where they were.
    fn count(
        &mut self,
        id: GroupId,
        group: &crate::groups::Group,
        into: &mut GroupDomains,
        keys: &[KeyDomains],
        terms: &mut Terms,
    ) {
        let mut found: Vec<(usize, u32)> = Vec::new();
        if group.kind == Kind::Inverse {
            let of_group = self.bound.keeping_out.iter().filter(|(_, owner)| *owner == id);
            found.extend(of_group.filter_map(|(node, _)| Some((*self.by_name.get(&**node)?, 1))));
        } else {
            for look in self.bound.looks.selected(group) {
                found.extend(self.by_look[look.0 as usize].iter().map(|(node, count)| (*node, *count)));
            }
        }
        let mut hosts: BTreeMap<u32, u32> = BTreeMap::new();
        for (node, count) in found {
            if !self.passes_at(node, group.filter.as_ref(), terms) {
                continue;
            }
            match into.table {
                None => match self.target[node] {
                    Some(target) => *hosts.entry(target as u32).or_insert(0) += count,
                    None => into.elsewhere += 1,
                },
                Some(table) => {
                    let Some(value) = self.world.nodes[node].labels.get(&*group.key) else {
                        continue;
                    };
                    let at = position(&keys[table].names, value).expect("the table holds every node's value");
                    into.known.insert(at);
                    into.counts[at] += count;
                }
            }
        }
        into.hosts = hosts.into_iter().collect();
    }
}
