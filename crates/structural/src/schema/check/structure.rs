//! Whether a schema is structural.

use super::super::Schema;
use super::{additional, nested};
use crate::field::{FieldError, child, index, key};

pub(super) fn check(schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(schema, Level::Root, path, &mut errors);
    completeness(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn node(schema: &Schema, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    if schema.kind == "array" && schema.items.is_none() {
        errors.push(FieldError::required(&child(path, "items"), "must be specified"));
    }
    if let Some(items) = &schema.items {
        node(items, Level::Item, &child(path, "items"), errors);
    }
    for (name, property) in &schema.properties {
        node(property, Level::Field, &key(&child(path, "properties"), name), errors);
    }
    if schema.additional.is_some() {
        let place = child(path, "additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&place, "must not be used at the root"));
        }
        if let Some(schema) = additional(schema) {
            node(schema, Level::Field, &place, errors);
        }
    }
    extensions(schema, path, errors);
    combinations(schema, int_or_string(&schema.any_of), first_is_int_or_string(schema), path, errors);
    types(schema, level, path, errors);
    metadata(schema, level, path, errors);
}

fn extensions(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let detail = "must be false if x-kubernetes-int-or-string is true";
    if schema.int_or_string && schema.preserves_unknown_fields() {
        errors.push(FieldError::invalid(&child(path, "x-kubernetes-preserve-unknown-fields"), true, detail));
    }
    if schema.int_or_string && schema.embedded_resource {
        errors.push(FieldError::invalid(&child(path, "x-kubernetes-embedded-resource"), true, detail));
    }
}

fn types(schema: &Schema, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let place = child(path, "type");
    if schema.embedded_resource && schema.kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if schema.kind.is_empty() {
            FieldError::required(&place, detail)
        } else {
            FieldError::invalid(&place, schema.kind.as_str(), detail)
        });
    } else if schema.kind.is_empty() && !schema.int_or_string && !schema.preserves_unknown_fields() {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&place, detail));
    }
    if schema.embedded_resource && schema.additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&child(path, "additionalProperties"), detail));
    }
    if level == Level::Root && !schema.kind.is_empty() && schema.kind != "object" {
        errors.push(FieldError::invalid(&place, schema.kind.as_str(), "must be object at the root"));
    }
    if schema.embedded_resource && !schema.preserves_unknown_fields() && schema.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&child(path, "properties"), detail));
    }
}

/// The type and metadata of an object are given; a schema may only restrict its name.
fn metadata(schema: &Schema, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let whole = level == Level::Root || schema.embedded_resource;
    let place = |name: &str| key(&child(path, "properties"), name);
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.properties.get(name)
            && whole
            && property.kind != "string"
        {
            errors.push(FieldError::invalid(&child(&place(name), "type"), property.kind.as_str(), "must be string"));
        }
    }
    let Some(metadata) = schema.properties.get("metadata") else {
        return;
    };
    if whole && metadata.kind != "object" {
        let place = child(&place("metadata"), "type");
        errors.push(FieldError::invalid(&place, metadata.kind.as_str(), "must be object"));
    }
    if level != Level::Root {
        return;
    }
    let only_names = metadata.properties.keys().all(|name| name == "name" || name == "generateName");
    let plain = only_names
        && metadata.items.is_none()
        && metadata.additional.is_none()
        && metadata.title.is_empty()
        && metadata.description.is_empty()
        && !metadata.nullable
        && metadata.preserve_unknown_fields.is_none()
        && !metadata.embedded_resource
        && !metadata.int_or_string
        && metadata.list_type.is_none()
        && metadata.list_map_keys.is_empty()
        && metadata.map_type.is_none()
        && metadata.rules.is_empty()
        && !validates(metadata);
    if !plain {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(&place("metadata"), detail));
    }
}

/// Whether a schema says anything about values beyond their type.
fn validates(schema: &Schema) -> bool {
    !schema.format.is_empty()
        || schema.maximum.is_some()
        || schema.minimum.is_some()
        || schema.exclusive_maximum
        || schema.exclusive_minimum
        || schema.max_length.is_some()
        || schema.min_length.is_some()
        || schema.pattern.is_some()
        || schema.max_items.is_some()
        || schema.min_items.is_some()
        || schema.multiple_of.is_some()
        || schema.max_properties.is_some()
        || schema.min_properties.is_some()
        || !schema.required.is_empty()
        || !schema.choices.is_empty()
        || !schema.all_of.is_empty()
        || !schema.any_of.is_empty()
        || !schema.one_of.is_empty()
        || schema.not.is_some()
}

