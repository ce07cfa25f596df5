//! How a simulated region is.

use std::sync::Arc;
use std::time::Duration;

use karpenter_ec2::Catalogue;
use karpenter_ec2::catalogue::builtin;
use karpenter_provider_aws::calls::{CapacityReservation, PlacementGroup, SecurityGroup};

use crate::chance::Span;

#[derive(Clone, Debug)]
pub struct Options {
    pub region: String,
    pub seed: u64,
    pub cluster_name: String,
    pub cluster_endpoint: String,
    pub kubernetes_version: String,
    pub catalogue: Arc<Catalogue>,
    /// How many of the region's zones have subnets.
    pub zones: usize,
    /// Addresses of each subnet.
    pub subnet_addresses: i64,
    /// How many instances a pool has; pools are a type, a zone and a capacity type.
    pub capacity: Capacity,
    /// Of every call.
    pub latency: Span,
    /// How long reads lag behind writes.
    pub staleness: Span,
    /// From launch until the node registers.
    pub boot: Span,
    /// From `shutting-down` to `terminated`.
    pub shutdown: Span,
    /// How long a terminated instance can still be described.
    pub remembered: Duration,
    pub rates: Rates,
    pub limits: Option<Limits>,
    /// Subnets, security groups and images that exist by id, beyond those that selectors made.
    pub listed_ids: Vec<String>,
    /// Security groups that answer to their tags; without any, whatever a selector asks for is there.
    pub groups: Vec<SecurityGroup>,
    pub reservations: Vec<CapacityReservation>,
    pub placement_groups: Vec<PlacementGroup>,
    /// The name of the interruption queue.
    pub queue: String,
    /// Calls for prices are answered. Without, they fail until [`crate::Region::tell_prices`].
    pub prices: bool,
    /// Every request is kept: see [`crate::Region::requests`].
    pub recorded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    Unlimited,
    /// Drawn for each pool: many, some, few or none.
    Drawn,
    /// The same for every pool.
    Exactly(u32),
}

/// Faults that happen by themselves, as shares of calls, launches or hours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Of calls: `RequestLimitExceeded`.
    pub throttled: f64,
    /// Of calls: `InternalError`, HTTP 500.
    pub server_faults: f64,
    /// Of pools asked: refused although there is capacity.
    pub refused_pools: f64,
    /// Of fleets: fewer instances than asked for, with an error for the rest.
    pub partial_fleets: f64,
    /// Of launches: the machine never joins.
    pub dead_machines: f64,
    /// Of launches: boots ten times as long.
    pub slow_machines: f64,
    /// Of spot instances, each hour: reclaimed, with two minutes' warning.
    pub spot_reclaims_per_hour: f64,
    /// Of instances, each day: a scheduled change is announced.
    pub health_events_per_day: f64,
    /// Of instances, each day: stopped from outside.
    pub stops_per_day: f64,
    /// Of fleets: the template is gone.
    pub lost_templates: f64,
}

impl Rates {
    /// A rough day.
    pub const ROUGH: Self = Self {
        throttled: 0.05,
        server_faults: 0.02,
        refused_pools: 0.1,
        partial_fleets: 0.1,
        dead_machines: 0.02,
        slow_machines: 0.05,
        spot_reclaims_per_hour: 0.02,
        health_events_per_day: 0.05,
        stops_per_day: 0.05,
        lost_templates: 0.02,
    };
}

/// Calls per second, and how many may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub reads: Bucket,
    pub writes: Bucket,
    pub run_instances: Bucket,
    pub terminate_instances: Bucket,
    pub create_tags: Bucket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub per_second: u32,
    pub burst: u32,
}

impl Limits {
    /// What accounts start with.
    pub const EC2: Self = Self {
        reads: Bucket { per_second: 20, burst: 100 },
        writes: Bucket { per_second: 5, burst: 50 },
        run_instances: Bucket { per_second: 2, burst: 5 },
        terminate_instances: Bucket { per_second: 5, burst: 100 },
        create_tags: Bucket { per_second: 10, burst: 100 },
    };
}

impl Options {
    /// A quiet region of the built-in catalogue.
    pub fn new(region: &str, seed: u64, cluster_name: &str) -> Self {
        Self {
            region: region.to_owned(),
            seed,
            cluster_name: cluster_name.to_owned(),
            cluster_endpoint: "https://simulated.local".to_owned(),
            kubernetes_version: "1.36".to_owned(),
            catalogue: builtin::shared(),
            zones: 3,
            subnet_addresses: 8187,
            capacity: Capacity::Drawn,
            latency: Span::millis(20, 150),
            staleness: Span::millis(0, 2_000),
            boot: Span::millis(20_000, 60_000),
            shutdown: Span::millis(5_000, 30_000),
            remembered: Duration::from_secs(3600),
            rates: Rates::default(),
            limits: None,
            listed_ids: Vec::new(),
            groups: Vec::new(),
            reservations: Vec::new(),
            placement_groups: Vec::new(),
            queue: "simulated".to_owned(),
            prices: true,
            recorded: false,
        }
    }
}
