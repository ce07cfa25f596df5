//! Badly used nodes are taken apart, a few at a time, and their pods packed anew; what is cheaper stays.

use crate::problem::Problem;
use crate::repack::bins::{Bin, MOST_ROWS, Packer};
use crate::repack::fill::Measure;
use crate::repack::greedy::{Filled, Offer, Task};

/// With more nodes than this an attempt looks at a few of them.
const FEW_NODES: usize = 1_000;
/// Then they are put in order again after one change for so many of them: a few that have changed in between do no harm.
const NODES_PER_ORDER: usize = 64;

impl Packer {
    /// Takes a few badly used nodes apart and packs their pods anew, with values shaken a little; keeps what is cheaper.
    pub(super) fn rework(
        &mut self,
        problem: &mut Problem<'_>,
        offers: &[Offer],
        attempts: usize,
        most_work: u64,
        enough: f64,
    ) {
        let few = self.are_few();
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        let mut caps = vec![0; self.entries.len()];
        let mut shaken = vec![0.0; self.entries.len()];
        let mut by_waste: Vec<usize> = Vec::new();
        let mut wastes: Vec<f64> = self.bins.iter().map(|bin| self.waste(bin)).collect();
        let mut changes = usize::MAX;
        let mut price: f64 = self.bins.iter().map(|bin| bin.price).sum();
        for attempt in 0..attempts {
            if self.bins.is_empty() || price <= enough || self.work > most_work {
                return;
            }
            if changes > if few { 0 } else { self.bins.len() / NODES_PER_ORDER } {
                by_waste = (0..self.bins.len()).collect();
                by_waste.sort_by(|a, b| wastes[*b].total_cmp(&wastes[*a]).then(a.cmp(b)));
                changes = 0;
            }
            let chosen = self.badly_used(&by_waste, few, attempt, &mut dice);
            let before: f64 = chosen.iter().map(|bin| self.bins[*bin].price).sum();
            let mut items: Vec<usize> = Vec::new();
            for (item, count) in chosen.iter().flat_map(|bin| &self.bins[*bin].counts) {
                if caps[*item] == 0 {
                    items.push(*item);
                }
                caps[*item] += count;
            }
            items.sort_unstable();
            let (spread, measure) = [(0.4, Measure::Sum), (0.4, Measure::Largest), (1.2, Measure::Sum)][attempt % 3];
            let mut shake = |item: usize| shaken[item] = self.values[item] * (1.0 + spread * (dice.unit() - 0.5));
            if few {
                (0..self.values.len()).for_each(&mut shake);
            } else {
                items.iter().copied().for_each(&mut shake);
            }
            let offers = self.offers_for(&items, &chosen, few, offers);
            let offers = offers.as_slice();
            let (values, filled, most_work) = (&shaken, Filled::ByValue(measure), u64::MAX);
            let mut task = Task { items: &items, caps: std::mem::take(&mut caps), values, filled, offers, most_work };
            let mut work = 0;
            let bins = self.stock().greedy(problem, &mut task, &mut work);
            caps = task.caps;
            self.work += work;
            let after: f64 = bins.iter().map(|bin| bin.price).sum();
            let complete = items.iter().all(|item| caps[*item] == 0);
            items.iter().for_each(|item| caps[*item] = 0);
            if complete && after < before - 0.5 {
                let mut gone = chosen.clone();
                gone.sort_unstable_by(|a, b| b.cmp(a));
                for bin in gone {
                    self.bins.swap_remove(bin);
                    wastes.swap_remove(bin);
                }
                wastes.extend(bins.iter().map(|bin| self.waste(bin)));
                self.bins.extend(bins);
                by_waste.retain(|bin| *bin < self.bins.len());
                price += after - before;
                changes += 1;
            }
        }
    }

    /// So few kinds and nodes that each attempt can look at all of them.
    fn are_few(&self) -> bool {
        self.rows.len() <= MOST_ROWS && self.bins.len() <= FEW_NODES
    }

    /// Offers that some of the items can go to; where there are many nodes those of the lanes that they are on.
    fn offers_for(&self, items: &[usize], chosen: &[usize], few: bool, offers: &[Offer]) -> Vec<Offer> {
        let mut known = (usize::MAX, false);
        let takes_some = |lane: usize| match few {
            true => items.iter().any(|item| self.usable_items[lane].contains(*item)),
            false => chosen.iter().any(|bin| self.bins[*bin].lane == lane),
        };
        let mut keep = |offer: &Offer| {
            // Offers come lane by lane.
            if known.0 != offer.lane {
                known = (offer.lane, takes_some(offer.lane));
            }
            known.1
        };
        offers.iter().copied().filter(|offer| keep(offer)).collect()
    }

    fn waste(&self, bin: &Bin) -> f64 {
        let worth: f64 = bin.counts.iter().map(|(item, count)| self.values[*item] * f64::from(*count)).sum();
        bin.price - worth
    }

    /// One of the worst nodes and a few others: from anywhere, or from where the same pods could go. Where there are few,
    /// all of them.
    fn badly_used(&self, by_waste: &[usize], few: bool, attempt: usize, dice: &mut Dice) -> Vec<usize> {
        if by_waste.len() <= 5 && attempt.is_multiple_of(2) {
            return by_waste.to_vec();
        }
        let first = by_waste[dice.below((by_waste.len() / 3).max(1))];
        if !few {
            return self.some_with(first, by_waste, attempt, dice);
        }
        let alike =
            |bin: &&usize| self.lanes.all[self.bins[**bin].lane].set == self.lanes.all[self.bins[first].lane].set;
        let pool: Vec<usize> = match attempt % 4 {
            0 | 1 => by_waste.iter().filter(alike).copied().collect(),
            2 => by_waste[..by_waste.len().div_ceil(2)].to_vec(),
            _ => by_waste.to_vec(),
        };
        let mut chosen = vec![first];
        for _ in 0..1 + dice.below(4) {
            let pick = pool[dice.below(pool.len())];
            if !chosen.contains(&pick) {
                chosen.push(pick);
            }
        }
        chosen
    }

    /// As where there are few, without looking at all of the many.
    fn some_with(&self, first: usize, by_waste: &[usize], attempt: usize, dice: &mut Dice) -> Vec<usize> {
        const TRIES: usize = 8;
        let set = |bin: usize| self.lanes.all[self.bins[bin].lane].set;
        let among = if attempt % 4 == 2 { by_waste.len().div_ceil(2) } else { by_waste.len() };
        let mut chosen = vec![first];
        for _ in 0..1 + dice.below(4) {
            let mut pick = by_waste[dice.below(among)];
            for _ in 0..TRIES {
                if attempt % 4 > 1 || set(pick) == set(first) {
                    break;
                }
                pick = by_waste[dice.below(among)];
            }
            if !chosen.contains(&pick) {
                chosen.push(pick);
            }
        }
        chosen
    }
}

/// A fixed sequence: a plan is the same on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
