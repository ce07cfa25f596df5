//! Load: 5,000 nodes, 50,000 pods, a thousand updates a second, twenty watchers. Run with
//! `--release -- --ignored --nocapture`; it prints what it measures and checks that no watcher misses anything.
//!
//! `LOAD_SECONDS` says how long the updates go on (a minute unless set).

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use karpenter_apiserver::{ApiServer, Options};
use tokio::time::Instant;
use tower::Service as _;

const NODES: usize = 5_000;
const PODS: usize = 50_000;
const BOUND: usize = 10_000;
const WATCHERS: usize = 20;
const UPDATES_PER_SECOND: usize = 1_000;
const MOST_MIB: usize = 1_024;

async fn call(
    server: &ApiServer,
    method: &str,
    path: &str,
    kind: &str,
    body: String,
) -> http::Response<karpenter_apiserver::Body> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    server.service().call(request).await.unwrap()
}

async fn send(server: &ApiServer, method: &str, path: &str, body: String) -> (u16, Bytes) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let response = call(server, method, path, kind, body).await;
    (response.status().as_u16(), response.into_body().collect().await.unwrap().to_bytes())
}

fn pod(name: usize) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p{name}","labels":{{"app":"web","i":"{name}"}}}},
        "spec":{{"containers":[{{"name":"c","image":"nginx:1.27","resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}}}}}}]}}}}"#
    )
}

fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or("0 0");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) / 1024
}

/// What a watcher saw: every object's last version, how many events, and what was wrong with them.
#[derive(Default)]
struct Seen {
    versions: BTreeMap<String, u64>,
    initial: usize,
    modified: usize,
    faults: Vec<String>,
}

impl Seen {
    fn take(&mut self, line: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Event {
            r#type: String,
            object: Object,
        }
        #[derive(serde::Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default)]
            name: String,
            resource_version: String,
        }
        let event: Event = serde_json::from_slice(line).unwrap();
        let version: u64 = event.object.metadata.resource_version.parse().unwrap();
        let name = event.object.metadata.name;
        let before = self.versions.get(&name).copied();
        match (event.r#type.as_str(), before) {
            ("BOOKMARK", _) => return,
            ("ADDED", None) => self.initial += 1,
            ("MODIFIED", Some(before)) if version > before => self.modified += 1,
            (kind, before) => self.faults.push(format!("{kind} {name} at {version} after {before:?}")),
        }
        self.versions.insert(name, version);
    }
}

/// Reads until as many events as there will be are there.
async fn watch(server: ApiServer, query: &'static str, wanted: usize) -> Seen {
    let path = format!("/api/v1/pods?watch=1{query}");
    let mut body = call(&server, "GET", &path, "", String::new()).await.into_body();
    let (mut seen, mut rest) = (Seen::default(), Vec::new());
    while seen.initial + seen.modified < wanted && seen.faults.is_empty() {
        let Some(frame) = body.frame().await else {
            seen.faults.push("the watch ended".into());
            break;
        };
        rest.extend_from_slice(&frame.unwrap().into_data().unwrap());
        let mut from = 0;
        while let Some(end) = rest[from..].iter().position(|byte| *byte == b'\n') {
            seen.take(&rest[from..from + end]);
            from += end + 1;
        }
        rest.drain(..from);
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures; takes minutes in a debug build"]
async fn many_pods_and_many_watchers() {
    let seconds = std::env::var("LOAD_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let server = ApiServer::new(Options::new());
    let timed = |what: &str, took: Duration| println!("{what}: {took:.2?}, {} MiB resident", status("VmRSS"));

    let start = Instant::now();
    for node in 0..NODES {
        let body = format!(
            r#"{{"metadata":{{"name":"n{node}"}},"status":{{"capacity":{{"cpu":"16","memory":"64Gi","pods":"110"}}}}}}"#
        );
        assert_eq!(send(&server, "POST", "/api/v1/nodes", body).await.0, 201);
    }
    timed("5,000 nodes created", start.elapsed());

    let start = Instant::now();
    for index in 0..BOUND {
        assert_eq!(send(&server, "POST", "/api/v1/namespaces/default/pods", pod(index)).await.0, 201);
        let binding =
            format!(r#"{{"metadata":{{"name":"p{index}"}},"target":{{"kind":"Node","name":"n{}"}}}}"#, index % NODES);
        let path = format!("/api/v1/namespaces/default/pods/p{index}/binding");
        assert_eq!(send(&server, "POST", &path, binding).await.0, 201);
    }
    timed("10,000 pods created and bound", start.elapsed());
    for index in BOUND..PODS {
        assert_eq!(send(&server, "POST", "/api/v1/namespaces/default/pods", pod(index)).await.0, 201);
    }

    let start = Instant::now();
    let (code, body) = send(&server, "GET", "/api/v1/pods", String::new()).await;
    timed(&format!("list of 50,000 pods ({} MiB)", body.len() >> 20), start.elapsed());
    assert_eq!(code, 200);
    drop(body);

    let updates = UPDATES_PER_SECOND * seconds;
    // Some watch what they select, as kubelets do; the others everything.
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|index| {
            let (query, objects, changes) = match index % 4 {
                0 => {
                    ("&fieldSelector=spec.nodeName%3Dn7", 2, (0..updates).filter(|at| at % BOUND % NODES == 7).count())
                }
                _ => ("", PODS, updates),
            };
            tokio::spawn(watch(server.clone(), query, objects + changes))
        })
        .collect();
    let start = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    for at in 0..updates {
        if at % (UPDATES_PER_SECOND / 100) == 0 {
            ticks.tick().await;
        }
        let path = format!("/api/v1/namespaces/default/pods/p{}/status", at % BOUND);
        let patch = format!(r#"{{"status":{{"phase":"Running","message":"{at}"}}}}"#);
        assert_eq!(send(&server, "PATCH", &path, patch).await.0, 200);
    }
    timed(&format!("{updates} updates sent"), start.elapsed());
    for (index, watcher) in watchers.into_iter().enumerate() {
        let seen = watcher.await.unwrap();
        assert_eq!(seen.faults, Vec::<String>::new(), "watcher {index}");
        println!("watcher {index}: {} objects, {} changes, in order", seen.initial, seen.modified);
    }
    timed("every watcher has everything", start.elapsed());
    println!("at most {} MiB resident", status("VmHWM"));
    assert!(status("VmHWM") < MOST_MIB, "less than a gigabyte");
}
