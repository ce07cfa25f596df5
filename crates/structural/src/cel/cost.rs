//! What an expression costs: the price of each call as it is made, and in [`estimate`] the most that an expression can
//! cost on values of the sizes a schema allows.

use super::value::Val;

mod estimate;

pub(crate) use estimate::estimate;

/// `size * per`, rounded up.
pub(crate) fn factor(size: u64, per: f64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "costs saturate"
    )]
    let cost = (size as f64 * per).ceil() as u64;
    cost
}

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;

/// The price of a call that is about to be made.
pub(crate) fn of_call(function: &str, args: &[Val], overload: &str) -> u64 {
    let size = |at: usize| sizes(args.get(at));
    let regex = |text: u64, pattern: u64| factor(text + 1, TRAVERSAL).saturating_mul(factor(pattern, REGEX));
    match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => args.first().map_or(0, traversal),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR" | "quantity"
        | "isQuantity" | "semver" | "isSemver" => factor(size(0), TRAVERSAL),
        "ip" if overload != "cidr_ip" => factor(size(0), TRAVERSAL),
        "replace" | "split" | "ip.isCanonical" => factor(size(0), 2.0 * TRAVERSAL),
        "join" => 0, // by the size of what comes out
        "matches" if overload == "matches" => 1,
        "find" | "findAll" | "matches" => regex(size(0), size(1)),
        "contains" => factor(size(0), TRAVERSAL).saturating_mul(factor(size(1), TRAVERSAL)),
        "startsWith" | "endsWith" => factor(size(0), TRAVERSAL),
        "containsIP" => {
            let text = if overload == "cidr_contains_ip_string" { factor(size(1), TRAVERSAL) } else { 0 };
            factor(2 * size(0), TRAVERSAL) + text
        }
        "containsCIDR" => {
            let text = if overload == "cidr_contains_cidr_string" { factor(size(1), TRAVERSAL) } else { 0 };
            factor(2 * size(0), TRAVERSAL) + factor(size(0), TRAVERSAL) + 1 + text
        }
        "validate" => regex(size(1), 60),
        "@in" if overload == "in_list" => size(1),
        "format" | "strings.quote" => factor(size(0), TRAVERSAL),
        "bytes" | "string" if matches!(overload, "string_to_bytes" | "bytes_to_string") => factor(size(0), TRAVERSAL),
        "_+_" if matches!(overload, "add_string" | "add_bytes") => factor(size(0) + size(1), TRAVERSAL),
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => {
            let smaller = sizes(args.first()).min(sizes(args.get(1)));
            factor(smaller, TRAVERSAL)
        }
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)) + 1,
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2) + 1,
        "sort" | "distinct" => compared_lists(args.first()),
        "@sortByAssociatedKeys" => compared_lists(args.get(1)),
        "lists.range" => match args.first() {
            Some(Val::Int(count)) => u64::try_from(*count).unwrap_or(0) + 11,
            _ => 1,
        },
        "flatten" | "reverse" | "slice" => size(0) + 11,
        _ => 1,
    }
}

/// Every element with every other.
fn compared_lists(list: Option<&Val>) -> u64 {
    let Some(Val::List(list)) = list else { return 1 };
    let count = list.items.len() as u64;
    let texts = matches!(list.items.first(), Some(Val::String(_) | Val::Bytes(_)));
    factor(count.saturating_mul(count), if texts { 2.1 } else { 2.0 }) + 11
}

fn sizes(value: Option<&Val>) -> u64 {
    match value {
        Some(Val::Optional(Some(inside))) => sizes(Some(inside)),
        value => value.and_then(Val::size).unwrap_or(1),
    }
}

fn traversal(value: &Val) -> u64 {
    match value {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "cut, as the reference does"
        )]
        Val::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "cut, as the reference does"
        )]
        Val::Bytes(bytes) => (bytes.len() as f64 * TRAVERSAL) as u64,
        Val::List(list) => list.items.iter().map(traversal).sum(),
        Val::Map(map) => map.iter().map(|(key, value)| traversal(&key.val()) + traversal(value)).sum(),
        _ => 1,
    }
}
