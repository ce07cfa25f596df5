//! The endless news of a kind: list, then watch from there, and list again when the server has forgotten where.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::io::AsyncBufReadExt;
use futures_util::stream::{BoxStream, StreamExt};
use karpenter_index::{Key, Kind, Object, Unreadable};
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::write::request;

/// A server ends watches after a while anyway; asking for it spares proxies in between the surprise.
const WATCH_SECONDS: u32 = 290;
/// Small pages keep the peak of memory small at the start.
const LIST_LIMIT: u32 = 500;
/// The first retry comes soon: most failures are a server that restarts.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// A watch that ended in silence is taken up again after a moment, so that a server that ends all of them at once does
/// not make us a busy loop.
const PAUSE: Duration = Duration::from_millis(50);

/// So many failures in a row are said aloud.
const WORTH_A_LOOK: u32 = 5;
/// How long until it is tried again to read what we may not.
const WITHOUT: Duration = Duration::from_mins(5);

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
    pub(crate) fn decode(&self, kind: Kind) -> serde_json::Result<Object> {
        let line: RawLine<'_> = serde_json::from_str(&self.json)?;
        Object::decode(kind, line.object.get())
    }

    /// What is left of the object when it cannot be decoded.
    pub(crate) fn unreadable(&self, kind: Kind, error: &serde_json::Error) -> Unreadable {
        let object = serde_json::from_str(&self.json).map_or("", |line: RawLine<'_>| line.object.get());
        Unreadable::of(kind, object, error.to_string())
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

pub(crate) fn news(client: Client, kind: Kind, path: String) -> BoxStream<'static, News> {
    let state = State {
        client,
        kind,
        path,
        version: None,
        listing: Listing::default(),
        lines: None,
        failures: 0,
        without: false,
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
    /// Where the watch goes on; unknown: list first.
    version: Option<u64>,
    listing: Listing,
    lines: Option<BoxStream<'static, std::io::Result<String>>>,
    failures: u32,
    /// It counts as empty, since we may not read it.
    without: bool,
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
                    Err(kube::Error::Api(status)) if self.may_go_without(status.code) => {
                        if let Some(nothing) = self.go_without(&status.message).await {
                            return nothing;
                        }
                    }
                    Err(error) => self.pause("list", &error).await,
                }
                continue;
            };
            let Some(lines) = &mut self.lines else {
                match self.watch(version).await {
                    Ok(lines) => self.lines = Some(lines),
                    Err(kube::Error::Api(status)) if status.code == 410 => self.version = None,
                    Err(error) => self.pause("watch", &error).await,
                }
                continue;
            };
            match lines.next().await {
                Some(Ok(text)) => {
                    if let Some(news) = self.read(text) {
                        self.failures = 0;
                        return news;
                    }
                }
                Some(Err(_)) | None => {
                    self.lines = None;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// An error event, or a line that makes no sense, means that the place is lost.
    fn read(&mut self, json: String) -> Option<News> {
        let Some((event, head)) = head(&json) else {
            self.version = None;
            self.lines = None;
            return None;
        };
        let version = head.resource_version.parse().ok()?;
        self.version = Some(version);
        match event {
            Told::Bookmark => Some(News::Bookmark(version)),
            Told::Deleted | Told::Changed => Some(News::Changed(Line {
                deleted: event == Told::Deleted,
                key: Key::new(&head.namespace, &head.name),
                version,
                json,
            })),
        }
    }

    /// The next page of the list. One that fails, as when the server has forgotten the list, starts it anew.
    async fn list(&mut self) -> kube::Result<News> {
        let mut listing = std::mem::take(&mut self.listing);
        let path = format!("{}?limit={LIST_LIMIT}{}", self.path, listing.from);
        let text = self.client.request_text(request("GET", &path, None, Vec::new())).await?;
        let page: Page<'_> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        let mut objects = Vec::with_capacity(page.items.len());
        for item in page.items {
            match Object::decode(self.kind, item.get()) {
                Ok(object) => {
                    listing.present.insert(Key::of(object.metadata()));
                    objects.push(object);
                }
                Err(error) => {
                    let one = Unreadable::of(self.kind, item.get(), error.to_string());
                    listing.present.insert(one.key.clone());
                    listing.unreadable.push(one);
                }
            }
        }
        if let Some(next) = page.metadata.next.filter(|next| !next.is_empty()) {
            listing.from = format!("&continue={}", escape(&next));
            self.listing = listing;
            return Ok(News::Page(objects));
        }
        let version = page.metadata.resource_version.parse().unwrap_or(0);
        self.version = Some(version);
        self.failures = 0;
        Ok(News::Listed { last: objects, present: listing.present, unreadable: listing.unreadable, version })
    }

    async fn watch(&mut self, version: u64) -> kube::Result<BoxStream<'static, std::io::Result<String>>> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}",
            self.path
        );
        let mut request = request("GET", &path, None, Vec::new());
        request.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        let reader = self.client.request_stream(request).await?;
        Ok(Box::pin(reader).lines().boxed())
    }

    /// We may not see the kind, and everything else works without it.
    fn may_go_without(&self, code: u16) -> bool {
        self.kind.is_optional() && matches!(code, 401 | 403 | 404)
    }

    /// The first time it counts as an empty list; after that somebody may have granted what was missing.
    async fn go_without(&mut self, why: &str) -> Option<News> {
        if self.without {
            tokio::time::sleep(WITHOUT).await;
            return None;
        }
        self.without = true;
        tracing::error!(kind = self.kind.name(), why, "a kind cannot be read, what depends on it is off");
        Some(News::Listed { last: Vec::new(), present: BTreeSet::new(), unreadable: Vec::new(), version: 0 })
    }

    async fn pause(&mut self, what: &'static str, error: &kube::Error) {
        // One failure is a server that restarts; several in a row are worth a look.
        if self.failures == WORTH_A_LOOK {
            tracing::error!(kind = self.kind.name(), what, %error, "a kind cannot be read, nothing is decided without it");
        } else {
            tracing::debug!(kind = self.kind.name(), what, %error, "trying again");
        }
        let delay = FIRST_RETRY.saturating_mul(1 << self.failures.min(10)).min(LAST_RETRY);
        self.failures += 1;
        tokio::time::sleep(delay).await;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Changed,
    Deleted,
    Bookmark,
}

fn head(json: &str) -> Option<(Told, HeadMeta)> {
    let line: RawLine<'_> = serde_json::from_str(json).ok()?;
    let told = match line.event {
        "ADDED" | "MODIFIED" => Told::Changed,
        "DELETED" => Told::Deleted,
        "BOOKMARK" => Told::Bookmark,
        _ => return None,
    };
    let head: Head = serde_json::from_str(line.object.get()).ok()?;
    Some((told, head.metadata))
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

/// Everything but letters and digits, which is more than needed and never wrong.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() { out.push(char::from(byte)) } else { out.push_str(&format!("%{byte:02X}")) }
    }
    out
}
