//! The `fieldPath` of a rule: `.spec.limits['cpu']`, a path below the value the rule is about.

use super::{Additional, Schema};

/// Reads a path and follows it through a schema: what to append to the path of the value, such as `spec.limits[cpu]`.
/// `None` if the path leads nowhere.
pub(crate) fn resolve(path: &str, schema: &Schema) -> Option<String> {
    let mut out = String::new();
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(inside) = rest.strip_prefix('[') {
            let inside = inside.strip_prefix('\'')?;
            let end = quote_end(inside)?;
            let after = inside[end + 1..].strip_prefix(']')?;
            (unescape(&inside[..end])?, after)
        } else {
            let inside = rest.strip_prefix('.')?;
            let end = inside.find(['.', '[', ']']).unwrap_or(inside.len());
            if end == 0 {
                return None;
            }
            (inside[..end].to_owned(), &inside[end..])
        };
        schema = match (schema.properties.get(&name), &schema.additional) {
            (Some(property), _) => {
                out.push('.');
                out.push_str(&name);
                property
            }
            (None, Some(Additional::Schema(additional))) if schema.properties.is_empty() => {
                out.push_str(&format!("[{name}]"));
                additional
            }
            _ => return None,
        };
        rest = after;
    }
    if out.is_empty() { None } else { Some(out.trim_start_matches('.').to_owned()) }
}

fn quote_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).find(|at| bytes[*at] == b'\'' && (*at == 0 || bytes[*at - 1] != b'\\'))
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next()? {
                c @ ('\'' | '"' | '\\') => c,
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                _ => return None,
            }),
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_through_the_schema() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}, "it's": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
            "l": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
        }}))
        .unwrap();
        for (path, want) in [
            (".a", Some("a")),
            (".a['b.c']", Some("a.b.c")),
            (".a['it\\'s']", Some("a.it's")),
            (".m['k'].x", Some("m[k].x")),
            (".m.k.x", Some("m[k].x")),
            (".nope", None),
            ("a", None),
            (".l[0].x", None),
            (".a.", None),
            ("", None),
        ] {
            assert_eq!(resolve(path, &schema).as_deref(), want, "{path}");
        }
    }
}
