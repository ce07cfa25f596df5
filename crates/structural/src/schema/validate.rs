//! Validation of a value against a schema, with the messages of the server, and with its ratcheting: what did not change
//! since the last write is not held against the writer.

use serde_json::{Number, Value};

use super::{Additional, Schema, format};
use crate::field::{ErrorKind, FieldError};
use crate::go;

mod correlate;
mod number;

pub(crate) use correlate::Correlation;

/// Checks a value. `path` is where the value stands in its object: empty for the whole object, `status` for the status
/// alone. With an old value, parts that are equal to it are let through.
pub fn validate(value: &Value, old: Option<&Value>, schema: &Schema, path: &str) -> Vec<FieldError> {
    let correlation = old.map(|old| Correlation { schema, new: value, old });
    let result = node(value, schema, "", correlation);
    let place = |name: &str| match (path, name.strip_prefix('.').unwrap_or(name)) {
        (path, "") => path.to_owned(),
        ("", name) => name.to_owned(),
        (path, name) => format!("{path}.{name}"),
    };
    result
        .problems
        .into_iter()
        .map(|problem| match problem.about {
            Some((name, error)) => FieldError { field: place(&name), ..error },
            None => FieldError::invalid(path, "", problem.message),
        })
        .collect()
}

/// What a schema says of a value: the problems, and how many checks it went through, by which the server picks the
/// alternative of an `anyOf` whose complaints it shows.
#[derive(Default)]
struct Outcome {
    problems: Vec<Problem>,
    matched: usize,
}

struct Problem {
    message: String,
    /// The name of the field, relative to where validation began; a problem of a combination has none.
    about: Option<(String, FieldError)>,
}

impl Outcome {
    fn add(&mut self, problem: Problem) {
        if !self.problems.iter().any(|known| known.message == problem.message) {
            self.problems.push(problem);
        }
    }

    fn field(&mut self, kind: ErrorKind, name: &str, value: Value, message: String) {
        let error = FieldError::new(kind, "", value, message.clone());
        self.add(Problem { message, about: Some((name.to_owned(), error)) });
    }

    fn plain(&mut self, message: String) {
        self.add(Problem { message, about: None });
    }

    fn merge(&mut self, other: Outcome) {
        self.matched += other.matched;
        other.problems.into_iter().for_each(|problem| self.add(problem));
    }
}

fn node(value: &Value, schema: &Schema, path: &str, correlation: Option<Correlation<'_>>) -> Outcome {
    let mut outcome = checks(value, schema, path, correlation);
    if !outcome.problems.is_empty() && correlation.is_some_and(Correlation::unchanged) {
        outcome.problems.clear();
    }
    outcome
}

