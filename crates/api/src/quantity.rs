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
    let (base, suffixes) = if suffix.ends_with('i') {
        (1024, BINARY)
    } else {
        (1000, DECIMAL)
    };
    let Some(mut step) = suffixes.iter().position(|s| *s == suffix) else {
        return text.to_owned();
    };
    while number != 0 && number.is_multiple_of(base) && step + 1 < suffixes.len() {
        number /= base;
        step += 1;
    }
    format!("{number}{}", suffixes[step])
}

#[cfg(test)]
mod tests {
    use super::*;

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
