//! How likely everything is.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::{
    DaemonRecipe, Fate, Key, NodeRecipe, PoolRecipe, Recipe, RunningRecipe, Select, SpreadRecipe, Strength, Tainted,
    Team, TypeRecipe, VolumeRecipe, WorkloadRecipe,
};

/// How much there is of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Small,
    Medium,
}

pub fn recipes(size: Size) -> impl Strategy<Value = Recipe> {
    let (types, pools, nodes, daemons, workloads) = match size {
        Size::Small => (1..10, 1..3, 0..3, 0..2, 1..6),
        Size::Medium => (10..40, 1..5, 0..8, 0..4, 4..20),
    };
    (
        vec(instance_type(), types),
        vec(pool(), pools),
        vec(node(), nodes),
        vec(daemon(), daemons),
        vec(workload(), workloads),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
        weighted(0.1, strength()),
    )
        .prop_map(
            |(types, pools, nodes, daemons, workloads, ignore_preferences, best_effort_min_values, default_spread)| {
                Recipe {
                    types,
                    pools,
                    nodes,
                    daemons,
                    workloads,
                    ignore_preferences,
                    best_effort_min_values,
                    default_spread,
                }
            },
        )
}

fn zones() -> impl Strategy<Value = u8> {
    1..8_u8
}

fn instance_type() -> impl Strategy<Value = TypeRecipe> {
    let shape = (
        select(vec![1, 2, 4, 8, 8, 16, 32]),
        select(vec![2, 4, 8]),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
    );
    let sold = (
        prop_oneof![4 => Just(7_u8), 1 => zones()],
        0..8_u8,
        prop_oneof![3 => Just(0_u8), 1 => 0..8_u8],
        20..110_u64,
        weighted(0.03, (0..2_usize, 1..4_u32)),
    );
    (shape, sold).prop_map(
        |((cpu, memory_ratio, arm, gpu, windows_too), (zones, spot_zones, sold_out, spot_percent, reserved))| {
            TypeRecipe { cpu, memory_ratio, arm, gpu, windows_too, zones, spot_zones, sold_out, spot_percent, reserved }
        },
    )
}

fn tainted() -> impl Strategy<Value = Tainted> {
    prop_oneof![2 => Just(Tainted::Hard), 1 => Just(Tainted::Soft)]
}

fn team() -> impl Strategy<Value = Team> {
    prop_oneof![
        2 => select(vec!["red", "blue"]).prop_map(Team::Label),
        2 => select(vec![&["red", "blue"][..], &["blue"][..]]).prop_map(Team::In),
        1 => Just(Team::NotIn("red")),
        1 => Just(Team::Exists),
        1 => Just(Team::Absent),
    ]
}

fn pool() -> impl Strategy<Value = PoolRecipe> {
    let wishes = (
        weighted(0.2, zones()),
        weighted(0.2, select(vec!["spot", "on-demand"])),
        weighted(0.15, select(vec!["amd64", "arm64"])),
        weighted(0.3, team()),
        weighted(0.15, 4..33_u32),
        weighted(0.15, 1..6_u32),
    );
    let limit = prop_oneof![(Just("cpu"), 4..100_u32), (Just("memory"), 10..300_u32), (Just("nodes"), 0..6_u32)];
    let all = (select(vec![0, 0, 10, 50]), weighted(0.25, tainted()), wishes, weighted(0.3, limit));
    all.prop_map(|(weight, taint, (zones, capacity_type, arch, team, most_cpus, min_types), limit)| PoolRecipe {
        weight,
        taint,
        zones,
        capacity_type,
        arch,
        team,
        most_cpus,
        min_types,
        limit,
    })
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![
        5 => Just(Key::Zone),
        4 => Just(Key::Host),
        1 => Just(Key::CapacityType),
        1 => Just(Key::Arch),
        1 => Just(Key::Team),
    ]
}

fn near() -> impl Strategy<Value = Key> {
    prop_oneof![3 => Just(Key::Zone), 4 => Just(Key::Host), 1 => Just(Key::CapacityType)]
}

fn strength() -> impl Strategy<Value = Strength> {
    prop_oneof![3 => Just(Strength::Hard), 2 => Just(Strength::Soft)]
}

fn port() -> impl Strategy<Value = u16> {
    8080..8083_u16
}

