//! The schemas of custom resources: what a CustomResourceDefinition's `openAPIV3Schema` says, and what follows from it
//! for the objects written under it.
//!
//! ```text
//!   a CRD is written        Schema::parse, then check()
//!   an object is written    prune(), apply_defaults(), validate(), and the rules of `cel`
//!   an object is applied    shapes() tells apply how its parts merge
//! ```

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use crate::re2;

pub mod check;
mod default;
mod embedded;
pub(crate) mod field_path;
pub(crate) mod format;
mod list;
mod prune;
mod shapes;
mod validate;

pub use check::{CheckOptions, check, check_unchanged};
pub use default::{apply_defaults, drop_undefaulted_nulls};
pub use embedded::{drop_unknown_metadata, validate_embedded};
pub use list::validate_lists;
pub use prune::{Root, prune};
pub use shapes::shapes;
pub use validate::validate;

pub(crate) use validate::Correlation;

/// One node of a schema, with everything a CRD may carry there. Whether it may is the business of [`mod@check`].
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// `object`, `array`, `string`, `integer`, `number` or `boolean`; empty if not given.
    pub kind: String,
    pub format: String,
    pub title: String,
    pub description: String,
    pub default: Option<Value>,
    pub nullable: bool,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<Pattern>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub multiple_of: Option<f64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Vec<String>,
    pub choices: Vec<Value>,
    pub items: Option<Box<Schema>>,
    pub properties: BTreeMap<String, Schema>,
    pub additional: Option<Additional>,
    pub all_of: Vec<Schema>,
    pub any_of: Vec<Schema>,
    pub one_of: Vec<Schema>,
    pub not: Option<Box<Schema>>,
    pub preserve_unknown_fields: Option<bool>,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_type: Option<String>,
    pub list_map_keys: Vec<String>,
    pub map_type: Option<String>,
    pub rules: Vec<Rule>,
    /// The keywords that are there although Kubernetes does not take them, such as `$ref`.
    pub unsupported: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub enum Additional {
    Allowed(bool),
    Schema(Box<Schema>),
}

/// A regular expression, compiled once; what did not compile keeps its error, to be told when the CRD is checked.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub source: String,
    pub regex: Result<Regex, String>,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

/// Keywords of JSON schema that the type of a CRD has but the server refuses.
const UNSUPPORTED: [&str; 8] =
    ["id", "$schema", "$ref", "patternProperties", "definitions", "dependencies", "additionalItems", "externalDocs"];

impl Schema {
    /// Reads a schema from the JSON of a CRD. An error says what has the wrong type, and where.
    pub fn parse(value: &Value) -> Result<Self, String> {
        Reader { fields: value.as_object().ok_or_else(|| wrong(value, "object"))? }.schema()
    }

    /// The schema of the value under a key, as defaulting and pruning look it up.
    pub fn under(&self, key: &str) -> Option<&Schema> {
        match (self.properties.get(key), &self.additional) {
            (Some(schema), _) => Some(schema),
            (None, Some(Additional::Schema(schema))) => Some(schema),
            (None, _) => None,
        }
    }

    pub(crate) fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
    }
}

impl Pattern {
    pub fn new(source: &str) -> Self {
        Self { source: source.to_owned(), regex: re2::compile(source) }
    }
}

struct Reader<'a> {
    fields: &'a Map<String, Value>,
}

