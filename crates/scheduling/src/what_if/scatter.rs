//! kube-scheduler knows no plan: as pods come, it puts each on the node that is emptiest with it.
//!
//! Pods that fit together when they are packed may not when they are scattered: a large one comes last, and every node has
//! a little room left. What would have to be bought for it is then bought, and given back, and bought again.

use std::sync::Arc;

use karpenter_core::resources::{CPU, MEMORY};

use super::WhatIf;
use crate::columns::{Amount, Amounts, ResId};
use crate::first_match::open_nodes;
use crate::state::NodeState;

/// A node that will have been bought by then.
#[derive(Clone, Debug)]
pub struct Room {
    /// In `World::pools`.
    pub pool: usize,
    pub instance_type: Arc<str>,
}

/// A [`Room`] as it fills.
struct Filling {
    free: Amounts,
    share: Share,
    template: usize,
}

/// What a node has in all.
#[derive(Clone, Copy)]
struct Share {
    cpu: Amount,
    memory: Amount,
}

enum Place {
    Node(usize, usize),
    Room(usize),
}

impl WhatIf<'_> {
    /// Whether the pods of nodes that leave all find a place where kube-scheduler looks for one. Leaves no trace.
    pub fn fits_scattered(&mut self, nodes: &[usize], pods: &[usize], rooms: &[Room]) -> bool {
        let mark = self.mark();
        let mut queue = self.take_out_all(nodes, pods);
        // Nobody knows who comes first.
        queue.sort_by_key(|pod| (*pod as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let resources = [CPU, MEMORY].map(|name| self.problem.names.id(name));
        let mut rooms: Vec<Filling> = rooms.iter().filter_map(|room| self.filling(room, resources)).collect();
        let fits = queue.iter().all(|pod| self.scatter(*pod, resources, &mut rooms));
        self.rollback(mark);
        fits
    }

    fn filling(&self, room: &Room, [cpu, memory]: [ResId; 2]) -> Option<Filling> {
        let template = self.problem.templates.iter().position(|template| template.pool == room.pool)?;
        let types = &self.problem.world.pools[room.pool].instance_types;
        let kind = types.iter().position(|kind| kind.name == room.instance_type)?;
        let free = self.problem.templates[template].room[kind].clone();
        Some(Filling { share: Share { cpu: free.get(cpu), memory: free.get(memory) }, free, template })
    }

    /// Whether a pod may go to some node of a pool.
    fn may_go(&mut self, class: usize, template: usize) -> bool {
        let base = self.problem.templates[template].base;
        let variants = 0..self.problem.classes[class].variants.len();
        variants.into_iter().any(|variant| self.problem.view(&self.state, class, variant, template, base).is_some())
    }

    /// Puts one pod where kube-scheduler would.
    fn scatter(&mut self, pod: usize, resources: [ResId; 2], rooms: &mut [Filling]) -> bool {
        let class = self.problem.pods[pod].class;
        let requests = self.problem.classes[class].requests.clone();
        let mut best: Option<(f64, Place)> = None;
        let mut offer = |score: f64, place: Place| {
            if best.as_ref().is_none_or(|(least, _)| score > *least) {
                best = Some((score, place));
            }
        };
        for variant in 0..self.problem.classes[class].variants.len() {
            if self.problem.classes[class].variants[variant].contradiction.is_some() {
                continue;
            }
            let mut found = false;
            for node in open_nodes(&mut self.problem, &self.state, pod, variant).iter() {
                let NodeState { free, .. } = &self.state.nodes[node];
                if requests.fits(free) && self.problem.node_takes(&self.state, node, pod) {
                    let all = &self.problem.world.nodes[self.problem.nodes[node].index].allocatable;
                    let share = Share { cpu: all.get(CPU).nanos(), memory: all.get(MEMORY).nanos() };
                    offer(emptiness(free, share, &requests, resources), Place::Node(node, variant));
                    found = true;
                }
            }
            if found {
                break;
            }
        }
        for (at, room) in rooms.iter().enumerate() {
            if requests.fits(&room.free) && self.may_go(class, room.template) {
                offer(emptiness(&room.free, room.share, &requests, resources), Place::Room(at));
            }
        }
        match best {
            Some((_, Place::Node(node, variant))) => {
                self.problem.put_on_node(&mut self.state, node, (pod, variant));
                true
            }
            Some((_, Place::Room(at))) => {
                rooms[at].free.subtract(&requests);
                true
            }
            None => false,
        }
    }
}

/// kube-scheduler's LeastAllocated and BalancedAllocation, for cpu and memory.
fn emptiness(free: &Amounts, all: Share, requests: &Amounts, [cpu, memory]: [ResId; 2]) -> f64 {
    let left = |id: ResId, all: Amount| {
        if all <= 0 { 0.0 } else { (free.get(id) - requests.get(id)) as f64 / all as f64 }
    };
    let (cpu, memory) = (left(cpu, all.cpu), left(memory, all.memory));
    f64::midpoint(cpu, memory) + 1.0 - (cpu - memory).abs() / 2.0
}
