use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::values;

#[test]
fn operations_do_what_they_say() {
    let document = json!({"a": {"b": [1, 2, 3]}, "c": "x", "m/n": {"~": 1}});
    for (patch, want) in [
        (
            json!([{"op": "add", "path": "/d", "value": 1}]),
            json!({"a": {"b": [1, 2, 3]}, "c": "x", "m/n": {"~": 1}, "d": 1}),
        ),
        (
            json!([{"op": "add", "path": "/a/b/1", "value": 9}]),
            json!({"a": {"b": [1, 9, 2, 3]}, "c": "x", "m/n": {"~": 1}}),
        ),
        (
            json!([{"op": "add", "path": "/a/b/-", "value": 9}]),
            json!({"a": {"b": [1, 2, 3, 9]}, "c": "x", "m/n": {"~": 1}}),
        ),
        (
            json!([{"op": "add", "path": "/a/b/-1", "value": 9}]),
            json!({"a": {"b": [1, 2, 3, 9]}, "c": "x", "m/n": {"~": 1}}),
        ),
        (json!([{"op": "remove", "path": "/a/b/-1"}]), json!({"a": {"b": [1, 2]}, "c": "x", "m/n": {"~": 1}})),
        (json!([{"op": "remove", "path": "/m~1n/~0"}]), json!({"a": {"b": [1, 2, 3]}, "c": "x", "m/n": {}})),
        (
            json!([{"op": "replace", "path": "/new", "value": 1}]),
            json!({"a": {"b": [1, 2, 3]}, "c": "x", "m/n": {"~": 1}, "new": 1}),
        ),
        (
            json!([{"op": "move", "from": "/c", "path": "/a/c"}]),
            json!({"a": {"b": [1, 2, 3], "c": "x"}, "m/n": {"~": 1}}),
        ),
        (
            json!([{"op": "copy", "from": "/c", "path": "/a/b/0"}]),
            json!({"a": {"b": ["x", 1, 2, 3]}, "c": "x", "m/n": {"~": 1}}),
        ),
        (json!([{"op": "replace", "path": "", "value": {}}]), json!({})),
        (
            json!([{"op": "test", "path": "/a/b", "value": [1, 2, 3]}, {"op": "test", "path": "/none"}]),
            document.clone(),
        ),
        (json!(null), document.clone()),
    ] {
        assert_eq!(json_patch(&document, &patch).unwrap(), want, "{patch}");
    }
}

#[test]
fn refusals_read_as_the_servers() {
    let document = json!({"a": {"b": [1, 2, 3]}, "c": "x"});
    for (patch, want) in [
        (json!([{"op": "test", "path": "/c", "value": "y"}]), "testing value /c failed: test failed"),
        (
            json!([{"op": "test", "path": "/q/c", "value": "y"}]),
            "test operation does not apply: is missing path: /q/c: missing value",
        ),
        (
            json!([{"op": "add", "path": "/q/c", "value": "y"}]),
            "add operation does not apply: doc is missing path: \"/q/c\": missing value",
        ),
        (
            json!([{"op": "add", "path": "/a/b/7", "value": 1}]),
            "error in add for path: '/a/b/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            json!([{"op": "add", "path": "/a/b/x", "value": 1}]),
            "error in add for path: '/a/b/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            json!([{"op": "remove", "path": "/q"}]),
            "error in remove for path: '/q': Unable to remove nonexistent key: q: missing value",
        ),
        (
            json!([{"op": "remove", "path": "/q/r"}]),
            "remove operation does not apply: doc is missing path: \"/q/r\": missing value",
        ),
        (
            json!([{"op": "replace", "path": "/a/b/3", "value": 1}]),
            "replace operation does not apply: doc is missing key: /a/b/3: missing value",
        ),
        (
            json!([{"op": "replace", "path": "/q/r", "value": 1}]),
            "replace operation does not apply: doc is missing path: /q/r: missing value",
        ),
        (
            json!([{"op": "move", "path": "/x", "from": "/q"}]),
            "error in move for path: 'q': Unable to remove nonexistent key: q: missing value",
        ),
        (
            json!([{"op": "move", "path": "/x"}]),
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
        (json!([{"op": "frob", "path": "/x"}]), "Unexpected kind: frob"),
        (json!([{"path": "/x"}]), "Unexpected kind: unknown"),
    ] {
        assert_eq!(json_patch(&document, &patch), Err(PatchError::Unprocessable(want.to_owned())), "{patch}");
    }
    assert_eq!(
        json_patch(&document, &json!({"op": "add"})),
        Err(PatchError::BadRequest("json: cannot unmarshal object into Go value of type jsonpatch.Patch".to_owned()))
    );
    let many = Value::Array(vec![json!({"op": "test", "path": "/none"}); 10_001]);
    assert!(matches!(json_patch(&document, &many), Err(PatchError::TooLarge(_))));
}

proptest! {
    #[test]
    fn never_panics(document in values(), value in values(), op in "add|remove|replace|move|copy|test|x", path in "(/?[a-c0-2~-]{0,2}){0,4}", from in "(/[a-c0-2-]{0,2}){0,3}") {
        let _ = json_patch(&document, &json!([{"op": op, "path": path, "from": from, "value": value}]));
    }

    #[test]
    fn what_was_added_can_be_tested_and_removed(document in values(), value in values()) {
        if let Value::Object(fields) = &document
            && !fields.contains_key("new") {
                let there = json_patch(&document, &json!([
                    {"op": "add", "path": "/new", "value": value}, {"op": "test", "path": "/new", "value": value},
                ])).unwrap();
                prop_assert_eq!(json_patch(&there, &json!([{"op": "remove", "path": "/new"}])).unwrap(), document);
            }
    }
}

#[test]
fn copies_end_before_the_memory_does() {
    let twice: Vec<Value> =
        (0..100).map(|at| json!({"op": "copy", "from": "/a", "path": format!("/a/{}", at % 2)})).collect();
    let document = json!({"a": {"text": "some text that is copied again and again"}});
    assert!(matches!(json_patch(&document, &Value::Array(twice)), Err(PatchError::Unprocessable(_))));
    let deeper: Vec<Value> = (0..1000).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/b"})).collect();
    assert!(matches!(json_patch(&document, &Value::Array(deeper)), Err(PatchError::Unprocessable(_))));
}
