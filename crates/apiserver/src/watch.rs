//! Watches: events after a version, in order, filtered, with bookmarks, until the client or the clock ends them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use crate::body::{Next, Source};
use crate::conversion;
use crate::error::ApiError;
use crate::planted::Planted;
use crate::registry::Served;
use crate::render::{self, View};
use crate::server::{Inner, WatchOrder};
use crate::store::{EventKind, Filter, Object};

/// Bookmarks come about once a minute, as the reference server sends them.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// About how much is put together at a time.
const PIECE: usize = 256 << 10;

/// Events to send.
type Found = Vec<(&'static str, Arc<Object>)>;

pub(crate) struct Watch {
    pub(crate) inner: Arc<Inner>,
    pub(crate) served: Arc<Served>,
    /// `namespace/`, or empty for all.
    pub(crate) prefix: String,
    pub(crate) filter: Filter,
    pub(crate) view: View,
    /// Everything up to here has been sent.
    pub(crate) version: u64,
    pub(crate) bookmarks: bool,
    pub(crate) deadline: Instant,
    pub(crate) changed: Receiver<u64>,
    pub(crate) orders: Receiver<WatchOrder>,
    pub(crate) next_bookmark: Instant,
    /// Sent before anything else: the initial state, and whether a bookmark ends it.
    pub(crate) initial: VecDeque<Arc<Object>>,
    pub(crate) initial_bookmark: bool,
    /// What goes out next.
    pub(crate) pending: Vec<u8>,
    /// Column definitions go with the first table only.
    pub(crate) columns_sent: bool,
    pub(crate) ended: bool,
}

impl Source for Watch {
    fn next(mut self: Box<Self>) -> Next {
        Box::pin(async move {
            let piece = self.piece().await?;
            let source: Box<dyn Source> = self;
            Some((piece, source))
        })
    }
}

impl Watch {
    pub(crate) fn first_bookmark() -> Instant {
        Instant::now() + BOOKMARK_INTERVAL
    }

    async fn piece(&mut self) -> Option<Bytes> {
        loop {
            if !self.pending.is_empty() {
                return Some(Bytes::from(std::mem::take(&mut self.pending)));
            }
            if self.ended {
                return None;
            }
            if !self.initial.is_empty() || self.initial_bookmark {
                let some = self.some_initial();
                self.send_all(some).await;
                if !self.ended && self.initial.is_empty() && std::mem::take(&mut self.initial_bookmark) {
                    self.bookmark(true);
                }
                continue;
            }
            // Marked as seen before reading, so that what is written meanwhile wakes us again.
            self.changed.borrow_and_update();
            let found = self.collect();
            self.send_all(found).await;
            if !self.pending.is_empty() || self.ended {
                continue;
            }
            let wake = if self.bookmarks { self.deadline.min(self.next_bookmark) } else { self.deadline };
            tokio::select! {
                biased;
                ordered = self.orders.changed() => {
                    if ordered.is_err() {
                        return None;
                    }
                    let order = *self.orders.borrow_and_update();
                    match order {
                        WatchOrder::Go => {}
                        WatchOrder::Drop(_) => return None,
                        WatchOrder::Expire(_) => self.fail(&too_old(self.version, self.version)),
                    }
                }
                changed = self.changed.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = tokio::time::sleep_until(wake) => {
                    if Instant::now() >= self.deadline {
                        return None;
                    }
                    self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    let state = self.inner.state();
                    let version = state.store.version();
                    drop(state);
                    self.version = self.version.max(version);
                    self.bookmark(false);
                }
            }
        }
    }

    fn some_initial(&mut self) -> Found {
        let (mut some, mut size) = (Vec::new(), 0);
        while size < PIECE
            && let Some(object) = self.initial.pop_front()
        {
            size += object.json.len();
            some.push(("ADDED", object));
        }
        some
    }

    async fn send_all(&mut self, found: Found) {
        let (kinds, objects): (Vec<&str>, Vec<Arc<Object>>) = found.into_iter().unzip();
        match conversion::objects(&self.inner, &self.served, objects).await {
            Ok(objects) => kinds.iter().zip(objects).for_each(|(kind, object)| self.send(kind, &object)),
            Err(error) => self.fail(&error),
        }
    }

    /// Reads what the table remembers since our version, a piece at a time: who reads slowly costs no memory.
    fn collect(&mut self) -> Found {
        let inner = self.inner.clone();
        let state = inner.state();
        let Some(table) = self.served.table else { return Vec::new() };
        let table = state.store.table(table);
        let Some(events) = table.events_after(self.version) else {
            let error = too_old(self.version, table.compacted());
            drop(state);
            self.fail(&error);
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut size = 0;
        for event in events {
            if size > PIECE {
                break;
            }
            self.version = event.version;
            if !event.object.key.starts_with(&self.prefix) {
                continue;
            }
            size += event.object.json.len();
            let before = event.previous.as_ref().is_some_and(|object| object.matches(&self.filter));
            let after = event.kind != EventKind::Deleted && event.object.matches(&self.filter);
            match (before, after) {
                (false, false) => {}
                (false, true) => found.push(("ADDED", event.object.clone())),
                (true, true) => found.push(("MODIFIED", event.object.clone())),
                (true, false) if state.suffers(Planted::DeletionsUnseen) => {}
                (true, false) if event.kind == EventKind::Deleted => found.push(("DELETED", event.object.clone())),
                (true, false) => {
                    let previous = event.previous.as_ref().expect("it matched");
                    found.push(("DELETED", at_version(previous, event.version)));
                }
            }
        }
        found
    }

    pub(crate) fn send(&mut self, kind: &str, object: &Object) {
        let object = match self.view {
            View::Table(include) => {
                let metadata = serde_json::json!({"resourceVersion": object.version.to_string()});
                let now = self.inner.clock.now();
                let mut table = render::table(&self.served, &[object], include, now, metadata, !self.columns_sent);
                if self.columns_sent {
                    table["columnDefinitions"] = Value::Null;
                }
                self.columns_sent = true;
                render::bytes(&table)
            }
            view => render::single(&self.served, object, view, self.inner.clock.now()),
        };
        self.push(kind, &object);
    }

    pub(crate) fn bookmark(&mut self, initial_events_end: bool) {
        let object = render::bookmark(&self.served, self.version, initial_events_end, self.view);
        self.push("BOOKMARK", &object);
    }

    fn fail(&mut self, error: &ApiError) {
        self.push("ERROR", &render::bytes(&error.status()));
        self.ended = true;
    }

    fn push(&mut self, kind: &str, object: &[u8]) {
        self.pending.extend_from_slice(b"{\"type\":\"");
        self.pending.extend_from_slice(kind.as_bytes());
        self.pending.extend_from_slice(b"\",\"object\":");
        self.pending.extend_from_slice(object);
        self.pending.extend_from_slice(b"}\n");
    }
}

pub(crate) fn too_old(asked: u64, oldest: u64) -> ApiError {
    ApiError::expired(format!("too old resource version: {asked} ({oldest})"))
}

/// An object that left the filter is reported as it last matched, at the version it left.
fn at_version(object: &Object, version: u64) -> Arc<Object> {
    Arc::new(object.at_version(version))
}
