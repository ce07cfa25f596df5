//! Whether commands that were decided some time ago still hold, in the cluster as it is now.
//!
//! The same rules decide and validate: who may be disrupted is [`Standing::of`], where pods go is [`WhatIf::leave`], and what
//! a command assumed beside the snapshot it carries along. So a command validated on the snapshot it was decided on holds,
//! which `tests/budgets.rs` of the `verify` crate checks on random clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_scheduling::what_if::{Narrowing, WhatIf};
use rustc_hash::FxHashMap;

use crate::budgets;
use crate::candidate::{Blocked, Candidate, Cluster};
use crate::command::{Command, Method};
use crate::decision::Reason;
use crate::snapshot::{Policy, Snapshot};
use crate::standing::{Interest, Standing, Standings};

/// The cluster as it is now, less what the commands that were validated already take from it.
pub struct Validation<'s, 'w> {
    snapshot: &'s Snapshot<'w>,
    standings: BTreeMap<Arc<str>, Option<Standing>>,
    /// By pool and reason. A node that goes counts for every reason.
    left: BTreeMap<(Arc<str>, &'static str), u32>,
    what_if: WhatIf<'w>,
    /// The same with pending pods placed together with those that move, if any are pending.
    with_pending: Option<WhatIf<'w>>,
    /// Nodes that take no pods but those of drifted nodes.
    restless: Vec<usize>,
    /// Nodes that commands take away, and which take no pods of anybody.
    gone: BTreeSet<usize>,
    at: FxHashMap<&'w str, usize>,
}

/// What became of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Validated {
    /// The nodes that may go, by name.
    pub held: BTreeSet<Arc<str>>,
    /// Those that could go, but for a budget.
    pub over_budget: BTreeSet<Arc<str>>,
    /// How many candidates count as failed.
    pub failed: usize,
    pub refused: Option<Refusal>,
}

/// Why a command is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A node is no candidate any more.
    Churn,
    /// A node is nominated for a pod, or a budget has no room.
    Budget,
    /// The pods would go elsewhere now.
    Scheduling,
}

impl Refusal {
    /// As upstream's events and metrics name it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
        }
    }
}

