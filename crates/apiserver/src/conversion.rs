//! Conversion webhooks: custom resources in the versions of their kind, converted by somebody else.
//!
//! Requests are answered under one lock and without waiting, and a webhook must be waited for. So a conversion that is
//! not known yet is noted down, the request gives up before it writes anything, the webhook is called without the lock,
//! and the request starts again, now with the conversion known.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::registry::Served;
use crate::server::Inner;
use crate::store::Object;

mod post;

/// How often a request starts again before it is given up: each time something else was changed under it.
pub(crate) const ROUNDS: usize = 10;
/// How many conversions are remembered: they are only kept from one start of a request to the next.
const MOST_KNOWN: usize = 8192;

/// Somebody who converts, in the process.
pub(crate) type Handler = Arc<dyn Fn(&Value) -> Value + Send + Sync>;
pub(crate) type Handlers = Mutex<BTreeMap<String, Handler>>;

/// The webhook of a CRD.
pub(crate) struct Webhook {
    url: String,
    /// Whom to trust, in PEM.
    ca: Vec<u8>,
    /// The first version of the review that both sides speak.
    review: Option<&'static str>,
    known: Mutex<FxHashMap<String, Value>>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A conversion nobody knows yet.
struct Missing {
    webhook: Arc<Webhook>,
    value: Value,
    desired: String,
}

thread_local! {
    /// What the request that runs on this thread is missing: it never waits, so it is the only one.
    static MISSING: RefCell<Vec<Missing>> = const { RefCell::new(Vec::new()) };
}

impl Webhook {
    pub(crate) fn of(crd: &Value) -> Option<Arc<Webhook>> {
        use base64::Engine as _;
        let conversion = &crd["spec"]["conversion"];
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let config = &conversion["webhook"]["clientConfig"];
        let service = &config["service"];
        let text = |key: &str| service[key].as_str().unwrap_or_default();
        let url = config["url"].as_str().map(str::to_owned).unwrap_or_else(|| {
            let port = service["port"].as_i64().unwrap_or(443);
            format!("https://{}.{}.svc:{port}{}", text("name"), text("namespace"), text("path"))
        });
        let ca = config["caBundle"].as_str().unwrap_or_default();
        let versions = conversion["webhook"]["conversionReviewVersions"].as_array();
        let review = versions.into_iter().flatten().find_map(|version| match version.as_str() {
            Some("v1") => Some("v1"),
            Some("v1beta1") => Some("v1beta1"),
            _ => None,
        });
        Some(Arc::new(Webhook {
            url,
            ca: base64::engine::general_purpose::STANDARD.decode(ca).unwrap_or_default(),
            review,
            known: Mutex::default(),
        }))
    }

    fn lookup(&self, key: &str) -> Option<Value> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn remember(&self, key: String, value: Value) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(key, value);
    }
}

/// What a conversion depends on: a request that starts again makes up another name, uid and time, and of the metadata
/// only labels and annotations are the webhook's to change.
fn key(value: &Value, desired: &str) -> String {
    let metadata = &value["metadata"];
    let mut out = format!("{desired}\n{}\n{}\n", metadata["labels"], metadata["annotations"]);
    for (key, value) in value.as_object().into_iter().flatten().filter(|(key, _)| *key != "metadata") {
        out.push_str(&format!("{key}={value}\n"));
    }
    out
}

/// The object in the desired version, if that is known; otherwise it is noted down, and what comes back is no answer.
pub(crate) fn convert(webhook: &Arc<Webhook>, mut value: Value, desired: &str) -> Value {
    if value["apiVersion"] == desired {
        return value;
    }
    if let Some(found) = webhook.lookup(&key(&value, desired)) {
        return with_metadata_of(&value, found);
    }
    let missing = Missing { webhook: webhook.clone(), value: value.clone(), desired: desired.to_owned() };
    MISSING.with_borrow_mut(|all| all.push(missing));
    value["apiVersion"] = Value::from(desired);
    value
}

/// Whether the request at hand should give up before it writes.
pub(crate) fn is_waiting() -> bool {
    MISSING.with_borrow(|all| !all.is_empty())
}

/// The answer of a request that gives up; nobody sees it.
pub(crate) fn waits() -> ApiError {
    ApiError::internal("the request waits for a conversion")
}

/// What a request was missing, to be found before it starts again.
pub(crate) struct Wanted(Vec<Missing>);

impl Wanted {
    /// What was noted down on this thread.
    pub(crate) fn take() -> Option<Wanted> {
        let missing = MISSING.with_borrow_mut(std::mem::take);
        (!missing.is_empty()).then_some(Wanted(missing))
    }

    pub(crate) async fn find(self, inner: &Inner) -> Result<(), ApiError> {
        let mut rest = self.0;
        while let Some(first) = rest.first() {
            let (webhook, desired) = (first.webhook.clone(), first.desired.clone());
            let (same, others): (Vec<Missing>, Vec<Missing>) = rest
                .into_iter()
                .partition(|missing| Arc::ptr_eq(&missing.webhook, &webhook) && missing.desired == desired);
            rest = others;
            let mut values: Vec<Value> = Vec::new();
            for missing in same {
                if !values.contains(&missing.value) {
                    values.push(missing.value);
                }
            }
            let converted = call(inner, &webhook, &values, &desired).await?;
            for (value, converted) in values.iter().zip(converted) {
                webhook.remember(key(value, &desired), converted);
            }
        }
        Ok(())
    }
}

