//! Launch templates.

use aws_sdk_ec2::types;
use karpenter_provider_aws::calls::{
    BlockDevice, CapacityReservationTarget, Interface, LaunchTemplate, MetadataOptions, NewLaunchTemplate, Tags, Volume,
};

use crate::plain::tag_list;

/// One without id or name is none: it could be neither used nor deleted.
pub(super) fn template(found: &types::LaunchTemplate) -> Option<LaunchTemplate> {
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    Some(LaunchTemplate { id: given(found.launch_template_id())?, name: given(found.launch_template_name())? })
}

pub(super) fn data(new: &NewLaunchTemplate) -> types::RequestLaunchTemplateData {
    let profile = types::LaunchTemplateIamInstanceProfileSpecificationRequest::builder().name(&new.instance_profile);
    let monitoring = types::LaunchTemplatesMonitoringRequest::builder().enabled(new.monitoring);
    let enclaves = types::LaunchTemplateEnclaveOptionsRequest::builder().enabled(new.enclaves);
    let devices = new.block_devices.iter().map(device).collect::<Vec<_>>();
    let cpu = new
        .nested_virtualization
        .as_deref()
        .map(|nested| types::LaunchTemplateCpuOptionsRequest::builder().nested_virtualization(nested.into()).build());
    let market = new
        .market_type
        .as_deref()
        .map(|kind| types::LaunchTemplateInstanceMarketOptionsRequest::builder().market_type(kind.into()).build());
    let mut tagged = vec![tags(types::ResourceType::NetworkInterface, &new.tags)];
    if new.tag_spot_requests {
        tagged.push(tags(types::ResourceType::SpotInstancesRequest, &new.tags));
    }
    types::RequestLaunchTemplateData::builder()
        .image_id(&new.image_id)
        .iam_instance_profile(profile.build())
        .monitoring(monitoring.build())
        .user_data(&new.user_data)
        .set_block_device_mappings((!devices.is_empty()).then_some(devices))
        .metadata_options(metadata(&new.metadata))
        .set_network_interfaces(Some(new.interfaces.iter().map(interface).collect()))
        .placement(placement(new))
        .enclave_options(enclaves.build())
        .set_cpu_options(cpu)
        .set_capacity_reservation_specification(new.reservation.as_ref().map(reservation))
        .set_instance_market_options(market)
        .set_tag_specifications(Some(tagged))
        .build()
}

fn tags(resource: types::ResourceType, tags: &Tags) -> types::LaunchTemplateTagSpecificationRequest {
    types::LaunchTemplateTagSpecificationRequest::builder()
        .resource_type(resource)
        .set_tags(Some(tag_list(tags)))
        .build()
}

fn device(of: &BlockDevice) -> types::LaunchTemplateBlockDeviceMappingRequest {
    types::LaunchTemplateBlockDeviceMappingRequest::builder()
        .set_device_name(of.device_name.clone())
        .set_ebs(of.volume.as_ref().map(volume))
        .build()
}

fn volume(of: &Volume) -> types::LaunchTemplateEbsBlockDeviceRequest {
    // Sizes and rates are checked at admission; what is too large for the wire EC2 refuses by name.
    let number = |value: Option<i64>| value.map(|value| i32::try_from(value).unwrap_or(i32::MAX));
    types::LaunchTemplateEbsBlockDeviceRequest::builder()
        .set_delete_on_termination(of.delete_on_termination)
        .set_encrypted(of.encrypted)
        .set_iops(number(of.iops))
        .set_throughput(number(of.throughput))
        .set_kms_key_id(of.kms_key_id.clone())
        .set_snapshot_id(of.snapshot_id.clone())
        .set_volume_initialization_rate(of.initialization_rate)
        .set_volume_size(number(of.size_gib))
        .set_volume_type(of.volume_type.as_deref().map(Into::into))
        .build()
}

fn metadata(of: &MetadataOptions) -> types::LaunchTemplateInstanceMetadataOptionsRequest {
    types::LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .http_endpoint(of.http_endpoint.as_str().into())
        .set_http_protocol_ipv6(of.http_protocol_ipv6.as_deref().map(Into::into))
        .http_put_response_hop_limit(i32::try_from(of.http_put_response_hop_limit).unwrap_or(i32::MAX))
        .http_tokens(of.http_tokens.as_str().into())
        .instance_metadata_tags(of.instance_metadata_tags.into())
        .build()
}

fn placement(new: &NewLaunchTemplate) -> types::LaunchTemplatePlacementRequest {
    types::LaunchTemplatePlacementRequest::builder()
        .tenancy(new.tenancy.as_str().into())
        .set_group_id(new.placement_group_id.clone())
        .set_partition_number(new.partition.and_then(|number| i32::try_from(number).ok()))
        .build()
}

fn reservation(target: &CapacityReservationTarget) -> types::LaunchTemplateCapacityReservationSpecificationRequest {
    let request = types::LaunchTemplateCapacityReservationSpecificationRequest::builder();
    match target {
        CapacityReservationTarget::Never => {
            request.capacity_reservation_preference(types::CapacityReservationPreference::None).build()
        }
        CapacityReservationTarget::Only(id) => request
            .capacity_reservation_preference("capacity-reservations-only".into())
            .capacity_reservation_target(
                types::CapacityReservationTarget::builder().capacity_reservation_id(id).build(),
            )
            .build(),
    }
}

fn interface(of: &Interface) -> types::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    let tracking = of.connection_tracking.map(|limits| {
        types::ConnectionTrackingSpecificationRequest::builder()
            .set_tcp_established_timeout(limits.tcp_established)
            .set_udp_stream_timeout(limits.udp_stream)
            .set_udp_timeout(limits.udp)
            .build()
    });
    types::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .set_network_card_index(of.card_index)
        .device_index(of.device_index)
        .set_interface_type(of.kind.clone())
        .set_groups(Some(of.security_groups.clone()))
        .set_associate_public_ip_address(of.associate_public_ip)
        .set_ipv4_prefix_count(of.ipv4_prefix_count)
        .set_ipv6_prefix_count(of.ipv6_prefix_count)
        .set_ipv6_address_count(of.ipv6_address_count)
        .set_primary_ipv6(of.primary_ipv6)
        .set_connection_tracking_specification(tracking)
        .build()
}
