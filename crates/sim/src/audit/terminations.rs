//! Whether an instance that the controllers terminate has pods on it that its drain must wait for.

use futures_util::FutureExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use karpenter_api::labels::{DISRUPTED_TAINT, TERMINATION_TIMESTAMP};
use karpenter_apiserver::ApiServer;
use karpenter_aws_sim::SimInstance;
use serde_json::Value;
use tower::Service as _;

use super::Audit;

/// So long past the end of its grace period a pod is waited for.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// Looks at instances that run and are about to be terminated.
pub(crate) fn observer(server: &ApiServer, audit: &Audit) -> impl Fn(&[SimInstance]) + Send + Sync + 'static {
    let (server, audit) = (server.clone(), audit.clone());
    move |instances| {
        for instance in instances {
            audit.terminated();
            let now = audit.clock().now();
            let id = &instance.instance.id;
            let Some(node) = instance.node_name.as_deref() else { continue };
            let claims = items(&server, CLAIMS);
            let claim =
                claims.iter().find(|claim| claim["status"]["providerID"].as_str().is_some_and(|of| of.ends_with(id)));
            if claim.is_some_and(|claim| is_over(claim, now)) {
                continue;
            }
            let pods = items(&server, &format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"));
            let waiting: Vec<&str> = pods
                .iter()
                .filter(|pod| must_be_waited_for(pod, now))
                .map(|pod| text(&pod["metadata"]["name"]))
                .collect();
            if !waiting.is_empty() {
                let of = claim.map_or("no claim", |claim| text(&claim["metadata"]["name"]));
                let pods = waiting.join(" ");
                audit.violated(format!("{now} instance {id} of {of} was terminated with {pods} on {node}"));
            }
        }
    }
}

/// Whether the drain had a deadline, which has passed.
fn is_over(claim: &Value, now: Timestamp) -> bool {
    let deadline = claim["metadata"]["annotations"][TERMINATION_TIMESTAMP].as_str();
    deadline.and_then(|text| text.parse::<Timestamp>().ok()).is_some_and(|deadline| deadline <= now)
}

fn must_be_waited_for(pod: &Value, now: Timestamp) -> bool {
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let mut owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let of_node = owners.any(|owner| owner["kind"] == "Node");
    let mut tolerations = pod["spec"]["tolerations"].as_array().into_iter().flatten();
    let stays = tolerations.any(|toleration| {
        let effect = text(&toleration["effect"]);
        let key = text(&toleration["key"]);
        let everything = toleration["operator"] == "Exists" && (key.is_empty() || key == DISRUPTED_TAINT);
        let value = key == DISRUPTED_TAINT && text(&toleration["value"]).is_empty();
        (effect.is_empty() || effect == "NoSchedule") && (everything || value)
    });
    let deletion = pod["metadata"]["deletionTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let stuck = deletion.is_some_and(|deletion| now.duration_since(deletion) > STUCK_AFTER);
    !(ended || of_node || stays || stuck)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What is there at this very moment. The server is in this process and waits for nothing to answer an observer.
fn items(server: &ApiServer, path: &str) -> Vec<Value> {
    let answer = async {
        let request = Request::get(path).body(kube::client::Body::empty()).ok()?;
        let answer = server.observer().call(request).await.ok()?;
        let bytes = answer.into_body().collect().await.ok()?.to_bytes();
        serde_json::from_slice::<Value>(&bytes).ok()
    };
    let mut list = answer.now_or_never().flatten().expect("the server answers at once");
    list["items"].as_array_mut().map(std::mem::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_has_to_be_waited_for() {
        let now: Timestamp = "2026-01-05T12:00:00Z".parse().unwrap();
        let exists = json!({"tolerations": [{"operator": "Exists"}]});
        let of_taint = json!({"tolerations": [{"key": DISRUPTED_TAINT, "operator": "Exists", "effect": "NoSchedule"}]});
        let other =
            json!({"tolerations": [{"key": "a", "operator": "Exists"}, {"operator": "Exists", "effect": "NoExecute"}]});
        for (pod, want) in [
            (json!({"metadata": {}, "status": {"phase": "Running"}}), true),
            (json!({"metadata": {}, "status": {"phase": "Pending"}}), true),
            (json!({"metadata": {}, "status": {"phase": "Succeeded"}}), false),
            (json!({"metadata": {"ownerReferences": [{"kind": "Node"}]}}), false),
            (json!({"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}}), true),
            (json!({"metadata": {}, "spec": exists}), false),
            (json!({"metadata": {}, "spec": of_taint}), false),
            (json!({"metadata": {}, "spec": other}), true),
            (json!({"metadata": {"deletionTimestamp": "2026-01-05T11:59:30Z"}}), true),
            (json!({"metadata": {"deletionTimestamp": "2026-01-05T11:58:30Z"}}), false),
        ] {
            assert_eq!(must_be_waited_for(&pod, now), want, "{pod}");
        }
        let claim = |deadline: &str| json!({"metadata": {"annotations": {TERMINATION_TIMESTAMP: deadline}}});
        assert!(is_over(&claim("2026-01-05T12:00:00Z"), now) && !is_over(&claim("2026-01-05T12:00:01Z"), now));
    }
}
