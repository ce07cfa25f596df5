use proptest::prelude::*;
use serde_json::json;

use super::kubectl::{LAST_APPLIED, last_applied};
use super::*;
use crate::schema::{self, Schema};
use crate::shape::{Shapes, builtin};
use crate::testing::values;

struct World {
    object: Option<Value>,
    clock: u32,
}

fn deployment() -> OneVersion<'static> {
    OneVersion { api_version: "apps/v1", shape: builtin::shapes().kind("apps/v1", "Deployment").unwrap() }
}

impl World {
    fn new() -> Self {
        Self { object: None, clock: 0 }
    }

    fn now(&mut self) -> String {
        self.clock += 1;
        format!("2026-01-01T00:00:{:02}Z", self.clock)
    }

    fn apply(&mut self, manager: &str, config: Value, force: bool) -> Result<(), ApplyError> {
        let now = self.now();
        let versions = deployment();
        let reset = Set::of_fields([["status"]]);
        let write = Write {
            manager,
            subresource: "",
            api_version: "apps/v1",
            kind: "Deployment",
            now: &now,
            versions: &versions,
            reset: &reset,
        };
        self.object = Some(apply(self.object.as_ref(), &config, write, force)?);
        Ok(())
    }

    fn update(&mut self, manager: &str, subresource: &str, change: impl FnOnce(&mut Value)) {
        let now = self.now();
        let versions = deployment();
        let reset = if subresource == "status" {
            Set::of_fields([["spec"], ["metadata"]])
        } else {
            Set::of_fields([["status"]])
        };
        let write = Write {
            manager,
            subresource,
            api_version: "apps/v1",
            kind: "Deployment",
            now: &now,
            versions: &versions,
            reset: &reset,
        };
        let mut new = self.object.clone().unwrap_or_else(|| json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
        change(&mut new);
        let mut long = new.clone();
        update_by(self.object.as_ref(), &mut long, write, Way::Long);
        update(self.object.as_ref(), &mut new, write);
        assert_eq!(new, long, "both ways agree");
        self.object = Some(new);
    }

    fn object(&self) -> &Value {
        self.object.as_ref().unwrap()
    }

    fn fields(&self, manager: &str, operation: &str) -> Value {
        let entries = self.object()["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let found = entries.into_iter().find(|entry| entry["manager"] == manager && entry["operation"] == operation);
        found.map(|mut entry| entry["fieldsV1"].take()).unwrap_or_default()
    }
}

fn config(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"app": "x"}}, "spec": spec})
}

#[test]
fn applying_owns_what_it_says() {
    let mut world = World::new();
    world
        .apply(
            "me",
            config(json!({"replicas": 1, "template": {"spec": {"containers": [
        {"name": "a", "image": "i", "args": ["x"], "ports": [{"containerPort": 80}]}]}}})),
            false,
        )
        .unwrap();
    assert_eq!(
        world.fields("me", "Apply"),
        json!({
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
                ".": {}, "f:args": {}, "f:image": {}, "f:name": {},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}}},
        })
    );
    let entry = &world.object()["metadata"]["managedFields"][0];
    assert_eq!(
        (&entry["time"], &entry["apiVersion"], &entry["fieldsType"]),
        (&json!("2026-01-01T00:00:01Z"), &json!("apps/v1"), &json!("FieldsV1"))
    );
}

#[test]
fn changing_anothers_field_is_a_conflict_until_forced() {
    let mut world = World::new();
    world.apply("a", config(json!({"replicas": 1, "paused": true})), false).unwrap();
    let before = world.object().clone();
    world.apply("b", config(json!({"replicas": 1})), false).unwrap();
    assert_eq!(world.object()["spec"], before["spec"], "the same value is shared, not fought over");
    let error = world.apply("b", config(json!({"replicas": 2, "paused": false})), false).unwrap_err();
    assert_eq!(
        error,
        ApplyError::Conflict {
            message: "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.paused\n- .spec.replicas"
                .to_owned(),
            causes: vec![
                Cause { message: "conflict with \"a\"".to_owned(), field: ".spec.paused".to_owned() },
                Cause { message: "conflict with \"a\"".to_owned(), field: ".spec.replicas".to_owned() },
            ],
        }
    );
    world.apply("b", config(json!({"replicas": 2})), true).unwrap();
    assert_eq!(world.fields("a", "Apply")["f:spec"], json!({"f:paused": {}}));
    assert_eq!(world.fields("b", "Apply")["f:spec"], json!({"f:replicas": {}}));
}

