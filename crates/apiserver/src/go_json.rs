//! Go's words for JSON it cannot read.

use serde_json::Value;

/// What `encoding/json` calls the value.
pub(crate) fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The start of a body, as the server quotes it: as text if it looks like an object, else in hexadecimal.
pub(crate) fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    if body.is_empty() {
        return "<empty>".into();
    }
    if body[0] == b'{' {
        let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned();
        return if body.len() > SHOWN { format!("{text} ...") } else { text };
    }
    let hex: String = body.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    if body.len() > SHOWN { format!("{hex} ...") } else { hex }
}

/// Go's message for a document that is no JSON.
pub(crate) fn syntax_error(body: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() || body.is_empty() {
        return "unexpected end of JSON input".into();
    }
    let text = String::from_utf8_lossy(body);
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let at = error.column().saturating_sub(1);
    let found = line.chars().nth(at).or_else(|| line.chars().last()).unwrap_or(' ');
    // A literal that goes wrong after its first letter.
    for literal in ["true", "false", "null"] {
        for length in (1..literal.len()).rev() {
            let start = (at + 1).saturating_sub(length + 1);
            let prefix: String = line.chars().skip(start).take(length).collect();
            if prefix == literal[..length] && line.chars().nth(start + length) == Some(found) {
                let expecting = &literal[length..=length];
                return format!("invalid character '{found}' in literal {literal} (expecting '{expecting}')");
            }
        }
    }
    let message = error.to_string();
    if message.starts_with("trailing characters") {
        return format!("invalid character '{found}' after top-level value");
    }
    if message.starts_with("key must be a string") {
        return format!("invalid character '{found}' looking for beginning of object key string");
    }
    if message.starts_with("expected `:`") {
        return format!("invalid character '{found}' after object key");
    }
    if message.starts_with("expected `,` or `}`") {
        return format!("invalid character '{found}' after object key:value pair");
    }
    if message.starts_with("expected `,` or `]`") {
        return format!("invalid character '{found}' after array element");
    }
    format!("invalid character '{found}' looking for beginning of value")
}
