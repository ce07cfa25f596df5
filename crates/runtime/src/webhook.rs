//! The conversion webhook: API servers ask it for objects in the other version.
//!
//! It answers on every replica and before anything else is up, because objects that are stored as v1beta1 cannot even be
//! listed without it.

mod certificate;
mod definitions;
mod migration;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use karpenter_api::{NodePool, conversion};
use karpenter_controllers::Clock;
use kube::{Api, Client};
use rustls::ServerConfig;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::serve::{ListenError, bind};

pub use certificate::{Certificate, CertificateError, Keeper};
pub use definitions::{announce, withdraw};
pub use migration::migrate;

/// More than any answer of an API server about thousands of objects.
const LARGEST_REVIEW: usize = 64 << 20;
/// A claim can do without its pool's expiry; the API server cannot wait for ever.
const POOL_TIMEOUT: Duration = Duration::from_secs(2);
/// API servers keep few connections and reuse them.
const CONNECTIONS: usize = 128;

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
    /// Port zero takes a free one.
    pub async fn start(port: u16, certificate: &Certificate, client: Client) -> Result<Self, WebhookError> {
        let (listener, address) = bind("the conversion webhook", port).await?;
        let tls = Arc::new(RwLock::new(Arc::new(certificate.server_config()?)));
        let task = tokio::spawn(accept(listener, tls.clone(), client));
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

async fn accept(listener: TcpListener, tls: Arc<RwLock<Arc<ServerConfig>>>, client: Client) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, say: wait until some are back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if connections.len() >= CONNECTIONS {
            continue;
        }
        let acceptor = TlsAcceptor::from(tls.read().unwrap_or_else(PoisonError::into_inner).clone());
        let client = client.clone();
        connections.spawn(async move {
            // A client that breaks off is its own problem.
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| {
                let client = client.clone();
                async move { Ok::<_, Infallible>(answer(request, &client).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, client: &Client) -> Response<Full<Bytes>> {
    let paths = conversion::KINDS.map(karpenter_api::conversion_path);
    if !paths.iter().any(|path| path == request.uri().path()) {
        return text(StatusCode::NOT_FOUND, "404 page not found");
    }
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only POST");
    }
    let body = match Limited::new(request.into_body(), LARGEST_REVIEW).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return text(StatusCode::PAYLOAD_TOO_LARGE, "the review is too large"),
    };
    let review: Value = match serde_json::from_slice(&body) {
        Ok(review) => review,
        Err(error) => return text(StatusCode::BAD_REQUEST, &format!("not a ConversionReview: {error}")),
    };
    let pools = expiries(&review, client).await;
    let answer = conversion::review(&review, &|name| pools.get(name).cloned());
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

async fn expiries(review: &Value, client: &Client) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let pools: Api<NodePool> = Api::all(client.clone());
    for name in conversion::pools_wanted(review) {
        if let Ok(Ok(Some(pool))) = tokio::time::timeout(POOL_TIMEOUT, pools.get_opt(&name)).await {
            found.insert(name, pool.spec.template.spec.expire_after.as_str().to_owned());
        }
    }
    found
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
