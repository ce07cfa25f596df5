//! Quantities: amounts with a suffix, such as `1.5Gi` or `100m`.

use super::super::value::Val;
use super::{Outcome, fail};

/// An amount, in billionths: no quantity is finer, and none exceeds what an int64 holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quantity(i128);

const BILLION: i128 = 1_000_000_000;
const MOST: i128 = i64::MAX as i128 * BILLION;

impl Quantity {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (base, exponent) = scale(suffix)?;
        let digits: String = whole.chars().chain(fraction.chars()).collect();
        let digits = digits.trim_start_matches('0');
        // Far more digits than the largest quantity has are as good as that.
        let (mantissa, dropped) = if digits.len() > 36 { (&digits[..36], digits.len() - 36) } else { (digits, 0) };
        let mantissa: i128 = if mantissa.is_empty() { 0 } else { mantissa.parse().ok()? };
        let places = i64::try_from(fraction.len()).ok()? - i64::try_from(dropped).ok()?;
        let nanos = scaled(mantissa, base, exponent, places);
        Some(Self(if negative { -nanos } else { nanos }))
    }

    fn integer(self) -> Option<i64> {
        (self.0 % BILLION == 0).then(|| i64::try_from(self.0 / BILLION).ok()).flatten()
    }
}

/// `mantissa / 10^places * base^exponent`, in billionths, rounded away from nought and capped.
fn scaled(mantissa: i128, base: i128, exponent: i64, places: i64) -> i128 {
    if mantissa == 0 {
        return 0;
    }
    let mut value = mantissa;
    let mut tens = 9 - places;
    if base == 10 {
        tens += exponent;
    } else {
        for _ in 0..exponent {
            value = value.saturating_mul(base);
        }
    }
    while tens > 0 && value < MOST {
        value = value.saturating_mul(10);
        tens -= 1;
    }
    let mut rest = false;
    while tens < 0 && value > 0 {
        rest |= value % 10 != 0;
        value /= 10;
        tens += 1;
    }
    (value + i128::from(rest)).min(MOST)
}

fn scale(suffix: &str) -> Option<(i128, i64)> {
    Some(match suffix {
        "" => (10, 0),
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (1024, 1),
        "Mi" => (1024, 2),
        "Gi" => (1024, 3),
        "Ti" => (1024, 4),
        "Pi" => (1024, 5),
        "Ei" => (1024, 6),
        other => {
            let exponent = other.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            (10, exponent.trim_start_matches('+').parse().ok()?)
        }
    })
}

pub(super) fn call(function: &str, args: &[Val]) -> Option<Outcome> {
    let capped = |nanos: i128| Ok(Val::Quantity(Quantity(nanos.clamp(-MOST, MOST))));
    Some(match (function, args) {
        ("quantity", [Val::String(text)]) => match Quantity::parse(text) {
            Some(quantity) => Ok(Val::Quantity(quantity)),
            None => fail("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        },
        ("isQuantity", [Val::String(text)]) => Ok(Val::Bool(Quantity::parse(text).is_some())),
        ("sign", [Val::Quantity(it)]) => Ok(Val::Int(i64::try_from(it.0.signum()).unwrap_or_default())),
        ("isGreaterThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a > b)),
        ("isLessThan", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Bool(a < b)),
        ("compareTo", [Val::Quantity(a), Val::Quantity(b)]) => Ok(Val::Int(a.cmp(b) as i64)),
        #[expect(clippy::cast_precision_loss, reason = "the function says so in its name")]
        ("asApproximateFloat", [Val::Quantity(it)]) => Ok(Val::Double(it.0 as f64 / 1e9)),
        ("asInteger", [Val::Quantity(it)]) => match it.integer() {
            Some(value) => Ok(Val::Int(value)),
            None => fail("cannot convert value to integer"),
        },
        ("isInteger", [Val::Quantity(it)]) => Ok(Val::Bool(it.integer().is_some())),
        ("add", [Val::Quantity(a), Val::Quantity(b)]) => capped(a.0 + b.0),
        ("add", [Val::Quantity(a), Val::Int(b)]) => capped(a.0 + i128::from(*b) * BILLION),
        ("sub", [Val::Quantity(a), Val::Quantity(b)]) => capped(a.0 - b.0),
        ("sub", [Val::Quantity(a), Val::Int(b)]) => capped(a.0 - i128::from(*b) * BILLION),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_read() {
        for (text, nanos) in [
            ("1", Some(BILLION)),
            ("100m", Some(BILLION / 10)),
            ("1.5Gi", Some(1_610_612_736 * BILLION)),
            ("-2k", Some(-2000 * BILLION)),
            ("1e3", Some(1000 * BILLION)),
            (".5", Some(BILLION / 2)),
            ("5.", Some(5 * BILLION)),
            ("0.1n", Some(1)),
            ("1E", Some(1_000_000_000_000_000_000 * BILLION)),
            ("99999999999999999999E", Some(MOST)),
            ("", None),
            ("1K", None),
            ("abc", None),
            ("1.2.3", None),
        ] {
            assert_eq!(Quantity::parse(text).map(|it| it.0), nanos, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "[+-]?[0-9.]{0,60}[a-zA-Z0-9+-]{0,6}") {
            let _ = Quantity::parse(&text);
        }
    }
}
