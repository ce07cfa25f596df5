//! Objects with their shapes: field sets, comparison, removal; validation and merging in modules of their own.

use serde_json::{Map, Value};

use super::path::Element;
use super::set::Set;
use crate::go;
use crate::shape::{ListRelation, ListShape, MapRelation, MapShape, Scalar, Shape};

mod check;
mod compare;
mod merge;

pub(super) use check::check;
pub(super) use compare::{Comparison, compare_objects, compare_written};
pub(super) use merge::merge;

/// How a value is to be taken: what it is, where the shape allows that, else what the shape would rather have.
#[derive(Clone, Copy)]
enum Kind<'a> {
    Map(MapShape<'a>),
    Scalar(Scalar),
    List(ListShape<'a>),
    Nothing,
}

impl Kind<'_> {
    fn same(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

fn kind<'a>(shape: Option<Shape<'a>>, value: Option<&Value>) -> Kind<'a> {
    let Some(shape) = shape else { return Kind::Nothing };
    match value {
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            if let Some(scalar) = shape.scalar() {
                return Kind::Scalar(scalar);
            }
        }
        Some(Value::Array(_)) => {
            if let Some(list) = shape.list() {
                return Kind::List(list);
            }
        }
        Some(Value::Object(_)) => {
            if let Some(map) = shape.map() {
                return Kind::Map(map);
            }
        }
        Some(Value::Null) | None => {}
    }
    if let Some(map) = shape.map() {
        Kind::Map(map)
    } else if let Some(scalar) = shape.scalar() {
        Kind::Scalar(scalar)
    } else if let Some(list) = shape.list() {
        Kind::List(list)
    } else {
        Kind::Nothing
    }
}

/// The step into an element of a list that has such steps.
fn element_of(list: ListShape<'_>, item: &Value) -> Result<Element, String> {
    element_by(list, item, |fields, _, name| fields.get(name).cloned())
}

/// The same, the values of its key fields read by `read`.
fn element_by<'a>(
    list: ListShape<'a>,
    item: &Value,
    read: impl Fn(&Map<String, Value>, Option<MapShape<'a>>, &str) -> Option<Value>,
) -> Result<Element, String> {
    match list.relation {
        ListRelation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        ListRelation::Set => match item {
            Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
            scalar => Ok(Element::Value(scalar.clone())),
        },
        ListRelation::Keyed(keys) => {
            let fields = match item {
                Value::Object(fields) => fields,
                Value::Null => {
                    return Err("associative list with keys may not have a null element".to_owned());
                }
                _ => return Err("associative list with keys may not have non-map elements".to_owned()),
            };
            let map = list.element.map();
            let mut key = Vec::new();
            for name in keys {
                let default = || map.and_then(|map| map.field(name)).and_then(|field| field.default.clone());
                if let Some(value) = read(fields, map, name).or_else(default) {
                    key.push((name.clone(), value));
                }
            }
            if key.is_empty() {
                let keys: Vec<String> = keys.iter().map(|key| go::quote(key)).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
                     default values for any key fields)",
                    keys.join(" ")
                ));
            }
            key.sort_by(|a, b| a.0.cmp(&b.0));
            Ok(Element::Key(key))
        }
    }
}

/// The fields an applied configuration claims.
pub(crate) fn field_set(value: &Value, shape: Shape<'_>) -> Set {
    let mut set = Set::default();
    collect(value, Some(shape), &mut Vec::new(), &mut set);
    set
}

