//! Times as the API writes them: whole seconds for `Time`, six decimals for `MicroTime`, always UTC.

use jiff::Timestamp;

pub fn parse(text: &str) -> Result<Timestamp, jiff::Error> {
    text.parse()
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
    fn both_precisions() {
        let time = parse("2026-01-02T05:04:05.678901234+02:00").unwrap();
        assert_eq!(seconds(time), "2026-01-02T03:04:05Z");
        assert_eq!(micro(time), "2026-01-02T03:04:05.678901Z");
    }
}
