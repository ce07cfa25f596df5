//! Every kind of work there is.

use crate::cluster::Settings;
use crate::controllers::{
    attach, cronjob, daemonset, deployment, disruption, endpoints, ephemeral, eviction, job, namespace, nodes, podgc,
    replicaset, statefulset, volumes,
};
use crate::key::Key;
use crate::kubelet::Fleet;
use crate::op::{Op, Step};
use crate::scheduler::Scheduler;
use crate::world::{Object, World};
use jiff::Timestamp;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    Namespace(Key),
    Deployment(Key),
    ReplicaSet(Key),
    StatefulSet(Key),
    DaemonSet(Key),
    Job(Key),
    CronJob(Key),
    Budget(Key),
    Endpoints(Key),
    Claim(Key),
    Volume(Key),
    Ephemeral(Key),
    /// The volumes of a node.
    Attach(Arc<str>),
    Attachment(Key),
    Node(Key),
    /// Whether a pod must leave because of a taint.
    Eviction(Key),
    /// The pods of a node that may be gone.
    Orphans(Arc<str>),
    Unscheduled(Key),
    /// A machine's kubelet and its node.
    Machine(Arc<str>),
    /// A pod on its machine.
    Run(Key),
    /// The writes for a pod the scheduler decided about.
    Placed(Key),
    /// What a kubelet wrote before it went.
    LastWords(Arc<str>),
    /// A machine that is gone for good, whose node the cloud removes.
    Vanished(Arc<str>),
}

pub fn decide(
    task: &Task,
    world: &World,
    scheduler: &Scheduler,
    fleet: &mut Fleet,
    settings: &Settings,
    now: Timestamp,
) -> Step {
    match task {
        Task::Namespace(key) => namespace::step(world, key, settings.root_ca.as_deref()),
        Task::Deployment(key) => deployment::step(world, key, now),
        Task::ReplicaSet(key) => replicaset::step(world, key, now),
        Task::StatefulSet(key) => statefulset::step(world, key, now),
        Task::DaemonSet(key) => daemonset::step(world, key, now),
        Task::Job(key) => job::step(world, key, now),
        Task::CronJob(key) => cronjob::step(world, key, now),
        Task::Budget(key) => disruption::step(world, key, now),
        Task::Endpoints(key) => endpoints::step(world, key),
        Task::Claim(key) => volumes::step_claim(world, &scheduler.snapshot.storage, key),
        Task::Volume(key) => volumes::step_volume(world, key),
        Task::Ephemeral(key) => ephemeral::step(world, key),
        Task::Attach(node) => attach::step_node(world, node),
        Task::Attachment(key) => attach::step_attachment(world, key, now),
        Task::Node(key) => nodes::step(world, key, fleet.vouches_for(&key.name), now),
        Task::Eviction(key) => eviction::step(world, key, now),
        Task::Orphans(node) => podgc::orphaned(world, node, now),
        Task::Unscheduled(key) => podgc::unscheduled(world, key),
        Task::Machine(name) => fleet.step_machine(name, world, now),
        Task::Run(key) => fleet.step_pod(key, world, now),
        Task::Vanished(name) => vanished(world, fleet, name),
        Task::Placed(_) | Task::LastWords(_) => Step::done(),
    }
}

/// The cloud's node controller removes nodes whose machine is gone.
fn vanished(world: &World, fleet: &Fleet, name: &str) -> Step {
    match world.nodes.get(&Key::cluster(name)) {
        Some(node) if fleet.host(name).is_none() && node.metadata.deletion_timestamp.is_none() => {
            Step::ops(vec![Op::delete(&Object::Node(node.clone()))])
        }
        _ => Step::done(),
    }
}
