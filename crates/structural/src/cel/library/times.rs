//! Timestamps and durations. Time zones are offsets, or UTC: the names of others need a database that a pure crate has not.

use super::super::value::Val;
use super::{Outcome, fail};
use crate::time;

/// From year 1 to year 9999, as the specification has it.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

pub(super) fn timestamp(seconds: i64, nanoseconds: u32) -> Outcome {
    if (FIRST..=LAST).contains(&seconds) {
        Ok(Val::Timestamp(seconds, nanoseconds))
    } else {
        fail("timestamp overflow")
    }
}

pub(super) fn shift(seconds: i64, nanoseconds: u32, by: i128) -> Outcome {
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds) + by;
    let seconds = i64::try_from(total.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
    let nanoseconds = u32::try_from(total.rem_euclid(1_000_000_000)).unwrap_or_default();
    timestamp(seconds, nanoseconds)
}

pub(super) fn text(seconds: i64, nanoseconds: u32) -> String {
    let (year, month, day) = time::date(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let mut out =
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60);
    if nanoseconds > 0 {
        out.push('.');
        out.push_str(format!("{nanoseconds:09}").trim_end_matches('0'));
    }
    out.push('Z');
    out
}

/// A duration in seconds, as `string()` gives it.
pub(super) fn seconds_text(nanoseconds: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "the reference prints a float of seconds")]
    let seconds = nanoseconds as f64 / 1e9;
    format!("{seconds}s")
}

pub(super) fn call(function: &str, args: &[Val]) -> Option<Outcome> {
    match args {
        [Val::Duration(nanoseconds)] => {
            let unit = match function {
                "getHours" => 3_600_000_000_000,
                "getMinutes" => 60_000_000_000,
                "getSeconds" => 1_000_000_000,
                "getMilliseconds" => 1_000_000,
                _ => return None,
            };
            Some(Ok(Val::Int(nanoseconds / unit)))
        }
        [Val::Timestamp(seconds, nanoseconds)] => part(function, *seconds, *nanoseconds),
        [Val::Timestamp(seconds, nanoseconds), Val::String(zone)] => match offset(zone) {
            Some(offset) => part(function, seconds + offset, *nanoseconds),
            None => Some(fail(format!("unknown time zone {zone}"))),
        },
        _ => None,
    }
}

fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "UTC" | "utc" | "Z" | "") {
        return Some(0);
    }
    let (sign, rest) = match zone.as_bytes().first()? {
        b'-' => (-1, &zone[1..]),
        b'+' => (1, &zone[1..]),
        _ => (1, zone),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 23 && (0..=59).contains(&minutes) && hours >= 0).then_some(sign * (hours * 3600 + minutes * 60))
}

fn part(function: &str, seconds: i64, nanoseconds: u32) -> Option<Outcome> {
    let days = seconds.div_euclid(86_400);
    let of_day = seconds.rem_euclid(86_400);
    let (year, month, day) = time::date(days);
    Some(Ok(Val::Int(match function {
        "getFullYear" => year,
        "getMonth" => month - 1,
        "getDayOfYear" => days - time::days(year, 1, 1)?,
        "getDayOfMonth" => day - 1,
        "getDate" => day,
        "getDayOfWeek" => (days + 4).rem_euclid(7),
        "getHours" => of_day / 3600,
        "getMinutes" => of_day / 60 % 60,
        "getSeconds" => of_day % 60,
        "getMilliseconds" => i64::from(nanoseconds / 1_000_000),
        _ => return None,
    })))
}
