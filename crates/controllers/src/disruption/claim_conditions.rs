//! What a claim says of itself that disruption acts on: `Drifted` and `Consolidatable`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_api::conditions::{self, Status};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_index::{Change, Key, Pair, What};
use karpenter_provider::GetError;

use super::consolidatable::{self, Verdict};
use super::drifted;
use crate::clock::{later, until};
use crate::context::Context;
use crate::error::{Error, Result, unless_gone};
use crate::ownership::pool_of;
use crate::patch::Lock;
use crate::reconciler::{Action, Reconciler};

/// Drift that no watched object tells of is found in this time.
const RECHECK: Duration = Duration::from_mins(5);

/// Keyed by NodeClaim.
#[derive(Debug, Default)]
pub struct ClaimConditions {
    /// When a claim's instance type was last found, by the claim's uid. Only successes are remembered.
    types_found: Mutex<BTreeMap<String, Timestamp>>,
    /// Claims that had not drifted when they were last looked at, by uid.
    looked_at: Mutex<BTreeMap<String, (Timestamp, Look)>>,
}

/// Pods come and go all the time, and none of them makes a claim drift: while all that matters is as it was, a look counts
/// until the next one is due.
#[derive(Clone, Debug)]
struct Look {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    image: Option<String>,
    pool: Option<i64>,
    pool_annotations: Option<BTreeMap<String, String>>,
    class: Option<String>,
}

impl Look {
    fn at(claim: &NodeClaim, pool: &NodePool, context: &Context) -> Self {
        let class = context.index.node_class(&pool.spec.template.spec.node_class_ref.name);
        Self {
            labels: claim.metadata.labels.clone(),
            annotations: claim.metadata.annotations.clone(),
            image: claim.status.as_ref().and_then(|status| status.image_id.clone()),
            pool: pool.metadata.generation,
            pool_annotations: pool.metadata.annotations.clone(),
            class: class.and_then(|class| class.metadata.resource_version.clone()),
        }
    }

    /// Whether another look would find the same.
    fn holds(&self, claim: &NodeClaim, pool: &NodePool, context: &Context) -> bool {
        let class = context.index.node_class(&pool.spec.template.spec.node_class_ref.name);
        self.labels == claim.metadata.labels
            && self.annotations == claim.metadata.annotations
            && self.image.as_ref() == claim.status.as_ref().and_then(|status| status.image_id.as_ref())
            && self.pool == pool.metadata.generation
            && self.pool_annotations == pool.metadata.annotations
            && self.class.as_ref() == class.as_ref().and_then(|class| class.metadata.resource_version.as_ref())
    }
}

/// What was found out about drift.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Drift {
    Not,
    For(String),
    /// The machine is gone: what was said of it last stands.
    Unknown,
}

fn says_something_new(pool: &Pair<NodePool>) -> bool {
    let said = |pool: &Option<Arc<NodePool>>| {
        pool.as_ref()
            .map(|pool| (pool.metadata.generation, pool.metadata.annotations.clone(), pool.metadata.uid.clone()))
    };
    said(&pool.old) != said(&pool.new)
}

#[async_trait]
impl Reconciler for ClaimConditions {
    fn name(&self) -> &'static str {
        "nodeclaim.disruption"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        let of_pool = |name: &str| -> Vec<Key> {
            let claims = context.index.node_claims().into_iter();
            claims.filter(|claim| pool_of(claim) == Some(name)).map(|claim| Key::of(&claim.metadata)).collect()
        };
        match &change.what {
            What::NodeClaim(pair) => {
                if let (Some(old), None) = (&pair.old, &pair.new) {
                    let uid = old.metadata.uid.as_deref().unwrap_or_default();
                    self.types_found().remove(uid);
                    self.looked_at().remove(uid);
                }
                pair.new.iter().map(|_| change.key.clone()).collect()
            }
            // Its usage changes with every node and is nothing to its claims.
            What::NodePool(pair) if pair.new.is_some() && says_something_new(pair) => of_pool(&change.key.name),
            What::NodeClass(pair) if pair.new.is_some() => {
                let claims = context.index.node_claims().into_iter();
                let of_class = claims.filter(|claim| claim.spec.node_class_ref.name == *change.key.name);
                of_class.map(|claim| Key::of(&claim.metadata)).collect()
            }
            // When pods last came or went is written in the claim.
            What::Pod(_) | What::Node(_) => Vec::new(),
            What::NodePool(_) | What::NodeClass(_) | What::NodeOverlay(_) | What::Other => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some((claim, pool)) = observe(key, context) else { return Ok(Action::Done) };
        let drift = self.drift_lately(&claim, &pool, context).await;
        // Asking the provider may have taken a while.
        let Some((claim, pool)) = observe(key, context) else { return Ok(Action::Done) };
        let now = context.clock.now();
        let quiet = consolidatable::verdict(&claim, &pool, now);
        if let Some(changed) = changed(&claim, &drift, quiet, now) {
            unless_gone(context.write_status(&*claim, &changed, Lock::Version).await)?;
        }
        drift?;
        let again =
            if drifted::is_launched(&claim) { Action::After(self.next_look(&claim, now)) } else { Action::Done };
        Ok(again.sooner(match quiet {
            Verdict::RemoveUntil(at) => Action::After(until(now, at)),
            Verdict::Set | Verdict::Remove => Action::Done,
        }))
    }
}

