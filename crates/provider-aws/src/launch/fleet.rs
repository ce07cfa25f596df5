//! The CreateFleet request of a launch.

use std::collections::BTreeMap;

use karpenter_api::{EC2NodeClass, NodeClaim, labels};
use karpenter_core::labels::{RESERVED, SPOT};

use super::candidates::{Ask, ReservationGroup, reservation_group};
use super::template::Planned;
use crate::calls::{CreateFleet, FleetConfig, FleetKind, Override, Tags};
use crate::subnets::ZonalSubnet;

/// `None`: no template has anything to launch.
pub fn request(
    class: &EC2NodeClass,
    claim: &NodeClaim,
    ask: &Ask<'_>,
    capacity_type: &str,
    planned: &[Planned],
    subnets: &BTreeMap<String, ZonalSubnet>,
    tags: &Tags,
) -> Option<CreateFleet> {
    let ask = ask.restricted_to(capacity_type);
    let mut configs: Vec<FleetConfig> = planned
        .iter()
        .map(|planned| FleetConfig {
            template_name: planned.template.name.clone(),
            version: "$Latest",
            overrides: overrides(planned, &ask, subnets),
        })
        .filter(|config| !config.overrides.is_empty())
        .collect();
    if configs.is_empty() {
        return None;
    }
    configs.sort();
    let annotated = |key: &str| claim.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
    let relaxed = annotated(labels::MIN_VALUES_RELAXED).is_some_and(|value| value == "true");
    Some(CreateFleet {
        client_token: None,
        dry_run: false,
        kind: kind(capacity_type, planned),
        total: 1,
        configs,
        tags: tags.clone(),
        context: class.spec.context.clone().filter(|_| !relaxed),
        prioritized: annotated(labels::PRICE_OVERLAY_APPLIED).is_some(),
    })
}

fn kind(capacity_type: &str, planned: &[Planned]) -> FleetKind {
    match capacity_type {
        SPOT => FleetKind::Spot,
        RESERVED => {
            let offerings = planned.iter().flat_map(|planned| &planned.types).flat_map(|kind| &kind.offerings);
            match offerings.filter_map(reservation_group).next() {
                Some(ReservationGroup::CapacityBlock) => FleetKind::CapacityBlock,
                Some(ReservationGroup::Interruptible) => FleetKind::InterruptibleReservation,
                Some(ReservationGroup::Default) | None => FleetKind::Reserved,
            }
        }
        _ => FleetKind::OnDemand,
    }
}

/// One for each type and zone, however many partitions its offerings are split into.
fn overrides(planned: &Planned, ask: &Ask<'_>, subnets: &BTreeMap<String, ZonalSubnet>) -> Vec<Override> {
    let mut found: BTreeMap<(String, String), Override> = BTreeMap::new();
    for kind in &planned.types {
        for offering in kind.offerings.iter().filter(|offering| ask.allows_offering(offering)) {
            let ours = planned.reservation_id.as_deref();
            if ours.is_some() && offering.reservation.as_ref().map(|r| &*r.id) != ours {
                continue;
            }
            let Some(zone) = offering.zone() else { continue };
            let Some(subnet) = subnets.get(&*zone) else { continue };
            let entry = Override {
                instance_type: kind.name.to_string(),
                zone: subnet.zone.clone(),
                subnet_id: subnet.id.clone(),
                image_id: planned.template.image_id.clone(),
                priority: offering.price,
            };
            let held = found.entry((entry.instance_type.clone(), entry.zone.clone())).or_insert_with(|| entry.clone());
            held.priority = held.priority.min(entry.priority);
        }
    }
    found.into_values().collect()
}
