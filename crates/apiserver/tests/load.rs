//! Load: what many objects cost. Run with `--release -- --ignored --nocapture`; it prints what it measures.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use karpenter_apiserver::{ApiServer, Options};
use tower::Service as _;

async fn send(server: &ApiServer, method: &str, path: &str, body: String) -> (u16, Bytes) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = server.service().call(request).await.unwrap();
    let code = response.status().as_u16();
    (code, response.into_body().collect().await.unwrap().to_bytes())
}

fn pod(name: usize) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{name}","labels":{{"app":"web","i":"{name}"}}}},
        "spec":{{"containers":[{{"name":"c","image":"nginx:1.27","resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}}}}}}]}}}}"#
    )
}

fn resident_mib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("0 0");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) / 1024
}

#[tokio::test]
#[ignore = "measures; takes a minute in a debug build"]
async fn many_pods() {
    let server = ApiServer::new(Options::new());
    let timed = |what: &str, took: Duration| println!("{what}: {took:?}, {} MiB resident", resident_mib());
    let start = tokio::time::Instant::now();
    for node in 0..5_000 {
        let body = format!(
            r#"{{"metadata":{{"name":"n{node}"}},"status":{{"capacity":{{"cpu":"16","memory":"64Gi","pods":"110"}}}}}}"#
        );
        assert_eq!(send(&server, "POST", "/api/v1/nodes", body).await.0, 201);
    }
    timed("5,000 nodes created", start.elapsed());
    let start = tokio::time::Instant::now();
    for index in 0..10_000 {
        assert_eq!(send(&server, "POST", "/api/v1/namespaces/default/pods", pod(index)).await.0, 201);
        let binding =
            format!(r#"{{"metadata":{{"name":"p{index}"}},"target":{{"kind":"Node","name":"n{}"}}}}"#, index % 5_000);
        let path = format!("/api/v1/namespaces/default/pods/p{index}/binding");
        assert_eq!(send(&server, "POST", &path, binding).await.0, 201);
    }
    timed("10,000 pods created and bound", start.elapsed());
    for index in 10_000..50_000 {
        assert_eq!(send(&server, "POST", "/api/v1/namespaces/default/pods", pod(index)).await.0, 201);
    }
    let start = tokio::time::Instant::now();
    let (code, body) = send(&server, "GET", "/api/v1/pods", String::new()).await;
    timed(&format!("list of 50,000 pods ({} MiB)", body.len() >> 20), start.elapsed());
    assert_eq!(code, 200);
    drop(body);
    timed("after all", Duration::ZERO);
}
