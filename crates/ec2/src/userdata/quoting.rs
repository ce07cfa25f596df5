//! One argument of a shell's command line: whatever the text, it arrives as it is, and nothing of it is run.

/// For bash: in single quotes, as upstream writes it. A line break could end the part of the MIME document around the
/// script, so texts with control characters are written with escapes.
pub(super) fn bash(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut quoted = "$'".to_owned();
    for c in text.chars() {
        match c {
            '\\' | '\'' => quoted.extend(['\\', c]),
            // No argument of a program can hold it.
            '\0' => {}
            c if c.is_control() => {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().for_each(|byte| quoted.push_str(&format!(r"\x{byte:02x}")));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// PowerShell takes these for single quotes, too.
const QUOTES: [char; 5] = ['\'', '\u{2018}', '\u{2019}', '\u{201a}', '\u{201b}'];

/// For PowerShell: in single quotes, as upstream writes it. The block around the script is found by its tags, whatever
/// stands between them; so a text that could be taken for a tag, or for another line, is spelled in UTF-16 code units.
pub(super) fn powershell(text: &str) -> String {
    let tag = text.match_indices('<').any(|(at, _)| {
        text[at + 1..].starts_with(|c: char| c == '/' || c == '!' || c == '?' || c.is_ascii_alphabetic())
    });
    if tag || text.chars().any(char::is_control) {
        let units: Vec<String> = text.encode_utf16().map(|unit| unit.to_string()).collect();
        return format!("(-join [char[]]({}))", units.join(","));
    }
    let mut quoted = "'".to_owned();
    for c in text.chars() {
        if QUOTES.contains(&c) {
            quoted.push(c);
        }
        quoted.push(c);
    }
    quoted.push('\'');
    quoted
}

/// A word of a kubelet's arguments in double quotes, as Go's `%q` writes it and systemd reads it.
pub(super) fn double(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '\\' | '"' => quoted.extend(['\\', c]),
            '\u{7}' => quoted.push_str(r"\a"),
            '\u{8}' => quoted.push_str(r"\b"),
            '\t' => quoted.push_str(r"\t"),
            '\n' => quoted.push_str(r"\n"),
            '\u{b}' => quoted.push_str(r"\v"),
            '\u{c}' => quoted.push_str(r"\f"),
            '\r' => quoted.push_str(r"\r"),
            c if c < ' ' || c == '\u{7f}' => quoted.push_str(&format!(r"\x{:02x}", u32::from(c))),
            c if c.is_ascii() || c.is_alphanumeric() => quoted.push(c),
            c if u32::from(c) <= 0xffff => quoted.push_str(&format!(r"\u{:04x}", u32::from(c))),
            c => quoted.push_str(&format!(r"\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}