impl Reader<'_> {
    fn schema(&self) -> Result<Schema, String> {
        let mut schema = Schema {
            kind: self.text("type")?,
            format: self.text("format")?,
            title: self.text("title")?,
            description: self.text("description")?,
            default: self.get("default").cloned(),
            nullable: self.flag("nullable")?.unwrap_or_default(),
            maximum: self.number("maximum")?,
            exclusive_maximum: self.flag("exclusiveMaximum")?.unwrap_or_default(),
            minimum: self.number("minimum")?,
            exclusive_minimum: self.flag("exclusiveMinimum")?.unwrap_or_default(),
            max_length: self.integer("maxLength")?,
            min_length: self.integer("minLength")?,
            pattern: Some(self.text("pattern")?).filter(|pattern| !pattern.is_empty()).map(|it| Pattern::new(&it)),
            max_items: self.integer("maxItems")?,
            min_items: self.integer("minItems")?,
            unique_items: self.flag("uniqueItems")?.unwrap_or_default(),
            multiple_of: self.number("multipleOf")?,
            max_properties: self.integer("maxProperties")?,
            min_properties: self.integer("minProperties")?,
            required: self.texts("required")?,
            choices: self.list("enum")?.cloned().unwrap_or_default(),
            all_of: self.schemas("allOf")?,
            any_of: self.schemas("anyOf")?,
            one_of: self.schemas("oneOf")?,
            not: self.get("not").map(|not| under("not", Schema::parse(not))).transpose()?.map(Box::new),
            preserve_unknown_fields: self.flag("x-kubernetes-preserve-unknown-fields")?,
            embedded_resource: self.flag("x-kubernetes-embedded-resource")?.unwrap_or_default(),
            int_or_string: self.flag("x-kubernetes-int-or-string")?.unwrap_or_default(),
            list_type: Some(self.text("x-kubernetes-list-type")?).filter(|it| !it.is_empty()),
            list_map_keys: self.texts("x-kubernetes-list-map-keys")?,
            map_type: Some(self.text("x-kubernetes-map-type")?).filter(|it| !it.is_empty()),
            rules: self.rules()?,
            unsupported: UNSUPPORTED.into_iter().filter(|key| self.get(key).is_some()).collect(),
            ..Schema::default()
        };
        match self.get("items") {
            Some(Value::Array(_)) => schema.unsupported.push("items"),
            Some(items) => schema.items = Some(Box::new(under("items", Schema::parse(items))?)),
            None => {}
        }
        for (name, property) in self.object("properties")?.into_iter().flatten() {
            schema.properties.insert(name.clone(), under(&format!("properties.{name}"), Schema::parse(property))?);
        }
        schema.additional = match self.get("additionalProperties") {
            None => None,
            Some(Value::Bool(allowed)) => Some(Additional::Allowed(*allowed)),
            Some(other) => Some(Additional::Schema(Box::new(under("additionalProperties", Schema::parse(other))?))),
        };
        Ok(schema)
    }

    fn rules(&self) -> Result<Vec<Rule>, String> {
        let Some(rules) = self.list("x-kubernetes-validations")? else {
            return Ok(Vec::new());
        };
        let rules = rules.iter().map(|rule| {
            let reader = Reader { fields: rule.as_object().ok_or_else(|| wrong(rule, "object"))? };
            Ok(Rule {
                rule: reader.text("rule")?,
                message: reader.text("message")?,
                message_expression: reader.text("messageExpression")?,
                reason: reader.get("reason").map(|_| reader.text("reason")).transpose()?,
                field_path: reader.text("fieldPath")?,
                optional_old_self: reader.flag("optionalOldSelf")?,
            })
        });
        rules.collect::<Result<_, String>>().map_err(|error| format!("x-kubernetes-validations: {error}"))
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.fields.get(key).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        read(value).map(Some).ok_or_else(|| format!("{key}: {}", wrong(value, wanted)))
    }

    fn text(&self, key: &str) -> Result<String, String> {
        Ok(self.typed(key, "string", Value::as_str)?.unwrap_or_default().to_owned())
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        self.typed(key, "boolean", Value::as_bool)
    }

    fn number(&self, key: &str) -> Result<Option<f64>, String> {
        self.typed(key, "number", Value::as_f64)
    }

    fn integer(&self, key: &str) -> Result<Option<i64>, String> {
        self.typed(key, "integer", Value::as_i64)
    }

    fn list(&self, key: &str) -> Result<Option<&Vec<Value>>, String> {
        self.typed(key, "array", Value::as_array)
    }

    fn object(&self, key: &str) -> Result<Option<&Map<String, Value>>, String> {
        self.typed(key, "object", Value::as_object)
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let texts = self.list(key)?.into_iter().flatten();
        texts
            .map(|text| text.as_str().map(str::to_owned).ok_or_else(|| format!("{key}: {}", wrong(text, "string"))))
            .collect()
    }

    fn schemas(&self, key: &str) -> Result<Vec<Schema>, String> {
        let schemas = self.list(key)?.into_iter().flatten();
        schemas.enumerate().map(|(at, schema)| under(&format!("{key}[{at}]"), Schema::parse(schema))).collect()
    }
}

fn under<T>(place: &str, result: Result<T, String>) -> Result<T, String> {
    result.map_err(|error| format!("{place}.{error}"))
}

fn wrong(value: &Value, wanted: &str) -> String {
    format!("must be of type {wanted}, not {}", crate::go::json_kind(value))
}
