//! FNV-1 over 64 bits: profile names are made with it, and template names, which must be the same on every machine.

use std::hash::{Hash, Hasher};

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

pub(crate) fn fnv1_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte))
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte));
    }
}

pub(crate) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = Fnv(OFFSET);
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_is_fnv_1() {
        // Published test vectors.
        for (text, want) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_bd4c_8601_b7be), ("foobar", 0x340d_8765_a4dd_a9c2)]
        {
            assert_eq!(super::fnv1_64(text.as_bytes()), want, "{text}");
        }
    }
}
