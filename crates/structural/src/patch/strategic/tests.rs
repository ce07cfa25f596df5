use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::shape::builtin;
use crate::testing::values;

fn pod() -> Shape<'static> {
    builtin::shapes().kind("v1", "Pod").unwrap()
}

fn patched(document: Value, patch: Value) -> Value {
    strategic_merge_patch(&document, &patch, pod()).unwrap_or_else(|error| panic!("{patch}: {error}"))
}

#[test]
fn lists_merge_by_their_key() {
    let document = json!({"spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]}});
    for (patch, want) in [
        (
            json!({"containers": [{"name": "a", "image": "2", "args": ["y"]}]}),
            json!([{"name": "a", "image": "2", "args": ["y"]}, {"name": "b"}]),
        ),
        (
            json!({"containers": [{"name": "c"}]}),
            json!([{"name": "c"}, {"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}]),
        ),
        (json!({"containers": [{"name": "a", "$patch": "delete"}]}), json!([{"name": "b"}])),
        (json!({"containers": [{"name": "z"}, {"$patch": "replace"}]}), json!([{"name": "z"}])),
        (json!({"containers": [{"name": "a", "image": null}]}), json!([{"name": "a", "args": ["x"]}, {"name": "b"}])),
        (
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "3"}]}),
            json!([{"name": "b"}, {"name": "a", "image": "3", "args": ["x"]}]),
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            json!([{"name": "b"}, {"name": "a", "image": "1", "args": ["x"]}]),
        ),
    ] {
        let got = patched(document.clone(), json!({"spec": patch}));
        assert_eq!(got["spec"]["containers"], want, "{patch}");
    }
}

#[test]
fn primitive_lists_merge_or_are_replaced() {
    let document = json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"tolerations": [{"key": "x"}]}});
    for (patch, want) in [
        (json!({"metadata": {"finalizers": ["c"]}}), json!(["c", "a", "b"])),
        (json!({"metadata": {"finalizers": ["b", "c"]}}), json!(["a", "b", "c"])),
        (json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}), json!(["b"])),
        (
            json!({"metadata": {"$setElementOrder/finalizers": ["c", "b"], "$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}}),
            json!(["c", "b"]),
        ),
        (json!({"metadata": {"finalizers": null}}), json!(null)),
    ] {
        let got = patched(document.clone(), patch.clone());
        assert_eq!(got["metadata"].get("finalizers").cloned().unwrap_or_default(), want, "{patch}");
    }
    let got = patched(document, json!({"spec": {"tolerations": [{"key": "y"}]}}));
    assert_eq!(got["spec"]["tolerations"], json!([{"key": "y"}]));
}

#[test]
fn retain_keys_drops_the_rest() {
    let document = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
    let patch =
        json!({"spec": {"volumes": [{"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/p"}}]}});
    assert_eq!(patched(document, patch)["spec"]["volumes"], json!([{"name": "v", "hostPath": {"path": "/p"}}]));
}

#[test]
fn maps_merge_and_directives_replace_them() {
    let document = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeSelector": {"x": "1"}}});
    let got = patched(document.clone(), json!({"metadata": {"labels": {"a": null, "c": "3"}}}));
    assert_eq!(got["metadata"]["labels"], json!({"b": "2", "c": "3"}));
    let got = patched(document.clone(), json!({"metadata": {"labels": {"$patch": "replace", "z": "1"}}}));
    assert_eq!(got["metadata"]["labels"], json!({"z": "1"}));
    let got =
        patched(document, json!({"metadata": {"labels": {"$patch": "delete"}}, "spec": {"nodeSelector": {"y": "2"}}}));
    assert_eq!(got["metadata"]["labels"], json!({}));
    assert_eq!(got["spec"]["nodeSelector"], json!({"x": "1", "y": "2"}));
}

#[test]
fn refusals_read_as_the_servers() {
    let document = json!({"spec": {"frob": {}, "containers": [{"name": "a"}]}, "metadata": {"finalizers": ["a"]}});
    for (patch, want) in [
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            PatchError::Unexpected("map: map[image:x] does not contain declared merge key: name".to_owned()),
        ),
        (
            json!({"spec": {"$retainKeys": "x"}}),
            PatchError::BadRequest("invalid patch format of retainKeys".to_owned()),
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList": ["a"]}}),
            PatchError::BadRequest("invalid patch format of primitive list".to_owned()),
        ),
        (
            json!({"$setElementOrder": ["a"]}),
            PatchError::BadRequest("invalid patch format of setElementOrder list".to_owned()),
        ),
        (
            json!({"spec": {"$patch": "frob"}}),
            PatchError::Unexpected("unknown patch type: frob in map: map[$patch:frob]".to_owned()),
        ),
        (
            json!({"spec": {"frob": {"a": 1}}}),
            PatchError::Unexpected("unable to find api field in struct PodSpec for the json field \"frob\"".to_owned()),
        ),
        (
            json!([]),
            PatchError::BadRequest(
                "json: cannot unmarshal array into Go value of type map[string]interface {}".to_owned(),
            ),
        ),
    ] {
        assert_eq!(strategic_merge_patch(&document, &patch, pod()), Err(want), "{patch}");
    }
}

proptest! {
    #[test]
    fn never_panics(document in values(), patch in values()) {
        let _ = strategic_merge_patch(&document, &patch, pod());
        let _ = strategic_merge_patch(&json!({"spec": {"containers": document}}), &json!({"spec": {"containers": patch}}), pod());
    }
}
