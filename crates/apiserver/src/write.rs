//! create, update and patch: decode, prepare, admit, validate, store.

use std::sync::Arc;

use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::strategy::{self, Part};
use karpenter_kinds::types::StructId;
use karpenter_kinds::{decode, defaults, validate, warnings};
use karpenter_structural::apply;
use serde_json::{Map, Value};

use crate::admission::{self, Attributes, Operation};
use crate::error::ApiError;
use crate::history::Verb;
use crate::managed::{self, Author};
use crate::planted::Planted;
use crate::registry::{Origin, Served};
use crate::request::{Request, User};
use crate::state::State;
use crate::store::Object;
use crate::{conversion, convert, crd, delete, gc, input};

/// What the query says about a write.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) manager: String,
    pub(crate) validation: FieldValidation,
    pub(crate) user: User,
    /// For the `Warning` header.
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl WriteOptions {
    pub(crate) fn parse(request: &Request) -> Result<Self, ApiError> {
        let invalid = |errors: &[FieldError], kind: &str| ApiError::invalid("meta.k8s.io", kind, "", errors);
        let kind = match request.method {
            http::Method::POST => "CreateOptions",
            http::Method::PATCH => "PatchOptions",
            _ => "UpdateOptions",
        };
        let mut errors = Vec::new();
        let manager = request.query.get("fieldManager");
        if let Some(name) = manager
            && name.len() > 128
        {
            errors.push(FieldError::too_long("fieldManager", 128));
        }
        for value in request.query.all("dryRun") {
            if value != "All" {
                errors.push(FieldError::not_supported("dryRun", Value::from(vec![value]), &["All"]));
            }
        }
        let validation = match request.query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some("Ignore") => FieldValidation::Ignore,
            Some(other) => {
                errors.push(FieldError::not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Ignore
            }
        };
        if !errors.is_empty() {
            return Err(invalid(&errors, kind));
        }
        Ok(Self {
            dry_run: request.query.get("dryRun").is_some(),
            manager: manager.map(str::to_owned).unwrap_or_else(|| managed::default_manager(&request.user_agent)),
            validation,
            user: request.user.clone(),
            warnings: Vec::new(),
        })
    }
}

/// What a write came to.
pub(crate) enum Written {
    Object(Arc<Object>),
    /// Not stored: a dry run.
    Dry(Value),
}

/// Where a write goes.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) served: Arc<Served>,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A body as an object of the served kind, its unknown fields told or refused, defaults filled in.
pub(crate) fn decode_object(
    served: &Served,
    mut value: Value,
    options: &mut WriteOptions,
    strict: Vec<String>,
) -> Result<Value, ApiError> {
    input::check_type(served, &mut value)?;
    let mut strict_errors = strict;
    let value = match &served.origin {
        Origin::Builtin(id) => {
            let decoded = decode::decode(*id, value).map_err(|error| {
                let message = format!(
                    "{} in version {:?} cannot be handled as a {}: {error}",
                    served.kind, &*served.version, served.kind
                );
                ApiError::bad_request(message)
            })?;
            strict_errors.extend(decoded.strict_errors);
            let mut value = decoded.value;
            defaults::apply(&served.group, &served.version, &served.kind, &mut value);
            // Defaulting leaves nulls where it only looked, and appends where the type has an order.
            decode::settle(*id, &mut value);
            value
        }
        Origin::Custom(custom) => {
            let (value, unknown) = custom.decode(value)?;
            strict_errors.extend(unknown);
            value
        }
    };
    report_strict(served, strict_errors, options)?;
    options.warnings.extend(warnings::of(&served.group, &served.kind, &value));
    Ok(value)
}

/// The refusal of a patch whose result does not fit its type, which is the patch's fault.
pub(crate) fn unfit_patch(served: &Served, patch: &Value, patched: &Value) -> Option<ApiError> {
    let Origin::Builtin(id) = &served.origin else { return None };
    unfit(*id, patch, patched)
}

