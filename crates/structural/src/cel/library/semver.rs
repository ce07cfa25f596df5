//! Semantic versions.

use std::cmp::Ordering;
use std::rc::Rc;

use super::super::value::Val;
use super::{Outcome, fail};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Semver {
    numbers: [u64; 3],
    pre: Vec<String>,
    build: Vec<String>,
}

impl Semver {
    /// Reads a version. `loose` takes a leading `v`, leading zeros and missing parts.
    fn parse(text: &str, loose: bool) -> Option<Self> {
        let text = if loose { text.strip_prefix('v').unwrap_or(text) } else { text };
        let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
        let mut parts: Vec<String> = core.split('.').map(str::to_owned).collect();
        if loose {
            if parts.len() < 3 && (pre.is_some() || build.is_some()) {
                return None;
            }
            for part in &mut parts {
                let trimmed = part.trim_start_matches('0');
                *part = if trimmed.is_empty() && !part.is_empty() { "0".to_owned() } else { trimmed.to_owned() };
            }
            while parts.len() < 3 {
                parts.push("0".to_owned());
            }
        }
        let [major, minor, patch] = parts.as_slice() else { return None };
        let number = |part: &String| {
            let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            (plain && (part.len() == 1 || !part.starts_with('0'))).then(|| part.parse().ok()).flatten()
        };
        let words = |text: Option<&str>, numbers: bool| match text {
            None => Some(Vec::new()),
            Some(text) => text
                .split('.')
                .map(|word| {
                    let legal =
                        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
                    let zeros = numbers
                        && word.len() > 1
                        && word.starts_with('0')
                        && word.bytes().all(|it| it.is_ascii_digit());
                    (legal && !zeros).then(|| word.to_owned())
                })
                .collect(),
        };
        Some(Self {
            numbers: [number(major)?, number(minor)?, number(patch)?],
            pre: words(pre, true)?,
            build: words(build, false)?,
        })
    }

    fn compare(&self, other: &Self) -> Ordering {
        let release = match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let word = |a: &String, b: &String| match (a.parse::<u64>(), b.parse::<u64>()) {
                    (Ok(a), Ok(b)) => a.cmp(&b),
                    (Ok(_), Err(_)) => Ordering::Less,
                    (Err(_), Ok(_)) => Ordering::Greater,
                    (Err(_), Err(_)) => a.cmp(b),
                };
                let differ = self.pre.iter().zip(&other.pre).map(|(a, b)| word(a, b)).find(|order| order.is_ne());
                differ.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
            }
        };
        self.numbers.cmp(&other.numbers).then(release)
    }
}

pub(super) fn call(function: &str, args: &[Val]) -> Option<Outcome> {
    let int = |value: u64| i64::try_from(value).map(Val::Int).map_err(|_| super::overflow());
    Some(match (function, args) {
        ("semver" | "isSemver", [Val::String(text), rest @ ..]) => {
            let loose = match rest {
                [] => false,
                [Val::Bool(loose)] => *loose,
                _ => return None,
            };
            let parsed = Semver::parse(text, loose);
            match (function, parsed) {
                ("isSemver", parsed) => Ok(Val::Bool(parsed.is_some())),
                (_, Some(parsed)) => Ok(Val::Semver(Rc::new(parsed))),
                (_, None) => fail(format!("No Major.Minor.Patch elements found in {}", crate::go::quote(text))),
            }
        }
        ("major", [Val::Semver(it)]) => int(it.numbers[0]),
        ("minor", [Val::Semver(it)]) => int(it.numbers[1]),
        ("patch", [Val::Semver(it)]) => int(it.numbers[2]),
        ("isGreaterThan", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Bool(a.compare(b).is_gt())),
        ("isLessThan", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Bool(a.compare(b).is_lt())),
        ("compareTo", [Val::Semver(a), Val::Semver(b)]) => Ok(Val::Int(a.compare(b) as i64)),
        _ => return None,
    })
}
