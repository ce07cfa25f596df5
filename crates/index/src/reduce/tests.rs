use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use karpenter_core::Resources;
use karpenter_core::node::Stage;
use karpenter_core::pod::{NodePolicy, Phase, WhenUnsatisfiable};
use karpenter_core::selector::Selector;
use karpenter_core::storage::BindingMode;
use serde_json::{Value, from_value, json};

use super::*;

fn quantities(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}})
}

fn requests_of(spec: Value, status: Value) -> Resources {
    let pod: Pod = from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).unwrap();
    effective_requests(pod.spec.as_ref().unwrap(), pod.status.as_ref()).unwrap()
}

fn list(items: &[(&str, &str)]) -> Resources {
    items.iter().map(|(name, text)| (*name, text.parse().unwrap())).collect()
}

fn app(cpu: &str, memory: &str) -> Value {
    json!({"name": "app", "resources": quantities(cpu, memory)})
}

fn init(name: &str, cpu: &str, memory: &str) -> Value {
    json!({"name": name, "resources": quantities(cpu, memory)})
}

fn sidecar(name: &str, cpu: &str, memory: &str) -> Value {
    json!({"name": name, "restartPolicy": "Always", "resources": quantities(cpu, memory)})
}

#[test]
fn init_containers_and_sidecars_count_as_they_run() {
    // covers: SCH-RES-02, SCH-RES-03, SCH-RES-04, SCH-RES-06, SCH-RES-09
    let overhead = json!({"cpu": "5", "memory": "1Gi"});
    for (name, spec, cpu, memory) in [
        ("two apps", json!({"containers": [app("1", "1Gi"), app("2", "1Gi")]}), "3", "2Gi"),
        (
            "app and sidecar",
            json!({"containers": [app("2", "1Gi")], "initContainers": [sidecar("s", "1", "2Gi")]}),
            "3",
            "3Gi",
        ),
        (
            "init, then sidecar, with overhead",
            json!({"containers": [app("2", "1Gi")], "initContainers": [init("i", "4", "2Gi"), sidecar("s", "3", "3Gi")], "overhead": overhead}),
            "10",
            "5Gi",
        ),
        (
            "sidecar, then init",
            json!({"containers": [app("2", "1Gi")], "initContainers": [sidecar("s", "4", "2Gi"), init("i", "10", "2Gi")]}),
            "14",
            "4Gi",
        ),
        (
            "small init after sidecar",
            json!({"containers": [app("2", "2Gi")], "initContainers": [sidecar("s", "4", "2Gi"), init("i", "1", "1Gi")]}),
            "6",
            "4Gi",
        ),
        (
            "each resource by itself",
            json!({"containers": [app("1", "4Gi")], "initContainers": [init("i", "3", "1Gi")]}),
            "3",
            "4Gi",
        ),
    ] {
        let want = list(&[("cpu", cpu), ("memory", memory), ("pods", "1")]);
        assert_eq!(requests_of(spec, json!({})), want, "{name}");
    }
}

#[test]
fn pod_level_requests_replace_what_they_cover() {
    // covers: SCH-RES-05
    let containers =
        json!([{"name": "app", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "example.com/x": "2"}}}]);
    let spec = |requests: Value| json!({"containers": containers, "resources": {"requests": requests}});
    for (requests, want) in [
        (json!({"cpu": "3"}), [("cpu", "3"), ("memory", "1Gi"), ("example.com/x", "2"), ("pods", "1")]),
        (json!({"memory": "512Mi"}), [("cpu", "1"), ("memory", "512Mi"), ("example.com/x", "2"), ("pods", "1")]),
        (json!({"example.com/x": "9"}), [("cpu", "1"), ("memory", "1Gi"), ("example.com/x", "2"), ("pods", "1")]),
    ] {
        assert_eq!(requests_of(spec(requests.clone()), json!({})), list(&want), "{requests}");
    }
    let huge = requests_of(spec(json!({"hugepages-2Mi": "4Mi"})), json!({}));
    assert_eq!(huge.get("hugepages-2Mi"), "4Mi".parse().unwrap());
}

