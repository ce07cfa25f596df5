//! One HTTPS request to a webhook.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;

/// As long as the reference server waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a JSON document and reads one; the error is worded as the reference server's.
pub(super) async fn post(url: &str, ca: &[u8], document: &Value) -> Result<Value, String> {
    let full = format!("{url}?timeout=30s");
    let failed = |why: String| format!("Post {full:?}: {why}");
    let answer = tokio::time::timeout(PATIENCE, exchange(&full, ca, document)).await;
    let (code, body) = answer.map_err(|_| failed("context deadline exceeded".into()))?.map_err(failed)?;
    if !(200..300).contains(&code) {
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        return Err(match code {
            404 => "the server could not find the requested resource".into(),
            _ => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        });
    }
    serde_json::from_slice(&body).map_err(|error| crate::go_json::syntax_error(&body, &error))
}

async fn exchange(url: &str, ca: &[u8], document: &Value) -> Result<(u16, Bytes), String> {
    let uri: http::Uri = url.parse().map_err(|error| format!("{error}"))?;
    let host = uri.host().unwrap_or_default().to_owned();
    let port = uri.port_u16().unwrap_or(443);
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::ConnectionRefused => format!("dial tcp {host}:{port}: connect: connection refused"),
        _ => format!("dial tcp: lookup {host}: no such host"),
    })?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca).flatten() {
        // One that cannot be used is one that nothing is trusted for.
        let _ = roots.add(certificate);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await.map_err(|error| {
        let text = error.to_string();
        if text.contains("UnknownIssuer") {
            return "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned();
        }
        format!("tls: failed to verify certificate: x509: {text}")
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let request = http::Request::post(path)
        .header(http::header::HOST, format!("{host}:{port}"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::ACCEPT, "application/json, */*")
        .body(Full::new(crate::render::bytes(document)))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    connection.abort();
    Ok((code, body))
}
