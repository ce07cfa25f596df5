//! Formulas: expressions over named inputs whose value is a number.

use std::collections::BTreeMap;

use super::ast::{Expr, Kind, render};
use super::check::{Checked, check};
use super::eval::evaluate;
use super::parse::parse;
use super::types::Type;
use super::value::Val;

/// Far more than any formula for one machine needs; a comprehension over a huge range ends here.
const COST_LIMIT: u64 = 1_000_000;

/// Compiled once, evaluated often. Formulas are equal when their texts are.
#[derive(Clone, Debug)]
pub struct Formula {
    source: String,
    expr: Expr,
    checked: Checked,
}

impl PartialEq for Formula {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Formula {}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    Int(i64),
    Text(&'a str),
}

impl Input<'_> {
    fn ty(self) -> Type {
        match self {
            Self::Int(_) => Type::Int,
            Self::Text(_) => Type::String,
        }
    }

    fn val(self) -> Val {
        match self {
            Self::Int(number) => Val::Int(number),
            Self::Text(text) => Val::String(text.into()),
        }
    }
}

impl Formula {
    /// `inputs` give the names and their types; the values do not matter yet. Beside the standard functions there are
    /// `min` and `max` of two numbers.
    pub fn compile(source: &str, inputs: &[(&str, Input<'_>)]) -> Result<Self, String> {
        let (mut expr, count) = parse(source).map_err(|issues| render(&issues, source))?;
        name_extremes(&mut expr);
        let variables: Vec<(&str, Type)> = inputs.iter().map(|(name, input)| (*name, input.ty())).collect();
        let checked = check(&expr, count, &variables, &BTreeMap::new()).map_err(|issues| render(&issues, source))?;
        match &checked.result {
            Type::Int | Type::Double | Type::Dyn => Ok(Self { source: source.to_owned(), expr, checked }),
            other => Err(format!("the result must be an integer or a double, not {other}")),
        }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Doubles are cut toward zero.
    pub fn value(&self, inputs: &[(&str, Input<'_>)]) -> Result<i64, String> {
        let variables = inputs.iter().map(|(name, input)| (*name, input.val())).collect();
        let (outcome, _) = evaluate(&self.expr, &self.checked, &BTreeMap::new(), variables, COST_LIMIT);
        match outcome.map_err(|failure| failure.message())? {
            Val::Int(number) => Ok(number),
            Val::Double(number) if !number.is_finite() => Err(format!("the result is {number}")),
            Val::Double(number) => {
                // Past 2^63, which is what the largest integer comes to, a cast would silently give that.
                let cut = number.trunc();
                if (i64::MIN as f64..i64::MAX as f64).contains(&cut) {
                    Ok(cut as i64)
                } else {
                    Err(format!("the result {number} is out of range"))
                }
            }
            _ => Err("the result is neither an integer nor a double".to_owned()),
        }
    }
}

/// `min(a, b)` and `max(a, b)` get names that no rule of a CRD can write, where these functions do not exist.
fn name_extremes(expr: &mut Expr) {
    match &mut expr.kind {
        Kind::Literal(_) | Kind::Ident(_) => {}
        Kind::Select { operand, .. } => name_extremes(operand),
        Kind::Call { target, function, args } => {
            if target.is_none() && args.len() == 2 && matches!(function.as_str(), "min" | "max") {
                *function = format!("@{function}");
            }
            target.iter_mut().for_each(|target| name_extremes(target));
            args.iter_mut().for_each(name_extremes);
        }
        Kind::List(items, _) => items.iter_mut().for_each(name_extremes),
        Kind::Map(entries) => entries.iter_mut().for_each(|entry| {
            name_extremes(&mut entry.key);
            name_extremes(&mut entry.value);
        }),
        Kind::Fold(fold) => {
            for part in [&mut fold.range, &mut fold.init, &mut fold.condition, &mut fold.step, &mut fold.result] {
                name_extremes(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: [(&str, Input<'static>); 2] = [("n", Input::Int(4)), ("name", Input::Text("m5.large"))];

    fn value(source: &str) -> Result<i64, String> {
        Formula::compile(source, &INPUTS)?.value(&INPUTS)
    }

    #[test]
    fn a_formula_is_a_number() {
        // covers: AWS-KC-12
        for (source, want) in [
            ("n * 10 + 2", 42),
            ("min(n, 3)", 3),
            ("max(n, 3)", 4),
            ("min(n, 3.9)", 3),
            ("max(2.5, n)", 4),
            ("max(2.5, 3.9)", 3),
            ("double(n) * -0.6", -2),
            ("name.startsWith('m5.') ? 110 : 29", 110),
            ("min(max(n, 7), max(9, n)) + [1, 2, 3].map(x, min(x, 2)).sum()", 12),
            ("[5, 3].min()", 3),
        ] {
            assert_eq!(value(source), Ok(want), "{source}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        // covers: AWS-KC-12, AWS-KC-14
        for source in ["name", "n > 3", "n +", "cores * 2", "min(n)", "min(n, 'a')", "max(1, 2, 3)", "'1' + 2"] {
            assert!(Formula::compile(source, &INPUTS).is_err(), "{source}");
        }
        for source in ["n / 0", "1.0 / 0.0", "0.0 / 0.0", "1e30", "9223372036854775807 + n"] {
            let formula = Formula::compile(source, &INPUTS).unwrap_or_else(|error| panic!("{source}: {error}"));
            assert!(formula.value(&INPUTS).is_err(), "{source}");
        }
    }

    #[test]
    fn a_formula_that_never_ends_is_ended() {
        let range = format!("[{}]", vec!["1"; 60].join(","));
        let source = format!("{range}.map(a, {range}.map(b, {range}.map(c, {range}.map(d, 1)).size()).size()).size()");
        if let Ok(formula) = Formula::compile(&source, &INPUTS) {
            assert!(formula.value(&INPUTS).is_err());
        }
    }
}
