//! Pods and pod templates.

use serde_json::Value;

use super::{items, label_selector, labels, non_negative, one_of, pod_resources};
use crate::fielderror::FieldError;
use crate::names;
use crate::quantity::Quantity;

/// Whose pod spec it is: a few rules differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Pod,
    /// Deployments and their like: they restart always.
    Template,
    /// Jobs: they never restart for ever.
    Job,
}

/// What only a new pod may not have.
pub(super) fn pod_on_create(pod: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    if gated && pod["spec"]["nodeName"].as_str().is_some_and(|name| !name.is_empty()) {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden("spec.nodeName", detail));
    }
    if pod["spec"]["ephemeralContainers"].as_array().is_some_and(|list| !list.is_empty()) {
        let detail = "cannot be set on create";
        errors.push(FieldError::forbidden("spec.ephemeralContainers", detail));
    }
    errors
}

pub(super) fn template(template: &Value, field: &str, owner: Owner) -> Vec<FieldError> {
    let mut errors = labels(&template["metadata"]["labels"], &format!("{field}.labels"));
    errors.extend(spec(&template["spec"], &format!("{field}.spec"), owner));
    if template["spec"]["ephemeralContainers"].as_array().is_some_and(|list| !list.is_empty()) {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(format!("{field}.spec.ephemeralContainers"), detail));
    }
    errors
}

pub(super) fn spec(spec: &Value, field: &str, owner: Owner) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let volumes = volumes(&spec["volumes"], &format!("{field}.volumes"), &mut errors);
    containers(spec, field, &volumes, &mut errors);
    errors.extend(pod_resources::of_pod(spec, field));
    errors.extend(restart_policy(spec, field, owner));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.extend(one_of(&format!("{field}.dnsPolicy"), &spec["dnsPolicy"], &policies));
    errors.extend(labels(&spec["nodeSelector"], &format!("{field}.nodeSelector")));
    if let Some(context) = spec.get("securityContext").filter(|context| context.is_object()) {
        errors.extend(super::security::of_pod(context, &format!("{field}.securityContext")));
    }
    errors.extend(affinity(&spec["affinity"], &format!("{field}.affinity")));
    errors.extend(scheduling_gates(&spec["schedulingGates"], &format!("{field}.schedulingGates")));
    errors.extend(spread(&spec["topologySpreadConstraints"], &format!("{field}.topologySpreadConstraints")));
    for (key, check) in [
        ("serviceAccountName", names::dns_subdomain as fn(&str) -> Result<(), Vec<String>>),
        ("nodeName", names::dns_subdomain),
        ("priorityClassName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
        ("runtimeClassName", names::dns_subdomain),
    ] {
        let text = spec[key].as_str().unwrap_or_default();
        if !text.is_empty() {
            for message in check(text).err().into_iter().flatten() {
                errors.push(FieldError::invalid(format!("{field}.{key}"), text, message));
            }
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64().filter(|n| *n < 1 || *n > i64::from(i32::MAX)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(format!("{field}.activeDeadlineSeconds"), seconds, detail));
    }
    errors.extend(non_negative(
        &format!("{field}.terminationGracePeriodSeconds"),
        &spec["terminationGracePeriodSeconds"],
    ));
    errors.extend(tolerations(&spec["tolerations"], &format!("{field}.tolerations")));
    errors
}

/// The part of an ephemeral container that is like any other.
pub(super) fn ephemeral(one: &Value, spec: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let volumes: Vec<&str> =
        spec["volumes"].as_array().into_iter().flatten().filter_map(|volume| volume["name"].as_str()).collect();
    container(one, spec, field, &volumes, &mut Vec::new(), errors);
}

fn restart_policy(spec: &Value, field: &str, owner: Owner) -> Vec<FieldError> {
    let field = format!("{field}.restartPolicy");
    let value = &spec["restartPolicy"];
    match owner {
        Owner::Pod | Owner::Template | Owner::Job => one_of(&field, value, &["Always", "OnFailure", "Never"]),
    }
}

fn volumes<'a>(list: &'a Value, field: &str, errors: &mut Vec<FieldError>) -> Vec<&'a str> {
    let mut known: Vec<&str> = Vec::new();
    for (field, volume) in items(list, field) {
        let name = volume["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        } else {
            for message in names::dns_label(name).err().into_iter().flatten() {
                errors.push(FieldError::invalid(format!("{field}.name"), name, message));
            }
            if known.contains(&name) {
                errors.push(FieldError::duplicate(format!("{field}.name"), name));
            }
        }
        known.push(name);
        let mut sources: Vec<&String> =
            volume.as_object().into_iter().flatten().map(|(key, _)| key).filter(|key| *key != "name").collect();
        // The server looks for them in this order and minds the second.
        sources.sort_by_key(|key| match key.as_str() {
            "emptyDir" => 0,
            "hostPath" => 1,
            _ => 2,
        });
        if sources.len() > 1 {
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{field}.{}", sources[1]), detail));
        }
        for (source, key) in [("hostPath", "path"), ("persistentVolumeClaim", "claimName"), ("secret", "secretName")] {
            if volume.get(source).is_some() && volume[source][key].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(format!("{field}.{source}.{key}"), ""));
            }
        }
        if volume.get("configMap").is_some() && volume["configMap"]["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("{field}.configMap.name"), ""));
        }
    }
    known
}

