//! What an API server would say of an object: of built-in kinds in its own words, of ours by their schemas and rules.

use std::hash::Hasher;

use karpenter_api::Kind;
use karpenter_index::Fault;
use karpenter_kinds::misfit::{Misfit, Problem};
use karpenter_kinds::review::{self, Review, ServedKind};
use karpenter_kinds::{names, suggest};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use serde_json::{Map, Value};

use crate::position;

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) fault: Fault,
    pub(crate) weight: Weight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// The value cannot be read: no server can have taken it, of whatever version.
    Unreadable,
    /// A server refuses it; one of another version may have taken it.
    Refused,
}

/// The findings, and the object without what does not fit its type, if anything does not.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) findings: Vec<Finding>,
    pub(crate) fitting: Option<Value>,
}

impl Checked {
    fn of(review: Review) -> Self {
        let misfits = review.misfits.into_iter().map(|misfit: Misfit| {
            let weight = match misfit.problem {
                Problem::Unknown { .. } => Weight::Refused,
                Problem::Wrong(_) => Weight::Unreadable,
            };
            let message = misfit.message();
            Finding { fault: Fault { field: misfit.field, message }, weight }
        });
        let errors = review.errors.into_iter().map(|error| {
            let message = error.body();
            Finding { fault: Fault { field: error.field, message }, weight: Weight::Refused }
        });
        Self { findings: misfits.chain(errors).collect(), fitting: review.fitting }
    }
}

/// Checks objects one after the other. Pods come in thousands of few sorts: specs that were good once are remembered.
#[derive(Default)]
pub(crate) struct Checks {
    good_specs: FxHashMap<u64, Vec<Map<String, Value>>>,
    /// Controllers of pods, by uid, one pod of which was looked at.
    owners: FxHashSet<String>,
}

impl Checks {
    pub(crate) fn builtin(&mut self, served: ServedKind, object: &Value) -> Checked {
        let is_pod = served.resource.group.is_empty() && served.resource.kind == "Pod";
        if is_pod && (self.is_one_of_many(object) || self.is_good_pod(served, object)) {
            return Checked::default();
        }
        Checked::of(review::create(served, object))
    }

    /// Whether another pod of the same controller was looked at. Only of pods of a dump, for which there are notes at most,
    /// each told once: what cannot be read shows when they are read.
    fn is_one_of_many(&mut self, pod: &Value) -> bool {
        let metadata = &pod["metadata"];
        let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let Some(owner) = owners.find(|owner| owner["controller"] == true) else { return false };
        let (Some(_), Some(owner)) = (metadata["uid"].as_str(), owner["uid"].as_str()) else { return false };
        if self.owners.contains(owner) {
            return true;
        }
        self.owners.insert(owner.to_owned());
        false
    }

    /// Whether the pod's metadata and its spec are good, the spec perhaps because it is like one that was. Statuses are
    /// left to whoever reads the object.
    fn is_good_pod(&mut self, served: ServedKind, whole: &Value) -> bool {
        let expected = |key: &String| matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "spec" | "status");
        let Some(pod) = whole.as_object().filter(|pod| pod.keys().all(expected)) else { return false };
        let Some(Value::Object(spec)) = pod.get("spec") else { return false };
        if !review::has_good_metadata(served, whole) {
            return false;
        }
        // The node is what pods of one sort differ in.
        let gated = spec.get("schedulingGates").is_some_and(|gates| !gates.is_null());
        let usual_node = |node: &Value| node.as_str().is_some_and(|node| names::dns_subdomain(node).is_ok());
        let apart = !gated && spec.get("nodeName").is_some_and(usual_node);
        let fields = || spec.iter().filter(|(key, _)| !(apart && *key == "nodeName"));
        let mut hasher = FxHasher::default();
        fields().for_each(|field| digest_field(field, &mut hasher));
        let like = self.good_specs.entry(hasher.finish()).or_default();
        if like.iter().any(|known| are_alike(known.iter(), fields())) {
            return true;
        }
        let spec: Map<String, Value> = fields().map(|(key, value)| (key.clone(), value.clone())).collect();
        let sample = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
        let clean = review::create(served, &sample).is_clean();
        if clean {
            like.push(spec);
        }
        clean
    }
}

/// Volumes that a server adds have names made at random.
const TOKEN_VOLUME: &str = "kube-api-access-";

fn digest_field((key, value): (&String, &Value), hasher: &mut FxHasher) {
    hasher.write(key.as_bytes());
    digest(value, hasher);
}

