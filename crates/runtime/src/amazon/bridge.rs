//! What the provider asks of the cluster and tells people, answered by the controllers' context once there is one.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::{EC2NodeClass, NodeClaim, NodePool};
use karpenter_controllers::error::unless_gone;
use karpenter_controllers::recorder::Event;
use karpenter_controllers::{Context, ObjectRef};
use karpenter_index::Kind;
use karpenter_provider::{BoxError, Notice, Recorder, Severity, Subject};
use karpenter_provider_aws::objects::deadline_patch;
use karpenter_provider_aws::offering_series::Sold;
use karpenter_provider_aws::{LiveObjects, Objects, Observer};
use kube::Client;

use super::node_class::Classes;
use crate::metrics::CloudSeries;

/// What an interruption is decided from.
const READS: [Kind; 2] = [Kind::NodeClaim, Kind::Node];

/// The provider is part of the context, so it exists first.
pub(crate) struct Bridge {
    context: OnceLock<Weak<Context>>,
    live: LiveObjects,
    classes: Arc<Classes>,
    series: OnceLock<CloudSeries>,
}

impl Bridge {
    pub(crate) fn new(client: Client, classes: Arc<Classes>) -> Self {
        Self { context: OnceLock::new(), live: LiveObjects(client), classes, series: OnceLock::new() }
    }

    pub(crate) fn join(&self, context: &Arc<Context>) {
        self.series.get_or_init(|| CloudSeries::register(&mut context.metrics.registry()));
        self.context.get_or_init(|| Arc::downgrade(context));
    }

    /// The context, once it has seen the cluster.
    fn informed(&self) -> Option<Arc<Context>> {
        self.context.get()?.upgrade().filter(|context| context.index.is_listed())
    }

    /// The context, while it hears of claims and Nodes. When it does not, the server is asked itself: a reclaim does not
    /// wait for a watch.
    fn up_to_date(&self) -> Option<Arc<Context>> {
        self.informed().filter(|context| context.freshness.is_fresh(&READS))
    }
}

#[async_trait]
impl Objects for Bridge {
    async fn node_class(&self, name: &str) -> Result<Option<Arc<EC2NodeClass>>, BoxError> {
        match self.informed() {
            Some(context) => Ok(self.classes.get(name, &context).await?),
            None => self.live.node_class(name).await,
        }
    }

    async fn node_pool(&self, name: &str) -> Result<Option<Arc<NodePool>>, BoxError> {
        match self.informed() {
            Some(context) => Ok(context.index.node_pool(name)),
            None => self.live.node_pool(name).await,
        }
    }

    async fn node_pools(&self) -> Result<Vec<Arc<NodePool>>, BoxError> {
        match self.informed() {
            Some(context) => Ok(context.index.node_pools()),
            None => self.live.node_pools().await,
        }
    }

    async fn node_claims(&self) -> Result<Vec<Arc<NodeClaim>>, BoxError> {
        match self.up_to_date() {
            Some(context) => Ok(context.index.node_claims()),
            None => self.live.node_claims().await,
        }
    }

    async fn node(&self, name: &str) -> Result<Option<Arc<Node>>, BoxError> {
        match self.up_to_date() {
            Some(context) => Ok(context.index.node(name)),
            None => self.live.node(name).await,
        }
    }

    /// The index sees the deletion at once, so the pass that follows plans the pods of that node, and no window is
    /// waited for: a spot instance is gone in two minutes.
    async fn end_claim(&self, claim: &NodeClaim, deadline: Option<Timestamp>) -> Result<bool, BoxError> {
        let Some(context) = self.up_to_date() else { return self.live.end_claim(claim, deadline).await };
        let of = |field: &Option<String>| field.clone().unwrap_or_default();
        let (name, uid) = (of(&claim.metadata.name), of(&claim.metadata.uid));
        if let Some(deadline) = deadline {
            let patched = context.merge::<NodeClaim>(&name, &deadline_patch(deadline)).await;
            if unless_gone(patched)?.is_none() {
                return Ok(false);
            }
        }
        context.delete::<NodeClaim>(&name, &uid, &READS).await?;
        context.trigger_provisioning_now(&uid);
        Ok(true)
    }
}

