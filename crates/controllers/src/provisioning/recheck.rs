//! What became of a plan's pods while it was made.

use karpenter_core::plan::Plan;
use karpenter_core::{Pod, World};

use crate::buffers;
use crate::context::Context;

/// The plan without new nodes that nobody needs any more. A solve may take a minute, in which the pods of a node were all
/// bound to others, or have gone.
pub(super) fn still_needed(context: &Context, world: &World, mut plan: Plan) -> Plan {
    let planned = plan.new_nodes.len();
    plan.new_nodes.retain(|node| node.pods.iter().any(|pod| still_waits(&world.pods[*pod], context)));
    if plan.new_nodes.len() < planned {
        let needless = planned - plan.new_nodes.len();
        tracing::debug!(needless, "nodes were planned whose pods found places meanwhile, they are not created");
    }
    plan
}

/// It is there, and was not bound since.
fn still_waits(pod: &Pod, context: &Context) -> bool {
    let now = context.index.pod(&super::keyed(pod).0).filter(|now| now.pod.uid == pod.uid && !now.pod.is_terminal());
    buffers::buffer_of(pod).is_some() || now.is_some_and(|now| now.pod.node.is_none() || pod.node.is_some())
}
