//! PATCH: the four kinds of patch, each turned into a new object.

use karpenter_structural::patch::{self, PatchError};
use karpenter_structural::shape::builtin;
use serde_json::Value;

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

const BUILTIN: [&str; 5] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
];

pub(crate) fn kind_of(served: &Served, request: &Request) -> Result<PatchKind, ApiError> {
    let kind = match input::media_type(request) {
        "application/json-patch+json" => PatchKind::Json,
        "application/merge-patch+json" => PatchKind::Merge,
        "application/strategic-merge-patch+json" if served.custom().is_none() => PatchKind::Strategic,
        "application/apply-patch+yaml" => PatchKind::Apply,
        other => {
            let accepted: Vec<&str> = match served.custom() {
                None => BUILTIN.to_vec(),
                Some(_) => vec![BUILTIN[0], BUILTIN[1], BUILTIN[3], BUILTIN[4]],
            };
            return Err(ApiError::unsupported_media_type(other, &accepted));
        }
    };
    Ok(kind)
}

/// The patched object, in the served version.
pub(crate) fn apply(served: &Served, kind: PatchKind, current: &Value, patch: &Value) -> Result<Value, ApiError> {
    let name = current["metadata"]["name"].as_str().unwrap_or_default();
    let result = match kind {
        PatchKind::Json => patch::json_patch(current, patch),
        PatchKind::Merge | PatchKind::Apply => patch::merge_patch(current, patch),
        PatchKind::Strategic => {
            let shapes = builtin::shapes();
            let shape = shapes
                .kind(&served.api_version(), &served.kind)
                .unwrap_or_else(|| shapes.deduced());
            patch::strategic_merge_patch(current, patch, shape)
        }
    };
    result.map_err(|error| refusal(served, name, &error))
}

fn refusal(served: &Served, name: &str, error: &PatchError) -> ApiError {
    let _ = (served, name);
    match error {
        PatchError::BadRequest(message) => ApiError::bad_request(message.clone()),
        PatchError::Unprocessable(message) => {
            let mut error = ApiError::new(422, "Invalid", message.clone());
            error.details = Some(serde_json::json!({}));
            error.details = None;
            error
        }
        PatchError::TooLarge(message) => ApiError::new(413, "RequestEntityTooLarge", message.clone()),
        PatchError::Unexpected(message) => ApiError::new(500, "", message.clone()),
    }
}