fn digest(value: &Value, hasher: &mut FxHasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(flag) => hasher.write_u8(1 + u8::from(*flag)),
        Value::Number(number) => hasher.write_i64(number.as_i64().unwrap_or(i64::MAX)),
        Value::String(text) if text.starts_with(TOKEN_VOLUME) => hasher.write(TOKEN_VOLUME.as_bytes()),
        Value::String(text) => hasher.write(text.as_bytes()),
        Value::Array(items) => {
            hasher.write_usize(items.len());
            items.iter().for_each(|item| digest(item, hasher));
        }
        Value::Object(fields) => {
            hasher.write_usize(fields.len());
            fields.iter().for_each(|field| digest_field(field, hasher));
        }
    }
}

fn are_alike<'a>(
    mut a: impl Iterator<Item = (&'a String, &'a Value)>,
    mut b: impl Iterator<Item = (&'a String, &'a Value)>,
) -> bool {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some((a_key, a)), Some((b_key, b))) if a_key == b_key && is_alike(a, b) => {}
            _ => return false,
        }
    }
}

fn is_alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a == b || (a.starts_with(TOKEN_VOLUME) && b.starts_with(TOKEN_VOLUME)),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_alike(a, b)),
        (Value::Object(a), Value::Object(b)) => are_alike(a.iter(), b.iter()),
        (a, b) => a == b,
    }
}

/// One of ours, by the schema and rules of its definition, which fills in its defaults.
pub(crate) fn ours(kind: Kind, object: &mut Value) -> Checked {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    let of_metadata = review::metadata(kind.api_version(), kind.is_namespaced(), &metadata);
    if let Some(fitting) = &of_metadata.fitting {
        object["metadata"] = fitting.clone();
    }
    let mut checked = Checked::of(of_metadata);
    let beside_metadata = |field: &str| field != "metadata" && !field.starts_with("metadata.");
    let unknown = karpenter_api::validation::unknown_fields(kind, object);
    let mut definition = None;
    for field in unknown.into_iter().filter(|field| beside_metadata(field)) {
        let name = field.rsplit('.').next().unwrap_or_default();
        let definition = definition.get_or_insert_with(|| karpenter_api::crd(kind));
        let message = match suggest::nearest(name, fields_beside(definition, &field)) {
            Some(meant) => format!("unknown field; did you mean {meant:?}?"),
            None => "unknown field".to_owned(),
        };
        checked.findings.push(Finding { fault: Fault { field, message }, weight: Weight::Refused });
    }
    karpenter_api::apply_defaults(kind, object);
    for karpenter_api::Fault { field, message } in karpenter_api::validate(kind, object) {
        if beside_metadata(&field) {
            checked.findings.push(Finding { fault: Fault { field, message }, weight: Weight::Refused });
        }
    }
    checked
}

/// The names that a definition's schema has beside the one that the field ends with.
fn fields_beside<'a>(definition: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    let mut schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let steps = position::steps(field);
    for step in &steps[..steps.len().saturating_sub(1)] {
        schema = match step {
            position::Step::Index(_) => &schema["items"],
            position::Step::Field(name) if schema["properties"].is_object() => &schema["properties"][name],
            position::Step::Field(_) => &schema["additionalProperties"],
        };
    }
    schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys()).map(String::as_str)
}

/// Whether a refused node class is one that is not filled in yet: no role, no selectors.
pub(crate) fn is_left_open(class: &Value, fault: &Fault) -> bool {
    let empty = |name: &str| match class.pointer(&format!("/spec/{name}")) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    };
    match fault.field.as_str() {
        "spec" if fault.message.contains("'instanceProfile'") => empty("role") && empty("instanceProfile"),
        "spec" if fault.message.contains("amiFamily") => empty("amiSelectorTerms"),
        field => {
            let open =
                ["role", "instanceProfile", "amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms"];
            field.strip_prefix("spec.").is_some_and(|name| open.contains(&name) && empty(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_beside_a_misspelt_one_are_known() {
        for (kind, field, wanted) in [
            (Kind::NodePool, "spc", "spec"),
            (Kind::NodePool, "spec.wieght", "weight"),
            (Kind::NodePool, "spec.template.spec.requirments", "requirements"),
            (Kind::NodePool, "spec.template.spec.requirements[2].opertor", "operator"),
            (Kind::EC2NodeClass, "spec.blockDeviceMappings[0].ebs.volumSize", "volumeSize"),
        ] {
            let definition = karpenter_api::crd(kind);
            assert!(fields_beside(&definition, field).any(|name| name == wanted), "{field}");
        }
        assert_eq!(fields_beside(&karpenter_api::crd(Kind::NodePool), "spec.nothing.below").count(), 0);
    }
}
