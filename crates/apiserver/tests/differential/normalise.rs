//! What no two servers agree on, made equal: uids, versions, times, generated names, addresses, descriptions.

use serde_json::Value;

/// Generated names seen so far; they turn up again in later answers and inside messages.
#[derive(Default)]
pub(crate) struct Names(Vec<(String, String)>);

/// Values of these keys are replaced by their key, if they are there at all.
const ERASED: [&str; 18] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "time",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastPhaseTransitionTime",
    "continue",
    "token",
    "expirationTimestamp",
    "clusterIP",
    "nodePort",
    "healthCheckNodePort",
    "description",
    "storageVersionHash",
    "serverRelativeURL",
    "serverAddress",
];

impl Names {
    pub(crate) fn normalise(&mut self, mut value: Value) -> Value {
        self.learn(&value);
        self.walk(&mut value, "");
        value
    }

    fn learn(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let (Some(Value::String(base)), Some(Value::String(name))) =
                    (fields.get("generateName"), fields.get("name"))
                    && name.len() > base.len()
                    && !self.0.iter().any(|(known, _)| known == name)
                {
                    self.0.push((name.clone(), format!("{base}SUFFIX")));
                }
                fields.values().for_each(|value| self.learn(value));
            }
            Value::Array(items) => items.iter().for_each(|value| self.learn(value)),
            _ => {}
        }
    }

    fn walk(&self, value: &mut Value, key: &str) {
        match value {
            Value::Object(fields) => {
                let mapped: Vec<(String, Value)> = std::mem::take(fields)
                    .into_iter()
                    .map(|(key, mut value)| {
                        self.walk(&mut value, &key);
                        (self.text(&key), value)
                    })
                    .collect();
                fields.extend(mapped);
            }
            Value::Array(items) if key == "clusterIPs" => {
                items.iter_mut().filter(|item| *item != "None").for_each(|item| *item = Value::from("IP"));
            }
            // Ages: what took a second here may take two there.
            Value::Array(items) if key == "cells" => {
                for item in items {
                    let age = item
                        .as_str()
                        .is_some_and(|text| text.strip_suffix('s').is_some_and(|n| n.parse::<u32>().is_ok()));
                    if age {
                        *item = Value::from("AGE");
                    } else {
                        self.walk(item, "");
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, "")),
            Value::String(text) => {
                let named = ERASED.contains(&key)
                    && (!text.is_empty() || key == "description")
                    && !(key == "clusterIP" && text == "None");
                *text = if named { key.to_owned() } else { self.text(text) };
            }
            Value::Number(_) if ERASED.contains(&key) => *value = Value::from(key),
            _ => {}
        }
    }

    /// Generated names, uids and versions inside a text.
    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, replacement) in &self.0 {
            text = text.replace(name, replacement);
        }
        if let Some(at) = text.find("kube-api-access-") {
            let end = (at + "kube-api-access-".len() + 5).min(text.len());
            text.replace_range(at..end, "kube-api-access-SUFFIX");
        }
        // A dump of the server's internal types follows; their names are not part of the API.
        if let Some(at) = text.find("\n@@ ") {
            text.truncate(at);
        }
        text = replace_uids(&text);
        for marker in [
            "resource version: ",
            "ResourceVersion in precondition: ",
            "ResourceVersion in object meta: ",
            "current: ",
            "\"resourceVersion\":\"",
            "\\\"resourceVersion\\\":\\\"",
        ] {
            text = replace_digits_after(&text, marker);
        }
        if let Some((head, tail)) = text.split_once("resource version: N (") {
            text = format!("{head}resource version: N (N{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        replace_times(&text)
    }
}

fn replace_uids(text: &str) -> String {
    const SHAPE: [usize; 5] = [8, 4, 4, 4, 12];
    let bytes = text.as_bytes();
    let is_uid = |start: usize| {
        let mut at = start;
        SHAPE.iter().enumerate().all(|(index, length)| {
            let separated = index == 0 || bytes.get(at) == Some(&b'-');
            at += usize::from(index > 0);
            let hex = bytes.get(at..at + length).is_some_and(|part| part.iter().all(u8::is_ascii_hexdigit));
            at += length;
            separated && hex
        })
    };
    let mut out = String::new();
    let mut at = 0;
    while at < bytes.len() {
        if is_uid(at) {
            out.push_str("UID");
            at += 36;
        } else {
            let length = text[at..].chars().next().map_or(1, char::len_utf8);
            out.push_str(&text[at..at + length]);
            at += length;
        }
    }
    out
}

fn replace_digits_after(text: &str, marker: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(marker) {
        let end = at + marker.len();
        let digits = rest[end..].bytes().take_while(u8::is_ascii_digit).count();
        out.push_str(&rest[..end]);
        if digits > 0 {
            out.push('N');
        }
        rest = &rest[end + digits..];
    }
    out + rest
}

/// Whole times such as 2026-01-02T03:04:05Z, with or without a fraction.
fn replace_times(text: &str) -> String {
    let bytes = text.as_bytes();
    let shaped = |start: usize| {
        bytes.get(start..start + 19).is_some_and(|part| {
            part.iter().enumerate().all(|(index, c)| match index {
                4 | 7 => *c == b'-',
                10 => *c == b'T',
                13 | 16 => *c == b':',
                _ => c.is_ascii_digit(),
            })
        })
    };
    let Some(start) = (0..bytes.len()).find(|at| shaped(*at)) else { return text.to_owned() };
    let mut end = start + 19;
    while bytes.get(end).is_some_and(|c| c.is_ascii_digit() || *c == b'.') {
        end += 1;
    }
    if bytes.get(end) == Some(&b'Z') {
        end += 1;
    }
    format!("{}TIME{}", &text[..start], replace_times(&text[end..]))
}
