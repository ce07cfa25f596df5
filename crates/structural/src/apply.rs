//! Server-side apply, and the bookkeeping of managed fields on every other write.
//!
//! ```text
//!   update(live, new)      who wrote what: create, replace, and all patches but apply
//!   apply(live, config)    merge a configuration, mind the owners of what it changes, drop what it no longer claims
//! ```
//!
//! Both are pure: the time is an argument, and defaulting, validation and storage are the caller's. A caller applies
//! defaults to what [`apply`] returns before storing it, and to what it gives to [`update`] before calling it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::shape::Shape;

mod kubectl;
mod managed;
mod path;
mod retrack;
mod set;
mod typed;

use managed::{Manager, Managers, Operation, Owned};
pub use path::Element;
pub use set::Set;
use typed::Comparison;

/// How objects of a kind look in its versions.
pub trait Versions {
    /// The shape of the kind in a version; `None` if it is not served in that version any more.
    fn shape(&self, api_version: &str) -> Option<Shape<'_>>;

    /// An object in another version of its kind. Custom resources without a conversion webhook, and kinds with one version,
    /// only change their `apiVersion`.
    fn convert(&self, object: &Value, api_version: &str) -> Value {
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), api_version.into());
        }
        object
    }
}

/// A kind with one version.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion<'a> {
    pub api_version: &'a str,
    pub shape: Shape<'a>,
}

impl Versions for OneVersion<'_> {
    fn shape(&self, api_version: &str) -> Option<Shape<'_>> {
        (api_version == self.api_version).then_some(self.shape)
    }
}

/// Who writes what, and when.
#[derive(Clone, Copy)]
pub struct Write<'a> {
    /// The `fieldManager` of the request, or what stands for it.
    pub manager: &'a str,
    /// Empty for the object itself, else such as `status`.
    pub subresource: &'a str,
    /// The version the request was made in.
    pub api_version: &'a str,
    pub kind: &'a str,
    /// RFC 3339, in seconds: what `time` of the entry is set to.
    pub now: &'a str,
    pub versions: &'a dyn Versions,
    /// Fields that writes to this endpoint cannot change, such as `status` where it is a subresource: they are never
    /// owned.
    pub reset: &'a Set,
}

/// Why an apply was refused, cut by the status it is answered with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 400
    #[error("{0}")]
    BadRequest(String),
    /// 409: others own what the configuration would change.
    #[error("{message}")]
    Conflict { message: String, causes: Vec<Cause> },
    /// 500: the configuration does not have the shape of its kind.
    #[error("{0}")]
    Unexpected(String),
}

/// One field in conflict; its reason is `FieldManagerConflict`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub message: String,
    pub field: String,
}

