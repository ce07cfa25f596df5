//! What is said aloud while a test listens.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Event, Level, Metadata, Subscriber};

/// Log lines of one thread.
#[derive(Clone)]
pub struct Lines {
    least: Level,
    said: Arc<Mutex<Vec<Line>>>,
}

/// The fields of a line by name; its text is the one called `message`.
#[derive(Clone, Debug, Default)]
pub struct Line(pub BTreeMap<&'static str, String>);

impl Line {
    /// Nothing where there is no such field.
    pub fn get(&self, field: &str) -> &str {
        self.0.get(field).map_or("", String::as_str)
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Lines {
    /// Lines of our own crates, of this level or worse, that this thread says while the guard is held.
    pub fn heard(least: Level) -> (Self, DefaultGuard) {
        // With one listener in the process, whether a line is of interest is asked on the thread that comes by first, and
        // that may be another test's. Somebody who never listens makes it two.
        static ANOTHER: Once = Once::new();
        ANOTHER.call_once(|| drop(tracing::subscriber::set_global_default(NoSubscriber::default())));
        let lines = Self { least, said: Arc::default() };
        (lines.clone(), tracing::subscriber::set_default(lines))
    }

    pub fn all(&self) -> Vec<Line> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many have the text in one of their fields.
    pub fn with(&self, text: &str) -> usize {
        self.all().iter().filter(|line| line.0.values().any(|value| value.contains(text))).count()
    }

    pub fn clear(&self) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("karpenter") && *metadata.level() <= self.least
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    // Spans are not asked for.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
