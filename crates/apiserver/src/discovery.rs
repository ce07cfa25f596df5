//! Paths that are not of a resource: discovery, health, version.

use std::sync::Arc;

use http::Response;
use serde_json::{Value, json};

use crate::body::Body;
use crate::error::ApiError;
use crate::registry::Served;
use crate::request::Request;
use crate::server::{Inner, bytes_response, json_response};

pub(crate) fn answer(inner: &Inner, request: &Request) -> Result<Response<Body>, ApiError> {
    let state = inner.state();
    let _: Option<&Arc<Served>> = state.registry.find("", "v1", "pods");
    match request.path.as_str() {
        "/healthz" | "/livez" | "/readyz" => Ok(bytes_response(200, "text/plain; charset=utf-8", "ok")),
        "/version" | "/version/" => Ok(json_response(200, &version())),
        _ => Err(ApiError::no_such_path()),
    }
}

fn version() -> Value {
    json!({"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "", "platform": "linux/amd64"})
}
