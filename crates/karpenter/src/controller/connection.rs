//! The cluster we were told about, and what of it must be known before the start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_api::ConversionService;
use karpenter_runtime::client;
use karpenter_runtime::leadership::Leadership;
use karpenter_runtime::requests::Requests;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::time::timeout;

use crate::settings::controller::{ClientRate, ControllerSettings};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// What the API server's log and metrics know us by.
const USER_AGENT: &str = concat!("karpenter/", env!("CARGO_PKG_VERSION"));
/// A pool is asked for once in a while, however many claims of it are converted.
const CONVERSION_RATE: ClientRate = ClientRate { per_second: 20, burst: 40 };
const FIELD_MANAGER: &str = "karpenter";
/// What is asked at the start is answered at once, or the connection is dead and another one is needed: nothing is decided
/// until then.
pub(crate) const QUESTION: Duration = Duration::from_secs(10);

pub(crate) struct Connection {
    /// For what is done whether we lead or not.
    pub(crate) client: Client,
    /// What goes over the client, and how fast.
    pub(crate) requests: Arc<Requests>,
    config: Config,
}

impl Connection {
    /// KUBECONFIG, the usual file at home, or the service account of the pod we run in.
    pub(crate) async fn from_environment(rate: ClientRate) -> anyhow::Result<Self> {
        let config = Config::infer().await.context("no cluster: set KUBECONFIG")?;
        Self::new(config, rate)
    }

