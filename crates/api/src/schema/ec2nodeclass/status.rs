//! What the selectors resolved to.

use serde_json::json;

use super::super::condition::plain_conditions;
use super::super::{ListMerge, Schema, boolean, date_time, list, object, text};
use crate::ec2nodeclass::{DEFAULT_RESERVATION_STATE, DEFAULT_RESERVATION_TYPE};

pub(in crate::schema) fn status() -> Schema {
    object(
        "What the selectors resolved to, and whether the class can be used.",
        [
            ("amis", list("The images in use.", ami())),
            ("capacityReservations", list("The capacity reservations in use.", capacity_reservation())),
            ("conditions", plain_conditions()),
            ("instanceProfile", text("The instance profile in use.")),
            ("securityGroups", list("The security groups in use.", security_group())),
            ("subnets", list("The subnets in use.", subnet())),
        ],
    )
}

pub(in crate::schema) fn ami() -> Schema {
    let requirement = object(
        "Restricts the values of one label.",
        [
            ("key", text("The label's key.")),
            ("operator", text("How the label relates to the values.")),
            ("values", list("The values, or none.", text("")).merge(ListMerge::Atomic)),
        ],
    )
    .require(&["key", "operator"]);
    object(
        "An image and the instance types it runs on.",
        [
            ("deprecated", boolean("Whether its owner has deprecated the image.")),
            ("id", text("The image's id.")),
            ("name", text("The image's name.")),
            ("requirements", list("Which instance types the image runs on.", requirement)),
        ],
    )
    .require(&["id", "requirements"])
}

fn capacity_reservation() -> Schema {
    object(
        "",
        [
            ("availabilityZone", text("The zone of the reservation.")),
            ("endTime", date_time("When the reservation ends and its capacity is released.")),
            ("id", text("The reservation's id.").pattern("^cr-[0-9a-z]+$")),
            ("instanceMatchCriteria", text("Which launches the reservation accepts.").one_of(&["open", "targeted"])),
            ("instanceType", text("The instance type reserved.")),
            ("interruptible", boolean("Whether EC2 may take the capacity back.")),
            ("ownerID", text("The account that owns the reservation.").pattern("^[0-9]{12}$")),
            (
                "reservationType",
                text("The kind of reservation.")
                    .one_of(&["default", "capacity-block"])
                    .default_value(json!(DEFAULT_RESERVATION_TYPE)),
            ),
            (
                "state",
                text("A capacity block is expiring shortly before its end.")
                    .one_of(&["active", "expiring"])
                    .default_value(json!(DEFAULT_RESERVATION_STATE)),
            ),
        ],
    )
    .require(&["availabilityZone", "id", "instanceMatchCriteria", "instanceType", "ownerID"])
}

pub(in crate::schema) fn security_group() -> Schema {
    object("A security group.", [("id", text("The group's id.")), ("name", text("The group's name."))]).require(&["id"])
}

pub(in crate::schema) fn subnet() -> Schema {
    object(
        "A subnet.",
        [
            ("id", text("The subnet's id.")),
            ("zone", text("The subnet's zone.")),
            ("zoneID", text("The zone's id, which is the same in every account.")),
        ],
    )
    .require(&["id", "zone"])
}
