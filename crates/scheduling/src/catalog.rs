//! Instance types as tables: for each requirement the set of types it leaves, for each way of buying the types sold so.

use std::sync::Arc;

use karpenter_core::{InstanceType, MicroUsd, Offering};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::bits::Bits;
use crate::launch::is_exotic;
use crate::terms::{KeyId, ReqId, SetId, Terms};

/// One node class's types, compiled once and shared by the pools that use it. A copy shares what is large.
#[derive(Clone)]
pub(crate) struct Catalog {
    pub(crate) types: Arc<[Arc<InstanceType>]>,
    count: usize,
    /// For each key, the types that share a requirement on it. A type without the key is in no group.
    by_key: Arc<FxHashMap<KeyId, Vec<(ReqId, Bits)>>>,
    pub(crate) profiles: Arc<[Profile]>,
    /// Bare metal and accelerators.
    pub(crate) exotic: Arc<Bits>,
    /// By type: its place among all names, for ties.
    pub(crate) name_rank: Arc<[u32]>,
    /// By type: how many keys it has requirements on, and the profiles of its offerings, in order.
    outlines: Arc<[Outline]>,
    masks: FxHashMap<(KeyId, ReqId), Arc<Bits>>,
    usable: FxHashMap<SetId, Arc<Usable>>,
    by_price: FxHashMap<SetId, Arc<[(MicroUsd, usize)]>>,
}

#[derive(Clone, Default)]
struct Outline {
    keys: usize,
    profiles: SmallVec<[u16; 12]>,
}

/// One way of buying: a zone, a capacity type and whatever else distinguishes offerings, over all types sold so.
#[derive(Clone)]
pub(crate) struct Profile {
    pub(crate) set: SetId,
    pub(crate) zone: Option<Arc<str>>,
    pub(crate) capacity_type: Option<Arc<str>>,
    pub(crate) reservation: Option<Arc<str>>,
    pub(crate) available: Bits,
    /// By type; `UNKNOWN` where the type is not available this way.
    pub(crate) prices: Vec<MicroUsd>,
}

/// What a requirement set leaves of a catalogue.
pub(crate) struct Usable {
    /// Types whose requirements can be reconciled with the set.
    pub(crate) by_requirements: Bits,
    /// Profiles a claim with this set may be bought in.
    pub(crate) profiles: Vec<usize>,
    /// Types available in at least one of them.
    pub(crate) offered: Bits,
    /// Both.
    pub(crate) types: Bits,
}

impl Profile {
    fn offer(&mut self, kind: usize, offering: &Offering) {
        if offering.available {
            self.available.insert(kind);
            let price = &mut self.prices[kind];
            *price = (*price).min(offering.price);
        }
    }
}

