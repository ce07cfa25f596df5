//! The strings library, version 2, and regular expressions.

use super::super::value::Val;
use super::{Outcome, fail, no_overload};
use crate::{go, re2};

pub(super) fn call(function: &str, args: &[Val]) -> Option<Outcome> {
    if function == "join" {
        return Some(join(args));
    }
    let Some(Val::String(text)) = args.first() else { return None };
    let rest = &args[1..];
    Some(match (function, rest) {
        ("contains", [Val::String(part)]) => Ok(Val::Bool(text.contains(&**part))),
        ("startsWith", [Val::String(part)]) => Ok(Val::Bool(text.starts_with(&**part))),
        ("endsWith", [Val::String(part)]) => Ok(Val::Bool(text.ends_with(&**part))),
        ("matches" | "find" | "findAll", [Val::String(pattern), ..]) => match re2::compile(pattern) {
            Ok(regex) => search(function, args, &regex),
            Err(error) => fail(error),
        },
        ("charAt", [Val::Int(at)]) => {
            let length = text.chars().count();
            match usize::try_from(*at) {
                Ok(at) if at <= length => {
                    Ok(Val::String(text.chars().nth(at).map(String::from).unwrap_or_default().into()))
                }
                _ => fail(format!("index out of range: {at}")),
            }
        }
        ("indexOf", [Val::String(part)]) => Ok(index_of(text, part, 0)),
        ("indexOf", [Val::String(part), Val::Int(from)]) => match within(text, *from) {
            Some(from) => Ok(index_of(text, part, from)),
            None => fail(format!("index out of range: {from}")),
        },
        ("lastIndexOf", [Val::String(part)]) => Ok(last_index_of(text, part, usize::MAX)),
        ("lastIndexOf", [Val::String(part), Val::Int(upto)]) => match within(text, *upto) {
            Some(upto) => Ok(last_index_of(text, part, upto)),
            None => fail(format!("index out of range: {upto}")),
        },
        ("lowerAscii", []) => Ok(Val::String(text.to_ascii_lowercase().into())),
        ("upperAscii", []) => Ok(Val::String(text.to_ascii_uppercase().into())),
        ("trim", []) => Ok(Val::string(text.trim_matches(is_space))),
        ("replace", [Val::String(old), Val::String(new)]) => Ok(Val::String(text.replace(&**old, new).into())),
        ("replace", [Val::String(old), Val::String(new), Val::Int(count)]) => Ok(match usize::try_from(*count) {
            Ok(count) => Val::String(text.replacen(&**old, new, count).into()),
            Err(_) => Val::String(text.replace(&**old, new).into()),
        }),
        ("split", [Val::String(by)]) => Ok(split(text, by, -1)),
        ("split", [Val::String(by), Val::Int(limit)]) => Ok(split(text, by, *limit)),
        ("substring", [Val::Int(from)]) => substring(text, *from, i64::MAX),
        ("substring", [Val::Int(from), Val::Int(to)]) => substring(text, *from, *to),
        ("format", [Val::List(values)]) => format_text(text, &values.items),
        ("strings.quote", []) => Ok(Val::String(go::quote(text).into())),
        _ => return None,
    })
}

fn is_space(c: char) -> bool {
    c.is_whitespace()
}

/// The functions that take a pattern, with the pattern compiled.
pub(crate) fn search(function: &str, args: &[Val], regex: &regex::Regex) -> Outcome {
    let Some(Val::String(text)) = args.first() else { return no_overload() };
    let all = || regex.find_iter(text).map(|found| Val::string(found.as_str()));
    match (function, args.get(2)) {
        ("matches", None) => Ok(Val::Bool(regex.is_match(text))),
        ("find", None) => Ok(Val::string(regex.find(text).map_or("", |found| found.as_str()))),
        ("findAll", None) => Ok(Val::list(all().collect())),
        ("findAll", Some(Val::Int(limit))) => Ok(Val::list(match usize::try_from(*limit) {
            Ok(limit) => all().take(limit).collect(),
            Err(_) => all().collect(),
        })),
        _ => no_overload(),
    }
}

