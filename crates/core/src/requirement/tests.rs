use super::*;

fn r(operator: Operator, values: &[&str]) -> Requirement {
    Requirement::from_expression(&Expression::new("key", operator, values))
}

fn open(excluded: &[&str], at_least: Option<i64>, at_most: Option<i64>) -> Requirement {
    Requirement { open: true, at_least, at_most, ..Requirement::one_of(excluded.iter().copied()) }
}