/// The same for any type.
pub(crate) fn unfit(id: StructId, patch: &Value, patched: &Value) -> Option<ApiError> {
    let error = decode::decode(id, patched.clone()).err()?;
    // Shown as the merge left it: its top in order, the rest as it was.
    let mut shown = patched.clone();
    sort_touched(&mut shown, patch);
    let error = FieldError::invalid("patch", shown.to_string(), error);
    let mut error = ApiError::invalid("", "", "", &[error]);
    error.message = error.message.replacen("\"\" is invalid", " \"\" is invalid", 1).replacen("  \"\"", " \"\"", 1);
    Some(error)
}

/// A merge writes the maps it goes through in order, and leaves the others alone.
fn sort_touched(value: &mut Value, patch: &Value) {
    if let (Some(fields), Some(patch)) = (value.as_object_mut(), patch.as_object()) {
        fields.sort_keys();
        for (key, patch) in patch {
            if let Some(value) = fields.get_mut(key) {
                sort_touched(value, patch);
            }
        }
    }
}

pub(crate) fn report_strict(served: &Served, errors: Vec<String>, options: &mut WriteOptions) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    match options.validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            options.warnings.extend(errors);
            Ok(())
        }
        FieldValidation::Strict => {
            let message = format!(
                "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                served.kind,
                &*served.version,
                served.kind,
                errors.join(", ")
            );
            Err(ApiError::bad_request(message))
        }
    }
}

pub(crate) fn has_status(served: &Served) -> bool {
    served.has_subresource("status")
}

/// Creates an object from a decoded, defaulted body in the served version.
pub(crate) fn create(
    state: &mut State,
    place: &Place,
    mut object: Value,
    options: &mut WriteOptions,
    verb: Verb,
) -> Result<Written, ApiError> {
    let now = state.now_text();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.shift_remove("managedFields");
    }
    let author = Author { manager: &options.manager, part: Part::Main, subresource: "", now: &now };
    managed::update(&place.served, None, &mut object, &author);
    create_managed(state, place, object, options, verb)
}

/// The same, its managed fields known.
pub(crate) fn create_managed(
    state: &mut State,
    place: &Place,
    mut object: Value,
    options: &mut WriteOptions,
    verb: Verb,
) -> Result<Written, ApiError> {
    let served = &place.served;
    let table = served.table.ok_or_else(|| ApiError::method_not_allowed("create", &served.group, &served.plural))?;
    let now = state.now_text();
    set_namespace(served, &place.namespace, &mut object)?;
    let sent_version = object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty());
    let given_name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let generated =
        given_name.is_empty() && object["metadata"]["generateName"].as_str().is_some_and(|base| !base.is_empty());
    admission::mutate(
        state,
        &Attributes {
            operation: Operation::Create,
            served,
            subresource: "",
            namespace: &place.namespace,
            name: &given_name,
            user: &options.user,
        },
        &mut object,
        None,
    )?;
    prepare_metadata(state, &mut object, &now);
    match &served.origin {
        Origin::Builtin(_) => strategy::prepare_create(&served.kind, &mut object, has_status(served), &now),
        Origin::Custom(custom) => custom.prepare_create(&mut object),
    }
    if generated {
        let base = object["metadata"]["generateName"].as_str().unwrap_or_default();
        // Names of 63 characters at most, suffix included.
        let base: String = base.chars().take(58).collect();
        object["metadata"]["name"] = Value::from(format!("{base}{}", state.ids.suffix()));
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let errors = match &served.origin {
        Origin::Builtin(_) if served.is("apiextensions.k8s.io", "CustomResourceDefinition") => {
            crd::validate_create(&object)
        }
        Origin::Builtin(_) => validate::create(&served.group, &served.kind, served.namespaced, &object),
        Origin::Custom(_) if state.suffers(Planted::CustomValidationSkipped) => Vec::new(),
        Origin::Custom(custom) => custom.validate_create(served, &object),
    };
    if !errors.is_empty() {
        return Err(ApiError::invalid(&served.group, &served.kind, &name, &errors));
    }
    if let Origin::Builtin(_) = served.origin {
        canonicalize(served, &mut object);
    }
    let mut object = reorder(served, object);
    let key = served.key(&place.namespace, &name);
    admission::validate(
        state,
        &Attributes {
            operation: Operation::Create,
            served,
            subresource: "",
            namespace: &place.namespace,
            name: &name,
            user: &options.user,
        },
        &object,
        None,
    )?;
    if sent_version {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::new(500, "", message));
    }
    if state.store.get(table, &key).is_some() {
        let error = if generated {
            let mut error = ApiError::already_exists(&served.group, &served.plural, &name);
            error.message =
                format!("{}, the server was not able to generate a unique name for the object", error.message);
            error
        } else {
            ApiError::already_exists(&served.group, &served.plural, &name)
        };
        let deleting = state
            .store
            .get(table, &key)
            .is_some_and(|found| found.value()["metadata"].get("deletionTimestamp").is_some());
        if deleting {
            let message = format!("object is being deleted: {}", error.message);
            return Err(ApiError { message, ..error });
        }
        return Err(error);
    }
    admission::before_store(state, served, &mut object, None)?;
    if options.dry_run && !state.suffers(Planted::DryRunsWrite) {
        return Ok(Written::Dry(object));
    }
    let (stored, shown) = both_versions(served, object)?;
    let now = state.now;
    let stored = state.store.put(table, &key, stored, verb, now);
    admission::after_store(state, served, &stored);
    gc::after_write(state, table, &stored);
    Ok(written(stored, shown))
}

