//! Once a claim has its node, the instance is told both names.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use karpenter_api::{NodeClaim, labels};
use karpenter_provider::ProviderError;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use crate::calls::{Instance, Tags};
use crate::instances::{Look, instance_id};
use crate::node_class::is_status;
use crate::permissions::Feature;
use crate::provider::Parts;

/// CreateTags shares its limit with launches.
pub const PAUSE: Duration = Duration::from_secs(1);

/// How long a look ahead counts. With one CreateTags a second, a read for each claim would be as many reads; so the
/// instances of all claims that wait for their tags are read at once. No other read counts, however recent.
const AHEAD: Duration = Duration::from_secs(15);
/// As many as one call takes.
const TOGETHER: usize = 500;

/// What was read for claims whose turn comes later, by instance: what the claim said then, and when.
#[derive(Default)]
pub(crate) struct Ahead(Mutex<ReadAhead>);

type ReadAhead = BTreeMap<String, (Asked, Instant, Instance)>;

/// What a claim says of its tags. Somebody who takes a tag away asks for it again by taking away the annotation.
type Asked = [Option<String>; 2];

fn asked(claim: &NodeClaim) -> Asked {
    let annotations = claim.metadata.annotations.as_ref();
    [labels::INSTANCE_TAGGED, labels::CLUSTER_NAME_TAGGED].map(|key| annotations.and_then(|all| all.get(key)).cloned())
}

impl Ahead {
    /// A claim that asks otherwise than it did may do so because of what somebody did to its instance: it is read anew.
    fn take(&self, id: &str, claim: &NodeClaim) -> Option<Instance> {
        let mut held = self.lock();
        held.retain(|_, (_, at, _)| at.elapsed() <= AHEAD);
        let (before, _, instance) = held.remove(id)?;
        (before == asked(claim)).then_some(instance)
    }

    fn lock(&self) -> MutexGuard<'_, ReadAhead> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether there is anything to do about the claim.
pub fn is_taggable(claim: &NodeClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    let annotated = |key: &str| annotations.and_then(|all| all.get(key)).is_some_and(|value| value == "true");
    let named = claim.status.as_ref().and_then(|status| status.node_name.as_ref()).is_some_and(|name| !name.is_empty());
    let tagged = annotated(labels::INSTANCE_TAGGED) && annotated(labels::CLUSTER_NAME_TAGGED);
    named && !tagged && claim.metadata.deletion_timestamp.is_none()
}

/// One claim. Callers do one at a time; the pause after a call is taken here.
pub async fn tag(parts: &Parts, client: &kube::Client, claim: &NodeClaim) -> Result<(), ProviderError> {
    let status = claim.status.clone().unwrap_or_default();
    let (Some(node), Some(provider_id)) = (status.node_name, status.provider_id) else { return Ok(()) };
    // Without a readable id there is nothing to tag until it changes.
    let (true, Some(id)) = (is_taggable(claim), instance_id(&provider_id)) else { return Ok(()) };
    let name = claim.metadata.name.clone().unwrap_or_default();
    let wanted = [
        ("Name", node),
        (labels::NODECLAIM_TAG, name.clone()),
        (labels::EKS_CLUSTER_NAME_TAG, parts.settings.cluster_name.clone()),
    ];
    let lacks = |instance: &Instance| wanted.iter().any(|(key, _)| !instance.tags.contains_key(*key));
    let instance = match read(parts, id, claim, lacks).await {
        Ok(instance) => instance,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(ProviderError::new("describing the instance", error)),
    };
    let mut missing: Tags = wanted
        .into_iter()
        .filter(|(key, _)| !instance.tags.contains_key(*key))
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    if !parts.permissions.allow(Feature::ClusterNameTag, (parts.now)()) {
        missing.remove(labels::EKS_CLUSTER_NAME_TAG);
    }
    if !missing.is_empty() {
        match send(parts, id, missing).await {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other.map_err(|error| ProviderError::new("tagging the instance", error))?,
        }
    }
    let done = json!({labels::INSTANCE_TAGGED: "true", labels::CLUSTER_NAME_TAGGED: "true"});
    let patch = json!({"metadata": {"annotations": done}});
    match Api::<NodeClaim>::all(client.clone()).patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(error) if is_status(&error, 404) => Ok(()),
        other => other.map(|_| ()).map_err(|error| ProviderError::new("annotating the NodeClaim", error)),
    }
}

/// Past the cache, so that what others took away since it was filled is put back; and what will be asked for next along
/// with it. What was read ahead and lacks nothing may lack something by now, and nobody would look again.
async fn read(
    parts: &Parts,
    id: &str,
    claim: &NodeClaim,
    lacks: impl Fn(&Instance) -> bool,
) -> crate::calls::Result<Instance> {
    if let Some(instance) = parts.tags_ahead.take(id, claim).filter(lacks) {
        return Ok(instance);
    }
    // Whoever cannot be found out about is read when it is their turn.
    let claims = parts.objects.node_claims().await.unwrap_or_default();
    let next = claims.iter().filter(|claim| is_taggable(claim)).filter_map(|claim| {
        let next = instance_id(claim.status.as_ref()?.provider_id.as_deref()?)?;
        (next != id).then_some((next, asked(claim)))
    });
    let next: Vec<(&str, Asked)> = next.take(TOGETHER - 1).collect();
    let all = std::iter::once(id).chain(next.iter().map(|(id, _)| *id));
    let mut answers = join_all(all.map(|id| parts.instances.get(id, Look::Fresh))).await;
    let mine = answers.remove(0);
    let now = Instant::now();
    let read = next.into_iter().zip(answers);
    let read = read.filter_map(|((id, asked), answer)| Some((id.to_owned(), (asked, now, answer.ok()?))));
    parts.tags_ahead.lock().extend(read);
    mine
}

/// Policies of older releases allow the names of node and claim only.
async fn send(parts: &Parts, id: &str, mut tags: Tags) -> crate::calls::Result<()> {
    let sent = parts.instances.tag(id, &tags).await;
    tokio::time::sleep(PAUSE).await;
    let denied = match sent {
        Err(error) if error.is_denied() => error,
        other => return other,
    };
    if tags.remove(labels::EKS_CLUSTER_NAME_TAG).is_none() {
        return Err(denied);
    }
    if !tags.is_empty() {
        let sent = parts.instances.tag(id, &tags).await;
        tokio::time::sleep(PAUSE).await;
        sent?;
    }
    parts.permissions.denied(Feature::ClusterNameTag, &denied.to_string(), (parts.now)());
    Ok(())
}