/// Applies a configuration to the live object (`None` to create it) and returns the new object with its managed fields.
/// When nothing changes the object is returned as it was.
pub fn apply(live: Option<&Value>, config: &Value, write: Write<'_>, force: bool) -> Result<Value, ApplyError> {
    let text = |key: &str| config[key].as_str().unwrap_or_default();
    if text("apiVersion") != write.api_version || text("kind") != write.kind {
        return Err(ApplyError::BadRequest(format!(
            "invalid object type: {}, Kind={}",
            if text("apiVersion").is_empty() { "/" } else { text("apiVersion") },
            text("kind")
        )));
    }
    if config["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let shape = write.shape()?;
    typed::check(config, shape).map_err(|error| {
        ApplyError::Unexpected(format!("failed to create typed patch object ({}): {error}", describe(config)))
    })?;

    let empty = write.empty();
    let live = live.unwrap_or(&empty);
    let mut managers = managed::read(&live["metadata"]["managedFields"])
        .map_err(|error| ApplyError::Unexpected(format!("failed to decode managed fields: {error}")))?;
    let mut live = write.versions.convert(live, write.api_version);
    managed::take(&mut live);
    if managers.is_empty() {
        // Whoever made the object before anyone applied to it is remembered as one manager.
        let before = Write { manager: "before-first-apply", ..write };
        if let Some(changes) = Changes::between(&empty, &live, before) {
            managers = track(&empty, &live, managers, &changes, before);
        }
    }
    let manager = Manager::new(write.manager, Operation::Apply, write.api_version, write.subresource);
    let outcome = match merge_config(&live, config, managers.clone(), &manager, write, force) {
        Err(Refusal::Conflicts(conflicts)) if write.manager == "kubectl" => {
            match kubectl::owns(&conflicts, &live, write) {
                Ok(()) => merge_config(&live, config, managers, &manager, write, true),
                Err(conflicts) => Err(Refusal::Conflicts(conflicts)),
            }
        }
        outcome => outcome,
    };
    let (object, mut managers) = outcome.map_err(|refusal| match refusal {
        Refusal::Conflicts(conflicts) => conflict_error(&conflicts),
        Refusal::Merge(error) => ApplyError::Unexpected(format!("failed to merge config: {error}")),
    })?;
    strip_metadata(&mut managers, &manager);
    let mut object = match object {
        Some(object) => {
            if let Some(owned) = managers.get_mut(&manager) {
                owned.time = Some(write.now.to_owned());
            }
            object
        }
        None => live,
    };
    if write.manager == "kubectl" {
        kubectl::refresh(&mut object, config);
    }
    managed::write(&mut object, &managers);
    Ok(object)
}

/// Sets the managed fields of an object about to be written by anything but apply: `live` is what is stored (`None` on
/// create), `new` what will be, with defaults.
pub fn update(live: Option<&Value>, new: &mut Value, write: Write<'_>) {
    update_by(live, new, write, Way::Short);
}

/// The short way is the long one with less reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Short,
    #[cfg_attr(not(test), expect(dead_code, reason = "the measure of the short way"))]
    Long,
}

fn update_by(live: Option<&Value>, new: &mut Value, write: Write<'_>, way: Way) {
    let empty = write.empty();
    let exists = live.is_some();
    let live = live.unwrap_or(&empty);
    let before = &live["metadata"]["managedFields"];
    let sent = managed::take(new).filter(|sent| !sent.is_null());
    let keeps = !write.subresource.is_empty() || sent.as_ref().is_none_or(|sent| sent == before);
    let changes = Changes::between(live, new, write);
    if !exists && sent.is_none() {
        // All there is is new, and his who made it.
        if let Some(owned) = changes.map(Changes::into_owned).filter(|owned| !owned.is_empty()) {
            managed::put(new, vec![retrack::first_entry(owned, write)]);
        }
        return;
    }
    if way == Way::Short
        && keeps
        && let (Some(changes), Some(entries)) = (&changes, before.as_array())
        && let Some(entries) = retrack::retrack(entries, changes, write)
    {
        managed::put(new, entries);
        return;
    }
    let of_live = || managed::read(before).unwrap_or_default();
    let managers = match &sent {
        _ if !write.subresource.is_empty() => of_live(),
        Some(sent) if managed::is_reset(sent) => Managers::new(),
        Some(sent) => match managed::read(sent) {
            Ok(managers) if !managers.is_empty() => managers,
            _ => of_live(),
        },
        None => of_live(),
    };
    if managers.is_empty() && exists {
        return; // nobody tracks this object, and a plain write does not begin to
    }
    let managers = match changes {
        Some(changes) => track(live, new, managers, &changes, write),
        None => managers,
    };
    managed::write(new, &managers);
}

/// Keeps the times of the managed fields of an object that did not change otherwise, so that writing it again is no
/// change. Says whether that was so.
pub fn keep_times(new: &mut Value, old: &Value) -> bool {
    let same = |new: &Value, old: &Value| {
        let same_entry = |(new, old): (&Value, &Value)| equal_but(new, old, &["time"]);
        let (new_entries, old_entries) = (managed::entries(new), managed::entries(old));
        equal_but(&new["metadata"], &old["metadata"], &["managedFields", "resourceVersion"])
            && equal_but(new, old, &["metadata"])
            && new_entries.len() == old_entries.len()
            && new_entries.iter().zip(old_entries).all(same_entry)
    };
    if !same(new, old) {
        return false;
    }
    if let (Some(metadata), Some(entries)) =
        (new.get_mut("metadata").and_then(Value::as_object_mut), old["metadata"].get("managedFields"))
    {
        metadata.insert("managedFields".to_owned(), entries.clone());
    }
    true
}

