//! Pools with `replicas`: so many nodes, whatever pods need.
//!
//! ```text
//!   replicas, claims ─▶ Counts ─┬─▶ too few:  claims of the bare template, as many as `limits.nodes` leaves room for
//!                               └─▶ too many: claims are deleted, those first that cost nobody anything
//! ```
//!
//! Nothing is remembered that outlives a write under way: how many nodes there are is counted anew at every look, so a
//! restart finds the same numbers.

mod counts;
mod create;
mod deprovisioning;
mod provisioning;
mod surplus;

pub use counts::{Counts, Ledger};
pub(crate) use create::create;
pub use deprovisioning::Deprovisioning;
pub use provisioning::Provisioning;

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::NodePool;
use karpenter_index::{Key, Pair};

use crate::context::Context;

/// A pool whose numbers are right is looked at again after this, should anything have been missed.
const RECHECK: Duration = Duration::from_mins(1);

/// A pool of ours that has `replicas` and stays, with how many.
fn observe(key: &Key, context: &Context) -> Option<(Arc<NodePool>, u64)> {
    let pool = context.index.node_pool(&key.name).filter(|pool| context.index.is_managed_pool(pool))?;
    let replicas = pool.spec.replicas.filter(|_| pool.metadata.deletion_timestamp.is_none())?;
    Some((pool, u64::try_from(replicas).unwrap_or(0)))
}

fn is_static(pool: &str, context: &Context) -> bool {
    context.index.node_pool(pool).is_some_and(|pool| pool.spec.replicas.is_some())
}

/// The pool is new, or wants another number.
fn is_resized(pools: &Pair<NodePool>) -> bool {
    let replicas = |pool: &Option<Arc<NodePool>>| pool.as_ref().map(|pool| pool.spec.replicas);
    pools.new.is_some() && replicas(&pools.old) != replicas(&pools.new)
}
