//! Keeping the mirror up to date: list, then watch from there, and list again when the server has forgotten where.

use crate::key::Key;
use crate::world::{Kind, Object, World};
use futures_util::io::AsyncBufReadExt;
use futures_util::stream::{BoxStream, StreamExt};
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::time::Duration;

/// A server ends watches after a while anyway; asking for it spares proxies in between the surprise.
const WATCH_SECONDS: u32 = 290;
const LIST_LIMIT: u32 = 500;
const RETRY: Duration = Duration::from_secs(1);

/// News of one kind, not yet taken in.
#[derive(Debug)]
pub enum News {
    /// Everything there is, after which all else is gone.
    Listed {
        objects: Vec<Object>,
        version: u64,
    },
    Changed(Line),
    /// The watch ended where it may go on.
    Ended,
}

/// One line of a watch, undecoded but for what says whether it is worth decoding.
#[derive(Debug)]
pub struct Line {
    pub deleted: bool,
    pub key: Key,
    pub uid: String,
    pub version: u64,
    json: String,
}

impl Line {
    pub fn decode(&self, kind: Kind) -> serde_json::Result<Object> {
        kind.decode_wrapped(&self.json)
    }
}

/// A line read for its head only: most lines tell what our own writes have told already.
#[derive(Deserialize)]
struct Told<'a> {
    #[serde(rename = "type")]
    event: &'a str,
    #[serde(default)]
    object: Head,
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
    uid: String,
    #[serde(default)]
    resource_version: String,
}

/// The endless news of a kind.
pub fn news(client: Client, kind: Kind) -> BoxStream<'static, News> {
    let state = State { client, kind, version: None, lines: None };
    futures_util::stream::unfold(state, |mut state| async move {
        let news = state.next().await;
        Some((news, state))
    })
    .boxed()
}

struct State {
    client: Client,
    kind: Kind,
    version: Option<u64>,
    lines: Option<BoxStream<'static, std::io::Result<String>>>,
}

impl State {
    async fn next(&mut self) -> News {
        loop {
            let Some(version) = self.version else {
                match self.list().await {
                    Ok(listed) => return listed,
                    Err(error) => self.pause("list", &error).await,
                }
                continue;
            };
            if self.lines.is_none() {
                match self.watch(version).await {
                    Ok(lines) => self.lines = Some(lines),
                    Err(kube::Error::Api(status)) if status.code == 410 => self.version = None,
                    Err(error) => self.pause("watch", &error).await,
                }
                continue;
            }
            let line = match &mut self.lines {
                Some(lines) => lines.next().await,
                None => None,
            };
            match line {
                Some(Ok(text)) => {
                    if let Some(news) = self.read(text) {
                        return news;
                    }
                }
                Some(Err(_)) | None => {
                    self.lines = None;
                    return News::Ended;
                }
            }
        }
    }

    /// Bookmarks move on quietly; an error event means the place is lost.
    fn read(&mut self, json: String) -> Option<News> {
        let (deleted, head) = {
            let line: Told = serde_json::from_str(&json).ok()?;
            if line.event == "ERROR" {
                self.version = None;
                self.lines = None;
                return None;
            }
            let version = line.object.metadata.resource_version.parse().ok()?;
            self.version = Some(version);
            if line.event == "BOOKMARK" {
                return None;
            }
            (line.event == "DELETED", line.object.metadata)
        };
        Some(News::Changed(Line {
            deleted,
            key: Key::new(&head.namespace, &head.name),
            uid: head.uid,
            version: self.version.unwrap_or(0),
            json,
        }))
    }

    async fn list(&mut self) -> kube::Result<News> {
        let mut objects = Vec::new();
        let mut from = String::new();
        loop {
            let path = format!("{}?limit={LIST_LIMIT}{}{from}", self.kind.path(""), self.selector());
            let text = self.client.request_text(super::write::request("GET", &path, None, Vec::new())).await?;
            let page: Page = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
            for item in page.items {
                objects.push(self.kind.decode(item.get()).map_err(kube::Error::SerdeError)?);
            }
            match page.metadata.next.filter(|c| !c.is_empty()) {
                Some(next) => from = format!("&continue={}", escape(&next)),
                None => {
                    let version = page.metadata.resource_version.parse().unwrap_or(0);
                    self.version = Some(version);
                    return Ok(News::Listed { objects, version });
                }
            }
        }
    }

    async fn watch(&mut self, version: u64) -> kube::Result<BoxStream<'static, std::io::Result<String>>> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}{}",
            self.kind.path(""),
            self.selector()
        );
        let mut request = super::write::request("GET", &path, None, Vec::new());
        request.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        let reader = self.client.request_stream(request).await?;
        Ok(Box::pin(reader).lines().boxed())
    }

    fn selector(&self) -> String {
        self.kind.field_selector().map(|s| format!("&fieldSelector={}", escape(s))).unwrap_or_default()
    }

    async fn pause(&mut self, what: &'static str, error: &kube::Error) {
        tracing::debug!(kind = self.kind.name(), what, %error, "trying again");
        tokio::time::sleep(RETRY).await;
    }
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

/// Takes news in; answers what changed.
pub fn take_in(world: &mut World, kind: Kind, news: News) -> Vec<crate::world::Change> {
    match &news {
        News::Listed { version, .. } | News::Changed(Line { version, .. }) => world.heard(kind, *version),
        News::Ended => {}
    }
    match news {
        News::Ended => Vec::new(),
        News::Changed(line) if line.deleted => world.remove(kind, &line.key, line.version).into_iter().collect(),
        News::Changed(line) => {
            if !world.wants(kind, &line.key, line.version, &line.uid) {
                return Vec::new();
            }
            match line.decode(kind) {
                Ok(object) => world.apply(object).into_iter().collect(),
                Err(error) => {
                    tracing::warn!(kind = kind.name(), key = %line.key, %error, "an object cannot be read");
                    Vec::new()
                }
            }
        }
        News::Listed { objects, version } => {
            let listed: BTreeSet<Key> = objects.iter().map(|o| Key::of(o.meta())).collect();
            let gone = world.keys_of(kind).into_iter().filter(|k| !listed.contains(k)).collect::<Vec<_>>();
            let removed: Vec<_> = gone.iter().filter_map(|key| world.remove(kind, key, version)).collect();
            removed.into_iter().chain(objects.into_iter().filter_map(|o| world.apply(o)).collect::<Vec<_>>()).collect()
        }
    }
}
