//! What the kubelet is told.

use std::time::Duration;

use karpenter_apiserver::{Effect, Fault};
use karpenter_runtime::serve::{Readiness, health};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Lab;

/// The status and the text of an answer.
async fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn probes_name_what_is_not_synced_and_what_hangs() {
    let lab = Lab::new(1).await;
    let readiness = Readiness::default();
    readiness.has_kinds();
    readiness.watches(lab.context.clone());
    let before = readiness.missing().unwrap();
    assert!(before.starts_with("the cluster has not been listed yet: ") && before.ends_with("Node, Pod"), "{before}");
    let serving = health(0, readiness.clone()).await.unwrap();
    let port = serving.address.port();
    lab.settle(30).await;
    assert_eq!(get(port, "/readyz").await, ("200".to_owned(), "ok".to_owned()));

    // Nobody answers for nodes any more.
    let never = Effect::Latency(Duration::from_hours(24));
    let fault = Fault {
        methods: vec!["GET".to_owned()],
        path_contains: "/api/v1/nodes".to_owned(),
        per_mille: 1000,
        times: None,
        effect: never,
    };
    lab.server.inject(fault);
    lab.server.drop_watches();
    lab.settle(200).await;
    let (status, text) = get(port, "/readyz").await;
    assert!(status == "503" && text.starts_with("not heard from lately: Node ("), "{status} {text}");
    assert_eq!(get(port, "/healthz").await.0, "200", "a restart would not help");
    lab.server.clear_faults();
    lab.settle(60).await;
    assert_eq!(get(port, "/readyz").await.0, "200");

    let under_way = lab.context.pulse.begin("test", None, Duration::from_secs(1));
    lab.settle(2).await;
    let (status, text) = get(port, "/healthz").await;
    assert!(status == "503" && text.starts_with("test is busy for "), "{status} {text}");
    drop(under_way);
    assert_eq!(get(port, "/healthz").await.0, "200");
}
