//! Merging a configuration into an object.

use serde_json::{Map, Value};

use super::super::path::Element;
use super::{Kind, element_of, kind};
use crate::shape::{ListRelation, ListShape, MapRelation, Shape};

/// Merges an applied configuration into the live object. The order of keyed lists is that of the configuration, with the
/// live object's other elements in between, where they were.
pub(crate) fn merge(live: &Value, config: &Value, shape: Shape<'_>) -> Result<Value, String> {
    let merged = merge_node(Some(live), Some(config), Some(shape))?;
    Ok(merged.unwrap_or_else(|| Value::Object(Map::new())))
}

fn merge_node(live: Option<&Value>, config: Option<&Value>, shape: Option<Shape<'_>>) -> Result<Option<Value>, String> {
    let by = if config.is_some() { kind(shape, config) } else { kind(shape, live) };
    let leaf = || Ok(config.or(live).cloned());
    match by {
        Kind::Nothing | Kind::Scalar(_) => leaf(),
        Kind::List(list) => {
            let items = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
            let (live_items, config_items) = (items(live), items(config));
            if *list.relation == ListRelation::Atomic || (live_items.is_empty() && config_items.is_empty()) {
                return leaf();
            }
            let merged = merge_lists(list, &live_items, &config_items)?;
            Ok((!merged.is_empty()).then_some(Value::Array(merged)))
        }
        Kind::Map(map) => {
            let empty = Map::new();
            let live_fields = live.and_then(Value::as_object).unwrap_or(&empty);
            let config_fields = config.and_then(Value::as_object).unwrap_or(&empty);
            if map.relation == MapRelation::Atomic || (live_fields.is_empty() && config_fields.is_empty()) {
                return leaf();
            }
            let mut out = Map::new();
            let new = config_fields.keys().filter(|name| !live_fields.contains_key(*name));
            for name in live_fields.keys().chain(new) {
                if let Some(value) = merge_node(live_fields.get(name), config_fields.get(name), map.under(name))? {
                    out.insert(name.clone(), value);
                }
            }
            Ok((!out.is_empty()).then_some(Value::Object(out)))
        }
    }
}

fn merge_lists(list: ListShape<'_>, live: &[Value], config: &[Value]) -> Result<Vec<Value>, String> {
    let steps = |items: &[Value]| -> Result<Vec<Element>, String> {
        let steps = items.iter().enumerate();
        steps.map(|(at, item)| element_of(list, item).map_err(|what| format!("element {at}: {what}"))).collect()
    };
    let (config_steps, live_steps) = (steps(config)?, steps(live)?);
    for (at, step) in config_steps.iter().enumerate() {
        if config_steps[..at].contains(step) {
            return Err(format!("duplicate entries for key {step}"));
        }
    }
    // A live element that is there twice counts as there, but has no value of its own to merge with.
    let live_value = |step: &Element| {
        let mut found = live_steps.iter().enumerate().filter(|(_, other)| *other == step);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Some(&live[at]),
            (Some(_), Some(_)) => Some(&Value::Null),
            (None, _) => None,
        }
    };
    let config_value = |step: &Element| config_steps.iter().position(|other| other == step).map(|at| &config[at]);
    let mut shared = config_steps.iter().filter(|step| live_steps.contains(step));
    let mut next_shared = shared.next();
    let mut merged: Vec<&Element> = Vec::new();
    let mut out = Vec::new();
    let (mut l, mut r) = (0, 0);
    while l < live_steps.len() || r < config_steps.len() {
        if l < live_steps.len() && r < config_steps.len() {
            let step = &live_steps[l];
            if *step == config_steps[r] {
                merged.push(&config_steps[r]);
                out.extend(merge_node(live_value(step), config_value(step), Some(list.element))?);
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if config_value(step).is_some() && next_shared.is_some_and(|next| next != step) {
                l += 1; // it comes where the configuration has it
                continue;
            }
        }
        if l < live_steps.len() {
            let step = &live_steps[l];
            if config_value(step).is_none() {
                out.extend(merge_node(Some(&live[l]), None, Some(list.element))?);
                l += 1;
                continue;
            }
            if merged.contains(&step) {
                l += 1;
            }
        }
        if r < config_steps.len() {
            let step = &config_steps[r];
            merged.push(step);
            out.extend(merge_node(live_value(step), config_value(step), Some(list.element))?);
            r += 1;
            if next_shared == Some(step) {
                next_shared = shared.next();
            }
        }
    }
    Ok(out)
}