fn collect(value: &Value, shape: Option<Shape<'_>>, path: &mut Vec<Element>, set: &mut Set) {
    match kind(shape, Some(value)) {
        Kind::Nothing => {}
        Kind::Scalar(_) => set.insert(path),
        Kind::List(list) => {
            if *list.relation == ListRelation::Atomic {
                set.insert(path);
                return;
            }
            let Value::Array(items) = value else { return };
            let steps: Vec<Option<Element>> = items.iter().map(|item| element_of(list, item).ok()).collect();
            for (at, item) in items.iter().enumerate() {
                let Some(step) = &steps[at] else { continue };
                let repeated = steps.iter().filter(|other| other.as_ref() == Some(step)).count() > 1;
                path.push(step.clone());
                if !repeated {
                    collect(item, Some(list.element), path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        Kind::Map(map) => {
            if map.relation == MapRelation::Atomic {
                set.insert(path);
                return;
            }
            let Value::Object(fields) = value else { return };
            for (name, value) in fields {
                path.push(Element::field(name));
                collect(value, map.under(name), path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || map.field(name).is_none() {
                    set.insert(path);
                }
                path.pop();
            }
        }
    }
}

/// Takes the members of a set out of an object.
pub(crate) fn remove(value: &Value, set: &Set, shape: Shape<'_>) -> Value {
    remove_node(value, set, Some(shape)).unwrap_or_else(|| Value::Object(Map::new()))
}

fn remove_node(value: &Value, set: &Set, shape: Option<Shape<'_>>) -> Option<Value> {
    match (kind(shape, Some(value)), value) {
        (Kind::Scalar(_), value) => Some(value.clone()),
        (Kind::List(list), Value::Array(items)) => {
            if items.is_empty() || *list.relation == ListRelation::Atomic {
                return None;
            }
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let Ok(step) = element_of(list, item) else {
                        return Some(item.clone());
                    };
                    if set.has_member(&step) {
                        return None;
                    }
                    match set.child(&step) {
                        Some(below) => Some(remove_node(item, below, Some(list.element)).unwrap_or_default()),
                        None => Some(item.clone()),
                    }
                })
                .collect();
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        (Kind::Map(map), Value::Object(fields)) => {
            if fields.is_empty() || map.relation == MapRelation::Atomic {
                return None;
            }
            let mut kept = Map::new();
            for (name, value) in fields {
                let step = Element::field(name);
                if set.has_member(&step) {
                    continue;
                }
                let value = match set.child(&step) {
                    Some(below) => remove_node(value, below, map.under(name)).unwrap_or_default(),
                    None => value.clone(),
                };
                kept.insert(name.clone(), value);
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        _ => None,
    }
}

/// Brings a set in line with a shape that changed: what became atomic is owned as a whole.
pub(crate) fn reconcile(set: &Set, shape: Shape<'_>) -> Set {
    let mut whole = Set::default();
    find_atomic(set, false, Some(shape), &mut Vec::new(), &mut whole);
    if whole.is_empty() { set.clone() } else { set.recursive_difference(&whole).union(&whole) }
}

fn find_atomic(set: &Set, owned_whole: bool, shape: Option<Shape<'_>>, path: &mut Vec<Element>, whole: &mut Set) {
    match kind(shape, None) {
        Kind::Nothing | Kind::Scalar(_) => {}
        Kind::Map(_) if shape.is_none_or(Shape::is_untyped) => {}
        Kind::Map(map) if map.relation == MapRelation::Atomic => {
            if !owned_whole && !set.is_empty() && !path.is_empty() {
                whole.insert(path);
            }
        }
        Kind::List(list) if *list.relation == ListRelation::Atomic => {
            if !owned_whole && !path.is_empty() {
                whole.insert(path);
            }
        }
        kind => {
            let below = |step: &Element| match (&kind, step) {
                (Kind::Map(map), Element::Field(name)) => map.under(name),
                (Kind::List(list), _) => Some(list.element),
                _ => None,
            };
            let only_children = set
                .children()
                .filter(|(step, _)| !set.has_member(step))
                .map(|(step, child)| (step, Some(child), false));
            let members = set.members().map(|step| (step, set.child(step), set.child(step).is_none()));
            let nothing = Set::default();
            for (step, child, owned_whole) in only_children.chain(members).collect::<Vec<_>>() {
                let Some(shape) = below(step) else { continue };
                path.push(step.clone());
                find_atomic(child.unwrap_or(&nothing), owned_whole, Some(shape), path, whole);
                path.pop();
            }
        }
    }
}
