//! Deletion: preconditions, grace, finalizers, propagation.

use std::sync::Arc;

use karpenter_kinds::decode;
use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::times;
use karpenter_kinds::types::Types;
use serde_json::{Value, json};

use crate::admission::{self, Attributes, Operation};
use crate::error::ApiError;
use crate::gc;
use crate::history::Verb;
use crate::input;
use crate::planted::Planted;
use crate::registry::Served;
use crate::request::{Request, User};
use crate::state::State;
use crate::store::Object;
use crate::write::Place;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) policy: Option<Policy>,
    /// The old spelling of the policy.
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Background,
    Foreground,
    Orphan,
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl DeleteOptions {
    /// From the body if there is one, from the query otherwise.
    pub(crate) fn parse(request: &Request) -> Result<Self, ApiError> {
        if !request.body.is_empty() {
            let (body, _) = input::parse(request)?;
            return Self::from_value(&Self::decode(body)?);
        }
        let query = &request.query;
        let mut value = json!({});
        if let Some(grace) = query.integer("gracePeriodSeconds")? {
            value["gracePeriodSeconds"] = Value::from(grace);
        }
        if let Some(policy) = query.get("propagationPolicy") {
            value["propagationPolicy"] = Value::from(policy);
        }
        if query.get("orphanDependents").is_some() {
            value["orphanDependents"] = Value::from(query.flag("orphanDependents"));
        }
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        if !dry_run.is_empty() {
            value["dryRun"] = Value::from(dry_run);
        }
        Self::from_value(&value)
    }

    fn decode(body: Value) -> Result<Value, ApiError> {
        let text = |key: &str| body[key].as_str().unwrap_or_default();
        let kind = text("kind");
        if !kind.is_empty() && kind != "DeleteOptions" {
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
                text("apiVersion")
            )));
        }
        let id = Types::get().named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
        match id {
            Some(id) => decode::decode(id, body).map(|decoded| decoded.value).map_err(ApiError::bad_request),
            None => Ok(body),
        }
    }

    pub(crate) fn from_value(value: &Value) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let policy = value["propagationPolicy"].as_str();
        let orphan_dependents = value["orphanDependents"].as_bool();
        if policy.is_some() && orphan_dependents.is_some() {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                policy.unwrap_or_default(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let policy = match policy {
            None => None,
            Some("Background") => Some(Policy::Background),
            Some("Foreground") => Some(Policy::Foreground),
            Some("Orphan") => Some(Policy::Orphan),
            Some(other) => {
                let values = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", other, &values));
                None
            }
        };
        let dry_run = value["dryRun"].as_array().cloned().unwrap_or_default();
        if dry_run.iter().any(|value| value != "All") {
            errors.push(FieldError::not_supported("dryRun", Value::Array(dry_run.clone()), &["All"]));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
        }
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            grace: value["gracePeriodSeconds"].as_i64(),
            policy,
            orphan_dependents,
            uid: text("/preconditions/uid"),
            version: text("/preconditions/resourceVersion"),
            dry_run: !dry_run.is_empty(),
        })
    }
}

/// What a deletion came to.
pub(crate) enum Deleted {
    /// Gone; the last state, and what the answer shows instead of it.
    Gone(Arc<Object>, Option<Value>),
    /// Marked, and waiting for grace or finalizers.
    Marked(Arc<Object>),
    /// What would have happened.
    Dry(Arc<Object>),
}

pub(crate) fn delete(
    state: &mut State,
    place: &Place,
    options: &DeleteOptions,
    user: &User,
) -> Result<Deleted, ApiError> {
    let served = &place.served;
    let table = served.table.ok_or_else(|| ApiError::method_not_allowed("delete", &served.group, &served.plural))?;
    let key = served.key(&place.namespace, &place.name);
    let not_found = || ApiError::not_found(&served.group, &served.plural, &place.name);
    let object = state.store.get(table, &key).cloned().ok_or_else(not_found)?;
    check_preconditions(place, options, &object)?;
    let value = object.value();
    admission::validate(
        state,
        &Attributes {
            operation: Operation::Delete,
            served,
            subresource: "",
            namespace: &place.namespace,
            name: &place.name,
            user,
        },
        &Value::Null,
        Some(&value),
    )?;
    let mut next = value.clone();
    let grace = grace_of(served, &value, options);
    let mut finalizers = finalizers_for(served, &value, options);
    if state.suffers(Planted::FinalizersIgnored) {
        finalizers.clear();
    }
    set_finalizers(&mut next, &finalizers);
    let already = value["metadata"].get("deletionTimestamp").is_some();
    let namespace_busy =
        served.is("", "Namespace") && !value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    let waits = !finalizers.is_empty() || grace > 0 || namespace_busy;
    if options.dry_run {
        return Ok(Deleted::Dry(object));
    }
    if !waits {
        let now = state.now;
        let removed = state.store.remove(table, &key, now).ok_or_else(not_found)?;
        admission::after_remove(state, served, &removed);
        gc::after_remove(state, &removed);
        // A pod's answer shows it marked, though nobody else ever saw it so.
        let shown = served.is("", "Pod").then(|| {
            if !already {
                mark(state, &mut next, 0);
            }
            next["metadata"]["resourceVersion"] = Value::from(removed.version.to_string());
            crate::write::reorder(served, next)
        });
        return Ok(Deleted::Gone(removed, shown));
    }
    if already {
        shorten(state, &mut next, grace, options);
    } else {
        mark(state, &mut next, grace);
    }
    if served.is("", "Namespace") {
        next["status"]["phase"] = json!("Terminating");
    }
    if next == value {
        return Ok(Deleted::Marked(object));
    }
    let now = state.now;
    let marked = state.store.put(table, &key, crate::write::reorder(served, next), Verb::System, now);
    admission::after_store(state, served, &marked);
    gc::after_write(state, table, &marked);
    Ok(Deleted::Marked(marked))
}

