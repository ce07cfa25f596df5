//! YAML for nodeadm: block style, keys sorted, strings quoted wherever a parser could take them for something else.

use serde_json::Value;

pub(super) fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

fn write(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            for (position, (key, value)) in entries.into_iter().enumerate() {
                if position > 0 {
                    pad(indent, out);
                }
                out.push_str(&scalar(key));
                out.push(':');
                below(value, indent, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    pad(indent, out);
                }
                out.push_str("- ");
                write(item, indent + 2, out);
            }
        }
        leaf => {
            out.push_str(&inline(leaf));
            out.push('\n');
        }
    }
}

fn below(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            pad(indent + 2, out);
            write(value, indent + 2, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            pad(indent, out);
            write(value, indent, out);
        }
        leaf => {
            out.push(' ');
            out.push_str(&inline(leaf));
            out.push('\n');
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// Plain where nothing but a string can be meant; else as in JSON, which is YAML too.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_'));
    let word = text.to_ascii_lowercase();
    let reserved = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"].contains(&word.as_str());
    if plain && !reserved { text.to_owned() } else { Value::from(text).to_string() }
}
