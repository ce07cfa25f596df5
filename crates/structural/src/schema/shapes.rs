//! How the parts of a custom resource merge, read from its schema.

use serde_json::Value;

use super::{Additional, Schema};
use crate::shape::text::deduced;
use crate::shape::{Atom, Field, ListRelation, MapRelation, PatchStrategy, Ref, Scalar, Shapes, TypeId, builtin};

const META_V1: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The shapes of one version of a custom resource; `None` for a CRD without a schema, where all is deduced.
pub fn shapes(api_version: &str, kind: &str, schema: Option<&Schema>) -> Shapes {
    let mut shapes = Shapes::default();
    let meta = object_meta(&mut shapes);
    let mut root = match schema {
        Some(schema) => atom(schema, false, meta),
        None => deduced(),
    };
    if let Some(map) = &mut root.map {
        let plain = |name: &str, shape| Field {
            name: name.to_owned(),
            shape,
            default: None,
            required: false,
            patch: PatchStrategy::default(),
        };
        map.fields.retain(|field| !matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata"));
        map.fields.push(plain("apiVersion", Ref::Inline(Atom::scalar(Scalar::String))));
        map.fields.push(plain("kind", Ref::Inline(Atom::scalar(Scalar::String))));
        map.fields.push(plain("metadata", Ref::Named(meta, None)));
        map.fields.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let id = shapes.insert(&format!("{api_version}.{kind}"), root);
    shapes.kinds.insert((api_version.to_owned(), kind.to_owned()), id);
    shapes
}

/// Copies the types of `metadata` from the built-in shapes: ids are only good within one set.
fn object_meta(shapes: &mut Shapes) -> TypeId {
    let builtin = builtin::shapes();
    let names = ["Time", "FieldsV1", "ManagedFieldsEntry", "OwnerReference", "ObjectMeta"];
    for name in names {
        shapes.insert(&format!("{META_V1}{name}"), Atom::default());
    }
    for name in names {
        let full = format!("{META_V1}{name}");
        let from = builtin.names[&full];
        let mut atom = builtin.types[from.0 as usize].atom.clone();
        translate(&mut atom, &|id| shapes.names[&builtin.types[id.0 as usize].name]);
        let to = shapes.names[&full];
        shapes.types[to.0 as usize].atom = atom;
    }
    shapes.names[&format!("{META_V1}ObjectMeta")]
}

fn translate(atom: &mut Atom, to: &dyn Fn(TypeId) -> TypeId) {
    let reference = |reference: &mut Ref| match reference {
        Ref::Inline(atom) => translate(atom, to),
        Ref::Named(id, _) => *id = to(*id),
        Ref::Deduced | Ref::Opaque => {}
    };
    if let Some(list) = &mut atom.list {
        reference(&mut list.element);
    }
    if let Some(map) = &mut atom.map {
        map.fields.iter_mut().for_each(|field| reference(&mut field.shape));
        map.element.iter_mut().for_each(reference);
    }
}

/// `keep` says that something above keeps unknown fields, which holds for all below it.
fn atom(schema: &Schema, keep: bool, meta: TypeId) -> Atom {
    let keep = keep || schema.preserves_unknown_fields();
    match schema.kind.as_str() {
        _ if schema.int_or_string => Atom::scalar(Scalar::Untyped),
        "object" => map(schema, keep, meta),
        "array" => list(schema, keep, meta),
        "integer" => Atom::scalar(Scalar::Integer),
        "number" => Atom::scalar(Scalar::Number),
        "boolean" => Atom::scalar(Scalar::Boolean),
        "string" => Atom::scalar(match schema.format.as_str() {
            "" => Scalar::String,
            "byte" => Scalar::Bytes,
            _ => Scalar::Untyped,
        }),
        _ => Atom {
            scalar: Some(Scalar::Untyped),
            list: list(schema, keep, meta).list,
            map: map(schema, keep, meta).map,
        },
    }
}

fn map(schema: &Schema, keep: bool, meta: TypeId) -> Atom {
    let fields = schema.properties.iter().map(|(name, property)| Field {
        name: name.clone(),
        shape: if schema.embedded_resource && name == "metadata" {
            Ref::Named(meta, None)
        } else {
            Ref::Inline(atom(property, keep, meta))
        },
        default: property.default.clone().filter(|default| *default != Value::Null),
        required: schema.required.contains(name),
        patch: PatchStrategy::default(),
    });
    let mut fields: Vec<Field> = fields.collect();
    if schema.embedded_resource {
        for (name, shape) in [
            ("apiVersion", Ref::Inline(Atom::scalar(Scalar::String))),
            ("kind", Ref::Inline(Atom::scalar(Scalar::String))),
            ("metadata", Ref::Named(meta, None)),
        ] {
            fields.retain(|field| field.name != name);
            fields.push(Field {
                name: name.to_owned(),
                shape,
                default: None,
                required: false,
                patch: PatchStrategy::default(),
            });
        }
    }
    let element = match &schema.additional {
        None if keep || fields.is_empty() => Some(Ref::Deduced),
        None | Some(Additional::Allowed(false)) => None,
        Some(Additional::Schema(schema)) => Some(Ref::Inline(atom(schema, keep, meta))),
        Some(Additional::Allowed(true)) => Some(Ref::Deduced),
    };
    let atomic = schema.map_type.as_deref() == Some("atomic");
    Atom::map(fields, element, if atomic { MapRelation::Atomic } else { MapRelation::Granular })
}

fn list(schema: &Schema, keep: bool, meta: TypeId) -> Atom {
    let element = match &schema.items {
        Some(items) => Ref::Inline(atom(items, keep, meta)),
        None => Ref::Opaque,
    };
    let relation = match schema.list_type.as_deref() {
        Some("set") => ListRelation::Set,
        Some("map") => ListRelation::Keyed(schema.list_map_keys.clone()),
        _ => ListRelation::Atomic,
    };
    Atom::list(element, relation)
}