/// The object as it is stored and, where that takes a webhook, as it is shown: both must be known before it is written.
fn both_versions(served: &Served, object: Value) -> Result<(Value, Option<Value>), ApiError> {
    if !is_shallow(&object, MAX_DEPTH) {
        return Err(ApiError::bad_request("json: exceeded max depth"));
    }
    let stored = convert::to_stored(served, object);
    let converts = served.custom().is_some_and(|custom| custom.webhook.is_some());
    let shown = converts.then(|| convert::from_stored(served, stored.clone()));
    if conversion::is_waiting() { Err(conversion::waits()) } else { Ok((stored, shown)) }
}

/// What is stored is read again, and readers of JSON have their limits: 128 levels for ours.
const MAX_DEPTH: usize = 120;

fn is_shallow(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| is_shallow(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|value| is_shallow(value, levels - 1)),
        _ => true,
    }
}

fn written(stored: Arc<Object>, shown: Option<Value>) -> Written {
    match shown {
        Some(mut shown) => {
            shown["metadata"]["resourceVersion"] = Value::from(stored.version.to_string());
            Written::Dry(shown)
        }
        None => Written::Object(stored),
    }
}

/// The namespace of the path fills the object's, and must agree with it.
fn set_namespace(served: &Served, namespace: &str, object: &mut Value) -> Result<(), ApiError> {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    let given = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    if !served.namespaced {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.shift_remove("namespace");
        }
        return Ok(());
    }
    if given.is_empty() {
        object["metadata"]["namespace"] = Value::from(namespace);
    } else if given != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// What only the server sets.
fn prepare_metadata(state: &mut State, object: &mut Value, now: &str) {
    let uid = state.ids.uid();
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    for key in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.shift_remove(key);
    }
    metadata.insert("uid".into(), Value::from(uid));
    metadata.insert("creationTimestamp".into(), Value::from(now));
}

