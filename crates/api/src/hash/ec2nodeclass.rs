//! The EC2NodeClass' hash: what a launched instance would look like, without what selects images, subnets, groups and
//! reservations (those drift by comparing results, not wishes).

use super::{StructHash, boolean, go_json, int32, int64, list, string, string_map};
use crate::ec2nodeclass::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClass, EC2NodeClassSpec, MetadataOptions,
    NetworkInterface, PlacementGroupSelector,
};
use crate::quantity::canonical_volume_size;

/// Raised by the reference whenever the same class would hash differently.
pub const EC2NODECLASS_HASH_VERSION: &str = "v6";

/// The value of the annotation `karpenter.k8s.aws/ec2nodeclass-hash`. The cluster's CA bundle is part of the user data
/// of every node, hence of the hash; without one it counts as empty.
pub fn ec2nodeclass_hash(class: &EC2NodeClass, ca_bundle: Option<&str>) -> String {
    let kubelet = match &class.spec.kubelet {
        Some(map) if !map.is_empty() => go_json::object(map),
        _ => "null".to_owned(),
    };
    list([
        spec(&class.spec),
        string(class.ami_family().as_str()),
        string(ca_bundle.unwrap_or_default()),
        string(&kubelet),
    ])
    .to_string()
}

fn spec(spec: &EC2NodeClassSpec) -> u64 {
    let mappings = |mappings: &Vec<BlockDeviceMapping>| list(mappings.iter().map(block_device_mapping));
    let interfaces = |interfaces: &Vec<NetworkInterface>| list(interfaces.iter().map(network_interface));
    StructHash::new("EC2NodeClassSpec")
        .optional("PlacementGroupSelector", spec.placement_group_selector.as_ref().map(placement_group_selector))
        .optional("AssociatePublicIPAddress", spec.associate_public_ip_address.map(boolean))
        .optional("UserData", spec.user_data.as_deref().map(string))
        .text("Role", spec.role.as_deref().unwrap_or_default())
        .optional("InstanceProfile", spec.instance_profile.as_deref().map(string))
        .optional("Tags", spec.tags.as_ref().map(string_map))
        .optional("BlockDeviceMappings", spec.block_device_mappings.as_ref().map(mappings))
        .optional("InstanceStorePolicy", spec.instance_store_policy.as_deref().map(string))
        .optional("NetworkInterfaces", spec.network_interfaces.as_ref().map(interfaces))
        .optional("DetailedMonitoring", spec.detailed_monitoring.map(boolean))
        .optional("MetadataOptions", Some(metadata_options(&spec.metadata_options)))
        .optional("ConnectionTracking", spec.connection_tracking.as_ref().map(connection_tracking))
        .optional("Context", spec.context.as_deref().map(string))
        .optional("CPUOptions", spec.cpu_options.as_ref().map(cpu_options))
        .value()
}

fn placement_group_selector(selector: &PlacementGroupSelector) -> u64 {
    StructHash::new("PlacementGroupSelector")
        .optional("Name", selector.name.as_deref().map(string))
        .optional("ID", selector.id.as_deref().map(string))
        .value()
}

fn block_device_mapping(mapping: &BlockDeviceMapping) -> u64 {
    StructHash::new("BlockDeviceMapping")
        .optional("DeviceName", mapping.device_name.as_deref().map(string))
        .optional("EBS", mapping.ebs.as_ref().map(block_device))
        .optional("RootVolume", mapping.root_volume.filter(|root| *root).map(boolean))
        .value()
}

fn block_device(device: &BlockDevice) -> u64 {
    StructHash::new("BlockDevice")
        .optional("DeleteOnTermination", device.delete_on_termination.map(boolean))
        .optional("Encrypted", device.encrypted.map(boolean))
        .optional("IOPS", device.iops.map(int64))
        .optional("KMSKeyID", device.kms_key_id.as_deref().map(string))
        .optional("SnapshotID", device.snapshot_id.as_deref().map(string))
        .optional("Throughput", device.throughput.map(int64))
        .optional("VolumeInitializationRate", device.volume_initialization_rate.map(int32))
        .optional("VolumeSize", device.volume_size.as_ref().map(|size| string(&canonical_volume_size(&size.0))))
        .optional("VolumeType", device.volume_type.as_deref().map(string))
        .value()
}

fn network_interface(interface: &NetworkInterface) -> u64 {
    let set = |index: i32| (index != 0).then(|| int32(index));
    StructHash::new("NetworkInterface")
        .optional("NetworkCardIndex", set(interface.network_card_index))
        .optional("DeviceIndex", set(interface.device_index))
        .text("InterfaceType", &interface.interface_type)
        .value()
}

fn metadata_options(options: &MetadataOptions) -> u64 {
    StructHash::new("MetadataOptions")
        .optional("HTTPEndpoint", Some(string(&options.http_endpoint)))
        .optional("HTTPProtocolIPv6", Some(string(&options.http_protocol_ipv6)))
        .optional("HTTPPutResponseHopLimit", Some(int64(options.http_put_response_hop_limit)))
        .optional("HTTPTokens", Some(string(&options.http_tokens)))
        .value()
}

fn connection_tracking(tracking: &ConnectionTracking) -> u64 {
    StructHash::new("ConnectionTracking")
        .optional("TCPEstablishedTimeout", tracking.tcp_established_timeout.map(int32))
        .optional("UDPStreamTimeout", tracking.udp_stream_timeout.map(int32))
        .optional("UDPTimeout", tracking.udp_timeout.map(int32))
        .value()
}

fn cpu_options(options: &CpuOptions) -> u64 {
    StructHash::new("CPUOptions")
        .optional("NestedVirtualization", options.nested_virtualization.as_deref().map(string))
        .value()
}
