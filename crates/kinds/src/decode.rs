//! JSON through a built-in type and back, as a Go server does it: unknown fields fall away (and are told), values of the
//! wrong type are refused in Go's words, quantities and times take their canonical form, and what is empty is written or
//! left out as the type's tags say. The result is what the server would store and return.

use serde_json::{Map, Value};

use crate::quantity;
use crate::times;
use crate::types::{Field, Struct, StructId, Ty, Types};

/// What came out of a decode.
#[derive(Debug)]
pub struct Decoded {
    pub value: Value,
    /// Unknown fields, as `unknown field "spec.foo"`, in document order.
    pub strict_errors: Vec<String>,
}

/// Decodes `value` as the struct `id`. The error is Go's message for the first value of a wrong type.
pub fn decode(id: StructId, mut value: Value) -> Result<Decoded, String> {
    let mut decoder = Decoder { types: Types::get(), strict_errors: Vec::new(), path: Vec::new() };
    decoder.structure(id, &mut value, "")?;
    Ok(Decoded { value, strict_errors: decoder.strict_errors })
}

/// Brings an object that was decoded and then changed back to what its type writes: fields in order, empties as the tags
/// have them. What does not fit its type, which no change of ours leads to, stays as it is.
pub fn settle(id: StructId, value: &mut Value) {
    let mut decoder = Decoder { types: Types::get(), strict_errors: Vec::new(), path: Vec::new() };
    let _ = decoder.structure(id, value, "");
}

/// The zero value of a struct as it is written.
pub fn empty(id: StructId) -> Value {
    decode(id, Value::Object(Map::new())).map(|decoded| decoded.value).unwrap_or(Value::Null)
}

/// Works in place: most of what comes by was written by us, and is left as it is.
struct Decoder {
    types: &'static Types,
    strict_errors: Vec<String>,
    path: Vec<Step>,
}

enum Step {
    Field(&'static str),
    Index(usize),
    Key(String),
}

impl Decoder {
    fn structure(&mut self, id: StructId, value: &mut Value, parent: &str) -> Result<(), String> {
        let structure = self.types.at(id);
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let Value::Object(object) = value else {
            return Err(self.mismatch(value, parent, &self.go_type(&Ty::Struct(id))));
        };
        // In the order of the document, so that errors come in it too.
        let mut as_written = true;
        let mut next = 0;
        for (name, value) in object.iter_mut() {
            let Some(index) = structure.field_from(next, name) else {
                let at = self.path_to(name);
                self.strict_errors.push(format!("unknown field \"{at}\""));
                as_written = false;
                continue;
            };
            let field = &structure.fields[index];
            as_written &= index >= next && !structure.fields[next..index].iter().any(|skipped| skipped.always);
            next = index + 1;
            self.path.push(Step::Field(field.name));
            self.value(&field.ty, value, structure.go_name())?;
            self.path.pop();
            as_written &= !is_empty(field, value) || (!omits(field) && *value == zero(&field.ty));
        }
        as_written &= !structure.fields[next..].iter().any(|skipped| skipped.always);
        if !as_written {
            let rewritten = rewrite(structure, std::mem::take(object));
            *object = rewritten;
        }
        Ok(())
    }

