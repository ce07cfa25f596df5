//! From a JSON value to a typed object, refusing what the type does not know.
//!
//! The generated Kubernetes types skip unknown fields without a word, so a misspelt `resouces` would be planned as a pod
//! without requests. Here a skipped field is a fault, and so is a value of the wrong type; both are named by path.

use std::borrow::Cow;
use std::cell::RefCell;

use karpenter_index::{Fault, Path};
use karpenter_kinds::suggest;
use serde::de::value::{BorrowedStrDeserializer, MapDeserializer, StringDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde_json::Value;

/// The typed object, or every fault that keeps it from being one.
pub fn read_strictly<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<Fault>> {
    read(value, UnknownFields::Refused)
}

/// The same for an object whose fields have been checked against a table that is newer than our types.
pub(crate) fn read_checked<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<Fault>> {
    read(value, UnknownFields::PassedOver)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UnknownFields {
    Refused,
    PassedOver,
}

fn read<T: DeserializeOwned>(value: &Value, unknown: UnknownFields) -> Result<T, Vec<Fault>> {
    let mut value = Cow::Borrowed(value);
    let mut faults: Vec<Fault> = Vec::new();
    loop {
        let report = RefCell::new(Report { unknown: Vec::new(), failed: None });
        let strict = Strict { value: &value, path: &Path::Root, report: &report, beside: &[], unknown };
        let outcome = T::deserialize(strict);
        let report = report.into_inner();
        let first_round = faults.is_empty();
        // What stands behind a value of the wrong type is only seen once that value is out of the way. A status is
        // written by controllers, maybe newer than we are; nobody misspells it.
        for fault in report.unknown.into_iter().filter(|fault| !fault.field.starts_with("status.")) {
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        match outcome {
            Ok(object) if faults.is_empty() => return Ok(object),
            Ok(_) => return Err(faults),
            Err(wrong) => {
                let steps = report.failed.unwrap_or_default();
                match wrong {
                    Wrong::Value(message) => faults.push(Fault { field: spelled(&steps), message }),
                    Wrong::Missing(name) if first_round => {
                        let field = spelled(&[steps.clone(), vec![Step::Field(name.to_owned())]].concat());
                        faults.push(Fault { field, message: "required".to_owned() });
                    }
                    // What was taken out to look behind it is now missing, which is no fault of the user's.
                    Wrong::Missing(_) => {}
                }
                if steps.is_empty() || !take_out(value.to_mut(), &steps) {
                    return Err(faults);
                }
            }
        }
    }
}

struct Report {
    unknown: Vec<Fault>,
    failed: Option<Vec<Step>>,
}

#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Index(usize),
}

fn steps(path: &Path<'_>) -> Vec<Step> {
    match path {
        Path::Root => Vec::new(),
        Path::Field(parent, name) => [steps(parent), vec![Step::Field((*name).to_owned())]].concat(),
        Path::Index(parent, position) => [steps(parent), vec![Step::Index(*position)]].concat(),
    }
}

fn spelled(steps: &[Step]) -> String {
    fn under(steps: &[Step], path: &Path<'_>) -> String {
        match steps {
            [] => path.to_string(),
            [Step::Field(name), rest @ ..] => under(rest, &path.field(name)),
            [Step::Index(position), rest @ ..] => under(rest, &path.index(*position)),
        }
    }
    under(steps, &Path::Root)
}

/// Removes the value at the path; in a list a null stays in its place, so that later positions keep their numbers.
fn take_out(value: &mut Value, steps: &[Step]) -> bool {
    match (value, steps) {
        (Value::Object(map), [Step::Field(name)]) => map.remove(name).is_some(),
        (Value::Array(items), [Step::Index(position)]) => {
            items.get_mut(*position).is_some_and(|item| !std::mem::take(item).is_null())
        }
        (Value::Object(map), [Step::Field(name), rest @ ..]) => map.get_mut(name).is_some_and(|v| take_out(v, rest)),
        (Value::Array(items), [Step::Index(i), rest @ ..]) => items.get_mut(*i).is_some_and(|v| take_out(v, rest)),
        _ => false,
    }
}

#[derive(Debug)]
enum Wrong {
    /// In words that make sense after the field.
    Value(String),
    /// A field that its struct cannot be without.
    Missing(&'static str),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(message) => f.write_str(message),
            Self::Missing(field) => write!(f, "{field} is required"),
        }
    }
}

impl std::error::Error for Wrong {}

impl serde::de::Error for Wrong {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Value(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Value(format!("must be {}, not {}", plainly(&expected.to_string()), described(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }
}

/// What a reader expects, without the names that Rust has for it.
fn plainly(expected: &str) -> &str {
    match expected {
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "usize" => "an integer",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
}

fn described(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(number) => format!("the number {number}"),
        Unexpected::Signed(number) => format!("the number {number}"),
        Unexpected::Float(number) => format!("the number {number}"),
        Unexpected::Str(text) => format!("the string {text:?}"),
        Unexpected::Unit => "null".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        other => other.to_string(),
    }
}

/// A deserializer that knows where it is and remembers what nobody wanted.
struct Strict<'de, 'p> {
    value: &'de Value,
    path: &'p Path<'p>,
    report: &'p RefCell<Report>,
    /// The fields that the struct around this value has.
    beside: &'static [&'static str],
    unknown: UnknownFields,
}

impl<'de, 'p> Strict<'de, 'p> {
    fn below<'q>(&self, value: &'de Value, path: &'q Path<'q>, beside: &'static [&'static str]) -> Strict<'de, 'q>
    where
        'p: 'q,
    {
        Strict { value, path, report: self.report, beside, unknown: self.unknown }
    }

    fn noted<T>(&self, outcome: Result<T, Wrong>, path: &Path<'_>) -> Result<T, Wrong> {
        if outcome.is_err() {
            let mut report = self.report.borrow_mut();
            // The innermost place speaks first; those around it only pass the error on.
            if report.failed.is_none() {
                report.failed = Some(steps(path));
            }
        }
        outcome
    }
}

impl<'de> Deserializer<'de> for Strict<'de, '_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let path = self.path;
        let outcome = match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), ..) => visitor.visit_u64(number),
                (_, Some(number), _) => visitor.visit_i64(number),
                (.., Some(number)) => visitor.visit_f64(number),
                _ => Err(Wrong::custom("a number out of range")),
            },
            Value::Array(items) => visitor.visit_seq(Elements { items, next: 0, within: &self }),
            Value::Object(map) => {
                visitor.visit_map(Entries { entries: map.iter(), current: None, within: &self, fields: &[] })
            }
        };
        self.noted(outcome, path)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            // `cpu: 1` is as good as `cpu: "1"`, to an API server and here.
            Value::Number(number) if name == "Quantity" => {
                visitor.visit_newtype_struct(StringDeserializer::new(number.to_string()))
            }
            Value::Null if name == "Quantity" => visitor.visit_newtype_struct(StringDeserializer::new("0".to_owned())),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let outcome = match self.value {
            Value::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            _ => Err(Wrong::custom("expected a string")),
        };
        self.noted(outcome, self.path)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let outcome = match self.value {
            Value::Object(map) => {
                visitor.visit_map(Entries { entries: map.iter(), current: None, within: &self, fields })
            }
            Value::Null => visitor.visit_map(MapDeserializer::new(std::iter::empty::<(&str, &str)>())),
            _ => return self.deserialize_any(visitor),
        };
        self.noted(outcome, self.path)
    }

    // A null in a list or a map is the zero of its type, as to Go.
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.value.is_null() { visitor.visit_borrowed_str("") } else { self.deserialize_any(visitor) }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.value.is_null() { visitor.visit_bool(false) } else { self.deserialize_any(visitor) }
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.value.is_null() { visitor.visit_i64(0) } else { self.deserialize_any(visitor) }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_i32(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.unknown == UnknownFields::PassedOver {
            return visitor.visit_unit();
        }
        let name = match self.path {
            Path::Field(_, name) => *name,
            _ => "",
        };
        let message = match suggest::nearest(name, self.beside.iter().copied()) {
            Some(meant) => format!("unknown field; did you mean {meant:?}?"),
            None => "unknown field".to_owned(),
        };
        self.report.borrow_mut().unknown.push(Fault { field: self.path.to_string(), message });
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char str bytes byte_buf unit unit_struct seq tuple tuple_struct map
        identifier
    }
}

struct Elements<'de, 'p> {
    items: &'de [Value],
    next: usize,
    within: &'p Strict<'de, 'p>,
}

impl<'de> SeqAccess<'de> for Elements<'de, '_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        let Some(value) = self.items.get(self.next) else {
            return Ok(None);
        };
        let path = self.within.path.index(self.next);
        self.next += 1;
        let outcome = seed.deserialize(self.within.below(value, &path, &[]));
        self.within.noted(outcome, &path).map(Some)
    }
}

struct Entries<'de, 'p> {
    entries: serde_json::map::Iter<'de>,
    current: Option<(&'de String, &'de Value)>,
    within: &'p Strict<'de, 'p>,
    /// Those of the struct, if it is one.
    fields: &'static [&'static str],
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        self.current = self.entries.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Wrong> {
        let (key, value) = self.current.take().expect("serde asks for a value only after its key");
        let path = self.within.path.field(key);
        let outcome = seed.deserialize(self.within.below(value, &path, self.fields));
        self.within.noted(outcome, &path)
    }
}

#[cfg(test)]
mod tests;
