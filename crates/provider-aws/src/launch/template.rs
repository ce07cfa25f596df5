//! What launch templates a launch needs, and what is in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use karpenter_api::ec2nodeclass::{AmiFamily as WireFamily, BlockDevice as WireVolume};
use karpenter_api::{EC2NodeClass, NodeClaim};
use karpenter_core::labels::RESERVED;
use karpenter_core::requirement::Expression;
use karpenter_core::resources::PODS;
use karpenter_core::taints::Effect;
use karpenter_core::{InstanceType, Operator, Quantity, Requirements, Taint};
use karpenter_ec2::kubelet::Resolved;
use karpenter_ec2::userdata::{self, Bootstrap, ClusterFacts, ImageNames, UserDataError};
use karpenter_ec2::{AmiFamily, images, labels as aws};

use super::candidates::{ReservationGroup, reservation_group};
use crate::calls::{
    BlockDevice, CapacityReservationTarget, ConnectionTracking, Interface, MetadataOptions, NewLaunchTemplate, Tags,
    Volume,
};
use crate::fnv::hash_of;
use crate::types::Kubelets;

pub const EFA: &str = "vpc.amazonaws.com/efa";
const NITRO_SANDBOX: &str = "eks.amazonaws.com/nitro-sandbox";
const GIB: i64 = 1 << 30;
/// Their metadata service does not know the IPv6 field.
const WITHOUT_IPV6_METADATA: [&str; 6] =
    ["us-iso-east-1", "us-iso-west-1", "us-isob-east-1", "us-isob-west-1", "us-isof-south-1", "us-isof-east-1"];

/// Everything that shapes a template beside the class and the claim.
pub struct Surroundings<'a> {
    pub region: &'a str,
    pub cluster: &'a ClusterFacts,
    pub cluster_dns: Option<&'a str>,
    pub ipv6: bool,
    pub reserved_capacity: bool,
    pub placement_group_id: Option<&'a str>,
    pub partition: Option<u32>,
    /// Spot requests may be tagged; policies of older releases do not allow it.
    pub tag_spot_requests: bool,
    /// What formulas of the kubelet settings come to.
    pub kubelets: &'a Kubelets,
}

/// What was decided about the launch.
pub struct Choice<'a> {
    pub types: &'a [InstanceType],
    pub capacity_type: &'a str,
    pub tenancy: &'a str,
    pub tags: &'a Tags,
}

/// A template, and the types that launch from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub template: NewLaunchTemplate,
    pub types: Vec<InstanceType>,
    pub reservation_id: Option<String>,
    pub user_data_bytes: usize,
    /// What was dropped of the user's own user data.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("no security groups are present in the status")]
    NoSecurityGroups,
    #[error("no amis exist given constraints")]
    NoImages,
    #[error("no instance types satisfy requirements of amis {0}")]
    NoTypeFitsImages(String),
    #[error(transparent)]
    UserData(#[from] UserDataError),
}

/// What types must share to launch from one template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    image: String,
    pods: i64,
    efas: i64,
    kubelet: Resolved,
    reservations: Vec<String>,
}