    /// Null stays null here; [`written`] turns it into the type's zero where that is written.
    fn value(&mut self, ty: &Ty, value: &mut Value, parent: &str) -> Result<(), String> {
        if value.is_null() && !matches!(ty, Ty::Struct(_)) {
            return Ok(());
        }
        match ty {
            Ty::Pointer(inner) => self.value(inner, value, parent),
            Ty::Struct(id) => self.structure(*id, value, parent),
            Ty::String(_) if value.is_string() => Ok(()),
            Ty::Bool if value.is_boolean() => Ok(()),
            Ty::Int32 if value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
            Ty::Int64 if value.is_i64() => Ok(()),
            Ty::Float if value.is_number() => Ok(()),
            Ty::Raw => Ok(()),
            Ty::List(inner) => match value {
                Value::Array(items) => {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.path.push(Step::Index(index));
                        self.value(inner, item, parent)?;
                        if item.is_null() {
                            *item = zero(inner);
                        }
                        self.path.pop();
                    }
                    Ok(())
                }
                other => Err(self.mismatch(other, parent, &self.go_type(ty))),
            },
            Ty::Map(inner) => match value {
                Value::Object(entries) => {
                    if !entries.keys().is_sorted() {
                        entries.sort_keys();
                    }
                    // Only what has fields can have unknown ones, for which the path is kept.
                    let deep = matches!(**inner, Ty::Struct(_) | Ty::List(_) | Ty::Map(_) | Ty::Pointer(_));
                    for (key, item) in entries.iter_mut() {
                        if deep {
                            self.path.push(Step::Key(key.clone()));
                        }
                        self.value(inner, item, parent)?;
                        if item.is_null() {
                            *item = zero(inner);
                        }
                        if deep {
                            self.path.pop();
                        }
                    }
                    Ok(())
                }
                other => Err(self.mismatch(other, parent, &self.go_type(ty))),
            },
            Ty::Quantity => {
                if value.as_str().is_some_and(quantity::is_surely_canonical) {
                    return Ok(());
                }
                let canonical = match &*value {
                    Value::String(text) => quantity::canonicalize(text)?,
                    Value::Number(number) => quantity::canonicalize(&number.to_string())?,
                    _ => return Err(quantity::PATTERN_MESSAGE.to_owned()),
                };
                if value.as_str() != Some(&canonical) {
                    *value = Value::String(canonical);
                }
                Ok(())
            }
            Ty::Time | Ty::MicroTime => self.time(matches!(ty, Ty::MicroTime), value),
            Ty::Duration => match value {
                Value::String(_) => Ok(()),
                other => Err(self.mismatch(other, parent, "string")),
            },
            Ty::IntOrString => match &*value {
                Value::String(_) => Ok(()),
                Value::Number(number) if number.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
                other => Err(format!("json: cannot unmarshal {} into Go value of type int32", describe(other))),
            },
            Ty::Bytes => match &*value {
                Value::String(text) => {
                    *value = Value::String(base64_canonical(text)?);
                    Ok(())
                }
                other => Err(self.mismatch(other, parent, "[]uint8")),
            },
            Ty::Int32 | Ty::Int64 if value.is_i64() || value.is_u64() => {
                // A number that does not fit is shown.
                let shown = format!("cannot unmarshal number {value} into");
                Err(self.mismatch(value, parent, &self.go_type(ty)).replacen("cannot unmarshal number into", &shown, 1))
            }
            Ty::String(_) | Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Float => {
                Err(self.mismatch(value, parent, &self.go_type(ty)))
            }
        }
    }

    fn time(&self, micro: bool, value: &mut Value) -> Result<(), String> {
        let Value::String(text) = &*value else {
            return Err(self.mismatch(value, "", "string").replace("Go struct field .", "Go value of type string"));
        };
        if text.is_empty() {
            *value = Value::Null;
            return Ok(());
        }
        if !micro && times::is_canonical(text) {
            return Ok(());
        }
        let time = times::parse(text).map_err(|_| times::parse_error(text, micro))?;
        *value = Value::String(if micro { times::micro(time) } else { times::seconds(time) });
        Ok(())
    }

    fn mismatch(&self, value: &Value, parent: &str, go_type: &str) -> String {
        let fields: Vec<&str> = self
            .path
            .iter()
            .filter_map(|step| match step {
                Step::Field(name) => Some(*name),
                Step::Index(_) | Step::Key(_) => None,
            })
            .collect();
        if parent.is_empty() {
            return format!("json: cannot unmarshal {} into Go value of type {go_type}", describe(value));
        }
        format!(
            "json: cannot unmarshal {} into Go struct field {parent}.{} of type {go_type}",
            describe(value),
            fields.join(".")
        )
    }

    fn path_to(&self, name: &str) -> String {
        let mut out = String::new();
        for step in &self.path {
            match step {
                Step::Field(field) => {
                    if !out.is_empty() {
                        out.push('.');
                    }
                    out.push_str(field);
                }
                Step::Index(index) => out.push_str(&format!("[{index}]")),
                Step::Key(key) => {
                    if !out.is_empty() {
                        out.push('.');
                    }
                    out.push_str(key);
                }
            }
        }
        if !out.is_empty() {
            out.push('.');
        }
        out + name
    }

    fn go_type(&self, ty: &Ty) -> String {
        match ty {
            Ty::String(name) => (*name).to_owned(),
            Ty::Bool => "bool".into(),
            Ty::Int32 => "int32".into(),
            Ty::Int64 => "int64".into(),
            Ty::Float => "float64".into(),
            Ty::Quantity => "resource.Quantity".into(),
            Ty::Time => "v1.Time".into(),
            Ty::MicroTime => "v1.MicroTime".into(),
            Ty::Duration => "v1.Duration".into(),
            Ty::IntOrString => "intstr.IntOrString".into(),
            Ty::Bytes => "[]uint8".into(),
            Ty::Raw => "runtime.RawExtension".into(),
            Ty::Struct(id) => {
                let mut parts = self.types.at(*id).name.rsplit('.');
                let name = parts.next().unwrap_or_default();
                format!("{}.{name}", parts.next().unwrap_or_default())
            }
            Ty::List(inner) => format!("[]{}", self.go_type(inner)),
            Ty::Map(inner) => format!("map[string]{}", self.go_type(inner)),
            Ty::Pointer(inner) => self.go_type(inner),
        }
    }
}

