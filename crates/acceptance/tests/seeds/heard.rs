//! What the log says meanwhile, as a log shipper gets it.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once};

use karpenter_controllers::Clock;
use karpenter_runtime::log::{Format, Log, Threshold};
use serde_json::Value;
use tracing::subscriber::NoSubscriber;

/// Everything that is said on this thread until it is dropped; the labs have one thread.
pub(crate) struct Heard {
    paper: Paper,
    _while_held: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Heard {
    /// As with `--log-level debug`.
    pub(crate) fn everything() -> Self {
        // With one listener in the process, whether a line is of interest is asked on the thread that comes by first, and
        // that may be another test's. Somebody who never listens makes it two.
        static ANOTHER: Once = Once::new();
        ANOTHER.call_once(|| drop(tracing::subscriber::set_global_default(NoSubscriber::default())));
        let paper = Paper::default();
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let log = Log::new(Threshold::Debug, Format::Json, clock, vec![Box::new(paper.clone())]);
        Self { paper, _while_held: tracing::subscriber::set_default(log) }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.paper.0.lock().unwrap().clone()).unwrap()
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The lines with this message, which must be there.
    pub(crate) fn said(&self, message: &str) -> Vec<Value> {
        let found: Vec<Value> = self.lines().into_iter().filter(|line| line["message"] == message).collect();
        assert!(!found.is_empty(), "{message:?} was not said; there were {:#?}", self.messages());
        found
    }

    fn messages(&self) -> std::collections::BTreeSet<String> {
        self.lines().iter().map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }
}

/// Asserts that a line has these fields, and that none of them is empty.
pub(crate) fn has(line: &Value, fields: &[&str]) {
    for field in fields {
        let found = line.get(*field).unwrap_or_else(|| panic!("{field} is not in {line}"));
        assert!(!found.is_null() && found != "", "{field} is empty in {line}");
    }
}
