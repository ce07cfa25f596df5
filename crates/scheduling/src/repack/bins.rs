//! From values to nodes, in two ways; the cheaper counts.
//!
//! *By prices*: pods are worth what their resources are, nodes are bought one after the other, and that several times, pods
//! worth what they came to cost the time before. Time grows with the nodes and hardly with the kinds of pods.
//!
//! *By programme*: pods are worth what a programme over patterns says, and whole patterns are bought first. That is better
//! where few large pods have to fit together, and is left out where there are many kinds or nothing is left to gain.
//!
//! Either way badly used nodes are then taken apart and packed anew.

use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::columns::Amounts;
use crate::problem::Problem;
use crate::repack::fill::{Entries, Entry, Filling, Measure, fill};
use crate::repack::greedy::{Filled, Offer, SAMPLE, SMALL_SAMPLE, Stock, Task};
use crate::repack::kinds::{Item, Items};
use crate::repack::lanes::Lanes;
use crate::repack::master::{Master, Pattern};
use crate::repack::prices::of_resources;
use crate::state::Claim;
use crate::template::short_of_min_values;
use crate::terms::SetId;

/// Entries looked at while filling, over the whole of one pass. Some hundred milliseconds on a laptop.
pub(super) const MOST_WORK: u64 = 35_000_000;
/// The same for improving nodes bought by prices of resources, and so much more for each of them.
const REWORK: u64 = 300_000;
const REWORK_PER_NODE: u64 = 20_000;
/// Attempts at packing a few nodes anew, where there are many so many for each, where there are few no more than that for each.
const ATTEMPTS: usize = 1_500;
const ATTEMPTS_PER_NODE: usize = 6;
const MOST_ATTEMPTS_PER_NODE: usize = 100;
/// Where what is paid is this close to the least that is possible, looking on does not pay.
const CLOSE_ENOUGH: f64 = 1.003;
/// Programmes with more rows than this are not made: the inverse is a square of them, and as many patterns are wanted. With
/// so many kinds prices of resources are as good.
pub(super) const MOST_ROWS: usize = 400;

/// With more items than this, most of them bound to hosts, little is looked at for each.
const FEW_ITEMS: usize = 256;
const HOST_BOUND: f64 = 0.3;

/// How much is looked at by prices of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Several times, then improved.
    Full,
    /// Once, with few types and samples: where most pods are told apart by whom they stand beside them, filling a node
    /// takes the longest and what there is to choose is least.
    Lean,
}

/// Where pools and pods leave more ways of buying than this, types of about one price stand for each other: every one of
/// them has to be looked at in every pass, of which there are fewer then.
const MOST_OFFERS: usize = 2_000;
const FEW_PASSES: usize = 3;

/// How often everything is packed by prices of resources, if work allows.
const PASSES: usize = 8;

/// A node to be bought.
#[derive(Clone, Debug)]
pub(super) struct Bin {
    pub(super) lane: usize,
    pub(super) kind: usize,
    pub(super) price: f64,
    pub(super) counts: Vec<(usize, u32)>,
}

/// The same pods on other nodes.
pub(crate) struct Packed {
    pub(crate) by_programme: Option<Vec<Claim>>,
    pub(crate) by_prices: Option<Vec<Claim>>,
    /// Little was looked at; nor is it to be afterwards.
    pub(crate) lean: bool,
}

pub(crate) struct Packer {
    items: Items,
    pub(super) lanes: Lanes,
    /// By item.
    pub(super) entries: Entries,
    /// By row of the programme: items without ports and neighbours.
    pub(super) rows: Entries,
    pub(super) demand: Vec<u32>,
    /// Worth of an item, by item.
    pub(super) values: Vec<f64>,
    pub(super) bins: Vec<Bin>,
    /// What was bought by prices.
    by_prices: Vec<Bin>,
    effort: Effort,
    pub(super) work: u64,
    work_of_programme: u64,
    pub(super) usable_rows: Vec<Vec<usize>>,
    pub(super) usable_items: Vec<Bits>,
    /// What resources are worth, by lane.
    pub(super) prices: Vec<Vec<f64>>,
}

