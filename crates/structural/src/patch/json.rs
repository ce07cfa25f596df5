//! RFC 6902 JSON patch, with the deviations of the library kube-apiserver uses: `replace` of a missing object member
//! adds it, negative indices count from the end, and whatever stands before the first slash of a path is ignored.

use serde_json::{Map, Value};

use super::PatchError;
use crate::go;

/// As many operations as kube-apiserver takes in one patch.
const MAX_OPERATIONS: usize = 10_000;

/// How much all copies of a patch may add together: as kube-apiserver has it, or a short patch could fill the memory.
const MAX_COPIED: usize = 3 << 20;
/// How deep a copy may lead: deeper than any object, and shallow enough for every stack.
const MAX_DEPTH: usize = 200;

/// Applies a JSON patch, given decoded.
pub fn json_patch(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = match patch {
        Value::Null => return Ok(document.clone()),
        Value::Array(operations) => operations,
        other => return Err(not_a_patch(other, "jsonpatch.Patch")),
    };
    for operation in operations {
        if !operation.is_object() && !operation.is_null() {
            return Err(not_a_patch(operation, "jsonpatch.Operation"));
        }
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut document = document.clone();
    let nothing = Map::new();
    let mut copied = 0;
    for operation in operations {
        let operation = Operation(operation.as_object().unwrap_or(&nothing));
        operation.apply(&mut document, &mut copied).map_err(PatchError::Unprocessable)?;
    }
    Ok(document)
}

fn not_a_patch(value: &Value, wanted: &str) -> PatchError {
    let kind = go::json_kind(value);
    PatchError::BadRequest(format!("json: cannot unmarshal {kind} into Go value of type {wanted}"))
}

const MISSING: &str = "missing value";

struct Operation<'a>(&'a Map<String, Value>);

impl Operation<'_> {
    fn apply(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        match self.0.get("op") {
            Some(Value::String(op)) => match op.as_str() {
                "add" => self.add(document),
                "remove" => self.remove(document),
                "replace" => self.replace(document),
                "move" => self.rename(document),
                "test" => self.test(document),
                "copy" => self.copy(document, copied),
                other => Err(format!("Unexpected kind: {other}")),
            },
            _ => Err("Unexpected kind: unknown".to_owned()),
        }
    }

    fn pointer(&self, key: &str) -> Result<&str, String> {
        match self.0.get(key) {
            Some(Value::String(path)) => Ok(path),
            None | Some(Value::Null) => {
                let comma = if key == "from" { "," } else { "" };
                Err(format!("operation{comma} missing {key} field: {MISSING}"))
            }
            Some(other) => Err(format!("json: cannot unmarshal {} into Go value of type string", go::json_kind(other))),
        }
    }

    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or(Value::Null)
    }

    fn add(&self, document: &mut Value) -> Result<(), String> {
        let path = self.pointer("path").map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
        let (parent, key) = find(document, path)
            .ok_or_else(|| format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}"))?;
        insert(parent, &key, self.value()).map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(&self, document: &mut Value) -> Result<(), String> {
        let path = self.pointer("path").map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
        let (parent, key) = find(document, path)
            .ok_or_else(|| format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}"))?;
        take(parent, &key).map(|_| ()).map_err(|error| format!("error in remove for path: '{path}': {error}"))
    }

    fn replace(&self, document: &mut Value) -> Result<(), String> {
        let path = self.pointer("path").map_err(|error| format!("replace operation failed to decode path: {error}"))?;
        if path.is_empty() {
            let value = self.value();
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            *document = value;
            return Ok(());
        }
        let (parent, key) = find(document, path)
            .ok_or_else(|| format!("replace operation does not apply: doc is missing path: {path}: {MISSING}"))?;
        get(parent, &key)
            .map_err(|_| format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"))?;
        match parent {
            Value::Array(items) => {
                let at = position(&key, items.len())?;
                items[at] = self.value();
            }
            Value::Object(fields) => {
                fields.insert(key, self.value());
            }
            _ => unreachable!("only containers are found"),
        }
        Ok(())
    }

    fn rename(&self, document: &mut Value) -> Result<(), String> {
        let from = self.pointer("from").map_err(|error| format!("move operation failed to decode from: {error}"))?;
        let (parent, key) = find(document, from)
            .ok_or_else(|| format!("move operation does not apply: doc is missing from path: {from}: {MISSING}"))?;
        let value = take(parent, &key).map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path = self.pointer("path").map_err(|error| format!("move operation failed to decode path: {error}"))?;
        let (parent, key) = find(document, path).ok_or_else(|| {
            format!("move operation does not apply: doc is missing destination path: {path}: {MISSING}")
        })?;
        insert(parent, &key, value).map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    fn test(&self, document: &mut Value) -> Result<(), String> {
        let path = self.pointer("path").map_err(|error| format!("test operation failed to decode path: {error}"))?;
        let failed = || format!("testing value {path} failed: test failed");
        if path.is_empty() {
            return if *document == self.value() { Ok(()) } else { Err(failed()) };
        }
        let (parent, key) = find(document, path)
            .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
        let found = get(parent, &key).map_err(|error| format!("error in test for path: '{path}': {error}"))?;
        if found.unwrap_or(&Value::Null) == &self.value() { Ok(()) } else { Err(failed()) }
    }

    fn copy(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        let from = self.pointer("from").map_err(|error| format!("copy operation failed to decode from: {error}"))?;
        let (parent, key) = find(document, from)
            .ok_or_else(|| format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}"))?;
        let value = get(parent, &key).map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        let value = value.cloned().unwrap_or(Value::Null);
        let path = self.pointer("path").map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
        *copied += value.to_string().len();
        if *copied > MAX_COPIED {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
            ));
        }
        if depth(&value) + path.split('/').count() > MAX_DEPTH {
            return Err("Unable to complete the copy, the document would be too deep".to_owned());
        }
        let (parent, key) = find(document, path).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing destination path: {path}: {MISSING}")
        })?;
        insert(parent, &key, value).map_err(|error| format!("error while adding value during copy: {error}"))
    }
}

