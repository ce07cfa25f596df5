//! Conversions between types.

use super::super::value::Val;
use super::{Outcome, fail, no_overload};
use crate::{go, time};

pub(super) fn call(function: &str, args: &[Val]) -> Option<Outcome> {
    let [value] = args else { return None };
    Some(match function {
        "dyn" => Ok(value.clone()),
        "type" => Ok(Val::Type(value.type_name().into())),
        "bool" => match value {
            Val::Bool(_) => Ok(value.clone()),
            Val::String(text) => match &**text {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
                _ => unreadable("bool"),
            },
            _ => no_overload(),
        },
        "bytes" => match value {
            Val::Bytes(_) => Ok(value.clone()),
            Val::String(text) => Ok(Val::Bytes(text.as_bytes().into())),
            _ => no_overload(),
        },
        "int" => int(value),
        "uint" => uint(value),
        "double" => double(value),
        "string" => match text(value) {
            Some(text) => Ok(Val::String(text.into())),
            None => match value {
                Val::Bytes(_) => fail("invalid UTF-8 in bytes, cannot convert to string"),
                _ => no_overload(),
            },
        },
        "duration" => match value {
            Val::Duration(_) => Ok(value.clone()),
            Val::Int(nanoseconds) => Ok(Val::Duration(*nanoseconds)),
            Val::String(text) => match time::parse_duration(text) {
                Some(nanoseconds) => Ok(Val::Duration(nanoseconds)),
                None => unreadable("google.protobuf.Duration"),
            },
            _ => no_overload(),
        },
        "timestamp" => match value {
            Val::Timestamp(..) => Ok(value.clone()),
            Val::Int(seconds) => super::times::timestamp(*seconds, 0),
            Val::String(text) => match time::parse_rfc3339(text) {
                Some((seconds, nanoseconds)) => super::times::timestamp(seconds, nanoseconds),
                None => unreadable("google.protobuf.Timestamp"),
            },
            _ => no_overload(),
        },
        _ => return None,
    })
}

/// A string that does not read as a value of a type.
fn unreadable(ty: &str) -> Outcome {
    fail(format!("type conversion error from 'string' to '{ty}'"))
}

fn range<T>() -> Result<T, super::super::eval::Failure> {
    fail("integer overflow")
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
fn int(value: &Val) -> Outcome {
    match value {
        Val::Int(_) => Ok(value.clone()),
        Val::Uint(value) => i64::try_from(*value).map(Val::Int).or_else(|_| range()),
        Val::Double(value) if value.abs() < 9_223_372_036_854_775_807.0 => Ok(Val::Int(*value as i64)),
        Val::Double(_) => range(),
        Val::String(text) => text.parse().map(Val::Int).or_else(|_| unreadable("int")),
        Val::Timestamp(seconds, _) => Ok(Val::Int(*seconds)),
        Val::Duration(nanoseconds) => Ok(Val::Int(*nanoseconds)),
        _ => no_overload(),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
fn uint(value: &Val) -> Outcome {
    match value {
        Val::Uint(_) => Ok(value.clone()),
        Val::Int(value) => u64::try_from(*value).map(Val::Uint).or_else(|_| range()),
        Val::Double(value) if *value >= 0.0 && *value < 18_446_744_073_709_551_615.0 => Ok(Val::Uint(*value as u64)),
        Val::Double(_) => range(),
        Val::String(text) => text.parse().map(Val::Uint).or_else(|_| unreadable("uint")),
        _ => no_overload(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "that is what the conversion means")]
fn double(value: &Val) -> Outcome {
    match value {
        Val::Double(_) => Ok(value.clone()),
        Val::Int(value) => Ok(Val::Double(*value as f64)),
        Val::Uint(value) => Ok(Val::Double(*value as f64)),
        Val::String(text) => match text.parse::<f64>() {
            Ok(value) if !text.is_empty() => Ok(Val::Double(value)),
            _ => unreadable("double"),
        },
        _ => no_overload(),
    }
}

/// A value as `string()` gives it; `None` where it gives none.
pub(crate) fn text(value: &Val) -> Option<String> {
    Some(match value {
        Val::String(text) => text.to_string(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => go::float64(*value),
        Val::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Val::Duration(nanoseconds) => super::times::seconds_text(*nanoseconds),
        Val::Timestamp(seconds, nanoseconds) => super::times::text(*seconds, *nanoseconds),
        Val::Ip(ip) => ip.to_string(),
        Val::Cidr(ip, bits) => format!("{ip}/{bits}"),
        _ => return None,
    })
}
