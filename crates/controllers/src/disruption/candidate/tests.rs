use karpenter_api::NillableDuration;
use karpenter_api::conditions;
use karpenter_core::Requirements;
use karpenter_core::requirement::Requirement;
use karpenter_index::{Interner, reduce};
use serde_json::{Value, json};

use super::*;

/// A candidate in few words.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    pub(crate) name: &'static str,
    pub(crate) pool: &'static str,
    pub(crate) price: u64,
    pub(crate) cost: f64,
    pub(crate) consolidatable: bool,
    pub(crate) consolidate_after: &'static str,
    pub(crate) policy: &'static str,
    pub(crate) replicas: Option<i64>,
}

impl Sketch {
    pub(crate) fn named(name: &'static str) -> Self {
        Self {
            name,
            pool: "p",
            price: 1,
            cost: BASE_COST,
            consolidatable: false,
            consolidate_after: "0s",
            policy: "WhenEmpty",
            replicas: None,
        }
    }

    pub(crate) fn candidate(&self) -> Candidate {
        let mut node = k8s_openapi::api::core::v1::Node::default();
        node.metadata.name = Some(self.name.into());
        let mut claim = NodeClaim::default();
        if self.consolidatable {
            claim.conditions_at(Timestamp::UNIX_EPOCH).set_true(conditions::CONSOLIDATABLE);
        }
        let mut pool = NodePool::default();
        pool.metadata.name = Some(self.pool.into());
        pool.spec.disruption.consolidate_after = NillableDuration::parse(self.consolidate_after).unwrap();
        pool.spec.disruption.consolidation_policy = self.policy.into();
        pool.spec.replicas = self.replicas;
        Candidate {
            id: MachineId::Provider(self.name.into()),
            node: Arc::new(node),
            claim: Arc::new(claim),
            pool: Arc::new(pool),
            price: MicroUsd(self.price * 1_000_000),
            cost: self.cost,
            pods: 0,
        }
    }
}

pub(crate) fn named(name: &'static str) -> Candidate {
    Sketch::named(name).candidate()
}

const INITIALIZED: &[(&str, &str)] =
    &[("karpenter.sh/nodepool", "p"), ("karpenter.sh/registered", "true"), ("karpenter.sh/initialized", "true")];

fn machine(labels: &[(&str, &str)], annotations: Value) -> Machine {
    let labels: std::collections::BTreeMap<_, _> = labels.iter().copied().collect();
    let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(json!({
        "metadata": {"name": "node", "labels": labels, "annotations": annotations},
        "spec": {"providerID": "id"},
    }))
    .unwrap();
    let mut claim = NodeClaim::default();
    claim.metadata.name = Some("claim".into());
    claim.status.get_or_insert_default().provider_id = Some("id".into());
    Machine {
        id: MachineId::Provider("id".into()),
        reduced: reduce::node(Some(&node), Some(&claim), None).unwrap().map(Arc::new),
        node: Some(Arc::new(node)),
        claim: Some(Arc::new(claim)),
        marked: false,
    }
}

fn pod(extra: Value) -> Arc<TrackedPod> {
    let mut object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u", "labels": {"app": "web"}},
        "spec": {"containers": [], "nodeName": "node"}, "status": {"phase": "Running"}});
    merge(&mut object, extra);
    let object = serde_json::from_value(object).unwrap();
    Arc::new(reduce::tracked_pod(&object, &mut Interner::default()).unwrap())
}

fn merge(into: &mut Value, extra: Value) {
    match (into, extra) {
        (Value::Object(into), Value::Object(extra)) => {
            for (key, value) in extra {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, extra) => *into = extra,
    }
}

fn owned(api_version: &str, kind: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": "o", "uid": "o"}]}})
}

fn budget(name: &str, allowed: i32) -> Arc<DisruptionBudget> {
    let object = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }))
    .unwrap();
    Arc::new(reduce::disruption_budget(&object))
}

struct World {
    in_queue: bool,
    nominated: bool,
    pods: Vec<Arc<TrackedPod>>,
    pool: bool,
    budgets: Vec<Arc<DisruptionBudget>>,
}

fn world() -> World {
    World { in_queue: false, nominated: false, pods: Vec::new(), pool: true, budgets: Vec::new() }
}

fn types() -> Arc<[Arc<InstanceType>]> {
    let mut requirements = Requirements::new();
    requirements.add(ZONE, Requirement::one("a"));
    requirements.add(CAPACITY_TYPE, Requirement::one("spot"));
    let offering =
        karpenter_core::Offering { requirements, price: MicroUsd(70_000), available: false, reservation: None };
    Arc::from([Arc::new(InstanceType {
        name: "m5.large".into(),
        requirements: Requirements::new(),
        capacity: Default::default(),
        overhead: Default::default(),
        offerings: vec![offering],
    })])
}

fn judge(machine: &Machine, world: &World) -> Result<Candidate, Blocked> {
    let pool = |name: &str| {
        let mut pool = NodePool::default();
        pool.metadata.name = Some(name.into());
        world.pool.then(|| (Arc::new(pool), types()))
    };
    let seen = Seen {
        now: Timestamp::from_second(1000).unwrap(),
        in_queue: world.in_queue,
        nominated: world.nominated,
        pods: &world.pods,
        pool: &pool,
        budgets: &world.budgets,
    };
    candidate(machine, &seen)
}

