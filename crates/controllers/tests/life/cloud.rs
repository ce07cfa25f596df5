//! A small cloud: machines that boot into nodes, and answers made to order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use karpenter_api::labels::{AWS_GROUP, CAPACITY_TYPE, INSTANCE_TYPE, UNREGISTERED_TAINT, ZONE};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_cluster::Handle;
use karpenter_cluster::kubelet::CsiDriver;
use karpenter_controllers::Clock;
use karpenter_core::{Quantity, Resources};
use karpenter_provider::{
    CloudProvider, DeleteError, GetError, InstanceTypes, LaunchError, Machine, NodeClassKind, ProviderError,
    Registration, RepairPolicy, TypesError, Verdict,
};

use crate::scythe::Scythe;

/// Stopping takes a moment.
const STOPPING: Duration = Duration::from_secs(12);

pub(crate) struct Cloud {
    handle: Handle,
    clock: Clock,
    scythe: Scythe,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    instances: BTreeMap<String, Instance>,
    next: u32,
    /// What the next launches say instead of giving a machine.
    refusals: VecDeque<LaunchError>,
    plan: Plan,
}

struct Instance {
    machine: Machine,
    /// The client token of its launch.
    token: String,
    /// When the cloud forgets it.
    gone_at: Option<Timestamp>,
}

/// How machines behave from now on.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) boot: Duration,
    pub(crate) ready: Duration,
    /// Machines that never become nodes.
    pub(crate) dud: bool,
    pub(crate) cpu: i64,
    /// What the kubelet finds, where that is not what was bought.
    pub(crate) real_cpu: Option<i64>,
    pub(crate) list_fails: bool,
    /// The list leaves machines out without saying so.
    pub(crate) list_is_empty: bool,
    pub(crate) waits: bool,
    /// A label that is known only when the node is.
    pub(crate) late_label: bool,
    /// How long a machine takes from the order to stop until the cloud has forgotten it.
    pub(crate) stopping: Duration,
    /// How long the cloud takes to answer a launch.
    pub(crate) launch: Duration,
    /// So many orders to stop fail.
    pub(crate) stops_fail: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            boot: Duration::from_secs(20),
            ready: Duration::from_secs(5),
            dud: false,
            cpu: 4,
            real_cpu: None,
            list_fails: false,
            list_is_empty: false,
            waits: false,
            late_label: false,
            stopping: STOPPING,
            launch: Duration::ZERO,
            stops_fail: 0,
        }
    }
}

impl Cloud {
    pub(crate) fn new(handle: Handle, clock: Clock, scythe: Scythe) -> Self {
        Self { handle, clock, scythe, state: Mutex::default() }
    }

    pub(crate) fn plan(&self, change: impl FnOnce(&mut Plan)) {
        change(&mut self.state.lock().unwrap().plan);
    }

    /// The next launch fails so.
    pub(crate) fn refuse(&self, error: LaunchError) {
        self.state.lock().unwrap().refusals.push_back(error);
    }

    /// The machines that run or stop, by provider id.
    pub(crate) fn instances(&self) -> Vec<String> {
        self.settle();
        self.state.lock().unwrap().instances.keys().cloned().collect()
    }

    /// A machine disappears, as if somebody had pulled the plug and the cloud had forgotten it.
    pub(crate) async fn lose(&self, provider_id: &str) {
        self.state.lock().unwrap().instances.remove(provider_id);
        self.handle.remove_machine(&node_name(provider_id)).await.unwrap();
    }

    /// The cloud forgets a machine that runs on.
    pub(crate) fn forget(&self, provider_id: &str) {
        self.state.lock().unwrap().instances.remove(provider_id);
    }

    /// Somebody starts a machine in the cluster's name.
    pub(crate) fn plant(&self, token: &str) -> String {
        let now = self.clock.now();
        let mut state = self.state.lock().unwrap();
        let id = state.new_id();
        let machine = machine(&id, 4, now);
        state.instances.insert(id.clone(), Instance { machine, token: token.to_owned(), gone_at: None });
        id
    }

    /// Forgets what has stopped.
    fn settle(&self) {
        let now = self.clock.now();
        self.state.lock().unwrap().instances.retain(|_, instance| instance.gone_at.is_none_or(|gone| now < gone));
    }

    async fn launch(&self, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        let slow = self.state.lock().unwrap().plan.launch;
        if !slow.is_zero() {
            tokio::time::sleep(slow).await;
        }
        self.settle();
        let token = claim.metadata.uid.clone().unwrap_or_default();
        let (machine, plan) = {
            let mut state = self.state.lock().unwrap();
            if let Some(known) = state.instances.values().find(|instance| instance.token == token) {
                return Ok(known.machine.clone());
            }
            if let Some(error) = state.refusals.pop_front() {
                return Err(error);
            }
            let id = state.new_id();
            let machine = machine(&id, state.plan.cpu, self.clock.now());
            state.instances.insert(id, Instance { machine: machine.clone(), token, gone_at: None });
            (machine, state.plan.clone())
        };
        if !plan.dud {
            self.handle.add_machine(hardware(&machine, &plan)).await.unwrap();
        }
        Ok(machine)
    }

