//! The rules of a whole schema, and their verdict on objects.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compile::{Compiled, compile_rules};
use super::eval::Failure;
use super::types::{Decl, escape};
use super::value::Val;
use crate::field::{BadValue, ErrorKind, FieldError, child, index, key};
use crate::schema::{Additional, Correlation, Rule, Schema};

/// What one rule may cost on one value.
const PER_CALL: u64 = 1_000_000;
/// What all rules may cost on one object.
const PER_OBJECT: i64 = 10_000_000;
/// How long a computed message may be, in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// The compiled rules of a schema. Compile once, when the CRD is stored, and keep.
#[derive(Clone, Debug)]
pub struct Rules {
    schema: Schema,
    root: Option<Node>,
}

/// What the rules say: errors refuse the object; warnings are failures of what did not change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    pub errors: Vec<FieldError>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    rules: Vec<Compiled>,
    /// Rules on values that expressions cannot describe.
    undeclared: bool,
    items: Option<Box<Node>>,
    additional: Option<Box<Node>>,
    properties: BTreeMap<String, Node>,
}

impl Rules {
    /// Compiles all rules of a schema. Rules that do not compile fail whatever they are asked about; a CRD that has such
    /// is refused before it comes to this.
    pub fn compile(schema: &Schema) -> Self {
        let decl = Decl::of(schema, "selfType", true);
        Self { root: Node::of(schema, decl.as_ref()), schema: schema.clone() }
    }

    /// Whether there are any rules.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Judges an object that passed validation against the schema; `old` is what it takes the place of. `path` is where
    /// the value stands: empty for a whole object.
    pub fn validate(&self, new: &Value, old: Option<&Value>, path: &str) -> Verdict {
        let correlation = old.map(|old| Correlation { schema: &self.schema, new, old });
        self.judge(new, old, correlation, path)
    }

    /// Judges a default: as it would be on creation, and as if it had been there before.
    pub(crate) fn validate_default(&self, default: &Value, path: &str) -> Vec<FieldError> {
        let errors = self.judge(default, Some(default), None, path).errors;
        if errors.is_empty() { self.judge(default, None, None, path).errors } else { errors }
    }

    fn judge(&self, new: &Value, old: Option<&Value>, correlation: Option<Correlation<'_>>, path: &str) -> Verdict {
        let mut judge = Judge { budget: PER_OBJECT, verdict: Verdict::default() };
        if let Some(root) = &self.root {
            judge.node(root, &self.schema, new, old, Ratchet { current: correlation, parent: None }, path);
        }
        judge.verdict
    }
}

impl Node {
    fn of(schema: &Schema, decl: Option<&Decl>) -> Option<Self> {
        let mut node = Self::default();
        if !schema.rules.is_empty() {
            match decl {
                Some(decl) => node.rules = compile_rules(schema, decl),
                None => node.undeclared = true,
            }
        }
        let element = decl.and_then(|decl| decl.element.as_deref());
        node.items = schema.items.as_deref().and_then(|items| Self::of(items, element)).map(Box::new);
        if let Some(Additional::Schema(values)) = &schema.additional {
            node.additional = Self::of(values, element).map(Box::new);
        }
        for (name, property) in &schema.properties {
            let own;
            let field = match escape(name) {
                Some(escaped) => match decl.and_then(|decl| decl.fields.get(&escaped)) {
                    Some(field) => Some(field.as_ref()),
                    None => continue,
                },
                // A name that expressions cannot say hides the field from its parents, not from its own rules.
                None => {
                    own = Decl::of(property, "selfType", property.embedded_resource);
                    if own.is_none() {
                        continue;
                    }
                    own.as_ref()
                }
            };
            if let Some(inner) = Self::of(property, field) {
                node.properties.insert(name.clone(), inner);
            }
        }
        let bare = node.rules.is_empty()
            && !node.undeclared
            && node.items.is_none()
            && node.additional.is_none()
            && node.properties.is_empty();
        (!bare).then_some(node)
    }
}

