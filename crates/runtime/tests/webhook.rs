//! The conversion webhook, asked by an API server over HTTPS.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::Secret;
use karpenter_api::{ConversionService, Kind, convertible_crd};
use karpenter_apiserver::{ApiServer, Effect, Fault, Options};
use karpenter_controllers::Clock;
use karpenter_runtime::webhook::{Certificate, Keeper, Webhook, announce, migrate, withdraw};
use kube::{Api, Client};
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::Service as _;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const OLD_POOLS: &str = "/apis/karpenter.sh/v1beta1/nodepools";

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", media);
    let request = request.body(Full::new(Bytes::from(bytes))).unwrap();
    let response = server.service().call(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn get(server: &ApiServer, path: &str) -> Value {
    let (code, body) = send(server, "GET", path, &Value::Null).await;
    assert_eq!(code, 200, "{path}: {body}");
    body
}

fn service() -> ConversionService {
    ConversionService { name: "karpenter".to_owned(), namespace: "default".to_owned(), port: 8443, ca_bundle: None }
}

/// A server with our definitions, whose webhook is called over HTTPS.
async fn served() -> (ApiServer, Client, Webhook) {
    let server = ApiServer::new(Options::new());
    let client = Client::new(server.service(), "default");
    let certificate = Certificate::make(&["localhost".to_owned()], Clock::system().now()).unwrap();
    let webhook = Webhook::start(0, &certificate, client.clone()).await.unwrap();
    for kind in Kind::ALL {
        let mut definition = convertible_crd(kind, &service());
        if let Some(config) = definition.pointer_mut("/spec/conversion/webhook/clientConfig") {
            let url = format!("https://localhost:{}{}", webhook.address.port(), karpenter_api::conversion_path(kind));
            *config = json!({"url": url, "caBundle": certificate.ca_bundle()});
        }
        let (code, answer) = send(&server, "POST", CRDS, &definition).await;
        assert_eq!(code, 201, "{answer}");
    }
    (server, client, webhook)
}

fn old_pool() -> Value {
    json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
        "template": {"spec": {"requirements": [], "kubelet": {"maxPods": 110}, "nodeClassRef": {"name": "default"}}},
        "limits": {"cpu": 1000},
        "disruption": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"}}})
}

#[tokio::test]
async fn old_manifests_are_applied_and_read_in_both_versions() {
    // covers: EXT-01, API-CV-01, API-CV-02, API-CV-03, API-CV-14, API-CV-11, API-CV-15, SEED4-08, SEED4-09, SEED4-15, SEED4-19
    // Nobody leads, nothing is cached, no controller runs: the webhook answers all the same.
    let (server, _client, _webhook) = served().await;
    let (code, made) = send(&server, "POST", OLD_POOLS, &old_pool()).await;
    assert_eq!(code, 201, "{made}");
    let pool = get(&server, &format!("{POOLS}/default")).await;
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    assert_eq!(pool["spec"]["template"]["spec"]["nodeClassRef"], reference);
    assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert_eq!(pool["spec"]["disruption"]["consolidationPolicy"], "WhenEmptyOrUnderutilized");
    assert_eq!(pool["spec"]["disruption"]["budgets"], json!([{"nodes": "10%"}]));
    assert_eq!(pool["metadata"]["annotations"][karpenter_api::conversion::KUBELET], r#"{"maxPods":110}"#);

    // An apply tool reads what it wrote.
    let old = get(&server, &format!("{OLD_POOLS}/default")).await;
    let spec = old_pool()["spec"].clone();
    assert_eq!((&old["spec"]["template"], &old["spec"]["limits"]), (&spec["template"], &spec["limits"]));
    assert_eq!(old["spec"]["disruption"]["consolidationPolicy"], "WhenUnderutilized");
    assert_eq!(old["spec"]["disruption"].get("consolidateAfter"), None);
    // The version that clients prefer is the new one.
    let group = get(&server, "/apis/karpenter.sh").await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(get(&server, OLD_POOLS).await["items"][0]["apiVersion"], "karpenter.sh/v1beta1");
    assert_eq!(get(&server, POOLS).await["items"][0]["apiVersion"], "karpenter.sh/v1");

    let class = json!({"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"amiFamily": "Bottlerocket", "role": "r", "subnetSelectorTerms": [{"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]}});
    let (code, answer) = send(&server, "POST", "/apis/karpenter.k8s.aws/v1beta1/ec2nodeclasses", &class).await;
    assert_eq!(code, 201, "{answer}");
    let class = get(&server, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default").await;
    assert_eq!(class["spec"]["amiSelectorTerms"], json!([{"alias": "bottlerocket@latest"}]));
    assert_eq!(class["spec"]["metadataOptions"]["httpPutResponseHopLimit"], 2);

    // What v1beta1 refused is refused, at creation and later.
    let mut bad = old_pool();
    bad["metadata"]["name"] = "bad".into();
    bad["spec"]["disruption"]["consolidateAfter"] = "30s".into();
    assert_eq!(send(&server, "POST", OLD_POOLS, &bad).await.0, 422);
    bad["spec"]["disruption"] = json!({"consolidationPolicy": "WhenEmpty"});
    assert_eq!(send(&server, "POST", OLD_POOLS, &bad).await.0, 422);
    let role = json!({"spec": {"role": "another"}});
    let path = "/apis/karpenter.k8s.aws/v1beta1/ec2nodeclasses/default";
    assert_eq!(send(&server, "PATCH", path, &role).await.0, 422);
    let custom = json!({"spec": {"amiFamily": "Custom"}});
    assert_eq!(send(&server, "PATCH", path, &custom).await.0, 422);
}

#[tokio::test]
async fn a_claim_of_old_follows_its_pool() {
    let (server, _client, _webhook) = served().await;
    let mut pool = old_pool();
    pool["spec"]["disruption"]["expireAfter"] = "24h".into();
    send(&server, "POST", OLD_POOLS, &pool).await;
    let claim = json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodeClaim",
        "metadata": {"name": "c", "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"requirements": [], "nodeClassRef": {"name": "default"}}});
    let (code, answer) = send(&server, "POST", "/apis/karpenter.sh/v1beta1/nodeclaims", &claim).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(get(&server, "/apis/karpenter.sh/v1/nodeclaims/c").await["spec"]["expireAfter"], "24h");
}

#[tokio::test]
async fn what_is_stored_as_v1beta1_is_rewritten_and_v1beta1_can_go() {
    // covers: API-CV-12
    let (server, client, _webhook) = served().await;
    let path = format!("{CRDS}/nodepools.karpenter.sh");
    send(&server, "POST", OLD_POOLS, &old_pool()).await;
    // As it is in a cluster that comes from the days of v1beta1.
    let stored = json!({"status": {"storedVersions": ["v1beta1", "v1"]}});
    assert_eq!(send(&server, "PATCH", &format!("{path}/status"), &stored).await.0, 200);
    assert_eq!(migrate(&client).await.unwrap(), 1);
    let pool = get(&server, &format!("{POOLS}/default")).await;
    assert_eq!(pool["metadata"]["annotations"]["karpenter.sh/stored-version-migrated"], "true");
    assert_eq!(get(&server, &path).await["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(migrate(&client).await.unwrap(), 0, "there is nothing left to do");

    withdraw(&client).await.unwrap();
    let definition = get(&server, &path).await;
    assert_eq!(definition["spec"]["versions"].as_array().unwrap().len(), 1);
    assert_eq!(definition["spec"]["conversion"]["strategy"], "None");
    assert_eq!(get(&server, &format!("{POOLS}/default")).await["spec"], pool["spec"]);
    assert_eq!(send(&server, "GET", OLD_POOLS, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn the_certificate_is_kept_shared_and_renewed_and_the_definitions_point_to_it() {
    // covers: API-CV-09, API-CV-10
    let server = ApiServer::new(Options::new());
    let client = Client::new(server.service(), "default");
    for kind in Kind::ALL {
        send(&server, "POST", CRDS, &convertible_crd(kind, &service())).await;
    }
    // The chart brings an empty Secret.
    let empty = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "karpenter-cert"}});
    send(&server, "POST", "/api/v1/namespaces/default/secrets", &empty).await;
    let keeper = Keeper::new(client.clone(), "default", "karpenter");
    let now = Clock::system().now();
    let first = keeper.current(now).await.unwrap();
    let another_replica = Keeper::new(client.clone(), "default", "karpenter");
    assert_eq!(another_replica.current(now).await.unwrap(), first);
    let days = |days: i64| now + jiff::SignedDuration::from_hours(24 * days);
    assert_eq!(keeper.current(days(300)).await.unwrap(), first);
    let renewed = keeper.current(days(340)).await.unwrap();
    assert_ne!(renewed, first);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secret = secrets.get("karpenter-cert").await.unwrap();
    assert!(secret.data.unwrap().contains_key("server-cert.pem"));

    let service =
        ConversionService { ca_bundle: Some(renewed.ca_bundle()), namespace: "elsewhere".to_owned(), ..service() };
    announce(&client, &service).await.unwrap();
    for (name, path) in [
        ("nodepools.karpenter.sh", "/conversion/karpenter.sh"),
        ("nodeclaims.karpenter.sh", "/conversion/karpenter.sh"),
        ("ec2nodeclasses.karpenter.k8s.aws", "/conversion/karpenter.k8s.aws"),
    ] {
        let definition = get(&server, &format!("{CRDS}/{name}")).await;
        let conversion = &definition["spec"]["conversion"]["webhook"];
        let config = &conversion["clientConfig"];
        assert_eq!(
            config["service"],
            json!({"name": "karpenter", "namespace": "elsewhere", "path": path, "port": 8443})
        );
        assert_eq!(config["caBundle"], renewed.ca_bundle());
        assert_eq!(conversion["conversionReviewVersions"], json!(["v1", "v1beta1"]));
    }
    // Once is enough.
    let version = |definition: &Value| definition["metadata"]["resourceVersion"].clone();
    let before = version(&get(&server, &format!("{CRDS}/nodepools.karpenter.sh")).await);
    announce(&client, &service).await.unwrap();
    assert_eq!(version(&get(&server, &format!("{CRDS}/nodepools.karpenter.sh")).await), before);
}

#[tokio::test]
async fn definitions_without_v1beta1_are_left_alone() {
    // covers: API-HM-42
    let server = ApiServer::new(Options::new());
    let client = Client::new(server.service(), "default");
    for kind in Kind::ALL {
        send(&server, "POST", CRDS, &karpenter_api::crd(kind)).await;
    }
    announce(&client, &service()).await.unwrap();
    let definition = get(&server, &format!("{CRDS}/nodepools.karpenter.sh")).await;
    assert_ne!(definition["spec"]["conversion"]["strategy"], "Webhook");
    assert_eq!(migrate(&client).await.unwrap(), 0);
}

/// A connection to the webhook as an API server has it.
async fn connected(webhook: &Webhook) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    let certificate = Certificate::make(&["localhost".to_owned()], Clock::system().now()).unwrap();
    webhook.present(&certificate).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(certificate.authority().as_bytes()).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", webhook.address.port())).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    connector.connect("localhost".try_into().unwrap(), stream).await.unwrap()
}

/// What the webhook says before it ends the connection, or before the request is over; from now on time is virtual.
async fn said(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    tokio::time::pause();
    let mut answer = vec![0; 12];
    let read = tokio::time::timeout(Duration::from_secs(300), stream.read(&mut answer)).await;
    // The other side may end it without a word of farewell.
    let length = read.expect("the webhook waits for ever").unwrap_or(0);
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[tokio::test]
async fn who_does_not_shake_hands_is_not_waited_for() {
    let (_server, _client, webhook) = served().await;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", webhook.address.port())).await.unwrap();
    assert_eq!(said(&mut stream).await, "");
}

#[tokio::test]
async fn who_asks_nothing_or_half_of_it_is_not_waited_for() {
    let (_server, _client, webhook) = served().await;
    let mut stream = connected(&webhook).await;
    stream.write_all(b"POST /conv").await.unwrap();
    assert_eq!(said(&mut stream).await, "");
}

#[tokio::test]
async fn a_review_that_never_ends_is_not_waited_for() {
    let (_server, _client, webhook) = served().await;
    let mut stream = connected(&webhook).await;
    stream.write_all(b"GET /conversion/karpenter.sh HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut page = Vec::new();
    while !page.ends_with(b"only POST") {
        page.push(stream.read_u8().await.unwrap());
    }
    let half = b"POST /conversion/karpenter.sh HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    stream.write_all(half).await.unwrap();
    assert_eq!(said(&mut stream).await, "HTTP/1.1 408");
}

#[tokio::test]
async fn reviews_are_answered_while_strangers_hold_every_connection() {
    let (server, _client, webhook) = served().await;
    let mut strangers = Vec::new();
    for _ in 0..200 {
        strangers.push(tokio::net::TcpStream::connect(("127.0.0.1", webhook.address.port())).await.unwrap());
    }
    assert_eq!(send(&server, "POST", OLD_POOLS, &old_pool()).await.0, 201);
    drop(strangers);
}

#[tokio::test]
async fn a_pool_is_asked_for_once_for_many_claims() {
    let (server, _client, _webhook) = served().await;
    send(&server, "POST", OLD_POOLS, &old_pool()).await;
    let path_contains = "/v1/nodepools/default".to_owned();
    let effect = Effect::Latency(Duration::ZERO);
    server.inject(Fault { methods: vec!["GET".to_owned()], path_contains, per_mille: 1000, times: None, effect });
    for name in ["a", "b", "c", "d", "e"] {
        let claim = json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"requirements": [], "nodeClassRef": {"name": "default"}}});
        assert_eq!(send(&server, "POST", "/apis/karpenter.sh/v1beta1/nodeclaims", &claim).await.0, 201);
    }
    assert_eq!(get(&server, "/apis/karpenter.sh/v1/nodeclaims/e").await["spec"]["expireAfter"], "720h");
    assert_eq!(server.faults_fired().values().sum::<u64>(), 1);
}
