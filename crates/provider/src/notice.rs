//! What a provider wants people to know about an object: the caller turns it into an Event.

/// Takes notices; must not block. Deduplication and rate limits are the recorder's business.
pub trait Recorder: Send + Sync {
    fn publish(&self, notice: Notice);
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub subject: Subject,
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
    /// Notices with equal keys are one and the same for a while; empty means reason and subject.
    pub dedupe: Vec<String>,
}

/// The object, as an Event's `involvedObject` names it. All of ours are cluster-scoped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

/// For tests and tools that show no events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Recorder for Silent {
    fn publish(&self, _notice: Notice) {}
}