pub(crate) fn check_preconditions(place: &Place, options: &DeleteOptions, object: &Object) -> Result<(), ApiError> {
    let (group, kind) = (&place.served.group, &place.served.kind);
    if let Some(uid) = options.uid.as_deref().filter(|uid| **uid != *object.uid) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            object.uid
        );
        return Err(ApiError::conflict(group, kind, &place.name, &why));
    }
    let current = object.version.to_string();
    if let Some(version) = options.version.as_deref().filter(|version| *version != current) {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({current}). The object might have been modified"
        );
        return Err(ApiError::conflict(group, kind, &place.name, &why));
    }
    Ok(())
}

/// Only pods end gracefully, and only those that may be running somewhere.
fn grace_of(served: &Served, value: &Value, options: &DeleteOptions) -> i64 {
    if !served.is("", "Pod") {
        return 0;
    }
    let wanted = options.grace.or_else(|| value["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
    let nowhere = value["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let ended = matches!(value["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    if nowhere || ended {
        return 0;
    }
    if wanted < 0 { 1 } else { wanted }
}

fn finalizers_for(served: &Served, value: &Value, options: &DeleteOptions) -> Vec<String> {
    let current: Vec<String> = value["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let had = |name: &str| current.iter().any(|finalizer| finalizer == name);
    let orphans_by_default = served.is("batch", "Job") || served.is("", "ReplicationController");
    let (orphan, foreground) = match (options.orphan_dependents, options.policy) {
        (Some(orphan), _) => (orphan, false),
        (None, Some(policy)) => (policy == Policy::Orphan, policy == Policy::Foreground),
        (None, None) if had(ORPHAN) => (true, false),
        (None, None) if had(FOREGROUND) => (false, true),
        (None, None) => (orphans_by_default, false),
    };
    let mut next: Vec<String> = current.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND).cloned().collect();
    if orphan {
        next.push(ORPHAN.to_owned());
    }
    if foreground {
        next.push(FOREGROUND.to_owned());
    }
    next
}

fn set_finalizers(value: &mut Value, finalizers: &[String]) {
    let Some(metadata) = value["metadata"].as_object_mut() else {
        return;
    };
    if finalizers.is_empty() {
        metadata.shift_remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), Value::from(finalizers.to_vec()));
    }
}

fn mark(state: &State, value: &mut Value, grace: i64) {
    value["metadata"]["deletionTimestamp"] = Value::from(times::seconds(after(state.now, grace)));
    // A namespace goes when its contents are gone, however long that takes.
    if value["kind"] != "Namespace" {
        value["metadata"]["deletionGracePeriodSeconds"] = Value::from(grace);
    }
    if let Some(generation) = value["metadata"]["generation"].as_i64().filter(|generation| *generation > 0) {
        value["metadata"]["generation"] = Value::from(generation + 1);
    }
}

/// So many seconds later; the end of time is late enough for everybody.
fn after(time: jiff::Timestamp, seconds: i64) -> jiff::Timestamp {
    time.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(jiff::Timestamp::MAX)
}

/// A second deletion may only come sooner.
fn shorten(state: &State, value: &mut Value, grace: i64, options: &DeleteOptions) {
    let current = value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    if options.grace.is_none() || grace >= current {
        return;
    }
    let marked = value["metadata"]["deletionTimestamp"].as_str().and_then(|text| times::parse(text).ok());
    let at = after(marked.unwrap_or(state.now), grace.saturating_sub(current));
    value["metadata"]["deletionTimestamp"] = Value::from(times::seconds(at));
    value["metadata"]["deletionGracePeriodSeconds"] = Value::from(grace);
}

/// Whether an object marked for deletion has nothing left to wait for.
pub(crate) fn is_done(value: &Value) -> bool {
    let metadata = &value["metadata"];
    metadata.get("deletionTimestamp").is_some()
        && metadata["finalizers"].as_array().is_none_or(Vec::is_empty)
        && metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && (value["kind"] != "Namespace" || value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty))
}

/// Kinds that answer a deletion with the object instead of a Status.
pub(crate) fn returns_object(served: &Served) -> bool {
    matches!(
        (&*served.group, &*served.kind),
        (
            "",
            "Namespace"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Pod"
                | "PodTemplate"
                | "ResourceQuota"
                | "Service"
                | "ServiceAccount"
        ) | ("resource.k8s.io", "DeviceClass" | "ResourceClaim" | "ResourceClaimTemplate" | "ResourceSlice")
            | (
                "storage.k8s.io",
                "CSIDriver" | "CSINode" | "StorageClass" | "VolumeAttachment" | "VolumeAttributesClass"
            )
    )
}

/// The Status of a finished deletion.
pub(crate) fn success(served: &Served, object: &Object) -> Value {
    let mut details = json!({"name": object.name()});
    if !served.group.is_empty() {
        details["group"] = Value::from(&*served.group);
    }
    details["kind"] = Value::from(&*served.plural);
    details["uid"] = Value::from(&*object.uid);
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
