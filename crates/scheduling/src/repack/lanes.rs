//! Where things can be packed: for each pool and flavour of requirements, the types worth looking at.

use std::sync::Arc;

use karpenter_core::labels::SPOT;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bits::Bits;
use crate::catalog::Usable;
use crate::columns::{Amount, Amounts, ResId};
use crate::problem::Problem;
use crate::repack::kinds::Items;
use crate::terms::SetId;

/// A template narrowed by what some pods ask for.
pub(crate) struct Lane {
    pub(crate) template: usize,
    pub(crate) set: SetId,
    /// Lanes that leave the same types at the same prices share them.
    pub(crate) types: Arc<[LaneType]>,
}

/// An amount while packing, in grains of its resource: half as wide as [`Amount`], and divided several times as fast.
pub(crate) type Grains = i64;

pub(crate) struct LaneType {
    pub(crate) kind: usize,
    pub(crate) price: f64,
    /// By resource of [`Lanes::resources`].
    pub(crate) room: Vec<Grains>,
    /// One over the room: what a unit of each resource takes of the node.
    pub(crate) share: Vec<f64>,
    /// The same for a grain.
    pub(crate) share_of_grains: Vec<f64>,
}

pub(crate) struct Lanes {
    pub(crate) all: Vec<Lane>,
    pub(crate) resources: Vec<ResId>,
    /// By resource: how many nano units a grain has.
    grains: Vec<Amount>,
}

/// Where more types than this are worth a look, every second or third will do: neighbours differ little.
const MOST_TYPES: usize = 256;
/// A spot node should be able to become this many types, or a reclaim of one pool finds it without a way out.
const SPOT_CHOICES: usize = 15;
/// An on-demand node enough that one stock-out does not stop it.
const ON_DEMAND_CHOICES: usize = 3;
/// Beyond this nano units do not fit, with room to add some up. Then grains are whole units.
const MOST_GRAINS: Amount = 1 << 60;
const WHOLE: Amount = 1_000_000_000;

/// What decides which types a lane has: template, types and ways of buying them.
type Selection = (usize, Vec<u64>, Vec<usize>);

impl Lanes {
    pub(crate) fn new(problem: &mut Problem<'_>, items: &Items) -> Self {
        let mut resources: Vec<ResId> =
            items.all.iter().flat_map(|item| item.requests.0.iter().map(|(id, _)| *id)).collect();
        resources.sort_unstable();
        resources.dedup();
        let grains = resources.iter().map(|resource| grain(problem, items, *resource)).collect();
        let mut lanes = Self { all: Vec::new(), resources, grains };
        let mut seen: FxHashSet<(usize, SetId)> = FxHashSet::default();
        let mut known: FxHashMap<Selection, Arc<[LaneType]>> = FxHashMap::default();
        for item in &items.all {
            for template in item.templates.iter() {
                let base = problem.templates[template].base;
                let Some(set) = problem.terms.join(base, item.set) else { continue };
                if seen.insert((template, set)) {
                    let types = lanes.types(problem, template, set, &mut known);
                    lanes.all.push(Lane { template, set, types });
                }
            }
        }
        lanes.all.retain(|lane| !lane.types.is_empty());
        lanes
    }

    /// By resource, rounded up: what fits in grains fits.
    pub(crate) fn asked(&self, amounts: &Amounts) -> impl Iterator<Item = Grains> {
        let each = self.resources.iter().zip(&self.grains);
        each.map(|(resource, grain)| -(-amounts.get(*resource)).div_euclid(*grain) as Grains)
    }

    fn room(&self, amounts: &Amounts) -> Vec<Grains> {
        let each = self.resources.iter().zip(&self.grains);
        each.map(|(resource, grain)| amounts.get(*resource).div_euclid(*grain) as Grains).collect()
    }

    fn types(
        &self,
        problem: &mut Problem<'_>,
        template: usize,
        set: SetId,
        known: &mut FxHashMap<Selection, Arc<[LaneType]>>,
    ) -> Arc<[LaneType]> {
        let catalog = problem.templates[template].catalog;
        let usable = problem.catalogs[catalog].usable(set, &mut problem.terms);
        let of = &problem.catalogs[catalog];
        let mut types = problem.templates[template].types.clone();
        types.and(&usable.types);
        let mut plain: Bits = types.clone();
        plain.and_not(&of.exotic);
        if !plain.is_empty() {
            types = plain;
        }
        let selection = (template, types.words().to_vec(), usable.profiles.clone());
        let make = || self.worth_buying(problem, template, &types, &usable).into();
        known.entry(selection).or_insert_with(make).clone()
    }

    /// Types no other type beats in every way, and with enough larger ones beside them to fall back on.
    fn worth_buying(&self, problem: &Problem<'_>, template: usize, types: &Bits, usable: &Usable) -> Vec<LaneType> {
        let of = &problem.catalogs[problem.templates[template].catalog];
        let may_be_spot = usable.profiles.iter().any(|at| of.profiles[*at].capacity_type.as_deref() == Some(SPOT));
        let room_of = |kind: usize| self.room(&problem.templates[template].room[kind]);
        let mut offers: Vec<(u64, usize, Vec<Grains>)> =
            types.iter().map(|kind| (of.cheapest(kind, &usable.profiles).0, kind, room_of(kind))).collect();
        // Cheapest first; of equals the roomiest, so that what follows need only look back.
        offers.sort_by(|a, b| {
            a.0.cmp(&b.0).then_with(|| b.2.cmp(&a.2)).then_with(|| of.name_rank[a.1].cmp(&of.name_rank[b.1]))
        });
        let covers = |large: &[Grains], small: &[Grains]| large.iter().zip(small).all(|(l, s)| l >= s);
        let wanted = if may_be_spot { SPOT_CHOICES } else { ON_DEMAND_CHOICES }.min(offers.len());
        let mut kept: Vec<usize> = Vec::new();
        for (at, (_, _, room)) in offers.iter().enumerate() {
            if room.iter().any(|amount| *amount < 0) || kept.iter().any(|k| covers(&offers[*k].2, room)) {
                continue;
            }
            if offers.iter().filter(|(_, _, other)| covers(other, room)).count() >= wanted {
                kept.push(at);
            }
        }
        if kept.len() > MOST_TYPES {
            let step = kept.len().div_ceil(MOST_TYPES);
            let last = kept.len() - 1;
            let mut at = 0;
            kept.retain(|_| {
                at += 1;
                (at - 1) % step == 0 || at - 1 == last
            });
        }
        let lane_type = |at: usize| {
            let (price, kind, room) = &offers[at];
            let exact = |resource: &ResId| problem.templates[template].room[*kind].get(*resource);
            let one_over = |amount: Amount| if amount > 0 { 1.0 / amount as f64 } else { 0.0 };
            let share = self.resources.iter().map(exact).map(one_over).collect();
            let share_of_grains = room.iter().map(|amount| one_over((*amount).into())).collect();
            LaneType { kind: *kind, price: *price as f64, room: room.clone(), share, share_of_grains }
        };
        kept.into_iter().map(lane_type).collect()
    }
}

fn grain(problem: &Problem<'_>, items: &Items, resource: ResId) -> Amount {
    let rooms = problem.templates.iter().flat_map(|template| template.room.iter().map(|room| room.get(resource)));
    let most = items.all.iter().map(|item| item.requests.get(resource)).chain(rooms).map(Amount::abs).max();
    if most.unwrap_or(0) < MOST_GRAINS { 1 } else { WHOLE }
}