#[test]
fn the_first_check_that_fails_is_told() {
    // covers: DIS-CAND-01, DIS-CAND-03, DIS-CAND-13, STATE-24
    let whole = || machine(INITIALIZED, json!({}));
    let annotated = |value: &str| machine(INITIALIZED, json!({"karpenter.sh/do-not-disrupt": value}));
    let marked = || {
        let mut machine = whole();
        let mut reduced = karpenter_core::Node::clone(machine.reduced.as_ref().unwrap());
        reduced.deleting = true;
        machine.reduced = Some(Arc::new(reduced));
        machine
    };
    let starting = machine(&INITIALIZED[..2], json!({}));
    let unlabelled = machine(&INITIALIZED[1..], json!({}));
    let nothing = Machine { node: None, claim: None, ..whole() };
    let queued = World { in_queue: true, ..world() };
    let nominated = World { nominated: true, ..world() };
    let poolless = World { pool: false, ..world() };
    for (machine, world, want) in [
        (whole(), world(), None),
        (nothing, queued, Some(Blocked::InQueue)),
        (Machine { claim: None, node: None, ..whole() }, world(), Some(Blocked::Unmanaged)),
        (Machine { node: None, ..starting.clone() }, world(), Some(Blocked::NoNode)),
        (starting, World { nominated: true, ..self::world() }, Some(Blocked::NotInitialized)),
        (marked(), World { nominated: true, ..self::world() }, Some(Blocked::Marked)),
        (annotated("true"), nominated, Some(Blocked::Nominated)),
        (annotated("true"), self::world(), Some(Blocked::Annotated)),
        (annotated("30m"), self::world(), None),
        (unlabelled, self::world(), Some(Blocked::NoPoolLabel)),
        (whole(), poolless, Some(Blocked::NoPool { name: "p".into() })),
    ] {
        assert_eq!(judge(&machine, &world).err(), want);
    }
}

#[test]
fn pods_block_by_annotation_first_and_then_by_budgets() {
    // covers: DIS-CAND-04, LC-POD-12, LC-POD-16, LC-POD-17
    let kept = || pod(json!({"metadata": {"name": "kept", "annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    let ended = || {
        pod(
            json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "status": {"phase": "Failed"}}),
        )
    };
    let stays = || pod(json!({"spec": {"tolerations": [{"operator": "Exists"}]}}));
    let pdb =
        |names: &[&str]| Some(Blocked::Pdb { budgets: names.iter().map(|name| format!("shop/{name}")).collect() });
    let plain = || pod(json!({}));
    for (pods, budgets, want) in [
        (vec![plain()], vec![], None),
        (vec![plain(), kept()], vec![budget("b", 0)], Some(Blocked::Pod { pod: "shop/kept".into() })),
        (vec![ended()], vec![], None),
        (vec![plain()], vec![budget("b", 0)], pdb(&["b"])),
        (vec![plain(), plain(), plain()], vec![budget("b", 1)], None),
        (vec![plain()], vec![budget("b", 5), budget("c", 5)], pdb(&["b", "c"])),
        (vec![stays()], vec![budget("b", 0)], None),
        (vec![ended()], vec![budget("b", 0)], None),
    ] {
        let world = World { pods, budgets, ..world() };
        assert_eq!(judge(&machine(INITIALIZED, json!({})), &world).err(), want);
    }
}

#[test]
fn a_node_is_empty_when_nothing_on_it_is_worth_moving() {
    // covers: DIS-CAND-08, DIS-CAND-09, DIS-EMPTY-05, DIS-EMPTY-07
    let terminating = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:16:00Z"}});
    let leaving = |kind: &str| {
        let mut object = owned("apps/v1", kind);
        merge(&mut object, terminating.clone());
        pod(object)
    };
    for (pods, empty) in [
        (vec![], true),
        (vec![pod(json!({}))], false),
        (vec![pod(owned("apps/v1", "DaemonSet"))], true),
        (vec![pod(owned("v1", "Node"))], true),
        (vec![pod(json!({"status": {"phase": "Succeeded"}}))], true),
        (vec![leaving("ReplicaSet")], true),
        (vec![leaving("StatefulSet")], false),
        (vec![pod(json!({"spec": {"priority": -33_554_432}}))], true),
    ] {
        let found = judge(&machine(INITIALIZED, json!({})), &World { pods, ..world() }).unwrap();
        assert_eq!(found.is_empty(), empty, "{}", found.cost);
    }
}

#[test]
fn the_price_is_that_of_its_offering_even_if_it_is_sold_out() {
    // covers: DIS-CAND-06, DIS-CAND-08
    let labels = |zone: &'static str, kind: &'static str| {
        let mut labels = INITIALIZED.to_vec();
        labels.extend([(ZONE, zone), (CAPACITY_TYPE, "spot"), (INSTANCE_TYPE, kind)]);
        labels
    };
    for (labels, want) in [
        (labels("a", "m5.large"), 70_000),
        (labels("b", "m5.large"), 0),
        (labels("a", "unknown"), 0),
        (INITIALIZED.to_vec(), 0),
    ] {
        assert_eq!(judge(&machine(&labels, json!({})), &world()).unwrap().price, MicroUsd(want), "{labels:?}");
    }
}

#[test]
fn eviction_costs_grow_with_deletion_cost_and_priority_within_bounds() {
    // covers: LC-POD-14
    let cost = |annotation: &str, priority: i32| {
        let annotations = json!({"controller.kubernetes.io/pod-deletion-cost": annotation});
        eviction_cost(&pod(json!({"metadata": {"annotations": annotations}, "spec": {"priority": priority}})))
    };
    for (annotation, priority, want) in [
        ("0", 0, 1.0),
        ("134217728", 0, 2.0),
        ("-134217728", 0, 0.0),
        ("0", 33_554_432, 2.0),
        ("0", 2_000_000_000, 10.0),
        ("-2147483647", -2_147_483_648, -10.0),
        ("much", 0, 1.0),
    ] {
        assert!((cost(annotation, priority) - want).abs() < 1e-6, "{annotation} {priority}");
    }
}
