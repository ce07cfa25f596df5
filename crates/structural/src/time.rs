//! Durations as Go reads them, times and dates.

/// `time.ParseDuration`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let whole_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (whole, after) = rest.split_at(whole_end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => {
                let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                after.split_at(end)
            }
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let scale: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(scale)?)?;
        let mut part = scale;
        let mut sum: u128 = 0;
        // Go adds the fraction as a float; nanoseconds are what is left after cutting it.
        let mut value: u128 = 0;
        let mut places: u32 = 0;
        for digit in fraction.bytes().take(18) {
            value = value * 10 + u128::from(digit - b'0');
            places += 1;
        }
        if places > 0 {
            part = part.checked_mul(value)?;
            sum += part / 10u128.pow(places);
        }
        total = total.checked_add(sum)?;
        if total > 1 << 63 {
            return None;
        }
        rest = after;
    }
    if negative {
        return i64::try_from(-i128::try_from(total).ok()?).ok();
    }
    i64::try_from(total).ok()
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar; `None` if there is no such day.
pub(crate) fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// The date of a day since 1970-01-01.
pub(crate) fn date(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * of_year + 2) / 153;
    let day = of_year - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A `2006-01-02`, as days since 1970-01-01.
pub(crate) fn parse_date(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' || !text.is_ascii() {
        return None;
    }
    let number = |from: usize, to: usize| {
        let part = &text[from..to];
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i64>().ok()).flatten()
    };
    days(number(0, 4)?, number(5, 7)?, number(8, 10)?)
}

/// An RFC 3339 time, as (seconds since 1970, nanoseconds).
pub(crate) fn parse_rfc3339(text: &str) -> Option<(i64, u32)> {
    if !text.is_ascii() || text.len() < 20 || !matches!(text.as_bytes()[10], b'T') {
        return None;
    }
    let day = parse_date(&text[..10])?;
    let two = |at: usize| {
        let part = text.get(at..at + 2)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i64>().ok()).flatten()
    };
    let bytes = text.as_bytes();
    if bytes[13] != b':' || bytes[16] != b':' {
        return None;
    }
    let (hour, minute, second) = (two(11)?, two(14)?, two(17)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = &text[19..];
    let mut nanoseconds = 0u32;
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        if end == 0 {
            return None;
        }
        let digits: String = fraction[..end].chars().chain("000000000".chars()).take(9).collect();
        nanoseconds = digits.parse().ok()?;
        rest = &fraction[end..];
    }
    let offset = match rest {
        "Z" => 0,
        _ => {
            let sign = match rest.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let at = text.len() - rest.len() + 1;
            if rest.len() != 6 || rest.as_bytes()[3] != b':' {
                return None;
            }
            let (hours, minutes) = (two(at)?, two(at + 3)?);
            if hours > 24 || minutes > 59 {
                return None;
            }
            sign * (hours * 3600 + minutes * 60)
        }
    };
    Some((day * 86_400 + hour * 3600 + minute * 60 + second - offset, nanoseconds))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_as_in_go() {
        for (text, want) in [
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            (".5ms", Some(500_000)),
            ("0", Some(0)),
            ("1µs", Some(1_000)),
            ("720h", Some(2_592_000_000_000_000)),
            ("", None),
            ("1", None),
            ("1d", None),
            ("s", None),
            ("9999999h", None),
        ] {
            assert_eq!(parse_duration(text), want, "{text}");
        }
    }

    #[test]
    fn times_as_in_rfc3339() {
        assert_eq!(parse_rfc3339("1970-01-02T00:00:01.5Z"), Some((86_401, 500_000_000)));
        assert_eq!(parse_rfc3339("2026-01-01T02:00:00+02:00"), Some((1_767_225_600, 0)));
        assert_eq!(parse_rfc3339("2026-02-29T00:00:00Z"), None);
    }

    proptest! {
        #[test]
        fn dates_come_back(day in -700_000i64..2_900_000) {
            let (year, month, of_month) = date(day);
            prop_assert_eq!(days(year, month, of_month), Some(day));
        }
    }
}
