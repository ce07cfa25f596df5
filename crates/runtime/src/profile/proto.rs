//! The profile format of pprof, written by hand: a dozen fields do not need a generator.
//!
//! Field numbers are those of `perftools.profiles.Profile` and its parts.

use std::collections::BTreeMap;
use std::time::Duration;

/// One level of a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    pub(super) function: String,
    pub(super) file: String,
    pub(super) line: i64,
}

/// A stack, innermost first, and how often it was seen.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    pub(super) frames: Vec<Frame>,
    pub(super) count: i64,
}

pub(super) fn encode(stacks: impl Iterator<Item = Stack>, took: Duration, frequency: i64) -> Vec<u8> {
    let mut texts = Texts::default();
    let period = 1_000_000_000 / frequency.max(1);
    let mut profile = Message::default();
    for (kind, unit) in [("samples", "count"), ("cpu", "nanoseconds")] {
        let value_type = texts.value_type(kind, unit);
        profile.message(1, &value_type);
    }
    let mut functions: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut locations: BTreeMap<Frame, u64> = BTreeMap::new();
    for stack in stacks {
        let mut sample = Message::default();
        for frame in stack.frames {
            let next = locations.len() as u64 + 1;
            sample.number(1, *locations.entry(frame).or_insert(next));
        }
        sample.number(2, stack.count as u64);
        sample.number(2, (stack.count * period) as u64);
        profile.message(2, &sample);
    }
    for (frame, id) in &locations {
        let next = functions.len() as u64 + 1;
        let function = *functions.entry((frame.function.clone(), frame.file.clone())).or_insert(next);
        let mut line = Message::default();
        line.number(1, function);
        line.number(2, frame.line as u64);
        let mut location = Message::default();
        location.number(1, *id);
        location.message(4, &line);
        profile.message(4, &location);
    }
    for ((name, file), id) in &functions {
        let mut function = Message::default();
        function.number(1, *id);
        function.number(2, texts.at(name));
        function.number(3, texts.at(name));
        function.number(4, texts.at(file));
        profile.message(5, &function);
    }
    profile.number(10, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    let period_type = texts.value_type("cpu", "nanoseconds");
    profile.message(11, &period_type);
    profile.number(12, period as u64);
    // Last, when all are known; the order of fields is nobody's business.
    for text in &texts.list {
        profile.bytes(6, text.as_bytes());
    }
    profile.0
}

/// Texts are written once and named by their position; the first one is empty.
struct Texts {
    list: Vec<String>,
    known: BTreeMap<String, u64>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { list: vec![String::new()], known: [(String::new(), 0)].into() }
    }
}

impl Texts {
    fn at(&mut self, text: &str) -> u64 {
        if let Some(position) = self.known.get(text) {
            return *position;
        }
        let position = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.known.insert(text.to_owned(), position);
        position
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> Message {
        let mut message = Message::default();
        message.number(1, self.at(kind));
        message.number(2, self.at(unit));
        message
    }
}

/// Protocol buffers on the wire.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_on_the_wire_as_they_should_be() {
        let mut message = Message::default();
        message.number(1, 300);
        message.bytes(2, b"hi");
        assert_eq!(message.0, [0x08, 0xac, 0x02, 0x12, 0x02, b'h', b'i']);
    }

    #[test]
    fn stacks_share_functions_and_texts() {
        let frame = |function: &str, line| Frame { function: function.to_owned(), file: "a.rs".to_owned(), line };
        let stacks = [
            Stack { frames: vec![frame("inner", 1), frame("outer", 2)], count: 3 },
            Stack { frames: vec![frame("inner", 1)], count: 1 },
        ];
        let profile = encode(stacks.into_iter(), Duration::from_secs(1), 100);
        let text = String::from_utf8_lossy(&profile);
        for word in ["samples", "count", "cpu", "nanoseconds", "inner", "outer", "a.rs"] {
            assert_eq!(text.matches(word).count(), 1, "{word}");
        }
        // Two samples, two locations, two functions.
        let fields = fields(&profile);
        let count = |number: u64| fields.iter().filter(|field| **field == number).count();
        assert_eq!((count(1), count(2), count(4), count(5), count(6)), (2, 2, 2, 2, 8));
    }

    /// The numbers of the fields of a message.
    fn fields(mut bytes: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        let take = |bytes: &mut &[u8]| {
            let (mut value, mut shift) = (0_u64, 0);
            loop {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                value |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    return value;
                }
            }
        };
        while !bytes.is_empty() {
            let key = take(&mut bytes);
            found.push(key >> 3);
            let value = take(&mut bytes);
            if key & 7 == 2 {
                bytes = &bytes[usize::try_from(value).unwrap()..];
            }
        }
        found
    }
}
