//! Filling one node: the most valuable pods for its room, greedily.

use std::sync::Arc;

use karpenter_core::ports::HostPort;

use crate::columns::Amount;
use crate::groups::Kind;
use crate::problem::Problem;
use crate::repack::kinds::Neighbour;
use crate::repack::lanes::{Lane, LaneType};
use crate::terms::SetId;

/// Something that can be packed, as often as its cap says.
pub(crate) struct Entry {
    pub(crate) set: SetId,
    pub(crate) requests: Vec<Amount>,
    pub(crate) templates: crate::bits::Bits,
    pub(crate) ports: Arc<[HostPort]>,
    pub(crate) neighbours: Arc<[Neighbour]>,
}

/// What was put on a node.
#[derive(Clone, Debug)]
pub(crate) struct Filling {
    pub(crate) set: SetId,
    /// Entry and how many.
    pub(crate) counts: Vec<(usize, u32)>,
    pub(crate) value: f64,
}

/// Who is on a node in the hostname groups.
#[derive(Clone, Default)]
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
    entries: &[Entry],
    usable: &[usize],
    of: &LaneType,
    values: &[f64],
    measure: Measure,
    into: &mut Vec<(f64, usize)>,
) {
    into.clear();
    for entry in usable {
        let shares = entries[*entry].requests.iter().zip(&of.share).map(|(amount, share)| *amount as f64 * share);
        let size = match measure {
            Measure::Sum => shares.sum::<f64>(),
            Measure::Largest => shares.fold(0.0, f64::max),
        };
        into.push((values[*entry] / size.max(1e-12), *entry));
    }
    into.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
}

/// Fills a node of the type. Nothing joins that would make it dearer than it is.
pub(crate) fn fill(
    problem: &mut Problem<'_>,
    lane: &Lane,
    of: &LaneType,
    entries: &[Entry],
    ordered: &[(f64, usize)],
    caps: &[u32],
    values: &[f64],
) -> Filling {
    let catalog = problem.templates[lane.template].catalog;
    let mut filling = Filling { set: lane.set, counts: Vec::new(), value: 0.0 };
    let mut left = of.room.clone();
    let mut company = Company::default();
    for (_, index) in ordered {
        let (entry, cap) = (&entries[*index], caps[*index]);
        if cap == 0 {
            continue;
        }
        let fits = |(have, want): (&Amount, &Amount)| {
            if *want <= 0 { u32::MAX } else { (have / want).clamp(0, i128::from(u32::MAX)) as u32 }
        };
        let mut count = left.iter().zip(&entry.requests).map(fits).min().unwrap_or(0).min(cap);
        if count == 0 {
            continue;
        }
        if !entry.neighbours.is_empty() || !entry.ports.is_empty() {
            count = count.min(company.room_for(&entry.neighbours, &entry.ports, problem, count));
            if count == 0 {
                continue;
            }
        }
        let Some(set) = problem.terms.join(filling.set, entry.set) else { continue };
        if set != filling.set {
            let usable = problem.catalogs[catalog].usable(set, &mut problem.terms);
            let price = problem.catalogs[catalog].cheapest(of.kind, &usable.profiles);
            if !usable.types.contains(of.kind) || price.0 as f64 > of.price {
                continue;
            }
            filling.set = set;
        }
        left.iter_mut().zip(&entry.requests).for_each(|(have, want)| *have -= want * Amount::from(count));
        company.add(&entry.neighbours, &entry.ports, count);
        filling.value += values[*index] * f64::from(count);
        filling.counts.push((*index, count));
    }
    filling
}

/// Looks for a better mix around a filling: one or two fewer of something, the gap filled with the rest. Greedy filling
/// by value for size leaves odd gaps on small nodes; this closes most of them.
#[expect(clippy::too_many_arguments, reason = "what `fill` takes, and where to start")]
pub(crate) fn polish(
    problem: &mut Problem<'_>,
    lane: &Lane,
    of: &LaneType,
    entries: &[Entry],
    ordered: &[(f64, usize)],
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
