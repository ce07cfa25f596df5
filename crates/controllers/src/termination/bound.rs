//! The pods of a node as the API server itself has them, asked for once before its instance goes.
//!
//! The index knows what the watch has told. A watch can be silent without anybody noticing for a minute, and a pod bound
//! in that minute would die with the instance, whatever its budget says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_index::{Interner, Kind, Object, Unreadable, reduce};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::context::Context;
use crate::engine::panic_text;
use crate::error::{Error, Result};
use crate::pods::PodFacts;
use crate::write::request;

/// A node has a few hundred pods at most. Whoever does not get an answer tries again.
const DEADLINE: Duration = Duration::from_secs(30);

/// What is bound to a node.
#[derive(Debug, Default)]
pub(super) struct Bound {
    pub(super) pods: Vec<PodFacts>,
    /// Why pods that are there cannot be read.
    pub(super) unreadable: Vec<String>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// Asks without a resource version, which is answered with what is true now. What the watch has not told yet goes into
/// the index too: evictions look pods up there.
pub(super) async fn pods_on(node: &str, context: &Context) -> Result<Bound> {
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
    let asked = context.client.request_text(request("GET", &path, None, Vec::new()));
    let text = timeout(DEADLINE, asked).await;
    let text = text.map_err(|_| Error::other(format!("listing the pods of node {node}: no answer in time")))??;
    let list: List<'_> = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
    let (mut bound, mut interner) = (Bound::default(), Interner::default());
    for item in list.items {
        match serde_json::from_str::<Pod>(item.get()) {
            Ok(pod) => {
                // A bug of ours that a pod brings out is no reason to let go of it.
                match catch_unwind(AssertUnwindSafe(|| PodFacts::of(&reduce::read_pod(&pod, &mut interner)))) {
                    Ok(facts) => bound.pods.push(facts),
                    Err(panic) => bound.unreadable.push(format!("reading it panicked: {}", panic_text(&*panic))),
                }
                context.saw(Object::from(pod));
            }
            Err(error) => {
                let one = Unreadable::of(Kind::Pod, item.get(), error.to_string());
                context.saw_unreadable(one.clone());
                // What the drain leaves alone anyway, whatever else it may say, is not waited for either.
                let kept = context.index.pod(&one.key).filter(|kept| *kept.pod.uid == *one.uid);
                if kept.is_none_or(|kept| PodFacts::of(&kept).is_waiting_for_eviction(context.clock.now())) {
                    bound.unreadable.push(error.to_string());
                }
            }
        }
    }
    Ok(bound)
}
