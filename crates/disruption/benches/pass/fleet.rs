//! The generated cluster that passes are measured on, and what becomes of it when commands are carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::{InstanceType, Node, World};
use karpenter_disruption::{Budget, Command, Memory, NodeFacts, Policy, PoolFacts, Snapshot, Target, propose_again};
use karpenter_ec2::catalogue::builtin;
use karpenter_ec2::{Ec2Settings, NodeClassFacts};
use karpenter_testkit::cluster::{self, Size};
use karpenter_testkit::launched;

const SEED: u64 = 42;
const ZONES: [&str; 5] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1f"];

pub(crate) struct Fleet {
    pub(crate) world: World,
    pools: BTreeMap<Arc<str>, PoolFacts>,
    next: usize,
}

/// As the controller asks; two threads, as the figures are for two cores.
pub(crate) fn policy() -> Policy {
    Policy { threads: 2, as_scheduled: true, ..Policy::default() }
}

impl Fleet {
    /// Ten pods a node over 20 pools and everything sold in one region, as much of it free to go at once as the budget says.
    pub(crate) fn new(nodes: usize, budget: &str) -> Self {
        let (class, settings) = (NodeClassFacts::default(), Ec2Settings::default());
        let types = karpenter_ec2::instance_types(builtin::catalogue(), "us-east-1", &class, &settings);
        let types: Arc<[Arc<InstanceType>]> =
            types.expect("the built-in catalogue has us-east-1").into_iter().map(Arc::new).collect();
        let size = Size { nodes, pods: 10 * nodes, ..cluster::LARGE };
        let mut world = cluster::cluster(size, &types, &ZONES, SEED);
        world.vocabulary = Arc::new(karpenter_ec2::vocabulary());
        let facts = PoolFacts { budgets: vec![Budget::always(budget)], instance_types: types, ..PoolFacts::default() };
        let pools = world.pools.iter().map(|pool| (pool.name.clone(), facts.clone())).collect();
        Self { world, pools, next: 0 }
    }

    pub(crate) fn snapshot(&self) -> Snapshot<'_> {
        let nodes = vec![NodeFacts::default(); self.world.nodes.len()];
        Snapshot { world: &self.world, nodes, pools: self.pools.clone() }
    }

    /// Every pod where it was expected, every node gone that was to go.
    pub(crate) fn carry_out(&mut self, commands: &[Command]) {
        let names: Vec<Arc<str>> = self.world.nodes.iter().map(|node| node.name.clone()).collect();
        let mut gone: BTreeSet<Arc<str>> = BTreeSet::new();
        for command in commands {
            let bought = command.replacements.iter().map(|new| {
                self.next += 1;
                launched(&self.world, &new.node, &format!("new-{:05}", self.next))
            });
            let bought: Vec<Node> = bought.collect();
            for moved in &command.moves {
                self.world.pods[moved.pod].node = Some(match moved.to {
                    Target::Node(node) => names[node].clone(),
                    Target::Replacement(new) => bought[new].name.clone(),
                });
            }
            gone.extend(command.candidates.iter().map(|candidate| candidate.name.clone()));
            self.world.nodes.extend(bought);
        }
        self.world.nodes.retain(|node| !gone.contains(&node.name));
    }

    /// Passes until one finds nothing; how many there were.
    pub(crate) fn rest(&mut self, memory: &mut Memory) -> usize {
        for passes in 1.. {
            let commands = propose_again(memory, &self.snapshot(), &policy()).commands;
            if commands.is_empty() {
                return passes;
            }
            self.carry_out(&commands);
        }
        unreachable!("every pass that finds something makes the fleet cheaper, and there are finitely many fleets")
    }
}
