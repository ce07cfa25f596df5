//! The schemas of v1beta1, as upstream 1.0 served them: a superset of what 0.32 had. Label domains follow v1, which
//! allows more.

mod kubelet;

use serde_json::json;

use super::condition::{conditions, nodeclaim_conditions, plain_conditions};
use super::ec2nodeclass::{devices, selectors, status as class_status, tags};
use super::nodepool::{BUDGET, budget_fields, budgets_of, template_metadata};
use super::rule::{elements, has, text_of};
use super::{Rule, Schema, boolean, int32, int64, list, map, object, resources, restricted, root, template, text};
use crate::nodepool::{DEFAULT_EXPIRE_AFTER, consolidation_policy::WHEN_EMPTY};

const WHEN_UNDERUTILIZED: &str = "WhenUnderutilized";
const OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
/// What v1beta1 always allowed: pods with a network of their own reach the metadata service.
const HOP_LIMIT: i64 = 2;

pub(super) fn nodepool() -> Schema {
    let spec = object(
        "What nodes the pool may have, how many, and how they may be disrupted.",
        [
            ("disruption", disruption()),
            ("limits", resources("Ceiling over the capacity of the pool's nodes.")),
            (
                "template",
                object(
                    "The shape of the NodeClaims the pool makes. Nodes that no longer match it drift.",
                    [
                        ("metadata", template_metadata()),
                        (
                            "spec",
                            claim_spec(restricted::nodepool_key()).rule(Rule::whole(
                                "resources may not be set on a NodePool",
                                "!has(self.resources)",
                                |spec| !has(spec, "resources"),
                            )),
                        ),
                    ],
                )
                .require(&["spec"]),
            ),
            (
                "weight",
                int32("Pools with a higher weight are tried first. Absent counts as 0.").at_least(1).at_most(100),
            ),
        ],
    )
    .require(&["template"]);
    let status = object(
        "What was last seen of the pool.",
        [("conditions", conditions()), ("resources", resources("Capacity of the pool's nodes."))],
    );
    root("A pool of nodes launched on demand from one template.", spec, status).require(&["spec"])
}

pub(super) fn nodeclaim() -> Schema {
    let spec = claim_spec(restricted::nodeclaim_key()).rule(Rule::transition(
        "spec is immutable",
        "self == oldSelf",
        |old, new| old == new,
    ));
    let status = object(
        "What became of the claim.",
        [
            ("allocatable", resources("What pods may use of the node, estimated at launch.")),
            ("capacity", resources("The node's full capacity, estimated at launch.")),
            ("conditions", nodeclaim_conditions()),
            ("imageID", text("The image the node runs.")),
            ("nodeName", text("Name of the node.")),
            ("providerID", text("The instance, as the node names it.")),
        ],
    );
    root("One node, from the wish for it to its end.", spec, status).require(&["spec"])
}

/// The spec of a claim, and of a pool's template.
fn claim_spec(key_rules: impl IntoIterator<Item = Rule>) -> Schema {
    let operator = text("How the label relates to the values.").one_of(&OPERATORS);
    object(
        "What the node must be.",
        [
            ("kubelet", kubelet::kubelet()),
            (
                "nodeClassRef",
                object(
                    "The class that says how nodes look at the cloud provider.",
                    [
                        ("apiVersion", text("Group and version of the class.")),
                        ("kind", text("Kind of the class.")),
                        ("name", text("Name of the class.").rule(Rule::not_empty("name may not be empty"))),
                    ],
                )
                .require(&["name"]),
            ),
            ("requirements", template::requirements_of(key_rules, operator)),
            (
                "resources",
                object(
                    "What the instance must offer.",
                    [("requests", resources("The least resources the instance must offer."))],
                ),
            ),
            (
                "startupTaints",
                template::taints("Taints of the new node that other software removes once the node is usable."),
            ),
            ("taints", template::taints("Taints the node keeps.")),
        ],
    )
    .require(&["nodeClassRef", "requirements"])
}

fn disruption() -> Schema {
    let [duration, nodes, schedule] = budget_fields();
    object(
        "When and how many of the pool's nodes may be disrupted voluntarily.",
        [
            ("budgets", budgets_of(object(BUDGET, [duration, nodes, schedule]))),
            (
                "consolidateAfter",
                text("How long a node must be empty before it may be consolidated, or Never.")
                    .pattern(template::DURATION_OR_NEVER),
            ),
            (
                "consolidationPolicy",
                text("Which nodes may be consolidated.")
                    .one_of(&[WHEN_EMPTY, WHEN_UNDERUTILIZED])
                    .default_value(json!(WHEN_UNDERUTILIZED)),
            ),
            ("expireAfter", template::expire_after()),
        ],
    )
    .default_value(json!({"consolidationPolicy": WHEN_UNDERUTILIZED, "expireAfter": DEFAULT_EXPIRE_AFTER}))
    .rule(Rule::whole(
        "consolidateAfter cannot be combined with consolidationPolicy=WhenUnderutilized",
        "has(self.consolidateAfter) ? self.consolidationPolicy != 'WhenUnderutilized' || self.consolidateAfter == 'Never' \
         : true",
        |disruption| {
            !has(disruption, "consolidateAfter")
                || text_of(disruption, "consolidationPolicy") != WHEN_UNDERUTILIZED
                || text_of(disruption, "consolidateAfter") == "Never"
        },
    ))
    .rule(Rule::whole(
        "consolidateAfter must be specified with consolidationPolicy=WhenEmpty",
        "self.consolidationPolicy == 'WhenEmpty' ? has(self.consolidateAfter) : true",
        |disruption| text_of(disruption, "consolidationPolicy") != WHEN_EMPTY || has(disruption, "consolidateAfter"),
    ))
}

