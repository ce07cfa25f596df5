//! What is said aloud while a test listens, on its own thread.

use std::fmt;
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines of at least warning level, with their fields.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>);

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        self.0.lock().unwrap().push(words.0);
    }
}

impl Lines {
    /// Those of this thread, while the guard is held.
    pub(crate) fn heard() -> (Self, DefaultGuard) {
        // With one listener in the process, whether a line is of interest is asked on the thread that comes by first, and
        // that may be another test's. Somebody who never listens makes it two.
        static ANOTHER: Once = Once::new();
        ANOTHER.call_once(|| drop(tracing::subscriber::set_global_default(NoSubscriber::default())));
        let lines = Self::default();
        (lines.clone(), tracing::subscriber::set_default(lines))
    }

    /// How many contain the text.
    pub(crate) fn with(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}