/// What the server adds once the name is known.
fn canonicalize(served: &Served, object: &mut Value) {
    if &*served.kind == "Namespace" {
        let name = object["metadata"]["name"].clone();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
    if &*served.kind == "Job" && served.is("batch", "Job") {
        defaults::job_selector(object);
    }
}

/// Built-in objects are kept in the order their type writes, which lists rely on.
pub(crate) fn reorder(served: &Served, mut value: Value) -> Value {
    if let Origin::Builtin(id) = &served.origin {
        decode::settle(*id, &mut value);
    }
    value
}

/// What is stored, and the same as a value in the served version, read once.
pub(crate) struct Current {
    pub(crate) object: Arc<Object>,
    pub(crate) value: Value,
}

impl Current {
    pub(crate) fn read(served: &Served, object: Arc<Object>) -> Self {
        let value = convert::from_stored(served, object.value());
        Self { object, value }
    }
}

/// Writes `object` over `current`, recording what changes as the writer's.
#[expect(clippy::too_many_arguments, reason = "one call per verb, each argument a different kind of thing")]
pub(crate) fn replace(
    state: &mut State,
    place: &Place,
    part: Part,
    subresource: &str,
    current: &Current,
    mut object: Value,
    options: &mut WriteOptions,
    verb: Verb,
) -> Result<Written, ApiError> {
    let now = state.now_text();
    check_identity(place, &object, &current.value)?;
    let author = Author { manager: &options.manager, part, subresource, now: &now };
    managed::update(&place.served, Some(&current.value), &mut object, &author);
    replace_managed(state, place, part, current, object, options, verb)
}

/// The same, its managed fields known: the heart of PUT, PATCH and apply.
pub(crate) fn replace_managed(
    state: &mut State,
    place: &Place,
    part: Part,
    current: &Current,
    mut object: Value,
    options: &mut WriteOptions,
    verb: Verb,
) -> Result<Written, ApiError> {
    let served = &place.served;
    let table = served.table.ok_or_else(|| ApiError::method_not_allowed("update", &served.group, &served.plural))?;
    let old = &current.value;
    let now = state.now_text();
    check_identity(place, &object, old)?;
    if !state.suffers(Planted::StaleWritesPass) {
        check_version(place, part, &object, old, verb)?;
    }
    if served.namespaced && object["metadata"]["namespace"].as_str().unwrap_or_default().is_empty() {
        object["metadata"]["namespace"] = old["metadata"]["namespace"].clone();
    }
    let attributes = Attributes {
        operation: Operation::Update,
        served,
        subresource: subresource_name(part),
        namespace: &place.namespace,
        name: &place.name,
        user: &options.user,
    };
    admission::mutate(state, &attributes, &mut object, Some(old))?;
    keep_system_fields(&mut object, old);
    match &served.origin {
        Origin::Builtin(_) => strategy::prepare_update(&served.kind, part, &mut object, old, has_status(served), &now),
        Origin::Custom(custom) => custom.prepare_update(part, &mut object, old),
    }
    if state.suffers(Planted::GenerationStands) {
        object["metadata"]["generation"] = old["metadata"]["generation"].clone();
    }
    let errors = match &served.origin {
        Origin::Builtin(_) if served.is("apiextensions.k8s.io", "CustomResourceDefinition") && part == Part::Main => {
            crd::validate_update(&object, old)
        }
        Origin::Builtin(_) => validate::update(&served.group, &served.kind, served.namespaced, part, &object, old),
        Origin::Custom(custom) => custom.validate_update(served, part, &object, old),
    };
    if !errors.is_empty() {
        return Err(ApiError::invalid(&served.group, &served.kind, &place.name, &errors));
    }
    if let Origin::Builtin(_) = served.origin {
        canonicalize(served, &mut object);
    }
    let mut object = reorder(served, object);
    admission::validate(state, &attributes, &object, Some(old))?;
    admission::before_store(state, served, &mut object, Some(old))?;
    if apply::keep_times(&mut object, old) && object == *old {
        return Ok(Written::Object(current.object.clone()));
    }
    if options.dry_run {
        return Ok(Written::Dry(object));
    }
    let (stored, shown) = both_versions(served, object)?;
    let now = state.now;
    if delete::is_done(&stored) {
        finish_deletion(state, served, &current.object);
        // The answer shows what was written; watchers see what was there before.
        return Ok(Written::Dry(shown.unwrap_or_else(|| convert::from_stored(served, stored))));
    }
    let stored = state.store.put(table, &current.object.key, stored, verb, now);
    admission::after_store(state, served, &stored);
    gc::after_write(state, table, &stored);
    Ok(written(stored, shown))
}

/// The last finalizer went: the update is the deletion, and watchers see the state it wrote.
fn finish_deletion(state: &mut State, served: &Arc<Served>, current: &Arc<Object>) {
    let table = served.table.expect("checked by the caller");
    let now = state.now;
    let key = current.key.clone();
    let removed = state.store.remove(table, &key, now).expect("it is there: we hold the lock");
    admission::after_remove(state, served, &removed);
    gc::after_remove(state, &removed);
}

pub(crate) fn subresource_name(part: Part) -> &'static str {
    match part {
        Part::Main => "",
        Part::Status => "status",
        Part::Finalize => "finalize",
        Part::Resize => "resize",
        Part::EphemeralContainers => "ephemeralcontainers",
        Part::Approval => "approval",
    }
}

