//! moto's server, a process of its own on loopback, with an account laid out in it.

use std::process::Stdio;
use std::time::Duration;

use karpenter_aws_client::{Connection, Options, connect};
use karpenter_provider_aws::calls::{Filter, Tags};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

pub(crate) const REGION: &str = "us-west-2";
pub(crate) const IMAGE: &str = "ami-0123456789abcdef0";
pub(crate) const ROLE: &str = "KarpenterNodeRole";
/// Python takes its time to start on a busy machine.
const PATIENCE: u32 = 1200;

pub(crate) struct Moto {
    pub(crate) connection: Connection,
    /// As a URL.
    pub(crate) address: String,
    images: std::path::PathBuf,
    _process: Child,
}

impl Drop for Moto {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.images);
    }
}

/// None where nobody says in MOTO_SERVER where it is: it is installed by `.ci/run aws_client`.
pub(crate) async fn start() -> Option<Moto> {
    let Ok(program) = std::env::var("MOTO_SERVER") else {
        println!("passed over: MOTO_SERVER does not name moto's server");
        return None;
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let images = std::env::temp_dir().join(format!("karpenter-moto-{port}.json"));
    std::fs::write(&images, json!([image(IMAGE, "x86_64"), image("ami-0123456789abcdef1", "arm64")]).to_string())
        .unwrap();
    let process = Command::new(&program)
        .args(["--host", "127.0.0.1", "--port", &port.to_string()])
        .env("MOTO_AMIS_PATH", &images)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut tries = 0;
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tries += 1;
        assert!(tries < PATIENCE, "moto's server does not come up");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let address = format!("http://127.0.0.1:{port}");
    let options =
        Options { region: Some(REGION.to_owned()), version: "test", emulator: Some(address.clone()), timeouts: None };
    Some(Moto { connection: connect(options).await.unwrap(), address, images, _process: process })
}

fn image(id: &str, architecture: &str) -> Value {
    json!({
        "ami_id": id, "name": format!("golden-{architecture}"), "architecture": architecture, "state": "available",
        "public": true, "owner_id": "123456789012", "image_location": "amazon/golden", "sriov": "simple",
        "root_device_type": "ebs", "root_device_name": "/dev/xvda", "description": "golden", "image_type": "machine",
        "platform": null, "virtualization_type": "hvm", "hypervisor": "xen", "creation_date": "2026-01-02T03:04:05.000Z",
    })
}

impl Moto {
    /// What the client has no call for, because the controller never makes it. moto looks at the scope of a signature to
    /// tell services apart, and at nothing else of it.
    async fn post(&self, service: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut stream = TcpStream::connect(self.address.trim_start_matches("http://")).await.unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let scope = format!("Credential=test/20260101/{REGION}/{service}/aws4_request");
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {service}.{REGION}.amazonaws.com\r\n\
             authorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=x\r\n{headers}\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{service} {path} {body}: {answer}");
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    pub(crate) async fn json(&self, service: &str, target: &str, body: Value) -> String {
        let headers = [("x-amz-target", target), ("content-type", "application/x-amz-json-1.1")];
        self.post(service, "/", &headers, &body.to_string()).await
    }

    async fn form(&self, service: &str, body: &str) -> String {
        self.post(service, "/", &[("content-type", "application/x-www-form-urlencoded")], body).await
    }

    /// A cluster in EKS, and the tags that its nodes' network is found by.
    pub(crate) async fn lay_out(&self, cluster: &str) {
        let aws = &self.connection.aws;
        let subnets = aws.ec2.describe_subnets(&[Filter::new("default-for-az", ["true"])], 500).await.unwrap();
        let groups = aws.ec2.describe_security_groups(&[Filter::new("group-name", ["default"])], 500).await.unwrap();
        let mut ids: Vec<String> = subnets.iter().map(|subnet| subnet.id.clone()).collect();
        let request = json!({
            "name": cluster, "version": "1.32", "roleArn": "arn:aws:iam::123456789012:role/cluster",
            "resourcesVpcConfig": {"subnetIds": ids},
        });
        self.post("eks", "/clusters", &[("content-type", "application/json")], &request.to_string()).await;
        ids.extend(groups.iter().map(|group| group.id.clone()));
        let tags: Tags = [(format!("karpenter.sh/discovery-{cluster}"), cluster.to_owned())].into();
        aws.ec2.create_tags(&ids, &tags).await.unwrap();
    }

    pub(crate) async fn make_role(&self) {
        let document = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%5D%7D";
        self.form(
            "iam",
            &format!("Action=CreateRole&Version=2010-05-08&RoleName={ROLE}&AssumeRolePolicyDocument={document}"),
        )
        .await;
    }
}
