//! Two small pages for probes and scrapers: health on one port, metrics on the other.

use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use karpenter_controllers::Context;
use karpenter_controllers::freshness;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::connections::{self, HEADER_DEADLINE};
use crate::metrics::{self, Show};
use crate::profile;

/// So many connections at once are plenty for probes and scrapers.
const CONNECTIONS: usize = 64;
/// A probe is answered at once; from connecting until the answer is taken it has as long as its headers alone.
const PROBE_DEADLINE: Duration = HEADER_DEADLINE;
/// A profile may be asked for that takes ten minutes.
const SCRAPE_DEADLINE: Duration = Duration::from_secs(11 * 60);

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on port {port} for {what}")]
pub struct ListenError {
    pub what: &'static str,
    pub port: u16,
    #[source]
    source: std::io::Error,
}

/// A port that is served until this is dropped.
#[derive(Debug)]
pub struct Serving {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What probes are told. The process answers them long before there is anything to be ready.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Stages>);

#[derive(Debug, Default)]
struct Stages {
    kinds: OnceLock<()>,
    context: OnceLock<Arc<Context>>,
    warm: OnceLock<()>,
}

impl Readiness {
    /// The cluster serves our kinds.
    pub fn has_kinds(&self) {
        let _ = self.0.kinds.set(());
    }

    /// From now on the cluster is watched, so that readiness waits until it has been seen whole.
    pub fn watches(&self, context: Arc<Context>) {
        let _ = self.0.context.set(context);
        let _ = self.0.warm.set(());
    }

    /// There is something to scrape, although nothing is watched yet.
    pub fn stands_by(&self, context: Arc<Context>) {
        let _ = self.0.context.set(context);
    }

    /// Why not, if not.
    pub fn missing(&self) -> Option<String> {
        if self.0.kinds.get().is_none() {
            return Some("the cluster does not serve our kinds yet: are the CRDs there?".to_owned());
        }
        let context = self.0.context.get().filter(|_| self.0.warm.get().is_some())?;
        let kinds = context.index.kinds();
        let unlisted = kinds.iter().filter(|kind| !context.index.has_listed(**kind));
        let unlisted: Vec<&str> = unlisted.map(|kind| kind.name()).collect();
        if !unlisted.is_empty() {
            return Some(format!("the cluster has not been listed yet: {}", unlisted.join(", ")));
        }
        let stale = context.freshness.stale(&kinds);
        (!stale.is_empty()).then(|| format!("not heard from lately: {}", freshness::named(&stale)))
    }

    /// What of us does not move any more. The only remedy is another process.
    pub fn hung(&self) -> Vec<String> {
        self.0.context.get().map(|context| context.hung()).unwrap_or_default()
    }
}

/// `/healthz`: we run, and everything in us moves. `/readyz`: the cluster serves our kinds and, if we watch it, has been
/// seen whole and was heard from lately.
pub async fn health(port: u16, readiness: Readiness) -> Result<Serving, ListenError> {
    listen("health probes", port, PROBE_DEADLINE, move |path, _| probed(&readiness, path).and_then(now)).await
}

fn probed(readiness: &Readiness, path: &str) -> Option<Page> {
    let wrong = match path {
        "/healthz" | "/healthz/" => {
            let hung = readiness.hung().join("; ");
            if !hung.is_empty() {
                tracing::error!(hung, "something of us does not move any more, a restart is asked for");
            }
            Some(hung).filter(|hung| !hung.is_empty())
        }
        "/readyz" | "/readyz/" => readiness.missing(),
        _ => return None,
    };
    Some(match wrong {
        None => text(StatusCode::OK, "ok"),
        Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, &why),
    })
}

/// `/metrics`, and profiles if they are wanted.
pub async fn scrapes(
    port: u16,
    readiness: Readiness,
    show: Show,
    profiling: Profiling,
) -> Result<Serving, ListenError> {
    listen("metrics", port, SCRAPE_DEADLINE, move |path, query| match path {
        "/metrics" => {
            let page = readiness.0.context.get().map(|context| metrics::page(context, show)).unwrap_or_default();
            let mut page = text(StatusCode::OK, &page);
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            page.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
            now(page)
        }
        _ if profiling == Profiling::Off => None,
        "/debug/pprof/" | "/debug/pprof" => now(text(StatusCode::OK, profile::INDEX)),
        "/debug/pprof/cmdline" => now(text(StatusCode::OK, &profile::command_line())),
        "/debug/pprof/profile" => {
            let query = query.to_owned();
            Some(async move { profiled(profile::cpu(&query).await) }.boxed())
        }
        _ => None,
    })
    .await
}

/// Whether profiles are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profiling {
    On,
    Off,
}

fn profiled(profile: Result<Vec<u8>, String>) -> Page {
    match profile {
        Ok(profile) => {
            let mut page = Response::new(Full::new(Bytes::from(profile)));
            let kind = header::HeaderValue::from_static("application/octet-stream");
            page.headers_mut().insert(header::CONTENT_TYPE, kind);
            page
        }
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}

/// A page that may take a while; `None` where there is none.
type Answer = Option<BoxFuture<'static, Page>>;

fn now(page: Page) -> Answer {
    Some(std::future::ready(page).boxed())
}

type Page = Response<Full<Bytes>>;

fn text(status: StatusCode, body: &str) -> Page {
    let mut page = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *page.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; charset=utf-8");
    page.headers_mut().insert(header::CONTENT_TYPE, kind);
    page
}

/// On all addresses: whoever asks comes from elsewhere. Port zero takes a free one.
pub(crate) async fn bind(what: &'static str, port: u16) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError { what, port, source };
    let listener = match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => listener,
        // A machine without IPv6.
        Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
            TcpListener::bind(("0.0.0.0", port)).await.map_err(failed)?
        }
        Err(error) => return Err(failed(error)),
    };
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

