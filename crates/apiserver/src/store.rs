//! Objects, their versions and their past.
//!
//! One counter numbers every write. An object is kept as the JSON it is answered with, so that a get copies nothing, a
//! list is a concatenation and fifty thousand pods fit in a few hundred megabytes. Each table remembers its recent
//! events; a watch reads them at its own pace, and one that falls behind the oldest is told so.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use karpenter_kinds::selector::{FieldTerm, Selector};
use rustc_hash::FxHashMap;
use serde_json::Value;
use tokio::sync::watch;

use crate::history::{Verb, WriteLog};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableId(pub(crate) usize);

/// One version of an object. Never changes.
#[derive(Debug)]
pub(crate) struct Object {
    /// `namespace/name`, or `name` for what is cluster-scoped: the order of this text is the order of lists.
    pub(crate) key: Arc<str>,
    pub(crate) version: u64,
    pub(crate) uid: Arc<str>,
    pub(crate) json: Bytes,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    pub(crate) fields: Box<[(Arc<str>, Box<str>)]>,
    pub(crate) owners: Box<[Arc<str>]>,
    /// Whether it has a deletionTimestamp.
    pub(crate) deleting: bool,
    shared: OnceLock<Box<Value>>,
}

impl Object {
    /// The value, read once and kept: for the few objects that many writes look at, such as namespaces and budgets.
    pub(crate) fn shared(&self) -> &Value {
        self.shared.get_or_init(|| Box::new(self.value()))
    }

    /// The same object as another version of its kind writes it.
    pub(crate) fn with_json(&self, json: Bytes) -> Object {
        Object { json, ..self.at_version(self.version) }
    }

    /// The same object at another version.
    pub(crate) fn at_version(&self, version: u64) -> Object {
        Object {
            key: self.key.clone(),
            version,
            uid: self.uid.clone(),
            json: self.json_at(version),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            owners: self.owners.clone(),
            deleting: self.deleting,
            shared: OnceLock::new(),
        }
    }

    fn json_at(&self, version: u64) -> Bytes {
        if version == self.version {
            return self.json.clone();
        }
        let old = format!("\"resourceVersion\":\"{}\"", self.version);
        let found: Vec<usize> = find_all(&self.json, old.as_bytes()).take(2).collect();
        // Where only the metadata can mean it, the text is the place to change it.
        if let [at] = found[..] {
            let mut json = Vec::with_capacity(self.json.len() + 4);
            json.extend_from_slice(&self.json[..at]);
            json.extend_from_slice(format!("\"resourceVersion\":\"{version}\"").as_bytes());
            json.extend_from_slice(&self.json[at + old.len()..]);
            return json.into();
        }
        let mut value = self.value();
        value["metadata"]["resourceVersion"] = Value::from(version.to_string());
        Bytes::from(serde_json::to_vec(&value).expect("a JSON value is always written"))
    }

    pub(crate) fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or(&self.key)
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.json).expect("the store holds only what it wrote itself")
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| &**k == key).map(|(_, value)| &**value)
    }

    pub(crate) fn matches(&self, filter: &Filter) -> bool {
        if !filter.labels.is_everything() && !filter.labels.matches(|key| self.label(key)) {
            return false;
        }
        filter.fields.iter().all(|term| {
            let value = match term.field.as_str() {
                "metadata.name" => self.name(),
                "metadata.namespace" => self.namespace(),
                field => self.fields.iter().find(|(name, _)| &**name == field).map_or("", |(_, value)| value),
            };
            (value == term.value) == term.equal
        })
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) labels: Selector,
    pub(crate) fields: Vec<FieldTerm>,
}

impl Filter {
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Added,
    Modified,
    Deleted,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) kind: EventKind,
    /// For a deletion the last state, at the version of the deletion.
    pub(crate) object: Arc<Object>,
    pub(crate) previous: Option<Arc<Object>>,
}

/// Which values of a kind field selectors can ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectableFields(pub(crate) Vec<(Arc<str>, Vec<FieldSource>)>);

