//! The kinds we read, by what stands in `apiVersion` and `kind`; those we pass over; and those that nobody has.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use karpenter_api::Kind;
use karpenter_kinds::resources::{self, Resource};
use karpenter_kinds::review::{self, ServedKind};
use karpenter_kinds::suggest;
use karpenter_kinds::types::Types;

/// A kind that matters to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    NodePool,
    NodeClaim,
    NodeOverlay,
    EC2NodeClass,
    Pod,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CsiNode,
    PodDisruptionBudget,
    Namespace,
    PriorityClass,
    RuntimeClass,
    LimitRange,
    Service,
}

/// `apiVersion`, `kind`, and whether objects of the kind live in a namespace.
const TABLE: [(Known, &str, &str, bool); 21] = [
    (Known::NodePool, "karpenter.sh/v1", "NodePool", false),
    (Known::NodeClaim, "karpenter.sh/v1", "NodeClaim", false),
    (Known::NodeOverlay, "karpenter.sh/v1alpha1", "NodeOverlay", false),
    (Known::EC2NodeClass, "karpenter.k8s.aws/v1", "EC2NodeClass", false),
    (Known::Pod, "v1", "Pod", true),
    (Known::Deployment, "apps/v1", "Deployment", true),
    (Known::ReplicaSet, "apps/v1", "ReplicaSet", true),
    (Known::StatefulSet, "apps/v1", "StatefulSet", true),
    (Known::DaemonSet, "apps/v1", "DaemonSet", true),
    (Known::Job, "batch/v1", "Job", true),
    (Known::Node, "v1", "Node", false),
    (Known::PersistentVolume, "v1", "PersistentVolume", false),
    (Known::PersistentVolumeClaim, "v1", "PersistentVolumeClaim", true),
    (Known::StorageClass, "storage.k8s.io/v1", "StorageClass", false),
    (Known::CsiNode, "storage.k8s.io/v1", "CSINode", false),
    (Known::PodDisruptionBudget, "policy/v1", "PodDisruptionBudget", true),
    (Known::Namespace, "v1", "Namespace", false),
    (Known::PriorityClass, "scheduling.k8s.io/v1", "PriorityClass", false),
    (Known::RuntimeClass, "node.k8s.io/v1", "RuntimeClass", false),
    (Known::LimitRange, "v1", "LimitRange", true),
    (Known::Service, "v1", "Service", true),
];

pub(crate) enum Lookup {
    Known(Known),
    /// Served by every API server, or defined by our chart; plans do not depend on it.
    Builtin(ServedKind),
    Ours(Kind),
    /// Of somebody else's definition.
    Foreign,
    /// No server has it.
    Nowhere(Nowhere),
}

/// A kind that does not exist, or not where it is said to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nowhere {
    pub(crate) field: &'static str,
    pub(crate) message: String,
}

pub(crate) fn lookup(api_version: &str, kind: &str) -> Lookup {
    if let Some((known, ..)) = TABLE.iter().find(|(_, version, name, _)| *name == kind && *version == api_version) {
        return Lookup::Known(*known);
    }
    if let Some(ours) = Kind::of(api_version, kind) {
        return Lookup::Ours(ours);
    }
    if let Some(served) = review::served_kind(api_version, kind) {
        return Lookup::Builtin(served);
    }
    // Answers and subresources, of which dumps may have some.
    if Types::get().kind(api_version, kind).is_some() {
        return Lookup::Foreign;
    }
    nowhere(api_version, kind).map_or(Lookup::Foreign, Lookup::Nowhere)
}

/// Kinds that Karpenter once had, and what to do about them.
const RETIRED: [(&str, &str, &str); 3] = [
    ("karpenter.sh", "Provisioner", "is not read since v0.33: write a NodePool of karpenter.sh/v1"),
    ("karpenter.sh", "Machine", "is not read since v0.33: NodeClaim of karpenter.sh/v1 has taken its place"),
    ("karpenter.k8s.aws", "AWSNodeTemplate", "is not read since v0.33: write an EC2NodeClass of karpenter.k8s.aws/v1"),
];

/// Everything that can be created, as (apiVersion, kind).
fn everything() -> Vec<(String, &'static str)> {
    let ours = Kind::ALL.into_iter().map(|kind| (kind.api_version().to_owned(), kind.as_str()));
    let created = |resource: &&Resource| resource.subresource.is_empty() && resource.verbs.contains(&"create");
    let builtin = resources::all().iter().filter(created).map(|resource| (resource.api_version(), resource.kind));
    ours.chain(builtin).collect()
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// What is wrong with a kind that nobody knows, if it cannot be one of somebody else's: those have groups with a dot that
/// look like none of ours.
fn nowhere(api_version: &str, kind: &str) -> Option<Nowhere> {
    let group = group_of(api_version);
    let everything = everything();
    let groups: BTreeSet<&str> = everything.iter().map(|(version, _)| group_of(version)).collect();
    let is_known = groups.contains(group);
    let nearest_group = suggest::nearest(group, groups.iter().copied().filter(|group| !group.is_empty()));
    if !is_known && group.contains('.') && nearest_group.is_none() {
        return None;
    }
    if let Some((.., advice)) = RETIRED.iter().find(|(of, name, _)| *of == group && *name == kind) {
        return Some(Nowhere { field: "kind", message: (*advice).to_owned() });
    }
    let of_kind: Vec<&str> =
        everything.iter().filter(|(_, name)| *name == kind).map(|(version, _)| version.as_str()).collect();
    if let Some(version) = of_kind.iter().find(|version| group_of(version) == group) {
        let message = format!("{api_version} is not a version we read; {version} is");
        return Some(Nowhere { field: "apiVersion", message });
    }
    let nearer = of_kind.iter().find(|version| Some(group_of(version)) == nearest_group);
    if let Some(version) = nearer.or(of_kind.first()) {
        let message = format!("there is no {kind} in {api_version}; did you mean {version}?");
        return Some(Nowhere { field: "apiVersion", message });
    }
    let group = if is_known { group } else { nearest_group.unwrap_or(group) };
    let here = everything.iter().filter(|(version, _)| group_of(version) == group).map(|(_, kind)| *kind);
    let meant =
        suggest::nearest(kind, here).or_else(|| suggest::nearest(kind, everything.iter().map(|(_, kind)| *kind)));
    let message = match meant {
        Some(meant) => format!("there is no {kind} in {api_version}; did you mean {meant}?"),
        None => format!("there is no {kind} in {api_version}"),
    };
    Some(Nowhere { field: "kind", message })
}

impl Known {
    fn row(self) -> &'static (Known, &'static str, &'static str, bool) {
        TABLE.iter().find(|row| row.0 == self).expect("every kind has a row")
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().2
    }

    pub(crate) fn is_namespaced(self) -> bool {
        self.row().3
    }

    /// The built-in kind it is; none for ours.
    pub(crate) fn served(self) -> Option<ServedKind> {
        static SERVED: OnceLock<Vec<Option<ServedKind>>> = OnceLock::new();
        let served = SERVED
            .get_or_init(|| TABLE.iter().map(|(_, version, kind, _)| review::served_kind(version, kind)).collect());
        let position = TABLE.iter().position(|row| row.0 == self).expect("every kind has a row");
        served[position]
    }
}
