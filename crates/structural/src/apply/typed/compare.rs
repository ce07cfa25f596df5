//! What changed from one object to another, field by field.

use serde_json::{Map, Value};

use super::super::path::{Element, compare};
use super::super::set::Set;
use super::{Kind, element_by, kind};
use crate::shape::{ListRelation, ListShape, MapRelation, MapShape, Shape, fill_zero_fields, zero_of};

#[derive(Clone, Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) added: Set,
    pub(crate) modified: Set,
    pub(crate) removed: Set,
}

/// Compares two objects as they are. What `reset` names, and all below it, is not looked at.
pub(crate) fn compare_objects(old: &Value, new: &Value, shape: Shape<'_>, reset: &Set) -> Comparison {
    from_the_top(old, new, shape, reset, false)
}

/// Compares two objects as the server's own types write them: fields that are there even when nobody set them count, and
/// a null is no value. Objects of other kinds are compared as they are.
pub(crate) fn compare_written(old: &Value, new: &Value, shape: Shape<'_>, reset: &Set) -> Comparison {
    from_the_top(old, new, shape, reset, shape.is_native())
}

fn from_the_top(old: &Value, new: &Value, shape: Shape<'_>, reset: &Set, zeros: bool) -> Comparison {
    let mut node = Node::default();
    let sight = Sight { reset: Some(reset), zeros, in_list: false };
    compare_node(Some(old), Some(new), Some(shape), sight, &mut node);
    node.below
}

/// How values are looked at.
#[derive(Clone, Copy)]
struct Sight<'a> {
    reset: Option<&'a Set>,
    /// Whether what a type writes even when nobody set it is there.
    zeros: bool,
    /// The elements of a list come whole, nulls and all; elsewhere a null of a Go type is no value.
    in_list: bool,
}

impl<'a> Sight<'a> {
    fn value_of<'v>(self, fields: Option<&'v Map<String, Value>>, map: MapShape<'v>, name: &str) -> Option<&'v Value> {
        static NULL: Value = Value::Null;
        let fields = fields?;
        let found = fields.get(name);
        if !self.zeros || found.is_some_and(|value| !value.is_null()) {
            return found;
        }
        match map.field(name).and_then(zero_of) {
            Some(zero) => Some(zero.unwrap_or(&NULL)),
            None => found.filter(|_| self.in_list),
        }
    }

    /// Into a field; `None` if it is not to be looked at.
    fn into_field(self, name: &str) -> Option<Sight<'a>> {
        match self.reset {
            None => Some(self),
            Some(reset) => reset.below_field(name).map(|reset| Sight { reset, ..self }),
        }
    }

    fn into_element(self, step: &Element) -> Option<Sight<'a>> {
        if self.reset.is_some_and(|reset| reset.has_member(step)) {
            return None;
        }
        Some(Sight { reset: self.reset.and_then(|reset| reset.child(step)), in_list: true, ..self })
    }

    fn differ(self, old: &Value, new: &Value, shape: Option<Shape<'_>>) -> bool {
        if old == new || compare(old, new).is_eq() {
            return false;
        }
        let plain = !matches!(old, Value::Array(_) | Value::Object(_));
        let Some(shape) = shape.filter(|_| self.zeros && !plain) else { return true };
        let written = |value: &Value| {
            let mut value = if self.in_list { value.clone() } else { without_nulls(value) };
            fill_zero_fields(&mut value, shape);
            value
        };
        compare(&written(old), &written(new)).is_ne()
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        other => other.clone(),
    }
}

/// What happened to a value, and to what is inside it.
#[derive(Default)]
struct Node {
    added: bool,
    modified: bool,
    removed: bool,
    below: Comparison,
}

impl Node {
    fn take(&mut self, step: impl FnOnce() -> Element, node: Node) {
        let below = node.below;
        let quiet = !(node.added || node.modified || node.removed);
        if quiet && below.added.is_bare() && below.modified.is_bare() && below.removed.is_bare() {
            return;
        }
        let step = step();
        self.below.removed.put(&step, node.removed, below.removed);
        self.below.modified.put(&step, node.modified, below.modified);
        self.below.added.put(&step, node.added, below.added);
    }
}

fn compare_node(old: Option<&Value>, new: Option<&Value>, shape: Option<Shape<'_>>, sight: Sight<'_>, out: &mut Node) {
    let (old_kind, new_kind) = (kind(shape, old), kind(shape, new));
    let leaf = match (old, new) {
        (None, None) => return,
        (Some(_), None) => compare_as(old_kind, old, new, shape, sight, out),
        (None, Some(_)) => compare_as(new_kind, old, new, shape, sight, out),
        (Some(_), Some(_)) if old_kind.same(&new_kind) => compare_as(new_kind, old, new, shape, sight, out),
        (Some(_), Some(_)) => {
            compare_as(old_kind, old, new, shape, sight, out);
            compare_as(new_kind, old, new, shape, sight, out)
        }
    };
    if !leaf {
        out.added |= old.is_none();
        out.removed |= old.is_some() && new.is_none();
    }
}

