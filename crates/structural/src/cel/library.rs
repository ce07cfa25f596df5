//! What functions do. [`call`] finds the function for a name and the values it is given.

use std::rc::Rc;

pub(crate) use super::eval::Failure;
use super::value::{List, ListKind, Val, same_key};

pub(crate) mod base64;
mod convert;
mod format;
mod lists;
mod network;
pub(crate) mod quantity;
pub(crate) mod semver;
pub(crate) mod strings;
mod times;

pub(crate) type Outcome = Result<Val, Failure>;

pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Failed(message.into()))
}

pub(crate) fn no_overload<T>() -> Result<T, Failure> {
    fail("no such overload")
}

/// Functions that belong together; `None` for a call that is not one of theirs.
type Family = fn(&str, &[Val]) -> Option<Outcome>;

/// Calls a function; a method's target is its first argument.
pub(crate) fn call(function: &str, args: &[Val]) -> Outcome {
    if let Some(Val::Bad(what)) = args.iter().find(|arg| matches!(arg, Val::Bad(_))) {
        return fail(what.to_string());
    }
    if let Some(result) = operators(function, args) {
        return result;
    }
    let families: [Family; 8] = [
        convert::call,
        strings::call,
        lists::call,
        times::call,
        network::call,
        quantity::call,
        semver::call,
        format::call,
    ];
    families.iter().find_map(|family| family(function, args)).unwrap_or_else(no_overload)
}