    async fn terminate(&self, provider_id: &str) -> Result<(), DeleteError> {
        self.settle();
        {
            let mut state = self.state.lock().unwrap();
            if let Some(left) = state.plan.stops_fail.checked_sub(1) {
                state.plan.stops_fail = left;
                return Err(DeleteError::Other(ProviderError::new(
                    "TerminateInstances",
                    "the cloud is having a bad day",
                )));
            }
            let stopping = state.plan.stopping;
            let Some(instance) = state.instances.get_mut(provider_id) else {
                return Err(DeleteError::NotFound { provider_id: provider_id.to_owned() });
            };
            if instance.gone_at.is_some() {
                return Ok(());
            }
            instance.machine.deleting = true;
            instance.gone_at = Some(self.clock.now() + jiff::SignedDuration::try_from(stopping).unwrap());
        }
        self.handle.remove_machine(&node_name(provider_id)).await.unwrap();
        Ok(())
    }
}

impl State {
    fn new_id(&mut self) -> String {
        self.next += 1;
        format!("test:///zone-a/i-{:04}", self.next)
    }
}

pub(crate) fn node_name(provider_id: &str) -> String {
    provider_id.rsplit('/').next().unwrap_or_default().to_owned()
}

fn machine(id: &str, cpu: i64, now: Timestamp) -> Machine {
    let resources = Resources::from_iter([
        ("cpu", Quantity::from_units(cpu)),
        ("memory", Quantity::from_bytes(16 << 30)),
        ("pods", Quantity::from_units(110)),
    ]);
    let labels = [(INSTANCE_TYPE, "test.large"), (ZONE, "zone-a"), (CAPACITY_TYPE, "on-demand")];
    Machine {
        provider_id: id.to_owned(),
        image_id: "image-1".to_owned(),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        annotations: BTreeMap::from([("test.example/launched".to_owned(), "true".to_owned())]),
        capacity: resources.clone(),
        allocatable: resources,
        instance_type: "test.large".to_owned(),
        zone: "zone-a".to_owned(),
        capacity_type: "on-demand".to_owned(),
        launched_at: now,
        deleting: false,
        node_claim: None,
        node_pool: None,
        node_class: None,
        cluster: None,
    }
}

/// What a machine of that kind is to the kubelets: it registers with the taint its user data names.
fn hardware(machine: &Machine, plan: &Plan) -> karpenter_cluster::kubelet::Machine {
    let cpu = plan.real_cpu.unwrap_or(plan.cpu).to_string();
    let mut hardware = karpenter_cluster::kubelet::Machine::new(&node_name(&machine.provider_id), &cpu, "16Gi");
    hardware.provider_id.clone_from(&machine.provider_id);
    hardware.labels.extend(machine.labels.clone());
    hardware.taints.push(Taint {
        key: UNREGISTERED_TAINT.to_owned(),
        effect: "NoExecute".to_owned(),
        ..Taint::default()
    });
    hardware.csi_drivers.push(CsiDriver {
        name: "disk.example.com".to_owned(),
        limit: None,
        topology_keys: vec![ZONE.to_owned()],
    });
    hardware.boot_delay = plan.boot;
    hardware.ready_delay = plan.ready;
    hardware
}

const KINDS: [NodeClassKind; 1] =
    [NodeClassKind { group: AWS_GROUP, version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" }];

#[async_trait]
impl CloudProvider for Cloud {
    fn name(&self) -> &'static str {
        "test"
    }

    fn node_class_kinds(&self) -> &'static [NodeClassKind] {
        &KINDS
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        let name = format!("cloud create {}", claim.metadata.name.as_deref().unwrap_or_default());
        let answer = |result: &Result<Machine, LaunchError>| match result {
            Ok(machine) => machine.provider_id.clone(),
            Err(error) => error.label().to_owned(),
        };
        self.scythe.pass(name, String::new(), self.launch(claim), answer).await
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), DeleteError> {
        let id = claim.status.as_ref().and_then(|status| status.provider_id.clone()).unwrap_or_default();
        let answer = |result: &Result<(), DeleteError>| match result {
            Ok(()) => "stopping".to_owned(),
            Err(DeleteError::NotFound { .. }) => "not found".to_owned(),
            Err(DeleteError::Other(_)) => "failed".to_owned(),
        };
        self.scythe.pass(format!("cloud delete {id}"), String::new(), self.terminate(&id), answer).await
    }

    async fn get(&self, provider_id: &str) -> Result<Machine, GetError> {
        self.settle();
        let state = self.state.lock().unwrap();
        let instance = state.instances.get(provider_id);
        instance
            .map(|instance| instance.machine.clone())
            .ok_or_else(|| GetError::NotFound { provider_id: provider_id.to_owned() })
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        self.settle();
        let state = self.state.lock().unwrap();
        if state.plan.list_fails {
            return Err(ProviderError::new("DescribeInstances", "the cloud is having a bad day"));
        }
        if state.plan.list_is_empty {
            return Ok(Vec::new());
        }
        Ok(state.instances.values().map(|instance| instance.machine.clone()).collect())
    }

    async fn instance_types(&self, _pool: &NodePool) -> Result<InstanceTypes, TypesError> {
        Ok(Arc::from([]))
    }

    async fn is_drifted(&self, _claim: &NodeClaim) -> Result<Option<String>, GetError> {
        Ok(None)
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        let toleration = Duration::from_mins(30);
        [Verdict::False, Verdict::Unknown]
            .map(|unhealthy| RepairPolicy { condition_type: "Ready", unhealthy, toleration })
            .into()
    }

    async fn registration(&self, _claim: &NodeClaim) -> Result<Registration, ProviderError> {
        let plan = self.state.lock().unwrap().plan.clone();
        match (plan.waits, plan.late_label) {
            (true, _) => Ok(Registration::Wait { why: "not yet".to_owned() }),
            (false, true) => Ok(Registration::Relabel(vec![("test.example/late".to_owned(), "known".to_owned())])),
            (false, false) => Ok(Registration::Proceed),
        }
    }
}
