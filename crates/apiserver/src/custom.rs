//! Custom resources: one served version of a CRD, with its schema, columns and subresources.

use std::sync::Arc;

use karpenter_kinds::fielderror::{ErrorKind, FieldError};
use karpenter_kinds::printers::Column;
use karpenter_kinds::strategy::Part;
use karpenter_kinds::validate;
use karpenter_structural::cel::Rules;
use karpenter_structural::field::{ErrorKind as SchemaErrorKind, FieldError as SchemaError};
use karpenter_structural::schema::{self, Schema};
use karpenter_structural::shape::Shapes;
use serde_json::{Map, Value, json};

use crate::conversion::Webhook;
use crate::error::ApiError;
use crate::registry::{Origin, Served, Subresource};
use crate::store::{FieldSource, SelectableFields};

/// One version of a custom kind.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    pub(crate) crd: String,
    pub(crate) version: String,
    pub(crate) storage_version: String,
    /// Who converts between versions, where they differ in more than their name.
    pub(crate) webhook: Option<Arc<Webhook>>,
    pub(crate) schema: Option<Schema>,
    /// How the parts of every version merge, by `apiVersion`.
    pub(crate) shapes: Arc<Vec<(String, Shapes)>>,
    /// Its rules, compiled once.
    pub(crate) rules: Option<Rules>,
    /// The schema as it was written, for OpenAPI.
    pub(crate) raw_schema: Value,
    /// `spec.preserveUnknownFields` of old CRDs.
    pub(crate) preserve_unknown: bool,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) columns: Vec<Column>,
    /// The warning of a deprecated version.
    pub(crate) deprecation: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: Option<String>,
}

/// A schema's error as ours.
pub(crate) fn own_error(error: &SchemaError) -> FieldError {
    let kind = match error.kind {
        SchemaErrorKind::NotFound => ErrorKind::NotFound,
        SchemaErrorKind::Required => ErrorKind::Required,
        SchemaErrorKind::Duplicate => ErrorKind::Duplicate,
        SchemaErrorKind::Invalid => ErrorKind::Invalid,
        SchemaErrorKind::NotSupported => ErrorKind::NotSupported,
        SchemaErrorKind::Forbidden => ErrorKind::Forbidden,
        SchemaErrorKind::TooLong => ErrorKind::TooLong,
        SchemaErrorKind::TooMany => ErrorKind::TooMany,
        SchemaErrorKind::Internal => ErrorKind::Internal,
        SchemaErrorKind::TypeInvalid => ErrorKind::TypeInvalid,
    };
    FieldError::worded(kind, error.field(), error.body())
}

impl CustomVersion {
    /// Prunes, defaults; the second is what was unknown, as strict errors.
    pub(crate) fn decode(&self, mut value: Value) -> Result<(Value, Vec<String>), ApiError> {
        let metadata = coerce_metadata(value.get("metadata"))?;
        value["metadata"] = metadata.0;
        let mut unknown = metadata.1;
        if let Some(schema) = &self.schema {
            if !self.preserve_unknown {
                let dropped = schema::prune(&mut value, schema, schema::Root::Resource);
                unknown.extend(dropped.into_iter().map(|path| format!("unknown field {path:?}")));
            }
            schema::drop_undefaulted_nulls(&mut value, schema);
            schema::apply_defaults(&mut value, schema);
        }
        Ok((value, unknown))
    }

    pub(crate) fn prepare_create(&self, object: &mut Value) {
        if self.has_status
            && let Some(object) = object.as_object_mut()
        {
            object.shift_remove("status");
        }
        object["metadata"]["generation"] = json!(1);
    }

    pub(crate) fn prepare_update(&self, part: Part, object: &mut Value, old: &Value) {
        if part == Part::Status {
            // Only the status and managed fields change through the status subresource.
            let status = object.get("status").cloned();
            let managed = object["metadata"].get("managedFields").cloned();
            let mut next = old.clone();
            match (status, next.as_object_mut()) {
                (Some(status), Some(next)) => {
                    next.insert("status".into(), status);
                }
                (None, Some(next)) => {
                    next.shift_remove("status");
                }
                (_, None) => {}
            }
            if let Some(managed) = managed {
                next["metadata"]["managedFields"] = managed;
            }
            *object = next;
            return;
        }
        if self.has_status {
            match (old.get("status"), object.as_object_mut()) {
                (Some(status), Some(object)) => {
                    object.insert("status".into(), status.clone());
                }
                (None, Some(object)) => {
                    object.shift_remove("status");
                }
                (_, None) => {}
            }
        }
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        let moved = content(object, self.has_status) != content(old, self.has_status);
        object["metadata"]["generation"] = Value::from(if moved { generation + 1 } else { generation });
    }

