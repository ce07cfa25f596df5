use karpenter_core::node::Stage;
use serde_json::{Value, json};

mod unread;

use super::*;
use crate::machine::MachineId;

const CLASS: NodeClassKind =
    NodeClassKind { group: "karpenter.k8s.aws", version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" };

/// An index and the version of its next object.
struct Cluster {
    index: Index,
    version: std::cell::Cell<u64>,
}

impl Cluster {
    /// Everything has been listed, and there was nothing.
    fn new() -> Self {
        let cluster = Self::unlisted();
        for kind in Kind::ALL {
            cluster.index.list(kind, Vec::new(), Vec::new(), 1);
        }
        cluster
    }

    fn unlisted() -> Self {
        let options = Options {
            settings: Settings::default(),
            vocabulary: Arc::new(Vocabulary::kubernetes()),
            node_class: CLASS,
            features: Features::default(),
            plan_window: Duration::from_secs(20),
        };
        Self { index: Index::new(options), version: std::cell::Cell::new(10) }
    }

    fn object(&self, kind: Kind, mut value: Value) -> Object {
        self.version.set(self.version.get() + 1);
        value["metadata"]["resourceVersion"] = json!(self.version.get().to_string());
        Object::decode(kind, &value.to_string()).unwrap()
    }

    /// As a watch tells it.
    fn tell(&self, kind: Kind, value: Value) -> Option<Change> {
        let change = self.index.apply(self.object(kind, value));
        self.index.advance(kind, self.version.get());
        change
    }

    fn forget(&self, kind: Kind, key: &str) -> Option<Change> {
        self.version.set(self.version.get() + 1);
        let key = match key.split_once('/') {
            Some((namespace, name)) => Key::new(namespace, name),
            None => Key::cluster(key),
        };
        self.index.remove(kind, &key, self.version.get())
    }

    fn world(&self) -> Arc<World> {
        self.world_at(0)
    }

    fn world_at(&self, second: i64) -> Arc<World> {
        self.index.snapshot(Timestamp::from_second(second).unwrap(), Vec::new())
    }

    /// The nodes of a snapshot, by name: `name stage deleting`.
    fn nodes(&self) -> Vec<String> {
        let world = self.world();
        let mut all: Vec<String> = world
            .nodes
            .iter()
            .map(|node| format!("{} {:?}{}", node.name, node.stage, if node.deleting { " deleting" } else { "" }))
            .collect();
        all.sort();
        all
    }

    /// Where a snapshot shows pods: `name on node`.
    fn places(&self) -> Vec<String> {
        self.places_at(0)
    }

    fn places_at(&self, second: i64) -> Vec<String> {
        let world = self.world_at(second);
        let mut all: Vec<String> = world
            .pods
            .iter()
            .map(|pod| match (&pod.node, &pod.nominated_node) {
                (Some(node), _) => format!("{} on {node}", pod.name),
                (None, Some(node)) => format!("{} hopes for {node}", pod.name),
                (None, None) => format!("{} waits", pod.name),
            })
            .collect();
        all.sort();
        all
    }

    fn usage(&self, pool: &str) -> String {
        let usage = self.index.pool_usage(pool);
        usage.iter().map(|(name, quantity)| format!("{name} {quantity}")).collect::<Vec<_>>().join(", ")
    }
}

fn claim(name: &str, id: &str) -> Value {
    let status = if id.is_empty() { json!({}) } else { json!({"providerID": id, "capacity": {"cpu": "4"}}) };
    json!({"metadata": {"name": name, "uid": name, "labels": {"karpenter.sh/nodepool": "p"}},
        "spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": status})
}

fn node(name: &str, id: &str, stage: &str) -> Value {
    let mut labels = json!({"karpenter.sh/nodepool": "p", "node.kubernetes.io/instance-type": "m5.large"});
    if stage != "launched" {
        labels["karpenter.sh/registered"] = json!("true");
    }
    if stage == "initialized" {
        labels["karpenter.sh/initialized"] = json!("true");
    }
    json!({"metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"providerID": id},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}})
}

fn pod(name: &str, on: &str) -> Value {
    let mut pod = json!({"metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
    if !on.is_empty() {
        pod["spec"]["nodeName"] = json!(on);
    }
    pod
}

fn with(mut object: Value, path: &str, value: Value) -> Value {
    *object.pointer_mut(path).unwrap() = value;
    object
}

fn provider(id: &str) -> MachineId {
    MachineId::Provider(id.into())
}

#[test]
fn nothing_is_decided_before_everything_was_listed_and_every_node_is_known() {
    // covers: STATE-01, STATE-03, STATE-04
    let cluster = Cluster::unlisted();
    for kind in cluster.index.kinds() {
        assert!(!cluster.index.is_synced(), "{kind:?} is not listed yet");
        cluster.index.list(kind, Vec::new(), Vec::new(), 1);
    }
    assert!(cluster.index.is_synced());
    for (node, known) in [
        (json!({"metadata": {"name": "n"}}), true),
        (json!({"metadata": {"name": "n", "labels": {"karpenter.sh/nodepool": "p"}}}), false),
        (with(node("n", "id", "launched"), "/metadata/labels", json!({"karpenter.sh/nodepool": "p"})), false),
        (node("n", "id", "launched"), true),
    ] {
        let cluster = Cluster::unlisted();
        let object = cluster.object(Kind::Node, node.clone());
        cluster.index.list(Kind::Node, vec![object], Vec::new(), 1);
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Node) {
            cluster.index.list(kind, Vec::new(), Vec::new(), 1);
        }
        assert_eq!(cluster.index.is_synced(), known, "{node}");
    }
}

#[test]
fn the_kind_of_node_class_decides_what_is_ours() {
    // covers: LC-GEN-01
    let cluster = Cluster::new();
    for (at, (group, kind, ours)) in [
        ("karpenter.k8s.aws", "EC2NodeClass", true),
        ("karpenter.k8s.aws", "OtherNodeClass", false),
        ("eks.amazonaws.com", "EC2NodeClass", false),
        ("eks.amazonaws.com", "NodeClass", false),
    ]
    .into_iter()
    .enumerate()
    {
        let reference = json!({"group": group, "kind": kind, "name": "default"});
        let (name, id) = (format!("c-{at}"), format!("aws:///a/i-{at}"));
        cluster.tell(Kind::NodeClaim, with(claim(&name, &id), "/spec/nodeClassRef", reference.clone()));
        let pool = json!({"metadata": {"name": name}, "spec": {"template": {"spec":
            {"requirements": [], "nodeClassRef": reference}}}});
        cluster.tell(Kind::NodePool, pool);
        let (claim, pool) = (cluster.index.node_claim(&name).unwrap(), cluster.index.node_pool(&name).unwrap());
        assert_eq!(cluster.index.is_managed(&claim), ours, "{group} {kind}");
        assert_eq!(cluster.index.is_managed_pool(&pool), ours, "{group} {kind}");
        // What is not ours is no machine, and takes nothing of a pool's limits.
        assert_eq!(cluster.index.claims_of(&id).len(), usize::from(ours), "{group} {kind}");
        assert_eq!(cluster.usage("p"), "cpu 4, nodes 1");
    }
}

#[test]
fn once_complete_only_unlaunched_claims_hold_decisions_up() {
    // covers: STATE-01, STATE-02
    let cluster = Cluster::new();
    assert!(cluster.index.is_synced());
    cluster.tell(Kind::Node, json!({"metadata": {"name": "n", "labels": {"karpenter.sh/nodepool": "p"}}}));
    assert!(cluster.index.is_synced(), "a Node that is not known yet delays the first time only");
    cluster.tell(Kind::NodeClaim, claim("c", ""));
    assert!(!cluster.index.is_synced());
    assert_eq!(cluster.index.unlaunched(), ["c".into()]);
    cluster.tell(Kind::NodeClaim, claim("c", "id"));
    assert!(cluster.index.is_synced());
    cluster.tell(Kind::NodeClaim, claim("d", ""));
    cluster.forget(Kind::NodeClaim, "d");
    assert!(cluster.index.is_synced(), "deleted before it was launched");
    let foreign = with(claim("e", ""), "/spec/nodeClassRef/kind", json!("Other"));
    cluster.tell(Kind::NodeClaim, foreign);
    assert!(cluster.index.is_synced(), "somebody else's");
}

#[test]
fn an_answer_that_comes_after_the_end_brings_nothing_back() {
    // covers: STATE-07
    let cluster = Cluster::new();
    let answer = cluster.object(Kind::NodeClaim, claim("c", ""));
    let later = cluster.object(Kind::NodeClaim, claim("c", ""));
    assert!(cluster.index.apply(later).is_some());
    cluster.forget(Kind::NodeClaim, "c");
    assert!(cluster.index.apply(answer).is_none());
    assert!(cluster.index.node_claim("c").is_none());
    assert!(cluster.index.is_synced());
    // The same when a list told that it is gone.
    let answer = cluster.object(Kind::NodeClaim, claim("d", ""));
    cluster.index.list(Kind::NodeClaim, Vec::new(), Vec::new(), cluster.version.get() + 5);
    assert!(cluster.index.apply(answer).is_none());
}

#[test]
fn a_node_and_a_claim_with_one_provider_id_are_one_machine() {
    // covers: STATE-09, STATE-10, STATE-11, LC-GEN-03
    let cluster = Cluster::new();
    cluster.tell(Kind::NodeClaim, claim("same", "id"));
    assert_eq!(cluster.nodes(), ["same Launched"]);
    cluster.tell(Kind::Node, node("same", "id", "initialized"));
    assert_eq!(cluster.nodes(), ["same Initialized"], "also when both have one name");
    cluster.forget(Kind::NodeClaim, "same");
    assert_eq!(cluster.nodes(), ["same Unmanaged"], "the other half stays");
    cluster.tell(Kind::NodeClaim, claim("again", "id"));
    assert_eq!(cluster.nodes(), ["same Initialized"]);
    cluster.forget(Kind::Node, "same");
    assert_eq!(cluster.nodes(), ["again Launched"]);
    cluster.forget(Kind::NodeClaim, "again");
    assert!(cluster.nodes().is_empty());
    cluster.tell(Kind::Node, json!({"metadata": {"name": "bare"}}));
    assert_eq!(cluster.nodes(), ["bare Unmanaged"], "by its name");
    cluster.tell(Kind::Node, json!({"metadata": {"name": "bare"}, "spec": {"providerID": "late"}}));
    assert_eq!(cluster.nodes(), ["bare Unmanaged"], "the old entry is gone");
    assert_eq!(cluster.index.machines().len(), 1);
    assert!(cluster.index.nodes_of("").is_empty(), "an empty id matches nothing");
}

#[test]
fn until_it_registers_a_node_is_what_its_claim_says() {
    // covers: STATE-12, SCH-EXIST-06
    let cluster = Cluster::new();
    cluster.tell(Kind::NodeClaim, claim("claim", "id"));
    cluster.tell(Kind::Node, node("node", "id", "launched"));
    cluster.tell(Kind::Pod, pod("daemon", "node"));
    assert_eq!(cluster.nodes(), ["claim Launched"]);
    assert_eq!(cluster.places(), ["daemon on claim"], "pods are where their machine is shown");
    cluster.tell(Kind::Node, node("node", "id", "registered"));
    assert_eq!(cluster.nodes(), ["node Registered"]);
    assert_eq!(cluster.places(), ["daemon on node"]);
}

#[test]
fn temporary_taints_and_missing_resources_are_looked_through_until_initialized() {
    // covers: STATE-13, STATE-14
    let cluster = Cluster::new();
    let mut object = claim("claim", "id");
    object["spec"]["startupTaints"] = json!([{"key": "start", "effect": "NoSchedule"}]);
    object["status"]["capacity"] = json!({"cpu": "4", "gpu": "1"});
    cluster.tell(Kind::NodeClaim, object);
    let taints = json!([{"key": "start", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready",
        "effect": "NoSchedule"}, {"key": "own", "effect": "NoSchedule"}]);
    for (stage, want, gpu) in
        [("registered", vec!["own"], "1"), ("initialized", vec!["start", "node.kubernetes.io/not-ready", "own"], "0")]
    {
        let mut object = node("node", "id", stage);
        object["spec"]["taints"] = taints.clone();
        object["status"]["capacity"] = json!({"cpu": "8", "gpu": "0"});
        cluster.tell(Kind::Node, object);
        let world = cluster.world();
        let keys: Vec<&str> = world.nodes[0].taints.iter().map(|taint| taint.key.as_str()).collect();
        assert_eq!(keys, want, "{stage}");
        assert_eq!(world.nodes[0].capacity.get("cpu"), "8".parse().unwrap());
        assert_eq!(world.nodes[0].capacity.get("gpu"), gpu.parse().unwrap(), "{stage}");
    }
}

#[test]
fn pods_count_where_they_are_bound_until_they_are_gone() {
    // covers: STATE-15, STATE-16, STATE-17, STATE-19
    let cluster = Cluster::new();
    cluster.tell(Kind::Pod, pod("early", "a"));
    assert_eq!(cluster.places(), ["early on a"], "its Node is not known yet");
    for name in ["a", "b"] {
        cluster.tell(Kind::NodeClaim, claim(&format!("claim-{name}"), name));
        cluster.tell(Kind::Node, node(name, name, "initialized"));
    }
    cluster.tell(Kind::Pod, with(pod("early", "a"), "/metadata/uid", json!("again")));
    assert_eq!(cluster.index.pods_on("a").len(), 1);
    cluster.tell(Kind::NodeClaim, claim("claim-a", "a"));
    cluster.tell(Kind::Node, node("a", "a", "initialized"));
    assert_eq!(cluster.index.pods_on("a").len(), 1, "updates of the node keep its pods");
    let moved = with(pod("early", "b"), "/metadata/uid", json!("third"));
    cluster.tell(Kind::Pod, moved.clone());
    assert!(cluster.index.pods_on("a").is_empty(), "the same name on another node");
    assert_eq!(cluster.places(), ["early on b"]);
    let mut leaving = moved;
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.tell(Kind::Pod, leaving);
    assert_eq!(cluster.places(), ["early on b"], "terminating pods still count");
    cluster.forget(Kind::Pod, "default/early");
    assert!(cluster.places().is_empty());
    assert!(cluster.index.pods_on("b").is_empty());
}

#[test]
fn marks_deletion_and_termination_take_a_machine_out() {
    // covers: STATE-20, STATE-21, STATE-22
    let cluster = Cluster::new();
    cluster.tell(Kind::NodeClaim, claim("c", "id"));
    cluster.tell(Kind::Node, node("n", "id", "initialized"));
    cluster.index.mark(&[provider("id"), provider("unknown")]);
    assert_eq!(cluster.nodes(), ["n Initialized deleting"]);
    assert!(!cluster.index.is_marked(&provider("unknown")));
    cluster.tell(Kind::Node, node("n", "id", "initialized"));
    assert_eq!(cluster.nodes(), ["n Initialized deleting"], "a mark survives updates");
    let mut deleting = claim("c", "id");
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.tell(Kind::NodeClaim, deleting);
    cluster.index.unmark(&[provider("id")]);
    assert_eq!(cluster.nodes(), ["n Initialized deleting"], "only the command's mark is lifted");
    let mut terminating = claim("c", "id");
    terminating["status"]["conditions"] = json!([{"type": "InstanceTerminating", "status": "True", "reason": "", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    cluster.tell(Kind::NodeClaim, terminating);
    assert_eq!(cluster.nodes(), ["n Initialized deleting"]);
    cluster.tell(Kind::NodeClaim, claim("c", "id"));
    assert_eq!(cluster.nodes(), ["n Initialized"]);
    cluster.forget(Kind::NodeClaim, "c");
    let mut going = node("n", "id", "initialized");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.tell(Kind::Node, going);
    assert_eq!(cluster.nodes(), ["n Unmanaged deleting"], "without a claim the Node's own end counts");
}

#[test]
fn nominations_last_their_time_and_are_never_shortened() {
    // covers: STATE-23, STATE-25, SCH-EXIST-09
    let at = |second| Timestamp::from_second(second).unwrap();
    let cluster = Cluster::new();
    let id = provider("id");
    cluster.index.nominate(&id, at(20));
    assert!(!cluster.index.is_nominated(&id, at(0)), "there is no such machine");
    cluster.tell(Kind::NodeClaim, claim("c", "id"));
    cluster.index.nominate(&id, at(20));
    cluster.index.nominate(&id, at(10));
    cluster.tell(Kind::Node, node("n", "id", "registered"));
    cluster.tell(Kind::NodeClaim, claim("c", "id"));
    assert!(cluster.index.is_nominated(&id, at(19)));
    assert!(!cluster.index.is_nominated(&id, at(20)));
    cluster.forget(Kind::Node, "n");
    cluster.forget(Kind::NodeClaim, "c");
    cluster.tell(Kind::NodeClaim, claim("c", "id"));
    assert!(!cluster.index.is_nominated(&id, at(19)), "it went with the machine");
}

#[test]
fn a_nomination_is_over_when_its_pods_have_moved_and_nobody_waits() {
    let now = Timestamp::from_second(1).unwrap();
    let cluster = Cluster::new();
    let (from, to) = (provider("from"), provider("to"));
    for (name, id) in [("a", "from"), ("b", "to")] {
        cluster.tell(Kind::NodeClaim, claim(name, id));
        cluster.tell(Kind::Node, node(name, id, "initialized"));
    }
    cluster.tell(Kind::Pod, pod("old", "a"));
    cluster.index.mark(std::slice::from_ref(&from));
    cluster.index.nominate_for(&to, Timestamp::from_second(20).unwrap(), &[(Key::new("default", "old"), "old".into())]);
    let nominated = || cluster.index.is_nominated(&to, now);
    assert!(nominated(), "it has not left yet");
    cluster.tell(Kind::Pod, pod("new", ""));
    cluster.forget(Kind::Pod, "default/old");
    assert!(nominated(), "its successor waits");
    cluster.tell(Kind::Pod, pod("new", "b"));
    assert!(!nominated());
    cluster.index.nominate_for(&to, Timestamp::from_second(20).unwrap(), &[(Key::new("default", "new"), "new".into())]);
    assert!(!nominated(), "it is there already");
    let waited_for = cluster.index.state().nominated[&to].pods.keys().cloned().collect::<Vec<_>>();
    assert_eq!(waited_for, [Key::new("default", "new")], "who is gone is forgotten");
}

#[test]
fn usage_is_the_sum_of_machines_that_stay() {
    // covers: STATE-26, STATE-27, NP-COUNT-03
    let cluster = Cluster::new();
    cluster.tell(Kind::NodeClaim, claim("a", ""));
    assert_eq!(cluster.usage("p"), "", "nothing is launched yet");
    cluster.tell(Kind::NodeClaim, claim("a", "a"));
    cluster.tell(Kind::NodeClaim, claim("b", "b"));
    assert_eq!(cluster.usage("p"), "cpu 8, nodes 2");
    let mut smaller = node("node-a", "a", "initialized");
    smaller["status"]["capacity"] = json!({"cpu": "3"});
    cluster.tell(Kind::Node, smaller.clone());
    cluster.tell(Kind::Node, smaller);
    assert_eq!(cluster.usage("p"), "cpu 7, nodes 2", "an initialized node counts as it is");
    cluster.index.mark(&[provider("a")]);
    assert_eq!(cluster.usage("p"), "cpu 4, nodes 1");
    cluster.index.unmark(&[provider("a")]);
    assert_eq!(cluster.usage("p"), "cpu 7, nodes 2");
    cluster.tell(Kind::NodeClaim, claim("b", "other"));
    assert_eq!(cluster.usage("p"), "cpu 7, nodes 2", "another provider id is another machine, not one more");
    let relabelled = with(claim("b", "other"), "/metadata/labels", json!({"karpenter.sh/nodepool": "q"}));
    cluster.tell(Kind::NodeClaim, relabelled);
    assert_eq!((cluster.usage("p"), cluster.usage("q")), ("cpu 3, nodes 1".into(), "cpu 4, nodes 1".into()));
    cluster.forget(Kind::NodeClaim, "b");
    assert_eq!(cluster.usage("q"), "");
    assert!(!cluster.index.state().usage.contains_key("q"), "forgotten when all is zero");
}

#[test]
fn what_consolidation_should_look_at_again_moves_its_clock() {
    // covers: STATE-28, STATE-29
    let cluster = Cluster::new();
    let moved = |what: &str, moves: bool, act: &dyn Fn()| {
        let before = cluster.index.unsettled();
        act();
        assert_eq!(cluster.index.unsettled() != before, moves, "{what}");
    };
    let tell = |kind: Kind, value: Value| {
        cluster.tell(kind, value);
    };
    moved("a machine appears", true, &|| tell(Kind::NodeClaim, claim("c", "id")));
    moved("nothing new", false, &|| tell(Kind::NodeClaim, claim("c", "id")));
    moved("its other half", true, &|| tell(Kind::Node, node("n", "id", "registered")));
    moved("initialized", true, &|| tell(Kind::Node, node("n", "id", "initialized")));
    moved("a heartbeat", false, &|| tell(Kind::Node, node("n", "id", "initialized")));
    let mut quiet = claim("c", "id");
    quiet["status"]["conditions"] = json!([{"type": "Consolidatable", "status": "True", "reason": "", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    moved("consolidatable", true, &|| tell(Kind::NodeClaim, quiet.clone()));
    moved("still", false, &|| tell(Kind::NodeClaim, quiet.clone()));
    moved("marked", true, &|| cluster.index.mark(&[provider("id")]));
    moved("unmarked", true, &|| cluster.index.unmark(&[provider("id")]));
    let mut ending = quiet.clone();
    ending["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "InstanceTerminating", "status": "True",
        "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    moved("its instance terminates", true, &|| tell(Kind::NodeClaim, ending.clone()));
    tell(Kind::NodeClaim, quiet.clone());
    moved("a pod waits", false, &|| tell(Kind::Pod, pod("p", "")));
    moved("is bound", true, &|| tell(Kind::Pod, pod("p", "n")));
    moved("runs", false, &|| tell(Kind::Pod, with(pod("p", "n"), "/status/phase", json!("Running"))));
    moved("has ended", true, &|| tell(Kind::Pod, with(pod("p", "n"), "/status/phase", json!("Failed"))));
    let mut kept = with(pod("p", "n"), "/status/phase", json!("Failed"));
    kept["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    moved("is protected", true, &|| tell(Kind::Pod, kept.clone()));
    moved("is gone", true, &|| {
        cluster.forget(Kind::Pod, "default/p");
    });
    let pool = |generation: i64| {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        json!({"metadata": {"name": "p", "generation": generation},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}}})
    };
    moved("a pool", true, &|| tell(Kind::NodePool, pool(1)));
    moved("its status", false, &|| tell(Kind::NodePool, pool(1)));
    moved("its spec", true, &|| tell(Kind::NodePool, pool(2)));
    moved("a budget", true, &|| {
        tell(Kind::PodDisruptionBudget, json!({"metadata": {"name": "b", "namespace": "default"}, "spec": {}}));
    });
    moved("prices", true, &|| cluster.index.unsettle());
}

/// A claim whose node is complete since a second.
fn complete(name: &str, id: &str, since: i64) -> Value {
    let mut claim = claim(name, id);
    let since = Timestamp::from_second(since).unwrap().to_string();
    claim["status"]["conditions"] = json!([{"type": "Initialized", "status": "True", "reason": "Initialized",
        "message": "", "lastTransitionTime": since}]);
    claim
}

#[test]
fn planned_pods_are_shown_on_their_machine_until_it_had_time_to_take_them() {
    // covers: LC-POD-13
    let cluster = Cluster::new();
    for name in ["one", "two"] {
        cluster.tell(Kind::Pod, pod(name, ""));
    }
    cluster.tell(Kind::NodeClaim, claim("c", ""));
    let key = |name: &str| (Key::new("default", name), Arc::from(name));
    cluster.index.plan("c", &[key("one"), key("two"), key("unknown")]);
    assert_eq!(cluster.places(), ["one waits", "two waits"], "there is no machine yet");
    cluster.tell(Kind::NodeClaim, claim("c", "id"));
    assert_eq!(cluster.places(), ["one on c", "two on c"]);
    cluster.tell(Kind::Node, node("n", "id", "registered"));
    assert_eq!(cluster.places(), ["one on n", "two on n"]);
    cluster.tell(Kind::Node, node("n", "id", "initialized"));
    cluster.tell(Kind::NodeClaim, complete("c", "id", 0));
    assert_eq!(cluster.places_at(19), ["one on n", "two on n"], "whether kube-scheduler cleared the nomination or not");
    let mut hopeful = pod("two", "");
    hopeful["status"]["nominatedNodeName"] = json!("n");
    cluster.tell(Kind::Pod, hopeful);
    assert_eq!(cluster.places_at(19), ["one on n", "two on n"]);
    cluster.tell(Kind::Pod, pod("one", "n"));
    let planned: Vec<_> = cluster.index.planned_for("c").iter().map(|pod| pod.pod.name.clone()).collect();
    assert_eq!(planned, ["two".into()], "one has its place");
    cluster.tell(Kind::Pod, pod("two", ""));
    assert_eq!(cluster.places_at(20), ["one on n", "two waits"], "it cannot be bound there");
    assert!(cluster.index.planned_claim(&Key::new("default", "two")).is_none());
}

#[test]
fn a_plan_lasts_until_all_its_machines_had_time_and_pods_alike_may_swap() {
    // covers: LC-POD-13
    let cluster = Cluster::new();
    let key = |name: &str| (Key::new("default", name), Arc::from(name));
    for name in ["one", "two", "three"] {
        cluster.tell(Kind::Pod, pod(name, ""));
    }
    cluster.index.begin_plan();
    for (name, id, pods) in [("c", "id", vec![key("one"), key("two")]), ("d", "jd", vec![key("three")])] {
        cluster.tell(Kind::NodeClaim, claim(name, id));
        cluster.index.plan(name, &pods);
    }
    cluster.tell(Kind::Node, node("n", "id", "initialized"));
    cluster.tell(Kind::NodeClaim, complete("c", "id", 0));
    assert_eq!(cluster.places_at(600), ["one on n", "three on d", "two on n"], "the other one is still coming");
    cluster.tell(Kind::Pod, pod("three", "n"));
    assert_eq!(cluster.places_at(600), ["one on d", "three on n", "two on n"], "one for another just like it");
    cluster.tell(Kind::Node, node("m", "jd", "initialized"));
    cluster.tell(Kind::NodeClaim, complete("d", "jd", 700));
    assert_eq!(cluster.places_at(719), ["one on m", "three on n", "two on n"]);
    cluster.index.begin_plan();
    assert_eq!(cluster.places_at(720), ["one waits", "three on n", "two waits"]);
}

#[test]
fn a_plan_ends_with_its_claim_its_machine_or_its_room() {
    // covers: LC-POD-13
    let setup = || {
        let cluster = Cluster::new();
        for name in ["one", "two"] {
            cluster.tell(Kind::Pod, pod(name, ""));
        }
        cluster.tell(Kind::NodeClaim, complete("c", "id", 0));
        let mut node = node("n", "id", "initialized");
        node["status"]["allocatable"]["pods"] = json!("10");
        cluster.tell(Kind::Node, node);
        let key = |name: &str| (Key::new("default", name), Arc::from(name));
        cluster.index.plan("c", &[key("one"), key("two")]);
        assert_eq!(cluster.places(), ["one on n", "two on n"]);
        cluster
    };
    let cluster = setup();
    cluster.forget(Kind::NodeClaim, "c");
    assert_eq!(cluster.places(), ["one waits", "two waits"]);

    let cluster = setup();
    cluster.index.mark(&[provider("id")]);
    assert_eq!(cluster.places(), ["one waits", "two waits"]);

    let cluster = setup();
    cluster.tell(Kind::Pod, pod("stranger", "n"));
    assert_eq!(cluster.places(), ["one on n", "stranger on n", "two on n"], "three of three");
    cluster.tell(Kind::Pod, pod("another", "n"));
    assert_eq!(cluster.places(), ["another on n", "one on n", "stranger on n", "two waits"]);
    cluster.tell(Kind::Pod, pod("one", "n"));
    assert_eq!(cluster.places(), ["another on n", "one on n", "stranger on n", "two waits"]);
}

#[test]
fn a_nomination_counts_while_its_node_is_coming_and_for_nothing_when_it_is_gone() {
    // covers: LC-POD-13, SCH-POD-04
    let cluster = Cluster::new();
    let mut hopeful = pod("p", "");
    hopeful["status"]["nominatedNodeName"] = json!("n");
    cluster.tell(Kind::Pod, hopeful.clone());
    let provisionable = || {
        let tracked = cluster.index.pod(&Key::new("default", "p")).unwrap();
        cluster.index.is_provisionable(&tracked.pod)
    };
    assert_eq!((cluster.places(), provisionable()), (vec!["p waits".to_owned()], true), "no such node");
    cluster.tell(Kind::NodeClaim, claim("c", "id"));
    cluster.tell(Kind::Node, node("n", "id", "launched"));
    assert_eq!((cluster.places(), provisionable()), (vec!["p on c".to_owned()], true));
    cluster.tell(Kind::Node, node("n", "id", "registered"));
    assert_eq!((cluster.places(), provisionable()), (vec!["p on n".to_owned()], true));
    cluster.tell(Kind::Node, node("n", "id", "initialized"));
    assert_eq!((cluster.places(), provisionable()), (vec!["p hopes for n".to_owned()], false), "as if it preempted");
    cluster.index.mark(&[provider("id")]);
    assert!(provisionable(), "going away");
    cluster.forget(Kind::Node, "n");
    cluster.forget(Kind::NodeClaim, "c");
    assert_eq!((cluster.places(), provisionable()), (vec!["p waits".to_owned()], true));
    cluster.tell(Kind::Node, json!({"metadata": {"name": "n"}}));
    assert_eq!((cluster.places(), provisionable()), (vec!["p hopes for n".to_owned()], false), "somebody else's");
}

#[test]
fn a_list_removes_what_it_does_not_name() {
    // covers: STATE-08
    let cluster = Cluster::new();
    for name in ["a", "b"] {
        cluster.tell(Kind::Pod, pod(name, ""));
    }
    let newer = cluster.object(Kind::Pod, pod("c", ""));
    let listed = vec![cluster.object(Kind::Pod, pod("a", "n"))];
    let at = cluster.version.get();
    let younger = cluster.object(Kind::Pod, pod("d", ""));
    assert!(cluster.index.apply(younger).is_some());
    let changes = cluster.index.list(Kind::Pod, listed, Vec::new(), at);
    let told: Vec<String> =
        changes.iter().map(|change| format!("{} {}", change.key, change.pod().unwrap().new.is_some())).collect();
    assert_eq!(told, ["default/a true", "default/b false"]);
    assert!(changes.iter().all(|change| !change.initial), "the first list is past");
    assert_eq!(cluster.places(), ["a on n", "d waits"], "what came after the list stays");
    assert!(cluster.index.apply(newer).is_none(), "told by the list to be gone");
}

#[test]
fn what_is_done_without_is_gone_until_it_is_listed_again() {
    let cluster = Cluster::new();
    cluster.tell(Kind::Pod, pod("a", ""));
    let late = cluster.object(Kind::Pod, pod("b", ""));
    cluster.tell(Kind::Pod, pod("c", ""));
    let gone: Vec<String> = cluster.index.go_without(Kind::Pod).iter().map(|one| one.key.to_string()).collect();
    assert_eq!(gone, ["default/a", "default/c"]);
    assert!(cluster.places().is_empty() && cluster.index.has_listed(Kind::Pod));
    assert!(cluster.index.apply(late).is_none(), "the watch had come past it");
    // It may be read again.
    let listed = vec![cluster.object(Kind::Pod, pod("a", ""))];
    cluster.index.list(Kind::Pod, listed, Vec::new(), cluster.version.get());
    cluster.tell(Kind::Pod, pod("d", ""));
    assert_eq!(cluster.places(), ["a waits", "d waits"]);
}

#[test]
fn a_snapshot_is_what_it_was_however_things_go_on() {
    let cluster = Cluster::new();
    cluster.tell(Kind::Pod, pod("a", ""));
    cluster.tell(Kind::PersistentVolumeClaim, json!({"metadata": {"name": "v", "namespace": "default"}, "spec": {}}));
    let first = cluster.world();
    cluster.tell(Kind::Pod, pod("a", "n"));
    cluster.tell(Kind::Pod, pod("b", ""));
    cluster.forget(Kind::PersistentVolumeClaim, "default/v");
    assert_eq!((first.pods.len(), first.pods[0].node.is_none(), first.storage.claims.len()), (1, true, 1));
    let second = cluster.world();
    assert_eq!((second.pods.len(), second.storage.claims.len()), (2, 0));
    let place = Arc::as_ptr(&second);
    drop((first, second));
    cluster.forget(Kind::Pod, "default/a");
    let third = cluster.world();
    assert_eq!(Arc::as_ptr(&third), place, "nobody holds the last one, so nothing is copied");
    assert_eq!(third.pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn stages_follow_the_nodes_labels() {
    let cluster = Cluster::new();
    cluster.tell(Kind::NodeClaim, claim("c", "id"));
    for (stage, want) in
        [("launched", Stage::Launched), ("registered", Stage::Registered), ("initialized", Stage::Initialized)]
    {
        cluster.tell(Kind::Node, node("n", "id", stage));
        assert_eq!(cluster.index.machine(&provider("id")).unwrap().reduced.unwrap().stage, want);
    }
}

#[test]
fn attachments_are_found_by_their_node() {
    let cluster = Cluster::new();
    let attachment = |node: &str| {
        json!({"metadata": {"name": "va"}, "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node,
            "source": {"persistentVolumeName": "pv"}}})
    };
    cluster.tell(Kind::VolumeAttachment, attachment("a"));
    assert_eq!(cluster.index.attachments_on("a")[0].volume.as_deref(), Some("pv"));
    cluster.tell(Kind::VolumeAttachment, attachment("b"));
    assert!(cluster.index.attachments_on("a").is_empty());
    cluster.forget(Kind::VolumeAttachment, "va");
    assert!(cluster.index.attachments_on("b").is_empty());
}

#[test]
fn how_many_volumes_a_node_takes_is_what_its_csi_node_says() {
    // covers: STATE-18
    let cluster = Cluster::new();
    cluster.tell(Kind::Node, json!({"metadata": {"name": "n"}}));
    let csi = |count: i32| {
        json!({"metadata": {"name": "n"}, "spec": {"drivers": [
            {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": count}}, {"name": "other", "nodeID": "i"}]}})
    };
    for count in [25, 12] {
        cluster.tell(Kind::CSINode, csi(count));
        let limits = cluster.world().nodes[0].volume_limits.clone();
        assert_eq!(limits.into_iter().collect::<Vec<_>>(), [("ebs.csi.aws.com".into(), count.unsigned_abs())]);
    }
    cluster.forget(Kind::CSINode, "n");
    assert!(cluster.world().nodes[0].volume_limits.is_empty());
}

#[test]
fn workloads_are_asked_for_only_where_pods_spread_by_default() {
    let needed = Kind::needed(&Settings::default(), Features::default());
    let workloads = [Kind::Service, Kind::ReplicationController, Kind::ReplicaSet, Kind::StatefulSet];
    let gated = [Kind::NodeOverlay, Kind::PodTemplate, Kind::CapacityBuffer];
    for kind in workloads.into_iter().chain(gated) {
        assert!(!needed.contains(&kind), "{kind:?}");
    }
    let all = Features { node_overlays: true, capacity_buffers: true };
    let needed = Kind::needed(&Settings::default(), all);
    assert!(gated.iter().all(|kind| needed.contains(kind)));
    let spread = karpenter_core::settings::DefaultSpread {
        topology_key: "zone".into(),
        max_skew: 1,
        min_domains: None,
        when: karpenter_core::pod::WhenUnsatisfiable::DoNotSchedule,
        node_affinity: karpenter_core::pod::NodePolicy::Honor,
        node_taints: karpenter_core::pod::NodePolicy::Ignore,
    };
    let settings = Settings { default_spread: vec![spread], ..Settings::default() };
    assert_eq!(Kind::needed(&settings, all), Kind::ALL);
    let cluster = Cluster::new();
    let set = |uid: &str| {
        json!({"metadata": {"name": "web", "namespace": "default", "uid": uid},
            "spec": {"selector": {"matchLabels": {"app": uid}}, "serviceName": "", "template": {}}})
    };
    cluster.tell(Kind::ReplicaSet, set("replicas"));
    cluster.tell(Kind::StatefulSet, set("stateful"));
    let labels = |uid: &str| -> Labels { [("app".to_owned(), uid.to_owned())].into() };
    let world = cluster.world();
    for uid in ["replicas", "stateful"] {
        assert!(world.workload_selectors[uid].matches(&labels(uid)));
        assert!(!world.workload_selectors[uid].matches(&labels("other")));
    }
    cluster.forget(Kind::ReplicaSet, "default/web");
    assert_eq!(cluster.world().workload_selectors.len(), 1);
}

#[test]
fn a_daemon_set_asks_for_what_its_newest_pod_asked_for() {
    // covers: STATE-33
    let cluster = Cluster::new();
    let set = |uid: &str| {
        json!({"metadata": {"name": "agent", "namespace": "default", "uid": uid}, "spec": {
            "selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}}}})
    };
    let of = |name: &str, created: &str, cpu: &str| {
        let mut pod = pod(name, "node");
        pod["metadata"]["creationTimestamp"] = json!(created);
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "set", "controller": true}]);
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
        pod
    };
    let asks = || {
        let world = cluster.world();
        world.daemon_sets.iter().map(|set| set.template.requests.get("cpu").to_string()).collect::<Vec<_>>()
    };
    cluster.tell(Kind::DaemonSet, set("set"));
    assert_eq!(asks(), ["100m"], "there is no pod yet");
    cluster.tell(Kind::Pod, of("newer", "2026-01-02T00:00:00Z", "300m"));
    cluster.tell(Kind::Pod, of("older", "2026-01-01T00:00:00Z", "200m"));
    assert_eq!(asks(), ["300m"], "what admission made of the template");
    cluster.forget(Kind::Pod, "default/newer");
    cluster.forget(Kind::Pod, "default/older");
    assert_eq!(asks(), ["300m"], "without a pod the last one stands");
    cluster.tell(Kind::DaemonSet, set("set"));
    assert_eq!(asks(), ["300m"]);
    cluster.forget(Kind::DaemonSet, "default/agent");
    assert!(asks().is_empty());
    cluster.tell(Kind::DaemonSet, set("another"));
    assert_eq!(asks(), ["100m"], "what was known went with the set");
    cluster.tell(Kind::Pod, of("orphan", "2026-01-03T00:00:00Z", "400m"));
    cluster.forget(Kind::Pod, "default/orphan");
    cluster.tell(Kind::DaemonSet, set("set"));
    assert_eq!(asks(), ["100m"], "and so does what is known of a set that is gone");
}

#[test]
fn one_look_sees_nodes_and_pods_at_the_same_moment() {
    // covers: SCH-BATCH-12
    let cluster = Cluster::new();
    for name in ["going", "staying"] {
        cluster.tell(Kind::NodeClaim, claim(&format!("claim-{name}"), name));
        cluster.tell(Kind::Node, node(name, name, "initialized"));
    }
    cluster.tell(Kind::Pod, pod("web-1", "going"));
    cluster.index.mark(&[MachineId::Provider("going".into())]);
    cluster.tell(Kind::Pod, pod("web-2", ""));
    let before = cluster.world();
    // All at once: the pod of the node that goes is replaced by another, and the one that waited is bound.
    cluster.forget(Kind::Pod, "default/web-1");
    cluster.tell(Kind::Pod, pod("web-3", ""));
    cluster.tell(Kind::Pod, pod("web-2", "staying"));
    cluster.forget(Kind::Node, "going");
    cluster.forget(Kind::NodeClaim, "claim-going");
    let seen = |world: &World| {
        let mut pods: Vec<String> = world.pods.iter().map(|pod| format!("{} {:?}", pod.name, pod.node)).collect();
        pods.sort();
        (pods.join(", "), world.nodes.len())
    };
    assert_eq!(seen(&before), ("web-1 Some(\"going\"), web-2 None".to_owned(), 2), "nothing of what came later");
    assert_eq!(seen(&cluster.world()), ("web-2 Some(\"staying\"), web-3 None".to_owned(), 1), "the next look has it");
}

#[test]
fn an_object_that_makes_our_own_code_panic_is_refused_and_the_others_are_taken_in() {
    let cluster = Cluster::new();
    let node = |name: &str| cluster.object(Kind::Node, json!({"metadata": {"name": name, "uid": name}}));
    let page = vec![node("one"), node("a-bug-of-ours"), node("two")];
    let changes = cluster.index.list_page(Kind::Node, page);
    let names: Vec<&str> = changes.iter().map(|change| &*change.key.name).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(cluster.index.apply(node("a-bug-of-ours")).is_none());
    let unreadable = cluster.index.unreadable_keys(Kind::Node);
    assert!(unreadable.iter().any(|key| &*key.name == "a-bug-of-ours"), "it is there: {unreadable:?}");
    assert_eq!((cluster.index.take_panics(), cluster.index.take_panics()), (2, 0));
}

#[test]
fn a_list_is_taken_in_whatever_breaks_over_one_object_of_it() {
    let cluster = Cluster::unlisted();
    let named = |name: &str| json!({"metadata": {"name": name, "uid": name}});
    let names = ["a-bug-about-the-end", "gone", "stays"];
    let page = names.map(|name| cluster.object(Kind::Node, named(name))).to_vec();
    cluster.index.list(Kind::Node, page, Vec::new(), 20);
    let broken = |name: &str| {
        let object = json!({"metadata": {"name": name, "resourceVersion": "30"}});
        crate::Unreadable::of(Kind::Node, &object.to_string(), "it makes no sense")
    };
    let unreadable = vec![broken("a-bug-about-the-unreadable"), broken("odd")];
    let present = ["stays", "a-bug-about-the-unreadable", "odd"].map(Key::cluster).into();
    let changes = cluster.index.list_end(Kind::Node, &present, unreadable, 40);
    let gone: Vec<&str> = changes.iter().map(|change| &*change.key.name).collect();
    assert_eq!(gone, ["a-bug-about-the-end", "gone"]);
    assert!(cluster.index.has_listed(Kind::Node));
    let left: Vec<&str> = names.into_iter().filter(|name| cluster.index.node(name).is_some()).collect();
    assert_eq!(left, ["stays"]);
    let unreadable = cluster.index.unreadable_keys(Kind::Node);
    assert_eq!(unreadable, ["a-bug-about-the-unreadable", "odd"].map(Key::cluster), "each is there");
    assert_eq!(cluster.index.take_panics(), 2);
}