fn within(text: &str, at: i64) -> Option<usize> {
    usize::try_from(at).ok().filter(|at| *at <= text.chars().count())
}

fn position(at: Option<usize>) -> Val {
    Val::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn index_of(text: &str, part: &str, from: usize) -> Val {
    if part.is_empty() {
        return position(Some(from));
    }
    let start = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
    position(text[start..].find(part).map(|at| text[..start + at].chars().count()))
}

fn last_index_of(text: &str, part: &str, upto: usize) -> Val {
    let length = text.chars().count();
    if part.is_empty() {
        return position(Some(upto.min(length)));
    }
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    if part.len() > text.len() {
        return Val::Int(-1);
    }
    let last = upto.min(text.len() - part.len());
    position((0..=last).rev().find(|at| text[*at..].starts_with(&part)))
}

fn substring(text: &str, from: i64, to: i64) -> Outcome {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let end = if to == i64::MAX { length } else { to };
    if from < 0 || from > length {
        return fail(format!("index out of range: {from}"));
    }
    if end < 0 || end > length {
        return fail(format!("index out of range: {end}"));
    }
    if from > end {
        return fail(format!("invalid substring range. start: {from}, end: {end}"));
    }
    let skip = usize::try_from(from).unwrap_or_default();
    let take = usize::try_from(end - from).unwrap_or_default();
    Ok(Val::String(text.chars().skip(skip).take(take).collect::<String>().into()))
}

fn split(text: &str, by: &str, limit: i64) -> Val {
    if limit == 0 {
        return Val::list(Vec::new());
    }
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    if by.is_empty() {
        let chars: Vec<String> = text.chars().map(String::from).collect();
        let mut parts: Vec<String> = chars.iter().take(most.saturating_sub(1)).cloned().collect();
        if chars.len() > parts.len() {
            parts.push(chars[parts.len()..].concat());
            if most == usize::MAX {
                parts = chars;
            }
        }
        return Val::list(parts.iter().map(|part| Val::string(part)).collect());
    }
    Val::list(text.splitn(most, by).map(Val::string).collect())
}

fn join(args: &[Val]) -> Outcome {
    let (Some(Val::List(list)), separator) = (args.first(), args.get(1)) else { return no_overload() };
    let separator = match separator {
        None => "",
        Some(Val::String(text)) => text,
        Some(_) => return no_overload(),
    };
    let mut parts = Vec::with_capacity(list.items.len());
    for item in &list.items {
        let Val::String(text) = item else { return fail("no such overload") };
        parts.push(&**text);
    }
    Ok(Val::String(parts.join(separator).into()))
}

/// What a clause of a template can be used on, where it was used on something else.
pub(crate) fn clause_problem(clause: char, found: &str) -> String {
    let what = match clause {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        'x' | 'X' => "only integers, byte buffers, and strings can be formatted as hex",
        other => return format!("could not parse formatting clause: unrecognized formatting clause \"{other}\""),
    };
    format!("{what}, was given {found}")
}

/// `"%s is %d".format([a, b])`
fn format_text(template: &str, values: &[Val]) -> Outcome {
    let mut out = String::new();
    let mut values = values.iter();
    let mut used = 0;
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push('%');
            continue;
        }
        let mut precision = None;
        if chars.peek() == Some(&'.') {
            chars.next();
            let mut digits = String::new();
            while let Some(digit) = chars.peek().filter(|c| c.is_ascii_digit()) {
                digits.push(*digit);
                chars.next();
            }
            precision = digits.parse::<usize>().ok().filter(|digits| *digits <= 1000);
            if precision.is_none() {
                return fail("could not parse formatting clause: error while converting precision to integer");
            }
        }
        let Some(clause) = chars.next() else {
            return fail("could not parse formatting clause: unexpected end of string");
        };
        let Some(value) = values.next() else { return fail(format!("index {used} out of range")) };
        used += 1;
        match clause_text(clause, precision, value) {
            Some(text) => out.push_str(&text),
            None => {
                return fail(format!("error during formatting: {}", clause_problem(clause, value.type_name())));
            }
        }
    }
    Ok(Val::String(out.into()))
}

