//! The demo from outside: piped it ends by itself, and kubectl's way in works while it runs.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    command.arg("demo").args(arguments).stdin(Stdio::null());
    command
}

#[test]
fn piped_it_ends_well_with_a_summary() {
    // As fast as the machine can: what happens does not depend on the speed.
    let out = demo(&["-o", "json", "--speed", "1000"]).output().unwrap();
    let told = String::from_utf8(out.stdout).unwrap();
    let complaints = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(0), "{told}{complaints}");
    let summary: Value = serde_json::from_str(&told).unwrap();
    assert!(summary["nodesLaunched"].as_u64().unwrap() >= 2, "{summary}");
    // Fifteen pods, then sixty, then what is left of them.
    assert!(summary["podsRun"].as_u64().unwrap() >= 60, "{summary}");
    assert!(summary["usd"].as_f64().unwrap() > 0.0, "{summary}");
    let waits = &summary["pendingToRunningSeconds"];
    let (p50, p99) = (waits["p50"].as_f64().unwrap(), waits["p99"].as_f64().unwrap());
    // No machine boots in less than twenty seconds.
    assert!(20.0 < p99 && p50 <= p99, "{summary}");
    assert_eq!(summary["violations"], 0, "{complaints}");
    assert_eq!((&summary["neverRan"], &summary["stayed"]), (&serde_json::json!([]), &serde_json::json!([])));
}

#[test]
fn a_script_of_ones_own_is_followed_to_its_end() {
    let file = std::env::temp_dir().join(format!("karpenter-demo-script-{}.txt", std::process::id()));
    std::fs::write(&file, "drift default\nwait 5m\nreclaim 1\nwait 4m\nexpire 1m\nwait 5m\nuntil running\n").unwrap();
    let out = demo(&["--script", file.to_str().unwrap(), "--speed", "1000"]).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let told = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{told}{}", String::from_utf8_lossy(&out.stderr));
    let decided = |word: &str| told.lines().filter(|line| line.contains("->") && line.contains(word)).count();
    assert!(decided(": Drifted") >= 1, "{told}");
    assert!(told.contains("EC2 wants the spot instance"), "{told}");
    // One a minute.
    assert!(decided("buy demo-fleeting-") >= 3, "{told}");
}

#[test]
fn a_script_that_cannot_be_read_is_refused_before_anything_starts() {
    let file = std::env::temp_dir().join(format!("karpenter-demo-bad-script-{}.txt", std::process::id()));
    std::fs::write(&file, "wait 5\nuntil running\njuggle\n").unwrap();
    let out = demo(&["--script", file.to_str().unwrap()]).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let complaints = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{complaints}");
    assert!(complaints.contains(".txt:1: wait: 5") && complaints.contains(".txt:3: juggle"), "{complaints}");
    assert!(out.stdout.is_empty());
}

/// A demo that is ended when the test is over, however that comes about.
struct Serving {
    child: Child,
    kubeconfig: PathBuf,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_api_answers_while_it_runs() {
    let mut child = demo(&["--serve"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let export = lines.find_map(|line| Some(line.ok()?.strip_prefix("export KUBECONFIG=")?.to_owned()));
    let serving = Serving { child, kubeconfig: PathBuf::from(export.unwrap()) };
    let mut text = String::new();
    std::fs::File::open(&serving.kubeconfig).unwrap().read_to_string(&mut text).unwrap();
    let read = Kubeconfig::from_yaml(&text).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let get = async |path: &str| -> Value {
        client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
    };
    assert_eq!(get("/version").await["major"], "1");
    assert_eq!(get("/apis/karpenter.sh/v1/nodepools").await["kind"], "NodePoolList");
    assert_eq!(get("/api/v1/nodes").await["items"].as_array().unwrap().len(), 0);
}

#[test]
fn bad_manifests_get_the_servers_own_words() {
    let file = std::env::temp_dir().join(format!("karpenter-demo-test-{}.yaml", std::process::id()));
    let manifest = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: -1\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: c, image: i}]}\n";
    std::fs::write(&file, manifest).unwrap();
    let out = demo(&["-f", file.to_str().unwrap(), "--speed", "1000"]).output().unwrap();
    std::fs::remove_file(&file).unwrap();
    let complaints = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{complaints}");
    assert!(complaints.contains("Deployment web") && complaints.contains("spec.replicas"), "{complaints}");
}

#[test]
fn a_region_nobody_knows_and_a_missing_one_are_bad_input() {
    for (arguments, want) in [
        (&["controller"][..], "cluster-name: missing"),
        (&["controller", "--simulate-region", "moon-1"], "moon-1"),
        (&["controller", "--simulate-region", "us-east-1", "--log-level", "loud"], "log-level: "),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_karpenter")).args(arguments).output().unwrap();
        let complaints = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{complaints}");
        assert!(complaints.contains(want), "{complaints}");
    }
}
