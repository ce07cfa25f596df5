//! TOML for Bottlerocket, in the style of upstream's library: texts in single quotes where they can be, every table
//! under a header of its own, the settings of Kubernetes in upstream's order.

use toml::{Table, Value};

/// Of the keys of a table, those to be written first and in which order; the others follow sorted.
pub(super) type Order = fn(path: &[&str]) -> &'static [&'static str];

pub(super) fn write(document: &Table, order: Order) -> String {
    let mut writer = Writer { out: String::new(), after_header: false, order };
    writer.table(document, &mut Vec::new());
    writer.out
}

struct Writer {
    out: String,
    after_header: bool,
    order: Order,
}

impl Writer {
    fn table<'a>(&mut self, table: &'a Table, path: &mut Vec<&'a str>) {
        let first = (self.order)(path);
        let rank = |key: &str| first.iter().position(|known| *known == key).unwrap_or(first.len());
        let mut entries: Vec<(&String, &Value)> = table.iter().collect();
        entries.sort_by_key(|(key, _)| (rank(key), key.as_str()));
        for (key, value) in entries.iter().filter(|(_, value)| !is_table(value)) {
            self.out.push_str(&format!("{} = {}\n", self::key(key), inline(value)));
            self.after_header = false;
        }
        for (key, value) in entries.iter().filter(|(_, value)| is_table(value)) {
            path.push(key);
            match value {
                Value::Array(elements) => {
                    for element in elements.iter().filter_map(Value::as_table) {
                        self.header(path, "[[", "]]");
                        self.table(element, path);
                    }
                }
                Value::Table(inner) => {
                    self.header(path, "[", "]");
                    self.table(inner, path);
                }
                Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => {}
            }
            path.pop();
        }
    }

    fn header(&mut self, path: &[&str], open: &str, close: &str) {
        if !self.out.is_empty() && !self.after_header {
            self.out.push('\n');
        }
        let path = path.iter().map(|part| key(part)).collect::<Vec<_>>().join(".");
        self.out.push_str(&format!("{open}{path}{close}\n"));
        self.after_header = true;
    }
}

/// Whether it stands under a header: a table, or a list of nothing but tables.
fn is_table(value: &Value) -> bool {
    match value {
        Value::Table(_) => true,
        Value::Array(elements) => !elements.is_empty() && elements.iter().all(Value::is_table),
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => false,
    }
}

fn inline(value: &Value) -> String {
    let joined = |items: Vec<String>| items.join(", ");
    match value {
        Value::String(text) => string(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => float(*number),
        Value::Boolean(truth) => truth.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(elements) => format!("[{}]", joined(elements.iter().map(inline).collect())),
        Value::Table(table) => {
            let mut entries: Vec<_> = table.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            let pairs = entries.into_iter().map(|(name, value)| format!("{} = {}", key(name), inline(value)));
            format!("{{{}}}", joined(pairs.collect()))
        }
    }
}

fn float(number: f64) -> String {
    let text = number.to_string();
    match text.as_str() {
        "NaN" => "nan".to_owned(),
        "inf" | "-inf" => text,
        _ if text.contains('.') => text,
        _ => format!("{text}.0"),
    }
}

fn key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if bare { key.to_owned() } else { string(key) }
}

fn string(text: &str) -> String {
    if !text.chars().any(|c| c == '\'' || c < ' ' || c == '\u{7f}') {
        return format!("'{text}'");
    }
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{8}' => out.push_str(r"\b"),
            '\u{c}' => out.push_str(r"\f"),
            '\n' => out.push_str(r"\n"),
            '\r' => out.push_str(r"\r"),
            '\t' => out.push_str(r"\t"),
            c if c < ' ' || c == '\u{7f}' => out.push_str(&format!(r"\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
