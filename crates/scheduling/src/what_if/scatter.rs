//! kube-scheduler knows no plan: as pods come, it puts each on a node with few of its kind that is the emptiest with it.
//!
//! Pods that fit together when they are packed may not when they are scattered: a large one comes last, and every node has
//! a little room left. What would have to be bought for it is then bought, and given back, and bought again.

use std::sync::Arc;

use karpenter_core::resources::{CPU, MEMORY};
use rustc_hash::FxHashMap;

use super::{Mark, WhatIf};
use crate::columns::{Amount, Amounts, ResId};
use crate::first_match::open_nodes;

/// In so many orders pods are tried.
const ORDERS: u64 = 4;
/// After so many nodes that take a pod kube-scheduler looks at no more: the least it does where nobody set its
/// `percentageOfNodesToScore`. It looks at more in a large cluster, where one node more or less decides nothing.
const LOOKED_AT: usize = 100;
/// What kube-scheduler's spread over hosts weighs beside how empty they are, and the skew it does not mind.
const SPREAD: f64 = 2.0;
const SKEW: i64 = 2;

/// A node that will have been bought by then.
#[derive(Clone, Debug)]
pub struct Room {
    /// In `World::pools`.
    pub pool: usize,
    pub instance_type: Arc<str>,
}

/// A cluster whose nodes leave while kube-scheduler finds other places for their pods.
#[derive(Clone)]
pub struct Scattered<'w> {
    what_if: WhatIf<'w>,
    start: Mark,
    resources: [ResId; 2],
    /// By position among the nodes of the problem.
    all: Vec<Share>,
    /// By node and class: how many are there.
    kinds: FxHashMap<(usize, usize), i64>,
    /// Who came since the start, so that it can be taken back.
    came: Vec<(usize, usize)>,
    rooms: Vec<Filling>,
    /// Where the scheduler looks first: it begins after the node at which it last stopped.
    turn: usize,
}

/// A [`Room`] as it fills.
#[derive(Clone)]
struct Filling {
    free: Amounts,
    all: Share,
    template: usize,
    /// The classes of its pods.
    classes: Vec<usize>,
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

/// A place that takes a pod.
struct Choice {
    place: Place,
    /// How many like it are there.
    kinds: i64,
    empty: f64,
}

impl<'w> Scattered<'w> {
    /// As the what-if is now.
    pub fn new(mut what_if: WhatIf<'w>) -> Self {
        let start = what_if.mark();
        let resources = [CPU, MEMORY].map(|name| what_if.problem.names.id(name));
        let share = |resources: &karpenter_core::Resources| Share {
            cpu: resources.get(CPU).nanos(),
            memory: resources.get(MEMORY).nanos(),
        };
        let nodes = what_if.problem.nodes.iter();
        let all = nodes.map(|node| share(&what_if.problem.world.nodes[node.index].allocatable)).collect();
        let mut kinds: FxHashMap<(usize, usize), i64> = FxHashMap::default();
        for pod in what_if.problem.pods.iter() {
            let name = what_if.problem.world.pods[pod.index].node.as_ref();
            if let Some(node) = name.and_then(|name| what_if.targets.named.get(&**name)) {
                *kinds.entry((*node, pod.class)).or_default() += 1;
            }
        }
        Self { what_if, start, resources, all, kinds, came: Vec::new(), rooms: Vec::new(), turn: 0 }
    }

    /// Nobody has left.
    pub fn restart(&mut self) {
        self.what_if.rollback(self.start);
        self.send_back(0);
        self.rooms.clear();
        self.turn = 0;
    }

    /// Whether all pods of nodes that leave find a place, whoever of them comes first. They stay for now.
    pub fn has_room(&mut self, nodes: &[usize], pods: &[usize], rooms: &[Room]) -> bool {
        let (mark, before, turn, came) = (self.what_if.mark(), self.rooms.clone(), self.turn, self.came.len());
        let mut queue = self.what_if.take_out_all(nodes, pods);
        self.open(rooms);
        let (taken_out, opened) = (self.what_if.mark(), self.rooms.clone());
        let fits = (0..ORDERS).all(|order| {
            in_order(&mut queue, order);
            let fits = queue.iter().all(|pod| self.scatter(*pod));
            self.what_if.rollback(taken_out);
            self.send_back(came);
            self.rooms.clone_from(&opened);
            self.turn = turn;
            fits
        });
        self.what_if.rollback(mark);
        self.rooms = before;
        fits
    }

