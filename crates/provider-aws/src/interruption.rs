//! The interruption queue: EC2 says that an instance will go, and its claim is deleted while there is time.
//!
//! A message is deleted only after it was handled; until then the queue delivers it again. One that cannot be read is
//! said and deleted, so that it never holds up the others.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::{NodeClaim, labels};
use karpenter_ec2::catalogue::CapacityClass;
use karpenter_ec2::interruption::{Action, Kind, Message, parse};
use karpenter_ec2::labels as aws_labels;
use karpenter_provider::{BoxError, Notice, ProviderError, Severity, Subject};
use kube::Api;
use kube::api::{DeleteParams, Preconditions};

use crate::calls::QueueMessage;
use crate::instances::instance_id;
use crate::node_class::is_status;
use crate::objects::claim_subject;
use crate::provider::Parts;
use crate::unavailable::Scope;

const AT_ONCE: usize = 10;

pub struct Interruption {
    queue: String,
    url: Mutex<Option<String>>,
}

impl Interruption {
    pub fn new(queue: &str) -> Self {
        Self { queue: queue.to_owned(), url: Mutex::new(None) }
    }

    /// One long poll, and what came of it. The next follows at once.
    pub async fn round(&self, parts: &Parts, client: &kube::Client) -> Result<Duration, ProviderError> {
        let failed = |what: &'static str| move |error| ProviderError::new(what, error);
        let url = self.url(parts).await.map_err(failed("finding the interruption queue"))?;
        let messages = match parts.aws.sqs.receive_messages(&url).await {
            Ok(messages) => messages,
            Err(error) => {
                // The queue may have been made anew under another address.
                *self.url.lock().unwrap_or_else(PoisonError::into_inner) = None;
                return Err(ProviderError::new("receiving interruption messages", error));
            }
        };
        if messages.is_empty() {
            return Ok(Duration::ZERO);
        }
        let claims = Api::<NodeClaim>::all(client.clone()).list(&Default::default()).await;
        let claims = claims.map_err(|error| ProviderError::new("listing NodeClaims", error))?;
        let by_instance: BTreeMap<String, NodeClaim> = claims
            .items
            .into_iter()
            .filter_map(|claim| {
                let id = instance_id(claim.status.as_ref()?.provider_id.as_ref()?)?.to_owned();
                Some((id, claim))
            })
            .collect();
        let handle = |message: QueueMessage| handle(parts, client, &url, &by_instance, message);
        let mut handled = futures_util::stream::iter(messages.into_iter().map(handle)).buffered(AT_ONCE);
        let mut failures = Vec::new();
        while let Some(result) = handled.next().await {
            failures.extend(result.err().map(|error| error.to_string()));
        }
        if failures.is_empty() {
            return Ok(Duration::ZERO);
        }
        Err(ProviderError::new("handling interruption messages", failures.join("; ")))
    }

    async fn url(&self, parts: &Parts) -> crate::calls::Result<String> {
        let known = self.url.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(url) = known {
            return Ok(url);
        }
        let url = parts.aws.sqs.get_queue_url(&self.queue).await?;
        *self.url.lock().unwrap_or_else(PoisonError::into_inner) = Some(url.clone());
        Ok(url)
    }
}

async fn handle(
    parts: &Parts,
    client: &kube::Client,
    url: &str,
    claims: &BTreeMap<String, NodeClaim>,
    received: QueueMessage,
) -> Result<(), BoxError> {
    match parse(&received.body) {
        Ok(message) => {
            parts.observer.message_received(message.kind.as_str(), message.time);
            for claim in message.instances.iter().filter_map(|id| claims.get(id)) {
                act(parts, client, &message, claim).await?;
            }
        }
        Err(error) => tracing::warn!(message = %received.id, %error, "an interruption message cannot be read"),
    }
    parts.aws.sqs.delete_message(url, &received.receipt_handle).await?;
    parts.observer.message_deleted();
    Ok(())
}

