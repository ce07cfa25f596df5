//! Kubernetes quantities, as far as this crate must understand them: their syntax, their sign, and the canonical text of
//! volume sizes.

/// The canonical text of a whole quantity with suffix `G`, `T`, `Gi` or `Ti`: the largest suffix that keeps the number
/// whole, so `2048Gi` is `2Ti`. Anything else, which admission refuses for volumes, is left as it is.
pub(crate) fn canonical_volume_size(text: &str) -> String {
    const BINARY: [&str; 4] = ["Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 4] = ["G", "T", "P", "E"];
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let Ok(mut number) = number.parse::<u64>() else {
        return text.to_owned();
    };
    let (base, suffixes) = if suffix.ends_with('i') { (1024, BINARY) } else { (1000, DECIMAL) };
    let Some(mut step) = suffixes.iter().position(|s| *s == suffix) else {
        return text.to_owned();
    };
    while number != 0 && number.is_multiple_of(base) && step + 1 < suffixes.len() {
        number /= base;
        step += 1;
    }
    format!("{number}{}", suffixes[step])
}

/// Whether the text is a quantity, and on which side of zero: `None` for what is not one.
pub(crate) fn sign(text: &str) -> Option<Sign> {
    const SUFFIXES: [&str; 16] = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let well_formed = number.bytes().any(|b| b.is_ascii_digit()) && number.matches('.').count() <= 1;
    if !well_formed || !(SUFFIXES.contains(&suffix) || is_exponent(suffix)) {
        return None;
    }
    let zero = number.bytes().all(|b| matches!(b, b'0' | b'.'));
    Some(match (zero, negative) {
        (true, _) => Sign::Zero,
        (false, true) => Sign::Negative,
        (false, false) => Sign::Positive,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Negative,
    Zero,
    Positive,
}

fn is_exponent(suffix: &str) -> bool {
    let Some(exponent) = suffix.strip_prefix(['e', 'E']) else {
        return false;
    };
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_a_sign_and_other_text_has_none() {
        for (text, want) in [
            ("0", Some(Sign::Zero)),
            ("-0.0Gi", Some(Sign::Zero)),
            ("1", Some(Sign::Positive)),
            ("+1.5", Some(Sign::Positive)),
            (".5m", Some(Sign::Positive)),
            ("5.", Some(Sign::Positive)),
            ("100Mi", Some(Sign::Positive)),
            ("1E", Some(Sign::Positive)),
            ("1e-3", Some(Sign::Positive)),
            ("-2k", Some(Sign::Negative)),
            ("", None),
            ("-", None),
            (".", None),
            ("1.2.3", None),
            ("1K", None),
            ("1e", None),
            ("1 Gi", None),
            ("vcpus * 10", None),
            ("5%", None),
        ] {
            assert_eq!(sign(text), want, "{text:?}");
        }
    }

    #[test]
    fn volume_sizes_take_their_largest_whole_suffix() {
        for (text, want) in [
            ("2G", "2G"),
            ("20Gi", "20Gi"),
            ("1024Gi", "1Ti"),
            ("2048Gi", "2Ti"),
            ("1536Gi", "1536Gi"),
            ("1000G", "1T"),
            ("64000G", "64T"),
            ("59000Gi", "59000Gi"),
            ("58Ti", "58Ti"),
            ("020Gi", "20Gi"),
            ("large", "large"),
            ("1.5Ti", "1.5Ti"),
        ] {
            assert_eq!(canonical_volume_size(text), want);
        }
    }
}
