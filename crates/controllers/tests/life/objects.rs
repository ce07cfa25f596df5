//! Manifests.

use serde_json::{Value, json};

pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn class_ref() -> Value {
    json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
}

/// A claim as a user would write it, with these fields in its spec.
pub(crate) fn claim(name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.k8s.aws/ec2nodeclass": "default"}},
        "spec": {"nodeClassRef": class_ref(), "expireAfter": "Never",
            "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}});
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object
}

/// A claim of a pool, as the provisioner makes it.
pub(crate) fn claim_of(pool: &Value, name: &str, spec: Value) -> Value {
    let mut object = claim(name, spec);
    object["metadata"]["labels"] = json!({"karpenter.sh/nodepool": pool["metadata"]["name"],
        "karpenter.k8s.aws/ec2nodeclass": "default"});
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "name": pool["metadata"]["name"], "uid": pool["metadata"]["uid"], "blockOwnerDeletion": true}]);
    object
}

pub(crate) fn pool(name: &str, template: Value) -> Value {
    let mut object = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {"nodeClassRef": class_ref(), "expireAfter": "Never", "requirements": [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}}}});
    object["spec"]["template"]["spec"].as_object_mut().unwrap().extend(template.as_object().unwrap().clone());
    object
}

pub(crate) fn node_class(name: &str) -> Value {
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": {
        "role": "node", "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]}})
}

/// A deployment; `spec` goes into its pods' spec, `metadata` into their metadata.
pub(crate) fn deployment(app: &str, replicas: usize, metadata: Value, spec: Value) -> Value {
    let mut template = json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [
        {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}});
    template["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    template["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template}})
}

/// A budget over an app that allows no eviction, until it is changed.
pub(crate) fn budget(app: &str, max_unavailable: usize) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": app}}}})
}

/// A StatefulSet of one whose pod has a disk.
pub(crate) fn database(app: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": app, "namespace": "default"},
        "spec": {"replicas": 1, "serviceName": app, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [
                {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "100m"}}}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}}]}})
}

pub(crate) fn daemon_set(app: &str, spec: Value) -> Value {
    let mut object = deployment(app, 1, json!({}), spec);
    object["kind"] = json!("DaemonSet");
    object["spec"].as_object_mut().unwrap().remove("replicas");
    object
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}
