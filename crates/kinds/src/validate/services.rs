//! Services and ingresses.

use serde_json::Value;

use super::{items, labels, pod};
use crate::fielderror::FieldError;

pub(super) fn validate(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let kind = spec["type"].as_str().unwrap_or_default();
    let headless = spec["clusterIP"] == "None";
    let ports = spec["ports"].as_array().map_or(0, Vec::len);
    if ports == 0 && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "ExternalName" => {
            let name = spec["externalName"].as_str().unwrap_or_default();
            if name.is_empty() {
                errors.push(FieldError::required("spec.externalName", ""));
            }
        }
        "NodePort" | "LoadBalancer" if headless => {
            errors.push(FieldError::invalid(
                "spec.clusterIPs[0]",
                "None",
                format!("may not be set to 'None' for {kind} services"),
            ));
        }
        _ => {}
    }
    let mut names: Vec<&str> = Vec::new();
    let mut used: Vec<(i64, &str)> = Vec::new();
    for (field, port) in items(&spec["ports"], "spec.ports") {
        let name = port["name"].as_str().unwrap_or_default();
        if name.is_empty() && ports > 1 {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        } else if !name.is_empty() {
            for message in crate::names::dns_label(name).err().into_iter().flatten() {
                errors.push(FieldError::invalid(format!("{field}.name"), name, message));
            }
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{field}.name"), name));
            }
            names.push(name);
        }
        let number = port["port"].as_i64().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            errors.push(FieldError::invalid(format!("{field}.port"), number, "must be between 1 and 65535, inclusive"));
        }
        let protocol = port["protocol"].as_str().unwrap_or_default();
        if !["TCP", "UDP", "SCTP"].contains(&protocol) {
            errors.push(FieldError::not_supported(format!("{field}.protocol"), protocol, &["SCTP", "TCP", "UDP"]));
        }
        pod::port_reference(&port["targetPort"], &format!("{field}.targetPort"), &mut errors);
        if used.contains(&(number, protocol)) {
            let shown = serde_json::json!({"port": number, "protocol": protocol});
            let mut shown_error = FieldError::duplicate(&field, "");
            shown_error.value = Some(shown.to_string());
            errors.push(shown_error);
        }
        used.push((number, protocol));
    }
    errors.extend(labels(&spec["selector"], "spec.selector"));
    let affinities = ["ClientIP", "None"];
    errors.extend(super::one_of("spec.sessionAffinity", &spec["sessionAffinity"], &affinities));
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors.extend(super::one_of("spec.type", &spec["type"], &types));
    errors
}

pub(super) fn update(object: &Value, old: &Value) -> Vec<FieldError> {
    let (new, before) = (&object["spec"]["clusterIP"], &old["spec"]["clusterIP"]);
    let (kind, old_kind) = (&object["spec"]["type"], &old["spec"]["type"]);
    if old_kind == "ExternalName" || kind == "ExternalName" || new.is_null() || new == before {
        return Vec::new();
    }
    vec![FieldError::invalid("spec.clusterIPs[0]", serde_json::json!([new]), "may not change once set")]
}

pub(super) fn ingress(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let rules = spec["rules"].as_array().map_or(0, Vec::len);
    if rules == 0 && spec.get("defaultBackend").is_none_or(Value::is_null) {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", spec, detail));
    }
    for (field, rule) in items(&spec["rules"], "spec.rules") {
        let host = rule["host"].as_str().unwrap_or_default();
        let name = host.strip_prefix("*.").unwrap_or(host);
        if !host.is_empty() {
            for message in crate::names::dns_subdomain(name).err().into_iter().flatten() {
                errors.push(FieldError::invalid(format!("{field}.host"), host, message));
            }
        }
        for (field, path) in items(&rule["http"]["paths"], &format!("{field}.http.paths")) {
            match path["pathType"].as_str() {
                None => errors.push(FieldError::required(format!("{field}.pathType"), "pathType must be specified")),
                Some("Exact" | "Prefix") => {
                    let text = path["path"].as_str().unwrap_or_default();
                    if !text.starts_with('/') {
                        errors.push(FieldError::invalid(format!("{field}.path"), text, "must be an absolute path"));
                    }
                }
                Some("ImplementationSpecific") => {}
                Some(other) => {
                    let allowed = ["Exact", "ImplementationSpecific", "Prefix"];
                    errors.push(FieldError::not_supported(format!("{field}.pathType"), other, &allowed));
                }
            }
        }
    }
    errors
}
