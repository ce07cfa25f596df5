//! One line of either format.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::Level;

use super::COMMIT;
use super::fields::Fields;

/// Upstream knows three levels; a warning of ours is something an operator should look at.
fn level_name(level: Level, compat: bool) -> &'static str {
    match level {
        Level::WARN if compat => "WARN",
        Level::ERROR | Level::WARN => "ERROR",
        Level::INFO => "INFO",
        _ => "DEBUG",
    }
}

pub(super) fn json(now: Timestamp, level: Level, caller: Option<(&str, u32)>, fields: Fields) -> String {
    let mut line = Map::new();
    let mut put = |key: &str, value: Value| {
        line.insert(key.to_owned(), value);
    };
    put("level", json!(level_name(level, fields.compat)));
    put("time", json!(format!("{now:.3}")));
    put("logger", json!("controller"));
    if let Some((file, number)) = caller {
        put("caller", json!(format!("{file}:{number}")));
    }
    put("message", json!(fields.message));
    put("commit", json!(COMMIT));
    for (key, value) in fields.others {
        put(&key, value);
    }
    Value::Object(line).to_string() + "\n"
}

pub(super) fn console(now: Timestamp, level: Level, fields: Fields) -> String {
    let mut line =
        format!("{} {:<5} {}", now.strftime("%H:%M:%S%.3f"), level_name(level, fields.compat), fields.message);
    for (key, value) in fields.others {
        let shown = match &value {
            Value::Object(object) => {
                let part = |key: &str| object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
                part("namespace").into_iter().chain(part("name")).collect::<Vec<_>>().join("/")
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        line += &format!("  {key}={shown}");
    }
    line.replace('\n', "\\n") + "\n"
}
