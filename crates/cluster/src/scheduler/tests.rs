use super::*;
use crate::key::Key;
use crate::selector::Selector;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// A small cluster described in JSON.
struct World {
    snapshot: Snapshot,
}

impl World {
    fn new(nodes: &[Value]) -> Self {
        let mut snapshot = Snapshot::new(1);
        for node in nodes {
            snapshot.set_node(Arc::new(serde_json::from_value(node.clone()).unwrap()));
        }
        snapshot.namespaces.insert("default".into(), [("kubernetes.io/metadata.name".into(), "default".into())].into());
        snapshot.namespaces.insert("other".into(), [("team".into(), "blue".into())].into());
        Self { snapshot }
    }

    fn running(mut self, node: &str, pod: Value) -> Self {
        self.snapshot.place(info(pod), node);
        self
    }

    fn nominated(mut self, node: &str, pod: Value) -> Self {
        self.snapshot.nominate(&info(pod), Some(node));
        self
    }

    fn volume(mut self, volume: Value) -> Self {
        let name = volume["metadata"]["name"].as_str().unwrap().to_owned();
        self.snapshot.storage.volumes.insert(name, Arc::new(serde_json::from_value(volume).unwrap()));
        self
    }

    fn claim(mut self, claim: Value) -> Self {
        let claim: k8s_openapi::api::core::v1::PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
        self.snapshot.storage.claims.insert(Key::of(&claim.metadata), Arc::new(claim));
        self
    }

    fn class(mut self, name: &str, class: Value) -> Self {
        self.snapshot.storage.classes.insert(name.into(), Arc::new(serde_json::from_value(class).unwrap()));
        self
    }

    fn csi_node(mut self, name: &str, limit: i32) -> Self {
        let node = json!({"metadata": {"name": name}, "spec": {"drivers": [
            {"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": limit}}]}});
        self.snapshot.storage.csi_nodes.insert(name.into(), Arc::new(serde_json::from_value(node).unwrap()));
        self
    }

    fn budget(mut self, name: &str, labels: Value, allowed: i32) -> Self {
        let budget = json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
        self.snapshot.budgets.insert(Key::new("default", name), Arc::new(serde_json::from_value(budget).unwrap()));
        self
    }

    fn decide(&self, pod: Value) -> Decision {
        decide(&self.snapshot, &info(pod), now())
    }

    /// The node, or the message.
    fn outcome(&self, pod: Value) -> Result<String, String> {
        match self.decide(pod) {
            Decision::Place(placement) => Ok(placement.node.to_string()),
            Decision::Unschedulable(why) => Err(why.message),
            Decision::Preempt(preemption) => Err(format!("preempt on {}", preemption.node)),
        }
    }
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn info(pod: Value) -> Arc<PodInfo> {
    Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap())))
}

fn node(name: &str, zone: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "10"}},
    })
}

fn with(mut base: Value, path: &str, value: Value) -> Value {
    *base.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")) = value;
    base
}

/// A pod of 1 CPU with the label `app: <name's letters>` and the given additions to its spec.
fn pod(name: &str, spec: Value) -> Value {
    let app: String = name.chars().take_while(|c| c.is_alphabetic()).collect();
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn cpu(name: &str, amount: &str, priority: i32) -> Value {
    pod(name, json!({"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": amount}}}]}))
}

#[test]
fn reasons_are_counted_and_sorted_as_upstream_words_them() {
    let cordoned = with(with(node("b", "z"), "/metadata/name", json!("b")), "/metadata", json!({"name": "b"}));
    let mut cordoned = cordoned;
    cordoned["spec"] = json!({"unschedulable": true});
    let mut tainted = node("c", "z");
    tainted["spec"] = json!({"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]});
    let world = World::new(&[node("a", "z"), cordoned, tainted]);
    assert_eq!(
        world.outcome(cpu("p", "5", 0)),
        Err("0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were \
             unschedulable. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
            .into())
    );
    assert_eq!(World::new(&[]).outcome(cpu("p", "1", 0)), Err("no nodes available to schedule pods".into()));
}

#[test]
fn every_short_resource_is_named() {
    let world = World::new(&[node("a", "z")]).running("a", cpu("x1", "3500m", 0));
    let wants = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "20Gi", "example.com/gpu": "1"}}}]});
    let message = world.outcome(pod("p", wants)).unwrap_err();
    assert!(
        message.starts_with(
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Insufficient memory."
        ),
        "{message}"
    );
}