pub fn plan(
    class: &EC2NodeClass,
    claim: &NodeClaim,
    choice: &Choice<'_>,
    around: &Surroundings<'_>,
) -> Result<Vec<Planned>, TemplateError> {
    let status = class.status.clone().unwrap_or_default();
    if status.security_groups.as_ref().is_none_or(Vec::is_empty) {
        return Err(TemplateError::NoSecurityGroups);
    }
    let images = status_images(class);
    if images.is_empty() {
        return Err(TemplateError::NoImages);
    }
    let wants_efa = requests(claim, EFA);
    let mut groups: BTreeMap<Group, Vec<InstanceType>> = BTreeMap::new();
    for kind in choice.types {
        let Some(image) = images::image_for(kind, images.iter().map(|(id, set)| (id.as_str(), set))) else { continue };
        let group = Group {
            image: image.to_owned(),
            pods: kind.capacity.get(PODS).units(),
            efas: if wants_efa { kind.capacity.get(EFA).units() } else { 0 },
            kubelet: around.kubelets.get(&kind.name).cloned().unwrap_or_default(),
            reservations: if choice.capacity_type == RESERVED { reservations(kind) } else { Vec::new() },
        };
        groups.entry(group).or_default().push(kind.clone());
    }
    if groups.is_empty() {
        let mut ids: Vec<&str> = images.iter().map(|(id, _)| id.as_str()).collect();
        ids.dedup();
        return Err(TemplateError::NoTypeFitsImages(format!("{ids:?}")));
    }
    let mut planned: Vec<Planned> = Vec::new();
    for (group, types) in groups {
        let targets: Vec<Option<&String>> =
            if group.reservations.is_empty() { vec![None] } else { group.reservations.iter().map(Some).collect() };
        for reservation in targets {
            let new = one(class, claim, choice, around, &group, &types, reservation)?;
            // What tells groups apart need not reach EC2: a limit of pods does not, where the user sets his own.
            match planned.iter_mut().find(|held| held.template.name == new.template.name) {
                Some(held) => held.types.extend(new.types),
                None => planned.push(new),
            }
        }
    }
    Ok(planned)
}

fn one(
    class: &EC2NodeClass,
    claim: &NodeClaim,
    choice: &Choice<'_>,
    around: &Surroundings<'_>,
    group: &Group,
    types: &[InstanceType],
    reservation: Option<&String>,
) -> Result<Planned, TemplateError> {
    let spec = &class.spec;
    let rendered = user_data(class, claim, choice, around, group)?;
    let kind =
        types.iter().flat_map(|kind| &kind.offerings).find_map(reservation_group).filter(|_| reservation.is_some());
    let market_type = match kind {
        Some(ReservationGroup::CapacityBlock) => Some("capacity-block".to_owned()),
        Some(ReservationGroup::Interruptible) => Some("interruptible-capacity-reservation".to_owned()),
        Some(ReservationGroup::Default) | None => None,
    };
    let mut template = NewLaunchTemplate {
        name: String::new(),
        image_id: group.image.clone(),
        instance_profile: class.status.as_ref().and_then(|s| s.instance_profile.clone()).unwrap_or_default(),
        monitoring: spec.detailed_monitoring.unwrap_or(false),
        user_data: base64::engine::general_purpose::STANDARD.encode(&rendered.text),
        block_devices: block_devices(class),
        metadata: metadata(class, around.region),
        interfaces: interfaces(class, group.efas, around.ipv6),
        tenancy: choice.tenancy.to_owned(),
        placement_group_id: around.placement_group_id.map(str::to_owned),
        partition: around.partition,
        nested_virtualization: spec.cpu_options.as_ref().and_then(|options| options.nested_virtualization.clone()),
        enclaves: requests(claim, NITRO_SANDBOX),
        reservation: around.reserved_capacity.then(|| match reservation {
            Some(id) => CapacityReservationTarget::Only(id.clone()),
            None => CapacityReservationTarget::Never,
        }),
        market_type,
        tags: choice.tags.clone(),
        tag_spot_requests: around.tag_spot_requests && choice.capacity_type == karpenter_core::labels::SPOT,
    };
    // The name is the content: equal templates are one, and no change is ever made to a template that is there.
    template.name = format!("karpenter.k8s.aws/{}", hash_of(&template));
    Ok(Planned {
        template,
        types: types.to_vec(),
        reservation_id: reservation.cloned(),
        user_data_bytes: rendered.text.len(),
        notes: rendered.notes,
    })
}

/// The images of the status with what types must meet, in its order.
pub fn status_images(class: &EC2NodeClass) -> Vec<(String, Requirements)> {
    let amis = class.status.iter().filter_map(|status| status.amis.as_ref()).flatten();
    amis.map(|ami| {
        let expressions: Vec<Expression> = ami
            .requirements
            .iter()
            .map(|entry| Expression {
                key: Arc::from(entry.key.as_str()),
                operator: Operator::parse(&entry.operator).unwrap_or(Operator::DoesNotExist),
                values: entry.values.iter().flatten().map(|value| Arc::from(value.as_str())).collect(),
                min_values: None,
            })
            .collect();
        (ami.id.clone(), images::requirements(&expressions))
    })
    .collect()
}

