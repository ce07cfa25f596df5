//! Ways to fill one node, for the covering programme: each kind alone, then what the values of the moment ask for.

use crate::problem::Problem;
use crate::repack::bins::{MOST_WORK, Packer};
use crate::repack::fill::{Filling, Measure, fill, order, polish};
use crate::repack::master::{Master, Pattern};

/// Rounds of pricing: values settle within a few dozen.
const ROUNDS: usize = 60;
/// Types of a lane whose best filling is looked for more thoroughly.
const POLISHED: usize = 5;
/// Patterns that enter in one round.
const ENTERING: usize = 8;

impl Packer {
    /// For each row the node that holds it alone most cheaply.
    pub(super) fn singletons(&self) -> Option<Vec<Pattern>> {
        let mut best: Vec<Option<(f64, Pattern)>> = vec![None; self.rows.len()];
        for (at, (lane, usable)) in self.lanes.all.iter().zip(&self.usable_rows).enumerate() {
            for of in lane.types.iter() {
                for row in usable {
                    let wants = self.rows.requests(*row).iter().zip(&of.room).filter(|(want, _)| **want > 0);
                    let fits = wants.map(|(want, have)| have / want).min().unwrap_or(i64::from(u32::MAX));
                    let fits = fits.clamp(0, i64::from(self.demand[*row])) as u32;
                    if fits == 0 {
                        continue;
                    }
                    let each = of.price / f64::from(fits);
                    if best[*row].as_ref().is_none_or(|(price, _)| each < *price) {
                        let pattern = Pattern { lane: at, kind: of.kind, counts: vec![(*row, fits)], price: of.price };
                        best[*row] = Some((each, pattern));
                    }
                }
            }
        }
        best.into_iter().map(|found| found.map(|(_, pattern)| pattern)).collect()
    }

    pub(super) fn price_patterns(&mut self, problem: &mut Problem<'_>, master: &mut Master) {
        for _ in 0..ROUNDS {
            if self.work > MOST_WORK {
                return;
            }
            let values = master.values();
            let mut found: Vec<(f64, Pattern)> = Vec::new();
            for (lane_at, (lane, usable)) in self.lanes.all.iter().zip(&self.usable_rows).enumerate() {
                let mut promising: Vec<(f64, usize, Filling, Vec<u32>)> = Vec::new();
                for (at, of) in lane.types.iter().enumerate() {
                    let ordered = order(&self.rows, usable.iter().copied(), of, &values, Measure::Sum);
                    self.work += ordered.len() as u64;
                    let filling = fill(problem, lane, of, &self.rows, &ordered, &self.demand, &values);
                    promising.push((filling.value / of.price, at, filling, ordered));
                }
                promising.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                let mut best: Option<(f64, Pattern)> = None;
                for (_, at, filling, ordered) in promising.into_iter().take(POLISHED) {
                    let of = &lane.types[at];
                    self.work += 8 * ordered.len() as u64;
                    let filling = polish(problem, lane, of, &self.rows, &ordered, &self.demand, &values, filling);
                    let gain = filling.value / of.price - 1.0;
                    if gain > 1e-6 && best.as_ref().is_none_or(|(most, _)| gain > *most) {
                        let counts = filling.counts;
                        best = Some((gain, Pattern { lane: lane_at, kind: of.kind, counts, price: of.price }));
                    }
                }
                found.extend(best);
            }
            if found.is_empty() {
                return;
            }
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (at, (_, pattern)) in found.into_iter().take(ENTERING).enumerate() {
                let values = if at == 0 { values.clone() } else { master.values() };
                let worth: f64 = pattern.counts.iter().map(|(row, count)| values[*row] * f64::from(*count)).sum();
                if worth > pattern.price * (1.0 + 1e-7) {
                    master.enter(pattern);
                }
            }
        }
    }
}
