//! Walks a raw object along its schema.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use super::Fault;
use super::names;
use super::path::Path;
use crate::schema::{Check, ListMerge, QUANTITY_PATTERN, Schema, Shape, Width};

/// The fields of `metadata`, which the API server knows without a schema.
const METADATA_FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

pub(super) fn create(schema: &Schema, object: &Value) -> Vec<Fault> {
    let mut walk = Walk { faults: Vec::new() };
    walk.visit(schema, object, Path::Root);
    walk.faults
}

pub(super) fn update(schema: &Schema, old: &Value, new: &Value, faults: &mut Vec<Fault>) {
    let mut walk = Walk { faults: std::mem::take(faults) };
    walk.visit_change(schema, old, new, Path::Root);
    *faults = walk.faults;
}

pub(super) fn unknown_fields(schema: &Schema, object: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    collect_unknown(schema, object, Path::Root, &mut unknown);
    unknown
}

fn collect_unknown(schema: &Schema, value: &Value, path: Path<'_>, unknown: &mut Vec<String>) {
    match (&schema.shape, value) {
        (Shape::Object { .. }, Value::Object(map)) => {
            for (name, child) in map {
                let child_path = Path::Field(&path, name);
                match schema.property(name) {
                    Some(_) if matches!(path, Path::Root) && name == "status" => {}
                    Some(schema) => collect_unknown(schema, child, child_path, unknown),
                    None => unknown.push(child_path.to_string()),
                }
            }
        }
        (Shape::Metadata, Value::Object(map)) => {
            let names = map.keys().filter(|name| !METADATA_FIELDS.contains(&name.as_str()));
            unknown.extend(names.map(|name| Path::Field(&path, name).to_string()));
        }
        (Shape::Map { values, .. }, Value::Object(map)) => {
            for (key, child) in map {
                collect_unknown(values, child, Path::Key(&path, key), unknown);
            }
        }
        (Shape::List { items, .. }, Value::Array(elements)) => {
            for (i, child) in elements.iter().enumerate() {
                collect_unknown(items, child, Path::Index(&path, i), unknown);
            }
        }
        _ => {}
    }
}

struct Walk {
    faults: Vec<Fault>,
}

impl Walk {
    fn fault(&mut self, path: Path<'_>, message: impl Into<String>) {
        self.faults.push(Fault { field: path.to_string(), message: message.into() });
    }

    /// Checks the value itself, then what is in it, then the rules that stand here.
    fn visit(&mut self, schema: &Schema, value: &Value, path: Path<'_>) {
        match (&schema.shape, value) {
            (Shape::Object { properties, required }, Value::Object(map)) => {
                for name in required.iter().filter(|name| !map.contains_key(**name)) {
                    self.fault(Path::Field(&path, name), "required");
                }
                for (name, schema) in properties {
                    match map.get(*name) {
                        Some(child) => self.visit(schema, child, Path::Field(&path, name)),
                        // Every object needs a name, hence metadata.
                        None if matches!(schema.shape, Shape::Metadata) => {
                            self.fault(Path::Field(&Path::Field(&path, name), "name"), "required");
                        }
                        None => {}
                    }
                }
            }
            (Shape::Map { values, max, .. }, Value::Object(map)) => {
                self.at_most(map.len(), *max, "entries", path);
                for (key, child) in map {
                    self.visit(values, child, Path::Key(&path, key));
                }
            }
            (Shape::Open, Value::Object(_)) => {}
            (Shape::Metadata, Value::Object(map)) => self.metadata(value, map, path),
            (Shape::List { items, min, max, merge }, Value::Array(elements)) => {
                self.at_least(elements.len(), *min, "items", path);
                self.at_most(elements.len(), *max, "items", path);
                self.no_duplicates(elements, *merge, path);
                for (i, child) in elements.iter().enumerate() {
                    self.visit(items, child, Path::Index(&path, i));
                }
            }
            (Shape::Text { .. }, Value::String(text)) => self.text(&schema.shape, text, path),
            (Shape::Integer { width, min, max }, Value::Number(number)) => match number.as_i64() {
                Some(number) => self.integer(number, *width, *min, *max, path),
                None => self.fault(path, format!("must be an integer, not {number}")),
            },
            (Shape::Boolean, Value::Bool(_)) => {}
            (Shape::Quantity, Value::Number(number)) if number.is_i64() || number.is_u64() => {}
            (Shape::Quantity, Value::String(text)) if QUANTITY_PATTERN.matches(text) => {}
            (Shape::Quantity, Value::String(text)) => {
                self.fault(path, format!("{text:?} is not a quantity such as 500m, 2 or 10Gi"));
            }
            (shape, other) => {
                self.fault(path, format!("must be {}, not {}", expected(shape), kind_of(other)));
                return;
            }
        }
        self.rules(schema, value, path);
    }

