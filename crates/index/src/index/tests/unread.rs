//! What cannot be read is there.

use super::*;
use crate::Unreadable;

impl Cluster {
    /// As a watch tells of what cannot be decoded.
    fn tell_unreadable(&self, kind: Kind, mut value: Value) -> Option<Change> {
        self.version.set(self.version.get() + 1);
        value["metadata"]["resourceVersion"] = json!(self.version.get().to_string());
        let error = Object::decode(kind, &value.to_string()).expect_err("no type takes it");
        let change = self.index.apply_unreadable(Unreadable::of(kind, &value.to_string(), error.to_string()));
        self.index.advance(kind, self.version.get());
        change
    }

    /// What people are told of: `Kind name`.
    fn named(&self) -> Vec<String> {
        let news = self.index.take_unreadable().map(|(news, _)| news).unwrap_or_default();
        news.iter().map(|one| format!("{} {}", one.kind.name(), one.key)).collect()
    }
}

fn broken_pod(name: &str, on: &str) -> Value {
    let mut pod = pod(name, on);
    pod["spec"]["containers"] = json!("many");
    pod
}

fn broken_claim(name: &str, id: &str) -> Value {
    let mut claim = claim(name, id);
    claim["spec"]["expireAfter"] = json!({"never": "ever"});
    claim
}

