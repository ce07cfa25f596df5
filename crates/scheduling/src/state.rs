//! What changes while a pass is solved, and how to take it back.
//!
//! Every change goes through [`State`] and leaves an entry in its log; [`State::rollback`] undoes the newest ones. So a
//! what-if costs the pods it moves, not the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_core::ports::HostPort;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bits::Bits;
use crate::columns::{Amount, Amounts};
use crate::existing::{ClaimName, ExistingNode};
use crate::groups::{GroupId, Kind};
use crate::no_room::{NoRoom, Since};
use crate::problem::Problem;
use crate::terms::SetId;

/// A NodeClaim being assembled. It stands for all its remaining instance types at once.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) template: usize,
    pub(crate) set: SetId,
    pub(crate) types: Bits,
    /// Of the pods alone.
    pub(crate) total: Amounts,
    /// In `Problem::pods`, with the variant in which each was accepted.
    pub(crate) pods: Vec<(usize, usize)>,
    pub(crate) ports: Vec<HostPort>,
    /// Reservations it holds a unit of.
    pub(crate) reserved: BTreeSet<Arc<str>>,
    pub(crate) min_values_relaxed: bool,
}

/// An existing node as the pass fills it.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    pub(crate) free: Amounts,
    pub(crate) ports: Vec<HostPort>,
    pub(crate) volumes: Volumes,
    pub(crate) pods: Vec<(usize, usize)>,
    /// How many of the pods were there when an answer was last settled.
    settled: usize,
}

/// Claims in use, by driver.
pub(crate) type Volumes = BTreeMap<Arc<str>, BTreeSet<ClaimName>>;

/// Matching pods by domain, and for the hostname by target, with the hosts that are over a threshold as sets.
#[derive(Clone, Debug)]
pub(crate) struct GroupState {
    /// By domain; unused for the hostname.
    pub(crate) domains: Vec<u32>,
    pub(crate) nodes: HostCounts,
    pub(crate) claims: HostCounts,
    /// Domains (or hosts anywhere) with at least one match.
    pub(crate) populated: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HostCounts {
    /// Hosts with at least one, in ascending order. There are few of them, and many groups.
    counts: Vec<(u32, u32)>,
    /// At least one.
    pub(crate) some: Bits,
    /// As many as the skew allows: one more of a pod that counts itself is too many.
    pub(crate) full: Bits,
    /// More than the skew allows.
    pub(crate) over: Bits,
}

impl GroupState {
    /// Whether every domain and host counts the same.
    pub(crate) fn same_counts(&self, other: &Self) -> bool {
        self.domains == other.domains
            && self.nodes.counts == other.nodes.counts
            && self.claims.counts == other.claims.counts
            && self.populated == other.populated
    }
}

impl NodeState {
    fn of(node: &ExistingNode) -> Self {
        let (free, ports, volumes) = (node.free.clone(), node.ports.clone(), node.volumes.clone());
        Self { free, ports, volumes, pods: Vec::new(), settled: 0 }
    }

    /// Whether it has the same left for pods.
    pub(crate) fn same_room(&self, other: &Self) -> bool {
        self.free == other.free && self.ports == other.ports && self.volumes == other.volumes
    }
}

impl HostCounts {
    pub(crate) fn get(&self, host: usize) -> u32 {
        self.counts.binary_search_by_key(&(host as u32), |(at, _)| *at).map_or(0, |at| self.counts[at].1)
    }