#[test]
fn a_resize_counts_until_it_is_refused() {
    // covers: SCH-RES-07, SCH-RES-08
    let status = |requests: &str, allocated: &str| json!({"containerStatuses": [{"name": "app", "resources": {"requests": {"cpu": requests}}, "allocatedResources": {"cpu": allocated}}]});
    let infeasible = |mut status: Value| {
        status["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        status
    };
    let without_resources = json!({"containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "6"}}]});
    for (spec, status, want) in [
        ("2", status("2", "6"), "6"),
        ("8", status("2", "2"), "8"),
        ("2", status("3", "1"), "3"),
        ("8", infeasible(status("2", "2")), "2"),
        ("2", without_resources, "2"),
        ("2", json!({}), "2"),
    ] {
        let spec_json = json!({"containers": [{"name": "app", "resources": {"requests": {"cpu": spec}}}]});
        assert_eq!(requests_of(spec_json, status.clone()).get("cpu"), want.parse().unwrap(), "{spec} {status}");
    }
    let sidecar = json!({"containers": [], "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}]});
    let status = json!({"initContainerStatuses": [{"name": "s", "resources": {}, "allocatedResources": {"cpu": "4"}}]});
    assert_eq!(requests_of(sidecar, status).get("cpu"), "4".parse().unwrap());
}

#[test]
fn limits_of_pods_are_not_requests_but_those_of_daemon_templates_are() {
    // covers: SCH-RES-10, SCH-DS-02
    let containers = json!([{"name": "app", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"memory": "512Mi"}}}]);
    let inits = json!([{"name": "i", "resources": {"limits": {"cpu": "3"}}}]);
    let spec = json!({"containers": containers, "initContainers": inits});
    assert_eq!(requests_of(spec.clone(), json!({})), list(&[("memory", "512Mi"), ("pods", "1")]));
    let set = from_value(
        json!({"metadata": {"name": "logs", "namespace": "ops", "uid": "u"}, "spec": {"template": {"spec": spec}}}),
    );
    let set = daemon_set(&set.unwrap(), &mut Interner::default()).unwrap();
    assert_eq!((&*set.namespace, &*set.name, &*set.uid), ("ops", "logs", "u"));
    assert_eq!(set.template.requests, list(&[("cpu", "3"), ("memory", "512Mi"), ("pods", "1")]));
}

#[test]
fn a_daemon_set_keeps_its_templates_required_affinity() {
    // covers: SCH-DS-03
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm64"]}]}]}}});
    let set =
        json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [], "affinity": affinity}}}});
    let set = daemon_set(&from_value(set).unwrap(), &mut Interner::default()).unwrap();
    assert_eq!(&*set.required_node_affinity[0].expressions[0].key, "arch");
}

fn reduce(object: Value) -> Result<karpenter_core::Pod, Refused> {
    pod(&from_value(object).unwrap(), &mut Interner::default())
}

#[test]
fn host_ports_of_app_containers_are_collected() {
    // covers: SCH-PORT-01
    let object = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {
        "containers": [{"name": "a", "ports": [
            {"containerPort": 1}, {"containerPort": 2, "hostPort": 0}, {"containerPort": 3, "hostPort": 8080},
            {"containerPort": 4, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]}],
        "initContainers": [{"name": "i", "ports": [{"containerPort": 5, "hostPort": 99}]}]}});
    let ports = reduce(object).unwrap().shape.host_ports.clone();
    let seen: Vec<_> = ports.iter().map(|port| (&*port.ip, port.port, &*port.protocol)).collect();
    assert_eq!(seen, [("0.0.0.0", 8080, "TCP"), ("10.0.0.1", 53, "UDP")]);
}

#[test]
fn volumes_become_claims() {
    // covers: SCH-VOL-01
    let object = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [], "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}, {"name": "scratch", "ephemeral": {}},
        {"name": "tmp", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "c"}}]}});
    let claims: Vec<_> = reduce(object).unwrap().claims.iter().map(ToString::to_string).collect();
    assert_eq!(claims, ["mine", "p-scratch"]);
}

