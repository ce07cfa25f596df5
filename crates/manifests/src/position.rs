//! Where in a document a field stands, from the path in a message: so that faults can be told in the order of reading.

use serde_json::Value;

/// One step of a path, whichever way it is spelled: `a.b[0]`, `requests[nvidia.com/gpu]`, `labels["a/b"]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Field(String),
    Index(usize),
}

pub(crate) fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, after) = match inner.strip_prefix('"').and_then(|inner| inner.split_once("\"]")) {
                Some((key, after)) => (key, after),
                None => inner.split_once(']').unwrap_or((inner, "")),
            };
            steps.push(key.parse().map_or_else(|_| Step::Field(key.to_owned()), Step::Index));
            rest = after.strip_prefix('.').unwrap_or(after);
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        steps.push(Step::Field(rest[..end].to_owned()));
        rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
    }
    steps
}

/// The place of a field among what is written, for sorting: what is not there comes after its neighbours that are.
pub(crate) fn of(path: &str, object: &Value) -> Vec<usize> {
    let mut at = Some(object);
    let mut position = Vec::new();
    for step in steps(path) {
        let found = match (at, &step) {
            (Some(Value::Object(fields)), Step::Field(name)) => fields.keys().position(|key| key == name),
            (Some(Value::Object(fields)), Step::Index(index)) => {
                fields.keys().position(|key| *key == index.to_string())
            }
            (Some(Value::Array(items)), Step::Index(index)) => Some(*index).filter(|index| *index < items.len()),
            _ => None,
        };
        position.push(found.unwrap_or(usize::MAX));
        at = match (at, found) {
            (Some(Value::Object(fields)), Some(index)) => fields.values().nth(index),
            (Some(Value::Array(items)), Some(index)) => items.get(index),
            _ => break,
        };
    }
    position
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_read_however_they_are_spelled() {
        let field = |name: &str| Step::Field(name.to_owned());
        for path in ["a.b[0].c[nvidia.com/gpu]", "a.b[0].c[\"nvidia.com/gpu\"]"] {
            assert_eq!(steps(path), [field("a"), field("b"), Step::Index(0), field("c"), field("nvidia.com/gpu")]);
        }
        assert_eq!(steps("requests[cpu]"), steps("requests.cpu"));
        assert_eq!(steps(""), []);
    }

    #[test]
    fn fields_sort_as_they_stand() {
        let object = json!({"b": [{"x": 1}, {"y": 2}], "a": {"k": 0}});
        let mut paths = ["a.k", "c", "b[1].y", "b[1].z", "a", "b[0].x", "b"];
        paths.sort_by_cached_key(|path| of(path, &object));
        assert_eq!(paths, ["b", "b[0].x", "b[1].y", "b[1].z", "a", "a.k", "c"]);
    }
}
