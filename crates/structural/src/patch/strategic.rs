//! Strategic merge patch: a merge patch that knows which lists are merged, by which key, and obeys the directives
//! `$patch`, `$deleteFromPrimitiveList/…`, `$setElementOrder/…` and `$retainKeys`.

use serde_json::{Map, Value};

use super::PatchError;
use crate::go;
use crate::shape::{MapShape, Shape, Strategy};

mod order;

use order::{partition, put_in_order};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch, given decoded, to an object of a built-in kind. Custom resources have no strategies;
/// the server answers 415 for them before it comes to this.
pub fn strategic_merge_patch(document: &Value, patch: &Value, shape: Shape<'_>) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::BadRequest(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go::json_kind(patch)
        )));
    };
    let document = document.as_object().cloned().unwrap_or_default();
    merge_map(document, patch.clone(), Some(shape)).map(Value::Object)
}

type Fields = Map<String, Value>;
type Result<T, E = PatchError> = std::result::Result<T, E>;

fn merge_map(mut original: Fields, mut patch: Fields, shape: Option<Shape<'_>>) -> Result<Fields> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.shift_remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Fields::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    merge_ordered_lists(&mut original, &mut patch, shape)?;

    for (key, change) in patch {
        let deletes = key.starts_with(DELETE_FROM);
        let key = if deletes { directive_target(&key, DELETE_FROM)? } else { key };
        if change.is_null() {
            original.shift_remove(&key);
            continue;
        }
        let merged = match (original.shift_remove_entry_in_place(&key), change) {
            (Some(Value::Object(old)), Value::Object(change)) => {
                let (under, strategy, _) = lookup(shape, &key)?;
                match strategy {
                    Strategy::Replace => Value::Object(change),
                    Strategy::Merge | Strategy::Unset => Value::Object(merge_map(old, change, under)?),
                }
            }
            (Some(Value::Array(old)), Value::Array(change)) => {
                let (element, strategy, merge_key) = lookup_list(shape, &key)?;
                if strategy == Strategy::Merge || deletes {
                    Value::Array(merge_list(old, change, element, merge_key, deletes)?)
                } else {
                    Value::Array(change)
                }
            }
            (Some(old), _) if deletes => old,
            (None, _) if deletes => continue,
            (old, mut change) => {
                // A scalar in the place of a scalar keeps its nulls, for it has none; anything new loses them.
                if old.is_none() || old.as_ref().is_some_and(|old| kind(old) != kind(&change)) {
                    discard_nulls(&mut change);
                }
                match without_directives(change) {
                    Some(value) => value,
                    None => {
                        original.shift_remove(&key);
                        continue;
                    }
                }
            }
        };
        original.insert(key, merged);
    }
    Ok(original)
}

/// Takes a value out while its key keeps its place, so that a merged field stays where it was.
trait TakeInPlace {
    fn shift_remove_entry_in_place(&mut self, key: &str) -> Option<Value>;
}

impl TakeInPlace for Fields {
    fn shift_remove_entry_in_place(&mut self, key: &str) -> Option<Value> {
        self.get_mut(key).map(std::mem::take)
    }
}

/// The type of the value under a key, and how it is patched.
fn lookup<'a>(shape: Option<Shape<'a>>, key: &str) -> Result<(Option<Shape<'a>>, Strategy, Option<&'a str>)> {
    let Some(shape) = shape else {
        return Ok((None, Strategy::Unset, None));
    };
    let map: Option<MapShape<'a>> = shape.map();
    match map {
        Some(map) if map.is_struct() => match map.field(key) {
            Some(field) => Ok((map.under(key), field.patch.strategy, field.patch.merge_key.as_deref())),
            None => Err(PatchError::Unexpected(format!(
                "unable to find api field in struct {} for the json field {}",
                shape.type_name(),
                go::quote(key)
            ))),
        },
        _ => {
            let kind = if map.is_some() { "map" } else { "slice" };
            Err(PatchError::Unexpected(format!(
                "merging an object in json but data type is not struct, instead is: {kind}"
            )))
        }
    }
}

