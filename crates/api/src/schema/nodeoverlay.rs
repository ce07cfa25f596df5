//! NodeOverlay.

use super::condition::conditions;
use super::rule::{has, text_of};
use super::template::{
    NUMERIC_CEL, in_needs_values, numeric_has_one_integer, requirement_key, requirement_operator, requirement_values,
    values,
};
use super::{ListMerge, Rule, Schema, int32, list, object, resources, restricted, root, text};
use crate::requirement::operator;

pub(super) fn schema() -> Schema {
    root("Changes price or capacity of instance types in simulation.", spec(), status()).require(&["spec"])
}

fn spec() -> Schema {
    object(
        "Which instance types are changed, and how.",
        [
            (
                "capacity",
                resources(
                    "Extended resources added to the matching instance types. Standard resources cannot be changed.",
                )
                .rule(Rule::entry(
                    "invalid resource restricted",
                    "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
                    |name, _| !["cpu", "memory", "ephemeral-storage", "pods"].contains(&name),
                )),
            ),
            ("price", text("Replaces the price: a number without sign.").pattern(r"^\d+(\.\d+)?$")),
            (
                "priceAdjustment",
                text("Shifts the price: a signed number, or a signed percentage.")
                    .pattern(r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"),
            ),
            ("requirements", requirements()),
            (
                "weight",
                int32("The overlay with the higher weight wins. Absent counts as 0; equal weights go by name.")
                    .at_least(1)
                    .at_most(10000),
            ),
        ],
    )
    .require(&["requirements"])
    .rule(Rule::whole(
        "cannot set both 'price' and 'priceAdjustment'",
        "!has(self.price) || !has(self.priceAdjustment)",
        |spec| !has(spec, "price") || !has(spec, "priceAdjustment"),
    ))
}

fn requirements() -> Schema {
    let item = object(
        "Restricts the values of one label.",
        [
            ("key", requirement_key(restricted::overlay_key())),
            ("operator", requirement_operator()),
            ("values", requirement_values()),
        ],
    )
    .require(&["key", "operator"]);
    list("Which instance types and offerings the overlay touches; all restrictions hold.", item)
        .at_most(100)
        .merge(ListMerge::Atomic)
        .rule(Rule::each(
            "requirements with operator 'NotIn' must have a value defined",
            "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
            |x| text_of(x, "operator") != operator::NOT_IN || !values(x).is_empty(),
        ))
        .rule(in_needs_values())
        .rule(Rule::each(
            "requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value",
            NUMERIC_CEL,
            numeric_has_one_integer,
        ))
}

fn status() -> Schema {
    object("Whether the overlay is in force.", [("conditions", conditions())])
}
