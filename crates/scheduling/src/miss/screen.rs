//! What a changed pod or pool could do, topology aside: a quick look before the real thing is asked.

use std::sync::Arc;

use karpenter_core::pod::WhenUnsatisfiable;
use karpenter_core::requirement::Expression;
use karpenter_core::settings::{MinValuesPolicy, PreferencePolicy};
use karpenter_core::taints::untolerated;
use karpenter_core::{PodShape, Pool, Quantity, Requirement, Requirements, Toleration};

use crate::bits::Bits;
use crate::classes::combined;
use crate::columns::{Amount, Amounts, ResId};
use crate::problem::Problem;
use crate::state::State;
use crate::template::{base_requirements, contradicts_itself, short_of_min_values};
use crate::terms::SetId;

/// How many claims of the pass a request is tried to be squeezed into.
const MOST_CLAIMS: usize = 200;

pub(crate) struct Screen<'a, 'w> {
    pub(crate) problem: &'a mut Problem<'w>,
    pub(crate) state: &'a State,
}

/// A pod as it would be, reduced to what is looked at here.
pub(crate) struct Asked<'a> {
    pub(crate) shape: &'a PodShape,
    tolerations: Vec<Toleration>,
    /// Alternatives, those that contradict themselves left out.
    pub(crate) sets: Vec<SetId>,
    requests: Amounts,
    volumes: Vec<SetId>,
}

