//! When an unhealthy node is worth replacing.

use std::time::Duration;

/// A node condition that is borne only so long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    pub condition_type: &'static str,
    /// The status that is unhealthy.
    pub unhealthy: Verdict,
    pub toleration: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    True,
    False,
    Unknown,
}

impl Verdict {
    /// As a condition's `status` is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}
