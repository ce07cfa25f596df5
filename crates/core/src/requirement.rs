//! One constraint on one label key, and the algebra of combining such constraints.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// What a user writes: `key operator [values]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    Gte,
    Lte,
}

impl Operator {
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.as_str() == text)
    }
}

/// A constraint as it stands in a manifest, its key not yet normalised.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expression {
    pub key: Arc<str>,
    pub operator: Operator,
    pub values: Vec<Arc<str>>,
    /// How many distinct values the instance types of a claim must keep; NodePools only.
    pub min_values: Option<u32>,
}

impl Expression {
    pub fn new(key: &str, operator: Operator, values: &[&str]) -> Self {
        let values = values.iter().map(|value| Arc::from(*value)).collect();
        Self { key: Arc::from(key), operator, values, min_values: None }
    }
}

/// The values a label may take: a finite set, or everything but a finite set, both within optional integer bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// `true`: any value but `values`. `false`: one of `values`.
    pub open: bool,
    pub values: BTreeSet<Arc<str>>,
    /// Inclusive; with a bound present a value that is no integer never satisfies.
    pub at_least: Option<i64>,
    pub at_most: Option<i64>,
    pub min_values: Option<u32>,
}

impl Requirement {
    /// No constraint at all, which is also what an absent key means.
    pub fn any() -> Self {
        Self { open: true, values: BTreeSet::new(), at_least: None, at_most: None, min_values: None }
    }

    pub fn absent() -> Self {
        Self { open: false, ..Self::any() }
    }

    pub fn one(value: &str) -> Self {
        Self::one_of([value])
    }

