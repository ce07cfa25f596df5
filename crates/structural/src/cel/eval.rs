//! Evaluation, with its cost counted as it goes.

use std::collections::BTreeMap;
use std::rc::Rc;

use regex::Regex;

use super::ast::{ACCU, Expr, Fold, Kind, Literal};
use super::check::{Checked, type_name};
use super::library;
use super::value::{Key, ListKind, Val};

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Failed(String),
    /// The call cost more than it may.
    TooCostly,
}

impl Failure {
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Failed(message) => message.clone(),
            Self::TooCostly => "operation cancelled: actual cost limit exceeded".to_owned(),
        }
    }
}

type Outcome = Result<Val, Failure>;

/// Evaluates an expression over variables; returns what came of it and what it cost.
pub(crate) fn evaluate(
    expr: &Expr,
    checked: &Checked,
    patterns: &BTreeMap<String, Regex>,
    variables: Vec<(&str, Val)>,
    limit: u64,
) -> (Outcome, u64) {
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut evaluator = Evaluator { checked, patterns, variables, cost: 0, limit };
    let outcome = match evaluator.expr(expr) {
        Ok(Val::Bad(what)) => Err(Failure::Failed(what.to_string())),
        outcome => outcome,
    };
    (outcome, evaluator.cost)
}

struct Evaluator<'a> {
    checked: &'a Checked,
    patterns: &'a BTreeMap<String, Regex>,
    variables: Vec<(String, Val)>,
    cost: u64,
    limit: u64,
}

