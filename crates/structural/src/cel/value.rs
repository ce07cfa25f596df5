//! Values of expressions, and how JSON becomes one under a schema.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use serde_json::Value;

use super::library::quantity::Quantity;
use super::library::semver::Semver;
use super::types::escape;
use crate::net::Url;
use crate::schema::{Additional, Schema};
use crate::time;

#[derive(Clone, Debug)]
pub(crate) enum Val {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Rc<str>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    /// Seconds since 1970, and nanoseconds.
    Timestamp(i64, u32),
    List(Rc<List>),
    Map(Rc<BTreeMap<Key, Val>>),
    Optional(Option<Rc<Val>>),
    Type(Rc<str>),
    Quantity(Quantity),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Format(&'static str),
    Semver(Rc<Semver>),
    /// Data that does not have the shape its schema says; an error when it is looked at.
    Bad(Rc<str>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    pub(crate) items: Vec<Val>,
    pub(crate) kind: ListKind,
}

/// Lists of type `set` and `map` are equal in any order, and adding to them replaces.
#[derive(Clone, Debug, Default)]
pub(crate) enum ListKind {
    #[default]
    Plain,
    Set,
    Keyed(Rc<[String]>),
}

#[derive(Clone, Debug)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Rc<str>),
}

impl Key {
    fn rank(&self) -> (u8, i128, &str) {
        match self {
            Self::Bool(value) => (0, i128::from(*value), ""),
            Self::Int(value) => (1, i128::from(*value), ""),
            Self::Uint(value) => (1, i128::from(*value), ""),
            Self::String(text) => (2, 0, text),
        }
    }

