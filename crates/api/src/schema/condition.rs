//! Status conditions.

use super::{ListMerge, Schema, date_time, int64, list, object, text};

const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const REASON_OR_EMPTY: &str = "^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$";
const TYPE: &str =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// Conditions told apart by their type.
pub(super) fn conditions() -> Schema {
    plain_conditions().merge(ListMerge::Map(&["type"]))
}

/// Conditions of the EC2NodeClass, whose list has no merge keys in the reference.
pub(super) fn plain_conditions() -> Schema {
    list("Signals of health and readiness.", condition(text(REASON_TEXT).at_least(1).pattern(REASON), REQUIRED))
}

/// Conditions of a NodeClaim, which may come without reason and message.
pub(super) fn nodeclaim_conditions() -> Schema {
    list(
        "Signals of health and readiness.",
        condition(text(REASON_TEXT).pattern(REASON_OR_EMPTY), &["lastTransitionTime", "status", "type"]),
    )
    .merge(ListMerge::Map(&["type"]))
}

const REQUIRED: &[&str] = &["lastTransitionTime", "message", "reason", "status", "type"];
const REASON_TEXT: &str = "Why the condition last changed, as one CamelCase word for programs.";

fn condition(reason: Schema, required: &[&'static str]) -> Schema {
    object(
        "One aspect of the object's state.",
        [
            ("lastTransitionTime", date_time("When the status last changed.")),
            ("message", text("Details of the last change, for people. May be empty.").at_most(32768)),
            ("observedGeneration", int64("The generation of the object this condition was computed from.").at_least(0)),
            ("reason", reason.at_most(1024)),
            ("status", text("Whether the condition holds.").one_of(&["True", "False", "Unknown"])),
            ("type", text("What the condition is about.").at_most(316).pattern(TYPE)),
        ],
    )
    .require(required)
}
