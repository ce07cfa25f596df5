//! Objects that are there and cannot be read. Each keeps what it may hold: an instance, a node, a place on a node. So of
//! what no type of ours takes, as much is read as can be, field by field.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::key::Key;
use crate::kind::Kind;
use crate::object::Object;
use crate::reduce::{Fault, Refused};

/// Objects that could not be read lately, and how many of each kind cannot be by now.
pub type News = (Vec<Arc<Unreadable>>, BTreeMap<Kind, usize>);

/// What is known of an object that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    pub kind: Kind,
    pub key: Key,
    pub uid: Arc<str>,
    pub version: u64,
    /// What is wrong with it.
    pub why: Arc<str>,
    /// The rest of it counts. Otherwise it counts as it last was, or not at all, and nothing is done to it.
    pub partly: bool,
    /// Of Nodes and NodeClaims.
    pub provider_id: Option<Arc<str>>,
    /// The Node that a NodeClaim or a VolumeAttachment names.
    pub node: Option<Arc<str>>,
    /// The pool that a NodeClaim names.
    pub pool: Option<Arc<str>>,
    /// What could be read of a pod.
    pub(crate) pod: Option<Box<Pod>>,
    /// Nothing is wrong with it but that a bug of ours cannot cope with it, which was not counted yet.
    pub(crate) panicked: bool,
}

/// What is wrong with objects that nothing may be wrong with.
const PANICKED: &str = "reading it panicked, a bug of ours";

impl Unreadable {
    /// An object that no type takes, from its JSON.
    pub fn of(kind: Kind, json: &str, why: impl Into<Arc<str>>) -> Self {
        let value: Value = serde_json::from_str(json).unwrap_or_default();
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let shared = |pointer: &str| text(pointer).map(Arc::<str>::from);
        let name = |pointer: &str| text(pointer).unwrap_or_default();
        let (provider_id, node, pool) = match kind {
            Kind::Node => (shared("/spec/providerID"), None, None),
            Kind::NodeClaim => {
                let pool = value.pointer("/metadata/labels").and_then(|labels| labels.get("karpenter.sh/nodepool"));
                let pool = pool.and_then(Value::as_str).map(Into::into);
                (shared("/status/providerID"), shared("/status/nodeName"), pool)
            }
            Kind::VolumeAttachment => (None, shared("/spec/nodeName"), None),
            _ => (None, None, None),
        };
        let mut why: Arc<str> = why.into();
        let mut pod = None;
        if kind == Kind::Pod {
            let (salvaged, faults) = salvage(&value);
            pod = Some(Box::new(salvaged));
            if !faults.is_empty() {
                why = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ").into();
            }
        }
        Self {
            kind,
            key: Key::new(name("/metadata/namespace"), name("/metadata/name")),
            uid: name("/metadata/uid").into(),
            version: name("/metadata/resourceVersion").parse().unwrap_or(0),
            why,
            partly: false,
            provider_id,
            node,
            pool,
            pod,
            panicked: false,
        }
    }

    /// An object that our own code cannot cope with.
    pub(crate) fn panicked(kind: Kind, key: &Key, uid: &str, version: u64) -> Self {
        let fault = Fault { field: String::new(), message: PANICKED.to_owned() };
        Self::refused(kind, key, uid, version, &Refused { object: String::new(), faults: vec![fault] }, false)
    }

    /// An object of which only a part is of use, or none.
    pub(crate) fn refused(kind: Kind, key: &Key, uid: &str, version: u64, refused: &Refused, partly: bool) -> Self {
        let why: Vec<String> = refused.faults.iter().map(ToString::to_string).collect();
        Self {
            kind,
            key: key.clone(),
            uid: uid.into(),
            version,
            why: why.join("; ").into(),
            partly,
            provider_id: None,
            node: None,
            pool: None,
            pod: None,
            panicked: false,
        }
    }

    /// The object and what is wrong with it, as one of `Refused`.
    pub(crate) fn as_refused(&self) -> Refused {
        let object = format!("{} {}", self.kind.name(), self.key);
        Refused { object, faults: vec![Fault { field: String::new(), message: self.why.to_string() }] }
    }
}

impl Object {
    /// Reads an object of a kind. What cannot be read of it is kept as far as it can be; so is one that brings out a bug
    /// of ours, which would otherwise end the process, and the next one, which meets it again.
    pub fn read(kind: Kind, json: &str) -> Result<Self, Box<Unreadable>> {
        let decode = || {
            #[cfg(test)]
            assert!(!json.contains("a-bug-about-reading"), "planted");
            Self::decode(kind, json)
        };
        let keep = |why: String| {
            #[cfg(test)]
            assert!(!json.contains("a-bug-about-reading-twice"), "planted");
            Unreadable::of(kind, json, why)
        };
        let read = catch_unwind(decode);
        let panicked = read.is_err();
        let why = match read {
            Ok(Ok(object)) => return Ok(object),
            Ok(Err(error)) => without_place(&error),
            Err(_) => PANICKED.to_owned(),
        };
        let kept = catch_unwind(|| keep(why)).unwrap_or_else(|_| {
            let head: Head = serde_json::from_str(json).unwrap_or_default();
            let Head { metadata: Named { namespace, name, uid, resource_version } } = head;
            let version = resource_version.parse().unwrap_or(0);
            Unreadable { panicked: true, ..Unreadable::panicked(kind, &Key::new(&namespace, &name), &uid, version) }
        });
        Err(Box::new(Unreadable { panicked: panicked || kept.panicked, ..kept }))
    }
}

