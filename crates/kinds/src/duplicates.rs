//! Keys that occur twice in a JSON object: the last one wins, and strict readers say so.

use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// The document, and its strict errors such as `duplicate field "spec.replicas"`.
pub fn read(body: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = noting("", &mut found).deserialize(&mut deserializer)?;
    deserializer.end()?;
    let told = found.iter().map(|path| format!("duplicate field {path:?}"));
    Ok((value, told.collect()))
}

/// Reads a value and adds the paths of fields that occur twice in it, below the path it stands at.
pub fn noting<'de, 'a>(at: &'a str, found: &'a mut Vec<String>) -> impl DeserializeSeed<'de, Value = Value> + 'a {
    let path = if at.is_empty() { Path::Top } else { Path::Key(&Path::Top, at) };
    Walk { path, found }
}

/// Where we are, put into words only when there is something to say.
enum Path<'a> {
    Top,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Top => Ok(()),
            Path::Key(Path::Top, key) => f.write_str(key),
            Path::Key(parent, key) => write!(f, "{parent}.{key}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

struct Walk<'a> {
    path: Path<'a>,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) =
            seq.next_element_seed(Walk { path: Path::Index(&self.path, items.len()), found: self.found })?
        {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(Walk { path: Path::Key(&self.path, &key), found: self.found })?;
            match fields.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    let path = Path::Key(&self.path, entry.key()).to_string();
                    if !self.found.contains(&path) {
                        self.found.push(path);
                    }
                    entry.insert(value);
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_found_at_any_depth() {
        let body = br#"{"a": 1, "b": [{"c": 1, "c": 2}], "a": {"d": null}}"#;
        let (value, found) = read(body).unwrap();
        assert_eq!(found, ["duplicate field \"b[0].c\"", "duplicate field \"a\""]);
        assert_eq!(value, serde_json::from_slice::<Value>(body).unwrap());
        assert!(read(b"{}").unwrap().1.is_empty());
        assert!(read(b"nonsense").is_err());
        assert!(read(b"{} {}").is_err());
    }
}
