//! What the server checks of a schema when its CRD is written.
//!
//! A schema must be structural (every value has a type outside of `allOf` and its like), its defaults must be valid by
//! their own schema, and it may use only the keywords that Kubernetes supports.

use serde_json::Value;

use super::{Additional, Root, Schema, prune, validate};
use crate::cel::Rules;
use crate::field::{FieldError, child, index, key};

mod expressions;
mod keywords;
mod structure;

/// What else of the CRD the checks depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// The version has a status subresource, whose schema is taken out of the root's properties.
    pub status_subresource: bool,
}

/// Checks the schema of one version. `path` is the field that holds `openAPIV3Schema`: `spec.validation` where all
/// versions have the same schema (so for a CRD with one version), else `spec.versions[i].schema`.
pub fn check(schema: &Schema, path: &str, options: CheckOptions) -> Vec<FieldError> {
    check_any(schema, path, options, false)
}

/// Checks a schema that the version had before the write, too: its rules are not held against it for what each costs.
pub fn check_unchanged(schema: &Schema, path: &str, options: CheckOptions) -> Vec<FieldError> {
    check_any(schema, path, options, true)
}

fn check_any(schema: &Schema, path: &str, options: CheckOptions, unchanged: bool) -> Vec<FieldError> {
    let place = child(path, "openAPIV3Schema");
    let mut errors = Vec::new();
    if options.status_subresource {
        root_for_status(schema, &place, &mut errors);
    }
    if schema.nullable {
        errors.push(FieldError::forbidden(&child(&place, "nullable"), "nullable cannot be true at the root"));
    }
    let mut structural = structure::check(schema, &place);
    if structural.is_empty() {
        defaults(schema, &place, true, &mut structural);
    }
    let sound = structural.is_empty();
    errors.extend(structural);
    errors.extend(keywords::check(schema, &place, sound, unchanged));
    errors
}

/// Only these keywords make sense where the status is validated apart from the rest.
fn root_for_status(schema: &Schema, place: &str, errors: &mut Vec<FieldError>) {
    if !schema.kind.is_empty() && schema.kind != "object" {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(&child(place, "type"), schema.kind.as_str(), detail));
        return;
    }
    let foreign = schema.max_properties.is_some()
        || schema.min_properties.is_some()
        || !schema.choices.is_empty()
        || schema.additional.is_some()
        || !schema.all_of.is_empty()
        || !schema.any_of.is_empty()
        || !schema.one_of.is_empty()
        || schema.not.is_some()
        || schema.nullable
        || schema.default.is_some()
        || schema.embedded_resource
        || schema.int_or_string
        || schema.list_type.is_some()
        || !schema.list_map_keys.is_empty()
        || schema.map_type.is_some()
        || schema.unsupported.iter().any(|keyword| *keyword != "externalDocs");
    if foreign {
        let allowed = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                       MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties \
                       ExternalDocs Example XPreserveUnknownFields XValidations]";
        let detail =
            format!("only {allowed} fields are allowed at the root of the schema if the status subresource is enabled");
        errors.push(FieldError::invalid(place, Value::Null, detail));
    }
}

/// Defaults must survive pruning and be valid themselves.
fn defaults(schema: &Schema, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        let place = child(path, "default");
        let embedded = root || schema.embedded_resource;
        let mut pruned = default.clone();
        prune(&mut pruned, schema, if embedded { Root::Resource } else { Root::Part });
        if pruned != *default {
            errors.push(FieldError::invalid(&place, default.clone(), "must not have unknown fields"));
        }
        let invalid = validate(default, None, schema, &place);
        if invalid.is_empty() {
            errors.extend(Rules::compile(schema).validate_default(default, &place));
        }
        errors.extend(invalid);
    }
    // Defaults under additionalProperties are let be: it is not known what they apply to.
    if let Some(items) = &schema.items {
        defaults(items, &child(path, "items"), false, errors);
    }
    for (name, property) in &schema.properties {
        defaults(property, &key(&child(path, "properties"), name), false, errors);
    }
}

fn nested<'a>(schema: &'a Schema, path: &str) -> impl Iterator<Item = (String, &'a Schema)> {
    let lists = [("allOf", &schema.all_of), ("anyOf", &schema.any_of), ("oneOf", &schema.one_of)];
    let path = path.to_owned();
    let not = schema.not.as_deref().map(|not| (child(&path, "not"), not));
    let all = lists.into_iter().flat_map(move |(name, schemas)| {
        let place = child(&path, name);
        schemas.iter().enumerate().map(move |(at, schema)| (index(&place, at), schema))
    });
    not.into_iter().chain(all)
}

fn additional(schema: &Schema) -> Option<&Schema> {
    match &schema.additional {
        Some(Additional::Schema(schema)) => Some(schema),
        Some(Additional::Allowed(_)) | None => None,
    }
}

#[cfg(test)]
mod tests;
