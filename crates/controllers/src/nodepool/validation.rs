//! What admission lets through and still cannot work.

use jiff::Timestamp;
use karpenter_api::NodePool;
use karpenter_api::conditions::VALIDATION_SUCCEEDED;
use karpenter_api::validation::runtime;

pub fn judge(pool: &mut NodePool, now: Timestamp) {
    let faults = runtime::nodepool(pool);
    let mut conditions = pool.conditions_at(now);
    if faults.is_empty() {
        conditions.set_true(VALIDATION_SUCCEEDED);
        return;
    }
    let message: Vec<String> = faults.iter().map(ToString::to_string).collect();
    conditions.set_false(VALIDATION_SUCCEEDED, "NodePoolValidationFailed", &message.join("; "));
}

#[cfg(test)]
mod tests;
