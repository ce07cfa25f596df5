//! What each pool costs per hour.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::NodeClaim;
use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};
use karpenter_core::{InstanceType, MicroUsd};
use karpenter_index::{Change, Key};
use karpenter_provider::TypesError;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::provisioning::pools::waits_for_class;
use crate::reconciler::{Action, Reconciler};

/// Prices move slowly, and asking for all of them takes a while.
const REFRESH: Duration = Duration::from_hours(1);
/// When to look again at the claim of a pool whose node class is not resolved.
const CLASS_LOOK: Duration = Duration::from_secs(10);
const CLAIM: &str = "claim";
const POOL: &str = "pool";
const ALL: &str = "all";

/// Keyed by claim and pool, and one key for the refresh of everything.
#[derive(Debug, Default)]
pub struct Pricing {
    ledger: Mutex<Ledger>,
}

/// Each claim is counted once, with the price its offering had when it was last looked up.
#[derive(Debug, Default)]
struct Ledger {
    entries: BTreeMap<Arc<str>, Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    pool: String,
    offering: Offering,
    price: MicroUsd,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Offering {
    instance_type: String,
    zone: String,
    capacity_type: String,
}

impl Offering {
    fn price(&self, types: &[Arc<InstanceType>]) -> Option<MicroUsd> {
        let kind = types.iter().find(|kind| *kind.name == *self.instance_type)?;
        let is_it = |offering: &&karpenter_core::Offering| {
            offering.zone().as_deref() == Some(&*self.zone)
                && offering.capacity_type().as_deref() == Some(&*self.capacity_type)
        };
        kind.offerings.iter().find(is_it).map(|offering| offering.price)
    }
}

impl Ledger {
    /// Nothing, if nothing is counted for the pool.
    fn cost(&self, pool: &str) -> Option<MicroUsd> {
        let mut prices = self.entries.values().filter(|entry| entry.pool == pool).map(|entry| entry.price).peekable();
        prices.peek()?;
        Some(prices.sum())
    }

    fn pools(&self) -> Vec<String> {
        let mut pools: Vec<String> = self.entries.values().map(|entry| entry.pool.clone()).collect();
        pools.sort();
        pools.dedup();
        pools
    }

    /// Offerings that are still sold take today's price, the others keep theirs.
    fn refresh(&mut self, pool: &str, types: &[Arc<InstanceType>]) {
        for entry in self.entries.values_mut().filter(|entry| entry.pool == pool) {
            if let Some(price) = entry.offering.price(types) {
                entry.price = price;
            }
        }
    }
}

/// The pool and offering a claim names; before its launch it names none.
fn named(claim: &NodeClaim) -> Option<(String, Offering)> {
    let labels = claim.metadata.labels.as_ref()?;
    let label = |key: &str| labels.get(key).cloned();
    let offering =
        Offering { instance_type: label(INSTANCE_TYPE)?, zone: label(ZONE)?, capacity_type: label(CAPACITY_TYPE)? };
    Some((label(NODEPOOL)?, offering))
}

/// What a claim's offering costs, whether it can be bought now or not; `of` finds a type by its name.
pub(crate) fn price<'a>(claim: &NodeClaim, of: impl Fn(&str) -> Option<&'a Arc<InstanceType>>) -> Option<MicroUsd> {
    let (_, offering) = named(claim)?;
    offering.price(std::slice::from_ref(of(&offering.instance_type)?))
}

/// Unless series of what the cluster consists of are left out.
fn publish(context: &Context, pool: &str, cost: Option<MicroUsd>) {
    if !context.settings.quiet_status {
        context.metrics.choices.pool_cost(pool, cost);
    }
}

#[async_trait]
impl Reconciler for Pricing {
    fn name(&self) -> &'static str {
        "state.pricing"
    }

    fn start(&self) -> Vec<Key> {
        vec![Key::new(ALL, "")]
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        if change.node_claim().is_some() {
            return vec![Key::new(CLAIM, &change.key.name)];
        }
        let gone = change.node_pool().is_some_and(|pair| pair.new.is_none());
        if gone { vec![Key::new(POOL, &change.key.name)] } else { Vec::new() }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        match &*key.namespace {
            CLAIM => self.count(&key.name, context).await,
            POOL => {
                if context.index.node_pool(&key.name).is_none() {
                    self.ledger().entries.retain(|_, entry| entry.pool != *key.name);
                    publish(context, &key.name, None);
                }
                Ok(Action::Done)
            }
            _ => {
                self.refresh(context).await;
                Ok(Action::After(REFRESH))
            }
        }
    }
}

