//! Whether an object has its shape.

use serde_json::Value;

use super::super::path::{Element, display};
use super::{Kind, element_of, kind};
use crate::go;
use crate::shape::{ListRelation, Scalar, Shape};

/// Checks that a value has its shape, and no element of a set or keyed list twice; the errors are those users see.
pub(crate) fn check(value: &Value, shape: Shape<'_>) -> Result<(), String> {
    let mut errors = Vec::new();
    check_node(value, Some(shape), &mut Vec::new(), &mut errors);
    match errors.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => {
            Err(format!("errors:\n{}", many.iter().map(|error| format!("  {error}")).collect::<Vec<_>>().join("\n")))
        }
    }
}

fn check_node(value: &Value, shape: Option<Shape<'_>>, path: &mut Vec<Element>, errors: &mut Vec<String>) {
    let mut wrong = |path: &[Element], what: String| {
        let place = display(path);
        errors.push(if place.is_empty() { what } else { format!("{place}: {what}") });
    };
    match kind(shape, Some(value)) {
        Kind::Nothing => wrong(path, "schema error: invalid atom: inlined".to_owned()),
        Kind::Scalar(scalar) => {
            if let Some(what) = scalar_problem(scalar, value) {
                wrong(path, what);
            }
        }
        Kind::List(list) => match value {
            Value::Null => {}
            Value::Array(items) => {
                let mut seen = std::collections::BTreeSet::new();
                for (at, item) in items.iter().enumerate() {
                    let step = if *list.relation == ListRelation::Atomic {
                        Element::Index(i64::try_from(at).unwrap_or(i64::MAX))
                    } else {
                        match element_of(list, item) {
                            Ok(step) => step,
                            Err(what) => {
                                let place = display(path);
                                errors.push(format!("{place}: element {at}: {what}"));
                                return;
                            }
                        }
                    };
                    let fresh = *list.relation == ListRelation::Atomic || seen.insert(step.clone());
                    if !fresh {
                        errors.push(format!("{}: duplicate entries for key {step}", display(path)));
                    }
                    path.push(step);
                    check_node(item, Some(list.element), path, errors);
                    path.pop();
                }
            }
            other => wrong(path, format!("expected list, got &{{{}}}", go::display(other))),
        },
        Kind::Map(map) => match value {
            Value::Null => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    path.push(Element::field(name));
                    match map.under(name) {
                        Some(under) => check_node(value, Some(under), path, errors),
                        None => {
                            errors.push(format!("{}: field not declared in schema", display(path)));
                            path.pop();
                            return;
                        }
                    }
                    path.pop();
                }
            }
            other => wrong(path, format!("expected map, got &{{{}}}", go::display(other))),
        },
    }
}

fn scalar_problem(scalar: Scalar, value: &Value) -> Option<String> {
    if value.is_null() {
        return None;
    }
    let shown = go::display(value);
    match scalar {
        Scalar::Int32 | Scalar::Int64 | Scalar::Integer | Scalar::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", go::type_name(value)))
        }
        Scalar::String | Scalar::Bytes if !value.is_string() => {
            let shown = match value {
                Value::Number(_) | Value::Bool(_) => shown,
                other => format!("{}({})", go::type_name(other), go::display(other)),
            };
            Some(format!("expected string, got &value.valueUnstructured{{Value:{shown}}}"))
        }
        Scalar::Boolean if !value.is_boolean() => Some(format!("expected boolean, got &{{{shown}}}")),
        Scalar::Untyped | Scalar::DateTime if value.is_array() || value.is_object() => {
            Some(format!("expected any scalar, got &{{{shown}}}"))
        }
        _ => None,
    }
}
