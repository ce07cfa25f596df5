//! The fields of an event, under upstream's names.

use std::fmt;

use karpenter_controllers::Doing;
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
            // Lists of objects travel as text.
            "disrupted-nodes" | "replacement-nodes" => {
                let list = value.as_str().and_then(|text| serde_json::from_str(text).ok());
                self.others.push((name.to_owned(), list.unwrap_or(value)));
            }
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

impl Fields {
    /// Whose work the line is from, and on which object.
    pub(super) fn with_work(mut self, doing: Option<Doing>) -> Self {
        let Some(Doing { controller, key, round }) = doing else { return self };
        let mut put = |name: &str, value: Value| {
            if !self.others.iter().any(|(given, _)| given == name) {
                self.others.push((name.to_owned(), value));
            }
        };
        put("controller", json!(controller));
        if let (Some(key), Some((group, kind))) = (key, reconciled(controller)) {
            put("controllerGroup", json!(group));
            put("controllerKind", json!(kind));
            let object = match &*key.namespace {
                "" => json!({"name": *key.name}),
                namespace => json!({"name": *key.name, "namespace": namespace}),
            };
            put(kind, object);
            put("namespace", json!(*key.namespace));
            put("name", json!(*key.name));
        }
        put("reconcileID", json!(format!("{round:016x}")));
        self
    }
}

/// Group and kind of the objects that a controller reconciles, as its name says.
fn reconciled(controller: &str) -> Option<(&'static str, &'static str)> {
    match controller.split('.').next().unwrap_or_default() {
        "nodeclaim" => Some(("karpenter.sh", "NodeClaim")),
        "nodepool" => Some(("karpenter.sh", "NodePool")),
        "nodeclass" => Some(("karpenter.k8s.aws", "EC2NodeClass")),
        "node" => Some(("", "Node")),
        "provisioner" if controller.ends_with(".pod") => Some(("", "Pod")),
        "provisioner" if controller.ends_with(".node") => Some(("", "Node")),
        "capacitybuffer" => Some(("autoscaling.x-k8s.io", "CapacityBuffer")),
        _ => None,
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
        // Written by upstream in its language's own manner.
        "message_kind" => return ("messageKind".to_owned(), value),
        "instance" => return ("instanceID".to_owned(), value),
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
