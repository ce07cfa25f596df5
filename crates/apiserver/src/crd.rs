//! CustomResourceDefinitions: names accepted, versions established, paths served.

use std::sync::Arc;

use karpenter_kinds::fielderror::FieldError;
use karpenter_kinds::names;
use karpenter_kinds::strategy::Part;
use karpenter_kinds::validate::{self, NameRule};
use karpenter_structural::schema::{self, Schema, check::CheckOptions};
use serde_json::{Value, json};

use crate::custom;
use crate::history::Verb;
use crate::managed::{self, Author};
use crate::state::State;
use crate::store::Object;

/// What is wrong with a new CRD.
pub(crate) fn validate_create(crd: &Value) -> Vec<FieldError> {
    let mut errors = validate::metadata(false, NameRule::Subdomain, crd);
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let name = text(&crd["metadata"]["name"]);
    if !name.is_empty() && name != format!("{plural}.{group}") {
        errors.push(FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    errors.extend(validate_spec(spec, None, &group));
    if (group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io") || group == "k8s.io") && !is_approved(crd) {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(FieldError::required("metadata.annotations[api-approved.kubernetes.io]", detail));
    }
    errors
}

fn is_approved(crd: &Value) -> bool {
    let annotation = crd["metadata"]["annotations"]["api-approved.kubernetes.io"].as_str().unwrap_or_default();
    annotation.starts_with("https://") || annotation.starts_with("unapproved")
}

/// What an update may not do.
pub(crate) fn validate_update(crd: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate::metadata_update(crd, old);
    errors.extend(validate::metadata(false, NameRule::Any, crd));
    let group = crd["spec"]["group"].as_str().unwrap_or_default().to_owned();
    errors.extend(validate_spec(&crd["spec"], Some(&old["spec"]), &group));
    let established = condition(old, "Established") == Some("True");
    for (field, pointer) in [
        ("spec.group", "/spec/group"),
        ("spec.scope", "/spec/scope"),
        ("spec.names.kind", "/spec/names/kind"),
        ("spec.names.plural", "/spec/names/plural"),
    ] {
        let always = field == "spec.group" || field == "spec.names.plural";
        if (established || always) && crd.pointer(pointer) != old.pointer(pointer) {
            let value = crd.pointer(pointer).cloned().unwrap_or(Value::Null);
            errors.push(FieldError::invalid(field, value, "field is immutable"));
        }
    }
    for (index, stored) in crd["status"]["storedVersions"].as_array().into_iter().flatten().enumerate() {
        let known = crd["spec"]["versions"].as_array().into_iter().flatten().any(|version| version["name"] == *stored);
        if !known {
            let detail = "missing from spec.versions; ".to_owned()
                + &format!(
                    "{} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions",
                    stored.as_str().unwrap_or_default()
                );
            errors.push(FieldError::invalid(format!("status.storedVersions[{index}]"), stored, detail));
        }
    }
    errors
}

fn validate_spec(spec: &Value, old: Option<&Value>, group: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Err(messages) = names::dns_subdomain(group) {
        errors.push(FieldError::invalid("spec.group", group, messages.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    match spec["scope"].as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    let versions = spec["versions"].as_array().cloned().unwrap_or_default();
    for (index, version) in versions.iter().enumerate() {
        if version["schema"].get("openAPIV3Schema").is_none_or(Value::is_null) {
            errors.push(FieldError::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
    // One schema for all versions is the CRD's own, and so is its place in messages.
    let alone = versions.len() == 1;
    for (index, version) in versions.iter().enumerate() {
        let name = version["name"].as_str().unwrap_or_default();
        if let Err(messages) = names::dns1035_label(name) {
            errors.push(FieldError::invalid(format!("spec.versions[{index}].name"), name, messages.join(",")));
        }
        let place = if alone { "spec.validation".to_owned() } else { format!("spec.versions[{index}].schema") };
        let before = old.and_then(|old| old["versions"].as_array()?.iter().find(|old| old["name"] == version["name"]));
        errors.extend(validate_schema(version, before, &place));
    }
    let storage = versions.iter().filter(|version| version["storage"] == true).count();
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &spec["versions"], detail));
    }
    errors.extend(conversion(&spec["conversion"]));
    for key in ["plural", "singular", "kind", "listKind"] {
        if spec["names"][key].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("spec.names.{key}"), ""));
        }
    }
    for key in ["plural", "singular"] {
        let name = spec["names"][key].as_str().unwrap_or_default();
        if let Err(messages) = names::dns1035_label(name)
            && !name.is_empty()
        {
            errors.push(FieldError::invalid(format!("spec.names.{key}"), name, messages.join(",")));
        }
    }
    let (kind, list_kind) = (&spec["names"]["kind"], &spec["names"]["listKind"]);
    if kind.is_string() && kind == list_kind {
        errors.push(FieldError::invalid("spec.names.listKind", list_kind, "kind and listKind may not be the same"));
    }
    errors
}

fn conversion(conversion: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.conversion";
    let mut errors = Vec::new();
    let strategy = conversion["strategy"].as_str().unwrap_or_default();
    if !["None", "Webhook"].contains(&strategy) {
        errors.push(FieldError::not_supported(format!("{FIELD}.strategy"), strategy, &["None", "Webhook"]));
    }
    let config = conversion["webhook"].get("clientConfig").filter(|config| config.is_object());
    let versions: Vec<&str> = conversion["webhook"]["conversionReviewVersions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if strategy != "Webhook" {
        for (given, key) in
            [(config.is_some(), "webhookClientConfig"), (!versions.is_empty(), "conversionReviewVersions")]
        {
            if given {
                let detail = "should not be set when strategy is not set to Webhook";
                errors.push(FieldError::forbidden(format!("{FIELD}.{key}"), detail));
            }
        }
        return errors;
    }
    let field = format!("{FIELD}.webhookClientConfig");
    match config {
        None => errors.push(FieldError::required(field, "required when strategy is set to Webhook")),
        Some(config) if config.get("url").is_some() == config.get("service").is_some() => {
            errors.push(FieldError::required(field, "exactly one of url or service is required"));
        }
        Some(config) => {
            if let Some(url) = config["url"].as_str().filter(|url| !url.starts_with("https://")) {
                let scheme = url.split("://").next().filter(|_| url.contains("://")).unwrap_or_default();
                let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                errors.push(FieldError::invalid(format!("{field}.url"), scheme, detail));
            }
        }
    }
    let field = format!("{FIELD}.conversionReviewVersions");
    if versions.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !versions.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(field, Value::from(versions), detail));
    }
    errors
}

