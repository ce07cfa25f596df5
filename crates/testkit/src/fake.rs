//! The fake cloud's instance types (SCH 23.3).

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_core::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, RESERVED, SPOT, Vocabulary, ZONE};
use karpenter_core::resources::{CPU, MEMORY, PODS};
use karpenter_core::{
    InstanceType, MicroUsd, Offering, Overhead, Quantity, Requirement, Requirements, Reservation, Resources,
};

use crate::{quantity, resources};

pub const SIZE: &str = "size";
pub const SPECIAL: &str = "special";
pub const INTEGER: &str = "integer";
pub const RESERVATION_ID: &str = "karpenter.test.sh/reservation-id";
pub const VENDOR_A: &str = "fake.com/vendor-a";
pub const VENDOR_B: &str = "fake.com/vendor-b";
pub const ZONES: [&str; 3] = ["test-zone-1", "test-zone-2", "test-zone-3"];

/// Kubernetes' words and those of the fake cloud.
pub fn vocabulary() -> Vocabulary {
    let mut words = Vocabulary::kubernetes();
    for key in [SIZE, SPECIAL, INTEGER, RESERVATION_ID, crate::pool::NODE_CLASS] {
        words.well_known.insert(key.to_owned());
    }
    words.reservation_id = Some(RESERVATION_ID.to_owned());
    words
}

/// A type of 4 CPUs, 4Gi and 5 pods with the five default offerings.
pub fn instance_type(name: &str) -> TypeBuilder {
    TypeBuilder {
        name: name.to_owned(),
        capacity: resources(&[(CPU, "4"), (MEMORY, "4Gi"), (PODS, "5")]),
        arch: "amd64".to_owned(),
        systems: vec!["linux".to_owned(), "windows".to_owned(), "darwin".to_owned()],
        offerings: None,
        price: None,
        more: Requirements::new(),
    }
}

#[derive(Clone, Debug)]
pub struct TypeBuilder {
    name: String,
    capacity: Resources,
    arch: String,
    systems: Vec<String>,
    offerings: Option<Vec<Sold>>,
    price: Option<MicroUsd>,
    more: Requirements,
}

/// One offering of a fixture; without a price of its own it costs what the type costs.
#[derive(Clone, Debug)]
pub struct Sold {
    zone: String,
    capacity_type: String,
    price: Option<MicroUsd>,
    available: bool,
    reservation: Option<Reservation>,
}

pub fn sold(zone: &str, capacity_type: &str) -> Sold {
    Sold {
        zone: zone.to_owned(),
        capacity_type: capacity_type.to_owned(),
        price: None,
        available: true,
        reservation: None,
    }
}

impl Sold {
    pub fn at(mut self, micro_usd: u64) -> Self {
        self.price = Some(MicroUsd(micro_usd));
        self
    }

    pub fn unavailable(mut self) -> Self {
        self.available = false;
        self
    }

    /// From a capacity reservation.
    pub fn reserved(mut self, id: &str, remaining: u32) -> Self {
        self.capacity_type = RESERVED.to_owned();
        self.reservation = Some(Reservation { id: id.into(), remaining });
        self
    }
}

impl TypeBuilder {
    pub fn cpu(self, text: &str) -> Self {
        self.room(CPU, text)
    }

    pub fn memory(self, text: &str) -> Self {
        self.room(MEMORY, text)
    }

    pub fn pods(self, text: &str) -> Self {
        self.room(PODS, text)
    }

    pub fn room(mut self, resource: &str, text: &str) -> Self {
        self.capacity.set(resource, quantity(text));
        self
    }

    pub fn arch(mut self, arch: &str) -> Self {
        self.arch = arch.to_owned();
        self
    }

    pub fn systems(mut self, systems: &[&str]) -> Self {
        self.systems = systems.iter().map(|s| (*s).to_owned()).collect();
        self
    }

    /// Instead of the one the formula gives.
    pub fn price(mut self, micro_usd: u64) -> Self {
        self.price = Some(MicroUsd(micro_usd));
        self
    }

    pub fn offerings(mut self, offerings: Vec<Sold>) -> Self {
        self.offerings = Some(offerings);
        self
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.more.add(key, Requirement::one(value));
        self
    }

    pub fn build(self) -> InstanceType {
        let price = self.price.unwrap_or_else(|| price_of(&self.capacity));
        let sold = self.offerings.unwrap_or_else(default_offerings);
        let offerings: Vec<Offering> = sold.into_iter().map(|sold| offering(sold, price)).collect();
        let available = |key: &str| -> BTreeSet<Arc<str>> {
            let on_sale = offerings.iter().filter(|offering| offering.available);
            on_sale.flat_map(|offering| offering.requirements.get(key).values).collect()
        };
        let cpu = self.capacity.get(CPU);
        let large = cpu > quantity("4") && self.capacity.get(MEMORY) > quantity("8Gi");
        let mut requirements = Requirements::new();
        let mut set = |key: &str, requirement| requirements.add(key, requirement);
        set(INSTANCE_TYPE, Requirement::one(&self.name));
        set(ARCH, Requirement::one(&self.arch));
        set(OS, Requirement::one_of(self.systems.iter().map(String::as_str)));
        set(ZONE, Requirement::one_of(available(ZONE).iter().map(|v| &**v)));
        set(CAPACITY_TYPE, Requirement::one_of(available(CAPACITY_TYPE).iter().map(|v| &**v)));
        set(SIZE, Requirement::one(if large { "large" } else { "small" }));
        set(SPECIAL, if large { Requirement::one("optional") } else { Requirement::absent() });
        set(INTEGER, Requirement::one(&cpu.units().to_string()));
        requirements.add_all(&self.more);
        InstanceType {
            name: self.name.into(),
            requirements,
            capacity: self.capacity,
            overhead: Overhead { kube_reserved: resources(&[(CPU, "100m"), (MEMORY, "10Mi")]), ..Overhead::default() },
            offerings,
        }
    }
}

