//! NodePool.

use serde_json::{Value, json};

use super::condition::conditions;
use super::rule::has;
use super::{
    LABEL_VALUE, ListMerge, Rule, Schema, int32, int64, list, map, object, resources, restricted, root, template, text,
};
use crate::nodepool::{DEFAULT_BUDGET_NODES, DEFAULT_CONSOLIDATE_AFTER, consolidation_policy, disruption_reason};

pub(super) fn schema() -> Schema {
    root("A pool of nodes launched on demand from one template.", spec(), status()).require(&["spec"])
}

fn spec() -> Schema {
    object(
        "What nodes the pool may have, how many, and how they may be disrupted.",
        [
            ("disruption", disruption()),
            (
                "limits",
                resources(
                    "Ceiling over the capacity of the pool's nodes. The key nodes counts nodes; static pools know no other.",
                ),
            ),
            (
                "replicas",
                int64(
                    "Alpha. Makes the pool static: it keeps this many nodes whatever pods need. Consolidation settings are \
                     then ignored, weight is not allowed, and limits only for nodes.",
                )
                .at_least(0),
            ),
            ("template", node_template()),
            (
                "weight",
                int32("Pools with a higher weight are tried first. Absent counts as 0.").at_least(1).at_most(100),
            ),
        ],
    )
    .require(&["template"])
    .rule(Rule::transition(
        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        "has(self.replicas) == has(oldSelf.replicas)",
        |old, new| has(old, "replicas") == has(new, "replicas"),
    ))
    .rule(Rule::whole(
        "only 'limits.nodes' is supported on static NodePools",
        "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in \
         self.limits))",
        |spec| !has(spec, "replicas") || only_nodes(spec.get("limits")),
    ))
    .rule(Rule::whole(
        "'weight' is not supported on static NodePools",
        "!has(self.replicas) || !has(self.weight)",
        |spec| !has(spec, "replicas") || !has(spec, "weight"),
    ))
}

fn only_nodes(limits: Option<&Value>) -> bool {
    limits.and_then(Value::as_object).is_none_or(|limits| limits.keys().all(|name| name == "nodes"))
}

fn disruption() -> Schema {
    object(
        "When and how many of the pool's nodes may be disrupted voluntarily.",
        [
            ("budgets", budgets()),
            (
                "consolidateAfter",
                text("How long a node must be without pod changes before it may be consolidated, or Never.")
                    .pattern(template::DURATION_OR_NEVER)
                    .default_value(json!(DEFAULT_CONSOLIDATE_AFTER)),
            ),
            (
                "consolidationPolicy",
                text("Which nodes may be consolidated.")
                    .one_of(&consolidation_policy::ALL)
                    .default_value(json!(consolidation_policy::WHEN_EMPTY_OR_UNDERUTILIZED)),
            ),
        ],
    )
    .default_value(json!({"consolidateAfter": DEFAULT_CONSOLIDATE_AFTER}))
}

fn budgets() -> Schema {
    let [duration, nodes, schedule] = budget_fields();
    let reasons = list("The reasons the budget applies to; all when absent.", text("").one_of(&disruption_reason::ALL))
        .at_most(50)
        .merge(ListMerge::Set);
    budgets_of(object(BUDGET, [duration, nodes, ("reasons", reasons), schedule]))
}

pub(super) const BUDGET: &str = "A limit on nodes disrupted at the same time.";

/// The fields of a budget that it has always had.
pub(super) fn budget_fields() -> [(&'static str, Schema); 3] {
    [
        (
            "duration",
            text("How long the budget is active after each hit of its schedule, in hours and minutes.")
                .pattern("^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"),
        ),
        (
            "nodes",
            text("How many nodes of the pool may be on their way out, as a count or a percentage.")
                .pattern("^((100|[0-9]{1,2})%|[0-9]+)$")
                .default_value(json!(DEFAULT_BUDGET_NODES)),
        ),
        (
            "schedule",
            text("When the budget becomes active, in cron syntax and UTC. Without one it is always active.")
                .pattern(r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"),
        ),
    ]
}

pub(super) fn budgets_of(budget: Schema) -> Schema {
    list("Limits on concurrent disruption; the lowest active one counts.", budget.require(&["nodes"]))
        .at_most(50)
        .merge(ListMerge::Atomic)
        .default_value(json!([{"nodes": DEFAULT_BUDGET_NODES}]))
        .rule(Rule::each(
            "'schedule' must be set with 'duration'",
            "self.all(x, has(x.schedule) == has(x.duration))",
            |x| has(x, "schedule") == has(x, "duration"),
        ))
}

fn node_template() -> Schema {
    object(
        "The shape of the NodeClaims the pool makes. Nodes that no longer match it drift.",
        [("metadata", template_metadata()), ("spec", template_spec())],
    )
    .require(&["spec"])
}

pub(super) fn template_metadata() -> Schema {
    object(
        "",
        [
            ("annotations", map("Annotations put on every NodeClaim and Node.", text("")).map_merge("granular")),
            (
                "labels",
                map(
                    "Labels put on every NodeClaim and Node. They count as requirements.",
                    text("").at_most(63).pattern(LABEL_VALUE),
                )
                .at_most(100)
                .map_merge("atomic")
                .rules(restricted::template_labels()),
            ),
        ],
    )
}

fn template_spec() -> Schema {
    object(
        "What every NodeClaim of the pool asks for.",
        [
            ("expireAfter", template::expire_after()),
            (
                "nodeClassRef",
                template::node_class_ref()
                    .rule(Rule::transition(
                        "nodeClassRef.group is immutable",
                        "self.group == oldSelf.group",
                        |old, new| old.get("group") == new.get("group"),
                    ))
                    .rule(Rule::transition("nodeClassRef.kind is immutable", "self.kind == oldSelf.kind", |old, new| {
                        old.get("kind") == new.get("kind")
                    })),
            ),
            ("requirements", template::requirements(restricted::nodepool_key())),
            (
                "startupTaints",
                template::taints(
                    "Taints of a new node that other software removes. Pods need not tolerate them to have a node launched.",
                ),
            ),
            ("taints", template::taints("Taints the nodes keep.")),
            ("terminationGracePeriod", template::termination_grace_period()),
        ],
    )
    .require(&["nodeClassRef", "requirements"])
}

fn status() -> Schema {
    object(
        "What was last seen of the pool.",
        [
            ("conditions", conditions()),
            (
                "nodeClassObservedGeneration",
                int64("Generation of the class last seen. A change resets the judgement on node registration."),
            ),
            ("nodes", int64("How many nodes the pool has.").default_value(json!(0))),
            ("resources", resources("Capacity of the pool's nodes.")),
        ],
    )
}