    pub(crate) fn val(&self) -> Val {
        match self {
            Self::Bool(value) => Val::Bool(*value),
            Self::Int(value) => Val::Int(*value),
            Self::Uint(value) => Val::Uint(*value),
            Self::String(text) => Val::String(text.clone()),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Val {
    pub(crate) fn string(text: &str) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn list(items: Vec<Val>) -> Self {
        Self::List(Rc::new(List { items, kind: ListKind::Plain }))
    }

    pub(crate) fn some(value: Val) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    pub(crate) fn key(&self) -> Option<Key> {
        match self {
            Self::Bool(value) => Some(Key::Bool(*value)),
            Self::Int(value) => Some(Key::Int(*value)),
            Self::Uint(value) => Some(Key::Uint(*value)),
            #[expect(clippy::cast_possible_truncation, reason = "only whole numbers within the range pass")]
            Self::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => Some(Key::Int(*value as i64)),
            Self::String(text) => Some(Key::String(text.clone())),
            _ => None,
        }
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(..) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Bad(_) => "error",
        }
    }

    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a, an), Self::Timestamp(b, bn)) => (a, an) == (b, bn),
            (Self::List(a), Self::List(b)) => lists_equal(a, b),
            (Self::Map(a), Self::Map(b)) => {
                a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| value.equals(other)))
            }
            (Self::Optional(a), Self::Optional(b)) => match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => a.equals(b),
                _ => false,
            },
            (Self::Type(a), Self::Type(b)) => a == b,
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Url(a), Self::Url(b)) => a.source == b.source,
            (Self::Ip(a), Self::Ip(b)) => a == b,
            (Self::Cidr(a, an), Self::Cidr(b, bn)) => (a, an) == (b, bn),
            (Self::Format(a), Self::Format(b)) => a == b,
            (Self::Semver(a), Self::Semver(b)) => a == b,
            (a, b) => a.numbers(b) == Some(Ordering::Equal),
        }
    }

    /// Numbers of any type compare with each other; `None` if one is not a number, or not comparable.
    fn numbers(&self, other: &Self) -> Option<Ordering> {
        let whole = |value: &Self| match value {
            Self::Int(value) => Some(i128::from(*value)),
            Self::Uint(value) => Some(i128::from(*value)),
            _ => None,
        };
        match (self, other) {
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Double(a), b) => Some(double_cmp(whole(b)?, *a)?.reverse()),
            (a, Self::Double(b)) => double_cmp(whole(a)?, *b),
            (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
        }
    }

    /// The order of two values of one type; `None` where there is none.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a, an), Self::Timestamp(b, bn)) => Some((a, an).cmp(&(b, bn))),
            (a, b) => a.numbers(b),
        }
    }

    /// What `size()` gives, and what costs are counted by.
    pub(crate) fn size(&self) -> Option<u64> {
        Some(match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.items.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Ip(ip) | Self::Cidr(ip, _) => {
                if ip.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            _ => return None,
        })
    }

    /// A value under its schema.
    pub(crate) fn of(value: &Value, schema: &Schema) -> Self {
        let bad = |what: String| Self::Bad(what.into());
        if value.is_null() {
            return if schema.nullable {
                Self::Null
            } else {
                bad("invalid data, got null for schema with nullable=false".to_owned())
            };
        }
        if schema.int_or_string {
            return match value {
                Value::String(text) => Self::string(text),
                Value::Number(number) if number.is_i64() => Self::Int(number.as_i64().unwrap_or_default()),
                _ => bad("invalid data, expected XIntOrString value to be either a string or integer".to_owned()),
            };
        }
        match (schema.kind.as_str(), value) {
            ("object", Value::Object(_)) => Self::object(value, schema),
            ("object", _) => bad("invalid data, expected a map for the provided schema with type=object".to_owned()),
            ("array", Value::Array(items)) => {
                let Some(of) = schema.items.as_deref() else {
                    return bad("invalid array type, expected Items with a non-empty Schema".to_owned());
                };
                let kind = match schema.list_type.as_deref() {
                    Some("set") => ListKind::Set,
                    Some("map") => {
                        let keys = schema.list_map_keys.iter().map(|key| escape(key).unwrap_or_else(|| key.clone()));
                        ListKind::Keyed(keys.collect())
                    }
                    _ => ListKind::Plain,
                };
                Self::List(Rc::new(List { items: items.iter().map(|item| Self::of(item, of)).collect(), kind }))
            }
            ("array", _) => bad("invalid data, expected an array for the provided schema with type=array".to_owned()),
            ("string", Value::String(text)) => Self::text(text, &schema.format),
            ("string", other) => bad(format!("invalid data, expected string, got {}", crate::go::type_name(other))),
            ("number", Value::Number(number)) => Self::Double(number.as_f64().unwrap_or_default()),
            ("number", other) => bad(format!("invalid data, expected float, got {}", crate::go::type_name(other))),
            ("integer", Value::Number(number)) if number.is_i64() => Self::Int(number.as_i64().unwrap_or_default()),
            ("integer", other) => bad(format!("invalid data, expected int, got {}", crate::go::type_name(other))),
            ("boolean", Value::Bool(value)) => Self::Bool(*value),
            ("boolean", other) => bad(format!("invalid data, expected bool, got {}", crate::go::type_name(other))),
            (_, other) => Self::plain(other),
        }
    }

    /// Fields that are null count as absent; those the schema does not know are kept for comparing only.
    fn object(value: &Value, schema: &Schema) -> Self {
        let Value::Object(fields) = value else { return Self::Null };
        let mut out = BTreeMap::new();
        if let (true, Some(Additional::Schema(of))) = (schema.properties.is_empty(), &schema.additional) {
            for (name, value) in fields {
                out.insert(Key::String(name.as_str().into()), Self::of(value, of));
            }
            return Self::Map(Rc::new(out));
        }
        for (name, value) in fields {
            if value.is_null() {
                continue;
            }
            let key = escape(name).unwrap_or_else(|| name.clone());
            let value = match schema.properties.get(name) {
                Some(of) => Self::of(value, of),
                None => Self::plain(value),
            };
            out.insert(Key::String(key.into()), value);
        }
        Self::Map(Rc::new(out))
    }

    fn text(text: &str, format: &str) -> Self {
        let bad = |what: String| Self::Bad(what.into());
        match format {
            "duration" => match time::parse_duration(text) {
                Some(nanoseconds) => Self::Duration(nanoseconds),
                None => bad(format!("Invalid duration {text}")),
            },
            "date" => match time::parse_date(text) {
                Some(days) => Self::Timestamp(days * 86_400, 0),
                None => bad(format!("Invalid date formatted string {text}")),
            },
            "date-time" => match time::parse_rfc3339(&text.to_uppercase()) {
                Some((seconds, nanoseconds)) => Self::Timestamp(seconds, nanoseconds),
                None => bad(format!("Invalid date-time formatted string {text}")),
            },
            "byte" => match super::library::base64::decode(text) {
                Some(bytes) => Self::Bytes(bytes.into()),
                None => bad(format!("Invalid byte formatted string {text}")),
            },
            _ => Self::string(text),
        }
    }

    /// A value nothing is known of.
    fn plain(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => {
                number.as_i64().map_or_else(|| Self::Double(number.as_f64().unwrap_or_default()), Self::Int)
            }
            Value::String(text) => Self::string(text),
            Value::Array(items) => Self::list(items.iter().map(Self::plain).collect()),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (Key::String(name.as_str().into()), Self::plain(value)));
                Self::Map(Rc::new(fields.collect()))
            }
        }
    }
}

fn double_cmp(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double >= 1e30 {
        return Some(Ordering::Less);
    }
    if double <= -1e30 {
        return Some(Ordering::Greater);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    let floor = double.floor() as i128;
    Some(whole.cmp(&floor).then(if double.fract() == 0.0 { Ordering::Equal } else { Ordering::Less }))
}

fn lists_equal(a: &List, b: &List) -> bool {
    if a.items.len() != b.items.len() {
        return false;
    }
    match &a.kind {
        ListKind::Plain => a.items.iter().zip(&b.items).all(|(a, b)| a.equals(b)),
        ListKind::Set => a.items.iter().all(|a| b.items.iter().any(|b| a.equals(b))),
        ListKind::Keyed(keys) => {
            a.items.iter().all(|a| b.items.iter().find(|b| same_key(a, b, keys)).is_some_and(|b| a.equals(b)))
        }
    }
}

pub(crate) fn same_key(a: &Val, b: &Val, keys: &[String]) -> bool {
    let (Val::Map(a), Val::Map(b)) = (a, b) else { return false };
    keys.iter().all(|key| {
        let key = Key::String(key.as_str().into());
        match (a.get(&key), b.get(&key)) {
            (None, None) => true,
            (Some(a), Some(b)) => a.equals(b),
            _ => false,
        }
    })
}
