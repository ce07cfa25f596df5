//! Clusters that are all spot, while prices go up and down a little.

use karpenter_core::Node;
use karpenter_core::labels::{HOSTNAME, INITIALIZED, INSTANCE_TYPE, REGISTERED, ZONE};
use karpenter_core::node::Stage;
use karpenter_core::resources::CPU;
use karpenter_ec2::catalogue::builtin;
use karpenter_ec2::{Ec2Settings, NodeClassFacts};
use karpenter_testkit::cluster::{Size, cluster};
use karpenter_testkit::dice::Dice;

use super::*;

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
/// Prices are published anew so often in a day.
const CHANGES: u64 = 8;
const DAYS: u64 = 3;

/// What a region sells as spot, in the sizes that these clusters are made of.
fn sold_as_spot() -> Vec<InstanceType> {
    let (class, settings) = (NodeClassFacts::default(), Ec2Settings::default());
    let all = karpenter_ec2::instance_types(builtin::catalogue(), "us-east-1", &class, &settings).unwrap();
    let usual = |kind: &InstanceType| (2..=8).contains(&kind.capacity.get(CPU).units());
    let mut types: Vec<InstanceType> = all.into_iter().filter(usual).collect();
    for kind in &mut types {
        kind.offerings.retain(|offering| {
            let zone = offering.zone();
            offering.capacity_type().as_deref() == Some(SPOT)
                && ZONES.iter().any(|known| zone.as_deref() == Some(*known))
        });
    }
    types.retain(|kind| !kind.offerings.is_empty());
    types
}

/// Every price up to a twentieth off, each by itself.
fn noisy(types: &[InstanceType], dice: &mut Dice) -> Arc<[Arc<InstanceType>]> {
    let one = |kind: &InstanceType| {
        let mut kind = kind.clone();
        for offering in &mut kind.offerings {
            offering.price = offering.price.fraction(95_000 + dice.below(10_001) as u64, 100_000);
        }
        Arc::new(kind)
    };
    types.iter().map(one).collect()
}

fn launched(world: &World, new: &Replacement, number: usize) -> Node {
    let (launch, name) = (&new.node.launch, format!("new-{number:04}"));
    let types = &world.pools[new.node.pool].instance_types;
    let kind = types.iter().find(|kind| kind.name == launch.instance_type).unwrap();
    let mut built = node(&name).of_pool(&new.pool).of_type(kind, &launch.zone, &launch.capacity_type).0;
    built.labels.extend(new.node.labels.clone());
    for (key, value) in [
        (INSTANCE_TYPE, &*launch.instance_type),
        (ZONE, &*launch.zone),
        (CAPACITY_TYPE, &*launch.capacity_type),
        (HOSTNAME, &*name),
        (REGISTERED, "true"),
        (INITIALIZED, "true"),
    ] {
        built.labels.insert(key.to_owned(), value.to_owned());
    }
    assert_eq!(built.stage, Stage::Initialized);
    built
}

/// With these prices until nothing moves; how many nodes went.
fn settle(world: &mut World, types: &Arc<[Arc<InstanceType>]>, next: &mut usize) -> usize {
    world.pools.iter_mut().for_each(|pool| pool.instance_types = types.clone());
    let rules = PoolFacts { instance_types: types.clone(), ..scene().pools["default"].clone() };
    let pools: BTreeMap<Arc<str>, PoolFacts> =
        world.pools.iter().map(|pool| (pool.name.clone(), rules.clone())).collect();
    let policy = Policy { spot_to_spot: true, threads: 2, ..Policy::default() };
    let mut gone = 0;
    for _ in 0..20 {
        let nodes = vec![NodeFacts::default(); world.nodes.len()];
        let commands = propose(&Snapshot { world, nodes, pools: pools.clone() }, &policy).commands;
        if commands.is_empty() {
            return gone;
        }
        let names: Vec<Arc<str>> = world.nodes.iter().map(|node| node.name.clone()).collect();
        for command in &commands {
            let first = *next;
            *next += command.replacements.len();
            let bought: Vec<Node> =
                command.replacements.iter().enumerate().map(|(at, new)| launched(world, new, first + at)).collect();
            for moved in &command.moves {
                world.pods[moved.pod].node = Some(match moved.to {
                    Target::Node(node) => names[node].clone(),
                    Target::Replacement(new) => bought[new].name.clone(),
                });
            }
            world.nodes.retain(|node| command.candidates.iter().all(|candidate| candidate.name != node.name));
            world.nodes.extend(bought);
            gone += command.candidates.len();
        }
    }
    panic!("it does not come to rest");
}

#[test]
fn ten_clusters_of_spot_hardly_move_for_prices_that_go_up_and_down() {
    let base = sold_as_spot();
    let steady: Arc<[Arc<InstanceType>]> = base.iter().cloned().map(Arc::new).collect();
    let (mut nodes, mut moved) = (0, 0);
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let mut world = cluster(Size { nodes: 12, pods: 100, pools: 1, full: 80 }, &steady, &ZONES, seed);
        world.vocabulary = Arc::new(karpenter_ec2::vocabulary());
        for pool in &mut world.pools {
            pool.requirements = vec![is_in(CAPACITY_TYPE, &[SPOT])];
        }
        for node in &mut world.nodes {
            node.labels.insert(CAPACITY_TYPE.to_owned(), SPOT.to_owned());
        }
        let mut next = 0;
        settle(&mut world, &steady, &mut next);
        nodes += world.nodes.len();
        let of_day: Vec<usize> =
            (0..DAYS * CHANGES).map(|_| settle(&mut world, &noisy(&base, &mut dice), &mut next)).collect();
        println!("seed {seed}: {} nodes, gone after each change of prices: {of_day:?}", world.nodes.len());
        moved += of_day.iter().sum::<usize>();
    }
    assert!(nodes > 100 && moved * 100 < nodes * DAYS as usize, "{moved} moves of {nodes} nodes in {DAYS} days");
}
