//! What of an object does not fit its type: fields the type does not have, values of another type.
//!
//! [`decode`](crate::decode) answers as a Go server does, with the first wrong value and in Go's words. Whoever wrote the
//! object wants to hear of all of them at once, by field, and which field may have been meant.

use serde_json::{Map, Value};

use crate::fielderror::quote;
use crate::quantity::Quantity;
use crate::suggest;
use crate::times;
use crate::types::{StructId, Ty, Types};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// `spec.containers[0].resources`; keys of maps with dots or slashes in brackets and quotes.
    pub field: String,
    pub problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The type has no such field; the one that may have been meant.
    Unknown { meant: Option<&'static str> },
    /// What the value should have been, in words that make sense after the field.
    Wrong(String),
}

impl Misfit {
    /// In words that make sense after the field.
    pub fn message(&self) -> String {
        match &self.problem {
            Problem::Unknown { meant: None } => "unknown field".to_owned(),
            Problem::Unknown { meant: Some(meant) } => format!("unknown field; did you mean {meant:?}?"),
            Problem::Wrong(message) => message.clone(),
        }
    }
}

/// Everything that does not fit, in document order. It is taken out of the value, which then decodes; in lists a null
/// stays in its place, so that positions keep their numbers.
pub fn take_out(id: StructId, value: &mut Value) -> Vec<Misfit> {
    let mut fitting = Fitting { types: Types::get(), misfits: Vec::new() };
    if !value.is_null()
        && let Err(message) = fitting.structure(id, value, "")
    {
        fitting.misfits.push(Misfit { field: String::new(), problem: Problem::Wrong(message) });
        *value = Value::Object(Map::new());
    }
    fitting.misfits
}

/// The path of a field below another.
fn below(path: &str, name: &str) -> String {
    if name.contains(['.', '/', '[']) {
        format!("{path}[{name:?}]")
    } else if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

struct Fitting {
    types: &'static Types,
    misfits: Vec<Misfit>,
}

impl Fitting {
    fn structure(&mut self, id: StructId, value: &mut Value, path: &str) -> Result<(), String> {
        let structure = self.types.at(id);
        let Value::Object(object) = value else { return Err(wrong("an object", value)) };
        let mut next = 0;
        object.retain(|name, value| {
            let Some(index) = structure.field_from(next, name) else {
                let meant = suggest::nearest(name, structure.fields.iter().map(|field| field.name));
                self.misfits.push(Misfit { field: below(path, name), problem: Problem::Unknown { meant } });
                return false;
            };
            next = index + 1;
            self.fits(&structure.fields[index].ty, value, || below(path, name))
        });
        Ok(())
    }

    /// Whether the value may stay. Its path is only spelled where somebody needs it.
    fn fits(&mut self, ty: &Ty, value: &mut Value, path: impl Fn() -> String) -> bool {
        if value.is_null() {
            return true;
        }
        match self.check(ty, value, &path) {
            Ok(()) => true,
            Err(message) => {
                self.misfits.push(Misfit { field: path(), problem: Problem::Wrong(message) });
                false
            }
        }
    }

    fn check(&mut self, ty: &Ty, value: &mut Value, path: &dyn Fn() -> String) -> Result<(), String> {
        match (ty, &mut *value) {
            (Ty::Pointer(inner), _) => self.check(inner, value, path),
            (Ty::Struct(id), _) => self.structure(*id, value, &path()),
            (Ty::List(inner), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if !self.fits(inner, item, || format!("{}[{index}]", path())) {
                        *item = Value::Null;
                    }
                }
                Ok(())
            }
            (Ty::Map(inner), Value::Object(entries)) => {
                entries.retain(|key, item| self.fits(inner, item, || below(&path(), key)));
                Ok(())
            }
            _ => scalar(ty, value),
        }
    }
}

/// Whether all of the value fits, which is quicker to say than what does not.
pub fn fits(id: StructId, value: &Value) -> bool {
    fn structure(types: &Types, id: StructId, value: &Value) -> bool {
        let Value::Object(object) = value else { return false };
        let structure = types.at(id);
        let mut next = 0;
        object.iter().all(|(name, value)| {
            let Some(index) = structure.field_from(next, name) else { return false };
            next = index + 1;
            any(types, &structure.fields[index].ty, value)
        })
    }
    fn any(types: &Types, ty: &Ty, value: &Value) -> bool {
        match (ty, value) {
            (_, Value::Null) => true,
            (Ty::Pointer(inner), _) => any(types, inner, value),
            (Ty::Struct(id), _) => structure(types, *id, value),
            (Ty::List(inner), Value::Array(items)) => items.iter().all(|item| any(types, inner, item)),
            (Ty::Map(inner), Value::Object(entries)) => entries.values().all(|item| any(types, inner, item)),
            _ => scalar(ty, value).is_ok(),
        }
    }
    structure(Types::get(), id, value)
}

/// Whether a value that has none below it is of the type.
fn scalar(ty: &Ty, value: &Value) -> Result<(), String> {
    match (ty, value) {
        (Ty::Raw, _) | (Ty::String(_) | Ty::Duration | Ty::IntOrString, Value::String(_)) => Ok(()),
        (Ty::Bool, Value::Bool(_)) | (Ty::Float, Value::Number(_)) => Ok(()),
        (Ty::Int32 | Ty::IntOrString, Value::Number(number)) if number.is_i64() || number.is_u64() => {
            let fits = number.as_i64().is_some_and(|number| i32::try_from(number).is_ok());
            if fits { Ok(()) } else { Err(format!("{number} does not fit 32 bits")) }
        }
        (Ty::Int64, Value::Number(number)) if number.is_i64() => Ok(()),
        (Ty::Int64, Value::Number(number)) if number.is_u64() => Err(format!("{number} does not fit 64 bits")),
        (Ty::Quantity, Value::String(text)) => quantity(text),
        (Ty::Quantity, Value::Number(number)) => quantity(&number.to_string()),
        (Ty::Time | Ty::MicroTime, Value::String(text)) => {
            if text.is_empty() || times::is_canonical(text) || times::parse(text).is_ok() {
                return Ok(());
            }
            Err(format!("{} is not a time such as 2026-01-02T15:04:05Z", quote(text)))
        }
        (Ty::Bytes, Value::String(text)) => match crate::decode::base64_canonical(text) {
            Ok(_) => Ok(()),
            Err(_) => Err("is not base64".to_owned()),
        },
        _ => Err(wrong(expected(ty), value)),
    }
}

fn quantity(text: &str) -> Result<(), String> {
    match Quantity::parse(text) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "{} is not a quantity: want a number with an optional suffix such as 100m, 2, 1.5Gi or 12e6",
            quote(text)
        )),
    }
}

fn wrong(expected: &str, value: &Value) -> String {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {}", quote(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    format!("must be {expected}, not {found}")
}

fn expected(ty: &Ty) -> &'static str {
    match ty {
        Ty::String(_) | Ty::Duration | Ty::Bytes => "a string",
        Ty::Bool => "true or false",
        Ty::Int32 | Ty::Int64 => "an integer",
        Ty::Float => "a number",
        Ty::Quantity => "a quantity (a number or a string)",
        Ty::Time | Ty::MicroTime => "a time such as 2026-01-02T15:04:05Z",
        Ty::IntOrString => "an integer or a string",
        Ty::Struct(_) | Ty::Map(_) => "an object",
        Ty::List(_) => "a list",
        Ty::Raw => "any value",
        Ty::Pointer(inner) => expected(inner),
    }
}

#[cfg(test)]
mod tests;