/// Objects as they are stored, in the served version; for those who can wait.
pub(crate) async fn objects(
    inner: &Inner,
    served: &Served,
    objects: Vec<Arc<Object>>,
) -> Result<Vec<Arc<Object>>, ApiError> {
    let Some(webhook) = served.custom().and_then(|custom| custom.webhook.as_ref()) else { return Ok(objects) };
    let desired = served.api_version();
    let values: Vec<Value> = objects.iter().map(|object| object.value()).collect();
    let foreign: Vec<Value> = values.iter().filter(|value| value["apiVersion"] != desired).cloned().collect();
    if foreign.is_empty() {
        return Ok(objects);
    }
    let mut converted = call(inner, webhook, &foreign, &desired).await?.into_iter();
    let mut next = |object: Arc<Object>, value: &Value| {
        if value["apiVersion"] == desired {
            return object;
        }
        let value = converted.next().unwrap_or_default();
        Arc::new(object.with_json(crate::render::bytes(&value)))
    };
    Ok(objects.into_iter().zip(&values).map(|(object, value)| next(object, value)).collect())
}

/// The same for those who cannot, by way of what is known.
pub(crate) fn known_objects(served: &Served, objects: Vec<Arc<Object>>) -> Vec<Arc<Object>> {
    let Some(webhook) = served.custom().and_then(|custom| custom.webhook.as_ref()) else { return objects };
    let desired = served.api_version();
    let one = |object: Arc<Object>| {
        let value = object.value();
        if value["apiVersion"] == desired {
            return object;
        }
        let value = convert(webhook, value, &desired);
        Arc::new(object.with_json(crate::render::bytes(&value)))
    };
    objects.into_iter().map(one).collect()
}

async fn call(inner: &Inner, webhook: &Webhook, values: &[Value], desired: &str) -> Result<Vec<Value>, ApiError> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let kind = values.first().map(|first| format!("{}, Kind={}", text(first, "apiVersion"), text(first, "kind")));
    let kind = kind.unwrap_or_default();
    let failed = |why: String| ApiError::new(500, "", why);
    let Some(review) = webhook.review else { return Err(failed("no supported conversion review versions".into())) };
    let uid = inner.state().ids.uid();
    let api_version = format!("apiextensions.k8s.io/{review}");
    let request = json!({"kind": "ConversionReview", "apiVersion": api_version,
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": values}});
    let handler = inner.handlers.lock().unwrap_or_else(PoisonError::into_inner).get(&webhook.url).cloned();
    let answer = match handler {
        Some(handler) => Ok(handler(&request)),
        None => post::post(&webhook.url, &webhook.ca, &request).await,
    };
    let converted = answer.and_then(|answer| converted_objects(answer, &api_version, &uid));
    let converted = converted.map_err(|why| failed(format!("conversion webhook for {kind} failed: {why}")))?;
    if converted.len() != values.len() {
        let (got, want) = (converted.len(), values.len());
        return Err(failed(format!("conversion webhook for {kind} returned {got} objects, expected {want}")));
    }
    let both = values.iter().zip(converted);
    both.map(|(value, converted)| checked(value, converted, desired))
        .collect::<Result<_, String>>()
        .map_err(|why| failed(format!("conversion webhook for {kind} returned invalid {why}")))
}

fn converted_objects(mut answer: Value, api_version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if api_version.ends_with("/v1") {
        let got = (text(&answer["apiVersion"]), text(&answer["kind"]));
        if got != (api_version.to_owned(), "ConversionReview".to_owned()) {
            return Err(format!(
                "expected webhook response of {api_version}, Kind=ConversionReview, got {}, Kind={}",
                if got.0.is_empty() { "/" } else { &got.0 },
                got.1
            ));
        }
    }
    let response = &mut answer["response"];
    if !response.is_object() {
        return Err("no response provided".into());
    }
    if api_version.ends_with("/v1") && response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    if response["result"]["status"] != "Success" {
        let message = text(&response["result"]["message"]);
        if !message.is_empty() {
            return Err(message);
        }
        let status = text(&response["result"]["status"]);
        return Err(format!("response.result.status was '{status}', not 'Success'"));
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// A converted object must be the one that was sent; of its metadata, labels and annotations may differ.
fn checked(original: &Value, converted: Value, desired: &str) -> Result<Value, String> {
    let text =
        |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    if converted["apiVersion"] != desired {
        let got = text(&converted, "/apiVersion");
        return Err(format!("object at index 0: invalid groupVersion (expected {desired}, received {got})"));
    }
    if converted["kind"] != original["kind"] {
        let (want, got) = (text(original, "/kind"), text(&converted, "/kind"));
        return Err(format!("object at index 0: invalid kind (expected {want}, received {got})"));
    }
    for (what, pointer) in [("name", "/metadata/name"), ("namespace", "/metadata/namespace"), ("UID", "/metadata/uid")]
    {
        let (want, got) = (text(original, pointer), text(&converted, pointer));
        if want != got {
            return Err(format!("object: must have the same {what}: {want} != {got}"));
        }
    }
    if !converted["metadata"].is_object() {
        return Err("metadata: missing metadata in converted object".into());
    }
    Ok(with_metadata_of(original, converted))
}

fn with_metadata_of(original: &Value, mut converted: Value) -> Value {
    let mut metadata = original["metadata"].clone();
    for key in ["labels", "annotations"] {
        match converted["metadata"].get(key) {
            Some(value) => metadata[key] = value.clone(),
            None => {
                if let Some(metadata) = metadata.as_object_mut() {
                    metadata.shift_remove(key);
                }
            }
        }
    }
    converted["metadata"] = metadata;
    converted
}