fn lookup_list<'a>(shape: Option<Shape<'a>>, key: &str) -> Result<(Option<Shape<'a>>, Strategy, Option<&'a str>)> {
    let (list, strategy, merge_key) = lookup(shape, key)?;
    match list.map(|list| list.list()) {
        None => Ok((None, strategy, merge_key)),
        Some(Some(list)) => Ok((Some(list.element), strategy, merge_key)),
        Some(None) => Err(PatchError::Unexpected("expected slice or array type, but got: struct".to_owned())),
    }
}

fn merge_list(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    element: Option<Shape<'_>>,
    merge_key: Option<&str>,
    deletes: bool,
) -> Result<Vec<Value>> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !elements_are_maps(&[&original, &patch])? {
        if deletes {
            original.retain(|item| !patch.contains(item));
            return Ok(original);
        }
        let mut merged = original.clone();
        merged.extend(patch.iter().cloned());
        deduplicate(&mut merged);
        let (in_patch, server_only) = partition(merged, &patch, merge_key)?;
        return put_in_order(in_patch, server_only, &patch, &original, None);
    }
    let Some(merge_key) = merge_key else {
        let name = if element.and_then(Shape::map).is_some() { "struct" } else { "map" };
        return Err(PatchError::Unexpected(format!("cannot merge lists without merge key for {name}")));
    };

    let (mut original, patch) = special_elements(original, patch, merge_key)?;
    let order: Vec<Value> = original.clone();
    for item in &patch {
        let fields = item.as_object().expect("all elements are maps");
        let wanted = fields.get(merge_key).ok_or_else(|| no_merge_key(fields, merge_key))?;
        match original.iter().position(|old| old.get(merge_key) == Some(wanted)) {
            Some(at) => {
                let Value::Object(old) = std::mem::take(&mut original[at]) else {
                    return Err(PatchError::Unexpected(format!("value for key {at} is not a map")));
                };
                original[at] = Value::Object(merge_map(old, fields.clone(), element)?);
            }
            None => original.push(item.clone()),
        }
    }
    let (in_patch, server_only) = partition(original, &patch, Some(merge_key))?;
    put_in_order(in_patch, server_only, &patch, &order, Some(merge_key))
}

/// Obeys the `$patch` of list elements: what is left of the original, and the elements to merge into it.
fn special_elements(mut original: Vec<Value>, patch: Vec<Value>, merge_key: &str) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let fields = item.as_object().expect("all elements are maps");
        let Some(directive) = fields.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let wanted = fields.get(merge_key).ok_or_else(|| no_merge_key(fields, merge_key))?;
                original.retain(|old| old.get(merge_key) != Some(wanted));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::Unexpected("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => return Err(unknown_directive(directive, fields)),
        }
    }
    if replace { Ok((plain, Vec::new())) } else { Ok((original, plain)) }
}

/// `$retainKeys`: what the patch does not list goes away.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<()> {
    let Some(list) = patch.shift_remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let Value::Array(list) = list else { return Err(bad()) };
    let listed = |key: &str| list.iter().any(|item| item.as_str() == Some(key));
    for (key, value) in &*patch {
        let directive = key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER);
        if !value.is_null() && !directive && !listed(key) {
            return Err(bad());
        }
    }
    original.retain(|key, _| listed(key));
    Ok(())
}

/// `$setElementOrder/…`: merges the lists it is about right away, and puts them in that order.
fn merge_ordered_lists(original: &mut Fields, patch: &mut Fields, shape: Option<Shape<'_>>) -> Result<()> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = match patch.shift_remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(bad_type("[]interface {}", &other.unwrap_or(Value::Null))),
        };
        let key = directive_target(&directive, SET_ORDER)?;
        let old = original.get(&key).map(as_list).transpose()?;
        let change = patch.get(&key).map(as_list).transpose()?;
        let (element, strategy, merge_key) = lookup_list(shape, &key)?;
        order_agrees(change.as_deref().unwrap_or_default(), &order, merge_key)?;
        let server_order = old.clone().unwrap_or_default();
        let patch_items = change.clone().unwrap_or_default();
        let merged = match (old, change) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(change)) => change.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(change)) if strategy == Strategy::Merge => {
                merge_list(old, change, element, merge_key, false)?
            }
            (Some(_), Some(change)) => change,
        };
        let (in_order, server_only) = partition(merged, &order, merge_key)?;
        let maps = elements_are_maps(&[&server_order, &patch_items])?;
        let by = merge_key.filter(|_| maps);
        let both = put_in_order(in_order, server_only, &order, &server_order, by)?;
        original.insert(key.clone(), Value::Array(both));
        patch.shift_remove(&key);
    }
    Ok(())
}