    pub fn one_of<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        Self { open: false, values: values.into_iter().map(Arc::from).collect(), ..Self::any() }
    }

    /// From what the user wrote. An operand that is no integer was refused by validation; here it allows nothing.
    pub fn from_expression(expression: &Expression) -> Self {
        let values = || expression.values.iter().cloned().collect();
        let operand = || expression.values.first().and_then(|value| value.parse::<i64>().ok());
        let any = Self { min_values: expression.min_values, ..Self::any() };
        let bounded = |at_least: Option<i64>, at_most: Option<i64>| match (at_least, at_most) {
            (None, None) => Self::absent(),
            (at_least, at_most) => Self { at_least, at_most, ..any.clone() },
        };
        match expression.operator {
            Operator::In => Self { open: false, values: values(), ..any },
            Operator::NotIn => Self { values: values(), ..any },
            Operator::Exists => any,
            Operator::DoesNotExist => Self { open: false, ..any },
            Operator::Gt => bounded(operand().and_then(|n| n.checked_add(1)), None),
            Operator::Lt => bounded(None, operand().and_then(|n| n.checked_sub(1))),
            Operator::Gte => bounded(operand(), None),
            Operator::Lte => bounded(None, operand()),
        }
    }

    /// The operator the compatibility rules see: bounds alone count as `Exists`.
    pub fn operator(&self) -> Operator {
        match (self.open, self.values.is_empty()) {
            (true, false) => Operator::NotIn,
            (true, true) => Operator::Exists,
            (false, false) => Operator::In,
            (false, true) => Operator::DoesNotExist,
        }
    }

    /// Whether a node without the label satisfies this.
    pub fn tolerates_absence(&self) -> bool {
        matches!(self.operator(), Operator::NotIn | Operator::DoesNotExist)
    }

    pub fn allows(&self, value: &str) -> bool {
        self.values.contains(value) != self.open && self.within_bounds(value)
    }

    fn bounded(&self) -> bool {
        self.at_least.is_some() || self.at_most.is_some()
    }

    fn within_bounds(&self, value: &str) -> bool {
        if !self.bounded() {
            return true;
        }
        let Ok(number) = value.parse::<i64>() else { return false };
        self.at_least.is_none_or(|least| number >= least) && self.at_most.is_none_or(|most| number <= most)
    }

    pub fn intersect(&self, other: &Self) -> Self {
        let min_values = self.min_values.max(other.min_values);
        let at_least = self.at_least.max(other.at_least);
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if crossing(at_least, at_most) {
            return Self { min_values, ..Self::absent() };
        }
        let values: BTreeSet<Arc<str>> = match (self.open, other.open) {
            (true, true) => self.values.union(&other.values).cloned().collect(),
            (true, false) => other.values.difference(&self.values).cloned().collect(),
            (false, true) => self.values.difference(&other.values).cloned().collect(),
            (false, false) => self.values.intersection(&other.values).cloned().collect(),
        };
        let mut result = Self { open: self.open && other.open, values, at_least, at_most, min_values };
        let bounds = Self { at_least, at_most, ..Self::any() };
        result.values.retain(|value| bounds.within_bounds(value));
        if !result.open {
            (result.at_least, result.at_most) = (None, None);
        }
        result
    }

    /// Whether [`Self::intersect`] would leave anything, without building it. Two open sets always overlap unless
    /// their bounds cross, even where exclusions happen to cover the whole range.
    pub fn overlaps(&self, other: &Self) -> bool {
        let at_most = self.at_most.into_iter().chain(other.at_most).min();
        if crossing(self.at_least.max(other.at_least), at_most) {
            return false;
        }
        match (self.open, other.open) {
            (true, true) => true,
            (false, _) => self.values.iter().any(|value| self.allows(value) && other.allows(value)),
            (true, false) => other.values.iter().any(|value| self.allows(value) && other.allows(value)),
        }
    }

    /// Whether combining the two leaves nothing although one of them wants the label to be there: then no node, with
    /// the label or without, can satisfy both.
    pub fn contradicts(&self, other: &Self) -> bool {
        !(self.overlaps(other) || self.tolerates_absence() && other.tolerates_absence())
    }

    /// One value a node could be given: any member of a finite set, for an open one the smallest integer from 0 (or
    /// the lower bound) that is not excluded. Nothing where nothing is allowed.
    pub fn pick(&self) -> Option<Arc<str>> {
        if !self.open {
            return self.values.iter().find(|value| self.allows(value)).cloned();
        }
        let first = self.at_least.unwrap_or(0).max(0);
        let last = self.at_most.unwrap_or(i64::MAX);
        (first..=last).take(self.values.len() + 1).map(|n| Arc::from(n.to_string())).find(|value| self.allows(value))
    }

    /// As it is written to an API object. Bounds come first; exclusions beside a bound keep an entry of their own, or
    /// they would be lost.
    pub fn to_expressions(&self, key: &str) -> Vec<Expression> {
        let entry = |operator, values: Vec<Arc<str>>| Expression {
            key: Arc::from(key),
            operator,
            values,
            min_values: self.min_values,
        };
        let number = |n: i64| vec![Arc::from(n.to_string())];
        let mut entries: Vec<_> = self.at_least.map(|n| entry(Operator::Gte, number(n))).into_iter().collect();
        entries.extend(self.at_most.map(|n| entry(Operator::Lte, number(n))));
        if entries.is_empty() || !self.values.is_empty() {
            entries.push(entry(self.operator(), self.values.iter().cloned().collect()));
        }
        entries
    }
}

fn crossing(at_least: Option<i64>, at_most: Option<i64>) -> bool {
    matches!((at_least, at_most), (Some(least), Some(most)) if least > most)
}

/// How many values a message lists before it only counts.
const SHOWN: usize = 5;

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operator().as_str())?;
        if !self.values.is_empty() {
            let shown: Vec<&str> = self.values.iter().take(SHOWN).map(|value| &**value).collect();
            write!(f, " [{}", shown.join(", "))?;
            if self.values.len() > SHOWN {
                write!(f, " and {} others", self.values.len() - SHOWN)?;
            }
            f.write_str("]")?;
        }
        if let Some(least) = self.at_least {
            write!(f, " >={least}")?;
        }
        if let Some(most) = self.at_most {
            write!(f, " <={most}")?;
        }
        if let Some(count) = self.min_values {
            write!(f, " minValues {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
