//! Budgets, quotas, ranges, priorities, roles and the small kinds.

use serde_json::Value;

use super::{immutable, items, label_selector, non_negative};
use crate::fielderror::FieldError;
use crate::names;

pub(super) fn budget(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let (least, most) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    if least.is_some() && most.is_some() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        let mut error = FieldError::invalid("spec", "", detail);
        // The value shows as the server's internal type has it.
        error.value = Some(format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            spec["minAvailable"], spec["selector"], spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]
        ));
        errors.push(error);
    }
    for (key, value) in [("minAvailable", least), ("maxUnavailable", most)] {
        if let Some(value) = value {
            errors.extend(super::workloads::int_or_percent(value, &format!("spec.{key}")));
        }
    }
    errors.extend(label_selector(&spec["selector"], "spec.selector"));
    if let Some(policy) = spec["unhealthyPodEvictionPolicy"].as_str()
        && !["IfHealthyBudget", "AlwaysAllow"].contains(&policy)
    {
        let allowed = ["AlwaysAllow", "IfHealthyBudget"];
        errors.push(FieldError::not_supported("spec.unhealthyPodEvictionPolicy", policy, &allowed));
    }
    errors
}

pub(super) fn priority_class(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (name, value) =
        (object["metadata"]["name"].as_str().unwrap_or_default(), object["value"].as_i64().unwrap_or(0));
    if name.starts_with("system-") && !["system-node-critical", "system-cluster-critical"].contains(&name) {
        let detail = "priority class names with 'system-' prefix are reserved for system use only. error: ".to_owned()
            + &format!("{name} is not a known system priority class");
        errors.push(FieldError::forbidden("metadata.name", detail));
    } else if !name.starts_with("system-") && value > 1_000_000_000 {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(FieldError::forbidden("value", detail));
    }
    let policies = ["PreemptLowerPriority", "Never"];
    errors.extend(super::one_of("preemptionPolicy", &object["preemptionPolicy"], &policies));
    errors
}

pub(super) fn priority_class_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if object["value"] != old["value"] {
        errors.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
    errors.extend(immutable("preemptionPolicy", object.get("preemptionPolicy"), old.get("preemptionPolicy")));
    errors
}

pub(super) fn runtime_class(object: &Value) -> Vec<FieldError> {
    let handler = object["handler"].as_str().unwrap_or_default();
    let messages = names::dns_label(handler).err().into_iter().flatten();
    messages.map(|message| FieldError::invalid("handler", handler, message)).collect()
}

pub(super) fn runtime_class_update(object: &Value, old: &Value) -> Vec<FieldError> {
    immutable("handler", object.get("handler"), old.get("handler"))
}

pub(super) fn rules(object: &Value, cluster: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, rule) in items(&object["rules"], "rules") {
        let count = |key: &str| rule[key].as_array().map_or(0, Vec::len);
        if count("verbs") == 0 {
            errors.push(FieldError::required(format!("{field}.verbs"), "verbs must contain at least one value"));
        }
        if count("nonResourceURLs") > 0 {
            if !cluster {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(format!("{field}.nonResourceURLs"), &rule["nonResourceURLs"], detail));
            }
            if count("apiGroups") + count("resources") + count("resourceNames") > 0 {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(format!("{field}.nonResourceURLs"), &rule["nonResourceURLs"], detail));
            }
            continue;
        }
        if count("apiGroups") == 0 {
            let detail = "resource rules must supply at least one api group";
            errors.push(FieldError::required(format!("{field}.apiGroups"), detail));
        }
        if count("resources") == 0 {
            let detail = "resource rules must supply at least one resource";
            errors.push(FieldError::required(format!("{field}.resources"), detail));
        }
    }
    for (field, selector) in
        items(&object["aggregationRule"]["clusterRoleSelectors"], "aggregationRule.clusterRoleSelectors")
    {
        let found = label_selector(selector, &field);
        if !found.is_empty() {
            errors.extend(found);
            errors.push(FieldError::invalid(field, Value::Null, "invalid label selector."));
        }
    }
    errors
}

