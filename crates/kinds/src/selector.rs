//! Label and field selectors: the query grammar, the `LabelSelector` struct, and what they match.

use serde_json::Value;

/// A conjunction of requirements; empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    pub requirements: Vec<Requirement>,
    /// A selector that matches nothing at all, as an absent `LabelSelector` does.
    pub nothing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl Selector {
    pub fn nothing() -> Selector {
        Selector { requirements: Vec::new(), nothing: true }
    }

    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// `get` answers the value of a label.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(get(&requirement.key)))
    }

    /// Matches a JSON map of labels.
    pub fn matches_labels(&self, labels: Option<&Value>) -> bool {
        let labels = labels.and_then(Value::as_object);
        self.matches(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }

    /// Reads a `LabelSelector` struct. Absent selects nothing, empty selects everything, as the policy and apps groups
    /// have it. Callers validate first; an operator nobody knows selects nothing.
    pub fn from_struct(selector: Option<&Value>) -> Selector {
        let Some(selector) = selector.filter(|value| !value.is_null()) else {
            return Selector::nothing();
        };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(Requirement { key: key.clone(), operator: Operator::In, values });
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            let operator = match expression.get("operator").and_then(Value::as_str) {
                Some("In") => Operator::In,
                Some("NotIn") => Operator::NotIn,
                Some("Exists") => Operator::Exists,
                Some("DoesNotExist") => Operator::DoesNotExist,
                _ => return Selector::nothing(),
            };
            let key = expression.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(Requirement { key, operator, values });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Selector { requirements, nothing: false }
    }

    /// A plain map of labels, such as a Service's selector.
    pub fn from_map(labels: &Value) -> Selector {
        let requirements = labels.as_object().into_iter().flatten().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        });
        Selector { requirements: requirements.collect(), nothing: false }
    }

    /// The query form, as the scale subresource and error messages show it.
    pub fn to_query(&self) -> String {
        let texts: Vec<String> = self.requirements.iter().map(Requirement::to_query).collect();
        texts.join(",")
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.iter().any(|v| v == value)),
            Operator::NotIn => !value.is_some_and(|value| self.values.iter().any(|v| v == value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let (Some(left), Some(right)) = (
                    value.and_then(|v| v.parse::<i64>().ok()),
                    self.values.first().and_then(|v| v.parse::<i64>().ok()),
                ) else {
                    return false;
                };
                if self.operator == Operator::GreaterThan { left > right } else { left < right }
            }
        }
    }

    fn to_query(&self) -> String {
        let mut values = self.values.clone();
        values.sort();
        let key = &self.key;
        match self.operator {
            Operator::In if values.len() == 1 => format!("{key}={}", values[0]),
            Operator::In => format!("{key} in ({})", values.join(",")),
            Operator::NotIn if values.len() == 1 => format!("{key}!={}", values[0]),
            Operator::NotIn => format!("{key} notin ({})", values.join(",")),
            Operator::Exists => key.clone(),
            Operator::DoesNotExist => format!("!{key}"),
            Operator::GreaterThan => format!("{key}>{}", values.join(",")),
            Operator::LessThan => format!("{key}<{}", values.join(",")),
        }
    }
}

/// Parses the query grammar of label selectors. The error is the server's.
pub fn parse_labels(text: &str) -> Result<Selector, String> {
    let mut parser = Parser { tokens: lex(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match parser.peek() {
            Token::End => break,
            Token::Word(_) | Token::Bang => requirements.push(parser.requirement()?),
            other => {
                return Err(format!("found '{}', expected: !, identifier, or 'end of string'", other.text()));
            }
        }
        match parser.next() {
            Token::End => break,
            Token::Comma => match parser.peek() {
                Token::Word(_) | Token::Bang => {}
                other => return Err(format!("found '{}', expected: identifier after ','", other.text())),
            },
            other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
        }
    }
    requirements.sort_by(|a: &Requirement, b| a.key.cmp(&b.key));
    Ok(Selector { requirements, nothing: false })
}

/// One term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    pub field: String,
    pub value: String,
    pub equal: bool,
}

/// Parses `a=b,c!=d,e==f`, with `\` escaping `,`, `=` and itself.
pub fn parse_fields(text: &str) -> Result<Vec<FieldTerm>, String> {
    let mut terms = Vec::new();
    for term in split_unescaped(text) {
        if term.is_empty() {
            continue;
        }
        let invalid = || format!("invalid selector: '{text}'; can't understand '{term}'");
        let (at, operator) = find_operator(&term).ok_or_else(invalid)?;
        let value = unescape(&term[at + operator.len()..])?;
        terms.push(FieldTerm { field: term[..at].to_owned(), value, equal: operator != "!=" });
    }
    Ok(terms)
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        terms.last_mut().expect("starts with one").push(c);
    }
    terms
}

