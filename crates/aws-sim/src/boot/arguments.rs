//! Words as a shell splits them, and flags as the kubelet reads them.

/// Quotes hold words together; nothing is expanded. PowerShell's quotes do the same here.
pub(super) fn shell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (Some(_), inside) => word.get_or_insert_default().push(inside),
            (None, open @ ('"' | '\'')) => {
                quote = Some(open);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, space) if space.is_whitespace() => words.extend(word.take()),
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// `--flag=value`, `--flag value` and `--flag`.
pub(super) fn flags(words: &[String]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--") else { continue };
        match flag.split_once('=') {
            Some((name, value)) => found.push((name.to_owned(), value.to_owned())),
            None => {
                let value = words.next_if(|next| !next.starts_with("--")).cloned();
                found.push((flag.to_owned(), value.unwrap_or_else(|| "true".to_owned())));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_flags() {
        let words = shell_words(r#"run 'a b' --x="1,2" --y z "say \"hi\"" --on"#);
        assert_eq!(words, ["run", "a b", "--x=1,2", "--y", "z", "say \"hi\"", "--on"]);
        let found = flags(&words);
        let want = [("x", "1,2"), ("y", "z"), ("on", "true")];
        assert_eq!(found, want.map(|(flag, value)| (flag.to_owned(), value.to_owned())));
    }
}