    /// The nodes leave.
    pub fn leave(&mut self, nodes: &[usize], pods: &[usize], rooms: &[Room]) {
        let mut queue = self.what_if.take_out_all(nodes, pods);
        self.open(rooms);
        in_order(&mut queue, ORDERS - 1);
        for pod in queue {
            self.scatter(pod);
        }
    }

    fn send_back(&mut self, count: usize) {
        for at in self.came.drain(count..) {
            *self.kinds.entry(at).or_default() -= 1;
        }
    }

    fn open(&mut self, rooms: &[Room]) {
        let problem = &self.what_if.problem;
        let [cpu, memory] = self.resources;
        let filling = |room: &Room| {
            let template = problem.templates.iter().position(|template| template.pool == room.pool)?;
            let types = &problem.world.pools[room.pool].instance_types;
            let kind = types.iter().position(|kind| kind.name == room.instance_type)?;
            let free = problem.templates[template].room[kind].clone();
            Some(Filling {
                all: Share { cpu: free.get(cpu), memory: free.get(memory) },
                free,
                template,
                classes: Vec::new(),
            })
        };
        self.rooms.extend(rooms.iter().filter_map(filling));
    }

    /// Puts one pod where kube-scheduler would.
    fn scatter(&mut self, pod: usize) -> bool {
        let WhatIf { problem, state, .. } = &mut self.what_if;
        let class = problem.pods[pod].class;
        let requests = problem.classes[class].requests.clone();
        let mut found: Vec<Choice> = Vec::new();
        for variant in 0..problem.classes[class].variants.len() {
            if problem.classes[class].variants[variant].contradiction.is_some() {
                continue;
            }
            let (open, turn) = (open_nodes(problem, state, pod, variant), self.turn);
            let from_here = open.iter().filter(|node| *node >= turn).chain(open.iter().filter(|node| *node < turn));
            let size = problem.classes[class].size;
            for node in from_here {
                let free = &state.nodes[node].free;
                if !requests.fits(free) {
                    state.no_room(size, node);
                } else if problem.node_takes(state, node, pod) {
                    let kinds = self.kinds.get(&(node, class)).copied().unwrap_or(0);
                    let empty = emptiness(free, self.all[node], &requests, self.resources);
                    found.push(Choice { place: Place::Node(node, variant), kinds, empty });
                    self.turn = node + 1;
                    if found.len() == LOOKED_AT {
                        break;
                    }
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        for (at, room) in self.rooms.iter().enumerate() {
            let base = problem.templates[room.template].base;
            let mut variants = 0..problem.classes[class].variants.len();
            if requests.fits(&room.free)
                && variants.any(|variant| problem.view(state, class, variant, room.template, base).is_some())
            {
                let kinds = room.classes.iter().filter(|one| **one == class).count() as i64;
                let empty = emptiness(&room.free, room.all, &requests, self.resources);
                found.push(Choice { place: Place::Room(at), kinds, empty });
            }
        }
        match best(found) {
            Some(Place::Node(node, variant)) => {
                problem.put_on_node(state, node, (pod, variant));
                *self.kinds.entry((node, class)).or_default() += 1;
                self.came.push((node, class));
            }
            Some(Place::Room(at)) => {
                self.rooms[at].free.subtract(&requests);
                self.rooms[at].classes.push(class);
            }
            None => return false,
        }
        true
    }
}

/// The best of the places, of equals the first.
fn best(found: Vec<Choice>) -> Option<Place> {
    let (least, most) =
        found.iter().fold((i64::MAX, 0), |(least, most), one| (least.min(one.kinds), most.max(one.kinds)));
    // As kube-scheduler spreads over hosts pods that do not say how: the most of a kind count for nothing, none for all.
    let skew = |kinds: i64| (kinds + SKEW) as f64;
    let spread = |kinds: i64| (skew(most) + skew(least) - skew(kinds)) / skew(most);
    let mut best: Option<(f64, Place)> = None;
    for one in found {
        let score = SPREAD * spread(one.kinds) + one.empty;
        if best.as_ref().is_none_or(|(most, _)| score > *most) {
            best = Some((score, one.place));
        }
    }
    best.map(|(_, place)| place)
}

/// Nobody knows who comes first. The largest last is the worst that can happen to most.
fn in_order(queue: &mut [usize], order: u64) {
    match order {
        0 => queue.sort_unstable_by(|a, b| b.cmp(a)),
        _ => queue.sort_unstable_by_key(|pod| (*pod as u64 + order).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
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
