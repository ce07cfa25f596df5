//! OpenAPI, generated from the table of types and the schemas of CRDs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::Response;
use karpenter_kinds::types::{StructId, Ty, Types};
use serde_json::{Map, Value, json};

use crate::body::Body;
use crate::error::ApiError;
use crate::registry::{Origin, Registry, Served};
use crate::request::Request;
use crate::server::{bytes_response, json_response};

pub(crate) fn answer(registry: &Registry, request: &Request, segments: &[&str]) -> Result<Response<Body>, ApiError> {
    match segments {
        ["v2"] => {
            // Clients that insist on protobuf fall back to version 3, which is JSON.
            let json = request.accept.is_empty() || request.accept.contains("json") || request.accept.contains("*/*");
            if !json || request.accept.contains("com.github.proto-openapi") && !request.accept.contains(",") {
                return Ok(bytes_response(406, "text/plain; charset=utf-8", ""));
            }
            Ok(json_response(200, &version_2(registry)))
        }
        ["v3"] => Ok(json_response(200, &index(registry))),
        ["v3", "api", "v1"] => Ok(json_response(200, &document(registry, "", "v1"))),
        ["v3", "apis", group, version] => {
            if of(registry, group, version).is_empty() {
                return Err(ApiError::no_such_path());
            }
            Ok(json_response(200, &document(registry, group, version)))
        }
        _ => Err(ApiError::no_such_path()),
    }
}

fn of(registry: &Registry, group: &str, version: &str) -> Vec<Arc<Served>> {
    let mut found: Vec<Arc<Served>> =
        registry.all().filter(|served| &*served.group == group && &*served.version == version).cloned().collect();
    found.sort_by(|a, b| a.plural.cmp(&b.plural));
    found
}

fn index(registry: &Registry) -> Value {
    let mut paths = BTreeSet::new();
    for served in registry.all() {
        paths.insert(if served.group.is_empty() {
            format!("api/{}", served.version)
        } else {
            format!("apis/{}/{}", served.group, served.version)
        });
    }
    let entries: Map<String, Value> = paths
        .into_iter()
        .map(|path| {
            let (group, version) = match path.strip_prefix("apis/").and_then(|rest| rest.split_once('/')) {
                Some((group, version)) => (group.to_owned(), version.to_owned()),
                None => (String::new(), "v1".to_owned()),
            };
            // The hash lets clients cache: built-in documents never change, custom ones with their schema.
            let seed: String = of(registry, &group, &version)
                .iter()
                .map(|served| match &served.origin {
                    Origin::Builtin(_) => served.plural.to_string(),
                    Origin::Custom(custom) => format!("{}{}", served.plural, custom.raw_schema),
                })
                .collect();
            let digest = ring::digest::digest(&ring::digest::SHA512, seed.as_bytes());
            let hash: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
            let url = format!("/openapi/v3/{path}?hash={hash}");
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": entries})
}

fn document(registry: &Registry, group: &str, version: &str) -> Value {
    let mut schemas = Schemas { prefix: "#/components/schemas/", out: BTreeMap::new() };
    let mut paths = BTreeMap::new();
    for served in of(registry, group, version) {
        schemas.add_kind(&served);
        add_paths(&served, &mut paths);
    }
    schemas.add_shared();
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.3"}, "paths": paths,
        "components": {"schemas": schemas.out}})
}

