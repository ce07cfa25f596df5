//! The node that gives most value for its price, again and again.
//!
//! Where pods are valued by prices of resources all of them are worth about the same for what they take, so nodes are filled
//! with what is like the room that is left. Types are looked at when they were good the last time, and each in its turn.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::bits::Bits;
use crate::problem::Problem;
use crate::repack::bins::Bin;
use crate::repack::fill::{Entries, Filling, Measure, align, fill, order};
use crate::repack::lanes::Lanes;

/// A type of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Offer {
    pub(super) lane: usize,
    pub(super) of: usize,
}

/// How nodes are filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Filled {
    /// With what is worth most for what it takes; every offer is looked at for every node.
    ByValue(Measure),
    /// With what is most like the room that is left; offers that were good when last looked at, over a sample of what is left.
    Alike { sample: usize },
}

/// Entries looked at for one filling where they are sampled.
pub(super) const SAMPLE: usize = 512;
pub(super) const SMALL_SAMPLE: usize = 64;
/// Offers that are looked at again for one node because they were good.
const AGAIN: usize = 6;
/// Offers that are looked at for each node, one after the other, besides those that were good.
const IN_TURN: usize = 2;

/// What nodes are filled with: entries, and by lane those that may go there.
#[derive(Clone, Copy)]
pub(super) struct Stock<'a> {
    pub(super) lanes: &'a Lanes,
    pub(super) entries: &'a Entries,
    pub(super) usable: &'a [Bits],
    /// What resources are worth, by lane.
    pub(super) prices: &'a [Vec<f64>],
}

/// What there is to pack, and by which values.
pub(super) struct Task<'a> {
    pub(super) items: &'a [usize],
    pub(super) caps: Vec<u32>,
    pub(super) values: &'a [f64],
    pub(super) filled: Filled,
    pub(super) offers: &'a [Offer],
    pub(super) most_work: u64,
}

/// An offer as it was when last looked at.
struct Standing {
    ratio: f64,
    at: usize,
    filling: Filling,
    /// How often the offer had been looked at then.
    seen: u32,
}

impl Ord for Standing {
    /// The best comes out of the heap first, of equals the first.
    fn cmp(&self, other: &Self) -> Ordering {
        self.ratio.total_cmp(&other.ratio).then(other.at.cmp(&self.at))
    }
}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Standing {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Standing {}

struct Greedy<'a, 't> {
    stock: Stock<'a>,
    task: &'t mut Task<'a>,
    /// By offer: what it may hold, in the order in which it is filled.
    ordered: Vec<Option<Vec<u32>>>,
    /// By lane: what may go there and is left, most worth first.
    left: Vec<Option<Vec<usize>>>,
    /// By offer: how often it was looked at.
    seen: Vec<u32>,
    step: usize,
    /// Entries looked at for one filling.
    sample: usize,
}

impl Stock<'_> {
    /// Buys nodes until nothing is left, or the work is used up: then caps say what is.
    pub(super) fn greedy<'a>(self, problem: &mut Problem<'_>, task: &mut Task<'a>, work: &mut u64) -> Vec<Bin>
    where
        Self: 'a,
    {
        let (ordered, left) = (vec![None; task.offers.len()], vec![None; self.lanes.all.len()]);
        let seen = vec![0; task.offers.len()];
        let sample = if let Filled::Alike { sample } = task.filled { sample } else { usize::MAX };
        Greedy { stock: self, task, ordered, left, seen, step: 0, sample }.run(problem, work)
    }
}

impl Greedy<'_, '_> {
    fn run(mut self, problem: &mut Problem<'_>, work: &mut u64) -> Vec<Bin> {
        let mut bins = Vec::new();
        let mut left: u64 = self.task.items.iter().map(|item| u64::from(self.task.caps[*item])).sum();
        let mut heap: BinaryHeap<Standing> = BinaryHeap::new();
        while left > 0 && *work < self.task.most_work {
            let best = match self.task.filled {
                Filled::ByValue(_) => self.best_of_all(problem, work),
                Filled::Alike { .. } => self.best_of(&mut heap, problem, work),
            };
            let Some(Standing { at, filling, .. }) = best else { break };
            self.step += 1;
            let offer = self.task.offers[at];
            let of = &self.stock.lanes.all[offer.lane].types[offer.of];
            let caps = &mut self.task.caps;
            let copies = filling.counts.iter().map(|(item, count)| caps[*item] / count).min().unwrap_or(0).max(1);
            for _ in 0..copies {
                for (item, count) in &filling.counts {
                    caps[*item] -= count;
                    left -= u64::from(*count);
                }
                let (price, counts) = (of.price, filling.counts.clone());
                bins.push(Bin { lane: offer.lane, kind: of.kind, price, counts });
            }
            // What it is worth now is seen when it is its turn again.
            if matches!(self.task.filled, Filled::Alike { .. }) {
                let seen = self.seen[at];
                heap.push(Standing { ratio: filling.value / of.price, at, filling, seen });
            }
        }
        bins
    }