#[test]
fn the_pod_limit_of_a_node_holds() {
    let mut small = node("a", "z");
    small["status"]["allocatable"]["pods"] = json!("1");
    let world = World::new(&[small]).running("a", cpu("x1", "0", 0));
    assert!(world.outcome(cpu("p", "0", 0)).unwrap_err().contains("1 Too many pods"));
}

#[test]
fn host_ports_clash_by_address_and_protocol() {
    let ports = |ip: &str, protocol: &str, port: u16| json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": port, "hostIP": ip, "protocol": protocol}]}]});
    for (first, second, fits) in [
        (("", "TCP", 80), ("", "TCP", 80), false),
        (("", "TCP", 80), ("", "UDP", 80), true),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), true),
        (("10.0.0.1", "TCP", 80), ("0.0.0.0", "TCP", 80), false),
        (("", "TCP", 80), ("", "TCP", 81), true),
    ] {
        let world = World::new(&[node("a", "z")]).running("a", pod("x1", ports(first.0, first.1, first.2)));
        let outcome = world.outcome(pod("p", ports(second.0, second.1, second.2)));
        assert_eq!(outcome.is_ok(), fits, "{first:?} {second:?}: {outcome:?}");
    }
}

fn term(app: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
}

fn required(kind: &str, terms: Value) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

#[test]
fn affinity_needs_company_in_the_domain_unless_the_pod_is_the_first_of_its_kind() {
    let zone = "topology.kubernetes.io/zone";
    let world = || World::new(&[node("a", "one"), node("b", "two")]);
    let with_web = world().running("b", cpu("web1", "1", 0));
    assert_eq!(with_web.outcome(pod("p", required("podAffinity", json!([term("web", zone)])))), Ok("b".into()));
    let refused = world().outcome(pod("p", required("podAffinity", json!([term("web", zone)])))).unwrap_err();
    assert!(refused.contains("2 node(s) didn't match pod affinity rules"), "{refused}");
    assert!(world().outcome(pod("web1", required("podAffinity", json!([term("web", zone)])))).is_ok());
}

#[test]
fn anti_affinity_holds_both_ways() {
    let host = "kubernetes.io/hostname";
    let lonely = pod("lonely1", required("podAntiAffinity", json!([term("web", host)])));
    let world = World::new(&[node("a", "z")]).running("a", lonely.clone());
    let message = world.outcome(cpu("web1", "1", 0)).unwrap_err();
    assert!(message.contains("1 node(s) didn't satisfy existing pods anti-affinity rules"), "{message}");
    let world = World::new(&[node("a", "z")]).running("a", cpu("web1", "1", 0));
    let message = world.outcome(lonely).unwrap_err();
    assert!(message.contains("1 node(s) didn't match pod anti-affinity rules"), "{message}");
}

#[test]
fn affinity_terms_reach_other_namespaces_by_name_and_by_label() {
    let host = "kubernetes.io/hostname";
    let mut web = cpu("web1", "1", 0);
    web["metadata"]["namespace"] = json!("other");
    let world = World::new(&[node("a", "z")]).running("a", web);
    for (extra, seen) in [
        (json!({}), false),
        (json!({"namespaces": ["other"]}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "red"}}}), false),
        (json!({"namespaceSelector": {}}), true),
    ] {
        let mut rule = term("web", host);
        for (key, value) in extra.as_object().unwrap() {
            rule[key] = value.clone();
        }
        let outcome = world.outcome(pod("p", required("podAntiAffinity", json!([rule]))));
        assert_eq!(outcome.is_err(), seen, "{extra}: {outcome:?}");
    }
}

