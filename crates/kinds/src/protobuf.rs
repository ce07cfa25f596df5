//! Protobuf bodies of built-in kinds, as Go clients send them: the wire format through the table of types, out as JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::decode::base64;
use crate::times;
use crate::types::{StructId, Ty, Types};

/// What every body starts with.
const MAGIC: &[u8] = b"k8s\0";

/// The object in a body, with its type.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let wrapper = body
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")?;
    let unknown = fields(wrapper)?;
    let meta = fields(message(&unknown, 1))?;
    let (api_version, kind) = (text(&meta, 1)?, text(&meta, 2)?);
    let types = Types::get();
    let id = types.kind(&api_version, &kind).or_else(|| match kind.as_str() {
        "DeleteOptions" => types.named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        _ => None,
    });
    let id = id.ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut object = structure(id, message(&unknown, 2), 0)?;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

#[derive(Clone, Copy, Debug)]
enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

type Fields<'a> = BTreeMap<u32, Vec<Payload<'a>>>;

const TRUNCATED: &str = "unexpected EOF";
/// Deeper than any object of the API; a body that claims more is hostile.
const MAX_DEPTH: usize = 64;

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(TRUNCATED)?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("proto: integer overflow".into())
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(TRUNCATED)?;
    *bytes = rest;
    Ok(taken)
}

fn fields(mut bytes: &[u8]) -> Result<Fields<'_>, String> {
    let mut found = Fields::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let number = u32::try_from(tag >> 3).map_err(|_| "proto: illegal tag")?;
        let payload = match tag & 7 {
            0 => Payload::Varint(varint(&mut bytes)?),
            1 => Payload::Fixed64(u64::from_le_bytes(take(&mut bytes, 8)?.try_into().map_err(|_| TRUNCATED)?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|_| TRUNCATED)?;
                Payload::Bytes(take(&mut bytes, length)?)
            }
            5 => Payload::Fixed32(u32::from_le_bytes(take(&mut bytes, 4)?.try_into().map_err(|_| TRUNCATED)?)),
            wire => return Err(format!("proto: illegal wireType {wire}")),
        };
        found.entry(number).or_default().push(payload);
    }
    Ok(found)
}

fn message<'a>(fields: &Fields<'a>, number: u32) -> &'a [u8] {
    match fields.get(&number).and_then(|all| all.last()) {
        Some(Payload::Bytes(bytes)) => bytes,
        _ => &[],
    }
}

fn text(fields: &Fields<'_>, number: u32) -> Result<String, String> {
    String::from_utf8(message(fields, number).to_vec()).map_err(|error| error.to_string())
}

fn integer(fields: &Fields<'_>, number: u32) -> i64 {
    match fields.get(&number).and_then(|all| all.last()) {
        Some(Payload::Varint(value)) => *value as i64,
        _ => 0,
    }
}

fn structure(id: StructId, bytes: &[u8], depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("proto: nested too deeply".into());
    }
    let outer = fields(bytes)?;
    let mut out = Map::new();
    let known = &Types::get().at(id).fields;
    for (index, field) in known.iter().enumerate() {
        let Some((number, embedded)) = field.number_path.split_last() else { continue };
        // The type of an object travels in the wrapper; the numbers its fields have elsewhere belong to others here.
        if known[index + 1..].iter().any(|later| later.number_path == field.number_path) {
            continue;
        }
        let mut inner;
        let mut at = &outer;
        for step in embedded {
            inner = fields(message(at, *step))?;
            at = &inner;
        }
        if let Some(payloads) = at.get(number) {
            out.insert(field.name.to_owned(), value(&field.ty, payloads, depth)?);
        }
    }
    Ok(Value::Object(out))
}

