use serde_json::json;

use super::*;
use crate::decode::decode;

fn of(kind: &str, mut object: Value) -> Vec<String> {
    let api_version = if kind == "Pod" || kind == "Secret" { "v1" } else { "apps/v1" };
    let id = Types::get().kind(api_version, kind).unwrap();
    let fitted = fits(id, &object);
    let misfits = take_out(id, &mut object);
    assert_eq!(fitted, misfits.is_empty());
    assert!(fits(id, &object), "what is left");
    let left = decode(id, object).unwrap_or_else(|error| panic!("what is left has to decode: {error}"));
    assert_eq!(left.strict_errors, Vec::<String>::new());
    misfits.iter().map(|misfit| format!("{}: {}", misfit.field, misfit.message())).collect()
}

#[test]
fn everything_is_found_in_document_order() {
    let spec = json!({"priority": "high", "containrs": [], "nodeSelector": ["x"], "containers": [
        {"name": 5, "image": "i", "resouces": {}, "resources": {"requests": {"cpu": "lots", "nvidia.com/gpu": []}}},
        {"name": "c", "ports": [{"containerPort": "http"}, 7]}]});
    assert_eq!(
        of("Pod", json!({"metadata": {"name": "p"}, "spec": spec, "sepc": {}})),
        [
            "spec.priority: must be an integer, not the string \"high\"",
            "spec.containrs: unknown field; did you mean \"containers\"?",
            "spec.nodeSelector: must be an object, not a list",
            "spec.containers[0].name: must be a string, not the number 5",
            "spec.containers[0].resouces: unknown field; did you mean \"resources\"?",
            "spec.containers[0].resources.requests.cpu: \"lots\" is not a quantity: want a number with an optional suffix \
             such as 100m, 2, 1.5Gi or 12e6",
            "spec.containers[0].resources.requests[\"nvidia.com/gpu\"]: must be a quantity (a number or a string), not a list",
            "spec.containers[1].ports[0].containerPort: must be an integer, not the string \"http\"",
            "spec.containers[1].ports[1]: must be an object, not the number 7",
            "sepc: unknown field; did you mean \"spec\"?",
        ]
    );
}

#[test]
fn bounds_of_types_count() {
    let spec = json!({"replicas": 99_999_999_999_i64, "minReadySeconds": 1.5, "paused": "yes", "strategy": {"rollingUpdate": {"maxSurge": []}}});
    assert_eq!(
        of("Deployment", json!({"metadata": {"creationTimestamp": "yesterday"}, "spec": spec})),
        [
            "metadata.creationTimestamp: \"yesterday\" is not a time such as 2026-01-02T15:04:05Z",
            "spec.replicas: 99999999999 does not fit 32 bits",
            "spec.minReadySeconds: must be an integer, not the number 1.5",
            "spec.paused: must be true or false, not the string \"yes\"",
            "spec.strategy.rollingUpdate.maxSurge: must be an integer or a string, not a list",
        ]
    );
    assert_eq!(of("Secret", json!({"data": {"a": "***"}})), ["data.a: is not base64"]);
}

#[test]
fn what_fits_stays() {
    let id = Types::get().kind("v1", "Pod").unwrap();
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "creationTimestamp": null},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}], "affinity": null}});
    let before = pod.clone();
    assert!(fits(id, &pod));
    assert_eq!(take_out(id, &mut pod), []);
    assert_eq!(pod, before);
    assert_eq!(take_out(id, &mut json!([])).len(), 1, "no object at all");
}
