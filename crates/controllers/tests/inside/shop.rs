//! A cloud that sells two sizes of machine in two zones. What is bought boots in the embedded cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_api::labels as api;
use karpenter_api::{NodeClaim, NodePool, Quantity, Taint};
use karpenter_cluster::Handle;
use karpenter_core::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, ZONE};
use karpenter_core::requirement::Requirement;
use karpenter_core::{InstanceType, MicroUsd, Offering, Requirements, Resources};
use karpenter_provider::{
    CloudProvider, DeleteError, GetError, InstanceTypes, LaunchError, Machine, NodeClassKind, ProviderError,
    RepairPolicy, TypesError,
};

use tokio::time::Instant;

pub(crate) const KIND: NodeClassKind =
    NodeClassKind { group: "karpenter.k8s.aws", version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" };
static KINDS: [NodeClassKind; 1] = [KIND];
const BOOT: Duration = Duration::from_secs(30);

pub(crate) struct Shop {
    handle: Handle,
    types: InstanceTypes,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sold: BTreeMap<String, Machine>,
    by_claim: BTreeMap<String, String>,
    next: u32,
    closed: bool,
    /// How often instance types were asked for, and how many asked at once at most.
    asked: u32,
    asking: u32,
    most_asking: u32,
    /// The same by the name of the controller.
    asked_by: BTreeMap<&'static str, Asked>,
    slow: Duration,
    /// What the shop says of every machine it sold, or that it cannot say.
    drift: Option<Saying>,
    /// Types that nobody knows any more.
    discontinued: BTreeSet<String>,
    /// Types that cannot be bought now.
    sold_out: BTreeSet<String>,
    /// When a launch was tried, and for which type first.
    attempts: Vec<(Instant, String)>,
    /// What is sold out is still on the list.
    secretive: bool,
    /// Types that have another price by now.
    prices: BTreeMap<String, MicroUsd>,
    duds: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) times: u32,
    now: u32,
    pub(crate) at_once: u32,
}

/// An answer about drift.
#[derive(Clone, Debug)]
pub(crate) enum Saying {
    Drifted(&'static str),
    NotFound,
    Failure,
}

impl Shop {
    pub(crate) fn new(handle: Handle) -> Self {
        let types = [("small", "2", "4Gi", 50_000), ("large", "8", "32Gi", 190_000)].map(instance_type);
        Self { handle, types: types.into(), state: Mutex::default() }
    }

    /// Machines that run now.
    pub(crate) fn running(&self) -> Vec<String> {
        self.state.lock().unwrap().sold.keys().cloned().collect()
    }

    /// How many were ever bought.
    pub(crate) fn bought(&self) -> u32 {
        self.state.lock().unwrap().next
    }

    /// Nothing is sold until it opens again.
    pub(crate) fn close(&self) {
        self.state.lock().unwrap().closed = true;
    }

    /// What is said of drift from now on; nothing is none.
    pub(crate) fn say(&self, drift: Option<Saying>) {
        self.state.lock().unwrap().drift = drift;
    }

    /// Nobody can buy the type until it is `back` in stock.
    pub(crate) fn sell_out(&self, kind: &str, back: bool) {
        let mut state = self.state.lock().unwrap();
        match back {
            true => state.sold_out.remove(kind),
            false => state.sold_out.insert(kind.to_owned()),
        };
    }

    /// As [`Shop::sell_out`], and only those who try to buy find out.
    pub(crate) fn sell_out_secretly(&self, kind: &str) {
        let mut state = self.state.lock().unwrap();
        state.sold_out.insert(kind.to_owned());
        state.secretive = true;
    }

    /// Machines that never join, from now on or no longer.
    pub(crate) fn sell_duds(&self, duds: bool) {
        self.state.lock().unwrap().duds = duds;
    }

    /// When launches were tried, and for which types.
    pub(crate) fn attempts(&self) -> Vec<(Instant, String)> {
        self.state.lock().unwrap().attempts.clone()
    }

    /// A type disappears from the list, as if it had never been sold.
    pub(crate) fn discontinue(&self, kind: &str) {
        self.state.lock().unwrap().discontinued.insert(kind.to_owned());
    }

    /// A type has another price from now on.
    pub(crate) fn reprice(&self, kind: &str, price: u64) {
        self.state.lock().unwrap().prices.insert(kind.to_owned(), MicroUsd(price));
    }