/// The fields of a struct in its order, each as its tags have it.
fn rewrite(structure: &Struct, object: Map<String, Value>) -> Map<String, Value> {
    let mut slots: Vec<Option<Value>> = vec![None; structure.fields.len()];
    let mut next = 0;
    for (name, value) in object {
        if let Some(index) = structure.field_from(next, &name) {
            slots[index] = Some(value);
            next = index + 1;
        }
    }
    let mut out = Map::new();
    for (field, slot) in structure.fields.iter().zip(slots) {
        let value = match slot {
            Some(value) => written(field, value),
            None if field.always => written(field, absent(field)),
            None => None,
        };
        if let Some(value) = value {
            out.insert(field.name.to_owned(), value);
        }
    }
    out
}

fn absent(field: &Field) -> Value {
    match &field.ty {
        Ty::Struct(id) => empty(*id),
        _ => Value::Null,
    }
}

/// The value as the field's tags have it written, or `None` where it is left out.
fn written(field: &Field, value: Value) -> Option<Value> {
    if !is_empty(field, &value) {
        return Some(value);
    }
    (!omits(field)).then(|| zero(&field.ty))
}

/// An empty list or map is none at all: the server stores protobuf, which cannot tell the two apart.
fn is_empty(field: &Field, value: &Value) -> bool {
    match (&field.ty, value) {
        (_, Value::Null) => true,
        (Ty::Pointer(_), _) => false,
        (Ty::List(_) | Ty::Bytes, Value::Array(items)) => items.is_empty(),
        (Ty::Map(_), Value::Object(entries)) => entries.is_empty(),
        (Ty::String(_) | Ty::Bytes, Value::String(text)) => text.is_empty(),
        (Ty::Bool, Value::Bool(flag)) => !flag,
        (Ty::Int32 | Ty::Int64, Value::Number(number)) => number.as_i64() == Some(0),
        (Ty::Float, Value::Number(number)) => number.as_f64() == Some(0.0),
        (Ty::Struct(_), Value::Object(fields)) => field.omit_zero && fields.is_empty(),
        _ => false,
    }
}

/// Whether an empty value is left out. A struct is never "empty" to Go's omitempty, only to omitzero.
fn omits(field: &Field) -> bool {
    if field.ty.is_go_struct() { field.omit_zero } else { field.omit_empty || field.omit_zero }
}

fn zero(ty: &Ty) -> Value {
    match ty {
        Ty::String(_) => Value::String(String::new()),
        Ty::Bool => Value::Bool(false),
        Ty::Int32 | Ty::Int64 | Ty::Float | Ty::IntOrString => Value::from(0),
        Ty::Quantity => Value::String("0".into()),
        Ty::Duration => Value::String("0s".into()),
        Ty::Struct(id) => empty(*id),
        Ty::Time | Ty::MicroTime | Ty::Bytes | Ty::Raw | Ty::List(_) | Ty::Map(_) | Ty::Pointer(_) => Value::Null,
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(number) if number.is_f64() => format!("number {number}"),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

/// Go's base64 decoder ignores line breaks and is otherwise strict; what it accepts is written back without them.
pub(crate) fn base64_canonical(text: &str) -> Result<String, String> {
    let cleaned: String = text.chars().filter(|c| *c != '\n' && *c != '\r').collect();
    let illegal = |at: usize| format!("illegal base64 data at input byte {at}");
    let body = cleaned.trim_end_matches('=');
    for (at, c) in body.bytes().enumerate() {
        if !(c.is_ascii_alphanumeric() || c == b'+' || c == b'/') {
            return Err(illegal(at));
        }
    }
    if !cleaned.len().is_multiple_of(4) || cleaned.len() - body.len() > 2 || body.len() % 4 == 1 {
        return Err(illegal(cleaned.len() - cleaned.len() % 4));
    }
    Ok(cleaned)
}

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let character = char::from(ALPHABET[(word >> (18 - 6 * index)) as usize & 63]);
            out.push(if index <= chunk.len() { character } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(api_version: &str, kind: &str) -> StructId {
        Types::get().kind(api_version, kind).unwrap()
    }

    #[test]
    fn empties_are_written_as_go_writes_them() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {}},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1000m"}}}], "volumes": []}});
        let got = decode(kind("v1", "Pod"), pod).unwrap().value;
        assert_eq!(
            got,
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}, "status": {}})
        );
    }

    #[test]
    fn base64_pads() {
        for (text, want) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("plain", "cGxhaW4=")] {
            assert_eq!(base64(text.as_bytes()), want);
        }
    }

    #[test]
    fn unknown_fields_fall_away_and_are_told() {
        let got =
            decode(kind("v1", "Pod"), json!({"spec": {"containers": [{"name": "a", "foo": 1}]}, "bar": 2})).unwrap();
        assert_eq!(got.strict_errors, ["unknown field \"spec.containers[0].foo\"", "unknown field \"bar\""]);
        assert_eq!(got.value.pointer("/spec/containers/0/foo"), None);
    }

    #[test]
    fn wrong_types_are_refused_in_gos_words() {
        let error = decode(kind("apps/v1", "Deployment"), json!({"spec": {"replicas": "3"}})).unwrap_err();
        assert_eq!(
            error,
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
    }
}
