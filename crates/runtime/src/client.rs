//! The way to the API server: one pool of connections that notices when the other side is gone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tokio::time::timeout;
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use crate::deadline::{Deadlines, Late};
use crate::leadership::{Fenced, Leadership};
use crate::requests::{Counted, Requests};

/// A connection that says nothing for so long is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Asked again after this, and given up after so many questions: a minute in all, and less than the 350 seconds after
/// which a NAT gateway forgets a flow that is silent.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_RETRIES: u32 = 3;
/// Until the other side has accepted a connection, and its TLS handshake is over.
const CONNECT: Duration = Duration::from_secs(10);
/// Connections that nobody uses are closed before something on the way forgets them.
const IDLE: Duration = Duration::from_secs(60);

/// A client of a cluster whose requests are counted, go no faster than agreed, and end.
pub fn connect(config: Config, requests: &Arc<Requests>) -> kube::Result<Client> {
    connect_fenced(config, requests, &Leadership::without_election())
}

/// The same, but it writes nothing unless we lead. It looks at that when the request goes out, after it has waited for its
/// turn.
pub fn connect_fenced(config: Config, requests: &Arc<Requests>, leadership: &Leadership) -> kube::Result<Client> {
    connect_within(config, requests, leadership, Deadlines::default())
}

fn connect_within(
    config: Config,
    requests: &Arc<Requests>,
    leadership: &Leadership,
    deadlines: Deadlines,
) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        // kube knows the ways through proxies. What is asked through one has its deadlines, but no keep-alive of ours.
        let layers = ServiceBuilder::new().layer(Counted(requests.clone())).layer(Fenced(leadership.clone()));
        let layers = layers.layer(deadlines).into_inner();
        return Ok(ClientBuilder::try_from(config)?.with_layer(&layers).build());
    }
    fenced_over(tcp(), config, requests, leadership, deadlines)
}

/// The same over connections of another kind, without a fence.
pub fn over<C>(connector: C, config: Config, requests: &Arc<Requests>, deadlines: Deadlines) -> kube::Result<Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    fenced_over(connector, config, requests, &Leadership::without_election(), deadlines)
}

fn fenced_over<C>(
    connector: C,
    config: Config,
    requests: &Arc<Requests>,
    leadership: &Leadership,
    deadlines: Deadlines,
) -> kube::Result<Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let secure = config.rustls_https_connector_with_connector(connector)?;
    let connector = service_fn(move |address: Uri| {
        let connecting = secure.clone().call(address);
        async move { timeout(CONNECT, connecting).await.map_err(|_| BoxError::from(Late(CONNECT)))? }.boxed()
    });
    let mut pool = HyperClient::builder(TokioExecutor::new());
    let pool = pool.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(Counted(requests.clone()))
        .layer(Fenced(leadership.clone()))
        .layer(deadlines)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(pool);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEP_ALIVE));
    tcp.set_keepalive_interval(Some(KEEP_ALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
    tcp
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What the kernel says of the connection from this port to that one: which timer runs for it.
    fn timer(from: u16, to: u16) -> Option<String> {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
        let ports = (format!(":{from:04X}"), format!(":{to:04X}"));
        let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|line| line[1].ends_with(&ports.0) && line[2].ends_with(&ports.1))?;
        line[5].split(':').next().map(str::to_owned)
    }

    #[tokio::test]
    async fn connections_are_kept_alive() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, from) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            let timer = timer(from.port(), here.port());
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
            timer
        });
        let config = Config::new(format!("http://{here}").parse().unwrap());
        let client = connect(config, &Requests::new(10, 10)).unwrap();
        client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await.unwrap();
        assert_eq!(server.await.unwrap().as_deref(), Some("02"), "2 is the keep-alive timer");
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_costs_a_deadline() {
        // It accepts connections, as a kernel does, and never reads.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let short = Duration::from_millis(50);
        let deadlines = Deadlines { read: short, write: short };
        let free = Leadership::without_election();
        let client = connect_within(config, &Requests::new(10, 10), &free, deadlines).unwrap();
        let asked = client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await;
        assert!(matches!(&asked, Err(kube::Error::Service(why)) if why.is::<Late>()), "{asked:?}");
    }
}
