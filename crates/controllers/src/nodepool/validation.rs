//! What admission lets through and still cannot work.

use jiff::Timestamp;
use karpenter_api::conditions::VALIDATION_SUCCEEDED;
use karpenter_api::validation::runtime;
use karpenter_api::{NodePool, labels};

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

/// Values that no node will ever have are passed over beside good ones. Said once for each change of the spec.
pub fn tell_ignored_values(pool: &NodePool) {
    let conditions = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let judged = conditions.filter(|condition| condition.type_ == VALIDATION_SUCCEEDED);
    if judged.into_iter().any(|condition| condition.observed_generation == pool.metadata.generation) {
        return;
    }
    for given in &pool.spec.template.spec.requirements {
        let Some(known) = labels::known_values(&given.key).filter(|_| given.operator == "In") else { continue };
        let (valid, invalid): (Vec<_>, Vec<_>) =
            given.values().iter().map(String::as_str).partition(|value| known.contains(value));
        if !valid.is_empty() && !invalid.is_empty() {
            tracing::error!(
                pool = pool.metadata.name.as_deref(),
                key = given.key,
                valid_values = valid.join(", "),
                invalid_values = invalid.join(", "),
                "please correct found invalid values, proceeding with valid values"
            );
        }
    }
}

#[cfg(test)]
mod tests;