fn checks(value: &Value, schema: &Schema, path: &str, correlation: Option<Correlation<'_>>) -> Outcome {
    let mut out = Outcome::default();
    let format = effective_format(schema);
    if value.is_null() {
        if has_type(schema) && !schema.nullable {
            type_problem(&mut out, path, &type_names(schema), "null");
        } else {
            out.matched += 1;
        }
        choice(value, schema, path, &mut out);
        return out;
    }
    if has_type(schema) || format.is_some() {
        type_check(value, schema, format.as_deref(), path, &mut out);
        out.matched += 1;
    }
    combinations(value, schema, path, &mut out);
    out.matched += 2;
    match value {
        Value::String(text) => {
            string(text, schema, path, &mut out);
            out.matched += 1;
            if let Some(format) = &format
                && let Some(name) = format::known(format)
            {
                if !format::matches(&name, text) {
                    let message = format!("{path} in body must be of type {format}: {}", go::quote(text));
                    out.field(ErrorKind::TypeInvalid, path, value.clone(), message);
                }
                out.matched += 1;
            }
        }
        Value::Number(number) => {
            number::check(number, schema, path, &mut out);
            out.matched += 2;
        }
        Value::Array(items) => {
            list(items, schema, path, correlation, &mut out);
            out.matched += 2;
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    choice(value, schema, path, &mut out);
    out.matched += 1;
    if let Value::Object(_) = value {
        object(value, schema, path, correlation, &mut out);
        out.matched += 1;
    }
    out.matched += 1;
    out
}

fn has_type(schema: &Schema) -> bool {
    !schema.kind.is_empty() || schema.int_or_string
}

fn type_names(schema: &Schema) -> String {
    if schema.int_or_string { "integer,string".to_owned() } else { schema.kind.clone() }
}

fn may_be(schema: &Schema, kind: &str) -> bool {
    if schema.int_or_string { matches!(kind, "integer" | "string") } else { schema.kind == kind }
}

/// The format, where the server minds it.
fn effective_format(schema: &Schema) -> Option<String> {
    let format = schema.format.as_str();
    let minded = match schema.kind.as_str() {
        "" | "string" if !schema.int_or_string => format::known(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    (minded && !format.is_empty()).then(|| format.to_owned())
}

fn type_problem(out: &mut Outcome, path: &str, wanted: &str, found: &str) {
    let message = format!("{path} in body must be of type {wanted}: {}", go::quote(found));
    out.field(ErrorKind::TypeInvalid, path, found.into(), message);
}

fn type_check(value: &Value, schema: &Schema, format: Option<&str>, path: &str, out: &mut Outcome) {
    let (kind, kind_format) = match value {
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::Null => return,
    };
    let whole = |number: &Number| number.as_f64().is_some_and(number::is_json_integer);
    let fits = may_be(schema, kind)
        || (kind == "number" && may_be(schema, "integer") && value.as_number().is_some_and(whole))
        || (kind == "integer" && may_be(schema, "number"));
    let textual = matches!(value, Value::String(_) | Value::Array(_));
    match format {
        Some(format) if !textual && !fits && kind_format != format => type_problem(out, path, format, kind_format),
        // A string or list with a format is left to the format.
        Some(_) if textual && !may_be(schema, "number") && !may_be(schema, "integer") => out.matched += 1,
        _ if !fits => type_problem(out, path, &type_names(schema), kind),
        _ => out.matched += 1,
    }
}

fn string(text: &str, schema: &Schema, path: &str, out: &mut Outcome) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = schema.max_length.filter(|max| length > *max) {
        let message = format!("{path} in body should be at most {max} chars long");
        out.add(Problem { message, about: Some((path.to_owned(), FieldError::too_long("", max))) });
    } else if let Some(min) = schema.min_length.filter(|min| length < *min) {
        let message = format!("{path} in body should be at least {min} chars long");
        out.field(ErrorKind::Invalid, path, text.into(), message);
    } else if let Some(pattern) = &schema.pattern {
        let shown = match &pattern.regex {
            Ok(regex) if regex.is_match(text) => return,
            Ok(_) => pattern.source.clone(),
            Err(error) => format!("{}, but pattern is invalid: {error}", pattern.source),
        };
        out.field(ErrorKind::Invalid, path, text.into(), format!("{path} in body should match '{shown}'"));
    }
}

fn choice(value: &Value, schema: &Schema, path: &str, out: &mut Outcome) {
    if schema.choices.is_empty() || schema.choices.iter().any(|choice| is_choice(value, choice)) {
        return;
    }
    let names: Vec<String> = schema.choices.iter().map(plain_or_json).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let message = format!("{path} in body should be one of {}", go::display(&Value::Array(schema.choices.clone())));
    let error = FieldError::not_supported("", value.clone(), &names);
    out.add(Problem { message, about: Some((path.to_owned(), error)) });
}

fn plain_or_json(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => go::marshal(other),
    }
}

/// Numbers are converted to the type of the choice before they are compared, which cuts fractions.
fn is_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) => false,
        (Value::Number(value), Value::Number(choice)) => match (choice.as_i64(), value.as_i64()) {
            (Some(choice), Some(value)) => choice == value,
            #[expect(clippy::cast_possible_truncation, reason = "that is what the server does")]
            (Some(choice), None) => value.as_f64().is_some_and(|value| value as i64 == choice),
            (None, _) => value.as_f64() == choice.as_f64(),
        },
        (value, choice) => value == choice,
    }
}