fn spread(extra: Value) -> Value {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}});
    for (key, value) in extra.as_object().unwrap() {
        constraint[key] = value.clone();
    }
    json!({"topologySpreadConstraints": [constraint]})
}

#[test]
fn spread_keeps_zones_even() {
    let world = World::new(&[node("a", "one"), node("b", "two")]).running("a", cpu("web1", "1", 0));
    assert_eq!(world.outcome(pod("web2", spread(json!({})))), Ok("b".into()));
    let crowded = World::new(&[node("a", "one"), node("b", "two"), node("c", "three")])
        .running("a", cpu("web1", "1", 0))
        .running("b", cpu("web2", "1", 0));
    let pinned = |zone: &str, policy: &str| {
        let mut spec = spread(json!({"nodeAffinityPolicy": policy}));
        spec["nodeSelector"] = json!({"topology.kubernetes.io/zone": zone});
        pod("web3", spec)
    };
    // Honoured, the selector leaves one domain, which is even with itself; ignored, the empty zone counts.
    assert_eq!(crowded.outcome(pinned("one", "Honor")), Ok("a".into()));
    assert!(crowded.outcome(pinned("one", "Ignore")).is_err());
}

#[test]
fn spread_counts_tainted_nodes_only_if_told() {
    let mut tainted = node("b", "two");
    tainted["spec"] = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
    let world = World::new(&[node("a", "one"), tainted]).running("a", cpu("web1", "1", 0));
    assert!(world.outcome(pod("web2", spread(json!({})))).is_err());
    assert_eq!(world.outcome(pod("web2", spread(json!({"nodeTaintsPolicy": "Honor"})))), Ok("a".into()));
}

#[test]
fn spread_waits_for_the_wanted_number_of_domains() {
    let world = World::new(&[node("a", "one"), node("b", "two")])
        .running("a", cpu("web1", "1", 0))
        .running("b", cpu("web2", "1", 0));
    assert!(world.outcome(pod("web3", spread(json!({"minDomains": 2})))).is_ok());
    let message = world.outcome(pod("web3", spread(json!({"minDomains": 3})))).unwrap_err();
    assert!(message.contains("2 node(s) didn't match pod topology spread constraints."), "{message}");
}

#[test]
fn spread_compares_only_pods_with_the_same_value_of_a_label_key() {
    let mut old = cpu("web1", "1", 0);
    old["metadata"]["labels"]["version"] = json!("1");
    let world = World::new(&[node("a", "one"), node("b", "two")]).running("a", old);
    let mut new = pod("web2", spread(json!({"matchLabelKeys": ["version"]})));
    new["metadata"]["labels"]["version"] = json!("2");
    new["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "a"});
    new["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = json!("Ignore");
    assert_eq!(world.outcome(new), Ok("a".into()));
}

#[test]
fn a_node_without_the_spread_key_is_out() {
    let mut bare = node("a", "one");
    bare["metadata"]["labels"] = json!({});
    let message = World::new(&[bare]).outcome(pod("web1", spread(json!({})))).unwrap_err();
    assert!(
        message.contains("1 node(s) didn't match pod topology spread constraints (missing required label)"),
        "{message}"
    );
}

fn claim(name: &str, class: &str, volume: Option<&str>) -> Value {
    let mut claim = json!({"metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}});
    if let Some(volume) = volume {
        claim["spec"]["volumeName"] = json!(volume);
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    }
    claim
}

fn volume(name: &str, zone: Option<&str>) -> Value {
    let mut volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "storageClassName": "late", "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name}},
        "status": {"phase": "Available"}});
    if let Some(zone) = zone {
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}});
    }
    volume
}