fn value(ty: &Ty, payloads: &[Payload<'_>], depth: usize) -> Result<Value, String> {
    match ty {
        Ty::Pointer(inner) => value(inner, payloads, depth),
        Ty::List(inner) => {
            let mut items = Vec::new();
            for payload in payloads {
                match (&**inner, payload) {
                    // Packed numbers come as one piece.
                    (Ty::Int32 | Ty::Int64 | Ty::Bool, Payload::Bytes(packed)) => {
                        let mut rest = *packed;
                        while !rest.is_empty() {
                            items.push(single(inner, Payload::Varint(varint(&mut rest)?), depth)?);
                        }
                    }
                    _ => items.push(single(inner, *payload, depth)?),
                }
            }
            Ok(Value::Array(items))
        }
        Ty::Map(inner) => {
            let mut map = Map::new();
            for payload in payloads {
                let Payload::Bytes(bytes) = payload else { return Err("proto: a map entry is a message".into()) };
                let entry = fields(bytes)?;
                let key = text(&entry, 1)?;
                let item = match (&**inner, entry.get(&2)) {
                    // A list as a map's value is a message of its own.
                    (Ty::List(_), Some(_)) => {
                        let list = fields(message(&entry, 2))?;
                        value(inner, list.get(&1).map_or(&[][..], Vec::as_slice), depth)?
                    }
                    (_, Some(payloads)) => value(inner, payloads, depth)?,
                    (_, None) => Value::Null,
                };
                map.insert(key, item);
            }
            Ok(Value::Object(map))
        }
        _ => match payloads.last() {
            Some(payload) => single(ty, *payload, depth),
            None => Ok(Value::Null),
        },
    }
}

fn single(ty: &Ty, payload: Payload<'_>, depth: usize) -> Result<Value, String> {
    let wrong = || format!("proto: wrong wireType for a value of type {ty:?}");
    let bytes = match payload {
        Payload::Varint(number) => {
            return match ty {
                Ty::Bool => Ok(json!(number != 0)),
                Ty::Int32 | Ty::Int64 => Ok(json!(number as i64)),
                _ => Err(wrong()),
            };
        }
        Payload::Fixed64(bits) => return if *ty == Ty::Float { Ok(json!(f64::from_bits(bits))) } else { Err(wrong()) },
        Payload::Fixed32(bits) => return if *ty == Ty::Float { Ok(json!(f32::from_bits(bits))) } else { Err(wrong()) },
        Payload::Bytes(bytes) => bytes,
    };
    match ty {
        Ty::String(_) => Ok(json!(std::str::from_utf8(bytes).map_err(|error| error.to_string())?)),
        Ty::Bytes => Ok(json!(base64(bytes))),
        Ty::Struct(id) => structure(*id, bytes, depth + 1),
        Ty::List(_) | Ty::Map(_) | Ty::Pointer(_) => value(ty, &[payload], depth),
        Ty::Quantity => Ok(json!(text(&fields(bytes)?, 1)?)),
        Ty::Time | Ty::MicroTime => {
            let parts = fields(bytes)?;
            if parts.is_empty() {
                return Ok(Value::Null);
            }
            let nanos = i32::try_from(integer(&parts, 2)).unwrap_or(0);
            let time = jiff::Timestamp::new(integer(&parts, 1), nanos).map_err(|error| error.to_string())?;
            Ok(json!(if *ty == Ty::Time { times::seconds(time) } else { times::micro(time) }))
        }
        Ty::Duration => {
            let nanos = integer(&fields(bytes)?, 1);
            Ok(json!(if nanos % 1_000_000_000 == 0 {
                format!("{}s", nanos / 1_000_000_000)
            } else {
                format!("{nanos}ns")
            }))
        }
        Ty::IntOrString => {
            let parts = fields(bytes)?;
            if integer(&parts, 1) == 1 { Ok(json!(text(&parts, 3)?)) } else { Ok(json!(integer(&parts, 2))) }
        }
        Ty::Raw => {
            let parts = fields(bytes)?;
            let raw = message(&parts, 1);
            if raw.is_empty() {
                Ok(Value::Null)
            } else {
                serde_json::from_slice(raw).map_err(|error| error.to_string())
            }
        }
        Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Float => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    #[test]
    fn a_config_map_comes_out_as_json() {
        let meta = [part(1, b"v1"), part(2, b"ConfigMap")].concat();
        let entry = [part(1, b"a"), part(2, b"b")].concat();
        let object = [part(1, &part(1, b"name")), part(2, &entry)].concat();
        let body = [MAGIC.to_vec(), part(1, &meta), part(2, &object)].concat();
        let want = json!({"metadata": {"name": "name"}, "data": {"a": "b"}, "apiVersion": "v1", "kind": "ConfigMap"});
        assert_eq!(decode(&body).unwrap(), want);
    }

    #[test]
    fn nonsense_is_refused_not_feared() {
        for length in 0..64 {
            let body: Vec<u8> = MAGIC.iter().copied().chain((0..length).map(|n: u8| n.wrapping_mul(37) | 2)).collect();
            let _ = decode(&body);
        }
        assert!(decode(b"{}").is_err());
        assert!(decode(b"k8s\0\x0a\xff\xff\xff\xff\x0f").is_err());
    }
}