#[test]
fn conflicts_with_updaters_name_their_version() {
    let mut world = World::new();
    world.apply("a", config(json!({"replicas": 1})), false).unwrap();
    world.update("scaler", "", |object| object["spec"]["replicas"] = 5.into());
    assert_eq!(world.fields("a", "Apply")["f:spec"], Value::Null);
    let error = world.apply("a", config(json!({"replicas": 1})), false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"scaler\" using apps/v1: .spec.replicas"
    );
    world.apply("a", config(json!({"replicas": 5})), false).unwrap();
    assert_eq!(world.fields("a", "Apply")["f:spec"], json!({"f:replicas": {}}));
    assert_eq!(world.fields("scaler", "Update")["f:spec"], json!({"f:replicas": {}}));
}

#[test]
fn what_is_no_longer_applied_goes_unless_another_wants_it() {
    let mut world = World::new();
    let containers = |list: Value| config(json!({"template": {"spec": {"containers": list}}}));
    world.apply("a", containers(json!([{"name": "x", "image": "1"}, {"name": "y", "image": "1"}])), false).unwrap();
    world.apply("b", containers(json!([{"name": "y", "tty": true}])), false).unwrap();
    world.apply("a", containers(json!([{"name": "x"}])), false).unwrap();
    assert_eq!(
        world.object()["spec"]["template"]["spec"]["containers"],
        json!([{"name": "x"}, {"name": "y", "tty": true}])
    );
    world.apply("b", config(json!({})), false).unwrap();
    assert_eq!(world.object()["spec"]["template"]["spec"]["containers"], json!([{"name": "x"}]));
}

#[test]
fn atomic_lists_are_owned_whole_and_sets_by_element() {
    let mut world = World::new();
    let mut with = |manager: &str, finalizers: Value, force| {
        let mut config = config(json!({}));
        config["metadata"]["finalizers"] = finalizers;
        world.apply(manager, config, force).map(|()| world.object()["metadata"]["finalizers"].clone())
    };
    assert_eq!(with("a", json!(["x/a"]), false).unwrap(), json!(["x/a"]));
    assert_eq!(with("b", json!(["x/b"]), false).unwrap(), json!(["x/a", "x/b"]));
    assert_eq!(with("a", json!([]), false).unwrap(), json!(["x/b"]));
    assert_eq!(world.fields("b", "Apply")["f:metadata"]["f:finalizers"], json!({"v:\"x/b\"": {}}));
}

#[test]
fn updates_are_tracked_and_the_status_apart() {
    let mut world = World::new();
    world.update("kubectl-create", "", |object| {
        object["metadata"] = json!({"name": "d", "annotations": {"k": "v"}});
        object["spec"] = json!({"replicas": 1, "paused": true});
    });
    assert_eq!(
        world.fields("kubectl-create", "Update"),
        json!({
            "f:metadata": {"f:annotations": {".": {}, "f:k": {}}}, "f:spec": {"f:replicas": {}, "f:paused": {}},
        })
    );
    world.update("manager", "status", |object| {
        object["status"] = json!({"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
    });
    let entry = world.object()["metadata"]["managedFields"][1].clone();
    assert_eq!((&entry["manager"], &entry["subresource"]), (&json!("manager"), &json!("status")));
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:status": {
        "f:conditions": {".": {}, "k:{\"type\":\"Available\"}": {".": {}, "f:status": {}, "f:type": {}}}, "f:replicas": {}}})
    );
    world.update("other", "", |object| {
        object["spec"].as_object_mut().unwrap().remove("replicas");
    });
    assert_eq!(world.fields("kubectl-create", "Update")["f:spec"], json!({"f:paused": {}}));
    assert_eq!(world.fields("other", "Update"), Value::Null, "removing makes no owner");
}

