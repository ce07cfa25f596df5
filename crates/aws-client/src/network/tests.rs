use std::sync::Arc;

use aws_sdk_sts::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sts::error::DisplayErrorContext;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

fn read(env: &[(&str, &str)]) -> Surroundings {
    Surroundings::read(&|name| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn the_environment_names_proxy_and_certificates() {
    let found = read(&[
        ("HTTPS_PROXY", "http://outer:3128"),
        ("https_proxy", "inner:3128"),
        ("HTTP_PROXY", "http://other"),
        ("NO_PROXY", ".internal,10.0.0.0/8"),
        ("AWS_CA_BUNDLE", "/etc/ca.pem"),
    ]);
    assert_eq!(found.proxy, Some(("https_proxy", "inner:3128".to_owned())));
    assert_eq!(found.no_proxy.as_deref(), Some(".internal,10.0.0.0/8"));
    assert_eq!(found.ca_bundle, Some(PathBuf::from("/etc/ca.pem")));
    assert!(found.proxy().is_ok(), "a scheme may be left out");
    assert_eq!(read(&[("HTTP_PROXY", "http://other"), ("HTTPS_PROXY", "")]), Surroundings::default());
    assert_eq!(read(&[("ALL_PROXY", "http://all")]).proxy, Some(("ALL_PROXY", "http://all".to_owned())));
}

#[test]
fn what_cannot_be_used_is_named() {
    let error = read(&[("HTTPS_PROXY", "ftp://x")]).http_client().unwrap_err();
    assert_eq!(error.to_string(), "HTTPS_PROXY: \"ftp://x\" is no address of a proxy");
    let error = read(&[("AWS_CA_BUNDLE", "/nowhere/ca.pem")]).http_client().unwrap_err();
    assert_eq!(error.to_string(), "AWS_CA_BUNDLE: cannot read /nowhere/ca.pem");
    let error = read(&[("AWS_CA_BUNDLE", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))]);
    let error = error.http_client().unwrap_err();
    assert!(error.to_string().ends_with("Cargo.toml holds no certificate in PEM form"), "{error}");
}

/// One call through the network described; how it ended.
async fn ask(surroundings: &Surroundings, endpoint: &str) -> Result<String, String> {
    let config = aws_sdk_sts::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(surroundings.http_client().unwrap())
        .retry_config(aws_sdk_sts::config::retry::RetryConfig::disabled())
        .credentials_provider(Credentials::new("x", "y", None, None, "test"))
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .build();
    let answer = aws_sdk_sts::Client::from_conf(config).get_caller_identity().send().await;
    answer.map(|found| found.account.unwrap_or_default()).map_err(|error| DisplayErrorContext(error).to_string())
}

/// Up to the end of a request's head.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { break };
        bytes.push(byte);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), account: &str) {
    let space = "https://sts.amazonaws.com/doc/2011-06-15/";
    let result = format!("<GetCallerIdentityResult><Account>{account}</Account></GetCallerIdentityResult>");
    let body = format!("<GetCallerIdentityResponse xmlns=\"{space}\">{result}</GetCallerIdentityResponse>");
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/xml\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

#[tokio::test]
async fn aws_is_reached_through_the_proxy_unless_excepted() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let proxy = listener.local_addr().unwrap().to_string();
    let seen = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        asked
    });
    let through = read(&[("HTTPS_PROXY", proxy.as_str()), ("NO_PROXY", "127.0.0.1,.internal.example")]);
    // Nothing answers on the first port; a proxy would have.
    let direct = ask(&through, "https://127.0.0.1:1").await.unwrap_err();
    assert!(!seen.is_finished() && direct.contains("onnect"), "{direct}");
    ask(&through, "https://sts.us-east-1.amazonaws.com").await.unwrap_err();
    let asked = seen.await.unwrap();
    assert!(asked.starts_with("CONNECT sts.us-east-1.amazonaws.com:443 HTTP/1.1\r\n"), "{asked}");
}

#[tokio::test]
async fn a_bundle_says_whom_to_trust() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let _serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Whoever does not trust us hangs up.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            head(&mut stream).await;
            say(&mut stream, "111122223333").await;
        }
    });
    let endpoint = format!("https://localhost:{port}");
    let refused = ask(&Surroundings::default(), &endpoint).await.unwrap_err();
    assert!(refused.contains("ertificate"), "{refused}");
    let file = std::env::temp_dir().join(format!("karpenter-ca-{port}.pem"));
    std::fs::write(&file, made.cert.pem()).unwrap();
    let trusting = Surroundings { ca_bundle: Some(file.clone()), ..Surroundings::default() };
    let account = ask(&trusting, &endpoint).await;
    std::fs::remove_file(file).unwrap();
    assert_eq!(account.unwrap(), "111122223333");
}
