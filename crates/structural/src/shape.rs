//! The shape of objects as merging sees it: which values are scalars, lists or maps, which lists are sets or are keyed,
//! which parts are replaced whole. Server-side apply, strategic merge patch and the search for unknown fields all walk
//! the same shapes. [`builtin`] has those of the kinds every server knows; those of a custom resource come from its
//! schema.

use std::collections::BTreeMap;

use serde_json::Value;

pub mod builtin;
pub mod text;
mod zero;

pub use zero::fill_zero_fields;
pub(crate) use zero::zero_of;

/// A set of types that may refer to each other (JSON schema properties contain themselves, so a tree will not do).
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    pub(crate) types: Vec<TypeDef>,
    pub(crate) names: BTreeMap<String, TypeId>,
    pub(crate) kinds: BTreeMap<(String, String), TypeId>,
    /// Whether these are types of the server's own code, whose fields are there even when empty.
    pub(crate) native: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u32);

#[derive(Clone, Debug, PartialEq)]
pub struct TypeDef {
    pub name: String,
    pub atom: Atom,
}

/// What a value may be. Several at once means that the value itself decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Atom {
    pub scalar: Option<Scalar>,
    pub list: Option<Box<List>>,
    pub map: Option<Box<Map>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    String,
    /// Base64 on the wire.
    Bytes,
    Int32,
    Int64,
    /// An integer whose width the schema does not say.
    Integer,
    Number,
    Boolean,
    DateTime,
    Untyped,
}

#[derive(Clone, Debug, PartialEq)]
pub struct List {
    pub element: Ref,
    pub relation: ListRelation,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListRelation {
    Atomic,
    Set,
    Keyed(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// In name order.
    pub fields: Vec<Field>,
    /// The type of what is not a named field; `None` where there is no such thing.
    pub element: Option<Ref>,
    pub relation: MapRelation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapRelation {
    Granular,
    Atomic,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub name: String,
    pub shape: Ref,
    pub default: Option<Value>,
    pub required: bool,
    pub patch: PatchStrategy,
}

/// The `patchStrategy` and `patchMergeKey` of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    pub strategy: Strategy,
    pub merge_key: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    #[default]
    Unset,
    Merge,
    Replace,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Ref {
    Inline(Atom),
    /// The second is the map relation of this use, where it differs from the type's own.
    Named(TypeId, Option<MapRelation>),
    /// Anything; maps are merged by key as deep as they go, lists are replaced whole.
    Deduced,
    /// Anything, replaced whole.
    Opaque,
}

/// A place in a set of shapes. Copies are free.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    shapes: &'a Shapes,
    at: At<'a>,
}

#[derive(Clone, Copy, Debug)]
enum At<'a> {
    Atom(&'a Atom, Option<MapRelation>, &'a str),
    Deduced,
    Opaque,
}

/// What a shape says of a list.
#[derive(Clone, Copy, Debug)]
pub struct ListShape<'a> {
    pub relation: &'a ListRelation,
    pub element: Shape<'a>,
}

/// What a shape says of a map.
#[derive(Clone, Copy, Debug)]
pub struct MapShape<'a> {
    shapes: &'a Shapes,
    map: Option<&'a Map>,
    pub relation: MapRelation,
    whole: At<'a>,
}

static ATOMIC: ListRelation = ListRelation::Atomic;

impl Shapes {
    /// The shape of a kind, by its `apiVersion` and `kind`.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<Shape<'_>> {
        let id = self.kinds.get(&(api_version.to_owned(), kind.to_owned()))?;
        Some(self.at(*id, None))
    }

    /// The shape of a type by its full name, such as `io.k8s.api.core.v1.Pod`.
    pub fn named(&self, name: &str) -> Option<Shape<'_>> {
        Some(self.at(*self.names.get(name)?, None))
    }

    /// Every kind there is a shape for, as (apiVersion, kind).
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kinds.keys().map(|(api_version, kind)| (api_version.as_str(), kind.as_str()))
    }

    /// A shape for objects nothing is known of: maps are merged by key, lists are replaced whole.
    pub fn deduced(&self) -> Shape<'_> {
        Shape { shapes: self, at: At::Deduced }
    }

    pub(crate) fn insert(&mut self, name: &str, atom: Atom) -> TypeId {
        let id = TypeId(u32::try_from(self.types.len()).expect("fewer than four billion types"));
        self.names.insert(name.to_owned(), id);
        self.types.push(TypeDef { name: name.to_owned(), atom });
        id
    }

    fn at(&self, id: TypeId, relation: Option<MapRelation>) -> Shape<'_> {
        Shape { shapes: self, at: At::Atom(&self.types[id.0 as usize].atom, relation, &self.types[id.0 as usize].name) }
    }

    fn resolve<'a>(&'a self, reference: &'a Ref) -> Shape<'a> {
        match reference {
            Ref::Inline(atom) => Shape { shapes: self, at: At::Atom(atom, None, "") },
            Ref::Named(id, relation) => self.at(*id, *relation),
            Ref::Deduced => Shape { shapes: self, at: At::Deduced },
            Ref::Opaque => Shape { shapes: self, at: At::Opaque },
        }
    }
}

