//! What a kube-apiserver 1.36.3 answered, and whether we answer the same: CRDs with good and bad schemas, objects under
//! them, and random sequences of applies and updates. `tests/recorded` holds its answers word for word.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop at what it did not expect, and helpers of tests are no tests to the lint"
)]

use std::collections::BTreeSet;

use karpenter_structural::apply::{ApplyError, OneVersion, Set, Write, apply, update};
use karpenter_structural::cel::Rules;
use karpenter_structural::field::{ErrorKind, FieldError};
use karpenter_structural::schema::{
    CheckOptions, Root, Schema, apply_defaults, check, drop_undefaulted_nulls, prune, shapes, validate, validate_lists,
};
use serde_json::Value;

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn texts(value: &Value) -> BTreeSet<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn shown<'a>(errors: impl IntoIterator<Item = &'a FieldError>) -> BTreeSet<String> {
    errors.into_iter().map(ToString::to_string).collect()
}

#[test]
fn schemas_are_judged_alike() {
    for case in read(include_str!("recorded/schemas.json")).as_array().unwrap() {
        let schema = Schema::parse(&case["schema"]).unwrap();
        let errors = check(&schema, "spec.validation", CheckOptions::default());
        assert_eq!(shown(&errors), texts(&case["errors"]), "{}", case["schema"]);
    }
}

/// The order in which the server goes about an object.
fn judge(object: &mut Value, old: Option<&Value>, schema: &Schema) -> (BTreeSet<String>, Vec<String>) {
    let unknown = prune(object, schema, Root::Resource);
    drop_undefaulted_nulls(object, schema);
    apply_defaults(object, schema);
    let mut errors = validate(object, old, schema, "");
    errors.extend(validate_lists(object, schema));
    let blocking = |error: &FieldError| {
        matches!(
            error.kind,
            ErrorKind::NotSupported
                | ErrorKind::Required
                | ErrorKind::TooLong
                | ErrorKind::TooMany
                | ErrorKind::TypeInvalid
        )
    };
    let rules = Rules::compile(schema);
    if !rules.is_empty() {
        if errors.iter().any(blocking) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            errors.push(FieldError::invalid("", Value::Null, detail));
        } else {
            errors.extend(rules.validate(object, old, "").errors);
        }
    }
    (shown(&errors), unknown)
}

#[test]
fn objects_are_judged_alike() {
    let recorded = read(include_str!("recorded/objects.json"));
    let schemas: Vec<Schema> =
        recorded["schemas"].as_array().unwrap().iter().map(|schema| Schema::parse(schema).unwrap()).collect();
    for case in recorded["objects"].as_array().unwrap() {
        let schema = &schemas[usize::try_from(case["schema"].as_u64().unwrap()).unwrap()];
        let mut object = case["new"].clone();
        let (errors, unknown) = judge(&mut object, case.get("old"), schema);
        assert_eq!(errors, texts(&case["errors"]), "{}", case["new"]);
        if errors.is_empty() {
            // The server writes a float without a fraction as an integer.
            let mut spec = object.get("spec").cloned().unwrap_or_default();
            if let Some(float) = spec.as_f64().filter(|float| float.fract() == 0.0) {
                spec = read(&format!("{float}"));
            }
            assert_eq!(spec, case["spec"], "{}", case["new"]);
            assert_eq!(unknown.len(), case["unknown"].as_array().unwrap().len(), "{}", case["new"]);
        }
    }
}

/// Managed fields without their times, in an order of their own.
fn owners(entries: &Value) -> Vec<String> {
    let mut entries: Vec<Value> = entries.as_array().cloned().unwrap_or_default();
    for entry in &mut entries {
        let fields = entry.as_object_mut().unwrap();
        fields["fieldsV1"].sort_all_objects();
        if let Some(time) = fields.get_mut("time") {
            *time = true.into();
        }
        entry.sort_all_objects();
    }
    let mut entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
    entries.sort();
    entries
}

#[test]
fn writes_are_tracked_alike() {
    let recorded = read(include_str!("recorded/writes.json"));
    let schema = Schema::parse(&recorded["schema"]).unwrap();
    let shapes = shapes("fuzz.io/v1", "Fuzz", Some(&schema));
    let versions = OneVersion { api_version: "fuzz.io/v1", shape: shapes.kind("fuzz.io/v1", "Fuzz").unwrap() };
    for case in recorded["writes"].as_array().unwrap() {
        let reset = Set::of_fields(case["reset"].as_array().unwrap().iter().map(|field| [field.as_str().unwrap()]));
        let write = Write {
            manager: case["manager"].as_str().unwrap(),
            subresource: case["subresource"].as_str().unwrap_or_default(),
            api_version: "fuzz.io/v1",
            kind: "Fuzz",
            now: "2026-01-01T00:00:00Z",
            versions: &versions,
            reset: &reset,
        };
        let live = case.get("live").filter(|live| !live.is_null());
        let outcome = match case["op"].as_str().unwrap() {
            "apply" => apply(live, &case["new"], write, case["force"] == true),
            _ => {
                let mut new = case["new"].clone();
                update(live, &mut new, write);
                Ok(new)
            }
        };
        match (outcome, case.get("conflict")) {
            (Ok(mut object), None) => {
                let context = format!("{} {} on {}", case["op"], case["new"], case["live"]);
                assert_eq!(owners(&object["metadata"]["managedFields"]), owners(&case["managedFields"]), "{context}");
                apply_defaults(&mut object, &schema);
                assert_eq!(object.get("spec").unwrap_or(&Value::Null), &case["spec"], "{context}");
            }
            (Err(ApplyError::Conflict { message, .. }), Some(conflict)) => {
                // The real server names the managers in order and their fields in any.
                let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
                assert_eq!(lines(&message), lines(conflict.as_str().unwrap()));
            }
            (outcome, recorded) => panic!("{outcome:?} where the server said {recorded:?}"),
        }
    }
}