fn late(extra: Value) -> Value {
    let mut class = json!({"metadata": {"name": "late"}, "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"});
    for (key, value) in extra.as_object().unwrap() {
        class[key] = value.clone();
    }
    class
}

fn mounts(name: &str, claims: &[&str]) -> Value {
    let volumes: Vec<Value> =
        claims.iter().map(|c| json!({"name": c, "persistentVolumeClaim": {"claimName": c}})).collect();
    pod(name, json!({"volumes": volumes}))
}

#[test]
fn a_bound_volume_pins_its_pod() {
    let world = World::new(&[node("a", "one"), node("b", "two")]).volume(volume("v", Some("two"))).claim(claim(
        "data",
        "late",
        Some("v"),
    ));
    assert_eq!(world.outcome(mounts("p", &["data"])), Ok("b".into()));
    let elsewhere =
        World::new(&[node("a", "one")]).volume(volume("v", Some("two"))).claim(claim("data", "late", Some("v")));
    let message = elsewhere.outcome(mounts("p", &["data"])).unwrap_err();
    assert!(message.contains("1 node(s) didn't match PersistentVolume's node affinity"), "{message}");
    let gone = World::new(&[node("a", "one")]).claim(claim("data", "late", Some("v")));
    let message = gone.outcome(mounts("p", &["data"])).unwrap_err();
    assert!(message.contains("persistentvolume \"v\" not found"), "{message}");
}

#[test]
fn claims_that_cannot_wait_must_be_bound_first() {
    let world = World::new(&[node("a", "one")]);
    let message = world.outcome(mounts("p", &["data"])).unwrap_err();
    assert_eq!(message, "0/1 nodes are available: persistentvolumeclaim \"data\" not found. not found");
    let world = world.class("now", late(json!({"volumeBindingMode": "Immediate"}))).claim(claim("data", "now", None));
    let message = world.outcome(mounts("p", &["data"])).unwrap_err();
    assert!(message.contains("pod has unbound immediate PersistentVolumeClaims"), "{message}");
}

#[test]
fn late_binding_prefers_an_existing_volume_and_provisions_where_the_class_may() {
    let world = || World::new(&[node("a", "one"), node("b", "two")]).claim(claim("data", "late", None));
    let existing = world()
        .class("late", late(json!({"provisioner": "kubernetes.io/no-provisioner"})))
        .volume(volume("v", Some("two")));
    let Decision::Place(placement) = existing.decide(mounts("p", &["data"])) else { panic!("not placed") };
    assert_eq!((&*placement.node, placement.volumes.bindings.len()), ("b", 1));
    let topologies = json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["one"]}]}]});
    let limited = world().class("late", late(topologies));
    let Decision::Place(placement) = limited.decide(mounts("p", &["data"])) else { panic!("not placed") };
    assert_eq!((&*placement.node, placement.volumes.provisions.len()), ("a", 1));
    let nowhere = world().class("late", late(json!({"provisioner": "kubernetes.io/no-provisioner"})));
    let message = nowhere.outcome(mounts("p", &["data"])).unwrap_err();
    assert!(message.contains("2 node(s) didn't find available persistent volumes to bind"), "{message}");
}

#[test]
fn attach_limits_count_what_the_node_has() {
    let world = World::new(&[node("a", "one")])
        .csi_node("a", 2)
        .class("late", late(json!({})))
        .volume(volume("v1", None))
        .claim(claim("one", "late", Some("v1")))
        .claim(claim("two", "late", None))
        .claim(claim("three", "late", None))
        .running("a", mounts("x1", &["one"]));
    assert!(world.outcome(mounts("p", &["two"])).is_ok());
    assert!(world.outcome(mounts("p", &["one", "two"])).is_ok(), "a volume already attached is not attached twice");
    let message = world.outcome(mounts("p", &["two", "three"])).unwrap_err();
    assert!(message.contains("1 node(s) exceed max volume count"), "{message}");
}

