//! The conversion webhook: API servers ask it for objects in the other version.
//!
//! It answers on every replica and before anything else is up, because objects that are stored as v1beta1 cannot even be
//! listed without it.

mod certificate;
mod definitions;
mod expiries;
mod migration;
mod reviews;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use karpenter_api::conversion;
use karpenter_controllers::Clock;
use kube::Client;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::connections::{self, HEADER_DEADLINE};
use crate::serve::{ListenError, bind};
use expiries::Expiries;
use reviews::{Refusal, Reviews};

pub use certificate::{Certificate, CertificateError, Keeper};
pub use definitions::{announce, withdraw};
pub use migration::migrate;

/// API servers keep few connections and reuse them.
const CONNECTIONS: usize = 128;
/// A handshake is two round trips.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// API servers close connections that were idle for 90 seconds. We wait longer, or one could be closed while a review is on
/// its way; those are not sent again.
const IDLE_DEADLINE: Duration = Duration::from_secs(100);
/// API servers wait 30 seconds for the answer.
const BODY_DEADLINE: Duration = Duration::from_secs(20);

/// The webhook, until this is dropped.
#[derive(Debug)]
pub struct Webhook {
    pub address: SocketAddr,
    tls: Arc<RwLock<Arc<ServerConfig>>>,
    task: JoinHandle<()>,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Webhook {
    /// Port zero takes a free one. Whoever can reach the port makes requests go over the client: it should share neither
    /// connections nor rate with what the controllers use.
    pub async fn start(port: u16, certificate: &Certificate, client: Client) -> Result<Self, WebhookError> {
        let (listener, address) = bind("the conversion webhook", port).await?;
        let tls = Arc::new(RwLock::new(Arc::new(certificate.server_config()?)));
        let asked = Arc::new(Asked { expiries: Expiries::new(client), reviews: Reviews::new() });
        let shown = tls.clone();
        let serve = move |stream| {
            let acceptor = TlsAcceptor::from(shown.read().unwrap_or_else(PoisonError::into_inner).clone());
            connection(stream, acceptor, asked.clone())
        };
        let task = tokio::spawn(connections::accept(listener, CONNECTIONS, serve));
        Ok(Self { address, tls, task })
    }

    /// From the next connection on.
    pub fn present(&self, certificate: &Certificate) -> Result<(), CertificateError> {
        let config = Arc::new(certificate.server_config()?);
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// What answers are made with.
struct Asked {
    expiries: Expiries,
    reviews: Reviews,
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, asked: Arc<Asked>) {
    // A client that breaks off is its own problem.
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_DEADLINE, acceptor.accept(stream)).await else { return };
    let first = Arc::new(Notify::new());
    let came = first.clone();
    let service = service_fn(move |request| {
        came.notify_one();
        let asked = asked.clone();
        async move { Ok::<_, Infallible>(answer(request, &asked).await) }
    });
    let served = connections::http(IDLE_DEADLINE).serve_connection(TokioIo::new(stream), service);
    // Only who has asked something may be idle for long.
    let silent = async {
        if tokio::time::timeout(HEADER_DEADLINE, first.notified()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = served => {}
        () = silent => {}
    }
}

async fn answer(request: Request<Incoming>, asked: &Asked) -> Response<Full<Bytes>> {
    let paths = conversion::KINDS.map(karpenter_api::conversion_path);
    if !paths.iter().any(|path| path == request.uri().path()) {
        return text(StatusCode::NOT_FOUND, "404 page not found");
    }
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only POST");
    }
    let body = match tokio::time::timeout(BODY_DEADLINE, asked.reviews.read(request.into_body())).await {
        Ok(Ok(body)) => body,
        Ok(Err(Refusal::TooLarge)) => return text(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large"),
        Ok(Err(Refusal::Busy)) => return text(StatusCode::SERVICE_UNAVAILABLE, "too many large reviews at once"),
        Ok(Err(Refusal::BrokenOff)) => return text(StatusCode::BAD_REQUEST, "the review was broken off"),
        Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the review did not arrive in time"),
    };
    let review: Value = match serde_json::from_slice(&body.bytes) {
        Ok(review) => review,
        Err(error) => return text(StatusCode::BAD_REQUEST, &format!("not a ConversionReview: {error}")),
    };
    let pools = asked.expiries.of(conversion::pools_wanted(&review)).await;
    let answer = conversion::review(&review, &|name| pools.get(name).cloned());
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut page = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *page.status_mut() = status;
    page
}

/// Keeps the certificate fresh and the definitions pointing here, as long as it is polled.
pub async fn maintain(webhook: &Webhook, keeper: &Keeper, clock: &Clock, service: &karpenter_api::ConversionService) {
    let mut shown: Option<Certificate> = None;
    loop {
        match keeper.current(clock.now()).await {
            Ok(certificate) => {
                if shown.as_ref() != Some(&certificate) {
                    if let Err(error) = webhook.present(&certificate) {
                        tracing::error!(%error, "the webhook's certificate cannot be used");
                    }
                    shown = Some(certificate.clone());
                }
                let service =
                    karpenter_api::ConversionService { ca_bundle: Some(certificate.ca_bundle()), ..service.clone() };
                if let Err(error) = announce(keeper.client(), &service).await {
                    tracing::error!(%error, "the definitions cannot be pointed to the conversion webhook");
                }
            }
            Err(error) => tracing::error!(%error, "the webhook's certificate cannot be kept"),
        }
        tokio::time::sleep(certificate::LOOK_AGAIN).await;
    }
}