fn running() -> impl Strategy<Value = RunningRecipe> {
    let fate = prop_oneof![
        6 => Just(Fate::Plain),
        2 => Just(Fate::Daemon),
        1 => Just(Fate::Terminating),
        1 => Just(Fate::Returns),
        1 => Just(Fate::Protected),
        1 => Just(Fate::Done),
    ];
    (
        0..5_usize,
        1..1500_u32,
        fate,
        weighted(0.15, (near(), 0..5_usize)),
        weighted(0.1, port()),
        prop::bool::weighted(0.15),
    )
        .prop_map(|(app, cpu, fate, avoids, port, claim)| RunningRecipe { app, cpu, fate, avoids, port, claim })
}

fn node() -> impl Strategy<Value = NodeRecipe> {
    let is =
        (0..40_usize, 0..3_usize, weighted(0.8, 0..5_usize), prop::bool::weighted(0.8), prop::bool::weighted(0.15));
    let has = (
        weighted(0.15, tainted()),
        weighted(0.2, select(vec!["red", "blue"])),
        weighted(0.3, 0..4_u32),
        vec(running(), 0..5),
    );
    (is, has).prop_map(|((kind, zone, pool, initialized, deleting), (tainted, team, volume_limit, pods))| NodeRecipe {
        kind,
        zone,
        pool,
        initialized,
        deleting,
        tainted,
        team,
        volume_limit,
        pods,
    })
}

fn selection() -> impl Strategy<Value = Select> {
    prop_oneof![
        3 => (0..3_usize).prop_map(Select::Zone),
        3 => zones().prop_map(Select::Zones),
        2 => (0..3_usize).prop_map(Select::NotZone),
        1 => Just(Select::Arm),
        2 => Just(Select::Amd),
        1 => Just(Select::Spot),
        2 => Just(Select::OnDemand),
        1 => Just(Select::Large),
        2 => (2..9_u32).prop_map(Select::AtLeastCpus),
        2 => Just(Select::Linux),
    ]
}

fn daemon() -> impl Strategy<Value = DaemonRecipe> {
    (20..300_u32, weighted(0.4, selection()), prop::bool::weighted(0.6), weighted(0.15, port()))
        .prop_map(|(milli_cpu, select, tolerates, port)| DaemonRecipe { milli_cpu, select, tolerates, port })
}

fn spread() -> impl Strategy<Value = SpreadRecipe> {
    let constraint = (key(), prop_oneof![4 => Just(1), 1 => Just(2)], weighted(0.15, 2..5_i32), strength());
    let whom = (weighted(0.1, 0..5_usize), prop::bool::weighted(0.2), prop::bool::weighted(0.15));
    (constraint, whom).prop_map(|((key, max_skew, min_domains, strength), (of_app, honor_taints, ignore_affinity))| {
        SpreadRecipe { key, max_skew, min_domains, strength, of_app, honor_taints, ignore_affinity }
    })
}

fn volume() -> impl Strategy<Value = VolumeRecipe> {
    prop_oneof![
        4 => (0..3_usize).prop_map(VolumeRecipe::Bound),
        4 => (0..8_u8).prop_map(VolumeRecipe::Late),
        1 => Just(VolumeRecipe::Missing),
    ]
}

fn workload() -> impl Strategy<Value = WorkloadRecipe> {
    let is =
        (0..5_usize, prop::bool::weighted(0.2), 1..6_usize, 50..3500_u32, 64..6000_u32, prop::bool::weighted(0.03));
    let selects = (
        prop::bool::weighted(0.35),
        weighted(0.2, selection()),
        prop_oneof![6 => Just(Vec::new()), 1 => vec(selection(), 1..4)],
        weighted(0.15, selection()),
        weighted(0.1, team()),
    );
    let company = (
        prop_oneof![5 => Just(Vec::new()), 3 => vec(spread(), 1..3)],
        weighted(0.15, (near(), 0..5_usize, strength())),
        weighted(0.2, (near(), 0..5_usize, strength())),
        prop::bool::weighted(0.2),
    );
    let needs = (weighted(0.08, port()), weighted(0.12, volume()));
    (is, selects, company, needs).prop_map(
        |(
            (app, prod, replicas, milli_cpu, memory_mib, gpu),
            (tolerates, select, alternatives, prefers, team),
            (spread, joins, avoids, everywhere),
            (port, volume),
        )| WorkloadRecipe {
            app,
            prod,
            replicas,
            milli_cpu,
            memory_mib,
            gpu,
            tolerates,
            select,
            alternatives,
            prefers,
            team,
            spread,
            joins,
            avoids,
            everywhere,
            port,
            volume,
        },
    )
}
