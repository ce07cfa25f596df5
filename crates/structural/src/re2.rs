//! Regular expressions with the syntax and meaning of Go's RE2, on an engine whose own differ: its classes nest, its
//! `\d`, `\w`, `\s` and `\b` know all of Unicode, its braces are never literal.

use regex::Regex;

/// Compiles an expression; the error is the one Go prints.
pub(crate) fn compile(source: &str) -> Result<Regex, String> {
    let translated = translate(source).map_err(|what| format!("error parsing regexp: {what}"))?;
    regex::RegexBuilder::new(&translated).octal(true).size_limit(10 << 20).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "error parsing regexp: expression too large".to_owned(),
        error => format!("error parsing regexp: {}", describe(&error.to_string(), source)),
    })
}

/// The same failure in Go's words.
fn describe(error: &str, source: &str) -> String {
    for (ours, theirs) in [
        ("unclosed group", "missing closing )"),
        ("unopened group", "unexpected )"),
        ("unclosed character class", "missing closing ]"),
        ("repetition operator missing expression", "missing argument to repetition operator"),
        ("invalid character class range", "invalid character class range"),
        ("invalid repetition count range", "invalid repeat count"),
        ("duplicate capture group name", "duplicate capture group name"),
        ("capture group", "invalid named capture"),
        ("Unicode property", "invalid character class range"),
        ("look-around", "invalid or unsupported Perl syntax"),
        ("unrecognized flag", "invalid or unsupported Perl syntax"),
        ("escape", "invalid escape sequence"),
    ] {
        if error.contains(ours) {
            return format!("{theirs}: `{source}`");
        }
    }
    format!("invalid syntax: `{source}`")
}

fn translate(source: &str) -> Result<String, String> {
    let mut out = String::with_capacity(source.len() + 16);
    let chars: Vec<char> = source.chars().collect();
    let mut at = 0;
    // Where the repetition before this place begins, if one is right before it.
    let mut repeated: Option<usize> = None;
    while at < chars.len() {
        let begins = at;
        let operator = matches!(chars[at], '*' | '+' | '?') || (chars[at] == '{' && is_repetition(&chars, at));
        if let (true, Some(first)) = (operator, repeated) {
            let lazy =
                chars[at] == '?' && at - first <= 1 + span(&chars, first).saturating_sub(1) && chars[at - 1] != '?';
            if !lazy {
                let end = at + span(&chars, at);
                let shown: String = chars[first..end].iter().collect();
                return Err(format!("invalid nested repetition operator: `{shown}`"));
            }
        }
        match chars[at] {
            '\\' => at = escape(&chars, at, Place::Outside, &mut out)?,
            '[' => at = class(&chars, at, &mut out)?,
            '{' => at = brace(&chars, at, &mut out)?,
            '(' if chars.get(at + 1) == Some(&'?') => {
                // Go takes groups with names or flags, and no look-around.
                if matches!(chars.get(at + 2), Some('=' | '!')) {
                    let shown: String = chars[at..at + 3].iter().collect();
                    return Err(format!("invalid or unsupported Perl syntax: `{shown}`"));
                }
                if chars.get(at + 2) == Some(&'<') && matches!(chars.get(at + 3), Some('=' | '!')) {
                    return Err("invalid or unsupported Perl syntax: `(?<`".to_owned());
                }
                out.push_str("(?");
                at += 2;
            }
            // Go takes (?<name>…) and (?P<name>…) and no look-around; so does the engine.
            c => {
                out.push(c);
                at += 1;
            }
        }
        repeated = operator.then(|| repeated.unwrap_or(begins));
    }
    Ok(out)
}

/// How many characters a repetition takes.
fn span(chars: &[char], at: usize) -> usize {
    if chars[at] == '{' { chars[at..].iter().position(|c| *c == '}').map_or(1, |end| end + 1) } else { 1 }
}