#[test]
fn a_pods_state_is_read() {
    let object = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:07Z",
            "deletionTimestamp": "2026-01-01T00:01:00Z", "annotations": {"karpenter.sh/do-not-disrupt": "5m"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "o", "controller": true}]},
        "spec": {"containers": [], "nodeName": "node-1", "priority": 7, "resourceClaims": [{"name": "gpu"}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:09Z", "nominatedNodeName": "node-2", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}, {"type": "Ready", "status": "False"}]}});
    let pod = reduce(object).unwrap();
    assert_eq!(pod.created, "2026-01-01T00:00:07Z".parse().unwrap());
    assert_eq!(pod.started, Some("2026-01-01T00:00:09Z".parse().unwrap()));
    assert!(pod.terminating && pod.unready && pod.shape.wants_devices && pod.owned_by("apps/v1", "StatefulSet"));
    assert_eq!((pod.node.as_deref(), pod.nominated_node.as_deref()), (Some("node-1"), Some("node-2")));
    assert_eq!((pod.phase, pod.scheduled_reason.as_deref()), (Phase::Running, Some("Unschedulable")));
    assert_eq!((pod.shape.priority, pod.shape.do_not_disrupt.as_deref()), (7, Some("5m")));
}

#[test]
fn how_long_a_pod_took_to_start_and_how_often_it_did_is_read() {
    let with = |ready: &str, at: &str| {
        json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at}],
            "initContainerStatuses": [{"name": "i", "image": "i", "imageID": "i", "ready": true, "restartCount": 1}],
            "containerStatuses": [{"name": "a", "image": "i", "imageID": "i", "ready": true, "restartCount": 3},
                {"name": "b", "image": "i", "imageID": "i", "ready": true, "restartCount": 0}]}})
    };
    let pod = reduce(with("True", "2026-01-01T00:01:30Z")).unwrap();
    assert_eq!((pod.restarts, pod.ready_after), (4, Some(std::time::Duration::from_secs(90))));
    assert_eq!(reduce(with("False", "2026-01-01T00:01:30Z")).unwrap().ready_after, None);
    assert_eq!(reduce(with("True", "2025-12-31T00:00:00Z")).unwrap().ready_after, None, "clocks differ");
}

#[test]
fn spread_policies_default_as_in_kubernetes() {
    let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"});
    let object =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [], "topologySpreadConstraints": [constraint]}});
    let pod = reduce(object).unwrap();
    let spread = &pod.shape.spread[0];
    assert_eq!(spread.when, WhenUnsatisfiable::ScheduleAnyway);
    assert_eq!((spread.node_affinity, spread.node_taints), (NodePolicy::Honor, NodePolicy::Ignore));
    assert_eq!(spread.selector, None, "an absent selector selects nothing");
}

#[test]
fn every_fault_is_named_by_field() {
    let object = json!({"metadata": {"name": "bad", "namespace": "n"}, "spec": {
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1x", "nvidia.com/gpu": "?"}}, "ports": [{"containerPort": 1, "hostPort": 70000}]}],
        "tolerations": [{"key": "k", "operator": "Like"}, {"key": "k", "effect": "Never"}],
        "topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "Maybe"}]}});
    let refused = reduce(object).unwrap_err();
    assert_eq!(refused.object, "Pod n/bad");
    let fields: Vec<_> = refused.faults.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "spec.containers[0].resources.requests.cpu",
            "spec.containers[0].resources.requests[\"nvidia.com/gpu\"]",
            "spec.tolerations[0].operator",
            "spec.tolerations[1].effect",
            "spec.containers[0].ports[0].hostPort",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            "spec.topologySpreadConstraints[0].maxSkew",
        ]
    );
}

/// A pod as a watch tells of it, which is there whatever it says.
fn tracked(spec: Value, phase: &str) -> crate::object::TrackedPod {
    let mut object = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec, "status": {"phase": phase}});
    if object["spec"]["containers"].is_null() {
        object["spec"]["containers"] = json!([{"name": "c"}]);
    }
    read_pod(&from_value(object).unwrap(), &mut Interner::default())
}

