//! A flood of equal lines is thinned out: the first hundred of a second, then every hundredth.

use jiff::Timestamp;
use rustc_hash::FxHashMap;
use tracing::Level;

const FIRST: u32 = 100;
const THEREAFTER: u32 = 100;

#[derive(Debug, Default)]
pub(super) struct Sampling {
    second: i64,
    seen: FxHashMap<(Level, String), u32>,
}

impl Sampling {
    pub(super) fn admits(&mut self, now: Timestamp, level: Level, message: &str) -> bool {
        if now.as_second() != self.second {
            self.second = now.as_second();
            self.seen.clear();
        }
        let count = self.seen.entry((level, message.to_owned())).or_default();
        *count += 1;
        *count <= FIRST || (*count - FIRST).is_multiple_of(THEREAFTER)
    }
}
