//! The expressions of rules: whether they compile, and whether they can be afforded.

use serde_json::Value;

use super::super::{Rule, Schema};
use crate::cel::{Compiled, Decl, MAX_REQUEST, Problem, compile_rules};
use crate::field::{BadValue, ErrorKind, FieldError, child, index};
use crate::go;

/// What one rule may cost in the worst case, over all values it can be asked about in one object.
const PER_RULE: u64 = 10_000_000;
/// What all rules of a schema may cost.
const PER_SCHEMA: u64 = 100_000_000;

/// What holds for rules at a place in the schema because of what is above it.
#[derive(Clone)]
pub(super) struct RuleScope {
    /// How many such values there can be in an object; `None` if nothing bounds it.
    pub(super) cardinality: Option<u64>,
    /// Where a list above cannot be compared element by element with its former self.
    pub(super) uncorrelatable: Option<String>,
    /// Rules were accepted before, whatever they cost.
    pub(super) any_cost: bool,
}

impl RuleScope {
    pub(super) fn below(&self, schema: &Schema) -> Self {
        let bound = |limit: Option<i64>| limit.map(|limit| u64::try_from(limit).unwrap_or(0));
        let elements = match schema.kind.as_str() {
            "object" if schema.additional.is_some() => bound(schema.max_properties),
            "array" => bound(schema.max_items),
            _ => Some(1),
        };
        let cardinality = self.cardinality.zip(elements).map(|(above, elements)| above.saturating_mul(elements));
        Self { cardinality, ..self.clone() }
    }
}

/// What the rules of a schema cost together.
#[derive(Default)]
pub(super) struct Costs {
    total: u64,
    dearest: Vec<(u64, String)>,
}

impl Costs {
    fn add(&mut self, path: &str, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= PER_SCHEMA / 100 {
            self.dearest.push((cost, path.to_owned()));
            self.dearest.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.dearest.truncate(4);
        }
    }

    pub(super) fn problems(&self, path: &str) -> Vec<FieldError> {
        if self.total <= PER_SCHEMA {
            return Vec::new();
        }
        let part = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut errors: Vec<FieldError> =
            self.dearest.iter().map(|(_, path)| FieldError::forbidden(path, part)).collect();
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, too_dear(name, self.total, PER_SCHEMA)));
        errors
    }
}

pub(super) fn check(
    schema: &Schema,
    path: &str,
    root: bool,
    scope: &RuleScope,
    errors: &mut Vec<FieldError>,
    costs: &mut Costs,
) {
    if schema.rules.is_empty() {
        return;
    }
    let rules = child(path, "x-kubernetes-validations");
    let Some(decl) = Decl::of(schema, "selfType", root || schema.embedded_resource) else {
        let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to \
                      convert structural schema to CEL declarations";
        errors.push(FieldError::new(ErrorKind::Internal, &rules, "", detail));
        return;
    };
    let bound = scope.cardinality.unwrap_or(MAX_REQUEST / (decl.min_size + 1));
    for (at, compiled) in compile_rules(schema, &decl).iter().enumerate() {
        one(compiled, &index(&rules, at), bound, scope, errors, costs);
    }
}

fn one(
    compiled: &Compiled,
    path: &str,
    bound: u64,
    scope: &RuleScope,
    errors: &mut Vec<FieldError>,
    costs: &mut Costs,
) {
    let rule = &compiled.rule;
    let place = child(path, "rule");
    let cost = match &compiled.program {
        Some(Ok(program)) => program.max_cost.saturating_mul(bound),
        _ => 0,
    };
    if cost > PER_RULE && !scope.any_cost {
        errors.push(FieldError::forbidden(&place, too_dear("estimated rule cost", cost, PER_RULE)));
    }
    costs.add(&place, cost);
    if let Some(Err(Problem(what))) = &compiled.program {
        errors.push(about_rule(&place, rule, what));
    }
    let message = child(path, "messageExpression");
    match &compiled.message {
        Some(Err(Problem(what))) => errors.push(about_rule(&message, rule, what)),
        Some(Ok(program)) => {
            if program.max_cost > PER_RULE && !scope.any_cost {
                let detail = too_dear("estimated messageExpression cost", program.max_cost, PER_RULE);
                errors.push(FieldError::forbidden(&message, detail));
            }
            costs.add(&message, program.max_cost);
        }
        None => {}
    }
    if compiled.uses_old_self {
        if let Some(above) = &scope.uncorrelatable {
            let detail = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
            errors.push(FieldError::invalid(&place, rule.rule.as_str(), detail));
        }
    } else if let Some(optional) = rule.optional_old_self {
        let detail = "may not be set if oldSelf is not used in rule";
        errors.push(FieldError::invalid(&child(path, "optionalOldSelf"), optional, detail));
    }
}

/// An error about a rule, which repeats it as the server does: with the names its fields have inside of it.
fn about_rule(path: &str, rule: &Rule, detail: &str) -> FieldError {
    let text = |value: &str| go::marshal(&value.into());
    let optional = |value: Option<Value>| go::marshal(&value.unwrap_or_default());
    let written = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        optional(rule.reason.clone().map(Value::from)),
        text(&rule.field_path),
        optional(rule.optional_old_self.map(Value::from)),
    );
    FieldError { value: BadValue::Written(written), ..FieldError::invalid(path, "", detail) }
}

fn too_dear(name: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a factor for people to read")]
    let times = cost as f64 / limit as f64;
    let factor = if times > 100.0 {
        "more than 100x".to_owned()
    } else if times < 1.5 {
        format!("{times:.6}x")
    } else {
        format!("{times:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