fn containers(spec: &Value, field: &str, volumes: &[&str], errors: &mut Vec<FieldError>) {
    let path = format!("{field}.containers");
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(&path, ""));
        return;
    }
    let mut known: Vec<String> = Vec::new();
    for (field, one) in items(&spec["containers"], &path) {
        container(one, spec, &field, volumes, &mut known, errors);
    }
    host_ports(&spec["containers"], &path, errors);
    for (field, one) in items(&spec["initContainers"], &format!("{field}.initContainers")) {
        container(one, spec, &field, volumes, &mut known, errors);
        let sidecar = one["restartPolicy"] == "Always";
        if !sidecar {
            for (key, detail) in [
                ("lifecycle", "may not be set for init containers without restartPolicy=Always"),
                ("livenessProbe", "may not be set for init containers without restartPolicy=Always"),
                ("readinessProbe", "may not be set for init containers without restartPolicy=Always"),
                ("startupProbe", "may not be set for init containers without restartPolicy=Always"),
            ] {
                if one.get(key).is_some() {
                    errors.push(FieldError::forbidden(format!("{field}.{key}"), detail));
                }
            }
        }
    }
    errors.extend(pod_resources::ephemeral_containers(spec, field, &known));
}

fn host_ports(list: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut used: Vec<String> = Vec::new();
    for (field, container) in items(list, field) {
        for (field, port) in items(&container["ports"], &format!("{field}.ports")) {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if host == 0 {
                continue;
            }
            let text = |key: &str| port[key].as_str().unwrap_or_default();
            let key = format!("{}/{}/{host}", text("protocol"), text("hostIP"));
            if used.contains(&key) {
                errors.push(FieldError::duplicate(format!("{field}.hostPort"), key.clone()));
            }
            used.push(key);
        }
    }
}

fn container(
    container: &Value,
    spec: &Value,
    field: &str,
    volumes: &[&str],
    known: &mut Vec<String>,
    errors: &mut Vec<FieldError>,
) {
    let name = container["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    } else {
        for message in names::dns_label(name).err().into_iter().flatten() {
            errors.push(FieldError::invalid(format!("{field}.name"), name, message));
        }
    }
    if known.iter().any(|other| other == name) {
        errors.push(FieldError::duplicate(format!("{field}.name"), name));
    } else {
        known.push(name.to_owned());
    }
    let image = container["image"].as_str().unwrap_or_default();
    if image.is_empty() {
        errors.push(FieldError::required(format!("{field}.image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(format!("{field}.image"), image, detail));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    errors.extend(one_of(
        &format!("{field}.terminationMessagePolicy"),
        &container["terminationMessagePolicy"],
        &policies,
    ));
    ports(&container["ports"], &format!("{field}.ports"), errors);
    env(&container["env"], &format!("{field}.env"), errors);
    mounts(&container["volumeMounts"], &format!("{field}.volumeMounts"), volumes, errors);
    errors.extend(one_of(
        &format!("{field}.imagePullPolicy"),
        &container["imagePullPolicy"],
        &["Always", "IfNotPresent", "Never"],
    ));
    resources(&container["resources"], &format!("{field}.resources"), errors);
    pod_resources::claims(&container["resources"], spec, &format!("{field}.resources"), errors);
    errors.extend(pod_resources::resize_policy(container, spec, field));
    if let Some(context) = container.get("securityContext").filter(|context| context.is_object()) {
        errors.extend(super::security::of_container(context, &format!("{field}.securityContext")));
    }
    for hook in ["postStart", "preStop"] {
        if let Some(found) = container["lifecycle"].get(hook).filter(|found| found.is_object()) {
            handler(found, &format!("{field}.lifecycle.{hook}"), errors);
        }
    }
    for (key, probe) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        if let Some(found) = container.get(key).filter(|found| found.is_object()) {
            self::probe(found, &format!("{field}.{key}"), probe, errors);
        }
    }
}

fn probe(probe: &Value, field: &str, only_once: bool, errors: &mut Vec<FieldError>) {
    handler(probe, field, errors);
    for key in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        errors.extend(non_negative(&format!("{field}.{key}"), &probe[key]));
    }
    if only_once && probe["successThreshold"].as_i64().is_some_and(|n| n != 1) {
        let value = probe["successThreshold"].as_i64().unwrap_or(0);
        errors.push(FieldError::invalid(format!("{field}.successThreshold"), value, "must be 1"));
    }
}

