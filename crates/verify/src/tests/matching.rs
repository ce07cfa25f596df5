//! Values against expressions, requirements and selectors, row by row.

use karpenter_core::requirement::Expression;
use karpenter_core::selector::{Selector, SelectorExpression, SelectorOperator};
use karpenter_core::{Operator, Requirement};
use karpenter_testkit::express::labels;

use crate::labels::{admits, holds_for, selector_matches};

#[test]
fn expressions_hold_as_kubernetes_says() {
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
    // The value 4, the value 5, a word, and no value at all.
    for (operator, values, want) in [
        (In, &["4", "x"][..], [true, false, true, false]),
        (NotIn, &["4", "x"], [false, true, false, true]),
        (In, &[], [false, false, false, false]),
        (NotIn, &[], [true, true, true, true]),
        (Exists, &[], [true, true, true, false]),
        (DoesNotExist, &[], [false, false, false, true]),
        (Gt, &["4"], [false, true, false, false]),
        (Gte, &["4"], [true, true, false, false]),
        (Gte, &["5"], [false, true, false, false]),
        (Lt, &["5"], [true, false, false, false]),
        (Lte, &["4"], [true, false, false, false]),
        (Lte, &["5"], [true, true, false, false]),
        (Gt, &["x"], [false, false, false, false]),
    ] {
        let expression = Expression::new("key", operator, values);
        let got = [Some("4"), Some("5"), Some("x"), None].map(|value| holds_for(&expression, value));
        assert_eq!(got, want, "{expression:?}");
    }
}

#[test]
fn requirements_admit_what_they_say() {
    let bounds = |at_least, at_most| Requirement { at_least, at_most, ..Requirement::any() };
    let except = |value: &str| Requirement { open: true, ..Requirement::one(value) };
    for (requirement, want) in [
        (Requirement::any(), [true, true, true, false]),
        (Requirement::absent(), [false, false, false, true]),
        (Requirement::one_of(["4", "x"]), [true, false, true, false]),
        (except("4"), [false, true, true, true]),
        (bounds(Some(4), None), [true, true, false, false]),
        (bounds(Some(5), None), [false, true, false, false]),
        (bounds(None, Some(4)), [true, false, false, false]),
        (bounds(Some(4), Some(4)), [true, false, false, false]),
        (Requirement { at_least: Some(4), ..except("4") }, [false, true, false, false]),
    ] {
        let got = [Some("4"), Some("5"), Some("x"), None].map(|value| admits(&requirement, value));
        assert_eq!(got, want, "{requirement:?}");
    }
}

#[test]
fn selectors_match_as_kubernetes_says() {
    use SelectorOperator::{DoesNotExist, Exists, In, NotIn};
    let one = |key: &str, operator, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Some(Selector::new([SelectorExpression { key: key.to_owned(), operator, values }]))
    };
    for (selector, want) in [
        (None, false),
        (Some(Selector::default()), true),
        (Some(Selector::invalid()), false),
        (one("app", In, &["web", "db"]), true),
        (one("app", In, &["db"]), false),
        (one("tier", In, &["web"]), false),
        (one("app", NotIn, &["web"]), false),
        (one("app", NotIn, &["db"]), true),
        (one("tier", NotIn, &["web"]), true),
        (one("app", Exists, &[]), true),
        (one("tier", Exists, &[]), false),
        (one("app", DoesNotExist, &[]), false),
        (one("tier", DoesNotExist, &[]), true),
    ] {
        assert_eq!(selector_matches(selector.as_ref(), &labels(&[("app", "web")])), want, "{selector:?}");
    }
}
