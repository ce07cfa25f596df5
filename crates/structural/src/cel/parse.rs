//! The grammar of CEL, with its macros expanded.

use super::ast::{Entry, Expr, Fold, Issue, Kind, Literal};
use super::lex::{Token, TokenKind, tokens};

mod macros;

/// How deep expressions may nest. The reference takes 250; what nests deeper than this no person wrote.
const MAX_DEPTH: usize = 120;
/// How long an expression may be, in characters: more than fits into a rule's share of its cost.
const MAX_LENGTH: usize = 100_000;

/// Parses an expression; returns it with the number of its nodes.
pub(crate) fn parse(source: &str) -> Result<(Expr, usize), Vec<Issue>> {
    if source.chars().count() > MAX_LENGTH {
        let message = format!("expression code point size exceeds limit: size: {}, limit {MAX_LENGTH}", source.len());
        return Err(vec![Issue { at: 0, message }]);
    }
    let tokens = tokens(source).map_err(|issue| vec![issue])?;
    let mut parser = Parser { tokens, at: 0, next_id: 0, depth: 0 };
    let expr = parser.expr().and_then(|expr| match parser.peek() {
        TokenKind::End => Ok(expr),
        _ => parser.unexpected("<EOF>"),
    });
    let expr = expr.map_err(|issue| vec![issue])?;
    Ok((expr, parser.next_id))
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    next_id: usize,
    depth: usize,
}

type Parsed = Result<Expr, Issue>;

const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

impl Parser {
    fn peek(&self) -> &TokenKind {
        &self.tokens[self.at].kind
    }

    fn here(&self) -> usize {
        self.tokens[self.at].at
    }

    fn advance(&mut self) -> TokenKind {
        let kind = self.tokens[self.at].kind.clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        kind
    }

