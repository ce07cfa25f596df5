//! NodePools as the solver sees them: what a fresh claim of each would be.

use karpenter_core::labels::{INITIALIZED, Labels, NODEPOOL, REGISTERED, Vocabulary};
use karpenter_core::ports::HostPort;
use karpenter_core::resources::NODES;
use karpenter_core::settings::MinValuesPolicy;
use karpenter_core::{Pool, Requirement, Requirements, Taint, World};

use crate::bits::Bits;
use crate::catalog::Catalog;
use crate::columns::{Amount, Amounts, FitIndex, ResId, ResourceNames};
use crate::daemons::Daemon;
use crate::terms::{KeyId, SetId, Terms};

#[derive(Clone)]
pub(crate) struct Template {
    /// In `World::pools`.
    pub(crate) pool: usize,
    pub(crate) catalog: usize,
    pub(crate) weight: i32,
    /// Requirements and labels of a fresh claim, before its hostname.
    pub(crate) base: SetId,
    pub(crate) taints: Vec<Taint>,
    /// Types a fresh claim may become.
    pub(crate) types: Bits,
    /// By type: which daemons run on it.
    pub(crate) daemons: Vec<Bits>,
    /// By type: allocatable less daemons.
    pub(crate) room: Vec<Amounts>,
    pub(crate) fit: FitIndex,
    /// Limited resources and what is left of each when the pass starts; `nodes` apart.
    pub(crate) limits: Vec<(ResId, Amount)>,
    /// By limit and type: what a type would take of it.
    pub(crate) capacity: Vec<Vec<Amount>>,
    pub(crate) node_limit: Option<i64>,
    /// By limit: the most any of its types would take.
    pub(crate) largest: Vec<Amount>,
}

/// Why a pool has no template.
#[derive(Clone)]
pub(crate) enum Dropped {
    NoTypes,
    MinValues(Vec<KeyId>),
}

/// Weight descending, then name descending.
pub(crate) fn order(world: &World) -> Vec<usize> {
    let mut order: Vec<usize> = (0..world.pools.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&world.pools[*a], &world.pools[*b]);
        (b.weight, &b.name).cmp(&(a.weight, &a.name))
    });
    order
}

/// What a claim of the pool says before any pod. The two start-up labels are assumed, as daemons may select them.
pub(crate) fn base_requirements(pool: &Pool, words: &Vocabulary) -> Requirements {
    let mut set = Requirements::from_expressions(&pool.requirements, words);
    set.add_all(&Requirements::from_labels(&pool.labels, words));
    set.add(NODEPOOL, Requirement::one(&pool.name));
    set.add(&pool.node_class_label.0, Requirement::one(&pool.node_class_label.1));
    set.add(REGISTERED, Requirement::one("true"));
    set.add(INITIALIZED, Requirement::one("true"));
    set
}

/// The labels of a claim with these requirements: the pool's own, and a value for each key that is nobody's but the
/// user's. What is well known is for the provider to fill in.
pub(crate) fn labels(pool: &Pool, requirements: &Requirements, words: &Vocabulary) -> Labels {
    let mut labels: Labels = pool.labels.clone();
    labels.insert(NODEPOOL.to_owned(), pool.name.to_string());
    labels.insert(pool.node_class_label.0.to_string(), pool.node_class_label.1.to_string());
    for (key, requirement) in requirements.iter() {
        let custom = !words.is_well_known(key) && !words.is_restricted(key) && !labels.contains_key(key);
        if let Some(value) = requirement.pick().filter(|_| custom) {
            labels.insert(key.to_owned(), value.to_string());
        }
    }
    labels
}

/// What a claim of the pool says that is made for no pod.
pub fn bare_claim(pool: &Pool, words: &Vocabulary) -> (Requirements, Labels) {
    let mut requirements = base_requirements(pool, words);
    for key in [REGISTERED, INITIALIZED] {
        requirements.0.remove(key);
    }
    let labels = labels(pool, &requirements, words);
    (requirements, labels)
}

/// Whether the pool's own requirements exclude each other on some key.
pub(crate) fn contradicts_itself(pool: &Pool, words: &Vocabulary) -> bool {
    let labels = Requirements::from_labels(&pool.labels, words);
    let each = pool.requirements.iter().map(|e| (words.normalize(&e.key), Requirement::from_expression(e)));
    let all: Vec<_> = each.chain(labels.iter().map(|(key, r)| (key, r.clone()))).collect();
    let mut seen: Requirements = Requirements::new();
    for (key, requirement) in all {
        if seen.has(key) && seen.get(key).contradicts(&requirement) {
            return true;
        }
        seen.add(key, requirement);
    }
    false
}

pub(crate) struct Compiled<'a> {
    pub(crate) world: &'a World,
    pub(crate) terms: &'a mut Terms,
    pub(crate) names: &'a mut ResourceNames,
    pub(crate) daemons: &'a [Daemon],
    pub(crate) allocatable: &'a [Amounts],
}

