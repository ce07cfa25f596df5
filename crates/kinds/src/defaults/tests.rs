use super::*;

fn defaulted(group: &str, version: &str, kind: &str, value: Value) -> Value {
    let api_version = crate::resources::api_version(group, version);
    let id = crate::types::Types::get().kind(&api_version, kind).unwrap();
    let mut value = crate::decode::decode(id, value).unwrap().value;
    apply(group, version, kind, &mut value);
    value
}

#[test]
fn pods_get_what_the_server_gives_them() {
    let pod = defaulted(
        "",
        "v1",
        "Pod",
        json!({"spec": {"containers": [
        {"name": "a", "image": "nginx", "resources": {"limits": {"memory": "1Gi", "cpu": "1"}, "requests": {"cpu": "100m"}}},
        {"name": "b", "image": "repo:5000/x:v1"}]}}),
    );
    let spec = &pod["spec"];
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(spec["containers"][1]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "100m", "memory": "1Gi"}));
    assert_eq!(spec["containers"][1]["resources"], json!({}));
    assert_eq!(spec["enableServiceLinks"], true);
}

#[test]
fn templates_keep_their_requests() {
    let deployment = defaulted(
        "apps",
        "v1",
        "Deployment",
        json!({"spec": {"template": {"spec": {"containers": [
        {"name": "a", "image": "nginx:1", "resources": {"limits": {"cpu": "1"}}}]}}}}),
    );
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
    );
    assert_eq!(spec["template"]["spec"]["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
    assert_eq!(spec["template"]["spec"].get("enableServiceLinks"), None);
}

#[test]
fn defaults_do_not_touch_what_is_set() {
    let service = defaulted(
        "",
        "v1",
        "Service",
        json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "targetPort": "http"}]}}),
    );
    assert_eq!(service["spec"]["ports"][0]["targetPort"], "http");
    assert_eq!(service["spec"]["externalTrafficPolicy"], "Cluster");
    let job = defaulted("batch", "v1", "Job", json!({"spec": {"parallelism": 3, "template": {}}}));
    assert_eq!(job["spec"].get("completions"), None);
    assert_eq!(job["spec"]["backoffLimit"], 6);
}
