//! PATCH: the four kinds of patch, each turned into a new object.

use karpenter_structural::patch::{self, PatchError};
use karpenter_structural::shape::builtin;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::input;
use crate::registry::Served;
use crate::request::Request;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

pub(crate) fn kind_of(served: &Served, request: &Request) -> Result<PatchKind, ApiError> {
    let kind = match input::media_type(request) {
        "application/json-patch+json" => PatchKind::Json,
        "application/merge-patch+json" => PatchKind::Merge,
        "application/strategic-merge-patch+json" if served.custom().is_none() => PatchKind::Strategic,
        "application/apply-patch+yaml" => PatchKind::Apply,
        _ if served.custom().is_some() => {
            let accepted =
                ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
            return Err(ApiError::unsupported_media_type(&accepted));
        }
        _ => {
            let mut error = ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            error.details = Some(json!({}));
            return Err(error);
        }
    };
    Ok(kind)
}

/// The patched object, in the served version.
pub(crate) fn apply(served: &Served, kind: PatchKind, current: &Value, patch: &Value) -> Result<Value, ApiError> {
    let result = match kind {
        PatchKind::Json => {
            if !patch.is_array() {
                let found = match patch {
                    Value::Object(_) => "object",
                    Value::String(_) => "string",
                    Value::Bool(_) => "bool",
                    _ => "number",
                };
                return Err(ApiError::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
                )));
            }
            patch::json_patch(current, patch)
        }
        PatchKind::Merge | PatchKind::Apply => patch::merge_patch(current, patch),
        PatchKind::Strategic => {
            let shapes = builtin::shapes();
            let shape = shapes.kind(&served.api_version(), &served.kind).unwrap_or_else(|| shapes.deduced());
            patch::strategic_merge_patch(current, patch, shape)
        }
    };
    result.map_err(|error| refusal(&error))
}

fn refusal(error: &PatchError) -> ApiError {
    match error {
        PatchError::BadRequest(message) => ApiError::bad_request(message.clone()),
        PatchError::Unprocessable(_) => {
            // The reference server keeps the reason to itself.
            let mut error =
                ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request");
            error.details = Some(json!({}));
            error
        }
        PatchError::TooLarge(message) => ApiError::new(413, "RequestEntityTooLarge", message.clone()),
        PatchError::Unexpected(message) => ApiError::new(500, "", message.clone()),
    }
}
