//! Log lines: tracing events, one line each, in the words that log shippers already match on.
//!
//! The code has one vocabulary (`claim`, `node`, `pool`, `instance_type`); upstream's names for the same things are
//! given here and nowhere else.

mod fields;
mod line;
mod sampling;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use karpenter_controllers::Clock;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use fields::Fields;
use sampling::Sampling;

/// The revision this was built from, if whoever built it said so.
pub const COMMIT: &str = match option_env!("KARPENTER_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For log shippers.
    Json,
    /// For eyes.
    Console,
}

/// `--log-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    Debug,
    Info,
    Error,
}

impl Threshold {
    /// As the setting spells it; empty is the default.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "debug" => Some(Self::Debug),
            "" | "info" => Some(Self::Info),
            "error" => Some(Self::Error),
            _ => None,
        }
    }

    fn admits(self, level: Level) -> bool {
        match self {
            Self::Debug => level <= Level::DEBUG,
            Self::Info => level <= Level::INFO,
            Self::Error => level <= Level::WARN,
        }
    }
}

/// Takes all events of the process.
pub struct Log {
    threshold: Threshold,
    format: Format,
    clock: Clock,
    compat: bool,
    out: Mutex<Vec<Box<dyn Write + Send>>>,
    complaints: Mutex<Vec<Box<dyn Write + Send>>>,
    sampling: Mutex<Sampling>,
}

impl Log {
    pub fn new(threshold: Threshold, format: Format, clock: Clock, out: Vec<Box<dyn Write + Send>>) -> Self {
        Self {
            threshold,
            format,
            clock,
            compat: true,
            out: Mutex::new(out),
            complaints: Mutex::default(),
            sampling: Mutex::default(),
        }
    }

    /// Whether some lines are written also in words of old.
    pub fn with_compat_lines(mut self, compat: bool) -> Self {
        self.compat = compat;
        self
    }

    /// Where it is told that a line could not be written.
    pub fn complaining_to(mut self, complaints: Vec<Box<dyn Write + Send>>) -> Self {
        self.complaints = Mutex::new(complaints);
        self
    }

    fn complain(&self, error: &io::Error) {
        for out in self.complaints.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            // There is nowhere left to complain to.
            let _ = writeln!(out, "{:.3} write error: {error}", self.clock.now()).and_then(|()| out.flush());
        }
    }

    /// Makes it the log of the process; there can be one.
    pub fn install(self) -> Result<(), tracing::subscriber::SetGlobalDefaultError> {
        tracing::subscriber::set_global_default(self)
    }
}

/// Where lines go: `stdout`, `stderr`, or a file that is appended to.
pub fn outputs(paths: &str) -> io::Result<Vec<Box<dyn Write + Send>>> {
    let open = |path: &str| -> io::Result<Box<dyn Write + Send>> {
        Ok(match path {
            "stdout" => Box::new(io::stdout()),
            "stderr" => Box::new(io::stderr()),
            file => Box::new(
                OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(file)
                    .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))?,
            ),
        })
    };
    paths.split(',').map(str::trim).filter(|path| !path.is_empty()).map(open).collect()
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // What libraries have to say below a warning is for those who write them.
        let ours = metadata.target().starts_with("karpenter");
        !metadata.is_span() && self.threshold.admits(*metadata.level()) && (ours || *metadata.level() <= Level::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.compat && !self.compat {
            return;
        }
        let fields = fields.named().with_work(karpenter_controllers::doing());
        let (now, metadata) = (self.clock.now(), event.metadata());
        let admitted = {
            let mut sampling = self.sampling.lock().unwrap_or_else(PoisonError::into_inner);
            sampling.admits(now, *metadata.level(), &fields.message)
        };
        if !admitted {
            return;
        }
        let caller = (self.threshold == Threshold::Debug).then(|| metadata.file().zip(metadata.line())).flatten();
        let line = match self.format {
            Format::Json => line::json(now, *metadata.level(), caller, fields),
            Format::Console => line::console(now, *metadata.level(), fields),
        };
        for out in self.out.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if let Err(error) = out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
                self.complain(&error);
            }
        }
    }

    // No line depends on spans.
    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[cfg(test)]
mod tests;
