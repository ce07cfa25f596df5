//! The text form of shapes, in which the built-in kinds are kept: facts only, a line a field, made to be diffed.
//!
//! ```text
//! = io.k8s.api.core.v1.Pod v1/Pod        a struct, and the kinds it is the root of
//! =atomic io.k8s.api.core.v1.X           a struct replaced whole
//! containers [name]@…Container ~merge:name   a list keyed by name, and its patch strategy
//! finalizers [set]s ~merge               a set of strings
//! args []s                               a list replaced whole
//! labels {}s                             a map;  {atomic}s  one replaced whole
//! protocol s ="TCP"                      a default, as JSON
//! name s * =""                           a required field
//! : io.k8s.….Quantity u                  a type that is not a struct
//! ```
//!
//! Scalars: `s` string, `B` bytes, `i` int32, `I` int64, `n` number, `b` boolean, `t` date and time, `u` untyped.
//! `?` is anything (maps merged by key), `!` anything replaced whole, `@name` another type, `@atomic:name` one replaced
//! whole here.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Atom, Field, ListRelation, MapRelation, PatchStrategy, Ref, Scalar, Shapes, Strategy, TypeId};

#[derive(Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadShapes {
    pub line: usize,
    pub what: String,
}

/// Reads the text form.
pub fn parse(text: &str) -> Result<Shapes, BadShapes> {
    let mut shapes = Shapes::default();
    for (at, line) in text.lines().enumerate() {
        if let Some((_, name, _)) = header(line) {
            if shapes.names.contains_key(name) {
                return Err(BadShapes { line: at + 1, what: format!("{name} is there twice") });
            }
            shapes.insert(name, Atom::default());
        }
    }
    let mut open: Option<(TypeId, MapRelation, Vec<Field>)> = None;
    for (at, line) in text.lines().enumerate() {
        let bad = |what: String| BadShapes { line: at + 1, what };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((mark, name, rest)) = header(line) {
            close(&mut shapes, open.take());
            let id = shapes.names[name];
            if mark == ":" {
                shapes.types[id.0 as usize].atom = match reference(rest, &shapes.names).map_err(bad)? {
                    Ref::Inline(atom) => atom,
                    Ref::Opaque => opaque(),
                    Ref::Deduced => deduced(),
                    Ref::Named(..) => return Err(bad("an alias of another type".to_owned())),
                };
                continue;
            }
            for kind in rest.split_whitespace() {
                let (api_version, kind) = kind.rsplit_once('/').ok_or_else(|| bad(format!("bad kind {kind}")))?;
                shapes.kinds.insert((api_version.to_owned(), kind.to_owned()), id);
            }
            let relation = if mark == "=atomic" { MapRelation::Atomic } else { MapRelation::Granular };
            open = Some((id, relation, Vec::new()));
        } else {
            let (_, _, fields) = open.as_mut().ok_or_else(|| bad("a field outside of a type".to_owned()))?;
            fields.push(field(line, &shapes.names).map_err(bad)?);
        }
    }
    close(&mut shapes, open.take());
    Ok(shapes)
}

fn close(shapes: &mut Shapes, open: Option<(TypeId, MapRelation, Vec<Field>)>) {
    if let Some((id, relation, fields)) = open {
        shapes.types[id.0 as usize].atom = Atom::map(fields, None, relation);
    }
}

fn header(line: &str) -> Option<(&str, &str, &str)> {
    let (mark, rest) = line.split_once(' ')?;
    if !matches!(mark, "=" | "=atomic" | ":") {
        return None;
    }
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((mark, name, rest))
}

fn field(line: &str, names: &BTreeMap<String, TypeId>) -> Result<Field, String> {
    let mut words = line.splitn(3, ' ');
    let name = words.next().unwrap_or_default().to_owned();
    let shape = reference(words.next().ok_or("a field without a type")?, names)?;
    let mut field = Field { name, shape, default: None, required: false, patch: PatchStrategy::default() };
    let mut rest = words.next().unwrap_or_default();
    if let Some(patch) = rest.strip_prefix('~') {
        let (patch, after) = patch.split_once(' ').unwrap_or((patch, ""));
        let (strategies, key) = patch.split_once(':').unwrap_or((patch, ""));
        field.patch.merge_key = (!key.is_empty()).then(|| key.to_owned());
        field.patch.strategy = match strategies {
            "merge" | "merge,retainKeys" | "retainKeys,merge" => Strategy::Merge,
            "replace" => Strategy::Replace,
            "retainKeys" => Strategy::Unset,
            other => return Err(format!("unknown patch strategy {other}")),
        };
        rest = after;
    }
    if let Some(after) = rest.strip_prefix('*') {
        field.required = true;
        rest = after.trim_start();
    }
    if let Some(default) = rest.strip_prefix('=') {
        field.default = Some(serde_json::from_str::<Value>(default).map_err(|error| error.to_string())?);
    } else if !rest.is_empty() {
        return Err(format!("cannot read {rest:?}"));
    }
    Ok(field)
}

fn reference(text: &str, names: &BTreeMap<String, TypeId>) -> Result<Ref, String> {
    let scalar = |scalar| Ok(Ref::Inline(Atom::scalar(scalar)));
    match text {
        "s" => return scalar(Scalar::String),
        "B" => return scalar(Scalar::Bytes),
        "i" => return scalar(Scalar::Int32),
        "I" => return scalar(Scalar::Int64),
        "n" => return scalar(Scalar::Number),
        "b" => return scalar(Scalar::Boolean),
        "t" => return scalar(Scalar::DateTime),
        "u" => return scalar(Scalar::Untyped),
        "?" => return Ok(Ref::Deduced),
        "!" => return Ok(Ref::Opaque),
        _ => {}
    }
    let named = |name: &str, relation| {
        let id = names.get(name).ok_or_else(|| format!("unknown type {name}"))?;
        Ok(Ref::Named(*id, relation))
    };
    if let Some(name) = text.strip_prefix("@atomic:") {
        return named(name, Some(MapRelation::Atomic));
    }
    if let Some(name) = text.strip_prefix("@granular:") {
        return named(name, Some(MapRelation::Granular));
    }
    if let Some(name) = text.strip_prefix('@') {
        return named(name, None);
    }
    if let Some((relation, element)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let relation = match relation {
            "" => ListRelation::Atomic,
            "set" => ListRelation::Set,
            keys => ListRelation::Keyed(keys.split(',').map(str::to_owned).collect()),
        };
        return Ok(Ref::Inline(Atom::list(reference(element, names)?, relation)));
    }
    if let Some((relation, element)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        let relation = match relation {
            "" => MapRelation::Granular,
            "atomic" => MapRelation::Atomic,
            other => return Err(format!("unknown map relation {other}")),
        };
        return Ok(Ref::Inline(Atom::map(Vec::new(), Some(reference(element, names)?), relation)));
    }
    Err(format!("cannot read the type {text:?}"))
}

/// [`Ref::Deduced`] spelled out, for types that must have an atom of their own.
pub(crate) fn deduced() -> Atom {
    Atom {
        scalar: Some(Scalar::Untyped),
        list: Atom::list(Ref::Opaque, ListRelation::Atomic).list,
        map: Atom::map(Vec::new(), Some(Ref::Deduced), MapRelation::Granular).map,
    }
}

fn opaque() -> Atom {
    Atom {
        scalar: Some(Scalar::Untyped),
        list: Atom::list(Ref::Opaque, ListRelation::Atomic).list,
        map: Atom::map(Vec::new(), Some(Ref::Opaque), MapRelation::Atomic).map,
    }
}
