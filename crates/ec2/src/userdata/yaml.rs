//! YAML for nodeadm, in the style of upstream's library: block style, keys sorted, a text in quotes where a parser of
//! YAML 1.1 could take it for something else. One difference is meant: texts of several lines are written in one.

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

fn scalar(text: &str) -> String {
    if is_something_else(text) || text.chars().any(|c| !is_printable(c)) {
        double_quoted(text)
    } else if has_indicators(text) {
        format!("'{}'", text.replace('\'', "''"))
    } else {
        text.to_owned()
    }
}

/// What a plain text must not be: these words stand for truth, nothing, or a number.
const WORDS: [&str; 37] = [
    "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n", "N",
    "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF",
    "+.inf", "+.Inf", "+.INF", "<<",
];

fn is_something_else(text: &str) -> bool {
    if WORDS.contains(&text) || ["-.inf", "-.Inf", "-.INF"].contains(&text) {
        return true;
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return false;
    }
    let plain = text.replace('_', "");
    is_float(&plain) || is_radix(&plain) || is_base60(text) || is_date(text)
}

/// An integer or a float, with or without an exponent.
fn is_float(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (digits, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let some = !whole.is_empty() || !fraction.is_empty();
    some && all_digits(whole) && all_digits(fraction) && exponent.is_none_or(|e| !e.is_empty() && all_digits(e))
}

fn is_radix(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    [("0x", 16), ("0o", 8), ("0b", 2)].into_iter().any(|(prefix, radix)| {
        digits.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_digit(radix)))
    })
}

/// `190:20:30` is a number of seconds to YAML 1.1.
fn is_base60(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = digits.split('.').next().unwrap_or_default().split(':');
    let first = parts.next().unwrap_or_default();
    let starts = first.starts_with(|c: char| c.is_ascii_digit());
    let whole = starts && first.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let rest: Vec<&str> = parts.collect();
    let minutes = |part: &&str| part.len() <= 2 && part.parse::<u8>().is_ok_and(|minutes| minutes < 60);
    whole && !rest.is_empty() && rest.iter().all(minutes)
}

fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let number = |part: Option<&str>, least: usize, most: usize| {
        part.is_some_and(|part| (least..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
    };
    number(parts.next(), 4, 4)
        && number(parts.next(), 1, 2)
        && parts.next().is_some_and(|day| day.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a plain text would be taken for YAML's own punctuation.
fn has_indicators(text: &str) -> bool {
    let blank = |c: Option<char>| c.is_none_or(|c| c == ' ');
    let mut chars = text.chars();
    let (first, second) = (chars.next(), chars.next());
    let leads = match first {
        Some('#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`') => true,
        Some('?' | ':' | '-') => blank(second),
        _ => false,
    };
    leads
        || text.starts_with("---")
        || text.starts_with("...")
        || text.starts_with(' ')
        || text.ends_with([' ', ':'])
        || text.contains(": ")
        || text.contains(" #")
}

fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn double_quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\0' => out.push_str(r"\0"),
            '\u{7}' => out.push_str(r"\a"),
            '\u{8}' => out.push_str(r"\b"),
            '\t' => out.push_str(r"\t"),
            '\n' => out.push_str(r"\n"),
            '\u{b}' => out.push_str(r"\v"),
            '\u{c}' => out.push_str(r"\f"),
            '\r' => out.push_str(r"\r"),
            '\u{1b}' => out.push_str(r"\e"),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) <= 0xff => out.push_str(&format!(r"\x{:02X}", u32::from(c))),
            c if u32::from(c) <= 0xffff => out.push_str(&format!(r"\u{:04X}", u32::from(c))),
            c => out.push_str(&format!(r"\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
    out
}
