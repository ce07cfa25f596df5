//! Two small pages for probes and scrapers: health on one port, metrics on the other.

use std::convert::Infallible;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use karpenter_controllers::Context;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use crate::metrics;

/// So many connections at once are plenty for probes; more are closed again at once.
const CONNECTIONS: usize = 64;

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

/// `/healthz`: we run. `/readyz`: the cluster has been seen whole, so what is asked of us will be done.
pub async fn health(port: u16, context: Arc<Context>) -> Result<Serving, ListenError> {
    listen("health probes", port, move |path| match path {
        "/healthz" | "/healthz/" => Some(text(StatusCode::OK, "ok")),
        "/readyz" | "/readyz/" if context.index.is_listed() => Some(text(StatusCode::OK, "ok")),
        "/readyz" | "/readyz/" => {
            Some(text(StatusCode::SERVICE_UNAVAILABLE, "the cluster has not been listed yet: are the CRDs there?"))
        }
        _ => None,
    })
    .await
}

/// `/metrics`.
pub async fn scrapes(port: u16, context: Arc<Context>) -> Result<Serving, ListenError> {
    listen("metrics", port, move |path| {
        (path == "/metrics").then(|| {
            let mut page = text(StatusCode::OK, &metrics::page(&context));
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            page.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
            page
        })
    })
    .await
}

type Page = Response<Full<Bytes>>;

fn text(status: StatusCode, body: &str) -> Page {
    let mut page = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *page.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; charset=utf-8");
    page.headers_mut().insert(header::CONTENT_TYPE, kind);
    page
}

/// On all addresses: probes and scrapers come from elsewhere. Port zero takes a free one.
async fn listen<F>(what: &'static str, port: u16, pages: F) -> Result<Serving, ListenError>
where
    F: Fn(&str) -> Option<Page> + Send + Sync + 'static,
{
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
    Ok(Serving { address, task: tokio::spawn(accept(listener, Arc::new(pages))) })
}

async fn accept<F>(listener: TcpListener, pages: Arc<F>)
where
    F: Fn(&str) -> Option<Page> + Send + Sync + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, say: wait until some are back.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        if connections.len() >= CONNECTIONS {
            continue;
        }
        let pages = pages.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, pages.as_ref());
                async move { Ok::<_, Infallible>(answer) }
            });
            // A client that breaks off is its own problem.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer<B>(request: &Request<B>, pages: &dyn Fn(&str) -> Option<Page>) -> Page {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET");
    }
    pages(request.uri().path()).unwrap_or_else(|| text(StatusCode::NOT_FOUND, "404 page not found"))
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
    async fn pages_are_found_by_path_and_nothing_else_is() {
        let pages = |path: &str| (path == "/here").then(|| text(StatusCode::OK, "hello"));
        let serving = listen("tests", 0, pages).await.unwrap();
        let port = serving.address.port();
        let found = get(port, "GET /here HTTP/1.1").await;
        assert!(found.starts_with("HTTP/1.1 200 OK") && found.ends_with("hello"), "{found}");
        assert!(get(port, "GET /there HTTP/1.1").await.starts_with("HTTP/1.1 404"));
        assert!(get(port, "POST /here HTTP/1.1").await.starts_with("HTTP/1.1 405"));
        let error = listen("tests", port, |_| None).await.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot listen on port {port} for tests"));
    }
}
