//! Drift hashes, equal bit for bit to the reference's, so that taking over a cluster drifts no node.
//!
//! The reference hashes Go structs by reflection. What that amounts to, over 64-bit FNV-1:
//!
//! ```text
//!   string      H(bytes)                        pair(a, b)  H(a, b as 16 little-endian bytes)
//!   number      H(little-endian bytes)          list        xor of the elements, so order is nothing and twins cancel
//!   map         H(xor of pair(key, value))      struct      x = H(type name); per set field: x = H(x ^ pair(name, value))
//! ```
//!
//! A field is *set* unless it is absent, or zero in a field that Go does not hold by pointer. The names of Go's types
//! and fields are therefore part of the format, and so is the order of the fields.

mod ec2nodeclass;
mod go_json;
mod nodepool;

pub use ec2nodeclass::{EC2NODECLASS_HASH_VERSION, ec2nodeclass_hash};
pub use nodepool::{NODEPOOL_HASH_VERSION, nodepool_hash};

use std::collections::BTreeMap;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

fn fnv1(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(FNV_OFFSET, |hash, byte| hash.wrapping_mul(FNV_PRIME) ^ u64::from(byte))
}

fn string(text: &str) -> u64 {
    fnv1(text.bytes())
}

fn int64(number: i64) -> u64 {
    fnv1(number.to_le_bytes())
}

fn int32(number: i32) -> u64 {
    fnv1(number.to_le_bytes())
}

fn boolean(value: bool) -> u64 {
    fnv1([u8::from(value)])
}

fn pair(a: u64, b: u64) -> u64 {
    fnv1(a.to_le_bytes().into_iter().chain(b.to_le_bytes()))
}

/// Hardens a xor of hashes, so that equal parts in different places cannot cancel each other.
fn finish(unordered: u64) -> u64 {
    fnv1(unordered.to_le_bytes())
}

fn string_map(map: &BTreeMap<String, String>) -> u64 {
    finish(map.iter().fold(0, |acc, (key, value)| acc ^ pair(string(key), string(value))))
}

fn list(elements: impl IntoIterator<Item = u64>) -> u64 {
    elements.into_iter().fold(0, |acc, element| acc ^ element)
}

/// A Go struct under way: the type's name, then its set fields in declaration order.
struct StructHash(u64);

impl StructHash {
    fn new(type_name: &str) -> Self {
        Self(string(type_name))
    }

    /// A field Go holds by pointer, or a struct, map or list: set when present.
    fn optional(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => Self(finish(self.0 ^ pair(string(name), value))),
            None => self,
        }
    }

    /// A plain string field: the empty string is its zero.
    fn text(self, name: &str, value: &str) -> Self {
        self.optional(name, (!value.is_empty()).then(|| string(value)))
    }

    fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
