//! After what time nodes of a pool expire, asked of the API server for claims that are converted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use karpenter_api::NodePool;
use kube::{Api, Client};
use tokio::time::Instant;

/// A claim can do without its pool's expiry; the API server cannot wait for ever.
const POOL_TIMEOUT: Duration = Duration::from_secs(2);
/// Claims are converted one by one when they are listed: a pool is asked for once, not once for each of its claims.
const REMEMBERED: Duration = Duration::from_secs(5);
/// More pools than a cluster has; names that a stranger makes up are no reason to grow.
const MOST: usize = 1000;

pub(super) struct Expiries {
    client: Client,
    known: Mutex<BTreeMap<String, (Instant, String)>>,
}

impl Expiries {
    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Of those pools that there are.
    pub(super) async fn of(&self, pools: BTreeSet<String>) -> BTreeMap<String, String> {
        let deadline = Instant::now() + POOL_TIMEOUT;
        let mut found = BTreeMap::new();
        for name in pools {
            let expiry = match self.known(&name) {
                Some(expiry) => Some(expiry),
                None => self.ask(&name, deadline).await,
            };
            if let Some(expiry) = expiry {
                found.insert(name, expiry);
            }
        }
        found
    }

    fn known(&self, name: &str) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, expiry) = known.get(name)?;
        (at.elapsed() < REMEMBERED).then(|| expiry.clone())
    }

    async fn ask(&self, name: &str, deadline: Instant) -> Option<String> {
        let pools: Api<NodePool> = Api::all(self.client.clone());
        // One that is not there may come any moment: that is not remembered.
        let pool = tokio::time::timeout_at(deadline, pools.get_opt(name)).await.ok()?.ok()??;
        let expiry = pool.spec.template.spec.expire_after.as_str().to_owned();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| at.elapsed() < REMEMBERED);
        if known.len() < MOST {
            known.insert(name.to_owned(), (Instant::now(), expiry.clone()));
        }
        Some(expiry)
    }
}
