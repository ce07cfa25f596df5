use serde_json::{Value, json};

use super::*;

fn buffer(spec: Value, status: Value) -> CapacityBuffer {
    serde_json::from_value(json!({
        "metadata": {"name": "spare", "namespace": "shop", "uid": "uid-b", "generation": 3},
        "spec": spec, "status": status,
    }))
    .unwrap()
}

fn requests(pairs: &[(&str, &str)]) -> karpenter_core::Resources {
    pairs.iter().map(|(name, text)| (*name, text.parse().unwrap())).collect()
}

#[test]
fn a_buffer_is_as_large_as_the_largest_wish_that_its_limits_allow() {
    // covers: API-CB-02, SCH-BUF-03, SCH-BUF-04, SCH-BUF-05, SCH-GAP-24
    let of_pod = requests(&[("cpu", "500m"), ("memory", "1Gi"), ("pods", "1"), ("idle", "0")]);
    for (spec, workload, want) in [
        (json!({}), None, 0),
        (json!({"replicas": 3}), None, 3),
        (json!({"percentage": 50}), None, 0),
        (json!({"percentage": 50}), Some(5), 3),
        (json!({"percentage": 1}), Some(1), 1),
        (json!({"percentage": 0}), Some(5), 0),
        (json!({"percentage": 20, "replicas": 4}), Some(10), 4),
        (json!({"percentage": 60, "replicas": 4}), Some(10), 6),
        (json!({"replicas": 9, "limits": {"cpu": "2"}}), None, 4),
        (json!({"replicas": 2, "limits": {"cpu": "2"}}), None, 2),
        (json!({"limits": {"cpu": "2", "memory": "3500Mi"}}), None, 3),
        (json!({"limits": {"cpu": "400m"}}), None, 0),
        // What no pod asks for limits nothing.
        (json!({"replicas": 9, "limits": {"nvidia.com/gpu": "1", "pods": "2", "idle": "1"}}), None, 9),
        (json!({"limits": {"nvidia.com/gpu": "1"}}), None, 0),
        // A share of nothing is nothing, whatever there would be room for.
        (json!({"percentage": 50, "limits": {"cpu": "2"}}), Some(0), 0),
    ] {
        assert_eq!(size(&buffer(spec.clone(), json!({})), &of_pod, workload), want, "{spec} of {workload:?}");
    }
}

#[test]
fn a_virtual_pod_is_the_template_without_what_somebody_would_have_to_make() {
    // covers: API-CB-04, SCH-BUF-12, SCH-BUF-13
    let template = serde_json::from_value(json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
        "spec": {
            "nodeName": "n", "priorityClassName": "high", "priority": 1000,
            "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "t", "operator": "Exists"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "scratch", "ephemeral": {}}, {"name": "config", "configMap": {"name": "m"}}],
            "initContainers": [{"name": "i", "image": "i", "volumeMounts": [{"name": "scratch", "mountPath": "/s"}]}],
            "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}, "volumeMounts": [
                {"name": "data", "mountPath": "/d"}, {"name": "config", "mountPath": "/c"}]}]},
    }))
    .unwrap();
    let pod = virtual_pod(&buffer(json!({}), json!({})), &template, 2);
    let (metadata, spec) = (&pod.metadata, pod.spec.as_ref().unwrap());
    assert_eq!(metadata.name.as_deref(), Some("capacity-buffer-spare-2"));
    assert_eq!((metadata.namespace.as_deref(), metadata.uid.as_deref()), (Some("shop"), Some("uid-b-2")));
    assert_eq!(metadata.labels.as_ref().unwrap()["app"], "web");
    let annotations: Vec<(String, String)> = metadata.annotations.clone().unwrap().into_iter().collect();
    let want = [
        ("karpenter.sh/capacity-buffer-fake-pod", "true"),
        ("karpenter.sh/capacity-buffer-name", "spare"),
        ("karpenter.sh/capacity-buffer-namespace", "shop"),
    ];
    assert_eq!(annotations, want.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(
        (spec.node_name.as_ref(), spec.priority, spec.priority_class_name.as_ref()),
        (None, Some(i32::MIN), None)
    );
    let volumes: Vec<&str> = spec.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    assert_eq!(volumes, ["config"]);
    let mounts = |container: &k8s_openapi::api::core::v1::Container| -> Vec<String> {
        container.volume_mounts.iter().flatten().map(|mount| mount.name.clone()).collect()
    };
    assert_eq!(mounts(&spec.containers[0]), ["config"]);
    assert!(mounts(&spec.init_containers.as_ref().unwrap()[0]).is_empty());
    assert!(spec.node_selector.is_some() && spec.tolerations.is_some(), "the rest is kept");
    let condition = &pod.status.as_ref().unwrap().conditions.as_ref().unwrap()[0];
    assert_eq!((condition.type_.as_str(), condition.reason.as_deref()), ("PodScheduled", Some("Unschedulable")));
}

#[test]
fn a_buffer_says_whether_it_is_there() {
    // covers: API-CD-32, SCH-BUF-19, SCH-BUF-20
    let of = |ready: &str, replicas: Value| {
        let conditions = json!([{"type": READY, "status": ready, "reason": "r", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        buffer(json!({}), json!({"conditions": conditions, "replicas": replicas}))
    };
    let outcome = |existing, new, failed| Some(Outcome { existing, new, failed });
    for (ready, replicas, outcome, want) in [
        ("False", json!(2), outcome(2, 0, 0), Some((false, "NotReadyForProvisioning"))),
        ("True", json!(0), None, Some((false, "BufferEmpty"))),
        ("True", Value::Null, None, Some((false, "BufferEmpty"))),
        ("True", json!(2), None, None),
        ("True", json!(2), outcome(1, 1, 0), Some((false, "RequiresNewCapacity"))),
        ("True", json!(2), outcome(1, 0, 1), Some((false, "RequiresNewCapacity"))),
        ("True", json!(2), outcome(2, 0, 0), Some((true, "FitsExistingCapacity"))),
        ("True", json!(2), outcome(1, 0, 0), None),
    ] {
        let told = provisioning(&of(ready, replicas), outcome).map(|(status, reason, _)| (status, reason));
        assert_eq!(told, want, "{ready} {outcome:?}");
    }
}

#[test]
fn the_time_of_a_condition_moves_with_its_status() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut buffer = buffer(json!({}), json!({}));
    assert!(set_condition(&mut buffer, READY, true, "Resolved", "m", at(10)));
    assert!(!set_condition(&mut buffer, READY, true, "Resolved", "m", at(20)));
    assert!(set_condition(&mut buffer, READY, true, "Resolved", "other", at(30)));
    let since = |buffer: &CapacityBuffer| {
        let conditions = buffer.status.as_ref().unwrap().conditions.as_ref().unwrap();
        (conditions.len(), conditions[0].last_transition_time.0.as_second(), conditions[0].observed_generation)
    };
    assert_eq!(since(&buffer), (1, 10, Some(3)));
    assert!(set_condition(&mut buffer, READY, false, "ResolutionFailed", "m", at(40)));
    assert_eq!(since(&buffer), (1, 40, Some(3)));
}
