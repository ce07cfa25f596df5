//! Pods, written the way one would say them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::labels::{HOSTNAME, ZONE};
use karpenter_core::pod::{Owner, Phase, PodTerm, Spread, Weighted, WhenUnsatisfiable};
use karpenter_core::ports::HostPort;
use karpenter_core::requirement::Expression;
use karpenter_core::resources::{CPU, MEMORY, PODS};
use karpenter_core::taints::{Effect, TolerationOperator};
use karpenter_core::{Pod, PodShape, Toleration};

use crate::express;
use crate::quantity;

/// A pending pod in namespace `default` that asks for nothing but its slot.
pub fn pod(name: &str) -> PodBuilder {
    let mut shape = PodShape::default();
    shape.requests.set(PODS, quantity("1"));
    PodBuilder {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        created: None,
        shape,
        node: None,
        nominated: None,
        reason: Some("Unschedulable"),
        phase: Phase::Pending,
        terminating: false,
        unready: false,
        started: None,
        owners: Vec::new(),
        claims: Vec::new(),
        deletion_cost: None,
        restarts: 0,
        ready_after: None,
    }
}

#[derive(Clone, Debug)]
pub struct PodBuilder {
    namespace: String,
    name: String,
    created: Option<Timestamp>,
    /// For what no method covers.
    pub shape: PodShape,
    node: Option<Arc<str>>,
    nominated: Option<Arc<str>>,
    reason: Option<&'static str>,
    phase: Phase,
    terminating: bool,
    unready: bool,
    started: Option<Timestamp>,
    owners: Vec<Owner>,
    claims: Vec<Arc<str>>,
    deletion_cost: Option<Arc<str>>,
    restarts: u32,
    ready_after: Option<Duration>,
}

/// What it is.
impl PodBuilder {
    /// `controller.kubernetes.io/pod-deletion-cost`.
    pub fn deletion_cost(mut self, cost: &str) -> Self {
        self.deletion_cost = Some(cost.into());
        self
    }

    /// Of its containers, all together.
    pub fn restarts(mut self, count: u32) -> Self {
        self.restarts = count;
        self
    }

    /// So long it took to become ready.
    pub fn ready_after(mut self, took: Duration) -> Self {
        self.ready_after = Some(took);
        self
    }

    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = namespace.to_owned();
        self
    }

    pub fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.shape.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn app(self, value: &str) -> Self {
        self.label("app", value)
    }

    pub fn cpu(self, text: &str) -> Self {
        self.request(CPU, text)
    }

    pub fn memory(self, text: &str) -> Self {
        self.request(MEMORY, text)
    }

    pub fn request(mut self, resource: &str, text: &str) -> Self {
        self.shape.requests.set(resource, quantity(text));
        self
    }

    pub fn priority(mut self, priority: i32) -> Self {
        self.shape.priority = priority;
        self
    }

    pub fn created(mut self, at: &str) -> Self {
        self.created = Some(at.parse().expect("a fixture's time is well-formed"));
        self
    }

    /// Runs on this node, since before.
    pub fn on(mut self, node: &str) -> Self {
        self.node = Some(node.into());
        self.reason = None;
        self.phase = Phase::Running;
        self
    }

    pub fn nominated(mut self, node: &str) -> Self {
        self.nominated = Some(node.into());
        self
    }

    /// The reason of its `PodScheduled` condition; `None` for no condition.
    pub fn scheduled_reason(mut self, reason: Option<&'static str>) -> Self {
        self.reason = reason;
        self
    }

    pub fn phase(mut self, phase: Phase) -> Self {
        self.phase = phase;
        self
    }

    pub fn terminating(mut self) -> Self {
        self.terminating = true;
        self
    }

    pub fn unready(mut self) -> Self {
        self.unready = true;
        self
    }

    pub fn started(mut self, at: &str) -> Self {
        self.started = Some(at.parse().expect("a fixture's time is well-formed"));
        self
    }

    pub fn do_not_disrupt(mut self, value: &str) -> Self {
        self.shape.do_not_disrupt = Some(value.into());
        self
    }

    /// The controlling owner; its uid is `uid-<kind>-<name>`.
    pub fn owned_by(mut self, api_version: &str, kind: &str, name: &str) -> Self {
        self.owners.push(Owner {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: owner_uid(kind, name).into(),
            controller: true,
        });
        self
    }

    pub fn daemon_of(self, daemon_set: &str) -> Self {
        self.owned_by("apps/v1", "DaemonSet", daemon_set)
    }

    /// Uses a PersistentVolumeClaim of its namespace.
    pub fn claim(mut self, name: &str) -> Self {
        self.claims.push(name.into());
        self
    }
}

/// What it wants.
impl PodBuilder {
    pub fn select(mut self, key: &str, value: &str) -> Self {
        self.shape.node_selector.insert(key.to_owned(), value.to_owned());
        self
    }

    pub fn zone(self, zone: &str) -> Self {
        self.select(ZONE, zone)
    }

