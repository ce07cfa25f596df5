//! One pod, one target: whether it fits, and what changes when it goes there.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::settings::MinValuesPolicy;
use karpenter_core::{Operator, Requirement};
use smallvec::SmallVec;

use crate::bits::Bits;
use crate::columns::Amount;
use crate::existing::limited_claims;
use crate::groups::{Filter, GroupId, Kind};
use crate::problem::Problem;
use crate::state::{Claim, Joining, Slot, State};
use crate::template::short_of_min_values;
use crate::terms::{SetId, Terms};

/// Whether reservations must be used where they can be, or may be passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserving {
    Strict,
    Fallback,
}

/// A claim shape as one pod sees it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// With the pod's own requirements; what is refused with these is refused for good.
    pub(crate) joined: SetId,
    /// With volumes and topology, in the order in which they are tried.
    pub(crate) narrowed: SmallVec<[SetId; 4]>,
}

pub(crate) enum Verdict {
    Fits {
        set: SetId,
        types: Bits,
        reserved: BTreeSet<Arc<str>>,
    },
    /// Never again for this class: the claim only gets fuller.
    RefusedForGood,
    Refused,
    /// A reservation could serve the pod in a later pass.
    Deferred,
}

impl Problem<'_> {
    /// The pod's view of a claim shape; nothing where taints, requirements, volumes or topology rule it out.
    pub(crate) fn view(
        &mut self,
        state: &State,
        class: usize,
        variant: usize,
        template: usize,
        set: SetId,
    ) -> Option<View> {
        let form = &self.classes[class].variants[variant];
        if form.contradiction.is_some() || !form.templates.contains(template) {
            return None;
        }
        let joined = self.terms.join(set, form.set)?;
        if self.classes[class].volumes.is_empty() {
            let narrowed = self.narrowed(state, class, variant, joined);
            return (!narrowed.is_empty()).then_some(View { joined, narrowed });
        }
        let mut narrowed: SmallVec<[SetId; 4]> = SmallVec::new();
        for at in 0..self.classes[class].volumes.len() {
            let asked = self.classes[class].volumes[at];
            if let Some(with_volume) = self.terms.join(joined, asked) {
                narrowed.extend(self.narrowed(state, class, variant, with_volume));
            }
        }
        (!narrowed.is_empty()).then_some(View { joined, narrowed })
    }

    /// Types of a template that could still hold the claim with the pod on it, before topology.
    fn roomy(&mut self, claim: &Claim, class: usize, joined: SetId) -> Bits {
        let template = &self.templates[claim.template];
        let mut types = claim.types.clone();
        types.and(&self.catalogs[template.catalog].usable(joined, &mut self.terms).types);
        for (resource, amount) in &self.classes[class].requests.0 {
            let template = &self.templates[claim.template];
            template.fit.keep(&mut types, *resource, claim.total.get(*resource) + amount);
        }
        let ports = &self.classes[class].ports;
        if !ports.is_empty() && !self.daemons.is_empty() {
            types.and(&self.templates[claim.template].types_free_of(ports, &self.daemons));
        }
        types
    }

    /// Whether a claim takes the pod. `opening`: the claim is not there yet, so that its minValues may be lowered.
    pub(crate) fn judge(
        &mut self,
        state: &State,
        claim: &Claim,
        class: usize,
        view: &View,
        reserving: Reserving,
        opening: bool,
    ) -> Verdict {
        let ports = &self.classes[class].ports;
        if ports.iter().any(|mine| claim.ports.iter().any(|theirs| mine.clashes(theirs))) {
            return Verdict::RefusedForGood;
        }
        let types = self.roomy(claim, class, view.joined);
        if types.is_empty() {
            return Verdict::RefusedForGood;
        }
        let mut deferred = false;
        for set in &view.narrowed {
            let mut set = *set;
            let catalog = self.templates[claim.template].catalog;
            let mut left = types.clone();
            left.and(&self.catalogs[catalog].usable(set, &mut self.terms).types);
            if left.is_empty() {
                continue;
            }
            let short = short_of_min_values(set, &left, &self.catalogs[catalog], &self.terms);
            if !short.is_empty() {
                if self.world.settings.min_values == MinValuesPolicy::Strict || !opening {
                    continue;
                }
                set = lower_min_values(set, &short, &mut self.terms);
            }
            match self.reservable(state, claim, set, &left, reserving) {
                Some(reserved) => {
                    return Verdict::Fits { set, types: left, reserved };
                }
                None => deferred = true,
            }
        }
        if deferred { Verdict::Deferred } else { Verdict::Refused }
    }

    /// The reservations a claim would hold; nothing where strictness forbids going on without one.
    fn reservable(
        &mut self,
        state: &State,
        claim: &Claim,
        set: SetId,
        types: &Bits,
        reserving: Reserving,
    ) -> Option<BTreeSet<Arc<str>>> {
        let mut held = BTreeSet::new();
        if state.reservations.is_empty() {
            return Some(held);
        }
        let catalog = self.templates[claim.template].catalog;
        let usable = self.catalogs[catalog].usable(set, &mut self.terms);
        let mut compatible = false;
        for profile in usable.profiles.iter().map(|at| &self.catalogs[catalog].profiles[*at]) {
            let Some(id) = profile.reservation.as_ref().filter(|_| profile.available.intersects(types)) else {
                continue;
            };
            compatible = true;
            if claim.reserved.contains(id) || state.reservations.get(id).is_some_and(|left| *left > 0) {
                held.insert(id.clone());
            }
        }
        let without = held.is_empty() && (compatible || !claim.reserved.is_empty());
        (reserving == Reserving::Fallback || !without).then_some(held)
    }

    /// A claim of a template before its first pod, with the types its limits leave; which limit leaves none.
    pub(crate) fn fresh_claim(&self, state: &State, template: usize) -> Result<Claim, Option<usize>> {
        let of = &self.templates[template];
        if state.node_limits[template].is_some_and(|left| left <= 0) {
            return Err(None);
        }
        let mut types = of.types.clone();
        for (at, capacity) in of.capacity.iter().enumerate() {
            let left = state.limits[template][at];
            let within: Bits = types.iter().filter(|kind| capacity[*kind] <= left).collect();
            types.and(&within);
            if types.is_empty() {
                return Err(Some(at));
            }
        }
        Ok(Claim {
            template,
            set: of.base,
            types,
            total: Default::default(),
            pods: Vec::new(),
            ports: Vec::new(),
            reserved: BTreeSet::new(),
            min_values_relaxed: false,
        })
    }

    /// The most any of the types has of each limited resource: what a claim is charged with, as it may become any.
    pub(crate) fn worst_capacity(&self, template: usize, types: &Bits) -> Vec<Amount> {
        let most = |capacity: &Vec<Amount>| types.iter().map(|kind| capacity[kind]).max().unwrap_or(0);
        self.templates[template].capacity.iter().map(most).collect()
    }

    pub(crate) fn put_on_claim(
        &mut self,
        state: &mut State,
        index: usize,
        pod: (usize, usize),
        set: SetId,
        types: Bits,
        reserved: BTreeSet<Arc<str>>,
    ) {
        let class = self.pods[pod.0].class;
        state.reserve(&state.claims[index].reserved.clone(), &reserved);
        let joining = Joining { pod, set, types, reserved };
        state.join(index, joining, &self.classes[class].requests, &self.classes[class].ports);
        self.record_claim(state, class, index);
    }

    /// Counts the pod in every group that sees it. A spread or affinity counts it only where the claim has settled on a
    /// domain; anti-affinity wherever it might still end up.
    fn record_claim(&mut self, state: &mut State, class: usize, index: usize) {
        let counted = self.classes[class].counted_in.clone();
        let keeps_out = self.classes[class].keeps_out.clone();
        for id in counted.into_iter().chain(keeps_out) {
            let kind = self.groups.get(id).kind;
            let of = &self.domains.groups[id.0 as usize];
            let Some(table) = of.table else {
                if self.filter_passes_claim(state, id, index) {
                    state.count(id, Slot::Claim(index));
                }
                continue;
            };
            let settled = self.settled_domains(state, index, table, kind);
            if settled.is_empty() || !self.filter_passes_claim(state, id, index) {
                continue;
            }
            for domain in settled {
                state.count(id, Slot::Domain(domain));
            }
        }
    }

    pub(crate) fn settled_domains(
        &mut self,
        state: &State,
        index: usize,
        table: usize,
        kind: Kind,
    ) -> SmallVec<[usize; 8]> {
        let claim = &state.claims[index];
        let key = self.domains.keys[table].key;
        let req = self.terms.get(claim.set, key);
        let concrete = req.filter(|req| !self.terms.requirement(*req).open);
        let single = concrete.is_some_and(|req| self.terms.requirement(req).values.len() == 1);
        match kind {
            Kind::Spread | Kind::Affinity if !single => SmallVec::new(),
            _ if concrete.is_some() => self.domains.allowed(table, req, &self.terms).iter().collect(),
            _ if !self.terms.is_well_known(key) => SmallVec::new(), // the node will not carry the label
            _ => self.possible_domains(claim, table),
        }
    }

    /// How many pods of a group are in the domain a claim has settled on; none where it has not.
    pub(crate) fn settled_count(&self, set: SetId, table: usize, counts: &[u32]) -> u32 {
        let of = &self.domains.keys[table];
        let req = self.terms.get(set, of.key).map(|req| self.terms.requirement(req));
        let single = req.filter(|req| !req.open && req.values.len() == 1).and_then(|req| req.values.first());
        single.and_then(|value| crate::domains::position(&of.names, value)).map_or(0, |at| counts[at])
    }

    /// How many domains that a set allows hold pods of a group.
    pub(crate) fn populated_for(&self, set: SetId, table: usize, counts: &[u32]) -> u32 {
        let of = &self.domains.keys[table];
        let own = self.terms.get(set, of.key).map(|req| self.terms.requirement(req));
        let populated = counts.iter().zip(&of.names).filter(|(count, _)| **count > 0);
        populated.filter(|(_, name)| own.is_none_or(|own| own.allows(name))).count() as u32
    }

    /// Where a claim that has not settled may still be launched.
    pub(crate) fn possible_domains(&mut self, claim: &Claim, table: usize) -> SmallVec<[usize; 8]> {
        let key = self.domains.keys[table].key;
        let catalog = self.templates[claim.template].catalog;
        let usable = self.catalogs[catalog].usable(claim.set, &mut self.terms);
        let mut values: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut by_offering = false;
        for profile in usable.profiles.iter().map(|at| &self.catalogs[catalog].profiles[*at]) {
            if let Some(req) = self.terms.get(profile.set, key) {
                by_offering = true;
                if profile.available.intersects(&claim.types) {
                    values.extend(self.terms.requirement(req).values.iter().cloned());
                }
            }
        }
        if !by_offering {
            for (req, _) in self.catalogs[catalog].groups(key).iter().filter(|(_, of)| of.intersects(&claim.types)) {
                values.extend(self.terms.requirement(*req).values.iter().cloned());
            }
        }
        let names = &self.domains.keys[table].names;
        values.iter().filter_map(|value| crate::domains::position(names, value)).collect()
    }

    /// Whether a spread counts what is on a claim: its owner tolerates the taints where it asked for that, and whatever
    /// the claim becomes, the owner's node selection holds.
    fn filter_passes_claim(&mut self, state: &State, id: GroupId, index: usize) -> bool {
        let Some(filter) = self.groups.get(id).filter.clone() else {
            return true;
        };
        let claim = &state.claims[index];
        let taints = &self.templates[claim.template].taints;
        let tolerated = |mine: &Vec<_>| karpenter_core::taints::untolerated(taints, mine).is_none();
        if !filter.tolerations.as_ref().is_none_or(tolerated) {
            return false;
        }
        let Filter { affinity, .. } = filter;
        affinity.is_empty() || affinity.iter().any(|set| self.always_satisfies(claim, *set))
    }

    /// Whether every type and offering the claim may become satisfies the set.
    fn always_satisfies(&mut self, claim: &Claim, asked: SetId) -> bool {
        let catalog = self.templates[claim.template].catalog;
        let usable = self.catalogs[catalog].usable(claim.set, &mut self.terms);
        for (key, req) in self.terms.entries(asked).clone().iter() {
            let wanted = self.terms.requirement(*req).clone();
            let mine = self.terms.get(claim.set, *key).map(|req| self.terms.requirement(req));
            if mine.is_some_and(|mine| settles(mine, &wanted)) {
                continue;
            }
            if !self.terms.is_well_known(*key) {
                if mine.is_none_or(|mine| mine.operator() == Operator::DoesNotExist) && wanted.tolerates_absence() {
                    continue;
                }
                return false;
            }
            let profiles = || usable.profiles.iter().map(|at| &self.catalogs[catalog].profiles[*at]);
            let sold = profiles().filter(|profile| profile.available.intersects(&claim.types));
            let by_offering: Vec<_> = sold.filter_map(|profile| self.terms.get(profile.set, *key)).collect();
            let holds =
                |req: &crate::terms::ReqId| self.terms.requirement(*req).values.iter().all(|v| wanted.allows(v));
            let fine = if by_offering.is_empty() {
                let groups = self.catalogs[catalog].groups(*key);
                let mut groups = groups.iter().filter(|(_, of)| of.intersects(&claim.types));
                groups.all(|(req, _)| holds(req) && !self.terms.requirement(*req).values.is_empty())
            } else {
                by_offering.iter().all(holds)
            };
            if !fine {
                return false;
            }
        }
        true
    }

    /// Whether an existing node that has room has ports and attachments left for a pod; volumes must be reachable.
    pub(crate) fn node_takes(&mut self, state: &State, node: usize, pod: usize) -> bool {
        let class = &self.classes[self.pods[pod].class];
        let target = &state.nodes[node];
        if class.ports.iter().any(|mine| target.ports.iter().any(|theirs| mine.clashes(theirs))) {
            return false;
        }
        if class.has_claims && !self.attachable(state, node, pod) {
            return false;
        }
        let (set, volumes) = (self.nodes[node].set, class.volumes.clone());
        volumes.is_empty() || volumes.iter().any(|asked| self.terms.compatible(set, *asked, false))
    }

    fn attachable(&self, state: &State, node: usize, pod: usize) -> bool {
        let limits = &self.world.nodes[self.nodes[node].index].volume_limits;
        if limits.is_empty() {
            return true;
        }
        let mut volumes = state.nodes[node].volumes.clone();
        let mut touched: BTreeSet<Arc<str>> = BTreeSet::new();
        for (driver, claim) in limited_claims(&self.world.pods[self.pods[pod].index], self.world) {
            volumes.entry(driver.clone()).or_default().insert(claim);
            touched.insert(driver);
        }
        touched.iter().all(|driver| limits.get(driver).is_none_or(|most| volumes[driver].len() <= *most as usize))
    }

    pub(crate) fn put_on_node(&mut self, state: &mut State, node: usize, pod: (usize, usize)) {
        let index = self.pods[pod.0].class;
        let class = &self.classes[index];
        let claims = match class.has_claims {
            true => limited_claims(&self.world.pods[self.pods[pod.0].index], self.world),
            false => Vec::new(),
        };
        state.occupy(node, pod, &class.requests, &class.ports, claims);
        for id in class.counted_in.iter().chain(&class.keeps_out) {
            let (group, of) = (self.groups.get(*id), &self.domains.groups[id.0 as usize]);
            if !passes_node(group.filter.as_ref(), &self.nodes[node], &mut self.terms) {
                continue;
            }
            match of.table {
                None => state.count(*id, Slot::Node(node)),
                Some(table) => {
                    let key = &self.domains.keys[table];
                    if let Some(domain) = key.nodes.iter().position(|of| of.contains(node)) {
                        state.count(*id, Slot::Domain(domain));
                    }
                }
            }
        }
    }
}