/// Whether two maps are equal apart from some keys.
fn equal_but(a: &Value, b: &Value, skip: &[&str]) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let counted =
        |fields: &Map<String, Value>| fields.len() - skip.iter().filter(|name| fields.contains_key(**name)).count();
    counted(a) == counted(b)
        && a.iter().all(|(name, value)| skip.contains(&name.as_str()) || b.get(name) == Some(value))
}

/// What a write changes.
struct Changes {
    comparison: Comparison,
}

impl Changes {
    /// `None` for a kind whose version nobody serves.
    fn between(live: &Value, new: &Value, write: Write<'_>) -> Option<Self> {
        let shape = write.versions.shape(write.api_version)?;
        let (live, new) = (write.converted(live), write.converted(new));
        Some(Self { comparison: typed::compare_written(&live, &new, shape, write.reset) })
    }

    /// What was modified or added.
    fn touched(&self) -> Set {
        self.comparison.modified.union(&self.comparison.added)
    }

    /// Of what was touched, what can be owned.
    fn owned(&self) -> Set {
        let mut owned = self.touched();
        owned.subtract(always_unowned());
        owned
    }

    fn into_owned(self) -> Set {
        let Comparison { mut added, modified, .. } = self.comparison;
        if !modified.is_bare() {
            added = added.union(&modified);
        }
        added.subtract(always_unowned());
        added
    }
}

impl<'a> Write<'a> {
    fn shape(&self) -> Result<Shape<'a>, ApplyError> {
        self.versions.shape(self.api_version).ok_or_else(|| {
            ApplyError::Unexpected(format!("no corresponding type for {}, Kind={}", self.api_version, self.kind))
        })
    }

    /// The object in the version of the write.
    fn converted<'v>(&self, object: &'v Value) -> Cow<'v, Value> {
        if object["apiVersion"] == self.api_version {
            return Cow::Borrowed(object);
        }
        Cow::Owned(self.versions.convert(object, self.api_version))
    }

    fn empty(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("apiVersion".to_owned(), self.api_version.into());
        fields.insert("kind".to_owned(), self.kind.into());
        Value::Object(fields)
    }
}

/// An update of the managers by one who writes without applying: what changed is his.
fn track(live: &Value, new: &Value, managers: Managers, changes: &Changes, write: Write<'_>) -> Managers {
    let manager = Manager::new(write.manager, Operation::Update, write.api_version, write.subresource);
    let managers = reconciled(managers, write);
    // The writer is judged apart from what he owned before, and takes even from himself.
    let Ok(mut managers) = settle(live, new, managers, None, &changes.comparison, typed::compare_written, write, true)
    else {
        return Managers::new();
    };
    let owned = changes.owned();
    if !owned.is_empty() {
        let set = match managers.remove(&manager) {
            Some(previous) => owned.union(&previous.set),
            None => owned,
        };
        let owned = Owned { set, api_version: write.api_version.to_owned(), time: Some(write.now.to_owned()) };
        managers.insert(manager, owned);
    }
    cap(&mut managers);
    managers
}

/// How many managers that update an object are kept apart.
const MOST: usize = 10;

