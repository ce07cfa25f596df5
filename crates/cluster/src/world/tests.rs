use super::*;
use crate::key::Key;
use serde_json::json;

fn pod(version: &str, uid: &str, node: &str) -> Object {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": uid, "resourceVersion": version,
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "owner", "controller": true}]},
        "spec": {"containers": [], "nodeName": node}});
    Kind::Pod.decode(&pod.to_string()).unwrap()
}

#[test]
fn only_newer_objects_are_news() {
    let mut world = World::default();
    assert!(world.apply(pod("5", "a", "")).is_some());
    assert!(world.apply(pod("5", "a", "")).is_none());
    assert!(world.apply(pod("4", "a", "x")).is_none());
    assert!(world.apply(pod("10", "a", "x")).is_some(), "versions are numbers, not text");
    assert_eq!(world.pods_on("x").count(), 1);
    assert_eq!(world.pods_of("owner").count(), 1);
}

#[test]
fn what_we_deleted_stays_deleted_until_its_successor_comes() {
    let mut world = World::default();
    let key = Key::new("n", "p");
    world.apply(pod("5", "a", "x"));
    assert!(world.bury(Kind::Pod, &key, "a").is_some());
    assert!(world.apply(pod("6", "a", "x")).is_none(), "a late event of the dead");
    assert!(world.apply(pod("8", "b", "x")).is_some(), "a new one of the same name");
    assert!(world.remove(Kind::Pod, &key, 7).is_none(), "the end of the old one");
    assert_eq!(world.pods.len(), 1);
    assert!(world.remove(Kind::Pod, &key, 9).is_some());
    assert_eq!((world.pods_on("x").count(), world.pods_of("owner").count()), (0, 0));
}

#[test]
fn a_late_answer_does_not_bring_back_what_is_gone() {
    let mut world = World::default();
    let key = Key::new("n", "p");
    assert!(world.answered(pod("5", "a", "x")).is_some(), "quicker than the watch");
    world.heard(Kind::Pod, 7);
    assert!(world.remove(Kind::Pod, &key, 7).is_some());
    assert!(world.answered(pod("6", "a", "x")).is_none(), "nobody would ever take it away again");
    assert!(world.answered(pod("8", "b", "x")).is_some());
    world.heard(Kind::Pod, 20);
    assert!(world.answered(pod("9", "b", "")).is_some(), "it is here, and this is newer");
    world.remove(Kind::Pod, &key, 21);
    assert!(world.apply(pod("15", "c", "x")).is_some(), "a list may tell of what is older than the last deletion");
}

#[test]
fn managed_fields_are_left_out_wherever_they_stand() {
    let managed = r#""managedFields":[{"manager":"a ] } \" b","fieldsV1":{"f:spec":{"k:{\"name\":\"x\"}":{".":{}}}}}]"#;
    for (text, want) in [
        (format!(r#"{{"metadata":{{"name":"a",{managed}}},"spec":{{}}}}"#), r#"{"metadata":{"name":"a"},"spec":{}}"#),
        (format!(r#"{{"metadata":{{{managed},"name":"a"}}}}"#), r#"{"metadata":{"name":"a"}}"#),
        (format!(r#"{{"metadata":{{{managed}}}}}"#), r#"{"metadata":{}}"#),
        (format!(r#"{{"metadata":{{"name":"a",{managed},"uid":"u"}}}}"#), r#"{"metadata":{"name":"a","uid":"u"}}"#),
        (r#"{"note":"\"managedFields\":[ in words"}"#.to_owned(), r#"{"note":"\"managedFields\":[ in words"}"#),
        (r#"{"metadata":{"managedFields":[{"#.to_owned(), r#"{"metadata":{"managedFields":[{"#),
    ] {
        assert_eq!(kinds::unmanaged(&text), want, "{text}");
    }
}
