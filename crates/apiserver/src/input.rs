//! Bodies: JSON or YAML in, a value out, and the check that it is of the kind the path says.

use karpenter_kinds::duplicates;
use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::protobuf;
use karpenter_kinds::types::Types;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::go_json;
use crate::registry::{Origin, Served};
use crate::request::Request;

const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The media type without its parameters.
pub(crate) fn media_type(request: &Request) -> &str {
    request.content_type.split(';').next().unwrap_or_default().trim()
}

/// The body as JSON, with strict errors for keys that occur twice.
pub(crate) fn parse(request: &Request) -> Result<(Value, Vec<String>), ApiError> {
    match media_type(request) {
        "" | "application/json" | "*/*" => json(&request.body),
        "application/yaml" => yaml(&request.body),
        "application/vnd.kubernetes.protobuf" => {
            let value = protobuf::decode(&request.body).map_err(ApiError::bad_request)?;
            Ok((value, Vec::new()))
        }
        _ => Err(ApiError::unsupported_media_type(&ACCEPTED)),
    }
}

pub(crate) fn json(body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    duplicates::read(body).map_err(|error| ApiError::bad_request(go_json::syntax_error(body, &error)))
}

/// A YAML document, with strict errors for keys that occur twice.
pub(crate) fn yaml(body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| ApiError::bad_request(format!("yaml: {error}")))?;
    match serde_saphyr::from_str(text) {
        Ok(value) => Ok((value, Vec::new())),
        Err(error) => {
            let (line, what) = yaml_error(&error.to_string());
            let Some(key) = what.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split(',').next()) else {
                let line = if line > 1 { format!("line {line}: ") } else { String::new() };
                return Err(ApiError::bad_request(format!("yaml: {line}{what}")));
            };
            let told = format!("yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map");
            let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
            let value = serde_saphyr::from_str_with_options(text, options)
                .map_err(|error| ApiError::bad_request(format!("yaml: {}", yaml_error(&error.to_string()).1)))?;
            Ok((value, vec![told]))
        }
    }
}

/// The line and the words of a parser's message, which says more than that.
fn yaml_error(message: &str) -> (usize, String) {
    let first = message.lines().next().unwrap_or_default();
    let rest = first.strip_prefix("error: ").unwrap_or(first);
    let parts = rest.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
    match parts {
        Some((place, what)) => {
            let line = place.split(' ').next().and_then(|line| line.parse().ok()).unwrap_or(1);
            (line, what.to_owned())
        }
        None => (1, rest.to_owned()),
    }
}

/// A body that is to be an object of this kind.
pub(crate) fn parse_object(served: &Served, request: &Request) -> Result<(Value, Vec<String>), ApiError> {
    let unrecognized = |why: &str| {
        let kind = &served.kind;
        let asked = if why.starts_with("yaml: ") { "" } else { "couldn't get version/kind; json parse error: " };
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {asked}{why} ({})",
            go_json::summary(&request.body)
        ))
    };
    let parsed =
        parse(request).map_err(|error| if error.code == 400 { unrecognized(&error.message) } else { error })?;
    if !parsed.0.is_object() {
        return Err(unrecognized(&format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            go_json::describe(&parsed.0)
        )));
    }
    Ok(parsed)
}

/// Fills in a missing type and refuses a wrong one.
pub(crate) fn check_type(served: &Served, value: &mut Value) -> Result<(), ApiError> {
    let Some(object) = value.as_object_mut() else {
        return Err(ApiError::bad_request("the object is not a JSON object"));
    };
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let expected = served.api_version();
    if let Origin::Custom(_) = served.origin {
        check_custom_type(served, object, &api_version, &kind)?;
    } else if (!api_version.is_empty() && api_version != expected) || (!kind.is_empty() && kind != *served.kind) {
        let api_version = if api_version.is_empty() { expected.clone() } else { api_version };
        let kind = if kind.is_empty() { served.kind.to_string() } else { kind };
        return Err(wrong_builtin_type(served, &api_version, &kind, &expected));
    }
    object.insert("apiVersion".into(), Value::from(expected));
    object.insert("kind".into(), Value::from(&*served.kind));
    Ok(())
}

