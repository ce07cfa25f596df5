//! CustomResourceDefinitions: names accepted, versions established, paths served.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::custom;
use crate::history::Verb;
use crate::state::State;
use crate::store::Object;

/// What the controllers of the reference server do after a CRD is written, at once: accept the names if they are free,
/// establish it, serve it.
pub(crate) fn after_store(state: &mut State, object: &Arc<Object>) {
    let mut crd = object.value();
    let status = status_of(state, &crd);
    if crd["status"] != status {
        crd["status"] = status;
        let Some(table) = state
            .registry
            .table("apiextensions.k8s.io", "customresourcedefinitions")
        else {
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
        let keys: Vec<Arc<str>> = state
            .store
            .table(table)
            .range("", None)
            .map(|object| object.key.clone())
            .collect();
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
    let accepted = if conflict.is_none() {
        accepted_names(spec)
    } else {
        crd["status"]["acceptedNames"].clone()
    };
    let now = state.now_text();
    let since = |name: &str, status: &str| {
        let old = crd["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == name);
        let kept = old
            .filter(|condition| condition["status"] == status)
            .map(|c| c["lastTransitionTime"].clone());
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
        let checks = [
            ("PluralConflict", text("plural")),
            ("SingularConflict", text("singular")),
        ];
        for (reason, name) in checks {
            if !name.is_empty() && resources.contains(&name) {
                return Some((reason, format!("{name:?} is already in use")));
            }
        }
        for short in names["shortNames"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
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
