//! `karpenter controller --simulate-region` against a cluster it knows only from KUBECONFIG.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

/// A child that does not outlive its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster without nodes, and the path of its kubeconfig.
fn cluster() -> (Process, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    let mut child = command.args(["cluster", "--nodes", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let path = lines.find_map(|line| Some(line.ok()?.strip_prefix("export KUBECONFIG=")?.to_owned()));
    (Process(child), path.unwrap())
}

fn controller(kubeconfig: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    command.env_clear().env("KUBECONFIG", kubeconfig).env("SYSTEM_NAMESPACE", "kube-system");
    command.args(["controller", "--simulate-region", "us-east-1"]).args(arguments);
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The status line and the body of a page, if somebody serves it.
fn page(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Asks again until there is an answer. Another process does the work, so there is nothing to wait on but time.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1200 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what} did not come about");
}

// covers: API-HM-56, API-ST-09
#[tokio::test]
async fn a_pod_gets_a_node_and_the_node_goes_with_its_claim() {
    let (_cluster, kubeconfig) = cluster();
    let (health, metrics) = (free_port(), free_port());
    let ports = [format!("--health-probe-port={health}"), format!("--metrics-port={metrics}")];
    let mut arguments = vec!["--boot-delay", "0s", "--install-crds"];
    arguments.extend(ports.iter().map(String::as_str));
    let mut command = controller(&kubeconfig, &arguments);
    let log = std::fs::File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("controller.log")).unwrap();
    let controller = Process(command.stdout(log).spawn().unwrap());
    until("readiness", async || page(health, "/readyz").filter(|text| text.starts_with("HTTP/1.1 200"))).await;
    assert!(page(health, "/healthz").unwrap().starts_with("HTTP/1.1 200"));

    let read = Kubeconfig::read_from(&kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let send = async |method: &str, path: &str, body: Value| -> Option<Value> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        client.request(request.body(body.to_string().into_bytes()).unwrap()).await.ok()
    };
    let get = async |path: &str| send("GET", path, Value::Null).await;
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"},
        "template": {"spec": {
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}}});
    let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": "any", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}});
    send("POST", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", class).await.unwrap();
    send("POST", "/apis/karpenter.sh/v1/nodepools", pool).await.unwrap();
    send("POST", "/api/v1/namespaces/default/pods", pod).await.unwrap();

    let pod = "/api/v1/namespaces/default/pods/p";
    until("a running pod", async || get(pod).await.filter(|pod| pod["status"]["phase"] == "Running")).await;
    let nodes = get("/api/v1/nodes").await.unwrap();
    let labels = &nodes["items"][0]["metadata"]["labels"];
    assert!(labels["eks-node-viewer/instance-price"].as_str().unwrap().parse::<f64>().unwrap() > 0.0);
    assert_eq!(labels["karpenter.sh/nodepool"], "default");
    let series = page(metrics, "/metrics").unwrap();
    for name in [
        "controller_runtime_reconcile_total{",
        "client_go_request_total{",
        "leader_election_master_status{name=\"karpenter-leader-election\"} 1",
        "process_resident_memory_bytes ",
        "karpenter_nodeclaims_created_total{",
        "karpenter_nodes_created_total{",
        "karpenter_build_info{",
    ] {
        assert!(series.contains(name), "{name} is not in\n{series}");
    }
    until("a saved instance", async || get("/api/v1/namespaces/kube-system/configmaps/kwok-aws-instances-0").await)
        .await;

    // The process dies without a word. The next one, whose region speaks for itself, knows the machine that was bought:
    // otherwise it would take the claim for one whose machine is gone.
    let uid = |nodes: &Value| nodes["items"][0]["metadata"]["uid"].clone();
    drop(controller);
    let region = Path::new(env!("CARGO_TARGET_TMPDIR")).join("region.kubeconfig");
    std::fs::copy(&kubeconfig, &region).unwrap();
    arguments.extend(["--simulate-kubeconfig", region.to_str().unwrap()]);
    let log = std::fs::File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("restarted.log")).unwrap();
    let mut controller = Process(self::controller(&kubeconfig, &arguments).stdout(log).spawn().unwrap());
    let leads = "leader_election_master_status{name=\"karpenter-leader-election\"} 1";
    until("another leader", async || page(metrics, "/metrics").filter(|text| text.contains(leads))).await;
    let swept = "controller_runtime_reconcile_total{controller=\"nodeclaim.garbagecollection\"";
    until("a sweep", async || page(metrics, "/metrics").filter(|text| text.contains(swept))).await;
    let again = get("/api/v1/nodes").await.unwrap();
    assert_eq!((again["items"].as_array().unwrap().len(), uid(&again)), (1, uid(&nodes)));
    assert_eq!(get(pod).await.unwrap()["status"]["phase"], "Running");

    // Waiting for an empty node to be noticed would take most of a minute; a user's word is enough.
    let claims = get("/apis/karpenter.sh/v1/nodeclaims").await.unwrap();
    let claim = claims["items"][0]["metadata"]["name"].as_str().unwrap();
    send("DELETE", &format!("/apis/karpenter.sh/v1/nodeclaims/{claim}"), json!({})).await.unwrap();
    send("DELETE", pod, json!({"gracePeriodSeconds": 0})).await.unwrap();
    until("the end of the node", async || {
        get("/api/v1/nodes").await.filter(|list| list["items"].as_array().is_some_and(Vec::is_empty))
    })
    .await;

    // Whoever comes next need not wait for the lease.
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";
    let held = get(lease).await.unwrap();
    assert_ne!(held["spec"]["holderIdentity"], "");
    // Whoever says nothing else is written down under the first word of their user agent.
    assert_eq!(held["metadata"]["managedFields"][0]["manager"], "karpenter", "{}", held["metadata"]);
    end(&mut controller);
    assert_eq!(get(lease).await.unwrap()["spec"]["holderIdentity"], "");
}

