//! Durations as Go writes them: `1h30m`, `1.5s`, `-2ms`.

/// In nanoseconds; nothing where the text is no duration.
pub fn parse(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_i128;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') || whole.len() + fraction.len() > 18 {
            return None;
        }
        let digits = |text: &str| {
            if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() }
        };
        total += digits(whole)? * scale + digits(fraction)? * scale / 10_i128.pow(fraction.len() as u32);
        rest = tail;
    }
    Some(sign * total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        for (text, want) in [
            ("0", Some(0)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("-2ms", Some(-2_000_000)),
            ("10", None),
            ("", None),
            ("h", None),
            ("1d", None),
            ("1..5s", None),
        ] {
            assert_eq!(parse(text), want, "{text}");
        }
    }
}
