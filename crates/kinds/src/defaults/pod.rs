//! Defaults of pods and pod templates.

use serde_json::{Value, json};

use super::{each, set};
use crate::quantity::Quantity;

pub(super) fn pod(object: &mut Value) {
    let spec = &mut object["spec"];
    pod_spec(spec);
    for list in ["containers", "initContainers"] {
        if spec.get(list).is_none() {
            continue;
        }
        // A limit stands in for a missing request, in pods but not in templates.
        for container in each(&mut spec[list]) {
            requests_from_limits(&mut container["resources"]);
        }
        if spec["hostNetwork"] == true {
            for container in each(&mut spec[list]) {
                host_ports(container);
            }
        }
    }
    pod_level_requests(spec);
    set(spec, "enableServiceLinks", json!(true));
}

pub(super) fn template(template: &mut Value) {
    pod_spec(&mut template["spec"]);
    if template["spec"]["hostNetwork"] == true {
        for list in ["containers", "initContainers"] {
            if template["spec"].get(list).is_some() {
                each(&mut template["spec"][list]).for_each(host_ports);
            }
        }
    }
}

fn requests_from_limits(resources: &mut Value) {
    for (name, limit) in resources["limits"].as_object().cloned().into_iter().flatten() {
        if resources["requests"].get(&name).is_none() {
            resources["requests"][name] = limit;
        }
    }
    sort_map(&mut resources["requests"]);
    if let Some(resources) = resources.as_object_mut() {
        resources.retain(|_, value| !value.is_null());
    }
}

fn sort_map(map: &mut Value) {
    if let Some(map) = map.as_object_mut() {
        map.sort_keys();
    }
}

/// Pod-level limits bring pod-level requests: what the containers ask for together, or else the limit.
fn pod_level_requests(spec: &mut Value) {
    let limits = spec["resources"]["limits"].as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        if spec["resources"].is_null()
            && let Some(spec) = spec.as_object_mut()
        {
            spec.shift_remove("resources");
        }
        return;
    }
    for name in ["cpu", "memory"] {
        let mut sum: Option<Quantity> = None;
        for container in spec["containers"].as_array().into_iter().flatten() {
            let request = container["resources"]["requests"][name].as_str().and_then(|text| Quantity::parse(text).ok());
            if let Some(request) = request {
                sum = Some(sum.map_or(request, |sum| sum.plus(request)));
            }
        }
        if let Some(sum) = sum
            && spec["resources"]["requests"].get(name).is_none()
        {
            spec["resources"]["requests"][name] = json!(sum.canonical());
        }
    }
    for (name, limit) in limits {
        let supported = name == "cpu" || name == "memory" || name.starts_with("hugepages-");
        if supported && spec["resources"]["requests"].get(&name).is_none() {
            spec["resources"]["requests"][name] = limit;
        }
    }
    sort_map(&mut spec["resources"]["requests"]);
}

fn host_ports(container: &mut Value) {
    if container.get("ports").is_none() {
        return;
    }
    for port in each(&mut container["ports"]) {
        if port["hostPort"].as_i64().unwrap_or(0) == 0 {
            port["hostPort"] = port["containerPort"].clone();
        }
    }
}

fn pod_spec(spec: &mut Value) {
    // The account's old name follows the new one, and stands in for it.
    let account = ["serviceAccountName", "serviceAccount"]
        .iter()
        .find_map(|key| spec[*key].as_str().filter(|name| !name.is_empty()))
        .map(str::to_owned);
    if let Some(account) = account {
        spec["serviceAccountName"] = json!(account);
        spec["serviceAccount"] = json!(account);
    }
    if spec.get("volumes").is_some() {
        each(&mut spec["volumes"]).for_each(volume);
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        if spec.get(list).is_some() {
            each(&mut spec[list]).for_each(container);
        }
    }
    set(spec, "restartPolicy", json!("Always"));
    set(spec, "terminationGracePeriodSeconds", json!(30));
    set(spec, "dnsPolicy", json!("ClusterFirst"));
    set(spec, "securityContext", json!({}));
    set(spec, "schedulerName", json!("default-scheduler"));
    if let Some(overhead) = spec.get_mut("overhead") {
        round_up_to_milli(overhead);
    }
}

/// Quantities of resource lists are never finer than a thousandth.
fn round_up_to_milli(list: &mut Value) {
    for (_, value) in list.as_object_mut().into_iter().flatten() {
        let Some(quantity) = value.as_str().and_then(|text| Quantity::parse(text).ok()) else { continue };
        const MILLI: i128 = 1_000_000;
        if quantity.nanos % MILLI != 0 {
            let nanos = (quantity.nanos.div_euclid(MILLI) + 1) * MILLI;
            *value = json!(Quantity { nanos, ..quantity }.canonical());
        }
    }
}

