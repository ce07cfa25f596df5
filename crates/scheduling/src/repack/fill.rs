//! Filling one node: the most valuable pods for its room, greedily.

use std::sync::Arc;

use karpenter_core::ports::HostPort;
use smallvec::SmallVec;

use crate::bits::Bits;
use crate::columns::Amounts;
use crate::groups::Kind;
use crate::problem::Problem;
use crate::repack::kinds::Neighbour;
use crate::repack::lanes::{Grains, Lane, LaneType, Lanes};
use crate::terms::SetId;

/// Something that can be packed, as often as its cap says.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) set: SetId,
    pub(crate) templates: Bits,
    pub(crate) ports: Arc<[HostPort]>,
    pub(crate) neighbours: Arc<[Neighbour]>,
}

/// Entries with what they ask for in columns: filling looks at that of nearly all of them, and at the rest of few.
pub(crate) struct Entries {
    pub(crate) all: Vec<Entry>,
    resources: usize,
    /// Entry by entry, each by resource.
    requests: Vec<Grains>,
    /// The same in nano units.
    sizes: Vec<f64>,
}

impl Entries {
    pub(crate) fn new(lanes: &Lanes) -> Self {
        Self { all: Vec::new(), resources: lanes.resources.len(), requests: Vec::new(), sizes: Vec::new() }
    }

    pub(crate) fn push(&mut self, entry: Entry, requests: &Amounts, lanes: &Lanes) {
        self.all.push(entry);
        self.requests.extend(lanes.asked(requests));
        self.sizes.extend(lanes.resources.iter().map(|resource| requests.get(*resource) as f64));
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn requests(&self, entry: usize) -> &[Grains] {
        &self.requests[entry * self.resources..][..self.resources]
    }

    pub(crate) fn sizes(&self, entry: usize) -> &[f64] {
        &self.sizes[entry * self.resources..][..self.resources]
    }
}

/// What was put on a node.
#[derive(Clone, Debug)]
pub(crate) struct Filling {
    pub(crate) set: SetId,
    /// Entry and how many.
    pub(crate) counts: Vec<(usize, u32)>,
    pub(crate) value: f64,
    left: SmallVec<[Grains; 4]>,
    company: Company,
}

/// Who is on a node in the hostname groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct Company {
    /// Group, owners that count themselves, other owners, counted pods.
    groups: Vec<(crate::groups::GroupId, u32, u32, u32)>,
    ports: Vec<HostPort>,
}

impl Company {
    /// How many more of an entry the others stand, up to `wanted`; 0 where it cannot stand them.
    pub(crate) fn room_for(
        &self,
        neighbours: &[Neighbour],
        ports: &[HostPort],
        problem: &Problem<'_>,
        wanted: u32,
    ) -> u32 {
        let mut most = wanted;
        if !ports.is_empty() {
            most = most.min(1);
            if ports.iter().any(|mine| self.ports.iter().any(|theirs| mine.clashes(theirs))) {
                return 0;
            }
        }
        for part in neighbours {
            let here = self.groups.iter().find(|group| group.0 == part.group);
            let (selves, owners, counted) = here.map_or((0, 0, 0), |group| (group.1, group.2, group.3));
            let group = problem.groups.get(part.group);
            most = most.min(match (group.kind, part.owner, part.counted) {
                // Owned by somebody here, or about to be: no more than the skew allows.
                (Kind::Spread, _, true) if part.owner || selves + owners > 0 => {
                    (group.max_skew - i64::from(counted)).clamp(0, i64::from(u32::MAX)) as u32
                }
                (Kind::Spread, true, false) if i64::from(counted) > group.max_skew => 0,
                (Kind::AntiAffinity, true, true) => u32::from(selves + owners + counted == 0),
                (Kind::AntiAffinity, true, false) if counted > 0 => 0,
                (Kind::AntiAffinity, false, true) if selves + owners > 0 => 0,
                _ => u32::MAX,
            });
        }
        most
    }

    pub(crate) fn add(&mut self, neighbours: &[Neighbour], ports: &[HostPort], count: u32) {
        self.ports.extend(ports.iter().cloned());
        for part in neighbours {
            let at = match self.groups.iter().position(|group| group.0 == part.group) {
                Some(at) => at,
                None => {
                    self.groups.push((part.group, 0, 0, 0));
                    self.groups.len() - 1
                }
            };
            let group = &mut self.groups[at];
            match (part.owner, part.counted) {
                (true, true) => group.1 += count,
                (true, false) => group.2 += count,
                (false, _) => {}
            }
            if part.counted {
                group.3 += count;
            }
        }
    }
}

