//! Bodies: JSON or YAML in, a value out, and the check that it is of the kind the path says.

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
        "application/yaml" => Ok((yaml(&request.body)?, Vec::new())),
        "application/vnd.kubernetes.protobuf" => {
            let value = protobuf::decode(&request.body).map_err(ApiError::bad_request)?;
            Ok((value, Vec::new()))
        }
        _ => Err(ApiError::unsupported_media_type(&ACCEPTED)),
    }
}

pub(crate) fn json(body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    crate::duplicates::read(body).map_err(|error| ApiError::bad_request(go_json::syntax_error(body, &error)))
}

pub(crate) fn yaml(body: &[u8]) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| ApiError::bad_request(format!("yaml: {error}")))?;
    serde_saphyr::from_str(text)
        .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: yaml: {error}")))
}

/// A body that is to be an object of this kind.
pub(crate) fn parse_object(served: &Served, request: &Request) -> Result<(Value, Vec<String>), ApiError> {
    let unrecognized = |why: &str| {
        let kind = &served.kind;
        let message = match &served.origin {
            Origin::Builtin(_) => format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({})",
                go_json::summary(&request.body)
            ),
            Origin::Custom(_) => format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {why} ({})",
                go_json::summary(&request.body)
            ),
        };
        ApiError::bad_request(message)
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
    let known = Types::get().kind(api_version, kind).is_some();
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
    // Go packages are named after the group's first part: `apps`, `core`.
    let package = match served.group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    ApiError::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {0}: converting (v1.{kind}) to ({package}.{0}): unknown conversion",
        served.kind
    ))
}