fn check_identity(place: &Place, object: &Value, old: &Value) -> Result<(), ApiError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(ApiError::bad_request("name must be provided"));
    }
    if name != place.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            place.name
        )));
    }
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if place.served.namespaced && !namespace.is_empty() && namespace != place.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let (uid, old_uid) = (object["metadata"]["uid"].as_str(), old["metadata"]["uid"].as_str().unwrap_or_default());
    if let Some(uid) = uid.filter(|uid| !uid.is_empty() && *uid != old_uid) {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
             precondition: {uid}, UID in object meta: {old_uid}",
            storage_key(place)
        );
        return Err(ApiError::conflict(&place.served.group, &place.served.plural, &place.name, &why));
    }
    Ok(())
}

/// Where the reference server keeps the object; its conflicts show it.
fn storage_key(place: &Place) -> String {
    let served = &place.served;
    let resource = match (&served.origin, &*served.kind) {
        (Origin::Custom(_), _) => format!("{}/{}", served.group, served.plural),
        (_, "Node") => "minions".to_owned(),
        (_, "Service") => "services/specs".to_owned(),
        (_, "Endpoints") => "services/endpoints".to_owned(),
        (_, "Ingress") => "ingress".to_owned(),
        (_, "ReplicationController") => "controllers".to_owned(),
        _ => served.plural.to_string(),
    };
    format!("/registry/{resource}/{}", served.key(&place.namespace, &place.name))
}

fn check_version(place: &Place, part: Part, object: &Value, old: &Value, verb: Verb) -> Result<(), ApiError> {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let served = &place.served;
    if version.is_empty() {
        let needs = strategy::needs_version_on_update(&served.kind) || served.custom().is_some();
        if verb == Verb::Update && needs && (part == Part::Main || part == Part::Status) {
            let error = FieldError::invalid("metadata.resourceVersion", 0i64, "must be specified for an update");
            // By its plural name, unlike every other invalid object.
            return Err(ApiError::invalid(&served.group, &served.plural, &place.name, &[error]));
        }
        return Ok(());
    }
    if version != old["metadata"]["resourceVersion"].as_str().unwrap_or_default() {
        return Err(ApiError::stale(&served.group, &served.plural, &place.name));
    }
    Ok(())
}

fn keep_system_fields(object: &mut Value, old: &Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    let before = &old["metadata"];
    metadata.shift_remove("selfLink");
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "generateName",
    ] {
        if key == "generateName" && metadata.contains_key(key) {
            continue;
        }
        match before.get(key) {
            Some(value) => metadata.insert(key.to_owned(), value.clone()),
            None => metadata.shift_remove(key),
        };
    }
}