/// Where in the text it stopped is another place with every version of the object, and the same fault is no news.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split_once(" at line ").map_or(text.clone(), |(fault, _)| fault.to_owned())
}

/// As much of an object as is needed to name it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    metadata: Named,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

/// A pod of those fields that can be read, each by itself, and a fault for each of the others.
fn salvage(value: &Value) -> (Pod, Vec<Fault>) {
    let mut kept = json!({});
    let mut faults = Vec::new();
    for part in ["metadata", "spec", "status"] {
        match value.get(part) {
            None | Some(Value::Null) => {}
            Some(Value::Object(fields)) => {
                for (field, value) in fields {
                    match serde_json::from_value::<Pod>(json!({part: {field: value}})) {
                        Ok(_) => kept[part][field] = value.clone(),
                        Err(error) => {
                            faults.push(Fault { field: format!("{part}.{field}"), message: error.to_string() })
                        }
                    }
                }
            }
            Some(_) => faults.push(Fault { field: part.to_owned(), message: "is not an object".to_owned() }),
        }
    }
    match serde_json::from_value(kept) {
        Ok(pod) => (pod, faults),
        Err(error) => {
            faults.push(Fault { field: String::new(), message: error.to_string() });
            (Pod::default(), faults)
        }
    }
}

/// All of them, by kind and name.
#[derive(Debug, Default)]
pub(crate) struct Unreadables {
    all: BTreeMap<(Kind, Key), Arc<Unreadable>>,
    /// Those that nobody was told of yet.
    news: Vec<Arc<Unreadable>>,
    /// Whether there are others than when they were last told of.
    changed: bool,
    /// The object that is being read anew, and whether something was said of it meanwhile.
    reading: Option<((Kind, Key), bool)>,
}

impl Unreadables {
    pub(crate) fn get(&self, kind: Kind, key: &Key) -> Option<&Arc<Unreadable>> {
        self.all.get(&(kind, key.clone()))
    }

    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &Arc<Unreadable>> {
        self.all.values().filter(move |one| one.kind == kind)
    }

    /// Whether an object of this version is newer than the one that cannot be read.
    pub(crate) fn wants(&self, kind: Kind, key: &Key, version: u64) -> bool {
        self.get(kind, key).is_none_or(|one| one.partly || one.version < version)
    }

    /// What follows is said of another version of this object: what was said before is void at the end.
    pub(crate) fn begin(&mut self, kind: Kind, key: &Key) {
        self.reading = Some(((kind, key.clone()), false));
    }

    pub(crate) fn end(&mut self) {
        if let Some((at, false)) = self.reading.take() {
            self.drop_entry(&at);
        }
    }

    /// The same fault of another version is no news.
    pub(crate) fn note(&mut self, one: Unreadable) {
        let at = (one.kind, one.key.clone());
        if let Some((_, said)) = self.reading.as_mut().filter(|(reading, _)| *reading == at) {
            *said = true;
        }
        let one = Arc::new(one);
        let before = self.all.insert(at, one.clone());
        if before.is_none_or(|before| before.why != one.why || before.uid != one.uid || before.partly != one.partly) {
            self.news.push(one);
            self.changed = true;
        }
    }

    /// The rest of it is fine as well.
    pub(crate) fn mended(&mut self, kind: Kind, key: &Key) {
        if self.get(kind, key).is_some_and(|one| one.partly) {
            self.drop_entry(&(kind, key.clone()));
        }
    }

    /// It is gone, as of a version; answers whether it was there.
    pub(crate) fn remove(&mut self, kind: Kind, key: &Key, version: u64) -> bool {
        if self.get(kind, key).is_none_or(|one| one.version > version) {
            return false;
        }
        self.drop_entry(&(kind, key.clone()))
    }

    fn drop_entry(&mut self, at: &(Kind, Key)) -> bool {
        let was_there = self.all.remove(at).is_some();
        self.changed |= was_there;
        was_there
    }

    pub(crate) fn take_news(&mut self) -> Option<News> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let mut counts = BTreeMap::new();
        for (kind, _) in self.all.keys() {
            *counts.entry(*kind).or_default() += 1;
        }
        Some((std::mem::take(&mut self.news), counts))
    }
}

#[cfg(test)]
mod tests;
