//! Sets of fields: what one manager owns of an object.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::Element;
use crate::shape::Shape;

/// A set of paths. A path and those below it are members independently: owning `spec` is not owning `spec.replicas`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, Set>,
}

impl Set {
    /// A set of paths of plain fields, such as `[["status"], ["metadata", "name"]]`.
    pub fn of_fields<'a, P: AsRef<[&'a str]>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.as_ref().iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Reads a `fieldsV1`.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let fields = value.as_object().ok_or("fieldsV1 must be an object")?;
        let mut set = Self::default();
        for (name, value) in fields {
            if name == "." {
                return Err("the root of a set cannot be its own member".to_owned());
            }
            let element = Element::parse(name)?;
            let below = value.as_object().ok_or("fieldsV1 must consist of objects")?;
            let mut inner = below.clone();
            let member = inner.shift_remove(".").is_some() || below.is_empty();
            let child = Self::parse(&Value::Object(inner))?;
            if member {
                set.members.insert(element.clone());
            }
            if !child.is_empty() {
                set.children.insert(element, child);
            }
        }
        Ok(set)
    }

    /// Writes a `fieldsV1`.
    pub fn wire(&self) -> Value {
        let mut out = Map::with_capacity(self.members.len() + self.children.len());
        self.write(&mut out);
        Value::Object(out)
    }

    fn write(&self, out: &mut Map<String, Value>) {
        let mut members = self.members.iter().peekable();
        let mut children = self.children.iter().peekable();
        loop {
            let order = match (members.peek(), children.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(member), Some((element, _))) => (*member).cmp(element),
            };
            let member = if order.is_le() { members.next() } else { None };
            let child = if order.is_ge() { children.next() } else { None };
            let mut inside = Map::new();
            if let Some((_, child)) = child {
                inside = Map::with_capacity(1 + child.members.len() + child.children.len());
                if member.is_some() {
                    inside.insert(".".to_owned(), Value::Object(Map::new()));
                }
                child.write(&mut inside);
            }
            if let Some(element) = member.or(child.map(|(element, _)| element)) {
                out.insert(element.wire(), Value::Object(inside));
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether there is nothing at all in it, not even empty sets.
    pub(crate) fn is_bare(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// Adds a step: as a member if `member`, and with what is below it.
    pub(crate) fn put(&mut self, step: &Element, member: bool, below: Self) {
        if member {
            self.members.insert(step.clone());
        }
        if !below.is_bare() {
            self.children.insert(step.clone(), below);
        }
    }

    /// `None` if the field is a member, else what is below it.
    pub(crate) fn below_field(&self, name: &str) -> Option<Option<&Self>> {
        let is = |element: &Element| matches!(element, Element::Field(field) if field == name);
        if self.members.iter().any(is) {
            return None;
        }
        Some(self.children.iter().find(|(element, _)| is(element)).map(|(_, child)| child))
    }

    /// Whether the two have a member in common, the other as it is on the wire.
    pub(crate) fn meets_wire(&self, wire: &Value) -> bool {
        let found = |element: &Element| wire.get(element.wire());
        self.members.iter().any(|element| found(element).is_some_and(is_wire_member))
            || self.children.iter().any(|(element, child)| found(element).is_some_and(|below| child.meets_wire(below)))
    }

    /// Whether every member is one of the other, as it is on the wire.
    pub(crate) fn is_within_wire(&self, wire: &Value) -> bool {
        let found = |element: &Element| wire.get(element.wire());
        self.members.iter().all(|element| found(element).is_some_and(is_wire_member))
            && self.children.iter().all(|(element, child)| {
                child.is_empty() || found(element).is_some_and(|below| child.is_within_wire(below))
            })
    }

    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.has(rest)),
        }
    }

    pub(crate) fn has_member(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    pub(crate) fn child(&self, element: &Element) -> Option<&Self> {
        self.children.get(element).filter(|child| !child.is_empty())
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Element> {
        self.members.iter()
    }

    pub(crate) fn children(&self) -> impl Iterator<Item = (&Element, &Self)> {
        self.children.iter()
    }

    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let merged = match out.children.get(element) {
                Some(mine) => mine.union(child),
                None => child.clone(),
            };
            out.children.insert(element.clone(), merged);
        }
        out
    }

    pub fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(element, child)| {
            let both = child.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { members, children: children.collect() }
    }

    /// Without the members of the other set; what is below them stays.
    pub fn difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(element, child)| {
            let rest = match other.children.get(element) {
                Some(other) => child.difference(other),
                None => child.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { members, children: children.collect() }
    }

    /// The same, in place.
    pub fn subtract(&mut self, other: &Self) {
        self.members.retain(|element| !other.members.contains(element));
        for (element, other) in &other.children {
            if let Some(child) = self.children.get_mut(element) {
                child.subtract(other);
                if child.is_empty() {
                    self.children.remove(element);
                }
            }
        }
    }

    /// Without the members of the other set and all that is below them.
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let members = self.members.difference(&other.members).cloned().collect();
        let children = self.children.iter().filter(|(element, _)| !other.members.contains(element));
        let children = children.filter_map(|(element, child)| {
            let rest = match other.children.get(element) {
                Some(other) => child.recursive_difference(other),
                None => child.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self { members, children: children.collect() }
    }

    /// With every struct field on the way to a member: usually a set has only leaves of those.
    pub(crate) fn with_named_fields(&self, shape: Option<Shape<'_>>) -> Self {
        let map = shape.and_then(Shape::map);
        let list = shape.and_then(Shape::list);
        let mut out = self.clone();
        for (element, child) in &self.children {
            let below = match element {
                Element::Field(name) => {
                    if map.is_some_and(|map| map.field(name).is_some()) {
                        out.members.insert(element.clone());
                    }
                    map.and_then(|map| map.under(name))
                }
                Element::Key(_) => list.map(|list| list.element),
                Element::Value(_) | Element::Index(_) => None,
            };
            out.children.insert(element.clone(), child.with_named_fields(below));
        }
        out
    }

    /// All members, parents before what is below them.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        for element in &self.members {
            let mut path = prefix.clone();
            path.push(element.clone());
            out.push(path);
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect(prefix, out);
            prefix.pop();
        }
    }
}

/// A step is a member if nothing is below it, or if the dot is.
fn is_wire_member(below: &Value) -> bool {
    below.as_object().is_some_and(|below| below.is_empty() || below.contains_key("."))
}
