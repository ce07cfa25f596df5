//! The server on a loopback port over TLS, with a certificate authority of its own, for kubectl and everybody else.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::auth::fill_random;
use crate::request::User;
use crate::server::ApiServer;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot make certificates")]
    Certificates(#[from] rcgen::Error),
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    #[error("{path} is there and no kubeconfig of ours: remove it, or name another file")]
    NotOurs { path: String },
    #[error("cannot write {path}")]
    Write {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

/// A server that listens. It stops when this is dropped.
#[derive(Debug)]
pub struct Listening {
    pub address: SocketAddr,
    /// The certificate clients trust, in PEM.
    pub ca_pem: String,
    /// A token of the cluster's administrator.
    pub token: String,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listening {
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A kubeconfig for the administrator, with everything in it.
    pub fn kubeconfig(&self) -> String {
        use base64::Engine as _;
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.ca_pem);
        let (url, token) = (self.url(), &self.token);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: default\ncontexts:\n- name: default\n  context:\n    cluster: default\n    \
             user: admin\nclusters:\n- name: default\n  cluster:\n    server: {url}\n    certificate-authority-data: {ca}\nusers:\n\
             - name: admin\n  user:\n    token: {token}\n"
        )
    }

    /// Writes the kubeconfig whole or not at all, readable by its owner only, and never over a file that is there.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), ServeError> {
        clear_kubeconfig(path)?;
        let failed = |source| ServeError::Write { path: path.display().to_string(), source };
        // Beside it, under a name that nobody can have put something under.
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", random_word()));
        let draft = PathBuf::from(draft);
        write_private(&draft, &format!("{OURS}{}", self.kubeconfig())).map_err(failed)?;
        // Unlike a rename this fails where there is a file by now.
        let linked = std::fs::hard_link(&draft, path);
        let removed = std::fs::remove_file(&draft);
        linked.and(removed).map_err(failed)
    }
}

/// The first line of a kubeconfig that may be removed for the next one.
const OURS: &str =
    "# Of a cluster in a process of karpenter: the next one that is told this file's name replaces it.\n";

/// Removes an older kubeconfig of ours. Anything else of that name stays, and is an error.
pub fn clear_kubeconfig(path: &Path) -> Result<(), ServeError> {
    let failed = |source| ServeError::Write { path: path.display().to_string(), source };
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    // A link may lead to a file that is somebody's; an empty file is what `mktemp` leaves.
    let ours = found.is_file() && (found.len() == 0 || begins_with(path, OURS).map_err(failed)?);
    if !ours {
        return Err(ServeError::NotOurs { path: path.display().to_string() });
    }
    std::fs::remove_file(path).map_err(failed)
}

fn begins_with(path: &Path, text: &str) -> std::io::Result<bool> {
    use std::io::Read as _;
    let mut start = Vec::new();
    std::fs::File::open(path)?.take(text.len() as u64).read_to_end(&mut start)?;
    Ok(start == text.as_bytes())
}

/// A new file; it is an error if there is one already.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)?.write_all(text.as_bytes())
}

impl ApiServer {
    /// Serves on 127.0.0.1; port zero takes a free one. Tokens that were granted before are void: the port is open to
    /// everybody on the machine, so whatever keeps them out follows from no seed.
    pub async fn listen(&self, port: u16) -> Result<Listening, ServeError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (config, ca_pem) = tls_config()?;
        self.inner.tokens.sign_with_a_secret();
        let token = random_word();
        self.add_token(&token, User::admin());
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn(accept(self.clone(), listener, acceptor));
        Ok(Listening { address, ca_pem, token, task })
    }
}

async fn accept(server: ApiServer, listener: TcpListener, acceptor: TlsAcceptor) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Out of file descriptors, say: wait until some are back.
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                };
                let _ = stream.set_nodelay(true);
                let (acceptor, service) = (acceptor.clone(), server.service_by_token());
                connections.spawn(async move {
                    // A client that breaks off the handshake is its own problem.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    // Every watch of a client is a stream of one connection.
                    builder.http2().max_concurrent_streams(1000);
                    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
                    let _ = connection.await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A certificate authority and a server certificate signed by it, both made now.
fn tls_config() -> Result<(rustls::ServerConfig, String), ServeError> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name.push(DnType::CommonName, "kubernetes");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let ca_certificate = ca.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate()?;
    let names = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"].map(str::to_owned);
    let mut leaf = CertificateParams::new(names.to_vec())?;
    leaf.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = leaf.signed_by(&key, &issuer)?;
    let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone(), ca_certificate.der().clone()];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((config, ca_certificate.pem()))
}

