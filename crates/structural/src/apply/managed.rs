//! `metadata.managedFields` on the wire, and who is who in it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::Set;
use crate::{go, time};

/// Who owns fields. One who applies is the same whatever version he applies; one who updates is another per version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    /// Empty for those who apply.
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) set: Set,
    pub(crate) api_version: String,
    pub(crate) time: Option<String>,
}

pub(crate) type Managers = BTreeMap<Manager, Owned>;

impl Manager {
    pub(crate) fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Self {
            name: if name.is_empty() { "unknown" } else { name }.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// As a conflict names it.
    pub(crate) fn describe(&self) -> String {
        let mut out = go::quote(&self.name);
        if !self.subresource.is_empty() {
            out.push_str(&format!(" with subresource {}", go::quote(&self.subresource)));
        }
        match self.operation {
            Operation::Apply => out,
            Operation::Update => format!("{out} using {}", self.api_version),
        }
    }
}

/// Reads the `metadata.managedFields` of an object; an error if they cannot be read.
pub(crate) fn read(entries: &Value) -> Result<Managers, String> {
    let mut managers = Managers::new();
    let Some(entries) = entries.as_array() else {
        return Ok(managers);
    };
    for entry in entries {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            other => return Err(format!("invalid operation {}", go::quote(other))),
        };
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err("missing fieldsType in managed fields entry".to_owned()),
            other => {
                return Err(format!("invalid fieldsType {} in managed fields entry", go::quote(other)));
            }
        }
        let api_version = text("apiVersion").to_owned();
        let set = match entry.get("fieldsV1") {
            None | Some(Value::Null) => Set::default(),
            Some(fields) => Set::parse(fields)?,
        };
        let manager = Manager::new(text("manager"), operation, &api_version, text("subresource"));
        let time = entry["time"].as_str().map(str::to_owned);
        managers.insert(manager, Owned { set, api_version, time });
    }
    Ok(managers)
}

/// Writes `metadata.managedFields`.
pub(crate) fn write(object: &mut Value, managers: &Managers) {
    take(object);
    if !managers.is_empty() {
        put(object, managers.iter().map(|(manager, owned)| entry(manager, owned)).collect());
    }
}

/// Writes entries in the order of the server.
pub(crate) fn put(object: &mut Value, mut entries: Vec<Value>) {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let seconds =
        |entry: &Value| entry["time"].as_str().and_then(time::parse_rfc3339).map_or(0, |(seconds, _)| seconds);
    let key = |entry: &Value| {
        let names = ["manager", "apiVersion", "subresource"].map(|key| text(entry, key));
        (text(entry, "operation"), seconds(entry), names)
    };
    if entries.len() > 1 {
        entries.sort_by_cached_key(key);
    }
    if let Some(object) = object.as_object_mut() {
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }
}

/// The entries of an object.
pub(crate) fn entries(object: &Value) -> &[Value] {
    object["metadata"]["managedFields"].as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = Map::new();
    let mut put = |key: &str, value: Value| {
        entry.insert(key.to_owned(), value);
    };
    put("manager", manager.name.as_str().into());
    let operation = match manager.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    put("operation", operation.into());
    put("apiVersion", owned.api_version.as_str().into());
    if let Some(time) = &owned.time {
        put("time", time.as_str().into());
    }
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", owned.set.wire());
    if !manager.subresource.is_empty() {
        put("subresource", manager.subresource.as_str().into());
    }
    Value::Object(entry)
}

/// Takes the managed fields off an object.
pub(crate) fn take(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata").and_then(Value::as_object_mut)?.shift_remove("managedFields")
}

/// Whether a writer asks to forget all ownership, by an empty list or a list of one empty entry.
pub(crate) fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(|fields| {
            fields.values().all(|value| value.is_null() || value.as_str().is_some_and(str::is_empty))
        }),
        _ => false,
    }
}
