//! Names, and the uids of objects that have none.

use std::sync::Arc;

/// What makes an object itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub(crate) kind: &'static str,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// A uid that follows from kind, namespace and name, so that the same manifests always give the same plan.
pub(crate) fn uid(kind: &str, namespace: &str, name: &str) -> Arc<str> {
    // FNV-1a over 128 bits; nothing here is a secret, and two objects of one identity are one object.
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in [kind, "/", namespace, "/", name].iter().flat_map(|part| part.bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let digits = format!("{hash:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-").into()
}
