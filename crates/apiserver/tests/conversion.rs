//! Custom resources in several versions: with a webhook that converts them, in the process and over HTTPS, and without.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use karpenter_apiserver::{ApiServer, Options};
use serde_json::{Value, json};
use tower::Service as _;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Full::new(Bytes::from(bytes)))
        .unwrap();
    let response = server.service().call(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn crd(conversion: Value) -> Value {
    let version = |name: &str, field: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {field: {"type": "string"}}},
                "status": {"type": "object", "properties": {"seen": {"type": "string"}}}}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "toys.play.io"}, "spec": {"group": "play.io", "scope": "Namespaced",
        "names": {"plural": "toys", "kind": "Toy"}, "conversion": conversion,
        "versions": [version("v1", "colour", true), version("v2", "color", false)]}})
}

/// Version one has a colour, version two a color.
fn convert(review: &Value) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap();
    let convert = |object: &Value| {
        let mut object = object.clone();
        let (from, to) = if desired == "play.io/v2" { ("colour", "color") } else { ("color", "colour") };
        if let Some(value) = object["spec"].as_object_mut().and_then(|spec| spec.shift_remove(from)) {
            object["spec"][to] = value;
        }
        object["apiVersion"] = desired.into();
        object["metadata"]["annotations"]["converted"] = "yes".into();
        object["metadata"]["generation"] = 99.into();
        object
    };
    let objects: Vec<Value> = request["objects"].as_array().unwrap().iter().map(convert).collect();
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": {"uid": request["uid"],
        "convertedObjects": objects, "result": {"status": "Success"}}})
}

fn webhook(url: &str, ca: &str) -> Value {
    json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": url, "caBundle": base64::engine::general_purpose::STANDARD.encode(ca)}}})
}

fn toy(version: &str, field: &str, value: &str) -> Value {
    json!({"apiVersion": format!("play.io/{version}"), "kind": "Toy", "metadata": {"name": "ball"}, "spec": {field: value}})
}

fn toys(version: &str) -> String {
    format!("/apis/play.io/{version}/namespaces/default/toys")
}

async fn lives_in_two_versions(server: &ApiServer) {
    let (code, made) = send(server, "POST", &toys("v2"), &toy("v2", "color", "red")).await;
    assert_eq!((code, &made["spec"], &made["apiVersion"]), (201, &json!({"color": "red"}), &json!("play.io/v2")));
    let (_, stored) = send(server, "GET", &format!("{}/ball", toys("v1")), &Value::Null).await;
    assert_eq!(stored["spec"], json!({"colour": "red"}));
    // Of the metadata only labels and annotations are the webhook's to change.
    assert_eq!(
        (&stored["metadata"]["annotations"]["converted"], &stored["metadata"]["generation"]),
        (&json!("yes"), &json!(1))
    );

    let patch = json!({"spec": {"color": "blue"}});
    let (code, patched) = send(server, "PATCH", &format!("{}/ball", toys("v2")), &patch).await;
    assert_eq!((code, &patched["spec"]), (200, &json!({"color": "blue"})));
    assert_ne!(patched["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let (_, list) = send(server, "GET", &toys("v1"), &Value::Null).await;
    assert_eq!(list["items"][0]["spec"], json!({"colour": "blue"}));
    let (_, list) = send(server, "GET", &toys("v2"), &Value::Null).await;
    assert_eq!((&list["items"][0]["spec"], &list["apiVersion"]), (&json!({"color": "blue"}), &json!("play.io/v2")));

    let status = json!({"status": {"seen": "today"}});
    let (code, seen) = send(server, "PATCH", &format!("{}/ball/status", toys("v2")), &status).await;
    assert_eq!((code, &seen["status"], &seen["spec"]), (200, &json!({"seen": "today"}), &json!({"color": "blue"})));
    let (_, watched) = send(server, "GET", &format!("{}?watch=1&timeoutSeconds=1", toys("v2")), &Value::Null).await;
    assert_eq!((&watched["type"], &watched["object"]["spec"]), (&json!("ADDED"), &json!({"color": "blue"})));

    let (code, _) = send(server, "DELETE", &format!("{}/ball", toys("v2")), &Value::Null).await;
    assert_eq!(code, 200);
    assert_eq!(server.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_webhook_in_the_process_converts() {
    let server = ApiServer::new(Options::new());
    server.serve_webhook("https://toys.example.com/convert", convert);
    let (code, _) = send(&server, "POST", CRDS, &crd(webhook("https://toys.example.com/convert", ""))).await;
    assert_eq!(code, 201);
    lives_in_two_versions(&server).await;
}

#[tokio::test]
async fn a_webhook_over_https_converts() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let service = hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let answer = convert(&serde_json::from_slice(&body).unwrap());
                Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(answer.to_string()))))
            });
            let io = hyper_util::rt::TokioIo::new(stream);
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        }
    });
    let server = ApiServer::new(Options::new());
    let url = format!("https://localhost:{port}/convert");
    send(&server, "POST", CRDS, &crd(webhook(&url, &certificate.pem()))).await;
    lives_in_two_versions(&server).await;

    // Whoever is not trusted is not asked.
    let change = json!({"spec": {"conversion": webhook(&url, "")}});
    send(&server, "PATCH", &format!("{CRDS}/toys.play.io"), &change).await;
    let (code, status) = send(&server, "POST", &toys("v2"), &toy("v2", "color", "red")).await;
    let why = format!(
        "conversion webhook for play.io/v2, Kind=Toy failed: Post \"{url}?timeout=30s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"
    );
    assert_eq!((code, &status["message"]), (500, &json!(why)));
}