fn clause_text(clause: char, precision: Option<usize>, value: &Val) -> Option<String> {
    let signed = |value: i64, digits: String| if value < 0 { format!("-{digits}") } else { digits };
    let number = || match value {
        Val::Double(value) => Some(*value),
        Val::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    };
    Some(match (clause, value) {
        (
            's',
            Val::Optional(_)
            | Val::Quantity(_)
            | Val::Url(_)
            | Val::Ip(_)
            | Val::Cidr(..)
            | Val::Format(_)
            | Val::Semver(_),
        ) => {
            return None;
        }
        ('s', value) => shown(value, false),
        ('d', Val::Int(value)) => value.to_string(),
        ('d', Val::Uint(value)) => value.to_string(),
        ('f', _) => fixed(number()?, precision.unwrap_or(6)),
        ('e', _) => scientific(number()?),
        ('b', Val::Bool(value)) => u8::from(*value).to_string(),
        ('b', Val::Int(value)) => signed(*value, format!("{:b}", value.unsigned_abs())),
        ('b', Val::Uint(value)) => format!("{value:b}"),
        ('o', Val::Int(value)) => signed(*value, format!("{:o}", value.unsigned_abs())),
        ('o', Val::Uint(value)) => format!("{value:o}"),
        ('x' | 'X', value) => {
            let text = match value {
                Val::Int(value) => signed(*value, format!("{:x}", value.unsigned_abs())),
                Val::Uint(value) => format!("{value:x}"),
                Val::String(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                Val::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                _ => return None,
            };
            if clause == 'X' { text.to_uppercase() } else { text }
        }
        _ => return None,
    })
}

fn unusual(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "∞" } else { "-∞" })
    } else {
        None
    }
}

/// A number with commas between its thousands, as Americans write them: the reference's default.
fn fixed(value: f64, places: usize) -> String {
    if let Some(text) = unusual(value) {
        return text.to_owned();
    }
    let text = format!("{:.places$}", value.abs());
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut out = String::new();
    if value.is_sign_negative() {
        out.push('-');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// `1.500000×10⁰³`, whatever the precision.
fn scientific(value: f64) -> String {
    if let Some(text) = unusual(value) {
        return text.to_owned();
    }
    let text = format!("{value:.6e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let raised: String = format!("{digits:0>2}")
        .chars()
        .map(|digit| match digit {
            '0' => '⁰',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '4' => '⁴',
            '5' => '⁵',
            '6' => '⁶',
            '7' => '⁷',
            '8' => '⁸',
            _ => '⁹',
        })
        .collect();
    format!("{mantissa}×10{sign}{raised}")
}

/// A value as `%s` shows it; strings inside of others are quoted.
fn shown(value: &Val, inside: bool) -> String {
    match value {
        Val::String(text) if inside => format!("\"{text}\""),
        Val::Null => "null".to_owned(),
        Val::Double(value) if inside => fixed(*value, 6),
        Val::Double(value) => go::float64(*value),
        Val::Bytes(bytes) => {
            let text = String::from_utf8_lossy(bytes).into_owned();
            if inside { format!("b\"{text}\"") } else { text }
        }
        Val::List(list) => {
            let items: Vec<String> = list.items.iter().map(|item| shown(item, true)).collect();
            format!("[{}]", items.join(", "))
        }
        Val::Map(map) => {
            let entries = map.iter().map(|(key, value)| format!("{}:{}", shown(&key.val(), true), shown(value, true)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        Val::Type(name) => name.to_string(),
        value => match super::convert::text(value) {
            Some(text) if inside && matches!(value, Val::Duration(_)) => format!("duration(\"{text}\")"),
            Some(text) if inside && matches!(value, Val::Timestamp(..)) => format!("timestamp(\"{text}\")"),
            Some(text) => text,
            None => value.type_name().to_owned(),
        },
    }
}