    pub(crate) fn validate_create(&self, served: &Served, object: &Value) -> Vec<FieldError> {
        let mut errors = validate::metadata(served.namespaced, validate::NameRule::Subdomain, object);
        errors.extend(self.validate_value(object, None, ""));
        errors
    }

    pub(crate) fn validate_update(&self, served: &Served, part: Part, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = validate::metadata_update(object, old);
        if part == Part::Main {
            errors.extend(validate::metadata(served.namespaced, validate::NameRule::Subdomain, object));
        }
        errors.extend(self.validate_value(object, Some(old), ""));
        errors
    }

    fn validate_value(&self, object: &Value, old: Option<&Value>, path: &str) -> Vec<FieldError> {
        let Some(schema) = &self.schema else { return Vec::new() };
        let mut errors: Vec<SchemaError> = schema::validate(object, old, schema, path);
        errors.extend(schema::validate_embedded(object, schema, &|metadata, path| {
            let errors = validate::metadata(true, validate::NameRule::Subdomain, &json!({"metadata": metadata}));
            errors.iter().map(|error| SchemaError::invalid(path, "", error.body())).collect()
        }));
        errors.extend(schema::validate_lists(object, schema));
        let mut own: Vec<FieldError> = errors.iter().map(own_error).collect();
        own.extend(self.validate_scale(object));
        let Some(rules) = &self.rules else { return own };
        // Rules assume values of the right shape; what is merely out of bounds does not stop them.
        let blocking = |error: &FieldError| {
            use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
            matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
        };
        if own.iter().any(blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            own.push(FieldError::invalid("<nil>", Value::Null, detail));
        } else {
            own.extend(rules.validate(object, old, path).errors.iter().map(own_error));
        }
        own
    }

    /// Where the scale subresource reads its replicas, there must be a count.
    fn validate_scale(&self, object: &Value) -> Option<FieldError> {
        let path = &self.scale.as_ref()?.spec_replicas;
        let mut at = object;
        for key in path.split('.').filter(|key| !key.is_empty()) {
            let Some(fields) = at.as_object() else {
                let expected = "expected map[string]interface{}";
                let detail =
                    format!("{path} accessor error: {} is of the type {}, {expected}", go_text(at), go_type(at));
                return Some(FieldError::invalid(path, 0i64, detail));
            };
            at = fields.get(key)?;
        }
        match at.as_i64() {
            Some(replicas) if replicas < 0 => {
                Some(FieldError::invalid(path, replicas, "should be a non-negative integer"))
            }
            Some(_) => None,
            None => {
                let detail =
                    format!("{path} accessor error: {} is of the type {}, expected int64", go_text(at), go_type(at));
                Some(FieldError::invalid(path, 0i64, detail))
            }
        }
    }
}

/// A value as Go prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", texts.join(" "))
        }
        Value::Object(fields) => {
            let texts: Vec<String> = fields.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", texts.join(" "))
        }
        Value::Null => "<nil>".into(),
        other => other.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// What the generation counts: everything but metadata, and the status where that has its own door.
fn content(object: &Value, without_status: bool) -> Value {
    let mut content = object.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.shift_remove("metadata");
        fields.shift_remove("apiVersion");
        if without_status {
            fields.shift_remove("status");
        }
    }
    content
}

/// Metadata is typed also where everything else is free: unknown fields fall away, wrong types are refused.
fn coerce_metadata(metadata: Option<&Value>) -> Result<(Value, Vec<String>), ApiError> {
    use karpenter_kinds::{decode, types::Types};
    let id = Types::get()
        .named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
        .expect("every object has metadata, so the table has its type");
    let decoded =
        decode::decode(id, metadata.cloned().unwrap_or(Value::Object(Map::new()))).map_err(ApiError::bad_request)?;
    let prefix = |error: String| error.replacen("unknown field \"", "unknown field \"metadata.", 1);
    Ok((decoded.value, decoded.strict_errors.into_iter().map(prefix).collect()))
}

