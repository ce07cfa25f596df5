use serde_json::json;

use super::*;
use crate::decode;
use crate::defaults;
use crate::types::Types;

fn errors(group: &str, kind: &str, object: Value) -> Vec<String> {
    let api_version = crate::resources::api_version(group, "v1");
    let id = Types::get().kind(&api_version, kind).unwrap();
    let mut object = decode::decode(id, object).unwrap().value;
    defaults::apply(group, "v1", kind, &mut object);
    let object = decode::decode(id, object).unwrap().value;
    create(group, kind, true, &object).iter().map(ToString::to_string).collect()
}

#[test]
fn what_users_meet_is_refused_in_the_servers_words() {
    for (group, kind, object, want) in [
        ("", "Pod", json!({"metadata": {"name": "a"}, "spec": {}}), "spec.containers: Required value"),
        (
            "",
            "Pod",
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}),
            "spec.containers[0].image: Required value",
        ),
        (
            "",
            "Pod",
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}}),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            "apps",
            "Deployment",
            json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata":
                {"labels": {"a": "c"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
            "spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`",
        ),
        (
            "batch",
            "CronJob",
            json!({"metadata": {"name": "a"}, "spec": {"schedule": "* * * *", "jobTemplate": {"spec": {"template": {"spec":
                {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}),
            "spec.schedule: Invalid value: \"* * * *\": expected exactly 5 fields, found 4: [* * * *]",
        ),
    ] {
        let found = errors(group, kind, object);
        assert!(found.iter().any(|error| error == want), "{kind}: want {want:?} in {found:?}");
    }
}

#[test]
fn selectors_are_immutable() {
    let old = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}});
    let new = json!({"spec": {"selector": {"matchLabels": {"a": "c"}}}});
    assert_eq!(workloads::update("Deployment", &new, &old).len(), 1);
    assert!(workloads::update("Deployment", &old, &old).is_empty());
}
