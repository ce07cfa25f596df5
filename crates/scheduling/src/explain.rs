//! Why a pod found no place: each pool's own reason, worked out once for all pods of a class and only for those left.
//!
//! The order of the checks is that of an attempt (limits, taints, requirements, volumes, topology, instance types), so
//! that the reason is what stopped the pod first. It is told for the pod's last variant, in which nothing soft is left.

mod topology;
mod types;

use karpenter_core::plan::{PoolReason, Reason};
use karpenter_core::taints::untolerated;
use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::problem::Problem;
use crate::state::{Claim, State};
use crate::template::{self, Dropped, short_of_min_values};
use crate::terms::SetId;

/// Reasons by class.
#[derive(Default)]
pub(crate) struct Reasons(FxHashMap<usize, Reason>);

impl Reasons {
    /// Why a pod left over at the end of a pass found no place in it.
    pub(crate) fn of(&mut self, problem: &mut Problem<'_>, state: &State, pod: usize) -> Reason {
        let class = problem.pods[pod].class;
        self.0.entry(class).or_insert_with(|| reason(problem, state, class)).clone()
    }
}

fn reason(problem: &mut Problem<'_>, state: &State, class: usize) -> Reason {
    if problem.templates.is_empty() {
        return if problem.dropped.is_empty() { Reason::NoPools } else { Reason::NoInstanceTypes };
    }
    let mut reasons = Vec::new();
    for pool in template::order(problem.world) {
        match problem.templates.iter().position(|template| template.pool == pool) {
            Some(template) => reasons.extend(problem.refusal(state, class, template).map(|reason| (pool, reason))),
            None => reasons.push((pool, problem.why_dropped(pool))),
        }
    }
    Reason::Pools(reasons)
}

