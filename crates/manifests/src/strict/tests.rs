use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::*;

fn faults(spec: Value) -> Vec<String> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    match read_strictly::<Pod>(&pod) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn unknown_fields_are_faults_wherever_they_are() {
    let spec = json!({"containrs": [], "containers": [{"name": "c", "resources": {"request": {}}}]});
    assert_eq!(
        faults(spec),
        [
            "spec.containrs: unknown field; did you mean \"containers\"?",
            "spec.containers[0].resources.request: unknown field; did you mean \"requests\"?",
        ]
    );
}

#[test]
fn wrong_types_are_told_all_at_once() {
    let spec =
        json!({"containers": [{"name": 5}, {"name": "c", "ports": [{"containerPort": "http"}]}], "priority": "high"});
    let seen = faults(spec);
    assert_eq!(seen.len(), 3, "{seen:#?}");
    assert_eq!(
        seen,
        [
            "spec.containers[0].name: must be a string, not the number 5",
            "spec.containers[1].ports[0].containerPort: must be an integer, not the string \"http\"",
            "spec.priority: must be an integer, not the string \"high\"",
        ]
    );
}

#[test]
fn numbers_are_quantities() {
    let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1, "memory": 0.5}}}]}});
    let pod: Pod = read_strictly(&pod).unwrap();
    let spec = pod.spec.unwrap();
    let requests = spec.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap();
    assert_eq!((requests["cpu"].0.as_str(), requests["memory"].0.as_str()), ("1", "0.5"));
}

#[test]
fn nulls_are_absent() {
    assert!(faults(json!({"containers": [], "affinity": null, "tolerations": null})).is_empty());
    let container = json!({"name": null, "command": ["a", null], "resources": {"requests": {"cpu": null}}});
    let pod = json!({"metadata": {"labels": {"a": null}}, "spec": {"priority": null, "containers": [container, null]}});
    let pod: Pod = read_strictly(&pod).unwrap();
    assert_eq!(pod.metadata.labels.unwrap()["a"], "");
    let spec = pod.spec.unwrap();
    assert_eq!(spec.containers[0].command.as_deref(), Some(&["a".to_owned(), String::new()][..]));
    assert_eq!(spec.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0, "0");
    assert_eq!(spec.containers.len(), 2);
}

#[test]
fn what_stands_behind_a_wrong_value_is_seen_too() {
    let spec = json!({"priority": "high", "containers": [{"name": "c", "resurces": {}}]});
    let seen = faults(spec);
    assert_eq!(seen.len(), 2, "{seen:#?}");
    assert_eq!(seen[1], "spec.containers[0].resurces: unknown field; did you mean \"resources\"?");
}

#[test]
fn a_status_may_be_newer_than_we_are() {
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"phase": "Running", "vibes": "good"}});
    assert!(read_strictly::<Pod>(&pod).is_ok());
}