    fn set(&mut self, host: usize, count: u32, max_skew: i64) {
        match (self.counts.binary_search_by_key(&(host as u32), |(at, _)| *at), count) {
            (Ok(at), 0) => {
                self.counts.remove(at);
            }
            (Ok(at), _) => self.counts[at].1 = count,
            (Err(_), 0) => {}
            (Err(at), _) => self.counts.insert(at, (host as u32, count)),
        }
        let mark = |bits: &mut Bits, on: bool| if on { bits.insert(host) } else { bits.remove(host) };
        mark(&mut self.some, count > 0);
        mark(&mut self.full, i64::from(count) >= max_skew);
        mark(&mut self.over, i64::from(count) > max_skew);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Domain(usize),
    Node(usize),
    Claim(usize),
}

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) claims: Vec<Claim>,
    pub(crate) nodes: Vec<NodeState>,
    pub(crate) groups: Vec<GroupState>,
    /// What is left of each template's limits, in the order of `Template::limits`.
    pub(crate) limits: Vec<Vec<Amount>>,
    pub(crate) node_limits: Vec<Option<i64>>,
    pub(crate) reservations: BTreeMap<Arc<str>, u32>,
    /// Claims by number of pods.
    pub(crate) by_count: Vec<Bits>,
    /// Claims that look the same: template and requirements.
    pub(crate) shapes: Vec<Shape>,
    shape_ids: FxHashMap<(usize, SetId), usize>,
    shape_of: Vec<usize>,
    /// By class and variant: targets that refused it for a reason that does not go away.
    pub(crate) refused: FxHashMap<(usize, usize), Refused>,
    pub(crate) no_room: NoRoom,
    /// Nodes that took pods since an answer was last settled, once for each pod.
    filled: Vec<usize>,
    /// How many of the claims take no more pods.
    pub(crate) settled: usize,
    /// How often claims were settled.
    pub(crate) settlements: usize,
    /// Nodes that take no pods: they are leaving, or are to be left alone.
    pub(crate) closed: Bits,
    log: Vec<Undo>,
    /// Somebody holds a mark. Until then nothing can be taken back, and nothing is kept for it.
    recording: bool,
    max_skew: Vec<i64>,
    ties: Ties,
    /// By claim: its place among claims with as many pods, where ties go to the latest.
    turn: Vec<i64>,
    clock: i64,
}

/// Choices the rules leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ties {
    pub(crate) claims: ClaimTies,
    pub(crate) domains: DomainTies,
}

/// Which of several equally filled domains is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DomainTies {
    /// By name.
    First,
    /// By name, from the last.
    Last,
    /// In one of many other orders.
    Mixed(u64),
}

impl DomainTies {
    pub(crate) fn rank(self, domain: usize) -> u64 {
        match self {
            Self::First => domain as u64,
            Self::Last => u64::MAX - domain as u64,
            // The finalizer of splitmix64: any seed gives an order of its own.
            Self::Mixed(seed) => {
                let mut mixed = (domain as u64).wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                mixed ^ (mixed >> 31)
            }
        }
    }
}

/// Which of several claims with equally many pods is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimTies {
    /// The one that was opened first.
    Oldest,
    /// The one that took a pod last; one just opened comes last.
    Latest,
}

#[derive(Clone, Default)]
pub(crate) struct Refused {
    pub(crate) nodes: Bits,
    pub(crate) claims: Bits,
}

#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) template: usize,
    pub(crate) set: SetId,
    pub(crate) claims: Bits,
}

/// What became different: existing nodes that are fuller or closed, groups that count differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) nodes: Vec<u32>,
    pub(crate) groups: Vec<u32>,
    pub(crate) limits: bool,
    /// Reservations, which anybody may hold.
    pub(crate) everything: bool,
}

#[derive(Clone)]
enum Undo {
    Count { group: usize, slot: Slot },
    Uncounted { group: usize, slot: Slot },
    RefusedNode { class: usize, node: usize },
    NoRoom { size: usize, node: usize },
    RefusedClaim { form: (usize, usize), claim: usize },
    Settled { before: usize, nodes: Vec<(usize, usize)> },
    Closed { node: usize, pods: Vec<(usize, usize)>, was_open: bool },
    Opened,
    Claim { index: usize, before: Box<Before> },
    Node { index: usize, free: Amounts, ports: usize, volumes: Option<Volumes> },
    Limits { template: usize, before: Vec<Amount>, nodes: Option<i64> },
    Reservations { before: BTreeMap<Arc<str>, u32> },
}

/// A claim as it was before its newest pod.
#[derive(Clone)]
struct Before {
    set: SetId,
    types: Bits,
    total: Amounts,
    ports: usize,
    reserved: BTreeSet<Arc<str>>,
    turn: i64,
}

/// What a pod changes on the claim that takes it.
pub(crate) struct Joining {
    pub(crate) pod: (usize, usize),
    pub(crate) set: SetId,
    pub(crate) types: Bits,
    pub(crate) reserved: BTreeSet<Arc<str>>,
}

