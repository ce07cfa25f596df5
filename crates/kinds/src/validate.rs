//! Validation of the built-in kinds: what users meet, in the server's words.

use serde_json::Value;

use crate::fielderror::FieldError;
use crate::strategy::Part;

mod limits;
mod meta;
mod nodes;
mod pod;
mod pod_resources;
mod pod_update;
mod policy;
mod security;
mod services;
mod storage;
mod workloads;

pub use meta::{NameRule, label_selector, labels, metadata, metadata_update};

/// Errors of an object about to be created.
pub fn create(group: &str, kind: &str, namespaced: bool, object: &Value) -> Vec<FieldError> {
    let mut errors = metadata(namespaced, name_rule(kind), object);
    errors.extend(content(group, kind, object));
    if (group, kind) == ("", "Pod") {
        errors.extend(pod::pod_on_create(object));
    }
    errors
}

/// Errors of an update.
pub fn update(group: &str, kind: &str, namespaced: bool, part: Part, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = metadata_update(object, old);
    errors.extend(errors.clone());
    // Twice, as on the reference server, where the generic check and the kind's own both look.
    let again = metadata(namespaced, NameRule::Any, object);
    errors.extend(again.iter().filter(|error| !error.field.starts_with("metadata.finalizers[")).cloned());
    errors.extend(again.iter().cloned());
    if (group, kind) == ("", "Pod") {
        // And of pods twice more.
        errors.extend(again.iter().filter(|error| error.field == "metadata.labels").cloned());
        errors.extend(again.iter().filter(|error| error.field == "metadata.labels").cloned());
    }
    if part == Part::Status || part == Part::Approval || part == Part::Finalize {
        errors.extend(match (group, kind) {
            ("", "Pod") => pod_update::status(object, old),
            _ => Vec::new(),
        });
        return errors;
    }
    let content_first = matches!(group, "apps" | "batch" | "rbac.authorization.k8s.io");
    if content_first {
        errors.extend(content(group, kind, object));
    }
    errors.extend(match (group, kind) {
        ("", "Pod") => pod_update::update(part, object, old),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") => workloads::update(kind, object, old),
        ("batch", "Job") => workloads::job_update(object, old),
        ("", "Service") => services::update(object, old),
        ("", "Secret" | "ConfigMap") => storage::data_update(kind, object, old),
        ("", "Node") => nodes::update(object, old),
        ("", "PersistentVolumeClaim") => storage::claim_update(object, old),
        ("", "PersistentVolume") => storage::volume_update(object, old),
        ("storage.k8s.io", "StorageClass") => storage::class_update(object, old),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class_update(object, old),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => policy::binding_update(object, old),
        ("node.k8s.io", "RuntimeClass") => policy::runtime_class_update(object, old),
        ("resource.k8s.io", "ResourceClaim" | "ResourceClaimTemplate") => {
            immutable("spec", object.get("spec"), old.get("spec"))
        }
        _ => Vec::new(),
    });
    if (group, kind) != ("", "Pod") && !content_first {
        errors.extend(content(group, kind, object));
    }
    errors
}

/// What must hold of an object whoever writes it.
fn content(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    match (group, kind) {
        ("", "Pod") => pod::spec(&object["spec"], "spec", pod::Owner::Pod),
        ("", "PodTemplate") => pod::template(&object["template"], "template", pod::Owner::Template),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") => workloads::validate(kind, object),
        ("", "ReplicationController") => workloads::replication_controller(object),
        ("batch", "Job") => workloads::job_spec(&object["spec"], "spec"),
        ("batch", "CronJob") => workloads::cron_job(object),
        ("", "Service") => services::validate(object),
        ("networking.k8s.io", "Ingress") => services::ingress(object),
        ("networking.k8s.io", "NetworkPolicy") => services::network_policy(object),
        ("discovery.k8s.io", "EndpointSlice") => services::endpoint_slice(object),
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment(object),
        ("storage.k8s.io", "CSINode") => storage::csi_node(object),
        ("", "Secret" | "ConfigMap") => storage::data(kind, object),
        ("", "Node") => nodes::validate(object),
        ("", "Namespace") => Vec::new(),
        ("", "LimitRange") => limits::limit_range(object),
        ("", "ResourceQuota") => limits::resource_quota(object),
        ("", "PersistentVolumeClaim") => storage::claim(object),
        ("", "PersistentVolume") => storage::volume(object),
        ("storage.k8s.io", "StorageClass") => storage::class(object),
        ("policy", "PodDisruptionBudget") => policy::budget(object),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class(object),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => policy::rules(object, kind == "ClusterRole"),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => policy::role_binding(object, kind),
        ("node.k8s.io", "RuntimeClass") => policy::runtime_class(object),
        ("coordination.k8s.io", "Lease") => policy::lease(object),
        ("autoscaling", "HorizontalPodAutoscaler") => policy::autoscaler(object),
        ("", "Event") | ("events.k8s.io", "Event") => policy::event(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => policy::signing_request(object),
        _ => Vec::new(),
    }
}

pub(crate) fn name_rule(kind: &str) -> NameRule {
    match kind {
        "Namespace" | "PodGroup" => NameRule::Label,
        "Service" => NameRule::Label,
        "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

/// An immutable field that changed.
pub(crate) fn immutable(field: &str, new: Option<&Value>, old: Option<&Value>) -> Vec<FieldError> {
    if new == old {
        return Vec::new();
    }
    vec![FieldError::invalid(field, new.cloned().unwrap_or(Value::Null), "field is immutable")]
}

/// A value out of an enumeration.
pub(crate) fn one_of(field: &str, value: &Value, allowed: &[&str]) -> Vec<FieldError> {
    let text = value.as_str().unwrap_or_default();
    if text.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    if allowed.contains(&text) {
        return Vec::new();
    }
    vec![FieldError::not_supported(field, text, allowed)]
}

/// Zero or more.
pub(crate) fn non_negative(field: &str, value: &Value) -> Vec<FieldError> {
    match value.as_i64() {
        Some(number) if number < 0 => {
            vec![FieldError::invalid(field, number, "must be greater than or equal to 0")]
        }
        _ => Vec::new(),
    }
}

/// A value without its nulls, which indexing leaves behind.
pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// The elements of a list with their paths.
pub(crate) fn items<'a>(list: &'a Value, field: &str) -> Vec<(String, &'a Value)> {
    let items = list.as_array().into_iter().flatten().enumerate();
    items.map(|(index, item)| (format!("{field}[{index}]"), item)).collect()
}

#[cfg(test)]
mod tests;
