//! Which pools a pass may buy from, and what each offers.

use std::sync::Arc;

use karpenter_api::NodePool;
use karpenter_api::conditions::{self, Status};
use karpenter_core::Pool;
use karpenter_index::reduce;
use karpenter_provider::TypesError;

use crate::context::Context;

/// A pool with what it can launch, and the object it was read from when the pass began.
#[derive(Clone, Debug)]
pub struct Offer {
    pub object: Arc<NodePool>,
    pub pool: Pool,
}

/// Why a pool of ours gives no nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// It has `replicas`: pods do not make it grow.
    Static,
    NotReady,
    Deleting,
}

/// Whether pods may get nodes from the pool.
pub fn unused(pool: &NodePool) -> Option<Unused> {
    if pool.spec.replicas.is_some() {
        Some(Unused::Static)
    } else if pool.condition_status(conditions::READY) != Status::True {
        Some(Unused::NotReady)
    } else if pool.metadata.deletion_timestamp.is_some() {
        Some(Unused::Deleting)
    } else {
        None
    }
}

/// The pools of this pass. One that cannot be read or has nothing to offer is left out, and said so; the others are not
/// affected.
pub async fn offers(context: &Context) -> Vec<Offer> {
    let mut offers = Vec::new();
    for object in context.index.node_pools() {
        if !context.index.is_managed_pool(&object) {
            continue;
        }
        let name = object.metadata.name.as_deref().unwrap_or_default();
        match unused(&object) {
            None => {}
            Some(Unused::NotReady) => {
                tracing::error!(pool = name, "ignoring nodepool, not ready");
                continue;
            }
            Some(Unused::Static | Unused::Deleting) => continue,
        }
        let types = match context.provider.instance_types(&object).await {
            Ok(types) if types.is_empty() => {
                tracing::info!(pool = name, "skipping, no resolved instance types found");
                continue;
            }
            Ok(types) => types,
            Err(TypesError::Unevaluated { .. }) => {
                tracing::debug!(pool = name, "skipping, awaiting nodeoverlay evaluation");
                continue;
            }
            Err(error) => {
                let error = karpenter_provider::chain(&error);
                tracing::error!(pool = name, error, "skipping, unable to resolve instance types");
                continue;
            }
        };
        match reduce::pool(&object, types) {
            Ok(pool) => offers.push(Offer { object, pool }),
            Err(refused) => tracing::error!(%refused, "skipping, the nodepool cannot be used"),
        }
    }
    if offers.is_empty() {
        tracing::info!("no dynamic nodepools found");
    }
    offers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dynamic_ready_pools_that_stay_are_bought_from() {
        // covers: SCH-BATCH-14, NP-READY-03, LC-GEN-15
        let pool = |replicas: Option<i64>, ready: &str, deleting: bool| -> NodePool {
            let class = serde_json::json!({"group": "g", "kind": "K", "name": "n"});
            let mut pool: NodePool = serde_json::from_value(serde_json::json!({
                "metadata": {"name": "p"},
                "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}},
                "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }))
            .unwrap();
            pool.spec.replicas = replicas;
            pool.metadata.deletion_timestamp = deleting.then(|| crate::clock::wire(jiff::Timestamp::UNIX_EPOCH));
            pool
        };
        for (replicas, ready, deleting, want) in [
            (None, "True", false, None),
            (Some(0), "True", false, Some(Unused::Static)),
            (None, "False", false, Some(Unused::NotReady)),
            (None, "Unknown", false, Some(Unused::NotReady)),
            (None, "True", true, Some(Unused::Deleting)),
        ] {
            assert_eq!(unused(&pool(replicas, ready, deleting)), want);
        }
        assert_eq!(unused(&NodePool::default()), Some(Unused::NotReady), "nobody has looked at it yet");
    }
}
