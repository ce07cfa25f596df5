//! YAML and JSON streams, one object at a time.
//!
//! Lists are opened while they are read: each item becomes a value, is handed on and dropped before the next one is
//! parsed, so that memory does not grow with the list.

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::source::Source;

/// Where an object was found. Documents and items count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<str>,
    pub document: usize,
    pub item: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}", self.file, self.document)?;
        match self.item {
            Some(item) => write!(f, ", item {item}"),
            None => Ok(()),
        }
    }
}

/// Takes what a stream holds.
pub(crate) trait Sink {
    fn object(&mut self, place: Place, object: Map<String, Value>);
    fn fault(&mut self, place: Place, message: String);
}

pub(crate) fn each_object(source: &Source, sink: &mut dyn Sink) {
    let text = source.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&source.bytes);
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    if matches!(first, Some(b'{' | b'[')) && json(&source.name, text, sink) {
        return;
    }
    match std::str::from_utf8(text) {
        Ok(text) => yaml(&source.name, text, sink),
        Err(error) => {
            let place = Place { file: source.name.clone(), document: 1, item: None };
            sink.fault(place, format!("not UTF-8 at byte {}", error.valid_up_to()));
        }
    }
}

/// Reads JSON documents one after the other. `false`: this is something else, and nothing has been taken from it. Text
/// that only begins like JSON (YAML in flow style) is told apart by its very first document.
fn json(file: &Arc<str>, text: &[u8], sink: &mut dyn Sink) -> bool {
    let mut stream = serde_json::Deserializer::from_slice(text);
    let mut document = 0;
    while stream.end().is_err() {
        document += 1;
        let mut taken = 0;
        let place = Place { file: file.clone(), document, item: None };
        let read = Document { place: &place, sink, taken: &mut taken }.deserialize(&mut stream);
        if let Err(error) = read {
            let json_only = file.ends_with(".json");
            if document == 1 && taken == 0 && !json_only && error.is_syntax() {
                return false;
            }
            sink.fault(place, error.to_string());
            return true;
        }
    }
    true
}

fn yaml(file: &Arc<str>, text: &str, sink: &mut dyn Sink) {
    let mut count = 0;
    for (first_line, document) in split_documents(text) {
        // Nothing but comments is no document to a reader of manifests.
        let holds_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if document.lines().all(holds_nothing) {
            continue;
        }
        count += 1;
        let place = Place { file: file.clone(), document: count, item: None };
        let mut taken = 0;
        let read = serde_saphyr::with_deserializer_from_str_with_options(document, yaml_options(), |stream| {
            Document { place: &place, sink, taken: &mut taken }.deserialize(stream)
        });
        if let Err(error) = read {
            let error = error.without_snippet();
            let line = error.location().map(|at| first_line + at.line() as usize);
            let text = error.to_string().replace('\n', " ");
            sink.fault(place, line.map_or(text.clone(), |line| format!("line {line} of the file: {text}")));
        }
    }
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // A dump of a large cluster is a large document. Aliases stay limited: they are how small text becomes large.
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_depth: 128,
        },
        // `defaultMode: 0644` is octal to kubectl.
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// The documents of a YAML stream, each with the number of lines before it. Split here as kubectl does it, by lines,
/// so that one broken document does not hide the faults of those behind it.
fn split_documents(text: &str) -> Vec<(usize, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut position) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let separator =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if separator {
            documents.push((start_line, &text[start..position]));
            start = position + 3;
            start_line = number;
        }
        position += line.len();
    }
    documents.push((start_line, &text[start..]));
    documents
}

/// Reads one document into a sink.
struct Document<'a> {
    place: &'a Place,
    sink: &'a mut dyn Sink,
    /// How many objects have been handed on.
    taken: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut object = Map::new();
        let mut is_list = false;
        // Items whose kind only the list could tell, where the list has not told its own yet.
        let mut nameless = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                let kind = item_kind(&object);
                map.next_value_seed(Items { document: &mut self, kind, nameless: &mut nameless })?;
            } else {
                object.insert(key, map.next_value()?);
            }
        }
        if !is_list {
            *self.taken += 1;
            self.sink.object(self.place.clone(), object);
            return Ok(());
        }
        let kind = item_kind(&object);
        for (place, mut item) in nameless {
            name_kind(&mut item, kind.as_ref());
            self.sink.object(place, item);
        }
        Ok(())
    }
}

/// What the items of a `PodList` are. A plain `List` does not say.
fn item_kind(list: &Map<String, Value>) -> Option<(String, String)> {
    let kind = list.get("kind")?.as_str()?.strip_suffix("List").filter(|kind| !kind.is_empty())?;
    Some((list.get("apiVersion")?.as_str()?.to_owned(), kind.to_owned()))
}

fn name_kind(item: &mut Map<String, Value>, kind: Option<&(String, String)>) {
    if let Some((api_version, kind)) = kind {
        item.entry("apiVersion").or_insert_with(|| api_version.clone().into());
        item.entry("kind").or_insert_with(|| kind.clone().into());
    }
}

/// The items of a list.
struct Items<'a, 'b> {
    document: &'a mut Document<'b>,
    kind: Option<(String, String)>,
    nameless: &'a mut Vec<(Place, Map<String, Value>)>,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut position = 0;
        while let Some(item) = items.next_element::<Value>()? {
            position += 1;
            let place = Place { item: Some(position), ..self.document.place.clone() };
            *self.document.taken += 1;
            let Value::Object(mut item) = item else {
                self.document.sink.fault(place, "is not an object".to_owned());
                continue;
            };
            name_kind(&mut item, self.kind.as_ref());
            if item.contains_key("kind") {
                self.document.sink.object(place, item);
            } else {
                self.nameless.push((place, item));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
