//! From values to nodes: whole patterns first, then greedy filling, then repacking what is badly used.

use crate::bits::Bits;
use crate::columns::Amounts;
use crate::problem::Problem;
use crate::repack::fill::{Entry, Filling, Measure, fill, order, polish};
use crate::repack::kinds::Items;
use crate::repack::lanes::Lanes;
use crate::repack::master::{Master, Pattern};
use crate::state::Claim;
use crate::template::short_of_min_values;

/// Rounds of pricing: values settle within a few dozen.
const ROUNDS: usize = 60;
/// Entries looked at while filling, over the whole of one pass. Some hundred milliseconds on a laptop.
const MOST_WORK: u64 = 35_000_000;
/// Programmes with more rows than this are left to greedy filling: the inverse is a square of them.
const MOST_ROWS: usize = 400;
/// Types of a lane whose best filling is looked for more thoroughly.
const POLISHED: usize = 5;
/// Attempts at repacking a few nodes.
const REPACKS: usize = 1_500;

/// A node to be bought.
#[derive(Clone, Debug)]
struct Bin {
    lane: usize,
    kind: usize,
    price: f64,
    counts: Vec<(usize, u32)>,
}

pub(crate) struct Packer {
    items: Items,
    lanes: Lanes,
    /// By item.
    entries: Vec<Entry>,
    /// By row: items without ports and neighbours.
    rows: Vec<Entry>,
    demand: Vec<u32>,
    /// Worth of an item, by item.
    values: Vec<f64>,
    bins: Vec<Bin>,
    work: u64,
    usable_rows: Vec<Vec<usize>>,
    usable_items: Vec<Vec<usize>>,
}

impl Packer {
    /// Nothing where some pod fits no lane; then the baseline knows something this does not.
    pub(crate) fn new(problem: &mut Problem<'_>, items: Items) -> Option<Self> {
        let lanes = Lanes::new(problem, &items);
        let entry = |index: usize, bare: bool| {
            let item = &items.all[index];
            Entry {
                set: item.set,
                requests: lanes.dense(&item.requests),
                templates: item.templates.clone(),
                ports: if bare { [].into() } else { item.ports.clone() },
                neighbours: if bare { [].into() } else { item.neighbours.clone() },
            }
        };
        let entries: Vec<Entry> = (0..items.all.len()).map(|index| entry(index, false)).collect();
        let rows: Vec<Entry> = items.rows.iter().map(|index| entry(*index, true)).collect();
        let mut demand = vec![0; rows.len()];
        items.all.iter().for_each(|item| demand[item.row] += item.pods.len() as u32);
        let usable_rows = usable(problem, &lanes, &rows);
        let usable_items = usable(problem, &lanes, &entries);
        let values = vec![0.0; entries.len()];
        let (bins, work) = (Vec::new(), 0);
        Some(Self { items, lanes, entries, rows, demand, values, bins, work, usable_rows, usable_items })
    }

    /// Packs everything; `baseline` is what the present claims cost.
    pub(crate) fn pack(&mut self, problem: &mut Problem<'_>, baseline: f64) {
        let Some(first) = self.singletons() else { return };
        let mut caps: Vec<u32> = self.items.all.iter().map(|item| item.pods.len() as u32).collect();
        if self.rows.len() <= MOST_ROWS {
            let mut master = Master::new(first, &self.demand);
            self.price_patterns(problem, &mut master);
            let values = master.values();
            self.items.all.iter().zip(&mut self.values).for_each(|(item, value)| *value = values[item.row]);
            if master.cost() > baseline * 0.995 {
                return; // not even fractions of nodes would be cheaper
            }
            self.buy_whole_patterns(problem, &master, &mut caps);
        } else {
            let values: Vec<f64> = first.iter().map(|pattern| pattern.price / f64::from(pattern.counts[0].1)).collect();
            self.items.all.iter().zip(&mut self.values).for_each(|(item, value)| *value = values[item.row]);
        }
        let values = self.values.clone();
        let rest = self.greedy(problem, &mut caps, &values, Measure::Sum);
        self.bins.extend(rest);
        self.repack(problem);
    }

