//! Instance types as a node class would run them: EC2's catalogue, prices and refusals, through `karpenter_ec2`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;
use karpenter_core::{InstanceType, MicroUsd, Quantity};
use karpenter_ec2::catalogue::refresh::NoPrices;
use karpenter_ec2::catalogue::{PricesByZone, RegionFacts, SpotPrices, TypeFacts, ZoneNames, builtin};
use karpenter_ec2::kubelet::expression::{self, Formulas};
use karpenter_ec2::kubelet::{self, Formula, Resolved};
use karpenter_ec2::nodeclass::{self, CapacityReservation, KubeletFacts, NodeClassFacts, PlacementStrategy};
use karpenter_ec2::{Circumstances, Ec2Settings, InstanceTypesError, Place, resolve};
use karpenter_provider::InstanceTypes;

use crate::calls::{Aws, AwsError, PlacementGroup};
use crate::reservations::Reservations;
use crate::ttl::{Ttl, later};
use crate::unavailable::Unavailable;

const TYPES_PAGE: u32 = 100;
const OFFERINGS_PAGE: u32 = 1000;
const LIFE: Duration = Duration::from_secs(300);
/// More node classes than this are resolved anew each time.
const CACHED: usize = 64;
/// From their last use; what does not compile is not kept.
const FORMULA_LIFE: Duration = Duration::from_secs(12 * 3600);
const MEMORY_LIFE: Duration = Duration::from_secs(60 * 24 * 3600);

pub struct Types {
    aws: Aws,
    settings: Ec2Settings,
    market: RwLock<Arc<Market>>,
    cached: Mutex<Vec<Cached>>,
    memory: Mutex<Memory>,
    formulas: Ttl<String, Arc<Formula>>,
    /// Node classes as they were last seen.
    read: Mutex<Vec<(EC2NodeClass, NodeClassFacts)>>,
}

/// What EC2 sells in the region, as of the last refresh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Market {
    /// By name. Shared, as new prices come far more often than new types.
    pub types: Arc<[TypeFacts]>,
    pub region: RegionFacts,
    /// What overlays say of types that have no public price.
    named_prices: BTreeMap<Arc<str>, MicroUsd>,
    version: u64,
}

/// By name of the type.
pub type Kubelets = BTreeMap<Arc<str>, Resolved>;

struct Cached {
    /// As [`key`] has it.
    facts: NodeClassFacts,
    images: BTreeSet<String>,
    shifted: BTreeSet<String>,
    versions: [u64; 4],
    until: Timestamp,
    circumstances: Circumstances,
    types: InstanceTypes,
}

impl Cached {
    /// The types that look different now; nothing where all of them may.
    fn differing(&self, facts: &NodeClassFacts, now: &Circumstances) -> Option<BTreeSet<Arc<str>>> {
        let Circumstances {
            discovered_memory,
            out_of_stock,
            closed_partitions,
            closed_classes,
            full_subnets,
            shifted_zones,
            overlay_prices,
            formulas,
        } = now;
        let then = &self.circumstances;
        let same = then.closed_classes == *closed_classes
            && then.full_subnets == *full_subnets
            && then.shifted_zones == *shifted_zones
            && then.overlay_prices == *overlay_prices
            && then.formulas == *formulas;
        let plain = |facts: &NodeClassFacts| NodeClassFacts { capacity_reservations: Vec::new(), ..facts.clone() };
        if !same || plain(&self.facts) != plain(facts) {
            return None;
        }
        let mut names = BTreeSet::new();
        changed(&then.discovered_memory, discovered_memory, &mut names);
        changed(&then.out_of_stock, out_of_stock, &mut names);
        changed(&then.closed_partitions, closed_partitions, &mut names);
        changed(&reserved(&self.facts), &reserved(facts), &mut names);
        Some(names)
    }
}

