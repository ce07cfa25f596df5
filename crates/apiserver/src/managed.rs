//! Who set which field: `metadata.managedFields`, kept on every write.

use karpenter_kinds::strategy::Part;
use karpenter_structural::apply::{self, Set, Versions, Write};
use karpenter_structural::shape::{Shape, builtin};
use serde_json::Value;

use crate::convert;
use crate::registry::{Origin, Served};

/// The user agent up to its first slash, as the server names a manager nobody named.
pub(crate) fn default_manager(user_agent: &str) -> String {
    let name: String = user_agent.split('/').next().unwrap_or_default().chars().take(128).collect();
    if name.is_empty() { "unknown".into() } else { name }
}

/// The versions of a served kind, for the bookkeeping across them.
pub(crate) struct KindVersions<'a>(pub(crate) &'a Served);

impl Versions for KindVersions<'_> {
    fn shape(&self, api_version: &str) -> Option<Shape<'_>> {
        match &self.0.origin {
            Origin::Builtin(_) => builtin::shapes().kind(api_version, &self.0.kind),
            Origin::Custom(custom) => {
                let found = custom.shapes.iter().find(|(version, _)| version == api_version);
                found.and_then(|(_, shapes)| shapes.kind(api_version, &self.0.kind))
            }
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Value {
        if object["apiVersion"] == api_version {
            return object.clone();
        }
        convert::between(self.0, object, api_version)
    }
}

/// Fields that a write to this part cannot change and so cannot own.
fn reset_fields(served: &Served, part: Part) -> Set {
    const NONE: [&[&str]; 0] = [];
    let has_status = served.has_subresource("status");
    match (&served.origin, part) {
        (Origin::Custom(_), Part::Status) => Set::of_fields([&["metadata"][..], &["spec"]]),
        (Origin::Builtin(_), Part::Status) => match &*served.kind {
            "Pod" => {
                Set::of_fields([&["spec"][..], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
            }
            "Deployment" => Set::of_fields([&["spec"][..], &["metadata", "labels"]]),
            "CustomResourceDefinition" => Set::of_fields([&["metadata"][..], &["spec"]]),
            _ => Set::of_fields([&["spec"][..]]),
        },
        (_, Part::Main | Part::Finalize) if has_status => Set::of_fields([&["status"][..]]),
        _ => Set::of_fields(NONE),
    }
}

/// What a write says about itself.
pub(crate) struct Author<'a> {
    pub(crate) manager: &'a str,
    pub(crate) part: Part,
    /// `scale` writes the object itself, under its own name.
    pub(crate) subresource: &'a str,
    pub(crate) now: &'a str,
}

fn with_write<T>(served: &Served, author: &Author<'_>, use_it: impl FnOnce(Write<'_>) -> T) -> T {
    let versions = KindVersions(served);
    let reset = reset_fields(served, author.part);
    let api_version = served.api_version();
    use_it(Write {
        manager: author.manager,
        subresource: author.subresource,
        api_version: &api_version,
        kind: &served.kind,
        now: author.now,
        versions: &versions,
        reset: &reset,
    })
}

/// Records the fields that a write changes as the author's.
pub(crate) fn update(served: &Served, live: Option<&Value>, new: &mut Value, author: &Author<'_>) {
    with_write(served, author, |write| apply::update(live, new, write));
    if author.subresource == "scale"
        && let Some(managed) = new["metadata"].get_mut("managedFields")
    {
        *managed = timeless_scale(managed.take());
    }
}

/// The entry of a scale has no time, and what has no time comes first among the updates.
fn timeless_scale(managed: Value) -> Value {
    let Value::Array(mut entries) = managed else { return managed };
    for entry in &mut entries {
        if entry["subresource"] == "scale"
            && let Some(entry) = entry.as_object_mut()
        {
            entry.shift_remove("time");
        }
    }
    entries.sort_by_key(|entry| {
        (entry["operation"] == "Update", entry["operation"] == "Update" && entry.get("time").is_some())
    });
    Value::Array(entries)
}

/// Server-side apply of a configuration.
pub(crate) fn apply_config(
    served: &Served,
    live: Option<&Value>,
    config: &Value,
    author: &Author<'_>,
    force: bool,
) -> Result<Value, apply::ApplyError> {
    with_write(served, author, |write| apply::apply(live, config, write, force))
}
