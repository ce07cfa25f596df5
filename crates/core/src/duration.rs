//! Durations in annotations, exactly as Go reads them: `1h30m`, `1.5s`, `-2ms`, and nothing beyond 292 years.

/// Go counts in nanoseconds and refuses what 63 bits do not hold.
const LIMIT: u64 = 1 << 63;

/// In Go's words, which users of Karpenter know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit { unit: String, text: String },
}

/// In nanoseconds.
pub fn parse(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let unknown = || DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() };
        let value = nanos(whole, fraction, scale(unit).ok_or_else(unknown)?).ok_or_else(invalid)?;
        total = total.checked_add(value).filter(|sum| *sum <= LIMIT).ok_or_else(invalid)?;
        rest = after;
    }
    match negative {
        true => Ok(0_i64.wrapping_sub_unsigned(total)),
        false => i64::try_from(total).map_err(|_| invalid()),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn scale(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// None where Go's integers would overflow.
fn nanos(whole: &str, fraction: &str, scale: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let whole = whole.checked_mul(scale)?;
    // What is left out is far below a nanosecond. The rounding is Go's: it counts fractions in floating point.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = match fraction.parse::<u64>() {
        Ok(digits) => {
            let places = i32::try_from(fraction.len()).expect("at most 18");
            (digits as f64 * (scale as f64 / 10_f64.powi(places))) as u64
        }
        Err(_) => 0,
    };
    whole.checked_add(part).filter(|sum| *sum <= LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        for (text, want) in [
            ("0", 0),
            ("+0", 0),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5m", 30_000_000_000),
            ("1.s", 1_000_000_000),
            ("-2ms", -2_000_000),
            ("3us", 3_000),
            ("2562047h", 2_562_047 * 3_600_000_000_000),
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("0.100000000000000000000h", 360_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
        for (text, want) in [
            ("10", "time: missing unit in duration \"10\""),
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            ("h", "time: invalid duration \"h\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("1..5s", "time: missing unit in duration \"1..5s\""),
            (".s", "time: invalid duration \".s\""),
            ("9000000h", "time: invalid duration \"9000000h\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("99999999999999999999s", "time: invalid duration \"99999999999999999999s\""),
            ("2562047h2562047h", "time: invalid duration \"2562047h2562047h\""),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), want);
        }
    }
}