/// What a value can be compared with to tell whether it changed.
#[derive(Clone, Copy)]
struct Ratchet<'a> {
    current: Option<Correlation<'a>>,
    parent: Option<Correlation<'a>>,
}

impl Ratchet<'_> {
    fn unchanged(self) -> bool {
        match (self.current, self.parent) {
            (Some(current), _) => current.unchanged(),
            (None, Some(parent)) => parent.unchanged(),
            (None, None) => false,
        }
    }

    fn key(self, name: &str) -> Self {
        match self.current {
            None => self,
            Some(_) if self.parent.is_none() && matches!(name, "apiVersion" | "kind") => {
                Self { current: None, parent: None }
            }
            Some(current) => Self { current: current.key(name), parent: Some(current) },
        }
    }

    fn index(self, at: usize) -> Self {
        match self.current {
            None => self,
            Some(current) => Self { current: current.index(at), parent: Some(current) },
        }
    }
}

struct Judge {
    budget: i64,
    verdict: Verdict,
}

impl Judge {
    fn node(
        &mut self,
        node: &Node,
        schema: &Schema,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        path: &str,
    ) {
        if new.is_null() || self.budget < 0 {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, schema, new, old, ratchet, path);
        if self.budget < 0 {
            return;
        }
        match new {
            Value::Array(items) => {
                let (Some(inner), Some(of)) = (&node.items, schema.items.as_deref()) else { return };
                let before = old.map(|old| Correlation { schema, new, old });
                for (at, item) in items.iter().enumerate() {
                    let old = before.and_then(|before| before.counterpart(item));
                    self.node(inner, of, item, old, ratchet.index(at), &index(path, at));
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let old = old.and_then(|old| old.get(name));
                    if let (Some(inner), Some(Additional::Schema(of))) = (&node.additional, &schema.additional) {
                        self.node(inner, of, value, old, ratchet.key(name), &key(path, name));
                    }
                    if let (Some(inner), Some(of)) = (node.properties.get(name), schema.properties.get(name)) {
                        self.node(inner, of, value, old, ratchet.key(name), &child(path, name));
                    }
                }
            }
            _ => {}
        }
    }

