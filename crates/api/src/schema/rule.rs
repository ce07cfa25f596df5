//! An admission rule in its two forms: CEL for the API server, a function for us.

use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) message: &'static str,
    pub(crate) cel: String,
    pub(crate) check: Check,
}

/// What the CEL expression says, over the raw value it stands at. `has(x.f)` in CEL is `x.get("f").is_some()`.
#[derive(Debug)]
pub(crate) enum Check {
    /// Of the value as a whole.
    Whole(fn(&Value) -> bool),
    /// Of each element of a list: `self.all(x, …)`.
    Each(fn(&Value) -> bool),
    /// Of each entry of a map: `self.all(k, …)`.
    Entry(fn(&str, &Value) -> bool),
    /// Of the old and the new value; nothing to check when the object is created.
    Transition(fn(&Value, &Value) -> bool),
}

impl Rule {
    fn new(message: &'static str, cel: impl Into<String>, check: Check) -> Self {
        Self { message, cel: cel.into(), check }
    }

    pub(super) fn whole(message: &'static str, cel: impl Into<String>, check: fn(&Value) -> bool) -> Self {
        Self::new(message, cel, Check::Whole(check))
    }

    pub(super) fn each(message: &'static str, cel: impl Into<String>, check: fn(&Value) -> bool) -> Self {
        Self::new(message, cel, Check::Each(check))
    }

    pub(super) fn entry(message: &'static str, cel: impl Into<String>, check: fn(&str, &Value) -> bool) -> Self {
        Self::new(message, cel, Check::Entry(check))
    }

    pub(super) fn transition(message: &'static str, cel: impl Into<String>, check: fn(&Value, &Value) -> bool) -> Self {
        Self::new(message, cel, Check::Transition(check))
    }

    /// `self != ''`
    pub(super) fn not_empty(message: &'static str) -> Self {
        Self::whole(message, "self != ''", |value| value.as_str() != Some(""))
    }
}

/// `has(value.field)`
pub(super) fn has(value: &Value, field: &str) -> bool {
    value.get(field).is_some()
}

/// The text of `value.field`, empty when there is none.
pub(super) fn text_of<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of a list, none when it is not one.
pub(super) fn elements(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
