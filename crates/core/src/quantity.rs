//! Kubernetes quantities: exact decimals from nano to exa with the suffix they were written in.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount of a resource. Kubernetes keeps nothing below a nano and rounds away from zero there, so a count of
/// nanos is exact; `i128` holds the largest value it allows (2^63 − 1 units) with room for sums.
///
/// Equality and order look at the amount only: `1` and `1000m` are equal although they print differently.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// How the number was written, and so how it prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `m`, none, `k`, `M` … powers of a thousand.
    #[default]
    DecimalSi,
    /// `Ki`, `Mi` … powers of 1024.
    BinarySi,
    /// `12e6`.
    DecimalExponent,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity: want a number with an optional suffix such as 100m, 2, 1.5Gi or 12e6")]
pub struct ParseQuantityError(pub String);

const NANO: i128 = 1_000_000_000;
/// Kubernetes caps magnitudes here instead of failing.
const CAP: i128 = i64::MAX as i128 * NANO;

impl Quantity {
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    pub fn from_units(units: i64) -> Self {
        Self { nanos: i128::from(units) * NANO, format: Format::DecimalSi }
    }

    pub fn from_milli(milli: i64) -> Self {
        Self { nanos: i128::from(milli) * (NANO / 1000), format: Format::DecimalSi }
    }

    /// Whole bytes, printed with binary suffixes.
    pub fn from_bytes(bytes: i64) -> Self {
        Self { nanos: i128::from(bytes) * NANO, format: Format::BinarySi }
    }

    pub fn from_nanos(nanos: i128, format: Format) -> Self {
        Self { nanos, format }
    }

    pub fn nanos(self) -> i128 {
        self.nanos
    }

    pub fn format(self) -> Format {
        self.format
    }

    /// Whole units, rounded away from zero as Kubernetes' `Value()` does.
    pub fn units(self) -> i64 {
        clamp(div_away(self.nanos, NANO))
    }

    /// Thousandths, rounded away from zero as Kubernetes' `MilliValue()` does.
    pub fn milli(self) -> i64 {
        clamp(div_away(self.nanos, NANO / 1000))
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

fn clamp(n: i128) -> i64 {
    n.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Division that rounds away from zero.
fn div_away(n: i128, by: i128) -> i128 {
    let (q, r) = (n / by, n % by);
    if r == 0 { q } else { q + n.signum() }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseQuantityError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
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
    let (format, scale) = suffix_scale(suffix)?;
    let nanos = scaled(whole, fraction, scale).min(CAP);
    Some(Quantity { nanos: if negative { -nanos } else { nanos }, format })
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
enum Scale {
    Ten(i32),
    Two(u32),
}

fn suffix_scale(suffix: &str) -> Option<(Format, Scale)> {
    let decimal = |exponent| Some((Format::DecimalSi, Scale::Ten(exponent)));
    let binary = |exponent| Some((Format::BinarySi, Scale::Two(exponent)));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // Past a few hundred the value is the cap or nothing; clamping keeps the arithmetic small.
            let exponent = exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { -400 } else { 400 });
            Some((Format::DecimalExponent, Scale::Ten(exponent.clamp(-400, 400) as i32)))
        }
    }
}

/// `whole.fraction` times the scale in nanos, digit by digit, rounded up below a nano and capped.
fn scaled(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let (shift, multiplier) = match scale {
        Scale::Ten(exponent) => (exponent + 9, 1),
        Scale::Two(exponent) => (9, 1_i128 << exponent),
    };
    // Digits beyond those that `i128` holds decide only whether to round up; leading zeros are nothing.
    let digits = whole.bytes().chain(fraction.bytes()).skip_while(|b| *b == b'0');
    let mut mantissa: i128 = 0;
    let mut power = shift - fraction.len() as i32; // of ten, of the last digit
    let mut dropped = false;
    let total = digits.clone().count() as i32;
    for (seen, digit) in digits.enumerate() {
        if mantissa > CAP {
            let left = total - seen as i32;
            dropped |= digit != b'0';
            power += left;
            // Everything from here on only moves the point.
            mantissa = mantissa.min(CAP * 10);
            if left > 0 && power > 0 {
                return CAP;
            }
            break;
        }
        mantissa = mantissa * 10 + i128::from(digit - b'0');
    }
    if mantissa == 0 {
        return 0;
    }
    while power > 0 {
        if mantissa > CAP {
            return CAP;
        }
        mantissa *= 10;
        power -= 1;
    }
    if mantissa > CAP {
        mantissa = mantissa.min(CAP * 1000);
    }
    let mut product = mantissa.checked_mul(multiplier).unwrap_or(i128::MAX);
    while power < 0 {
        dropped |= product % 10 != 0;
        product /= 10;
        power += 1;
    }
    (product + i128::from(dropped)).min(CAP)
}

impl fmt::Display for Quantity {
    /// The canonical form: the largest suffix that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let whole_units = self.nanos % NANO == 0;
        let magnitude = self.nanos.abs();
        // Binary suffixes are for whole numbers of at least 1024; below they print like decimals.
        if self.format == Format::BinarySi && whole_units && magnitude >= 1024 * NANO {
            let mut units = self.nanos / NANO;
            let mut suffix = 0;
            while units % 1024 == 0 && suffix < 6 {
                units /= 1024;
                suffix += 1;
            }
            return write!(f, "{units}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][suffix]);
        }
        if self.format == Format::BinarySi && whole_units {
            return write!(f, "{}", self.nanos / NANO);
        }
        let mut mantissa = self.nanos;
        let mut exponent = -9_i32;
        while mantissa % 1000 == 0 && exponent < 18 {
            mantissa /= 1000;
            exponent += 3;
        }
        if self.format == Format::DecimalExponent {
            return if exponent == 0 { write!(f, "{mantissa}") } else { write!(f, "{mantissa}e{exponent}") };
        }
        let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][((exponent + 9) / 3) as usize];
        write!(f, "{mantissa}{suffix}")
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Add for Quantity {
    type Output = Self;
    /// A zero takes the other's format, as in Kubernetes, so sums print like what was summed.
    fn add(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: self.nanos + other.nanos, format }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Quantity {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Neg for Quantity {
    type Output = Self;
    fn neg(self) -> Self {
        Self { nanos: -self.nanos, format: self.format }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
