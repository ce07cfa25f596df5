//! Everything together.

use crate::clock::Clock;
use crate::driver::Driver;
use crate::handle::Handle;
use crate::kubelet;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Commands that may wait before whoever sends more has to.
const COMMANDS: usize = 1024;

#[derive(Clone, Debug)]
pub struct Settings {
    /// Decides delays and ties.
    pub seed: u64,
    pub kubelets: kubelet::Settings,
    pub parts: Parts,
    /// The certificate every namespace gets as `kube-root-ca.crt`.
    pub root_ca: Option<String>,
}

/// What runs. A cluster with parts of its own switches ours off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub scheduler: bool,
    /// Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs and endpoint slices.
    pub workloads: bool,
    /// The status of PodDisruptionBudgets.
    pub disruption: bool,
    /// Binding, provisioning and attaching volumes.
    pub storage: bool,
    /// Default service accounts, root certificates, and the end of namespaces.
    pub namespaces: bool,
    /// Node health, taints, taint eviction, and pods of lost nodes.
    pub nodes: bool,
    pub kubelets: bool,
    /// The cloud's node controller: removes the nodes of machines that are gone.
    pub cloud: bool,
}

impl Parts {
    pub const ALL: Self = Self {
        scheduler: true,
        workloads: true,
        disruption: true,
        storage: true,
        namespaces: true,
        nodes: true,
        kubelets: true,
        cloud: true,
    };
    pub const NONE: Self = Self {
        scheduler: false,
        workloads: false,
        disruption: false,
        storage: false,
        namespaces: false,
        nodes: false,
        kubelets: false,
        cloud: false,
    };
    /// Only the scheduler, beside a controller manager of somebody else.
    pub const SCHEDULER: Self = Self { scheduler: true, ..Self::NONE };
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 0, kubelets: kubelet::Settings::default(), parts: Parts::ALL, root_ca: None }
    }
}

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    handle: Handle,
    driver: JoinHandle<()>,
}

impl Cluster {
    /// Starts everything over a client, as one task of the current runtime.
    pub fn start(client: Client, clock: Clock, settings: Settings) -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let driver = tokio::spawn(Driver::new(client, clock, settings, inbox).run());
        Self { handle: Handle { commands }, driver }
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Stops everything at once.
    pub fn stop(&self) {
        self.driver.abort();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
