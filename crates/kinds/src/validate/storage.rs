//! Data and volumes.

use serde_json::Value;

use super::{immutable, label_selector};
use crate::fielderror::FieldError;
use crate::names;
use crate::quantity::Quantity;

const MAX_DATA: usize = 1 << 20;

pub(super) fn data(kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut total = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in object[field].as_object().into_iter().flatten() {
            let valid =
                !key.is_empty() && key.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'));
            if !valid || key.len() > 253 || key == "." || key.starts_with("..") {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                errors.push(FieldError::invalid(format!("{field}[{key}]"), key, detail));
            }
            if field == "binaryData" && object["data"].get(key).is_some() {
                let detail = "duplicate of key present in data";
                errors.push(FieldError::invalid(format!("data[{key}]"), key, detail));
            }
            total += value.as_str().map_or(0, str::len);
        }
    }
    if total > MAX_DATA {
        errors.push(FieldError::too_long(if kind == "Secret" { "data" } else { "" }, MAX_DATA));
    }
    if kind == "Secret" {
        let required: &[&str] = match object["type"].as_str().unwrap_or_default() {
            "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
            "kubernetes.io/dockercfg" => &[".dockercfg"],
            "kubernetes.io/tls" => &["tls.crt", "tls.key"],
            "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
            _ => &[],
        };
        for key in required {
            if object["data"].get(*key).is_none() {
                errors.push(FieldError::required(format!("data[{key}]"), ""));
            }
        }
    }
    errors
}

pub(super) fn data_update(kind: &str, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if kind == "Secret" {
        errors.extend(immutable("type", object.get("type"), old.get("type")));
    }
    if old["immutable"] == true {
        if object["immutable"] != true {
            errors.push(FieldError::forbidden("immutable", "field is immutable when `immutable` is set"));
        }
        for field in ["data", "binaryData"] {
            if object.get(field) != old.get(field) {
                errors.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
            }
        }
    }
    errors
}

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn access_modes(list: &Value, field: &str, detail: &str) -> Vec<FieldError> {
    if list.as_array().is_none_or(Vec::is_empty) {
        return vec![FieldError::required(field, detail)];
    }
    let mut errors = Vec::new();
    for mode in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !ACCESS_MODES.contains(&mode) {
            errors.push(FieldError::not_supported(field, mode, &ACCESS_MODES));
        }
    }
    errors
}

pub(super) fn claim(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = access_modes(&spec["accessModes"], "spec.accessModes", "at least 1 access mode is required");
    errors.extend(label_selector(&spec["selector"], "spec.selector"));
    let storage = &spec["resources"]["requests"]["storage"];
    match storage.as_str().and_then(|text| Quantity::parse(text).ok()) {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(size) if size.nanos <= 0 => {
            errors.push(FieldError::invalid("spec.resources[storage]", storage, "must be greater than zero"));
        }
        Some(_) => {}
    }
    let class = spec["storageClassName"].as_str().unwrap_or_default();
    if !class.is_empty() {
        for message in names::dns_subdomain(class).err().into_iter().flatten() {
            errors.push(FieldError::invalid("spec.storageClassName", class, message));
        }
    }
    let modes = ["Block", "Filesystem"];
    if let Some(mode) = spec["volumeMode"].as_str().filter(|mode| !modes.contains(mode)) {
        errors.push(FieldError::not_supported("spec.volumeMode", mode, &modes));
    }
    errors
}

pub(super) fn attachment(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let text = |key: &str| spec[key].as_str().unwrap_or_default();
    if text("attacher").is_empty() {
        errors.push(FieldError::required("spec.attacher", ""));
    }
    let source = &spec["source"];
    let given = ["inlineVolumeSpec", "persistentVolumeName"].iter().filter(|key| !source[**key].is_null()).count();
    if given == 0 {
        let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        errors.push(FieldError::required("spec.source", detail));
    } else if given == 2 {
        let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        errors.push(FieldError::forbidden("spec.source", detail));
    }
    for message in names::dns_subdomain(text("nodeName")).err().into_iter().flatten() {
        errors.push(FieldError::invalid("spec.nodeName", text("nodeName"), message));
    }
    errors
}

