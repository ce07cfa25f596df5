//! [`NodeClassFacts`] from an EC2NodeClass as JSON, for tools that read manifests.
//!
//! What a manifest leaves open is filled in as for a healthy account: subnets in every zone, AL2023 images. How much
//! room a capacity reservation has left is not in the object, so none is counted on; a caller that can ask EC2 sets
//! [`CapacityReservation::remaining`](super::CapacityReservation).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use karpenter_core::Quantity;
use serde_json::Value;

use super::{
    BlockDevice, CapacityReservation, EbsVolume, InterfaceKind, KubeletFacts, MaxPods, NetworkInterface,
    NodeClassFacts, ReservationKind, Reserved, Subnet, Threshold,
};
use crate::family::AmiFamily;

/// A field that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// As in `spec.kubelet.maxPods`.
    pub field: String,
    pub message: String,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// All faults at once, so that one run shows everything that is wrong.
pub fn facts(object: &Value) -> Result<NodeClassFacts, Vec<FieldFault>> {
    let mut reader = Reader::default();
    let root = Field::root(object);
    let (spec, status) = (root.child("spec"), root.child("status"));
    let facts = NodeClassFacts {
        ami_family: ami_family(&spec, &mut reader),
        kubelet: kubelet(&spec.child("kubelet"), &mut reader),
        block_devices: spec.child("blockDeviceMappings").each(&mut reader, block_device),
        instance_store_raid0: spec.child("instanceStorePolicy").text(&mut reader) == Some("RAID0"),
        network_interfaces: spec
            .child("networkInterfaces")
            .list(&mut reader)
            .map(|items| items.iter().map(|item| interface(item, &mut reader)).collect()),
        connection_tracking: spec.child("connectionTracking").present(),
        nested_virtualization: spec.child("cpuOptions").child("nestedVirtualization").text(&mut reader)
            == Some("enabled"),
        placement_group: None,
        subnets: Some(status.child("subnets").each(&mut reader, subnet)).filter(|subnets| !subnets.is_empty()),
        capacity_reservations: status.child("capacityReservations").each(&mut reader, reservation),
    };
    if reader.faults.is_empty() { Ok(facts) } else { Err(reader.faults) }
}

#[derive(Default)]
struct Reader {
    faults: Vec<FieldFault>,
}

/// A place in the object, and what stands there.
struct Field<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Field<'a> {
    fn root(value: &'a Value) -> Self {
        Self { path: String::new(), value }
    }

    fn child(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { path: format!("{}{dot}{name}", self.path), value: self.value.get(name).unwrap_or(&Value::Null) }
    }

    fn present(&self) -> bool {
        !self.value.is_null()
    }

    fn fault(&self, reader: &mut Reader, message: impl Into<String>) {
        reader.faults.push(FieldFault { field: self.path.clone(), message: message.into() });
    }

    fn text(&self, reader: &mut Reader) -> Option<&'a str> {
        match self.value {
            Value::Null => None,
            Value::String(text) => Some(text),
            _ => {
                self.fault(reader, "must be a string");
                None
            }
        }
    }

    fn needed_text(&self, reader: &mut Reader) -> Arc<str> {
        if !self.present() {
            self.fault(reader, "is missing");
        }
        Arc::from(self.text(reader).unwrap_or_default())
    }

    fn truth(&self, reader: &mut Reader) -> bool {
        match self.value {
            Value::Null => false,
            Value::Bool(truth) => *truth,
            _ => {
                self.fault(reader, "must be true or false");
                false
            }
        }
    }

    /// A number that is not negative and fits the API's 32 bits.
    fn count(&self, reader: &mut Reader) -> Option<i32> {
        if !self.present() {
            return None;
        }
        let count = self.value.as_i64().and_then(|n| i32::try_from(n).ok()).filter(|n| *n >= 0);
        if count.is_none() {
            self.fault(reader, "must be an integer that is not negative");
        }
        count
    }

    fn list(&self, reader: &mut Reader) -> Option<Vec<Field<'a>>> {
        match self.value {
            Value::Null => None,
            Value::Array(items) => {
                let item = |(index, value)| Field { path: format!("{}[{index}]", self.path), value };
                Some(items.iter().enumerate().map(item).collect())
            }
            _ => {
                self.fault(reader, "must be a list");
                None
            }
        }
    }

    fn each<T>(&self, reader: &mut Reader, read: impl Fn(&Field<'a>, &mut Reader) -> T) -> Vec<T> {
        let items = self.list(reader).unwrap_or_default();
        items.iter().map(|item| read(item, reader)).collect()
    }

    fn entries(&self, reader: &mut Reader) -> Vec<(&'a str, Field<'a>)> {
        match self.value {
            Value::Null => Vec::new(),
            Value::Object(map) => {
                let field = |(key, value): (&'a String, &'a Value)| {
                    let path = format!("{}[{key:?}]", self.path);
                    (key.as_str(), Field { path, value })
                };
                map.iter().map(field).collect()
            }
            _ => {
                self.fault(reader, "must be a map");
                Vec::new()
            }
        }
    }
}