fn list(items: &[Value], schema: &Schema, path: &str, correlation: Option<Correlation<'_>>, out: &mut Outcome) {
    if let Some(schema) = &schema.items {
        for (at, item) in items.iter().enumerate() {
            let correlation = correlation.and_then(|correlation| correlation.index(at));
            out.merge(node(item, schema, &format!("{path}[{at}]"), correlation));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.min_items.filter(|min| size < *min) {
        out.field(ErrorKind::Invalid, path, size.into(), format!("{path} in body should have at least {min} items"));
    }
    if let Some(max) = schema.max_items.filter(|max| size > *max) {
        let message = format!("{path} in body should have at most {max} items");
        out.add(Problem { message, about: Some((path.to_owned(), FieldError::too_many("", size, max))) });
    }
    if schema.unique_items && items.iter().enumerate().any(|(at, item)| items[..at].contains(item)) {
        out.field(ErrorKind::Invalid, path, "".into(), format!("{path} in body shouldn't contain duplicates"));
    }
}

fn object(value: &Value, schema: &Schema, path: &str, correlation: Option<Correlation<'_>>, out: &mut Outcome) {
    let fields = value.as_object().expect("only objects come here");
    let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.min_properties.filter(|min| size < *min) {
        let message = format!("{path} in body should have at least {min} properties");
        out.field(ErrorKind::Invalid, path, size.into(), message);
    }
    if let Some(max) = schema.max_properties.filter(|max| size > *max) {
        let message = format!("{path} in body should have at most {max} properties");
        out.add(Problem { message, about: Some((path.to_owned(), FieldError::too_many("", size, max))) });
    }
    // The type of the whole object is never let through, however old it is.
    let below = |name: &str| match correlation {
        Some(_) if path.is_empty() && matches!(name, "kind" | "apiVersion") => None,
        Some(correlation) => correlation.key(name),
        None => None,
    };
    for (name, value) in fields {
        if schema.properties.contains_key(name) {
            continue;
        }
        match &schema.additional {
            Some(Additional::Schema(schema)) => out.merge(node(value, schema, &format!("{path}.{name}"), below(name))),
            Some(Additional::Allowed(false)) => {
                let message = format!("{path}.{name} in body is a forbidden property");
                out.field(ErrorKind::Invalid, path, name.as_str().into(), message);
            }
            Some(Additional::Allowed(true)) | None => {}
        }
    }
    for (name, property) in &schema.properties {
        if let Some(value) = fields.get(name) {
            let inside = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            out.merge(node(value, property, &inside, below(name)));
        }
    }
    for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
        let place = format!("{path}.{name}");
        let message = format!("{place} in body is required");
        out.add(Problem { message, about: Some((place, FieldError::required("", ""))) });
    }
}

fn combinations(value: &Value, schema: &Schema, path: &str, out: &mut Outcome) {
    let quoted = || go::quote(path);
    if !schema.any_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut passed = None;
        for alternative in &schema.any_of {
            let outcome = node(value, alternative, path, None);
            if outcome.problems.is_empty() {
                passed = Some(outcome);
                break;
            }
            if best.as_ref().is_none_or(|best| outcome.matched > best.matched) {
                best = Some(outcome);
            }
        }
        match passed {
            Some(outcome) => out.merge(outcome),
            None => {
                out.plain(format!("{} must validate at least one schema (anyOf)", quoted()));
                best.into_iter().for_each(|best| out.merge(best));
            }
        }
    }
    if !schema.one_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut first = None;
        let mut valid = 0;
        for alternative in &schema.one_of {
            let outcome = node(value, alternative, path, None);
            if outcome.problems.is_empty() {
                valid += 1;
                best = None;
                first.get_or_insert(outcome);
            } else if valid == 0 && best.as_ref().is_none_or(|best| outcome.matched > best.matched) {
                best = Some(outcome);
            }
        }
        match valid {
            1 => first.into_iter().for_each(|first| out.merge(first)),
            _ => {
                let found = if valid == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {valid} valid alternatives")
                };
                out.plain(format!("{} must validate one and only one schema (oneOf). {found}", quoted()));
                best.into_iter().for_each(|best| out.merge(best));
            }
        }
    }
    if !schema.all_of.is_empty() {
        let mut valid = 0;
        for part in &schema.all_of {
            let outcome = node(value, part, path, None);
            valid += usize::from(outcome.problems.is_empty());
            out.merge(outcome);
        }
        if valid != schema.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            out.plain(format!("{} must validate all the schemas (allOf){none}", quoted()));
        }
    }
    if let Some(not) = &schema.not
        && node(value, not, path, None).problems.is_empty()
    {
        out.plain(format!("{} must not validate the schema (not)", quoted()));
    }
}

#[cfg(test)]
mod tests;
