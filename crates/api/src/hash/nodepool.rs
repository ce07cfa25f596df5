//! The NodePool's hash: its template without the requirements.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;

use super::{StructHash, fnv1, int64, list, string_map};
use crate::duration::{GoDuration, NillableDuration};
use crate::nodepool::{NodeClaimTemplate, NodeClaimTemplateSpec, NodeClassReference, NodePool, TemplateMetadata};

/// Raised by the reference whenever the same template would hash differently.
pub const NODEPOOL_HASH_VERSION: &str = "v3";

/// The value of the annotation `karpenter.sh/nodepool-hash`.
pub fn nodepool_hash(pool: &NodePool) -> String {
    template(&pool.spec.template).to_string()
}

fn template(template: &NodeClaimTemplate) -> u64 {
    let metadata = template.metadata.as_ref().filter(|m| m.labels.is_some() || m.annotations.is_some());
    StructHash::new("NodeClaimTemplate")
        .optional("ObjectMeta", metadata.map(object_meta))
        .optional("Spec", Some(spec(&template.spec)))
        .value()
}

fn object_meta(metadata: &TemplateMetadata) -> u64 {
    StructHash::new("ObjectMeta")
        .optional("Labels", metadata.labels.as_ref().map(string_map))
        .optional("Annotations", metadata.annotations.as_ref().map(string_map))
        .value()
}

fn spec(spec: &NodeClaimTemplateSpec) -> u64 {
    let taints = |taints: &Vec<Taint>| list(taints.iter().map(taint));
    StructHash::new("NodeClaimTemplateSpec")
        .optional("Taints", spec.taints.as_ref().map(taints))
        .optional("StartupTaints", spec.startup_taints.as_ref().map(taints))
        .optional("NodeClassRef", Some(node_class_ref(&spec.node_class_ref)))
        .optional("TerminationGracePeriod", spec.termination_grace_period.as_ref().map(duration))
        .optional("ExpireAfter", nillable_duration(&spec.expire_after))
        .value()
}

fn node_class_ref(reference: &NodeClassReference) -> u64 {
    StructHash::new("NodeClassReference")
        .text("Kind", &reference.kind)
        .text("Name", &reference.name)
        .text("Group", &reference.group)
        .value()
}

fn taint(taint: &Taint) -> u64 {
    StructHash::new("Taint")
        .text("Key", &taint.key)
        .text("Value", taint.value.as_deref().unwrap_or_default())
        .text("Effect", &taint.effect)
        .optional("TimeAdded", taint.time_added.as_ref().map(|t| time(t.0)))
        .value()
}

/// Held by value inside its struct: zero nanoseconds leave the struct without a set field.
fn duration(duration: &GoDuration) -> u64 {
    let nanos = duration.nanos();
    StructHash::new("Duration").optional("Duration", (nanos != 0).then(|| int64(nanos))).value()
}

/// Held by pointer inside its struct: zero nanoseconds are hashed, `Never` is no struct at all.
fn nillable_duration(duration: &NillableDuration) -> Option<u64> {
    let nanos = duration.duration()?.nanos();
    Some(StructHash::new("NillableDuration").optional("Duration", Some(int64(nanos))).value())
}

/// Times are hashed in Go's binary form: version, seconds since the year 1, nanoseconds and the zone's offset in
/// minutes. The reference reads times into the local zone; its containers run in UTC, which as a local zone is offset 0.
fn time(timestamp: Timestamp) -> u64 {
    const SECONDS_FROM_YEAR_1_TO_1970: i64 = 62_135_596_800;
    const VERSION: u8 = 1;
    let (mut seconds, mut nanos) = (timestamp.as_second(), timestamp.subsec_nanosecond());
    if nanos < 0 {
        seconds -= 1;
        nanos += 1_000_000_000;
    }
    let since_year_1 = seconds + SECONDS_FROM_YEAR_1_TO_1970;
    let binary = [VERSION].into_iter().chain(since_year_1.to_be_bytes()).chain(nanos.to_be_bytes()).chain([0, 0]);
    StructHash::new("Time").optional("Time", Some(fnv1(binary))).value()
}
