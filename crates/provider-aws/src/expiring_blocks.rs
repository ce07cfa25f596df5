//! Machines in a capacity block that is about to end move before EC2 takes them.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_api::ec2nodeclass::CapacityReservationSelectorTerm as Term;
use karpenter_ec2::labels as aws_labels;
use karpenter_provider::ProviderError;

use crate::provider::Parts;
use crate::reservations::is_expiring;

pub const EVERY: Duration = Duration::from_secs(60);

/// One round; how many claims were deleted.
pub async fn round(parts: &Parts) -> Result<usize, ProviderError> {
    let claims = parts.objects.node_claims().await;
    let claims = claims.map_err(|error| ProviderError::new("listing NodeClaims", error))?;
    let ids: BTreeSet<String> = claims.iter().filter_map(|claim| reservation_of(claim)).collect();
    if ids.is_empty() {
        return Ok(0);
    }
    let now = (parts.now)();
    let terms: Vec<Term> = ids.into_iter().map(|id| Term { id: Some(id), ..Term::default() }).collect();
    let found = parts.reservations.find(&terms, now).await;
    let found = found.map_err(|error| ProviderError::new("getting capacity reservations", error))?;
    let expiring: BTreeSet<String> =
        found.into_iter().filter(|reservation| is_expiring(reservation, now)).map(|r| r.id).collect();
    let mut count = 0;
    let mut failures = Vec::new();
    for claim in claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
        let Some(id) = reservation_of(claim).filter(|id| expiring.contains(id)) else { continue };
        match parts.objects.end_claim(claim, None).await {
            Ok(_) => {
                let name = claim.metadata.name.as_deref().unwrap_or_default();
                tracing::info!(claim = %name, reservation = %id, "initiating delete for capacity block expiration");
                count += 1;
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    if failures.is_empty() {
        return Ok(count);
    }
    Err(ProviderError::new("deleting NodeClaims", failures.join("; ")))
}

fn reservation_of(claim: &NodeClaim) -> Option<String> {
    claim.metadata.labels.as_ref()?.get(aws_labels::CAPACITY_RESERVATION_ID).cloned()
}
