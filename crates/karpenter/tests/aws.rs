//! The program with the AWS SDK in it, told of moto's server by nothing but the environment.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../aws-client/tests/moto/server.rs"]
#[allow(dead_code, reason = "the client's own tests use all of it")]
mod moto;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use karpenter_provider_aws::calls::{DescribeInstances, Instance, InstanceState};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use moto::{IMAGE, Moto, REGION, ROLE};

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

/// Each service at its own address, all others nowhere, so that both kinds of variables are heeded.
fn program(moto: &Moto, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    command.env_clear().envs([
        ("AWS_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", "nobody"),
        ("AWS_SECRET_ACCESS_KEY", "nothing"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
        ("AWS_MAX_ATTEMPTS", "1"),
    ]);
    for service in ["EC2", "EKS", "IAM", "SQS", "SSM", "STS"] {
        command.env(format!("AWS_ENDPOINT_URL_{service}"), &moto.address);
    }
    command.args(arguments);
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn page(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Asks again until there is an answer. Other processes do the work, so there is nothing to wait on but time.
async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..2400 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what} did not come about");
}

async fn instance(moto: &Moto, id: &str) -> Option<Instance> {
    let request = DescribeInstances { ids: vec![id.to_owned()], ..DescribeInstances::default() };
    moto.connection.aws.ec2.describe_instances(&request).await.ok()?.pop()
}

#[tokio::test]
async fn doctor_tells_what_this_account_has_and_lacks() {
    let Some(moto) = moto::start().await else { return };
    moto.lay_out("shop").await;
    let arguments = ["doctor", "--cluster-name=shop", "--interruption-queue=none", "--account-only", "-o", "json"];
    let out = program(&moto, &arguments).output().unwrap();
    let complaints = String::from_utf8_lossy(&out.stderr).into_owned();
    let findings: Vec<Value> =
        String::from_utf8_lossy(&out.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |subject: &str| {
        let found = findings.iter().find(|finding| finding["subject"] == subject);
        found.unwrap_or_else(|| panic!("{subject} is not in {findings:#?} {complaints}")).clone()
    };
    for subject in ["credentials", "EC2", "cluster shop", "image search", "instances", "spot prices"] {
        assert_eq!(of(subject)["verdict"], "ok", "{:#}", of(subject));
    }
    assert!(of("queue")["seen"].as_str().unwrap().contains("there is no queue none"), "{:#}", of("queue"));
    let prices = of("price list");
    assert!(prices["advice"].as_str().unwrap().contains("no answer"), "{prices:#}");
    assert_eq!(out.status.code(), Some(0), "{findings:#?}");
}

/// Whoever hands out credentials on a node with the addon, for one request, which it answers with what it was asked.
fn pod_identity_agent() -> (u16, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let asked: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let body = json!({"AccessKeyId": "ASIAPODIDENTITY", "SecretAccessKey": "nothing", "Token": "of-a-session",
            "AccountId": "123456789012", "Expiration": "2099-01-01T00:00:00Z"})
        .to_string();
        let length = body.len();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        asked.join("\n")
    });
    (port, answers)
}

#[tokio::test]
async fn credentials_come_from_the_pod_identity_agent_for_the_token_in_its_file() {
    // covers: SEED3-04
    let Some(moto) = moto::start().await else { return };
    moto.lay_out("shop").await;
    let (port, agent) = pod_identity_agent();
    let token = Path::new(env!("CARGO_TARGET_TMPDIR")).join("eks-pod-identity-token");
    std::fs::write(&token, "a-token-of-the-service-account").unwrap();
    let mut command = program(&moto, &["doctor", "--cluster-name=shop", "--account-only", "-o", "json"]);
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("http://127.0.0.1:{port}/v1/credentials"));
    command.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token);
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let credentials = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let credentials = credentials.into_iter().find(|finding| finding["subject"] == "credentials");
    assert_eq!(credentials.unwrap()["verdict"], "ok", "{said} {}", String::from_utf8_lossy(&out.stderr));
    let asked = agent.join().unwrap().to_lowercase();
    assert!(asked.starts_with("get /v1/credentials "), "{asked}");
    assert!(asked.contains("authorization: a-token-of-the-service-account"), "{asked}");
}