/// How many containers are inside each other.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The container a path points into, and the last key. `None` if the way there is missing.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut tokens = path.split('/').skip(1).map(decode).peekable();
    let mut at = document;
    loop {
        let token = tokens.next()?;
        if tokens.peek().is_none() {
            return matches!(at, Value::Object(_) | Value::Array(_)).then_some((at, token));
        }
        at = match at {
            Value::Object(fields) => fields.get_mut(&token)?,
            Value::Array(items) => {
                let position = position(&token, items.len()).ok()?;
                &mut items[position]
            }
            _ => return None,
        };
    }
}

fn decode(token: &str) -> String {
    let mut out = String::with_capacity(token.len());
    let mut rest = token;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("~1") {
            out.push('/');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("~0") {
            out.push('~');
            rest = after;
        } else {
            out.push('~');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

fn get<'a>(parent: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match parent {
        Value::Array(items) => Ok(Some(&items[position(key, items.len())?])),
        Value::Object(fields) => Ok(fields.get(key)),
        _ => unreachable!("only containers are found"),
    }
}

fn insert(parent: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match parent {
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = atoi(key).map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
            let at = within(index, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => unreachable!("only containers are found"),
    }
    Ok(())
}

fn take(parent: &mut Value, key: &str) -> Result<Value, String> {
    match parent {
        Value::Object(fields) => {
            fields.shift_remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"))
        }
        Value::Array(items) => {
            let at = position(key, items.len())?;
            Ok(items.remove(at))
        }
        _ => unreachable!("only containers are found"),
    }
}

fn position(key: &str, length: usize) -> Result<usize, String> {
    within(atoi(key)?, length)
}

fn within(index: i64, length: usize) -> Result<usize, String> {
    let signed = i64::try_from(length).unwrap_or(i64::MAX);
    let at = if index < 0 { index + signed } else { index };
    if index >= signed || at < 0 {
        return Err(format!("Unable to access invalid index: {index}: invalid index referenced"));
    }
    Ok(usize::try_from(at).expect("between nought and the length"))
}

/// Go's `strconv.Atoi` with its errors.
fn atoi(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("strconv.Atoi: parsing {}: invalid syntax", go::quote(text)));
    }
    text.parse().map_err(|_| format!("strconv.Atoi: parsing {}: value out of range", go::quote(text)))
}

#[cfg(test)]
mod tests;
