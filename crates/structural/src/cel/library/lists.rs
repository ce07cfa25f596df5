//! Lists and sets.

use std::cmp::Ordering;

use super::super::value::Val;
use super::{Outcome, call as call_function, fail, no_overload};

pub(super) fn call(function: &str, args: &[Val]) -> Option<Outcome> {
    if let ("lists.range", [Val::Int(count)]) = (function, args) {
        if *count > 1_000_000 {
            return Some(fail("range exceeds limit of 1000000"));
        }
        return Some(Ok(Val::list((0..*count).map(Val::Int).collect())));
    }
    let Some(Val::List(list)) = args.first() else { return None };
    let items = &list.items;
    Some(match (function, &args[1..]) {
        ("isSorted", []) => {
            let mut sorted = true;
            for pair in items.windows(2) {
                match pair[0].order(&pair[1]) {
                    Some(order) => sorted &= order.is_le(),
                    None => return Some(no_overload()),
                }
            }
            Ok(Val::Bool(sorted))
        }
        ("sum", []) => match items.split_first() {
            None => Ok(Val::Int(0)),
            Some((first, rest)) => {
                rest.iter().try_fold(first.clone(), |sum, item| call_function("_+_", &[sum, item.clone()]))
            }
        },
        ("max", []) => extreme(items, Ordering::Greater, "max"),
        ("min", []) => extreme(items, Ordering::Less, "min"),
        ("indexOf", [wanted]) => Ok(position(items.iter().position(|item| item.equals(wanted)))),
        ("lastIndexOf", [wanted]) => Ok(position(items.iter().rposition(|item| item.equals(wanted)))),
        ("slice", [Val::Int(from), Val::Int(to)]) => slice(items, *from, *to),
        ("flatten", []) => flatten(items, 1),
        ("flatten", [Val::Int(depth)]) if *depth < 0 => fail("level must be non-negative"),
        ("flatten", [Val::Int(depth)]) => flatten(items, *depth),
        ("sort", []) => sort_by(items, items),
        ("@sortByAssociatedKeys", [Val::List(keys)]) => sort_by(items, &keys.items),
        ("reverse", []) => Ok(Val::list(items.iter().rev().cloned().collect())),
        ("distinct", []) => {
            let mut out: Vec<Val> = Vec::new();
            for item in items {
                if !out.iter().any(|other| other.equals(item)) {
                    out.push(item.clone());
                }
            }
            Ok(Val::list(out))
        }
        ("sets.contains", [Val::List(others)]) => Ok(Val::Bool(contains(items, &others.items))),
        ("sets.equivalent", [Val::List(others)]) => {
            Ok(Val::Bool(contains(items, &others.items) && contains(&others.items, items)))
        }
        ("sets.intersects", [Val::List(others)]) => {
            Ok(Val::Bool(items.iter().any(|item| others.items.iter().any(|other| item.equals(other)))))
        }
        _ => return None,
    })
}

fn position(at: Option<usize>) -> Val {
    Val::Int(at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn contains(items: &[Val], wanted: &[Val]) -> bool {
    wanted.iter().all(|wanted| items.iter().any(|item| item.equals(wanted)))
}

fn extreme(items: &[Val], wanted: Ordering, name: &str) -> Outcome {
    let Some((first, rest)) = items.split_first() else { return fail(format!("{name} called on empty list")) };
    let mut best = first;
    for item in rest {
        match item.order(best) {
            Some(order) if order == wanted => best = item,
            Some(_) => {}
            None => return no_overload(),
        }
    }
    Ok(best.clone())
}

fn slice(items: &[Val], from: i64, to: i64) -> Outcome {
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if from < 0 || to < 0 {
        return fail(format!("cannot slice({from}, {to}), negative indexes not supported"));
    }
    if from > to {
        return fail(format!("cannot slice({from}, {to}), start index must be less than or equal to end index"));
    }
    if to > length {
        return fail(format!("cannot slice({from}, {to}), list is length {length}"));
    }
    let place = |at: i64| usize::try_from(at).unwrap_or_default();
    Ok(Val::list(items[place(from)..place(to)].to_vec()))
}

fn flatten(items: &[Val], depth: i64) -> Outcome {
    let mut out = Vec::new();
    for item in items {
        match item {
            Val::List(inner) if depth > 0 => match flatten(&inner.items, depth - 1)? {
                Val::List(inner) => out.extend(inner.items.iter().cloned()),
                other => out.push(other),
            },
            other => out.push(other.clone()),
        }
    }
    Ok(Val::list(out))
}

fn sort_by(items: &[Val], keys: &[Val]) -> Outcome {
    if items.len() != keys.len() {
        return fail("@sortByAssociatedKeys() expected a list of the same size as the associated keys list");
    }
    for pair in keys.windows(2) {
        if pair[0].type_name() != pair[1].type_name() {
            return fail("list elements must have the same type");
        }
        if pair[0].order(&pair[1]).is_none() {
            return fail("list elements must be comparable");
        }
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|a, b| keys[*a].order(&keys[*b]).unwrap_or(Ordering::Equal));
    Ok(Val::list(order.into_iter().map(|at| items[at].clone()).collect()))
}
