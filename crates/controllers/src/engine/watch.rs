//! The endless news of a kind: list, then watch from there, and list again when the server has forgotten where.
//!
//! ```text
//!   list ──▶ watch ──▶ events and bookmarks, each of which moves the version from which the watch goes on
//!    ▲         ▲──────────┤ ended, or silent for too long
//!    └─────────┴──────────┘ 410, or silent from its beginning
//! ```
//!
//! Every wait has an end: a connection that went silent costs [`SILENCE`], and no event is lost or told twice for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt};
use karpenter_index::{Key, Kind, Object, Unreadable};
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::lines::{Lines, TextLine};
use super::retry::Retry;
use crate::freshness::{Freshness, SILENCE};
use crate::write::{escape, request};

/// A server ends watches after a while anyway; asking for it spares proxies in between the surprise.
const WATCH_SECONDS: u32 = 290;
/// Small pages keep the peak of memory small at the start.
const LIST_LIMIT: u32 = 500;
/// A page has come whole by then: a few megabytes, after the server's own minute.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);
/// A server accepts a watch at once, or has too much to do.
const OPEN_DEADLINE: Duration = Duration::from_secs(30);
/// A watch that was accepted begins with what happened meanwhile. A pause of so long after it, or so long altogether in
/// a cluster where something always happens, and we are where the server is.
const CATCH_UP: Duration = Duration::from_secs(1);
const STREAMING: Duration = Duration::from_secs(5);

/// So many failures in a row are worth a line in the log.
const WORTH_A_LOOK: u32 = 5;
/// What could be read before is not given up at once when it is refused: an API server that has just started knows
/// nobody's rights for a moment. Until then it is out of date, and nothing is decided.
const REFUSED: Duration = Duration::from_mins(3);
/// How long until it is tried again to read what we may not: soon at first, for the same reason.
const WITHOUT: Duration = Duration::from_secs(5);
const LONGEST_WITHOUT: Duration = Duration::from_mins(5);

/// News of one kind, not yet taken in.
#[derive(Debug)]
pub(crate) enum News {
    /// Some of what there is; more is to come.
    Page(Vec<Object>),
    /// The last of what there is. All that is not `present` is gone.
    Listed {
        last: Vec<Object>,
        present: BTreeSet<Key>,
        unreadable: Vec<Unreadable>,
        version: u64,
    },
    /// The kind is done without: nothing of it counts.
    Without,
    Changed(Line),
    /// Nothing changed up to this version.
    Bookmark(u64),
}

/// One line of a watch, undecoded but for what says whether it is worth decoding.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) deleted: bool,
    pub(crate) key: Key,
    pub(crate) version: u64,
    json: String,
}

impl Line {
    pub(crate) fn decode(&self, kind: Kind) -> Result<Object, Box<Unreadable>> {
        Object::read(kind, serde_json::from_str(&self.json).map_or("", |line: RawLine<'_>| line.object.get()))
    }
}

#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(rename = "type")]
    event: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize, Default)]
struct Head {
    #[serde(default)]
    metadata: HeadMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    resource_version: String,
}

/// `seed` only sets the pauses between retries apart from those of other watches.
pub(crate) fn news(
    client: Client,
    kind: Kind,
    path: String,
    freshness: Arc<Freshness>,
    seed: u64,
) -> BoxStream<'static, News> {
    freshness.watch(kind);
    let state = State {
        client,
        kind,
        path,
        freshness,
        version: None,
        newest: 0,
        listing: Listing::default(),
        open: None,
        retry: Retry::new(seed ^ kind as u64),
        readable: false,
        refused: None,
        without: None,
        complained: false,
    };
    futures_util::stream::unfold(state, |mut state| async move {
        let news = state.next().await;
        Some((news, state))
    })
    .boxed()
}

struct State {
    client: Client,
    kind: Kind,
    path: String,
    freshness: Arc<Freshness>,
    /// Where the watch goes on; unknown: list first.
    version: Option<u64>,
    /// How far the server's history was known to go.
    newest: u64,
    listing: Listing,
    open: Option<Open>,
    retry: Retry,
    /// It could be read at some time, and is not gone without since.
    readable: bool,
    /// Since when it may not be read, though everything works without it.
    refused: Option<Instant>,
    /// It counts as empty, since we may not read it, and is tried again after this.
    without: Option<Duration>,
    /// People know that it cannot be read.
    complained: bool,
}

/// A watch that was accepted.
struct Open {
    lines: Lines,
    since: Instant,
    /// What happened before it was accepted has been told.
    caught_up: bool,
    /// It has said something whole.
    spoke: bool,
}

impl Open {
    fn new(lines: Lines) -> Self {
        Self { lines, since: Instant::now(), caught_up: false, spoke: false }
    }

    /// There is nothing more to come for now, as far as a pause can tell: the server is not in the middle of a line.
    fn may_have_caught_up(&self) -> bool {
        !self.caught_up && !self.lines.is_half_read()
    }

    /// How long a line may take.
    fn patience(&self) -> Duration {
        if self.may_have_caught_up() { CATCH_UP } else { SILENCE }
    }
}

