//! JSON byte for byte as Go's encoder writes it: keys sorted at every depth, `<`, `>`, `&` and the two Unicode line
//! separators escaped, floating point numbers in their shortest form.
//!
//! Sorting all depths is right although the reference sorts only the top: the values below come from the API server,
//! which is a Go program itself and sends them sorted.

use std::fmt::Write;

use serde_json::{Map, Number, Value};

pub(super) fn object(map: &Map<String, Value>) -> String {
    let mut out = String::new();
    write_object(&mut out, map);
    out
}

fn write_object(out: &mut String, map: &Map<String, Value>) {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| key.as_str());
    out.push('{');
    for (i, (key, value)) in entries.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        write_value(out, value);
    }
    out.push('}');
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => write_object(out, map),
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a string cannot fail");
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// Integers as they are; others in the shortest digits that read back, with an exponent only for very small and very
/// large magnitudes.
fn write_number(out: &mut String, number: &Number) {
    let float = match number.as_f64() {
        Some(float) if number.is_f64() => float,
        _ => {
            out.push_str(&number.to_string());
            return;
        }
    };
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        out.push_str(&if text.contains("e-") { text } else { text.replacen('e', "e+", 1) });
    } else {
        out.push_str(&float.to_string());
    }
}