fn requests(claim: &NodeClaim, resource: &str) -> bool {
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    requests.is_some_and(|requests| requests.contains_key(resource))
}

fn reservations(kind: &InstanceType) -> Vec<String> {
    let mut ids: Vec<String> =
        kind.offerings.iter().filter_map(|o| o.reservation.as_ref()).map(|r| r.id.to_string()).collect();
    ids.sort();
    ids.dedup();
    ids
}

pub fn family(class: &EC2NodeClass) -> AmiFamily {
    match class.ami_family() {
        WireFamily::Al2 => AmiFamily::Al2,
        WireFamily::Al2023 => AmiFamily::Al2023,
        WireFamily::Bottlerocket => AmiFamily::Bottlerocket,
        WireFamily::Custom => AmiFamily::Custom,
        WireFamily::Windows2019 => AmiFamily::Windows2019,
        WireFamily::Windows2022 => AmiFamily::Windows2022,
        WireFamily::Windows2025 => AmiFamily::Windows2025,
    }
}

fn user_data(
    class: &EC2NodeClass,
    claim: &NodeClaim,
    choice: &Choice<'_>,
    around: &Surroundings<'_>,
    group: &Group,
) -> Result<userdata::Rendered, UserDataError> {
    let family = family(class);
    let claim_labels = claim.metadata.labels.clone().unwrap_or_default();
    let labels = userdata::node_labels(&claim_labels, choice.capacity_type, family);
    let taints = userdata::registration_taints(&taints(&claim.spec.taints), &taints(&claim.spec.startup_taints));
    let kubelet = class.spec.kubelet.clone().unwrap_or_default();
    let kubelet = userdata::kubelet_settings(&kubelet, group.pods, around.cluster_dns, &group.kubelet);
    userdata::render(&Bootstrap {
        family,
        cluster: around.cluster,
        labels: &labels,
        taints: &taints,
        kubelet: &kubelet,
        raid0: class.spec.instance_store_policy.as_deref() == Some("RAID0"),
        custom: class.spec.user_data.as_deref(),
        bottlerocket_binds_by_default: userdata::binds_by_default(&image_names(class)),
    })
}

fn image_names(class: &EC2NodeClass) -> ImageNames<'_> {
    let terms = &class.spec.ami_selector_terms;
    let amis = class.status.iter().filter_map(|status| status.amis.as_ref()).flatten();
    ImageNames {
        alias_version: class.ami_alias().map(|alias| alias.version),
        name_terms: terms.iter().filter_map(|term| term.name.as_deref()).collect(),
        id_terms: terms.iter().filter_map(|term| term.id.as_deref()).collect(),
        resolved: amis.map(|ami| (ami.id.as_str(), ami.name.as_deref().unwrap_or_default())).collect(),
    }
}

/// An effect we do not know keeps nobody away from anything, so it is not passed on; admission refuses it.
fn taints(wire: &Option<Vec<karpenter_api::Taint>>) -> Vec<Taint> {
    let known = wire.iter().flatten().filter_map(|taint| {
        let effect = Effect::parse(&taint.effect)?;
        Some(Taint { key: taint.key.clone(), value: taint.value.clone().unwrap_or_default(), effect })
    });
    known.collect()
}

fn block_devices(class: &EC2NodeClass) -> Vec<BlockDevice> {
    if let Some(devices) = class.spec.block_device_mappings.as_ref().filter(|devices| !devices.is_empty()) {
        let device = |device: &karpenter_api::ec2nodeclass::BlockDeviceMapping| BlockDevice {
            device_name: device.device_name.clone(),
            volume: device.ebs.as_ref().map(volume),
        };
        return devices.iter().map(device).collect();
    }
    let default = |(device, size): (&str, Quantity)| BlockDevice {
        device_name: Some(device.to_owned()),
        volume: Some(Volume {
            encrypted: Some(true),
            volume_type: Some("gp3".to_owned()),
            size_gib: Some(gib(size)),
            ..Volume::default()
        }),
    };
    images::default_volumes(family(class)).into_iter().map(default).collect()
}

