//! Failures as clients see them: a `Status` with reason, details and causes.

use serde_json::{Map, Value, json};

/// What a request failed with.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    /// The `details` object; absent where the server gives none.
    pub details: Option<Value>,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

/// A resource by group and plural name, as messages spell it: `deployments.apps`.
pub(crate) fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn details(name: &str, group: &str, kind: &str) -> Map<String, Value> {
    let mut details = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), Value::from(value));
        }
    }
    details
}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn detailed(mut self, details: Map<String, Value>) -> Self {
        self.details = Some(Value::Object(details));
        self
    }

    pub(crate) fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", qualified(group, resource)))
            .detailed(details(name, group, resource))
    }

    pub(crate) fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", qualified(group, resource)))
            .detailed(details(name, group, resource))
    }

    pub(crate) fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(group, resource));
        Self::new(409, "Conflict", message).detailed(details(name, group, resource))
    }

    /// The conflict of a stale resource version.
    pub(crate) fn stale(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    pub(crate) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let what = qualified(group, resource);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} {name:?} is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).detailed(details(name, group, resource))
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        let message = message.to_string();
        let mut error = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        error.details = Some(json!({"causes": [{"message": message}]}));
        error
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn method_not_allowed(verb: &str, group: &str, resource: &str) -> Self {
        let what = qualified(group, resource);
        let message = format!("{verb} is not supported on resources of kind {what:?}");
        Self::new(405, "MethodNotAllowed", message).detailed(details("", group, resource))
    }

    /// The path leads nowhere.
    pub(crate) fn no_such_path() -> Self {
        let mut error = Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(json!({}));
        error
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {}", accepted.join(", "));
        let mut error = Self::new(406, "NotAcceptable", message);
        error.details = Some(json!({}));
        error
    }

    pub(crate) fn invalid(
        group: &str,
        kind: &str,
        name: &str,
        errors: &[karpenter_kinds::fielderror::FieldError],
    ) -> Self {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let text = karpenter_kinds::fielderror::aggregate(&texts);
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = if text.is_empty() {
            format!("{qualified} {name:?} is invalid")
        } else {
            format!("{qualified} {name:?} is invalid: {text}")
        };
        let causes: Vec<Value> =
            errors.iter().map(|e| json!({"reason": e.kind.reason(), "message": e.body(), "field": e.field})).collect();
        let mut details = details(name, group, kind);
        if !causes.is_empty() {
            details.insert("causes".into(), Value::Array(causes));
        }
        Self::new(422, "Invalid", message).detailed(details)
    }

    pub(crate) fn too_many_requests(message: impl Into<String>, retry_after_seconds: Option<i64>) -> Self {
        let mut error = Self::new(429, "TooManyRequests", message);
        if let Some(seconds) = retry_after_seconds {
            error.details = Some(json!({"retryAfterSeconds": seconds}));
        }
        error
    }

    pub(crate) fn with_cause(mut self, cause: Value) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        if let Some(details) = details.as_object_mut() {
            let causes = details.entry("causes").or_insert_with(|| json!([]));
            if let Some(causes) = causes.as_array_mut() {
                causes.push(cause);
            }
        }
        self
    }

    /// The `Retry-After` header, where there is one.
    pub(crate) fn retry_after(&self) -> Option<i64> {
        let seconds =
            self.details.as_ref().and_then(|details| details.get("retryAfterSeconds")).and_then(Value::as_i64);
        seconds.or((self.code == 429).then_some(1)).filter(|seconds| *seconds > 0)
    }

    /// The Status object.
    pub fn status(&self) -> Value {
        let mut status =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message});
        if !self.reason.is_empty() {
            status["reason"] = Value::from(self.reason);
        }
        let object = status.as_object_mut().expect("an object literal");
        if let Some(details) = &self.details {
            object.insert("details".into(), details.clone());
        }
        object.insert("code".into(), Value::from(self.code));
        status
    }
}