fn offering(sold: Sold, type_price: MicroUsd) -> Offering {
    let mut requirements = Requirements::new();
    requirements.add(ZONE, Requirement::one(&sold.zone));
    requirements.add(CAPACITY_TYPE, Requirement::one(&sold.capacity_type));
    if let Some(reservation) = &sold.reservation {
        requirements.add(RESERVATION_ID, Requirement::one(&reservation.id));
    }
    Offering {
        requirements,
        price: sold.price.unwrap_or(type_price),
        available: sold.available,
        reservation: sold.reservation,
    }
}

/// Spot in two zones, on-demand in three.
fn default_offerings() -> Vec<Sold> {
    let spot = ZONES[..2].iter().map(|zone| sold(zone, SPOT));
    spot.chain(ZONES.iter().map(|zone| sold(zone, ON_DEMAND))).collect()
}

/// A tenth of a dollar for each CPU and each billion bytes, a dollar for each kind of accelerator; in whole millionths.
pub fn price_of(capacity: &Resources) -> MicroUsd {
    let micro = |quantity: Quantity, per: i128| (quantity.nanos() * 100_000 + per / 2) / per;
    let cpu = micro(capacity.get(CPU), 1_000_000_000);
    let memory = micro(capacity.get(MEMORY), 1_000_000_000 * 1_000_000_000);
    let vendors = [VENDOR_A, VENDOR_B].iter().filter(|name| !capacity.get(name).is_zero()).count();
    MicroUsd((cpu + memory) as u64 + vendors as u64 * 1_000_000)
}

/// `fake-it-0` … each one CPU, 2Gi and ten pods larger than the one before.
pub fn incremental(count: usize) -> Vec<InstanceType> {
    let one = |i: usize| {
        instance_type(&format!("fake-it-{i}"))
            .cpu(&(i + 1).to_string())
            .memory(&format!("{}Gi", 2 * (i + 1)))
            .pods(&(10 * (i + 1)).to_string())
            .build()
    };
    (0..count).map(one).collect()
}

/// Every combination of size, zone, capacity type, system and architecture: 1344 types of one offering each.
pub fn assorted() -> Vec<InstanceType> {
    let mut types = Vec::new();
    for cpu in [1, 2, 4, 8, 16, 32, 64] {
        for memory in [1, 2, 4, 8, 16, 32, 64, 128] {
            for zone in ZONES {
                for capacity_type in [SPOT, ON_DEMAND] {
                    for system in ["linux", "windows"] {
                        for arch in ["amd64", "arm64"] {
                            let name = format!("{cpu}-cpu-{memory}-mem-{arch}-{system}-{zone}-{capacity_type}");
                            let kind = instance_type(&name)
                                .cpu(&cpu.to_string())
                                .memory(&format!("{memory}Gi"))
                                .arch(arch)
                                .systems(&[system])
                                .offerings(vec![sold(zone, capacity_type)]);
                            types.push(kind.build());
                        }
                    }
                }
            }
        }
    }
    types
}

/// What the fake cloud sells when nothing is configured.
pub fn default_six() -> Vec<InstanceType> {
    [
        instance_type("default-instance-type"),
        instance_type("small-instance-type").cpu("2").memory("2Gi"),
        instance_type("gpu-vendor-instance-type").room(VENDOR_A, "2"),
        instance_type("gpu-vendor-b-instance-type").room(VENDOR_B, "2"),
        instance_type("arm-instance-type")
            .cpu("16")
            .memory("128Gi")
            .arch("arm64")
            .systems(&["ios", "linux", "windows", "darwin"]),
        instance_type("single-pod-instance-type").pods("1"),
    ]
    .map(TypeBuilder::build)
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incremental_types_grow_and_cost_by_the_formula() {
        let types = incremental(400);
        assert_eq!(types[0].offerings[0].price, MicroUsd(314_748));
        assert_eq!(types[399].offerings[4].price, MicroUsd(125_899_346));
        assert_eq!(types[9].capacity, resources(&[(CPU, "10"), (MEMORY, "20Gi"), (PODS, "100")]));
        for (i, size) in [(3, "small"), (4, "large")] {
            assert_eq!(types[i].requirements.get(SIZE), Requirement::one(size), "fake-it-{i}");
        }
        assert_eq!(types[3].requirements.get(SPECIAL), Requirement::absent());
        assert_eq!(types[3].requirements.get(INTEGER), Requirement::one("4"));
        assert_eq!(types[0].offerings.len(), 5);
    }

    #[test]
    fn assorted_types_are_all_different() {
        let types = assorted();
        let names: BTreeSet<_> = types.iter().map(|t| t.name.clone()).collect();
        assert_eq!((types.len(), names.len()), (1344, 1344));
        assert_eq!(&*types[0].name, "1-cpu-1-mem-amd64-linux-test-zone-1-spot");
    }

    #[test]
    fn vendors_cost_a_dollar_each() {
        let six = default_six();
        let dearer = six[2].offerings[0].price.0 - six[0].offerings[0].price.0;
        assert_eq!((six.len(), dearer), (6, 1_000_000));
    }
}