fn handler(handler: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut count = 0;
    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        if handler.get(key).is_none_or(Value::is_null) {
            continue;
        }
        count += 1;
        if count > 1 {
            let detail = "may not specify more than 1 handler type";
            errors.push(FieldError::forbidden(format!("{field}.{key}"), detail));
            continue;
        }
        if matches!(key, "httpGet" | "tcpSocket" | "grpc") {
            port_reference(&handler[key]["port"], &format!("{field}.{key}.port"), errors);
        }
        if key == "exec" && handler["exec"]["command"].as_array().is_none_or(Vec::is_empty) {
            errors.push(FieldError::required(format!("{field}.exec.command"), ""));
        }
    }
    if count == 0 {
        errors.push(FieldError::required(field, "must specify a handler type"));
    }
}

/// A port by number or name.
pub(super) fn port_reference(port: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match port {
        Value::Number(_) => {
            let number = port.as_i64().unwrap_or(0);
            if !(1..=65535).contains(&number) {
                errors.push(FieldError::invalid(field, number, "must be between 1 and 65535, inclusive"));
            }
        }
        Value::String(name) => {
            for message in port_name(name) {
                errors.push(FieldError::invalid(field, name, message));
            }
        }
        _ => {}
    }
}

/// What is wrong with an IANA service name.
pub(super) fn port_name(name: &str) -> Vec<&'static str> {
    let mut errors = Vec::new();
    if name.len() > 15 {
        errors.push("must be no more than 15 characters");
    }
    let lower = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !name.bytes().all(|c| lower(c) || c == b'-') || name.is_empty() {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|c| c.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        errors.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("must not begin or end with a hyphen");
    }
    errors
}

fn ports(list: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut known: Vec<&str> = Vec::new();
    for (field, port) in items(list, field) {
        let name = port["name"].as_str().unwrap_or_default();
        if !name.is_empty() {
            let messages = port_name(name);
            for message in &messages {
                errors.push(FieldError::invalid(format!("{field}.name"), name, *message));
            }
            if messages.is_empty() && known.contains(&name) {
                errors.push(FieldError::duplicate(format!("{field}.name"), name));
            }
            known.push(name);
        }
        let number = port["containerPort"].as_i64().unwrap_or(0);
        if number == 0 {
            errors.push(FieldError::required(format!("{field}.containerPort"), ""));
        } else if !(1..=65535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(format!("{field}.containerPort"), number, detail));
        }
        let host = port["hostPort"].as_i64().unwrap_or(0);
        if host != 0 && !(1..=65535).contains(&host) {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(format!("{field}.hostPort"), host, detail));
        }
        errors.extend(one_of(&format!("{field}.protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]));
    }
}

fn env(list: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (field, variable) in items(list, field) {
        let name = variable["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        } else if name.contains('=') || !name.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
            let detail =
                "a valid environment variable name must consist only of printable ASCII characters other than '='";
            errors.push(FieldError::invalid(format!("{field}.name"), name, detail));
        }
        let Some(source) = variable.get("valueFrom").filter(|source| source.is_object()) else { continue };
        let count = source.as_object().map_or(0, serde_json::Map::len);
        if count == 0 {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
            errors.push(FieldError::invalid(format!("{field}.valueFrom"), "", detail));
        }
        if !variable["value"].as_str().unwrap_or_default().is_empty() {
            let detail = "may not be specified when `value` is not empty";
            errors.push(FieldError::invalid(format!("{field}.valueFrom"), "", detail));
        }
        if count > 1 {
            let detail = "may not have more than one field specified at a time";
            errors.push(FieldError::invalid(format!("{field}.valueFrom"), "", detail));
        }
        if let Some(path) = source["fieldRef"]["fieldPath"].as_str()
            && let Some(problem) = field_path_problem(path)
        {
            errors.push(FieldError::invalid(format!("{field}.valueFrom.fieldRef.fieldPath"), path, problem));
        }
    }
}

/// What an environment variable may be taken from.
fn field_path_problem(path: &str) -> Option<String> {
    const KNOWN: [&str; 10] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
        "spec.host",
    ];
    let subscript = ["metadata.annotations['", "metadata.labels['"].iter().any(|start| path.starts_with(start));
    if KNOWN.contains(&path) || subscript {
        return None;
    }
    Some(format!("error converting fieldPath: field label not supported: {path}"))
}

