//! Consistency: whether a node turned out as large as it was bought. Nothing follows from it but words.

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{INITIALIZED, Status};
use karpenter_core::Quantity;

/// Below this share of what was expected a resource is an issue.
const ENOUGH: f64 = 0.90;

/// One text per resource that is short.
pub fn issues(claim: &NodeClaim, node: &Node) -> Vec<String> {
    if claim.metadata.deletion_timestamp.is_some() || claim.condition_status(INITIALIZED) != Status::True {
        return Vec::new();
    }
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let expected = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
    let found = node.status.as_ref().and_then(|status| status.capacity.as_ref());
    let mut issues = Vec::new();
    for (name, request) in requests.into_iter().flatten() {
        let expected = read(expected.and_then(|all| all.get(name)));
        if read(Some(request)).is_zero() || expected.is_zero() {
            continue;
        }
        let found = read(found.and_then(|all| all.get(name)));
        let share = found.nanos() as f64 / expected.nanos() as f64;
        if share < ENOUGH {
            let percent = share * 100.0;
            issues
                .push(format!("expected {expected} of resource {name}, but found {found} ({percent:.1}% of expected)"));
        }
    }
    issues
}

/// What is absent or unreadable counts as zero: of a request and an expectation, that there is nothing to check.
fn read(quantity: Option<&karpenter_api::Quantity>) -> Quantity {
    quantity.and_then(|quantity| quantity.0.parse().ok()).unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests;
