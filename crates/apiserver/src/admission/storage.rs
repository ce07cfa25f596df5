//! Storage: the default class of claims, the finalizers that keep volumes in use, and growing claims.

use karpenter_kinds::quantity::Quantity;
use serde_json::{Value, json};

use super::Attributes;
use crate::error::ApiError;
use crate::state::State;

/// DefaultStorageClass: the newest class marked as the default, then the first by name.
pub(super) fn default_class(state: &State, claim: &mut Value) {
    if claim["spec"].get("storageClassName").is_some()
        || claim["metadata"]["annotations"].get("volume.beta.kubernetes.io/storage-class").is_some()
    {
        return;
    }
    let Some(table) = state.registry.table("storage.k8s.io", "storageclasses") else { return };
    let is_default = |class: &Value| {
        class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
            || class["metadata"]["annotations"]["storageclass.beta.kubernetes.io/is-default-class"] == "true"
    };
    let mut classes: Vec<Value> =
        state.store.table(table).range("", None).map(|class| class.value()).filter(is_default).collect();
    let text = |class: &Value, key: &str| class["metadata"][key].as_str().unwrap_or_default().to_owned();
    classes.sort_by(|a, b| {
        text(b, "creationTimestamp")
            .cmp(&text(a, "creationTimestamp"))
            .then_with(|| text(a, "name").cmp(&text(b, "name")))
    });
    if let Some(class) = classes.first() {
        claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
    }
}

/// StorageObjectInUseProtection.
pub(super) fn protect(attributes: &Attributes<'_>, object: &mut Value) {
    let served = attributes.served;
    let finalizer = if served.is("", "PersistentVolumeClaim") {
        "kubernetes.io/pvc-protection"
    } else if served.is("", "PersistentVolume") {
        "kubernetes.io/pv-protection"
    } else if served.is("storage.k8s.io", "VolumeAttributesClass") {
        "kubernetes.io/vac-protection"
    } else {
        return;
    };
    match object["metadata"]["finalizers"].as_array_mut() {
        Some(list) if list.iter().any(|name| name == finalizer) => {}
        Some(list) => list.push(json!(finalizer)),
        None => object["metadata"]["finalizers"] = json!([finalizer]),
    }
}

/// PersistentVolumeClaimResize: only claims of classes that allow it grow.
pub(super) fn check_resize(
    state: &State,
    attributes: &Attributes<'_>,
    claim: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(old) = old else { return Ok(()) };
    let size = |claim: &Value| {
        claim["spec"]["resources"]["requests"]["storage"].as_str().and_then(|text| Quantity::parse(text).ok())
    };
    let (Some(new), Some(before)) = (size(claim), size(old)) else { return Ok(()) };
    if new <= before {
        return Ok(());
    }
    if old["status"]["phase"] != "Bound" {
        return Err(attributes.forbidden("Only bound persistent volume claims can be expanded"));
    }
    let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
    let class =
        state.registry.table("storage.k8s.io", "storageclasses").and_then(|table| state.store.get(table, class));
    if class.is_some_and(|class| class.value()["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    Err(attributes.forbidden(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    ))
}
