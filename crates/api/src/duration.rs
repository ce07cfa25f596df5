//! Durations as Go writes them, and the one that may also be `Never`.
//!
//! The text is kept beside the value: tools that compare manifests with the cluster (and the rule that a NodeClaim's
//! spec is immutable) look at the text, so `60m` must not come back as `1h`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The spelling of "no duration at all".
pub const NEVER: &str = "Never";

/// A Go duration: signed nanoseconds in 64 bits, so at most about 292 years.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoDuration {
    nanos: i64,
    text: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("not a duration")]
    Malformed,
    #[error("a number without a unit (ns, us, ms, s, m, h)")]
    MissingUnit,
    #[error("an unknown unit, expected ns, us, ms, s, m or h")]
    UnknownUnit,
    #[error("a duration beyond 292 years")]
    TooLong,
}

impl GoDuration {
    /// Reads what Go's `time.ParseDuration` reads: an optional sign, then numbers (possibly with a fraction) each
    /// followed by a unit; a bare `0` needs none.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        Ok(Self { nanos: parse_nanos(text)?, text: text.into() })
    }

    /// Text as Go's `Duration.String` prints it: `24h0m0s`, `1m30s`, `1.5s`, `250ms`, `0s`.
    pub fn from_nanos(nanos: i64) -> Self {
        Self { nanos, text: format_nanos(nanos).into() }
    }

    pub fn from_secs(seconds: u32) -> Self {
        Self::from_nanos(i64::from(seconds) * NANOS_PER_SECOND as i64)
    }

    pub fn nanos(&self) -> i64 {
        self.nanos
    }

    /// As an unsigned duration; a negative one (which no schema of ours admits) counts as zero.
    pub fn to_std(&self) -> Duration {
        Duration::from_nanos(self.nanos.max(0).unsigned_abs())
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|e| D::Error::custom(format!("{text:?} is {e}")))
    }
}

/// A duration or `Never`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NillableDuration {
    Never,
    After(GoDuration),
}

impl NillableDuration {
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        if text == NEVER { Ok(Self::Never) } else { GoDuration::parse(text).map(Self::After) }
    }

    pub fn duration(&self) -> Option<&GoDuration> {
        match self {
            Self::Never => None,
            Self::After(duration) => Some(duration),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Never => NEVER,
            Self::After(duration) => duration.as_str(),
        }
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(|e| D::Error::custom(format!("{text:?} is {e}")))
    }
}

fn parse_nanos(text: &str) -> Result<i64, DurationError> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(DurationError::Malformed);
    }
    // Go adds up in unsigned arithmetic with the bound 1<<63, so that the smallest negative value can be written.
    const LIMIT: u64 = 1 << 63;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = leading_number(rest)?;
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit = unit_nanos(&after[..unit_end])?;
        rest = &after[unit_end..];
        let value = number.times(unit, LIMIT).ok_or(DurationError::TooLong)?;
        total = total.checked_add(value).filter(|sum| *sum <= LIMIT).ok_or(DurationError::TooLong)?;
    }
    match (negative, total) {
        (true, LIMIT) => Ok(i64::MIN),
        (true, _) => Ok(-(total as i64)),
        (false, LIMIT) => Err(DurationError::TooLong),
        (false, _) => Ok(total as i64),
    }
}

/// `whole.fraction`, the fraction as `fraction / scale`.
struct Number {
    whole: u64,
    fraction: u64,
    scale: f64,
}

impl Number {
    fn times(&self, unit: u64, limit: u64) -> Option<u64> {
        let whole = self.whole.checked_mul(unit).filter(|v| *v <= limit)?;
        // Go computes the fractional part in floating point and truncates; results must agree to the nanosecond.
        let fraction = (self.fraction as f64 * (unit as f64 / self.scale)) as u64;
        whole.checked_add(fraction).filter(|v| *v <= limit)
    }
}

fn leading_number(text: &str) -> Result<(Number, &str), DurationError> {
    const LIMIT: u64 = 1 << 63;
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut whole: u64 = 0;
    for digit in text[..digits_end].bytes() {
        whole = whole
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit - b'0')))
            .filter(|v| *v <= LIMIT)
            .ok_or(DurationError::TooLong)?;
    }
    let mut rest = &text[digits_end..];
    let (mut fraction, mut scale, mut fraction_digits) = (0u64, 1f64, 0);
    if let Some(after_dot) = rest.strip_prefix('.') {
        let end = after_dot.find(|c: char| !c.is_ascii_digit()).unwrap_or(after_dot.len());
        fraction_digits = end;
        for digit in after_dot[..end].bytes() {
            // Digits beyond what fits are dropped: they are far below a nanosecond.
            match fraction.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0'))).filter(|v| *v <= LIMIT)
            {
                Some(next) => {
                    fraction = next;
                    scale *= 10.0;
                }
                None => break,
            }
        }
        rest = &after_dot[end..];
    }
    if digits_end == 0 && fraction_digits == 0 {
        return Err(DurationError::Malformed);
    }
    Ok((Number { whole, fraction, scale }, rest))
}

fn unit_nanos(unit: &str) -> Result<u64, DurationError> {
    match unit {
        "" => Err(DurationError::MissingUnit),
        "ns" => Ok(1),
        "us" | "µs" | "μs" => Ok(1_000),
        "ms" => Ok(1_000_000),
        "s" => Ok(NANOS_PER_SECOND),
        "m" => Ok(60 * NANOS_PER_SECOND),
        "h" => Ok(3_600 * NANOS_PER_SECOND),
        _ => Err(DurationError::UnknownUnit),
    }
}

fn format_nanos(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let n = nanos.unsigned_abs();
    if n == 0 {
        return "0s".to_owned();
    }
    if n < NANOS_PER_SECOND {
        let (unit, name) = match n {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{sign}{}{name}", with_fraction(n, unit));
    }
    let seconds = n / NANOS_PER_SECOND;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let rest = with_fraction(n % (60 * NANOS_PER_SECOND), NANOS_PER_SECOND);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, _) => format!("{sign}{minutes}m{rest}s"),
        _ => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}

/// `n / unit` in decimal without trailing zeros. `unit` is a power of ten.
fn with_fraction(n: u64, unit: u64) -> String {
    let (whole, part) = (n / unit, n % unit);
    if part == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    format!("{whole}.{}", format!("{part:0width$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests;
