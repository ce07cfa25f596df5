//! Cron schedules: five fields, or a name for a common one.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// With both restricted a day matches if either does, as cron always had it.
    any_day: bool,
    any_weekday: bool,
    every: Option<i64>,
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        if let Some(duration) = text.strip_prefix("@every ") {
            let span: jiff::SignedDuration =
                duration.trim().parse().map_err(|_| format!("failed to parse duration {text}"))?;
            let every = Some(span.as_secs().max(1));
            return Ok(Self {
                minutes: 0,
                hours: 0,
                days: 0,
                months: 0,
                weekdays: 0,
                any_day: true,
                any_weekday: true,
                every,
            });
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: [{text}]", fields.len()));
        };
        let any = |field: &str| field == "*" || field == "?" || field.starts_with("*/");
        let weekdays = field(weekday, 0, 7, &WEEKDAYS)?;
        Ok(Self {
            minutes: field(minute, 0, 59, &[])?,
            hours: field(hour, 0, 23, &[])?,
            days: field(day, 1, 31, &[])?,
            months: field(month, 1, 12, &MONTHS)?,
            // Seven is Sunday, too.
            weekdays: (weekdays | (weekdays >> 7)) & 0x7f,
            any_day: any(day),
            any_weekday: any(weekday),
            every: None,
        })
    }

    /// The first time after `after`; `None` if there is none within five years.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if let Some(seconds) = self.every {
            return after.checked_add(seconds.seconds()).ok();
        }
        let start = after.to_zoned(zone.clone()).datetime();
        let mut time = start.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(1.minute()).ok()?;
        let last = start.checked_add(5.years()).ok()?;
        while time < last {
            if let Some(later) = self.skip(time) {
                time = later;
                continue;
            }
            let found = zone.to_ambiguous_zoned(time).compatible().ok()?.timestamp();
            if found > after {
                return Some(found);
            }
            time = time.checked_add(1.minute()).ok()?;
        }
        None
    }

    /// The next time worth a look if this one does not match.
    fn skip(&self, time: DateTime) -> Option<DateTime> {
        let bit = |set: u64, n: i8| set & (1 << n) != 0;
        if !bit(self.months, time.month()) {
            let next = time.date().first_of_month().checked_add(1.month()).ok()?;
            return Some(next.at(0, 0, 0, 0));
        }
        let day = bit(self.days, time.day());
        let weekday = bit(self.weekdays, time.weekday().to_sunday_zero_offset());
        let matches = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        if !matches {
            return Some(time.date().checked_add(1.day()).ok()?.at(0, 0, 0, 0));
        }
        if !bit(self.hours, time.hour()) {
            return time.with().minute(0).build().ok()?.checked_add(1.hour()).ok();
        }
        if !bit(self.minutes, time.minute()) {
            return time.checked_add(1.minute()).ok();
        }
        None
    }
}

fn field(text: &str, low: u64, high: u64, names: &[&str]) -> Result<u64, String> {
    let value = |word: &str| -> Result<u64, String> {
        let lower = word.to_ascii_lowercase();
        if let Some(i) = names.iter().position(|n| *n == lower) {
            return Ok(i as u64 + if names.len() == 12 { 1 } else { 0 });
        }
        word.parse().map_err(|_| format!("failed to parse int from {word}"))
    };
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                (range, Some(step.parse::<u64>().map_err(|_| format!("failed to parse int from {step}"))?))
            }
            None => (part, None),
        };
        let (from, to) = match range {
            "*" | "?" => (low, if high == 7 { 6 } else { high }),
            _ => match range.split_once('-') {
                Some((from, to)) => (value(from)?, value(to)?),
                None if step.is_some() => (value(range)?, high),
                None => (value(range)?, value(range)?),
            },
        };
        let step = step.unwrap_or(1);
        if from < low || to > high || from > to || step == 0 {
            return Err(format!("{part} is not within {low} and {high}"));
        }
        (from..=to).step_by(step as usize).for_each(|n| set |= 1 << n);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_find_their_next_time() {
        for (schedule, after, next) in [
            ("*/15 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:15:00Z"),
            ("0 * * * *", "2026-01-01T00:30:10Z", "2026-01-01T01:00:00Z"),
            ("@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("30 6 * * mon-fri", "2026-01-02T07:00:00Z", "2026-01-05T06:30:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 12 * jan,jul 7", "2026-02-01T00:00:00Z", "2026-07-05T12:00:00Z"),
            ("@every 90s", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
        ] {
            let found = Schedule::parse(schedule).unwrap().next(after.parse().unwrap(), &TimeZone::UTC);
            assert_eq!(found, Some(next.parse().unwrap()), "{schedule}");
        }
        for bad in ["", "* * * *", "60 * * * *", "* * 0 * *", "*/0 * * * *", "a * * * *", "5-1 * * * *"] {
            assert!(Schedule::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(
            Schedule::parse("0 0 31 2 *").unwrap().next("2026-01-01T00:00:00Z".parse().unwrap(), &TimeZone::UTC),
            None
        );
    }
}
