//! The fields of an event, under upstream's names.

use std::fmt;

use serde_json::{Value, json};
use tracing::field::{Field, Visit};

#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) others: Vec<(String, Value)>,
    /// A line in words of old, for log shippers that match on them.
    pub(super) compat: bool,
}

impl Fields {
    fn put(&mut self, name: &str, value: Value) {
        match name {
            "message" => self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            "compat" => self.compat = value == Value::Bool(true),
            _ => self.others.push((name.to_owned(), value)),
        }
    }
}

impl Fields {
    /// Under the names they are written with. Lines of old have names of their own.
    pub(super) fn named(self) -> Self {
        let name = |(name, value): (String, Value)| match self.compat {
            true => (name.replace('_', "-"), value),
            false => renamed(&name, value),
        };
        Self { others: self.others.into_iter().map(name).collect(), ..self }
    }
}

/// Objects become `"Kind":{"name":…}`, words are joined by dashes.
fn renamed(name: &str, value: Value) -> (String, Value) {
    let kind = match name {
        "claim" => "NodeClaim",
        "node" => "Node",
        "pool" => "NodePool",
        "nodeclass" => "EC2NodeClass",
        "pod" => {
            let text = value.as_str().unwrap_or_default();
            let (namespace, name) = text.split_once('/').unwrap_or(("", text));
            return ("Pod".to_owned(), json!({"name": name, "namespace": namespace}));
        }
        _ => return (name.replace('_', "-"), value),
    };
    (kind.to_owned(), json!({"name": value}))
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), json!(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), json!(format!("{value:?}")));
    }
}