#[tokio::test]
async fn a_pod_gets_an_instance_and_the_instance_goes_with_its_claim() {
    let Some(moto) = moto::start().await else { return };
    moto.make_role().await;
    moto.lay_out("shop").await;
    let (_cluster, kubeconfig) = cluster();
    let (health, metrics) = (free_port(), free_port());
    let ports = [format!("--health-probe-port={health}"), format!("--metrics-port={metrics}")];
    let mut command = program(&moto, &["controller", "--install-crds", "--cluster-name=shop", &ports[0], &ports[1]]);
    command.env("KUBECONFIG", &kubeconfig).env("SYSTEM_NAMESPACE", "kube-system");
    let log = std::fs::File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("aws-controller.log")).unwrap();
    let _controller = Process(command.stdout(log).spawn().unwrap());
    until("readiness", async || page(health, "/readyz").filter(|text| text.starts_with("HTTP/1.1 200"))).await;

    let read = Kubeconfig::read_from(&kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let send = async |method: &str, path: &str, body: Value| -> Option<Value> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        client.request(request.body(body.to_string().into_bytes()).unwrap()).await.ok()
    };
    let discovered = json!([{"tags": {"karpenter.sh/discovery-shop": "shop"}}]);
    let class = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": ROLE, "amiFamily": "AL2023", "amiSelectorTerms": [{"id": IMAGE}],
            "subnetSelectorTerms": discovered, "securityGroupSelectorTerms": discovered}});
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
        "template": {"spec": {
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}});
    send("POST", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", class).await.unwrap();
    send("POST", "/apis/karpenter.sh/v1/nodepools", pool).await.unwrap();
    send("POST", "/api/v1/namespaces/default/pods", pod).await.unwrap();

    let claims = "/apis/karpenter.sh/v1/nodeclaims";
    let claim = until("a launched claim", async || {
        let list = send("GET", claims, Value::Null).await?;
        let claim = list["items"].get(0)?.clone();
        claim["status"]["providerID"].as_str()?;
        Some(claim)
    })
    .await;
    let id = claim["status"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let launched = instance(&moto, &id).await.unwrap();
    assert_eq!(launched.image_id, IMAGE);
    for (key, value) in [
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("eks:eks-cluster-name", "shop"),
        ("kubernetes.io/cluster/shop", "owned"),
    ] {
        assert_eq!(launched.tags.get(key).map(String::as_str), Some(value), "{key}: {:?}", launched.tags);
    }
    let series = page(metrics, "/metrics").unwrap();
    let calls = "aws_sdk_go_request_total{service=\"EC2\",action=\"CreateFleet\",code=\"200\"}";
    assert!(series.contains(calls), "{calls} is not in\n{series}");

    let name = claim["metadata"]["name"].as_str().unwrap();
    send("DELETE", "/api/v1/namespaces/default/pods/p", json!({"gracePeriodSeconds": 0})).await.unwrap();
    send("DELETE", &format!("{claims}/{name}"), json!({})).await.unwrap();
    until("the end of the instance", async || {
        let found = instance(&moto, &id).await;
        found.is_none_or(|instance| instance.state == InstanceState::Terminated).then_some(())
    })
    .await;
    until("the end of the claim", async || {
        send("GET", claims, Value::Null).await.filter(|list| list["items"].as_array().is_some_and(Vec::is_empty))
    })
    .await;
}

/// The metadata service of a machine in this region; every other question is not found.
fn metadata_service(region: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let first = lines.next().unwrap_or_default();
            lines.find(String::is_empty);
            let (status, body) = match first.split(' ').nth(1).unwrap_or_default() {
                "/latest/api/token" => (200, "token"),
                "/latest/meta-data/placement/region" => (200, region),
                _ => (404, ""),
            };
            let headers = "x-aws-ec2-metadata-token-ttl-seconds: 21600\r\nconnection: close";
            let length = body.len();
            let mut stream = stream;
            let _ = write!(stream, "HTTP/1.1 {status} X\r\n{headers}\r\ncontent-length: {length}\r\n\r\n{body}");
        }
    });
    port
}

#[tokio::test]
async fn the_region_is_the_machines_where_nothing_else_names_one() {
    // covers: AWS-OPS-04
    let Some(moto) = moto::start().await else { return };
    let doctor = |change: &dyn Fn(&mut Command)| {
        let mut command = program(&moto, &["doctor", "--cluster-name=shop", "--account-only", "-o", "json"]);
        command.env_remove("AWS_REGION");
        change(&mut command);
        let out = command.output().unwrap();
        (out.status.code(), format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)))
    };
    let port = metadata_service("eu-central-1");
    let on_a_machine = |command: &mut Command| {
        command.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://127.0.0.1:{port}"));
    };
    let (_, said) = doctor(&on_a_machine);
    assert!(said.contains("eu-central-1"), "{said}");
    let (_, said) = doctor(&|command| {
        on_a_machine(command);
        command.env("AWS_REGION", REGION);
    });
    assert!(said.contains(REGION) && !said.contains("eu-central-1"), "the configuration comes first: {said}");
    let (status, said) = doctor(&|command| {
        command.env("AWS_EC2_METADATA_DISABLED", "true");
    });
    assert_ne!(status, Some(0), "{said}");
    assert!(said.contains("no region is configured"), "{said}");
}
