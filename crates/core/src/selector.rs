//! Label selectors over pods and namespaces.

use crate::labels::Labels;

/// All expressions must hold; none selects everything. An absent selector (selecting nothing) is `Option::None` at
/// the place that holds one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector {
    /// Sorted and without repetitions, so that equal selectors are equal values: [`Selector::new`].
    expressions: Vec<SelectorExpression>,
    /// An operator or operand Kubernetes would refuse: such a selector selects nothing.
    invalid: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SelectorExpression {
    pub key: String,
    pub operator: SelectorOperator,
    /// Sorted, without repetitions.
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    pub fn new(expressions: impl IntoIterator<Item = SelectorExpression>) -> Self {
        let mut expressions: Vec<_> = expressions.into_iter().collect();
        for expression in &mut expressions {
            expression.values.sort();
            expression.values.dedup();
        }
        expressions.sort();
        expressions.dedup();
        let malformed = |e: &SelectorExpression| match e.operator {
            SelectorOperator::In | SelectorOperator::NotIn => e.values.is_empty(),
            SelectorOperator::Exists | SelectorOperator::DoesNotExist => !e.values.is_empty(),
        };
        let invalid = expressions.iter().any(malformed);
        Self { expressions, invalid }
    }

    /// For an operator that does not exist.
    pub fn invalid() -> Self {
        Self { expressions: Vec::new(), invalid: true }
    }

    pub fn from_labels(labels: &Labels) -> Self {
        Self::new(labels.iter().map(|(key, value)| SelectorExpression::equals(key, value)))
    }

    /// This selector with more to hold.
    pub fn and(&self, more: impl IntoIterator<Item = SelectorExpression>) -> Self {
        let mut both = Self::new(self.expressions.iter().cloned().chain(more));
        both.invalid |= self.invalid;
        both
    }

    pub fn expressions(&self) -> &[SelectorExpression] {
        &self.expressions
    }

    pub fn is_invalid(&self) -> bool {
        self.invalid
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        !self.invalid && self.expressions.iter().all(|expression| expression.matches(labels))
    }
}

impl SelectorExpression {
    pub fn equals(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), operator: SelectorOperator::In, values: vec![value.to_owned()] }
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            SelectorOperator::In => value.is_some_and(|value| self.values.contains(value)),
            SelectorOperator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_as_kubernetes_does() {
        let labels: Labels = [("app".to_owned(), "web".to_owned())].into();
        let expression = |key: &str, operator, values: &[&str]| SelectorExpression {
            key: key.to_owned(),
            operator,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        use SelectorOperator::{DoesNotExist, Exists, In, NotIn};
        for (selector, want) in [
            (Selector::default(), true),
            (Selector::new([expression("app", In, &["web", "db"])]), true),
            (Selector::new([expression("app", NotIn, &["web"])]), false),
            (Selector::new([expression("tier", NotIn, &["web"])]), true),
            (Selector::new([expression("tier", Exists, &[])]), false),
            (Selector::new([expression("tier", DoesNotExist, &[])]), true),
            (Selector::new([expression("app", In, &[])]), false),
            (Selector::new([expression("tier", NotIn, &[])]), false),
            (Selector::invalid(), false),
        ] {
            assert_eq!(selector.matches(&labels), want, "{selector:?}");
        }
    }

    #[test]
    fn repeated_expressions_do_not_change_a_selector() {
        // covers: SCH-TOPO-08
        let once = Selector::new([SelectorExpression::equals("app", "web")]);
        assert_eq!(once, once.and([SelectorExpression::equals("app", "web")]));
    }
}