/// Of more managers than that the oldest are summed up.
fn cap(managers: &mut Managers) {
    let seconds = |managers: &Managers, manager: &Manager| {
        let time = managers[manager].time.as_deref().and_then(crate::time::parse_rfc3339);
        time.map_or(0, |(seconds, _)| seconds)
    };
    let mut updaters: Vec<Manager> =
        managers.keys().filter(|manager| manager.operation == Operation::Update).cloned().collect();
    let mut count = updaters.len();
    if count <= MOST {
        return;
    }
    updaters.sort_by(|a, b| seconds(managers, a).cmp(&seconds(managers, b)).then_with(|| a.cmp(b)));
    let mut first: BTreeMap<String, Manager> = BTreeMap::new();
    for manager in updaters {
        if count <= MOST {
            return;
        }
        let Some(owned) = managers.get(&manager).cloned() else {
            continue;
        };
        let bucket = Manager::new("ancient-changes", Operation::Update, &owned.api_version, "");
        match first.get(&owned.api_version) {
            None => {
                first.insert(owned.api_version.clone(), manager);
            }
            Some(oldest) => {
                if !managers.contains_key(&bucket)
                    && let Some(owned) = managers.remove(oldest)
                {
                    managers.insert(bucket.clone(), owned);
                }
                let set = managers.get(&bucket).map(|it| it.set.union(&owned.set)).unwrap_or_else(|| owned.set.clone());
                managers.remove(&manager);
                managers.insert(bucket, Owned { set, ..owned });
                count -= 1;
            }
        }
    }
}

enum Refusal {
    Conflicts(Conflicts),
    Merge(String),
}

type Conflicts = Vec<(Manager, Vec<Element>)>;

/// Merges a configuration; `None` for an object that did not change.
fn merge_config(
    live: &Value,
    config: &Value,
    managers: Managers,
    manager: &Manager,
    write: Write<'_>,
    force: bool,
) -> Result<(Option<Value>, Managers), Refusal> {
    let shape = write.versions.shape(write.api_version).expect("the caller looked it up");
    let mut managers = reconciled(managers, write);
    let merged = typed::merge(live, config, shape).map_err(Refusal::Merge)?;
    let last = managers.get(manager).cloned();
    let set = typed::field_set(config, shape).recursive_difference(write.reset);
    let time = last.as_ref().and_then(|last| last.time.clone());
    managers.insert(manager.clone(), Owned { set, api_version: write.api_version.to_owned(), time });
    let pruned = match &last {
        Some(last) if !last.set.is_empty() => drop_unclaimed(merged, &managers, last, write),
        _ => merged,
    };
    let comparison = typed::compare_objects(live, &pruned, shape, write.reset);
    let managers = settle(live, &pruned, managers, Some(manager), &comparison, typed::compare_objects, write, force)
        .map_err(Refusal::Conflicts)?;
    let unchanged = path::compare(live, &pruned).is_eq();
    Ok(((!unchanged).then_some(pruned), managers))
}

/// Drops what the manager claimed last time and nobody claims now.
fn drop_unclaimed(merged: Value, managers: &Managers, last: &Owned, write: Write<'_>) -> Value {
    let Some(last_shape) = write.versions.shape(&last.api_version) else {
        return merged;
    };
    let merged = write.versions.convert(&merged, &last.api_version);
    let last_set = last.set.with_named_fields(Some(last_shape));
    let mut pruned = typed::remove(&merged, &last_set, last_shape);

    // What others claim comes back, version by version, the one at hand first.
    let mut by_version: BTreeMap<&str, Set> = BTreeMap::new();
    for owned in managers.values() {
        let set = by_version.entry(&owned.api_version).or_default();
        *set = set.union(&owned.set);
    }
    let mut versions: Vec<&str> = by_version.keys().copied().collect();
    versions.sort_by_key(|version| *version != last.api_version);
    let mut current = merged.clone();
    for version in versions {
        let Some(shape) = write.versions.shape(version) else {
            continue;
        };
        current = write.versions.convert(&current, version);
        pruned = write.versions.convert(&pruned, version);
        let named = |set: &Set| set.with_named_fields(Some(shape));
        let there = named(&typed::field_set(&current, shape));
        let keep = named(&typed::field_set(&pruned, shape)).union(&named(&by_version[version]));
        pruned = typed::remove(&current, &there.difference(&keep), shape);
    }

    // And what nobody owned before or now was never the manager's to drop.
    let pruned = write.versions.convert(&pruned, &last.api_version);
    let named = |set: &Set| set.with_named_fields(Some(last_shape));
    let gone = named(&typed::field_set(&merged, last_shape)).difference(&named(&typed::field_set(&pruned, last_shape)));
    let object = typed::remove(&merged, &gone.intersection(&last_set), last_shape);
    write.versions.convert(&object, write.api_version)
}

