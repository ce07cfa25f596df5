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
        // As the server's internal type, whose parts have no JSON names, prints.
        errors.push(FieldError::invalid("spec", Value::Null, detail));
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
            errors.extend(ingress_backend(&path["backend"], &format!("{field}.backend")));
        }
    }
    errors
}

fn ingress_backend(backend: &Value, field: &str) -> Vec<FieldError> {
    let (resource, service) = (backend["resource"].is_object(), backend["service"].is_object());
    let refuse = |detail: &str| vec![FieldError::invalid(field, "", detail)];
    match (resource, service) {
        (true, true) => refuse("cannot set both resource and service backends"),
        (false, false) => refuse("resource or service backend is required"),
        (true, false) => Vec::new(),
        (false, true) => {
            let mut errors = Vec::new();
            let name = backend["service"]["name"].as_str().unwrap_or_default();
            if name.is_empty() {
                errors.push(FieldError::required(format!("{field}.service.name"), ""));
            } else {
                for message in crate::names::dns1035_label(name).err().into_iter().flatten() {
                    errors.push(FieldError::invalid(format!("{field}.service.name"), name, message));
                }
            }
            let port = &backend["service"]["port"];
            let (named, number) = (port["name"].as_str().unwrap_or_default(), port["number"].as_i64().unwrap_or(0));
            if !named.is_empty() && number != 0 {
                errors.push(FieldError::invalid(field, "", "cannot set both port name & port number"));
            } else if !named.is_empty() {
                for message in super::pod::port_name(named) {
                    errors.push(FieldError::invalid(format!("{field}.service.port.name"), named, message));
                }
            } else if !(1..=65535).contains(&number) {
                let detail = "must be between 1 and 65535, inclusive";
                if port.is_object() && number != 0 {
                    errors.push(FieldError::invalid(format!("{field}.service.port.number"), number, detail));
                } else {
                    errors.push(FieldError::required(field, "port name or number is required"));
                }
            }
            errors
        }
    }
}

pub(super) fn network_policy(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = super::label_selector(&spec["podSelector"], "spec.podSelector");
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (field, rule) in items(&spec[list], &format!("spec.{list}")) {
            for (field, port) in items(&rule["ports"], &format!("{field}.ports")) {
                if port.get("port").is_some() {
                    super::pod::port_reference(&port["port"], &format!("{field}.port"), &mut errors);
                }
            }
            for (field, peer) in items(&rule[peers], &format!("{field}.{peers}")) {
                for key in ["podSelector", "namespaceSelector"] {
                    errors.extend(super::label_selector(&peer[key], &format!("{field}.{key}")));
                }
                if let Some(cidr) = peer["ipBlock"]["cidr"].as_str()
                    && !is_cidr(cidr)
                {
                    errors.push(FieldError::invalid(format!("{field}.ipBlock.cidr"), cidr, CIDR));
                }
            }
        }
    }
    for (index, kind) in spec["policyTypes"].as_array().into_iter().flatten().filter_map(Value::as_str).enumerate() {
        if !["Ingress", "Egress"].contains(&kind) {
            let field = format!("spec.policyTypes[{index}]");
            errors.push(FieldError::not_supported(field, kind, &["Ingress", "Egress"]));
        }
    }
    errors
}

pub(super) const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

pub(super) fn endpoint_slice(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kinds = ["FQDN", "IPv4", "IPv6"];
    errors.extend(super::one_of("addressType", &object["addressType"], &kinds));
    for (field, port) in items(&object["ports"], "ports") {
        let name = port["name"].as_str().unwrap_or_default();
        if !name.is_empty() {
            for message in crate::names::dns_label(name).err().into_iter().flatten() {
                errors.push(FieldError::invalid(format!("{field}.name"), name, message));
            }
        }
    }
    for (field, endpoint) in items(&object["endpoints"], "endpoints") {
        if endpoint["addresses"].as_array().is_none_or(Vec::is_empty) {
            let detail = "must contain at least 1 address";
            errors.push(FieldError::required(format!("{field}.addresses"), detail));
        }
    }
    errors
}
