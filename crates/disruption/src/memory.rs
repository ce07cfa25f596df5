//! What one pass leaves for the next.
//!
//! A pass with a memory answers exactly as one without: sooner, never otherwise. When nothing has changed but the time, and
//! the time changes nothing, the answer is the one that was given before. When only pods came and went, the compiled
//! cluster is brought up to date instead of being compiled again, and of what was found out about each node everything
//! stands that rests on nothing that changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::World;
use karpenter_scheduling::what_if::{Base, Kept, PodChanges, WhatIf};

use crate::Proposal;
use crate::balanced::Totals;
use crate::budgets::{self, Allowance};
use crate::calm::Calm;
use crate::command::Method;
use crate::pass;
use crate::snapshot::{NodeFacts, Policy, PoolFacts, Snapshot};
use crate::standing::Standings;
use crate::verdicts::Verdicts;

/// So many pods are put into their places one by one.
const FEW: usize = 16;

/// Starting a thread takes as long as comparing so many nodes.
const LARGE: usize = 500;

/// Starts empty, and is handed to one pass after the other.
#[derive(Debug, Default)]
pub struct Memory {
    last: Option<Box<Last>>,
}

#[derive(Debug)]
struct Last {
    world: World,
    facts: Vec<NodeFacts>,
    pools: BTreeMap<Arc<str>, PoolFacts>,
    policy: Policy,
    moment: Moment,
    standings: Standings,
    /// If nothing is due.
    proposal: Option<Proposal>,
    kept: Option<Kept>,
    found: Option<Found>,
}

/// What was found out about nodes before anything was taken.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) base: Base,
    pub(crate) verdicts: Verdicts,
    /// The node from which on those that are due have their turn.
    pub(crate) turn: usize,
    pub(crate) totals: BTreeMap<Arc<str>, Totals>,
    pub(crate) calm: Calm,
}

/// What a pass may start from.
pub(crate) struct Start<'w> {
    pub(crate) standings: Standings,
    pub(crate) moment: Moment,
    /// The compiled cluster, if it is known.
    pub(crate) what_if: Option<WhatIf<'w>>,
    /// Nodes whose pods are others now, and what was found out before that.
    pub(crate) found: Option<(Vec<u32>, Found)>,
    /// The world as it is now but for the time, if that is known already.
    pub(crate) world: Option<World>,
}

/// What the time makes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// By reason and pool.
    pub(crate) allowances: BTreeMap<&'static str, BTreeMap<Arc<str>, Allowance>>,
    /// Nodes to which no pods are to go.
    pub(crate) closed: Vec<usize>,
    /// Pods that may not be moved for some time.
    protected: Vec<usize>,
    /// What was bought in advance last is long ago.
    begins_again: bool,
}

impl Moment {
    pub(crate) fn new(snapshot: &Snapshot<'_>, policy: &Policy, standings: &Standings) -> Self {
        let reasons = [Method::Empty, Method::Drift, Method::Multi].map(Method::reason);
        let now = snapshot.world.now;
        let closed = closed(snapshot, now);
        Self {
            allowances: budgets::of_each(snapshot, &reasons),
            closed,
            protected: standings.protected(snapshot.world),
            begins_again: policy.begun.is_some_and(|begun| pass::is_long_ago(&begun, now)),
        }
    }
}

/// Nodes that had pods come or go lately: they take none from nodes that leave.
fn closed(snapshot: &Snapshot<'_>, now: Timestamp) -> Vec<usize> {
    let nodes = snapshot.nodes.iter().enumerate();
    nodes.filter(|(_, facts)| facts.is_restless(now)).map(|(at, _)| at).collect()
}

/// What memory makes of a question.
pub(crate) enum Recalled<'w> {
    Answer(Proposal),
    Start(Box<Start<'w>>),
}

impl<'w> Start<'w> {
    /// From nothing.
    pub(crate) fn afresh(snapshot: &Snapshot<'w>, policy: &Policy) -> Self {
        let standings = Standings::new(snapshot, policy);
        let moment = Moment::new(snapshot, policy, &standings);
        Self { standings, moment, what_if: None, found: None, world: None }
    }
}