impl<'s, 'w> Validation<'s, 'w> {
    pub fn new<'c>(
        snapshot: &'s Snapshot<'w>,
        policy: &Policy,
        commands: impl IntoIterator<Item = &'c Command>,
    ) -> Self {
        let world = snapshot.world;
        let at: FxHashMap<&str, usize> = world.nodes.iter().enumerate().map(|(at, node)| (&*node.name, at)).collect();
        let mut cluster = Cluster::new(snapshot);
        let mut standings = BTreeMap::new();
        for command in commands {
            let concerned = command.all_candidates().map(|candidate| &candidate.name).chain(&*command.assumes.going);
            for name in concerned {
                let of = || at.get(&**name).and_then(|at| Standing::of(&mut cluster, policy, *at));
                standings.entry(name.clone()).or_insert_with(of);
            }
        }
        let candidates = |standing: &'_ Standing| [standing.candidate.clone(), standing.drifted.clone()];
        let candidates = standings.values().flatten().flat_map(candidates).flatten();
        let mut movable: Vec<usize> = candidates.flat_map(|candidate| candidate.pods.clone()).collect();
        movable.sort_unstable();
        movable.dedup();
        let mut what_if = WhatIf::new(world, &movable);
        // A node that had pods come or go lately takes none from nodes that leave.
        let restless = (0..snapshot.nodes.len()).filter(|at| snapshot.nodes[*at].is_restless(world.now));
        let restless = what_if.close_all(&restless.collect::<Vec<_>>());
        let with_pending = what_if.together(&movable);
        let mut left = BTreeMap::new();
        for reason in [Method::Empty, Method::Drift, Method::Multi].map(Method::reason) {
            for (pool, allowance) in budgets::allowances(snapshot, reason) {
                left.insert((pool, reason), allowance.left());
            }
        }
        Self { snapshot, standings, left, what_if, with_pending, restless, gone: BTreeSet::new(), at }
    }

    /// As [`Self::new`], by what a pass has worked out already: `what_if` is the cluster as consolidation found it.
    pub(crate) fn within_pass(
        snapshot: &'s Snapshot<'w>,
        standings: &Standings,
        left: BTreeMap<(Arc<str>, &'static str), u32>,
        what_if: WhatIf<'w>,
        movable: &[usize],
    ) -> Self {
        let world = snapshot.world;
        let at = world.nodes.iter().enumerate().map(|(at, node)| (&*node.name, at)).collect();
        let named = world.nodes.iter().zip(&standings.of).filter(|(_, standing)| standing.is_some());
        let standings = named.map(|(node, standing)| (node.name.clone(), standing.clone())).collect();
        let with_pending = what_if.together(movable);
        let (restless, gone) = Default::default();
        Self { snapshot, standings, left, what_if, with_pending, restless, gone, at }
    }

    /// In the order in which they were decided, empty nodes first. What holds, the next command finds gone.
    pub fn validate(&mut self, command: &Command) -> Validated {
        match command.method {
            Method::Empty => self.still_empty(command),
            Method::StaticDrift | Method::Multi | Method::Single => self.still_worth_it(command),
            Method::Drift => {
                let mut restless = std::mem::take(&mut self.restless);
                restless.retain(|node| !self.gone.contains(node));
                self.each_what_if(|what_if| what_if.reopen(&restless));
                let validated = self.still_worth_it(command);
                self.each_what_if(|what_if| restless.iter().for_each(|node| what_if.close(*node)));
                self.restless = restless;
                validated
            }
        }
    }

    /// One by one: what holds goes.
    fn still_empty(&mut self, command: &Command) -> Validated {
        let (mut validated, mut candidates, mut leaving) = (Validated::default(), 0, Vec::new());
        for before in &command.candidates {
            let Ok(candidate) = self.eligible(&before.name, command.method) else { continue };
            candidates += 1;
            // Whoever waits for a budget goes as well: nobody is to be moved onto it meanwhile.
            leaving.push(candidate.node);
            let wanted = count([&candidate.pool]);
            if self.has_left(Method::Empty.reason(), &wanted) {
                self.take(&wanted);
                validated.held.insert(candidate.name.clone());
            } else {
                validated.failed += 1;
                validated.over_budget.insert(candidate.name.clone());
            }
        }
        self.gone.extend(&leaving);
        // They take no pods of other commands. Nobody moves, so this cannot fail.
        self.each_what_if(|what_if| {
            let _ = what_if.leave(&leaving, &[]);
            what_if.settle();
        });
        if candidates == 0 {
            validated.failed = command.candidates.len();
            validated.refused = Some(Refusal::Churn);
        } else if validated.held.is_empty() {
            validated.refused = Some(Refusal::Budget);
        }
        validated
    }

    /// All or nothing: every node still a candidate and within budgets, and its pods placed as it was decided.
    fn still_worth_it(&mut self, command: &Command) -> Validated {
        let refused = |why: Refusal| {
            let failed = if why == Refusal::Scheduling { 0 } else { command.candidates.len() };
            Validated { failed, refused: Some(why), ..Validated::default() }
        };
        let (mut nodes, mut pods) = (Vec::new(), Vec::new());
        // Nodes that are to go later are asked as well: what is bought is bought for all of them.
        for before in command.all_candidates() {
            match self.eligible(&before.name, command.method) {
                Ok(candidate) => {
                    nodes.push(candidate.node);
                    pods.extend(candidate.pods.iter().copied());
                }
                Err(why) => return refused(why),
            }
        }
        if command.method == Method::StaticDrift {
            // Another like it comes before it goes, whatever its pods need.
            self.each_what_if(|what_if| nodes.iter().for_each(|node| what_if.close(*node)));
        } else if !self.places(command, &nodes, &pods) {
            return refused(Refusal::Scheduling);
        }
        self.gone.extend(&nodes);
        let wanted = count(command.candidates.iter().map(|candidate| &candidate.pool));
        let names = command.candidates.iter().map(|candidate| candidate.name.clone()).collect();
        if !self.has_left(command.method.reason(), &wanted) {
            // It goes as soon as there is room, and the commands after it were decided on what it leaves behind.
            return Validated { over_budget: names, ..refused(Refusal::Budget) };
        }
        self.take(&wanted);
        Validated { held: names, ..Validated::default() }
    }

    fn each_what_if(&mut self, act: impl Fn(&mut WhatIf<'w>)) {
        [Some(&mut self.what_if), self.with_pending.as_mut()].into_iter().flatten().for_each(act);
    }

    /// The node as a candidate that this method still looks at.
    fn eligible(&self, name: &Arc<str>, method: Method) -> Result<Arc<Candidate>, Refusal> {
        let standing = self.standings.get(name).and_then(Option::as_ref).ok_or(Refusal::Churn)?;
        let interesting = |interest: Interest| standing.candidate.as_ref().filter(|_| standing.interest == interest);
        let looked_at = match method {
            Method::Empty => interesting(Interest::Empty),
            Method::StaticDrift | Method::Drift => standing.drifted.as_ref(),
            Method::Multi | Method::Single => interesting(Interest::Underutilized),
        };
        match looked_at {
            Some(candidate) => Ok(candidate.clone()),
            None if standing.reasons.contains(&Reason::Blocked(Blocked::Nominated)) => Err(Refusal::Budget),
            None => Err(Refusal::Churn),
        }
    }

    /// Whether the pods find places with as many new nodes as the command buys, each of which could be what it buys, under
    /// what the command assumed. What holds, the next command finds gone.
    fn places(&mut self, command: &Command, nodes: &[usize], pods: &[usize]) -> bool {
        let going = command.assumes.going.iter().filter(|name| self.is_going(name));
        let assumed = command.assumes.closed.iter().chain(going).filter_map(|name| self.at.get(&**name).copied());
        let assumed: Vec<usize> = assumed.filter(|node| !nodes.contains(node)).collect();
        let (first, second) = match &mut self.with_pending {
            Some(with_pending) if command.assumes.with_pending => (with_pending, Some(&mut self.what_if)),
            with_pending => (&mut self.what_if, with_pending.as_mut()),
        };
        let (mark, closed) = (first.mark(), first.close_all(&assumed));
        let placed = match first.leave(nodes, pods) {
            Ok(housing) => housing.new_nodes == command.replacements.len() && covers(first, self.snapshot, command),
            Err(_) => false,
        };
        if !placed {
            first.rollback(mark);
            first.reopen(&closed);
            return false;
        }
        first.settle();
        first.reopen(&closed);
        if let Some(second) = second {
            let (mark, closed) = (second.mark(), second.close_all(&assumed));
            match second.leave(nodes, pods) {
                Ok(_) => second.settle(),
                // Seen that way they find no place, which was not asked; the nodes go all the same.
                Err(_) => {
                    second.rollback(mark);
                    nodes.iter().for_each(|node| second.close(*node));
                }
            }
            second.reopen(&closed);
        }
        true
    }

    /// Whether a node that was empty or drifted still is.
    fn is_going(&self, name: &Arc<str>) -> bool {
        let standing = self.standings.get(name).and_then(Option::as_ref);
        standing.is_some_and(|standing| standing.interest == Interest::Empty || standing.drifted.is_some())
    }

    fn has_left(&self, reason: &'static str, wanted: &BTreeMap<Arc<str>, u32>) -> bool {
        let left = |pool: &Arc<str>| self.left.get(&(pool.clone(), reason)).copied().unwrap_or(0);
        wanted.iter().all(|(pool, count)| left(pool) >= *count)
    }

    /// From the budgets for every reason.
    fn take(&mut self, wanted: &BTreeMap<Arc<str>, u32>) {
        for ((pool, _), left) in &mut self.left {
            *left = left.saturating_sub(wanted.get(pool).copied().unwrap_or(0));
        }
    }
}

fn count<'p>(pools: impl IntoIterator<Item = &'p Arc<str>>) -> BTreeMap<Arc<str>, u32> {
    let mut counted = BTreeMap::new();
    pools.into_iter().for_each(|pool| *counted.entry(pool.clone()).or_default() += 1);
    counted
}

/// Whether the types the command would buy are all among those that would do now.
fn covers(what_if: &mut WhatIf<'_>, snapshot: &Snapshot<'_>, command: &Command) -> bool {
    command.replacements.iter().enumerate().all(|(new, wanted)| {
        let pool = &snapshot.world.pools[what_if.pool_of(new)];
        let offers = what_if.offers(new, Narrowing::None);
        let would_do: BTreeSet<&str> = offers.iter().map(|offer| &*pool.instance_types[offer.kind].name).collect();
        pool.name == wanted.pool && wanted.instance_types.iter().all(|name| would_do.contains(&**name))
    })
}

#[cfg(test)]
mod tests;
