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

use crate::balanced::Totals;
use crate::candidate::Candidate;
use crate::pass::Pass;
use crate::snapshot::{Policy, PoolFacts, Snapshot};
use crate::verdicts::Verdicts;
use crate::{Proposal, pods};

/// So many pods are put into their places one by one.
const FEW: usize = 16;

/// Starts empty, and is handed to one pass after the other.
#[derive(Debug, Default)]
pub struct Memory {
    last: Option<Box<Last>>,
}

#[derive(Debug)]
struct Last {
    world: World,
    question: Question,
    proposal: Proposal,
    kept: Kept,
    found: Option<Found>,
}

/// What was found out about nodes before anything was taken.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) base: Base,
    pub(crate) verdicts: Verdicts,
    pub(crate) totals: BTreeMap<Arc<str>, Totals>,
}

/// What a pass may start from.
pub(crate) struct Start<'w> {
    pub(crate) what_if: WhatIf<'w>,
    /// Nodes whose pods are others now, and what was found out before that.
    pub(crate) found: Option<(Vec<u32>, Found)>,
    /// The world as it is now but for the time, if that is known already.
    pub(crate) world: Option<World>,
}

/// Everything but the world that an answer depends on, with what the time makes of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Question {
    pass: Pass,
    policy: Policy,
    pools: BTreeMap<Arc<str>, PoolFacts>,
    /// Nodes to which no pods are to go.
    closed: Vec<usize>,
    /// Pods that may not be moved for some time.
    protected: Vec<usize>,
}

impl Question {
    pub(crate) fn new(snapshot: &Snapshot<'_>, policy: &Policy, pass: &Pass) -> Self {
        let now = snapshot.world.now;
        let pods = snapshot.world.pods.iter().enumerate();
        let protected = pods.filter(|(_, pod)| pod.shape.do_not_disrupt.is_some() && pods::is_protected(pod, now));
        Self {
            pass: pass.clone(),
            // How many look does not matter to what they see.
            policy: Policy { threads: 0, ..policy.clone() },
            pools: snapshot.pools.clone(),
            closed: closed(snapshot, now),
            protected: protected.map(|(at, _)| at).collect(),
        }
    }
}

/// Nodes that had pods come or go lately: they take none from nodes that leave.
pub(crate) fn closed(snapshot: &Snapshot<'_>, now: Timestamp) -> Vec<usize> {
    let nodes = snapshot.nodes.iter().enumerate();
    nodes.filter(|(_, facts)| facts.quiet_from.is_some_and(|end| now < end)).map(|(at, _)| at).collect()
}

/// What memory makes of a question.
pub(crate) enum Recalled<'w> {
    Answer(Proposal),
    Start(Box<Start<'w>>),
    Nothing,
}

impl Memory {
    /// Whatever of the last pass is still of use. What is handed out is forgotten until something is learnt again.
    pub(crate) fn recall<'w>(&mut self, world: &'w World, question: &Question, movable: &[usize]) -> Recalled<'w> {
        let Some(last) = self.last.take() else { return Recalled::Nothing };
        if !same_but_for_pods(&last.world, world) {
            return Recalled::Nothing;
        }
        let changes = PodChanges::between(&last.world.pods, &world.pods);
        let in_place = changes.same.iter().enumerate().all(|(at, now)| *now == Some(at as u32));
        let same_budgets = last.world.disruption_budgets == world.disruption_budgets;
        if in_place && changes.new.is_empty() && same_budgets && last.question == *question {
            let answer = last.proposal.clone();
            self.last = Some(last);
            return Recalled::Answer(answer);
        }
        let Last { world: mut before, question: asked, kept, found, .. } = *last;
        let found = found.filter(|_| asked.policy == question.policy && asked.pools == question.pools);
        match kept.carry(&before, world, &changes, movable) {
            Some(what_if) => {
                let found = found.map(|found| (others_now(&before, world, &changes), found));
                bring_up_to_date(&mut before, world, &changes);
                Recalled::Start(Box::new(Start { what_if, found, world: Some(before) }))
            }
            None => Recalled::Nothing,
        }
    }

    pub(crate) fn learn(
        &mut self,
        world: World,
        question: Question,
        proposal: &Proposal,
        kept: Kept,
        found: Option<Found>,
    ) {
        let proposal = proposal.clone();
        self.last = Some(Box::new(Last { world, question, proposal, kept, found }));
    }
}

/// Copies what changed, rather than everything.
fn bring_up_to_date(before: &mut World, now: &World, changes: &PodChanges) {
    before.now = now.now;
    before.disruption_budgets.clone_from(&now.disruption_budgets);
    let gone: Vec<usize> = changes.gone().collect();
    let in_order = changes.same.iter().flatten().is_sorted();
    if !in_order || gone.len() + changes.new.len() > FEW {
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

/// Nodes that pods came to, left or changed on.
fn others_now(before: &World, now: &World, changes: &PodChanges) -> Vec<u32> {
    let gone = changes.gone().map(|pod| &before.pods[pod]);
    let names = gone.chain(changes.new.iter().map(|pod| &now.pods[*pod as usize])).filter_map(|pod| pod.node.as_ref());
    let names: std::collections::BTreeSet<&str> = names.map(|name| &**name).collect();
    let nodes = now.nodes.iter().enumerate();
    nodes.filter(|(_, node)| names.contains(&*node.name)).map(|(at, _)| at as u32).collect()
}

impl Found {
    /// What still holds for the what-if as it is now.
    pub(crate) fn still(
        self,
        what_if: &mut WhatIf<'_>,
        others: &[u32],
        totals: &BTreeMap<Arc<str>, Totals>,
        candidates: &[Candidate],
    ) -> Verdicts {
        let mut verdicts = self.verdicts;
        let mut shift = what_if.shift_from(&self.base);
        shift.changes.everything |= self.totals != *totals;
        if !shift.changes.everything {
            shift.changes.nodes.extend(others);
            let drawn = candidates.iter().filter(|of| of.pods.iter().any(|pod| what_if.is_drawn(&shift, *pod)));
            let drawn: Vec<u32> = drawn.map(|candidate| candidate.node as u32).collect();
            shift.changes.nodes.extend(drawn);
        }
        verdicts.forget(&shift.changes);
        verdicts
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
