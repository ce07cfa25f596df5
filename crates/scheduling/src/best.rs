//! The default: the baseline, other ways to decide what the rules leave open, and each packed anew by price.

use crate::problem::Problem;
use crate::solution::{BASELINE, Solution};
use crate::state::{ClaimTies, Ties};

/// With more pods than this only the baseline is solved: there chance evens out, and time does not.
const MOST_PODS_FOR_TIES: usize = 2_000;

/// Other decisions of what may be decided either way. The first is the reference's own habit.
const OTHERS: [Ties; 3] = [
    Ties { claims: ClaimTies::Latest, last_domain_first: false },
    Ties { claims: ClaimTies::Latest, last_domain_first: true },
    Ties { claims: ClaimTies::Oldest, last_domain_first: true },
];

/// The ways that are tried besides the baseline.
pub(crate) fn others(problem: &Problem<'_>) -> &'static [Ties] {
    match problem.pods.len() {
        1..=MOST_PODS_FOR_TIES => &OTHERS,
        _ => &[],
    }
}

/// Never fewer pods than the baseline, nor more preferences given up for as many pods, nor a higher price.
pub(crate) fn solve(problem: &mut Problem<'_>) -> Solution {
    let mut best = Solution::new(problem, BASELINE);
    best.repack(problem);
    let mut rank = (best.left_over(), best.given_up(), best.price(problem));
    for ties in others(problem) {
        let mut other = Solution::new(problem, *ties);
        if (other.left_over(), other.given_up()) > (rank.0, rank.1) {
            continue;
        }
        other.repack(problem);
        let of_other = (other.left_over(), other.given_up(), other.price(problem));
        if of_other < rank {
            (best, rank) = (other, of_other);
        }
    }
    best
}
