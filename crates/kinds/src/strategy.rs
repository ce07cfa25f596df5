//! What the server does to an object before it validates and stores it: which fields a create resets, which an update
//! may not touch, when the generation moves.

use serde_json::{Map, Value, json};

use crate::defaults::TEMPLATE_GENERATION;
use crate::pods;

/// What of an object a request may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The object itself: everything but its status.
    Main,
    /// The status subresource.
    Status,
    /// `namespaces/finalize`.
    Finalize,
    /// `pods/resize`: resources only.
    Resize,
    /// `pods/ephemeralcontainers`.
    EphemeralContainers,
    /// `certificatesigningrequests/approval`: its conditions.
    Approval,
}

/// Kinds whose status a create may set: nodes register with it, and the plain ones have no strategy for it.
fn keeps_status_on_create(kind: &str) -> bool {
    matches!(kind, "Node" | "ComponentStatus")
}

/// Kinds whose generation counts changes of the spec.
pub fn has_generation(kind: &str) -> bool {
    matches!(
        kind,
        "PriorityClass"
            | "IngressClass"
            | "NetworkPolicy"
            | "Ingress"
            | "EndpointSlice"
            | "PodDisruptionBudget"
            | "ResourceSlice"
            | "DeviceClass"
            | "FlowSchema"
            | "PriorityLevelConfiguration"
            | "DaemonSet"
            | "StatefulSet"
            | "Deployment"
            | "ReplicaSet"
            | "Job"
            | "CronJob"
            | "Pod"
            | "PodTemplate"
            | "ReplicationController"
            | "ValidatingAdmissionPolicy"
            | "MutatingAdmissionPolicy"
            | "MutatingWebhookConfiguration"
            | "ValidatingWebhookConfiguration"
            | "MutatingAdmissionPolicyBinding"
            | "ValidatingAdmissionPolicyBinding"
            | "CustomResourceDefinition"
    )
}

/// Kinds that a PUT to a free name creates.
pub fn creates_on_update(kind: &str) -> bool {
    matches!(
        kind,
        "RuntimeClass"
            | "RoleBinding"
            | "ClusterRoleBinding"
            | "Role"
            | "ClusterRole"
            | "Lease"
            | "LimitRange"
            | "Event"
            | "Service"
            | "Endpoints"
    )
}

/// Kinds whose updates must carry a resource version.
pub fn needs_version_on_update(kind: &str) -> bool {
    matches!(
        kind,
        "RuntimeClass"
            | "PodDisruptionBudget"
            | "CSIDriver"
            | "CSIStorageCapacity"
            | "VolumeAttachment"
            | "CSINode"
            | "Lease"
            | "ValidatingAdmissionPolicy"
            | "MutatingAdmissionPolicy"
            | "MutatingWebhookConfiguration"
            | "ValidatingWebhookConfiguration"
            | "MutatingAdmissionPolicyBinding"
            | "ValidatingAdmissionPolicyBinding"
            | "CustomResourceDefinition"
    )
}

/// Before a create. `has_status` says that the kind has a status subresource; `now` is RFC 3339.
pub fn prepare_create(kind: &str, object: &mut Value, has_status: bool, now: &str) {
    if has_generation(kind) {
        object["metadata"]["generation"] = Value::from(1);
    }
    if has_status && !keeps_status_on_create(kind) {
        object["status"] = json!({});
    }
    match kind {
        "Pod" => {
            let qos = pods::qos_class(&object["spec"]);
            object["status"] = json!({"phase": "Pending", "qosClass": qos});
            if object["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
                object["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates", "lastProbeTime": null, "lastTransitionTime": now}]);
            }
            pods::fold_match_label_keys(object);
        }
        "PersistentVolume" => object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now}),
        "PersistentVolumeClaim" => {
            object["status"] = json!({"phase": "Pending"});
            normalize_data_sources(object);
        }
        "Namespace" => {
            object["status"] = json!({"phase": "Active"});
            let finalizers = object["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
            if !finalizers.iter().any(|name| name == "kubernetes") {
                let mut finalizers = finalizers;
                finalizers.push(Value::from("kubernetes"));
                object["spec"]["finalizers"] = Value::Array(finalizers);
            }
        }
        "DaemonSet" => object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!("1"),
        "CustomResourceDefinition" => {
            object["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored_versions(object)})
        }
        _ => {}
    }
}