impl State {
    pub(crate) fn new(problem: &Problem<'_>, ties: Ties) -> Self {
        let nodes = problem.nodes.iter().map(NodeState::of);
        let max_skew: Vec<i64> = problem
            .groups
            .all
            .iter()
            .map(|group| if group.kind == Kind::Spread { group.max_skew } else { 1 })
            .collect();
        let groups = problem.domains.groups.iter().zip(&max_skew).map(|(group, max_skew)| {
            let mut hosts = HostCounts::default();
            let populated = group.elsewhere + group.counts.iter().filter(|count| **count > 0).count() as u32;
            group.hosts.iter().for_each(|(host, count)| hosts.set(*host as usize, *count, *max_skew));
            let (domains, populated) = (group.counts.clone(), populated + group.hosts.len() as u32);
            GroupState { domains, nodes: hosts, claims: HostCounts::default(), populated }
        });
        Self {
            claims: Vec::new(),
            nodes: nodes.collect(),
            groups: groups.collect(),
            limits: problem.templates.iter().map(|t| t.limits.iter().map(|(_, left)| *left).collect()).collect(),
            node_limits: problem.templates.iter().map(|t| t.node_limit).collect(),
            reservations: reservations(problem),
            by_count: Vec::new(),
            shapes: Vec::new(),
            shape_ids: FxHashMap::default(),
            shape_of: Vec::new(),
            refused: FxHashMap::default(),
            no_room: NoRoom::default(),
            filled: Vec::new(),
            settled: 0,
            settlements: 0,
            closed: Bits::new(),
            log: Vec::new(),
            recording: false,
            max_skew,
            ties,
            turn: Vec::new(),
            clock: 0,
        }
    }

    /// As it was before anything was placed, for a problem in which these nodes have other pods and these groups other
    /// counts, and that is the same otherwise.
    pub(crate) fn renew(&mut self, problem: &Problem<'_>, nodes: &FxHashSet<usize>, counts: &[(GroupId, Slot, i32)]) {
        self.rollback(0);
        self.closed = Bits::new();
        (self.settled, self.settlements, self.clock) = (0, 0, 0);
        self.filled.clear();
        self.no_room.forget_nodes(nodes);
        for node in nodes {
            self.nodes[*node] = NodeState::of(&problem.nodes[*node]);
        }
        for refused in self.refused.values_mut() {
            nodes.iter().for_each(|node| refused.nodes.remove(*node));
        }
        for (group, slot, by) in counts {
            self.change_count(group.0 as usize, *slot, *by);
        }
    }

    pub(crate) fn mark(&mut self) -> usize {
        self.recording = true;
        self.log.len()
    }

    fn note(&mut self, undo: impl FnOnce(&Self) -> Undo) {
        if self.recording {
            let undo = undo(self);
            self.log.push(undo);
        }
    }

