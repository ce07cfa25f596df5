//! CapacityBuffer.

use serde_json::json;

use super::condition::conditions;
use super::rule::has;
use super::template::has_any;
use super::{Rule, Schema, int32, int64, object, resources, root, text};
use crate::capacitybuffer::ACTIVE_CAPACITY;

pub(super) fn schema() -> Schema {
    root("Spare capacity kept ready for pods that do not exist yet.", spec(), status()).require(&["spec"])
}

fn spec() -> Schema {
    object(
        "How much spare capacity, in chunks the size of one pod.",
        [
            ("limits", resources("Cap on the total requests of all chunks. Alone, it decides their number.")),
            ("percentage", int32("Chunks as a share of the replicas of scalableRef, rounded up.").at_least(0)),
            ("podTemplateRef", pod_template_ref("The PodTemplate of this namespace that is one chunk.")),
            (
                "provisioningStrategy",
                text("How the buffer is kept. Only the default strategy acts.").default_value(json!(ACTIVE_CAPACITY)),
            ),
            ("replicas", int32("Fixed number of chunks.").at_least(0)),
            (
                "scalableRef",
                object(
                    "The workload whose pod template is one chunk.",
                    [
                        ("apiGroup", text("API group of the workload; empty for the core group.")),
                        ("kind", text("Kind of the workload.").at_least(1)),
                        ("name", text("Name of the workload.").at_least(1)),
                    ],
                )
                .require(&["kind", "name"]),
            ),
        ],
    )
    .rule(Rule::whole(
        "If podTemplateRef is set, replicas or limits must also be set",
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
        |spec| !has(spec, "podTemplateRef") || has_any(spec, &["replicas", "limits"]),
    ))
    .rule(Rule::whole(
        "You must define either PodTemplateRef or ScalableRef, but not both",
        "!(has(self.podTemplateRef) && has(self.scalableRef))",
        |spec| !(has(spec, "podTemplateRef") && has(spec, "scalableRef")),
    ))
}

fn pod_template_ref(description: &'static str) -> Schema {
    object(description, [("name", text("Name of the PodTemplate.").at_least(1))]).require(&["name"])
}

fn status() -> Schema {
    object(
        "What the buffer resolved to.",
        [
            ("conditions", conditions()),
            ("podTemplateGeneration", int64("Generation of the PodTemplate last seen.")),
            ("podTemplateRef", pod_template_ref("The PodTemplate in use.")),
            ("provisioningStrategy", text("The strategy in use.")),
            ("replicas", int32("Number of chunks in force.")),
        ],
    )
}
