//! The server on a loopback port over TLS, with a certificate authority of its own, for kubectl and everybody else.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
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

    /// Writes the kubeconfig whole or not at all, readable by its owner only.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), ServeError> {
        let failed = |source| ServeError::Write { path: path.display().to_string(), source };
        let draft = path.with_extension("tmp");
        write_private(&draft, &self.kubeconfig()).map_err(failed)?;
        std::fs::rename(&draft, path).map_err(failed)
    }
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)?.write_all(text.as_bytes())
}

impl ApiServer {
    /// Serves on 127.0.0.1; port zero takes a free one.
    pub async fn listen(&self, port: u16) -> Result<Listening, ServeError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (config, ca_pem) = tls_config()?;
        let token = fresh_token();
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
fn fresh_token() -> String {
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; 16];
    ring::rand::SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