#[test]
fn a_pod_that_cannot_be_read_is_on_its_node() {
    let cluster = Cluster::new();
    cluster.tell(Kind::Node, node("n", "aws:///a/i-1", "initialized"));
    let mut much = pod("much", "n");
    much["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("much");
    let before = cluster.index.unsettled();
    let change = cluster.tell(Kind::Pod, much.clone()).expect("it is news");
    assert!(change.pod().unwrap().new.is_some());
    assert!(cluster.index.unsettled() > before, "consolidation looks again");
    cluster.tell_unreadable(Kind::Pod, broken_pod("broken", "n")).expect("it is news");
    assert_eq!(cluster.places(), ["broken on n", "much on n"]);
    assert_eq!(cluster.index.pods_on("n").len(), 2, "both are drained");
    assert_eq!(cluster.index.pods_on("n")[0].grace_seconds, Some(30), "as Kubernetes gives where nothing is said");
    assert_eq!(cluster.index.pinned_by("n"), Some(Key::new("default", "broken")));
    assert_eq!(cluster.named(), ["Pod default/much", "Pod default/broken"]);
    // Where it was before does not matter.
    cluster.tell(Kind::Pod, pod("moved", ""));
    cluster.tell_unreadable(Kind::Pod, broken_pod("moved", "m"));
    assert_eq!(cluster.index.pinned_by("m"), Some(Key::new("default", "moved")));
    // One that has ended pins nothing, and one that is mended does not either.
    let mut ended = broken_pod("broken", "n");
    ended["status"]["phase"] = json!("Succeeded");
    cluster.tell_unreadable(Kind::Pod, ended);
    assert_eq!(cluster.index.pinned_by("n"), Some(Key::new("default", "much")));
    cluster.tell(Kind::Pod, pod("much", "n"));
    assert_eq!(cluster.index.pinned_by("n"), None);
    cluster.forget(Kind::Pod, "default/moved");
    assert_eq!(cluster.index.pinned_by("m"), None);
    cluster.forget(Kind::Pod, "default/broken");
    let (_, counts) = cluster.index.take_unreadable().expect("there are fewer");
    assert!(counts.is_empty(), "{counts:?}");
}

#[test]
fn a_pod_whose_size_is_not_known_is_not_planned_for() {
    let cluster = Cluster::new();
    let mut much = pod("much", "");
    much["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("much");
    cluster.tell(Kind::Pod, much);
    cluster.tell_unreadable(Kind::Pod, broken_pod("broken", ""));
    let mut careful = pod("careful", "");
    careful["spec"]["tolerations"] = json!([{"key": "k", "operator": "Like"}]);
    cluster.tell(Kind::Pod, careful);
    assert_eq!(cluster.places(), ["careful waits"], "what is bought by guess may never do");
    assert_eq!(cluster.named().len(), 3, "all are named");
}

#[test]
fn a_claim_that_cannot_be_read_holds_its_instance() {
    let cluster = Cluster::new();
    // Found at the start.
    let text = broken_claim("c", "aws:///a/i-1").to_string();
    let one = Unreadable::of(Kind::NodeClaim, &text, "expireAfter");
    cluster.index.list(Kind::NodeClaim, Vec::new(), vec![one], 20);
    cluster.version.set(20);
    assert!(cluster.index.node_claims().is_empty());
    let held = cluster.index.unreadable_claim_of("aws:///a/i-1").expect("it holds the instance");
    assert_eq!((&*held.key.name, held.pool.as_deref()), ("c", Some("p")));
    assert!(cluster.index.unreadable_claim_of("aws:///a/i-2").is_none());
    assert!(cluster.index.is_synced(), "nobody waits for it");
    assert_eq!(cluster.named(), ["NodeClaim c"]);
    // It can be read again, and then no more: it counts as it last was, and is held back.
    cluster.tell(Kind::NodeClaim, claim("c", "aws:///a/i-1"));
    assert!(cluster.index.unreadable(Kind::NodeClaim, &Key::cluster("c")).is_none());
    cluster.tell_unreadable(Kind::NodeClaim, broken_claim("c", "aws:///a/i-1"));
    assert!(cluster.index.unreadable(Kind::NodeClaim, &Key::cluster("c")).is_some());
    assert_eq!(cluster.index.node_claims().len(), 1);
    assert_eq!(cluster.named(), ["NodeClaim c"]);
    // The same of a later version is no news.
    cluster.tell_unreadable(Kind::NodeClaim, broken_claim("c", "aws:///a/i-1"));
    assert!(cluster.named().is_empty());
    // One that never could be read and is in no later list is gone.
    cluster.tell_unreadable(Kind::NodeClaim, broken_claim("d", ""));
    assert_eq!(cluster.index.unreadable_keys(Kind::NodeClaim).len(), 2);
    cluster.index.list(Kind::NodeClaim, Vec::new(), Vec::new(), cluster.version.get() + 1);
    assert!(cluster.index.unreadable_keys(Kind::NodeClaim).is_empty());
    assert!(cluster.index.node_claims().is_empty());
}

#[test]
fn an_unlaunched_claim_that_cannot_be_read_holds_nobody_up() {
    let cluster = Cluster::new();
    cluster.tell(Kind::NodeClaim, claim("c", ""));
    assert!(!cluster.index.is_synced());
    cluster.tell_unreadable(Kind::NodeClaim, broken_claim("c", ""));
    assert!(cluster.index.is_synced());
    cluster.tell(Kind::NodeClaim, claim("c", ""));
    assert!(!cluster.index.is_synced());
}

#[test]
fn an_old_answer_does_not_hide_that_an_object_cannot_be_read() {
    let cluster = Cluster::new();
    let old = cluster.object(Kind::NodeClaim, claim("c", "aws:///a/i-1"));
    cluster.tell_unreadable(Kind::NodeClaim, broken_claim("c", "aws:///a/i-1"));
    assert!(cluster.index.apply(old).is_none());
    assert!(cluster.index.unreadable(Kind::NodeClaim, &Key::cluster("c")).is_some());
}

#[test]
fn a_node_that_cannot_be_read_may_be_any_instances_that_has_none() {
    let cluster = Cluster::new();
    let broken = |name: &str, id: Value| {
        let mut node = node(name, "", "initialized");
        node["spec"] = json!({"providerID": id, "unschedulable": "perhaps"});
        node
    };
    cluster.tell(Kind::NodeClaim, claim("c", "aws:///a/i-1"));
    cluster.tell_unreadable(Kind::Node, broken("n", json!("aws:///a/i-1")));
    assert!(cluster.index.unreadable_node_of("aws:///a/i-1").is_some());
    assert!(cluster.index.unreadable_node_of("aws:///a/i-2").is_none(), "it says whose it is");
    cluster.tell_unreadable(Kind::Node, broken("n", json!(null)));
    assert!(cluster.index.unreadable_node_of("aws:///a/i-2").is_some(), "it may be anybody's");
    cluster.tell(Kind::Node, node("m", "aws:///a/i-2", "initialized"));
    assert!(cluster.index.unreadable_node_of("aws:///a/i-2").is_none(), "but not of one whose Node is known");
}

#[test]
fn a_node_with_values_of_a_later_kubernetes_is_there() {
    let cluster = Cluster::new();
    let mut tainted = node("n", "aws:///a/i-1", "initialized");
    tainted["spec"]["taints"] = json!([{"key": "k", "effect": "NoAdmit"}]);
    cluster.tell(Kind::NodeClaim, claim("c", "aws:///a/i-1"));
    cluster.tell(Kind::Node, tainted.clone());
    assert_eq!(cluster.nodes(), ["n Initialized"]);
    assert_eq!(cluster.usage("p"), "cpu 4, nodes 1");
    assert_eq!(cluster.named(), ["Node n"]);
    assert!(cluster.index.unreadable(Kind::Node, &Key::cluster("n")).is_none(), "the rest of it counts");
    cluster.tell(Kind::Node, tainted);
    assert!(cluster.named().is_empty(), "the same again is no news");
    cluster.tell(Kind::Node, node("n", "aws:///a/i-1", "initialized"));
    assert!(cluster.index.unreadable_keys(Kind::Node).is_empty());
}

#[test]
fn a_budget_that_cannot_be_read_holds_its_namespace() {
    let cluster = Cluster::new();
    let budget = |spec: Value| {
        json!({"metadata": {"name": "b", "namespace": "default", "uid": "b"}, "spec": spec,
            "status": {"disruptionsAllowed": 9}})
    };
    let app = |operator: &str| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": ["x"]}]});
    let allowed = || {
        let tracked = cluster.index.pod(&Key::new("default", "p")).unwrap();
        let budgets = cluster.index.budgets_of(&tracked.pod);
        budgets.first().map(|budget| budget.disruptions_allowed)
    };
    cluster.tell(Kind::Pod, pod("p", "n"));
    cluster.tell(Kind::PodDisruptionBudget, budget(json!({"selector": app("In")})));
    assert_eq!(allowed(), None, "it selects others");
    cluster.tell(Kind::PodDisruptionBudget, budget(json!({"selector": app("Near")})));
    assert_eq!(allowed(), Some(0), "it may select any");
    cluster.tell(Kind::PodDisruptionBudget, budget(json!({"selector": {}})));
    assert_eq!(allowed(), Some(9));
    cluster.tell_unreadable(Kind::PodDisruptionBudget, budget(json!({"selector": "all"})));
    assert_eq!(allowed(), Some(0));
    assert_eq!(cluster.named(), ["PodDisruptionBudget default/b", "PodDisruptionBudget default/b"]);
    cluster.forget(Kind::PodDisruptionBudget, "default/b");
    assert_eq!(allowed(), None);
}

#[test]
fn a_storage_class_of_a_later_kubernetes_is_there() {
    let cluster = Cluster::new();
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "p", "volumeBindingMode": "WhenItSuits"});
    cluster.tell(Kind::StorageClass, class);
    let world = cluster.world();
    let found = world.storage.classes.get("fast").expect("its volumes are somewhere");
    assert_eq!(found.binding, karpenter_core::storage::BindingMode::Immediate, "somebody else binds them");
    assert_eq!(cluster.named(), ["StorageClass fast"]);
}

