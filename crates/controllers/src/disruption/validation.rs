//! Whether commands still hold after a while, looked at anew from what the cluster is now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_disruption::candidate::{Class, Cluster};
use karpenter_disruption::{Blocked, Candidate, Command, ConsolidationPolicy, Method, Snapshot, budgets};
use karpenter_scheduling::what_if::{Narrowing, WhatIf};
use rustc_hash::FxHashMap;

/// The cluster at the second look, and what is left of it while one command after the other is looked at.
pub(super) struct Second<'s, 'w> {
    snapshot: &'s Snapshot<'w>,
    paused: bool,
    /// What each node is now: a candidate, or why not.
    now: BTreeMap<Arc<str>, Result<Candidate, Blocked>>,
    left: BTreeMap<(&'static str, Arc<str>), u32>,
    what_if: WhatIf<'w>,
}

/// What became of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The nodes that may go, by name.
    pub(super) held: BTreeSet<Arc<str>>,
    /// How many candidates count as failed.
    pub(super) failed: usize,
    pub(super) rejected: Option<Rejected>,
}

/// Why a command is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// A node is no candidate any more.
    Churn,
    /// A node was promised to a pod, or a budget has no room.
    Budget,
    /// The pods would go elsewhere now.
    Scheduling,
}

impl Rejected {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
        }
    }
}

impl<'s, 'w> Second<'s, 'w> {
    pub(super) fn look<'c>(
        snapshot: &'s Snapshot<'w>,
        paused: bool,
        commands: impl IntoIterator<Item = &'c Command>,
    ) -> Self {
        let names: FxHashMap<&str, usize> =
            snapshot.world.nodes.iter().enumerate().map(|(at, node)| (&*node.name, at)).collect();
        let mut cluster = Cluster::new(snapshot);
        let mut now = BTreeMap::new();
        for candidate in commands.into_iter().flat_map(|command| &command.candidates) {
            let found = match names.get(&*candidate.name) {
                Some(at) => cluster.candidate(*at, Class::Graceful),
                None => Err(Blocked::NoNode),
            };
            now.insert(candidate.name.clone(), found);
        }
        let mut left = BTreeMap::new();
        for reason in [Method::Empty, Method::Multi].map(Method::reason) {
            for (pool, allowance) in budgets::allowances(snapshot, reason) {
                left.insert((reason, pool), allowance.left());
            }
        }
        let movable: Vec<usize> = now.values().flatten().flat_map(|candidate| candidate.pods.clone()).collect();
        let mut what_if = WhatIf::new(snapshot.world, &movable);
        for (index, facts) in snapshot.nodes.iter().enumerate() {
            // A node in its own quiet time takes no pods of those that leave.
            if facts.quiet_from.is_some_and(|end| snapshot.world.now < end) {
                what_if.close(index);
            }
        }
        Self { snapshot, paused, now, left, what_if }
    }

    pub(super) fn judge(&mut self, command: &Command) -> Verdict {
        match command.method {
            Method::Empty => self.still_empty(command),
            Method::StaticDrift | Method::Drift | Method::Multi | Method::Single => self.still_worth_it(command),
        }
    }

    /// One by one: what holds goes.
    fn still_empty(&mut self, command: &Command) -> Verdict {
        let (mut verdict, mut candidates, mut leaving) = (Verdict::default(), 0, Vec::new());
        for before in &command.candidates {
            let Some(Ok(candidate)) = self.now.get(&before.name) else { continue };
            let candidate = candidate.clone();
            if !candidate.is_empty() || !self.is_quiet(&candidate) {
                continue;
            }
            candidates += 1;
            if self.take(Method::Empty.reason(), &candidate.pool) {
                leaving.push(candidate.node);
                verdict.held.insert(candidate.name);
            } else {
                verdict.failed += 1;
            }
        }
        // They are no home for the pods of other commands. Nobody moves, so this cannot fail.
        let _ = self.what_if.leave(&leaving, &[]);
        self.what_if.settle();
        if candidates == 0 {
            verdict.failed = command.candidates.len();
            verdict.rejected = Some(Rejected::Churn);
        } else if verdict.held.is_empty() {
            verdict.rejected = Some(Rejected::Budget);
        }
        verdict
    }

    /// All or nothing: every node still a candidate and within budgets, and its pods housed as it was decided.
    fn still_worth_it(&mut self, command: &Command) -> Verdict {
        let rejected = |why: Rejected| {
            let counts = why != Rejected::Scheduling;
            Verdict {
                failed: if counts { command.candidates.len() } else { 0 },
                rejected: Some(why),
                ..Verdict::default()
            }
        };
        let (mut nodes, mut pods) = (Vec::new(), Vec::new());
        for before in &command.candidates {
            match self.now.get(&before.name) {
                Some(Ok(candidate))
                    if !candidate.is_empty() && self.is_quiet(candidate) && self.is_eager(candidate) =>
                {
                    nodes.push(candidate.node);
                    pods.extend(candidate.pods.iter().copied());
                }
                Some(Err(Blocked::Nominated)) => return rejected(Rejected::Budget),
                _ => return rejected(Rejected::Churn),
            }
        }
        if !self.house(command, &nodes, &pods) {
            return rejected(Rejected::Scheduling);
        }
        let reason = command.method.reason();
        let left = self.left.clone();
        if !command.candidates.iter().all(|candidate| self.take(reason, &candidate.pool)) {
            self.left = left;
            return rejected(Rejected::Budget);
        }
        let held = command.candidates.iter().map(|candidate| candidate.name.clone()).collect();
        Verdict { held, failed: 0, rejected: None }
    }

    /// Whether the pods find room with as many new nodes as the command buys, each of which could be what it buys. What
    /// is kept of this the next command finds taken.
    fn house(&mut self, command: &Command, nodes: &[usize], pods: &[usize]) -> bool {
        let mark = self.what_if.mark();
        let housed = match self.what_if.leave(nodes, pods) {
            Ok(housing) => housing.new_nodes == command.replacements.len() && self.covers(command),
            Err(_) => false,
        };
        match housed {
            true => self.what_if.settle(),
            false => self.what_if.rollback(mark),
        }
        housed
    }

    /// Whether the types the command would buy are all among those that would do now.
    fn covers(&mut self, command: &Command) -> bool {
        command.replacements.iter().enumerate().all(|(new, wanted)| {
            let pool = &self.snapshot.world.pools[self.what_if.pool_of(new)];
            let offers = self.what_if.offers(new, Narrowing::None);
            let would_do: BTreeSet<&str> = offers.iter().map(|offer| &*pool.instance_types[offer.kind].name).collect();
            pool.name == wanted.pool && wanted.instance_types.iter().all(|name| would_do.contains(&**name))
        })
    }

    fn take(&mut self, reason: &'static str, pool: &Arc<str>) -> bool {
        match self.left.get_mut(&(reason, pool.clone())) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Consolidation is on for its pool, and no pod came or went lately.
    fn is_quiet(&self, candidate: &Candidate) -> bool {
        let (pool, facts) = (&self.snapshot.pools[&candidate.pool], &self.snapshot.nodes[candidate.node]);
        let on = !pool.is_static && !pool.paused && !self.paused && pool.consolidate_after.is_some();
        on && facts.consolidatable && !facts.holds_buffer
    }

    fn is_eager(&self, candidate: &Candidate) -> bool {
        self.snapshot.pools[&candidate.pool].policy != ConsolidationPolicy::WhenEmpty
    }
}

#[cfg(test)]
mod tests;
