//! Carrying out writes, one after the other.

use crate::clock::{micro, wire};
use crate::key::Key;
use crate::op::{Event, Op, Source};
use crate::world::{Kind, Object};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

/// What a write brought to light.
#[derive(Clone, Debug)]
pub enum Seen {
    Object(Object),
    Gone { kind: Kind, key: Key, uid: String },
}

/// Why a write failed, cut by what can be done about it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    #[error("it does not exist")]
    NotFound,
    #[error("it has changed in the meantime")]
    Conflict,
    #[error("it exists already")]
    AlreadyExists,
    #[error("the server refused: {0}")]
    Refused(String),
    #[error("the server could not answer: {0}")]
    Unavailable(String),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match (status.code, status.reason.as_str()) {
                (404, _) => Self::NotFound,
                (409, "AlreadyExists") => Self::AlreadyExists,
                (409, _) => Self::Conflict,
                (429 | 500.., _) => Self::Unavailable(status.message.clone()),
                _ => Self::Refused(status.message.clone()),
            },
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// Carries out the writes in order and stops at the first that fails; answers what was seen until then.
pub async fn run(client: Client, ops: Vec<Op>, names: EventNames) -> (Vec<Seen>, Result<(), Failure>) {
    let mut seen = Vec::new();
    for (i, op) in ops.into_iter().enumerate() {
        match one(&client, op, names.nth(i)).await {
            Ok(Some(what)) => seen.push(what),
            Ok(None) => {}
            Err(failure) => return (seen, Err(failure)),
        }
    }
    (seen, Ok(()))
}

/// Event names carry a time that is unique in the process, as upstream's do.
#[derive(Clone, Copy, Debug)]
pub struct EventNames {
    pub now: Timestamp,
    pub first: i128,
}

impl EventNames {
    fn nth(self, i: usize) -> (Timestamp, i128) {
        (self.now, self.first + i as i128)
    }
}

async fn one(client: &Client, op: Op, event: (Timestamp, i128)) -> Result<Option<Seen>, Failure> {
    match op {
        Op::Create(object) => {
            let namespace = object.meta().namespace.clone().unwrap_or_default();
            write(client, "POST", object.kind(), object.kind().path(&namespace), &object).await
        }
        Op::CreateAndTell(object, told) => create_and_tell(client, object, told, event).await,
        Op::Update(object) => write(client, "PUT", object.kind(), path_of(&object, ""), &object).await,
        Op::UpdateStatus(object) => write(client, "PUT", object.kind(), path_of(&object, "/status"), &object).await,
        Op::PurgeNamespace(object) => super::purge::run(client, object).await,
        Op::Patch { kind, key, subresource, style, body } => {
            let slash = if subresource.is_empty() { "" } else { "/" };
            let path = format!("{}/{}{slash}{subresource}", kind.path(&key.namespace), key.name);
            let body = encode(&body)?;
            decoded(client, kind, request("PATCH", &path, Some(style.content_type()), body)).await
        }
        Op::Delete { kind, key, uid, grace_seconds, propagation } => {
            delete(client, kind, key, uid, grace_seconds, propagation).await
        }
        Op::Bind { pod, uid, node } => {
            let path = format!("{}/{}/binding", Kind::Pod.path(&pod.namespace), pod.name);
            let body = json!({"apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": &*pod.name, "namespace": &*pod.namespace, "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
            client.request_text(request("POST", &path, Some("application/json"), encode(&body)?)).await?;
            Ok(None)
        }
        Op::Event(told) => tell(client, &told, event).await.map(|()| None),
    }
}

async fn create_and_tell(
    client: &Client,
    object: Object,
    mut told: Event,
    event: (Timestamp, i128),
) -> Result<Option<Seen>, Failure> {
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    match write(client, "POST", object.kind(), object.kind().path(&namespace), &object).await {
        Ok(seen) => {
            if let Some(Seen::Object(made)) = &seen {
                told.message = told.message.replace("{}", made.meta().name.as_deref().unwrap_or_default());
            }
            tell(client, &told, event).await?;
            Ok(seen)
        }
        Err(failure) => {
            if let Failure::Refused(why) = &failure {
                let message = format!("Error creating: {why}");
                tell(client, &Event { warning: true, reason: "FailedCreate", message, ..told }, event).await?;
            }
            Err(failure)
        }
    }
}

async fn tell(client: &Client, told: &Event, event: (Timestamp, i128)) -> Result<(), Failure> {
    let path = format!("/api/v1/namespaces/{}/events", event_namespace(told));
    let body = encode(&event_body(told, event.0, event.1))?;
    if let Err(error) = client.request_text(request("POST", &path, Some("application/json"), body)).await {
        tracing::debug!(reason = told.reason, %error, "an event was lost");
    }
    Ok(())
}

async fn delete(
    client: &Client,
    kind: Kind,
    key: Key,
    uid: Option<String>,
    grace_seconds: Option<i64>,
    propagation: Option<&'static str>,
) -> Result<Option<Seen>, Failure> {
    let path = format!("{}/{}", kind.path(&key.namespace), key.name);
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if let Some(uid) = &uid {
        options["preconditions"] = json!({"uid": uid});
    }
    if let Some(seconds) = grace_seconds {
        options["gracePeriodSeconds"] = json!(seconds);
    }
    if let Some(policy) = propagation {
        options["propagationPolicy"] = json!(policy);
    }
    let answer = client.request_text(request("DELETE", &path, Some("application/json"), encode(&options)?)).await;
    let text = match answer.map_err(Failure::from) {
        Ok(text) => text,
        Err(Failure::NotFound) => return Ok(None), // Somebody was faster.
        Err(other) => return Err(other),
    };
    let Ok(object) = kind.decode(&text) else { return Ok(gone(kind, key, uid)) };
    // The answer is a Status for some kinds, which decodes into an object without a name.
    if object.meta().name.is_none() {
        return Ok(gone(kind, key, uid));
    }
    let pending = object.meta().deletion_timestamp.is_some()
        && (kind == Kind::Pod && grace_seconds != Some(0)
            || object.meta().finalizers.as_ref().is_some_and(|f| !f.is_empty()));
    if pending {
        return Ok(Some(Seen::Object(object)));
    }
    let uid = uid.or_else(|| object.meta().uid.clone());
    // A pod that is marked only now may be gone already when nobody runs it; the watch knows.
    if kind == Kind::Pod && grace_seconds != Some(0) { Ok(None) } else { Ok(gone(kind, key, uid)) }
}

fn gone(kind: Kind, key: Key, uid: Option<String>) -> Option<Seen> {
    uid.map(|uid| Seen::Gone { kind, key, uid })
}

pub(super) async fn write(
    client: &Client,
    method: &str,
    kind: Kind,
    path: String,
    object: &Object,
) -> Result<Option<Seen>, Failure> {
    let body = object.encode().map_err(|e| Failure::Refused(e.to_string()))?;
    decoded(client, kind, request(method, &path, Some("application/json"), body)).await
}

async fn decoded(client: &Client, kind: Kind, request: http::Request<Vec<u8>>) -> Result<Option<Seen>, Failure> {
    let text = client.request_text(request).await?;
    kind.decode(&text).map(|object| Some(Seen::Object(object))).map_err(|e| Failure::Refused(e.to_string()))
}

pub(super) fn path_of(object: &Object, suffix: &str) -> String {
    let meta = object.meta();
    let path = object.kind().path(meta.namespace.as_deref().unwrap_or_default());
    format!("{path}/{}{suffix}", meta.name.as_deref().unwrap_or_default())
}

fn encode(body: &Value) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body).map_err(|e| Failure::Refused(e.to_string()))
}