pub(super) fn role_binding(object: &Value, kind: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let reference = &object["roleRef"];
    if reference["apiGroup"] != "rbac.authorization.k8s.io" {
        let group = reference["apiGroup"].as_str().unwrap_or_default();
        errors.push(FieldError::not_supported("roleRef.apiGroup", group, &["rbac.authorization.k8s.io"]));
    }
    let allowed: &[&str] = if kind == "ClusterRoleBinding" { &["ClusterRole"] } else { &["Role", "ClusterRole"] };
    let referenced = reference["kind"].as_str().unwrap_or_default();
    if !allowed.contains(&referenced) {
        errors.push(FieldError::not_supported("roleRef.kind", referenced, allowed));
    }
    if reference["name"].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    for (field, subject) in items(&object["subjects"], "subjects") {
        let text = |key: &str| subject[key].as_str().unwrap_or_default();
        if text("name").is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        }
        match text("kind") {
            "ServiceAccount" => {
                if kind == "ClusterRoleBinding" && text("namespace").is_empty() {
                    errors.push(FieldError::required(format!("{field}.namespace"), ""));
                }
            }
            "User" | "Group" => {}
            other => {
                errors.push(FieldError::not_supported(
                    format!("{field}.kind"),
                    other,
                    &["ServiceAccount", "User", "Group"],
                ));
            }
        }
    }
    errors
}

pub(super) fn binding_update(object: &Value, old: &Value) -> Vec<FieldError> {
    if object["roleRef"] == old["roleRef"] {
        return Vec::new();
    }
    let mut error = FieldError::invalid("roleRef", "", "cannot change roleRef");
    let role = &object["roleRef"];
    error.value =
        Some(format!("{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}", role["apiGroup"], role["kind"], role["name"]));
    vec![error]
}

pub(super) fn lease(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    errors.extend(non_negative("spec.leaseTransitions", &spec["leaseTransitions"]));
    errors
}

pub(super) fn autoscaler(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let (least, most) = (spec["minReplicas"].as_i64().unwrap_or(1), spec["maxReplicas"].as_i64().unwrap_or(0));
    if least < 1 {
        errors.push(FieldError::invalid("spec.minReplicas", least, "must be greater than or equal to 1"));
    }
    if most == 0 {
        errors.push(FieldError::required("spec.maxReplicas", "must be set and greater than 0"));
    } else if most < 1 {
        errors.push(FieldError::invalid("spec.maxReplicas", most, "must be greater than 0"));
    }
    if most < least {
        errors.push(FieldError::invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"));
    }
    for key in ["kind", "name"] {
        if spec["scaleTargetRef"][key].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("spec.scaleTargetRef.{key}"), ""));
        }
    }
    let api_version = spec["scaleTargetRef"]["apiVersion"].as_str().unwrap_or_default();
    let core = spec["scaleTargetRef"]["kind"] == "ReplicationController";
    if !core && !api_version.contains('/') {
        let detail = "apiVersion must specify API group";
        errors.push(FieldError::invalid("spec.scaleTargetRef.apiVersion", api_version, detail));
    }
    for (field, metric) in items(&spec["metrics"], "spec.metrics") {
        let source = match metric["type"].as_str().unwrap_or_default() {
            "" => {
                errors.push(FieldError::required(format!("{field}.type"), "must specify a metric source type"));
                continue;
            }
            "Object" => "object",
            "Pods" => "pods",
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "External" => "external",
            other => {
                let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
                // Once for the type, once for the source it does not name.
                let error = FieldError::not_supported(format!("{field}.type"), other, &known);
                errors.extend([error.clone(), error]);
                continue;
            }
        };
        if !metric[source].is_object() {
            let detail = "must populate information for the given metric source";
            errors.push(FieldError::required(format!("{field}.{source}"), detail));
        }
    }
    errors
}

pub(super) fn event(object: &Value) -> Vec<FieldError> {
    let reference = if object.get("regarding").is_some() { "regarding" } else { "involvedObject" };
    let namespace = object[reference]["namespace"].as_str().unwrap_or_default();
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if namespace != own && !(namespace.is_empty() && own == "default") {
        let detail = "does not match event.namespace";
        return vec![FieldError::invalid("involvedObject.namespace", namespace, detail)];
    }
    Vec::new()
}

pub(super) fn signing_request(object: &Value) -> Vec<FieldError> {
    // "-----BEGIN CERTIFICATE REQUEST-----" in base64, at any of the three alignments only the first of which a file has.
    const PEM: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNU";
    let request = object["spec"]["request"].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if !request.starts_with(PEM) {
        errors.push(FieldError::invalid("spec.request", request, "PEM block type must be CERTIFICATE REQUEST"));
    }
    let signer = object["spec"]["signerName"].as_str().unwrap_or_default();
    if signer.split('/').count() != 2 || !signer.contains('.') {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(FieldError::invalid("spec.signerName", signer, detail));
    }
    errors
}