#[test]
fn values_of_a_later_kubernetes_are_taken_for_the_strictest_they_may_mean() {
    let phase = tracked(json!({}), "Hibernating");
    assert!(!phase.pod.is_terminal() && phase.pod.is_active(), "not known to be an end");
    let tolerant = tracked(
        json!({"tolerations": [{"key": "k", "operator": "Matches"}, {"key": "k", "operator": "Exists", "effect": "Never"},
            {"key": "l", "operator": "Exists"}]}),
        "Running",
    );
    let keys: Vec<&str> = tolerant.pod.shape.tolerations.iter().map(|toleration| toleration.key.as_str()).collect();
    assert_eq!(keys, ["l"], "what is not known tolerates nothing");
    let spread = json!([{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "Prefer"}]);
    let spread = tracked(json!({"topologySpreadConstraints": spread}), "Running");
    let constraint = &spread.pod.shape.spread[0];
    assert_eq!((constraint.when, constraint.max_skew), (WhenUnsatisfiable::DoNotSchedule, 1));
    for pod in [phase, tolerant, spread] {
        assert!(matches!(pod.reading, Reading::Careful(_)), "{:?}", pod.reading);
        assert_eq!(pod.unknown_needs(), None, "it may be placed by what is known");
    }
    let taint = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k", "effect": "NoAdmit"}]}});
    let read = read_node(Some(&from_value(taint).unwrap()), None, None);
    let node = read.value.expect("the node is there");
    assert_eq!(node.taints[0].effect, karpenter_core::taints::Effect::NoSchedule, "it keeps pods away");
    assert!(matches!(read.reading, Reading::Careful(_)));
}

#[test]
fn a_pod_whose_needs_are_not_known_says_so() {
    let affinity = |operator: &str| {
        let term = json!({"matchExpressions": [{"key": "zone", "operator": operator, "values": ["a"]}]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
    };
    let apart = |operator: &str| {
        let selector = json!({"matchExpressions": [{"key": "app", "operator": operator, "values": ["a"]}]});
        let term = json!({"topologyKey": "zone", "labelSelector": selector});
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    let sized = |cpu: &str| json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
    for (spec, known) in [
        (affinity("In"), true),
        (affinity("Near"), false),
        (apart("In"), true),
        (apart("Near"), false),
        (sized("1"), true),
        (sized("much"), false),
    ] {
        let pod = tracked(spec.clone(), "Running");
        assert_eq!(pod.unknown_needs().is_none(), known, "{spec}");
    }
}

#[test]
fn equal_shapes_are_shared() {
    let mut interner = Interner::default();
    let mut read = |name: &str, cpu: &str| {
        let object = json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"containers": [app(cpu, "1Gi")]}});
        pod(&from_value(object).unwrap(), &mut interner).unwrap()
    };
    let (a, b, c) = (read("a", "1"), read("b", "1000m"), read("c", "2"));
    assert!(std::sync::Arc::ptr_eq(&a.shape, &b.shape), "equal amounts are equal shapes");
    assert_ne!(a.shape, c.shape);
    assert_eq!(interner.shapes(), 2);
}

fn node_object(labels: Value, taints: Value, allocatable: Value) -> Node {
    from_value(json!({"metadata": {"name": "node", "labels": labels},
        "spec": {"providerID": "aws:///a/i-1", "taints": taints}, "status": {"capacity": allocatable, "allocatable": allocatable}}))
    .unwrap()
}

fn claim_object(extra: Value) -> NodeClaim {
    let mut claim = json!({"metadata": {"name": "claim", "labels": {"karpenter.sh/nodepool": "p", "from": "claim"}},
        "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "taints": [{"key": "own", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "cni", "value": "x", "effect": "NoSchedule"}]},
        "status": {"providerID": "aws:///a/i-1", "capacity": {"cpu": "4", "gpu": "1"}, "allocatable": {"cpu": "4", "gpu": "1"}}});
    for (key, value) in extra.as_object().unwrap() {
        claim["metadata"][key] = value.clone();
    }
    from_value(claim).unwrap()
}

