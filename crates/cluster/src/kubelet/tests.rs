use super::behaviour::{End, of_init, of_main};
use super::{Fleet, Machine, Settings, Span};
use crate::key::Key;
use crate::op::{Op, Step};
use crate::world::{Kind, World};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn world(objects: &[(Kind, Value)]) -> World {
    let mut world = World::default();
    for (kind, object) in objects {
        world.apply(kind.decode(&object.to_string()).unwrap());
    }
    world
}

fn node() -> (Kind, Value) {
    let node = json!({"metadata": {"name": "node-1", "uid": "n", "resourceVersion": "1", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}}});
    (Kind::Node, node)
}

fn pod(name: &str, version: u32, cpu: &str) -> (Kind, Value) {
    let pod = json!({"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}});
    (Kind::Pod, pod)
}

fn statuses(step: &Step) -> Vec<&Value> {
    step.ops
        .iter()
        .filter_map(|op| if let Op::Patch { body, .. } = op { Some(&body["status"]) } else { None })
        .collect()
}

fn fleet(world: &World) -> Fleet {
    let mut fleet = Fleet::new(Settings {
        start: Span::millis(1000, 1000),
        image_pull: Span::millis(2000, 2000),
        ..Settings::default()
    });
    fleet.add(Machine::new("node-1", "4", "16Gi"), at(0));
    fleet.step_machine("node-1", world, at(0));
    fleet
}

#[test]
fn commands_say_how_long_a_container_runs() {
    let of = |command: &[&str]| {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "command": command}]}});
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
        of_main(&pod, &pod.spec.as_ref().unwrap().containers[0], &Settings::default())
    };
    let end = |seconds: u64, code: i32| Some(End { after: Duration::from_secs(seconds), code });
    for (command, want) in [
        (&["sleep", "30"][..], end(30, 0)),
        (&["sleep", "infinity"], None),
        (&["sh", "-c", "echo hello; sleep 2 && exit 3"], end(2, 3)),
        (&["/bin/sh", "-c", "sleep 1\nsleep 2"], end(3, 0)),
        (&["false"], end(0, 1)),
        (&["nginx", "-g", "daemon off"], None),
        (&[], None),
    ] {
        assert_eq!(of(command), want, "{command:?}");
    }
}

#[test]
fn init_containers_always_end_and_annotations_have_the_last_word() {
    let pod = json!({"metadata": {"name": "p", "annotations": {"kubelet.simulation/run-seconds": "7", "kubelet.simulation/exit-code": "2"}},
        "spec": {"containers": [{"name": "c", "command": ["sleep", "1"]}]}});
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).unwrap();
    let container = &pod.spec.as_ref().unwrap().containers[0];
    assert_eq!(of_main(&pod, container, &Settings::default()), Some(End { after: Duration::from_secs(7), code: 2 }));
    let bare = k8s_openapi::api::core::v1::Container { name: "i".into(), ..Default::default() };
    assert!(of_init(&pod, &bare, &Settings::default()).after > Duration::ZERO);
}

#[test]
fn a_pod_is_created_pulled_started_and_runs() {
    let world = world(&[node(), pod("p", 2, "1")]);
    let mut fleet = fleet(&world);
    let key = Key::new("default", "p");
    let first = fleet.step_pod(&key, &world, at(10));
    assert_eq!(statuses(&first)[0]["phase"], "Pending");
    assert_eq!(statuses(&first)[0]["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating");
    assert_eq!(first.after, Some(Duration::from_secs(3)), "two seconds for the image, one to start");
    let then = fleet.step_pod(&key, &world, at(13));
    assert_eq!(statuses(&then)[0]["phase"], "Running");
    let conditions = statuses(&then)[0]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|c| c["status"] == "True"), "{conditions:?}");
    assert_eq!(then.after, None);
}

#[test]
fn a_machine_refuses_what_does_not_fit() {
    let world = world(&[node(), pod("a", 2, "3"), pod("b", 3, "2")]);
    let mut fleet = fleet(&world);
    fleet.step_pod(&Key::new("default", "a"), &world, at(10));
    let refused = fleet.step_pod(&Key::new("default", "b"), &world, at(10));
    let status = statuses(&refused)[0];
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
    let why = "Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000";
    assert_eq!(status["message"], why);
}

#[test]
fn a_silent_machine_does_nothing() {
    let world = world(&[node(), pod("p", 2, "1")]);
    let mut fleet = fleet(&world);
    fleet.silence("node-1", true, &world, at(5));
    assert!(fleet.step_pod(&Key::new("default", "p"), &world, at(10)).ops.is_empty());
    assert!(fleet.step_machine("node-1", &world, at(10)).ops.is_empty());
}
