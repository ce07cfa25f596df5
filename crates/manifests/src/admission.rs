//! What an API server writes into a pod before anybody else sees it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelectorRequirement, ObjectMeta};
use karpenter_api::Quantity;
use karpenter_index::Fault;
use karpenter_index::reduce::{effective_requests, limits_stand_in_for_requests};
use rustc_hash::FxHashMap;

/// The objects that admission consults. They are gathered before any pod is read.
#[derive(Default)]
pub(crate) struct Admission {
    priorities: FxHashMap<String, i32>,
    default_priority: Option<i32>,
    runtime_classes: FxHashMap<String, RuntimeClass>,
    limit_ranges: FxHashMap<Arc<str>, Vec<core_v1::LimitRangeItem>>,
}

/// Classes that every cluster has.
const SYSTEM_PRIORITIES: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

impl Admission {
    pub(crate) fn priority_class(&mut self, object: PriorityClass) {
        let value = object.value.unwrap_or(0);
        if object.global_default == Some(true) {
            self.default_priority = Some(value);
        }
        self.priorities.insert(object.metadata.name.unwrap_or_default(), value);
    }

    pub(crate) fn runtime_class(&mut self, object: RuntimeClass) {
        self.runtime_classes.insert(object.metadata.name.clone().unwrap_or_default(), object);
    }

    pub(crate) fn limit_range(&mut self, namespace: Arc<str>, object: core_v1::LimitRange) {
        let items = object.spec.map(|spec| spec.limits).unwrap_or_default();
        let of_containers = items.into_iter().filter(|item| item.type_ == "Container");
        self.limit_ranges.entry(namespace).or_default().extend(of_containers);
    }

    /// Completes a pod. `fresh`: it has not been through an API server yet, which a uid would tell.
    pub(crate) fn admit(&self, metadata: &ObjectMeta, spec: &mut core_v1::PodSpec, namespace: &str, fresh: bool) {
        limits_stand_in_for_requests(spec);
        if fresh {
            self.apply_limit_ranges(spec, namespace);
            self.apply_runtime_class(spec);
        }
        pod_limits_stand_in_for_requests(spec);
        if spec.priority.is_none() {
            spec.priority = match spec.priority_class_name.as_deref() {
                None | Some("") => self.default_priority,
                Some(name) => self.priority(name),
            };
        }
        merge_label_keys(metadata, spec);
    }

    /// The refusal of a new pod that gives a priority of its own: that is for its class to say. Of a class that is not in the
    /// input nobody knows.
    pub(crate) fn refused_priority(&self, spec: &core_v1::PodSpec) -> Option<Fault> {
        let computed = match spec.priority_class_name.as_deref() {
            None | Some("") => self.default_priority.unwrap_or(0),
            Some(class) => self.priority(class)?,
        };
        let given = spec.priority.filter(|given| *given != computed)?;
        let message = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
             {computed} from the given PriorityClass name"
        );
        Some(Fault { field: "spec.priority".to_owned(), message })
    }

    fn priority(&self, class: &str) -> Option<i32> {
        let system = SYSTEM_PRIORITIES.iter().find(|(name, _)| *name == class).map(|(_, value)| *value);
        self.priorities.get(class).copied().or(system)
    }

    fn apply_limit_ranges(&self, spec: &mut core_v1::PodSpec, namespace: &str) {
        let Some(items) = self.limit_ranges.get(namespace) else {
            return;
        };
        for item in items {
            let defaults = container_defaults(item);
            for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
                let requests = container.resources.get_or_insert_default().requests.get_or_insert_default();
                for (name, quantity) in &defaults {
                    requests.entry(name.clone()).or_insert_with(|| quantity.clone());
                }
            }
        }
    }

    /// Overhead, selector and tolerations of the pod's runtime class.
    fn apply_runtime_class(&self, spec: &mut core_v1::PodSpec) {
        let Some(class) = spec.runtime_class_name.as_ref().and_then(|name| self.runtime_classes.get(name)) else {
            return;
        };
        if let (None, Some(overhead)) = (&spec.overhead, &class.overhead) {
            spec.overhead = overhead.pod_fixed.clone();
        }
        let Some(scheduling) = &class.scheduling else { return };
        let selector = spec.node_selector.get_or_insert_default();
        selector.extend(scheduling.node_selector.iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        spec.tolerations.get_or_insert_default().extend(scheduling.tolerations.iter().flatten().cloned());
    }
}

/// The requests a limit range gives to a container that has none: as written, else its default limit, else its
/// maximum, else its minimum.
fn container_defaults(item: &core_v1::LimitRangeItem) -> BTreeMap<String, Quantity> {
    let mut defaults = item.default_request.clone().unwrap_or_default();
    for source in [&item.default, &item.max, &item.min] {
        for (name, quantity) in source.iter().flatten() {
            defaults.entry(name.clone()).or_insert_with(|| quantity.clone());
        }
    }
    defaults
}

/// A pod-level limit is also the request, for what neither the pod nor any of its containers asks for.
fn pod_limits_stand_in_for_requests(spec: &mut core_v1::PodSpec) {
    let Some(limits) = spec.resources.as_ref().and_then(|resources| resources.limits.clone()) else {
        return;
    };
    let Ok(of_containers) = effective_requests(spec, None) else {
        return;
    };
    let Some(resources) = &mut spec.resources else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        if !of_containers.0.contains_key(&name) {
            requests.entry(name).or_insert(limit);
        }
    }
}

/// Affinity terms that follow the pod's own labels get them written into their selector.
fn merge_label_keys(metadata: &ObjectMeta, spec: &mut core_v1::PodSpec) {
    let Some(affinity) = &mut spec.affinity else { return };
    let empty = BTreeMap::new();
    let labels = metadata.labels.as_ref().unwrap_or(&empty);
    let (near, far) = (affinity.pod_affinity.as_mut(), affinity.pod_anti_affinity.as_mut());
    let near = near.map(|a| {
        (
            &mut a.required_during_scheduling_ignored_during_execution,
            &mut a.preferred_during_scheduling_ignored_during_execution,
        )
    });
    let far = far.map(|a| {
        (
            &mut a.required_during_scheduling_ignored_during_execution,
            &mut a.preferred_during_scheduling_ignored_during_execution,
        )
    });
    for (required, preferred) in near.into_iter().chain(far) {
        let required = required.iter_mut().flatten();
        for term in required.chain(preferred.iter_mut().flatten().map(|weighted| &mut weighted.pod_affinity_term)) {
            merge_into(term, labels);
        }
    }
}

fn merge_into(term: &mut core_v1::PodAffinityTerm, labels: &BTreeMap<String, String>) {
    let Some(selector) = &mut term.label_selector else {
        return;
    };
    for (keys, operator) in [(&term.match_label_keys, "In"), (&term.mismatch_label_keys, "NotIn")] {
        for key in keys.iter().flatten() {
            let Some(value) = labels.get(key) else { continue };
            selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values: Some(vec![value.clone()]),
            });
        }
    }
}
