//! Where topology lets a pod go: the acceptable domains of each key, and what a target is narrowed to.

use std::sync::Arc;

use karpenter_core::Requirement;
use smallvec::SmallVec;

use crate::bits::Bits;
use crate::groups::{GroupId, Kind};
use crate::problem::Problem;
use crate::state::State;
use crate::terms::{ReqId, SetId};

/// How many combinations of domains of several keys are tried for one target. Two keys of eight domains fit.
const MOST_COMBINATIONS: usize = 64;

/// What one key's groups leave of a target.
struct Choice {
    table: usize,
    acceptable: Bits,
    /// The target must settle on one domain: a spread counts there, a first affine pod decides where.
    settle: bool,
    /// Some group leaves less than the target allows, or wants to know where it will be.
    narrow: bool,
    /// In the order in which domains are tried.
    order: Vec<usize>,
}

/// Hosts that hostname groups leave to a pod.
pub(crate) struct Hosts {
    /// Present where an affinity leaves only some.
    pub(crate) nodes: Option<Bits>,
    pub(crate) claims: Option<Bits>,
    pub(crate) without_nodes: Bits,
    pub(crate) without_claims: Bits,
    pub(crate) new_allowed: bool,
}

impl Problem<'_> {
    /// The groups that decide about a variant of a class: its own, and others' anti-affinity.
    pub(crate) fn deciding(&self, class: usize, variant: usize) -> impl Iterator<Item = GroupId> + '_ {
        let class = &self.classes[class];
        class.variants[variant].owned.iter().chain(&class.kept_out_by).copied()
    }

    fn counts_itself(&self, class: usize, group: GroupId) -> bool {
        self.classes[class].counted_in.binary_search(&group).is_ok()
    }

    pub(crate) fn has_keyed_groups(&self, class: usize, variant: usize) -> bool {
        self.deciding(class, variant).any(|group| !self.group_is_hostname(group))
    }

    /// What hostname groups leave. A new node can always be made, so a spread's least count is zero.
    pub(crate) fn hosts(&self, state: &State, class: usize, variant: usize) -> Hosts {
        let mut hosts = Hosts {
            nodes: None,
            claims: None,
            without_nodes: Bits::new(),
            without_claims: Bits::new(),
            new_allowed: true,
        };
        for id in self.deciding(class, variant) {
            let group = self.groups.get(id);
            if !group.is_hostname() {
                continue;
            }
            let counts = &state.groups[id.0 as usize];
            let counts_itself = self.counts_itself(class, id);
            match group.kind {
                Kind::Spread => {
                    let full = |of: &crate::state::HostCounts| {
                        if counts_itself { of.full.clone() } else { of.over.clone() }
                    };
                    hosts.without_nodes.or(&full(&counts.nodes));
                    hosts.without_claims.or(&full(&counts.claims));
                    hosts.new_allowed &= i64::from(counts_itself) <= group.max_skew;
                }
                Kind::AntiAffinity | Kind::Inverse => {
                    hosts.without_nodes.or(&counts.nodes.some);
                    hosts.without_claims.or(&counts.claims.some);
                }
                Kind::Affinity => {
                    if counts_itself && counts.populated == 0 {
                        continue; // the first of its kind may go anywhere
                    }
                    let narrow = |to: &mut Option<Bits>, some: &Bits| match to {
                        Some(bits) => bits.and(some),
                        None => *to = Some(some.clone()),
                    };
                    narrow(&mut hosts.nodes, &counts.nodes.some);
                    narrow(&mut hosts.claims, &counts.claims.some);
                    hosts.new_allowed = false;
                }
            }
        }
        hosts
    }

    /// Existing nodes whose domains every key's groups accept.
    pub(crate) fn keep_acceptable_nodes(&mut self, state: &State, class: usize, variant: usize, nodes: &mut Bits) {
        let ids: SmallVec<[GroupId; 8]> =
            self.deciding(class, variant).filter(|id| !self.group_is_hostname(*id)).collect();
        for id in ids {
            let table = self.domains.groups[id.0 as usize].table.expect("the key is not the hostname");
            let all = self.domains.allowed(table, None, &self.terms);
            let kind = self.groups.get(id).kind;
            let mut acceptable = Bits::clone(&all);
            self.accept(state, class, variant, id, table, &mut acceptable);
            let mut mask = Bits::zeros(self.nodes.len());
            let mut labelled = Bits::zeros(self.nodes.len());
            for (at, of) in self.domains.keys[table].nodes.iter().enumerate() {
                labelled.or(of);
                if acceptable.contains(at) {
                    mask.or(of);
                }
            }
            if kind == Kind::Inverse {
                let mut unlabelled = Bits::full(self.nodes.len());
                unlabelled.and_not(&labelled);
                mask.or(&unlabelled);
            }
            nodes.and(&mask);
        }
    }

    /// What a claim with this set is narrowed to, alternatives in the order in which they are tried; none where topology
    /// rules the claim out.
    pub(crate) fn narrowed(&mut self, state: &State, class: usize, variant: usize, set: SetId) -> SmallVec<[SetId; 4]> {
        if !self.has_keyed_groups(class, variant) {
            return SmallVec::from_elem(set, 1);
        }
        let Some(choices) = self.choices(state, class, variant, set) else {
            return SmallVec::new();
        };
        let mut sets: SmallVec<[SetId; 4]> = SmallVec::from_elem(set, 1);
        for choice in choices.into_iter().filter(|choice| choice.narrow) {
            let mut next: SmallVec<[SetId; 4]> = SmallVec::new();
            for set in &sets {
                if choice.settle {
                    for domain in &choice.order {
                        let req = self.domain_req(choice.table, std::iter::once(*domain));
                        next.extend(self.narrow(*set, choice.table, req));
                    }
                } else {
                    let req = self.domain_req(choice.table, choice.acceptable.iter());
                    next.extend(self.narrow(*set, choice.table, req));
                }
            }
            next.truncate(MOST_COMBINATIONS);
            sets = next;
        }
        sets
    }

    fn narrow(&mut self, set: SetId, table: usize, req: ReqId) -> Option<SetId> {
        let asked = self.terms.single(self.domains.keys[table].key, req);
        self.terms.join(set, asked)
    }

    pub(crate) fn domain_req(&mut self, table: usize, domains: impl Iterator<Item = usize>) -> ReqId {
        let names = &self.domains.keys[table].names;
        let mut values: SmallVec<[&Arc<str>; 8]> = domains.map(|at| &names[at]).collect();
        if values.len() == 1 {
            let value = values.pop().expect("there is one").clone();
            return self.terms.one(&value);
        }
        let requirement =
            Requirement { open: false, values: values.into_iter().cloned().collect(), ..Requirement::any() };
        self.terms.req(&requirement)
    }

    fn choices(&mut self, state: &State, class: usize, variant: usize, set: SetId) -> Option<SmallVec<[Choice; 2]>> {
        let mut choices: SmallVec<[Choice; 2]> = SmallVec::new();
        let ids: SmallVec<[GroupId; 8]> =
            self.deciding(class, variant).filter(|id| !self.group_is_hostname(*id)).collect();
        for id in &ids {
            let table = self.domains.groups[id.0 as usize].table.expect("the key is not the hostname");
            let key = self.domains.keys[table].key;
            let req = self.terms.get(set, key);
            let undefined = req.is_none() && !self.terms.is_well_known(key);
            if undefined {
                // The node will not carry the label: others' anti-affinity has nothing to hold against it.
                if self.groups.get(*id).kind == Kind::Inverse {
                    continue;
                }
                return None;
            }
            let at = match choices.iter().position(|choice| choice.table == table) {
                Some(at) => at,
                None => {
                    let acceptable = Bits::clone(&self.domains.allowed(table, req, &self.terms));
                    choices.push(Choice { table, acceptable, settle: false, narrow: false, order: Vec::new() });
                    choices.len() - 1
                }
            };
            let mut acceptable = std::mem::take(&mut choices[at].acceptable);
            let before = acceptable.clone();
            choices[at].settle |= self.accept(state, class, variant, *id, table, &mut acceptable);
            if acceptable.is_empty() {
                return None;
            }
            choices[at].narrow |= self.groups.get(*id).kind != Kind::Inverse || acceptable != before;
            choices[at].acceptable = acceptable;
        }
        for choice in &mut choices {
            choice.order = self.in_order(state, class, variant, choice);
        }
        Some(choices)
    }

    /// Emptiest first by the counts of the spreads that decide here; equal ones by name.
    fn in_order(&self, state: &State, class: usize, variant: usize, choice: &Choice) -> Vec<usize> {
        let mut order: Vec<usize> = choice.acceptable.iter().collect();
        if choice.settle {
            let spreads: SmallVec<[GroupId; 4]> = self
                .deciding(class, variant)
                .filter(|id| {
                    self.groups.get(*id).kind == Kind::Spread
                        && self.domains.groups[id.0 as usize].table == Some(choice.table)
                })
                .collect();
            order.sort_by_key(|domain| {
                let count: u64 = spreads.iter().map(|id| u64::from(state.groups[id.0 as usize].domains[*domain])).sum();
                (count, state.ties().domains.rank(*domain))
            });
        }
        order
    }

    /// Cuts the domains down to those a group accepts; whether the target must settle on one of them.
    pub(crate) fn accept(
        &mut self,
        state: &State,
        class: usize,
        variant: usize,
        id: GroupId,
        table: usize,
        acceptable: &mut Bits,
    ) -> bool {
        let strict = self.classes[class].variants[variant].strict;
        let own_req = self.terms.get(strict, self.domains.keys[table].key);
        let own = self.domains.allowed(table, own_req, &self.terms);
        let group = self.groups.get(id);
        let known = &self.domains.groups[id.0 as usize].known;
        let counts = &state.groups[id.0 as usize].domains;
        let itself = u32::from(self.classes[class].counted_in.binary_search(&id).is_ok());
        match group.kind {
            Kind::Spread => {
                let max_skew = group.max_skew;
                let least = self.least(class, variant, id, &|domain| i64::from(counts[domain]));
                let known = &self.domains.groups[id.0 as usize].known;
                let fits = |domain: &usize| i64::from(counts[*domain] + itself) - least <= max_skew;
                let fitting: Bits = acceptable.iter().filter(|domain| known.contains(*domain)).filter(fits).collect();
                *acceptable = fitting;
                true
            }
            Kind::Affinity => {
                let populated: Bits = own.iter().filter(|domain| counts[*domain] > 0).collect();
                if acceptable.intersects(&populated) {
                    acceptable.and(&populated);
                    return false;
                }
                if itself == 1 && populated.is_empty() {
                    acceptable.and(&own);
                    acceptable.and(known);
                    return true;
                }
                *acceptable = Bits::new();
                false
            }
            Kind::AntiAffinity => {
                let empty: Bits = known.iter().filter(|domain| counts[*domain] == 0).collect();
                acceptable.and(&empty);
                acceptable.and(&own);
                false
            }
            Kind::Inverse => {
                let taken: Bits =
                    counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(at, _)| at).collect();
                acceptable.and_not(&taken);
                false
            }
        }
    }

    /// The count of the emptiest domain that a pod could use.
    pub(crate) fn least(&mut self, class: usize, variant: usize, id: GroupId, count: &dyn Fn(usize) -> i64) -> i64 {
        let of = &self.domains.groups[id.0 as usize];
        let table = of.table.expect("the key is not the hostname");
        let strict = self.classes[class].variants[variant].strict;
        let own_req = self.terms.get(strict, self.domains.keys[table].key);
        let own = self.domains.allowed(table, own_req, &self.terms);
        let known = &self.domains.groups[id.0 as usize].known;
        let (eligible, least) = known
            .iter()
            .filter(|domain| own.contains(*domain))
            .fold((0_i64, i64::MAX), |(eligible, least), domain| (eligible + 1, least.min(count(domain))));
        if self.groups.get(id).min_domains.is_some_and(|wanted| eligible < wanted) { 0 } else { least }
    }
}