/// Names whose entries are not the same in both.
fn changed<V: PartialEq>(a: &BTreeMap<Arc<str>, V>, b: &BTreeMap<Arc<str>, V>, names: &mut BTreeSet<Arc<str>>) {
    let all = a.keys().chain(b.keys());
    names.extend(all.filter(|name| a.get(*name) != b.get(*name)).cloned());
}

/// Reservations by the type they are for, in order.
fn reserved(facts: &NodeClassFacts) -> BTreeMap<Arc<str>, Vec<&CapacityReservation>> {
    let mut by_type: BTreeMap<Arc<str>, Vec<&CapacityReservation>> = BTreeMap::new();
    for one in &facts.capacity_reservations {
        by_type.entry(one.instance_type.clone()).or_default().push(one);
    }
    by_type
}

/// What registered nodes reported, by type and set of images: the lowest counts.
#[derive(Default)]
struct Memory {
    seen: BTreeMap<(String, BTreeSet<String>), (Quantity, Timestamp)>,
    version: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum ListError {
    #[error("no instance types found")]
    NoTypes,
    #[error("no instance type offerings found")]
    NoOfferings,
    #[error("no subnets found")]
    NoSubnets,
    #[error("{0}")]
    NodeClass(String),
    #[error(transparent)]
    Resolve(#[from] InstanceTypesError),
}

impl Types {
    pub fn new(aws: Aws, settings: Ec2Settings) -> Self {
        let region = RegionFacts {
            on_demand: builtin::initial_on_demand_prices(&aws.region).clone(),
            spot: SpotPrices::LikeOnDemand,
            ..RegionFacts::default()
        };
        let market = Market { types: Arc::default(), region, named_prices: BTreeMap::new(), version: 0 };
        Self {
            aws,
            settings,
            market: RwLock::new(Arc::new(market)),
            cached: Mutex::default(),
            memory: Mutex::default(),
            formulas: Ttl::new(FORMULA_LIFE),
            read: Mutex::default(),
        }
    }

    /// Types and the zones that sell them. A failure changes nothing; nothing new keeps every cache.
    pub async fn refresh(&self) -> Result<(), AwsError> {
        let (types, offerings) = futures_util::future::join(
            self.aws.ec2.describe_instance_types(TYPES_PAGE),
            self.aws.ec2.describe_instance_type_offerings(OFFERINGS_PAGE),
        )
        .await;
        let (mut types, offerings) = (types?, offerings?);
        for facts in &mut types {
            let network = builtin::network_facts(&facts.name);
            facts.network_mbps = facts.network_mbps.or(network.baseline_mbps);
            facts.branch_limits = facts.branch_limits.or(network.branch_limits);
        }
        types.sort_by(|a, b| a.name.cmp(&b.name));
        let mut zones: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        for (instance_type, zone) in offerings {
            zones.entry(Arc::from(instance_type)).or_default().insert(Arc::from(zone));
        }
        // Most types share one of a few sets of zones.
        let mut shared: BTreeMap<BTreeSet<Arc<str>>, ZoneNames> = BTreeMap::new();
        let offered = zones
            .into_iter()
            .map(|(name, zones)| {
                let zones = shared.entry(zones.clone()).or_insert_with(|| Arc::new(zones)).clone();
                (name, zones)
            })
            .collect();
        let before = self.market();
        if *before.types != *types {
            tracing::debug!(count = types.len(), "discovered instance types");
        }
        if before.region.offered != offered {
            tracing::debug!(instance_type_count = offered.len(), "discovered offerings for instance types");
            let zones = |offered: &BTreeMap<Arc<str>, ZoneNames>| -> BTreeSet<Arc<str>> {
                offered.values().flat_map(|zones| zones.iter().cloned()).collect()
            };
            let all = zones(&offered);
            if zones(&before.region.offered) != all {
                let all: Vec<&str> = all.iter().map(|zone| &**zone).collect();
                tracing::debug!(zones = all.join(", "), "discovered zones");
            }
        }
        self.update(|market| {
            market.types = types.into();
            market.region.offered = offered;
        });
        Ok(())
    }

    /// What a refresh does not list keeps its price; one that lists nothing is a failed one.
    pub fn set_on_demand_prices(&self, prices: BTreeMap<Arc<str>, MicroUsd>) -> Result<(), NoPrices> {
        self.update(|market| market.region.merge_on_demand(prices))
    }

    pub fn set_spot_prices(&self, prices: PricesByZone) -> Result<(), NoPrices> {
        self.update(|market| market.region.merge_spot(prices))
    }

    /// Only where nobody else knows a price.
    pub(crate) fn set_named_prices(&self, prices: BTreeMap<Arc<str>, MicroUsd>) {
        if self.market().named_prices != prices {
            self.update(|market| market.named_prices = prices);
        }
    }

    fn update<T>(&self, change: impl FnOnce(&mut Market) -> T) -> T {
        let mut held = self.market.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Market::clone(&held);
        let answer = change(&mut next);
        if next != **held {
            next.version += 1;
            *held = Arc::new(next);
        }
        answer
    }

    /// Readers never wait for a refresh.
    pub fn market(&self) -> Arc<Market> {
        self.market.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A registered node told its memory.
    pub fn observe_memory(&self, class: &EC2NodeClass, instance_type: &str, memory: Quantity, now: Timestamp) {
        let key = (instance_type.to_owned(), image_ids(class));
        let mut held = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let lower = held.seen.get(&key).filter(|(_, until)| now < *until).is_none_or(|(seen, _)| memory < *seen);
        let renewed = held.seen.get(&key).is_some_and(|(seen, _)| memory == *seen);
        if lower || renewed {
            held.seen.insert(key, (memory, later(now, MEMORY_LIFE)));
        }
        held.version += u64::from(lower);
    }

    pub fn list(
        &self,
        class: &EC2NodeClass,
        group: Option<&PlacementGroup>,
        unavailable: &Unavailable,
        reservations: &Reservations,
        shifted: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<InstanceTypes, ListError> {
        let market = self.market();
        if market.types.is_empty() {
            return Err(ListError::NoTypes);
        }
        if market.region.offered.is_empty() {
            return Err(ListError::NoOfferings);
        }
        let facts = class_facts(self.said(class)?, group, reservations, self.settings.reserved_capacity, now)?;
        let (images, key) = (image_ids(class), key(&facts));
        let memory_version = self.memory.lock().unwrap_or_else(PoisonError::into_inner).version;
        let versions = [market.version, unavailable.changes(now), memory_version, reservations.changes()];
        if let Some(types) = self.cached(&key, &images, shifted, versions, now) {
            return Ok(types);
        }
        let mut circumstances = Circumstances::default();
        unavailable.add_to(&mut circumstances, group.map(|group| group.id.as_str()), now);
        circumstances.overlay_prices = market.named_prices.clone();
        circumstances.discovered_memory = self.discovered(&images, now);
        circumstances.shifted_zones = shifted.iter().map(|zone| Arc::from(zone.as_str())).collect();
        circumstances.formulas = self.formulas(&facts.kubelet, now);
        let last = self.last(&key, &images, market.version, &circumstances, now);
        let of = |types: &mut dyn Iterator<Item = &TypeFacts>| {
            let place = Place { name: &self.aws.region, facts: &market.region };
            resolve(types, place, &facts, &self.settings, &circumstances)
        };
        let resolved = match &last {
            // Refusals come and go by the minute, and concern a type or two.
            Some((_, names)) => of(&mut market.types.iter().filter(|kind| names.contains(&kind.name)))?,
            None => of(&mut market.types.iter())?,
        };
        let mut cached = self.lock();
        let before = cached.iter().find(|entry| entry.facts == key && entry.images == images);
        let types = match last {
            Some((types, _)) => replaced(types, resolved),
            None => renewed(before.map(|entry| &entry.types), resolved),
        };
        // What is older than the market, or than what is known of refusals, is never asked for again.
        cached.retain(|entry| {
            entry.versions == versions && now < entry.until && (entry.facts != key || entry.images != images)
        });
        let shifted = shifted.clone();
        if cached.len() >= CACHED {
            cached.remove(0);
        }
        let until = later(now, LIFE);
        cached.push(Cached { facts: key, images, shifted, versions, until, circumstances, types: types.clone() });
        Ok(types)
    }

    /// What a class says of itself, read once as long as it says the same: it is asked for with every look at every
    /// claim.
    fn said(&self, class: &EC2NodeClass) -> Result<NodeClassFacts, ListError> {
        let held = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |of: &EC2NodeClass| of.spec == class.spec && of.status == class.status;
        if let Some((_, facts)) = held().iter().find(|(of, _)| same(of) && of.metadata == class.metadata) {
            return Ok(facts.clone());
        }
        let facts = wire_facts(class)?;
        let mut held = held();
        held.retain(|(of, _)| of.metadata.name != class.metadata.name);
        if held.len() >= CACHED {
            held.remove(0);
        }
        held.push((class.clone(), facts.clone()));
        Ok(facts)
    }

    fn cached(
        &self,
        facts: &NodeClassFacts,
        images: &BTreeSet<String>,
        shifted: &BTreeSet<String>,
        versions: [u64; 4],
        now: Timestamp,
    ) -> Option<InstanceTypes> {
        let cached = self.lock();
        let same = |entry: &&Cached| {
            entry.versions == versions
                && now < entry.until
                && entry.shifted == *shifted
                && entry.images == *images
                && entry.facts == *facts
        };
        cached.iter().find(same).map(|entry| entry.types.clone())
    }

    /// The list that is nearest to what is asked for, with the types of it that look different now.
    fn last(
        &self,
        facts: &NodeClassFacts,
        images: &BTreeSet<String>,
        market: u64,
        circumstances: &Circumstances,
        now: Timestamp,
    ) -> Option<(InstanceTypes, BTreeSet<Arc<str>>)> {
        let cached = self.lock();
        let lasting =
            cached.iter().filter(|entry| entry.versions[0] == market && entry.images == *images && now < entry.until);
        let near = lasting.filter_map(|entry| Some((entry.differing(facts, circumstances)?, &entry.types)));
        let nearest = near.min_by_key(|(names, _)| names.len());
        nearest.map(|(names, types)| (types.clone(), names))
    }

    fn discovered(&self, images: &BTreeSet<String>, now: Timestamp) -> BTreeMap<Arc<str>, Quantity> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let here = memory.seen.iter().filter(|((_, of), (_, until))| of == images && now < *until);
        here.map(|((name, _), (memory, _))| (Arc::from(name.as_str()), *memory)).collect()
    }

    fn formulas(&self, kubelet: &KubeletFacts, now: Timestamp) -> Formulas {
        if !self.settings.kubelet_expressions {
            return Formulas::new();
        }
        let compiled = |source: &str| {
            let known = self.formulas.get(source, now);
            let formula = known.or_else(|| expression::compile(source).ok().map(Arc::new))?;
            self.formulas.set(source.to_owned(), formula.clone(), now);
            Some((source.to_owned(), formula))
        };
        expression::expressions(kubelet).into_iter().filter_map(|(_, source)| compiled(source)).collect()
    }

    /// What the kubelet settings of a class come to on every type; nothing where no formula is in force.
    pub fn kubelets(&self, class: &EC2NodeClass, now: Timestamp) -> Result<Kubelets, ListError> {
        let facts = wire_facts(class)?;
        if !self.settings.kubelet_expressions || expression::expressions(&facts.kubelet).is_empty() {
            return Ok(Kubelets::new());
        }
        let (market, formulas) = (self.market(), self.formulas(&facts.kubelet, now));
        if market.types.is_empty() {
            return Err(ListError::NoTypes);
        }
        let of = |kind: &TypeFacts| {
            let resolved = kubelet::resolve(kind, &facts, &self.settings, &formulas);
            resolved.map(|resolved| (kind.name.clone(), resolved)).map_err(|error| ListError::Resolve(error.into()))
        };
        market.types.iter().map(of).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Cached>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The list with the types of the one before wherever they are the same: mostly one of a thousand has changed, and the
/// one before is still in somebody's hands.
fn renewed(before: Option<&InstanceTypes>, resolved: Vec<InstanceType>) -> InstanceTypes {
    let known = |kind: &InstanceType| {
        let before = before?;
        let at = before.binary_search_by(|old| old.name.cmp(&kind.name)).ok()?;
        Some(&before[at]).filter(|old| ***old == *kind).cloned()
    };
    resolved.into_iter().map(|kind| known(&kind).unwrap_or_else(|| Arc::new(kind))).collect()
}

/// The list with these in the place of their namesakes.
fn replaced(types: InstanceTypes, anew: Vec<InstanceType>) -> InstanceTypes {
    if anew.is_empty() {
        return types;
    }
    let mut anew: BTreeMap<Arc<str>, Arc<InstanceType>> =
        anew.into_iter().map(|kind| (kind.name.clone(), Arc::new(kind))).collect();
    types.iter().map(|kind| anew.remove(&kind.name).unwrap_or_else(|| kind.clone())).collect()
}

fn image_ids(class: &EC2NodeClass) -> BTreeSet<String> {
    let amis = class.status.iter().filter_map(|status| status.amis.as_ref()).flatten();
    amis.map(|ami| ami.id.clone()).collect()
}

/// What of the class decides how types look. Here a missing status means "nothing found", never "everything".
fn class_facts(
    mut facts: NodeClassFacts,
    group: Option<&PlacementGroup>,
    reservations: &Reservations,
    reserved_capacity: bool,
    now: Timestamp,
) -> Result<NodeClassFacts, ListError> {
    if facts.subnets.as_ref().is_none_or(Vec::is_empty) {
        return Err(ListError::NoSubnets);
    }
    if reserved_capacity {
        for reservation in &mut facts.capacity_reservations {
            reservation.remaining = reservations.free(&reservation.id, now);
        }
    } else {
        facts.capacity_reservations.clear();
    }
    facts.placement_group = group.and_then(|group| {
        let strategy = match group.strategy.as_str() {
            "cluster" => PlacementStrategy::Cluster,
            "partition" => PlacementStrategy::Partition { count: group.partitions },
            "spread" => PlacementStrategy::Spread,
            _ => return None,
        };
        Some(nodeclass::PlacementGroup { id: Arc::from(group.id.as_str()), strategy })
    });
    Ok(facts)
}

/// The same facts in an order of their own: subnets are listed by how many addresses they have left, which says nothing
/// about types. Volumes stay as they are where the last one counts.
fn key(facts: &NodeClassFacts) -> NodeClassFacts {
    let mut key = facts.clone();
    key.subnets.iter_mut().for_each(|subnets| subnets.sort_by(|a, b| a.id.cmp(&b.id)));
    key.network_interfaces.iter_mut().for_each(|interfaces| interfaces.sort_by_key(|i| (i.card, i.device)));
    if key.ami_family != karpenter_ec2::AmiFamily::Custom {
        key.block_devices.sort_by(|a, b| a.device_name.cmp(&b.device_name));
    }
    key
}

/// As the object says by itself.
pub(crate) fn wire_facts(class: &EC2NodeClass) -> Result<NodeClassFacts, ListError> {
    let object = serde_json::to_value(class).map_err(|error| ListError::NodeClass(error.to_string()))?;
    let mut facts = nodeclass::json::facts(&object).map_err(|faults| {
        ListError::NodeClass(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })?;
    // Without the field or an alias the reader of manifests assumes AL2023; a stored class without either is Custom.
    if let Some(family) = karpenter_ec2::AmiFamily::parse(class.ami_family().as_str()) {
        facts.ami_family = family;
    }
    Ok(facts)
}

#[cfg(test)]
mod tests;
