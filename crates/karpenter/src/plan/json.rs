//! The plan for programs. Field names and order are an interface.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_controllers::amounts::shown;
use karpenter_controllers::provisioning::why;
use karpenter_core::World;
use karpenter_core::plan::{LeftOver, NewNode, Plan};
use karpenter_disruption::Proposal;
use serde::{Serialize, Serializer};

use super::consolidate;
use super::consolidate::json::{Decided, Disruption};
use super::order::names;

/// Nodes and leftovers become text one by one while they are written: a plan of many nodes lists millions of types.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Document<'a> {
    api_version: &'static str,
    new_nodes: NewNodes<'a>,
    existing_nodes: Vec<Existing<'a>>,
    unschedulable: LeftOvers<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disruptions: Option<Vec<Disruption<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<Decided<'a>>>,
    price_per_hour: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    solve_millis: Option<f64>,
}

struct NewNodes<'a> {
    world: &'a World,
    nodes: &'a [NewNode],
    names: Vec<String>,
}

impl Serialize for NewNodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nodes = self.nodes.iter().zip(&self.names);
        serializer.collect_seq(nodes.map(|(node, name)| new_node(self.world, node, name.clone())))
    }
}

struct LeftOvers<'a> {
    world: &'a World,
    all: Vec<&'a LeftOver>,
}

impl Serialize for LeftOvers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.all.iter().map(|left| told(self.world, left)))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node<'a> {
    name: String,
    node_pool: &'a str,
    instance_type: &'a str,
    capacity_type: &'a str,
    zone: &'a str,
    price_per_hour: f64,
    instance_types: Vec<&'a str>,
    labels: &'a BTreeMap<String, String>,
    pods: Vec<String>,
    requests: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Existing<'a> {
    name: &'a str,
    pods: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Unschedulable<'a> {
    pod: String,
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest_miss: Option<Miss<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Miss<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_pool: Option<&'a str>,
    object: &'a str,
    field: &'a str,
    from: &'a str,
    to: &'a str,
    text: &'a str,
}

pub(crate) fn document<'a>(
    world: &'a World,
    plan: &'a Plan,
    proposal: Option<&'a Proposal>,
    took: Option<Duration>,
) -> Document<'a> {
    let keys = |pods: &[usize]| pods.iter().map(|pod| world.pods[*pod].key()).collect();
    let mut existing_nodes: Vec<Existing<'_>> = plan
        .existing
        .iter()
        .filter(|(_, pods)| !pods.is_empty())
        .map(|(node, pods)| Existing { name: &world.nodes[*node].name, pods: keys(pods) })
        .collect();
    existing_nodes.sort_by_key(|node| node.name);
    Document {
        api_version: "plan.karpenter.sh/v1",
        new_nodes: NewNodes { world, nodes: &plan.new_nodes, names: names(world, &plan.new_nodes) },
        existing_nodes,
        unschedulable: LeftOvers { world, all: unschedulable(world, plan) },
        disruptions: proposal.map(|proposal| consolidate::json::disruptions(world, &plan.new_nodes, proposal)),
        nodes: proposal.map(consolidate::json::nodes),
        price_per_hour: plan.price().dollars(),
        solve_millis: took.map(|took| took.as_micros() as f64 / 1000.0),
    }
}

/// Everything that was asked for and is not placed, by pod.
pub(crate) fn unschedulable<'a>(world: &World, plan: &'a Plan) -> Vec<&'a LeftOver> {
    let mut all: Vec<&LeftOver> = plan.left_over.iter().chain(&plan.ignored).collect();
    all.sort_by_cached_key(|left| world.pods[left.pod].key());
    all
}

pub(crate) fn new_node<'a>(world: &'a World, node: &'a NewNode, name: String) -> Node<'a> {
    let pool = &world.pools[node.pool];
    let launched = pool.instance_types.iter().find(|it| it.name == node.launch.instance_type);
    Node {
        name,
        node_pool: &pool.name,
        instance_type: &node.launch.instance_type,
        capacity_type: &node.launch.capacity_type,
        zone: &node.launch.zone,
        price_per_hour: node.launch.price.dollars(),
        instance_types: node.instance_types.iter().map(|it| &*pool.instance_types[*it].name).collect(),
        labels: &node.labels,
        pods: node.pods.iter().map(|pod| world.pods[*pod].key()).collect(),
        requests: shown(&node.requests),
        allocatable: launched.map(|it| shown(&it.allocatable())).unwrap_or_default(),
    }
}

fn told<'a>(world: &'a World, left: &'a LeftOver) -> Unschedulable<'a> {
    let miss = left.nearest_miss.as_ref().map(|miss| Miss {
        node_pool: miss.pool.map(|pool| &*world.pools[pool].name),
        object: &miss.object,
        field: &miss.field,
        from: &miss.from,
        to: &miss.to,
        text: &miss.text,
    });
    Unschedulable {
        pod: world.pods[left.pod].key(),
        reason: why::code(&left.reason),
        message: why::reason(world, &left.reason),
        nearest_miss: miss,
    }
}
