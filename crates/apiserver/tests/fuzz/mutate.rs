//! Chance, and what it does to requests. A seed is the whole bug report.

use serde_json::{Map, Value, json};

pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

pub(crate) const TEXTS: &[&str] = &[
    "",
    "a",
    "A",
    "-",
    ".",
    "/",
    "a/b",
    "a/b/c",
    "..",
    "0",
    "-1",
    "1e3",
    "1Gi",
    "-5m",
    "9223372036854775808",
    "1e400",
    "\u{0}",
    "é",
    "日本",
    "\u{1f600}",
    "a\nb",
    "\"",
    "\\",
    "%",
    "%00",
    "%zz",
    "null",
    "true",
    "*",
    "2026-01-01T00:00:00Z",
    "9999-99-99T99:99:99Z",
    "0000-01-01T00:00:00Z",
    "kubernetes.io/hostname",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "Always",
    "Recreate",
    "ClusterIP",
    "default",
    "kube-system",
    "foregroundDeletion",
    "orphan",
    "Background",
    "${x}",
    "🙂🙂",
    "\u{202e}",
    "a=b",
    "a in (b)",
    "!a",
    "a notin (",
    "metadata.name=x",
    "10.0.0.1",
    "::1",
    "1.2.3.4.5",
    "http",
    "65536",
    "50%",
    "101%",
];

pub(crate) const KEYS: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "generation",
    "managedFields",
    "deletionTimestamp",
    "generateName",
    "containers",
    "replicas",
    "selector",
    "template",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "resources",
    "requests",
    "limits",
    "cpu",
    "memory",
    "ports",
    "conditions",
    "type",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "apiVersion",
    "kind",
    "",
    "a.b/c",
    "~1",
    "x-kubernetes-validations",
    "rule",
    "properties",
    "items",
    "additionalProperties",
    "volumes",
    "tolerations",
    "affinity",
    "nodeSelector",
    "env",
    "data",
    "rules",
    "versions",
    "schema",
    "openAPIV3Schema",
    "é",
];

pub(crate) fn scalar(chance: &mut Chance) -> Value {
    match chance.below(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(false),
        3 => json!(chance.next() as i64),
        4 => json!(chance.next()),
        5 => json!(-1),
        6 => json!(0),
        7 => json!(1.5e300),
        8 => json!(i64::MIN),
        9 => json!(chance.below(100)),
        _ => Value::from(*chance.pick(TEXTS)),
    }
}

pub(crate) fn value(chance: &mut Chance, depth: usize) -> Value {
    if depth == 0 {
        return scalar(chance);
    }
    match chance.below(6) {
        0 => (0..chance.below(4)).map(|_| value(chance, depth - 1)).collect(),
        1 | 2 => {
            let mut fields = Map::new();
            for _ in 0..chance.below(4) {
                fields.insert((*chance.pick(KEYS)).to_owned(), value(chance, depth - 1));
            }
            Value::Object(fields)
        }
        3 if chance.one_in(8) => (0..chance.below(200)).fold(json!(1), |inner, _| json!([inner])),
        4 if chance.one_in(8) => (0..chance.below(200)).fold(json!(1), |inner, _| json!({"a": inner})),
        _ => scalar(chance),
    }
}

/// How many values there are in it.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    }
}

/// The value number `at`, counted as they are written.
fn nth<'a>(value: &'a mut Value, at: &mut usize) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, at)),
        Value::Object(fields) => fields.values_mut().find_map(|value| nth(value, at)),
        _ => None,
    }
}

/// Changes a few values of a document.
pub(crate) fn shake(document: &mut Value, chance: &mut Chance) {
    for _ in 0..=chance.below(3) {
        let mut at = chance.below(size(document));
        let Some(place) = nth(document, &mut at) else { continue };
        match (chance.below(6), &mut *place) {
            (0, Value::Object(fields)) if !fields.is_empty() => {
                let key = fields.keys().nth(chance.below(fields.len())).cloned().unwrap_or_default();
                fields.shift_remove(&key);
            }
            (1, Value::Object(fields)) => {
                fields.insert((*chance.pick(KEYS)).to_owned(), value(chance, 3));
            }
            (2, Value::Array(items)) if !items.is_empty() => {
                let item = items[chance.below(items.len())].clone();
                items.push(item);
            }
            (3, Value::Array(items)) => items.clear(),
            (4, Value::String(text)) => {
                let other = *chance.pick(TEXTS);
                if chance.one_in(2) { text.push_str(other) } else { text.insert_str(0, other) }
            }
            _ => *place = value(chance, 3),
        }
    }
}

/// Breaks the text itself.
pub(crate) fn garble(text: &str, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=chance.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = chance.below(bytes.len());
        match chance.below(5) {
            0 => bytes[at] ^= 1 << chance.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.remove(at)),
            3 => bytes.insert(at, chance.next() as u8),
            _ => bytes.splice(at..at, chance.pick(TEXTS).bytes()).for_each(drop),
        }
    }
    bytes
}
