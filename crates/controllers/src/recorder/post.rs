//! An Event on its way to the server.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use serde_json::json;

use super::Event;

/// Sends one event. One that is lost is lost: it only tells of what is written elsewhere.
pub(crate) async fn post(client: Client, event: Event, now: Timestamp, unique: i128) {
    let object = &event.object;
    let namespace = if object.namespace.is_empty() { "default" } else { &object.namespace };
    let time = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let body = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{}.{unique:x}", object.name), "namespace": namespace},
        "involvedObject": {
            "apiVersion": object.api_version,
            "kind": object.kind,
            "namespace": object.namespace,
            "name": object.name,
            "uid": object.uid,
        },
        "reason": event.reason,
        "message": event.message,
        "type": if event.warning { "Warning" } else { "Normal" },
        "source": {"component": "karpenter"},
        "reportingComponent": "karpenter",
        "reportingInstance": "",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    });
    let path = format!("/api/v1/namespaces/{namespace}/events");
    let request = crate::write::request("POST", &path, Some("application/json"), body.to_string().into_bytes());
    if let Err(error) = client.request_text(request).await {
        tracing::debug!(reason = event.reason, %error, "an event was lost");
    }
}