impl Recorder for Bridge {
    fn publish(&self, notice: Notice) {
        let Some(context) = self.context.get().and_then(Weak::upgrade) else { return };
        context.recorder.publish(event(notice));
    }
}

impl Observer for Bridge {
    fn launch_failed(&self, zone: &str, zone_id: &str, capacity_type: &str, reason: &'static str) {
        if let Some(series) = self.series.get() {
            series.launch_failed(zone, zone_id, capacity_type, reason);
        }
    }

    fn termination_failed(&self, zone: &str, zone_id: &str) {
        if let Some(series) = self.series.get() {
            series.termination_failed(zone, zone_id);
        }
    }

    fn message_received(&self, kind: &'static str) {
        if let Some(series) = self.series.get() {
            series.interruption.received(kind);
        }
    }

    fn message_handled(&self, late: Duration) {
        if let Some(series) = self.series.get() {
            series.interruption.handled(late);
        }
    }

    fn message_deleted(&self) {
        if let Some(series) = self.series.get() {
            series.interruption.deleted();
        }
    }

    fn interrupted(&self, kind: &'static str, claim: &NodeClaim) {
        if let Some(context) = self.context.get().and_then(Weak::upgrade) {
            context.metrics.life.disrupted(claim, kind, "");
        }
    }

    fn batched(&self, batcher: &'static str, size: usize, waited: Duration) {
        if let Some(series) = self.series.get() {
            series.offers.batched(batcher, size, waited);
        }
    }

    fn user_data(&self, class: &str, bytes: usize) {
        if let Some(series) = self.series.get() {
            series.offers.user_data(class, bytes);
        }
    }

    fn node_class_gone(&self, class: &str) {
        if let Some(series) = self.series.get() {
            series.offers.node_class_gone(class);
        }
    }

    fn offerings(&self, sold: Sold) {
        if let Some(series) = self.series.get() {
            series.offers.offerings(move || (sold.offerings(), sold.types()));
        }
    }

    fn unhealthy_instance(&self, category: &'static str) {
        if let Some(series) = self.series.get() {
            series.interruption.unhealthy(category);
        }
    }
}

fn event(notice: Notice) -> Event {
    let object = object(notice.subject);
    let event = match notice.severity {
        Severity::Normal => Event::normal(object, notice.reason, notice.message),
        Severity::Warning => Event::warning(object, notice.reason, notice.message),
    };
    if notice.dedupe.is_empty() { event } else { event.same(notice.dedupe) }
}

/// Providers speak of our own kinds only, all of them cluster-scoped.
fn object(subject: Subject) -> ObjectRef {
    let (api_version, kind) = match subject.kind.as_str() {
        "NodePool" => ("karpenter.sh/v1", "NodePool"),
        "NodeClaim" => ("karpenter.sh/v1", "NodeClaim"),
        "Node" => ("v1", "Node"),
        _ => ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    };
    ObjectRef { api_version, kind, namespace: String::new(), name: subject.name, uid: subject.uid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_becomes_an_event_about_its_object() {
        for (kind, api_version) in [
            ("NodePool", "karpenter.sh/v1"),
            ("NodeClaim", "karpenter.sh/v1"),
            ("EC2NodeClass", "karpenter.k8s.aws/v1"),
        ] {
            let subject = Subject {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: "n".to_owned(),
                uid: "u".to_owned(),
            };
            let notice = Notice {
                subject,
                severity: Severity::Warning,
                reason: "Because",
                message: "m".to_owned(),
                dedupe: vec!["k".to_owned()],
            };
            let told = event(notice);
            assert_eq!((told.object.api_version, told.object.kind), (api_version, kind));
            assert_eq!((told.object.name.as_str(), told.object.uid.as_str()), ("n", "u"));
            assert_eq!((told.warning, told.reason, told.same), (true, "Because", vec!["k".to_owned()]));
        }
    }
}