    /// For each row the node that holds it alone most cheaply.
    fn singletons(&self) -> Option<Vec<Pattern>> {
        let mut best: Vec<Option<(f64, Pattern)>> = vec![None; self.rows.len()];
        for (lane, usable) in self.lanes.all.iter().zip(&self.usable_rows) {
            for of in &lane.types {
                for row in usable {
                    let wants = self.rows[*row].requests.iter().zip(&of.room).filter(|(want, _)| **want > 0);
                    let fits = wants.map(|(want, have)| have / want).min().unwrap_or(i128::from(u32::MAX));
                    let fits = fits.clamp(0, i128::from(self.demand[*row])) as u32;
                    if fits == 0 {
                        continue;
                    }
                    let each = of.price / f64::from(fits);
                    if best[*row].as_ref().is_none_or(|(price, _)| each < *price) {
                        let counts = vec![(*row, fits)];
                        best[*row] =
                            Some((each, Pattern { template: lane.template, kind: of.kind, counts, price: of.price }));
                    }
                }
            }
        }
        best.into_iter().map(|found| found.map(|(_, pattern)| pattern)).collect()
    }

    fn price_patterns(&mut self, problem: &mut Problem<'_>, master: &mut Master) {
        let mut ordered = Vec::new();
        for _ in 0..ROUNDS {
            if self.work > MOST_WORK {
                return;
            }
            let values = master.values();
            let mut found: Vec<(f64, Pattern)> = Vec::new();
            for (lane, usable) in self.lanes.all.iter().zip(&self.usable_rows) {
                let mut promising: Vec<(f64, usize, Filling)> = Vec::new();
                for (at, of) in lane.types.iter().enumerate() {
                    order(&self.rows, usable, of, &values, Measure::Sum, &mut ordered);
                    self.work += ordered.len() as u64;
                    let filling = fill(problem, lane, of, &self.rows, &ordered, &self.demand, &values);
                    promising.push((filling.value / of.price, at, filling));
                }
                promising.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                let mut best: Option<(f64, Pattern)> = None;
                for (_, at, filling) in promising.into_iter().take(POLISHED) {
                    let of = &lane.types[at];
                    order(&self.rows, usable, of, &values, Measure::Sum, &mut ordered);
                    self.work += 8 * ordered.len() as u64;
                    let filling = polish(problem, lane, of, &self.rows, &ordered, &self.demand, &values, filling);
                    let gain = filling.value / of.price - 1.0;
                    if gain > 1e-6 && best.as_ref().is_none_or(|(most, _)| gain > *most) {
                        let counts = filling.counts;
                        best =
                            Some((gain, Pattern { template: lane.template, kind: of.kind, counts, price: of.price }));
                    }
                }
                found.extend(best);
            }
            if found.is_empty() {
                return;
            }
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (at, (_, pattern)) in found.into_iter().take(8).enumerate() {
                let values = if at == 0 { values.clone() } else { master.values() };
                let worth: f64 = pattern.counts.iter().map(|(row, count)| values[*row] * f64::from(*count)).sum();
                if worth > pattern.price * (1.0 + 1e-7) {
                    master.enter(pattern);
                }
            }
        }
    }

    /// As many whole nodes of each pattern as the programme buys, filled with the pods it has in mind.
    fn buy_whole_patterns(&mut self, problem: &mut Problem<'_>, master: &Master, caps: &mut [u32]) {
        let bought: Vec<(Pattern, u32)> =
            master.solution().map(|(pattern, amount)| (pattern.clone(), (amount + 1e-6) as u32)).collect();
        let mut of_row: Vec<Vec<usize>> = vec![Vec::new(); self.rows.len()];
        self.items.all.iter().enumerate().for_each(|(index, item)| of_row[item.row].push(index));
        for (pattern, copies) in bought {
            for _ in 0..copies {
                let mut wanted: Vec<u32> = vec![0; caps.len()];
                let mut ordered: Vec<(f64, usize)> = Vec::new();
                for (row, count) in &pattern.counts {
                    let mut left = *count;
                    for item in &of_row[*row] {
                        wanted[*item] = caps[*item].min(left);
                        left -= wanted[*item];
                        if wanted[*item] > 0 {
                            ordered.push((0.0, *item));
                        }
                    }
                }
                let lane = self.lanes.all.iter().position(|lane| {
                    lane.template == pattern.template && lane.types.iter().any(|of| of.kind == pattern.kind)
                });
                let Some(lane) = lane else { continue };
                if !self.fill_as_planned(problem, lane, pattern.kind, &ordered, &wanted, caps) {
                    break;
                }
            }
        }
    }