pub(super) fn ec2nodeclass() -> Schema {
    root("How nodes look in EC2.", class_spec(), status())
}

fn class_spec() -> Schema {
    object(
        "Images, network, volumes, identity and settings of the nodes.",
        [
            (
                "amiFamily",
                text("Decides images, the format of user data and the default volumes.").one_of(&[
                    "AL2",
                    "AL2023",
                    "Bottlerocket",
                    "Ubuntu",
                    "Custom",
                    "Windows2019",
                    "Windows2022",
                ]),
            ),
            ("amiSelectorTerms", amis()),
            (
                "associatePublicIPAddress",
                boolean("Whether instances get public addresses; the subnet decides when absent."),
            ),
            ("blockDeviceMappings", devices::block_device_mappings()),
            ("context", text("A field EC2 reserves for its own use.")),
            ("detailedMonitoring", boolean("Whether metrics come every minute.")),
            (
                "instanceProfile",
                text("A ready-made instance profile for the nodes. Excludes role.")
                    .rule(Rule::not_empty("instanceProfile cannot be empty")),
            ),
            ("instanceStorePolicy", text("RAID0 makes local disks the node's ephemeral storage.").one_of(&["RAID0"])),
            ("metadataOptions", metadata_options()),
            (
                "role",
                text("The IAM role of the nodes, for which an instance profile is made. Excludes instanceProfile.")
                    .rule(Rule::not_empty("role cannot be empty"))
                    .rule(Rule::transition("immutable field changed", "self == oldSelf", |old, new| old == new)),
            ),
            ("securityGroupSelectorTerms", selectors::security_groups()),
            ("subnetSelectorTerms", selectors::subnets()),
            ("tags", tags()),
            ("userData", text("User data in the format of the AMI family, into which ours is merged.")),
        ],
    )
    .require(&["amiFamily", "securityGroupSelectorTerms", "subnetSelectorTerms"])
    .rule(Rule::whole(
        "amiSelectorTerms is required when amiFamily == 'Custom'",
        "self.amiFamily == 'Custom' ? has(self.amiSelectorTerms) && self.amiSelectorTerms.size() != 0 : true",
        |spec| {
            text_of(spec, "amiFamily") != "Custom"
                || spec.get("amiSelectorTerms").is_some_and(|terms| !elements(terms).is_empty())
        },
    ))
    .rule(Rule::whole(
        "must specify exactly one of ['role', 'instanceProfile']",
        "(has(self.role) && !has(self.instanceProfile)) || (!has(self.role) && has(self.instanceProfile))",
        |spec| has(spec, "role") != has(spec, "instanceProfile"),
    ))
    .rule(Rule::transition(
        "changing from 'instanceProfile' to 'role' is not supported. You must delete and recreate this node class if \
         you want to change this.",
        "(has(oldSelf.role) && has(self.role)) || (has(oldSelf.instanceProfile) && has(self.instanceProfile))",
        |old, new| {
            (has(old, "role") && has(new, "role")) || (has(old, "instanceProfile") && has(new, "instanceProfile"))
        },
    ))
}

fn amis() -> Schema {
    const OTHERS: [&str; 2] = ["id", "name"];
    let term = object(
        "Selects images. The fields of a term must all match.",
        [
            ("id", text("The image's id.").pattern("ami-[0-9a-z]+")),
            ("name", text("The image's name.")),
            ("owner", text("The account that owns the image, or self, or amazon.")),
            (
                "tags",
                map("The image's tags.", text("")).at_most(20).rule(Rule::entry(
                    "empty tag keys or values aren't supported",
                    "self.all(k, k != '' && self[k] != '')",
                    |key, value| !key.is_empty() && value.as_str() != Some(""),
                )),
            ),
        ],
    );
    list("Which images to launch, in the place of the family's own. The terms are alternatives.", term)
        .at_most(30)
        .rule(Rule::each(
            "expected at least one, got none, ['tags', 'id', 'name']",
            selectors::at_least_one(&OTHERS),
            |x| selectors::selects_something(x, &OTHERS),
        ))
        .rule(Rule::each(
            "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            "!self.exists(x, has(x.id) && (has(x.tags) || has(x.name) || has(x.owner)))",
            |x| !(has(x, "id") && template::has_any(x, &["tags", "name", "owner"])),
        ))
}

fn metadata_options() -> Schema {
    let switch: &[&str] = &["enabled", "disabled"];
    object(
        "How much of the instance metadata service nodes and pods can reach.",
        [
            ("httpEndpoint", text("Whether metadata is served at all.").one_of(switch).default_value(json!("enabled"))),
            (
                "httpProtocolIPv6",
                text("Whether metadata is served over IPv6.").one_of(switch).default_value(json!("disabled")),
            ),
            (
                "httpPutResponseHopLimit",
                int64("How many hops a response may travel.").at_least(1).at_most(64).default_value(json!(HOP_LIMIT)),
            ),
            (
                "httpTokens",
                text("Whether requests must carry a session token.")
                    .one_of(&["required", "optional"])
                    .default_value(json!("required")),
            ),
        ],
    )
    .default_value(json!({
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": HOP_LIMIT,
        "httpTokens": "required",
    }))
}

fn status() -> Schema {
    object(
        "What the selectors resolved to, and whether the class can be used.",
        [
            ("amis", list("The images in use.", class_status::ami())),
            ("conditions", plain_conditions()),
            ("instanceProfile", text("The instance profile in use.")),
            ("securityGroups", list("The security groups in use.", class_status::security_group())),
            ("subnets", list("The subnets in use.", class_status::subnet())),
        ],
    )
}
