use super::*;

fn told(object: Value) -> Vec<String> {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let review = create(served_kind(text("apiVersion"), text("kind")).unwrap(), &object);
    let misfits = review.misfits.iter().map(|misfit| format!("{}: {}", misfit.field, misfit.message()));
    misfits.chain(review.errors.iter().map(ToString::to_string)).collect()
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

#[test]
fn a_good_object_has_nothing() {
    assert_eq!(told(pod(json!({"containers": [{"name": "c", "image": "i"}]}))), Vec::<String>::new());
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "j-"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    assert_eq!(told(job), Vec::<String>::new());
    let pods = served_kind("v1", "Pod").unwrap();
    let good = pod(json!({}));
    let bad = [
        json!({"name": "Bad_Name"}),
        json!({"name": "p", "lables": {}}),
        json!({"name": "p", "labels": {"a": "b c"}}),
        Value::Null,
    ];
    assert!(has_good_metadata(pods, &good));
    for metadata in bad {
        assert!(!has_good_metadata(pods, &json!({"apiVersion": "v1", "metadata": metadata})), "{metadata}");
    }
}

#[test]
fn validation_goes_on_beside_what_does_not_fit() {
    let spec = json!({"priority": "high", "containers": [{"name": "c", "image": "i", "resources":
        {"requests": {"cpu": "-2"}, "limts": {}}}], "restartPolicy": "Sometimes"});
    assert_eq!(
        told(pod(spec)),
        [
            "spec.priority: must be an integer, not the string \"high\"",
            "spec.containers[0].resources.limts: unknown field; did you mean \"limits\"?",
            "spec.containers[0].resources.requests[cpu]: Invalid value: \"-2\": must be greater than or equal to 0",
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ]
    );
}

#[test]
fn what_was_taken_out_is_not_called_missing_too() {
    assert_eq!(
        told(pod(json!({"containers": [{"name": 5, "image": "i"}]}))),
        ["spec.containers[0].name: must be a string, not the number 5"]
    );
    assert_eq!(
        told(pod(json!({"contaners": [{"name": "c", "image": "i"}]}))),
        ["spec.contaners: unknown field; did you mean \"containers\"?"]
    );
}

#[test]
fn a_status_may_be_newer_than_we_are() {
    let mut pod = pod(json!({"containers": [{"name": "c", "image": "i"}]}));
    pod["status"] = json!({"phase": "Running", "vibes": "good"});
    assert_eq!(told(pod.clone()), Vec::<String>::new());
    pod["status"] = json!({"phase": 5});
    assert_eq!(told(pod), ["status.phase: must be a string, not the number 5"]);
}

#[test]
fn metadata_of_custom_resources_is_reviewed() {
    let of = |object: Value| metadata("karpenter.sh/v1", false, &object);
    let review = of(json!({"name": "Bad_Name", "lables": {}, "labels": {"a": "b c"}}));
    assert_eq!(review.misfits[0].field, "metadata.lables");
    let fields: Vec<&str> = review.errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["metadata.name", "metadata.labels"]);
    let missing = of(Value::Null);
    assert_eq!(missing.errors[0].to_string(), "metadata.name: Required value: name or generateName is required");
}