fn validate_schema(version: &Value, old: Option<&Value>, place: &str) -> Vec<FieldError> {
    let raw = &version["schema"]["openAPIV3Schema"];
    if raw.is_null() {
        return Vec::new();
    }
    let options = CheckOptions { status_subresource: version["subresources"].get("status").is_some() };
    let unchanged = old.is_some_and(|old| old["schema"] == version["schema"]);
    let check = if unchanged { schema::check::check_unchanged } else { schema::check::check };
    match Schema::parse(raw) {
        Ok(schema) => check(&schema, place, options).iter().map(custom::own_error).collect(),
        Err(error) => vec![FieldError::invalid(format!("{place}.openAPIV3Schema"), "", error)],
    }
}

/// What the controllers of the reference server do after a CRD is written, at once: accept the names if they are free,
/// establish it, serve it.
pub(crate) fn after_store(state: &mut State, object: &Arc<Object>) {
    let mut crd = object.value();
    let status = status_of(state, &crd);
    if crd["status"] != status {
        let mut live = crd.clone();
        if live["status"]["conditions"].is_null() {
            live["status"]["conditions"] = json!([]);
        }
        crd["status"] = status;
        if let Some(served) = state.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions").cloned() {
            let now = state.now_text();
            let author = Author { manager: "kube-apiserver", part: Part::Status, subresource: "status", now: &now };
            managed::update(&served, Some(&live), &mut crd, &author);
            crd = crate::write::reorder(&served, crd);
        }
        let Some(table) = state.registry.table("apiextensions.k8s.io", "customresourcedefinitions") else {
            return;
        };
        let now = state.now;
        state.store.put(table, &object.key, crd.clone(), Verb::System, now);
    }
    serve(state, &crd);
}

fn serve(state: &mut State, crd: &Value) {
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
    if condition(crd, "Established") != Some("True") {
        state.registry.set_custom(group, plural, Vec::new());
        return;
    }
    let fields = custom::selectable(crd);
    let State { registry, store, .. } = state;
    let table = registry.custom_table(store, group, plural, fields);
    registry.set_custom(group, plural, custom::served(crd, table));
}