/// A JSON pointer to read, tried in order.
#[derive(Clone, Debug)]
pub(crate) enum FieldSource {
    Pointer(String),
    Constant(&'static str),
}

impl SelectableFields {
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    fn extract(&self, value: &Value) -> Box<[(Arc<str>, Box<str>)]> {
        let read = |sources: &[FieldSource]| {
            sources
                .iter()
                .find_map(|source| match source {
                    FieldSource::Constant(text) => Some((*text).into()),
                    FieldSource::Pointer(pointer) => match value.pointer(pointer) {
                        Some(Value::String(text)) if !text.is_empty() => Some(text.as_str().into()),
                        Some(Value::Bool(flag)) => Some(flag.to_string().into()),
                        Some(Value::Number(number)) => Some(number.to_string().into()),
                        _ => None,
                    },
                })
                .unwrap_or_default()
        };
        self.0.iter().map(|(name, sources)| (name.clone(), read(sources))).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    /// `pods`, `deployments.apps`: for the log.
    pub(crate) name: Arc<str>,
    pub(crate) selectable: SelectableFields,
    objects: BTreeMap<Arc<str>, Arc<Object>>,
    events: VecDeque<Event>,
    /// Events up to and including this version are forgotten.
    compacted: u64,
    /// Bytes held only because the past is remembered.
    superseded: usize,
    changed: watch::Sender<u64>,
}

/// How much of the past a table keeps: enough that a watch that blinks finds its place, little enough for a laptop.
const MAX_EVENTS: usize = 100_000;
const MAX_SUPERSEDED_BYTES: usize = 48 << 20;

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// Objects whose key starts with `prefix` and follows `after`, in order.
    pub(crate) fn range<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        let start = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let range = self.objects.range::<str, _>((start, Bound::Unbounded));
        range.map(|(_, object)| object).take_while(move |object| object.key.starts_with(prefix))
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Events after `version`, oldest first; `None` if some of them are forgotten.
    pub(crate) fn events_after(&self, version: u64) -> Option<impl Iterator<Item = &Event>> {
        if version < self.compacted {
            return None;
        }
        let start = self.events.partition_point(|event| event.version <= version);
        Some(self.events.range(start..))
    }

    /// The table as it was at `version`, by undoing what came later; `None` if that is forgotten.
    pub(crate) fn at(&self, version: u64) -> Option<BTreeMap<Arc<str>, Arc<Object>>> {
        if version < self.compacted {
            return None;
        }
        let mut objects = self.objects.clone();
        for event in self.events.iter().rev().take_while(|event| event.version > version) {
            match &event.previous {
                Some(previous) => objects.insert(previous.key.clone(), previous.clone()),
                None => objects.remove(&event.object.key),
            };
        }
        Some(objects)
    }

    /// Whether the events are in order and lead to what there is; if not, why.
    pub(crate) fn broken_past(&self, version: u64) -> Option<String> {
        let mut last = self.compacted;
        for event in &self.events {
            if event.version <= last || event.version > version || event.object.version != event.version {
                return Some(format!("event {} follows {last} at {version}", event.version));
            }
            last = event.version;
        }
        let superseded: usize =
            self.events.iter().filter_map(|event| event.previous.as_ref()).map(|o| o.json.len()).sum();
        (superseded != self.superseded).then(|| format!("{superseded} bytes are superseded, not {}", self.superseded))
    }

    fn remember(&mut self, event: Event) {
        self.superseded += event.previous.as_ref().map_or(0, |object| object.json.len());
        self.events.push_back(event);
        while self.events.len() > MAX_EVENTS || self.superseded > MAX_SUPERSEDED_BYTES {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.superseded -= event.previous.as_ref().map_or(0, |object| object.json.len());
            self.compacted = event.version;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    version: u64,
    tables: Vec<Table>,
    dependents: FxHashMap<Arc<str>, BTreeSet<(TableId, Arc<str>)>>,
    /// Where each uid lives.
    uids: FxHashMap<Arc<str>, (TableId, Arc<str>)>,
    pub(crate) log: WriteLog,
}

impl Store {
    pub(crate) fn new(log: WriteLog) -> Self {
        Self { version: 1, tables: Vec::new(), dependents: FxHashMap::default(), uids: FxHashMap::default(), log }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn add_table(&mut self, name: &str, selectable: SelectableFields) -> TableId {
        self.tables.push(Table {
            name: name.into(),
            selectable,
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            compacted: 0,
            superseded: 0,
            changed: watch::Sender::new(0),
        });
        TableId(self.tables.len() - 1)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        self.tables.iter().enumerate().map(|(index, table)| (TableId(index), table))
    }

    /// How many uids are known.
    pub(crate) fn located(&self) -> usize {
        self.uids.len()
    }

    pub(crate) fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0]
    }

    pub(crate) fn set_selectable(&mut self, id: TableId, selectable: SelectableFields) {
        self.tables[id.0].selectable = selectable;
    }

    pub(crate) fn get(&self, id: TableId, key: &str) -> Option<&Arc<Object>> {
        self.tables[id.0].get(key)
    }

    /// Where the object of this uid is.
    pub(crate) fn locate(&self, uid: &str) -> Option<(TableId, Arc<str>)> {
        self.uids.get(uid).cloned()
    }

    /// What names `uid` as an owner, in a fixed order.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<(TableId, Arc<str>)> {
        self.dependents.get(uid).map(|set| set.iter().cloned().collect()).unwrap_or_default()
    }

    /// Writes `value` under `key` at the next version, which is set in it.
    pub(crate) fn put(&mut self, id: TableId, key: &str, mut value: Value, verb: Verb, now: Timestamp) -> Arc<Object> {
        self.version += 1;
        let object = build(key, self.version, &mut value, &self.tables[id.0].selectable);
        self.insert(id, object, verb, now)
    }

