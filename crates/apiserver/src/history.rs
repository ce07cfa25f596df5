//! The history: every write with its time, verb, key, version and a hash of the object. Two runs of the same seed have
//! the same history to the byte, and the digest says so without keeping it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::store::Object;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
    Patch,
    Apply,
    Delete,
    /// A write the server makes itself: marking for deletion, garbage collection, defaults of its own.
    System,
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Apply => "apply",
            Verb::Delete => "delete",
            Verb::System => "system",
        }
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub time: Timestamp,
    pub verb: Verb,
    /// `pods/default/web-0`, `nodes/a`.
    pub key: String,
    pub version: u64,
    pub hash: u64,
}

impl std::fmt::Display for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} {} {:016x}", self.time, self.verb.name(), self.key, self.version, self.hash)
    }
}

/// What all writes so far come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    pub writes: u64,
    pub hash: u64,
}

#[derive(Debug, Default)]
pub(crate) struct WriteLog {
    keep: bool,
    writes: Vec<Write>,
    digest: Digest,
    /// How many there were of each kind.
    counts: BTreeMap<String, u64>,
}

impl WriteLog {
    pub(crate) fn new(keep: bool) -> Self {
        Self { keep, ..Self::default() }
    }

    pub(crate) fn record(&mut self, time: Timestamp, verb: Verb, table: &str, object: &Object) {
        let hash = hash(&object.json, 0);
        let mut all = hash_words(&[self.digest.hash, time.as_nanosecond() as u64, verb as u64, object.version, hash]);
        all = self::hash(table.as_bytes(), all);
        all = self::hash(object.key.as_bytes(), all);
        self.digest = Digest { writes: self.digest.writes + 1, hash: all };
        match self.counts.get_mut(table) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(table.to_owned(), 1)),
        }
        if self.keep {
            let key = format!("{table}/{}", object.key);
            self.writes.push(Write { time, verb, key, version: object.version, hash });
        }
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    pub(crate) fn writes(&self) -> &[Write] {
        &self.writes
    }
}

/// Not for adversaries: eight bytes at a time, multiplied and folded.
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut state = seed ^ 0xcbf2_9ce4_8422_2325 ^ (bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = mix(state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(state, u64::from_le_bytes(last))
}

fn hash_words(words: &[u64]) -> u64 {
    words.iter().fold(0, |state, word| mix(state, *word))
}

fn mix(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    (product as u64) ^ ((product >> 64) as u64) ^ word.rotate_left(23)
}
