//! `karpenter cluster` as users meet it: started, talked to over its port, ended by a signal.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    kubeconfig: PathBuf,
}

impl Running {
    /// Starts the program and reads what it prints until it is ready.
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
        let mut child = command.env_clear().arg("cluster").args(args).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, out, kubeconfig: PathBuf::new() };
        loop {
            let mut line = String::new();
            assert!(running.out.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
            if let Some(path) = line.strip_prefix("export KUBECONFIG=") {
                running.kubeconfig = PathBuf::from(path.trim_end());
                return running;
            }
        }
    }

    async fn client(&self) -> Client {
        let read = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Sends a signal; answers the exit status and what was still printed.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        let status = self.child.wait().unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (status.code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn get(client: &Client, path: &str) -> Value {
    client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

async fn post(client: &Client, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let request = http::Request::post(path).header("content-type", "application/json").body(body.to_string().into());
    client.request(request.unwrap()).await
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

#[tokio::test]
async fn pods_run_on_its_nodes() {
    let running = Running::start(&[]);
    let client = running.client().await;
    let nodes = get(&client, "/api/v1/nodes").await;
    assert_eq!(names(&nodes), ["node-1", "node-2", "node-3"]);
    for node in nodes["items"].as_array().unwrap() {
        assert_eq!(node["status"]["allocatable"]["cpu"], "4");
        assert_eq!(node["status"]["allocatable"]["memory"], "16Gi");
        assert_eq!(node["spec"]["taints"], Value::Null);
    }
    let classes = get(&client, "/apis/storage.k8s.io/v1/storageclasses").await;
    let default = &classes["items"][0]["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"];
    assert_eq!(default, "true");
    let dns = get(&client, "/api/v1/namespaces/kube-system/services/kube-dns").await;
    assert_eq!(dns["spec"]["clusterIP"], "10.96.0.10");

    let labels = json!({"app": "web"});
    let containers = json!([{"name": "web", "image": "nginx"}]);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}});
    post(&client, "/apis/apps/v1/namespaces/default/deployments", &deployment).await.unwrap();
    let bound = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            let pods = get(&client, "/api/v1/namespaces/default/pods?labelSelector=app%3Dweb").await;
            let all = pods["items"].as_array().unwrap();
            if all.len() == 2 && all.iter().all(|pod| pod["status"]["phase"] == "Running") {
                return pods;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let pods = bound.await.expect("two pods run within a minute");
    assert!(pods["items"][0]["spec"]["nodeName"].as_str().unwrap().starts_with("node-"));

    let kubeconfig = running.kubeconfig.clone();
    assert_eq!(running.end("-INT"), (Some(0), String::new()));
    assert!(!kubeconfig.exists(), "a temporary file goes with its cluster");
}

#[tokio::test]
async fn options_are_obeyed() {
    let file = scratch("kubeconfig");
    // Of a cluster that is gone.
    let former = Running::start(&["--kubeconfig", file.to_str().unwrap(), "--nodes", "0"]);
    assert_eq!(former.end("-TERM"), (Some(0), String::new()));
    let running = Running::start(&["--kubeconfig", file.to_str().unwrap(), "--nodes", "5", "--rbac", "--seed", "7"]);
    assert_eq!(running.kubeconfig, file);
    let client = running.client().await;
    assert_eq!(names(&get(&client, "/api/v1/nodes").await).len(), 5);

    // With roles in force a fresh service account may do nothing.
    let asked = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": "system:serviceaccount:default:default", "groups": ["system:serviceaccounts", "system:authenticated"],
        "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}});
    let answer = post(&client, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &asked).await.unwrap();
    assert_eq!(answer["status"]["allowed"], false);

    // Somebody watches; the end comes at once all the same.
    let watch = http::Request::get("/api/v1/pods?watch=true").body(Vec::new()).unwrap();
    let _open = client.request_stream(watch).await.unwrap();
    assert_eq!(running.end("-TERM"), (Some(0), String::new()));
    assert!(file.exists(), "a file that was asked for stays");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
    let file = scratch("config");
    std::fs::write(&file, "apiVersion: v1\nkind: Config\n").unwrap();
    for command in ["cluster", "demo"] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_karpenter"));
        let out = run.args([command, "--kubeconfig", file.to_str().unwrap()]).output().unwrap();
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(2) && text.contains("no kubeconfig of ours"), "{command}: {text}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "apiVersion: v1\nkind: Config\n");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_taken_port_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let out = Command::new(env!("CARGO_BIN_EXE_karpenter")).args(["cluster", "--port", &port]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(text.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{text}");
}