#[test]
fn an_attachment_that_cannot_be_read_is_attached() {
    let cluster = Cluster::new();
    let attachment = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n", "source": "a volume"}});
    cluster.tell_unreadable(Kind::VolumeAttachment, attachment);
    let found = cluster.index.attachments_on("n");
    assert_eq!(found.len(), 1);
    assert!(found[0].volume.is_some(), "it is waited for");
    cluster.forget(Kind::VolumeAttachment, "a");
    assert!(cluster.index.attachments_on("n").is_empty());
}

#[test]
fn what_our_own_code_cannot_cope_with_keeps_what_it_may_hold() {
    let cluster = Cluster::new();
    cluster.tell(Kind::Node, node("n", "aws:///a/i-1", "initialized"));
    let mut owned = pod("a-bug-of-ours", "n");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]);
    cluster.tell(Kind::Pod, owned).expect("it is news");
    let on_node = cluster.index.pods_on("n");
    assert_eq!(on_node.len(), 1, "it counts on its node");
    assert!(on_node[0].unknown_needs().is_some());
    assert_eq!(cluster.index.pinned_by("n"), Some(Key::new("default", "a-bug-of-ours")));
    let budget = json!({"metadata": {"name": "a-bug-of-ours", "namespace": "default", "uid": "b"},
        "spec": {"maxUnavailable": 1}, "status": {"disruptionsAllowed": 5, "currentHealthy": 5, "desiredHealthy": 0,
            "expectedPods": 5}});
    cluster.tell(Kind::PodDisruptionBudget, budget);
    let world = cluster.world();
    let allowed: Vec<i32> = world.disruption_budgets.iter().map(|budget| budget.disruptions_allowed).collect();
    assert_eq!(allowed, [0], "it may hold any pod of its namespace");
    let attachment = json!({"metadata": {"name": "a-bug-of-ours"},
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
    cluster.tell(Kind::VolumeAttachment, attachment);
    assert_eq!(cluster.index.attachments_on("n").len(), 1, "it is waited for");
    assert_eq!(cluster.index.take_panics(), 3);
}