/// Unlike everything else this must not follow from the seed: it opens a port of the machine.
fn random_word() -> String {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full};
    use serde_json::{Value, json};
    use tower::Service as _;

    use super::*;
    use crate::server::Options;

    /// An empty folder that goes away with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("karpenter-kubeconfig-{}", random_word()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    async fn answer(server: &ApiServer, method: &str, path: &str, token: Option<&str>) -> (u16, Value) {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from_static(b"{}"))).unwrap();
        let response = server.service_by_token().call(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    #[tokio::test]
    async fn without_a_token_nobody_is_admitted_but_to_what_says_whether_we_run() {
        for rbac in [false, true] {
            let server = ApiServer::new(Options { rbac, ..Options::new() });
            server.add_token("known", User::admin());
            for path in ["/healthz", "/livez", "/readyz", "/version"] {
                assert_eq!(answer(&server, "GET", path, None).await.0, 200, "{path}, rbac {rbac}");
            }
            for (method, path) in [
                ("GET", "/api/v1/namespaces"),
                ("GET", "/api/v1/namespaces/default/secrets"),
                ("POST", "/api/v1/namespaces/default/configmaps"),
                ("DELETE", "/api/v1/namespaces/default"),
                ("GET", "/api"),
                ("GET", "/openapi/v3"),
                ("GET", "/"),
                ("GET", "/healthz/../api/v1/namespaces"),
            ] {
                assert_eq!(answer(&server, method, path, None).await.0, 401, "{method} {path}, rbac {rbac}");
                assert_eq!(answer(&server, method, path, Some("made up")).await.0, 401, "{method} {path}, rbac {rbac}");
            }
            assert_eq!(answer(&server, "GET", "/api/v1/namespaces", Some("known")).await.0, 200);
        }
    }

    #[tokio::test]
    async fn a_token_of_one_port_opens_no_other_of_the_same_seed() {
        let tokens = async || {
            let server = ApiServer::new(Options { seed: 7, ..Options::new() });
            let listening = server.listen(0).await.unwrap();
            let path = "/api/v1/namespaces/default/serviceaccounts";
            let account = json!({"metadata": {"name": "robot"}});
            let made = server.service().call(post(path, &account)).await.unwrap();
            assert_eq!(made.status(), 201);
            let granted = server.service().call(post(&format!("{path}/robot/token"), &json!({}))).await.unwrap();
            let granted = granted.into_body().collect().await.unwrap().to_bytes();
            let granted: Value = serde_json::from_slice(&granted).unwrap();
            let token = granted["status"]["token"].as_str().unwrap().to_owned();
            assert_eq!(answer(&server, "GET", "/api/v1/namespaces", Some(&token)).await.0, 200);
            (server, listening, token)
        };
        let ((_, _first, token), (second, _listening, _)) = (tokens().await, tokens().await);
        assert_eq!(answer(&second, "GET", "/api/v1/namespaces", Some(&token)).await.0, 401);
    }

    fn post(path: &str, body: &Value) -> http::Request<Full<Bytes>> {
        let request = http::Request::post(path).header("content-type", "application/json");
        request.body(Full::new(Bytes::from(body.to_string()))).unwrap()
    }

    #[tokio::test]
    async fn a_kubeconfig_replaces_an_older_one_of_ours_and_nothing_else() {
        let listening = ApiServer::new(Options::new()).listen(0).await.unwrap();
        let folder = Folder::new();
        let path = folder.0.join("config");
        listening.write_kubeconfig(&path).unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        assert!(first.contains(&listening.token));
        let next = ApiServer::new(Options::new()).listen(0).await.unwrap();
        next.write_kubeconfig(&path).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains(&next.token));
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1, "no draft is left");
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        }

        // What somebody keeps there stays to the byte, also behind a link.
        let kept = "apiVersion: v1\nkind: Config\n# the only copy\n";
        std::fs::write(&path, kept).unwrap();
        let refused = next.write_kubeconfig(&path).unwrap_err();
        assert!(matches!(refused, ServeError::NotOurs { .. }), "{refused}");
        #[cfg(unix)]
        {
            let link = folder.0.join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            assert!(matches!(next.write_kubeconfig(&link), Err(ServeError::NotOurs { .. })));
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), kept);
        assert!(matches!(clear_kubeconfig(&folder.0), Err(ServeError::NotOurs { .. })), "a folder is no file of ours");
    }
}
