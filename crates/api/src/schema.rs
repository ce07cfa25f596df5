//! The structural schemas of our kinds, in one place: the CRDs are rendered from them, raw objects are defaulted and
//! validated by them, and each admission rule stands beside the check that does the same without an API server.
//!
//! Only what our CRDs use is modelled; a keyword no CRD of ours needs is deliberately absent.

mod capacitybuffer;
mod condition;
mod ec2nodeclass;
mod nodeclaim;
mod nodeoverlay;
mod nodepool;
mod render;
mod restricted;
mod rule;
mod template;
mod v1beta1;

pub(crate) use rule::{Check, Rule};

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

use crate::kind::Kind;

/// The schema of the whole object, `apiVersion` and `metadata` included.
pub(crate) fn schema_of(kind: Kind) -> &'static Schema {
    macro_rules! cached {
        ($build:path) => {{
            static SCHEMA: LazyLock<Schema> = LazyLock::new($build);
            &SCHEMA
        }};
    }
    match kind {
        Kind::NodePool => cached!(nodepool::schema),
        Kind::NodeClaim => cached!(nodeclaim::schema),
        Kind::NodeOverlay => cached!(nodeoverlay::schema),
        Kind::CapacityBuffer => cached!(capacitybuffer::schema),
        Kind::EC2NodeClass => cached!(ec2nodeclass::schema),
    }
}

/// The schema of the kinds that v1beta1 had.
pub(crate) fn v1beta1_schema_of(kind: Kind) -> Option<&'static Schema> {
    static POOL: LazyLock<Schema> = LazyLock::new(v1beta1::nodepool);
    static CLAIM: LazyLock<Schema> = LazyLock::new(v1beta1::nodeclaim);
    static CLASS: LazyLock<Schema> = LazyLock::new(v1beta1::ec2nodeclass);
    match kind {
        Kind::NodePool => Some(&POOL),
        Kind::NodeClaim => Some(&CLAIM),
        Kind::EC2NodeClass => Some(&CLASS),
        Kind::NodeOverlay | Kind::CapacityBuffer => None,
    }
}

/// One node of a schema.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) description: &'static str,
    pub(crate) shape: Shape,
    pub(crate) default: Option<Value>,
    pub(crate) rules: Vec<Rule>,
    /// Keywords rendered although they have no effect where they stand: the reference's CRDs carry some, and tools that
    /// compare CRDs would report their absence.
    pub(crate) inert: Vec<(&'static str, Value)>,
}

#[derive(Debug)]
pub(crate) enum Shape {
    Object {
        properties: Vec<(&'static str, Schema)>,
        required: Vec<&'static str>,
    },
    /// An object with free keys.
    Map {
        values: Box<Schema>,
        max: Option<usize>,
        merge: Option<&'static str>,
    },
    /// An object whose content is nobody's business but the controller's.
    Open,
    List {
        items: Box<Schema>,
        min: Option<usize>,
        max: Option<usize>,
        merge: Option<ListMerge>,
    },
    Text {
        pattern: Option<Pattern>,
        min: Option<usize>,
        max: Option<usize>,
        one_of: &'static [&'static str],
        date_time: bool,
    },
    Integer {
        width: Option<Width>,
        min: Option<i64>,
        max: Option<i64>,
    },
    Boolean,
    /// A Kubernetes quantity: an integer or a string.
    Quantity,
    /// `metadata`, which the API server itself knows.
    Metadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListMerge {
    Atomic,
    Set,
    /// A list whose elements are told apart by these fields.
    Map(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Int32,
    Int64,
}

/// A regular expression in the dialect of the API server. Its shorthand classes are ASCII there as in this engine.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) text: &'static str,
    regex: Regex,
}

impl Pattern {
    fn new(text: &'static str) -> Self {
        Self { text, regex: Regex::new(text).expect("a constant pattern in regular syntax") }
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// Quantities in Kubernetes notation.
pub(crate) static QUANTITY_PATTERN: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    )
});

/// A label key: an optional lower-case DNS prefix, then a qualified name.
const QUALIFIED_KEY: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A label value.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

impl Schema {
    fn new(description: &'static str, shape: Shape) -> Self {
        Self { description, shape, default: None, rules: Vec::new(), inert: Vec::new() }
    }

    /// The default an API server fills in when the field is absent.
    fn default_value(mut self, value: Value) -> Self {
        self.default = Some(value);
        self
    }

    fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    fn inert(mut self, keyword: &'static str, value: Value) -> Self {
        self.inert.push((keyword, value));
        self
    }

