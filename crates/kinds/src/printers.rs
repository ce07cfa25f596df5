//! Table output: the columns kubectl shows, and their cells.

use jiff::Timestamp;
use serde_json::{Value, json};

/// A column's definition. Custom columns carry the JSON path of their cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub json_path: Option<String>,
}

impl Column {
    fn of(name: &str, kind: &str, format: &str, priority: i64) -> Column {
        Column {
            name: name.into(),
            kind: kind.into(),
            format: format.into(),
            description: String::new(),
            priority,
            json_path: None,
        }
    }

    pub fn name() -> Column {
        Column::of("Name", "string", "name", 0)
    }

    pub fn custom(name: &str, kind: &str, format: &str, description: &str, priority: i64, json_path: &str) -> Column {
        Column {
            name: name.into(),
            kind: kind.into(),
            format: format.into(),
            description: description.into(),
            priority,
            json_path: Some(json_path.into()),
        }
    }

    pub fn definition(&self) -> Value {
        json!({"name": self.name, "type": self.kind, "format": self.format, "description": self.description, "priority": self.priority})
    }

    /// The cell of a custom column.
    pub fn custom_cell(&self, _object: &Value, _now: Timestamp) -> Value {
        Value::Null
    }
}

pub fn columns(_group: &str, _kind: &str) -> Vec<Column> {
    vec![
        Column::of("Name", "string", "name", 0),
        Column::of("Created At", "date", "", 0),
    ]
}

pub fn cells(_group: &str, _kind: &str, object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![
        object["metadata"]["name"].clone(),
        object["metadata"]["creationTimestamp"].clone(),
    ]
}

pub fn row_conditions(_group: &str, _kind: &str, _object: Option<&Value>) -> Option<Value> {
    None
}
