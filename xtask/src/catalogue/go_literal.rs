//! Reads the value of a variable from Go source: literals of text, numbers, booleans, and composites of these. Enough
//! for generated tables, and loud about anything else.

use anyhow::{Context, bail};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    /// As written.
    Number(String),
    /// `true`, `false`, a constant.
    Name(String),
    /// Elements with their keys, if they have any. A bare field name as key is a `Name`.
    Composite(Vec<(Option<Value>, Value)>),
}

impl Value {
    pub(crate) fn elements(&self) -> anyhow::Result<&[(Option<Value>, Value)]> {
        match self {
            Self::Composite(elements) => Ok(elements),
            other => bail!("want a composite, found {other:?}"),
        }
    }

    /// The elements of a map with text keys.
    pub(crate) fn entries(&self) -> anyhow::Result<Vec<(&str, &Value)>> {
        let entry = |(key, value)| match key {
            &Some(Self::Text(ref key)) => Ok((key.as_str(), value)),
            other => bail!("want a text key, found {other:?}"),
        };
        self.elements()?.iter().map(|(key, value)| entry((key, value))).collect()
    }

    pub(crate) fn field(&self, name: &str) -> anyhow::Result<&Value> {
        let named = |(key, _): &&(Option<Value>, Value)| matches!(key, Some(Self::Name(key)) if key == name);
        let found = self.elements()?.iter().find(named);
        found.map(|(_, value)| value).with_context(|| format!("field {name} is missing"))
    }

    pub(crate) fn number<T: std::str::FromStr>(&self) -> anyhow::Result<T> {
        match self {
            Self::Number(text) => text.parse().ok().with_context(|| format!("cannot read the number {text}")),
            other => bail!("want a number, found {other:?}"),
        }
    }

    pub(crate) fn truth(&self) -> anyhow::Result<bool> {
        match self {
            Self::Name(name) if name == "true" => Ok(true),
            Self::Name(name) if name == "false" => Ok(false),
            other => bail!("want true or false, found {other:?}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Text(String),
    Number(String),
    Name(String),
    Sign(char),
}

/// The value of `name = …` at the top of a file.
pub(crate) fn variable(source: &str, name: &str) -> anyhow::Result<Value> {
    let tokens = tokens(source)?;
    let assigned = |pair: &[Token]| pair == [Token::Name(name.to_owned()), Token::Sign('=')];
    let start = tokens.windows(2).position(assigned).with_context(|| format!("there is no variable {name}"))?;
    let mut reader = Reader { tokens: &tokens[start + 2..] };
    reader.value().with_context(|| format!("in the value of {name}"))
}

fn tokens(source: &str) -> anyhow::Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            rest = rest.trim_start();
        } else if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else if rest.starts_with("/*") {
            rest = rest.split_once("*/").context("a comment has no end")?.1;
        } else if first == '"' {
            let (text, after) = rest[1..].split_once('"').context("a text has no end")?;
            if text.contains(['\\', '\n']) {
                bail!("escapes are not understood: {text:?}");
            }
            tokens.push(Token::Text(text.to_owned()));
            rest = after;
        } else if first == '`' {
            let (text, after) = rest[1..].split_once('`').context("a text has no end")?;
            tokens.push(Token::Text(text.to_owned()));
            rest = after;
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
            tokens.push(Token::Number(rest[..end].replace('_', "")));
            rest = &rest[end..];
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(Token::Name(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            tokens.push(Token::Sign(first));
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(tokens)
}

struct Reader<'a> {
    tokens: &'a [Token],
}

impl Reader<'_> {
    fn next(&mut self) -> anyhow::Result<Token> {
        let (first, rest) = self.tokens.split_first().context("the source ends too early")?;
        self.tokens = rest;
        Ok(first.clone())
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.first()
    }

    fn value(&mut self) -> anyhow::Result<Value> {
        match self.next()? {
            Token::Text(text) => Ok(Value::Text(text)),
            Token::Number(text) => Ok(Value::Number(text)),
            Token::Sign('{') => self.composite(),
            Token::Sign('-') => match self.next()? {
                Token::Number(text) => Ok(Value::Number(format!("-{text}"))),
                other => bail!("want a number after -, found {other:?}"),
            },
            // A name alone is a constant; followed by more of a type, it begins a composite.
            Token::Name(name) if !self.continues_type() => Ok(Value::Name(name)),
            Token::Name(_) | Token::Sign('[' | '&' | '*') => {
                self.skip_type()?;
                self.composite()
            }
            other => bail!("want a value, found {other:?}"),
        }
    }

    fn continues_type(&self) -> bool {
        matches!(self.peek(), Some(Token::Sign('[' | '.' | '{')))
    }

    /// Up to and including the brace that opens the composite. Types in these tables contain no braces.
    fn skip_type(&mut self) -> anyhow::Result<()> {
        while self.next()? != Token::Sign('{') {}
        Ok(())
    }

    /// Elements up to the closing brace.
    fn composite(&mut self) -> anyhow::Result<Value> {
        let mut elements = Vec::new();
        while self.peek() != Some(&Token::Sign('}')) {
            let mut value = self.value()?;
            let mut key = None;
            if self.peek() == Some(&Token::Sign(':')) {
                self.next()?;
                key = Some(value);
                value = self.value()?;
            }
            elements.push((key, value));
            match self.peek() {
                Some(Token::Sign(',')) => {
                    self.next()?;
                }
                Some(Token::Sign('}')) => {}
                other => bail!("want a comma or a closing brace, found {other:?}"),
            }
        }
        self.next()?;
        Ok(Value::Composite(elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        package p // a comment with "quotes"
        type T struct { N int }
        var Table = map[string]*pkg.T{ /* { */
            "a": {N: 1, Ok: true, Cards: []Card{{Max: 4}, {Max: -2}}},
            "b": {},
        }
        var Prices = map[string]map[pkg.Name]float64{"r": {"x": 0.025500, "y": 1}}
    "#;

    #[test]
    fn tables_are_read_as_they_are_written() {
        let table = variable(SOURCE, "Table").unwrap();
        let entries = table.entries().unwrap();
        assert_eq!(entries.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["a", "b"]);
        let first = entries[0].1;
        assert_eq!(first.field("N").unwrap().number::<u32>().unwrap(), 1);
        assert!(first.field("Ok").unwrap().truth().unwrap());
        let cards = first.field("Cards").unwrap().elements().unwrap();
        assert_eq!(cards[1].1.field("Max").unwrap().number::<i32>().unwrap(), -2);
        let prices = variable(SOURCE, "Prices").unwrap();
        let region = prices.entries().unwrap()[0].1.entries().unwrap()[0];
        assert_eq!((region.0, region.1.number::<f64>().unwrap()), ("x", 0.0255));
    }

    #[test]
    fn what_is_not_a_table_is_refused() {
        for (source, name) in [
            (SOURCE, "Missing"),
            ("var A = map[string]int{\"a\": 1", "A"),
            ("var A = f(1)", "A"),
            ("var A = []int{1 2}", "A"),
            ("var A = []string{\"a\\n\"}", "A"),
        ] {
            assert!(variable(source, name).and_then(|value| value.entries().map(drop)).is_err(), "{source}");
        }
    }
}
