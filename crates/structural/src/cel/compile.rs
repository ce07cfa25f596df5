//! From a rule's text to something that can be evaluated.

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;

use super::ast::{Expr, Issue, Kind, Literal, render};
use super::check::{Checked, check};
use super::cost::estimate;
use super::eval::{Failure, evaluate};
use super::library::strings;
use super::parse::parse;
use super::types::{Decl, Type};
use super::value::Val;
use crate::schema::{Rule, Schema, field_path};
use crate::{re2, time};

/// A rule, compiled or found wanting.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) rule: Rule,
    /// `None` for a rule without an expression.
    pub(crate) program: Option<Result<Program, Problem>>,
    pub(crate) message: Option<Result<Program, Problem>>,
    pub(crate) uses_old_self: bool,
    /// What the rule's `fieldPath` adds to the path of the value.
    pub(crate) field_path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem(pub(crate) String);

/// An expression that passed the checker.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    expr: Expr,
    checked: Checked,
    /// The patterns that are written out in it, by their text.
    patterns: BTreeMap<String, Regex>,
    /// The most it can cost on values the schema allows.
    pub(crate) max_cost: u64,
}

impl Program {
    pub(crate) fn run(&self, own: &Val, old: Option<&Val>, limit: u64) -> (Result<Val, Failure>, u64) {
        let mut variables = vec![("self", own.clone())];
        variables.extend(old.map(|old| ("oldSelf", old.clone())));
        evaluate(&self.expr, &self.checked, &self.patterns, variables, limit)
    }
}

/// Compiles the rules of one node of a schema, whose values are declared.
pub(crate) fn compile_rules(schema: &Schema, decl: &Decl) -> Vec<Compiled> {
    let mut objects = BTreeMap::new();
    decl.objects(&mut objects);
    let compile = |rule: &Rule| {
        let mut out =
            Compiled { rule: rule.clone(), program: None, message: None, uses_old_self: false, field_path: None };
        if rule.rule.trim().is_empty() {
            return out;
        }
        let old = if rule.optional_old_self == Some(true) {
            Type::Optional(Arc::new(decl.ty.clone()))
        } else {
            decl.ty.clone()
        };
        let variables = [("self", decl.ty.clone()), ("oldSelf", old)];
        let program = compile(&rule.rule, &variables, &objects, decl)
            .map_err(|what| Problem(format!("compilation failed: {what}")))
            .and_then(|program| match program.checked.result {
                Type::Bool => Ok(program),
                _ => Err(Problem("cel expression must evaluate to a bool".to_owned())),
            });
        out.uses_old_self = program.as_ref().is_ok_and(|program| program.checked.uses_old_self);
        let sound = program.is_ok();
        out.program = Some(program);
        if sound && !rule.message_expression.is_empty() {
            let message = compile(&rule.message_expression, &variables, &objects, decl)
                .map_err(|what| Problem(format!("messageExpression compilation failed: {what}")))
                .and_then(|program| match program.checked.result {
                    Type::String => Ok(program),
                    _ => Err(Problem("messageExpression must evaluate to a string".to_owned())),
                });
            out.message = Some(message);
        }
        if !rule.field_path.is_empty() {
            out.field_path = field_path::resolve(&rule.field_path, schema);
        }
        out
    };
    schema.rules.iter().map(compile).collect()
}

fn compile(
    source: &str,
    variables: &[(&str, Type)],
    objects: &BTreeMap<&str, &Decl>,
    decl: &Decl,
) -> Result<Program, String> {
    let shown = |issues: Vec<Issue>| render(&issues, source);
    let (expr, count) = parse(source).map_err(shown)?;
    let checked = check(&expr, count, variables, objects).map_err(shown)?;
    let mut found = Literals::default();
    literals(&expr, &checked.types, false, &mut found);
    found.issues.sort_by_key(|issue| issue.at);
    if !found.issues.is_empty() {
        return Err(shown(found.issues));
    }
    let max_cost = estimate(&expr, &checked, decl);
    Ok(Program { expr, checked, patterns: found.patterns, max_cost })
}

/// What is found out from the literals of an expression.
#[derive(Default)]
struct Literals {
    issues: Vec<Issue>,
    patterns: BTreeMap<String, Regex>,
}

