//! Kubernetes quantities as the API server reads and writes them: decimal and binary suffixes, exponents, and the
//! canonical form every stored quantity has (`1000m` becomes `1`, `0.5` becomes `500m`, `1024Ki` becomes `1Mi`).

use std::cmp::Ordering;

/// An exact value: `mantissa` nano-units (quantities are never finer than a nano) and the family it is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// In units of 10^-9. An i128 holds 2^63 exa-units with room to spare.
    pub nanos: i128,
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

const NANOS: i128 = 1_000_000_000;
/// No quantity is more than what fits 63 bits; what would be is that.
const MOST: i128 = i64::MAX as i128 * NANOS;

/// What the server says of text that is no quantity.
pub const PATTERN_MESSAGE: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

impl Quantity {
    pub fn parse(text: &str) -> Result<Quantity, &'static str> {
        let (negative, rest) = match text.as_bytes().first() {
            None => return Err(PATTERN_MESSAGE),
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            Some(_) => (false, text),
        };
        let digits_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(digits_end);
        if number.is_empty() || number == "." || number.matches('.').count() > 1 {
            return Err(PATTERN_MESSAGE);
        }
        let (scale, format) = suffix_scale(suffix).ok_or("unable to parse quantity's suffix")?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut value: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            value =
                value.checked_mul(10).and_then(|v| v.checked_add(i128::from(digit - b'0'))).ok_or(PATTERN_MESSAGE)?;
        }
        let nanos = scale.apply(value, fraction.len()).min(MOST);
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }

    pub fn from_units(units: i64) -> Quantity {
        Quantity { nanos: i128::from(units) * NANOS, format: Format::DecimalSi }
    }

    /// Whole units, rounded away from zero, as `Quantity.Value()` does.
    pub fn value(&self) -> i64 {
        clamp(div_up(self.nanos, NANOS))
    }

    pub fn milli_value(&self) -> i64 {
        clamp(div_up(self.nanos, NANOS / 1000))
    }

    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// The sum keeps the format of its left side, as in Go.
    pub fn plus(self, other: Quantity) -> Quantity {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Quantity { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// The canonical text.
    pub fn canonical(&self) -> String {
        if self.nanos == 0 {
            return "0".into();
        }
        match self.format {
            Format::BinarySi if self.nanos.abs() >= 1024 * NANOS && self.nanos % NANOS == 0 => {
                binary(self.nanos / NANOS)
            }
            Format::BinarySi | Format::DecimalSi => decimal(self.nanos, &DECIMAL_SUFFIXES),
            Format::DecimalExponent => decimal(self.nanos, &EXPONENT_SUFFIXES),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.nanos.cmp(&other.nanos))
    }
}

/// Whether this is surely how [`canonicalize`] writes it; some others are, too.
pub fn is_surely_canonical(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    // Fifteen digits of any suffix are far from every limit.
    if number.is_empty() || digits > 15 || number.starts_with('0') {
        return false;
    }
    let Ok(number) = number.parse::<u64>() else { return false };
    match suffix {
        "" | "m" => number % 1000 != 0,
        "Ki" | "Mi" | "Gi" => digits <= 6 && number % 1024 != 0,
        _ => false,
    }
}

/// The canonical text of a quantity given as text, or the parse error.
pub fn canonicalize(text: &str) -> Result<String, &'static str> {
    Quantity::parse(text).map(|quantity| quantity.canonical())
}

enum Scale {
    Pow10(i32),
    Pow2(u32),
}

impl Scale {
    /// `digits` with `fraction` of them after the point, in nano-units; what is finer is rounded away from zero.
    fn apply(self, digits: i128, fraction: usize) -> i128 {
        let fraction = i32::try_from(fraction).unwrap_or(i32::MAX);
        match self {
            Scale::Pow10(exponent) => shift10(digits, exponent.saturating_add(9).saturating_sub(fraction)),
            Scale::Pow2(bits) => {
                let scaled = digits.saturating_mul(1i128 << bits);
                shift10(scaled, 9 - fraction)
            }
        }
    }
}