async fn listen<F>(what: &'static str, port: u16, deadline: Duration, pages: F) -> Result<Serving, ListenError>
where
    F: Fn(&str, &str) -> Answer + Send + Sync + 'static,
{
    let (listener, address) = bind(what, port).await?;
    let pages = Arc::new(pages);
    let serve = move |stream| connection(stream, deadline, pages.clone());
    Ok(Serving { address, task: tokio::spawn(connections::accept(listener, CONNECTIONS, serve)) })
}

/// One question each: probes and scrapes are seconds apart, and an idle connection would be one that a stranger can hold.
async fn connection<F>(stream: TcpStream, deadline: Duration, pages: Arc<F>)
where
    F: Fn(&str, &str) -> Answer + Send + Sync + 'static,
{
    let service = service_fn(move |request| {
        let answer = answer(&request, pages.as_ref());
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut http = connections::http(HEADER_DEADLINE);
    let served = http.keep_alive(false).serve_connection(TokioIo::new(stream), service);
    // A client that breaks off is its own problem.
    let _ = tokio::time::timeout(deadline, served).await;
}

fn answer<B>(request: &Request<B>, pages: &dyn Fn(&str, &str) -> Answer) -> BoxFuture<'static, Page> {
    let refused = |page| std::future::ready(page).boxed();
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return refused(text(StatusCode::METHOD_NOT_ALLOWED, "only GET"));
    }
    let answer = pages(request.uri().path(), request.uri().query().unwrap_or_default());
    answer.unwrap_or_else(|| refused(text(StatusCode::NOT_FOUND, "404 page not found")))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(port: u16, line: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(format!("{line}\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn profiles_are_there_only_when_they_are_wanted() {
        // covers: API-HM-52
        for (profiling, index) in [(Profiling::Off, "HTTP/1.1 404"), (Profiling::On, "HTTP/1.1 200")] {
            let show = Show { legacy: false };
            let serving = scrapes(0, Readiness::default(), show, profiling).await.unwrap();
            let port = serving.address.port();
            assert!(get(port, "GET /debug/pprof/ HTTP/1.1").await.starts_with(index), "{profiling:?}");
            assert!(get(port, "GET /metrics HTTP/1.1").await.starts_with("HTTP/1.1 200"));
        }
    }

    #[tokio::test]
    async fn we_are_alive_whatever_the_cloud_does() {
        // covers: AWS-OPS-18
        let readiness = Readiness::default();
        let serving = health(0, readiness.clone()).await.unwrap();
        let port = serving.address.port();
        let said = async |path: &str| get(port, &format!("GET {path} HTTP/1.1")).await;
        // There is no provider at all yet, nor any way to one.
        assert!(said("/healthz").await.starts_with("HTTP/1.1 200") && said("/healthz").await.ends_with("ok"));
        assert!(said("/readyz").await.starts_with("HTTP/1.1 503"));
        readiness.has_kinds();
        assert!(said("/readyz").await.starts_with("HTTP/1.1 200"), "readiness is about the cluster alone");
    }

    #[tokio::test]
    async fn pages_are_found_by_path_and_nothing_else_is() {
        let pages = |path: &str, _: &str| (path == "/here").then(|| now(text(StatusCode::OK, "hello"))).flatten();
        let serving = listen("tests", 0, PROBE_DEADLINE, pages).await.unwrap();
        let port = serving.address.port();
        let found = get(port, "GET /here HTTP/1.1").await;
        assert!(found.starts_with("HTTP/1.1 200 OK") && found.ends_with("hello"), "{found}");
        assert!(get(port, "GET /there HTTP/1.1").await.starts_with("HTTP/1.1 404"));
        assert!(get(port, "POST /here HTTP/1.1").await.starts_with("HTTP/1.1 405"));
        let error = listen("tests", port, PROBE_DEADLINE, |_, _| None).await.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot listen on port {port} for tests"));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_says_nothing_or_half_of_it_is_not_waited_for() {
        let serving = health(0, Readiness::default()).await.unwrap();
        for said in ["", "GET /healthz HTTP/1.1\r\nhost: x\r\n", "GET /healthz HTTP/1.1\r\ncontent-length: 9\r\n\r\n"] {
            let mut stream = TcpStream::connect(("127.0.0.1", serving.address.port())).await.unwrap();
            stream.write_all(said.as_bytes()).await.unwrap();
            let begun = tokio::time::Instant::now();
            let mut answer = Vec::new();
            // Ended by the other side, whether it says why or not.
            let ended = tokio::time::timeout(Duration::from_secs(300), stream.read_to_end(&mut answer)).await;
            assert!(ended.is_ok() && begun.elapsed() < 2 * PROBE_DEADLINE, "{said:?}: {:?}", begun.elapsed());
        }
    }

    #[tokio::test]
    async fn a_probe_is_answered_while_strangers_hold_every_connection() {
        let serving = health(0, Readiness::default()).await.unwrap();
        let port = serving.address.port();
        let mut strangers = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            strangers.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        assert!(get(port, "GET /healthz HTTP/1.1").await.starts_with("HTTP/1.1 200"));
        drop(strangers);
    }
}
