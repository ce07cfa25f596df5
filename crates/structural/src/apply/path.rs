//! Steps of a path through an object, as managed fields spell them.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use crate::go;

/// One step: into a field, an element of a keyed list, an element of a set, or a position.
#[derive(Clone, Debug)]
pub enum Element {
    Field(String),
    /// The values of the key fields, in the order of their names.
    Key(Vec<(String, Value)>),
    Value(Value),
    Index(i64),
}

impl Element {
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Reads `f:name`, `k:{"name":"x"}`, `v:"x"` or `i:0`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || format!("unreadable path element {}", go::quote(text));
        let (kind, rest) = text.split_at_checked(2).ok_or_else(bad)?;
        match kind {
            "f:" => Ok(Self::Field(rest.to_owned())),
            "v:" => Ok(Self::Value(serde_json::from_str(rest).map_err(|_| bad())?)),
            "i:" => Ok(Self::Index(rest.parse().map_err(|_| bad())?)),
            "k:" => match serde_json::from_str(rest) {
                Ok(Value::Object(fields)) => {
                    let mut fields: Vec<_> = fields.into_iter().collect();
                    fields.sort_by(|a, b| a.0.cmp(&b.0));
                    Ok(Self::Key(fields))
                }
                _ => Err(bad()),
            },
            _ => Err(bad()),
        }
    }

    /// The inverse of [`Element::parse`].
    pub fn wire(&self) -> String {
        match self {
            Self::Field(name) => ["f:", name].concat(),
            Self::Key(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                format!("k:{}", go::marshal(&Value::Object(fields)))
            }
            Self::Value(value) => format!("v:{}", go::marshal(value)),
            Self::Index(at) => format!("i:{at}"),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", show(value))).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", show(value)),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => go::quote(text),
        Value::Null => "null".to_owned(),
        other => go::display(other),
    }
}

/// A path as it is shown to users: `.spec.containers[name="a"].image`.
pub(crate) fn display(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Fields first, then keys, then values, then positions: the order in which managed fields are written.
impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |element: &Self| match element {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        };
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                for ((a_name, a_value), (b_name, b_value)) in a.iter().zip(b) {
                    let order = a_name.cmp(b_name).then_with(|| compare(a_value, b_value));
                    if order.is_ne() {
                        return order;
                    }
                }
                a.len().cmp(&b.len())
            }
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

/// A total order of values in which an integer equals the float of the same value.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let differ = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
            differ.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            fn sorted(fields: &serde_json::Map<String, Value>) -> Vec<(&String, &Value)> {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| *name);
                fields
            }
            let (a, b) = (sorted(a), sorted(b));
            let differ =
                a.iter().zip(&b).map(|(a, b)| a.0.cmp(b.0).then_with(|| compare(a.1, b.1))).find(|it| it.is_ne());
            differ.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}
