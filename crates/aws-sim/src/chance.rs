//! Chance from a seed: the same seed and the same words give the same number, whatever happened before.

use std::time::Duration;

fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number from a seed and the words that say what it is for.
pub fn draw(seed: u64, words: &[&str]) -> u64 {
    words.iter().fold(mix(seed), |state, word| {
        let hash =
            word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        mix(state ^ hash)
    })
}

/// In `0.0..1.0`.
pub fn share(seed: u64, words: &[&str]) -> f64 {
    (draw(seed, words) >> 11) as f64 / (1u64 << 53) as f64
}

/// In `low..=high`.
pub fn between(seed: u64, words: &[&str], low: u64, high: u64) -> u64 {
    low + draw(seed, words) % (high - low + 1)
}

/// An id as AWS writes them: a prefix and 17 hexadecimal digits.
pub fn id(prefix: &str, seed: u64, words: &[&str]) -> String {
    format!("{prefix}-0{:016x}", draw(seed, words))
}

/// A range of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub least: Duration,
    pub most: Duration,
}

impl Span {
    pub const ZERO: Self = Self { least: Duration::ZERO, most: Duration::ZERO };

    pub const fn millis(least: u64, most: u64) -> Self {
        Self { least: Duration::from_millis(least), most: Duration::from_millis(most) }
    }

    pub const fn exactly(duration: Duration) -> Self {
        Self { least: duration, most: duration }
    }

    pub fn draw(self, seed: u64, words: &[&str]) -> Duration {
        let (least, most) = (self.least.as_millis() as u64, self.most.as_millis() as u64);
        Duration::from_millis(between(seed, words, least, most.max(least)))
    }
}
