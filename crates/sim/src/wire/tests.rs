use serde_json::json;

use super::*;

fn garbled() -> Garbled {
    let shape = |object: &mut Value| object["spec"]["weight"] = json!("heavy");
    Garbled { resource: "nodepools", namespace: String::new(), name: "main".to_owned(), shape }
}

#[test]
fn one_object_is_garbled_wherever_it_is_told_of() {
    let pool = |name: &str| json!({"metadata": {"name": name}, "spec": {"weight": 1}});
    let read = |value: &Value| -> Option<Value> {
        garble(&[garbled()], value.to_string().as_bytes()).map(|bytes| serde_json::from_slice(&bytes).unwrap())
    };
    assert_eq!(read(&pool("main")).unwrap()["spec"]["weight"], "heavy");
    assert_eq!(read(&pool("main-too")), None, "another is as it was");
    let list = read(&json!({"items": [pool("other"), pool("main")]})).unwrap();
    assert_eq!(
        (&list["items"][0]["spec"]["weight"], &list["items"][1]["spec"]["weight"]),
        (&json!(1), &json!("heavy"))
    );
    let line = read(&json!({"type": "MODIFIED", "object": pool("main")})).unwrap();
    assert_eq!(line["object"]["spec"]["weight"], "heavy");
    assert!(garbled().is_of("/apis/karpenter.sh/v1/nodepools/main/status"));
    assert!(!garbled().is_of("/apis/karpenter.sh/v1/nodeclaims"));
}

#[tokio::test(start_paused = true)]
async fn watches_that_were_open_are_forgotten_and_new_ones_are_well() {
    let wire = Wire::default();
    let (old, of_nodes) = (wire.open(), wire.open());
    wire.forget_watches("/pods");
    let new = wire.open();
    assert!(matches!(wire.silence("/api/v1/pods", old), Some(Silence::ForEver)));
    assert!(wire.silence("/api/v1/nodes", of_nodes).is_none());
    assert!(wire.silence("/api/v1/pods", new).is_none());
    wire.mute_watches("", Duration::from_secs(60));
    assert!(matches!(wire.silence("/api/v1/nodes", new), Some(Silence::Until(_))));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(wire.silence("/api/v1/nodes", new).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_cut_for_one_process_and_requests_are_lost_for_all() {
    let wire = Wire::default();
    wire.cut_lease(1, Duration::from_secs(30));
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x";
    assert!(wire.loss(1, lease).is_some() && wire.loss(2, lease).is_none() && wire.loss(1, "/api/v1/pods").is_none());
    wire.lose_requests(Duration::from_secs(10));
    assert!(wire.loss(2, "/api/v1/pods").is_some());
    tokio::time::advance(Duration::from_secs(30)).await;
    assert!(wire.loss(1, lease).is_none() && wire.loss(2, "/api/v1/pods").is_none());
    assert_eq!(wire.struck(), [("requests_unanswered", 1)].into());
}