impl<'a> Shape<'a> {
    /// What this shape says of scalars; `None` where a scalar has no place.
    pub fn scalar(self) -> Option<Scalar> {
        match self.at {
            At::Atom(atom, ..) => atom.scalar,
            At::Deduced | At::Opaque => Some(Scalar::Untyped),
        }
    }

    pub fn list(self) -> Option<ListShape<'a>> {
        match self.at {
            At::Atom(atom, ..) => {
                let list = atom.list.as_deref()?;
                Some(ListShape { relation: &list.relation, element: self.shapes.resolve(&list.element) })
            }
            At::Deduced | At::Opaque => {
                Some(ListShape { relation: &ATOMIC, element: Shape { shapes: self.shapes, at: At::Opaque } })
            }
        }
    }

    pub fn map(self) -> Option<MapShape<'a>> {
        let (map, relation) = match self.at {
            At::Atom(atom, relation, _) => {
                let map = atom.map.as_deref()?;
                (Some(map), relation.unwrap_or(map.relation))
            }
            At::Deduced => (None, MapRelation::Granular),
            At::Opaque => (None, MapRelation::Atomic),
        };
        Some(MapShape { shapes: self.shapes, map, relation, whole: self.at })
    }

    /// The name of the type in the server's own code: the last part of the full name; nothing for inline types.
    pub fn type_name(self) -> &'a str {
        match self.at {
            At::Atom(_, _, name) => name.rsplit('.').next().unwrap_or(name),
            At::Deduced | At::Opaque => "",
        }
    }

    /// Whether this is a type of the server's own code.
    pub fn is_native(self) -> bool {
        self.shapes.native
    }

    /// Whether this is the shape of something nothing is known of.
    pub fn is_untyped(self) -> bool {
        !matches!(self.at, At::Atom(..))
    }
}

impl<'a> MapShape<'a> {
    pub fn fields(self) -> &'a [Field] {
        self.map.map_or(&[], |map| &map.fields)
    }

    pub fn field(self, name: &str) -> Option<&'a Field> {
        let fields = self.fields();
        fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok().map(|at| &fields[at])
    }

    /// The shape under a key; `None` where the map has no place for it.
    pub fn under(self, key: &str) -> Option<Shape<'a>> {
        match self.field(key) {
            Some(field) => Some(self.shapes.resolve(&field.shape)),
            None => self.element(),
        }
    }

    /// The shape of values whose keys are not fields.
    pub fn element(self) -> Option<Shape<'a>> {
        match self.map {
            Some(map) => map.element.as_ref().map(|element| self.shapes.resolve(element)),
            None => Some(Shape { shapes: self.shapes, at: self.whole }),
        }
    }

    /// Whether the fields are fixed, as in a struct; the keys of other maps are data.
    pub fn is_struct(self) -> bool {
        self.map.is_some_and(|map| map.element.is_none())
    }
}

impl Atom {
    pub fn scalar(scalar: Scalar) -> Self {
        Self { scalar: Some(scalar), ..Self::default() }
    }

    pub fn list(element: Ref, relation: ListRelation) -> Self {
        Self { list: Some(Box::new(List { element, relation })), ..Self::default() }
    }

    pub fn map(mut fields: Vec<Field>, element: Option<Ref>, relation: MapRelation) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Self { map: Some(Box::new(Map { fields, element, relation })), ..Self::default() }
    }
}