/// The version a new definition keeps its objects in.
fn stored_versions(definition: &Value) -> Value {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter(|version| version["storage"] == true).map(|version| version["name"].clone()).collect()
}

/// Before an update: what the request may not touch is as it was, and the generation follows the spec.
pub fn prepare_update(kind: &str, part: Part, object: &mut Value, old: &Value, has_status: bool, now: &str) {
    match part {
        Part::Main => {
            if has_status {
                restore(object, old, "status");
            }
            match kind {
                "Namespace" => match old["spec"].get("finalizers") {
                    Some(finalizers) => object["spec"]["finalizers"] = finalizers.clone(),
                    None => {
                        if let Some(spec) = object["spec"].as_object_mut() {
                            spec.remove("finalizers");
                        }
                    }
                },
                "PersistentVolumeClaim" => normalize_data_sources(object),
                "DaemonSet" => count_template_changes(object, old),
                "Service" => drop_fields_of_the_old_type(object, old),
                _ => {}
            }
        }
        Part::Status => {
            for key in spec_keys(object, old) {
                restore(object, old, &key);
            }
            match kind {
                "Pod" => {
                    restore_metadata(object, old, "ownerReferences");
                    if object["status"]["qosClass"].as_str().unwrap_or_default().is_empty() {
                        copy(object, old, "/status/qosClass", "qosClass");
                    }
                    keep_observed_generation(object, old);
                }
                "Deployment" => restore_metadata(object, old, "labels"),
                "PersistentVolume" => {
                    let (old_phase, new_phase) = (&old["status"]["phase"], &object["status"]["phase"]);
                    let (before, after) =
                        (&old["status"]["lastPhaseTransitionTime"], &object["status"]["lastPhaseTransitionTime"]);
                    if old_phase == new_phase {
                        if after.is_null() && !before.is_null() {
                            object["status"]["lastPhaseTransitionTime"] = before.clone();
                        }
                    } else if after.is_null() || after == before {
                        object["status"]["lastPhaseTransitionTime"] = Value::from(now);
                    }
                }
                "CustomResourceDefinition" => {
                    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
                        restore_metadata(object, old, key);
                    }
                }
                _ => {}
            }
        }
        Part::Finalize => restore(object, old, "status"),
        Part::Approval => {
            restore(object, old, "spec");
            let conditions = object["status"]["conditions"].clone();
            restore(object, old, "status");
            object["status"]["conditions"] = conditions;
        }
        Part::Resize => {
            let wanted = object["spec"].clone();
            restore(object, old, "spec");
            restore(object, old, "status");
            pods::take_resources(&mut object["spec"], &wanted);
            let metadata = old["metadata"].clone();
            keep_resource_version(object, metadata);
        }
        Part::EphemeralContainers => {
            let wanted = object["spec"].get("ephemeralContainers").cloned();
            restore(object, old, "spec");
            restore(object, old, "status");
            if let Some(wanted) = wanted {
                object["spec"]["ephemeralContainers"] = wanted;
            }
            let metadata = old["metadata"].clone();
            keep_resource_version(object, metadata);
        }
    }
    let generation = old["metadata"].get("generation").cloned();
    let bumped = has_generation(kind) && generation_moves(kind, part, object, old);
    let next = if bumped { generation.as_ref().and_then(Value::as_i64).unwrap_or(0) + 1 } else { 0 };
    match generation {
        _ if bumped => object["metadata"]["generation"] = Value::from(next),
        Some(generation) => object["metadata"]["generation"] = generation,
        None => {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("generation");
            }
        }
    }
}

