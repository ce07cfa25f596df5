//! Objects as the client asked for them: whole, as metadata only, or as rows of a table.

use bytes::Bytes;
use jiff::Timestamp;
use karpenter_kinds::{decode, printers};
use serde_json::{Value, json};

use crate::convert;
use crate::error::ApiError;
use crate::registry::{Origin, Served};
use crate::request::Request;
use crate::store::Object;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Whole,
    Table(Include),
    Metadata,
}

/// What a row carries beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// What `Accept` asks for. Clauses are tried in order; the first we can serve wins.
pub(crate) fn negotiate(request: &Request) -> Result<(View, Encoding), ApiError> {
    if request.accept.is_empty() {
        return Ok((View::Whole, Encoding::Json));
    }
    for clause in request.accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let encoding = match parts.next() {
            Some("application/json" | "*/*" | "application/*") => Encoding::Json,
            Some("application/yaml") => Encoding::Yaml,
            _ => continue,
        };
        let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        if parameter("stream").is_some_and(|stream| stream != "watch") {
            continue;
        }
        match parameter("as") {
            None => return Ok((View::Whole, encoding)),
            Some(_) if parameter("g") != Some("meta.k8s.io") => {}
            Some("Table") if parameter("v") == Some("v1") => {
                let include = match request.query.get("includeObject") {
                    None | Some("Metadata") => Include::Metadata,
                    Some("None") => Include::Nothing,
                    Some("Object") => Include::Object,
                    Some(other) => {
                        return Err(ApiError::bad_request(format!(
                            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
                        )));
                    }
                };
                return Ok((View::Table(include), encoding));
            }
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if parameter("v") == Some("v1") => {
                return Ok((View::Metadata, encoding));
            }
            Some(_) => {}
        }
    }
    Err(ApiError::not_acceptable(&MEDIA_TYPES))
}

/// `{"kind":"Pod","apiVersion":"v1",`: what every stored built-in object starts with and items of lists go without.
pub(crate) fn type_prefix(served: &Served) -> String {
    format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", served.kind, served.api_version())
}

/// The object in the served version.
pub(crate) fn whole(served: &Served, object: &Object) -> Bytes {
    if convert::is_stored_version(served) && is_written_in(served, object) {
        return object.json.clone();
    }
    let value = convert::from_stored(served, object.value());
    Bytes::from(serde_json::to_vec(&value).expect("a JSON value is always written"))
}

/// Custom resources may have been stored while another version was the one to store.
fn is_written_in(served: &Served, object: &Object) -> bool {
    let Origin::Custom(_) = served.origin else { return true };
    let start = format!("{{\"apiVersion\":\"{}\",", served.api_version());
    object.json.starts_with(start.as_bytes())
}

/// The object as an item of a list: built-in kinds drop their type there.
pub(crate) fn item(served: &Served, type_prefix: &str, object: &Object, out: &mut Vec<u8>) {
    let json = whole(served, object);
    if let Origin::Builtin(_) = served.origin
        && let Some(rest) = json.strip_prefix(type_prefix.as_bytes())
    {
        out.push(b'{');
        out.extend_from_slice(rest);
        return;
    }
    out.extend_from_slice(&json);
}

/// The object as the view has it.
pub(crate) fn single(served: &Served, object: &Object, view: View, now: Timestamp) -> Bytes {
    match view {
        View::Whole => whole(served, object),
        View::Metadata => bytes(&partial(object)),
        View::Table(include) => {
            bytes(&table(served, &[object], include, now, json!({"resourceVersion": object.version.to_string()}), true))
        }
    }
}

pub(crate) fn bytes(value: &Value) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("a JSON value is always written"))
}

/// `PartialObjectMetadata`.
pub(crate) fn partial(object: &Object) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.value()["metadata"]})
}

pub(crate) fn table(
    served: &Served,
    objects: &[&Object],
    include: Include,
    now: Timestamp,
    metadata: Value,
    with_columns: bool,
) -> Value {
    let columns = columns(served);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let value = convert::from_stored(served, object.value());
            let mut row = json!({"cells": cells(served, &value, now)});
            if let Some(conditions) = printers::row_conditions(&served.group, &served.kind, &value) {
                row["conditions"] = conditions;
            }
            match include {
                Include::Nothing => row["object"] = Value::Null,
                Include::Metadata => row["object"] = partial(object),
                Include::Object => row["object"] = value,
            }
            row
        })
        .collect();
    let definitions: Value =
        if with_columns { columns.iter().map(printers::Column::definition).collect() } else { json!([]) };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": definitions, "rows": rows})
}

fn columns(served: &Served) -> Vec<printers::Column> {
    match served.custom() {
        Some(custom) => custom.columns.clone(),
        None => printers::columns(&served.group, &served.kind),
    }
}

fn cells(served: &Served, value: &Value, now: Timestamp) -> Vec<Value> {
    match served.custom() {
        Some(custom) => custom.columns.iter().map(|column| column.custom_cell(value, now)).collect(),
        None => printers::cells(&served.group, &served.kind, value, now),
    }
}

/// What a bookmark carries: the type, a version, and whatever the type always writes.
pub(crate) fn bookmark(served: &Served, version: u64, initial_events_end: bool, view: View) -> Bytes {
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if initial_events_end {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let object = match (view, &served.origin) {
        (View::Metadata, _) => {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
        }
        (View::Table(_), _) => {
            json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": version.to_string()},
                "columnDefinitions": null, "rows": []})
        }
        (View::Whole, Origin::Builtin(id)) => {
            let mut object = decode::empty(*id);
            object["kind"] = Value::from(&*served.kind);
            object["apiVersion"] = Value::from(served.api_version());
            for (key, value) in metadata.as_object().into_iter().flatten() {
                object["metadata"][key.as_str()] = value.clone();
            }
            object
        }
        (View::Whole, Origin::Custom(_)) => {
            json!({"kind": &*served.kind, "apiVersion": served.api_version(), "metadata": metadata})
        }
    };
    bytes(&object)
}