/// How much of a node a pod takes: of all resources together, or of the one it takes most of. Neither is right for every
/// mix, so packing tries both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Sum,
    Largest,
}

/// The entries of a lane, by how much each is worth for what it takes of the type.
pub(crate) fn order(
    entries: &Entries,
    usable: impl Iterator<Item = usize>,
    of: &LaneType,
    values: &[f64],
    measure: Measure,
) -> Vec<u32> {
    let mut ordered: Vec<(f64, u32)> = Vec::with_capacity(usable.size_hint().0);
    for entry in usable {
        let shares = entries.sizes(entry).iter().zip(&of.share).map(|(amount, share)| amount * share);
        let size = match measure {
            Measure::Sum => shares.sum::<f64>(),
            Measure::Largest => shares.fold(0.0, f64::max),
        };
        ordered.push((values[entry] / size.max(1e-12), entry as u32));
    }
    ordered.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    ordered.into_iter().map(|(_, entry)| entry).collect()
}

/// Fills a node of the type. Nothing joins that would make it dearer than it is.
pub(crate) fn fill(
    problem: &mut Problem<'_>,
    lane: &Lane,
    of: &LaneType,
    entries: &Entries,
    ordered: &[u32],
    caps: &[u32],
    values: &[f64],
) -> Filling {
    let mut filling = Filling::empty(lane, of);
    filling.take(problem, lane, of, entries, ordered, caps, values);
    filling
}

impl Filling {
    fn empty(lane: &Lane, of: &LaneType) -> Self {
        let left = SmallVec::from_slice(&of.room);
        Self { set: lane.set, counts: Vec::new(), value: 0.0, left, company: Company::default() }
    }

    /// Takes what still fits, each entry as often as its cap says.
    #[expect(clippy::too_many_arguments, reason = "what `fill` takes")]
    fn take(
        &mut self,
        problem: &mut Problem<'_>,
        lane: &Lane,
        of: &LaneType,
        entries: &Entries,
        ordered: &[u32],
        caps: &[u32],
        values: &[f64],
    ) {
        for index in ordered {
            let index = *index as usize;
            // Nearly all entries end here, as the node is nearly full nearly always.
            if caps[index] > 0 && self.has_room(entries.requests(index)) {
                self.add(problem, lane, of, entries, index, caps[index], values[index]);
            }
        }
    }

    fn has_room(&self, requests: &[Grains]) -> bool {
        requests.iter().zip(&self.left).all(|(want, have)| want <= have)
    }

    /// Adds up to `most` of an entry that has room for one; whether any was added.
    #[expect(clippy::too_many_arguments, reason = "what `fill` takes")]
    fn add(
        &mut self,
        problem: &mut Problem<'_>,
        lane: &Lane,
        of: &LaneType,
        entries: &Entries,
        index: usize,
        most: u32,
        value: f64,
    ) -> bool {
        let (entry, requests) = (&entries.all[index], entries.requests(index));
        let fits = |(have, want): (&Grains, &Grains)| {
            if *want <= 0 { u32::MAX } else { (have / want).clamp(0, i64::from(u32::MAX)) as u32 }
        };
        let mut count =
            if most == 1 { 1 } else { self.left.iter().zip(requests).map(fits).min().unwrap_or(0).min(most) };
        if !entry.neighbours.is_empty() || !entry.ports.is_empty() {
            count = count.min(self.company.room_for(&entry.neighbours, &entry.ports, problem, count));
        }
        if count == 0 {
            return false;
        }
        let Some(set) = problem.terms.join(self.set, entry.set) else { return false };
        if set != self.set {
            let catalog = &mut problem.catalogs[problem.templates[lane.template].catalog];
            let usable = catalog.usable(set, &mut problem.terms);
            let price = catalog.cheapest(of.kind, &usable.profiles);
            if !usable.types.contains(of.kind) || price.0 as f64 > of.price {
                return false;
            }
            self.set = set;
        }
        self.left.iter_mut().zip(requests).for_each(|(have, want)| *have -= want * Grains::from(count));
        self.company.add(&entry.neighbours, &entry.ports, count);
        self.value += value * f64::from(count);
        match self.counts.iter_mut().find(|(known, _)| *known == index) {
            Some((_, known)) => *known += count,
            None => self.counts.push((index, count)),
        }
        true
    }
}