fn check_custom_type(
    served: &Served,
    object: &Map<String, Value>,
    api_version: &str,
    kind: &str,
) -> Result<(), ApiError> {
    let missing = |what: &str| {
        let shown = Value::Object(object.clone());
        Err(ApiError::bad_request(format!("Object '{what}' is missing in '{shown}'")))
    };
    if kind.is_empty() {
        return missing("Kind");
    }
    let expected = served.api_version();
    if api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if kind != &*served.kind {
        let name = object.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        let error = FieldError::invalid("kind", kind, format!("must be {}", served.kind));
        return Err(ApiError::invalid(&served.group, kind, name, &[error]));
    }
    Ok(())
}

fn wrong_builtin_type(served: &Served, api_version: &str, kind: &str, expected: &str) -> ApiError {
    let version = api_version.rsplit('/').next().unwrap_or(api_version);
    let known = Types::get().kind(api_version, kind).is_some() || is_retired(api_version, kind);
    if !known {
        return ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\"",
            served.kind
        ));
    }
    if kind == &*served.kind {
        return ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        ));
    }
    unknown_conversion(api_version, kind, &served.group, &served.kind)
}

pub(crate) fn unknown_conversion(api_version: &str, kind: &str, group: &str, wanted: &str) -> ApiError {
    let version = api_version.rsplit('/').next().unwrap_or(api_version);
    // Go packages are named after the group's first part: `apps`, `core`.
    let package = match group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    ApiError::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {wanted}: converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion"
    ))
}

/// Versions that are served no more, but whose kinds the reference server still knows by name.
fn is_retired(api_version: &str, kind: &str) -> bool {
    let kinds: &[&str] = match api_version {
        "apps/v1beta1" => &["Deployment", "StatefulSet", "ControllerRevision"],
        "apps/v1beta2" => &["Deployment", "StatefulSet", "ControllerRevision", "DaemonSet", "ReplicaSet"],
        "extensions/v1beta1" => &["Deployment", "DaemonSet", "ReplicaSet", "Ingress", "NetworkPolicy"],
        "batch/v1beta1" => &["CronJob"],
        "policy/v1beta1" => &["PodDisruptionBudget", "Eviction"],
        "networking.k8s.io/v1beta1" => &["Ingress", "IngressClass", "ServiceCIDR", "IPAddress"],
        "rbac.authorization.k8s.io/v1beta1" | "rbac.authorization.k8s.io/v1alpha1" => {
            &["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
        }
        "storage.k8s.io/v1beta1" | "storage.k8s.io/v1alpha1" => {
            &["StorageClass", "CSIDriver", "CSINode", "VolumeAttachment", "CSIStorageCapacity", "VolumeAttributesClass"]
        }
        "scheduling.k8s.io/v1beta1" | "scheduling.k8s.io/v1alpha1" => &["PriorityClass"],
        "node.k8s.io/v1beta1" | "node.k8s.io/v1alpha1" => &["RuntimeClass"],
        "coordination.k8s.io/v1beta1" => &["Lease"],
        "discovery.k8s.io/v1beta1" => &["EndpointSlice"],
        "events.k8s.io/v1beta1" => &["Event"],
        "autoscaling/v2beta1" | "autoscaling/v2beta2" => &["HorizontalPodAutoscaler"],
        "apiextensions.k8s.io/v1beta1" => &["CustomResourceDefinition"],
        "admissionregistration.k8s.io/v1beta1" => &["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"],
        "certificates.k8s.io/v1beta1" => &["CertificateSigningRequest"],
        _ => &[],
    };
    kinds.contains(&kind)
}
