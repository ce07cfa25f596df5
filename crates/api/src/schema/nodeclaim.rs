//! NodeClaim.

use super::condition::nodeclaim_conditions;
use super::{Rule, Schema, date_time, object, resources, restricted, root, template, text};

pub(super) fn schema() -> Schema {
    root("One node, from the wish for it to its end.", spec(), status()).require(&["spec"])
}

fn spec() -> Schema {
    object(
        "What the node must be. Fixed once created.",
        [
            ("expireAfter", template::expire_after()),
            ("nodeClassRef", template::node_class_ref()),
            ("requirements", template::requirements(restricted::nodeclaim_key())),
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
            ("terminationGracePeriod", template::termination_grace_period()),
        ],
    )
    .require(&["nodeClassRef", "requirements"])
    .rule(Rule::transition("spec is immutable", "self == oldSelf", |old, new| old == new))
}

fn status() -> Schema {
    object(
        "What became of the claim.",
        [
            ("allocatable", resources("What pods may use of the node, estimated at launch.")),
            ("capacity", resources("The node's full capacity, estimated at launch.")),
            ("conditions", nodeclaim_conditions()),
            ("imageID", text("The image the node runs.")),
            ("lastPodEventTime", date_time("When a pod was last bound to the node, left it or went terminal on it.")),
            ("nodeName", text("Name of the node.")),
            ("providerID", text("The instance, as the node names it.")),
        ],
    )
}