fn operators(function: &str, args: &[Val]) -> Option<Outcome> {
    Some(match (function, args) {
        ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
        ("_==_", [a, b]) => Ok(Val::Bool(a.equals(b))),
        ("_!=_", [a, b]) => Ok(Val::Bool(!a.equals(b))),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => match a.order(b) {
            Some(order) => Ok(Val::Bool(match function {
                "_<_" => order.is_lt(),
                "_<=_" => order.is_le(),
                "_>_" => order.is_gt(),
                _ => order.is_ge(),
            })),
            // Nothing is less or more than what is not a number.
            None if matches!(
                (a, b),
                (Val::Double(_), Val::Double(_) | Val::Int(_) | Val::Uint(_))
                    | (Val::Int(_) | Val::Uint(_), Val::Double(_))
            ) =>
            {
                Ok(Val::Bool(false))
            }
            None => no_overload(),
        },
        ("@in", [item, Val::List(list)]) => Ok(Val::Bool(list.items.iter().any(|other| item.equals(other)))),
        ("@in", [key, Val::Map(map)]) => Ok(Val::Bool(key.key().is_some_and(|key| map.contains_key(&key)))),
        ("@min" | "@max", [Val::Int(a), Val::Int(b)]) => {
            Ok(Val::Int(if function == "@min" { *a.min(b) } else { *a.max(b) }))
        }
        ("@min" | "@max", [a, b]) => match (number(a), number(b)) {
            (Some(a), Some(b)) => Ok(Val::Double(if function == "@min" { a.min(b) } else { a.max(b) })),
            _ => no_overload(),
        },
        ("_+_", [a, b]) => add(a, b),
        ("_-_", [a, b]) => subtract(a, b),
        ("_*_", [Val::Int(a), Val::Int(b)]) => a.checked_mul(*b).map(Val::Int).ok_or_else(overflow),
        ("_*_", [Val::Uint(a), Val::Uint(b)]) => a.checked_mul(*b).map(Val::Uint).ok_or_else(overflow),
        ("_*_", [Val::Double(a), Val::Double(b)]) => Ok(Val::Double(a * b)),
        ("_/_", [Val::Int(_), Val::Int(0)]) | ("_/_", [Val::Uint(_), Val::Uint(0)]) => fail("division by zero"),
        ("_/_", [Val::Int(a), Val::Int(b)]) => a.checked_div(*b).map(Val::Int).ok_or_else(overflow),
        ("_/_", [Val::Uint(a), Val::Uint(b)]) => Ok(Val::Uint(a / b)),
        ("_/_", [Val::Double(a), Val::Double(b)]) => Ok(Val::Double(a / b)),
        ("_%_", [Val::Int(_), Val::Int(0)]) | ("_%_", [Val::Uint(_), Val::Uint(0)]) => fail("modulus by zero"),
        ("_%_", [Val::Int(a), Val::Int(b)]) => a.checked_rem(*b).map(Val::Int).ok_or_else(overflow),
        ("_%_", [Val::Uint(a), Val::Uint(b)]) => Ok(Val::Uint(a % b)),
        ("-_", [Val::Int(a)]) => a.checked_neg().map(Val::Int).ok_or_else(overflow),
        ("-_", [Val::Double(a)]) => Ok(Val::Double(-a)),
        ("_[_]", [Val::Optional(of), index]) => match of {
            None => Ok(Val::Optional(None)),
            Some(of) => Ok(Val::Optional(find(of, index).map(Rc::new))),
        },
        ("_[_]", [of, index]) => index_of(of, index),
        ("_[?_]", [Val::Optional(None), _]) => Ok(Val::Optional(None)),
        ("_[?_]", [Val::Optional(Some(of)), index]) => Ok(Val::Optional(find(of, index).map(Rc::new))),
        ("_[?_]", [of, index]) => Ok(Val::Optional(find(of, index).map(Rc::new))),
        ("size", [value]) => match value.size().map(i64::try_from) {
            Some(Ok(size)) => Ok(Val::Int(size)),
            _ => no_overload(),
        },
        ("optional.of", [value]) => Ok(Val::some(value.clone())),
        ("optional.none", []) => Ok(Val::Optional(None)),
        ("optional.ofNonZeroValue", [value]) => {
            Ok(if is_zero(value) { Val::Optional(None) } else { Val::some(value.clone()) })
        }
        ("value", [Val::Optional(value)]) => match value {
            Some(value) => Ok((**value).clone()),
            None => fail("optional.none() dereference"),
        },
        ("hasValue", [Val::Optional(value)]) => Ok(Val::Bool(value.is_some())),
        ("or", [Val::Optional(value), other]) => Ok(if value.is_some() { args[0].clone() } else { other.clone() }),
        ("orValue", [Val::Optional(value), other]) => {
            Ok(value.as_ref().map_or_else(|| other.clone(), |it| (**it).clone()))
        }
        ("cel.@mapInsert", [Val::Map(map), key, value]) => insert(map, [(key.clone(), value.clone())]),
        ("cel.@mapInsert", [Val::Map(map), Val::Map(more)]) => {
            insert(map, more.iter().map(|(key, value)| (key.val(), value.clone())))
        }
        _ => return None,
    })
}

fn number(value: &Val) -> Option<f64> {
    match value {
        Val::Int(number) => Some(*number as f64),
        Val::Double(number) => Some(*number),
        _ => None,
    }
}

fn insert(
    map: &Rc<std::collections::BTreeMap<super::value::Key, Val>>,
    more: impl IntoIterator<Item = (Val, Val)>,
) -> Outcome {
    let mut map = (**map).clone();
    for (key, value) in more {
        let Some(key) = key.key() else { return fail("unsupported key type") };
        if map.insert(key, value).is_some() {
            return fail("insert failed: key already exists");
        }
    }
    Ok(Val::Map(Rc::new(map)))
}

pub(crate) fn overflow() -> Failure {
    Failure::Failed("integer overflow".to_owned())
}

fn add(a: &Val, b: &Val) -> Outcome {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => a.checked_add(*b).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(a), Val::Uint(b)) => a.checked_add(*b).map(Val::Uint).ok_or_else(overflow),
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
        (Val::String(a), Val::String(b)) => Ok(Val::String(format!("{a}{b}").into())),
        (Val::Bytes(a), Val::Bytes(b)) => Ok(Val::Bytes([&**a, &**b].concat().into())),
        (Val::Duration(a), Val::Duration(b)) => a.checked_add(*b).map(Val::Duration).ok_or_else(overflow),
        (Val::Timestamp(seconds, nanoseconds), Val::Duration(by))
        | (Val::Duration(by), Val::Timestamp(seconds, nanoseconds)) => {
            times::shift(*seconds, *nanoseconds, i128::from(*by))
        }
        (Val::List(a), Val::List(b)) => Ok(Val::List(Rc::new(concat((**a).clone(), b)))),
        _ => no_overload(),
    }
}

