use crate::lab::{Lab, machine, ready, template};
use karpenter_cluster::kubelet::CsiDriver;
use serde_json::{Value, json};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

async fn lab(seed: u64) -> Lab {
    let lab = Lab::new(seed);
    for n in 1..=3 {
        let mut machine = machine(n);
        machine.csi_drivers.push(CsiDriver {
            name: "disk.example.com".into(),
            limit: Some(2),
            topology_keys: vec!["topology.kubernetes.io/zone".into()],
        });
        lab.cluster.handle().add_machine(machine).await.unwrap();
    }
    lab.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "late"}, "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"}),
    )
    .await;
    lab.settle(5).await;
    lab
}

fn stateful(replicas: i32) -> Value {
    let template = template("db", "100m");
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
        "spec": {"replicas": replicas, "serviceName": "db", "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "db"}}, "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}}]}})
}

#[tokio::test(start_paused = true)]
async fn claims_are_provisioned_where_their_pods_go_and_attached_within_limits() {
    let lab = lab(1).await;
    lab.create("/apis/apps/v1/namespaces/default/statefulsets", stateful(7)).await;
    lab.settle(120).await;
    let pods = lab.pods("db").await;
    assert_eq!(pods.iter().filter(|p| ready(p)).count(), 6, "two volumes on each of three nodes");
    let stuck = pods.iter().find(|p| !ready(p)).unwrap();
    let message = stuck["status"]["conditions"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("3 node(s) exceed max volume count"), "{stuck}");
    for pod in pods.iter().filter(|p| ready(p)) {
        let claim = format!("{CLAIMS}/data-{}", pod["metadata"]["name"].as_str().unwrap());
        let claim = lab.get(&claim).await.unwrap();
        assert_eq!(claim["status"]["phase"], "Bound");
        let volume = lab
            .get(&format!("/api/v1/persistentvolumes/{}", claim["spec"]["volumeName"].as_str().unwrap()))
            .await
            .unwrap();
        let zone =
            &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0];
        let node = lab.get(&format!("/api/v1/nodes/{}", pod["spec"]["nodeName"].as_str().unwrap())).await.unwrap();
        assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], *zone);
    }
    let attachments = lab.list("/apis/storage.k8s.io/v1/volumeattachments").await;
    assert_eq!(attachments.iter().filter(|a| a["status"]["attached"] == true).count(), 6);
    // A pod that goes and comes back finds its volume again.
    lab.delete("/api/v1/namespaces/default/pods/db-0").await;
    lab.settle(60).await;
    assert!(ready(&lab.get("/api/v1/namespaces/default/pods/db-0").await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn volumes_go_with_their_claims() {
    let lab = lab(2).await;
    lab.create("/apis/apps/v1/namespaces/default/statefulsets", stateful(2)).await;
    lab.settle(60).await;
    assert_eq!(lab.list("/api/v1/persistentvolumes").await.len(), 2);
    lab.delete(&format!("{CLAIMS}/data-db-1")).await;
    lab.settle(5).await;
    assert!(lab.get(&format!("{CLAIMS}/data-db-1")).await.is_some(), "a claim in use is protected");
    lab.patch("/apis/apps/v1/namespaces/default/statefulsets/db", json!({"spec": {"replicas": 1}})).await;
    lab.settle(60).await;
    assert!(lab.get(&format!("{CLAIMS}/data-db-1")).await.is_none());
    assert_eq!(lab.list("/api/v1/persistentvolumes").await.len(), 1, "and its volume is deleted with it");
    assert_eq!(lab.list("/apis/storage.k8s.io/v1/volumeattachments").await.len(), 1);
}
