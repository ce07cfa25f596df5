//! The annotation `karpenter.sh/do-not-disrupt` of a pod. Whoever reads it reads it here: what protects in consolidation
//! must protect in the drain.

use std::time::Duration;

use jiff::SignedDuration;

use crate::duration;

/// What it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DoNotDisrupt {
    Always,
    /// From the start of the pod.
    For(Duration),
    /// Ignored, and said so: why.
    Invalid(String),
}

impl DoNotDisrupt {
    pub fn parse(value: &str) -> Self {
        if value == "true" {
            return Self::Always;
        }
        match duration::parse(value) {
            Ok(nanos) if nanos > 0 => Self::For(Duration::from_nanos(nanos.unsigned_abs())),
            Ok(_) => Self::Invalid(format!("duration {value:?} must be positive")),
            Err(error) => Self::Invalid(format!("failed to parse {value:?} as a duration: {error}")),
        }
    }

    /// Whether it protects, `age` after the start of the pod; a pod that has not started has no age.
    pub fn is_in_force(&self, age: Option<SignedDuration>) -> bool {
        match self {
            Self::Always => true,
            Self::For(length) => age.is_none_or(|age| age.is_negative() || age.unsigned_abs() < *length),
            Self::Invalid(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_does_not_protect() {
        let hours = |hours: i64| Some(SignedDuration::from_hours(hours));
        for (value, age, want) in [
            ("true", None, true),
            ("true", hours(1_000_000), true),
            ("1h", None, true),
            ("1h", hours(0), true),
            ("1h", hours(1), false),
            ("1h", hours(-1), true),
            ("false", None, false),
            ("-1h", hours(0), false),
            ("0", hours(0), false),
            // More than Go holds.
            ("9000000h", hours(0), false),
        ] {
            assert_eq!(DoNotDisrupt::parse(value).is_in_force(age), want, "{value} at {age:?}");
        }
        let DoNotDisrupt::Invalid(why) = DoNotDisrupt::parse("never") else { panic!("it is no duration") };
        assert_eq!(why, "failed to parse \"never\" as a duration: time: invalid duration \"never\"");
    }
}