impl Problem<'_> {
    /// Whether a group counts what is on an existing node.
    pub(crate) fn group_sees_node(&mut self, id: crate::groups::GroupId, node: usize) -> bool {
        passes_node(self.groups.get(id).filter.as_ref(), &self.nodes[node], &mut self.terms)
    }
}

fn passes_node(filter: Option<&Filter>, node: &crate::existing::ExistingNode, terms: &mut Terms) -> bool {
    let Some(filter) = filter else { return true };
    let tolerated = |mine: &Vec<_>| karpenter_core::taints::untolerated(&node.taints, mine).is_none();
    filter.tolerations.as_ref().is_none_or(tolerated)
        && (filter.affinity.is_empty() || filter.affinity.iter().any(|set| terms.compatible(node.set, *set, false)))
}

/// The set with each short key asking for no more than there is.
fn lower_min_values(set: SetId, short: &[(crate::terms::KeyId, usize)], terms: &mut Terms) -> SetId {
    let mut requirements = terms.to_requirements(set);
    for (key, have) in short {
        let name = terms.key_name(*key).clone();
        if let Some(requirement) = requirements.0.get_mut(&name) {
            requirement.min_values = Some(*have as u32);
        }
    }
    terms.set(&requirements)
}

/// Whether any label a claim can be given under `mine` satisfies `wanted`. What a custom key leaves open becomes some
/// value, though not one that is excluded.
fn settles(mine: &Requirement, wanted: &Requirement) -> bool {
    if mine.open {
        let unbounded = wanted.at_least.is_none() && wanted.at_most.is_none();
        return wanted.open && unbounded && wanted.values.is_subset(&mine.values);
    }
    !mine.values.is_empty() && mine.values.iter().all(|value| wanted.allows(value))
}