#[test]
fn ownership_can_be_forgotten() {
    let mut world = World::new();
    world.apply("a", config(json!({"replicas": 1})), false).unwrap();
    world.update("x", "", |object| object["metadata"]["managedFields"] = json!([{}]));
    assert!(world.object()["metadata"].get("managedFields").is_none());
    world.update("y", "", |object| object["spec"]["replicas"] = 2.into());
    assert!(world.object()["metadata"].get("managedFields").is_none(), "an untracked object stays so");
    world.apply("a", config(json!({"paused": true})), false).unwrap();
    assert_eq!(world.fields("before-first-apply", "Update")["f:spec"], json!({"f:replicas": {}}));
}

#[test]
fn many_updaters_are_summed_up() {
    let mut world = World::new();
    for at in 0..12 {
        world.update(&format!("u{at:02}"), "", |object| object["metadata"]["labels"][format!("l{at:02}")] = "x".into());
    }
    let managers: Vec<String> = world.object()["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(managers.len(), 10);
    assert_eq!(managers[0], "ancient-changes");
}

#[test]
fn bad_configurations_are_refused() {
    let mut world = World::new();
    for (config, want) in [
        (json!({"apiVersion": "v1", "kind": "Pod"}), "invalid object type: v1, Kind=Pod"),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"managedFields": []}}),
            "metadata.managedFields must be nil",
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": {"foo": 1}}),
            "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema",
        ),
        (
            config(json!({"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}})),
            "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.template.spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            config(json!({"replicas": "x"})),
            "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string",
        ),
        (
            config(json!({"template": {"spec": {"containers": ["a"]}}})),
            "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.template.spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
    ] {
        let error = world.apply("a", config.clone(), false).expect_err(want);
        assert_eq!(error.to_string(), want, "{config}");
    }
}

#[test]
fn client_side_apply_hands_over_to_server_side() {
    let mut world = World::new();
    let last = config(json!({"replicas": 1}));
    world.update("kubectl-client-side-apply", "", |object| {
        *object = last.clone();
        object["metadata"]["annotations"] = json!({LAST_APPLIED: last.to_string()});
    });
    world.apply("kubectl", config(json!({"replicas": 3})), false).unwrap();
    assert_eq!(world.object()["spec"]["replicas"], 3);
    let annotation: Value = serde_json::from_str(last_applied(world.object()).unwrap()).unwrap();
    assert_eq!(annotation["spec"]["replicas"], 3);
    let mut world = World::new();
    world.update("x", "", |object| *object = last.clone());
    assert!(world.apply("kubectl", config(json!({"replicas": 3})), false).is_err());
}

#[test]
fn an_apply_without_a_change_keeps_the_times() {
    let mut world = World::new();
    world.apply("a", config(json!({"replicas": 1})), false).unwrap();
    let before = world.object().clone();
    world.apply("a", config(json!({"replicas": 1})), false).unwrap();
    assert_eq!(*world.object(), before);
    let mut again = before.clone();
    again["metadata"]["managedFields"][0]["time"] = "2030-01-01T00:00:00Z".into();
    keep_times(&mut again, &before);
    assert_eq!(again, before);
}

/// One of some usual changes; the world compares both ways of recording it.
fn edit(object: &mut Value, what: usize, value: u8) {
    let spec = &mut object["spec"];
    let containers = &mut spec["template"]["spec"]["containers"];
    match what {
        0 => spec["replicas"] = value.into(),
        1 => containers[0]["image"] = format!("i{value}").into(),
        2 => containers[0]["env"] = json!([{"name": "A", "value": value.to_string()}, {"name": format!("B{value}")}]),
        3 => drop(containers[0].as_object_mut().unwrap().shift_remove("env")),
        4 => *containers = json!([containers[0], {"name": format!("extra{value}"), "image": "x"}]),
        5 => *containers = json!([containers[0]]),
        6 => object["metadata"]["labels"] = json!({format!("l{value}"): "x"}),
        7 => object["metadata"]["annotations"][format!("a{value}")] = "y".into(),
        8 => drop(object["metadata"].as_object_mut().unwrap().shift_remove("labels")),
        9 => {
            object["status"] = json!({"replicas": value, "conditions": [{"type": "Ready", "status": "True",
            "lastUpdateTime": null, "message": format!("m{value}")}]})
        }
        10 => object["status"]["readyReplicas"] = value.into(),
        11 => drop(object.as_object_mut().unwrap().shift_remove("status")),
        12 => spec["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": value}}),
        _ => spec["template"]["spec"]["nodeSelector"] = json!({"zone": value.to_string()}),
    }
}