impl Packer {
    pub(crate) fn new(problem: &mut Problem<'_>, items: Items) -> Self {
        let lanes = Lanes::new(problem, &items);
        let (mut entries, mut rows) = (Entries::new(&lanes), Entries::new(&lanes));
        for item in &items.all {
            let (set, templates) = (item.set, item.templates.clone());
            let entry = Entry { set, templates, ports: item.ports.clone(), neighbours: item.neighbours.clone() };
            entries.push(entry, &item.requests, &lanes);
        }
        for item in items.rows.iter().map(|index| &items.all[*index]) {
            let (set, templates) = (item.set, item.templates.clone());
            rows.push(Entry { set, templates, ports: [].into(), neighbours: [].into() }, &item.requests, &lanes);
        }
        let mut demand = vec![0; rows.len()];
        items.all.iter().for_each(|item| demand[item.row] += item.pods.len() as u32);
        let usable_rows = usable(problem, &lanes, &rows).iter().map(|rows| rows.iter().collect()).collect();
        let usable_items = usable(problem, &lanes, &entries);
        let values = vec![0.0; entries.len()];
        let (bins, by_prices, work, work_of_programme, prices) = Default::default();
        let effort = Effort::Full;
        Self {
            items,
            lanes,
            entries,
            rows,
            demand,
            values,
            bins,
            by_prices,
            effort,
            work,
            work_of_programme,
            usable_rows,
            usable_items,
            prices,
        }
    }

    /// Packs everything; `baseline` is what the present claims cost.
    pub(crate) fn pack(&mut self, problem: &mut Problem<'_>, baseline: f64) {
        let values = self.price_resources(problem);
        let worth = |(item, value): (&Item, &f64)| value * item.pods.len() as f64;
        let bound: f64 = self.items.all.iter().zip(&values).map(worth).sum();
        if bound > baseline * 0.995 {
            return; // not even fractions of nodes would be cheaper
        }
        let host_bound = self.share_bound_to_hosts(&values) > HOST_BOUND;
        let many = self.entries.len() > FEW_ITEMS;
        self.effort = if host_bound && many { Effort::Lean } else { Effort::Full };
        let is_small = self.effort == Effort::Full && self.rows.len() <= MOST_ROWS;
        let programme = if is_small { self.programme(problem, baseline) } else { None };
        self.values = values;
        self.by_prices(problem, bound);
        self.by_prices = std::mem::take(&mut self.bins);
        let close = !self.by_prices.is_empty() && price_of(&self.by_prices) < bound * CLOSE_ENOUGH;
        if let Some(master) = programme.filter(|_| !close) {
            self.by_programme(problem, &master);
        }
    }

    /// How much of what there is, by value, cannot stand some other pods or a second of its kind on its node.
    fn share_bound_to_hosts(&self, values: &[f64]) -> f64 {
        let (mut bound, mut all) = (0.0, 0.0);
        for (item, value) in self.items.all.iter().zip(values) {
            let worth = value * item.pods.len() as f64;
            all += worth;
            bound += if item.neighbours.is_empty() && item.ports.is_empty() { 0.0 } else { worth };
        }
        bound / f64::max(all, 1e-9)
    }

    /// The programme over patterns; nothing where not even fractions of its nodes would be cheaper.
    fn programme(&mut self, problem: &mut Problem<'_>, baseline: f64) -> Option<Master> {
        self.work = 0;
        let mut master = Master::new(self.singletons()?, &self.demand);
        self.price_patterns(problem, &mut master);
        self.work_of_programme = self.work;
        (master.cost() <= baseline * 0.995).then_some(master)
    }

    /// Values from a programme over patterns, whole patterns first. No nodes where that does not pack everything.
    fn by_programme(&mut self, problem: &mut Problem<'_>, master: &Master) {
        self.work = self.work_of_programme;
        let values = master.values();
        self.items.all.iter().zip(&mut self.values).for_each(|(item, value)| *value = values[item.row]);
        let mut caps = self.caps();
        self.buy_whole_patterns(problem, master, &mut caps);
        let offers = self.offers();
        if self.buy(problem, caps, Filled::ByValue(Measure::Sum), &offers, 2 * MOST_WORK) {
            self.rework(problem, &offers, ATTEMPTS, MOST_WORK, 0.0);
        } else {
            self.bins.clear();
        }
    }