fn mounts(list: &Value, field: &str, volumes: &[&str], errors: &mut Vec<FieldError>) {
    let mut paths: Vec<&str> = Vec::new();
    for (field, mount) in items(list, field) {
        let (name, path) =
            (mount["name"].as_str().unwrap_or_default(), mount["mountPath"].as_str().unwrap_or_default());
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        }
        if !volumes.contains(&name) {
            errors.push(FieldError::not_found(format!("{field}.name"), name));
        }
        if path.is_empty() {
            errors.push(FieldError::required(format!("{field}.mountPath"), ""));
        }
        if paths.contains(&path) {
            errors.push(FieldError::invalid(format!("{field}.mountPath"), path, "must be unique"));
        }
        paths.push(path);
    }
}

pub(super) fn resource_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{field}[{name}]");
    if let Err(messages) = names::qualified_name(name) {
        for message in messages {
            errors.push(FieldError::invalid(&field, name, message));
        }
        return;
    }
    let standard = ["cpu", "memory", "ephemeral-storage", "storage"].contains(&name) || name.starts_with("hugepages-");
    if !standard && !name.contains('/') {
        errors.push(FieldError::invalid(&field, name, "must be a standard resource type or fully qualified"));
        errors.push(FieldError::invalid(&field, name, "must be a standard resource for containers"));
    }
}

pub(super) fn resources(resources: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let quantity = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok());
    for list in ["limits", "requests"] {
        let path = format!("{field}.{list}");
        for (name, value) in resources[list].as_object().into_iter().flatten() {
            resource_name(name, &path, errors);
            if let Some(found) = quantity(value) {
                if found.nanos < 0 {
                    let detail = "must be greater than or equal to 0";
                    errors.push(FieldError::invalid(format!("{path}[{name}]"), value, detail));
                }
                let extended = name.contains('/') && !name.starts_with("kubernetes.io/");
                if extended && found.nanos % 1_000_000_000 != 0 {
                    errors.push(FieldError::invalid(format!("{path}[{name}]"), value, "must be an integer"));
                }
            }
        }
    }
    for (name, _) in resources["requests"].as_object().into_iter().flatten() {
        request_against_limit(resources, name, field, errors);
    }
    let any = |wanted: &dyn Fn(&str) -> bool| {
        let lists = ["limits", "requests"].iter().filter_map(|list| resources[*list].as_object());
        lists.flatten().any(|(name, _)| wanted(name))
    };
    if any(&|name| name.starts_with("hugepages-")) && !any(&|name| name == "cpu" || name == "memory") {
        errors.push(FieldError::forbidden(field, "HugePages require cpu or memory"));
    }
}

/// No request is above its limit, and what cannot be overcommitted has both alike.
pub(super) fn request_against_limit(resources: &Value, name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let quantity = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok());
    let value = &resources["requests"][name];
    let (request, limit) = (quantity(value), quantity(&resources["limits"][name]));
    let overcommit = !name.contains('/') && !name.starts_with("hugepages-");
    let path = format!("{field}.requests");
    match (request, limit) {
        (Some(request), Some(limit)) if overcommit && request > limit => {
            let limit = resources["limits"][name].as_str().unwrap_or_default();
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(path, value, detail));
        }
        (Some(request), Some(limit)) if !overcommit && request.nanos != limit.nanos => {
            let limit = resources["limits"][name].as_str().unwrap_or_default();
            let detail = format!("must be equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(path, value, detail));
        }
        (Some(_), None) if !overcommit => {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(format!("{field}.limits"), detail));
        }
        _ => {}
    }
}

