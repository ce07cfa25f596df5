//! Nobody grants what he does not have: roles and bindings of whoever is not an administrator may hold only rules that
//! its author has himself, unless a role lets him `escalate` or `bind`.

use serde_json::Value;

use crate::admission::{Attributes, Operation};
use crate::error::ApiError;
use crate::rbac::{self, Action};
use crate::state::State;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn check(
    state: &State,
    attributes: &Attributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let (served, user) = (attributes.served, attributes.user);
    if !state.rbac || &*served.group != GROUP || attributes.operation == Operation::Delete {
        return Ok(());
    }
    if user.groups.iter().any(|group| group == "system:masters") || old.is_some_and(|old| same_grant(object, old)) {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let may = |verb: &str, plural: &str, name: &str, namespace: &str| {
        rbac::allowed(state, user, &Action::resource(verb, GROUP, plural, "", name, namespace))
    };
    let rules = if served.kind.ends_with("Binding") {
        let role = &object["roleRef"];
        let (kind, role_name) = (role["kind"].as_str(), role["name"].as_str().unwrap_or_default());
        let (plural, key) = match kind {
            Some("ClusterRole") => ("clusterroles", role_name.to_owned()),
            _ => ("roles", format!("{}/{role_name}", attributes.namespace)),
        };
        if may("bind", plural, role_name, attributes.namespace) {
            return Ok(());
        }
        let found = state.registry.table(GROUP, plural).and_then(|table| state.store.get(table, &key));
        let found = found.ok_or_else(|| ApiError::not_found(GROUP, plural, role_name))?;
        found.shared()["rules"].clone()
    } else {
        if may("escalate", &served.plural, "", attributes.namespace) {
            return Ok(());
        }
        object["rules"].clone()
    };
    let missing = missing(state, attributes, &rules);
    if missing.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
    let why = format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        groups.join(" "),
        missing.join("\n")
    );
    Err(ApiError::forbidden(GROUP, &served.plural, name, &why))
}

/// Labels and the like may be changed by whoever may change the object.
fn same_grant(object: &Value, old: &Value) -> bool {
    ["rules", "roleRef", "subjects", "aggregationRule"].iter().all(|key| object.get(*key) == old.get(*key))
        && object["metadata"].get("labels") == old["metadata"].get("labels")
        && object["metadata"].get("annotations") == old["metadata"].get("annotations")
}

/// The rules the user does not have, each as the reference server prints it, sorted.
fn missing(state: &State, attributes: &Attributes<'_>, rules: &Value) -> Vec<String> {
    let mut own: Vec<Value> = Vec::new();
    rbac::visit_rules(state, attributes.user, attributes.namespace, &mut |rule| {
        own.push(rule.clone());
        true
    });
    let has = |action: &Action<'_>| own.iter().any(|rule| rbac::rule_allows(rule, action));
    let list = |rule: &Value, key: &str| -> Vec<String> {
        rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    // (group, resource, name or path) and the verbs on it that are missing.
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut note = |place: String, verb: &str| match found.iter_mut().find(|(known, _)| *known == place) {
        Some((_, verbs)) => verbs.push(verb.to_owned()),
        None => found.push((place, vec![verb.to_owned()])),
    };
    for rule in rules.as_array().into_iter().flatten() {
        let names = list(rule, "resourceNames");
        for group in list(rule, "apiGroups") {
            for resource in list(rule, "resources") {
                for verb in list(rule, "verbs") {
                    let action = |name| Action::resource(&verb, &group, &resource, "", name, "");
                    let place = format!("APIGroups:[{group:?}], Resources:[{resource:?}]");
                    if names.is_empty() && !has(&action("")) {
                        note(place.clone(), &verb);
                    }
                    for name in names.iter().filter(|name| !has(&action(name))) {
                        note(format!("{place}, ResourceNames:[{name:?}]"), &verb);
                    }
                }
            }
        }
        for path in list(rule, "nonResourceURLs") {
            for verb in list(rule, "verbs").iter().filter(|verb| !has(&Action::path(verb, &path))) {
                note(format!("NonResourceURLs:[{path:?}]"), verb);
            }
        }
    }
    let shown = |(place, verbs): (String, Vec<String>)| {
        let verbs: Vec<String> = verbs.iter().map(|verb| format!("{verb:?}")).collect();
        format!("{{{place}, Verbs:[{}]}}", verbs.join(" "))
    };
    let mut texts: Vec<String> = found.into_iter().map(shown).collect();
    texts.sort();
    texts.dedup();
    texts
}
