//! Clusters with room to save: nodes of many types, workloads spread over them, some of the room empty.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_core::labels::{CAPACITY_TYPE, HOSTNAME, ON_DEMAND, SPOT, ZONE};
use karpenter_core::resources::{CPU, MEMORY, PODS};
use karpenter_core::{InstanceType, Pod, Quantity, World};

use crate::dice::Dice;
use crate::express::{is_in, spread};
use crate::{node, pod, pool, quantity, world};

/// How large a cluster is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub nodes: usize,
    pub pods: usize,
    pub pools: usize,
    /// Of each node's room, in percent.
    pub full: u32,
}

/// The benchmark's: 5,000 nodes and 50,000 pods over 20 pools, 30 % of the room empty.
pub const LARGE: Size = Size { nodes: 5_000, pods: 50_000, pools: 20, full: 70 };

const TEAM: &str = "team";
const CPUS: [&str; 6] = ["100m", "200m", "300m", "500m", "700m", "1"];
const MEMORIES: [&str; 5] = ["128Mi", "256Mi", "512Mi", "1Gi", "2Gi"];

/// What of a node is taken.
#[derive(Clone, Default)]
struct Taken {
    cpu: Quantity,
    memory: Quantity,
    pods: usize,
    /// Workloads that keep their own kind away.
    loners: Vec<usize>,
}

/// Workloads of about ten pods; a third of them with zone spread, hostname spread or anti-affinity, which hold from the
/// start. Half of the workloads belong to one team's pool. Types cost what they cost; every second pool buys spot too.
pub fn cluster(size: Size, types: &Arc<[Arc<InstanceType>]>, zones: &[&str], seed: u64) -> World {
    let mut dice = Dice::new(seed);
    let mut built = world();
    for at in 0..size.pools {
        let kinds: &[&str] = if at % 2 == 0 { &[ON_DEMAND] } else { &[ON_DEMAND, SPOT] };
        let team = team(at);
        let pool = pool(&format!("pool-{at:02}")).label(TEAM, &team).shared_types(types);
        built = built.pool(pool.require(is_in(CAPACITY_TYPE, kinds)));
    }
    let usual: Vec<&Arc<InstanceType>> = types.iter().filter(|kind| is_usual(kind)).collect();
    let mut rooms = Vec::with_capacity(size.nodes);
    for at in 0..size.nodes {
        let (kind, zone) = (*dice.pick(&usual), *dice.pick(zones));
        let of_pool = at % size.pools;
        let sold = kind.offerings.iter().any(|o| o.zone().as_deref() == Some(zone));
        let zone = if sold { zone.to_owned() } else { first_zone(kind) };
        let name = format!("node-{at:05}");
        let one = node(&name).of_pool(&format!("pool-{of_pool:02}")).of_type(kind, &zone, ON_DEMAND);
        let one = one.label(TEAM, &team(of_pool)).label(HOSTNAME, &name);
        let room = kind.allocatable();
        let share = |name: &str| room.get(name).nanos() / 100 * i128::from(size.full);
        rooms.push((of_pool, zone, share(CPU), share(MEMORY), room.get(PODS).units()));
        built = built.node(one);
    }
    let mut taken: Vec<Taken> = vec![Taken::default(); size.nodes];
    let mut placed: Vec<Pod> = Vec::with_capacity(size.pods);
    let mut workload = 0;
    while placed.len() < size.pods {
        let count = (1 + dice.below(19)).min(size.pods - placed.len());
        placed.extend(one_workload(workload, count, size, &rooms, &mut taken, zones, &mut dice));
        workload += 1;
        if workload > 4 * size.pods {
            break; // Everything is full.
        }
    }
    built.pods(placed).build()
}

fn team(pool: usize) -> String {
    format!("team-{:02}", pool / 2)
}

/// Neither tiny nor huge, so that some ten pods fit.
fn is_usual(kind: &InstanceType) -> bool {
    let (cpu, memory) = (kind.capacity.get(CPU).units(), kind.capacity.get(MEMORY).units() >> 30);
    (4..=8).contains(&cpu) && memory >= 6 && !kind.offerings.is_empty()
}

fn first_zone(kind: &InstanceType) -> String {
    kind.offerings.first().and_then(|offering| offering.zone()).map(|zone| zone.to_string()).unwrap_or_default()
}

/// Pool, zone, and the most that may be taken: nano units of CPU and memory, and pods.
type Room = (usize, String, i128, i128, i64);

fn one_workload(
    number: usize,
    count: usize,
    size: Size,
    rooms: &[Room],
    taken: &mut [Taken],
    zones: &[&str],
    dice: &mut Dice,
) -> Vec<Pod> {
    let name = format!("app-{number:05}");
    let (cpu, memory) = (*dice.pick(&CPUS), *dice.pick(&MEMORIES));
    let mut builder = pod(&name).app(&name).cpu(cpu).memory(memory);
    let own_pool = (dice.below(2) == 0).then(|| dice.below(size.pools) / 2);
    if let Some(team_pool) = own_pool {
        builder = builder.select(TEAM, &team(2 * team_pool));
    }
    let kind = dice.below(9);
    builder = match kind {
        0 => builder.spread(spread(ZONE, 1, &[("app", &name)])),
        1 => builder.spread(spread(HOSTNAME, 2, &[("app", &name)])),
        2 => builder.anti_affinity(HOSTNAME, &[("app", &name)]),
        _ => builder,
    };
    let mut in_zone: BTreeMap<&str, usize> = zones.iter().map(|zone| (*zone, 0)).collect();
    let mut here: BTreeMap<usize, usize> = BTreeMap::new();
    let (cpu, memory) = (quantity(cpu), quantity(memory));
    let mut pods = Vec::new();
    for mut pod in builder.replicas(count) {
        let fits = |at: usize| {
            let (of_pool, zone, most_cpu, most_memory, most_pods) = &rooms[at];
            let of = &taken[at];
            let alone = || match kind {
                0 => in_zone.get(zone.as_str()) == in_zone.values().min(),
                1 => here.get(&at).copied().unwrap_or(0) < 2,
                2 => !of.loners.contains(&number),
                _ => true,
            };
            own_pool.is_none_or(|own| own == of_pool / 2)
                && (of.cpu + cpu).nanos() <= *most_cpu
                && (of.memory + memory).nanos() <= *most_memory
                && (of.pods as i64) < *most_pods
                && alone()
        };
        let start = dice.below(rooms.len());
        let Some(at) = (0..rooms.len().min(200)).map(|step| (start + step * 7) % rooms.len()).find(|at| fits(*at))
        else {
            continue;
        };
        let of = &mut taken[at];
        of.cpu += cpu;
        of.memory += memory;
        of.pods += 1;
        if kind == 2 {
            of.loners.push(number);
        }
        *in_zone.entry(zones.iter().find(|zone| **zone == rooms[at].1).copied().unwrap_or("")).or_default() += 1;
        *here.entry(at).or_default() += 1;
        pod.node = Some(format!("node-{at:05}").into());
        pod.scheduled_reason = None;
        pod.phase = karpenter_core::pod::Phase::Running;
        pods.push(pod);
    }
    pods
}