impl Memory {
    /// Whatever of the last pass is still of use. What is handed out is forgotten until something is learnt again.
    pub(crate) fn recall<'w>(&mut self, snapshot: &Snapshot<'w>, policy: &Policy) -> Recalled<'w> {
        let world = snapshot.world;
        let Some((mut last, changes)) = self.last.take().and_then(|last| comparable(last, world, policy.threads))
        else {
            return Recalled::Start(Box::new(Start::afresh(snapshot, policy)));
        };
        let same_rules = with_history(&last.policy, policy) == without_threads(policy) && last.pools == snapshot.pools;
        let same_history = last.policy.refused == policy.refused && last.policy.begun == policy.begun;
        let same_facts = last.facts == snapshot.nodes && last.world.disruption_budgets == world.disruption_budgets;
        let others = last.standings.follow_pods(&last.world.pods, &world.pods, &changes);
        let mut nodes = others.clone();
        match same_rules {
            true => nodes.extend(last.standings.concerned(&last.world, &last.facts, snapshot)),
            false => nodes = (0..world.nodes.len()).collect(),
        }
        nodes.sort_unstable();
        nodes.dedup();
        let differs = last.standings.look_at(nodes, snapshot, policy);
        let moment = Moment::new(snapshot, policy, &last.standings);
        let same = same_rules && same_history && same_facts && !differs && changes.is_empty() && last.moment == moment;
        if let Some(answer) = last.proposal.clone().filter(|_| same) {
            last.world.now = world.now;
            self.last = Some(last);
            return Recalled::Answer(answer);
        }
        let Last { world: mut before, standings, kept, found, .. } = *last;
        let carried = kept.and_then(|kept| {
            let pods_on = |node: usize| standings.pods_on[node].as_slice();
            kept.carry(&before, world, &changes, &standings.movable(), pods_on)
        });
        let found = found.filter(|_| same_rules && carried.is_some());
        let found = found.map(|found| (others.iter().map(|node| *node as u32).collect(), found));
        bring_up_to_date(&mut before, world, &changes);
        Recalled::Start(Box::new(Start { standings, moment, what_if: carried, found, world: Some(before) }))
    }

    pub(crate) fn learn(&mut self, snapshot: &Snapshot<'_>, policy: &Policy, start: Start<'_>, proposal: &Proposal) {
        self.last = Some(Box::new(Last {
            world: start.world.unwrap_or_else(|| snapshot.world.clone()),
            facts: snapshot.nodes.clone(),
            pools: snapshot.pools.clone(),
            policy: without_threads(policy),
            moment: start.moment,
            standings: start.standings,
            proposal: (proposal.due == 0).then(|| proposal.clone()),
            kept: start.what_if.map(WhatIf::keep),
            found: start.found.map(|(_, found)| found),
        }));
    }
}

/// What changed, if nothing but pods did. There is much to compare, and two can do it.
fn comparable(last: Box<Last>, world: &World, threads: usize) -> Option<(Box<Last>, PodChanges)> {
    let pods = || PodChanges::between(&last.world.pods, &world.pods);
    let changes = match threads > 1 && world.nodes.len() > LARGE {
        false => same_but_for_pods(&last.world, world).then(pods),
        true => std::thread::scope(|scope| {
            let changes = scope.spawn(pods);
            let same = same_but_for_pods(&last.world, world);
            let changes = changes.join().expect("a thread panics only by our bug");
            same.then_some(changes)
        }),
    };
    changes.map(|changes| (last, changes))
}

/// How many look does not matter to what they see.
fn without_threads(policy: &Policy) -> Policy {
    Policy { threads: 0, ..policy.clone() }
}

/// As if what was refused and begun had been the same: what is found out about nodes does not depend on it.
fn with_history(before: &Policy, now: &Policy) -> Policy {
    Policy { refused: now.refused.clone(), begun: now.begun, ..before.clone() }
}

/// Copies what changed, rather than everything.
fn bring_up_to_date(before: &mut World, now: &World, changes: &PodChanges) {
    before.now = now.now;
    before.disruption_budgets.clone_from(&now.disruption_budgets);
    let gone: Vec<usize> = changes.gone().collect();
    if !changes.is_in_order() || gone.len() + changes.new.len() > FEW {
        before.pods.clone_from(&now.pods);
        return;
    }
    for pod in gone.into_iter().rev() {
        before.pods.remove(pod);
    }
    for pod in &changes.new {
        before.pods.insert(*pod as usize, now.pods[*pod as usize].clone());
    }
}

impl Found {
    /// What still holds for the what-if as it is now.
    pub(crate) fn still(
        self,
        what_if: &mut WhatIf<'_>,
        others: &[u32],
        totals: &BTreeMap<Arc<str>, Totals>,
        calm: &Calm,
    ) -> (Verdicts, usize, Base) {
        let mut verdicts = self.verdicts;
        let mut shift = what_if.shift_from(&self.base);
        shift.changes.everything |= self.totals != *totals || self.calm != *calm;
        shift.changes.nodes.extend(others);
        verdicts.shift(&shift, what_if);
        (verdicts, self.turn, what_if.rebase(self.base))
    }
}

/// Whether two worlds differ in nothing but pods, their budgets and the time. What is shared is not compared.
/// PodDisruptionBudgets decide who may move, which is found out anew in every pass.
fn same_but_for_pods(a: &World, b: &World) -> bool {
    a.pools == b.pools
        && a.nodes == b.nodes
        && a.daemon_sets == b.daemon_sets
        && a.namespaces == b.namespaces
        && a.storage == b.storage
        && a.services == b.services
        && a.workload_selectors == b.workload_selectors
        && a.settings == b.settings
        && (Arc::ptr_eq(&a.vocabulary, &b.vocabulary) || a.vocabulary == b.vocabulary)
}