/// What a service had only because of its type goes with the type, unless the request touches it.
fn drop_fields_of_the_old_type(object: &mut Value, old: &Value) {
    let kind = |service: &Value| service["spec"]["type"].as_str().unwrap_or_default().to_owned();
    let (new_kind, old_kind) = (kind(object), kind(old));
    let has_node_ports = |kind: &str| kind == "NodePort" || kind == "LoadBalancer";
    if has_node_ports(&old_kind) && !has_node_ports(&new_kind) {
        let before = old["spec"]["ports"].as_array().cloned().unwrap_or_default();
        for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
            let same = before.iter().any(|old| old["nodePort"] == port["nodePort"]);
            if same && let Some(port) = port.as_object_mut() {
                port.shift_remove("nodePort");
            }
        }
        for key in ["externalTrafficPolicy", "healthCheckNodePort"] {
            if object["spec"].get(key) == old["spec"].get(key)
                && let Some(spec) = object["spec"].as_object_mut()
            {
                spec.shift_remove(key);
            }
        }
    }
    if old_kind == "LoadBalancer" && new_kind != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerIP"] {
            if object["spec"].get(key) == old["spec"].get(key)
                && let Some(spec) = object["spec"].as_object_mut()
            {
                spec.shift_remove(key);
            }
        }
        if let Some(status) = object["status"].as_object_mut() {
            status.insert("loadBalancer".into(), json!({}));
        }
    }
    if new_kind == "ExternalName"
        && old_kind != "ExternalName"
        && object["spec"]["clusterIP"] == old["spec"]["clusterIP"]
        && let Some(spec) = object["spec"].as_object_mut()
    {
        for key in ["clusterIP", "clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy"] {
            spec.shift_remove(key);
        }
    }
}

fn count_template_changes(object: &mut Value, old: &Value) {
    let before = old["metadata"]["annotations"][TEMPLATE_GENERATION].as_str().and_then(|text| text.parse::<i64>().ok());
    let changed = object["spec"]["template"] != old["spec"]["template"];
    let next = before.unwrap_or(0) + i64::from(changed);
    object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!(next.to_string());
}

fn generation_moves(kind: &str, part: Part, object: &Value, old: &Value) -> bool {
    if part == Part::Status || part == Part::Approval {
        return false;
    }
    let differs = |key: &str| object.get(key) != old.get(key);
    match kind {
        "Deployment" => differs("spec") || object["metadata"].get("annotations") != old["metadata"].get("annotations"),
        "PodTemplate" => differs("template"),
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => differs("webhooks"),
        // Any change of labels or content counts.
        "EndpointSlice" => {
            differs("endpoints")
                || differs("ports")
                || object["metadata"].get("labels") != old["metadata"].get("labels")
        }
        "PriorityClass" => false,
        _ => differs("spec"),
    }
}

/// The top-level keys a status update leaves alone: everything but metadata and status.
fn spec_keys(object: &Value, old: &Value) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for value in [object, old] {
        for key in value.as_object().into_iter().flat_map(Map::keys) {
            if !matches!(key.as_str(), "metadata" | "status" | "kind" | "apiVersion") && !keys.contains(key) {
                keys.push(key.clone());
            }
        }
    }
    keys
}

fn restore(object: &mut Value, old: &Value, key: &str) {
    let Some(object) = object.as_object_mut() else { return };
    match old.get(key) {
        Some(value) => object.insert(key.to_owned(), value.clone()),
        None => object.shift_remove(key),
    };
}

fn restore_metadata(object: &mut Value, old: &Value, key: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    match old["metadata"].get(key) {
        Some(value) => metadata.insert(key.to_owned(), value.clone()),
        None => metadata.shift_remove(key),
    };
}

fn copy(object: &mut Value, old: &Value, pointer: &str, key: &str) {
    if let Some(value) = old.pointer(pointer) {
        object["status"][key] = value.clone();
    }
}

/// Old kubelets drop the observed generation; what was known stays known.
fn keep_observed_generation(object: &mut Value, old: &Value) {
    if object["status"].get("observedGeneration").is_none()
        && let Some(generation) = old["status"].get("observedGeneration")
    {
        object["status"]["observedGeneration"] = generation.clone();
    }
}

/// Everything of the metadata is as it was, except that the request's precondition stays.
fn keep_resource_version(object: &mut Value, mut metadata: Value) {
    if let Some(version) = object["metadata"].get("resourceVersion") {
        metadata["resourceVersion"] = version.clone();
    }
    if let Some(managed) = object["metadata"].get("managedFields") {
        metadata["managedFields"] = managed.clone();
    }
    object["metadata"] = metadata;
}

fn normalize_data_sources(claim: &mut Value) {
    let source = claim["spec"].get("dataSource").cloned();
    let reference = claim["spec"].get("dataSourceRef").cloned();
    match (source, reference) {
        (Some(source), None) => claim["spec"]["dataSourceRef"] = source,
        (None, Some(reference)) if reference.get("namespace").is_none() => claim["spec"]["dataSource"] = reference,
        _ => {}
    }
}