/// Why there is no list or watch.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// Told inside of a watch.
    #[error("{message} (code {code})")]
    Told { code: u16, message: String, retry_after: Option<Duration> },
    #[error("a line that makes no sense")]
    Garbled,
}

impl Failure {
    fn code(&self) -> u16 {
        match self {
            Self::Api(kube::Error::Api(status)) => status.code,
            Self::Told { code, .. } => *code,
            Self::Api(_) | Self::Late(_) | Self::Garbled => 0,
        }
    }

    /// The server does not know the version yet from which the watch should go on, nor will it soon: its storage was set
    /// back, from a backup, say.
    fn is_of_the_future(&self) -> bool {
        let Self::Api(kube::Error::Api(status)) = self else { return false };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == "ResourceVersionTooLarge")
    }

    /// How long the server asks us to wait.
    fn asked(&self) -> Option<Duration> {
        match self {
            Self::Api(kube::Error::Api(status)) => {
                let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                Some(Duration::from_secs(seconds.into()))
            }
            Self::Told { retry_after, .. } => *retry_after,
            Self::Api(_) | Self::Late(_) | Self::Garbled => None,
        }
    }
}

/// How far a list has come.
#[derive(Default)]
struct Listing {
    /// Where the next page begins, as a part of the query; empty for the first one.
    from: String,
    present: BTreeSet<Key>,
    unreadable: Vec<Unreadable>,
}

impl State {
    async fn next(&mut self) -> News {
        loop {
            let Some(version) = self.version else {
                match self.list().await {
                    Ok(listed) => return listed,
                    Err(error) if self.may_go_without(error.code()) && self.is_refused_for_good() => {
                        if let Some(nothing) = self.go_without(&error).await {
                            return nothing;
                        }
                    }
                    Err(error) => self.pause("list", &error).await,
                }
                continue;
            };
            let Some(open) = &mut self.open else {
                match self.watch(version).await {
                    Ok(lines) => self.open = Some(Open::new(lines)),
                    Err(error) => self.fail("watch", &error).await,
                }
                continue;
            };
            let patience = open.patience();
            self.freshness.waits(self.kind, patience);
            match timeout(patience, open.lines.next()).await {
                Ok(Ok(Some(TextLine { text, slow }))) => match read(text) {
                    Ok((version, news)) => {
                        self.version = Some(version);
                        self.newest = self.newest.max(version);
                        open.spoke = true;
                        open.caught_up |= matches!(news, News::Bookmark(_)) || open.since.elapsed() > STREAMING;
                        if open.caught_up && !slow {
                            self.freshness.heard(self.kind);
                            self.complained = false;
                        }
                        return news;
                    }
                    Err(Unread::Unversioned) => {}
                    Err(Unread::Failed(error)) => self.fail("watch", &error).await,
                },
                Ok(Err(_) | Ok(None)) => self.end().await,
                Err(_) if open.may_have_caught_up() => {
                    open.caught_up = true;
                    self.freshness.heard(self.kind);
                }
                Err(_) => {
                    tracing::debug!(kind = self.kind.name(), "a watch has gone silent, it is taken up again");
                    // One that never said anything whole, not even that nothing happened, is not believed any more, nor
                    // would the next one be: what happened meanwhile may never get through it.
                    if !open.spoke {
                        self.version = None;
                    }
                    self.end().await;
                }
            }
        }
    }

    /// The watch is over; the next one goes on where it was.
    async fn end(&mut self) {
        let lasted = self.open.take().map_or(Duration::ZERO, |open| open.since.elapsed());
        let pause = self.retry.after_end(lasted);
        self.complain("watch", "watches end at once");
        self.sleep(pause).await;
    }

    /// The watch failed, or was refused. Whoever has no place to go on from lists again, and so does whoever may not
    /// watch: a list tells whether the kind can be done without.
    async fn fail(&mut self, what: &'static str, error: &Failure) {
        self.retry.lasted(self.open.take().map_or(Duration::ZERO, |open| open.since.elapsed()));
        let lost = matches!(error, Failure::Garbled) || error.code() == 410 || error.is_of_the_future();
        if lost || self.may_go_without(error.code()) {
            self.version = None;
        }
        self.pause(what, error).await;
    }

    async fn sleep(&mut self, pause: Duration) {
        self.freshness.waits(self.kind, pause);
        tokio::time::sleep(pause).await;
    }

