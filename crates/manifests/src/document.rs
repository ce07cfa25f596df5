//! YAML and JSON streams, one object at a time.
//!
//! Lists are opened while they are read: each item becomes a value, is handed on and dropped before the next one is
//! parsed, so that memory does not grow with the list.

use std::fmt;
use std::sync::Arc;

use karpenter_kinds::duplicates;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::parse_errors;
use crate::source::Source;

/// Where an object was found. Documents and items count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    let bytes = source.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&source.bytes);
    let mut place = Place { file: source.name.clone(), document: 1, item: None };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return sink.fault(place, format!("is not UTF-8 at byte {}", error.valid_up_to())),
    };
    for (first_line, chunk) in split_documents(text) {
        let chunk = Chunk { first_line, text: chunk };
        if !(chunk.text.trim_start().starts_with(['{', '[']) && chunk.json(&mut place, sink)) {
            chunk.yaml(&mut place, sink);
        }
    }
}

/// What stands between two separators: a YAML document, or JSON documents one after the other.
struct Chunk<'a> {
    /// Lines of the file before it.
    first_line: usize,
    text: &'a str,
}

impl Chunk<'_> {
    /// `false`: this is something else, and nothing has been taken from it. Text that only begins like JSON (YAML in flow
    /// style) is told apart by its very first document.
    fn json(&self, place: &mut Place, sink: &mut dyn Sink) -> bool {
        let mut stream = serde_json::Deserializer::from_str(self.text);
        let first = place.document;
        while stream.end().is_err() {
            let mut taken = 0;
            let read = Document { place, sink, taken: &mut taken }.deserialize(&mut stream);
            if let Err(error) = read {
                let json_only = place.file.ends_with(".json");
                if place.document == first && taken == 0 && !json_only && error.is_syntax() {
                    return false;
                }
                sink.fault(place.clone(), parse_errors::json(&error, self.first_line));
                place.document += 1;
                return true;
            }
            place.document += 1;
        }
        true
    }

    fn yaml(&self, place: &mut Place, sink: &mut dyn Sink) {
        // Nothing but comments is no document to a reader of manifests.
        let holds_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if self.text.lines().all(holds_nothing) {
            return;
        }
        let mut taken = 0;
        let read = serde_saphyr::with_deserializer_from_str_with_options(self.text, yaml_options(), |stream| {
            Document { place, sink, taken: &mut taken }.deserialize(stream)
        });
        if let Err(error) = read {
            sink.fault(place.clone(), parse_errors::yaml(&error, self.first_line));
        }
        place.document += 1;
    }
}

/// More levels than any object has.
const MAX_DEPTH: usize = 128;

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // A dump of a large cluster is a large document. Aliases stay limited: they are how small text becomes large.
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_depth: MAX_DEPTH,
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
        let mut twice = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                let kind = item_kind(&object);
                map.next_value_seed(Items { document: &mut self, kind, nameless: &mut nameless })?;
                continue;
            }
            let value = map.next_value_seed(duplicates::noting(&key, &mut twice))?;
            if object.contains_key(&key) {
                twice.push(key.clone());
            }
            object.insert(key, value);
        }
        if !is_list {
            *self.taken += 1;
            self.hand_on(self.place.clone(), object, &twice);
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

impl Document<'_> {
    fn hand_on(&mut self, place: Place, object: Map<String, Value>, twice: &[String]) {
        for field in twice {
            let text = |object: &Map<String, Value>, key: &str| object.get(key)?.as_str().map(str::to_owned);
            let name = object.get("metadata").and_then(Value::as_object).and_then(|metadata| text(metadata, "name"));
            let title = [text(&object, "kind"), name].into_iter().flatten().collect::<Vec<_>>().join(" ");
            self.sink.fault(place.clone(), format!("{title}: {field}: is given twice"));
        }
        self.sink.object(place, object);
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
        let mut twice = Vec::new();
        while let Some(item) = items.next_element_seed(duplicates::noting("", &mut twice))? {
            position += 1;
            let place = Place { item: Some(position), ..self.document.place.clone() };
            *self.document.taken += 1;
            let Value::Object(mut item) = item else {
                self.document.sink.fault(place, "is not an object".to_owned());
                continue;
            };
            name_kind(&mut item, self.kind.as_ref());
            if item.contains_key("kind") {
                self.document.hand_on(place, item, &std::mem::take(&mut twice));
            } else {
                self.nameless.push((place, item));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
