//! Bodies: JSON or YAML in, a value out, and the check that it is of the kind the path says.

use serde_json::Value;

use crate::error::ApiError;
use crate::registry::{Origin, Served};
use crate::request::Request;

const ACCEPTED: [&str; 4] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
];

/// The media type without its parameters.
pub(crate) fn media_type(request: &Request) -> &str {
    request.content_type.split(';').next().unwrap_or_default().trim()
}

/// The body as JSON, with strict errors for keys that occur twice.
pub(crate) fn parse(request: &Request) -> Result<(Value, Vec<String>), ApiError> {
    match media_type(request) {
        "" | "application/json" | "*/*" => json(&request.body),
        "application/yaml" => Ok((yaml(&request.body)?, Vec::new())),
        other => Err(ApiError::unsupported_media_type(other, &ACCEPTED)),
    }
}

pub(crate) fn json(body: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let value: Value = serde_json::from_slice(body).map_err(|error| bad_json(body, &error))?;
    let duplicates = crate::duplicates::find(body);
    Ok((value, duplicates))
}

fn bad_json(body: &[u8], error: &serde_json::Error) -> ApiError {
    let text = String::from_utf8_lossy(body);
    let _ = error;
    let first = text.trim_start().chars().next();
    let message = match first {
        None => "unexpected end of JSON input".to_owned(),
        _ if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Some('{' | '[' | '"' | '0'..='9' | '-' | 't' | 'f' | 'n') => {
            let at = error.column().saturating_sub(1);
            let found = text
                .lines()
                .nth(error.line().saturating_sub(1))
                .and_then(|line| line.chars().nth(at));
            match found {
                Some(found) => format!("invalid character '{found}' looking for beginning of value"),
                None => "unexpected end of JSON input".to_owned(),
            }
        }
        Some(other) => format!(
            "couldn't get version/kind; json parse error: invalid character '{other}' looking for beginning of value"
        ),
    };
    ApiError::bad_request(message)
}

pub(crate) fn yaml(body: &[u8]) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| ApiError::bad_request(format!("yaml: {error}")))?;
    serde_saphyr::from_str(text)
        .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: yaml: {error}")))
}

/// Fills in a missing type and refuses a wrong one.
pub(crate) fn check_type(served: &Served, value: &mut Value) -> Result<(), ApiError> {
    let Some(object) = value.as_object_mut() else {
        return Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            match value {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
                Value::Null | Value::Object(_) => "null",
            }
        )));
    };
    let api_version = object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if let Origin::Custom(_) = served.origin {
        if kind.is_empty() {
            return Err(ApiError::bad_request(format!(
                "Object 'Kind' is missing in '{}'",
                Value::Object(object.clone())
            )));
        }
        if api_version.is_empty() {
            return Err(ApiError::bad_request(format!(
                "Object 'apiVersion' is missing in '{}'",
                Value::Object(object.clone())
            )));
        }
    }
    let expected = served.api_version();
    if !api_version.is_empty() && api_version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != *served.kind {
        let version = &served.version;
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: converting (v1.{kind}) to (core.{}): unknown conversion",
            &**version, served.kind, served.kind
        )));
    }
    object.insert("apiVersion".into(), Value::from(expected));
    object.insert("kind".into(), Value::from(&*served.kind));
    Ok(())
}
