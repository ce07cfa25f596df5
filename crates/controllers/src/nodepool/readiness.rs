//! Whether a pool's node class can be launched from.

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_api::conditions::{NODE_CLASS_READY, READY, Status};
use karpenter_index::NodeClass;

pub fn judge(pool: &mut NodePool, class: Option<&NodeClass>, now: Timestamp) {
    let mut conditions = pool.conditions_at(now);
    let Some(class) = class else {
        conditions.set_false(NODE_CLASS_READY, "NodeClassNotFound", "NodeClass not found on cluster");
        return;
    };
    if class.metadata.deletion_timestamp.is_some() {
        conditions.set_false(NODE_CLASS_READY, "NodeClassTerminating", "NodeClass is Terminating");
        return;
    }
    let ready = class.condition(READY);
    match (Status::of(ready), ready) {
        (Status::True, _) => conditions.set_true(NODE_CLASS_READY),
        (Status::False, Some(ready)) => conditions.set_false(NODE_CLASS_READY, &ready.reason, &ready.message),
        (Status::False | Status::Unknown, _) => {
            conditions.set_false(NODE_CLASS_READY, "NodeClassReadinessUnknown", "Node Class Readiness Unknown")
        }
    };
}

#[cfg(test)]
mod tests;
