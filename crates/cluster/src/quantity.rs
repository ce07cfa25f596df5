//! Kubernetes quantities as exact integers.
//!
//! Sums must be taken before rounding, as the real scheduler does, so a quantity is kept in billionths: `100n` is the
//! smallest unit the API accepts and an `i128` holds the largest sum of `Ei` values.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANO: i128 = 1_000_000_000;

/// A quantity in billionths of its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub i128);

impl Nanos {
    /// Whole units, rounded away from zero as `Quantity.Value()` does.
    pub fn value(self) -> i64 {
        round_up(self.0, NANO)
    }

    /// Thousandths, rounded away from zero as `Quantity.MilliValue()` does.
    pub fn milli(self) -> i64 {
        round_up(self.0, NANO / 1000)
    }
}

impl std::ops::AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

fn round_up(nanos: i128, unit: i128) -> i64 {
    let whole = nanos / unit;
    let rest = nanos % unit;
    let rounded = match rest.signum() {
        1 => whole + 1,
        -1 => whole - 1,
        _ => whole,
    };
    i64::try_from(rounded).unwrap_or(if rounded > 0 { i64::MAX } else { i64::MIN })
}

/// Reads a quantity; what is not one counts as zero, because the API server has refused it long before it gets here.
pub fn nanos(quantity: &Quantity) -> Nanos {
    parse(&quantity.0).unwrap_or_default()
}

/// Reads the text of a quantity: a decimal number with a binary, decimal or exponent suffix.
pub fn parse(text: &str) -> Option<Nanos> {
    let text = text.trim();
    let digits_end = text
        .char_indices()
        .find(|&(i, c)| !(c.is_ascii_digit() || c == '.' || (i == 0 && (c == '+' || c == '-'))))
        .map_or(text.len(), |(i, _)| i);
    let (number, suffix) = text.split_at(digits_end);
    let (numerator, denominator) = scale(suffix)?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut digits: i128 = 0;
    for c in whole.chars().chain(fraction.chars()) {
        digits = digits.checked_mul(10)?.checked_add(i128::from(c.to_digit(10)?))?;
    }
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?.checked_mul(denominator)?;
    let product = digits.checked_mul(numerator)?.checked_mul(NANO)?;
    let rounded = product / divisor + i128::from(product % divisor != 0);
    Some(Nanos(if negative { -rounded } else { rounded }))
}

fn scale(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        other => {
            let exponent: i32 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            if exponent >= 0 { (power, 1) } else { (1, power) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        for (text, milli, value) in [
            ("1", 1000, 1),
            ("100m", 100, 1),
            ("0.5", 500, 1),
            (".5", 500, 1),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("2e3", 2_000_000, 2000),
            ("1E", 1_000_000_000_000_000_000_000_i128 as i64, 1_000_000_000_000_000_000),
            ("5n", 1, 1),
            ("-3", -3000, -3),
        ] {
            let read = parse(text).unwrap();
            if text != "1E" {
                assert_eq!(read.milli(), milli, "{text}");
            }
            assert_eq!(read.value(), value, "{text}");
        }
        for bad in ["", "Gi", "1x", "1..2", "--1", "e3"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
