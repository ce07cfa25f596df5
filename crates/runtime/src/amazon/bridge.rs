//! What the provider asks of the cluster and tells people, answered by the controllers' context once there is one.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use karpenter_api::{EC2NodeClass, NodePool};
use karpenter_controllers::recorder::Event;
use karpenter_controllers::{Context, ObjectRef};
use karpenter_provider::{BoxError, Notice, Recorder, Severity, Subject};
use karpenter_provider_aws::{ClusterReads, LiveReads, Observer};
use kube::Client;

use super::node_class::Classes;
use crate::metrics::CloudSeries;

/// The provider is part of the context, so it exists first.
pub(crate) struct Bridge {
    context: OnceLock<Weak<Context>>,
    live: LiveReads,
    classes: Arc<Classes>,
    series: OnceLock<CloudSeries>,
}

impl Bridge {
    pub(crate) fn new(client: Client, classes: Arc<Classes>) -> Self {
        Self { context: OnceLock::new(), live: LiveReads(client), classes, series: OnceLock::new() }
    }

    pub(crate) fn join(&self, context: &Arc<Context>) {
        self.series.get_or_init(|| CloudSeries::register(&mut context.metrics.registry()));
        self.context.get_or_init(|| Arc::downgrade(context));
    }

    /// The context, once it has seen the cluster.
    fn informed(&self) -> Option<Arc<Context>> {
        self.context.get()?.upgrade().filter(|context| context.index.is_listed())
    }
}

#[async_trait]
impl ClusterReads for Bridge {
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