async fn act(parts: &Parts, client: &kube::Client, message: &Message, claim: &NodeClaim) -> Result<(), BoxError> {
    let Some((severity, reason, text)) = words(message.kind) else { return Ok(()) };
    let mut subjects = vec![claim_subject(claim)];
    subjects.extend(node_subject(client, claim).await?);
    let tell = |severity: Severity, reason: &'static str, text: &str| {
        for subject in &subjects {
            let (subject, message) = (subject.clone(), text.to_owned());
            parts.recorder.publish(Notice { subject, severity, reason, message, dedupe: Vec::new() });
        }
    };
    tell(severity, reason, text);
    learn(parts, message.kind, claim);
    if message.kind.action() != Action::Delete || claim.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let name = claim.metadata.name.clone().unwrap_or_default();
    let preconditions = Preconditions { uid: claim.metadata.uid.clone(), ..Preconditions::default() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match Api::<NodeClaim>::all(client.clone()).delete(&name, &params).await {
        // Gone, or another claim of the same name: either way not ours to delete.
        Err(error) if is_status(&error, 404) || is_status(&error, 409) => return Ok(()),
        other => {
            other?;
        }
    }
    tracing::info!(claim = %name, reason = message.kind.as_str(), "deleting a claim whose instance is interrupted");
    tell(Severity::Warning, "TerminatingOnInterruption", "Interruption triggered termination for the NodeClaim");
    let label =
        |key: &str| claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
    parts.observer.interrupted(message.kind.as_str(), &label(labels::NODEPOOL), &label(labels::CAPACITY_TYPE));
    Ok(())
}

/// What to tell about the claim and its node.
fn words(kind: Kind) -> Option<(Severity, &'static str, &'static str)> {
    let warning = |reason, text| Some((Severity::Warning, reason, text));
    match kind {
        Kind::SpotInterrupted => warning("SpotInterrupted", "Spot interruption warning was triggered"),
        Kind::CapacityReservationInterrupted => {
            warning("CapacityReservationInstanceInterrupted", "Capacity Reservation interruption warning was triggered")
        }
        Kind::InstanceStopped => warning("InstanceStopping", "Instance is stopping"),
        Kind::InstanceTerminated => warning("InstanceTerminating", "Instance is terminating"),
        Kind::ScheduledChange => warning("InstanceUnhealthy", "An unhealthy warning was triggered for the instance"),
        Kind::RebalanceRecommendation => {
            Some((Severity::Normal, "SpotRebalanceRecommendation", "Spot rebalance recommendation was triggered"))
        }
        Kind::NoOp => None,
    }
}

/// A pool that takes instances back has none to give.
fn learn(parts: &Parts, kind: Kind, claim: &NodeClaim) {
    let now = (parts.now)();
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    match kind {
        Kind::SpotInterrupted => {
            if let (Some(instance_type), Some(zone)) = (label(labels::INSTANCE_TYPE), label(labels::ZONE)) {
                parts.unavailable.mark_pool(CapacityClass::Spot, instance_type, zone, &Scope::default(), now);
            }
        }
        Kind::CapacityReservationInterrupted => {
            if let Some(id) = label(aws_labels::CAPACITY_RESERVATION_ID) {
                parts.reservations.exhausted(id);
            }
        }
        Kind::RebalanceRecommendation
        | Kind::InstanceStopped
        | Kind::InstanceTerminated
        | Kind::ScheduledChange
        | Kind::NoOp => {}
    }
}

async fn node_subject(client: &kube::Client, claim: &NodeClaim) -> Result<Option<Subject>, kube::Error> {
    let Some(name) = claim.status.as_ref().and_then(|status| status.node_name.clone()) else { return Ok(None) };
    let node = Api::<Node>::all(client.clone()).get_opt(&name).await?;
    Ok(node.map(|node| Subject {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name,
        uid: node.metadata.uid.unwrap_or_default(),
    }))
}