fn version_2(registry: &Registry) -> Value {
    let mut schemas = Schemas { prefix: "#/definitions/", out: BTreeMap::new() };
    let mut paths = BTreeMap::new();
    let mut all: Vec<Arc<Served>> = registry.all().cloned().collect();
    all.sort_by(|a, b| (&a.group, &a.version, &a.plural).cmp(&(&b.group, &b.version, &b.plural)));
    for served in all {
        schemas.add_kind(&served);
        add_paths(&served, &mut paths);
    }
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.3"}, "paths": paths, "definitions": schemas.out})
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

struct Schemas {
    prefix: &'static str,
    out: BTreeMap<String, Value>,
}

impl Schemas {
    /// What every document has, whatever it is about.
    fn add_shared(&mut self) {
        let names = ["APIResource", "APIResourceList", "DeleteOptions", "Preconditions", "Status", "WatchEvent"];
        for id in names.iter().filter_map(|name| Types::get().named(&format!("{META}.{name}"))) {
            self.add_struct(id);
        }
        self.special(&format!("{META}.Patch"), json!({"type": "object"}));
    }

    fn add_kind(&mut self, served: &Served) {
        for subresource in &served.subresources {
            let Some((group, version)) = &subresource.kind_group_version else { continue };
            let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
            if let Some(id) = Types::get().kind(&api_version, &subresource.kind) {
                self.add_struct(id);
                if let Some(schema) = self.out.get_mut(Types::get().at(id).name) {
                    schema["x-kubernetes-group-version-kind"] =
                        json!([{"group": group, "kind": subresource.kind, "version": version}]);
                }
            }
        }
        let name = match &served.origin {
            Origin::Builtin(id) => {
                self.add_struct(*id);
                Types::get().at(*id).name.to_owned()
            }
            Origin::Custom(custom) => {
                let name = custom_name(served);
                let mut schema = if custom.raw_schema.is_null() {
                    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
                } else {
                    custom.raw_schema.clone()
                };
                if let Some(meta) = Types::get().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta") {
                    self.add_struct(meta);
                }
                schema["properties"]["apiVersion"] = json!({"type": "string"});
                schema["properties"]["kind"] = json!({"type": "string"});
                schema["properties"]["metadata"] = json!({"allOf": [{"$ref": format!("{}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", self.prefix)}]});
                self.out.insert(name.clone(), schema);
                name
            }
        };
        if let Some(schema) = self.out.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": &*served.group, "kind": &*served.kind, "version": &*served.version}]);
        }
        if served.table.is_some() {
            self.add_list(served, &name);
        }
    }

    fn add_list(&mut self, served: &Served, item: &str) {
        let list = format!("{}List", item.trim_end_matches("List"));
        if let Some(meta) = Types::get().named("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta") {
            self.add_struct(meta);
        }
        let schema = json!({"type": "object", "required": ["items"], "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "items": {"type": "array", "items": {"allOf": [{"$ref": format!("{}{item}", self.prefix)}], "default": {}}},
            "metadata": {"allOf": [{"$ref": format!("{}io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", self.prefix)}], "default": {}}},
            "x-kubernetes-group-version-kind": [{"group": &*served.group, "kind": &*served.list_kind, "version": &*served.version}]});
        self.out.insert(list, schema);
    }

    fn add_struct(&mut self, id: StructId) {
        let structure = Types::get().at(id);
        if self.out.contains_key(structure.name) {
            return;
        }
        self.out.insert(structure.name.to_owned(), Value::Null);
        let mut properties = Map::new();
        let mut required = Vec::new();
        let mut fields: Vec<_> = structure.fields.iter().collect();
        required.extend(fields.iter().filter(|field| field.required).map(|field| field.name));
        fields.sort_by_key(|field| field.name);
        for field in fields {
            let mut schema = match field.name {
                "fieldsV1" => self.special(&format!("{META}.FieldsV1"), json!({"type": "object"})),
                _ => self.ty(&field.ty),
            };
            if !field.values.is_empty() {
                let place = match field.ty {
                    Ty::List(_) => &mut schema["items"],
                    Ty::Map(_) => &mut schema["additionalProperties"],
                    _ => &mut schema,
                };
                place["enum"] = json!(field.values);
            }
            if matches!(field.ty, Ty::Struct(_)) {
                schema["default"] = json!({});
            }
            if field.default == Some("-") {
                // Not even the zero of its type.
            } else if let Some(default) = field.default.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
                schema["default"] = default;
            } else if field.required && matches!(field.ty, Ty::String(_)) {
                schema["default"] = json!("");
            } else if field.required && matches!(field.ty, Ty::Int32 | Ty::Int64) {
                schema["default"] = json!(0);
            } else if field.required && matches!(field.ty, Ty::Bool) {
                schema["default"] = json!(false);
            }
            for (key, value) in [
                ("x-kubernetes-patch-strategy", field.patch_strategy),
                ("x-kubernetes-patch-merge-key", field.patch_merge_key),
                ("x-kubernetes-list-type", field.list_type),
                ("x-kubernetes-map-type", field.map_type),
            ] {
                if let Some(value) = value {
                    schema[key] = json!(value);
                }
            }
            if !field.list_map_keys.is_empty() {
                schema["x-kubernetes-list-map-keys"] = json!(field.list_map_keys);
            }
            properties.insert(field.name.to_owned(), schema);
        }
        let mut schema = json!({"type": "object"});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if !properties.is_empty() {
            schema["properties"] = Value::Object(properties);
        }
        if let Some(map_type) = structure.map_type {
            schema["x-kubernetes-map-type"] = json!(map_type);
        }
        self.out.insert(structure.name.to_owned(), schema);
    }

    /// A reference to a type with a schema of its own.
    fn special(&mut self, name: &str, schema: Value) -> Value {
        self.out.entry(name.to_owned()).or_insert(schema);
        json!({"allOf": [{"$ref": format!("{}{name}", self.prefix)}]})
    }

    fn ty(&mut self, ty: &Ty) -> Value {
        match ty {
            Ty::String(_) => json!({"type": "string"}),
            Ty::Bool => json!({"type": "boolean"}),
            Ty::Int32 => json!({"type": "integer", "format": "int32"}),
            Ty::Int64 => json!({"type": "integer", "format": "int64"}),
            Ty::Float => json!({"type": "number", "format": "double"}),
            Ty::Bytes => json!({"type": "string", "format": "byte"}),
            Ty::Raw => json!({"type": "object"}),
            Ty::Duration => json!({"type": "string"}),
            Ty::Quantity => self.special(
                "io.k8s.apimachinery.pkg.api.resource.Quantity",
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ),
            Ty::Time => self.special(&format!("{META}.Time"), json!({"type": "string", "format": "date-time"})),
            Ty::MicroTime => {
                self.special(&format!("{META}.MicroTime"), json!({"type": "string", "format": "date-time"}))
            }
            Ty::IntOrString => self.special(
                "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
                json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
            ),
            Ty::Pointer(inner) => self.ty(inner),
            Ty::List(inner) => {
                let mut items = bare(self.ty(inner));
                match &**inner {
                    Ty::String(_) => items["default"] = json!(""),
                    Ty::Struct(_) => items = json!({"allOf": [items], "default": {}}),
                    Ty::Int32 | Ty::Int64 => items["default"] = json!(0),
                    _ => {}
                }
                json!({"type": "array", "items": items})
            }
            Ty::Map(inner) => {
                let mut values = bare(self.ty(inner));
                match &**inner {
                    Ty::String(_) => values["default"] = json!(""),
                    Ty::Struct(_) => values = json!({"allOf": [values], "default": {}}),
                    _ => {}
                }
                json!({"type": "object", "additionalProperties": values})
            }
            Ty::Struct(id) => {
                self.add_struct(*id);
                json!({"allOf": [{"$ref": format!("{}{}", self.prefix, Types::get().at(*id).name)}]})
            }
        }
    }
}