impl Problem<'_> {
    fn why_dropped(&self, pool: usize) -> PoolReason {
        let why = self.dropped.iter().find(|(dropped, _)| *dropped == pool).map(|(_, why)| why);
        match why.expect("a pool without a template was dropped") {
            Dropped::NoTypes => PoolReason::NoTypes,
            Dropped::MinValues(keys) => {
                PoolReason::MinValues { keys: keys.iter().map(|key| self.terms.key_name(*key).clone()).collect() }
            }
        }
    }

    /// Why a new node of the template cannot take a pod of the class; nothing where it could.
    fn refusal(&mut self, state: &State, class: usize, template: usize) -> Option<PoolReason> {
        let claim = match self.fresh_claim(state, template) {
            Ok(claim) => claim,
            Err(limit) => return Some(self.limit(template, limit)),
        };
        let variant = self.classes[class].variants.len() - 1;
        let form = &self.classes[class].variants[variant];
        if let Some(taint) = untolerated(&self.templates[template].taints, &form.tolerations) {
            return Some(PoolReason::Taint { taint: taint.to_string() });
        }
        if let Some(key) = form.contradiction {
            return Some(PoolReason::Contradiction { key: self.terms.key_name(key).clone() });
        }
        let (base, asked) = (self.templates[template].base, form.set);
        let Some(joined) = self.terms.join(base, asked) else {
            return Some(self.incompatible(base, asked));
        };
        let reachable = match self.with_volumes(class, joined) {
            Ok(sets) => sets,
            Err(reason) => return Some(reason),
        };
        if let Some(reason) = self.hostname_refusal(state, class, variant) {
            return Some(reason);
        }
        let mut refused = None;
        let mut narrowed = Vec::new();
        for set in &reachable {
            match self.topology_refusal(state, class, variant, *set) {
                Some(reason) => refused = refused.or(Some(reason)),
                None => narrowed.extend(self.narrowed(state, class, variant, *set)),
            }
        }
        if narrowed.is_empty() {
            return refused.or_else(|| self.first_keyed_constraint(state, class, variant, joined));
        }
        let reason = self.type_refusal(state, &claim, class, &narrowed)?;
        // What the types would have taken without topology is topology's doing.
        let free = reachable.iter().any(|set| self.type_refusal(state, &claim, class, &[*set]).is_none());
        let constraint = if free { self.first_keyed_constraint(state, class, variant, joined) } else { None };
        Some(constraint.unwrap_or(reason))
    }

    fn limit(&self, template: usize, limit: Option<usize>) -> PoolReason {
        let resource = match limit {
            None => karpenter_core::resources::NODES,
            Some(at) => self.names.name(self.templates[template].limits[at].0),
        };
        PoolReason::Limit { resource: resource.to_owned() }
    }

    fn incompatible(&self, base: SetId, asked: SetId) -> PoolReason {
        let (mine, asked) = (self.terms.to_requirements(base), self.terms.to_requirements(asked));
        let words = &self.world.vocabulary;
        let clash = mine.compatible(&asked, |key| words.is_well_known(key)).err().unwrap_or_default();
        let hint = clash.undefined.as_ref().and_then(|key| mine.spelling_hint(key, words)).map(Into::into);
        PoolReason::Incompatible { keys: clash.disjoint, undefined: clash.undefined, hint }
    }

    /// The set with each alternative of where the pod's volumes can be reached.
    fn with_volumes(&mut self, class: usize, joined: SetId) -> Result<Vec<SetId>, PoolReason> {
        let volumes = self.classes[class].volumes.clone();
        if volumes.is_empty() {
            return Ok(vec![joined]);
        }
        let reachable: Vec<SetId> = volumes.iter().filter_map(|asked| self.terms.join(joined, *asked)).collect();
        if !reachable.is_empty() {
            return Ok(reachable);
        }
        let mine = self.terms.to_requirements(joined);
        let mut keys = Vec::new();
        for asked in &volumes {
            let asked = self.terms.to_requirements(*asked);
            let clash = mine.compatible(&asked, |key| self.world.vocabulary.is_well_known(key));
            let clash = clash.err().unwrap_or_default();
            keys.extend(clash.undefined.into_iter().chain(clash.disjoint));
        }
        keys.sort();
        keys.dedup();
        Err(PoolReason::Volumes { keys })
    }

    /// Why none of the template's types takes the pod under any of the sets.
    fn type_refusal(&mut self, state: &State, claim: &Claim, class: usize, sets: &[SetId]) -> Option<PoolReason> {
        let template = claim.template;
        let catalog = self.templates[template].catalog;
        let mut large = claim.types.clone();
        for (resource, amount) in &self.classes[class].requests.0 {
            self.templates[template].fit.keep(&mut large, *resource, *amount);
        }
        let free = self.templates[template].types_free_of(&self.classes[class].ports, &self.daemons);
        let (mut short, mut clashing) = (None, false);
        for set in sets {
            let mut left = self.catalogs[catalog].usable(*set, &mut self.terms).types.clone();
            left.and(&large);
            if left.is_empty() {
                continue;
            }
            left.and(&free);
            if left.is_empty() {
                clashing = true;
                continue;
            }
            let missing = self.short(*set, &left, catalog);
            if missing.is_empty() {
                return None;
            }
            short = short.or(Some(missing));
        }
        if let Some(keys) = short {
            return Some(PoolReason::MinValues { keys });
        }
        if clashing {
            return Some(PoolReason::HostPort);
        }
        let set = *sets.first().expect("there is at least one set");
        Some(self.limited(state, claim, class, set).unwrap_or_else(|| self.type_failure(claim, class, set)))
    }

    /// Keys that fall short of minValues where that keeps the pod out.
    fn short(&self, set: SetId, types: &Bits, catalog: usize) -> Vec<std::sync::Arc<str>> {
        use karpenter_core::settings::MinValuesPolicy;
        if self.world.settings.min_values == MinValuesPolicy::BestEffort {
            return Vec::new();
        }
        let short = short_of_min_values(set, types, &self.catalogs[catalog], &self.terms);
        short.into_iter().map(|(key, _)| self.terms.key_name(key).clone()).collect()
    }

    /// The limit without which there would be a type for the pod.
    fn limited(&mut self, state: &State, claim: &Claim, class: usize, set: SetId) -> Option<PoolReason> {
        let of = &self.templates[claim.template];
        let mut types = of.types.clone();
        if types == claim.types {
            return None;
        }
        for (resource, amount) in &self.classes[class].requests.0 {
            of.fit.keep(&mut types, *resource, *amount);
        }
        types.and(&of.types_free_of(&self.classes[class].ports, &self.daemons));
        types.and(&self.catalogs[of.catalog].usable(set, &mut self.terms).types);
        if types.is_empty() {
            return None;
        }
        let of = &self.templates[claim.template];
        let within = |at: usize, kind: usize| of.capacity[at][kind] <= state.limits[claim.template][at];
        let blocking = (0..of.limits.len()).find(|at| !types.iter().any(|kind| within(*at, kind)));
        Some(match blocking {
            Some(at) => self.limit(claim.template, Some(at)),
            None => PoolReason::Limit { resource: String::new() },
        })
    }
}

#[cfg(test)]
mod tests;
