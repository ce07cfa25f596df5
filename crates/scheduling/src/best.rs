//! The default: the baseline, other ways to decide what the rules leave open, and each packed anew by price.

use karpenter_core::MicroUsd;

use crate::problem::Problem;
use crate::solution::{BASELINE, Solution};
use crate::state::{ClaimTies, DomainTies, Ties};

/// With more pods than this ties are decided one way only, for the same reason.
const MOST_PODS_FOR_TIES: usize = 2_000;

/// Up to so many pods there is time for all ways; above only for the first few.
const FEW_PODS: usize = 400;

const fn ties(claims: ClaimTies, domains: DomainTies) -> Ties {
    Ties { claims, domains }
}

/// Other decisions of what may be decided either way. The first is the reference's own habit.
const OTHERS: [Ties; 7] = [
    ties(ClaimTies::Latest, DomainTies::First),
    ties(ClaimTies::Latest, DomainTies::Last),
    ties(ClaimTies::Oldest, DomainTies::Last),
    ties(ClaimTies::Latest, DomainTies::Mixed(1)),
    ties(ClaimTies::Oldest, DomainTies::Mixed(2)),
    ties(ClaimTies::Latest, DomainTies::Mixed(3)),
    ties(ClaimTies::Oldest, DomainTies::Mixed(4)),
];

/// The ways that are tried besides the baseline.
pub(crate) fn others(problem: &Problem<'_>) -> &'static [Ties] {
    let pods = problem.pods.len();
    if pods > MOST_PODS_FOR_TIES {
        &[]
    } else if pods > FEW_PODS {
        &OTHERS[..3]
    } else {
        &OTHERS
    }
}

/// Never fewer pods than the baseline, nor more preferences given up for as many pods, nor a higher price; unless the
/// baseline counts on an order that kube-scheduler need not follow.
pub(crate) fn solve(problem: &mut Problem<'_>) -> Solution {
    let mut best = Solution::new(problem, BASELINE);
    if problem.pods.is_empty() || problem.deadline.is_over() {
        return best;
    }
    // What there was no time for must not look better than what is whole.
    let deadline = std::mem::take(&mut problem.deadline);
    let strays = best.strays(problem);
    let queue = company_first(problem, &strays);
    let others = others(problem);
    let start = if others.is_empty() { MicroUsd(0) } else { best.price(problem) };
    best.repack(problem);
    let first = (strays.len(), best.left_over());
    let (left, given_up) = (best.left_pods(), best.given_up(problem));
    let mut rank = (first, best.price(problem), given_up.iter().sum::<usize>());
    // Other starts cost about the same, and one this much dearer than what came of it is not packed anew below.
    if first == (0, 0) && problem.pods.len() > FEW_PODS && is_too_dear(start, rank.1) {
        return best;
    }
    let again = if strays.is_empty() { None } else { Some(BASELINE) };
    for ties in again.into_iter().chain(others.iter().copied()) {
        if deadline.is_over() {
            break;
        }
        let mut other = Solution::in_order(problem, ties, &queue);
        let of_other = (other.strays(problem).len(), other.left_over());
        // No kind of pod does without more than in the baseline, whatever others gain by it.
        let of_kinds = other.given_up(problem);
        let loses = of_kinds.iter().zip(&given_up).any(|(other, baseline)| other > baseline);
        if of_other > rank.0 || (of_other == first && loses) {
            continue;
        }
        // Whom the baseline places nobody turns away, however alike the two may be.
        if strays.is_empty() && !other.left_pods().iter().all(|pod| left.contains(pod)) {
            continue;
        }
        // Packing anew does not make up for a start this much dearer.
        let start = other.price(problem);
        if of_other == rank.0 && is_too_dear(start, rank.1) {
            continue;
        }
        other.repack(problem);
        let of_other = (of_other, other.price(problem), of_kinds.iter().sum());
        if of_other < rank {
            (best, rank) = (other, of_other);
        }
    }
    best
}

fn is_too_dear(start: MicroUsd, found: MicroUsd) -> bool {
    start.0 > found.0 + found.0 / 8
}

/// The baseline, in an order in which nobody goes astray if there is one.
pub(crate) fn baseline(problem: &mut Problem<'_>) -> Solution {
    let first = Solution::new(problem, BASELINE);
    let strays = first.strays(problem);
    if strays.is_empty() {
        return first;
    }
    let queue = company_first(problem, &strays);
    Solution::in_order(problem, BASELINE, &queue)
}

/// An order in which pods that want company come after those that would be it. Once some of them wait, others may turn
/// out to have gone astray; each round finds at least one more or is the last.
fn company_first(problem: &mut Problem<'_>, strays: &[usize]) -> Vec<usize> {
    let mut late = strays.to_vec();
    loop {
        let mut queue: Vec<usize> = (0..problem.pods.len()).filter(|pod| !late.contains(pod)).collect();
        queue.extend(&late);
        if late.is_empty() {
            return queue;
        }
        let found = Solution::in_order(problem, BASELINE, &queue).strays(problem);
        let before = late.len();
        late.extend(found.into_iter().filter(|pod| !queue[queue.len() - before..].contains(pod)));
        if late.len() == before {
            return queue;
        }
        late.sort_unstable();
    }
}