impl ClaimConditions {
    /// As [`Self::drift`], unless a claim without drift has been looked at lately and nothing has changed since.
    async fn drift_lately(&self, claim: &NodeClaim, pool: &NodePool, context: &Context) -> Result<Drift> {
        let (uid, now) = (claim.metadata.uid.clone().unwrap_or_default(), context.clock.now());
        let holds = |(at, last): &(Timestamp, Look)| now < later(*at, RECHECK) && last.holds(claim, pool, context);
        if self.looked_at().get(&uid).is_some_and(holds) {
            return Ok(Drift::Not);
        }
        let look = Look::at(claim, pool, context);
        let drift = self.drift(claim, pool, context).await;
        match &drift {
            Ok(Drift::Not) if drifted::is_launched(claim) => self.looked_at().insert(uid, (now, look)),
            _ => self.looked_at().remove(&uid),
        };
        drift
    }

    /// How long the last look still counts.
    fn next_look(&self, claim: &NodeClaim, now: Timestamp) -> Duration {
        let last = self.looked_at().get(claim.metadata.uid.as_deref().unwrap_or_default()).map(|(at, _)| *at);
        last.map_or(RECHECK, |at| until(now, later(at, RECHECK)))
    }

    /// The checks in their order; the cheap ones first.
    async fn drift(&self, claim: &NodeClaim, pool: &NodePool, context: &Context) -> Result<Drift> {
        if !drifted::is_launched(claim) {
            return Ok(Drift::Not);
        }
        let words = context.index.vocabulary();
        if let Some(reason) = drifted::from_pool(claim, pool, &words).map_err(Error::other)? {
            return Ok(Drift::For(reason.to_owned()));
        }
        let (uid, now) = (claim.metadata.uid.clone().unwrap_or_default(), context.clock.now());
        let found = self.types_found().get(&uid).copied();
        if drifted::is_type_check_due(claim, found, now) {
            let types = context.provider.instance_types(pool).await;
            let types = types.map_err(|error| failed(&error))?;
            if !drifted::is_type_known(claim, &types, &words) {
                return Ok(Drift::For(drifted::INSTANCE_TYPE_NOT_FOUND.to_owned()));
            }
            self.types_found().insert(uid, now);
        }
        match context.provider.is_drifted(claim).await {
            Ok(None) => Ok(Drift::Not),
            Ok(Some(reason)) => Ok(Drift::For(reason)),
            Err(GetError::NotFound { .. }) => Ok(Drift::Unknown),
            Err(error) => Err(failed(&error)),
        }
    }

    fn looked_at(&self) -> MutexGuard<'_, BTreeMap<String, (Timestamp, Look)>> {
        self.looked_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn types_found(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.types_found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(error: &dyn std::error::Error) -> Error {
    Error::other(format!("getting drift, {}", karpenter_provider::chain(error)))
}

/// A claim that conditions are kept on, and its pool.
fn observe(key: &Key, context: &Context) -> Option<(std::sync::Arc<NodeClaim>, std::sync::Arc<NodePool>)> {
    let claim = context.index.node_claim(&key.name)?;
    if claim.metadata.deletion_timestamp.is_some() || !context.index.is_managed(&claim) {
        return None;
    }
    let pool = context.index.node_pool(pool_of(&claim)?)?;
    Some((claim, pool))
}

/// Most looks find nothing new; then the claim need not be copied.
fn says_it_already(claim: &NodeClaim, drift: &Result<Drift>, quiet: Verdict) -> bool {
    let of_drift = match drift {
        Ok(Drift::Not) => claim.condition(conditions::DRIFTED).is_none(),
        Ok(Drift::For(_)) => false,
        Ok(Drift::Unknown) | Err(_) => true,
    };
    of_drift
        && match quiet {
            Verdict::Set => claim.condition_status(conditions::CONSOLIDATABLE) == Status::True,
            Verdict::Remove | Verdict::RemoveUntil(_) => claim.condition(conditions::CONSOLIDATABLE).is_none(),
        }
}

/// The claim with its conditions as they should be, if they are not.
fn changed(claim: &NodeClaim, drift: &Result<Drift>, quiet: Verdict, now: Timestamp) -> Option<NodeClaim> {
    if says_it_already(claim, drift, quiet) {
        return None;
    }
    let mut changed = claim.clone();
    let mut conditions = changed.conditions_at(now);
    let mut differs = match drift {
        Ok(Drift::For(reason)) => {
            if conditions.status(conditions::DRIFTED) != Status::True {
                tracing::debug!(claim = claim.metadata.name.as_deref(), reason, "marking drifted");
            }
            conditions.set_true_because(conditions::DRIFTED, reason, reason)
        }
        Ok(Drift::Not) => conditions.clear(conditions::DRIFTED),
        Ok(Drift::Unknown) | Err(_) => false,
    };
    differs |= match quiet {
        Verdict::Set => {
            let news = conditions.status(conditions::CONSOLIDATABLE) != Status::True
                && conditions.set_true(conditions::CONSOLIDATABLE);
            if news {
                tracing::debug!(claim = claim.metadata.name.as_deref(), "marking consolidatable");
            }
            news
        }
        Verdict::Remove | Verdict::RemoveUntil(_) => conditions.clear(conditions::CONSOLIDATABLE),
    };
    differs.then_some(changed)
}

/// Whether the claim says already now that it may be consolidated.
pub(crate) fn is_quiet(claim: &NodeClaim, context: &Context, now: Timestamp) -> bool {
    let pool = pool_of(claim).and_then(|name| context.index.node_pool(name));
    pool.is_some_and(|pool| consolidatable::verdict(claim, &pool, now) == Verdict::Set)
}

pub(super) fn version(claim: &NodeClaim) -> Option<&str> {
    claim.metadata.resource_version.as_deref()
}