#[tokio::test(start_paused = true)]
async fn webhooks_that_fail_are_told_on() {
    let server = ApiServer::new(Options::new());
    let url = "https://toys.example.com/convert";
    send(&server, "POST", CRDS, &crd(webhook(url, ""))).await;
    let failed = "conversion webhook for play.io/v2, Kind=Toy failed: ";
    type Edit = fn(&mut Value);
    let table: [(Edit, String); 6] = [
        (|answer| answer["response"]["uid"] = "other".into(), format!("{failed}expected response.uid=")),
        (|answer| answer["response"] = Value::Null, format!("{failed}no response provided")),
        (
            |answer| answer["response"]["result"] = json!({"status": "Failure", "message": "no toys today"}),
            format!("{failed}no toys today"),
        ),
        (
            |answer| answer["response"]["convertedObjects"] = json!([]),
            "conversion webhook for play.io/v2, Kind=Toy returned 0 objects, expected 1".to_owned(),
        ),
        (
            |answer| answer["response"]["convertedObjects"][0]["apiVersion"] = "play.io/v9".into(),
            "conversion webhook for play.io/v2, Kind=Toy returned invalid object at index 0: invalid groupVersion (expected play.io/v1, received play.io/v9)".to_owned(),
        ),
        (
            |answer| answer["response"]["convertedObjects"][0]["metadata"]["name"] = "doll".into(),
            "conversion webhook for play.io/v2, Kind=Toy returned invalid object: must have the same name: ball != doll".to_owned(),
        ),
    ];
    for (edit, want) in table {
        server.serve_webhook(url, move |review| {
            let mut answer = convert(review);
            edit(&mut answer);
            answer
        });
        let (code, status) = send(&server, "POST", &toys("v2"), &toy("v2", "color", "red")).await;
        let message = status["message"].as_str().unwrap();
        assert!(code == 500 && message.starts_with(&want), "{code} {message}, not {want}");
    }
    let (code, _) = send(&server, "GET", &format!("{}/ball", toys("v1")), &Value::Null).await;
    assert_eq!(code, 404, "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn without_a_webhook_only_the_name_of_the_version_changes() {
    let server = ApiServer::new(Options::new());
    send(&server, "POST", CRDS, &crd(json!({"strategy": "None"}))).await;
    let (code, _) = send(&server, "POST", &toys("v2"), &toy("v2", "color", "red")).await;
    assert_eq!(code, 201);
    let (_, read) = send(&server, "GET", &format!("{}/ball", toys("v1")), &Value::Null).await;
    assert_eq!(read["apiVersion"], "play.io/v1");
    // What was stored as version one is read as version two when that becomes the one to store.
    let swap = json!([{"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]);
    let request = http::Request::builder()
        .method("PATCH")
        .uri(format!("{CRDS}/toys.play.io"))
        .header("content-type", "application/json-patch+json")
        .body(Full::new(Bytes::from(swap.to_string())))
        .unwrap();
    assert_eq!(server.service().call(request).await.unwrap().status(), 200);
    let (_, read) = send(&server, "GET", &format!("{}/ball", toys("v2")), &Value::Null).await;
    assert_eq!(read["apiVersion"], "play.io/v2");
}
