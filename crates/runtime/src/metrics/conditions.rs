//! Conditions and terminations of objects as they are now. What changed is counted where it is seen.

use jiff::Timestamp;
use karpenter_api::labels::{EC2_NODE_CLASS, INITIALIZED, NODEPOOL};
use karpenter_api::{Condition, ObjectMeta};
use karpenter_controllers::Context;
use karpenter_controllers::metrics::StatusKind;

use super::objects::seconds;
use super::text::Gauge;

/// One object, whatever it is.
struct Seen<'a> {
    metadata: &'a ObjectMeta,
    conditions: Vec<Shown<'a>>,
}

struct Shown<'a> {
    kind: &'a str,
    status: &'a str,
    reason: &'a str,
    since: Option<Timestamp>,
}

impl<'a> From<&'a Condition> for Shown<'a> {
    fn from(condition: &'a Condition) -> Self {
        Self {
            kind: &condition.type_,
            status: &condition.status,
            reason: &condition.reason,
            since: Some(condition.last_transition_time.0),
        }
    }
}

pub(super) fn conditions(context: &Context, page: &mut String) {
    let (claims, pools, nodes) = (context.index.node_claims(), context.index.node_pools(), context.index.nodes());
    let mut general = Gauges::general();
    let mut put = |kind: StatusKind, objects: Vec<Seen<'_>>| {
        let names = [
            kind.series("status_condition_count"),
            kind.series("status_condition_current_status_seconds"),
            kind.series("termination_current_time_seconds"),
        ];
        let mut own = Gauges::named(&names);
        for object in &objects {
            own.put(object, kind.extra_labels(), None, context.clock.now());
            if kind.has_general_series() {
                general.put(object, &[], Some(kind), context.clock.now());
            }
        }
        own.write(page);
    };
    let managed = claims.iter().filter(|claim| context.index.is_managed(claim));
    let of_claim = |claim: &'_ std::sync::Arc<karpenter_api::NodeClaim>| -> Vec<Condition> {
        claim.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default()
    };
    let managed: Vec<_> = managed.map(|claim| (claim, of_claim(claim))).collect();
    put(
        StatusKind::NodeClaim,
        managed
            .iter()
            .map(|(claim, said)| Seen { metadata: &claim.metadata, conditions: said.iter().map(Shown::from).collect() })
            .collect(),
    );
    let said = |pool: &karpenter_api::NodePool| {
        pool.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default()
    };
    let of_pools: Vec<_> =
        pools.iter().filter(|pool| context.index.is_managed_pool(pool)).map(|pool| (pool, said(pool))).collect();
    put(
        StatusKind::NodePool,
        of_pools
            .iter()
            .map(|(pool, said)| Seen { metadata: &pool.metadata, conditions: said.iter().map(Shown::from).collect() })
            .collect(),
    );
    let of_node = |node: &'_ std::sync::Arc<k8s_openapi::api::core::v1::Node>| {
        node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default()
    };
    let of_nodes: Vec<_> = nodes.iter().map(|node| (node, of_node(node))).collect();
    put(
        StatusKind::Node,
        of_nodes
            .iter()
            .map(|(node, said)| Seen {
                metadata: &node.metadata,
                conditions: said
                    .iter()
                    .map(|condition| Shown {
                        kind: &condition.type_,
                        status: &condition.status,
                        reason: condition.reason.as_deref().unwrap_or_default(),
                        since: condition.last_transition_time.as_ref().map(|time| time.0),
                    })
                    .collect(),
            })
            .collect(),
    );
    let classes = context.index.node_classes();
    put(
        StatusKind::NodeClass,
        classes
            .iter()
            .map(|class| Seen {
                metadata: &class.metadata,
                conditions: class.status.conditions.iter().map(Shown::from).collect(),
            })
            .collect(),
    );
    general.write(page);
}

struct Gauges<'a> {
    count: Gauge<'a>,
    current: Gauge<'a>,
    terminating: Gauge<'a>,
}

impl<'a> Gauges<'a> {
    fn named(names: &'a [String; 3]) -> Self {
        Self {
            count: Gauge::new(&names[0], "Conditions of objects, by status"),
            current: Gauge::new(&names[1], "How long a condition has had its status"),
            terminating: Gauge::new(&names[2], "Since when an object is being deleted"),
        }
    }

    /// Deprecated, and still there.
    fn general() -> Self {
        Self {
            count: Gauge::new("operator_status_condition_count", "Conditions of objects, by status"),
            current: Gauge::new(
                "operator_status_condition_current_status_seconds",
                "How long a condition has had its status",
            ),
            terminating: Gauge::new(
                "operator_termination_current_time_seconds",
                "Since when an object is being deleted",
            ),
        }
    }

    fn put(&mut self, object: &Seen<'_>, extra: &[&str], general: Option<StatusKind>, now: Timestamp) {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let own = |key: &str| {
            let labels = object.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(key)).map(String::as_str).unwrap_or_default()
        };
        let mut more: Vec<(&str, &str)> = extra.iter().map(|key| (label_name(key), own(key))).collect();
        if let Some(kind) = general {
            more.extend([("group", kind.group()), ("kind", kind.kind())]);
        }
        for Shown { kind, status, reason, since } in &object.conditions {
            let labels = || {
                let first = [
                    ("namespace", namespace),
                    ("name", name),
                    ("type", *kind),
                    ("status", *status),
                    ("reason", *reason),
                ];
                first.into_iter().chain(more.iter().copied())
            };
            self.count.set(labels(), 1.0);
            if let Some(since) = since {
                self.current.set(labels(), seconds(*since, now));
            }
        }
        if let Some(deleted) = &object.metadata.deletion_timestamp {
            let labels = [("namespace", namespace), ("name", name)].into_iter().chain(more.iter().copied());
            self.terminating.set(labels, seconds(deleted.0, now));
        }
    }

    fn write(self, page: &mut String) {
        self.count.write(page);
        self.current.write(page);
        self.terminating.write(page);
    }
}

/// Label keys as Prometheus can spell them.
fn label_name(key: &str) -> &'static str {
    match key {
        EC2_NODE_CLASS => "karpenter_k8s_aws_ec2nodeclass",
        NODEPOOL => "karpenter_sh_nodepool",
        INITIALIZED => "karpenter_sh_initialized",
        _ => "label",
    }
}