    fn rules(
        &mut self,
        node: &Node,
        schema: &Schema,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        path: &str,
    ) {
        if node.undeclared {
            let detail = "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            self.error(FieldError::invalid(path, schema.kind.as_str(), detail));
            return;
        }
        if node.rules.is_empty() {
            return;
        }
        if self.budget <= 0 {
            self.out_of_budget(schema, path);
            return;
        }
        let own = Val::of(new, schema);
        let needs_old = node.rules.iter().any(|rule| rule.uses_old_self);
        let before = old.filter(|_| needs_old).map(|old| Val::of(old, schema));
        for compiled in &node.rules {
            self.rule(compiled, schema, new, &own, before.as_ref(), ratchet, path);
            if self.budget < 0 {
                return;
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a rule is judged by all of these")]
    fn rule(
        &mut self,
        compiled: &Compiled,
        schema: &Schema,
        new: &Value,
        own: &Val,
        before: Option<&Val>,
        ratchet: Ratchet<'_>,
        path: &str,
    ) {
        let kind = schema.kind.as_str();
        let program = match &compiled.program {
            None => return,
            Some(Err(problem)) => {
                let detail = format!("rule compile error: {}", problem.0);
                self.error(FieldError::invalid(path, kind, detail));
                return;
            }
            Some(Ok(program)) => program,
        };
        let optional = compiled.rule.optional_old_self == Some(true);
        if compiled.uses_old_self && before.is_none() && !optional {
            return;
        }
        let wrapped = Val::Optional(before.map(|before| before.clone().into()));
        let old = if optional { Some(&wrapped) } else { before };
        let (outcome, cost) = program.run(own, old, PER_CALL);
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if cost > self.budget {
            self.out_of_budget(schema, path);
            return;
        }
        self.budget -= cost;
        let about = about(&compiled.rule);
        match outcome {
            Ok(Val::Bool(true)) => return,
            Ok(_) => {}
            Err(failure @ Failure::TooCostly) => {
                let detail = format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {about}",
                    failure.message()
                );
                self.error(FieldError::invalid(path, kind, detail));
                self.budget = -1;
                return;
            }
            Err(failure) => {
                let message = failure.message();
                let detail = if message.starts_with("no such overload") {
                    format!(
                        "'{message}': call arguments did not match a supported operator, function or macro signature \
                         for rule: {about}"
                    )
                } else {
                    format!("{message} evaluating rule: {about}")
                };
                self.error(FieldError::invalid(path, kind, detail));
                return;
            }
        }
        let place = match &compiled.field_path {
            Some(below) => child(path, below),
            None => path.to_owned(),
        };
        let detail = match self.message(compiled, own, before, &place, kind) {
            Ok(detail) => detail,
            Err(error) => {
                self.fail(compiled, ratchet, *error);
                self.budget = -1;
                return;
            }
        };
        let value = if matches!(kind, "object" | "array") { BadValue::Omitted } else { BadValue::Json(new.clone()) };
        let error = FieldError { kind: reason(&compiled.rule), field: place, value, detail };
        let error = match error.kind {
            ErrorKind::Forbidden | ErrorKind::Required => FieldError { value: BadValue::Json("".into()), ..error },
            ErrorKind::Duplicate => FieldError { detail: String::new(), ..error },
            _ => error,
        };
        self.fail(compiled, ratchet, error);
    }

    /// What a failed rule has to say; an error if saying it costs too much.
    fn message(
        &mut self,
        compiled: &Compiled,
        own: &Val,
        before: Option<&Val>,
        place: &str,
        kind: &str,
    ) -> Result<String, Box<FieldError>> {
        let rule = &compiled.rule;
        let fixed = || {
            if rule.message.is_empty() {
                format!("failed rule: {}", about(rule))
            } else {
                rule.message.trim().to_owned()
            }
        };
        let Some(Ok(program)) = &compiled.message else { return Ok(fixed()) };
        let (outcome, cost) = program.run(own, before, PER_CALL);
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if cost > self.budget {
            let detail = "messageExpression evaluation failed due to running out of cost budget, no further validation \
                          rules will be run";
            return Err(Box::new(FieldError::invalid(place, kind, detail)));
        }
        if matches!(outcome, Err(Failure::TooCostly)) {
            let detail = format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                crate::go::quote(&rule.message_expression)
            );
            return Err(Box::new(FieldError::invalid(place, kind, detail)));
        }
        self.budget -= cost;
        match outcome {
            Ok(Val::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                Ok(if usable { text.to_owned() } else { fixed() })
            }
            _ => Ok(fixed()),
        }
    }

    /// A failure is only a warning where nothing changed, unless the rule is about change.
    fn fail(&mut self, compiled: &Compiled, ratchet: Ratchet<'_>, error: FieldError) {
        if !compiled.uses_old_self && ratchet.unchanged() {
            self.verdict.warnings.push(error.to_string());
        } else {
            self.error(error);
        }
    }

    fn error(&mut self, error: FieldError) {
        self.verdict.errors.push(error);
    }

    fn out_of_budget(&mut self, schema: &Schema, path: &str) {
        let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
        self.error(FieldError::invalid(path, schema.kind.as_str(), detail));
        self.budget = -1;
    }
}

fn about(rule: &Rule) -> &str {
    if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() }
}

fn reason(rule: &Rule) -> ErrorKind {
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => ErrorKind::Forbidden,
        Some("FieldValueRequired") => ErrorKind::Required,
        Some("FieldValueDuplicate") => ErrorKind::Duplicate,
        _ => ErrorKind::Invalid,
    }
}
