//! Budgets, minute by minute.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use karpenter_core::labels::NODEPOOL;
use karpenter_core::node::Stage;
use karpenter_disruption::{Budget, Command, Method, Snapshot};

use super::Fault;

/// The methods in the order in which they are tried: a later one sees what an earlier one takes.
const ORDER: [Method; 5] = [Method::Empty, Method::StaticDrift, Method::Drift, Method::Multi, Method::Single];

pub(super) fn judge(snapshot: &Snapshot<'_>, commands: &[Command], found: &mut Vec<Fault>) {
    for (name, pool) in &snapshot.pools {
        let mine = snapshot.world.nodes.iter().zip(&snapshot.nodes).filter(|(node, facts)| {
            let counts = node.stage == Stage::Initialized && node.has_node && !facts.instance_terminating;
            counts && node.labels.get(NODEPOOL).map(String::as_str) == Some(name)
        });
        let mine: Vec<_> = mine.collect();
        let gone = mine.iter().filter(|(node, facts)| node.deleting || !facts.ready).count();
        let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
        for method in ORDER {
            let of = commands.iter().filter(|command| command.method == method);
            let count = of.flat_map(|command| &command.candidates).filter(|candidate| candidate.pool == *name).count();
            *taken.entry(method.reason()).or_default() += count;
        }
        let all: usize = taken.values().sum();
        for (reason, count) in taken.iter().filter(|(_, count)| **count > 0) {
            let allowed = allowed(&pool.budgets, mine.len(), reason, snapshot.world.now);
            // Whatever the order, the last one taken for a reason found no more than its budget taken; and the last of all
            // was taken for some reason.
            let alone = gone + count > allowed;
            let together = taken
                .iter()
                .filter(|(_, count)| **count > 0)
                .all(|(other, _)| gone + all > self::allowed(&pool.budgets, mine.len(), other, snapshot.world.now));
            if alone || together {
                let what =
                    format!("pool {name} loses {count} of {all} for {reason}, {gone} are gone, {allowed} may be");
                found.push(Fault { command: None, what });
            }
        }
    }
}

/// How many of so many nodes budgets let go for a reason at this time.
pub fn allowed(budgets: &[Budget], nodes: usize, reason: &str, now: Timestamp) -> usize {
    let mut least = usize::MAX;
    for budget in budgets {
        let Some(active) = is_active(budget, now) else { return 0 };
        let number = match budget.nodes.strip_suffix('%') {
            Some(percent) => percent.parse::<usize>().ok().map(|percent| (nodes * percent).div_ceil(100)),
            None => budget.nodes.parse().ok(),
        };
        let Some(number) = number else { return 0 };
        let concerned = budget.reasons.as_ref().is_none_or(|reasons| reasons.iter().any(|listed| listed == reason));
        if active && concerned {
            least = least.min(number);
        }
    }
    least
}

/// Some minute of the last `duration` is one of the schedule's.
fn is_active(budget: &Budget, now: Timestamp) -> Option<bool> {
    let (Some(schedule), Some(duration)) = (&budget.schedule, budget.duration) else {
        return Some(budget.schedule.is_none() && budget.duration.is_none());
    };
    hits(schedule, now)?;
    let minutes = i64::try_from(duration.as_secs().div_ceil(60)).ok()?;
    let start = now.checked_sub(duration).ok()?;
    for back in 0..=minutes {
        let minute = now.as_second().div_euclid(60) - back;
        let time = Timestamp::from_second(minute * 60).ok()?;
        if time > start && time <= now && hits(schedule, time)? {
            return Some(true);
        }
    }
    Some(false)
}

fn hits(schedule: &str, time: Timestamp) -> Option<bool> {
    let spelled = match schedule {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other => other,
    };
    let fields: Vec<&str> = spelled.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else { return None };
    let at = time.to_zoned(TimeZone::UTC);
    let (days, weekdays) =
        (has(day, at.day(), 1, &[])?, has(weekday, at.weekday().to_sunday_zero_offset(), 0, &WEEKDAYS)?);
    let free = |field: &str| field.split(',').any(|part| part == "*" || part == "?");
    let on_day = if free(day) || free(weekday) { days && weekdays } else { days || weekdays };
    let on_time = has(minute, at.minute(), 0, &[])? && has(hour, at.hour(), 0, &[])?;
    Some(on_time && has(month, at.month(), 1, &MONTHS)? && on_day)
}

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const MONTHS: [&str; 13] = ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// `first` is the least the field can be: steps of `*` count from there.
fn has(field: &str, value: i8, first: i64, names: &[&str]) -> Option<bool> {
    let value = i64::from(value);
    let number = |text: &str| -> Option<i64> {
        let named = names.iter().position(|name| !name.is_empty() && name.eq_ignore_ascii_case(text));
        named.and_then(|at| i64::try_from(at).ok()).or_else(|| text.parse().ok())
    };
    let mut any = false;
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<i64>().ok()?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (i64::MIN, i64::MAX),
            Some((from, to)) => (number(from)?, number(to)?),
            None if step.is_some() => (number(range)?, i64::MAX),
            None => (number(range)?, number(range)?),
        };
        let origin = if from == i64::MIN { first } else { from };
        any |= (from..=to).contains(&value) && step.is_none_or(|step| step > 0 && (value - origin) % step == 0);
    }
    Some(any)
}