fn custom() -> Shapes {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "object", "additionalProperties": {"type": "string"}},
        "b": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
            "type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "a": {"type": "string"}, "b": {"x-kubernetes-preserve-unknown-fields": true}}}},
        "c": {"x-kubernetes-preserve-unknown-fields": true},
        "name": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }}}}))
    .unwrap();
    schema::shapes("x.io/v1", "Thing", Some(&schema))
}

fn apply_custom(live: Option<&Value>, manager: &str, spec: &Value, force: bool) -> Result<Value, ApplyError> {
    let shapes = custom();
    let versions = OneVersion { api_version: "x.io/v1", shape: shapes.kind("x.io/v1", "Thing").unwrap() };
    let reset = Set::default();
    let write = Write {
        manager,
        subresource: "",
        api_version: "x.io/v1",
        kind: "Thing",
        now: "2026-01-01T00:00:00Z",
        versions: &versions,
        reset: &reset,
    };
    apply(
        live,
        &json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}),
        write,
        force,
    )
}

proptest! {
    #[test]
    fn applying_again_changes_nothing_and_owns_what_is_there(first in values(), second in values()) {
        let Ok(one) = apply_custom(None, "a", &first, false) else { return Ok(()) };
        // Who owns nothing is not remembered.
        prop_assume!(one["metadata"].get("managedFields").is_some());
        prop_assert_eq!(&apply_custom(Some(&one), "a", &first, false).unwrap(), &one);
        let Ok(two) = apply_custom(Some(&one), "b", &second, true) else { return Ok(()) };
        // Whoever forces owns all he said, and his second time is no change.
        let again = apply_custom(Some(&two), "b", &second, false).unwrap();
        prop_assert_eq!(&again, &two);
        // A set that is written can be read.
        for entry in two["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let set = Set::parse(&entry["fieldsV1"]).unwrap();
            prop_assert_eq!(&set.wire(), &entry["fieldsV1"]);
        }
    }

    #[test]
    fn the_short_way_comes_to_what_the_long_one_does(edits in proptest::collection::vec((0..4usize, 0..14usize, 0..3u8), 1..25)) {
        let mut world = World::new();
        world.update("kubectl-create", "", |object| *object = config(json!({"replicas": 1, "template": {
            "metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}})));
        for (manager, what, value) in edits {
            let (manager, part) = [("kubectl-create", ""), ("other", ""), ("other", "status"), ("third", "status")][manager];
            world.update(manager, part, |object| edit(object, what, value));
        }
    }

    #[test]
    fn the_last_to_leave_takes_all_with_him(first in values()) {
        let Ok(one) = apply_custom(None, "a", &first, false) else { return Ok(()) };
        prop_assume!(one["metadata"].get("managedFields").is_some());
        let two = apply_custom(Some(&one), "a", &json!(null), false).unwrap();
        prop_assert!(two["spec"].is_null() || two["spec"] == json!({}), "{} -> {}", one, two);
    }
}
