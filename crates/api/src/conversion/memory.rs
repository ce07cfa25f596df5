//! What one form of an object knows and the other does not, as a JSON merge patch.

use serde_json::{Map, Value};

/// The parts of an object that conversion may touch.
const PARTS: [&[&str]; 3] = [&["metadata", ANNOTATIONS], &["spec"], &["status"]];
/// Each annotation is a thing of its own, and a map without any is none.
const ANNOTATIONS: &str = "annotations";

/// What must be patched into `from` to get `to`, if anything.
pub(super) fn difference(from: &Value, to: &Value) -> Option<Value> {
    let mut patch = Value::Object(Map::new());
    for part in PARTS {
        let (old, new) = (at(from, part), at(to, part));
        if old == new {
            continue;
        }
        let change = match (old, new) {
            (Some(old), Some(new)) => diff(old, new),
            (None, Some(new)) => new.clone(),
            (Some(old), None) if part.contains(&ANNOTATIONS) => diff(old, &Map::new().into()),
            (_, None) => Value::Null,
        };
        set(&mut patch, part, change);
    }
    patch.as_object().is_some_and(|patch| !patch.is_empty()).then_some(patch)
}

/// The object with the patch, as far as it still holds: the whole of it, or else leaf by leaf.
pub(super) fn recall(object: &Value, patch: &Value, holds: impl Fn(&Value) -> bool) -> Value {
    let touched = |patch: &Value| {
        let mut candidate = object.clone();
        for part in PARTS {
            if let Some(change) = at(patch, part) {
                merge_at(&mut candidate, part, change);
            }
        }
        candidate
    };
    let whole = touched(patch);
    if holds(&whole) {
        return whole;
    }
    let mut kept = object.clone();
    for leaf in leaves(patch) {
        let mut candidate = kept.clone();
        for part in PARTS {
            if let Some(change) = at(&leaf, part) {
                merge_at(&mut candidate, part, change);
            }
        }
        if holds(&candidate) {
            kept = candidate;
        }
    }
    kept
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, field| value.get(*field))
}

fn set(value: &mut Value, path: &[&str], new: Value) {
    let mut place = value;
    for field in path {
        let Some(map) = place.as_object_mut() else { return };
        place = map.entry(*field).or_insert_with(|| Map::new().into());
    }
    *place = new;
}

fn merge_at(value: &mut Value, path: &[&str], change: &Value) {
    let Some((field, rest)) = path.split_first() else { return merge(value, change) };
    let Some(map) = value.as_object_mut() else { return };
    if rest.is_empty() && change.is_null() {
        map.shift_remove(*field);
        return;
    }
    merge_at(map.entry(*field).or_insert(Value::Null), rest, change);
    // Nothing is made of nothing.
    let empty = |value: &Value| *field == ANNOTATIONS && value.as_object().is_some_and(Map::is_empty);
    if map.get(*field).is_some_and(|value| value.is_null() || empty(value)) {
        map.shift_remove(*field);
    }
}

/// RFC 7386.
fn merge(target: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *target = change.clone();
        return;
    };
    if !target.is_object() {
        *target = Map::new().into();
    }
    let Some(map) = target.as_object_mut() else { return };
    for (key, value) in change {
        if value.is_null() {
            map.shift_remove(key);
        } else {
            merge(map.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn diff(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return to.clone() };
    let mut change = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        change.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => drop(change.insert(key.clone(), diff(before, value))),
            None => drop(change.insert(key.clone(), value.clone())),
        }
    }
    change.into()
}

/// The patch in pieces, each changing one thing.
fn leaves(patch: &Value) -> Vec<Value> {
    match patch {
        Value::Object(map) if !map.is_empty() => map
            .iter()
            .flat_map(|(key, value)| {
                leaves(value).into_iter().map(move |leaf| Map::from_iter([(key.clone(), leaf)]).into())
            })
            .collect(),
        other => vec![other.clone()],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_leads_from_one_to_the_other() {
        let from = json!({"metadata": {"name": "n", "annotations": {"a": "1", "b": "2"}}, "spec": {"x": {"y": 1, "z": 2}, "l": [1]}});
        let to = json!({"metadata": {"name": "n"}, "spec": {"x": {"y": 1, "w": {}}, "l": [1, 2]}, "status": {"s": 1}});
        let patch = difference(&from, &to).unwrap();
        assert_eq!(
            patch,
            json!({"metadata": {"annotations": {"a": null, "b": null}}, "spec": {"x": {"z": null, "w": {}}, "l": [1, 2]}, "status": {"s": 1}})
        );
        assert_eq!(recall(&from, &patch, |_| true), to);
        assert_eq!(difference(&to, &to), None);
    }

    #[test]
    fn what_no_longer_holds_is_forgotten_and_the_rest_is_not() {
        let patch = json!({"spec": {"a": 1, "b": {"c": 2}}});
        let kept = recall(&json!({"spec": {}}), &patch, |candidate| candidate["spec"].get("a").is_none());
        assert_eq!(kept, json!({"spec": {"b": {"c": 2}}}));
    }
}
