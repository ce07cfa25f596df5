//! Where the audience sits: the present view, the last words, and how to leave.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::view::View;

/// So many lines are kept for a screen.
const KEPT: usize = 200;

/// Shared between the world, which fills it, and the screen, which lives on a thread of its own.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    shared: Arc<Mutex<Shown>>,
    origin: Instant,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) view: View,
    pub(crate) step: String,
    /// When, and what.
    pub(crate) lines: VecDeque<Line>,
    /// Lines that somebody who reads along has not had yet.
    pub(crate) unread: VecDeque<Line>,
    /// How to reach the cluster.
    pub(crate) kubeconfig: String,
    /// The last word, when the script is over.
    pub(crate) summary: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) at: Duration,
    pub(crate) kind: LineKind,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Step,
    Decision,
    Node,
    Pods,
}

impl Stage {
    /// Time counts from now.
    pub(crate) fn new(kubeconfig: &str) -> Self {
        let shown = Shown { kubeconfig: kubeconfig.to_owned(), ..Shown::default() };
        Self { shared: Arc::new(Mutex::new(shown)), origin: Instant::now() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    pub(crate) fn step(&self, text: &str) {
        self.lock().step = text.to_owned();
        self.say(LineKind::Step, text.to_owned());
    }

    pub(crate) fn say(&self, kind: LineKind, text: String) {
        let line = Line { at: self.elapsed(), kind, text };
        let mut shown = self.lock();
        if shown.lines.len() == KEPT {
            shown.lines.pop_front();
        }
        shown.lines.push_back(line.clone());
        shown.unread.push_back(line);
    }

    pub(crate) fn show(&self, view: View) {
        self.lock().view = view;
    }

    pub(crate) fn finish(&self, summary: String) {
        self.lock().summary = Some(summary);
    }

    /// Everything there is to draw.
    pub(crate) fn shown(&self) -> Shown {
        let mut shown = self.lock();
        // A screen shows lines by itself; nobody else reads them.
        shown.unread.clear();
        shown.clone()
    }

    pub(crate) fn take_unread(&self) -> VecDeque<Line> {
        std::mem::take(&mut self.lock().unread)
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
