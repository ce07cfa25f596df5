//! Instances and how they are doing.

use aws_sdk_ec2::types;
use karpenter_provider_aws::calls::{Instance, InstanceState, InstanceStatus, StateChange, StatusCheck};

use crate::plain::{tags, text, timestamp};

fn state(found: Option<&types::InstanceState>) -> Option<InstanceState> {
    InstanceState::parse(found?.name()?.as_str())
}

pub(super) fn instance(found: &types::Instance) -> Option<Instance> {
    let place = found.placement();
    let target = found.capacity_reservation_specification();
    let of_fabric = |kind: Option<&str>| matches!(kind, Some("efa" | "efa-only"));
    let fabric = found.network_interfaces().iter().filter(|interface| of_fabric(interface.interface_type())).count();
    let set = |part: Option<&str>| part.filter(|text| !text.is_empty()).map(str::to_owned);
    Some(Instance {
        id: found.instance_id()?.to_owned(),
        state: state(found.state())?,
        instance_type: text(found.instance_type().map(types::InstanceType::as_str)),
        image_id: text(found.image_id()),
        zone: text(place.and_then(types::Placement::availability_zone)),
        zone_id: set(place.and_then(types::Placement::availability_zone_id)),
        subnet_id: set(found.subnet_id()),
        launched_at: found.launch_time().and_then(timestamp)?,
        tags: tags(found.tags()),
        spot_request_id: set(found.spot_instance_request_id()),
        capacity_reservation_id: set(found.capacity_reservation_id()),
        reservation_preference: target
            .and_then(|target| target.capacity_reservation_preference())
            .map(|preference| preference.as_str().to_owned()),
        lifecycle: found.instance_lifecycle().map(|lifecycle| lifecycle.as_str().to_owned()),
        tenancy: place.and_then(types::Placement::tenancy).map(|tenancy| tenancy.as_str().to_owned()),
        security_groups: found.security_groups().iter().filter_map(|group| set(group.group_id())).collect(),
        efa_interfaces: u32::try_from(fabric).unwrap_or(u32::MAX),
        placement_group_id: set(place.and_then(types::Placement::group_id)),
        partition: place.and_then(types::Placement::partition_number).and_then(|number| u32::try_from(number).ok()),
    })
}

pub(super) fn change(found: &types::InstanceStateChange) -> Option<StateChange> {
    Some(StateChange { id: found.instance_id()?.to_owned(), state: state(found.current_state())? })
}

pub(super) fn status(found: &types::InstanceStatus) -> Option<InstanceStatus> {
    let checks = |summary: Option<&types::InstanceStatusSummary>| -> Vec<StatusCheck> {
        let details = summary.map(types::InstanceStatusSummary::details).unwrap_or_default();
        details
            .iter()
            .map(|check| StatusCheck {
                status: text(check.status().map(types::StatusType::as_str)),
                impaired_since: check.impaired_since().and_then(timestamp),
            })
            .collect()
    };
    Some(InstanceStatus {
        instance_id: found.instance_id()?.to_owned(),
        system_checks: checks(found.system_status()),
        instance_checks: checks(found.instance_status()),
        events: found.events().iter().filter_map(|event| Some(event.code()?.as_str().to_owned())).collect(),
    })
}