#[test]
fn a_claim_for_one_pod_is_for_one_pod() {
    let mut single = claim("data", "late", Some("v"));
    single["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    let world = World::new(&[node("a", "one"), node("b", "one")]).volume(volume("v", None)).claim(single);
    assert!(world.outcome(mounts("p", &["data"])).is_ok());
    let taken = world.running("a", mounts("x1", &["data"]));
    let message = taken.outcome(mounts("p", &["data"])).unwrap_err();
    assert!(message.contains("already in-use by another pod"), "{message}");
}

#[test]
fn the_nominated_node_comes_first_and_its_room_is_kept() {
    let mut hopeful = cpu("p", "3", 0);
    hopeful["status"] = json!({"nominatedNodeName": "b"});
    let world = World::new(&[node("a", "z"), node("b", "z")]).running("b", cpu("x1", "1", 0));
    assert_eq!(world.outcome(hopeful.clone()), Ok("b".into()), "although the empty node scores better");
    let world = world.nominated("b", hopeful.clone());
    assert_eq!(world.outcome(cpu("q", "1", 0)), Ok("a".into()), "an equal pod leaves the room alone");
    let full = World::new(&[node("b", "z")]).running("b", cpu("x1", "1", 0)).nominated("b", hopeful.clone());
    assert!(full.outcome(cpu("q", "1", 0)).is_err());
    assert_eq!(full.outcome(cpu("q", "1", 5)), Ok("b".into()), "a more important pod takes it");
    assert_eq!(full.outcome(hopeful), Ok("b".into()), "and so does the pod itself");
}

#[test]
fn a_nomination_is_cleared_by_a_failed_attempt_unless_the_pod_may_not_preempt() {
    let world = World::new(&[node("a", "z")]).running("a", cpu("x1", "4", 0));
    let mut waiting = cpu("p", "1", 0);
    waiting["status"] = json!({"nominatedNodeName": "a"});
    let Decision::Unschedulable(why) = world.decide(waiting.clone()) else { panic!("placed") };
    assert!(why.clear_nomination);
    assert!(
        why.message.contains("preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."),
        "{}",
        why.message
    );
    waiting["spec"]["preemptionPolicy"] = json!("Never");
    let Decision::Unschedulable(why) = world.decide(waiting) else { panic!("placed") };
    assert!(!why.clear_nomination);
    assert!(why.message.ends_with("preemption: not eligible due to preemptionPolicy=Never."), "{}", why.message);
}

fn preempted(world: &World, pod: Value) -> (String, Vec<String>) {
    match world.decide(pod) {
        Decision::Preempt(p) => (p.node.to_string(), p.victims.iter().map(|v| v.key.name.to_string()).collect()),
        other => panic!("no preemption: {other:?}"),
    }
}

#[test]
fn preemption_takes_as_few_and_as_unimportant_pods_as_it_can() {
    let world = World::new(&[node("a", "z"), node("b", "z")])
        .running("a", cpu("low1", "2", 1))
        .running("a", cpu("mid1", "2", 5))
        .running("b", cpu("mid2", "4", 5));
    assert_eq!(preempted(&world, cpu("high", "2", 10)), ("a".into(), vec!["low1".into()]));
    assert_eq!(
        preempted(&world, cpu("high", "4", 10)),
        ("b".into(), vec!["mid2".into()]),
        "the same top priority, fewer pods"
    );
}

#[test]
fn preemption_spares_what_budgets_protect_if_it_can() {
    let world = World::new(&[node("a", "z"), node("b", "z")])
        .running("a", cpu("kept1", "4", 1))
        .running("b", cpu("free1", "4", 5))
        .budget("kept", json!({"app": "kept"}), 0);
    assert_eq!(preempted(&world, cpu("high", "1", 10)), ("b".into(), vec!["free1".into()]));
    let only =
        World::new(&[node("a", "z")]).running("a", cpu("kept1", "4", 1)).budget("kept", json!({"app": "kept"}), 0);
    assert_eq!(preempted(&only, cpu("high", "1", 10)), ("a".into(), vec!["kept1".into()]), "but not at any price");
}

#[test]
fn preemption_removes_the_anti_affinity_of_its_victims() {
    let host = "kubernetes.io/hostname";
    let mut lonely = pod("lonely1", required("podAntiAffinity", json!([term("high", host)])));
    lonely["spec"]["priority"] = json!(1);
    let world = World::new(&[node("a", "z")]).running("a", lonely);
    assert_eq!(preempted(&world, cpu("high", "1", 10)), ("a".into(), vec!["lonely1".into()]));
}

#[test]
fn a_pod_whose_victims_are_leaving_waits_for_them() {
    let mut leaving = cpu("low1", "4", 1);
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    leaving["status"] =
        json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]});
    let world = World::new(&[node("a", "z")]).running("a", leaving);
    let mut high = cpu("high", "1", 10);
    high["status"] = json!({"nominatedNodeName": "a"});
    let Decision::Unschedulable(why) = world.decide(high) else { panic!("placed") };
    assert!(
        !why.clear_nomination
            && why.message.ends_with("preemption: not eligible due to a terminating pod on the nominated node.")
    );
}