impl Catalog {
    /// Without `types`, which whoever knows them puts in.
    pub(crate) fn new(types: &[Arc<InstanceType>], terms: &mut Terms) -> Self {
        let count = types.len();
        let mut by_key: FxHashMap<KeyId, Vec<(ReqId, Bits)>> = FxHashMap::default();
        let mut group_at: FxHashMap<(KeyId, ReqId), usize> = FxHashMap::default();
        let mut profiles: Vec<Profile> = Vec::new();
        let mut profile_at: FxHashMap<SetId, usize> = FxHashMap::default();
        // Types share what they have in common, so most of it is recognised without being looked at. The types are
        // held while this runs: an address means one value.
        let (mut seen_keys, mut seen_reqs, mut seen_sets) =
            (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        let mut outlines = vec![Outline::default(); count];
        for (index, kind) in types.iter().enumerate() {
            outlines[index].keys = kind.requirements.iter().count();
            for (key, requirement) in kind.requirements.0.shared() {
                let key = *seen_keys.entry(Arc::as_ptr(key)).or_insert_with(|| terms.key(key));
                let req = *seen_reqs.entry(Arc::as_ptr(requirement)).or_insert_with(|| terms.req(requirement));
                let groups = by_key.entry(key).or_default();
                let at = *group_at.entry((key, req)).or_insert_with(|| {
                    groups.push((req, Bits::zeros(count)));
                    groups.len() - 1
                });
                groups[at].1.insert(index);
            }
            for offering in &kind.offerings {
                let requirements = &offering.requirements;
                let set = *seen_sets.entry(requirements.0.identity()).or_insert_with(|| terms.set(requirements));
                let at = *profile_at.entry(set).or_insert_with(|| {
                    profiles.push(Profile {
                        set,
                        zone: offering.zone(),
                        capacity_type: offering.capacity_type(),
                        reservation: offering.reservation.as_ref().map(|r| r.id.clone()),
                        available: Bits::zeros(count),
                        prices: vec![MicroUsd::UNKNOWN; count],
                    });
                    profiles.len() - 1
                });
                outlines[index].profiles.push(at as u16);
                profiles[at].offer(index, offering);
            }
        }
        let exotic: Bits = (0..count).filter(|kind| is_exotic(&types[*kind])).collect();
        let mut names: Vec<usize> = (0..count).collect();
        names.sort_unstable_by(|a, b| types[*a].name.cmp(&types[*b].name));
        let mut name_rank = vec![0; count];
        names.iter().enumerate().for_each(|(rank, kind)| name_rank[*kind] = rank as u32);
        Self {
            types: Arc::from([]),
            count,
            exotic: Arc::new(exotic),
            name_rank: name_rank.into(),
            by_key: Arc::new(by_key),
            profiles: profiles.into(),
            outlines: outlines.into(),
            masks: FxHashMap::default(),
            usable: FxHashMap::default(),
            by_price: FxHashMap::default(),
        }
    }

    /// The same tables where some types are offered differently now and are the same otherwise; nothing where more than
    /// that has changed.
    pub(crate) fn offered_anew(&self, changed: &[(usize, &InstanceType)], terms: &mut Terms) -> Option<Self> {
        let mut profiles = self.profiles.to_vec();
        for (index, kind) in changed {
            let outline = &self.outlines[*index];
            let same = kind.requirements.iter().count() == outline.keys
                && kind.offerings.len() == outline.profiles.len()
                && is_exotic(kind) == self.exotic.contains(*index);
            if !same {
                return None;
            }
            for (key, requirement) in kind.requirements.iter() {
                let (key, req) = (terms.key(key), terms.req(requirement));
                if !self.groups(key).iter().any(|(theirs, of)| *theirs == req && of.contains(*index)) {
                    return None;
                }
            }
            for at in &outline.profiles {
                let profile = &mut profiles[usize::from(*at)];
                profile.available.remove(*index);
                profile.prices[*index] = MicroUsd::UNKNOWN;
            }
            for (offering, at) in kind.offerings.iter().zip(&outline.profiles) {
                let profile = &mut profiles[usize::from(*at)];
                if terms.set(&offering.requirements) != profile.set {
                    return None;
                }
                profile.offer(*index, offering);
            }
        }
        Some(Self { profiles: profiles.into(), ..self.clone() })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Types that either do not define the key or can be reconciled with the requirement on it.
    fn mask(&mut self, key: KeyId, req: ReqId, terms: &mut Terms) -> Arc<Bits> {
        if let Some(mask) = self.masks.get(&(key, req)) {
            return mask.clone();
        }
        let mut excluded = Bits::zeros(self.len());
        for (theirs, types) in self.by_key.get(&key).into_iter().flatten() {
            if !terms.reconcilable(*theirs, req) {
                excluded.or(types);
            }
        }
        let mut mask = Bits::full(self.len());
        mask.and_not(&excluded);
        let mask = Arc::new(mask);
        self.masks.insert((key, req), mask.clone());
        mask
    }

    pub(crate) fn usable(&mut self, set: SetId, terms: &mut Terms) -> Arc<Usable> {
        if let Some(usable) = self.usable.get(&set) {
            return usable.clone();
        }
        let mut by_requirements = Bits::full(self.len());
        for (key, req) in terms.entries(set).clone().iter() {
            if self.by_key.contains_key(key) {
                by_requirements.and(&self.mask(*key, *req, terms));
            }
        }
        let mut offered = Bits::zeros(self.len());
        let mut profiles = Vec::new();
        for (index, profile) in self.profiles.iter().enumerate() {
            if terms.compatible(set, profile.set, true) {
                profiles.push(index);
                offered.or(&profile.available);
            }
        }
        let mut types = by_requirements.clone();
        types.and(&offered);
        let usable = Arc::new(Usable { by_requirements, profiles, offered, types });
        self.usable.insert(set, usable.clone());
        usable
    }

    /// The requirements types have on a key, with the types that have each.
    pub(crate) fn groups(&self, key: KeyId) -> &[(ReqId, Bits)] {
        self.by_key.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The cheapest way to buy a type within the given profiles.
    pub(crate) fn cheapest(&self, kind: usize, profiles: &[usize]) -> MicroUsd {
        profiles.iter().map(|profile| self.profiles[*profile].prices[kind]).min().unwrap_or(MicroUsd::UNKNOWN)
    }

    /// The types a set leaves, cheapest first, equal prices by name.
    pub(crate) fn by_price(&mut self, set: SetId, terms: &mut Terms) -> Arc<[(MicroUsd, usize)]> {
        if let Some(order) = self.by_price.get(&set) {
            return order.clone();
        }
        let usable = self.usable(set, terms);
        let mut order: Vec<(MicroUsd, usize)> =
            usable.types.iter().map(|kind| (self.cheapest(kind, &usable.profiles), kind)).collect();
        order.sort_unstable_by(|a, b| (a.0, self.name_rank[a.1]).cmp(&(b.0, self.name_rank[b.1])));
        let order: Arc<[_]> = order.into();
        self.by_price.insert(set, order.clone());
        order
    }

    /// How many distinct values the given types declare for a key.
    pub(crate) fn distinct_values(&self, key: KeyId, types: &Bits, terms: &Terms) -> usize {
        let groups = self.groups(key).iter().filter(|(_, of)| of.intersects(types));
        let values: std::collections::BTreeSet<&Arc<str>> =
            groups.flat_map(|(req, _)| terms.requirement(*req).values.iter()).collect();
        values.len()
    }
}