fn is_repetition(chars: &[char], at: usize) -> bool {
    let inside: String = chars[at + 1..].iter().take_while(|c| **c != '}').collect();
    let (least, most) = inside.split_once(',').unwrap_or((&inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most) && at + 1 + inside.len() < chars.len()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Class,
}

/// Translates the escape that begins at `at`; returns where it ends.
fn escape(chars: &[char], at: usize, place: Place, out: &mut String) -> Result<usize, String> {
    let Some(&next) = chars.get(at + 1) else {
        return Err("trailing backslash at end of expression: ``".to_owned());
    };
    let (plain, negated) = match next {
        'd' | 'D' => ("0-9", next == 'D'),
        'w' | 'W' => ("0-9A-Za-z_", next == 'W'),
        's' | 'S' => ("\\t\\n\\f\\r ", next == 'S'),
        'b' | 'B' if place == Place::Outside => {
            out.push_str(if next == 'b' { "(?-u:\\b)" } else { "(?-u:\\B)" });
            return Ok(at + 2);
        }
        'Q' => {
            let mut end = at + 2;
            while end < chars.len() && !(chars[end] == '\\' && chars.get(end + 1) == Some(&'E')) {
                out.push_str(&regex::escape(&chars[end].to_string()));
                end += 1;
            }
            return Ok((end + 2).min(chars.len()));
        }
        'E' => return Ok(at + 2),
        '1'..='9' if !chars.get(at + 2).is_some_and(|c| ('0'..='7').contains(c)) => {
            return Err(format!("invalid escape sequence: `\\{next}`"));
        }
        'a' => {
            out.push_str("\\x07");
            return Ok(at + 2);
        }
        'p' | 'P' | 'x' | 'A' | 'z' | 'f' | 'n' | 'r' | 't' | 'v' | '0'..='9' => {
            out.push('\\');
            out.push(next);
            return Ok(at + 2);
        }
        c if c.is_ascii_alphanumeric() => return Err(format!("invalid escape sequence: `\\{c}`")),
        c => {
            out.push_str(&literal(c));
            return Ok(at + 2);
        }
    };
    match (place, negated) {
        (Place::Outside, false) => out.push_str(&format!("[{plain}]")),
        (Place::Class, false) => out.push_str(plain),
        (_, true) => out.push_str(&format!("[^{plain}]")),
    }
    Ok(at + 2)
}

/// A character that stands for itself, in a class too.
fn literal(c: char) -> String {
    if c.is_ascii_punctuation() { format!("\\{c}") } else { c.to_string() }
}

fn class(chars: &[char], at: usize, out: &mut String) -> Result<usize, String> {
    out.push('[');
    let mut here = at + 1;
    if chars.get(here) == Some(&'^') {
        out.push('^');
        here += 1;
    }
    let first = here;
    loop {
        match chars.get(here) {
            None => {
                let rest: String = chars[at..].iter().collect();
                return Err(format!("missing closing ]: `{rest}`"));
            }
            Some(']') if here > first => {
                out.push(']');
                return Ok(here + 1);
            }
            Some('[') if chars.get(here + 1) == Some(&':') => {
                let end =
                    (here + 2..chars.len().saturating_sub(1)).find(|at| chars[*at] == ':' && chars[at + 1] == ']');
                match end {
                    Some(end) => {
                        out.extend(&chars[here..end + 2]);
                        here = end + 2;
                    }
                    None => {
                        out.push_str("\\[");
                        here += 1;
                    }
                }
            }
            Some('\\') => here = escape(chars, here, Place::Class, out)?,
            Some('-') => {
                // A dash at an end is itself; between two characters it makes a range.
                let at_end = here == first || chars.get(here + 1) == Some(&']');
                out.push_str(if at_end { "\\-" } else { "-" });
                here += 1;
            }
            Some(&c) => {
                out.push_str(&literal(c));
                here += 1;
            }
        }
    }
}

/// A repetition as it is, anything else as a literal brace.
fn brace(chars: &[char], at: usize, out: &mut String) -> Result<usize, String> {
    let end = (at..chars.len()).find(|at| chars[*at] == '}');
    let inside: Option<String> = end.map(|end| chars[at + 1..end].iter().collect());
    let (Some(end), Some(inside)) = (end, inside) else {
        out.push_str("\\{");
        return Ok(at + 1);
    };
    let (least, most) = inside.split_once(',').map_or((inside.as_str(), None), |(least, most)| (least, Some(most)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(least) || most.is_some_and(|most| !most.is_empty() && !digits(most)) {
        out.push_str("\\{");
        return Ok(at + 1);
    }
    let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
    let too_many = number(least) > 1000 || most.is_some_and(|most| !most.is_empty() && number(most) > 1000);
    if too_many || most.is_some_and(|most| !most.is_empty() && number(most) < number(least)) {
        return Err(format!("invalid repeat count: `{{{inside}}}`"));
    }
    out.extend(&chars[at..=end]);
    Ok(end + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn go_syntax_keeps_its_meaning() {
        for (pattern, yes, no) in [
            (r"^\d+$", "12", "١"),
            (r"^a+?b{1,2}?$", "aabb", "b"),
            (r"^\w$", "a", "é"),
            (r"^[\w.-]+$", "a.b-c", "a b"),
            (r"^[^\s]$", "x", " "),
            (r"^[[]$", "[", "]"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^[]a]$", "]", "b"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^{$", "{", "}"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"^[[:alpha:]]$", "a", "1"),
            (r"^[+-]?[0-9]$", "-1", "--1"),
            (r"^[a-]$", "-", "b"),
            (r"^(?i)AbC$", "aBc", "ab"),
            (r"^é$", "é", "e"),
            (r"^.$", "\u{1F600}", "\n"),
            (r"^[^\D]$", "1", "a"),
            (r"\bfoo\b", "a foo b", "afoo"),
        ] {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(regex.is_match(yes), "{pattern} {yes}");
            assert!(!regex.is_match(no), "{pattern} {no}");
        }
    }

    #[test]
    fn refusals_read_as_gos() {
        for (pattern, want) in [
            ("(", "error parsing regexp: missing closing ): `(`"),
            (")", "error parsing regexp: unexpected ): `)`"),
            ("[a", "error parsing regexp: missing closing ]: `[a`"),
            ("\\", "error parsing regexp: trailing backslash at end of expression: ``"),
            ("a{1001}", "error parsing regexp: invalid repeat count: `{1001}`"),
            (r"(a)\1", r"error parsing regexp: invalid escape sequence: `\1`"),
            ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
            ("a**", "error parsing regexp: invalid nested repetition operator: `**`"),
            ("a{2}*", "error parsing regexp: invalid nested repetition operator: `{2}*`"),
        ] {
            assert_eq!(compile(pattern).unwrap_err(), want, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(source in r"[\\\[\](){}a-c0-9,*+?^$|.:&~-]{0,16}") {
            let _ = compile(&source);
        }
    }
}