fn shift10(value: i128, exponent: i32) -> i128 {
    if value == 0 {
        return 0;
    }
    if exponent >= 0 {
        let factor = 10i128.checked_pow(exponent.unsigned_abs()).unwrap_or(i128::MAX);
        return value.saturating_mul(factor);
    }
    match 10i128.checked_pow(exponent.unsigned_abs()) {
        Some(divisor) => div_up(value, divisor),
        None => value.signum(),
    }
}

fn div_up(value: i128, divisor: i128) -> i128 {
    let quotient = value / divisor;
    if value % divisor == 0 { quotient } else { quotient + value.signum() }
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value > 0 { i64::MAX } else { i64::MIN })
}

fn suffix_scale(suffix: &str) -> Option<(Scale, Format)> {
    let si = |exponent| Some((Scale::Pow10(exponent), Format::DecimalSi));
    let binary = |bits| Some((Scale::Pow2(bits), Format::BinarySi));
    match suffix {
        "n" => si(-9),
        "u" => si(-6),
        "m" => si(-3),
        "" => si(0),
        "k" => si(3),
        "M" => si(6),
        "G" => si(9),
        "T" => si(12),
        "P" => si(15),
        "E" => si(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let exponent: i32 = exponent.parse().ok()?;
            Some((Scale::Pow10(exponent), Format::DecimalExponent))
        }
    }
}

const DECIMAL_SUFFIXES: [(i32, &str); 10] =
    [(18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""), (-3, "m"), (-6, "u"), (-9, "n")];
const EXPONENT_SUFFIXES: [(i32, &str); 10] = [
    (18, "e18"),
    (15, "e15"),
    (12, "e12"),
    (9, "e9"),
    (6, "e6"),
    (3, "e3"),
    (0, ""),
    (-3, "e-3"),
    (-6, "e-6"),
    (-9, "e-9"),
];

fn decimal(nanos: i128, suffixes: &[(i32, &str)]) -> String {
    for (exponent, suffix) in suffixes {
        let unit = 10i128.pow((exponent + 9).unsigned_abs());
        if nanos % unit == 0 {
            return format!("{}{suffix}", nanos / unit);
        }
    }
    format!("{nanos}n")
}

fn binary(units: i128) -> String {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut value = units;
    let mut power = 0;
    while value % 1024 == 0 && power + 1 < SUFFIXES.len() {
        value /= 1024;
        power += 1;
    }
    format!("{value}{}", SUFFIXES[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms_are_those_of_the_server() {
        for (text, want) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("1000Ki", "1000Ki"),
            ("0Gi", "0"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1500", "1500"),
            ("2000", "2k"),
            ("100M", "100M"),
            ("-5m", "-5m"),
            ("0.0000000001", "1n"),
            ("512", "512"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
        ] {
            assert_eq!(canonicalize(text).as_deref(), Ok(want), "{text}");
        }
        for text in ["", "x", "1x", "1..2", ".", "1kk", "--1", "1 "] {
            assert!(canonicalize(text).is_err(), "{text}");
        }
    }

    #[test]
    fn enormous_quantities_are_capped() {
        for text in ["1e300", "15e299", "9999999999999999999999999999", "99999999Ei"] {
            let quantity = Quantity::parse(text).unwrap();
            assert_eq!(quantity.value(), i64::MAX, "{text}");
            assert_eq!(Quantity::parse(&quantity.canonical()).unwrap().nanos, quantity.nanos);
        }
    }

    #[test]
    fn what_is_surely_canonical_is() {
        for number in (0..3000u64).chain([9_999, 12_288, 1_000_000, 999_999, 123_456_789_012_345]) {
            for suffix in ["", "m", "Ki", "Mi", "Gi", "k", "x"] {
                let text = format!("{number}{suffix}");
                if is_surely_canonical(&text) {
                    assert_eq!(canonicalize(&text).as_deref(), Ok(text.as_str()));
                }
            }
        }
        assert!(is_surely_canonical("100m") && is_surely_canonical("64Mi") && is_surely_canonical("4"));
        assert!(!is_surely_canonical("1000m") && !is_surely_canonical("1024Mi") && !is_surely_canonical("010"));
    }

    #[test]
    fn values_round_up() {
        assert_eq!(Quantity::parse("100m").unwrap().value(), 1);
        assert_eq!(Quantity::parse("1500m").unwrap().milli_value(), 1500);
        assert_eq!(Quantity::parse("1u").unwrap().milli_value(), 1);
    }
}