    fn fill_as_planned(
        &mut self,
        problem: &mut Problem<'_>,
        first_lane: usize,
        kind: usize,
        ordered: &[(f64, usize)],
        wanted: &[u32],
        caps: &mut [u32],
    ) -> bool {
        let template = self.lanes.all[first_lane].template;
        let mut best: Option<(Filling, usize)> = None;
        for (at, lane) in self.lanes.all.iter().enumerate().filter(|(_, lane)| lane.template == template) {
            let Some(of) = lane.types.iter().find(|of| of.kind == kind) else { continue };
            let filling = fill(problem, lane, of, &self.entries, ordered, wanted, &self.values);
            if best.as_ref().is_none_or(|(most, _)| filling.value > most.value) {
                best = Some((filling, at));
            }
        }
        let Some((filling, lane)) = best else { return false };
        let price = self.lanes.all[lane].types.iter().find(|of| of.kind == kind).map_or(f64::MAX, |of| of.price);
        // A node that misses much of what it was bought for is better left to the greedy filling.
        if filling.value < price * 0.9 {
            return false;
        }
        filling.counts.iter().for_each(|(item, count)| caps[*item] -= count);
        self.bins.push(Bin { lane, kind, price, counts: filling.counts });
        true
    }

    /// The node that gives most value for its price, again and again, until nothing is left.
    fn greedy(&mut self, problem: &mut Problem<'_>, caps: &mut [u32], values: &[f64], measure: Measure) -> Vec<Bin> {
        let mut bins = Vec::new();
        let mut ordered = Vec::new();
        // A rest that takes this long is given up, and with it the whole attempt: the baseline stands.
        while caps.iter().any(|cap| *cap > 0) && self.work < 2 * MOST_WORK {
            let mut best: Option<(f64, usize, usize, Filling)> = None;
            for (at, lane) in self.lanes.all.iter().enumerate() {
                let usable: Vec<usize> = self.usable_items[at].iter().copied().filter(|item| caps[*item] > 0).collect();
                if usable.is_empty() {
                    continue;
                }
                for (t, of) in lane.types.iter().enumerate() {
                    order(&self.entries, &usable, of, values, measure, &mut ordered);
                    self.work += ordered.len() as u64;
                    let filling = fill(problem, lane, of, &self.entries, &ordered, caps, values);
                    let ratio = filling.value / of.price;
                    if !filling.counts.is_empty() && best.as_ref().is_none_or(|(most, ..)| ratio > *most) {
                        best = Some((ratio, at, t, filling));
                    }
                }
            }
            let Some((_, lane, t, filling)) = best else { break };
            let of = &self.lanes.all[lane].types[t];
            let copies = filling.counts.iter().map(|(item, count)| caps[*item] / count).min().unwrap_or(0).max(1);
            for _ in 0..copies {
                filling.counts.iter().for_each(|(item, count)| caps[*item] -= count);
                bins.push(Bin { lane, kind: of.kind, price: of.price, counts: filling.counts.clone() });
            }
        }
        bins
    }

