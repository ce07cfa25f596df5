//! Durations as Go reads and prints them: kubelet flags take them in that form.

/// `1m30s` and the like in, Go's canonical form out.
pub(super) fn canonical(text: &str) -> Option<String> {
    Some(print(parse(text)?))
}

fn parse(text: &str) -> Option<i128> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(number);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let nanos: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(nanos)?)?;
        let mut scale = nanos;
        for digit in fraction.chars() {
            scale /= 10;
            total += i128::from(digit.to_digit(10)?) * scale;
        }
        rest = after;
    }
    i64::try_from(total).ok()?;
    Some(if negative { -total } else { total })
}

fn print(nanos: i128) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    if nanos == 0 {
        return "0s".to_owned();
    }
    for (limit, unit, name) in [(1_000, 1, "ns"), (1_000_000, 1_000, "µs"), (1_000_000_000, 1_000_000, "ms")] {
        if nanos < limit {
            return format!("{sign}{}{name}", decimal(nanos, unit));
        }
    }
    let seconds = nanos / 1_000_000_000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let rest = decimal(nanos % 60_000_000_000, 1_000_000_000);
    match (hours, minutes) {
        (0, 0) => format!("{sign}{rest}s"),
        (0, minutes) => format!("{sign}{minutes}m{rest}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{rest}s"),
    }
}

fn decimal(value: u128, unit: u128) -> String {
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let text = format!("{fraction:0digits$}");
    format!("{whole}.{}", text.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    #[test]
    fn durations_print_as_in_go() {
        for (text, want) in [
            ("2m", Some("2m0s")),
            ("90s", Some("1m30s")),
            ("1h", Some("1h0m0s")),
            ("1.5s", Some("1.5s")),
            ("1500ms", Some("1.5s")),
            ("250ms", Some("250ms")),
            ("1.5us", Some("1.5µs")),
            ("0", Some("0s")),
            ("1h30m10.25s", Some("1h30m10.25s")),
            ("-1m", Some("-1m0s")),
            ("", None),
            ("5", None),
            ("5x", None),
            (".s", None),
        ] {
            assert_eq!(super::canonical(text).as_deref(), want, "{text}");
        }
    }
}