    /// Values from prices of resources, put right by what things came to cost. `bound` is the least that is possible.
    fn by_prices(&mut self, problem: &mut Problem<'_>, bound: f64) {
        self.work = 0;
        let (offers, passes, filled) = match self.effort {
            Effort::Full => {
                let (all, filled) = (self.offers(), Filled::Alike { sample: SAMPLE });
                if all.len() <= MOST_OFFERS {
                    (all, PASSES, filled)
                } else {
                    (self.spaced_offers(), FEW_PASSES, filled)
                }
            }
            Effort::Lean => (self.spaced_offers(), 1, Filled::Alike { sample: SMALL_SAMPLE }),
        };
        let mut best: Option<(f64, Vec<Bin>, Vec<f64>)> = None;
        for pass in 0..passes {
            let caps = self.caps();
            self.bins.clear();
            if pass > 0 && self.work > MOST_WORK || !self.buy(problem, caps, filled, &offers, u64::MAX) {
                break;
            }
            let price = price_of(&self.bins);
            let corrected = self.corrected_values();
            let values = std::mem::replace(&mut self.values, corrected);
            if best.as_ref().is_none_or(|(least, ..)| price < *least) {
                best = Some((price, std::mem::take(&mut self.bins), values));
            }
            if price < bound * CLOSE_ENOUGH {
                break;
            }
        }
        self.bins.clear();
        let Some((_, bins, values)) = best else { return };
        (self.bins, self.values) = (bins, values);
        if self.effort == Effort::Lean {
            return;
        }
        let most_work = self.work + REWORK + REWORK_PER_NODE * self.bins.len() as u64;
        let offers = if self.rows.len() <= MOST_ROWS { offers } else { self.offers_in_use() };
        let most = ATTEMPTS.max(ATTEMPTS_PER_NODE * self.bins.len());
        let attempts = most.min(MOST_ATTEMPTS_PER_NODE * self.bins.len());
        self.rework(problem, &offers, attempts, most_work, bound * CLOSE_ENOUGH);
    }

    /// Items that ended on nodes worth less than their price are worth more than was thought: they are hard to place, and
    /// come before others the next time.
    fn corrected_values(&self) -> Vec<f64> {
        let mut costs = vec![0.0; self.values.len()];
        for bin in &self.bins {
            let worth: f64 = bin.counts.iter().map(|(item, count)| self.values[*item] * f64::from(*count)).sum();
            let dearer = bin.price / worth.max(1e-9);
            for (item, count) in &bin.counts {
                costs[*item] += self.values[*item] * dearer * f64::from(*count);
            }
        }
        let pods = self.items.all.iter().map(|item| item.pods.len() as f64);
        let costs = costs.into_iter().zip(pods).map(|(cost, pods)| cost / pods.max(1.0));
        self.values.iter().zip(costs).map(|(value, cost)| (value + cost) / 2.0).collect()
    }

    /// By item: how many there are.
    fn caps(&self) -> Vec<u32> {
        self.items.all.iter().map(|item| item.pods.len() as u32).collect()
    }

    /// Nodes for so many of each item. Whether that is everything.
    fn buy(
        &mut self,
        problem: &mut Problem<'_>,
        caps: Vec<u32>,
        filled: Filled,
        offers: &[Offer],
        most_work: u64,
    ) -> bool {
        let items: Vec<usize> = (0..caps.len()).filter(|item| caps[*item] > 0).collect();
        let mut task = Task { items: &items, caps, values: &self.values, filled, offers, most_work };
        let mut work = self.work;
        let bins = self.stock().greedy(problem, &mut task, &mut work);
        let complete = task.caps.iter().all(|cap| *cap == 0);
        self.work = work;
        self.bins.extend(bins);
        complete
    }