pub(super) fn csi_node(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (field, driver) in super::items(&object["spec"]["drivers"], "spec.drivers") {
        let text = |key: &str| driver[key].as_str().unwrap_or_default();
        if text("nodeID").is_empty() {
            errors.push(FieldError::required(format!("{field}.nodeID"), ""));
        }
        errors.extend(super::non_negative(&format!("{field}.allocatable.count"), &driver["allocatable"]["count"]));
        if known.contains(&text("name")) {
            errors.push(FieldError::duplicate(format!("{field}.name"), text("name")));
        }
        known.push(text("name"));
    }
    errors
}

pub(super) fn claim_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let (spec, before) = (&object["spec"], &old["spec"]);
    let size =
        |spec: &Value| spec["resources"]["requests"]["storage"].as_str().and_then(|text| Quantity::parse(text).ok());
    let mut munged = spec.clone();
    // Binding sets it once.
    if before["volumeName"].as_str().unwrap_or_default().is_empty()
        && let Some(fields) = munged.as_object_mut()
    {
        fields.shift_remove("volumeName");
    }
    if old["status"]["phase"] == "Bound" {
        munged["resources"] = before["resources"].clone();
    }
    for key in ["volumeAttributesClassName"] {
        match before.get(key) {
            Some(value) => munged[key] = value.clone(),
            None => {
                if let Some(fields) = munged.as_object_mut() {
                    fields.shift_remove(key);
                }
            }
        }
    }
    if before.get("storageClassName").is_none()
        && let Some(fields) = munged.as_object_mut()
    {
        fields.shift_remove("storageClassName");
    }
    let mut errors = Vec::new();
    if super::without_nulls(&munged) != super::without_nulls(before) {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", detail));
    }
    if let (Some(new), Some(before)) = (size(spec), size(before))
        && new < before
    {
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", detail));
    }
    errors
}

pub(super) fn volume(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = access_modes(&spec["accessModes"], "spec.accessModes", "");
    if spec["capacity"].as_object().is_none_or(serde_json::Map::is_empty) {
        errors.push(FieldError::required("spec.capacity", ""));
    } else if spec["capacity"].get("storage").is_none() {
        errors.push(FieldError::not_supported("spec.capacity", &spec["capacity"], &["storage"]));
    }
    let policies = ["Delete", "Recycle", "Retain"];
    errors.extend(super::one_of(
        "spec.persistentVolumeReclaimPolicy",
        &spec["persistentVolumeReclaimPolicy"],
        &policies,
    ));
    const OTHER: [&str; 9] = [
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    ];
    let sources: Vec<&String> = spec
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
        .filter(|key| !OTHER.contains(&key.as_str()))
        .collect();
    let path = spec["hostPath"]["path"].as_str().unwrap_or_default();
    if path.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid("spec.hostPath.path", path, "must not contain '..'"));
    }
    if let Some(second) = sources.get(1) {
        let detail = "may not specify more than 1 volume type";
        errors.push(FieldError::forbidden(format!("spec.{second}"), detail));
    }
    if sources.is_empty() {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
    errors
}

pub(super) fn volume_update(object: &Value, old: &Value) -> Vec<FieldError> {
    const OTHER: [&str; 8] = [
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "nodeAffinity",
        "volumeAttributesClassName",
    ];
    let strip = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            OTHER.iter().for_each(|key| {
                fields.shift_remove(*key);
            });
        }
        spec
    };
    if strip(&object["spec"]) == strip(&old["spec"]) {
        return Vec::new();
    }
    vec![FieldError::forbidden(
        "spec.persistentvolumesource",
        "spec.persistentvolumesource is immutable after creation",
    )]
}

pub(super) fn class(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let provisioner = object["provisioner"].as_str().unwrap_or_default();
    if provisioner.is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    } else {
        for message in names::qualified_name(&provisioner.to_lowercase()).err().into_iter().flatten() {
            errors.push(FieldError::invalid("provisioner", provisioner, message));
        }
    }
    let policies = ["Delete", "Retain"];
    if let Some(policy) = object["reclaimPolicy"].as_str().filter(|policy| !policies.contains(policy)) {
        errors.push(FieldError::not_supported("reclaimPolicy", policy, &policies));
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    if let Some(mode) = object["volumeBindingMode"].as_str().filter(|mode| !modes.contains(mode)) {
        errors.push(FieldError::not_supported("volumeBindingMode", mode, &modes));
    }
    errors
}

pub(super) fn class_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let fixed = ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"];
    fixed.iter().flat_map(|field| immutable(field, object.get(field), old.get(field))).collect()
}
