//! Objects that cannot be read, named to people. What they hold stays held; somebody has to look at them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_index::{Kind, NodeClassKind, Unreadable};

use crate::context::Context;
use crate::recorder::{Event, Limit, ObjectRef};

/// How soon is looked whether an object can be read by now, where nothing else tells.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// A Kubernetes that writes what we do not know writes it on many objects at once.
const LIMIT: Limit = Limit { per_second: 1, burst: 20 };

/// Objects whose Event waits for its turn.
#[derive(Debug, Default)]
pub(crate) struct Untold(Mutex<VecDeque<Arc<Unreadable>>>);

/// Tells of what could not be read since the last time: a log line, an Event and the gauge. Events that come too many at
/// once are sent later, as long as there is something to tell.
pub(crate) fn publish(context: &Context) {
    let mut untold = context.untold.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((news, counts)) = context.index.take_unreadable() {
        for one in &news {
            tracing::warn!(kind = one.kind.name(), object = %one.key, reason = &*one.why, "an object cannot be read");
        }
        untold.extend(news);
        context.metrics.choices.unreadable(&counts);
    }
    while let Some(one) = untold.front() {
        if context.index.is_unreadable(one) && !context.recorder.publish(event(one, context)) {
            return;
        }
        untold.pop_front();
    }
}

fn event(one: &Unreadable, context: &Context) -> Event {
    let message = format!("{}: {}", consequence(one), one.why);
    let event = Event::warning(object(one, &context.index.node_class_kind()), "Unreadable", message).limited(LIMIT);
    event.same([one.kind.name().to_owned(), one.key.to_string(), one.why.to_string()])
}

/// What it means that this object cannot be read.
fn consequence(one: &Unreadable) -> &'static str {
    match (one.kind, one.partly) {
        (Kind::NodeClaim, false) => "Cannot be read. Its instance is kept, and nothing is done to it",
        (Kind::Node, false) => "Cannot be read. Its instance is kept, and nothing is done to it",
        (Kind::Pod, _) => "Cannot be read in whole. The pod counts on its node, as strictly as it may be meant",
        (Kind::PodDisruptionBudget, _) => "Cannot be read. No pod of its namespace is moved to save money",
        (Kind::NodePool, _) => "Cannot be read. Its nodes are not disrupted",
        (Kind::NodeClass, _) => "Cannot be read. Nothing is launched from it, and its nodes are not disrupted",
        (_, true) => "Cannot be read in whole. What is not known is taken for the strictest it may mean",
        (_, false) => "Cannot be read, and counts as it last was",
    }
}

fn object(one: &Unreadable, class: &NodeClassKind) -> ObjectRef {
    let metadata = ObjectMeta {
        namespace: Some(one.key.namespace.to_string()),
        name: Some(one.key.name.to_string()),
        uid: Some(one.uid.to_string()),
        ..ObjectMeta::default()
    };
    let (api_version, kind) = match one.kind {
        Kind::NodeClass => (crate::transitions::api_version(class), class.kind),
        Kind::Namespace
        | Kind::PersistentVolume
        | Kind::PersistentVolumeClaim
        | Kind::Service
        | Kind::ReplicationController
        | Kind::PodTemplate
        | Kind::Node
        | Kind::Pod => ("v1", one.kind.name()),
        Kind::StorageClass | Kind::CSINode | Kind::VolumeAttachment => ("storage.k8s.io/v1", one.kind.name()),
        Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet => ("apps/v1", one.kind.name()),
        Kind::PodDisruptionBudget => ("policy/v1", one.kind.name()),
        Kind::CapacityBuffer => ("autoscaling.x-k8s.io/v1beta1", one.kind.name()),
        Kind::NodeOverlay => ("karpenter.sh/v1alpha1", one.kind.name()),
        Kind::NodePool | Kind::NodeClaim => ("karpenter.sh/v1", one.kind.name()),
    };
    ObjectRef::new(api_version, kind, &metadata)
}
