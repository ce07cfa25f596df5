//! Capacity that is paid for: nobody takes more of it than there is, and nobody passes it by.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::labels::{CAPACITY_TYPE, RESERVED};

use crate::claim::{Claim, offerings};
use crate::cluster::Cluster;
use crate::violation::Violation;

pub(crate) fn judge(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in &cluster.claims {
        let node = || claim.name.clone();
        let within_reach = within_reach(claim);
        for id in &claim.node.reservations {
            *held.entry(id).or_default() += 1;
            if !within_reach.contains(&**id) {
                let reservation = id.to_string();
                found.push(Violation::ReservationNotThere { node: node(), reservation });
            }
        }
        let names = |key: &str, want: &mut dyn Iterator<Item = &str>| {
            let asked = claim.node.requirements.0.get(key);
            asked.is_some_and(|asked| !asked.open && asked.values.iter().map(|v| &**v).eq(want))
        };
        if claim.node.reservations.is_empty() {
            if cluster.world.settings.reserved_capacity && !within_reach.is_empty() {
                found.push(Violation::ReservationNotHeld { node: node() });
            }
            continue;
        }
        let ids: BTreeSet<&str> = claim.node.reservations.iter().map(|id| &**id).collect();
        let label = cluster.world.vocabulary.reservation_id.as_deref();
        let named = label.is_none_or(|label| names(label, &mut ids.iter().copied()));
        if !named || !names(CAPACITY_TYPE, &mut [RESERVED].into_iter()) {
            found.push(Violation::ReservationNotRequired { node: node() });
        }
    }
    for (id, held) in held {
        let remaining = remaining(cluster, id);
        if held > remaining as usize {
            let reservation = id.to_owned();
            found.push(Violation::ReservationOverdrawn { reservation, held, remaining });
        }
    }
}

/// Reservations that the claim may launch into.
fn within_reach<'w>(claim: &Claim<'w>) -> BTreeSet<&'w str> {
    let sold = claim.types().flat_map(|kind| offerings(kind, &claim.node.requirements));
    sold.filter_map(|offering| offering.reservation.as_ref()).map(|r| &*r.id).collect()
}

/// Offerings that share a reservation may disagree about what is left of it: the least counts.
fn remaining(cluster: &Cluster<'_>, id: &str) -> u32 {
    let types = cluster.world.pools.iter().flat_map(|pool| pool.instance_types.iter());
    let offerings = types.flat_map(|kind| &kind.offerings).filter_map(|o| o.reservation.as_ref());
    offerings.filter(|r| &*r.id == id).map(|r| r.remaining).min().unwrap_or(0)
}