/// The served versions of a CRD.
pub(crate) fn versions(crd: &Value) -> Vec<(Arc<CustomVersion>, bool)> {
    let spec = &crd["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let kind = spec["names"]["kind"].as_str().unwrap_or_default();
    let list = spec["versions"].as_array().cloned().unwrap_or_default();
    let storage = list.iter().find(|version| version["storage"] == true);
    let storage_version = storage.and_then(|version| version["name"].as_str()).unwrap_or_default().to_owned();
    let shapes: Vec<(String, Shapes)> = list
        .iter()
        .map(|version| {
            let api_version = format!("{group}/{}", version["name"].as_str().unwrap_or_default());
            let schema = Schema::parse(&version["schema"]["openAPIV3Schema"]).ok();
            let shapes = schema::shapes(&api_version, kind, schema.as_ref());
            (api_version, shapes)
        })
        .collect();
    let shapes = Arc::new(shapes);
    let webhook = Webhook::of(crd);
    list.iter()
        .map(|version| {
            let name = version["name"].as_str().unwrap_or_default().to_owned();
            let raw_schema = version["schema"]["openAPIV3Schema"].clone();
            let schema = if raw_schema.is_null() { None } else { Schema::parse(&raw_schema).ok() };
            let subresources = &version["subresources"];
            let text = |pointer: &str| subresources.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            let scale = text("/scale/specReplicasPath").map(|spec_replicas| ScalePaths {
                spec_replicas,
                status_replicas: text("/scale/statusReplicasPath").unwrap_or_default(),
                label_selector: text("/scale/labelSelectorPath"),
            });
            let deprecation = (version["deprecated"] == true).then(|| {
                version["deprecationWarning"]
                    .as_str()
                    .map(str::to_owned)
                    .unwrap_or_else(|| format!("{group}/{name} {kind} is deprecated"))
            });
            let custom = CustomVersion {
                crd: crd["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                storage_version: storage_version.clone(),
                webhook: webhook.clone(),
                shapes: shapes.clone(),
                rules: schema.as_ref().map(Rules::compile).filter(|rules| !rules.is_empty()),
                schema,
                raw_schema,
                preserve_unknown: spec["preserveUnknownFields"] == true,
                has_status: subresources.get("status").is_some(),
                scale,
                columns: columns(version),
                deprecation,
                version: name,
            };
            (Arc::new(custom), version["served"] == true)
        })
        .collect()
}

fn columns(version: &Value) -> Vec<Column> {
    let mut columns = vec![Column::name()];
    let custom = version["additionalPrinterColumns"].as_array();
    match custom.filter(|columns| !columns.is_empty()) {
        None => columns.push(Column::custom("Age", "date", "", "", 0, ".metadata.creationTimestamp")),
        Some(list) => columns.extend(list.iter().map(|column| {
            let text = |key: &str| column[key].as_str().unwrap_or_default();
            let priority = column["priority"].as_i64().unwrap_or(0);
            Column::custom(text("name"), text("type"), text("format"), text("description"), priority, text("jsonPath"))
        })),
    }
    columns
}

/// The fields a version lets field selectors name.
pub(crate) fn selectable(crd: &Value) -> SelectableFields {
    let mut fields: Vec<(Arc<str>, Vec<FieldSource>)> = Vec::new();
    for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
        for field in version["selectableFields"].as_array().into_iter().flatten() {
            let Some(path) = field["jsonPath"].as_str() else {
                continue;
            };
            let name: Arc<str> = path.trim_start_matches('.').into();
            if !fields.iter().any(|(known, _)| *known == name) {
                let pointer = path.replace('.', "/");
                fields.push((name, vec![FieldSource::Pointer(pointer)]));
            }
        }
    }
    SelectableFields(fields)
}

/// What a CRD adds to the paths served.
pub(crate) fn served(crd: &Value, table: crate::store::TableId) -> Vec<Arc<Served>> {
    const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    let spec = &crd["spec"];
    let names = &crd["status"]["acceptedNames"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let kind = text(&names["kind"]);
    let group = text(&spec["group"]);
    versions(crd)
        .into_iter()
        .filter(|(_, served)| *served)
        .map(|(custom, _)| {
            let mut subresources = Vec::new();
            if custom.has_status {
                let (kind, verbs) = (kind.clone(), vec!["get", "patch", "update"]);
                subresources.push(Subresource { name: "status", kind, kind_group_version: None, verbs });
            }
            if custom.scale.is_some() {
                subresources.push(Subresource {
                    name: "scale",
                    kind: "Scale".into(),
                    kind_group_version: Some(("autoscaling".into(), "v1".into())),
                    verbs: vec!["get", "patch", "update"],
                });
            }
            Arc::new(Served {
                group: group.as_str().into(),
                version: custom.version.as_str().into(),
                plural: text(&names["plural"]).as_str().into(),
                singular: text(&names["singular"]).as_str().into(),
                kind: kind.as_str().into(),
                list_kind: text(&names["listKind"]).as_str().into(),
                namespaced: spec["scope"] == "Namespaced",
                short_names: list(&names["shortNames"]),
                categories: list(&names["categories"]),
                verbs: VERBS.to_vec(),
                storage_version_hash: Some(hash_of(&group, &custom.storage_version, &kind)),
                subresources,
                table: Some(table),
                origin: Origin::Custom(custom),
            })
        })
        .collect()
}

/// The first eight bytes of SHA-256 over `group/version/kind`, as discovery publishes them.
fn hash_of(group: &str, version: &str, kind: &str) -> String {
    use base64::Engine as _;
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{group}/{version}/{kind}").as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8])
}