/// The `anyOf` with which older tools spell `x-kubernetes-int-or-string`.
fn int_or_string(any_of: &[Schema]) -> bool {
    let bare = |schema: &Schema, kind: &str| schema.kind == kind && !validates(schema) && schema.properties.is_empty();
    matches!(any_of, [first, second] if bare(first, "integer") && bare(second, "string"))
}

fn first_is_int_or_string(schema: &Schema) -> bool {
    schema.all_of.first().is_some_and(|first| int_or_string(&first.any_of))
}

fn combinations(schema: &Schema, skip_any_of: bool, skip_first: bool, path: &str, errors: &mut Vec<FieldError>) {
    if !skip_any_of {
        for (at, part) in schema.any_of.iter().enumerate() {
            combined(part, false, &index(&child(path, "anyOf"), at), errors);
        }
    }
    for (at, part) in schema.all_of.iter().enumerate() {
        combined(part, skip_first && at == 0, &index(&child(path, "allOf"), at), errors);
    }
    for (at, part) in schema.one_of.iter().enumerate() {
        combined(part, false, &index(&child(path, "oneOf"), at), errors);
    }
    if let Some(not) = &schema.not {
        combined(not, false, &child(path, "not"), errors);
    }
    if let Some(pattern) = &schema.pattern
        && let Err(error) = &pattern.regex
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(&child(path, "pattern"), pattern.source.as_str(), detail));
    }
}

/// What stands inside of `allOf` and its like may judge values, not describe them.
fn combined(schema: &Schema, skip_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    combinations(schema, skip_any_of, false, path, errors);
    if let Some(items) = &schema.items {
        combined(items, false, &child(path, "items"), errors);
    }
    for (name, property) in &schema.properties {
        combined(property, false, &key(&child(path, "properties"), name), errors);
    }
    let mut forbid = |there: bool, name: &str, detail: &str| {
        if there {
            errors.push(FieldError::forbidden(&child(path, name), detail));
        }
    };
    let undefined = "must be undefined to be structural";
    let empty = "must be empty to be structural";
    let unset = "must be false to be structural";
    forbid(!schema.kind.is_empty(), "type", empty);
    forbid(schema.additional.is_some(), "additionalProperties", undefined);
    forbid(schema.default.is_some(), "default", undefined);
    forbid(!schema.title.is_empty(), "title", empty);
    forbid(!schema.description.is_empty(), "description", empty);
    forbid(schema.nullable, "nullable", unset);
    forbid(schema.preserves_unknown_fields(), "x-kubernetes-preserve-unknown-fields", unset);
    forbid(schema.embedded_resource, "x-kubernetes-embedded-resource", unset);
    forbid(schema.int_or_string, "x-kubernetes-int-or-string", unset);
    forbid(!schema.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", empty);
    forbid(schema.list_type.is_some(), "x-kubernetes-list-type", undefined);
    forbid(schema.map_type.is_some(), "x-kubernetes-map-type", undefined);
    forbid(!schema.rules.is_empty(), "x-kubernetes-validations", empty);
    if schema.properties.contains_key("metadata") {
        let place = key(&child(path, "properties"), "metadata");
        errors.push(FieldError::forbidden(&place, "must not be specified in a nested context"));
    }
}

/// Whatever a combination speaks of must also stand outside of it.
fn completeness(schema: &Schema, described: Option<&Schema>, at: &str, from: &str, errors: &mut Vec<FieldError>) {
    let Some(described) = described else {
        errors.push(FieldError::required(at, format!("because it is defined in {from}")));
        return;
    };
    for (place, part) in nested(schema, from) {
        inside(part, Some(described), at, &place, errors);
    }
}

fn inside(part: &Schema, described: Option<&Schema>, at: &str, from: &str, errors: &mut Vec<FieldError>) {
    completeness(part, described, at, from, errors);
    let Some(described) = described else { return };
    if let Some(items) = &part.items {
        inside(items, described.items.as_deref(), &child(at, "items"), &child(from, "items"), errors);
    }
    for (name, property) in &part.properties {
        let at = key(&child(at, "properties"), name);
        let from = key(&child(from, "properties"), name);
        match described.properties.get(name) {
            Some(described) => inside(property, Some(described), &at, &from, errors),
            None => errors.push(FieldError::required(&at, format!("because it is defined in {from}"))),
        }
    }
}