    /// Marks properties as required.
    fn require(mut self, names: &[&'static str]) -> Self {
        match &mut self.shape {
            Shape::Object { required, properties } => {
                debug_assert!(names.iter().all(|name| properties.iter().any(|(p, _)| p == name)));
                required.extend_from_slice(names);
            }
            _ => unreachable!("only objects have required properties"),
        }
        self
    }

    fn pattern(mut self, text: &'static str) -> Self {
        match &mut self.shape {
            Shape::Text { pattern, .. } => *pattern = Some(Pattern::new(text)),
            _ => unreachable!("only strings have patterns"),
        }
        self
    }

    fn one_of(mut self, values: &'static [&'static str]) -> Self {
        match &mut self.shape {
            Shape::Text { one_of, .. } => *one_of = values,
            _ => unreachable!("only strings are enumerated"),
        }
        self
    }

    /// The least number of characters, elements, or the least value.
    fn at_least(mut self, least: i64) -> Self {
        match &mut self.shape {
            Shape::Text { min, .. } | Shape::List { min, .. } => *min = usize::try_from(least).ok(),
            Shape::Integer { min, .. } => *min = Some(least),
            _ => unreachable!("nothing to bound here"),
        }
        self
    }

    /// The greatest number of characters, elements or entries, or the greatest value.
    fn at_most(mut self, most: i64) -> Self {
        match &mut self.shape {
            Shape::Text { max, .. } | Shape::List { max, .. } | Shape::Map { max, .. } => {
                *max = usize::try_from(most).ok();
            }
            Shape::Integer { max, .. } => *max = Some(most),
            _ => unreachable!("nothing to bound here"),
        }
        self
    }

    fn merge(mut self, how: ListMerge) -> Self {
        match &mut self.shape {
            Shape::List { merge, .. } => *merge = Some(how),
            _ => unreachable!("only lists merge this way"),
        }
        self
    }

    fn map_merge(mut self, how: &'static str) -> Self {
        match &mut self.shape {
            Shape::Map { merge, .. } => *merge = Some(how),
            _ => unreachable!("only maps merge this way"),
        }
        self
    }
}

fn object<const N: usize>(description: &'static str, properties: [(&'static str, Schema); N]) -> Schema {
    Schema::new(description, Shape::Object { properties: properties.into(), required: Vec::new() })
}

fn map(description: &'static str, values: Schema) -> Schema {
    Schema::new(description, Shape::Map { values: Box::new(values), max: None, merge: None })
}

fn list(description: &'static str, items: Schema) -> Schema {
    Schema::new(description, Shape::List { items: Box::new(items), min: None, max: None, merge: None })
}

fn text(description: &'static str) -> Schema {
    Schema::new(description, Shape::Text { pattern: None, min: None, max: None, one_of: &[], date_time: false })
}

fn date_time(description: &'static str) -> Schema {
    Schema::new(description, Shape::Text { pattern: None, min: None, max: None, one_of: &[], date_time: true })
}

fn int32(description: &'static str) -> Schema {
    Schema::new(description, Shape::Integer { width: Some(Width::Int32), min: None, max: None })
}

fn int64(description: &'static str) -> Schema {
    Schema::new(description, Shape::Integer { width: Some(Width::Int64), min: None, max: None })
}

/// An integer the reference declares without a width.
fn integer(description: &'static str) -> Schema {
    Schema::new(description, Shape::Integer { width: None, min: None, max: None })
}

fn boolean(description: &'static str) -> Schema {
    Schema::new(description, Shape::Boolean)
}

fn open(description: &'static str) -> Schema {
    Schema::new(description, Shape::Open)
}

/// Resource names to quantities.
fn resources(description: &'static str) -> Schema {
    map(description, Schema::new("", Shape::Quantity))
}

/// The object around a spec and a status.
fn root(description: &'static str, spec: Schema, status: Schema) -> Schema {
    object(
        description,
        [
            ("apiVersion", text("Group and version of this object's schema.")),
            ("kind", text("The kind of this object.")),
            ("metadata", Schema::new("", Shape::Metadata)),
            ("spec", spec),
            ("status", status),
        ],
    )
}

impl Schema {
    /// The OpenAPI form, as it stands in a CRD.
    pub(crate) fn to_json(&self) -> Value {
        render::render(self)
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Schema> {
        match &self.shape {
            Shape::Object { properties, .. } => properties.iter().find(|(p, _)| *p == name).map(|(_, s)| s),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
