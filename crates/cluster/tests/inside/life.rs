use crate::lab::{DEPLOYMENTS, Lab, deployment, ready};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_deployment_comes_to_life() {
    let lab = Lab::with_machines(1, 3).await;
    let nodes = lab.list("/api/v1/nodes").await;
    assert_eq!(nodes.len(), 3);
    assert!(nodes.iter().all(|n| n["spec"]["taints"].is_null()), "{}", nodes[0]);
    lab.create(DEPLOYMENTS, deployment("web", 6, "1")).await;
    lab.settle(60).await;
    let pods = lab.pods("web").await;
    assert_eq!(pods.len(), 6);
    assert!(pods.iter().all(ready), "{}", pods[0]);
    let status = &lab.get(&format!("{DEPLOYMENTS}/web")).await.unwrap()["status"];
    assert_eq!(
        (&status["readyReplicas"], &status["availableReplicas"], &status["updatedReplicas"]),
        (&json!(6), &json!(6), &json!(6)),
        "{status}"
    );
    lab.patch(&format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 2}})).await;
    lab.settle(60).await;
    assert_eq!(lab.pods("web").await.len(), 2);
}