fn container(container: &mut Value) {
    if container.get("ports").is_some() {
        each(&mut container["ports"]).for_each(|port| set(port, "protocol", json!("TCP")));
    }
    if container.get("env").is_some() {
        for env in each(&mut container["env"]) {
            if env.pointer("/valueFrom/fieldRef").is_some_and(Value::is_object) {
                set(&mut env["valueFrom"]["fieldRef"], "apiVersion", json!("v1"));
            }
            if env.pointer("/valueFrom/resourceFieldRef").is_some_and(Value::is_object) {
                set(&mut env["valueFrom"]["resourceFieldRef"], "divisor", json!("0"));
            }
        }
    }
    for list in ["requests", "limits"] {
        if container["resources"].get(list).is_some() {
            round_up_to_milli(&mut container["resources"][list]);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(found) = container.get_mut(probe).filter(|found| found.is_object()) {
            set_nonzero(found, "timeoutSeconds", 1);
            set_nonzero(found, "periodSeconds", 10);
            set_nonzero(found, "successThreshold", 1);
            set_nonzero(found, "failureThreshold", 3);
            handler(found);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(found) = container.pointer_mut(&format!("/lifecycle/{hook}")).filter(|found| found.is_object()) {
            handler(found);
        }
    }
    set(container, "terminationMessagePath", json!("/dev/termination-log"));
    set(container, "terminationMessagePolicy", json!("File"));
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    set(container, "imagePullPolicy", json!(policy));
}

fn set_nonzero(object: &mut Value, key: &str, value: i64) {
    if object[key].as_i64().unwrap_or(0) == 0 {
        object[key] = json!(value);
    }
}

fn handler(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        set(get, "path", json!("/"));
        set(get, "scheme", json!("HTTP"));
    }
    if let Some(grpc) = handler.get_mut("grpc").filter(|grpc| grpc.is_object()) {
        set(grpc, "service", json!(""));
    }
}

/// Images that are `latest`, by name or for want of a tag, are always pulled.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains('@') {
        return "IfNotPresent";
    }
    // An image that cannot be parsed has no tag at all.
    if image.is_empty()
        || image.contains(char::is_uppercase) && !name.contains(':') && image.split('/').any(|part| part.is_empty())
    {
        return "IfNotPresent";
    }
    match name.split_once(':') {
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

fn volume(volume: &mut Value) {
    if volume.as_object().is_some_and(|fields| fields.keys().all(|key| key == "name")) {
        volume["emptyDir"] = json!({});
    }
    for (source, mode) in [("secret", 420), ("configMap", 420), ("downwardAPI", 420), ("projected", 420)] {
        if let Some(found) = volume.get_mut(source).filter(|found| found.is_object()) {
            set(found, "defaultMode", json!(mode));
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|path| path.is_object()) {
        set(path, "type", json!(""));
    }
    if let Some(projected) = volume.get_mut("projected").filter(|projected| projected.get("sources").is_some()) {
        for source in each(&mut projected["sources"]) {
            if let Some(token) = source.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
                set(token, "expirationSeconds", json!(3600));
            }
            if let Some(downward) = source.get_mut("downwardAPI").filter(|downward| downward.get("items").is_some()) {
                each(&mut downward["items"]).for_each(field_reference);
            }
        }
    }
    if let Some(downward) = volume.get_mut("downwardAPI").filter(|downward| downward.get("items").is_some()) {
        each(&mut downward["items"]).for_each(field_reference);
    }
    if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        set(image, "pullPolicy", json!(policy));
    }
    if let Some(iscsi) = volume.get_mut("iscsi").filter(|iscsi| iscsi.is_object()) {
        set(iscsi, "iscsiInterface", json!("default"));
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec").filter(|claim| claim.is_object()) {
        set(claim, "volumeMode", json!("Filesystem"));
    }
}

fn field_reference(item: &mut Value) {
    if let Some(reference) = item.get_mut("fieldRef").filter(|reference| reference.is_object()) {
        set(reference, "apiVersion", json!("v1"));
    }
    if let Some(reference) = item.get_mut("resourceFieldRef").filter(|reference| reference.is_object()) {
        set(reference, "divisor", json!("0"));
    }
}

/// Volume sources that persistent volumes share with pods.
pub(super) fn persistent_source(spec: &mut Value) {
    if let Some(path) = spec.get_mut("hostPath").filter(|path| path.is_object()) {
        set(path, "type", json!(""));
    }
    if let Some(iscsi) = spec.get_mut("iscsi").filter(|iscsi| iscsi.is_object()) {
        set(iscsi, "iscsiInterface", json!("default"));
    }
}
