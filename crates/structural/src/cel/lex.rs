//! Tokens.

use super::ast::{Issue, Literal};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) at: usize,
    pub(crate) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Ident(String),
    Literal(Literal),
    /// `in`, and all that is written with signs.
    Sign(&'static str),
    End,
}

/// Longest first.
const SIGNS: [&str; 27] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "(", ")", "[", "]", "{", "}", ".", ",",
    "?", ":", "=", "&", "|",
];

pub(crate) fn tokens(source: &str) -> Result<Vec<Token>, Issue> {
    let chars: Vec<char> = source.chars().collect();
    let mut lexer = Lexer { chars: &chars, at: 0 };
    let mut out = Vec::new();
    loop {
        let token = lexer.next()?;
        let end = token.kind == TokenKind::End;
        out.push(token);
        if end {
            return Ok(out);
        }
    }
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn issue<T>(&self, at: usize, message: impl Into<String>) -> Result<T, Issue> {
        Err(Issue { at, message: message.into() })
    }

    fn next(&mut self) -> Result<Token, Issue> {
        loop {
            match self.peek(0) {
                Some(' ' | '\t' | '\n' | '\r' | '\u{c}') => self.at += 1,
                Some('/') if self.peek(1) == Some('/') => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => break,
            }
        }
        let at = self.at;
        let Some(c) = self.peek(0) else { return Ok(Token { at, kind: TokenKind::End }) };
        let kind = match c {
            'a'..='z' | 'A'..='Z' | '_' => self.word()?,
            '0'..='9' => self.number()?,
            '.' if self.peek(1).is_some_and(|c| c.is_ascii_digit()) => self.number()?,
            '"' | '\'' => TokenKind::Literal(Literal::String(self.text(false)?)),
            '`' => {
                self.at += 1;
                let start = self.at;
                while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || "_.-/ ".contains(c)) {
                    self.at += 1;
                }
                if self.peek(0) != Some('`') {
                    return self.issue(at, "Syntax error: token recognition error at: '`'");
                }
                let name = self.chars[start..self.at].iter().collect();
                self.at += 1;
                TokenKind::Ident(name)
            }
            _ => {
                let found = SIGNS
                    .iter()
                    .find(|sign| sign.chars().enumerate().all(|(ahead, wanted)| self.peek(ahead) == Some(wanted)));
                match found {
                    Some(sign) if !matches!(*sign, "=" | "&" | "|") => {
                        self.at += sign.len();
                        TokenKind::Sign(sign)
                    }
                    _ => return self.issue(at, format!("Syntax error: token recognition error at: '{c}'")),
                }
            }
        };
        Ok(Token { at, kind })
    }

    fn word(&mut self) -> Result<TokenKind, Issue> {
        let start = self.at;
        let mut prefix = 0;
        while prefix < 2 && self.peek(prefix).is_some_and(|c| "rRbB".contains(c)) {
            prefix += 1;
            if matches!(self.peek(prefix), Some('"' | '\'')) {
                let marks: String = self.chars[start..start + prefix].iter().collect::<String>().to_lowercase();
                if matches!(marks.as_str(), "r" | "b" | "br" | "rb") {
                    self.at += prefix;
                    let raw = marks.contains('r');
                    return Ok(TokenKind::Literal(if marks.contains('b') {
                        Literal::Bytes(self.bytes(raw)?)
                    } else {
                        Literal::String(self.text(raw)?)
                    }));
                }
            }
        }
        while self.peek(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        Ok(match word.as_str() {
            "true" => TokenKind::Literal(Literal::Bool(true)),
            "false" => TokenKind::Literal(Literal::Bool(false)),
            "null" => TokenKind::Literal(Literal::Null),
            "in" => TokenKind::Sign("in"),
            _ => TokenKind::Ident(word),
        })
    }

    fn number(&mut self) -> Result<TokenKind, Issue> {
        let start = self.at;
        if self.peek(0) == Some('0') && matches!(self.peek(1), Some('x' | 'X')) {
            self.at += 2;
            let digits_at = self.at;
            while self.peek(0).is_some_and(|c| c.is_ascii_hexdigit()) {
                self.at += 1;
            }
            let digits: String = self.chars[digits_at..self.at].iter().collect();
            let value = u64::from_str_radix(&digits, 16);
            if matches!(self.peek(0), Some('u' | 'U')) {
                self.at += 1;
                return value
                    .map(|it| TokenKind::Literal(Literal::Uint(it)))
                    .or_else(|_| self.issue(start, "invalid uint literal"));
            }
            // One more than fits is let be: with a minus before it, it fits.
            return match value {
                Ok(value) if value <= 1 << 63 => Ok(TokenKind::Literal(Literal::Int(value.cast_signed()))),
                _ => self.issue(start, "invalid int literal"),
            };
        }
        let digits = |lexer: &mut Self| {
            while lexer.peek(0).is_some_and(|c| c.is_ascii_digit()) {
                lexer.at += 1;
            }
        };
        digits(self);
        let mut double = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            double = true;
            self.at += 1;
            digits(self);
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                double = true;
                self.at += 1 + sign;
                digits(self);
            }
        }
        let text: String = self.chars[start..self.at].iter().collect();
        if double {
            return match text.parse() {
                Ok(value) => Ok(TokenKind::Literal(Literal::Double(value))),
                Err(_) => self.issue(start, "invalid double literal"),
            };
        }
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return match text.parse() {
                Ok(value) => Ok(TokenKind::Literal(Literal::Uint(value))),
                Err(_) => self.issue(start, "invalid uint literal"),
            };
        }
        match text.parse::<u64>() {
            Ok(value) if value <= 1 << 63 => Ok(TokenKind::Literal(Literal::Int(value.cast_signed()))),
            _ => self.issue(start, "invalid int literal"),
        }
    }

    /// Where the literal's inside begins and ends, and where it ends itself.
    fn quoted(&mut self, raw: bool) -> Result<(usize, usize), Issue> {
        let start = self.at;
        let quote = self.peek(0).unwrap_or('"');
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let width = if triple { 3 } else { 1 };
        self.at += width;
        let inside = self.at;
        loop {
            match self.peek(0) {
                None => return self.issue(start, "Syntax error: unterminated string literal"),
                Some('\n') if !triple => return self.issue(start, "Syntax error: unterminated string literal"),
                Some('\\') if !raw => self.at += 2,
                Some(c) if c == quote && (!triple || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote))) => {
                    let end = self.at;
                    self.at += width;
                    return Ok((inside, end));
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn text(&mut self, raw: bool) -> Result<String, Issue> {
        let (from, to) = self.quoted(raw)?;
        let chars = self.chars.get(from..to).unwrap_or_default();
        if raw {
            return Ok(chars.iter().collect());
        }
        let mut out = String::new();
        unescape(chars, from, false, &mut |unit| match unit {
            Unit::Char(c) => out.push(c),
            Unit::Byte(byte) => out.push(char::from(byte)),
        })?;
        Ok(out)
    }

    fn bytes(&mut self, raw: bool) -> Result<Vec<u8>, Issue> {
        let (from, to) = self.quoted(raw)?;
        let chars = self.chars.get(from..to).unwrap_or_default();
        if raw {
            return Ok(chars.iter().collect::<String>().into_bytes());
        }
        let mut out = Vec::new();
        unescape(chars, from, true, &mut |unit| match unit {
            Unit::Char(c) => out.extend(c.to_string().as_bytes()),
            Unit::Byte(byte) => out.push(byte),
        })?;
        Ok(out)
    }
}

enum Unit {
    Char(char),
    /// `\xff` and `\377`: a byte in bytes, a code point in a string.
    Byte(u8),
}

fn unescape(chars: &[char], offset: usize, bytes: bool, out: &mut dyn FnMut(Unit)) -> Result<(), Issue> {
    let mut at = 0;
    while at < chars.len() {
        if chars[at] != '\\' {
            out(Unit::Char(chars[at]));
            at += 1;
            continue;
        }
        let bad = || Issue { at: offset + at, message: "Syntax error: unable to unescape string".to_owned() };
        let number = |from: usize, length: usize, radix: u32| {
            let digits: String = chars.get(from..from + length).ok_or_else(bad)?.iter().collect();
            u32::from_str_radix(&digits, radix).map_err(|_| bad())
        };
        let (unit, width) = match *chars.get(at + 1).ok_or_else(bad)? {
            'a' => (Unit::Char('\u{7}'), 2),
            'b' => (Unit::Char('\u{8}'), 2),
            'f' => (Unit::Char('\u{c}'), 2),
            'n' => (Unit::Char('\n'), 2),
            'r' => (Unit::Char('\r'), 2),
            't' => (Unit::Char('\t'), 2),
            'v' => (Unit::Char('\u{b}'), 2),
            c @ ('\\' | '\'' | '"' | '`' | '?') => (Unit::Char(c), 2),
            'x' | 'X' => (Unit::Byte(u8::try_from(number(at + 2, 2, 16)?).map_err(|_| bad())?), 4),
            'u' if !bytes => (Unit::Char(char::from_u32(number(at + 2, 4, 16)?).ok_or_else(bad)?), 6),
            'U' if !bytes => (Unit::Char(char::from_u32(number(at + 2, 8, 16)?).ok_or_else(bad)?), 10),
            '0'..='3' => (Unit::Byte(u8::try_from(number(at + 1, 3, 8)?).map_err(|_| bad())?), 4),
            _ => return Err(bad()),
        };
        out(unit);
        at += width;
    }
    Ok(())
}