/// Durations, times and patterns that are written out must be good ones, and the elements of a literal of one type, except
/// in what is formatted.
fn literals(expr: &Expr, types: &[Type], formatted: bool, found: &mut Literals) {
    match &expr.kind {
        Kind::Literal(_) | Kind::Ident(_) => {}
        Kind::Select { operand, .. } => literals(operand, types, formatted, found),
        Kind::Call { target, function, args } => {
            arguments(function, target.is_some(), args, found);
            if let (Some(target), "format", [values]) = (target, function.as_str(), args.as_slice()) {
                template(expr.at, target, values, types, found);
            }
            let inside = formatted || function == "format";
            target.iter().for_each(|target| literals(target, types, formatted, found));
            args.iter().for_each(|arg| literals(arg, types, inside, found));
        }
        Kind::List(items, optional) => {
            if !formatted {
                same_type(items.iter().zip(optional.iter().copied()), types, found);
            }
            items.iter().for_each(|item| literals(item, types, formatted, found));
        }
        Kind::Map(entries) => {
            if !formatted {
                same_type(entries.iter().map(|entry| (&entry.key, false)), types, found);
                same_type(entries.iter().map(|entry| (&entry.value, entry.optional)), types, found);
            }
            for entry in entries {
                literals(&entry.key, types, formatted, found);
                literals(&entry.value, types, formatted, found);
            }
        }
        Kind::Fold(fold) => {
            for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                literals(part, types, formatted, found);
            }
        }
    }
}

fn same_type<'a>(items: impl Iterator<Item = (&'a Expr, bool)>, types: &[Type], found: &mut Literals) {
    let mut first: Option<&Type> = None;
    for (item, optional) in items {
        let ty = match &types[item.id] {
            Type::Optional(of) if optional => of,
            other => other,
        };
        match first {
            None => first = Some(ty),
            Some(first) if first == ty => {}
            Some(first) => {
                found.issues.push(Issue { at: item.at, message: format!("expected type '{first}' but found '{ty}'") });
                return;
            }
        }
    }
}

fn arguments(function: &str, member: bool, args: &[Expr], found: &mut Literals) {
    let text = |at: usize| match args.get(at).map(|arg| (&arg.kind, arg.at)) {
        Some((Kind::Literal(Literal::String(text)), place)) => Some((text.as_str(), place)),
        _ => None,
    };
    let bad = match function {
        "duration" => text(0).filter(|(text, _)| time::parse_duration(text).is_none()),
        "timestamp" => text(0).filter(|(text, _)| time::parse_rfc3339(text).is_none()),
        "matches" | "find" | "findAll" => match text(usize::from(!member)) {
            Some((text, at)) => match re2::compile(text) {
                Ok(regex) => {
                    found.patterns.insert(text.to_owned(), regex);
                    None
                }
                Err(_) if function == "matches" => Some((text, at)),
                Err(_) => None,
            },
            None => None,
        },
        _ => None,
    };
    if let Some((_, at)) = bad {
        found.issues.push(Issue { at, message: format!("invalid {function} argument") });
    }
}

/// A template that is written out must fit the values that are written out for it.
fn template(at: usize, template: &Expr, values: &Expr, types: &[Type], found: &mut Literals) {
    let (Kind::Literal(Literal::String(text)), Kind::List(items, _)) = (&template.kind, &values.kind) else { return };
    let mut issue = |at: usize, message: String| found.issues.push(Issue { at, message });
    let mut used = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' || chars.next_if_eq(&'%').is_some() {
            continue;
        }
        let precision = chars.next_if_eq(&'.').is_some();
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let parsing = "could not parse formatting clause: error while parsing precision";
        let Some(clause) = chars.next() else {
            return issue(
                at,
                if precision {
                    format!("{parsing}: could not find end of precision specifier")
                } else {
                    "unexpected end of string".to_owned()
                },
            );
        };
        let Some(item) = items.get(used) else { return issue(at, format!("index {used} out of range")) };
        used += 1;
        if precision && digits.is_empty() {
            let message = format!(
                "{parsing}: error while converting precision to integer: strconv.Atoi: parsing \"\": invalid syntax"
            );
            return issue(at, message);
        }
        if !"sdfebxXo".contains(clause) {
            return issue(at, strings::clause_problem(clause, ""));
        }
        if !formats(clause, &types[item.id]) {
            let found = match &types[item.id] {
                Type::Optional(_) => "optional_type".to_owned(),
                Type::List(_) => "list".to_owned(),
                Type::Map(..) => "map".to_owned(),
                Type::Null => "null_type".to_owned(),
                other => other.to_string(),
            };
            return issue(item.at, format!("error during formatting: {}", strings::clause_problem(clause, &found)));
        }
    }
    if items.len() > used {
        let message = format!("too many arguments supplied to string.format (expected {used}, got {})", items.len());
        issue(at, message);
    }
}

fn formats(clause: char, ty: &Type) -> bool {
    match (clause, ty) {
        (_, Type::Dyn | Type::Param(_)) => true,
        ('s', Type::Optional(_) | Type::Opaque(_) | Type::Object(_)) => false,
        ('s', _) => true,
        ('d' | 'o', ty) => matches!(ty, Type::Int | Type::Uint),
        ('f' | 'e', ty) => matches!(ty, Type::Double | Type::String),
        ('b', ty) => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        (_, ty) => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
    }
}
