//! The kubelet settings that pools and claims had in v1beta1.

use serde_json::Value;

use super::super::rule::has;
use super::super::{Rule, Schema, boolean, int32, list, map, object, text};

const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
const RESERVED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
const KNOWN_SIGNALS: &str = "self.all(x, x in \
     ['memory.available','nodefs.available','nodefs.inodesFree','imagefs.available','imagefs.inodesFree','pid.available'])";
const THRESHOLD: &str = r"^((\d{1,2}(\.\d{1,2})?|100(\.0{1,2})?)%||(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?)$";

pub(super) fn kubelet() -> Schema {
    object(
        "Settings for the kubelet.",
        [
            ("clusterDNS", list("Addresses of the cluster's DNS servers.", text(""))),
            ("cpuCFSQuota", boolean("Whether CPU limits are enforced by quota.")),
            ("evictionHard", thresholds("When pods are evicted at once.")),
            ("evictionMaxPodGracePeriod", int32("The longest grace period in seconds of a soft eviction.")),
            ("evictionSoft", thresholds("When pods are evicted after a grace period.")),
            (
                "evictionSoftGracePeriod",
                map("How long a soft threshold must have been passed.", text(""))
                    .at_most(bound(&SIGNALS))
                    .rule(known_signals()),
            ),
            (
                "imageGCHighThresholdPercent",
                int32("Disk usage above which images are collected.").at_least(0).at_most(100),
            ),
            (
                "imageGCLowThresholdPercent",
                int32("Disk usage down to which images are collected.").at_least(0).at_most(100),
            ),
            ("kubeReserved", reserved("Resources kept for Kubernetes.")),
            ("maxPods", int32("How many pods a node may run.").at_least(0)),
            ("podsPerCore", int32("How many pods a node may run for each core.").at_least(0)),
            ("systemReserved", reserved("Resources kept for the system.")),
        ],
    )
    .rule(Rule::whole(
        "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
        "has(self.imageGCHighThresholdPercent) && has(self.imageGCLowThresholdPercent) ? \
         self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent : true",
        |kubelet| {
            let percent = |field| kubelet.get(field).and_then(Value::as_i64);
            match (percent("imageGCHighThresholdPercent"), percent("imageGCLowThresholdPercent")) {
                (Some(high), Some(low)) => high > low,
                _ => true,
            }
        },
    ))
    .rule(Rule::whole(
        "evictionSoft OwnerKey does not have a matching evictionSoftGracePeriod",
        "has(self.evictionSoft) ? self.evictionSoft.all(e, (e in self.evictionSoftGracePeriod)):true",
        |kubelet| each_in(kubelet, "evictionSoft", "evictionSoftGracePeriod"),
    ))
    .rule(Rule::whole(
        "evictionSoftGracePeriod OwnerKey does not have a matching evictionSoft",
        "has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(e, (e in self.evictionSoft)):true",
        |kubelet| each_in(kubelet, "evictionSoftGracePeriod", "evictionSoft"),
    ))
}

/// A rule that reads an absent map fails, also for an empty one.
fn each_in(kubelet: &Value, these: &str, those: &str) -> bool {
    let Some(these) = kubelet.get(these).and_then(Value::as_object) else { return true };
    these.is_empty() || kubelet.get(those).is_some_and(|those| these.keys().all(|key| has(those, key)))
}

fn thresholds(description: &'static str) -> Schema {
    map(description, text("").pattern(THRESHOLD)).at_most(bound(&SIGNALS)).rule(known_signals())
}

/// There cannot be more entries than known keys. An API server wants that said: it refuses rules whose cost it cannot bound.
fn bound(keys: &[&str]) -> i64 {
    i64::try_from(keys.len()).unwrap_or(i64::MAX)
}

fn known_signals() -> Rule {
    Rule::entry(
        "valid keys for eviction thresholds are ['memory.available','nodefs.available','nodefs.inodesFree',\
         'imagefs.available','imagefs.inodesFree','pid.available']",
        KNOWN_SIGNALS,
        |key, _| SIGNALS.contains(&key),
    )
}

fn reserved(description: &'static str) -> Schema {
    map(description, Schema::new("", super::super::Shape::Quantity))
        .at_most(bound(&RESERVED))
        .rule(Rule::entry(
            "valid keys for reserved resources are ['cpu','memory','ephemeral-storage','pid']",
            "self.all(x, x=='cpu' || x=='memory' || x=='ephemeral-storage' || x=='pid')",
            |key, _| RESERVED.contains(&key),
        ))
        .rule(Rule::entry(
            "reserved resources cannot be negative",
            "self.all(x, !string(self[x]).startsWith('-'))",
            |_, value| !value.to_string().trim_start_matches('"').starts_with('-'),
        ))
}