    /// The next page of the list. One that fails, as when the server has forgotten the list, starts it anew.
    async fn list(&mut self) -> Result<News, Failure> {
        let mut listing = std::mem::take(&mut self.listing);
        let path = format!("{}?limit={LIST_LIMIT}{}", self.path, listing.from);
        self.freshness.waits(self.kind, PAGE_DEADLINE);
        let asked = self.client.request_text(request("GET", &path, None, Vec::new()));
        let text = timeout(PAGE_DEADLINE, asked).await.map_err(|_| Failure::Late(PAGE_DEADLINE))??;
        let page: Page<'_> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        let mut objects = Vec::with_capacity(page.items.len());
        for item in page.items {
            match Object::read(self.kind, item.get()) {
                Ok(object) => {
                    listing.present.insert(Key::of(object.metadata()));
                    objects.push(object);
                }
                Err(one) => {
                    listing.present.insert(one.key.clone());
                    listing.unreadable.push(*one);
                }
            }
        }
        if let Some(next) = page.metadata.next.filter(|next| !next.is_empty()) {
            listing.from = format!("&continue={}", escape(&next));
            self.listing = listing;
            return Ok(News::Page(objects));
        }
        let version = page.metadata.resource_version.parse().unwrap_or(0);
        if version < self.newest && version != 0 {
            // What is known of a later time cannot be told from what is true now.
            let (kind, known) = (self.kind.name(), self.newest);
            tracing::error!(kind, known, version, "the API server's history has gone back, as after a restored backup");
            self.freshness.went_back(self.kind);
        }
        self.newest = self.newest.max(version);
        self.version = Some(version);
        (self.readable, self.refused, self.without, self.complained) = (true, None, None, false);
        self.freshness.heard(self.kind);
        Ok(News::Listed { last: objects, present: listing.present, unreadable: listing.unreadable, version })
    }

    async fn watch(&mut self, version: u64) -> Result<Lines, Failure> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}",
            self.path
        );
        let mut request = request("GET", &path, None, Vec::new());
        request.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        self.freshness.waits(self.kind, OPEN_DEADLINE);
        let asked = self.client.request_stream(request);
        let reader = timeout(OPEN_DEADLINE, asked).await.map_err(|_| Failure::Late(OPEN_DEADLINE))??;
        Ok(Lines::new(reader))
    }

    /// We may not see the kind, or there is none, and everything else works without it. Whoever is not known (401) may
    /// see nothing at all, which says nothing about the kind.
    fn may_go_without(&self, code: u16) -> bool {
        self.kind.is_optional() && matches!(code, 403 | 404)
    }

    /// It was never readable, or is not any more for longer than a server takes to come to itself.
    fn is_refused_for_good(&mut self) -> bool {
        let refused = *self.refused.get_or_insert_with(Instant::now);
        !self.readable || refused.elapsed() >= REFUSED
    }

    /// The first time it counts as an empty list; after that somebody may have granted what was missing.
    async fn go_without(&mut self, why: &Failure) -> Option<News> {
        self.freshness.goes_without(self.kind);
        if let Some(pause) = self.without {
            self.without = Some((pause * 2).min(LONGEST_WITHOUT));
            self.sleep(pause).await;
            return None;
        }
        (self.readable, self.without) = (false, Some(WITHOUT));
        tracing::error!(kind = self.kind.name(), %why, "a kind cannot be read, what depends on it is off");
        Some(News::Without)
    }

    async fn pause(&mut self, what: &'static str, error: &Failure) {
        tracing::debug!(kind = self.kind.name(), what, %error, "trying again");
        self.complain(what, &error.to_string());
        let pause = self.retry.after_error(error.asked());
        self.sleep(pause).await;
    }
}

impl State {
    /// One failure is a server that restarts; several in a row are worth a look.
    fn complain(&mut self, what: &'static str, error: &str) {
        if self.retry.failures() < WORTH_A_LOOK || std::mem::replace(&mut self.complained, true) {
            return;
        }
        tracing::error!(kind = self.kind.name(), what, error, "a kind cannot be read, nothing is decided without it");
    }
}

/// A line that is no news.
enum Unread {
    /// Of an object without a version, which no server sends.
    Unversioned,
    Failed(Failure),
}

/// News and the version up to which everything has been told.
fn read(json: String) -> Result<(u64, News), Unread> {
    let line: RawLine<'_> = serde_json::from_str(&json).map_err(|_| Unread::Failed(Failure::Garbled))?;
    let told = match line.event {
        "ADDED" | "MODIFIED" => Told::Changed,
        "DELETED" => Told::Deleted,
        "BOOKMARK" => Told::Bookmark,
        _ => return Err(Unread::Failed(failure(line.object.get()))),
    };
    let head: Head = serde_json::from_str(line.object.get()).map_err(|_| Unread::Failed(Failure::Garbled))?;
    let head = head.metadata;
    let version = head.resource_version.parse().map_err(|_| Unread::Unversioned)?;
    let news = match told {
        Told::Bookmark => News::Bookmark(version),
        Told::Deleted | Told::Changed => News::Changed(Line {
            deleted: told == Told::Deleted,
            key: Key::new(&head.namespace, &head.name),
            version,
            json,
        }),
    };
    Ok((version, news))
}

/// What an error event says.
fn failure(status: &str) -> Failure {
    let Ok(status) = serde_json::from_str::<kube::core::Status>(status) else { return Failure::Garbled };
    let seconds = status.details.as_ref().map(|details| details.retry_after_seconds.into());
    Failure::Told { code: status.code, message: status.message, retry_after: seconds.map(Duration::from_secs) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Changed,
    Deleted,
    Bookmark,
}

#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMeta,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
    #[serde(default)]
    resource_version: String,
}
