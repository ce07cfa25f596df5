//! Writes the shapes of the built-in kinds from a server's OpenAPI v3 documents, in the text form of `shape::text`.
//!
//! `cargo run -p karpenter-structural --example builtin_shapes -- DIR > data/builtin-1.36.txt`, where DIR holds the
//! documents of the server as `*_openapi.json`: the answers of `kubectl get --raw /openapi/v3/…`, which Kubernetes also
//! keeps in `api/openapi-spec/v3` of its repository.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give the folder with the OpenAPI v3 documents")?;
    let mut types: BTreeMap<String, Value> = BTreeMap::new();
    let mut files: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    for file in files {
        let document: Value = serde_json::from_slice(&std::fs::read(file.path())?)?;
        if let Some(schemas) = document["components"]["schemas"].as_object() {
            types.extend(schemas.iter().map(|(name, schema)| (name.clone(), schema.clone())));
        }
    }
    let mut out =
        String::from("# Made by examples/builtin_shapes.rs from the OpenAPI v3 documents of Kubernetes 1.36.\n");
    for (name, schema) in &types {
        if name.ends_with(".WatchEvent") {
            continue; // what comes over the wire of a watch is no object
        }
        describe(name, schema, &mut out)?;
    }
    print!("{out}");
    Ok(())
}

fn describe(name: &str, schema: &Value, out: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let Some(properties) = schema["properties"].as_object() else {
        let shape = match name {
            QUANTITY => "u".to_owned(),
            RAW_EXTENSION => "!".to_owned(),
            _ => reference(schema),
        };
        writeln!(out, ": {name} {shape}")?;
        return Ok(());
    };
    let mark = if schema["x-kubernetes-map-type"] == "atomic" { "=atomic" } else { "=" };
    write!(out, "{mark} {name}")?;
    let kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
    // Every group calls the same options its own; they are no resource of any.
    for kind in kinds.filter(|_| !name.ends_with(".DeleteOptions")) {
        let text = |key: &str| kind[key].as_str().unwrap_or_default().to_owned();
        let group = text("group");
        let slash = if group.is_empty() { "" } else { "/" };
        write!(out, " {group}{slash}{}/{}", text("version"), text("kind"))?;
    }
    writeln!(out)?;
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (field, schema) in properties {
        write!(out, "{field} {}", reference(schema))?;
        if let Some(strategy) = schema["x-kubernetes-patch-strategy"].as_str() {
            write!(out, " ~{strategy}")?;
            if let Some(key) = schema["x-kubernetes-patch-merge-key"].as_str() {
                write!(out, ":{key}")?;
            }
        }
        if required.iter().any(|name| name == field) {
            write!(out, " *")?;
        }
        if let Some(default) = schema.get("default") {
            write!(out, " ={default}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn reference(schema: &Value) -> String {
    let target = schema["$ref"].as_str().or_else(|| match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([only]) => only["$ref"].as_str(),
        _ => None,
    });
    if let Some(name) = target.and_then(|target| target.rsplit('/').next()) {
        return match schema["x-kubernetes-map-type"].as_str() {
            Some(relation) => format!("@{relation}:{name}"),
            None => format!("@{name}"),
        };
    }
    match schema["type"].as_str().unwrap_or_default() {
        "string" => match schema["format"].as_str() {
            None => "s",
            Some("byte") => "B",
            Some("date-time") => "t",
            Some(_) => "u",
        }
        .to_owned(),
        "integer" if schema["format"] == "int64" => "I".to_owned(),
        "integer" => "i".to_owned(),
        "number" => "n".to_owned(),
        "boolean" => "b".to_owned(),
        "array" => {
            let keys = || -> Vec<&str> {
                schema["x-kubernetes-list-map-keys"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect()
            };
            let relation = match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => "set".to_owned(),
                Some("map") => keys().join(","),
                Some(_) => String::new(),
                None => match schema["x-kubernetes-patch-strategy"].as_str() {
                    Some("merge" | "merge,retainKeys") => {
                        schema["x-kubernetes-patch-merge-key"].as_str().unwrap_or("set").to_owned()
                    }
                    _ => String::new(),
                },
            };
            format!("[{relation}]{}", reference(&schema["items"]))
        }
        "object" => match &schema["additionalProperties"] {
            Value::Object(_) => {
                let atomic = schema["x-kubernetes-map-type"] == "atomic";
                format!("{{{}}}{}", if atomic { "atomic" } else { "" }, reference(&schema["additionalProperties"]))
            }
            _ => "?".to_owned(),
        },
        _ => "?".to_owned(),
    }
}