/// Fills a node with what is most like the room that is left on it, one after the other: large pods before small ones, which
/// fit everywhere, and so that no resource runs out long before the others.
#[expect(clippy::too_many_arguments, reason = "what `fill` takes")]
pub(crate) fn align(
    problem: &mut Problem<'_>,
    lane: &Lane,
    of: &LaneType,
    entries: &Entries,
    usable: &[usize],
    caps: &[u32],
    values: &[f64],
    prices: &[f64],
    work: &mut u64,
) -> Filling {
    // A resource that is worth nothing may run out as it likes, or nearly: what is left of it is room for small pods.
    let weight = |(price, room): (&f64, &Grains)| 0.1 + price * *room as f64 / of.price;
    let weights: Shares = prices.iter().zip(&of.room).map(weight).collect();
    let mut filling = Filling::empty(lane, of);
    let mut open: Vec<Open> = Vec::with_capacity(usable.len());
    for index in usable.iter().copied().filter(|index| caps[*index] > 0) {
        if !filling.has_room(entries.requests(index)) {
            continue;
        }
        let requests = entries.requests(index);
        // Whom the lane was made for comes before those who could be had elsewhere for less.
        let here: f64 = requests.iter().zip(prices).map(|(want, price)| *want as f64 * price).sum();
        let worth = if here > 0.0 { values[index] / here } else { 1.0 };
        let share = |((want, share), weight): ((&Grains, &f64), &f64)| *want as f64 * share * weight * worth;
        let shares = requests.iter().zip(&of.share_of_grains).zip(&weights).map(share).collect();
        open.push(Open { index, cap: caps[index], shares });
    }
    *work += open.len() as u64;
    while !open.is_empty() {
        let rest = |(left, share): (&Grains, &f64)| *left as f64 * share;
        let rest: Shares = filling.left.iter().zip(&of.share_of_grains).map(rest).collect();
        let likeness = |open: &Open| open.shares.iter().zip(&rest).map(|(share, rest)| share * rest).sum::<f64>();
        let scored = open.iter().enumerate().map(|(at, open)| (likeness(open), at));
        let Some((_, at)) = scored.reduce(|a, b| if b.0 > a.0 { b } else { a }) else { break };
        let Open { index, cap, .. } = open[at];
        *work += open.len() as u64 / 8;
        // Some at once where there is room for many: the choice would fall on it again.
        let requests = entries.requests(index).iter().zip(&filling.left);
        let room = requests.filter(|(want, _)| **want > 0).map(|(want, left)| left / want).min().unwrap_or(1);
        let most = cap.min((room / 8).clamp(1, 1 << 20) as u32);
        if filling.add(problem, lane, of, entries, index, most, values[index]) {
            open[at].cap -= most.min(cap);
        } else {
            open[at].cap = 0;
        }
        open.retain(|open| open.cap > 0 && filling.has_room(entries.requests(open.index)));
    }
    filling
}

type Shares = SmallVec<[f64; 4]>;

/// What may still join a node.
struct Open {
    index: usize,
    cap: u32,
    /// What it takes of each resource, times what it is worth for all it takes.
    shares: Shares,
}

/// Looks for a better mix around a filling: one or two fewer of something, the gap filled with the rest. Greedy filling
/// by value for size leaves odd gaps on small nodes; this closes most of them.
#[expect(clippy::too_many_arguments, reason = "what `fill` takes, and where to start")]
pub(crate) fn polish(
    problem: &mut Problem<'_>,
    lane: &Lane,
    of: &LaneType,
    entries: &Entries,
    ordered: &[u32],
    caps: &[u32],
    values: &[f64],
    mut best: Filling,
) -> Filling {
    const PASSES: usize = 3;
    const FEWER: u32 = 3;
    let mut caps = caps.to_vec();
    for _ in 0..PASSES {
        let (mut improved, start) = (false, best.counts.clone());
        for (index, count) in start {
            let before = caps[index];
            for fewer in 1..=FEWER.min(count) {
                caps[index] = count - fewer;
                let filling = fill(problem, lane, of, entries, ordered, &caps, values);
                if filling.value > best.value * (1.0 + 1e-9) {
                    (best, improved) = (filling, true);
                }
            }
            caps[index] = before;
        }
        if !improved {
            break;
        }
    }
    best
}
