//! Field errors: what validation answers, worded as the server words them.

use std::fmt;

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    Invalid,
    Required,
    Duplicate,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    NotFound,
    Internal,
}

impl ErrorKind {
    /// The cause's `reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub kind: ErrorKind,
    pub field: String,
    /// As Go prints it in the message; `None` for kinds that show no value.
    pub value: Option<String>,
    pub detail: String,
}

impl FieldError {
    pub fn invalid(field: impl Into<String>, value: impl Shown, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Invalid, field: field.into(), value: Some(value.shown()), detail: detail.into() }
    }

    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Required, field: field.into(), value: None, detail: detail.into() }
    }

    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Forbidden, field: field.into(), value: None, detail: detail.into() }
    }

    pub fn duplicate(field: impl Into<String>, value: impl Shown) -> Self {
        Self { kind: ErrorKind::Duplicate, field: field.into(), value: Some(value.shown()), detail: String::new() }
    }

    pub fn not_found(field: impl Into<String>, value: impl Shown) -> Self {
        Self { kind: ErrorKind::NotFound, field: field.into(), value: Some(value.shown()), detail: String::new() }
    }

    pub fn not_supported(field: impl Into<String>, value: impl Shown, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|text| format!("{text:?}")).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        Self { kind: ErrorKind::NotSupported, field: field.into(), value: Some(value.shown()), detail }
    }

    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        let detail = format!("may not be more than {limit} bytes");
        Self { kind: ErrorKind::TooLong, field: field.into(), value: None, detail }
    }

    pub fn too_many(field: impl Into<String>, actual: usize, limit: usize) -> Self {
        let detail = format!("must have at most {limit} items");
        Self { kind: ErrorKind::TooMany, field: field.into(), value: Some(actual.to_string()), detail }
    }

    /// An error whose message somebody else has worded already.
    pub fn worded(kind: ErrorKind, field: impl Into<String>, body: impl Into<String>) -> Self {
        let body = body.into();
        let detail =
            body.strip_prefix(kind.text()).map(|rest| rest.trim_start_matches(": ").to_owned()).unwrap_or(body);
        Self { kind, field: field.into(), value: None, detail }
    }

    /// The message without the field.
    pub fn body(&self) -> String {
        let mut out = self.kind.text().to_owned();
        if let Some(value) = &self.value {
            out.push_str(": ");
            out.push_str(value);
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// One error stands alone; several stand in brackets, each once.
pub fn aggregate(texts: &[String]) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for text in texts {
        if !unique.contains(&text.as_str()) {
            unique.push(text);
        }
    }
    match unique.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// How a value shows in a message.
pub trait Shown {
    fn shown(&self) -> String;
}

impl Shown for &str {
    fn shown(&self) -> String {
        quote(self)
    }
}

impl Shown for String {
    fn shown(&self) -> String {
        quote(self)
    }
}

impl Shown for &String {
    fn shown(&self) -> String {
        quote(self)
    }
}

impl Shown for i64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for &Value {
    fn shown(&self) -> String {
        match self {
            Value::String(text) => quote(text),
            Value::Null => "null".into(),
            other => other.to_string(),
        }
    }
}

impl Shown for Value {
    fn shown(&self) -> String {
        (&self).shown()
    }
}

/// Go's `%q`, near enough: Rust's differs in how it escapes what is not printable.
pub(crate) fn quote(text: &str) -> String {
    format!("{text:?}")
}
