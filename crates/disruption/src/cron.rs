//! Cron schedules in UTC: five fields, or a name for a common one.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// A schedule without a hit in so many years has none: the longest gap there can be is eight, around a century's end,
/// and the reference gives up after five.
const YEARS: i64 = 5;

/// Each field is a set of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Days of the month and of the week are alternatives when both are restricted, and otherwise both hold.
    either_day: bool,
}

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
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(format!("a schedule has 5 fields, not {}: {text:?}", fields.len()));
        };
        let (days, any_day) = field(day, 1, 31, &[])?;
        let (weekdays, any_weekday) = field(weekday, 0, 6, &WEEKDAYS)?;
        Ok(Self {
            minutes: field(minute, 0, 59, &[])?.0,
            hours: field(hour, 0, 23, &[])?.0,
            days,
            months: field(month, 1, 12, &MONTHS)?.0,
            weekdays,
            either_day: !any_day && !any_weekday,
        })
    }

    /// Whether it has a hit after `from` and not after `to`.
    pub fn hits_between(&self, from: Timestamp, to: Timestamp) -> bool {
        self.next(from).is_some_and(|hit| hit <= to)
    }

    /// The first whole minute after `after` that matches.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(TimeZone::UTC).datetime();
        let last = start.checked_add(YEARS.years()).ok()?;
        let mut time = start.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(1.minute()).ok()?;
        while time < last {
            if !has(self.months, time.month()) || !self.is_day(time) {
                time = time.start_of_day().checked_add(1.day()).ok()?;
            } else if !has(self.hours, time.hour()) {
                time = time.with().minute(0).build().ok()?.checked_add(1.hour()).ok()?;
            } else if !has(self.minutes, time.minute()) {
                time = time.checked_add(1.minute()).ok()?;
            } else {
                return time.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
            }
        }
        None
    }

    fn is_day(&self, time: DateTime) -> bool {
        let day = has(self.days, time.day());
        let weekday = has(self.weekdays, time.weekday().to_sunday_zero_offset());
        if self.either_day { day || weekday } else { day && weekday }
    }
}

fn has(set: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| set & (1 << number) != 0)
}

/// The numbers a field names, and whether it is a plain `*`.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Result<(u64, bool), String> {
    let (mut set, mut any) = (0, false);
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step, &[], 0)?)),
            None => (part, None),
        };
        let star = range == "*" || range == "?";
        let (from, to) = match range.split_once('-') {
            _ if star => (least, most),
            Some((from, to)) => (number(from, names, least)?, number(to, names, least)?),
            // `5/15` means from 5 to the end.
            None if step.is_some() => (number(range, names, least)?, most),
            None => {
                let one = number(range, names, least)?;
                (one, one)
            }
        };
        let step = step.unwrap_or(1);
        if step == 0 || from < least || to > most || from > to {
            return Err(format!("{part:?} is not within {least} and {most}"));
        }
        any |= star && step == 1;
        set |= (from..=to).step_by(step as usize).fold(0, |set, number| set | 1 << number);
    }
    Ok((set, any))
}

fn number(text: &str, names: &[&str], least: u32) -> Result<u32, String> {
    let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    match named.and_then(|position| u32::try_from(position).ok()) {
        Some(position) => Ok(position + least),
        None => text.parse().map_err(|_| format!("{text:?} is not a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let found = Schedule::parse(schedule).unwrap().next(after.parse().unwrap());
        found.map_or("never".into(), |at| at.to_string())
    }

    #[test]
    fn schedules_hit_when_the_reference_says() {
        // covers: DIS-BUDGET-05
        let after = "2026-01-01T00:00:00Z"; // A Thursday.
        for (schedule, want) in [
            ("* * * * *", "2026-01-01T00:01:00Z"),
            ("0 9 * * mon-fri", "2026-01-01T09:00:00Z"),
            ("0 9 * * SAT", "2026-01-03T09:00:00Z"),
            ("*/15 * * * *", "2026-01-01T00:15:00Z"),
            ("5/20 * * * *", "2026-01-01T00:05:00Z"),
            ("0 0 1 * *", "2026-02-01T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-02T00:00:00Z"),  // Either day.
            ("0 0 */2 * 5", "2026-01-02T00:00:00Z"), // A step restricts.
            ("0 0 * * 5", "2026-01-02T00:00:00Z"),
            ("0 0 29 2 *", "2028-02-29T00:00:00Z"),
            ("0 0 31 2 *", "never"),
            ("@hourly", "2026-01-01T01:00:00Z"),
            ("@daily", "2026-01-02T00:00:00Z"),
            ("@weekly", "2026-01-04T00:00:00Z"),
            ("@yearly", "2027-01-01T00:00:00Z"),
            ("0 0,12 * jan,feb *", "2026-01-01T12:00:00Z"),
        ] {
            assert_eq!(next(schedule, after), want, "{schedule}");
        }
        assert_eq!(next("* * * * *", "2026-01-01T00:00:59.5Z"), "2026-01-01T00:01:00Z");
        for wrong in ["", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "a * * * *"] {
            assert!(Schedule::parse(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["*/0 * * * *", "5-1 * * * *", "1- * * * *", "@fortnightly"] {
            assert!(Schedule::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