#[test]
fn a_region_that_cannot_speak_for_itself_is_told_at_the_start() {
    let (_cluster, kubeconfig) = cluster();
    let ports = [format!("--health-probe-port={}", free_port()), format!("--metrics-port={}", free_port())];
    let region = ["--simulate-kubeconfig", "/nowhere/region.kubeconfig", &ports[0], &ports[1]];
    let ended = controller(&kubeconfig, &region).output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(!ended.status.success() && said.contains("/nowhere/region.kubeconfig"), "{said}");
}

#[tokio::test]
async fn without_our_kinds_it_waits_says_which_and_can_be_ended() {
    // covers: API-HM-50, API-HM-51, API-HM-55
    let (_cluster, kubeconfig) = cluster();
    let (health, metrics) = (free_port(), free_port());
    let ports = [format!("--health-probe-port={health}"), format!("--metrics-port={metrics}")];
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("waiting.log");
    let mut command = controller(&kubeconfig, &[ports[0].as_str(), ports[1].as_str()]);
    let mut controller = Process(command.stdout(std::fs::File::create(&log).unwrap()).spawn().unwrap());
    until("health", async || page(health, "/healthz").filter(|text| text.starts_with("HTTP/1.1 200"))).await;
    let line = until("a complaint", async || {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().find(|line| line.contains("does not know our kinds")).map(str::to_owned)
    })
    .await;
    for part in ["NodePool (karpenter.sh/v1)", "EC2NodeClass (karpenter.k8s.aws/v1)", "--install-crds"] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(page(health, "/readyz").unwrap().starts_with("HTTP/1.1 503"));
    end(&mut controller);
}

/// Asks a process to end, as a kubelet does, and waits until it has.
fn end(process: &mut Process) {
    let asked = Command::new("kill").args(["-TERM", &process.0.id().to_string()]).status().unwrap();
    assert!(asked.success());
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
}
