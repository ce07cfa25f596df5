//! Ages as kubectl shows them: two units at most, fewer the older it is.

use jiff::Timestamp;

/// The time since, or `<unknown>`.
pub fn since(time: Option<Timestamp>, now: Timestamp) -> String {
    match time {
        None => "<unknown>".into(),
        Some(time) => duration(now.duration_since(time).as_secs()),
    }
}

pub(super) fn duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    match seconds {
        n if n < -1 => "<invalid>".into(),
        n if n < 0 => "0s".into(),
        n if n < 120 => format!("{n}s"),
        n if n < 600 => match n % 60 {
            0 => format!("{minutes}m"),
            rest => format!("{minutes}m{rest}s"),
        },
        n if n < 3 * 3600 => format!("{minutes}m"),
        n if n < 8 * 3600 => match minutes % 60 {
            0 => format!("{hours}h"),
            rest => format!("{hours}h{rest}m"),
        },
        n if n < 48 * 3600 => format!("{hours}h"),
        n if n < 192 * 3600 => match hours % 24 {
            0 => format!("{days}d"),
            rest => format!("{days}d{rest}h"),
        },
        n if n < 2 * 365 * 86_400 => format!("{days}d"),
        n if n < 8 * 365 * 86_400 => match days % 365 {
            0 => format!("{}y", days / 365),
            rest => format!("{}y{rest}d", days / 365),
        },
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_units_at_most() {
        for (seconds, want) in [
            (5, "5s"),
            (119, "119s"),
            (150, "2m30s"),
            (600, "10m"),
            (7200, "120m"),
            (3 * 3600 + 60, "3h1m"),
            (9 * 3600, "9h"),
            (50 * 3600, "2d2h"),
            (400 * 86_400, "400d"),
            (800 * 86_400, "2y70d"),
        ] {
            assert_eq!(super::duration(seconds), want);
        }
    }
}