    /// Takes back everything since the mark.
    pub(crate) fn rollback(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop().expect("the log is longer than the mark") {
                Undo::Count { group, slot } => self.change_count(group, slot, -1),
                Undo::Uncounted { group, slot } => self.change_count(group, slot, 1),
                Undo::RefusedNode { class, node } => {
                    self.refused.entry((class, 0)).and_modify(|refused| refused.nodes.remove(node));
                }
                Undo::NoRoom { size, node } => self.no_room.forget(size, node),
                Undo::RefusedClaim { form, claim } => {
                    self.refused.entry(form).and_modify(|refused| refused.claims.remove(claim));
                }
                Undo::Settled { before, nodes } => {
                    self.settlements -= 1;
                    self.no_room.forget_settled();
                    for (node, settled) in nodes {
                        self.nodes[node].settled = settled;
                    }
                    let after = std::mem::replace(&mut self.settled, before);
                    (before..after).for_each(|index| self.index(index));
                }
                Undo::Closed { node, pods, was_open } => {
                    if was_open {
                        self.closed.remove(node);
                    }
                    self.nodes[node].pods = pods;
                }
                Undo::Opened => {
                    let index = self.claims.len() - 1;
                    self.unindex(index);
                    self.claims.pop();
                    self.shape_of.pop();
                    self.turn.pop();
                }
                Undo::Claim { index, before } => {
                    self.unindex(index);
                    let claim = &mut self.claims[index];
                    claim.pods.pop();
                    claim.ports.truncate(before.ports);
                    self.turn[index] = before.turn;
                    (claim.set, claim.types, claim.total, claim.reserved) =
                        (before.set, before.types, before.total, before.reserved);
                    self.index(index);
                }
                Undo::Node { index, free, ports, volumes } => {
                    // What was settled in the meantime is not in the list any more.
                    if self.filled.last() == Some(&index) {
                        self.filled.pop();
                    }
                    let node = &mut self.nodes[index];
                    node.free = free;
                    node.ports.truncate(ports);
                    node.pods.pop();
                    if let Some(volumes) = volumes {
                        node.volumes = volumes;
                    }
                }
                Undo::Limits { template, before, nodes } => {
                    self.limits[template] = before;
                    self.node_limits[template] = nodes;
                }
                Undo::Reservations { before } => self.reservations = before,
            }
        }
    }

    /// Nodes that took pods since the mark, each once.
    pub(crate) fn filled_since(&self, mark: usize) -> BTreeSet<usize> {
        let index = |undo: &Undo| if let Undo::Node { index, .. } = undo { Some(*index) } else { None };
        self.log[mark..].iter().filter_map(index).collect()
    }

    /// What an answer since the mark would make different for others.
    pub(crate) fn changes_since(&self, mark: usize) -> Changes {
        let mut changes = Changes::default();
        for undo in &self.log[mark..] {
            match undo {
                Undo::Count { group, .. } | Undo::Uncounted { group, .. } => changes.groups.push(*group as u32),
                Undo::Closed { node, .. } | Undo::Node { index: node, .. } => changes.nodes.push(*node as u32),
                Undo::Limits { .. } => changes.limits = true,
                Undo::Reservations { .. } => changes.everything = true,
                Undo::RefusedNode { .. }
                | Undo::NoRoom { .. }
                | Undo::RefusedClaim { .. }
                | Undo::Settled { .. }
                | Undo::Opened
                | Undo::Claim { .. } => {}
            }
        }
        for list in [&mut changes.groups, &mut changes.nodes] {
            list.sort_unstable();
            list.dedup();
        }
        changes
    }

    pub(crate) fn log_length(&self) -> usize {
        self.log.len()
    }

    /// Domains from whose counts pods were taken since the log was so long.
    pub(crate) fn uncounted_since(&self, mark: usize) -> impl Iterator<Item = (GroupId, usize)> + '_ {
        self.log[mark..].iter().filter_map(|undo| match undo {
            Undo::Uncounted { group, slot: Slot::Domain(domain) } => Some((GroupId(*group as u32), *domain)),
            _ => None,
        })
    }

    /// Pods that found a place since an answer was last settled, each with its variant.
    pub(crate) fn placed_since_settled(&self) -> Vec<(Slot, (usize, usize))> {
        let claims = (self.settled..self.claims.len()).map(|claim| (Slot::Claim(claim), &*self.claims[claim].pods));
        let filled: BTreeSet<usize> = self.filled.iter().copied().collect();
        let nodes = filled.into_iter().map(|node| {
            let of = &self.nodes[node];
            (Slot::Node(node), &of.pods[of.settled..])
        });
        claims.chain(nodes).flat_map(|(place, pods)| pods.iter().map(move |pod| (place, *pod))).collect()
    }

    /// The claims opened so far take no more pods.
    pub(crate) fn settle(&mut self) {
        let before = std::mem::replace(&mut self.settled, self.claims.len());
        (before..self.claims.len()).for_each(|index| self.unindex(index));
        self.settlements += 1;
        let mut nodes = Vec::new();
        for node in std::mem::take(&mut self.filled) {
            let of = &mut self.nodes[node];
            if of.settled != of.pods.len() {
                nodes.push((node, of.settled));
                of.settled = of.pods.len();
            }
        }
        self.note(|_| Undo::Settled { before, nodes });
    }

    /// The node has no room for pods of a size, as full as it is now.
    pub(crate) fn no_room(&mut self, size: usize, node: usize) {
        let of = &self.nodes[node];
        let since = match (of.pods.len(), of.settled) {
            (0, _) => Since::Found,
            (now, settled) if now == settled => Since::Settled,
            _ => Since::Tried,
        };
        self.no_room.note(size, node, since);
        if since == Since::Tried {
            self.note(|_| Undo::NoRoom { size, node });
        }
    }

    /// The node never takes the class again, as it only gets fuller; unless what filled it is taken back. What a node
    /// refuses as it was found it refuses whatever is taken back.
    pub(crate) fn refuse_node(&mut self, class: usize, node: usize) {
        self.refused.entry((class, 0)).or_default().nodes.insert(node);
        if !self.nodes[node].pods.is_empty() {
            self.note(|_| Undo::RefusedNode { class, node });
        }
    }

    /// As for nodes; `form` is class and variant.
    pub(crate) fn refuse_claim(&mut self, form: (usize, usize), claim: usize) {
        self.refused.entry(form).or_default().claims.insert(claim);
        self.note(|_| Undo::RefusedClaim { form, claim });
    }

    pub(crate) fn count(&mut self, group: GroupId, slot: Slot) {
        self.change_count(group.0 as usize, slot, 1);
        self.note(|_| Undo::Count { group: group.0 as usize, slot });
    }

    /// A pod that was counted leaves.
    pub(crate) fn uncount(&mut self, group: GroupId, slot: Slot) {
        self.change_count(group.0 as usize, slot, -1);
        self.note(|_| Undo::Uncounted { group: group.0 as usize, slot });
    }

    /// The node takes no more pods; answers those that this pass had put there.
    pub(crate) fn close(&mut self, node: usize) -> Vec<(usize, usize)> {
        let was_open = !self.closed.contains(node);
        self.closed.insert(node);
        let pods = std::mem::take(&mut self.nodes[node].pods);
        self.note(|_| Undo::Closed { node, pods: pods.clone(), was_open });
        pods
    }

    fn change_count(&mut self, group: usize, slot: Slot, by: i32) {
        let (state, max_skew) = (&mut self.groups[group], self.max_skew[group]);
        let before = match slot {
            Slot::Domain(at) => state.domains[at],
            Slot::Node(at) => state.nodes.get(at),
            Slot::Claim(at) => state.claims.get(at),
        };
        let after = before.checked_add_signed(by).expect("a count is taken back only after it was made");
        match slot {
            Slot::Domain(at) => state.domains[at] = after,
            Slot::Node(at) => state.nodes.set(at, after, max_skew),
            Slot::Claim(at) => state.claims.set(at, after, max_skew),
        }
        match (before, after) {
            (0, 1) => state.populated += 1,
            (1, 0) => state.populated -= 1,
            _ => {}
        }
    }

    pub(crate) fn open(&mut self, claim: Claim) -> usize {
        let index = self.claims.len();
        self.claims.push(claim);
        self.shape_of.push(0);
        self.clock += 1;
        self.turn.push(self.clock);
        self.index(index);
        self.note(|_| Undo::Opened);
        index
    }

    pub(crate) fn join(&mut self, index: usize, joining: Joining, requests: &Amounts, ports: &[HostPort]) {
        self.unindex(index);
        let claim = &mut self.claims[index];
        let mut total = claim.total.clone();
        total.add(requests);
        let before = Before {
            set: std::mem::replace(&mut claim.set, joining.set),
            types: std::mem::replace(&mut claim.types, joining.types),
            total: std::mem::replace(&mut claim.total, total),
            ports: claim.ports.len(),
            reserved: std::mem::replace(&mut claim.reserved, joining.reserved),
            turn: self.turn[index],
        };
        if !claim.pods.is_empty() {
            self.clock += 1;
            self.turn[index] = -self.clock;
        }
        claim.ports.extend_from_slice(ports);
        claim.pods.push(joining.pod);
        self.note(|_| Undo::Claim { index, before: Box::new(before) });
        self.index(index);
    }

    pub(crate) fn occupy(
        &mut self,
        index: usize,
        pod: (usize, usize),
        requests: &Amounts,
        ports: &[HostPort],
        claims: Vec<(Arc<str>, ClaimName)>,
    ) {
        let node = &mut self.nodes[index];
        if self.recording {
            let volumes = (!claims.is_empty()).then(|| node.volumes.clone());
            self.log.push(Undo::Node { index, free: node.free.clone(), ports: node.ports.len(), volumes });
        }
        node.free.subtract(requests);
        node.ports.extend_from_slice(ports);
        for (driver, claim) in claims {
            node.volumes.entry(driver).or_default().insert(claim);
        }
        node.pods.push(pod);
        self.filled.push(index);
    }

    pub(crate) fn charge(&mut self, template: usize, capacity: &[Amount]) {
        self.note(|state| {
            let (before, nodes) = (state.limits[template].clone(), state.node_limits[template]);
            Undo::Limits { template, before, nodes }
        });
        self.limits[template].iter_mut().zip(capacity).for_each(|(left, amount)| *left -= amount);
        self.node_limits[template] = self.node_limits[template].map(|left| left - 1);
    }

    /// A node of the template's pool leaves: what it took of the limits is free again.
    pub(crate) fn credit(&mut self, template: usize, capacity: &[Amount]) {
        self.note(|state| {
            let (before, nodes) = (state.limits[template].clone(), state.node_limits[template]);
            Undo::Limits { template, before, nodes }
        });
        self.limits[template].iter_mut().zip(capacity).for_each(|(left, amount)| *left += amount);
        self.node_limits[template] = self.node_limits[template].map(|left| left + 1);
    }

    /// Moves units between what is free and what the claim holds.
    pub(crate) fn reserve(&mut self, held: &BTreeSet<Arc<str>>, wanted: &BTreeSet<Arc<str>>) {
        if held == wanted {
            return;
        }
        self.note(|state| Undo::Reservations { before: state.reservations.clone() });
        for id in wanted.difference(held) {
            let left = self.reservations.get_mut(id).filter(|left| **left > 0);
            *left.expect("a unit is taken only where one is left") -= 1;
        }
        for id in held.difference(wanted) {
            *self.reservations.get_mut(id).expect("a held reservation is known") += 1;
        }
    }

    fn index(&mut self, index: usize) {
        let claim = &self.claims[index];
        let key = (claim.template, claim.set);
        let next = self.shapes.len();
        let shape = *self.shape_ids.entry(key).or_insert(next);
        if shape == next {
            self.shapes.push(Shape { template: key.0, set: key.1, claims: Bits::new() });
        }
        self.shapes[shape].claims.insert(index);
        self.shape_of[index] = shape;
        let count = claim.pods.len();
        if count >= self.by_count.len() {
            self.by_count.resize(count + 1, Bits::new());
        }
        self.by_count[count].insert(index);
    }

    fn unindex(&mut self, index: usize) {
        self.shapes[self.shape_of[index]].claims.remove(index);
        self.by_count[self.claims[index].pods.len()].remove(index);
    }

    pub(crate) fn ties(&self) -> Ties {
        self.ties
    }

    /// Claims with a number of pods, in the order in which they are tried.
    pub(crate) fn in_turn(&self, count: usize) -> Vec<usize> {
        let mut claims: Vec<usize> = self.by_count[count].iter().collect();
        if self.ties.claims == ClaimTies::Latest {
            claims.sort_unstable_by_key(|claim| self.turn[*claim]);
        }
        claims
    }

    pub(crate) fn shape_of(&self, claim: usize) -> usize {
        self.shape_of[claim]
    }
}

/// Several offerings with one id draw from the smallest count.
fn reservations(problem: &Problem<'_>) -> BTreeMap<Arc<str>, u32> {
    let mut units: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    if problem.world.settings.reserved_capacity {
        let types = problem.catalogs.iter().flat_map(|catalog| catalog.types.iter());
        for reservation in types.flat_map(|kind| &kind.offerings).filter_map(|offering| offering.reservation.as_ref()) {
            let left = units.entry(reservation.id.clone()).or_insert(reservation.remaining);
            *left = (*left).min(reservation.remaining);
        }
    }
    units
}

#[cfg(test)]
mod tests;