    /// Takes a few badly used nodes apart and packs their pods anew, with values shaken a little; keeps what is cheaper.
    fn repack(&mut self, problem: &mut Problem<'_>) {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        for attempt in 0..REPACKS {
            if self.work > MOST_WORK || self.bins.is_empty() {
                return;
            }
            let waste = |bin: &Bin| {
                let worth: f64 = bin.counts.iter().map(|(item, count)| self.values[*item] * f64::from(*count)).sum();
                bin.price - worth
            };
            let mut by_waste: Vec<usize> = (0..self.bins.len()).collect();
            by_waste.sort_by(|a, b| waste(&self.bins[*b]).total_cmp(&waste(&self.bins[*a])).then(a.cmp(b)));
            let chosen = self.badly_used(&by_waste, attempt, &mut dice);
            let before: f64 = chosen.iter().map(|bin| self.bins[*bin].price).sum();
            let mut caps = vec![0; self.entries.len()];
            for bin in &chosen {
                self.bins[*bin].counts.iter().for_each(|(item, count)| caps[*item] += count);
            }
            let (spread, measure) = [(0.4, Measure::Sum), (0.4, Measure::Largest), (1.2, Measure::Sum)][attempt % 3];
            let shaken: Vec<f64> =
                self.values.iter().map(|value| value * (1.0 + spread * (dice.unit() - 0.5))).collect();
            let bins = self.greedy(problem, &mut caps, &shaken, measure);
            let after: f64 = bins.iter().map(|bin| bin.price).sum();
            if caps.iter().all(|cap| *cap == 0) && after < before - 0.5 {
                let mut gone = chosen.clone();
                gone.sort_unstable_by(|a, b| b.cmp(a));
                gone.iter().for_each(|bin| drop(self.bins.swap_remove(*bin)));
                self.bins.extend(bins);
            }
        }
    }

    /// One of the worst nodes and a few others: from anywhere, or from where the same pods could go. Where there are few,
    /// all of them.
    fn badly_used(&self, by_waste: &[usize], attempt: usize, dice: &mut Dice) -> Vec<usize> {
        if by_waste.len() <= 5 && attempt.is_multiple_of(2) {
            return by_waste.to_vec();
        }
        let first = by_waste[dice.below((by_waste.len() / 3).max(1))];
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

    /// The bins as claims; nothing where a pod was left out, a limit would be overshot or minValues missed.
    pub(crate) fn claims(&self, problem: &mut Problem<'_>, frozen: &[Claim]) -> Option<Vec<Claim>> {
        let mut next: Vec<usize> = vec![0; self.items.all.len()];
        let mut limits: Vec<Vec<i128>> =
            problem.templates.iter().map(|t| t.limits.iter().map(|(_, left)| *left).collect()).collect();
        let mut node_limits: Vec<Option<i64>> = problem.templates.iter().map(|t| t.node_limit).collect();
        for claim in frozen {
            let worst = problem.worst_capacity(claim.template, &claim.types);
            limits[claim.template].iter_mut().zip(worst).for_each(|(left, amount)| *left -= amount);
            node_limits[claim.template] = node_limits[claim.template].map(|left| left - 1);
        }
        let mut claims = Vec::with_capacity(self.bins.len());
        for bin in &self.bins {
            let template = self.lanes.all[bin.lane].template;
            let claim = self.claim(problem, bin, template, &mut next)?;
            let worst = problem.worst_capacity(template, &claim.types);
            limits[template].iter_mut().zip(worst).for_each(|(left, amount)| *left -= amount);
            node_limits[template] = node_limits[template].map(|left| left - 1);
            claims.push(claim);
        }
        let within =
            limits.iter().flatten().all(|left| *left >= 0) && node_limits.iter().flatten().all(|left| *left >= 0);
        let complete = next.iter().zip(&self.items.all).all(|(taken, item)| *taken == item.pods.len());
        (within && complete).then_some(claims)
    }

    fn claim(&self, problem: &mut Problem<'_>, bin: &Bin, template: usize, next: &mut [usize]) -> Option<Claim> {
        let mut set = problem.templates[template].base;
        let (mut pods, mut ports) = (Vec::new(), Vec::new());
        let (mut total, mut counted) = (Amounts::default(), Amounts::default());
        for (index, count) in &bin.counts {
            let item = &self.items.all[*index];
            set = problem.terms.join(set, item.set)?;
            for _ in 0..*count {
                pods.push(*item.pods.get(next[*index])?);
                next[*index] += 1;
                total.add(&item.asked);
                counted.add(&item.requests);
                ports.extend(item.ports.iter().cloned());
            }
        }
        let mut types = problem.types_for(template, set, &counted, &ports)?;
        // Where the pool is limited, the claim may become nothing larger than what it was packed for.
        let of = &problem.templates[template];
        if !of.capacity.is_empty() {
            for capacity in &of.capacity {
                let smaller: Bits = types.iter().filter(|kind| capacity[*kind] <= capacity[bin.kind]).collect();
                types.and(&smaller);
            }
            let short = short_of_min_values(set, &types, &problem.catalogs[of.catalog], &problem.terms);
            if types.is_empty() || !short.is_empty() {
                return None;
            }
        }
        let (reserved, min_values_relaxed) = (Default::default(), false);
        Some(Claim { template, set, types, total, pods, ports, reserved, min_values_relaxed })
    }
}

/// Which entries may go on a lane at all.
fn usable(problem: &mut Problem<'_>, lanes: &Lanes, entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut usable = Vec::with_capacity(lanes.all.len());
    for lane in &lanes.all {
        let fits = |index: &usize| {
            let entry = &entries[*index];
            entry.templates.contains(lane.template) && problem.terms.join(lane.set, entry.set).is_some()
        };
        usable.push((0..entries.len()).filter(fits).collect());
    }
    usable
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