pub(crate) fn request(method: &str, path: &str, content_type: Option<&str>, body: Vec<u8>) -> http::Request<Vec<u8>> {
    let mut builder = http::Request::builder().method(method).uri(path);
    if let Some(content_type) = content_type {
        builder = builder.header(http::header::CONTENT_TYPE, content_type);
    }
    builder.body(body).expect("object names are valid in a path")
}

/// Events of cluster-scoped objects live in `default`.
fn event_namespace(event: &Event) -> &str {
    if event.key.namespace.is_empty() { "default" } else { &event.key.namespace }
}

fn event_body(event: &Event, now: Timestamp, unique: i128) -> Value {
    let mut body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{}.{unique:x}", event.key.name), "namespace": event_namespace(event)},
        "involvedObject": {
            "kind": event.kind, "apiVersion": event.api_version, "name": &*event.key.name, "uid": event.uid,
        },
        "reason": event.reason,
        "message": event.message,
        "type": if event.warning { "Warning" } else { "Normal" },
    });
    if !event.key.namespace.is_empty() {
        body["involvedObject"]["namespace"] = json!(&*event.key.namespace);
    }
    let component = match &event.source {
        Source::Controller(name) => {
            body["source"] = json!({"component": name});
            *name
        }
        Source::Kubelet { node } => {
            body["source"] = json!({"component": "kubelet", "host": node});
            body["reportingInstance"] = json!(node);
            "kubelet"
        }
        Source::Scheduler { action } => {
            // The scheduler tells through events.k8s.io, which fills these fields and leaves the old ones empty.
            body["action"] = json!(action);
            body["eventTime"] = json!(micro(now));
            body["reportingInstance"] = json!("default-scheduler");
            body["reportingComponent"] = json!("default-scheduler");
            body["source"] = json!({});
            return body;
        }
    };
    body["reportingComponent"] = json!(component);
    body["firstTimestamp"] = json!(wire(now));
    body["lastTimestamp"] = json!(wire(now));
    body["count"] = json!(1);
    body
}
