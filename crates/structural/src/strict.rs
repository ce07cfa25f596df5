//! Reading JSON as the server does: in one pass, with the fields it does not know, those that come twice, and, for
//! built-in kinds, the values that cannot be decoded at all.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::field::{child, index};
use crate::go;
use crate::shape::{Scalar, Shape};

/// As many strict errors as the server collects.
const MAX_ERRORS: usize = 100;

/// A document, and what a strict reader would refuse of it: `unknown field "spec.foo"`, `duplicate field "spec.bar"`, in
/// the order of the document. Joined with `, ` after `strict decoding error: ` they make the server's answer under
/// `fieldValidation=Strict`, and one by one its warnings under `Warn`.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    pub strict: Vec<String>,
}

/// Reads a JSON document. With a shape, fields it does not have are reported and dropped, as decoding into a typed object
/// does; without one (custom resources, patches) only repeated fields are reported.
pub fn decode(bytes: &[u8], shape: Option<Shape<'_>>) -> Result<Decoded, serde_json::Error> {
    let strict = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Node { shape, path: String::new(), strict: &strict }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Decoded { value, strict: strict.into_inner() })
}

struct Node<'a, 's> {
    shape: Option<Shape<'s>>,
    path: String,
    strict: &'a RefCell<Vec<String>>,
}

impl Node<'_, '_> {
    fn report(&self, what: &str, path: &str) {
        let message = format!("{what} field {}", go::quote(path));
        let mut strict = self.strict.borrow_mut();
        if strict.len() < MAX_ERRORS && !strict.contains(&message) {
            strict.push(message);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        // Beyond int64 the server has only floats.
        #[expect(clippy::cast_precision_loss, reason = "that is what the server does")]
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value as f64), Value::from))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let shape = self.shape.and_then(|shape| shape.list()).map(|list| list.element);
        let mut out = Vec::new();
        loop {
            let path = index(&self.path, out.len());
            match items.next_element_seed(Node { shape, path, strict: self.strict })? {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let shape = self.shape.filter(|shape| !shape.is_untyped()).and_then(|shape| shape.map());
        let mut out = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if name.len() > 1 << 20 {
                return Err(A::Error::custom("field name too long"));
            }
            let path = child(&self.path, &name);
            let under = match shape {
                Some(map) => match map.under(&name) {
                    Some(under) => Some(under),
                    None => {
                        self.report("unknown", &path);
                        fields.next_value::<serde::de::IgnoredAny>()?;
                        continue;
                    }
                },
                None => None,
            };
            if out.contains_key(&name) {
                self.report("duplicate", &path);
            }
            let value = fields.next_value_seed(Node { shape: under, path, strict: self.strict })?;
            out.insert(name, value);
        }
        Ok(Value::Object(out))
    }
}

/// Drops the fields a shape does not have, with their paths: what decoding does, for values that were made by patching.
pub fn drop_unknown_fields(value: &mut Value, shape: Shape<'_>) -> Vec<String> {
    let mut dropped = Vec::new();
    drop_from(value, shape, "", &mut dropped);
    dropped
}

fn drop_from(value: &mut Value, shape: Shape<'_>, path: &str, dropped: &mut Vec<String>) {
    if shape.is_untyped() {
        return;
    }
    match value {
        Value::Object(fields) => {
            let Some(map) = shape.map() else { return };
            let names: Vec<String> = fields.keys().cloned().collect();
            for name in names {
                let path = child(path, &name);
                match map.under(&name) {
                    Some(under) => {
                        let value = fields.get_mut(&name).expect("the key was just read");
                        drop_from(value, under, &path, dropped);
                    }
                    None => {
                        fields.shift_remove(&name);
                        dropped.push(path);
                    }
                }
            }
        }
        Value::Array(items) => {
            let Some(list) = shape.list() else { return };
            for (at, item) in items.iter_mut().enumerate() {
                drop_from(item, list.element, &index(path, at), dropped);
            }
        }
        _ => {}
    }
}

/// The first value that a typed object cannot hold, as Go's decoder complains of it:
/// `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
pub fn type_error(value: &Value, shape: Shape<'_>) -> Option<String> {
    mismatch(value, shape, "", "")
}