    fn best_of_all(&mut self, problem: &mut Problem<'_>, work: &mut u64) -> Option<Standing> {
        let mut best: Option<Standing> = None;
        for at in 0..self.task.offers.len() {
            let found = self.look(problem, at, work);
            best = match (best, found) {
                (Some(best), Some(found)) if found.ratio > best.ratio => Some(found),
                (None, found) => found,
                (best, _) => best,
            };
        }
        best
    }

    /// What comes first among offers as they were when last looked at, and still does when looked at again.
    fn best_of(
        &mut self,
        heap: &mut BinaryHeap<Standing>,
        problem: &mut Problem<'_>,
        work: &mut u64,
    ) -> Option<Standing> {
        let offers = self.task.offers.len();
        // What was poor once may have become good: large pods that did not go together are gone. So everything has its turn.
        let in_turn = if self.step == 0 { 0..offers } else { self.step * IN_TURN..(self.step + 1) * IN_TURN };
        let mut best: Option<Standing> = None;
        for at in in_turn {
            best = self.better(problem, at % offers, best, heap, work);
        }
        let mut again = 0;
        while again < AGAIN {
            let Some(top) = heap.pop() else { break };
            if best.as_ref().is_some_and(|best| *best >= top) {
                heap.push(top);
                break;
            }
            if top.seen == self.seen[top.at] {
                best = self.better(problem, top.at, best, heap, work);
                again += 1;
            }
        }
        best.or_else(|| self.best_of_rest(problem, work))
    }

    /// The better of what was best so far and of an offer looked at now; the other waits.
    fn better(
        &mut self,
        problem: &mut Problem<'_>,
        at: usize,
        best: Option<Standing>,
        heap: &mut BinaryHeap<Standing>,
        work: &mut u64,
    ) -> Option<Standing> {
        let Some(found) = self.look(problem, at, work) else { return best };
        let Some(best) = best.filter(|best| best.at != at) else { return Some(found) };
        let (better, other) = if found > best { (found, best) } else { (best, found) };
        heap.push(other);
        Some(better)
    }

    /// Samples may miss the last few, so that no offer seems to hold anything: then all that is left is looked at.
    fn best_of_rest(&mut self, problem: &mut Problem<'_>, work: &mut u64) -> Option<Standing> {
        self.left.iter_mut().flatten().for_each(|left| left.retain(|item| self.task.caps[*item] > 0));
        let sample = std::mem::replace(&mut self.sample, usize::MAX);
        let best = self.best_of_all(problem, work);
        self.sample = sample;
        best
    }

    fn look(&mut self, problem: &mut Problem<'_>, at: usize, work: &mut u64) -> Option<Standing> {
        let (offer, step) = (self.task.offers[at], self.step);
        let Stock { lanes, entries, usable, prices } = self.stock;
        let lane = &lanes.all[offer.lane];
        let of = &lane.types[offer.of];
        let filling = match self.task.filled {
            Filled::ByValue(measure) => {
                let task = &*self.task;
                let ordered = self.ordered[at].get_or_insert_with(|| {
                    let usable = &usable[offer.lane];
                    let usable = |item: &usize| task.caps[*item] > 0 && usable.contains(*item);
                    let ordered = order(entries, task.items.iter().copied().filter(usable), of, task.values, measure);
                    *work += ordered.len() as u64;
                    ordered
                });
                if step % 16 == 15 {
                    ordered.retain(|item| task.caps[*item as usize] > 0);
                }
                *work += ordered.len() as u64 / 4;
                fill(problem, lane, of, entries, ordered, &task.caps, task.values)
            }
            Filled::Alike { .. } => {
                let seen = self.sample(offer.lane);
                let (caps, values) = (&self.task.caps, self.task.values);
                align(problem, lane, of, entries, &seen, caps, values, &prices[offer.lane], work)
            }
        };
        let ratio = filling.value / of.price;
        self.seen[at] += 1;
        let seen = self.seen[at];
        (!filling.counts.is_empty()).then_some(Standing { ratio, at, filling, seen })
    }

    /// What is left and may go on a lane: all of it, or what is worth most and as many everywhere else, others at every step.
    fn sample(&mut self, lane: usize) -> Vec<usize> {
        let (task, usable) = (&*self.task, &self.stock.usable[lane]);
        let left = self.left[lane].get_or_insert_with(|| {
            let mut left: Vec<usize> = task.items.iter().copied().filter(|item| usable.contains(*item)).collect();
            left.sort_by(|a, b| task.values[*b].total_cmp(&task.values[*a]).then(a.cmp(b)));
            left
        });
        if self.step % 32 == 31 {
            left.retain(|item| task.caps[*item] > 0);
        }
        let (first, others) = left.split_at(left.len().min(self.sample / 2));
        let stride = others.len().div_ceil(self.sample / 2).max(1);
        let others = others.iter().skip(self.step % stride).step_by(stride);
        first.iter().chain(others).copied().filter(|item| task.caps[*item] > 0).collect()
    }
}