    /// One more alternative of required node affinity.
    pub fn require(mut self, expressions: Vec<Expression>) -> Self {
        self.shape.required_node_affinity.push(express::node_term(expressions));
        self
    }

    pub fn prefer(mut self, weight: i32, expressions: Vec<Expression>) -> Self {
        let term = express::node_term(expressions);
        self.shape.preferred_node_affinity.push(Weighted { weight, term });
        self
    }

    pub fn spread(mut self, spread: Spread) -> Self {
        self.shape.spread.push(spread);
        self
    }

    /// Over a key, counting pods with its own labels.
    pub fn spread_over(self, key: &str, max_skew: i32) -> Self {
        let own = self.own_labels();
        let own: Vec<(&str, &str)> = own.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        self.spread(express::spread(key, max_skew, &own))
    }

    pub fn zone_spread(self, max_skew: i32) -> Self {
        self.spread_over(ZONE, max_skew)
    }

    pub fn hostname_spread(self, max_skew: i32) -> Self {
        self.spread_over(HOSTNAME, max_skew)
    }

    /// Turns the spread given last into a wish.
    pub fn anyway(mut self) -> Self {
        let last = self.shape.spread.last_mut().expect("a spread came before");
        last.when = WhenUnsatisfiable::ScheduleAnyway;
        self
    }

    pub fn affinity(mut self, key: &str, app: &[(&str, &str)]) -> Self {
        self.shape.required_pod_affinity.push(express::pod_term(key, app));
        self
    }

    pub fn affinity_term(mut self, term: PodTerm) -> Self {
        self.shape.required_pod_affinity.push(term);
        self
    }

    pub fn prefer_affinity(mut self, weight: i32, key: &str, app: &[(&str, &str)]) -> Self {
        let term = express::pod_term(key, app);
        self.shape.preferred_pod_affinity.push(Weighted { weight, term });
        self
    }

    pub fn anti_affinity(mut self, key: &str, app: &[(&str, &str)]) -> Self {
        self.shape.required_pod_anti_affinity.push(express::pod_term(key, app));
        self
    }

    pub fn anti_affinity_term(mut self, term: PodTerm) -> Self {
        self.shape.required_pod_anti_affinity.push(term);
        self
    }

    pub fn prefer_anti_affinity(mut self, weight: i32, key: &str, app: &[(&str, &str)]) -> Self {
        let term = express::pod_term(key, app);
        self.shape.preferred_pod_anti_affinity.push(Weighted { weight, term });
        self
    }

    /// Any value and effect of a key.
    pub fn tolerate(self, key: &str) -> Self {
        self.toleration(key, TolerationOperator::Exists, "", None)
    }

    pub fn toleration(mut self, key: &str, operator: TolerationOperator, value: &str, effect: Option<Effect>) -> Self {
        self.shape.tolerations.push(Toleration { key: key.to_owned(), operator, value: value.to_owned(), effect });
        self
    }

    pub fn port(self, port: u16) -> Self {
        self.port_at("0.0.0.0", port, "TCP")
    }

    pub fn port_at(mut self, ip: &str, port: u16, protocol: &str) -> Self {
        self.shape.host_ports.push(HostPort { ip: ip.into(), port, protocol: protocol.into() });
        self
    }

    pub fn wants_devices(mut self) -> Self {
        self.shape.wants_devices = true;
        self
    }

    fn own_labels(&self) -> Vec<(String, String)> {
        self.shape.labels.clone().into_iter().collect()
    }
}

impl PodBuilder {
    /// `<name>-0` … of one shared shape.
    pub fn replicas(self, count: usize) -> Vec<Pod> {
        let one = self.clone().build();
        let replica = |i: usize| {
            let name: Arc<str> = format!("{}-{i}", self.name).into();
            Pod { uid: format!("uid-{}/{name}", self.namespace).into(), name, ..one.clone() }
        };
        (0..count).map(replica).collect()
    }

    /// Without a creation time of its own the pod gets one from the world: a second after the pod before it.
    pub fn build(self) -> Pod {
        Pod {
            uid: format!("uid-{}/{}", self.namespace, self.name).into(),
            namespace: self.namespace.into(),
            name: self.name.into(),
            created: self.created.unwrap_or(Timestamp::MIN),
            shape: Arc::new(self.shape),
            phase: self.phase,
            terminating: self.terminating,
            node: self.node,
            nominated_node: self.nominated,
            scheduled_reason: self.reason.map(Arc::from),
            unready: self.unready,
            started: self.started,
            owners: self.owners.into(),
            claims: self.claims.into(),
            deletion_cost: self.deletion_cost,
            restarts: self.restarts,
            ready_after: self.ready_after,
        }
    }
}

impl From<PodBuilder> for Vec<Pod> {
    fn from(builder: PodBuilder) -> Self {
        vec![builder.build()]
    }
}

/// The uid that fixtures give to an owner.
pub fn owner_uid(kind: &str, name: &str) -> String {
    format!("uid-{kind}-{name}")
}