    /// Writes what was written before, by a server like us: `@version` stands for its version. It has no owners and no
    /// fields to select by.
    pub(crate) fn put_written(&mut self, id: TableId, key: &str, uid: &str, json: String, now: Timestamp) {
        self.version += 1;
        let labels = json.split_once("\"labels\":").map(|(_, rest)| rest);
        let labels = labels.and_then(|rest| serde_json::Deserializer::from_str(rest).into_iter::<Value>().next()?.ok());
        let labels = labels.iter().filter_map(Value::as_object).flatten();
        let object = Object {
            key: key.into(),
            version: self.version,
            uid: uid.into(),
            json: json.replace("@version", &self.version.to_string()).into(),
            labels: labels
                .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()))
                .collect(),
            fields: Box::default(),
            owners: Box::default(),
            deleting: false,
            shared: OnceLock::new(),
        };
        self.insert(id, object, Verb::System, now);
    }

    fn insert(&mut self, id: TableId, object: Object, verb: Verb, now: Timestamp) -> Arc<Object> {
        let object = Arc::new(object);
        let table = &mut self.tables[id.0];
        let previous = table.objects.insert(object.key.clone(), object.clone());
        self.log.record(now, verb, &table.name, &object);
        let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
        if let Some(previous) = &previous {
            forget_owners(&mut self.dependents, id, previous);
            if previous.uid != object.uid {
                self.uids.remove(&previous.uid);
            }
        }
        self.uids.insert(object.uid.clone(), (id, object.key.clone()));
        for owner in &object.owners {
            self.dependents.entry(owner.clone()).or_default().insert((id, object.key.clone()));
        }
        table.remember(Event { version: self.version, kind, object: object.clone(), previous });
        table.changed.send_replace(self.version);
        object
    }

    /// Removes the object; the answer is its last state at the version of the removal.
    pub(crate) fn remove(&mut self, id: TableId, key: &str, now: Timestamp) -> Option<Arc<Object>> {
        let table = &mut self.tables[id.0];
        let previous = table.objects.remove(key)?;
        self.version += 1;
        let last = Arc::new(previous.at_version(self.version));
        self.log.record(now, Verb::Delete, &table.name, &last);
        forget_owners(&mut self.dependents, id, &previous);
        self.uids.remove(&previous.uid);
        table.remember(Event {
            version: self.version,
            kind: EventKind::Deleted,
            object: last.clone(),
            previous: Some(previous),
        });
        table.changed.send_replace(self.version);
        Some(last)
    }

    /// Forgets the past up to now: older watches and continue tokens expire.
    pub(crate) fn compact(&mut self) {
        let version = self.version;
        for table in &mut self.tables {
            table.events.clear();
            table.superseded = 0;
            table.compacted = version;
            // Watchers that had not read on must learn that they are too late.
            table.changed.send_replace(version);
        }
    }
}

fn forget_owners(dependents: &mut FxHashMap<Arc<str>, BTreeSet<(TableId, Arc<str>)>>, id: TableId, object: &Object) {
    for owner in &object.owners {
        if let Some(set) = dependents.get_mut(owner) {
            set.remove(&(id, object.key.clone()));
            if set.is_empty() {
                dependents.remove(owner);
            }
        }
    }
}

fn build(key: &str, version: u64, value: &mut Value, selectable: &SelectableFields) -> Object {
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
    let mut uid: Arc<str> = "".into();
    let mut labels = Vec::new();
    let mut owners = Vec::new();
    let mut deleting = false;
    if let Some(metadata) = metadata {
        let text = Value::String(version.to_string());
        // In its place, so that the object reads as its type writes it.
        match metadata.get_mut("resourceVersion") {
            Some(found) => *found = text,
            None => {
                let at = metadata.keys().position(|key| key == "uid").map_or(metadata.len(), |at| at + 1);
                metadata.shift_insert(at, "resourceVersion".into(), text);
            }
        }
        deleting = metadata.contains_key("deletionTimestamp");
        uid = metadata.get("uid").and_then(Value::as_str).unwrap_or_default().into();
        for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
            labels.push((key.as_str().into(), value.as_str().unwrap_or_default().into()));
        }
        for owner in metadata.get("ownerReferences").and_then(Value::as_array).into_iter().flatten() {
            owners.extend(owner.get("uid").and_then(Value::as_str).map(Arc::from));
        }
    }
    let fields = selectable.extract(value);
    let json = write(value);
    Object {
        key: key.into(),
        version,
        uid,
        json,
        labels: labels.into(),
        fields,
        owners: owners.into(),
        deleting,
        shared: OnceLock::new(),
    }
}

thread_local! {
    /// Where objects are written before their size is known.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The JSON of a value, in exactly the memory it needs.
fn write(value: &Value) -> Bytes {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        serde_json::to_writer(&mut *scratch, value).expect("a JSON value is always written");
        Bytes::copy_from_slice(scratch)
    })
}

/// Where `needle`, which starts with a quote, begins.
fn find_all<'a>(text: &'a [u8], needle: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let starts = text.iter().enumerate().filter(|(_, byte)| **byte == b'"').map(|(at, _)| at);
    starts.filter(move |at| text[*at..].starts_with(needle))
}
