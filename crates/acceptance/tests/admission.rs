//! Admission by API servers: every object of the table that the validation of this repository is tested with, put to the
//! embedded server with the definitions of our chart, and to a real one where there is one (`.ci/run rights`), also with
//! upstream's definitions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use karpenter_api::crds;
use karpenter_apiserver::{ApiServer, Options};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;

#[path = "../../api/src/validation/tests"]
mod corpus {
    #[allow(dead_code, reason = "who else reads the table reads all of it")]
    mod cases;

    use serde_json::Value;

    /// An object, and what must become of it.
    pub(crate) struct Manifest {
        pub(crate) id: &'static str,
        pub(crate) object: Value,
        /// Before an update; none for a creation.
        pub(crate) old: Option<Value>,
        pub(crate) refused: Option<&'static str>,
    }

    pub(crate) fn all() -> Vec<Manifest> {
        let manifest =
            |case: cases::Case| Manifest { id: case.id, object: case.object, old: case.old, refused: case.refused };
        cases::all().into_iter().map(manifest).collect()
    }
}

use corpus::Manifest;

/// Where upstream 1.14.1 answers otherwise on purpose.
const OURS: [&str; 6] = [
    // `consolidateAfter` may be left out.
    "API-NP-04",
    // An alias without a version.
    "API-EC2-06",
    // Sizes of volumes in Ti.
    "API-EC2-14",
    // Kubelet settings are an open map.
    "API-EC2-19",
    // A term with an empty map of tags selects nothing; upstream's rule only asks whether there is a map.
    "API-EC2-09",
    "API-EC2-11",
];

/// `consolidateAfter` may be left out of a `disruption` block, and there is one more label to ask for.
fn is_newer(manifest: &Manifest, message: &str) -> bool {
    message.contains("spec.disruption.consolidateAfter: Required value")
        || manifest.object.to_string().contains("karpenter.k8s.aws/nitro-sandbox")
}

/// Status and answer of a request.
async fn send(client: &Client, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value) {
    let request = http::Request::builder().method(method).uri(path).header("content-type", media);
    let request = request.body(kube::client::Body::from(body.to_string().into_bytes())).unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Defines our kinds as these definitions have them, and waits until they are served so.
async fn define(client: &Client, definitions: &[Value]) {
    for definition in definitions {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let path =
            format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager=admission&force=true");
        let (code, answer) = send(client, "PATCH", &path, "application/apply-patch+yaml", definition).await;
        assert!(code < 300, "{name}: {answer}");
    }
    // A real server takes up a schema a moment after it is written.
    tokio::time::sleep(Duration::from_secs(3)).await;
}

fn collection(object: &Value) -> String {
    let plural = match object["kind"].as_str().unwrap() {
        "EC2NodeClass" => "ec2nodeclasses".to_owned(),
        kind => kind.to_lowercase() + "s",
    };
    let namespaced = object["kind"] == "CapacityBuffer";
    let place = if namespaced { "/namespaces/default" } else { "" };
    format!("/apis/{}{place}/{plural}", object["apiVersion"].as_str().unwrap())
}

/// Whether the server takes it, and what it says.
async fn admitted(client: &Client, manifest: &Manifest) -> (bool, String) {
    let mut object = manifest.object.clone();
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = "corpus".into();
    }
    let (all, json) = (collection(&object), "application/json");
    let (code, answer) = match &manifest.old {
        None => send(client, "POST", &format!("{all}?dryRun=All"), json, &object).await,
        Some(old) => {
            let mut old = old.clone();
            old["metadata"]["name"] = object["metadata"]["name"].clone();
            let one = format!("{all}/{}", object["metadata"]["name"].as_str().unwrap());
            let (code, made) = send(client, "POST", &all, json, &old).await;
            assert_eq!(code, 201, "{}: {made}", manifest.id);
            object["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
            let answer = send(client, "PUT", &format!("{one}?dryRun=All"), json, &object).await;
            send(client, "DELETE", &one, json, &Value::Null).await;
            answer
        }
    };
    assert!([200, 201, 400, 422].contains(&code), "{}: {code} {answer}", manifest.id);
    (code < 300, answer["message"].as_str().unwrap_or_default().to_owned())
}

/// Every object is taken or refused as the table says, and a refusal names the field.
async fn judge(client: &Client, server: &str) {
    let mut wrong = Vec::new();
    let (mut good, mut bad) = (0, 0);
    for manifest in corpus::all() {
        let (taken, message) = admitted(client, &manifest).await;
        if taken {
            good += 1
        } else {
            bad += 1
        }
        if taken != manifest.refused.is_none() {
            wrong.push(format!("{}: {} {message}", manifest.id, manifest.object));
        }
        if let Some(field) = manifest.refused.filter(|_| !taken) {
            let last = field.rsplit(['.', '[']).next().unwrap().trim_end_matches(']');
            let named = field.split(['.', '[', ']']).any(|part| !part.is_empty() && message.contains(part));
            assert!(named || message.contains(last), "{}: {message} does not name {field}", manifest.id);
        }
    }
    assert!(wrong.is_empty(), "{server}:\n{}", wrong.join("\n"));
    assert!(good > 100 && bad > 150, "{good} good and {bad} bad ones");
    println!("{server}: {good} admitted, {bad} refused, as the table says");
}

#[tokio::test]
async fn the_embedded_server_admits_and_refuses_as_the_table_says() {
    // covers: EXT-16, Q-01, Q-05
    let server = ApiServer::new(Options::new());
    let client = Client::new(server.service(), "default");
    let definitions: Vec<Value> = crds().into_iter().collect();
    for definition in &definitions {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(send(&client, "POST", path, "application/json", definition).await.0, 201);
    }
    judge(&client, "embedded").await;
}

async fn real() -> Option<Client> {
    let file = PathBuf::from(std::env::var_os("RIGHTS_STATE")?).join("kubeconfig");
    let config = Kubeconfig::read_from(file).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Some(Client::try_from(config).unwrap())
}

#[tokio::test]
async fn a_real_server_does_too_and_upstreams_definitions_differ_where_they_should() {
    let Some(client) = real().await else { return };
    define(&client, &crds().into_iter().collect::<Vec<_>>()).await;
    judge(&client, "kube-apiserver").await;
    let Some(folder) = std::env::var_os("UPSTREAM_CRDS") else { return };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    let upstream: Vec<Value> =
        files.iter().map(|path| serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()).collect();
    assert!(upstream.len() >= 3, "{files:?}");
    define(&client, &upstream).await;
    let (mut differing, mut equal) = (BTreeSet::new(), 0);
    for manifest in corpus::all() {
        let (taken, message) = admitted(&client, &manifest).await;
        if taken == manifest.refused.is_none() {
            equal += 1;
        } else if !OURS.contains(&manifest.id) && !is_newer(&manifest, &message) {
            differing.insert(format!("{}: {} {message}", manifest.id, manifest.object));
        }
    }
    // Whoever comes next finds ours.
    define(&client, &crds().into_iter().collect::<Vec<_>>()).await;
    assert!(differing.is_empty(), "{}", differing.into_iter().collect::<Vec<_>>().join("\n"));
    println!("upstream's definitions answer {equal} times alike");
}
