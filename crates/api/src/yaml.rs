//! YAML for people to read and for generated files to be compared: block style, keys in the given order, text quoted only
//! where it must be. Written here because the layout is part of the promise that the same value gives the same bytes.

use serde_json::Value;

/// A JSON value as one YAML document, with a line break at its end.
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(&mut out, value, 0),
        Value::Array(items) if !items.is_empty() => block(&mut out, value, 0),
        _ => {
            scalar(&mut out, value);
            out.push('\n');
        }
    }
    out
}

/// Writes a non-empty map or list. The cursor stands where its first line begins.
fn block(out: &mut String, value: &Value, indent: usize) {
    let mut first = true;
    let mut begin_line = |out: &mut String| {
        if !std::mem::take(&mut first) {
            out.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                begin_line(out);
                text(out, key);
                out.push(':');
                if is_block(child) {
                    // Lists are not indented below their key, as CRD generators write them.
                    let inner = if child.is_array() { indent } else { indent + 2 };
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', inner));
                    block(out, child, inner);
                } else {
                    out.push(' ');
                    scalar(out, child);
                    out.push('\n');
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                begin_line(out);
                out.push_str("- ");
                if is_block(item) {
                    block(out, item, indent + 2);
                } else {
                    scalar(out, item);
                    out.push('\n');
                }
            }
        }
        _ => unreachable!("only maps and lists are blocks"),
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn scalar(out: &mut String, value: &Value) {
    match value {
        Value::String(string) => text(out, string),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

fn text(out: &mut String, string: &str) {
    if is_plain(string) {
        out.push_str(string);
    } else if string.chars().any(char::is_control) || string.contains('\u{feff}') {
        // Every JSON string is a double-quoted YAML string.
        out.push_str(&Value::from(string).to_string());
    } else {
        out.push('\'');
        out.push_str(&string.replace('\'', "''"));
        out.push('\'');
    }
}

/// Whether the text can stand without quotes and be read back as the same text by every YAML reader. Errs on the side
/// of quoting: whatever might be a number, a date, a boolean in any version of YAML, or syntax.
fn is_plain(string: &str) -> bool {
    let starts_plainly = string.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '^' | '$'));
    let ends_plainly = !string.ends_with([' ', ':']);
    let inner = |c: char| c.is_ascii_graphic() || c == ' ';
    let reserved = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"];
    starts_plainly
        && ends_plainly
        && string.chars().all(inner)
        && !string.contains(": ")
        && !string.contains(" #")
        && !reserved.contains(&string.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests;