#[test]
fn a_node_is_seen_according_to_its_stage() {
    // covers: SCH-TAINT-05, SCH-TAINT-06, SCH-TAINT-09, SCH-TAINT-10, SCH-RES-16, SCH-RES-17, SCH-EXIST-06
    let taints = json!([{"key": "cni", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "extra", "effect": "NoSchedule"}]);
    let claim = claim_object(json!({}));
    let registered = json!({"karpenter.sh/nodepool": "p", "karpenter.sh/registered": "true", "node.kubernetes.io/instance-type": "t"});
    let mut initialized = registered.clone();
    initialized["karpenter.sh/initialized"] = json!("true");
    let unregistered = json!({"karpenter.sh/nodepool": "p", "node.kubernetes.io/instance-type": "t"});
    for (labels, managed, stage, name, seen_taints, gpu) in [
        (unregistered, true, Stage::Launched, "claim", vec!["own"], "1"),
        (registered, true, Stage::Registered, "node", vec!["extra"], "1"),
        (
            initialized.clone(),
            true,
            Stage::Initialized,
            "node",
            vec!["cni", "node.kubernetes.io/not-ready", "extra"],
            "0",
        ),
        (initialized, false, Stage::Unmanaged, "node", vec!["cni", "node.kubernetes.io/not-ready", "extra"], "0"),
    ] {
        let object = node_object(labels, taints.clone(), json!({"cpu": "3", "gpu": "0"}));
        let seen = node(Some(&object), managed.then_some(&claim), None).unwrap().unwrap();
        assert_eq!((seen.stage, &*seen.name), (stage, name));
        let keys: Vec<_> = seen.taints.iter().map(|taint| taint.key.as_str()).collect();
        assert_eq!(keys, seen_taints, "{stage:?}");
        assert_eq!(seen.allocatable.get("cpu"), "3".parse().unwrap(), "{stage:?}");
        assert_eq!(seen.allocatable.get("gpu"), gpu.parse().unwrap(), "{stage:?}");
        assert_eq!(seen.labels.contains_key("from"), stage == Stage::Launched, "labels of the claim until registered");
    }
    let alone = node(None, Some(&claim), None).unwrap().unwrap();
    assert_eq!((&*alone.name, alone.has_node, alone.stage), ("claim", false, Stage::Launched));
    assert_eq!(alone.capacity, list(&[("cpu", "4"), ("gpu", "1")]));
}

#[test]
fn what_is_not_known_well_enough_is_not_tracked() {
    // covers: SCH-EXIST-11
    let of = |labels: Value, provider_id: &str| {
        let mut object = node_object(labels, json!([]), json!({}));
        object.spec.as_mut().unwrap().provider_id = Some(provider_id.to_owned());
        node(Some(&object), None, None).unwrap().is_some()
    };
    let pool = "karpenter.sh/nodepool";
    assert!(of(json!({}), ""), "somebody else's node goes by its name");
    assert!(!of(json!({pool: "p", "node.kubernetes.io/instance-type": "t"}), ""));
    assert!(!of(json!({pool: "p"}), "id"));
    assert!(of(json!({pool: "p", "karpenter.sh/initialized": "true"}), "id"));
    assert!(of(json!({pool: "p", "node.kubernetes.io/instance-type": "t"}), "id"));
    let mut launched = claim_object(json!({}));
    launched.status.as_mut().unwrap().provider_id = None;
    assert_eq!(node(None, Some(&launched), None).unwrap(), None);
}

#[test]
fn deletion_is_that_of_the_claim_where_there_is_one() {
    // covers: SCH-EXIST-10
    let gone = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let mut object = node_object(json!({}), json!([]), json!({}));
    let seen = |object: &Node, claim: Option<&NodeClaim>| node(Some(object), claim, None).unwrap().unwrap().deleting;
    assert!(!seen(&object, None));
    assert!(seen(&object, Some(&claim_object(gone))));
    object.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().into());
    assert!(seen(&object, None));
    assert!(!seen(&object, Some(&claim_object(json!({})))));
    let mut terminating = claim_object(json!({}));
    let condition = json!([{"type": "InstanceTerminating", "status": "True", "reason": "r", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    terminating.status.as_mut().unwrap().conditions = from_value(condition).unwrap();
    assert!(seen(&object, Some(&terminating)));
}

#[test]
fn attach_limits_come_from_the_csi_node() {
    // covers: SCH-VOL-23
    let csi = json!({"metadata": {"name": "node"}, "spec": {"drivers": [
        {"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}}, {"name": "efs.csi.aws.com", "nodeID": "i"}]}});
    let object = node_object(json!({}), json!([]), json!({}));
    let seen = node(Some(&object), None, Some(&from_value(csi).unwrap())).unwrap().unwrap();
    let limits: Vec<_> = seen.volume_limits.iter().map(|(driver, count)| (&**driver, *count)).collect();
    assert_eq!(limits, [("ebs.csi.aws.com", 25)]);
}

#[test]
fn volumes_tell_their_driver_and_their_place() {
    // covers: SCH-VOL-12
    let read = |spec: Value| volume(&from_value(json!({"metadata": {"name": "v"}, "spec": spec})).unwrap());
    assert_eq!(
        read(json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "v"}})).driver.as_deref(),
        Some("ebs.csi.aws.com")
    );
    assert_eq!(read(json!({"awsElasticBlockStore": {"volumeID": "v"}})).driver.as_deref(), Some("ebs.csi.aws.com"));
    assert_eq!(read(json!({"nfs": {"path": "/", "server": "s"}})).driver, None);
    assert!(read(json!({"local": {"path": "/"}})).is_local && read(json!({"hostPath": {"path": "/"}})).is_local);
    let terms = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}, {}]}});
    assert_eq!(read(json!({"nodeAffinity": terms})).node_affinity.len(), 2);
}