    pub(super) fn stock(&self) -> Stock<'_> {
        Stock { lanes: &self.lanes, entries: &self.entries, usable: &self.usable_items, prices: &self.prices }
    }

    /// What items are worth by prices of resources; the same go to the lanes. Items that may go to the same places have the
    /// same prices, which their own lanes decide.
    fn price_resources(&mut self, problem: &mut Problem<'_>) -> Vec<f64> {
        let resources = self.lanes.resources.len();
        let mut flavours: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        let mut at: FxHashMap<(SetId, &[u64]), usize> = FxHashMap::default();
        for (index, item) in self.items.all.iter().enumerate() {
            let next = flavours.len();
            let flavour = *at.entry((item.set, item.templates.words())).or_insert(next);
            if flavour == next {
                let of_template = |template: usize| {
                    let set = problem.terms.join(problem.templates[template].base, item.set)?;
                    self.lanes.all.iter().position(|lane| lane.template == template && lane.set == set)
                };
                flavours.push((item.templates.iter().filter_map(of_template).collect(), Vec::new()));
            }
            flavours[flavour].1.push(index);
        }
        self.prices = vec![Vec::new(); self.lanes.all.len()];
        let mut values = vec![0.0; self.entries.len()];
        for (lanes, members) in flavours {
            let mut demand = vec![0.0; resources];
            for item in &members {
                let requests = self.entries.requests(*item).iter();
                let count = self.items.all[*item].pods.len() as f64;
                demand.iter_mut().zip(requests).for_each(|(all, want)| *all += *want as f64 * count);
            }
            let types = lanes.iter().flat_map(|lane| self.lanes.all[*lane].types.iter());
            let prices = of_resources(&demand, types.map(|of| (&*of.room, of.price)));
            for item in members {
                let requests = self.entries.requests(item).iter();
                values[item] = requests.zip(&prices).map(|(want, price)| *want as f64 * price).sum();
            }
            for lane in lanes {
                if self.prices[lane].is_empty() {
                    self.prices[lane].clone_from(&prices);
                }
            }
        }
        self.prices.iter_mut().for_each(|prices| prices.resize(resources, 0.0));
        values
    }

    fn offers(&self) -> Vec<Offer> {
        let types = |lane: usize| (0..self.lanes.all[lane].types.len()).map(move |of| Offer { lane, of });
        (0..self.lanes.all.len()).flat_map(types).collect()
    }

    /// Of types of about one price those that cost least for their room.
    fn spaced_offers(&self) -> Vec<Offer> {
        const ABOUT: f64 = 2.0;
        const BEST: usize = 2;
        let mut offers = Vec::new();
        for (at, (lane, prices)) in self.lanes.all.iter().zip(&self.prices).enumerate() {
            let worth = |of: &usize| {
                let of = &lane.types[*of];
                of.room.iter().zip(prices).map(|(room, price)| *room as f64 * price).sum::<f64>() / of.price
            };
            // Types come cheapest first.
            let mut from = 0;
            while from < lane.types.len() {
                let alike = lane.types[from..].iter().take_while(|of| of.price <= lane.types[from].price * ABOUT);
                let to = from + alike.count().max(1);
                let mut best: Vec<usize> = (from..to).collect();
                best.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(b.cmp(a)));
                best.truncate(BEST);
                best.sort_unstable();
                offers.extend(best.into_iter().map(|of| Offer { lane: at, of }));
                from = to;
            }
        }
        offers
    }

    /// Of types and lanes some node was bought for.
    fn offers_in_use(&self) -> Vec<Offer> {
        let of = |bin: &Bin| {
            let of = self.lanes.all[bin.lane].types.iter().position(|of| of.kind == bin.kind)?;
            Some(Offer { lane: bin.lane, of })
        };
        let mut offers: Vec<Offer> = self.bins.iter().filter_map(of).collect();
        offers.sort_unstable();
        offers.dedup();
        offers
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
                let mut ordered: Vec<u32> = Vec::new();
                for (row, count) in &pattern.counts {
                    let mut left = *count;
                    for item in &of_row[*row] {
                        wanted[*item] = caps[*item].min(left);
                        left -= wanted[*item];
                        if wanted[*item] > 0 {
                            ordered.push(*item as u32);
                        }
                    }
                }
                if !self.fill_as_planned(problem, &pattern, &ordered, &wanted, caps) {
                    break;
                }
            }
        }
    }

    fn fill_as_planned(
        &mut self,
        problem: &mut Problem<'_>,
        pattern: &Pattern,
        ordered: &[u32],
        wanted: &[u32],
        caps: &mut [u32],
    ) -> bool {
        let (template, kind) = (self.lanes.all[pattern.lane].template, pattern.kind);
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

    /// What was bought in each way, as claims.
    pub(crate) fn claims(&self, problem: &mut Problem<'_>, frozen: &[Claim]) -> Packed {
        let by_programme = self.claims_of(problem, &self.bins, frozen);
        let by_prices = self.claims_of(problem, &self.by_prices, frozen);
        Packed { by_programme, by_prices, lean: self.effort == Effort::Lean }
    }

    /// The bins as claims; nothing where a pod was left out, a limit would be overshot or minValues missed.
    fn claims_of(&self, problem: &mut Problem<'_>, bins: &[Bin], frozen: &[Claim]) -> Option<Vec<Claim>> {
        let mut next: Vec<usize> = vec![0; self.items.all.len()];
        let mut limits: Vec<Vec<i128>> =
            problem.templates.iter().map(|t| t.limits.iter().map(|(_, left)| *left).collect()).collect();
        let mut node_limits: Vec<Option<i64>> = problem.templates.iter().map(|t| t.node_limit).collect();
        for claim in frozen {
            let worst = problem.worst_capacity(claim.template, &claim.types);
            limits[claim.template].iter_mut().zip(worst).for_each(|(left, amount)| *left -= amount);
            node_limits[claim.template] = node_limits[claim.template].map(|left| left - 1);
        }
        let mut claims = Vec::with_capacity(bins.len());
        for bin in bins {
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

fn price_of(bins: &[Bin]) -> f64 {
    bins.iter().map(|bin| bin.price).sum()
}

/// Which entries may go on a lane at all.
fn usable(problem: &mut Problem<'_>, lanes: &Lanes, entries: &Entries) -> Vec<Bits> {
    let mut usable = Vec::with_capacity(lanes.all.len());
    for lane in &lanes.all {
        let fits = |index: &usize| {
            let entry = &entries.all[*index];
            entry.templates.contains(lane.template) && problem.terms.join(lane.set, entry.set).is_some()
        };
        usable.push((0..entries.len()).filter(fits).collect());
    }
    usable
}
