//! Roles and bindings: may this user do that?

use serde_json::Value;

use crate::request::User;
use crate::state::State;

/// What somebody wants to do.
#[derive(Clone, Debug)]
pub(crate) struct Action<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    /// `pods` or `pods/status`; empty for a path.
    pub(crate) resource: String,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) path: &'a str,
}

impl<'a> Action<'a> {
    pub(crate) fn resource(
        verb: &'a str,
        group: &'a str,
        resource: &str,
        subresource: &str,
        name: &'a str,
        namespace: &'a str,
    ) -> Self {
        let resource = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
        Self { verb, group, resource, namespace, name, path: "" }
    }

    pub(crate) fn path(verb: &'a str, path: &'a str) -> Self {
        Self { verb, group: "", resource: String::new(), namespace: "", name: "", path }
    }
}

pub(crate) fn allowed(state: &State, user: &User, action: &Action<'_>) -> bool {
    if user.groups.iter().any(|group| group == "system:masters") {
        return true;
    }
    let mut allowed = false;
    visit_rules(state, user, action.namespace, &mut |rule| {
        allowed |= rule_allows(rule, action);
        !allowed
    });
    allowed
}

/// Visits every rule that applies to the user in the namespace, until the visitor has enough.
pub(crate) fn visit_rules(state: &State, user: &User, namespace: &str, visit: &mut dyn FnMut(&Value) -> bool) {
    let mut bindings = Vec::new();
    let group = "rbac.authorization.k8s.io";
    if let Some(table) = state.registry.table(group, "clusterrolebindings") {
        bindings.extend(state.store.table(table).range("", None).map(|binding| (binding.shared(), "")));
    }
    let prefix = format!("{namespace}/");
    if let Some(table) = state.registry.table(group, "rolebindings").filter(|_| !namespace.is_empty()) {
        bindings.extend(state.store.table(table).range(&prefix, None).map(|binding| (binding.shared(), namespace)));
    }
    for (binding, bound_in) in bindings {
        let subjects = binding["subjects"].as_array();
        if !subjects.into_iter().flatten().any(|subject| is_subject(subject, user, bound_in)) {
            continue;
        }
        let name = binding["roleRef"]["name"].as_str().unwrap_or_default();
        let role = match binding["roleRef"]["kind"].as_str() {
            Some("ClusterRole") => {
                state.registry.table(group, "clusterroles").and_then(|table| state.store.get(table, name))
            }
            _ => state
                .registry
                .table(group, "roles")
                .and_then(|table| state.store.get(table, &format!("{bound_in}/{name}"))),
        };
        let Some(role) = role else { continue };
        for rule in role.shared()["rules"].as_array().into_iter().flatten() {
            if !visit(rule) {
                return;
            }
        }
    }
}

fn is_subject(subject: &Value, user: &User, bound_in: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => user.name == name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let namespace = subject["namespace"].as_str().filter(|namespace| !namespace.is_empty()).unwrap_or(bound_in);
            user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

pub(crate) fn rule_allows(rule: &Value, action: &Action<'_>) -> bool {
    let has = |key: &str, want: &dyn Fn(&str) -> bool| {
        rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).any(want)
    };
    if !has("verbs", &|verb| verb == "*" || verb == action.verb) {
        return false;
    }
    if !action.path.is_empty() {
        return has("nonResourceURLs", &|url| {
            url == "*"
                || url == action.path
                || url.strip_suffix('*').is_some_and(|prefix| action.path.starts_with(prefix))
        });
    }
    let subresource = action.resource.split_once('/').map(|(_, sub)| sub);
    has("apiGroups", &|group| group == "*" || group == action.group)
        && has("resources", &|resource| {
            resource == "*"
                || resource == action.resource
                || subresource.is_some_and(|sub| resource.strip_prefix("*/") == Some(sub))
        })
        && (rule["resourceNames"].as_array().is_none_or(Vec::is_empty)
            || has("resourceNames", &|name| name == action.name))
}
