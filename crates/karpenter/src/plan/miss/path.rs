//! Paths into manifests.

/// A path with one more name.
pub(super) fn field(path: &str, name: &str) -> String {
    let simple = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    match (simple, path.is_empty()) {
        (true, true) => name.to_owned(),
        (true, false) => format!("{path}.{name}"),
        (false, _) => format!("{path}[{}]", serde_json::Value::from(name)),
    }
}

/// A path with a position in a list.
pub(super) fn entry(path: &str, position: usize) -> String {
    format!("{path}[{position}]")
}