type Compare = fn(&Value, &Value, Shape<'_>, &Set) -> Comparison;

/// Takes changed fields from the managers who owned them, or reports the conflicts.
#[expect(clippy::too_many_arguments, reason = "two callers, each argument a different kind of thing")]
fn settle(
    old: &Value,
    new: &Value,
    mut managers: Managers,
    writer: Option<&Manager>,
    comparison: &Comparison,
    compare: Compare,
    write: Write<'_>,
    force: bool,
) -> Result<Managers, Conflicts> {
    let mut comparisons: BTreeMap<String, Option<Comparison>> = BTreeMap::new();
    comparisons.insert(write.api_version.to_owned(), Some(comparison.clone()));
    let mut conflicts: Conflicts = Vec::new();
    let mut changes: Vec<(Manager, Option<Set>)> = Vec::new();
    for (manager, owned) in &managers {
        if Some(manager) == writer {
            continue;
        }
        let comparison = comparisons.entry(owned.api_version.clone()).or_insert_with(|| {
            let shape = write.versions.shape(&owned.api_version)?;
            let old = write.versions.convert(old, &owned.api_version);
            let new = write.versions.convert(new, &owned.api_version);
            Some(compare(&old, &new, shape, write.reset))
        });
        let Some(comparison) = comparison else {
            changes.push((manager.clone(), None)); // a version nobody serves any more
            continue;
        };
        let taken = owned.set.intersection(&comparison.modified.union(&comparison.added));
        conflicts.extend(taken.paths().into_iter().map(|path| (manager.clone(), path)));
        changes.push((manager.clone(), Some(owned.set.difference(&taken).difference(&comparison.removed))));
    }
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    for (manager, set) in changes {
        match (set, managers.get_mut(&manager)) {
            (Some(set), Some(owned)) => owned.set = set,
            _ => {
                managers.remove(&manager);
            }
        }
    }
    managers.retain(|_, owned| !owned.set.is_empty());
    Ok(managers)
}

fn reconciled(mut managers: Managers, write: Write<'_>) -> Managers {
    managers.retain(|_, owned| write.versions.shape(&owned.api_version).is_some());
    for owned in managers.values_mut() {
        if let Some(shape) = write.versions.shape(&owned.api_version) {
            owned.set = typed::reconcile(&owned.set, shape);
        }
    }
    managers
}

/// What the server sets itself is nobody's.
fn always_unowned() -> &'static Set {
    static UNOWNED: OnceLock<Set> = OnceLock::new();
    UNOWNED.get_or_init(unowned)
}

fn unowned() -> Set {
    let mut paths: Vec<Vec<&str>> = vec![vec!["apiVersion"], vec!["kind"], vec!["metadata"]];
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        paths.push(vec!["metadata", name]);
    }
    Set::of_fields(paths)
}

fn strip_metadata(managers: &mut Managers, manager: &Manager) {
    if let Some(owned) = managers.get_mut(manager) {
        owned.set = owned.set.difference(always_unowned());
        if owned.set.is_empty() {
            managers.remove(manager);
        }
    }
}

fn conflict_error(conflicts: &Conflicts) -> ApplyError {
    let causes = conflicts.iter().map(|(manager, path)| Cause {
        message: format!("conflict with {}", manager.describe()),
        field: path::display(path),
    });
    let message = match conflicts.as_slice() {
        [(manager, path)] => {
            format!("Apply failed with 1 conflict: conflict with {}: {}", manager.describe(), path::display(path))
        }
        many => {
            let mut lines = Vec::new();
            let mut last = None;
            for (manager, path) in many {
                if last != Some(manager) {
                    lines.push(format!("conflicts with {}:", manager.describe()));
                    last = Some(manager);
                }
                lines.push(format!("- {}", path::display(path)));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    ApplyError::Conflict { message, causes: causes.collect() }
}

fn describe(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{}/{}; {}, Kind={}",
        text(&object["metadata"]["namespace"]),
        text(&object["metadata"]["name"]),
        text(&object["apiVersion"]),
        text(&object["kind"]),
    )
}

#[cfg(test)]
mod tests;
