//! Times as the API writes them: whole seconds for `Time`, six decimals for `MicroTime`, always UTC.

use jiff::Timestamp;

pub fn parse(text: &str) -> Result<Timestamp, jiff::Error> {
    text.parse()
}

/// Whether this is surely a time as [`seconds`] writes it; some others are, too.
pub fn is_canonical(text: &str) -> bool {
    let Ok(bytes) = <&[u8; 20]>::try_from(text.as_bytes()) else { return false };
    let shaped = bytes.iter().zip(b"0000-00-00T00:00:00Z").all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => byte == shape,
    });
    // The 29th and later are left to those who know the calendar, and so are the years before a thousand.
    let two = |at: usize| u32::from(bytes[at].wrapping_sub(b'0')) * 10 + u32::from(bytes[at + 1].wrapping_sub(b'0'));
    shaped
        && bytes[0] != b'0'
        && (1..=12).contains(&two(5))
        && (1..=28).contains(&two(8))
        && two(11) < 24
        && two(14) < 60
        && two(17) < 60
}

/// `2026-01-02T03:04:05Z`.
pub fn seconds(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(time);
    whole.to_string()
}

/// `2026-01-02T03:04:05.000000Z`.
pub fn micro(time: Timestamp) -> String {
    let micros = time.as_nanosecond().div_euclid(1000).rem_euclid(1_000_000);
    let base = seconds(time);
    format!("{}.{micros:06}Z", base.trim_end_matches('Z'))
}

/// Go's message for text that is no time.
pub fn parse_error(text: &str, micro: bool) -> String {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    format!("parsing time \"{text}\" as \"{layout}\": cannot parse \"{text}\" as \"2006\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_canonical_is_written_as_it_is() {
        for text in ["2026-01-02T03:04:05Z", "1999-12-28T23:59:59Z"] {
            assert!(is_canonical(text));
            assert_eq!(seconds(parse(text).unwrap()), text);
        }
        for text in ["2026-13-02T03:04:05Z", "2026-02-30T03:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02 03:04:05Z", ""]
        {
            assert!(!is_canonical(text), "{text}");
        }
    }

    #[test]
    fn both_precisions() {
        let time = parse("2026-01-02T05:04:05.678901234+02:00").unwrap();
        assert_eq!(seconds(time), "2026-01-02T03:04:05Z");
        assert_eq!(micro(time), "2026-01-02T03:04:05.678901Z");
    }
}
