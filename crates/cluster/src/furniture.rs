//! What users expect to find in a cluster besides the API server's own objects: a default storage class and a DNS
//! service.

use kube::Client;
use serde_json::{Value, json};

/// Anything but `kubernetes.io/no-provisioner` is provisioned by the volume controller.
const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const SYSTEM_SERVICES: &str = "/api/v1/namespaces/kube-system/services";

/// Creates what is missing; what is there already stays as it is.
pub async fn install(client: &Client) -> kube::Result<()> {
    for (path, object) in [(STORAGE_CLASSES, storage_class()), (SYSTEM_SERVICES, dns_service())] {
        let body = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
        let request = crate::driver::write::request("POST", path, Some("application/json"), body);
        match client.request::<Value>(request).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn storage_class() -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "simulated.csi.k8s.io", "reclaimPolicy": "Delete", "allowVolumeExpansion": true,
        "volumeBindingMode": "WaitForFirstConsumer"})
}

/// The service every installer creates, under the name every resolver configuration expects.
fn dns_service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system",
            "annotations": {"prometheus.io/port": "9153", "prometheus.io/scrape": "true"},
            "labels": {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"}},
        "spec": {"clusterIP": "10.96.0.10", "selector": {"k8s-app": "kube-dns"}, "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153}]}})
}