fn scheduling_gates(list: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for (field, gate) in items(list, field) {
        let name = gate["name"].as_str().unwrap_or_default();
        for message in names::qualified_name(name).err().into_iter().flatten() {
            errors.push(FieldError::invalid(format!("{field}.name"), name, message));
        }
        if known.contains(&name) {
            errors.push(FieldError::duplicate(field, name));
        }
        known.push(name);
    }
    errors
}

pub(super) fn tolerations(list: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, toleration) in items(list, field) {
        let text = |key: &str| toleration[key].as_str().unwrap_or_default();
        if !text("key").is_empty() {
            for message in names::qualified_name(text("key")).err().into_iter().flatten() {
                errors.push(FieldError::invalid(format!("{field}.key"), text("key"), message));
            }
        }
        if text("key").is_empty() && text("operator") != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(format!("{field}.operator"), text("operator"), detail));
        }
        if toleration.get("tolerationSeconds").is_some() && text("effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(format!("{field}.effect"), text("effect"), detail));
        }
        match text("operator") {
            "Equal" | "" => {
                for message in names::label_value(text("value")).err().into_iter().flatten() {
                    errors.push(FieldError::invalid(format!("{field}.operator"), text("value"), message));
                }
            }
            "Exists" => {
                if !text("value").is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.push(FieldError::invalid(format!("{field}.operator"), text("value"), detail));
                }
            }
            other => errors.push(FieldError::not_supported(format!("{field}.operator"), other, &["Equal", "Exists"])),
        }
        if !text("effect").is_empty() && !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&text("effect")) {
            let allowed = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
            errors.push(FieldError::not_supported(format!("{field}.effect"), text("effect"), &allowed));
        }
    }
    errors
}

fn spread(list: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known: Vec<(&str, &str)> = Vec::new();
    for (field, constraint) in items(list, field) {
        let text = |key: &str| constraint[key].as_str().unwrap_or_default();
        let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            errors.push(FieldError::invalid(format!("{field}.maxSkew"), skew, "must be greater than zero"));
        }
        if text("topologyKey").is_empty() {
            errors.push(FieldError::required(format!("{field}.topologyKey"), "can not be empty"));
        } else {
            for message in names::qualified_name(text("topologyKey")).err().into_iter().flatten() {
                errors.push(FieldError::invalid(format!("{field}.topologyKey"), text("topologyKey"), message));
            }
        }
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&text("whenUnsatisfiable")) {
            let allowed = ["DoNotSchedule", "ScheduleAnyway"];
            errors.push(FieldError::not_supported(
                format!("{field}.whenUnsatisfiable"),
                text("whenUnsatisfiable"),
                &allowed,
            ));
        }
        let pair = (text("topologyKey"), text("whenUnsatisfiable"));
        if known.contains(&pair) {
            let shown = format!("{{{}, {}}}", pair.0, pair.1);
            errors.push(FieldError::duplicate(format!("{field}.{{topologyKey, whenUnsatisfiable}}"), shown));
        }
        known.push(pair);
        if let Some(domains) = constraint["minDomains"].as_i64() {
            if domains <= 0 {
                errors.push(FieldError::invalid(format!("{field}.minDomains"), domains, "must be greater than zero"));
            }
            if text("whenUnsatisfiable") != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    text("whenUnsatisfiable")
                );
                errors.push(FieldError::invalid(format!("{field}.minDomains"), domains, detail));
            }
        }
        errors.extend(match_label_keys(constraint, "matchLabelKeys", &field));
        errors.extend(label_selector(&constraint["labelSelector"], &format!("{field}.labelSelector")));
    }
    errors
}