    fn rules(&mut self, schema: &Schema, value: &Value, path: Path<'_>) {
        for rule in &schema.rules {
            match rule.check {
                Check::Whole(holds) if !holds(value) => self.fault(path, rule.message),
                Check::Each(holds) => {
                    for (i, _) in value.as_array().into_iter().flatten().enumerate().filter(|(_, x)| !holds(x)) {
                        self.fault(Path::Index(&path, i), rule.message);
                    }
                }
                Check::Entry(holds) => {
                    for (key, _) in value.as_object().into_iter().flatten().filter(|(k, v)| !holds(k, v)) {
                        self.fault(Path::Key(&path, key), rule.message);
                    }
                }
                Check::Whole(_) | Check::Transition(_) => {}
            }
        }
    }

    /// Rules about changes stand at objects only, and apply where there was a value before.
    fn visit_change(&mut self, schema: &Schema, old: &Value, new: &Value, path: Path<'_>) {
        for rule in &schema.rules {
            if let Check::Transition(holds) = rule.check
                && !holds(old, new)
            {
                self.fault(path, rule.message);
            }
        }
        if let Shape::Object { properties, .. } = &schema.shape {
            for (name, schema) in properties {
                if let (Some(old), Some(new)) = (old.get(name), new.get(name)) {
                    self.visit_change(schema, old, new, Path::Field(&path, name));
                }
            }
        }
    }

    fn metadata(&mut self, value: &Value, map: &Map<String, Value>, path: Path<'_>) {
        if let Err(error) = serde_json::from_value::<ObjectMeta>(value.clone()) {
            return self.fault(path, error.to_string());
        }
        let given = |field| map.get(field).and_then(Value::as_str).filter(|name| !name.is_empty());
        match (given("name"), given("generateName")) {
            (Some(name), _) => {
                if let Err(fault) = names::dns_subdomain(name) {
                    self.fault(Path::Field(&path, "name"), format!("{name:?} {fault}"));
                }
            }
            (None, None) => self.fault(Path::Field(&path, "name"), "required"),
            (None, Some(_)) => {}
        }
    }

    fn text(&mut self, shape: &Shape, text: &str, path: Path<'_>) {
        let Shape::Text { pattern, min, max, one_of, date_time } = shape else {
            unreachable!("called for texts only");
        };
        let length = text.chars().count();
        self.at_least(length, *min, "characters", path);
        self.at_most(length, *max, "characters", path);
        if let Some(pattern) = pattern
            && !pattern.matches(text)
        {
            self.fault(path, format!("{text:?} does not match {}", pattern.text));
        }
        if !one_of.is_empty() && !one_of.contains(&text) {
            self.fault(path, format!("{text:?} is not one of {}", one_of.join(", ")));
        }
        if *date_time && text.parse::<Timestamp>().is_err() {
            self.fault(path, format!("{text:?} is not a time such as 2026-01-02T15:04:05Z"));
        }
    }

    fn integer(&mut self, number: i64, width: Option<Width>, min: Option<i64>, max: Option<i64>, path: Path<'_>) {
        if width == Some(Width::Int32) && i32::try_from(number).is_err() {
            self.fault(path, format!("{number} does not fit 32 bits"));
        }
        if let Some(min) = min.filter(|min| number < *min) {
            self.fault(path, format!("{number} is less than {min}"));
        }
        if let Some(max) = max.filter(|max| number > *max) {
            self.fault(path, format!("{number} is greater than {max}"));
        }
    }

    fn at_least(&mut self, count: usize, min: Option<usize>, what: &str, path: Path<'_>) {
        if let Some(min) = min.filter(|min| count < *min) {
            self.fault(path, format!("has {count} {what}, needs at least {min}"));
        }
    }

    fn at_most(&mut self, count: usize, max: Option<usize>, what: &str, path: Path<'_>) {
        if let Some(max) = max.filter(|max| count > *max) {
            self.fault(path, format!("has {count} {what}, more than the {max} allowed"));
        }
    }

    fn no_duplicates(&mut self, elements: &[Value], merge: Option<ListMerge>, path: Path<'_>) {
        let same: &dyn Fn(&Value, &Value) -> bool = match merge {
            Some(ListMerge::Set) => &|a, b| a == b,
            Some(ListMerge::Map(keys)) => &|a, b| keys.iter().all(|key| a.get(key) == b.get(key)),
            Some(ListMerge::Atomic) | None => return,
        };
        for (i, element) in elements.iter().enumerate() {
            if elements[..i].iter().any(|earlier| same(earlier, element)) {
                self.fault(Path::Index(&path, i), "is a duplicate");
            }
        }
    }
}

fn expected(shape: &Shape) -> &'static str {
    match shape {
        Shape::Object { .. } | Shape::Map { .. } | Shape::Open | Shape::Metadata => "an object",
        Shape::List { .. } => "a list",
        Shape::Text { .. } => "a string",
        Shape::Integer { .. } => "an integer",
        Shape::Boolean => "true or false",
        Shape::Quantity => "a quantity (an integer or a string)",
    }
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