    /// Makes a client that shares neither connections nor rate with ours, on whatever thread this is called.
    pub(crate) fn another_client(&self) -> impl FnOnce() -> kube::Result<Client> + Send + 'static + use<> {
        let config = self.config.clone();
        move || client::connect(config, &Requests::new(50, 100))
    }

    /// A client that shares our rate and writes nothing unless we lead.
    pub(crate) fn fenced(&self, leadership: &Leadership) -> anyhow::Result<Client> {
        client::connect_fenced(self.config.clone(), &self.requests, leadership).context("cannot connect")
    }

    /// What the conversion webhook asks with. It goes at a rate of its own, as whoever reaches the webhook makes it ask: that
    /// must not hold up a drain.
    pub(crate) fn client_of_conversion(&self) -> anyhow::Result<Client> {
        let ClientRate { per_second, burst } = CONVERSION_RATE;
        client::connect(self.config.clone(), &Requests::new(per_second, burst)).context("cannot connect")
    }

    pub(crate) async fn from_file(file: &Path) -> anyhow::Result<Self> {
        let read = Kubeconfig::read_from(file).with_context(|| format!("cannot read {}", file.display()))?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let config = config.with_context(|| format!("{} is no usable kubeconfig", file.display()))?;
        Self::new(config, ClientRate { per_second: 200, burst: 300 })
    }

    fn new(mut config: Config, rate: ClientRate) -> anyhow::Result<Self> {
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT)));
        // Controllers try again by themselves, having looked anew. An eviction that a budget refuses would be repeated
        // in the client for minutes, at growing distances, while the budget has long had room.
        config.default_retry = false;
        let requests = Requests::new(rate.per_second, rate.burst);
        let client = client::connect(config.clone(), &requests).context("cannot connect")?;
        Ok(Self { client, requests, config })
    }

    /// The Service of the conversion webhook, if there is to be one.
    pub(crate) fn conversion_service(&self, settings: &ControllerSettings) -> Option<ConversionService> {
        let webhook = settings.webhook.as_ref()?;
        let name = webhook.service.clone()?;
        Some(ConversionService { name, namespace: self.namespace(), port: webhook.port, ca_bundle: None })
    }

    /// Where we keep what is ours.
    pub(crate) fn namespace(&self) -> String {
        let given = std::env::var("SYSTEM_NAMESPACE").ok().filter(|name| !name.is_empty());
        given.unwrap_or_else(|| self.config.default_namespace.clone())
    }

    /// With v1beta1, where there is a webhook that converts it.
    pub(crate) async fn install_crds(&self, settings: &ControllerSettings) -> anyhow::Result<()> {
        let service = self.conversion_service(settings);
        let definition = |kind| match &service {
            Some(service) => karpenter_api::convertible_crd(kind, service),
            None => karpenter_api::crd(kind),
        };
        for crd in karpenter_api::Kind::ALL.map(definition) {
            let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let path = format!("{CRDS}/{name}?fieldManager={FIELD_MANAGER}&force=true");
            let request = http::Request::patch(path).header(http::header::CONTENT_TYPE, "application/apply-patch+yaml");
            let request = request.body(crd.to_string().into_bytes()).context("the request is well-formed")?;
            self.client.request::<Value>(request).await.with_context(|| format!("cannot apply the CRD {name}"))?;
        }
        // Definitions are served a moment after they are written.
        for _ in 0..100 {
            if self.missing_kinds().await?.is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Waits for our kinds: without them nothing can be watched, and whoever installs them may come after us.
    pub(crate) async fn await_crds(&self) -> anyhow::Result<()> {
        let mut told = false;
        loop {
            let missing = until_answered(QUESTION, async || self.missing_kinds().await).await?;
            if missing.is_empty() {
                return Ok(());
            }
            if !std::mem::replace(&mut told, true) {
                let missing = missing.join(", ");
                let hint = "karpenter crds | kubectl apply --server-side -f -, or start with --install-crds";
                tracing::error!(missing, hint, "the cluster does not know our kinds, waiting for them");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn missing_kinds(&self) -> anyhow::Result<Vec<String>> {
        let mut missing = Vec::new();
        for (group, kinds) in
            [("karpenter.sh/v1", &["NodePool", "NodeClaim"][..]), ("karpenter.k8s.aws/v1", &["EC2NodeClass"])]
        {
            let request = http::Request::get(format!("/apis/{group}")).body(Vec::new())?;
            let served = match self.client.request::<Value>(request).await {
                Ok(list) => list["resources"].as_array().cloned().unwrap_or_default(),
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                Err(error) => return Err(error).context("cannot ask the cluster which kinds it knows"),
            };
            let known = |kind: &str| served.iter().any(|resource| resource["kind"] == kind);
            missing.extend(kinds.iter().filter(|kind| !known(kind)).map(|kind| format!("{kind} ({group})")));
        }
        Ok(missing)
    }

    /// Where we reach the API server ourselves.
    pub(crate) fn endpoint(&self) -> String {
        self.config.cluster_url.to_string().trim_end_matches('/').to_owned()
    }

    /// The certificate authority we trust ourselves, as PEM in base64.
    pub(crate) fn ca_bundle(&self) -> Option<String> {
        let pem = |der: &Vec<u8>| {
            let text = STANDARD.encode(der);
            let lines: Vec<&str> =
                text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
        };
        let all: String = self.config.root_cert.as_ref()?.iter().map(pem).collect();
        (!all.is_empty()).then(|| STANDARD.encode(all))
    }
}

/// Asks something that must be known at the start. An API server that refuses us needs somebody; one that is away comes back,
/// and whoever exits meanwhile is restarted ever later.
pub(crate) async fn until_answered<T>(
    within: Duration,
    mut ask: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut said = false;
    loop {
        let error = match timeout(within, ask()).await {
            Ok(Err(error)) if is_unanswered(&error) => error,
            Ok(answered) => return answered,
            Err(_) => anyhow::anyhow!("no answer within {} s", within.as_secs()),
        };
        if !std::mem::replace(&mut said, true) {
            tracing::error!(error = format!("{error:#}"), "the API server does not answer, waiting for it");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The API server gave no answer, or one that is another if we ask again.
fn is_unanswered(error: &anyhow::Error) -> bool {
    match error.chain().find_map(|cause| cause.downcast_ref::<kube::Error>()) {
        Some(kube::Error::Api(status)) => matches!(status.code, 429 | 500..),
        Some(_) => true,
        None => false,
    }
}

/// As anyhow has it, which hides what is in a box.
pub(crate) fn unboxed(error: Box<dyn std::error::Error + Send + Sync>) -> anyhow::Error {
    match error.downcast::<kube::Error>() {
        Ok(error) => anyhow::Error::new(*error),
        Err(error) => anyhow::Error::from_boxed(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn only_a_refusal_ends_the_start() {
        let answered = |code: u16| {
            let status = kube::core::Status { code, ..kube::core::Status::default() };
            anyhow::Error::new(kube::Error::Api(Box::new(status))).context("cannot ask")
        };
        for (code, refusal) in [(401, true), (403, true), (429, false), (500, false), (503, false)] {
            assert_eq!(is_unanswered(&answered(code)), !refusal, "{code}");
        }
        let gone = || kube::Error::Service(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into());
        assert!(is_unanswered(&anyhow::Error::new(gone()).context("cannot ask")));
        assert!(is_unanswered(&unboxed(gone().into()).context("cannot ask")), "whoever else asked for us");
        assert!(!is_unanswered(&anyhow::anyhow!("EKS tells none")), "it is not the API server that lacks");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_at_the_start_is_asked_until_there_is_an_answer() {
        let asked = AtomicUsize::new(0);
        let begun = tokio::time::Instant::now();
        let answer = until_answered(QUESTION, async || match asked.fetch_add(1, Ordering::Relaxed) {
            // A connection that nobody answers on, then one that is refused.
            0 => std::future::pending().await,
            1 => {
                let gone = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                Err(anyhow::Error::new(kube::Error::Service(gone.into())).context("cannot ask"))
            }
            _ => Ok("1.36"),
        });
        assert_eq!(answer.await.unwrap(), "1.36");
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_refusal_is_handed_on_at_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        tokio::spawn(async move {
            let body =
                r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}"#;
            let length = body.len();
            let answer =
                format!("HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: {length}\r\n\r\n{body}");
            while let Ok((mut stream, _)) = listener.accept().await {
                while stream.read(&mut [0; 4096]).await.is_ok_and(|bytes| bytes > 0) {
                    count.fetch_add(1, Ordering::Relaxed);
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        });
        let connection = Connection::new(Config::new(url), ClientRate { per_second: 10, burst: 10 }).unwrap();
        let request = http::Request::post("/api/v1/namespaces/default/pods/web/eviction").body(Vec::new()).unwrap();
        let refused = connection.client.request::<Value>(request).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 429));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_conversion_asks_costs_the_controllers_nothing() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move {
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while stream.read(&mut [0; 4096]).await.is_ok_and(|bytes| bytes > 0) {
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        let connection = Connection::new(Config::new(url), ClientRate { per_second: 1, burst: 1 }).unwrap();
        let get = || http::Request::get("/apis/karpenter.sh/v1/nodepools/a").body(Vec::new()).unwrap();
        let conversion = connection.client_of_conversion().unwrap();
        let begun = tokio::time::Instant::now();
        for _ in 0..CONVERSION_RATE.burst {
            conversion.request::<Value>(get()).await.unwrap();
        }
        connection.client.request::<Value>(get()).await.unwrap();
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
        conversion.request::<Value>(get()).await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(50), "and has an end of its own: {:?}", begun.elapsed());
    }
}