fn volume(ebs: &WireVolume) -> Volume {
    Volume {
        delete_on_termination: ebs.delete_on_termination,
        encrypted: ebs.encrypted,
        iops: ebs.iops.filter(|n| *n != 0),
        throughput: ebs.throughput.filter(|n| *n != 0),
        kms_key_id: ebs.kms_key_id.clone(),
        snapshot_id: ebs.snapshot_id.clone(),
        initialization_rate: ebs.volume_initialization_rate,
        size_gib: ebs.volume_size.as_ref().and_then(|size| size.0.parse().ok()).map(gib),
        volume_type: ebs.volume_type.clone(),
    }
}

/// EC2 takes whole GiB; what the user asked for must fit.
fn gib(size: Quantity) -> i64 {
    size.units().div_euclid(GIB) + i64::from(size.units().rem_euclid(GIB) > 0)
}

fn metadata(class: &EC2NodeClass, region: &str) -> MetadataOptions {
    let options = &class.spec.metadata_options;
    MetadataOptions {
        http_endpoint: options.http_endpoint.clone(),
        http_protocol_ipv6: (!WITHOUT_IPV6_METADATA.contains(&region)).then(|| options.http_protocol_ipv6.clone()),
        http_put_response_hop_limit: options.http_put_response_hop_limit,
        http_tokens: options.http_tokens.clone(),
        instance_metadata_tags: "disabled",
    }
}

fn interfaces(class: &EC2NodeClass, efas: i64, ipv6: bool) -> Vec<Interface> {
    let spec = &class.spec;
    let groups = class.status.iter().filter_map(|status| status.security_groups.as_ref()).flatten();
    let security_groups: Vec<String> = groups.map(|group| group.id.clone()).collect();
    let tracking = spec.connection_tracking.as_ref().map(|tracking| ConnectionTracking {
        tcp_established: tracking.tcp_established_timeout,
        udp_stream: tracking.udp_stream_timeout,
        udp: tracking.udp_timeout,
    });
    let any_timeout = |t: &ConnectionTracking| t.tcp_established.is_some() || t.udp_stream.is_some() || t.udp.is_some();
    let plain = Interface {
        card_index: None,
        device_index: 0,
        kind: None,
        security_groups: security_groups.clone(),
        associate_public_ip: spec.associate_public_ip_address,
        ipv4_prefix_count: spec.ip_prefix_count.filter(|_| !ipv6),
        ipv6_prefix_count: spec.ip_prefix_count.filter(|_| ipv6),
        ipv6_address_count: ipv6.then_some(1),
        primary_ipv6: ipv6.then_some(true),
        connection_tracking: tracking.filter(any_timeout),
    };
    if let Some(wanted) = spec.network_interfaces.as_ref().filter(|wanted| !wanted.is_empty()) {
        let make = |interface: &karpenter_api::ec2nodeclass::NetworkInterface| {
            let (card_index, device_index) = (Some(interface.network_card_index), interface.device_index);
            if interface.interface_type == "efa-only" {
                let kind = Some("efa-only".to_owned());
                let security_groups = security_groups.clone();
                return Interface { card_index, device_index, kind, security_groups, ..Interface::default() };
            }
            Interface { card_index, device_index, ..plain.clone() }
        };
        return wanted.iter().map(make).collect();
    }
    if efas > 0 {
        let efa = |card: i64| Interface {
            card_index: i32::try_from(card).ok(),
            // The first one is the instance's own; on further cards that place is not to be had.
            device_index: i32::from(card > 0),
            kind: Some("efa".to_owned()),
            ..plain.clone()
        };
        return (0..efas).map(efa).collect();
    }
    vec![plain]
}

/// The partition to launch into, if the claim constrains it: the lowest it allows.
pub fn partition(requirements: &Requirements, partitions: u32) -> Option<u32> {
    let requirement = requirements.0.get(aws::PLACEMENT_GROUP_PARTITION)?;
    (1..=partitions).find(|partition| requirement.allows(&partition.to_string()))
}

#[cfg(test)]
mod tests;
