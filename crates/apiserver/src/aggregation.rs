//! Cluster roles made of others: `aggregationRule` names them by label, and their rules are its rules.
//!
//! On a real cluster the controller manager does this a moment later; here it is part of the write.

use std::sync::Arc;

use karpenter_kinds::selector::Selector;
use karpenter_kinds::strategy::Part;
use serde_json::{Value, json};

use crate::history::Verb;
use crate::managed::{self, Author};
use crate::registry::Served;
use crate::request::User;
use crate::state::State;
use crate::store::Object;
use crate::write::{self, Current, FieldValidation, Place, WriteOptions};

const MANAGER: &str = "clusterrole-aggregation-controller";

/// After a cluster role was written or removed: whoever is made of it follows, and so on until nothing changes.
pub(crate) fn follow(state: &mut State, served: &Arc<Served>) {
    let Some(table) = served.table else { return };
    let roles: Vec<Arc<Object>> = state.store.table(table).range("", None).cloned().collect();
    for role in roles.iter().filter(|role| role.shared().get("aggregationRule").is_some_and(Value::is_object)) {
        let wanted = rules(&roles, role);
        if role.shared().get("rules").unwrap_or(&Value::Null) != &wanted {
            // Writing it comes back here with the next generation of roles.
            write_rules(state, served, role, wanted);
            return;
        }
    }
}

/// The rules of all roles the selectors find, by name, each rule once.
fn rules(roles: &[Arc<Object>], role: &Object) -> Value {
    let mut rules: Vec<Value> = Vec::new();
    for selector in role.shared()["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten() {
        let selector = Selector::from_struct(Some(selector));
        for part in roles.iter().filter(|part| part.key != role.key && selector.matches(|key| part.label(key))) {
            for rule in part.shared()["rules"].as_array().into_iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    if rules.is_empty() { Value::Null } else { Value::Array(rules) }
}

fn write_rules(state: &mut State, served: &Arc<Served>, role: &Arc<Object>, rules: Value) {
    let now = state.now_text();
    let author = Author { manager: MANAGER, part: Part::Main, subresource: "", now: &now };
    let config = json!({"apiVersion": served.api_version(), "kind": &*served.kind,
        "metadata": {"name": role.name()}, "rules": rules});
    let current = Current::read(served, role.clone());
    let Ok(applied) = managed::apply_config(served, Some(&current.value), &config, &author, true) else { return };
    let user = User::new("system:serviceaccount:kube-system:clusterrole-aggregation-controller", &["system:masters"]);
    let mut options = WriteOptions {
        dry_run: false,
        manager: MANAGER.into(),
        validation: FieldValidation::Ignore,
        user,
        warnings: Vec::new(),
    };
    let place = Place { served: served.clone(), namespace: String::new(), name: role.name().to_owned() };
    // Roles that are valid apart are valid together; if one is not, this role keeps its rules.
    if let Ok(object) = write::decode_object(served, applied, &mut options, Vec::new()) {
        let _ = write::replace_managed(state, &place, Part::Main, &current, object, &mut options, Verb::System);
    }
}