/// The field, else the alias of the image terms, else AL2023.
fn ami_family(spec: &Field<'_>, reader: &mut Reader) -> AmiFamily {
    let field = spec.child("amiFamily");
    if let Some(text) = field.text(reader) {
        return AmiFamily::parse(text).unwrap_or_else(|| {
            let known = AmiFamily::ALL.map(AmiFamily::as_str).join(", ");
            field.fault(reader, format!("{text:?} is none of {known}"));
            AmiFamily::Al2023
        });
    }
    for term in spec.child("amiSelectorTerms").list(reader).unwrap_or_default() {
        let alias = term.child("alias");
        if let Some(text) = alias.text(reader).filter(|text| !text.is_empty()) {
            return AmiFamily::from_alias(text).unwrap_or_else(|| {
                alias.fault(reader, format!("{text:?} names no family with an alias"));
                AmiFamily::Al2023
            });
        }
    }
    AmiFamily::Al2023
}

fn kubelet(kubelet: &Field<'_>, reader: &mut Reader) -> KubeletFacts {
    let max_pods = kubelet.child("maxPods");
    let eviction = kubelet.child("evictionHard");
    KubeletFacts {
        max_pods: match max_pods.value {
            Value::String(text) => Some(MaxPods::Expression(text.clone())),
            _ => max_pods.count(reader).map(MaxPods::Count),
        },
        pods_per_core: kubelet.child("podsPerCore").count(reader),
        kube_reserved: reserved(&kubelet.child("kubeReserved"), reader),
        system_reserved: reserved(&kubelet.child("systemReserved"), reader),
        eviction_memory: threshold(&eviction.child("memory.available"), reader),
        eviction_nodefs: threshold(&eviction.child("nodefs.available"), reader),
    }
}

fn reserved(map: &Field<'_>, reader: &mut Reader) -> BTreeMap<String, Reserved> {
    let mut amounts = BTreeMap::new();
    for (resource, field) in map.entries(reader) {
        let Some(text) = field.text(reader) else { continue };
        let amount = match text.parse::<Quantity>() {
            Ok(quantity) if quantity.is_negative() => {
                field.fault(reader, format!("{text:?} must not be negative"));
                continue;
            }
            Ok(quantity) => Reserved::Amount(quantity),
            Err(_) => Reserved::Expression(text.to_owned()),
        };
        amounts.insert(resource.to_owned(), amount);
    }
    amounts
}

fn threshold(field: &Field<'_>, reader: &mut Reader) -> Option<Threshold> {
    let text = field.text(reader)?;
    let read = match text.strip_suffix('%') {
        Some(percent) => {
            percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent)).map(Threshold::Percent)
        }
        None => text.parse::<Quantity>().ok().filter(|quantity| !quantity.is_negative()).map(Threshold::Amount),
    };
    if read.is_none() {
        let want = "a quantity that is not negative or a percentage from 0% to 100%";
        field.fault(reader, format!("{text:?} is not {want}"));
    }
    read
}

fn block_device(device: &Field<'_>, reader: &mut Reader) -> BlockDevice {
    let ebs = device.child("ebs");
    let size = ebs.child("volumeSize");
    let size = size.text(reader).and_then(|text| match text.parse::<Quantity>() {
        Ok(quantity) => Some(quantity),
        Err(error) => {
            size.fault(reader, error.to_string());
            None
        }
    });
    BlockDevice {
        device_name: device.child("deviceName").text(reader).map(str::to_owned),
        root_volume: device.child("rootVolume").truth(reader),
        ebs: ebs.present().then_some(EbsVolume { size }),
    }
}

fn interface(interface: &Field<'_>, reader: &mut Reader) -> NetworkInterface {
    let kind = interface.child("interfaceType");
    let index = |name: &str, reader: &mut Reader| {
        let field = interface.child(name);
        if !field.present() {
            field.fault(reader, "is missing");
        }
        field.count(reader).unwrap_or(0).unsigned_abs()
    };
    NetworkInterface {
        card: index("networkCardIndex", reader),
        device: index("deviceIndex", reader),
        kind: match &*kind.needed_text(reader) {
            "efa-only" => InterfaceKind::EfaOnly,
            "interface" => InterfaceKind::Interface,
            other => {
                kind.fault(reader, format!("{other:?} is neither interface nor efa-only"));
                InterfaceKind::Interface
            }
        },
    }
}

fn subnet(subnet: &Field<'_>, reader: &mut Reader) -> Subnet {
    Subnet {
        id: subnet.child("id").needed_text(reader),
        zone: subnet.child("zone").needed_text(reader),
        zone_id: subnet.child("zoneID").text(reader).filter(|id| !id.is_empty()).map(Arc::from),
    }
}

fn reservation(reservation: &Field<'_>, reader: &mut Reader) -> CapacityReservation {
    let kind = reservation.child("reservationType").text(reader);
    CapacityReservation {
        id: reservation.child("id").needed_text(reader),
        instance_type: reservation.child("instanceType").needed_text(reader),
        zone: reservation.child("availabilityZone").needed_text(reader),
        kind: match kind {
            Some("capacity-block") => ReservationKind::CapacityBlock,
            _ => ReservationKind::Default,
        },
        interruptible: reservation.child("interruptible").truth(reader),
        expiring: reservation.child("state").text(reader) == Some("expiring"),
        remaining: 0,
    }
}

#[cfg(test)]
mod tests;