#[test]
fn classes_bind_at_once_unless_they_say_so() {
    let read = |mode: Value| {
        storage_class(
            &from_value(json!({"metadata": {"name": "c"}, "provisioner": "p", "volumeBindingMode": mode})).unwrap(),
        )
    };
    assert_eq!(read(json!(null)).unwrap().binding, BindingMode::Immediate);
    assert_eq!(read(json!("WaitForFirstConsumer")).unwrap().binding, BindingMode::WaitForFirstConsumer);
    assert_eq!(read(json!("Later")).unwrap_err().faults[0].field, "volumeBindingMode");
}

#[test]
fn budgets_that_can_never_allow_anything_are_known_as_such() {
    // covers: SCH-POD-10
    let read = |spec: Value| {
        disruption_budget(
            &from_value(
                json!({"metadata": {"name": "b", "namespace": "n"}, "spec": spec, "status": {"disruptionsAllowed": 2}}),
            )
            .unwrap(),
        )
    };
    for (spec, want) in [
        (json!({"maxUnavailable": 0}), true),
        (json!({"maxUnavailable": "0%"}), true),
        (json!({"minAvailable": "100%"}), true),
        (json!({"minAvailable": 100}), false),
        (json!({"maxUnavailable": 1}), false),
        (json!({"maxUnavailable": "1%"}), false),
    ] {
        assert_eq!(read(spec.clone()).never_allows, want, "{spec}");
    }
    assert_eq!(read(json!({})).selector, None);
    assert_eq!(read(json!({"selector": {}})).selector, Some(Selector::default()));
    assert_eq!(read(json!({})).disruptions_allowed, 2);
}

#[test]
fn namespaces_carry_their_name_as_a_label() {
    let labels = namespace_labels(&from_value(json!({"metadata": {"name": "n", "labels": {"team": "a"}}})).unwrap());
    assert_eq!(labels["kubernetes.io/metadata.name"], "n");
    assert_eq!(labels["team"], "a");
}

#[test]
fn a_pool_is_read_whole() {
    let object = json!({"metadata": {"name": "p"}, "spec": {"weight": 5, "limits": {"cpu": "100", "nodes": 3}, "template": {
        "metadata": {"labels": {"team": "a"}}, "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"},
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"], "minValues": 1}]}}}});
    let read = |object: Value| pool(&from_value(object).unwrap(), std::sync::Arc::from([]));
    let seen = read(object.clone()).unwrap();
    assert_eq!((&*seen.name, seen.weight, seen.labels["team"].as_str()), ("p", 5, "a"));
    assert_eq!(seen.limits, list(&[("cpu", "100"), ("nodes", "3")]));
    assert_eq!((&*seen.node_class_label.0, &*seen.node_class_label.1), ("karpenter.k8s.aws/ec2nodeclass", "c"));
    assert_eq!(seen.requirements[0].min_values, Some(1));
    let mut bad = object;
    bad["spec"]["template"]["spec"]["requirements"][0]["operator"] = json!("Like");
    assert_eq!(read(bad).unwrap_err().faults[0].field, "spec.template.spec.requirements[0].operator");
}
