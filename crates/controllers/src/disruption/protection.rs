//! What pods that must not be disrupted have to say, told when their node is looked at: an annotation that cannot be
//! read, one that ends at some time, and one whose time is over.

use super::picture::Picture;
use crate::context::Context;
use crate::pods::PodFacts;
use crate::termination::evictions::tell_protection;

/// Of every node that could go but for its pods.
pub(super) fn tell(context: &Context, picture: &Picture) {
    let now = context.clock.now();
    let nodes = picture.world.nodes.iter().enumerate();
    for (_, node) in nodes.filter(|(at, _)| picture.goes_but_for_pods(*at)) {
        for pod in context.index.pods_on(&node.name).iter().filter(|pod| pod.pod.shape.do_not_disrupt.is_some()) {
            let facts = PodFacts::of(pod);
            if facts.is_active() {
                tell_protection(&pod.pod, &facts.protection(now), context);
            }
        }
    }
}