/// A reference with nothing beside it needs no `allOf`.
fn bare(mut schema: Value) -> Value {
    match schema.get_mut("allOf").and_then(|all| all.get_mut(0)) {
        Some(reference) => reference.take(),
        None => schema,
    }
}

/// `com.example.stable.v1.CronTab` for `stable.example.com/v1`.
fn custom_name(served: &Served) -> String {
    let reversed: Vec<&str> = served.group.rsplit('.').collect();
    format!("{}.{}.{}", reversed.join("."), served.version, served.kind)
}

fn add_paths(served: &Served, paths: &mut BTreeMap<String, Value>) {
    let base = if served.group.is_empty() {
        format!("/api/{}", served.version)
    } else {
        format!("/apis/{}/{}", served.group, served.version)
    };
    let scope = if served.namespaced { "/namespaces/{namespace}" } else { "" };
    let gvk = json!({"group": &*served.group, "kind": &*served.kind, "version": &*served.version});
    let operation = |action: &str, query: &[&str]| {
        let parameters: Vec<Value> = query
            .iter()
            .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
            .collect();
        json!({"responses": {"200": {"description": "OK"}}, "parameters": parameters,
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk})
    };
    let write = ["dryRun", "fieldManager", "fieldValidation"];
    let has = |verb: &str| served.verbs.contains(&verb);
    let mut collection = Map::new();
    let mut one = Map::new();
    if has("list") {
        collection
            .insert("get".into(), operation("list", &["labelSelector", "fieldSelector", "limit", "continue", "watch"]));
    }
    if has("create") {
        collection.insert("post".into(), operation("post", &write));
    }
    if has("deletecollection") {
        collection
            .insert("delete".into(), operation("deletecollection", &["dryRun", "labelSelector", "fieldSelector"]));
    }
    if has("get") {
        one.insert("get".into(), operation("get", &[]));
    }
    if has("update") {
        one.insert("put".into(), operation("put", &write));
    }
    if has("patch") {
        let query = ["dryRun", "fieldManager", "fieldValidation", "force"];
        one.insert("patch".into(), operation("patch", &query));
    }
    if has("delete") {
        one.insert("delete".into(), operation("delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]));
    }
    if !collection.is_empty() {
        paths.insert(format!("{base}{scope}/{}", served.plural), Value::Object(collection));
    }
    if !one.is_empty() {
        paths.insert(format!("{base}{scope}/{}/{{name}}", served.plural), Value::Object(one));
    }
}
