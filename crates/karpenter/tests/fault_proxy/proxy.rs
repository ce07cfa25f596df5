//! A proxy on loopback between a controller and its API server, which does to chosen requests what networks do.
//!
//! ```text
//!   controller ──TLS, HTTP/1.1──▶ answer ──▶ forward ──▶ kube::Client ──▶ API server
//!                                   │ struck? lost before it arrives, lost on the way back, or broken off in the middle
//!                                   └ an open watch is struck when the fault begins (`stream.rs`)
//! ```

use std::convert::Infallible;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::matrix::{Asked, Cell, Fault, Target, Verb};
use crate::stream::{Drip, Watched};
use crate::wire::{Ending, Fate, Wire};

/// Time for what was sent to be read before the connection ends.
const ARRIVES: Duration = Duration::from_millis(100);

pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Forwards until it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    ca_pem: String,
    shared: Arc<Shared>,
    _task: JoinSet<()>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    cell: watch::Sender<Option<Cell>>,
    /// How often everything that was connected was forgotten. Who was connected before then gets no answer any more.
    forgotten: AtomicUsize,
    struck: AtomicUsize,
    /// Pods that the controller deleted instead of evicting them.
    deleted: Mutex<Vec<String>>,
}

impl Proxy {
    pub(crate) async fn start(upstream: Client) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            cell: watch::Sender::new(None),
            forgotten: AtomicUsize::default(),
            struck: AtomicUsize::default(),
            deleted: Mutex::default(),
        });
        let mut task = JoinSet::new();
        task.spawn(accept(listener, acceptor, upstream, shared.clone()));
        Self { address, ca_pem: made.cert.pem(), shared, _task: task }
    }

    /// From now on this strikes; nothing does with `None`.
    pub(crate) fn strike(&self, cell: Option<Cell>) {
        self.shared.struck.store(0, Ordering::Relaxed);
        if cell == Some(Cell { fault: Fault::HalfOpen, target: Target::Everything }) {
            self.shared.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.cell.send_replace(cell);
    }

    /// How many requests and watches were struck since [`Self::strike`].
    pub(crate) fn struck(&self) -> usize {
        self.shared.struck.load(Ordering::Relaxed)
    }

    pub(crate) fn deleted_pods(&self) -> Vec<String> {
        self.shared.deleted.lock().unwrap().clone()
    }

    /// Whoever uses it is the user whom the proxy forwards as.
    pub(crate) fn kubeconfig(&self) -> String {
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.ca_pem);
        serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "clusters": [{"name": "proxy", "cluster":
                {"server": format!("https://{}", self.address), "certificate-authority-data": ca}}],
            "users": [{"name": "proxy", "user": {"token": "none"}}]})
        .to_string()
    }
}

impl Shared {
    pub(crate) fn cells(&self) -> watch::Receiver<Option<Cell>> {
        self.cell.subscribe()
    }

    /// Counts what is struck; how many were before.
    pub(crate) fn count(&self) -> usize {
        self.struck.fetch_add(1, Ordering::Relaxed)
    }