    /// How often instance types were asked for, and how many asked at once at most.
    pub(crate) fn asked(&self) -> (u32, u32) {
        let state = self.state.lock().unwrap();
        (state.asked, state.most_asking)
    }

    /// As [`Shop::asked`], by one controller.
    pub(crate) fn asked_by(&self, controller: &str) -> Asked {
        self.state.lock().unwrap().asked_by.get(controller).copied().unwrap_or_default()
    }

    /// Answers about instance types take so long.
    pub(crate) fn slow_down(&self, slow: Duration) {
        self.state.lock().unwrap().slow = slow;
    }

    fn sell(&self, claim: &NodeClaim) -> Result<(Machine, Option<karpenter_cluster::kubelet::Machine>), LaunchError> {
        let mut state = self.state.lock().unwrap();
        let uid = claim.metadata.uid.clone().unwrap();
        if let Some(id) = state.by_claim.get(&uid) {
            return Ok((state.sold[id].clone(), None));
        }
        if state.closed {
            return Err(LaunchError::Throttled { message: "slow down".into() });
        }
        let values = |key: &str| -> Option<Vec<String>> {
            let found = claim.spec.requirements.iter().find(|wish| wish.key == key)?;
            Some(found.values().to_vec())
        };
        // A claim that leaves the choice to us gets the first that there is.
        let any = || self.types.iter().map(|kind| kind.name.to_string()).collect();
        let wanted = values(INSTANCE_TYPE).unwrap_or_else(any);
        state.attempts.push((Instant::now(), wanted.join(",")));
        let in_stock = |name: &String| !state.sold_out.contains(name);
        let wanted: Vec<String> = wanted.into_iter().filter(in_stock).collect();
        if wanted.is_empty() {
            return Err(LaunchError::InsufficientCapacity { message: "sold out".into() });
        }
        let zones = values(ZONE);
        let kind = self.types.iter().find(|kind| wanted.iter().any(|name| **name == *kind.name)).unwrap();
        let zone = zones.and_then(|zones| zones.first().cloned()).unwrap_or_else(|| "a".into());
        state.next += 1;
        let provider_id = format!("shop:///{zone}/i-{:04}", state.next);
        let machine = machine(kind, &provider_id, &zone);
        state.by_claim.insert(uid, provider_id.clone());
        state.sold.insert(provider_id.clone(), machine.clone());
        let computer = computer(&machine, &format!("node-{:04}", state.next));
        Ok((machine, (!state.duds).then_some(computer)))
    }
}

#[async_trait]
impl CloudProvider for Shop {
    fn name(&self) -> &'static str {
        "shop"
    }

    fn node_class_kinds(&self) -> &'static [NodeClassKind] {
        &KINDS
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        let (machine, computer) = self.sell(claim)?;
        if let Some(computer) = computer {
            self.handle.add_machine(computer).await.unwrap();
        }
        Ok(machine)
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), DeleteError> {
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.clone()).unwrap_or_default();
        let gone = self.state.lock().unwrap().sold.remove(&provider_id);
        if gone.is_none() {
            return Err(DeleteError::NotFound { provider_id });
        }
        let number = provider_id.rsplit('-').next().unwrap();
        self.handle.remove_machine(&format!("node-{number}")).await.unwrap();
        Ok(())
    }

    async fn get(&self, provider_id: &str) -> Result<Machine, GetError> {
        let found = self.state.lock().unwrap().sold.get(provider_id).cloned();
        found.ok_or_else(|| GetError::NotFound { provider_id: provider_id.to_owned() })
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        Ok(self.state.lock().unwrap().sold.values().cloned().collect())
    }

    /// A pool named `broken` has no types that anybody knows.
    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, TypesError> {
        let controller = karpenter_controllers::controller_name();
        let slow = {
            let mut state = self.state.lock().unwrap();
            let by = state.asked_by.entry(controller).or_default();
            (by.times, by.now) = (by.times + 1, by.now + 1);
            by.at_once = by.at_once.max(by.now);
            state.asked += 1;
            state.asking += 1;
            state.most_asking = state.most_asking.max(state.asking);
            state.slow
        };
        tokio::time::sleep(slow).await;
        {
            let mut state = self.state.lock().unwrap();
            state.asking -= 1;
            state.asked_by.entry(controller).or_default().now -= 1;
        }
        match pool.metadata.name.as_deref() {
            Some("broken") => Err(TypesError::NotResolved { message: "no price list".into() }),
            Some("sold-out") => Ok(Arc::from([])),
            _ => {
                let state = self.state.lock().unwrap();
                let known = self.types.iter().filter(|kind| !state.discontinued.contains(&*kind.name));
                let in_stock = |kind: &InstanceType| state.secretive || !state.sold_out.contains(&*kind.name);
                let today = known.map(|kind| priced(kind, state.prices.get(&*kind.name).copied()));
                Ok(today.map(|kind| stocked(&kind, in_stock(&kind))).collect())
            }
        }
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<String>, GetError> {
        let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.clone()).unwrap_or_default();
        match self.state.lock().unwrap().drift {
            None => Ok(None),
            Some(Saying::Drifted(reason)) => Ok(Some(reason.to_owned())),
            Some(Saying::NotFound) => Err(GetError::NotFound { provider_id }),
            Some(Saying::Failure) => Err(ProviderError::new("asking", "no answer").into()),
        }
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        Vec::new()
    }
}