/// Its objects go with it.
pub(crate) fn after_remove(state: &mut State, object: &Arc<Object>) {
    let crd = object.value();
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let plural = crd["spec"]["names"]["plural"].as_str().unwrap_or_default();
    if let Some(table) = state.registry.table(group, plural) {
        let keys: Vec<Arc<str>> = state.store.table(table).range("", None).map(|object| object.key.clone()).collect();
        let now = state.now;
        for key in keys {
            if let Some(removed) = state.store.remove(table, &key, now) {
                crate::gc::after_remove(state, &removed);
            }
        }
    }
    state.registry.set_custom(group, plural, Vec::new());
}

fn condition<'a>(crd: &'a Value, name: &str) -> Option<&'a str> {
    let conditions = crd["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)?["status"].as_str()
}

fn status_of(state: &State, crd: &Value) -> Value {
    let spec = &crd["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let own = crd["metadata"]["name"].as_str().unwrap_or_default();
    let conflict = name_conflict(state, group, own, &spec["names"]);
    let accepted = if conflict.is_none() { accepted_names(spec) } else { crd["status"]["acceptedNames"].clone() };
    let now = state.now_text();
    let since = |name: &str, status: &str| {
        let old =
            crd["status"]["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == name);
        let kept = old.filter(|condition| condition["status"] == status).map(|c| c["lastTransitionTime"].clone());
        kept.unwrap_or_else(|| Value::from(now.clone()))
    };
    let names = match &conflict {
        None => json!({"type": "NamesAccepted", "status": "True", "lastTransitionTime": since("NamesAccepted", "True"),
            "reason": "NoConflicts", "message": "no conflicts found"}),
        Some((reason, message)) => {
            json!({"type": "NamesAccepted", "status": "False", "lastTransitionTime": since("NamesAccepted", "False"),
                "reason": reason, "message": message})
        }
    };
    let was_established = condition(crd, "Established") == Some("True");
    let established = if conflict.is_none() || was_established {
        json!({"type": "Established", "status": "True", "lastTransitionTime": since("Established", "True"),
            "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"})
    } else {
        json!({"type": "Established", "status": "False", "lastTransitionTime": since("Established", "False"),
            "reason": "NotAccepted", "message": "not all names are accepted"})
    };
    let mut stored: Vec<Value> = crd["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    let versions = spec["versions"].as_array().cloned().unwrap_or_default();
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    let mut conditions = vec![names, established];
    // What somebody else wrote stays: terminating, for one.
    for other in crd["status"]["conditions"].as_array().into_iter().flatten() {
        if other["type"] != "NamesAccepted" && other["type"] != "Established" {
            conditions.push(other.clone());
        }
    }
    json!({"conditions": conditions, "acceptedNames": accepted, "storedVersions": stored})
}

fn accepted_names(spec: &Value) -> Value {
    spec["names"].clone()
}

/// Another kind or CRD of the group that has one of the names already.
fn name_conflict(state: &State, group: &str, own: &str, names: &Value) -> Option<(&'static str, String)> {
    let text = |key: &str| names[key].as_str().unwrap_or_default();
    for other in state.registry.all().filter(|served| &*served.group == group) {
        if other.custom().is_some_and(|custom| custom.crd == own) {
            continue;
        }
        let resources: Vec<&str> = [&*other.plural, &*other.singular]
            .into_iter()
            .chain(other.short_names.iter().map(String::as_str))
            .collect();
        let checks = [("PluralConflict", text("plural")), ("SingularConflict", text("singular"))];
        for (reason, name) in checks {
            if !name.is_empty() && resources.contains(&name) {
                return Some((reason, format!("{name:?} is already in use")));
            }
        }
        for short in names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if resources.contains(&short) {
                return Some(("ShortNamesConflict", format!("{short:?} is already in use")));
            }
        }
        for (reason, name) in [("KindConflict", text("kind")), ("ListKindConflict", text("listKind"))] {
            if !name.is_empty() && (&*other.kind == name || &*other.list_kind == name) {
                return Some((reason, format!("{name:?} is already in use")));
            }
        }
    }
    None
}