/// The template of a pool, or why it has none. `allocatable` is the catalogue's, by type.
pub(crate) fn compile(
    c: &mut Compiled<'_>,
    pool: usize,
    catalog_index: usize,
    catalog: &mut Catalog,
) -> Result<Template, Dropped> {
    let spec = &c.world.pools[pool];
    if contradicts_itself(spec, &c.world.vocabulary) {
        return Err(Dropped::NoTypes);
    }
    let base = c.terms.set(&base_requirements(spec, &c.world.vocabulary));
    let mut types = catalog.usable(base, c.terms).types.clone();
    let positive: Bits =
        (0..catalog.len()).filter(|kind| c.allocatable[*kind].0.iter().all(|(_, amount)| *amount >= 0)).collect();
    types.and(&positive);
    if types.is_empty() {
        return Err(Dropped::NoTypes);
    }
    if c.world.settings.min_values == MinValuesPolicy::Strict {
        let short = short_of_min_values(base, &types, catalog, c.terms);
        if !short.is_empty() {
            return Err(Dropped::MinValues(short.into_iter().map(|(key, _)| key).collect()));
        }
    }
    let mut daemons = vec![Bits::new(); catalog.len()];
    for (index, daemon) in c.daemons.iter().enumerate() {
        daemon.types(base, &spec.taints, catalog, c.terms).iter().for_each(|kind| daemons[kind].insert(index));
    }
    let mut room = c.allocatable.to_vec();
    for (kind, running) in daemons.iter().enumerate() {
        for daemon in running.iter() {
            room[kind].subtract(&c.daemons[daemon].requests);
        }
    }
    let roomy: Bits = types.iter().filter(|kind| room[*kind].0.iter().all(|(_, amount)| *amount >= 0)).collect();
    let fit = FitIndex::new(&room, &roomy, c.names.len());
    let limits = spec.limits.iter().filter(|(name, _)| *name != NODES);
    let limits: Vec<_> = limits.map(|(name, quantity)| (c.names.id(name), quantity.nanos())).collect();
    let takes = |resource: &ResId| {
        let name = c.names.name(*resource);
        catalog.types.iter().map(|kind| kind.capacity.counted(name).nanos()).collect()
    };
    let capacity: Vec<Vec<Amount>> = limits.iter().map(|(resource, _)| takes(resource)).collect();
    let most = |of: &Vec<Amount>| types.iter().map(|kind| of[kind]).max().unwrap_or(0);
    let largest = capacity.iter().map(most).collect();
    let node_limit = spec.limits.0.get(NODES).map(|quantity| quantity.units());
    let (weight, taints) = (spec.weight, spec.taints.clone());
    let mut template = Template {
        pool,
        catalog: catalog_index,
        weight,
        base,
        taints,
        types,
        daemons,
        room,
        fit,
        limits,
        capacity,
        node_limit,
        largest,
    };
    template.charge_existing(c.world, c.names);
    Ok(template)
}

impl Template {
    /// Nodes that are there already count against the limits.
    fn charge_existing(&mut self, world: &World, names: &ResourceNames) {
        let pool = &world.pools[self.pool].name;
        for node in world.nodes.iter().filter(|node| !node.deleting && node.pool() == Some(pool)) {
            for (resource, left) in &mut self.limits {
                *left -= node.capacity.counted(names.name(*resource)).nanos();
            }
            self.node_limit = self.node_limit.map(|left| left - 1);
        }
    }

    pub(crate) fn is_limited(&self) -> bool {
        !self.limits.is_empty() || self.node_limit.is_some()
    }

    /// Types whose daemons occupy none of the ports.
    pub(crate) fn types_free_of(&self, ports: &[HostPort], daemons: &[Daemon]) -> Bits {
        let clashing: Bits = daemons
            .iter()
            .enumerate()
            .filter(|(_, daemon)| daemon.shape.host_ports.iter().any(|theirs| ports.iter().any(|p| p.clashes(theirs))))
            .map(|(index, _)| index)
            .collect();
        (0..self.daemons.len()).filter(|kind| !self.daemons[*kind].intersects(&clashing)).collect()
    }
}

/// Keys of the set whose `minValues` the types do not reach, with how many values they have.
pub(crate) fn short_of_min_values(set: SetId, types: &Bits, catalog: &Catalog, terms: &Terms) -> Vec<(KeyId, usize)> {
    let wanted = terms.entries(set).iter().filter_map(|(key, req)| Some((*key, terms.requirement(*req).min_values?)));
    wanted
        .filter_map(|(key, least)| {
            let have = catalog.distinct_values(key, types, terms);
            (have < least as usize).then_some((key, have))
        })
        .collect()
}
