//! The validation rules of custom resources: expressions in the Common Expression Language, as Kubernetes 1.36 speaks it.
//!
//! ```text
//!   source --parse--> Expr --check--> types --estimate--> cost      when the CRD is written
//!                       \--evaluate(self, oldSelf)--> verdict       when an object is
//! ```
//!
//! The language is complete in what Kubernetes gives rules: optional values, comprehensions with two variables, and the
//! libraries for strings, lists, sets, regular expressions, URLs, addresses, quantities, formats and versions. Only the
//! authorizer is absent, which rules cannot reach. What does not compile is refused when the CRD is written.
//!
//! [`Formula`] is the same language beside schemas: a number worked out from named inputs.

mod ast;
mod check;
mod compile;
mod cost;
mod decls;
mod eval;
mod formula;
mod lex;
mod library;
mod parse;
mod rules;
mod types;
mod value;

pub(crate) use compile::{Compiled, Problem, compile_rules};
pub use formula::{Formula, Input};
pub use rules::{Rules, Verdict};
pub(crate) use types::{Decl, MAX_REQUEST};

#[cfg(test)]
mod tests;
