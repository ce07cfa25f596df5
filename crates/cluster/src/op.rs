//! Writes as plain data: what a decision asks for. One place carries them out.

use crate::key::Key;
use crate::world::{Kind, Object};
use serde_json::Value;
use std::time::Duration;

#[derive(Clone, Debug)]
pub enum Op {
    Create(Object),
    /// Creates and tells of it; `{}` in the message becomes the name, which the server may have made up.
    CreateAndTell(Object, Event),
    /// Replaces the object, if nobody else did since it was read.
    Update(Object),
    UpdateStatus(Object),
    Patch {
        kind: Kind,
        key: Key,
        subresource: &'static str,
        style: Style,
        body: Value,
    },
    Delete {
        kind: Kind,
        key: Key,
        uid: Option<String>,
        grace_seconds: Option<i64>,
        propagation: Option<&'static str>,
    },
    Bind {
        pod: Key,
        uid: String,
        node: String,
    },
    /// Deletes everything in a namespace, of kinds we know and kinds we do not, and then lets the namespace go. Fails as
    /// a conflict while something is left.
    PurgeNamespace(Object),
    /// Best effort: a lost event fails nothing.
    Event(Event),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Merge,
    Strategic,
}

impl Style {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// Something worth telling about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: &'static str,
    pub api_version: &'static str,
    pub key: Key,
    pub uid: String,
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
    pub source: Source,
}

/// Who tells. Some components name the node they run on or the action they took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Controller(&'static str),
    Kubelet { node: String },
    Scheduler { action: &'static str },
}

impl Event {
    pub fn normal(object: &Object, source: Source, reason: &'static str, message: String) -> Self {
        let kind = object.kind();
        Self {
            kind: kind.name(),
            api_version: kind.api_version(),
            key: Key::of(object.meta()),
            uid: crate::key::uid(object.meta()).into(),
            warning: false,
            reason,
            message,
            source,
        }
    }

    pub fn warning(object: &Object, source: Source, reason: &'static str, message: String) -> Self {
        Self { warning: true, ..Self::normal(object, source, reason, message) }
    }
}

/// What a reconciler wants done now, and when it wants to look again at the latest.
#[derive(Clone, Debug, Default)]
pub struct Step {
    pub ops: Vec<Op>,
    pub after: Option<Duration>,
}

impl Step {
    pub fn done() -> Self {
        Self::default()
    }

    pub fn ops(ops: Vec<Op>) -> Self {
        Self { ops, after: None }
    }

    pub fn wait(after: Duration) -> Self {
        Self { ops: Vec::new(), after: Some(after) }
    }

    /// Looks again after this time, or sooner if that was asked for already.
    pub fn again(mut self, after: Option<Duration>) -> Self {
        self.after = match (self.after, after) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self
    }
}

impl Op {
    pub fn delete(object: &Object) -> Self {
        Self::Delete {
            kind: object.kind(),
            key: Key::of(object.meta()),
            uid: object.meta().uid.clone(),
            grace_seconds: None,
            propagation: None,
        }
    }
}