fn as_list(value: &Value) -> Result<Vec<Value>> {
    value.as_array().cloned().ok_or_else(|| bad_type("[]interface {}", value))
}

/// The elements of a patch must come in the order it sets.
fn order_agrees(patch: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = Vec::with_capacity(patch.len());
    for item in patch {
        if merge_key.is_some() && !item.is_object() {
            return Err(bad_type("map[string]interface {}", item));
        }
        if item.get(DIRECTIVE).is_none() {
            wanted.push(item);
        }
    }
    let mut rest = wanted.iter().peekable();
    for place in order {
        let Some(item) = rest.peek() else { return Ok(()) };
        let same = match merge_key {
            None => **item == place,
            Some(merge_key) => key_of(item, merge_key)? == key_of(place, merge_key)?,
        };
        if same {
            rest.next();
        }
    }
    if rest.peek().is_some() {
        return Err(PatchError::Unexpected(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            go::display(&Value::Array(patch.to_vec())),
            go::display(&Value::Array(order.to_vec())),
        )));
    }
    Ok(())
}

fn key_of<'a>(item: &'a Value, merge_key: &str) -> Result<&'a Value> {
    let fields = item.as_object().ok_or_else(|| bad_type("map[string]interface {}", item))?;
    fields.get(merge_key).ok_or_else(|| no_merge_key(fields, merge_key))
}

fn directive_target(key: &str, prefix: &str) -> Result<String> {
    match key.split_once('/') {
        Some((head, target)) if head == prefix => Ok(target.to_owned()),
        _ => Err(PatchError::BadRequest(
            match prefix {
                DELETE_FROM => "invalid patch format of primitive list",
                _ => "invalid patch format of setElementOrder list",
            }
            .to_owned(),
        )),
    }
}

/// Whether the lists hold maps; they may not hold lists, nor a mixture.
fn elements_are_maps(lists: &[&[Value]]) -> Result<bool> {
    let mut first: Option<&Value> = None;
    for item in lists.iter().copied().flatten() {
        match first {
            None if item.is_array() => {
                return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
            }
            None => first = Some(item),
            Some(first) if kind(first) != kind(item) => {
                let lists = Value::Array(lists.iter().map(|list| Value::Array(list.to_vec())).collect());
                return Err(PatchError::Unexpected(format!(
                    "list element types are not identical: {}",
                    go::display(&lists)
                )));
            }
            Some(_) => {}
        }
    }
    match first {
        Some(first) => Ok(first.is_object()),
        None => Err(PatchError::Unexpected("no elements in any of the given slices".to_owned())),
    }
}

fn kind(value: &Value) -> &'static str {
    go::type_name(value)
}

/// Keeps the first of equal scalars; the last element takes the place of a dropped one, as in the original algorithm,
/// whose order [`put_in_order`] then repairs.
fn deduplicate(items: &mut Vec<Value>) {
    let mut at = 0;
    while at < items.len() {
        let mut other = at + 1;
        while other < items.len() {
            if items[at] == items[other] {
                items.swap_remove(other);
            } else {
                other += 1;
            }
        }
        at += 1;
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// What is left of a value when the parts with a `$patch` are gone; `None` if that is all of it.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => Some(Value::Object(
            fields.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

fn unknown_directive(directive: &Value, patch: &Fields) -> PatchError {
    let patch = go::display(&Value::Object(patch.clone()));
    PatchError::Unexpected(format!("unknown patch type: {} in map: {patch}", go::display(directive)))
}

fn no_merge_key(fields: &Fields, merge_key: &str) -> PatchError {
    let fields = go::display(&Value::Object(fields.clone()));
    PatchError::Unexpected(format!("map: {fields} does not contain declared merge key: {merge_key}"))
}

fn bad_type(wanted: &str, found: &Value) -> PatchError {
    PatchError::Unexpected(format!("expected a {wanted}, but received a {}", go::type_name(found)))
}

#[cfg(test)]
mod tests;