#[test]
fn scores_prefer_empty_nodes_soft_rules_and_spreading_workloads() {
    let world = World::new(&[node("a", "one"), node("b", "two")]).running("a", cpu("x1", "2", 0));
    assert_eq!(world.outcome(cpu("p", "1", 0)), Ok("b".into()), "least allocated");
    let mut soft = node("b", "two");
    soft["spec"] = json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]});
    assert_eq!(World::new(&[node("a", "one"), soft]).outcome(cpu("p", "1", 0)), Ok("a".into()), "taints avoided");
    let preferred = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "preference": {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["one"]}]}}]}}});
    assert_eq!(world.outcome(pod("p", preferred)), Ok("a".into()), "node preferences");
    let near = json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "podAffinityTerm": term("x", "kubernetes.io/hostname")}]}}});
    assert_eq!(world.outcome(pod("p", near)), Ok("a".into()), "company");
    let mut owned = World::new(&[node("a", "one"), node("b", "two")]);
    owned.snapshot.groups.owners.insert(
        ("ReplicaSet".into(), Key::new("default", "web")),
        Selector::from_labels(&[("app".into(), "web".into())].into()),
    );
    let owned = owned.running("a", cpu("web1", "100m", 0)).running("b", cpu("x1", "200m", 0));
    let mut web = cpu("web2", "100m", 0);
    web["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]);
    assert_eq!(owned.outcome(web), Ok("b".into()), "spread although nobody asked");
}

#[test]
fn forgetting_a_pod_gives_everything_back() {
    let host = "kubernetes.io/hostname";
    let mut world = World::new(&[node("a", "z")])
        .running("a", pod("lonely1", required("podAntiAffinity", json!([term("web", host)]))));
    assert!(world.outcome(cpu("web1", "4", 0)).is_err());
    assert!(world.snapshot.forget("lonely1"));
    assert!(world.outcome(cpu("web1", "4", 0)).is_ok());
    assert!(!world.snapshot.forget("lonely1"));
}

#[test]
fn pods_may_arrive_before_their_node_and_stay_after_it() {
    let mut world = World::new(&[node("b", "z")]).running("a", cpu("x1", "4", 0));
    assert_eq!(world.outcome(cpu("p", "1", 0)), Ok("b".into()));
    world.snapshot.set_node(Arc::new(serde_json::from_value(node("a", "z")).unwrap()));
    assert_eq!(world.snapshot.node(world.snapshot.slot("a").unwrap()).requested.milli_cpu, 4000);
    world.snapshot.remove_node("a");
    assert_eq!(world.snapshot.slot("a"), None);
    world.snapshot.forget("x1");
    assert_eq!(world.outcome(cpu("p", "1", 0)), Ok("b".into()));
}