/// Compares two values as one kind; says whether it took them as leaves.
fn compare_as(
    kind: Kind<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    shape: Option<Shape<'_>>,
    sight: Sight<'_>,
    out: &mut Node,
) -> bool {
    match kind {
        Kind::Nothing => false,
        Kind::Scalar(_) => {
            compare_leaf(old, new, shape, sight, out);
            true
        }
        Kind::List(list) => {
            let (old_items, new_items) = (slice(old), slice(new));
            if *list.relation == ListRelation::Atomic || (old_items.is_empty() && new_items.is_empty()) {
                compare_leaf(old, new, shape, sight, out);
                return true;
            }
            compare_lists(list, old_items, new_items, sight, out);
            false
        }
        Kind::Map(map) => {
            if map.relation == MapRelation::Atomic || !compare_maps(map, old, new, sight, out) {
                compare_leaf(old, new, shape, sight, out);
                return true;
            }
            false
        }
    }
}

fn slice(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Says whether there was anything inside to compare.
fn compare_maps(map: MapShape<'_>, old: Option<&Value>, new: Option<&Value>, sight: Sight<'_>, out: &mut Node) -> bool {
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let mut any = false;
    let mut visit = |name: &str| {
        let values = (sight.value_of(old, map, name), sight.value_of(new, map, name));
        any |= values.0.is_some() || values.1.is_some();
        if let Some(sight) = sight.into_field(name) {
            let mut node = Node::default();
            compare_node(values.0, values.1, map.under(name), sight, &mut node);
            out.take(|| Element::field(name), node);
        }
    };
    let there = |name: &str| old.is_some_and(|old| old.contains_key(name));
    old.into_iter().flat_map(Map::keys).for_each(|name| visit(name));
    new.into_iter().flat_map(Map::keys).filter(|name| !there(name)).for_each(|name| visit(name));
    // Where both sides are there, so are their zeros, and equal.
    if sight.zeros && old.is_some() != new.is_some() {
        let given = |name: &str| there(name) || new.is_some_and(|new| new.contains_key(name));
        let zeros = map.fields().iter().filter(|field| zero_of(field).is_some() && !given(&field.name));
        zeros.for_each(|field| visit(&field.name));
    }
    any
}

fn compare_leaf(old: Option<&Value>, new: Option<&Value>, shape: Option<Shape<'_>>, sight: Sight<'_>, out: &mut Node) {
    match (old, new) {
        (None, Some(_)) => out.added = true,
        (Some(_), None) => out.removed = true,
        (Some(old), Some(new)) if sight.differ(old, new, shape) => out.modified = true,
        _ => {}
    }
}

fn compare_lists(list: ListShape<'_>, old: &[Value], new: &[Value], sight: Sight<'_>, out: &mut Node) {
    let mut steps: Vec<Element> = Vec::new();
    let mut sides: std::collections::BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = std::collections::BTreeMap::new();
    let read = |fields: &Map<String, Value>, map: Option<MapShape<'_>>, name: &str| match map {
        Some(map) => Sight { in_list: true, ..sight }.value_of(Some(fields), map, name).cloned(),
        None => fields.get(name).cloned(),
    };
    for (items, newer) in [(old, false), (new, true)] {
        for item in items {
            let Ok(step) = element_by(list, item, read) else { continue };
            if !sides.contains_key(&step) {
                steps.push(step.clone());
            }
            let side = sides.entry(step).or_default();
            if newer { side.1.push(item) } else { side.0.push(item) }
        }
    }
    for step in steps {
        let (old, new) = &sides[&step];
        let Some(sight) = sight.into_element(&step) else { continue };
        let mut node = Node::default();
        let element = Some(list.element);
        match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => {
                compare_node(old.first().copied(), new.first().copied(), element, sight, &mut node);
            }
            ([_, _, ..], [_, _, ..]) => {
                let same = |(old, new): (&&Value, &&Value)| !sight.differ(old, new, element);
                node.modified = old.len() != new.len() || !old.iter().zip(new).all(same);
            }
            ([_, _, ..], rest) => {
                compare_node(None, rest.first().copied(), element, sight, &mut node);
                node.removed = true;
            }
            (rest, [_, _, ..]) => {
                compare_node(rest.first().copied(), None, element, sight, &mut node);
                node.added = true;
            }
        }
        out.take(|| step, node);
    }
}