fn find_operator(term: &str) -> Option<(usize, &'static str)> {
    for (at, _) in term.char_indices() {
        for operator in ["!=", "==", "="] {
            if term[at..].starts_with(operator) {
                return Some((at, operator));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(format!("invalid field selector: invalid escape sequence: \\{other}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            ',' | '=' => {
                return Err(format!("invalid field selector: unescaped character in value: {text}: {c}"));
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Bang,
    Equals,
    DoubleEquals,
    NotEquals,
    Open,
    Close,
    Comma,
    Greater,
    Less,
    Unknown(String),
    End,
}

impl Token {
    fn text(&self) -> String {
        match self {
            Token::Word(text) | Token::Unknown(text) => text.clone(),
            Token::Bang => "!".into(),
            Token::Equals => "=".into(),
            Token::DoubleEquals => "==".into(),
            Token::NotEquals => "!=".into(),
            Token::Open => "(".into(),
            Token::Close => ")".into(),
            Token::Comma => ",".into(),
            Token::Greater => ">".into(),
            Token::Less => "<".into(),
            Token::End => String::new(),
        }
    }
}

fn lex(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if matches!(c, ' ' | '\t' | '\r' | '\n') {
            at += 1;
        } else if special(c) {
            let mut symbol = String::new();
            let mut best: Option<(Token, usize)> = None;
            let mut end = at;
            while end < chars.len() && special(chars[end]) {
                symbol.push(chars[end]);
                end += 1;
                let token = match symbol.as_str() {
                    "!" => Token::Bang,
                    "=" => Token::Equals,
                    "==" => Token::DoubleEquals,
                    "!=" => Token::NotEquals,
                    "(" => Token::Open,
                    ")" => Token::Close,
                    "," => Token::Comma,
                    ">" => Token::Greater,
                    "<" => Token::Less,
                    _ if best.is_some() => break,
                    _ => continue,
                };
                best = Some((token, end));
            }
            let (token, next) = best.unwrap_or((Token::Unknown(symbol), end));
            tokens.push(token);
            at = next;
        } else {
            let start = at;
            while at < chars.len() && !special(chars[at]) && !matches!(chars[at], ' ' | '\t' | '\r' | '\n') {
                at += 1;
            }
            tokens.push(Token::Word(chars[start..at].iter().collect()));
        }
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let prefix = |detail: String| format!("unable to parse requirement: {detail}");
        let negated = self.peek() == Token::Bang;
        if negated {
            self.next();
        }
        let Token::Word(key) = self.next() else {
            self.at -= 1;
            return Err(prefix(format!("found '{}', expected: identifier", self.peek().text())));
        };
        if let Err(errors) = crate::names::qualified_name(&key) {
            return Err(prefix(format!("<nil>: Invalid value: {key:?}: {}", errors.join("; "))));
        }
        if negated {
            return Ok(Requirement { key, operator: Operator::DoesNotExist, values: Vec::new() });
        }
        let operator = match self.peek() {
            Token::End | Token::Comma => {
                return Ok(Requirement { key, operator: Operator::Exists, values: Vec::new() });
            }
            Token::Word(word) if word == "in" => Operator::In,
            Token::Word(word) if word == "notin" => Operator::NotIn,
            Token::Equals | Token::DoubleEquals => Operator::In,
            Token::NotEquals => Operator::NotIn,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            other => {
                return Err(prefix(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", other.text())));
            }
        };
        let set = matches!(self.next(), Token::Word(_));
        let values = if set { self.set().map_err(prefix)? } else { vec![self.exact().map_err(prefix)?] };
        for (index, value) in values.iter().enumerate() {
            if matches!(operator, Operator::GreaterThan | Operator::LessThan) && value.parse::<i64>().is_err() {
                return Err(prefix(format!(
                    "values[{index}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                )));
            }
            if let Err(errors) = crate::names::label_value(value) {
                return Err(prefix(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", errors.join("; "))));
            }
        }
        Ok(Requirement { key, operator, values })
    }

    fn exact(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Comma => Ok(String::new()),
            Token::Word(word) => {
                self.next();
                Ok(word)
            }
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Open {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    values.push(word);
                    match self.next() {
                        Token::Comma => {
                            if matches!(self.peek(), Token::Comma | Token::Close) {
                                values.push(String::new());
                            }
                        }
                        Token::Close => break,
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                Token::Comma => values.push(String::new()),
                Token::Close => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    break;
                }
                other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

#[cfg(test)]
mod tests;
