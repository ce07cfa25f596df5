//! Who says whether an object is good: `plan` and the embedded API server.

use std::sync::Arc;

use karpenter_api::{Kind, NodePool, crds};
use karpenter_apiserver::{ApiServer, Options};
use karpenter_core::settings::Settings;
use karpenter_ec2::nodeclass::json::{self as class_json, FieldFault};
use karpenter_index::reduce::Fault;
use karpenter_manifests::{InputFault, Source, load};
use kube::Client;
use serde_json::{Value, json};

#[derive(Debug)]
pub(crate) enum Answer {
    Taken,
    Refused(Vec<InputFault>),
}

pub(crate) struct Planned {
    pub(crate) answer: Answer,
    /// It is planned with, but a note says that a server would refuse it.
    pub(crate) says_server_refuses: bool,
    pub(crate) seconds: f64,
}

/// Reads the object and what it cannot be planned without, as `karpenter plan` does.
#[expect(clippy::disallowed_methods, reason = "how long it takes is what is asked")]
pub(crate) fn plan(object: &Value, beside: &[Value]) -> Planned {
    let items: Vec<&Value> = std::iter::once(object).chain(beside).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let sources = vec![Source { name: "-".into(), bytes: list.to_string().into_bytes() }];
    let options = karpenter_manifests::Options {
        now: "2026-01-02T00:00:00Z".parse().unwrap(),
        settings: Settings::default(),
        vocabulary: Arc::new(karpenter_ec2::vocabulary()),
        overlays: true,
        // What a class offers does not matter here, whether it can be read does.
        instance_types: &mut |class| {
            let fault = |fault: FieldFault| Fault { field: fault.field, message: fault.message };
            let refused = |faults: Vec<FieldFault>| faults.into_iter().map(fault).collect::<Vec<_>>();
            class_json::facts(class).map(|_| Arc::from([])).map_err(refused)
        },
    };
    let start = std::time::Instant::now();
    let loaded = load(sources, options);
    let seconds = start.elapsed().as_secs_f64();
    match loaded {
        Ok(loaded) => {
            let says_server_refuses = loaded.notes.iter().any(|note| note.contains("an API server would refuse this"));
            Planned { answer: Answer::Taken, says_server_refuses, seconds }
        }
        Err(faults) => Planned { answer: Answer::Refused(faults), says_server_refuses: false, seconds },
    }
}

/// Whether the controller would say of a NodePool that the server takes that it is not valid: plans have no use for it.
pub(crate) fn is_not_ready(object: &Value) -> bool {
    object["kind"] == "NodePool"
        && karpenter_api::parse::<NodePool>(object.clone())
            .is_ok_and(|pool| !karpenter_api::validation::runtime::nodepool(&pool).is_empty())
}

/// An API server with our definitions.
pub(crate) struct Server(Client);

impl Server {
    pub(crate) async fn start() -> Self {
        let server = Self(Client::new(ApiServer::new(Options::new()).service(), "default"));
        for definition in crds() {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            server.post(path, &definition).await.unwrap();
        }
        for namespace in ["shop", "inference", "batch", "web", "karpenter", "kube-system"] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            // Some are there from the start.
            let _ = server.post("/api/v1/namespaces", &object).await;
        }
        for namespace in ["default", "shop"] {
            let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            let _ = server.post(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &object).await;
        }
        server
    }

    /// Asks for the object to be created as `kubectl create` would, nothing kept; the refusal in the server's words.
    pub(crate) async fn create(&self, object: &Value) -> Result<(), String> {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let Some((plural, namespaced)) = resource(&api_version, &kind) else {
            return Err(format!("no matches for kind {kind:?} in version {api_version:?}"));
        };
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        let place = match (namespaced, object.pointer("/metadata/namespace")) {
            (false, _) => String::new(),
            (true, Some(Value::String(namespace))) if !namespace.is_empty() => format!("/namespaces/{namespace}"),
            (true, _) => "/namespaces/default".to_owned(),
        };
        self.post(&format!("{root}/{api_version}{place}/{plural}?dryRun=All&fieldValidation=Strict"), object).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<(), String> {
        let request = http::Request::post(path).header("content-type", "application/json");
        // No path can have such a namespace in it, and no object such a one.
        let Ok(request) = request.body(kube::client::Body::from(body.to_string().into_bytes())) else {
            return Err("no such path".to_owned());
        };
        let response = self.0.send(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        assert!([200, 201, 400, 403, 404, 409, 422].contains(&code), "{path}: {code} {answer}");
        if code < 300 { Ok(()) } else { Err(answer["message"].as_str().unwrap_or_default().to_owned()) }
    }
}

/// The plural of a kind, and whether its objects live in namespaces.
fn resource(api_version: &str, kind: &str) -> Option<(&'static str, bool)> {
    if let Some(ours) = Kind::of(api_version, kind) {
        return Some((ours.plural(), ours.is_namespaced()));
    }
    let served = karpenter_kinds::review::served_kind(api_version, kind)?;
    Some((served.resource.plural, served.resource.namespaced))
}
