//! The small part of JSON path that printer columns use: fields, indices, `[*]` and filters by equality.

use serde_json::Value;

/// The first value the path leads to.
pub(super) fn find(object: &Value, path: &str) -> Option<Value> {
    let mut at: Vec<&Value> = vec![object];
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('.') {
            let (name, tail) = field(tail);
            let name = name.replace("\\.", ".");
            at = at.into_iter().filter_map(|value| value.get(name.as_str())).collect();
            rest = tail;
        } else if let Some(tail) = rest.strip_prefix('[') {
            let end = close(tail)?;
            let (inner, tail) = (&tail[..end], &tail[end + 1..]);
            at = select(at, inner);
            rest = tail;
        } else {
            return None;
        }
    }
    at.first().map(|value| (*value).clone())
}

fn field(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\\' => escaped = !escaped,
            '.' | '[' if !escaped => return text.split_at(at),
            _ => escaped = false,
        }
    }
    (text, "")
}

/// The bracket that ends this one; quotes and nested brackets do not count.
fn close(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn select<'a>(at: Vec<&'a Value>, inner: &str) -> Vec<&'a Value> {
    if inner == "*" {
        return at.into_iter().flat_map(|value| value.as_array().into_iter().flatten()).collect();
    }
    if let Ok(index) = inner.parse::<i64>() {
        let pick = |value: &'a Value| {
            let list = value.as_array()?;
            let index = if index < 0 { i64::try_from(list.len()).ok()? + index } else { index };
            list.get(usize::try_from(index).ok()?)
        };
        return at.into_iter().filter_map(pick).collect();
    }
    let quoted = inner.trim_matches(['"', '\'']);
    if quoted != inner {
        return at.into_iter().filter_map(|value| value.get(quoted)).collect();
    }
    let Some(filter) = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) else { return Vec::new() };
    let Some((left, right)) = filter.split_once("==") else { return Vec::new() };
    let key = left.trim().trim_start_matches('@');
    let want = right.trim().trim_matches(['"', '\'']);
    let matches = |item: &&Value| match find(item, key) {
        Some(Value::String(text)) => text == want,
        Some(other) => {
            let text = other.to_string();
            text == want
        }
        None => false,
    };
    at.into_iter().flat_map(|value| value.as_array().into_iter().flatten()).filter(matches).collect()
}