impl Evaluator<'_> {
    fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Failure::TooCostly) } else { Ok(()) }
    }

    fn expr(&mut self, expr: &Expr) -> Outcome {
        match &expr.kind {
            Kind::Literal(literal) => Ok(constant(literal)),
            Kind::Ident(name) => self.ident(name),
            Kind::Select { operand, field, test } => self.select(operand, field, *test),
            Kind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            Kind::List(items, optional) => self.list(items, optional),
            Kind::Map(_) => self.map(expr),
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, name: &str) -> Outcome {
        self.charge(1)?;
        if let Some((_, value)) = self.variables.iter().rev().find(|(variable, _)| variable == name) {
            return Ok(value.clone());
        }
        match type_name(name) {
            Some(_) => Ok(Val::Type(name.into())),
            None => Err(Failure::Failed(format!("no such attribute(s): {name}"))),
        }
    }

    fn select(&mut self, operand: &Expr, field: &str, test: bool) -> Outcome {
        let value = self.expr(operand)?;
        if !test {
            self.charge(1)?;
        }
        let key = Key::String(field.into());
        match &value {
            Val::Map(fields) if test => Ok(Val::Bool(fields.contains_key(&key))),
            Val::Map(fields) => match fields.get(&key) {
                Some(Val::Bad(what)) => Err(Failure::Failed(what.to_string())),
                Some(value) => Ok(value.clone()),
                None => Err(Failure::Failed(format!("no such key: {field}"))),
            },
            Val::Optional(of) => {
                let found = match of.as_deref() {
                    Some(Val::Map(fields)) => fields.get(&key).cloned(),
                    _ => None,
                };
                Ok(if test { Val::Bool(found.is_some()) } else { Val::Optional(found.map(Rc::new)) })
            }
            Val::Bad(what) => Err(Failure::Failed(what.to_string())),
            _ => Err(Failure::Failed("no such overload".to_owned())),
        }
    }

    fn list(&mut self, items: &[Expr], optional: &[bool]) -> Outcome {
        let mut out = Vec::with_capacity(items.len());
        for (expr, optional) in items.iter().zip(optional) {
            match (self.expr(expr)?, optional) {
                (Val::Optional(value), true) => out.extend(value.map(|value| (*value).clone())),
                (_, true) => return Err(Failure::Failed("no such overload".to_owned())),
                (value, false) => out.push(value),
            }
        }
        // What is constant is made once, before anything is asked.
        if !items.iter().all(is_constant) {
            self.charge(10)?;
        }
        Ok(Val::list(out))
    }

    fn map(&mut self, expr: &Expr) -> Outcome {
        let Kind::Map(entries) = &expr.kind else { return Ok(Val::Null) };
        let mut out = BTreeMap::new();
        for entry in entries {
            let key = self.expr(&entry.key)?;
            let value = self.expr(&entry.value)?;
            let value = match (value, entry.optional) {
                (Val::Optional(None), true) => continue,
                (Val::Optional(Some(value)), true) => (*value).clone(),
                (_, true) => return Err(Failure::Failed("no such overload".to_owned())),
                (value, false) => value,
            };
            let Some(key) = key.key() else {
                return Err(Failure::Failed(format!("unsupported key type: {}", key.type_name())));
            };
            out.insert(key, value);
        }
        if !is_constant(expr) {
            self.charge(30)?;
        }
        Ok(Val::Map(Rc::new(out)))
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, function: &str, args: &[Expr]) -> Outcome {
        match (function, args) {
            ("_&&_", [a, b]) => return self.logical(a, b, false),
            ("_||_", [a, b]) => return self.logical(a, b, true),
            ("_?_:_", [condition, yes, no]) => {
                return match self.expr(condition)? {
                    Val::Bool(true) => self.expr(yes),
                    Val::Bool(false) => self.expr(no),
                    Val::Bad(what) => Err(Failure::Failed(what.to_string())),
                    _ => Err(Failure::Failed("no such overload".to_owned())),
                };
            }
            ("@not_strictly_false", [arg]) => {
                let value = self.expr(arg);
                self.charge(1)?;
                return match value {
                    Err(Failure::TooCostly) => Err(Failure::TooCostly),
                    Ok(Val::Bool(value)) => Ok(Val::Bool(value)),
                    _ => Ok(Val::Bool(true)),
                };
            }
            ("_?._", [operand, field]) => return self.optional_select(operand, field),
            ("@in", [item, list]) if matches!(list.kind, Kind::List(..)) && is_constant(list) => {
                let (item, list) = (self.expr(item)?, self.expr(list)?);
                return library::call("@in", &[item, list]);
            }
            ("or" | "orValue", [other]) => {
                if let Some(target) = target {
                    return self.or_else(function, target, other);
                }
            }
            ("_+_", [accu, more]) if matches!(&accu.kind, Kind::Ident(name) if name == ACCU) => {
                return self.append(more);
            }
            _ => {}
        }
        let qualified = self.checked.qualified.get(&expr.id);
        let mut values = Vec::with_capacity(args.len() + 1);
        if let (Some(target), None) = (target, qualified) {
            values.push(self.expr(target)?);
        }
        for arg in args {
            values.push(self.expr(arg)?);
        }
        let name = qualified.map_or(function, String::as_str);
        let cost =
            super::cost::of_call(name, &values, self.checked.overloads[expr.id].first().copied().unwrap_or_default());
        self.charge(cost)?;
        let known = match values.get(1) {
            Some(Val::String(pattern)) if matches!(name, "matches" | "find" | "findAll") => {
                self.patterns.get(&**pattern)
            }
            _ => None,
        };
        let result = match known {
            Some(regex) => library::strings::search(name, &values, regex)?,
            None => library::call(name, &values)?,
        };
        if name == "join" {
            self.charge(super::cost::factor(result.size().unwrap_or_default(), 0.2))?;
        }
        Ok(result)
    }

    /// Adds to what a comprehension gathers, in place: the old list is not needed any more.
    fn append(&mut self, more: &Expr) -> Outcome {
        self.charge(1)?;
        let more = self.expr(more)?;
        let place = self.variables.iter().rposition(|(name, _)| name == ACCU);
        let accu = place.map_or(Val::Null, |at| std::mem::replace(&mut self.variables[at].1, Val::Null));
        self.charge(1)?;
        match (accu, more) {
            (Val::List(list), Val::List(more)) => {
                let mut list = Rc::try_unwrap(list).unwrap_or_else(|shared| (*shared).clone());
                if matches!(list.kind, ListKind::Plain) {
                    list.items.extend(more.items.iter().cloned());
                } else {
                    list = library::concat(list, &more);
                }
                Ok(Val::List(Rc::new(list)))
            }
            (accu, more) => library::call("_+_", &[accu, more]),
        }
    }

    fn optional_select(&mut self, operand: &Expr, field: &Expr) -> Outcome {
        let Kind::Literal(Literal::String(field)) = &field.kind else {
            return Err(Failure::Failed("no such overload".to_owned()));
        };
        let value = self.expr(operand)?;
        self.charge(1)?;
        let key = Key::String(field.as_str().into());
        let inner = match &value {
            Val::Optional(of) => of.as_deref(),
            other => Some(other),
        };
        match inner {
            Some(Val::Map(fields)) => match fields.get(&key) {
                Some(Val::Bad(what)) => Err(Failure::Failed(what.to_string())),
                found => Ok(Val::Optional(found.cloned().map(Rc::new))),
            },
            None | Some(_) => Ok(Val::Optional(None)),
        }
    }

    /// The other value is only asked for where there is none.
    fn or_else(&mut self, function: &str, target: &Expr, other: &Expr) -> Outcome {
        match self.expr(target)? {
            found @ Val::Optional(Some(_)) if function == "or" => Ok(found),
            Val::Optional(Some(value)) => Ok((*value).clone()),
            Val::Optional(None) => self.expr(other),
            Val::Bad(what) => Err(Failure::Failed(what.to_string())),
            _ => Err(Failure::Failed("no such overload".to_owned())),
        }
    }

    /// `&&` and `||`: either side may decide alone, even where the other fails.
    fn logical(&mut self, a: &Expr, b: &Expr, decisive: bool) -> Outcome {
        let bool_of = |outcome: Outcome| match outcome {
            Ok(Val::Bool(value)) => Ok(value),
            Ok(Val::Bad(what)) => Err(Failure::Failed(what.to_string())),
            Ok(_) => Err(Failure::Failed("no such overload".to_owned())),
            Err(failure) => Err(failure),
        };
        let left = bool_of(self.expr(a));
        match left {
            Ok(value) if value == decisive => return Ok(Val::Bool(decisive)),
            Err(Failure::TooCostly) => return Err(Failure::TooCostly),
            _ => {}
        }
        let right = bool_of(self.expr(b));
        match (left, right) {
            (_, Ok(value)) if value == decisive => Ok(Val::Bool(decisive)),
            (_, Err(Failure::TooCostly)) => Err(Failure::TooCostly),
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
            (Ok(_), Ok(_)) => Ok(Val::Bool(!decisive)),
        }
    }

    fn fold(&mut self, fold: &Fold) -> Outcome {
        let range = self.expr(&fold.range)?;
        let init = self.expr(&fold.init)?;
        let depth = self.variables.len();
        self.variables.push((fold.accu.clone(), init));
        let outcome = self.rounds(fold, &range, depth);
        self.variables.truncate(depth);
        outcome
    }

    fn rounds(&mut self, fold: &Fold, range: &Val, depth: usize) -> Outcome {
        let count = match range {
            Val::List(list) => list.items.len(),
            Val::Map(map) => map.len(),
            Val::Bad(what) => return Err(Failure::Failed(what.to_string())),
            _ => return Err(Failure::Failed("got unexpected type in comprehension range".to_owned())),
        };
        let mut entries = match range {
            Val::Map(map) => Some(map.iter()),
            _ => None,
        };
        for at in 0..count {
            let (first, second) = match (range, &mut entries) {
                (Val::List(list), _) if fold.var2.is_some() => {
                    (Val::Int(i64::try_from(at).unwrap_or(i64::MAX)), list.items[at].clone())
                }
                (Val::List(list), _) => (list.items[at].clone(), Val::Null),
                (_, Some(entries)) => match entries.next() {
                    Some((key, value)) => (key.val(), value.clone()),
                    None => break,
                },
                _ => break,
            };
            self.variables.push((fold.var.clone(), first));
            if let Some(var2) = &fold.var2 {
                self.variables.push((var2.clone(), second));
            }
            let going = self.expr(&fold.condition)?;
            if !matches!(going, Val::Bool(true)) {
                self.variables.truncate(depth + 1);
                break;
            }
            let step = self.step(fold)?;
            self.variables.truncate(depth + 1);
            self.variables[depth].1 = step;
        }
        match self.expr(&fold.result)? {
            Val::Bad(what) => Err(Failure::Failed(what.to_string())),
            value => Ok(value),
        }
    }

    /// One step. A failure inside of `all` or `exists` is kept, for a later element may decide without it.
    fn step(&mut self, fold: &Fold) -> Outcome {
        let quantifier =
            matches!(&fold.step.kind, Kind::Call { function, .. } if matches!(function.as_str(), "_&&_" | "_||_"));
        match self.expr(&fold.step) {
            Err(Failure::Failed(message)) if quantifier && fold.accu == ACCU => Ok(Val::Bad(message.into())),
            outcome => outcome,
        }
    }
}

fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Literal(_) => true,
        Kind::List(items, optional) => !optional.contains(&true) && items.iter().all(is_constant),
        Kind::Map(entries) => {
            entries.iter().all(|entry| !entry.optional && is_constant(&entry.key) && is_constant(&entry.value))
        }
        _ => false,
    }
}

fn constant(literal: &Literal) -> Val {
    match literal {
        Literal::Null => Val::Null,
        Literal::Bool(value) => Val::Bool(*value),
        Literal::Int(value) => Val::Int(*value),
        Literal::Uint(value) => Val::Uint(*value),
        Literal::Double(value) => Val::Double(*value),
        Literal::String(text) => Val::string(text),
        Literal::Bytes(bytes) => Val::Bytes(bytes.as_slice().into()),
    }
}
