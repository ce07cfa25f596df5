//! Which keywords a schema may use where, and how lists and maps may be typed.

use serde_json::{Value, json};

use super::super::{Additional, Rule, Schema};
use super::expressions::{self, Costs, RuleScope};
use super::{additional, nested};
use crate::field::{FieldError, child, index, key};

/// Checks keywords, and, where the schema is `sound` so far, the expressions of its rules.
pub(super) fn check(schema: &Schema, path: &str, sound: bool, unchanged: bool) -> Vec<FieldError> {
    let mut found = Found::default();
    let rules = sound.then_some(RuleScope { cardinality: Some(1), uncorrelatable: None, any_cost: unchanged });
    let scope = Scope { defaults: Ok(()), in_metadata: false, root: true, rules };
    node(schema, path, &scope, &mut found);
    let Found { schema: mut errors, rules, costs } = found;
    errors.extend(rules);
    errors.extend(costs.problems(path));
    errors
}

/// Problems of the schema and of its rules, apart: a rule is only read where the schema around it is good.
#[derive(Default)]
struct Found {
    schema: Vec<FieldError>,
    rules: Vec<FieldError>,
    costs: Costs,
}

/// What holds for a place in the schema because of what is above it.
#[derive(Clone)]
struct Scope {
    /// Why there may be no defaults here, if so.
    defaults: Result<(), String>,
    in_metadata: bool,
    root: bool,
    /// `None` where rules are not read.
    rules: Option<RuleScope>,
}

fn node(schema: &Schema, path: &str, scope: &Scope, found: &mut Found) {
    let before = found.schema.len();
    standard(schema, path, scope, &mut found.schema);
    if schema.unique_items {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.schema.push(FieldError::forbidden(&child(path, "uniqueItems"), detail));
    }
    let inside = scope.rules.as_ref().map(|rules| rules.below(schema));
    let below = Scope { root: false, rules: inside, ..scope.clone() };
    if let Some(kind) = &schema.additional {
        let place = child(path, "additionalProperties");
        if !schema.properties.is_empty() && !matches!(kind, Additional::Allowed(true)) {
            let detail = "additionalProperties and properties are mutual exclusive";
            found.schema.push(FieldError::forbidden(&place, detail));
        }
        if let Some(schema) = additional(schema) {
            let mut below = below.clone();
            if scope.in_metadata {
                below.defaults = Err("inside additionalProperties applying to object metadata".to_owned());
            }
            node(schema, &place, &below, found);
        }
    }
    for (name, property) in &schema.properties {
        let mut below = below.clone();
        if (scope.root || schema.embedded_resource) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            below.in_metadata = true;
            if scope.root {
                below.defaults = Err(format!("in top-level {name}"));
            }
        }
        node(property, &key(&child(path, "properties"), name), &below, found);
    }
    for (place, part) in nested(schema, path) {
        node(part, &place, &Scope { rules: None, ..below.clone() }, found);
    }
    if let Some(items) = &schema.items {
        let mut below = below.clone();
        if let Some(rules) = &mut below.rules {
            // Only the elements of keyed lists can be told from one version of an object to the next.
            if schema.list_type.as_deref() != Some("map") {
                rules.uncorrelatable.get_or_insert_with(|| path.to_owned());
            }
        }
        node(items, &child(path, "items"), &below, found);
    }
    if schema.preserve_unknown_fields == Some(false) {
        let place = child(path, "x-kubernetes-preserve-unknown-fields");
        found.schema.push(FieldError::invalid(&place, false, "must be true or undefined"));
    }
    map_type(schema, path, &mut found.schema);
    list_type(schema, path, &mut found.schema);
    for (at, rule) in schema.rules.iter().enumerate() {
        rule_form(rule, schema, &index(&child(path, "x-kubernetes-validations"), at), &mut found.schema);
    }
    if let (Some(rules), true) = (&scope.rules, found.schema.len() == before) {
        expressions::check(schema, path, scope.root, rules, &mut found.rules, &mut found.costs);
    }
}

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

fn standard(schema: &Schema, path: &str, scope: &Scope, errors: &mut Vec<FieldError>) {
    if !schema.kind.is_empty() && !TYPES.contains(&schema.kind.as_str()) {
        errors.push(FieldError::not_supported(&child(path, "type"), schema.kind.as_str(), &TYPES));
    }
    if let (Some(_), Err(reason)) = (&schema.default, &scope.defaults) {
        errors.push(FieldError::forbidden(&child(path, "default"), format!("must not be set {reason}")));
    }
    for keyword in &schema.unsupported {
        match *keyword {
            "items" => {
                let detail = "items must be a schema object and not an array";
                errors.push(FieldError::forbidden(&child(path, "items"), detail));
            }
            "externalDocs" | "$schema" => {}
            keyword => {
                errors.push(FieldError::forbidden(&child(path, keyword), format!("{keyword} is not supported")));
            }
        }
    }
    if schema.kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(&child(path, "type"), detail));
    }
    if scope.in_metadata && schema.embedded_resource {
        let place = child(path, "x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(&place, "must not be used inside of resource meta"));
    }
}

