//! Types of expressions, and the declarations that a schema makes of the values it describes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::schema::{Additional, Schema};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// An object of a schema, by the path at which the schema describes it.
    Object(Arc<str>),
    /// The type of a type.
    Meta(Arc<Type>),
    Optional(Arc<Type>),
    /// A type of a library, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A variable of the checker.
    Param(usize),
}

pub(crate) const QUANTITY: Type = Type::Opaque("kubernetes.Quantity");
pub(crate) const URL: Type = Type::Opaque("kubernetes.URL");
pub(crate) const IP: Type = Type::Opaque("net.IP");
pub(crate) const CIDR: Type = Type::Opaque("net.CIDR");
pub(crate) const FORMAT: Type = Type::Opaque("kubernetes.NamedFormat");
pub(crate) const SEMVER: Type = Type::Opaque("kubernetes.Semver");

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("google.protobuf.Duration"),
            Self::Timestamp => f.write_str("google.protobuf.Timestamp"),
            Self::List(item) => write!(f, "list({item})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(name) => f.write_str(name),
            Self::Meta(of) => write!(f, "type({of})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Param(_) => f.write_str("<T>"),
        }
    }
}

/// What a schema declares: a type, how large its values can get, and what is inside of them.
#[derive(Clone, Debug)]
pub(crate) struct Decl {
    pub(crate) ty: Type,
    /// At most that many elements, entries or bytes; nought where that means nothing.
    pub(crate) max_elements: u64,
    /// The fewest bytes a value takes in a request.
    pub(crate) min_size: u64,
    pub(crate) fields: BTreeMap<String, Arc<Decl>>,
    pub(crate) element: Option<Arc<Decl>>,
}

pub(crate) const MAX_REQUEST: u64 = 3 * 1024 * 1024;

impl Decl {
    fn simple(ty: Type, min_size: u64, max_elements: u64) -> Self {
        Self { ty, max_elements, min_size, fields: BTreeMap::new(), element: None }
    }

    /// What a schema declares under a name; `None` where it says too little for expressions to reach in.
    pub(crate) fn of(schema: &Schema, name: &str, root: bool) -> Option<Self> {
        let length = |limit: u64| {
            let given = schema.max_length.map(|length| u64::try_from(length).unwrap_or(0).saturating_mul(4));
            given.unwrap_or(limit)
        };
        if schema.int_or_string {
            return Some(Self::simple(Type::Dyn, 1, length(MAX_REQUEST - 2)));
        }
        match schema.kind.as_str() {
            "array" => {
                let items = schema.items.as_deref()?;
                let element = Self::of(items, &format!("{name}.@idx"), items.embedded_resource)?;
                let max = schema.max_items.map(|max| u64::try_from(max).unwrap_or(0));
                let max = max.unwrap_or((MAX_REQUEST - 2) / (element.min_size + 1));
                let ty = Type::List(Arc::new(element.ty.clone()));
                Some(Self { element: Some(Arc::new(element)), ..Self::simple(ty, 2, max) })
            }
            "object" => match &schema.additional {
                Some(Additional::Schema(values)) => {
                    let element = Self::of(values, &format!("{name}.@elem"), values.embedded_resource)?;
                    let max = schema.max_properties.map(|max| u64::try_from(max).unwrap_or(0));
                    let max = max.unwrap_or((MAX_REQUEST - 2) / (element.min_size + 6));
                    let ty = Type::Map(Arc::new(Type::String), Arc::new(element.ty.clone()));
                    Some(Self { element: Some(Arc::new(element)), ..Self::simple(ty, 2, max) })
                }
                _ => Some(Self::object(schema, name, root)),
            },
            "string" => Some(match schema.format.as_str() {
                "byte" => {
                    let max = schema.max_length.map_or(MAX_REQUEST - 2, |length| u64::try_from(length).unwrap_or(0));
                    Self::simple(Type::Bytes, 2, max)
                }
                "duration" => Self::simple(Type::Duration, 3, 32),
                "date" => Self::simple(Type::Timestamp, 12, 12),
                "date-time" => Self::simple(Type::Timestamp, 21, 32),
                _ => {
                    let longest = schema.choices.iter().filter_map(|choice| Some(choice.as_str()?.len() as u64)).max();
                    let limit = if schema.choices.is_empty() { MAX_REQUEST - 2 } else { longest.unwrap_or(0) };
                    Self::simple(Type::String, 2, length(limit))
                }
            }),
            "boolean" => Some(Self::simple(Type::Bool, 4, 0)),
            "number" => Some(Self::simple(Type::Double, 1, 0)),
            "integer" => Some(Self::simple(Type::Int, 1, 0)),
            _ => None,
        }
    }

    fn object(schema: &Schema, name: &str, root: bool) -> Self {
        let mut out = Self::simple(Type::Object(name.into()), 2, 0);
        for (property, schema_of) in &schema.properties {
            let Some(escaped) = escape(property) else { continue };
            let inside = format!("{name}.{escaped}");
            if let Some(decl) = Self::of(schema_of, &inside, schema_of.embedded_resource) {
                if schema.required.contains(property) && schema_of.default.is_none() {
                    out.min_size += property.len() as u64 + decl.min_size + 4;
                }
                out.fields.insert(escaped, Arc::new(decl));
            }
        }
        if root {
            let text = || Arc::new(Self::simple(Type::String, 2, MAX_REQUEST - 2));
            let given = |field: &str| out.fields.get(field).is_some_and(|decl| decl.ty == Type::String);
            let meta = out.fields.get("metadata");
            let named =
                |field: &str| meta.and_then(|meta| meta.fields.get(field)).is_some_and(|decl| decl.ty == Type::String);
            if !(given("kind") && given("apiVersion") && named("name") && named("generateName")) {
                let mut metadata = Self::simple(Type::Object(format!("{name}.metadata").into()), 2, 0);
                metadata.fields.insert("name".to_owned(), text());
                metadata.fields.insert("generateName".to_owned(), text());
                out.fields.insert("kind".to_owned(), text());
                out.fields.insert("apiVersion".to_owned(), text());
                out.fields.insert("metadata".to_owned(), Arc::new(metadata));
            }
        }
        out
    }

    /// Objects by their type names, this one and all below.
    pub(crate) fn objects<'a>(&'a self, out: &mut BTreeMap<&'a str, &'a Decl>) {
        if let Type::Object(name) = &self.ty {
            out.insert(name, self);
        }
        self.fields.values().for_each(|field| field.objects(out));
        if let Some(element) = &self.element {
            element.objects(out);
        }
    }
}

const KEYWORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name under which expressions reach a property; `None` if they cannot.
pub(crate) fn escape(name: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || "_.-/".contains(c));
    if !starts_well || !name.chars().all(legal) {
        return None;
    }
    if KEYWORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::new();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c => out.push(c),
        }
        rest = &rest[1..];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        for (name, want) in [
            ("plain", Some("plain")),
            ("if", Some("__if__")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("$ref", None),
            ("1a", None),
        ] {
            assert_eq!(escape(name).as_deref(), want, "{name}");
        }
    }
}
