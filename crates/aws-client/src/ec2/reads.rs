//! What node classes select. An entry without the id that everything hangs on is none.

use aws_sdk_ec2::types;
use jiff::Timestamp;
use karpenter_provider_aws::calls::{CapacityReservation, Image, PlacementGroup, SecurityGroup, SpotPrice, Subnet};

use crate::plain::{count, tags, text, timestamp};

pub(super) fn spot_price(found: &types::SpotPrice) -> Option<SpotPrice> {
    Some(SpotPrice {
        instance_type: found.instance_type()?.as_str().to_owned(),
        zone: found.availability_zone()?.to_owned(),
        price: text(found.spot_price()),
        timestamp: found.timestamp().and_then(timestamp),
    })
}

pub(super) fn subnet(found: &types::Subnet) -> Option<Subnet> {
    Some(Subnet {
        id: found.subnet_id()?.to_owned(),
        zone: text(found.availability_zone()),
        zone_id: text(found.availability_zone_id()),
        free_addresses: found.available_ip_address_count().unwrap_or(0).into(),
        tags: tags(found.tags()),
    })
}

pub(super) fn security_group(found: &types::SecurityGroup) -> Option<SecurityGroup> {
    Some(SecurityGroup { id: found.group_id()?.to_owned(), name: text(found.group_name()), tags: tags(found.tags()) })
}

pub(super) fn image(found: &types::Image) -> Option<Image> {
    let time = |text: Option<&str>| text?.parse::<Timestamp>().ok();
    Some(Image {
        id: found.image_id()?.to_owned(),
        name: text(found.name()),
        architecture: text(found.architecture().map(types::ArchitectureValues::as_str)),
        created: time(found.creation_date()),
        deprecated_from: time(found.deprecation_time()),
    })
}

pub(super) fn reservation(found: &types::CapacityReservation) -> Option<CapacityReservation> {
    let kind = found.reservation_type().map_or("default", types::CapacityReservationType::as_str);
    Some(CapacityReservation {
        id: found.capacity_reservation_id()?.to_owned(),
        zone: text(found.availability_zone()),
        instance_type: text(found.instance_type()),
        instance_match_criteria: text(found.instance_match_criteria().map(types::InstanceMatchCriteria::as_str)),
        owner_id: text(found.owner_id()),
        reservation_type: kind.to_owned(),
        interruptible: found.interruptible().unwrap_or(false),
        available: count(found.available_instance_count()),
        end: found.end_date().and_then(timestamp),
        tags: tags(found.tags()),
    })
}

pub(super) fn placement_group(found: &types::PlacementGroup) -> Option<PlacementGroup> {
    Some(PlacementGroup {
        id: found.group_id()?.to_owned(),
        name: text(found.group_name()),
        strategy: text(found.strategy().map(types::PlacementStrategy::as_str)),
        partitions: count(found.partition_count()),
    })
}
