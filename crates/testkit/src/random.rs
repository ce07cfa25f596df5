//! Random worlds that use every kind of constraint at once.
//!
//! A [`Recipe`] is small, prints in a few lines and shrinks part by part; [`Recipe::world`] cooks it. Positions are
//! taken modulo what there is, so any part can be left out. Most pods of most worlds can be placed.

mod cook;
mod strategies;

use std::fmt;

pub use strategies::{Size, recipes};

/// Everything a random world is made from.
#[derive(Clone)]
pub struct Recipe {
    pub types: Vec<TypeRecipe>,
    pub pools: Vec<PoolRecipe>,
    pub nodes: Vec<NodeRecipe>,
    pub daemons: Vec<DaemonRecipe>,
    pub workloads: Vec<WorkloadRecipe>,
    pub ignore_preferences: bool,
    pub best_effort_min_values: bool,
    /// The cluster spreads pods over zones by itself; two apps have a Service that tells whom to count.
    pub default_spread: Option<Strength>,
}

impl fmt::Debug for Recipe {
    /// A line for each part, also where a test would spread it over pages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ignore_preferences, best_effort_min_values, default_spread, .. } = self;
        writeln!(f, "default_spread: {default_spread:?}")?;
        writeln!(
            f,
            "Recipe {{ ignore_preferences: {ignore_preferences}, best_effort_min_values: {best_effort_min_values}"
        )?;
        self.types.iter().enumerate().try_for_each(|(i, part)| writeln!(f, "  {i} {part:?}"))?;
        self.pools.iter().enumerate().try_for_each(|(i, part)| writeln!(f, "  {i} {part:?}"))?;
        self.nodes.iter().enumerate().try_for_each(|(i, part)| writeln!(f, "  {i} {part:?}"))?;
        self.daemons.iter().enumerate().try_for_each(|(i, part)| writeln!(f, "  {i} {part:?}"))?;
        self.workloads.iter().enumerate().try_for_each(|(i, part)| writeln!(f, "  {i} {part:?}"))?;
        f.write_str("}")
    }
}

#[derive(Clone, Debug)]
pub struct TypeRecipe {
    pub cpu: u32,
    /// GiB for each CPU.
    pub memory_ratio: u32,
    pub arm: bool,
    pub gpu: bool,
    pub windows_too: bool,
    /// Bits: in which zones it is sold at all, as spot, and out of stock.
    pub zones: u8,
    pub spot_zones: u8,
    pub sold_out: u8,
    pub spot_percent: u64,
    /// Which reservation it has units of, and how many.
    pub reserved: Option<(usize, u32)>,
}

#[derive(Clone, Debug, Default)]
pub struct PoolRecipe {
    pub weight: i32,
    pub taint: Option<Tainted>,
    pub zones: Option<u8>,
    pub capacity_type: Option<&'static str>,
    pub arch: Option<&'static str>,
    pub team: Option<Team>,
    pub most_cpus: Option<u32>,
    pub min_types: Option<u32>,
    pub limit: Option<(&'static str, u32)>,
}

#[derive(Clone, Copy, Debug)]
pub enum Tainted {
    Hard,
    Soft,
}

/// How a pool or a pod speaks of the custom label `team`.
#[derive(Clone, Copy, Debug)]
pub enum Team {
    Label(&'static str),
    In(&'static [&'static str]),
    NotIn(&'static str),
    Exists,
    Absent,
}

#[derive(Clone, Debug)]
pub struct NodeRecipe {
    pub kind: usize,
    pub zone: usize,
    /// `None`: not ours.
    pub pool: Option<usize>,
    pub initialized: bool,
    pub deleting: bool,
    pub tainted: Option<Tainted>,
    pub team: Option<&'static str>,
    pub volume_limit: Option<u32>,
    pub pods: Vec<RunningRecipe>,
}

#[derive(Clone, Debug)]
pub struct RunningRecipe {
    pub app: usize,
    pub cpu: u32,
    pub fate: Fate,
    pub avoids: Option<(Key, usize)>,
    pub port: Option<u16>,
    pub claim: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Plain,
    Daemon,
    Terminating,
    Returns,
    Protected,
    Done,
}

#[derive(Clone, Debug)]
pub struct DaemonRecipe {
    pub milli_cpu: u32,
    pub select: Option<Select>,
    pub tolerates: bool,
    pub port: Option<u16>,
}

#[derive(Clone, Debug)]
pub struct WorkloadRecipe {
    pub app: usize,
    pub prod: bool,
    pub replicas: usize,
    pub milli_cpu: u32,
    pub memory_mib: u32,
    pub gpu: bool,
    pub tolerates: bool,
    pub select: Option<Select>,
    pub alternatives: Vec<Select>,
    pub prefers: Option<Select>,
    pub team: Option<Team>,
    pub spread: Vec<SpreadRecipe>,
    pub joins: Option<(Key, usize, Strength)>,
    pub avoids: Option<(Key, usize, Strength)>,
    /// Its affinities look into all namespaces.
    pub everywhere: bool,
    pub port: Option<u16>,
    pub volume: Option<VolumeRecipe>,
}

#[derive(Clone, Copy, Debug)]
pub enum Select {
    Zone(usize),
    Zones(u8),
    NotZone(usize),
    Arm,
    Amd,
    Spot,
    OnDemand,
    Large,
    AtLeastCpus(u32),
    Linux,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Zone,
    Host,
    CapacityType,
    Arch,
    Team,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    Hard,
    Soft,
}

#[derive(Clone, Debug)]
pub struct SpreadRecipe {
    pub key: Key,
    pub max_skew: i32,
    pub min_domains: Option<i32>,
    pub strength: Strength,
    /// Counts another app than its own.
    pub of_app: Option<usize>,
    pub honor_taints: bool,
    pub ignore_affinity: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum VolumeRecipe {
    Bound(usize),
    /// Made where the pod goes, within these zones.
    Late(u8),
    Missing,
}