impl Screen<'_, '_> {
    pub(crate) fn asked<'s>(&mut self, shape: &'s PodShape, volumes: &[Requirements]) -> Asked<'s> {
        let mut tolerations = shape.tolerations.clone();
        tolerations.push(Toleration::of_every_preference());
        let mut sets = Vec::new();
        for term in alternatives(shape, self.problem.world.settings.preferences) {
            let words = &self.problem.world.vocabulary;
            let mut all: Vec<(Arc<str>, Requirement)> =
                Requirements::from_labels(&shape.node_selector, words).0.into_iter().collect();
            all.extend(term.iter().flat_map(|expression| Requirements::from_expressions([expression], words).0));
            if let (set, None) = combined(&all) {
                sets.push(self.problem.terms.set(&set));
            }
        }
        let requests = self.problem.names.amounts(&shape.requests);
        let volumes = volumes.iter().map(|set| self.problem.terms.set(set)).collect();
        Asked { shape, tolerations, sets, requests, volumes }
    }

    /// Types of the pool that would take the pod on a new node; `but` leaves one resource out of account.
    pub(crate) fn types(&mut self, index: usize, pool: &Pool, asked: &Asked<'_>, but: Option<ResId>) -> Bits {
        let none = Bits::new();
        let words = self.problem.world.vocabulary.clone();
        let catalog = self.problem.catalogs.iter().position(|c| Arc::ptr_eq(&c.types, &pool.instance_types));
        let catalog = catalog.expect("every pool's types were compiled");
        if contradicts_itself(pool, &words) || untolerated(&pool.taints, &asked.tolerations).is_some() {
            return none;
        }
        let base = self.problem.terms.set(&base_requirements(pool, &words));
        let mut left = self.problem.catalogs[catalog].usable(base, &mut self.problem.terms).types.clone();
        if self.falls_short(base, &left, catalog) {
            return none;
        }
        left.and(&self.within_limits(index, pool, catalog));
        left.and(&self.large_enough(index, catalog, asked, &Amounts::default(), but));
        let mut found = Bits::new();
        for set in self.joined(base, asked) {
            let mut types = self.problem.catalogs[catalog].usable(set, &mut self.problem.terms).types.clone();
            types.and(&left);
            if !types.is_empty() && !self.falls_short(set, &types, catalog) {
                found.or(&types);
            }
        }
        found
    }

    fn joined(&mut self, base: SetId, asked: &Asked<'_>) -> Vec<SetId> {
        let terms = &mut self.problem.terms;
        let joined: Vec<SetId> = asked.sets.iter().filter_map(|set| terms.join(base, *set)).collect();
        if asked.volumes.is_empty() {
            return joined;
        }
        let each = joined.iter().flat_map(|set| asked.volumes.iter().map(move |volume| (*set, *volume)));
        each.filter_map(|(set, volume)| terms.join(set, volume)).collect()
    }

    fn falls_short(&self, set: SetId, types: &Bits, catalog: usize) -> bool {
        self.problem.world.settings.min_values == MinValuesPolicy::Strict
            && !short_of_min_values(set, types, &self.problem.catalogs[catalog], &self.problem.terms).is_empty()
    }

    /// Types that fit into what the pass has left of the limits.
    fn within_limits(&self, index: usize, pool: &Pool, catalog: usize) -> Bits {
        let types = &self.problem.catalogs[catalog].types;
        let fits = |kind: &usize| {
            pool.limits.iter().filter(|(name, _)| *name != karpenter_core::resources::NODES).all(|(name, limit)| {
                types[*kind].capacity.counted(name).nanos() <= limit.nanos() - self.used(index, name).nanos()
            })
        };
        let nodes = pool.limits.0.get(karpenter_core::resources::NODES);
        if nodes.is_some_and(|limit| self.used(index, karpenter_core::resources::NODES) >= *limit) {
            return Bits::new();
        }
        (0..types.len()).filter(fits).collect()
    }

    /// What nodes and claims of the pool take of a limited resource.
    pub(crate) fn used(&self, index: usize, resource: &str) -> Quantity {
        let Some(at) = self.problem.templates.iter().position(|template| template.pool == index) else {
            return Quantity::ZERO;
        };
        let limit = self.problem.world.pools[index].limits.get(resource);
        let template = &self.problem.templates[at];
        if resource == karpenter_core::resources::NODES {
            return limit - Quantity::from_units(self.state.node_limits[at].unwrap_or(0));
        }
        let position = template.limits.iter().position(|(id, _)| &**self.problem.names.name(*id) == resource);
        let left = position.map_or(0, |position| self.state.limits[at][position]);
        limit - Quantity::from_nanos(left, limit.format())
    }

    /// Types with room for the pod beside daemons and `total`.
    fn large_enough(
        &self,
        index: usize,
        catalog: usize,
        asked: &Asked<'_>,
        total: &Amounts,
        but: Option<ResId>,
    ) -> Bits {
        let count = self.problem.catalogs[catalog].len();
        let Some(template) = self.problem.templates.iter().find(|template| template.pool == index) else {
            return Bits::full(count);
        };
        let fits = |kind: &usize| {
            let room = &template.room[*kind];
            let all = || asked.requests.0.iter().filter(|(id, _)| Some(*id) != but);
            room.0.iter().all(|(_, amount)| *amount >= 0)
                && all().all(|(id, amount)| *amount <= 0 || amount + total.get(*id) <= room.get(*id))
        };
        let mut types: Bits = (0..count).filter(fits).collect();
        types.and(&template.types_free_of(&asked.shape.host_ports, &self.problem.daemons));
        types
    }

    /// Existing nodes that would take the pod, one resource left out of account.
    pub(crate) fn nodes(&mut self, asked: &Asked<'_>, but: Option<ResId>) -> Vec<usize> {
        let mut found = Vec::new();
        for index in 0..self.problem.nodes.len() {
            let (node, free) = (&self.problem.nodes[index], &self.state.nodes[index]);
            let fits = asked.requests.0.iter().all(|(id, amount)| Some(*id) == but || *amount <= free.free.get(*id))
                && free.free.0.iter().all(|(_, amount)| *amount >= 0);
            let clash = asked.shape.host_ports.iter().any(|mine| free.ports.iter().any(|theirs| mine.clashes(theirs)));
            if !fits || clash || untolerated(&node.taints, &asked.tolerations).is_some() {
                continue;
            }
            let (set, terms) = (node.set, &mut self.problem.terms);
            let selected = asked.sets.iter().any(|asked| terms.compatible(set, *asked, false));
            let reached =
                asked.volumes.is_empty() || asked.volumes.iter().any(|asked| terms.compatible(set, *asked, false));
            if selected && reached {
                found.push(index);
            }
        }
        found
    }

    /// The most a pod may ask of a resource so that the pool, a claim of it, or an existing node takes it.
    pub(crate) fn most(&mut self, index: usize, pool: &Pool, asked: &Asked<'_>, resource: ResId) -> Amount {
        let types = self.types(index, pool, asked, Some(resource));
        let mut most = 0;
        if let Some(template) = self.problem.templates.iter().find(|template| template.pool == index) {
            most = types.iter().map(|kind| template.room[kind].get(resource)).max().unwrap_or(0);
        }
        for node in self.nodes(asked, Some(resource)) {
            most = most.max(self.state.nodes[node].free.get(resource));
        }
        for claim in self.state.claims.iter().take(MOST_CLAIMS) {
            let template = &self.problem.templates[claim.template];
            if template.pool != index || untolerated(&template.taints, &asked.tolerations).is_some() {
                continue;
            }
            let catalog = template.catalog;
            let mut types = claim.types.clone();
            types.and(&self.large_enough(index, catalog, asked, &claim.total, Some(resource)));
            for set in self.joined(claim.set, asked) {
                let mut left = self.problem.catalogs[catalog].usable(set, &mut self.problem.terms).types.clone();
                left.and(&types);
                if !left.is_empty() && !self.falls_short(set, &left, catalog) {
                    let room = |kind: usize| self.problem.templates[claim.template].room[kind].get(resource);
                    let free = left.iter().map(|kind| room(kind) - claim.total.get(resource)).max().unwrap_or(0);
                    most = most.max(free);
                }
            }
        }
        most
    }
}

/// The alternatives that are tried with nothing soft in the way. Preferences are given up only after the alternatives
/// before the last; a pod without any is tried with each.
fn alternatives(shape: &PodShape, policy: PreferencePolicy) -> Vec<&[Expression]> {
    let terms: Vec<&[Expression]> =
        shape.required_node_affinity.iter().map(|term| term.expressions.as_slice()).collect();
    let soft = policy == PreferencePolicy::Respect
        && (!shape.preferred_node_affinity.is_empty()
            || !shape.preferred_pod_affinity.is_empty()
            || !shape.preferred_pod_anti_affinity.is_empty()
            || shape.spread.iter().any(|spread| spread.when == WhenUnsatisfiable::ScheduleAnyway));
    match terms.as_slice() {
        [] => vec![&[]],
        [.., last] if soft => vec![last],
        _ => terms,
    }
}
