//! Writing one NodeClaim, and what becomes known with it.

use std::sync::Arc;

use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::plan::NewNode;
use karpenter_core::{Resources, World};
use karpenter_index::reduce;

use super::pools::Offer;
use super::{claim, keyed, outcome};
use crate::amounts::listed;
use crate::buffers::real_pods;
use crate::context::Context;
use crate::decision::{Decision, Launch};
use crate::error::{Error, Result};

/// Creates the claim of a new node, unless its pool is over its limits or gone by now. `reason` is what it is counted
/// under: `provisioned`, or the reason for which it replaces others.
pub(crate) async fn create(
    context: &Context,
    world: &Arc<World>,
    offer: &Offer,
    node: &NewNode,
    reason: &'static str,
) -> Result<NodeClaim> {
    let pool = &offer.pool;
    let name = &*pool.name;
    let current = context.index.node_pool(name).filter(|pool| pool.metadata.deletion_timestamp.is_none());
    let refused = match current {
        None => Some(format!("NodePool {name} is gone")),
        Some(current) => exceeded(&current, &context.index.pool_usage(name))?,
    };
    if let Some(why) = refused {
        context.recorder.decided(Decision::NotLaunched { pool: pool.name.clone(), why: why.clone() });
        return Err(Error::other(format!("creating node claim, {why}")));
    }
    let mut claim = claim::node_claim(pool, &offer.object, node);
    let types: Vec<&str> = node.instance_types.iter().map(|at| &*pool.instance_types[*at].name).collect();
    context.provider.overlay_marks(name, &types).annotate(&mut claim.metadata);
    let made = context.create(&claim).await?;
    let claim = made.metadata.name.as_deref().unwrap_or_default();
    // What a replacement is bought for may be a buffer.
    let real = real_pods(world, node);
    let pods: Vec<_> = real.iter().map(|pod| keyed(&world.pods[*pod])).collect();
    context.index.plan(claim, &pods);
    context.metrics.choices.claim_created(reason, name, node.min_values_relaxed);
    outcome::tell_nominated(context, world, &real, Some(claim), None);
    context.recorder.decided(Decision::Launch(Launch {
        claim: claim.into(),
        pool: pool.name.clone(),
        pods: real.iter().map(|pod| world.pods[*pod].key()).collect(),
        requests: node.requests.clone(),
        instance_types: node.instance_types.iter().map(|at| pool.instance_types[*at].name.clone()).collect(),
        expected: node.launch.clone(),
    }));
    tracing::info!(
        pool = name,
        claim,
        requests = listed(&node.requests),
        instance_types = first_five(pool, node),
        "created nodeclaim"
    );
    Ok(made)
}

/// The first limit that the pool's usage already exceeds. Reaching it is not exceeding it.
fn exceeded(pool: &NodePool, usage: &Resources) -> Result<Option<String>> {
    let Some(limits) = &pool.spec.limits else { return Ok(None) };
    let limits = reduce::resource_list(limits).map_err(|faults| {
        let text: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Error::other(format!("NodePool spec.limits cannot be read: {}", text.join("; ")))
    })?;
    let over = limits.iter().find(|(name, limit)| usage.counted(name) > *limit);
    Ok(over.map(|(name, limit)| format!("{name} resource usage of {} exceeds limit of {limit}", usage.counted(name))))
}

fn first_five(pool: &karpenter_core::Pool, node: &NewNode) -> String {
    let mut names = node.instance_types.iter().map(|at| &*pool.instance_types[*at].name);
    let first: Vec<&str> = names.by_ref().take(5).collect();
    let rest = names.count();
    let more = if rest > 0 { format!(" and {rest} other(s)") } else { String::new() };
    first.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_over_its_limit_gets_no_claim_and_one_at_its_limit_does() {
        // covers: EXT-07
        let pool = |limits: serde_json::Value| -> NodePool {
            let class = serde_json::json!({"group": "g", "kind": "K", "name": "n"});
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "p"},
                "spec": {"limits": limits, "template": {"spec": {"nodeClassRef": class, "requirements": []}}},
            }))
            .unwrap()
        };
        let usage = [("cpu", "10"), ("nodes", "2"), ("nvidia.com/gpu", "3"), ("amd.com/gpu", "2")];
        let usage: Resources = usage.iter().map(|(name, amount)| (*name, amount.parse().unwrap())).collect();
        for (limits, over) in [
            (serde_json::json!({"cpu": "10"}), None),
            (serde_json::json!({"cpu": "9999m"}), Some("cpu")),
            (serde_json::json!({"cpu": "11", "nodes": "1"}), Some("nodes")),
            (serde_json::json!({"memory": "0"}), None),
            (serde_json::json!({"gpu": 5, "nvidia.com/gpu": 3}), None),
            (serde_json::json!({"gpu": 4}), Some("gpu")),
            (serde_json::Value::Null, None),
        ] {
            let found = exceeded(&pool(limits.clone()), &usage).unwrap();
            assert_eq!(found.as_deref().and_then(|text| text.split(' ').next()), over, "{limits}");
        }
    }
}