/// The type as it can or cannot be bought now.
fn stocked(kind: &Arc<InstanceType>, available: bool) -> Arc<InstanceType> {
    if available {
        return kind.clone();
    }
    let mut kind = InstanceType::clone(kind);
    for offering in &mut kind.offerings {
        offering.available = false;
    }
    Arc::new(kind)
}

/// The type at the price it has now.
fn priced(kind: &Arc<InstanceType>, price: Option<MicroUsd>) -> Arc<InstanceType> {
    let Some(price) = price else { return kind.clone() };
    let mut kind = InstanceType::clone(kind);
    for offering in &mut kind.offerings {
        offering.price = price;
    }
    Arc::new(kind)
}

fn instance_type((name, cpu, memory, price): (&str, &str, &str, u64)) -> Arc<InstanceType> {
    let one = |key: &str, value: &str, set: &mut Requirements| set.add(key, Requirement::one(value));
    let mut requirements = Requirements::new();
    one(INSTANCE_TYPE, name, &mut requirements);
    one(ARCH, "amd64", &mut requirements);
    one(OS, "linux", &mut requirements);
    requirements.add(ZONE, Requirement::one_of(["a", "b"]));
    requirements.add(CAPACITY_TYPE, Requirement::one("on-demand"));
    let offerings = ["a", "b"].map(|zone| {
        let mut requirements = Requirements::new();
        one(ZONE, zone, &mut requirements);
        one(CAPACITY_TYPE, "on-demand", &mut requirements);
        Offering { requirements, price: MicroUsd(price), available: true, reservation: None }
    });
    let capacity = [("cpu", cpu), ("memory", memory), ("pods", "110"), ("ephemeral-storage", "20Gi")];
    Arc::new(InstanceType {
        name: name.into(),
        requirements,
        capacity: capacity.iter().map(|(name, text)| (*name, text.parse().unwrap())).collect(),
        overhead: Default::default(),
        offerings: offerings.into(),
    })
}

fn machine(kind: &InstanceType, provider_id: &str, zone: &str) -> Machine {
    let labels =
        [(INSTANCE_TYPE, &*kind.name), (ZONE, zone), (CAPACITY_TYPE, "on-demand"), (ARCH, "amd64"), (OS, "linux")];
    Machine {
        provider_id: provider_id.to_owned(),
        image_id: "image-1".into(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        annotations: BTreeMap::new(),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        instance_type: kind.name.to_string(),
        zone: zone.to_owned(),
        capacity_type: "on-demand".into(),
        launched_at: Timestamp::UNIX_EPOCH,
        deleting: false,
        node_claim: None,
        node_pool: None,
        node_class: None,
        cluster: None,
    }
}

fn computer(machine: &Machine, name: &str) -> karpenter_cluster::kubelet::Machine {
    let list = |resources: &Resources| -> BTreeMap<String, Quantity> {
        resources.iter().map(|(name, quantity)| (name.to_owned(), Quantity(quantity.to_string()))).collect()
    };
    let mut computer = karpenter_cluster::kubelet::Machine::new(name, "1", "1Gi");
    computer.provider_id = machine.provider_id.clone();
    computer.labels.extend(machine.labels.clone());
    computer.capacity = list(&machine.capacity);
    computer.allocatable = list(&machine.allocatable);
    computer.taints =
        vec![Taint { key: api::UNREGISTERED_TAINT.to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() }];
    computer.boot_delay = BOOT;
    computer.ready_delay = Duration::from_secs(5);
    computer
}
