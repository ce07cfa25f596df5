//! How Go prints values, where it shows in messages that users read.

use std::fmt::Write;

use serde_json::{Number, Value};

/// `%v` of a decoded JSON value: `map[a:1 b:[x y]]`.
pub(crate) fn display(value: &Value) -> String {
    let mut out = String::new();
    write_display(value, &mut out);
    out
}

fn write_display(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(value) => out.push_str(&number(value)),
        Value::String(value) => out.push_str(value),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                write_display(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_by(|a, b| a.0.cmp(b.0));
            out.push_str("map[");
            for (at, (key, value)) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_display(value, out);
            }
            out.push(']');
        }
    }
}

/// `%v` of an int64 or a float64.
pub(crate) fn number(value: &Number) -> String {
    match (value.as_i64(), value.as_f64()) {
        (Some(integer), _) => integer.to_string(),
        (None, Some(float)) => float64(float),
        (None, None) => value.to_string(),
    }
}

/// `%v` of a float64: shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub(crate) fn float64(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a small integer");
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let mut out = String::new();
    write!(out, "{mantissa}e{sign}{:02}", exponent.abs()).expect("a string takes all");
    out
}

/// `json.Marshal`: keys in order, and the characters that HTML minds escaped.
pub(crate) fn marshal(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&json_number(number)),
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (at, (key, value)) in fields.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_json(value, out);
            }
            out.push('}');
        }
    }
}

/// Numbers as `encoding/json` writes them: an exponent below 1e-6 and from 1e21 on.
fn json_number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (None, Some(float)) if float != 0.0 && float.is_finite() => {
            let scientific = format!("{float:e}");
            let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
            match exponent.parse::<i32>().expect("the exponent is a small integer") {
                -6..21 => format!("{float}"),
                exponent => format!("{mantissa}e{}{}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
            }
        }
        _ => number.to_string(),
    }
}

fn write_json_string(text: &str, out: &mut String) {
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
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(out, "\\u{:04x}", c as u32).expect("a string takes all");
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The Go type a JSON value is decoded into, as `reflect` names it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// What `encoding/json` calls the value in an error.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `%q`: quoted as Go source.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                write!(out, "\\x{:02x}", c as u32).expect("a string takes all");
            }
            c if c != ' ' && (c.is_whitespace() || c.is_control() || c == '\u{feff}') => {
                write!(out, "\\u{:04x}", c as u32).expect("a string takes all");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_in_go() {
        for (value, want) in [
            (json!({"b": [1, "x"], "a": null}), "map[a:<nil> b:[1 x]]"),
            (json!(1.5), "1.5"),
            (json!(1e21), "1e+21"),
            (json!(0.00001), "1e-05"),
            (json!(1000000.0), "1e+06"),
            (json!(123456.5), "123456.5"),
            (json!(true), "true"),
        ] {
            assert_eq!(display(&value), want);
        }
        assert_eq!(quote("a\"b\n\u{1}é"), "\"a\\\"b\\n\\x01é\"");
    }
}
