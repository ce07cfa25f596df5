//! What a NodePool's template and a NodeClaim have in common.

use serde_json::{Value, json};

use super::rule::{elements, has, text_of};
use super::{LABEL_VALUE, ListMerge, QUALIFIED_KEY, Rule, Schema, date_time, integer, list, object, text};
use crate::nodepool::DEFAULT_EXPIRE_AFTER;
use crate::requirement::operator;

pub(super) const DURATION: &str = "^([0-9]+(s|m|h))+$";
pub(super) const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";

pub(super) fn expire_after() -> Schema {
    text("The age at which a node is drained and replaced, or Never.")
        .pattern(DURATION_OR_NEVER)
        .default_value(json!(DEFAULT_EXPIRE_AFTER))
}

pub(super) fn termination_grace_period() -> Schema {
    text(
        "The longest a drain may take, counted from the deletion of the node. At the deadline pods are deleted whatever \
         their own grace period, disruption budgets or do-not-disrupt annotations say. Without it a drain waits forever.",
    )
    .pattern(DURATION)
}

pub(super) fn taints(description: &'static str) -> Schema {
    list(
        description,
        object(
            "Keeps pods that do not tolerate it off the node.",
            [
                (
                    "effect",
                    text("What happens to pods that do not tolerate the taint.").one_of(&[
                        "NoSchedule",
                        "PreferNoSchedule",
                        "NoExecute",
                    ]),
                ),
                ("key", text("The taint's key.").at_least(1).pattern(QUALIFIED_KEY)),
                ("timeAdded", date_time("When the taint was added.")),
                ("value", text("The taint's value.").pattern(QUALIFIED_KEY)),
            ],
        )
        .require(&["effect", "key"]),
    )
    .merge(ListMerge::Atomic)
}

pub(super) fn node_class_ref() -> Schema {
    object(
        "The class that says how nodes look at the cloud provider.",
        [
            (
                "group",
                text("API group of the class.").pattern("^[^/]*$").rule(Rule::not_empty("group may not be empty")),
            ),
            ("kind", text("Kind of the class.").rule(Rule::not_empty("kind may not be empty"))),
            ("name", text("Name of the class.").rule(Rule::not_empty("name may not be empty"))),
        ],
    )
    .require(&["group", "kind", "name"])
}

/// Requirements of NodePools and NodeClaims, which differ in the keys they allow.
pub(super) fn requirements(key_rules: impl IntoIterator<Item = Rule>) -> Schema {
    requirements_of(key_rules, requirement_operator())
}

pub(super) fn requirements_of(key_rules: impl IntoIterator<Item = Rule>, operator: Schema) -> Schema {
    let item = object(
        "Restricts the values of one label, with an optional floor on how many must remain possible.",
        [
            ("key", requirement_key(key_rules)),
            (
                "minValues",
                integer("Alpha. How many distinct values the chosen instance types must cover.")
                    .at_least(1)
                    .at_most(50),
            ),
            ("operator", operator),
            ("values", requirement_values()),
        ],
    )
    .require(&["key", "operator"]);
    list("Restrictions on the nodes, all of which hold. The template's labels count as well.", item)
        .at_most(100)
        .merge(ListMerge::Atomic)
        .rule(in_needs_values())
        .rule(Rule::each(
            "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
            NUMERIC_CEL,
            numeric_has_one_integer,
        ))
        .rule(Rule::each(
            "requirements with 'minValues' must have at least that many values specified in the 'values' field",
            "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
            |x| {
                let floor =
                    x.get("minValues").and_then(Value::as_i64).filter(|_| text_of(x, "operator") == operator::IN);
                floor.is_none_or(|floor| values(x).len() as i64 >= floor)
            },
        ))
}

pub(super) fn requirement_key(rules: impl IntoIterator<Item = Rule>) -> Schema {
    text("The label's key.").at_most(316).pattern(QUALIFIED_KEY).rules(rules)
}

pub(super) fn requirement_operator() -> Schema {
    text("How the label relates to the values.").one_of(&operator::ALL)
}

/// The limits meant for each value stand at the list, where they have no effect: bad values are found at run time.
pub(super) fn requirement_values() -> Schema {
    list("In and NotIn: the values; Gt, Lt, Gte and Lte: one integer; otherwise none.", text(""))
        .merge(ListMerge::Atomic)
        .inert("maxLength", json!(63))
        .inert("pattern", json!(LABEL_VALUE))
}

pub(super) fn in_needs_values() -> Rule {
    Rule::each(
        "requirements with operator 'In' must have a value defined",
        "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
        |x| text_of(x, "operator") != operator::IN || !values(x).is_empty(),
    )
}

pub(super) const NUMERIC_CEL: &str = "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || \
     x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)";

pub(super) fn numeric_has_one_integer(x: &Value) -> bool {
    if !operator::is_numeric(text_of(x, "operator")) {
        return true;
    }
    match values(x) {
        [value] => value.as_str().and_then(|text| text.parse::<i64>().ok()).is_some_and(|number| number >= 0),
        _ => false,
    }
}

/// A rule that reads absent values fails in CEL, as it does here with an empty list.
pub(super) fn values(requirement: &Value) -> &[Value] {
    requirement.get("values").map(elements).unwrap_or_default()
}

pub(super) fn has_any(value: &Value, fields: &[&str]) -> bool {
    fields.iter().any(|field| has(value, field))
}
