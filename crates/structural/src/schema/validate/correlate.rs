//! Which part of the old object a part of the new one corresponds to.

use serde_json::Value;

use super::super::Schema;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Correlation<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) new: &'a Value,
    pub(crate) old: &'a Value,
}

impl<'a> Correlation<'a> {
    /// The same field of both; `None` if one lacks it or the schema does not know it.
    pub(crate) fn key(self, name: &str) -> Option<Self> {
        let (old, new) = (self.old.as_object()?.get(name)?, self.new.as_object()?.get(name)?);
        Some(Self { schema: self.schema.under(name)?, new, old })
    }

    /// The element of the old list with the same key; only lists of type `map` have such.
    pub(crate) fn index(self, at: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(at)?;
        let schema = self.schema.items.as_deref()?;
        let old = self.counterpart(new)?;
        Some(Self { schema, new, old }).filter(|_| !old.is_null())
    }

    /// The element of the old list with the keys of an element of the new one.
    pub(crate) fn counterpart(self, new: &Value) -> Option<&'a Value> {
        if self.schema.list_type.as_deref() != Some("map") {
            return None;
        }
        let new = new.as_object()?;
        self.old.as_array()?.iter().find(|old| {
            old.as_object().is_some_and(|old| self.schema.list_map_keys.iter().all(|key| old.get(key) == new.get(key)))
        })
    }

    /// Whether nothing changed; lists of type `map` may change their order.
    pub(crate) fn unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Null, Value::Null) => true,
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                if self.schema.list_type.as_deref() != Some("map") {
                    return new == old;
                }
                (0..new.len()).all(|at| self.index(at).is_some_and(Self::unchanged))
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len() && new.keys().all(|name| self.key(name).is_some_and(Self::unchanged))
            }
            (new, old) => new == old,
        }
    }
}
