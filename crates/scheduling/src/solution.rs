//! One way of solving a problem, and the plan it makes.

use karpenter_core::MicroUsd;
use karpenter_core::plan::{LeftOver, Plan, PoolReason, Reason};

use crate::explain;
use crate::first_match::{self, Missed};
use crate::groups::Kind;
use crate::place::Reserving;
use crate::problem::Problem;
use crate::repack;
use crate::state::{Claim, ClaimTies, DomainTies, State, Ties};
use crate::terms::SetId;

/// The order the specification gives.
pub(crate) const BASELINE: Ties = Ties { claims: ClaimTies::Oldest, domains: DomainTies::First };

/// Where a pod is: a position among open claims or existing nodes.
#[derive(Clone, Copy)]
enum Host {
    Claim(usize),
    Node(usize),
}

pub(crate) struct Solution {
    state: State,
    left: Vec<(usize, Missed)>,
    /// A cheaper packing of the same pods.
    repacked: Option<Vec<Claim>>,
}

impl Solution {
    /// First match, with ties decided in the given way.
    pub(crate) fn new(problem: &mut Problem<'_>, ties: Ties) -> Self {
        let queue: Vec<usize> = (0..problem.pods.len()).collect();
        Self::in_order(problem, ties, &queue)
    }

    /// First match over a queue in another order than by size.
    pub(crate) fn in_order(problem: &mut Problem<'_>, ties: Ties, queue: &[usize]) -> Self {
        let mut state = State::new(problem, ties);
        let left = first_match::solve(problem, &mut state, queue, Reserving::Strict).left;
        Self { state, left, repacked: None }
    }

    pub(crate) fn repack(&mut self, problem: &mut Problem<'_>) {
        self.repacked = repack::improve(problem, &self.state);
    }

    pub(crate) fn claims(&self) -> &[Claim] {
        self.repacked.as_deref().unwrap_or(&self.state.claims)
    }

    pub(crate) fn left_over(&self) -> usize {
        self.left.len()
    }

    /// Pods of `Problem::pods` without a place.
    pub(crate) fn left_pods(&self) -> Vec<usize> {
        self.left.iter().map(|(pod, _)| *pod).collect()
    }

    /// How many soft constraints the pods of each class gave up.
    pub(crate) fn given_up(&self, problem: &Problem<'_>) -> Vec<usize> {
        let mut by_class = vec![0; problem.classes.len()];
        let on_claims = self.state.claims.iter().flat_map(|claim| &claim.pods);
        let on_nodes = self.state.nodes.iter().flat_map(|node| &node.pods);
        on_claims.chain(on_nodes).for_each(|(pod, variant)| by_class[problem.pods[*pod].class] += variant);
        by_class
    }

    /// Pods of `Problem::pods` that have a place, but not all they wished for.
    pub(crate) fn relaxed(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let on_claims = self.claims().iter().flat_map(|claim| &claim.pods);
        let on_nodes = self.state.nodes.iter().flat_map(|node| &node.pods);
        on_claims.chain(on_nodes).filter(|(_, given_up)| *given_up > 0).copied()
    }

    /// Pods that opened a domain of their own for an affinity to pods of their kind, while others of that kind came to be
    /// elsewhere. kube-scheduler, seeing those first, would not put them there.
    pub(crate) fn strays(&self, problem: &Problem<'_>) -> Vec<usize> {
        let claims = self.state.claims.iter().enumerate();
        let on_claims =
            claims.flat_map(|(at, claim)| claim.pods.iter().map(move |placed| (placed, claim.set, Host::Claim(at))));
        let nodes = self.state.nodes.iter().zip(problem.nodes.iter()).enumerate();
        let on_nodes = nodes
            .flat_map(|(at, (state, node))| state.pods.iter().map(move |placed| (placed, node.set, Host::Node(at))));
        let all = on_claims.chain(on_nodes);
        let astray = all.filter(|((pod, variant), set, host)| self.is_astray(problem, *pod, *variant, *set, *host));
        astray.map(|((pod, _), _, _)| *pod).collect()
    }

    fn is_astray(&self, problem: &Problem<'_>, pod: usize, variant: usize, set: SetId, host: Host) -> bool {
        let class = &problem.classes[problem.pods[pod].class];
        let form = &class.variants[variant];
        form.owned.iter().any(|id| {
            if problem.groups.get(*id).kind != Kind::Affinity || class.counted_in.binary_search(id).is_err() {
                return false;
            }
            let counts = &self.state.groups[id.0 as usize];
            let (here, anywhere) = match (problem.domains.groups[id.0 as usize].table, host) {
                (None, Host::Claim(at)) => (counts.claims.get(at), counts.populated),
                (None, Host::Node(at)) => (counts.nodes.get(at), counts.populated),
                (Some(table), _) => (
                    problem.settled_count(set, table, &counts.domains),
                    problem.populated_for(form.strict, table, &counts.domains),
                ),
            };
            here == 1 && anywhere > 1
        })
    }

    pub(crate) fn price(&self, problem: &mut Problem<'_>) -> MicroUsd {
        let claims = self.claims().iter().filter(|claim| !claim.pods.is_empty());
        claims.map(|claim| problem.price(claim)).sum()
    }

    pub(crate) fn into_plan(self, problem: &mut Problem<'_>) -> Plan {
        let (new_nodes, discarded) = problem.new_nodes(self.claims());
        let mut plan = Plan { new_nodes, ..Plan::default() };
        for (node, of) in problem.nodes.iter().zip(&self.state.nodes).filter(|(_, of)| !of.pods.is_empty()) {
            plan.existing.insert(node.index, of.pods.iter().map(|(pod, _)| problem.pods[*pod].index).collect());
        }
        let mut reasons = explain::Reasons::default();
        for (pod, missed) in self.left {
            let reason = missed.reason().unwrap_or_else(|| reasons.of(problem, &self.state, pod));
            plan.left_over.push(LeftOver { pod: problem.pods[pod].index, reason, nearest_miss: None });
        }
        for given_up in discarded {
            let keys: Vec<_> = given_up.keys.iter().map(|key| problem.terms.key_name(*key).clone()).collect();
            for pod in given_up.pods {
                let reason = Reason::Pools(vec![(given_up.pool, PoolReason::MinValues { keys: keys.clone() })]);
                plan.left_over.push(LeftOver { pod: problem.pods[pod].index, reason, nearest_miss: None });
            }
        }
        plan.ignored = std::mem::take(&mut problem.ignored);
        plan
    }
}