impl Pricing {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn count(&self, name: &Arc<str>, context: &Context) -> Result<Action> {
        let Some(claim) = context.index.node_claim(name).filter(|claim| context.index.is_managed(claim)) else {
            if let Some(entry) = self.remove(name) {
                publish(context, &entry.pool, self.ledger().cost(&entry.pool));
            }
            return Ok(Action::Done);
        };
        let Some((pool, offering)) = named(&claim).filter(|_| !self.ledger().entries.contains_key(name)) else {
            return Ok(Action::Done);
        };
        let Some(object) = context.index.node_pool(&pool) else {
            context.metrics.choices.pool_cost_error(&pool);
            return Err(Error::other(format!("NodePool {pool} of NodeClaim {name} is not there")));
        };
        let types = match context.provider.instance_types(&object).await {
            Ok(types) => types,
            Err(TypesError::NotResolved { .. }) if waits_for_class(&object, context) => {
                return Ok(Action::After(CLASS_LOOK));
            }
            Err(error) => {
                context.metrics.choices.pool_cost_error(&pool);
                return Err(Error::provider("asking for instance types", error));
            }
        };
        let price = offering.price(&types).unwrap_or_else(|| {
            let Offering { instance_type, zone, capacity_type } = &offering;
            tracing::error!(claim = %name, instance_type, zone, capacity_type, "the price of an offering is not known");
            MicroUsd::default()
        });
        self.ledger().entries.insert(name.clone(), Entry { pool: pool.clone(), offering, price });
        publish(context, &pool, self.ledger().cost(&pool));
        Ok(Action::Done)
    }

    fn remove(&self, name: &str) -> Option<Entry> {
        self.ledger().entries.remove(name)
    }

    async fn refresh(&self, context: &Context) {
        let pools = self.ledger().pools();
        for pool in pools {
            let Some(object) = context.index.node_pool(&pool) else { continue };
            match context.provider.instance_types(&object).await {
                Ok(types) => self.ledger().refresh(&pool, &types),
                Err(TypesError::NotResolved { message }) if waits_for_class(&object, context) => {
                    tracing::debug!(pool, why = message, "prices wait for a node class");
                }
                Err(error) => {
                    context.metrics.choices.pool_cost_error(&pool);
                    tracing::error!(pool, error = karpenter_provider::chain(&error), "prices cannot be refreshed");
                }
            }
            publish(context, &pool, self.ledger().cost(&pool));
        }
        context.index.unsettle();
    }
}

#[cfg(test)]
mod tests {
    use karpenter_core::Requirements;
    use karpenter_core::requirement::Requirement;

    use super::*;

    fn types(price: u64) -> Vec<Arc<InstanceType>> {
        let mut requirements = Requirements::new();
        requirements.add(ZONE, Requirement::one("a"));
        requirements.add(CAPACITY_TYPE, Requirement::one("spot"));
        let offering =
            karpenter_core::Offering { requirements, price: MicroUsd(price), available: false, reservation: None };
        vec![Arc::new(InstanceType {
            name: "m5.large".into(),
            requirements: Requirements::new(),
            capacity: Default::default(),
            overhead: Default::default(),
            offerings: vec![offering],
        })]
    }

    fn claim(labels: &[(&str, &str)]) -> NodeClaim {
        let mut claim = NodeClaim::default();
        claim.metadata.labels =
            Some(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
        claim
    }

    #[test]
    fn a_claim_is_priced_once_all_its_labels_are_there() {
        // covers: STATE-COST-01
        let all = [(NODEPOOL, "p"), (INSTANCE_TYPE, "m5.large"), (ZONE, "a"), (CAPACITY_TYPE, "spot")];
        for missing in 0..all.len() {
            let mut some = all.to_vec();
            some.remove(missing);
            assert!(named(&claim(&some)).is_none(), "{some:?}");
        }
        let (pool, offering) = named(&claim(&all)).unwrap();
        assert_eq!((pool.as_str(), offering.price(&types(7))), ("p", Some(MicroUsd(7))));
        let elsewhere = Offering { zone: "b".into(), ..offering };
        assert_eq!(elsewhere.price(&types(7)), None);
    }

    #[test]
    fn known_offerings_take_the_new_price_and_vanished_ones_keep_the_old() {
        let offering =
            |zone: &str| Offering { instance_type: "m5.large".into(), zone: zone.into(), capacity_type: "spot".into() };
        let mut ledger = Ledger::default();
        for (name, pool, zone, price) in [("a", "p", "a", 5), ("b", "p", "gone", 9), ("c", "q", "a", 5)] {
            let entry = Entry { pool: pool.into(), offering: offering(zone), price: MicroUsd(price) };
            ledger.entries.insert(name.into(), entry);
        }
        assert_eq!(
            (ledger.cost("p"), ledger.cost("q"), ledger.cost("r")),
            (Some(MicroUsd(14)), Some(MicroUsd(5)), None)
        );
        ledger.refresh("p", &types(7));
        assert_eq!((ledger.cost("p"), ledger.cost("q")), (Some(MicroUsd(16)), Some(MicroUsd(5))));
        assert_eq!(ledger.pools(), ["p", "q"]);
    }
}