    fn sign(&mut self, wanted: &str) -> bool {
        let found = matches!(self.peek(), TokenKind::Sign(sign) if *sign == wanted);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, wanted: &str) -> Result<(), Issue> {
        if self.sign(wanted) { Ok(()) } else { self.unexpected(&format!("'{wanted}'")) }
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, Issue> {
        let found = match self.peek() {
            TokenKind::End => "<EOF>".to_owned(),
            TokenKind::Ident(name) => name.clone(),
            TokenKind::Sign(sign) => (*sign).to_owned(),
            TokenKind::Literal(Literal::String(text)) => crate::go::quote(text),
            TokenKind::Literal(literal) => format!("{literal:?}"),
        };
        Err(Issue { at: self.here(), message: format!("Syntax error: mismatched input '{found}' expecting {wanted}") })
    }

    pub(super) fn node(&mut self, at: usize, kind: Kind) -> Expr {
        let id = self.next_id;
        self.next_id += 1;
        Expr { id, at, kind }
    }

    fn call(&mut self, at: usize, function: &str, args: Vec<Expr>) -> Expr {
        self.node(at, Kind::Call { target: None, function: function.to_owned(), args })
    }

    fn expr(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.too_deep();
        }
        let condition = self.binary(0)?;
        let at = self.here();
        let expr = if self.sign("?") {
            let yes = self.binary(0)?;
            self.expect(":")?;
            let no = self.expr()?;
            self.call(at, "_?_:_", vec![condition, yes, no])
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// The operator that comes next and how tightly it binds; 0 is `||`.
    fn operator(&self) -> Option<(usize, &'static str)> {
        let TokenKind::Sign(sign) = self.peek() else { return None };
        Some(match *sign {
            "||" => (0, "_||_"),
            "&&" => (1, "_&&_"),
            "==" => (2, "_==_"),
            "!=" => (2, "_!=_"),
            "<" => (2, "_<_"),
            "<=" => (2, "_<=_"),
            ">" => (2, "_>_"),
            ">=" => (2, "_>=_"),
            "in" => (2, "@in"),
            "+" => (3, "_+_"),
            "-" => (3, "_-_"),
            "*" => (4, "_*_"),
            "/" => (4, "_/_"),
            "%" => (4, "_%_"),
            _ => return None,
        })
    }

    /// Operators that bind at least as tightly as asked.
    fn binary(&mut self, least: usize) -> Parsed {
        let mut left = self.unary()?;
        let mut chained = 0;
        while let Some((level, function)) = self.operator().filter(|(level, _)| *level >= least) {
            if level < 2 {
                left = self.chain(level, function, left)?;
                continue;
            }
            chained += 1;
            if self.depth + chained > MAX_DEPTH {
                return self.too_deep();
            }
            let at = self.here();
            self.advance();
            let right = self.binary(level + 1)?;
            left = self.call(at, function, vec![left, right]);
        }
        Ok(left)
    }

    fn too_deep<T>(&self) -> Result<T, Issue> {
        let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
        Err(Issue { at: self.here(), message })
    }

    /// `a && b && c`, as a balanced tree: the order of evaluation is the same, the depth is not.
    fn chain(&mut self, level: usize, function: &str, first: Expr) -> Parsed {
        let mut terms = vec![first];
        let mut places = Vec::new();
        while self.operator().is_some_and(|(next, _)| next == level) {
            places.push(self.here());
            self.advance();
            terms.push(self.binary(level + 1)?);
        }
        Ok(self.balance(function, terms, &places))
    }

    fn balance(&mut self, function: &str, mut terms: Vec<Expr>, places: &[usize]) -> Expr {
        if terms.len() == 1 {
            return terms.pop().expect("there is one");
        }
        let middle = terms.len() / 2;
        let right = terms.split_off(middle);
        let left = self.balance(function, terms, &places[..middle - 1]);
        let right = self.balance(function, right, &places[middle..]);
        self.call(places[middle - 1], function, vec![left, right])
    }

    fn unary(&mut self) -> Parsed {
        let at = self.here();
        for (sign, function) in [("!", "!_"), ("-", "-_")] {
            if matches!(self.peek(), TokenKind::Sign(found) if *found == sign) {
                self.advance();
                if sign == "-"
                    && let Some(literal) = self.negated()
                {
                    self.advance();
                    let operand = self.node(at, Kind::Literal(literal));
                    return self.member(operand);
                }
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return self.too_deep();
                }
                let operand = self.unary()?;
                self.depth -= 1;
                return Ok(self.call(at, function, vec![operand]));
            }
        }
        if matches!(self.peek(), TokenKind::Literal(Literal::Int(i64::MIN))) {
            return Err(Issue { at, message: "invalid int literal".to_owned() });
        }
        let operand = self.primary()?;
        self.member(operand)
    }

    /// A number right behind a minus is part of the literal.
    fn negated(&self) -> Option<Literal> {
        match self.peek() {
            TokenKind::Literal(Literal::Int(value)) => Some(Literal::Int(value.wrapping_neg())),
            TokenKind::Literal(Literal::Double(value)) => Some(Literal::Double(-value)),
            _ => None,
        }
    }

    fn member(&mut self, mut operand: Expr) -> Parsed {
        let mut length = 0;
        loop {
            length += 1;
            if self.depth + length > MAX_DEPTH {
                return self.too_deep();
            }
            let at = self.here();
            if self.sign(".") {
                let optional = self.sign("?");
                let name = match self.advance() {
                    TokenKind::Ident(name) => name,
                    _ => {
                        self.at = self.at.saturating_sub(1);
                        return self.unexpected("IDENTIFIER");
                    }
                };
                let call_at = self.here();
                operand = if optional {
                    let field = self.node(at, Kind::Literal(Literal::String(name)));
                    self.call(at, "_?._", vec![operand, field])
                } else if self.sign("(") {
                    let args = self.list(")")?;
                    self.member_call(call_at, operand, name, args)?
                } else {
                    self.node(at, Kind::Select { operand: Box::new(operand), field: name, test: false })
                };
            } else if self.sign("[") {
                let optional = self.sign("?");
                let index = self.expr()?;
                self.expect("]")?;
                operand = self.call(at, if optional { "_[?_]" } else { "_[_]" }, vec![operand, index]);
            } else {
                return Ok(operand);
            }
        }
    }

    fn list(&mut self, close: &str) -> Result<Vec<Expr>, Issue> {
        let mut items = Vec::new();
        if self.sign(close) {
            return Ok(items);
        }
        loop {
            items.push(self.expr()?);
            if self.sign(close) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.here();
        match self.advance() {
            TokenKind::Literal(literal) => Ok(self.node(at, Kind::Literal(literal))),
            TokenKind::Ident(name) => self.ident(at, name),
            TokenKind::Sign(".") => match self.advance() {
                TokenKind::Ident(name) => self.ident(at, format!(".{name}")),
                _ => {
                    self.at = self.at.saturating_sub(1);
                    self.unexpected("IDENTIFIER")
                }
            },
            TokenKind::Sign("(") => {
                let inside = self.expr()?;
                self.expect(")")?;
                Ok(inside)
            }
            TokenKind::Sign("[") => {
                let (mut items, mut optional) = (Vec::new(), Vec::new());
                while !self.sign("]") {
                    optional.push(self.sign("?"));
                    items.push(self.expr()?);
                    if !self.sign(",") {
                        self.expect("]")?;
                        break;
                    }
                }
                Ok(self.node(at, Kind::List(items, optional)))
            }
            TokenKind::Sign("{") => {
                let mut entries = Vec::new();
                while !self.sign("}") {
                    let optional = self.sign("?");
                    let key = self.expr()?;
                    self.expect(":")?;
                    let value = self.expr()?;
                    entries.push(Entry { key, value, optional });
                    if !self.sign(",") {
                        self.expect("}")?;
                        break;
                    }
                }
                Ok(self.node(at, Kind::Map(entries)))
            }
            _ => {
                if self.peek() != &TokenKind::End || self.tokens[self.at].at != at {
                    self.at = self.at.saturating_sub(1);
                }
                self.unexpected("{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}")
            }
        }
    }

    fn ident(&mut self, at: usize, name: String) -> Parsed {
        let plain = name.strip_prefix('.').unwrap_or(&name);
        if RESERVED.contains(&plain) {
            return Err(Issue { at, message: format!("reserved identifier: {plain}") });
        }
        let call_at = self.here();
        if self.sign("(") {
            let args = self.list(")")?;
            return self.global_call(call_at, name, args);
        }
        if matches!(self.peek(), TokenKind::Sign("{")) {
            let message = format!("undeclared reference to '{plain}' (in container '')");
            return Err(Issue { at: call_at, message });
        }
        Ok(self.node(at, Kind::Ident(plain.to_owned())))
    }

    #[expect(clippy::too_many_arguments, reason = "a comprehension has that many parts")]
    fn fold(
        &mut self,
        at: usize,
        range: Expr,
        vars: (String, Option<String>),
        accu: &str,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr {
        let fold = Fold { range, var: vars.0, var2: vars.1, accu: accu.to_owned(), init, condition, step, result };
        self.node(at, Kind::Fold(Box::new(fold)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn deep_nesting_is_refused_and_long_chains_are_not() {
        let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
        assert!(parse(&deep).unwrap_err()[0].message.contains("recursion limit"));
        assert!(parse(&"!".repeat(5000)).is_err());
        assert!(parse(&format!("x{}", ".a".repeat(5000))).is_err());
        assert!(parse(&vec!["1"; 5000].join(" + ")).is_err());
        assert!(parse(&vec!["true"; 5000].join(" && ")).is_ok());
    }

    #[test]
    fn mistakes_are_placed() {
        for (source, want) in [
            ("self.x >", "ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting"),
            ("a\n && && b", "ERROR: <input>:2:5: Syntax error: mismatched input '&&' expecting"),
            ("if", "ERROR: <input>:1:1: reserved identifier: if"),
            ("a = b", "ERROR: <input>:1:3: Syntax error: token recognition error at: '='"),
        ] {
            let issues = parse(source).unwrap_err();
            let shown = super::super::ast::render(&issues, source);
            assert!(shown.starts_with(want), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(source in r#"[a-c.?(){}\[\],:!<>=&|+*/%'"\\0-9 -]{0,24}"#) {
            let _ = parse(&source);
        }
    }
}
