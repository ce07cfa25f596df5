//! From assembled claims to the plan: prices, labels, and what is written to the NodeClaims.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::labels::{CAPACITY_TYPE, HOSTNAME, INITIALIZED, Labels, REGISTERED, RESERVED};
use karpenter_core::plan::{Launch, NewNode};
use karpenter_core::settings::MinValuesPolicy;
use karpenter_core::{Requirement, Requirements, Resources};

use rustc_hash::FxHashSet;

use crate::bits::Bits;
use crate::launch::LISTED;
use crate::problem::Problem;
use crate::state::Claim;
use crate::template::{self, short_of_min_values};
use crate::terms::{KeyId, SetId};

/// A claim that its cut type list no longer lets launch.
pub(crate) struct Discarded {
    pub(crate) pods: Vec<usize>,
    pub(crate) pool: usize,
    pub(crate) keys: Vec<KeyId>,
}

/// Lists that many nodes have in common, kept once: a list is up to 600 long, and there may be ten thousands of nodes.
#[derive(Default)]
struct Shared {
    types: FxHashSet<Arc<[usize]>>,
}

impl Shared {
    fn types(&mut self, types: Vec<usize>) -> Arc<[usize]> {
        if let Some(known) = self.types.get(types.as_slice()) {
            return known.clone();
        }
        let types: Arc<[usize]> = types.into();
        self.types.insert(types.clone());
        types
    }
}

impl Problem<'_> {
    /// Claims become new nodes; those whose cut list misses minValues are given up with all their pods.
    pub(crate) fn new_nodes(&mut self, claims: &[Claim]) -> (Vec<NewNode>, Vec<Discarded>) {
        let mut shared = Shared::default();
        let (mut nodes, mut discarded) = (Vec::new(), Vec::new());
        for claim in claims.iter().filter(|claim| !claim.pods.is_empty()) {
            match self.new_node(claim, &mut shared) {
                Ok(node) => nodes.push(node),
                Err(keys) => discarded.push(Discarded {
                    pods: claim.pods.iter().map(|(pod, _)| *pod).collect(),
                    pool: self.templates[claim.template].pool,
                    keys,
                }),
            }
        }
        (nodes, discarded)
    }

    /// What a claim is expected to become, without everything else that a plan says of it.
    pub(crate) fn expected_launch(&mut self, claim: &Claim) -> Option<Launch> {
        let (set, types) = self.listed(claim).ok()?;
        self.launch(self.templates[claim.template].catalog, set, &types)
    }

    /// The types a claim lists, cheapest first; or the keys whose minValues they miss.
    fn listed(&mut self, claim: &Claim) -> Result<(SetId, Vec<usize>), Vec<KeyId>> {
        let catalog = self.templates[claim.template].catalog;
        let set = self.final_set(claim);
        let order = self.catalogs[catalog].by_price(set, &mut self.terms);
        let types = order.iter().map(|(_, kind)| *kind).filter(|kind| claim.types.contains(*kind));
        let types: Vec<usize> = types.take(LISTED).collect();
        if self.world.settings.min_values == MinValuesPolicy::Strict {
            // Holding a reservation narrows what is launched, not how flexible the claim is.
            let counted = if claim.reserved.is_empty() { types.iter().copied().collect() } else { claim.types.clone() };
            let short = short_of_min_values(set, &counted, &self.catalogs[catalog], &self.terms);
            if !short.is_empty() {
                return Err(short.into_iter().map(|(key, _)| key).collect());
            }
        }
        Ok((set, types))
    }

    fn new_node(&mut self, claim: &Claim, shared: &mut Shared) -> Result<NewNode, Vec<KeyId>> {
        let (catalog, pool) = (self.templates[claim.template].catalog, self.templates[claim.template].pool);
        let (set, types) = self.listed(claim)?;
        let launch = self.launch(catalog, set, &types).expect("a claim keeps only types with an offering for it");
        let (requirements, labels) = self.written(claim, set, &types);
        Ok(NewNode {
            pool,
            pods: claim.pods.iter().map(|(pod, _)| self.pods[*pod].index).collect(),
            requirements,
            labels,
            requests: self.requests(claim),
            instance_types: shared.types(types),
            min_values_relaxed: claim.min_values_relaxed,
            reservations: claim.reserved.iter().cloned().collect(),
            launch,
        })
    }

    /// A claim that holds reservations launches into those and nothing else.
    pub(crate) fn final_set(&mut self, claim: &Claim) -> SetId {
        if claim.reserved.is_empty() {
            return claim.set;
        }
        let mut set = self.terms.to_requirements(claim.set);
        set.0.insert(Arc::from(CAPACITY_TYPE), Requirement::one(RESERVED));
        if let Some(label) = self.world.vocabulary.reservation_id.clone() {
            set.add(&label, Requirement::one_of(claim.reserved.iter().map(|id| &**id)));
        }
        self.terms.set(&set)
    }

    /// What the NodeClaim's requirements and labels will be.
    fn written(&mut self, claim: &Claim, set: SetId, types: &[usize]) -> (Requirements, Labels) {
        let catalog = self.templates[claim.template].catalog;
        let mut requirements = self.terms.to_requirements(set);
        for key in [HOSTNAME, REGISTERED, INITIALIZED] {
            requirements.0.remove(key);
        }
        let mut capacity_types: Vec<Arc<str>> = Vec::new();
        let chosen: Bits = types.iter().copied().collect();
        let usable = self.catalogs[catalog].usable(set, &mut self.terms);
        for profile in usable.profiles.iter().map(|at| &self.catalogs[catalog].profiles[*at]) {
            if profile.available.intersects(&chosen) {
                capacity_types.extend(profile.capacity_type.clone());
            }
        }
        if !capacity_types.is_empty() {
            let min_values = requirements.0.get(CAPACITY_TYPE).and_then(|requirement| requirement.min_values);
            let listed = Requirement::one_of(capacity_types.iter().map(|name| &**name));
            requirements.0.insert(Arc::from(CAPACITY_TYPE), Requirement { min_values, ..listed });
        }
        let pool = &self.world.pools[self.templates[claim.template].pool];
        let labels = template::labels(pool, &requirements, &self.world.vocabulary);
        (requirements, labels)
    }

    /// Pods, and the least that daemons will take on any of the claim's types.
    fn requests(&self, claim: &Claim) -> Resources {
        let mut requests = Resources::new();
        for (pod, _) in &claim.pods {
            requests.add(&self.classes[self.pods[*pod].class].shape.requests);
        }
        let template = &self.templates[claim.template];
        let mut least: Option<Resources> = None;
        let mut seen: BTreeMap<Vec<usize>, ()> = BTreeMap::new();
        for kind in claim.types.iter() {
            let daemons: Vec<usize> = template.daemons[kind].iter().collect();
            if seen.insert(daemons.clone(), ()).is_some() {
                continue;
            }
            let mut overhead = Resources::new();
            daemons.iter().for_each(|daemon| overhead.add(&self.daemons[*daemon].shape.requests));
            least = Some(match least {
                None => overhead,
                Some(least) => least.min(&overhead),
            });
        }
        requests.add(&least.unwrap_or_default());
        requests
    }
}
