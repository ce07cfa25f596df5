//! Which topology constraint stands in the way, and what it counts.

use std::sync::Arc;

use karpenter_core::Requirement;
use karpenter_core::labels::HOSTNAME;
use karpenter_core::plan::{PoolReason, TopologyConstraint, TopologyKind};

use crate::bits::Bits;
use crate::groups::{GroupId, Kind};
use crate::problem::Problem;
use crate::state::State;
use crate::terms::SetId;

/// How many domains a reason lists with their counts.
const LISTED: usize = 25;

impl Problem<'_> {
    /// The hostname constraint that forbids a new node.
    pub(super) fn hostname_refusal(&self, state: &State, class: usize, variant: usize) -> Option<PoolReason> {
        let blocks = |id: &GroupId| {
            let group = self.groups.get(*id);
            let counts_itself = self.classes[class].counted_in.binary_search(id).is_ok();
            group.is_hostname()
                && match group.kind {
                    Kind::Spread => i64::from(counts_itself) > group.max_skew,
                    Kind::Affinity => !(counts_itself && state.groups[id.0 as usize].populated == 0),
                    Kind::AntiAffinity | Kind::Inverse => false,
                }
        };
        let id = self.deciding(class, variant).find(blocks)?;
        let counts = self.host_counts(state, id);
        let any = Requirement::any().to_string();
        Some(self.constraint(id, HOSTNAME, counts, (any.clone(), any)))
    }

    /// The first constraint that leaves a claim with this set no domain.
    pub(super) fn topology_refusal(
        &mut self,
        state: &State,
        class: usize,
        variant: usize,
        set: SetId,
    ) -> Option<PoolReason> {
        let mut left: Vec<(usize, Bits)> = Vec::new();
        for id in self.keyed(class, variant) {
            let table = self.domains.groups[id.0 as usize].table.expect("the key is not the hostname");
            let key = self.domains.keys[table].key;
            let req = self.terms.get(set, key);
            if req.is_none() && !self.terms.is_well_known(key) {
                if self.groups.get(id).kind == Kind::Inverse {
                    continue;
                }
                return Some(self.told(state, class, variant, id, set));
            }
            let at = left.iter().position(|(of, _)| *of == table).unwrap_or_else(|| {
                left.push((table, Bits::clone(&self.domains.allowed(table, req, &self.terms))));
                left.len() - 1
            });
            let mut acceptable = std::mem::take(&mut left[at].1);
            self.accept(state, class, variant, id, table, &mut acceptable);
            if acceptable.is_empty() {
                return Some(self.told(state, class, variant, id, set));
            }
            left[at].1 = acceptable;
        }
        None
    }

    /// For what no constraint forbids alone.
    pub(super) fn first_keyed_constraint(
        &mut self,
        state: &State,
        class: usize,
        variant: usize,
        set: SetId,
    ) -> Option<PoolReason> {
        let id = self.keyed(class, variant).into_iter().next()?;
        Some(self.told(state, class, variant, id, set))
    }

    fn keyed(&self, class: usize, variant: usize) -> Vec<GroupId> {
        self.deciding(class, variant).filter(|id| !self.group_is_hostname(*id)).collect()
    }

    /// The constraint with what the pod and the node allow on its key.
    fn told(&mut self, state: &State, class: usize, variant: usize, id: GroupId, set: SetId) -> PoolReason {
        let table = self.domains.groups[id.0 as usize].table.expect("the key is not the hostname");
        let key = self.domains.keys[table].key;
        let strict = self.classes[class].variants[variant].strict;
        let allowed = |of: SetId| match self.terms.get(of, key) {
            Some(req) => self.terms.requirement(req).to_string(),
            None => Requirement::any().to_string(),
        };
        let domains = (allowed(strict), allowed(set));
        let group = &self.domains.groups[id.0 as usize];
        let counts = &state.groups[id.0 as usize].domains;
        let listed = self.domains.keys[table].names.iter().zip(counts).enumerate();
        let listed = listed.filter(|(at, (_, count))| group.known.contains(*at) || **count > 0);
        let counts = listed.map(|(_, (name, count))| (name.clone(), *count)).take(LISTED).collect();
        let name = self.terms.key_name(key).clone();
        self.constraint(id, &name, counts, domains)
    }

    /// Existing nodes that hold matching pods; new ones have no name yet.
    fn host_counts(&self, state: &State, id: GroupId) -> Vec<(Arc<str>, u32)> {
        let counts = &state.groups[id.0 as usize].nodes;
        let name = |node: usize| Arc::<str>::from(self.world.nodes[self.nodes[node].index].hostname());
        let mut found: Vec<_> = counts.some.iter().map(|node| (name(node), counts.get(node))).collect();
        found.sort();
        found.truncate(LISTED);
        found
    }

    fn constraint(
        &self,
        id: GroupId,
        key: &str,
        counts: Vec<(Arc<str>, u32)>,
        (pod_domains, node_domains): (String, String),
    ) -> PoolReason {
        let kind = match self.groups.get(id).kind {
            Kind::Spread => TopologyKind::Spread,
            Kind::Affinity => TopologyKind::Affinity,
            Kind::AntiAffinity => TopologyKind::AntiAffinity,
            Kind::Inverse => TopologyKind::InverseAntiAffinity,
        };
        let key = Arc::from(key);
        PoolReason::Topology { constraint: TopologyConstraint { kind, key, counts, pod_domains, node_domains } }
    }
}