    fn fault(&self, asked: &Asked) -> Option<Fault> {
        self.cell.borrow().filter(|cell| cell.strikes(asked)).map(|cell| cell.fault)
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, upstream: Client, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(connection(stream, acceptor.clone(), upstream.clone(), shared.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, upstream: Client, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let fate = Fate::default();
    let Ok(stream) = acceptor.accept(Wire { stream, fate: fate.clone() }).await else { return };
    let forgotten = shared.forgotten.load(Ordering::Relaxed);
    let service = service_fn(|request| {
        let (upstream, shared, fate) = (upstream.clone(), shared.clone(), fate.clone());
        async move {
            // Also one that was idle meanwhile, and is taken for another request when the fault is over.
            if shared.forgotten.load(Ordering::Relaxed) != forgotten {
                shared.count();
                return pending().await;
            }
            Ok::<_, Infallible>(answer(request, upstream, shared, fate).await)
        }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = served => {}
        () = fate.sealed() => {}
    }
}

/// Where on its way a request is struck. In turn, as it makes a difference to whoever asks again: was it done?
enum Stage {
    /// It never arrives.
    Asking,
    /// It is done, and nobody learns of it.
    Answering,
    /// Half of the answer arrives.
    Halfway,
}

impl Stage {
    fn of(number: usize) -> Self {
        match number % 3 {
            0 => Self::Answering,
            1 => Self::Asking,
            _ => Self::Halfway,
        }
    }
}

async fn answer(request: Request<Incoming>, upstream: Client, shared: Arc<Shared>, fate: Fate) -> Answer {
    let uri = request.uri();
    let asked = Asked::by(request.method(), uri.path(), uri.query().unwrap_or_default());
    let watches = asked.verb == Verb::Watch;
    let Some(fault) = shared.fault(&asked) else {
        let answered = forward(request, upstream, &shared).await;
        return if watches { watched(answered, asked, &shared, fate) } else { answered };
    };
    let ending = match fault {
        Fault::HalfOpen => None,
        Fault::Reset => Some(Ending::Reset),
        Fault::TlsCut => Some(Ending::Cut),
        Fault::Drip => {
            let answered = forward(request, upstream, &shared).await;
            if watches {
                return watched(answered, asked, &shared, fate);
            }
            shared.count();
            let (head, body) = answered.into_parts();
            let drip = Drip::new(whole(body).await, shared.cells());
            return Response::from_parts(head, StreamBody::new(drip.frames()).boxed_unsync());
        }
        // Inside of a watch, every second time.
        Fault::Status(_) if watches && !shared.struck.load(Ordering::Relaxed).is_multiple_of(2) => {
            let answered = forward(request, upstream, &shared).await;
            return watched(answered, asked, &shared, fate);
        }
        Fault::Status(code) => {
            shared.count();
            return refusal(code);
        }
    };
    match Stage::of(shared.count()) {
        Stage::Asking => break_off(ending, &fate).await,
        Stage::Answering => {
            drop(forward(request, upstream, &shared).await);
            break_off(ending, &fate).await
        }
        Stage::Halfway if watches => watched(forward(request, upstream, &shared).await, asked, &shared, fate),
        Stage::Halfway => {
            let (head, body) = forward(request, upstream, &shared).await.into_parts();
            let mut half = whole(body).await;
            half.truncate(half.len() / 2);
            let then = async move { break_off(ending, &fate).await };
            let frames = stream::iter([Ok(Frame::data(half))]).chain(stream::once(then));
            // The length that was promised stays in the head.
            Response::from_parts(head, StreamBody::new(frames).boxed_unsync())
        }
    }
}

/// Nothing more comes; the connection says so, or not.
async fn break_off<T>(ending: Option<Ending>, fate: &Fate) -> T {
    if let Some(ending) = ending {
        sleep(ARRIVES).await;
        fate.end(ending);
    }
    pending().await
}

async fn forward(request: Request<Incoming>, upstream: Client, shared: &Shared) -> Answer {
    let (head, body) = request.into_parts();
    // Whoever breaks off while asking gets no answer either.
    let Ok(body) = body.collect().await else { return pending().await };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    if head.method == Method::DELETE && path.contains("/pods/") {
        shared.deleted.lock().unwrap().push(path.to_owned());
    }
    let mut request = Request::builder().method(&head.method).uri(path);
    for name in [header::CONTENT_TYPE, header::ACCEPT, header::ACCEPT_ENCODING, header::USER_AGENT] {
        if let Some(value) = head.headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Body::from(body.to_bytes().to_vec())).unwrap();
    match upstream.send(request).await {
        Ok(answered) => {
            let (mut head, body) = answered.into_parts();
            head.headers.remove(header::TRANSFER_ENCODING);
            head.headers.remove(header::CONNECTION);
            // A server that breaks off has sent all that it had.
            let frames = body.into_data_stream().take_while(|bytes| std::future::ready(bytes.is_ok()));
            let frames = frames.filter_map(|bytes| std::future::ready(bytes.ok().map(|bytes| Ok(Frame::data(bytes)))));
            Response::from_parts(head, StreamBody::new(frames).boxed_unsync())
        }
        Err(error) => {
            eprintln!("the proxy cannot forward {path}: {error}");
            refusal(502)
        }
    }
}

fn watched(answered: Answer, asked: Asked, shared: &Arc<Shared>, fate: Fate) -> Answer {
    let (head, body) = answered.into_parts();
    if !head.status.is_success() {
        return Response::from_parts(head, body);
    }
    let watched = Watched::new(body, asked, shared.clone(), fate);
    Response::from_parts(head, StreamBody::new(watched.frames()).boxed_unsync())
}

async fn whole(body: UnsyncBoxBody<Bytes, Infallible>) -> Bytes {
    let Ok(collected) = body.collect().await;
    collected.to_bytes()
}

pub(crate) fn status(code: u16) -> serde_json::Value {
    let reason = match code {
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let mut details = serde_json::json!({});
    if code == 429 {
        details["retryAfterSeconds"] = serde_json::json!(1);
    }
    serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "message": "struck by the fault proxy", "reason": reason, "details": details})
}

fn refusal(code: u16) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(status(code).to_string())).boxed_unsync());
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    if code == 429 {
        answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    answer
}