fn mismatch(value: &Value, shape: Shape<'_>, holder: &str, path: &str) -> Option<String> {
    let wrong = |found: &str| {
        let target = go_type(shape);
        Some(if holder.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {target}")
        } else {
            format!("json: cannot unmarshal {found} into Go struct field {holder}.{path} of type {target}")
        })
    };
    if shape.is_untyped() {
        return None;
    }
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let Some(map) = shape.map() else { return wrong("object") };
            let holder = if map.is_struct() { shape.type_name() } else { holder };
            fields.iter().find_map(|(name, value)| {
                let under = map.under(name)?;
                let path = if map.is_struct() { child(path, name) } else { path.to_owned() };
                mismatch(value, under, holder, &path)
            })
        }
        Value::Array(items) => {
            let Some(list) = shape.list() else {
                return wrong("array");
            };
            items.iter().find_map(|item| mismatch(item, list.element, holder, path))
        }
        scalar => {
            let Some(wanted) = shape.scalar() else {
                return wrong(go::json_kind(scalar));
            };
            let number = scalar.as_number();
            match wanted {
                Scalar::Untyped => None,
                Scalar::String | Scalar::Bytes | Scalar::DateTime if scalar.is_string() => None,
                Scalar::Boolean if scalar.is_boolean() => None,
                Scalar::Number if scalar.is_number() => None,
                Scalar::Int32 | Scalar::Int64 | Scalar::Integer if number.is_some() => {
                    let fits = scalar.as_i64().is_some_and(|it| wanted != Scalar::Int32 || i32::try_from(it).is_ok());
                    if fits { None } else { wrong(&format!("number {scalar}")) }
                }
                Scalar::String
                | Scalar::Bytes
                | Scalar::DateTime
                | Scalar::Boolean
                | Scalar::Number
                | Scalar::Int32
                | Scalar::Int64
                | Scalar::Integer => wrong(go::json_kind(scalar)),
            }
        }
    }
}

fn go_type(shape: Shape<'_>) -> String {
    if let Some(list) = shape.list() {
        return format!("[]{}", go_type(list.element));
    }
    if let Some(map) = shape.map() {
        if map.is_struct() {
            return format!("v1.{}", shape.type_name());
        }
        return format!("map[string]{}", map.element().map(go_type).unwrap_or_default());
    }
    match shape.scalar() {
        Some(Scalar::Int32) => "int32",
        Some(Scalar::Int64 | Scalar::Integer) => "int64",
        Some(Scalar::Number) => "float64",
        Some(Scalar::Boolean) => "bool",
        Some(Scalar::Bytes) => "[]uint8",
        Some(Scalar::DateTime | Scalar::String | Scalar::Untyped) | None => "string",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shape::builtin;

    fn deployment() -> Shape<'static> {
        builtin::shapes().kind("apps/v1", "Deployment").unwrap()
    }

    #[test]
    fn unknown_and_repeated_fields_are_named_in_order() {
        let text = br#"{"spec":{"foo":{"x":1,"x":2},"replicas":1,"replicas":2,"template":{"spec":{"containers":[{"name":"a","bad":1}]}},
            "selector":{"matchLabels":{"a":"b","a":"c"}}},"zip":3,"zip":4}"#;
        let decoded = decode(text, Some(deployment())).unwrap();
        assert_eq!(
            decoded.strict,
            [
                r#"unknown field "spec.foo""#,
                r#"duplicate field "spec.replicas""#,
                r#"unknown field "spec.template.spec.containers[0].bad""#,
                r#"duplicate field "spec.selector.matchLabels.a""#,
                r#"unknown field "zip""#,
            ]
        );
        assert_eq!(decoded.value["spec"]["replicas"], 2);
        assert!(decoded.value.get("zip").is_none());
        let decoded = decode(text, None).unwrap();
        assert_eq!(decoded.strict[0], r#"duplicate field "spec.foo.x""#);
        assert!(decode(b"{", None).is_err() && decode(b"{} x", None).is_err());
    }

    #[test]
    fn unknown_fields_are_dropped_from_values_too() {
        let mut value = json!({"spec": {"foo": 1, "template": {"metadata": {"labels": {"any": "x"}}}}});
        assert_eq!(drop_unknown_fields(&mut value, deployment()), ["spec.foo"]);
        assert_eq!(value["spec"]["template"]["metadata"]["labels"]["any"], "x");
    }

    #[test]
    fn what_does_not_decode_reads_as_in_go() {
        for (value, want) in [
            (json!({"spec": {"replicas": 1, "paused": false}}), None),
            (
                json!({"spec": {"replicas": "x"}}),
                Some("json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"),
            ),
            (
                json!({"spec": {"replicas": 1.5}}),
                Some(
                    "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
                ),
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": "x"}}}}),
                Some(
                    "json: cannot unmarshal string into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
                ),
            ),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                Some("json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"),
            ),
            (json!([]), Some("json: cannot unmarshal array into Go value of type v1.Deployment")),
        ] {
            assert_eq!(type_error(&value, deployment()).as_deref(), want, "{value}");
        }
    }
}
