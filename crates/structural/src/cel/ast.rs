//! Expressions. Macros are expanded by the parser, so what is left is small: the checker, the cost estimate and the
//! evaluation each walk these few shapes.

/// A node. Ids are dense, so that facts about nodes are kept in vectors.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) id: usize,
    /// Where it stands in the source, in characters.
    pub(crate) at: usize,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    /// `operand.field`, or `has(operand.field)`.
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    Call {
        target: Option<Box<Expr>>,
        function: String,
        args: Vec<Expr>,
    },
    /// The second says which elements are written with a `?`.
    List(Vec<Expr>, Vec<bool>),
    Map(Vec<Entry>),
    Fold(Box<Fold>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// What every comprehension macro becomes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) var: String,
    /// The second variable: for lists the value beside the index, for maps the value beside the key.
    pub(crate) var2: Option<String>,
    pub(crate) accu: String,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

/// The variable in which comprehensions gather their result.
pub(crate) const ACCU: &str = "@result";

/// An error at a place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) at: usize,
    pub(crate) message: String,
}

/// Issues as the compiler prints them: `ERROR: <input>:1:6: …`, the line, and a mark under the place.
pub(crate) fn render(issues: &[Issue], source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let shown: Vec<String> = issues
        .iter()
        .map(|issue| {
            let at = issue.at.min(chars.len());
            let line = chars[..at].iter().filter(|c| **c == '\n').count();
            let start = chars[..at].iter().rposition(|c| *c == '\n').map_or(0, |newline| newline + 1);
            let end = chars[start..].iter().position(|c| *c == '\n').map_or(chars.len(), |newline| start + newline);
            let text: String = chars[start..end].iter().collect::<String>().replace('\t', " ");
            let column = at - start;
            format!(
                "ERROR: <input>:{}:{}: {}\n | {text}\n | {}^",
                line + 1,
                column + 1,
                issue.message,
                ".".repeat(column)
            )
        })
        .collect();
    shown.join("\n")
}