/// Two lists as one: a set takes what it lacks, a keyed list replaces what has the same key.
pub(crate) fn concat(mut list: List, more: &List) -> List {
    match list.kind.clone() {
        ListKind::Plain => list.items.extend(more.items.iter().cloned()),
        ListKind::Set => {
            for item in &more.items {
                if !list.items.iter().any(|other| other.equals(item)) {
                    list.items.push(item.clone());
                }
            }
        }
        ListKind::Keyed(keys) => {
            for item in &more.items {
                match list.items.iter().position(|other| same_key(other, item, &keys)) {
                    Some(at) => list.items[at] = item.clone(),
                    None => list.items.push(item.clone()),
                }
            }
        }
    }
    list
}

fn subtract(a: &Val, b: &Val) -> Outcome {
    match (a, b) {
        (Val::Int(a), Val::Int(b)) => a.checked_sub(*b).map(Val::Int).ok_or_else(overflow),
        (Val::Uint(a), Val::Uint(b)) => {
            a.checked_sub(*b).map(Val::Uint).ok_or_else(|| Failure::Failed("unsigned integer overflow".to_owned()))
        }
        (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a - b)),
        (Val::Duration(a), Val::Duration(b)) => a.checked_sub(*b).map(Val::Duration).ok_or_else(overflow),
        (Val::Timestamp(seconds, nanoseconds), Val::Duration(by)) => {
            times::shift(*seconds, *nanoseconds, -i128::from(*by))
        }
        (Val::Timestamp(a, an), Val::Timestamp(b, bn)) => {
            let difference = (i128::from(*a) - i128::from(*b)) * 1_000_000_000 + i128::from(*an) - i128::from(*bn);
            i64::try_from(difference).map(Val::Duration).map_err(|_| overflow())
        }
        _ => no_overload(),
    }
}

fn find(of: &Val, index: &Val) -> Option<Val> {
    index_of(of, index).ok()
}

fn index_of(of: &Val, index: &Val) -> Outcome {
    match of {
        Val::List(list) => {
            let at = match index.key() {
                Some(super::value::Key::Int(at)) => at,
                Some(super::value::Key::Uint(at)) => i64::try_from(at).unwrap_or(i64::MAX),
                _ => return fail(format!("unsupported index type '{}' in list", index.type_name())),
            };
            match usize::try_from(at).ok().and_then(|at| list.items.get(at)) {
                Some(Val::Bad(what)) => fail(what.to_string()),
                Some(item) => Ok(item.clone()),
                None => fail(format!("index out of bounds: {at}")),
            }
        }
        Val::Map(map) => match index.key().and_then(|key| map.get(&key)) {
            Some(Val::Bad(what)) => fail(what.to_string()),
            Some(value) => Ok(value.clone()),
            None => fail(format!("no such key: {}", convert::text(index).unwrap_or_default())),
        },
        _ => no_overload(),
    }
}

fn is_zero(value: &Val) -> bool {
    match value {
        Val::Null => true,
        Val::Bool(value) => !value,
        Val::Int(value) => *value == 0,
        Val::Uint(value) => *value == 0,
        Val::Double(value) => *value == 0.0,
        Val::String(text) => text.is_empty(),
        Val::Bytes(bytes) => bytes.is_empty(),
        Val::Duration(value) => *value == 0,
        Val::List(list) => list.items.is_empty(),
        Val::Map(map) => map.is_empty(),
        Val::Optional(of) => of.is_none(),
        _ => false,
    }
}