/// Keys taken from the pod may not be asked for a second time.
fn match_label_keys(term: &Value, key: &str, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let keys = term[key].as_array();
    if term.get("labelSelector").is_none_or(Value::is_null) && keys.is_some_and(|keys| !keys.is_empty()) {
        let detail = "must not be specified when labelSelector is not set";
        errors.push(FieldError::forbidden(format!("{field}.{key}"), detail));
        return errors;
    }
    for (index, name) in keys.into_iter().flatten().filter_map(Value::as_str).enumerate() {
        for message in names::qualified_name(name).err().into_iter().flatten() {
            errors.push(FieldError::invalid(format!("{field}.{key}[{index}]"), name, message));
        }
        let selector = &term["labelSelector"];
        let asked = selector["matchLabels"].get(name).is_some()
            || selector["matchExpressions"].as_array().into_iter().flatten().filter(|e| e["key"] == name).count() > 1;
        if asked {
            let detail = format!("exists in both {key} and labelSelector");
            errors.push(FieldError::invalid(format!("{field}[{index}]"), name, detail));
        }
    }
    errors
}

fn affinity(affinity: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    if let Some(node) = affinity.get("nodeAffinity").filter(|node| node.is_object()) {
        let path = format!("{field}.nodeAffinity");
        if let Some(required) = node.get(REQUIRED).filter(|required| required.is_object()) {
            let path = format!("{path}.{REQUIRED}.nodeSelectorTerms");
            if required["nodeSelectorTerms"].as_array().is_none_or(Vec::is_empty) {
                errors.push(FieldError::required(&path, "must have at least one node selector term"));
            }
            for (field, term) in items(&required["nodeSelectorTerms"], &path) {
                node_term(term, &field, &mut errors);
            }
        }
        for (field, preferred) in items(&node[PREFERRED], &format!("{path}.{PREFERRED}")) {
            weight(preferred, &field, &mut errors);
            node_term(&preferred["preference"], &format!("{field}.preference"), &mut errors);
        }
    }
    for group in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.get(group).filter(|terms| terms.is_object()) else { continue };
        let path = format!("{field}.{group}");
        for (field, term) in items(&terms[REQUIRED], &format!("{path}.{REQUIRED}")) {
            pod_term(term, &field, &mut errors);
        }
        for (field, preferred) in items(&terms[PREFERRED], &format!("{path}.{PREFERRED}")) {
            weight(preferred, &field, &mut errors);
            pod_term(&preferred["podAffinityTerm"], &format!("{field}.podAffinityTerm"), &mut errors);
        }
    }
    errors
}

fn weight(preferred: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let weight = preferred["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(format!("{field}.weight"), weight, "must be in the range 1-100"));
    }
}

fn pod_term(term: &Value, field: &str, errors: &mut Vec<FieldError>) {
    errors.extend(label_selector(&term["labelSelector"], &format!("{field}.labelSelector")));
    errors.extend(label_selector(&term["namespaceSelector"], &format!("{field}.namespaceSelector")));
    for (index, name) in term["namespaces"].as_array().into_iter().flatten().filter_map(Value::as_str).enumerate() {
        for message in names::dns_label(name).err().into_iter().flatten() {
            errors.push(FieldError::invalid(format!("{field}.namespace[{index}]"), name, message));
        }
    }
    errors.extend(match_label_keys(term, "matchLabelKeys", field));
    errors.extend(match_label_keys(term, "mismatchLabelKeys", field));
    let key = term["topologyKey"].as_str().unwrap_or_default();
    if key.is_empty() {
        errors.push(FieldError::required(format!("{field}.topologyKey"), "can not be empty"));
    }
    for message in names::qualified_name(key).err().into_iter().flatten() {
        errors.push(FieldError::invalid(format!("{field}.topologyKey"), key, message));
    }
}

fn node_term(term: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (field, expression) in items(&term["matchExpressions"], &format!("{field}.matchExpressions")) {
        let count = expression["values"].as_array().map_or(0, Vec::len);
        match expression["operator"].as_str().unwrap_or_default() {
            "In" | "NotIn" if count == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{field}.values"), detail));
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{field}.values"), detail));
            }
            "Gt" | "Lt" if count != 1 => {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(FieldError::required(format!("{field}.values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                errors.push(FieldError::invalid(format!("{field}.operator"), other, "not a valid selector operator"));
            }
        }
        let key = expression["key"].as_str().unwrap_or_default();
        for message in names::qualified_name(key).err().into_iter().flatten() {
            errors.push(FieldError::invalid(format!("{field}.key"), key, message));
        }
    }
    for (field, expression) in items(&term["matchFields"], &format!("{field}.matchFields")) {
        let key = expression["key"].as_str().unwrap_or_default();
        if key != "metadata.name" {
            errors.push(FieldError::invalid(format!("{field}.key"), key, "not a valid field selector key"));
        }
    }
}
