//! Real types to test with: those of the built-in catalogue.

use std::sync::Arc;

use karpenter_core::{InstanceType, Quantity, Resources};

use crate::catalogue::{TypeFacts, builtin};
use crate::nodeclass::{BlockDevice, EbsVolume, NodeClassFacts, Subnet};
use crate::{AmiFamily, Circumstances, Ec2Settings, Place, instance_types, resolve};

pub(crate) const REGION: &str = "us-east-1";

pub(crate) fn facts(name: &str) -> TypeFacts {
    builtin::catalogue().find(name).unwrap_or_else(|| panic!("no type {name}")).clone()
}

pub(crate) fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

pub(crate) fn family(family: AmiFamily) -> NodeClassFacts {
    NodeClassFacts { ami_family: family, ..NodeClassFacts::default() }
}

pub(crate) fn volume(device: &str, size: Option<&str>) -> BlockDevice {
    BlockDevice {
        device_name: Some(device.to_owned()),
        root_volume: false,
        ebs: Some(EbsVolume { size: size.map(quantity) }),
    }
}

pub(crate) fn subnet(id: &str, zone: &str, zone_id: Option<&str>) -> Subnet {
    Subnet { id: Arc::from(id), zone: Arc::from(zone), zone_id: zone_id.map(Arc::from) }
}

/// One type of us-east-1 under a node class.
pub(crate) fn resolved(name: &str, class: &NodeClassFacts) -> InstanceType {
    resolved_with(name, class, &Ec2Settings::default(), &Circumstances::default())
}

pub(crate) fn resolved_with(
    name: &str,
    class: &NodeClassFacts,
    settings: &Ec2Settings,
    circumstances: &Circumstances,
) -> InstanceType {
    let facts = [facts(name)];
    let place = Place { name: REGION, facts: &builtin::catalogue().regions[REGION] };
    resolve(&facts, place, class, settings, circumstances).unwrap().remove(0)
}

pub(crate) fn all(class: &NodeClassFacts) -> Vec<InstanceType> {
    instance_types(builtin::catalogue(), REGION, class, &Ec2Settings::default()).unwrap()
}

pub(crate) fn label(instance_type: &InstanceType, key: &str) -> Vec<String> {
    let requirement = instance_type.requirements.get(key);
    assert!(instance_type.requirements.has(key), "{key} is not decided");
    assert!(!requirement.open, "{key} is open");
    requirement.values.iter().map(|value| value.to_string()).collect()
}

pub(crate) fn amount(list: &Resources, name: &str) -> String {
    list.get(name).to_string()
}
