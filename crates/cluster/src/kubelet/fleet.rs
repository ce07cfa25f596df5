//! All simulated machines and what their kubelets remember.

use super::machine::Machine;
use super::pods::Run;
use super::{Settings, node};
use crate::clock::{later, until};
use crate::key::Key;
use crate::op::Step;
use crate::resources::Resources;
use crate::world::World;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

pub struct Fleet {
    pub settings: Settings,
    hosts: BTreeMap<String, Host>,
    /// What runs, by pod.
    pub(super) runs: BTreeMap<Key, Run>,
    /// What the pods on each machine take together, and how many they are.
    taken: BTreeMap<String, Taken>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    pub(super) requests: Resources,
    pub(super) pods: i64,
}

/// A machine under power.
pub struct Host {
    pub machine: Machine,
    pub boots_at: Timestamp,
    /// When its node was registered, and that node's uid.
    pub registered: Option<(Timestamp, String)>,
    pub pressures: BTreeSet<Pressure>,
    /// Images that need not be pulled again.
    pub images: BTreeSet<String>,
    /// A kubelet that does not answer: the machine runs, nobody hears of it.
    pub silent: bool,
    pub addresses: u32,
    pub(super) last_renewal: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    Memory,
    Disk,
    Pid,
}

impl Pressure {
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pid];

    pub fn condition(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pid => "PIDPressure",
        }
    }
}

impl Fleet {
    pub fn new(settings: Settings) -> Self {
        Self { settings, hosts: BTreeMap::new(), runs: BTreeMap::new(), taken: BTreeMap::new() }
    }

    /// Switches a machine on.
    pub fn add(&mut self, machine: Machine, now: Timestamp) {
        let host = Host {
            boots_at: later(now, machine.boot_delay),
            registered: None,
            pressures: BTreeSet::new(),
            images: BTreeSet::new(),
            silent: false,
            addresses: 0,
            last_renewal: None,
            machine,
        };
        self.hosts.insert(host.machine.name.clone(), host);
    }

    /// Switches a machine off: its kubelet and its pods are no more, its node stays behind. Answers what the kubelet
    /// would have written last.
    pub fn remove(&mut self, name: &str, world: &World, now: Timestamp) -> Step {
        let last = self.last_words(name, world, now);
        self.hosts.remove(name);
        self.runs.retain(|_, run| run.node != name);
        self.taken.remove(name);
        last
    }

    /// Cuts a machine off, or connects it again; its pods run on.
    pub fn silence(&mut self, name: &str, silent: bool, world: &World, now: Timestamp) -> Step {
        let last = if silent { self.last_words(name, world, now) } else { Step::done() };
        if let Some(host) = self.hosts.get_mut(name) {
            host.silent = silent;
        }
        last
    }

    pub fn press(&mut self, name: &str, pressure: Pressure, on: bool) {
        if let Some(host) = self.hosts.get_mut(name) {
            if on {
                host.pressures.insert(pressure)
            } else {
                host.pressures.remove(&pressure)
            };
        }
    }

    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.hosts.keys()
    }

    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.hosts.get(name).map(|h| &h.machine)
    }

    /// Whether a node's kubelet is alive and its renewals are only not written down.
    pub fn vouches_for(&self, name: &str) -> bool {
        self.settings.heartbeats == super::Heartbeats::Folded
            && self.hosts.get(name).is_some_and(|h| h.registered.is_some() && !h.silent)
    }

    /// What a machine's kubelet does for its node now.
    pub fn step_machine(&mut self, name: &str, world: &World, now: Timestamp) -> Step {
        let settings = self.settings.clone();
        let Some(host) = self.hosts.get_mut(name) else { return Step::done() };
        if host.boots_at > now {
            return Step::wait(until(now, host.boots_at));
        }
        if host.silent { Step::done() } else { node::step(host, &settings, world, now) }
    }

    pub(super) fn taken(&self, node: &str) -> Taken {
        self.taken.get(node).cloned().unwrap_or_default()
    }

    pub(super) fn begin(&mut self, key: Key, run: Run) {
        let taken = self.taken.entry(run.node.clone()).or_default();
        taken.requests.add(&run.requests);
        taken.pods += 1;
        self.runs.insert(key, run);
    }

    pub(super) fn end(&mut self, key: &Key) {
        let Some(run) = self.runs.remove(key) else { return };
        if let Some(taken) = self.taken.get_mut(&run.node) {
            taken.requests.subtract(&run.requests);
            taken.pods -= 1;
        }
    }

    /// Lets go of pods on a node that are gone, over, or others of the same name: what a kubelet does now and then, should
    /// it have missed something.
    pub(super) fn clean_up(&mut self, node: &str, world: &World) {
        let stale = |key: &Key, run: &Run| {
            let pod = world.pods.get(key).filter(|pod| pod.metadata.uid.as_deref() == Some(&*run.uid));
            pod.is_none_or(|pod| crate::controllers::replicas::is_finished(pod))
        };
        let here = self.runs.iter().filter(|(key, run)| run.node == node && stale(key, run));
        let stale: Vec<Key> = here.map(|(key, _)| key.clone()).collect();
        stale.iter().for_each(|key| self.end(key));
    }

    pub(super) fn host_mut(&mut self, name: &str) -> Option<&mut Host> {
        self.hosts.get_mut(name)
    }

    fn last_words(&self, name: &str, world: &World, now: Timestamp) -> Step {
        match self.hosts.get(name).filter(|_| self.vouches_for(name)) {
            Some(host) => Step::ops(node::final_renewal(host, world, now)),
            None => Step::done(),
        }
    }
}