fn must_be(kind: &str, schema: &Schema, path: &str, keyword: &str, errors: &mut Vec<FieldError>) -> bool {
    if schema.kind == kind {
        return true;
    }
    let detail = format!("must be {kind} if {keyword} is specified");
    let place = child(path, "type");
    errors.push(if schema.kind.is_empty() {
        FieldError::required(&place, detail)
    } else {
        FieldError::invalid(&place, schema.kind.as_str(), detail)
    });
    false
}

fn map_type(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let Some(map_type) = schema.map_type.as_deref() else {
        return;
    };
    must_be("object", schema, path, "x-kubernetes-map-type", errors);
    if !matches!(map_type, "atomic" | "granular") {
        let place = child(path, "x-kubernetes-map-type");
        errors.push(FieldError::not_supported(&place, map_type, &["atomic", "granular"]));
    }
}

fn list_type(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let list_type = schema.list_type.as_deref();
    let items = schema.items.as_deref();
    let in_items = child(path, "items");
    if list_type.is_some()
        && must_be("array", schema, path, "x-kubernetes-list-type", errors)
        && list_type == Some("set")
    {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        match items.map(|items| (items, items.kind.as_str())) {
            Some((items, "array")) if items.list_type.as_deref().is_some_and(|it| it != "atomic") => {
                let value: Value = items.list_type.clone().into();
                errors.push(FieldError::invalid(&child(&in_items, "x-kubernetes-list-type"), value, detail));
            }
            Some((items, "object")) if items.map_type.as_deref() != Some("atomic") => {
                let value: Value = items.list_type.clone().into();
                errors.push(FieldError::invalid(&child(&in_items, "x-kubernetes-map-type"), value, detail));
            }
            _ => {}
        }
    }
    let place = child(path, "x-kubernetes-list-type");
    if let Some(other) = list_type.filter(|it| !matches!(*it, "atomic" | "set" | "map")) {
        errors.push(FieldError::not_supported(&place, other, &["atomic", "set", "map"]));
    }
    if !schema.list_map_keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(&place, detail),
            Some(other) => FieldError::invalid(&place, other, detail),
        });
    }
    if list_type == Some("map") {
        keyed_list(schema, path, errors);
    }
    unique_elements(schema, path, errors);
}

fn keyed_list(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let keys = child(path, "x-kubernetes-list-map-keys");
    let in_items = child(path, "items");
    if schema.list_map_keys.is_empty() {
        errors.push(FieldError::required(&keys, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = schema.items.as_deref() else {
        errors.push(FieldError::required(&in_items, "must have a schema if x-kubernetes-list-type is map"));
        return;
    };
    if items.kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&child(&in_items, "type"), items.kind.as_str(), detail));
        return;
    }
    for (at, name) in schema.list_map_keys.iter().enumerate() {
        match items.properties.get(name) {
            Some(property) if matches!(property.kind.as_str(), "array" | "object") => {
                let place = child(&key(&child(&in_items, "properties"), name), "type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&place, items.kind.as_str(), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys, json!(schema.list_map_keys), detail));
            }
        }
        if schema.list_map_keys[..at].contains(name) {
            errors.push(FieldError::invalid(&keys, json!(schema.list_map_keys), "must not contain duplicate entries"));
        }
    }
}

fn unique_elements(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let (Some(list_type @ ("set" | "map")), Some(items)) = (schema.list_type.as_deref(), schema.items.as_deref())
    else {
        return;
    };
    let in_items = child(path, "items");
    if items.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&child(&in_items, "nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    for name in &schema.list_map_keys {
        let Some(property) = items.properties.get(name) else {
            continue;
        };
        let place = key(&child(&in_items, "properties"), name);
        if !items.required.contains(name) && property.default.is_none() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(&child(&place, "default"), detail));
        }
        if property.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&child(&place, "nullable"), detail));
        }
    }
}

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What can be said of a rule without reading its expression.
fn rule_form(rule: &Rule, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let lines = |text: &str| text.contains(['\n', '\r']);
    let message = child(path, "message");
    if rule.rule.trim().is_empty() {
        errors.push(FieldError::required(&child(path, "rule"), "rule is not specified"));
    } else if blank(&rule.message) {
        errors.push(FieldError::invalid(&message, rule.message.as_str(), "must be non-empty if specified"));
    } else if lines(rule.message.trim()) {
        errors.push(FieldError::invalid(&message, rule.message.as_str(), "must not contain line breaks"));
    } else if lines(rule.rule.trim()) && rule.message.trim().is_empty() {
        errors.push(FieldError::required(&message, "message must be specified if rule contains line breaks"));
    }
    if blank(&rule.message_expression) {
        let place = child(path, "messageExpression");
        errors.push(FieldError::required(&place, "messageExpression must be non-empty if specified"));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        errors.push(FieldError::not_supported(&child(path, "reason"), reason, &REASONS));
    }
    let place = child(path, "fieldPath");
    if blank(&rule.field_path) {
        errors.push(FieldError::invalid(&place, rule.field_path.as_str(), "must be non-empty if specified"));
    }
    if lines(&rule.field_path) {
        errors.push(FieldError::invalid(&place, rule.field_path.as_str(), "must not contain line breaks"));
    }
    if !rule.field_path.is_empty() && super::super::field_path::resolve(&rule.field_path, schema).is_none() {
        errors.push(FieldError::invalid(&place, rule.field_path.as_str(), "must be a valid path"));
    }
}
