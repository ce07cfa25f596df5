//! Field errors and field paths, as the API reports them in the causes of a 422.

use std::fmt;

use serde_json::Value;

use crate::go;

/// What is wrong with a field. `Display` gives the sentence the server answers with.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub kind: ErrorKind,
    /// Such as `spec.containers[0].name`; empty for the object itself, which prints as `<nil>`.
    pub field: String,
    pub value: BadValue,
    pub detail: String,
}

/// The value an error is about, as it is repeated.
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// Not shown: objects and lists are too long to repeat.
    Omitted,
    Json(Value),
    /// JSON that is already written, its fields in an order of their own.
    Written(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

impl ErrorKind {
    /// The `reason` of the cause in the status.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

impl FieldError {
    pub fn new(kind: ErrorKind, field: &str, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self { kind, field: field.to_owned(), value: BadValue::Json(value.into()), detail: detail.into() }
    }

    pub fn invalid(field: &str, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, field, value, detail)
    }

    pub fn required(field: &str, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, field, "", detail)
    }

    pub fn forbidden(field: &str, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, field, "", detail)
    }

    pub fn duplicate(field: &str, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::Duplicate, field, value, "")
    }

    pub fn not_supported(field: &str, value: impl Into<Value>, supported: &[&str]) -> Self {
        let detail = if supported.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = supported.iter().map(|value| go::quote(value)).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(ErrorKind::NotSupported, field, value, detail)
    }

    pub fn too_long(field: &str, max: i64) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::new(ErrorKind::TooLong, field, "<value omitted>", format!("may not be more than {max} {unit}"))
    }

    pub fn too_many(field: &str, actual: i64, max: i64) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::new(ErrorKind::TooMany, field, actual, format!("must have at most {max} {unit}"))
    }

    /// The field as it is printed.
    pub fn field(&self) -> &str {
        if self.field.is_empty() { "<nil>" } else { &self.field }
    }

    /// The message without the field: what a cause in the status carries.
    pub fn body(&self) -> String {
        let mut out = self.kind.text().to_owned();
        match self.kind {
            ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::Internal => {}
            ErrorKind::NotFound
            | ErrorKind::Duplicate
            | ErrorKind::Invalid
            | ErrorKind::NotSupported
            | ErrorKind::TooMany
            | ErrorKind::TypeInvalid => {
                let shown = match &self.value {
                    BadValue::Omitted => None,
                    BadValue::Json(Value::String(text)) => Some(go::quote(text)),
                    BadValue::Json(Value::Number(number)) => Some(go::number(number)),
                    BadValue::Json(other) => Some(go::marshal(other)),
                    BadValue::Written(text) => Some(text.clone()),
                };
                if let Some(shown) = shown {
                    out.push_str(": ");
                    out.push_str(&shown);
                }
            }
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
        write!(f, "{}: {}", self.field(), self.body())
    }
}

impl std::error::Error for FieldError {}

/// `path.name`
pub(crate) fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// `path[at]`
pub(crate) fn index(path: &str, at: usize) -> String {
    format!("{path}[{at}]")
}

/// `path[name]`
pub(crate) fn key(path: &str, name: &str) -> String {
    format!("{path}[{name}]")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_read_as_the_servers() {
        for (error, want) in [
            (FieldError::invalid("a.b", "x", "no good"), r#"a.b: Invalid value: "x": no good"#),
            (FieldError::invalid("", Value::Null, "why"), "<nil>: Invalid value: null: why"),
            (FieldError::required("a", ""), "a: Required value"),
            (FieldError::too_many("a", 3, 1), "a: Too many: 3: must have at most 1 item"),
            (FieldError::too_long("a", 5), "a: Too long: may not be more than 5 bytes"),
            (FieldError::duplicate("a[1]", json!({"k": "<"})), r#"a[1]: Duplicate value: {"k":"\u003c"}"#),
            (
                FieldError::not_supported("a", "z", &["x", "y"]),
                r#"a: Unsupported value: "z": supported values: "x", "y""#,
            ),
        ] {
            assert_eq!(error.to_string(), want);
        }
    }
}
