//! The rows of all kinds but pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use crate::selector::Selector;
use crate::times;

/// The age of an object.
pub(super) fn age_of(object: &Value, now: Timestamp) -> String {
    age::since(object["metadata"]["creationTimestamp"].as_str().and_then(|text| times::parse(text).ok()), now)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn or(value: &Value, fallback: &str) -> Value {
    let text = text(value);
    json!(if text.is_empty() { fallback.to_owned() } else { text })
}

fn number(value: &Value) -> Value {
    json!(value.as_i64().unwrap_or(0))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Names and images of a template's containers.
fn containers(spec: &Value) -> [Value; 2] {
    let join = |key: &str| {
        let parts: Vec<String> = list(&spec["containers"]).map(|container| text(&container[key])).collect();
        json!(parts.join(","))
    };
    [join("name"), join("image")]
}

/// A `LabelSelector` as kubectl shows it.
fn selector(value: &Value) -> Value {
    if value.is_null() {
        return json!("<none>");
    }
    let query = Selector::from_struct(Some(value)).to_query();
    json!(if query.is_empty() { "<none>".to_owned() } else { query })
}

/// A plain map of labels.
fn labels(value: &Value) -> Value {
    let mut parts: Vec<String> =
        value.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value))).collect();
    parts.sort();
    json!(if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") })
}

pub(super) fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = object["metadata"]["name"].clone();
    let age = json!(age_of(object, now));
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]["spec"]);
    match (group, kind) {
        ("", "PodTemplate") => {
            let [names, images] = containers(&object["template"]["spec"]);
            vec![name, names, images, labels(&object["template"]["metadata"]["labels"])]
        }
        ("policy", _) => {
            let bound = |key: &str| or(&spec[key], "N/A");
            vec![name, bound("minAvailable"), bound("maxUnavailable"), number(&status["disruptionsAllowed"]), age]
        }
        ("", "ReplicationController") => {
            let shown = labels(&spec["selector"]);
            vec![
                name,
                number(&spec["replicas"]),
                number(&status["replicas"]),
                number(&status["readyReplicas"]),
                age,
                names,
                images,
                shown,
            ]
        }
        ("apps", "ReplicaSet") => {
            let shown = selector(&spec["selector"]);
            vec![
                name,
                number(&spec["replicas"]),
                number(&status["replicas"]),
                number(&status["readyReplicas"]),
                age,
                names,
                images,
                shown,
            ]
        }
        ("apps", "DaemonSet") => {
            let count = |key: &str| number(&status[key]);
            let (nodes, shown) = (labels(&spec["template"]["spec"]["nodeSelector"]), selector(&spec["selector"]));
            let (desired, current, ready) =
                (count("desiredNumberScheduled"), count("currentNumberScheduled"), count("numberReady"));
            let (updated, available) = (count("updatedNumberScheduled"), count("numberAvailable"));
            vec![name, desired, current, ready, updated, available, nodes, age, names, images, shown]
        }
        ("apps", "Deployment") => {
            let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
            let (updated, available) = (number(&status["updatedReplicas"]), number(&status["availableReplicas"]));
            vec![name, json!(ready), updated, available, age, names, images, selector(&spec["selector"])]
        }
        ("apps", "StatefulSet") => {
            let ready = format!("{}/{}", number(&status["readyReplicas"]), number(&spec["replicas"]));
            vec![name, json!(ready), age, names, images]
        }
        ("apps", "ControllerRevision") => {
            let owner = list(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true);
            let controller = owner.map_or("<none>".to_owned(), |owner| {
                let group = text(&owner["apiVersion"]);
                let group = group.split_once('/').map_or("", |(group, _)| group);
                let kind = text(&owner["kind"]).to_lowercase();
                if group.is_empty() {
                    format!("{kind}/{}", text(&owner["name"]))
                } else {
                    format!("{kind}.{group}/{}", text(&owner["name"]))
                }
            });
            vec![name, json!(controller), number(&object["revision"]), age]
        }
        ("batch", "Job") => job(object, name, age, names, images, now),
        ("batch", "CronJob") => {
            let [names, images] = containers(&spec["jobTemplate"]["spec"]["template"]["spec"]);
            let last = status["lastScheduleTime"].as_str().and_then(|text| times::parse(text).ok());
            let last = last.map_or("<none>".to_owned(), |time| age::since(Some(time), now));
            let active = list(&status["active"]).count();
            let suspend = spec["suspend"].as_bool().map_or("<unset>", |on| if on { "True" } else { "False" });
            let (suspend, zone) = (json!(suspend), or(&spec["timeZone"], "<none>"));
            let shown = selector(&spec["jobTemplate"]["spec"]["selector"]);
            vec![name, or(&spec["schedule"], ""), zone, suspend, json!(active), json!(last), age, names, images, shown]
        }
        ("", "Service") => service(object, name, age),
        ("networking.k8s.io", "Ingress") => ingress(object, name, age),
        ("networking.k8s.io", "IngressClass") => {
            let parameters = &spec["parameters"];
            let shown = if parameters.is_object() {
                let kind = text(&parameters["kind"]);
                let kind = match text(&parameters["apiGroup"]) {
                    group if group.is_empty() => kind,
                    group => format!("{kind}.{group}"),
                };
                format!("{kind}/{}", text(&parameters["name"]))
            } else {
                "<none>".into()
            };
            vec![name, or(&spec["controller"], ""), json!(shown), age]
        }
        ("networking.k8s.io", "NetworkPolicy") => vec![name, selector(&spec["podSelector"]), age],
        ("networking.k8s.io", "ServiceCIDR") => {
            let ranges: Vec<String> = list(&spec["cidrs"]).map(text).collect();
            vec![name, json!(ranges.join(",")), age]
        }
        ("networking.k8s.io", "IPAddress") => {
            let parent = &spec["parentRef"];
            let shown =
                format!("{}/{}/{}", text(&parent["resource"]), text(&parent["namespace"]), text(&parent["name"]));
            vec![name, json!(shown)]
        }
        ("", "Endpoints") => vec![name, json!(endpoints(object)), age],
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice(object, name, age),
        ("", "Node") => node(object, name, age),
        ("" | "events.k8s.io", "Event") => event(object, now),
        ("", "Namespace") => vec![name, or(&status["phase"], ""), age],
        ("", "Secret") => {
            let count = object["data"].as_object().map_or(0, serde_json::Map::len);
            vec![name, or(&object["type"], ""), json!(count), age]
        }
        ("", "ServiceAccount") => vec![name, age],
        ("", "ConfigMap") => {
            let count = |key: &str| object[key].as_object().map_or(0, serde_json::Map::len);
            vec![name, json!(count("data") + count("binaryData")), age]
        }
        ("", "PersistentVolume") => volume(object, name, age),
        ("", "PersistentVolumeClaim") => claim(object, name, age),
        ("", "ResourceQuota") => quota(object, name, age),
        ("autoscaling", _) => autoscaler(object, name, age),
        ("rbac.authorization.k8s.io", _) => {
            let role = format!("{}/{}", text(&object["roleRef"]["kind"]), text(&object["roleRef"]["name"]));
            let of = |kind: &str| {
                let subjects = list(&object["subjects"]).filter(|subject| subject["kind"] == kind);
                let names: Vec<String> = subjects
                    .map(|subject| match kind {
                        "ServiceAccount" => format!("{}/{}", text(&subject["namespace"]), text(&subject["name"])),
                        _ => text(&subject["name"]),
                    })
                    .collect();
                json!(names.join(", "))
            };
            vec![name, json!(role), age, of("User"), of("Group"), of("ServiceAccount")]
        }
        ("certificates.k8s.io", _) => {
            let conditions: Vec<String> =
                list(&status["conditions"]).map(|condition| text(&condition["type"])).collect();
            let mut state = if conditions.is_empty() { "Pending".to_owned() } else { conditions.join(",") };
            if status["certificate"].is_string() {
                state.push_str(",Issued");
            }
            let duration = spec["expirationSeconds"].as_i64().map_or("<none>".to_owned(), age::duration);
            vec![name, age, or(&spec["signerName"], "<none>"), or(&spec["username"], ""), json!(duration), json!(state)]
        }
        ("coordination.k8s.io", _) => vec![name, or(&spec["holderIdentity"], ""), age],
        ("storage.k8s.io", "StorageClass") => {
            let default = object["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
            let shown = if default { json!(format!("{} (default)", text(&name))) } else { name };
            let expansion = json!(object["allowVolumeExpansion"] == true);
            let (reclaim, mode) =
                (or(&object["reclaimPolicy"], "Delete"), or(&object["volumeBindingMode"], "Immediate"));
            vec![shown, or(&object["provisioner"], ""), reclaim, mode, expansion, age]
        }
        ("storage.k8s.io", "VolumeAttributesClass") => vec![name, or(&object["driverName"], ""), age],
        ("storage.k8s.io", "VolumeAttachment") => {
            let volume = or(&spec["source"]["persistentVolumeName"], "");
            vec![
                name,
                or(&spec["attacher"], ""),
                volume,
                or(&spec["nodeName"], ""),
                json!(status["attached"] == true),
                age,
            ]
        }
        ("storage.k8s.io", "CSINode") => vec![name, json!(list(&spec["drivers"]).count()), age],
        ("storage.k8s.io", "CSIStorageCapacity") => {
            vec![name, or(&object["storageClassName"], ""), or(&object["capacity"], "<unset>")]
        }
        ("scheduling.k8s.io", _) => {
            let policy = or(&object["preemptionPolicy"], "");
            vec![name, number(&object["value"]), json!(object["globalDefault"] == true), age, policy]
        }
        ("node.k8s.io", _) => vec![name, or(&object["handler"], ""), age],
        ("resource.k8s.io", "ResourceClaim") => {
            let mut states = Vec::new();
            if object["metadata"].get("deletionTimestamp").is_some() {
                states.push("deleted");
            }
            let reserved = list(&status["reservedFor"]).next().is_some();
            match (status.get("allocation").is_some(), reserved) {
                (false, _) if states.is_empty() => states.push("pending"),
                (true, reserved) => {
                    states.push("allocated");
                    if reserved {
                        states.push("reserved");
                    }
                }
                _ => {}
            }
            vec![name, json!(states.join(",")), age]
        }
        ("resource.k8s.io", "ResourceSlice") => {
            vec![name, or(&spec["nodeName"], ""), or(&spec["driver"], ""), or(&spec["pool"]["name"], ""), age]
        }
        ("admissionregistration.k8s.io", _) => vec![name, json!(list(&object["webhooks"]).count()), age],
        ("flowcontrol.apiserver.k8s.io", _) => {
            let level = or(&spec["priorityLevelConfiguration"]["name"], "");
            let missing = list(&status["conditions"])
                .find(|c| c["type"] == "Dangling")
                .map_or("?".to_owned(), |c| text(&c["status"]));
            let method = or(&spec["distinguisherMethod"]["type"], "<none>");
            vec![name, level, json!(text(&spec["matchingPrecedence"])), method, age, json!(missing)]
        }
        _ => vec![name, age],
    }
}

fn job(object: &Value, name: Value, age: Value, names: Value, images: Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64().unwrap_or(0)) {
        (Some(count), _) => format!("{succeeded}/{count}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let has = |kind: &str| list(&status["conditions"]).any(|c| c["type"] == kind && c["status"] == "True");
    let state = if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if object["metadata"].get("deletionTimestamp").is_some() {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let time = |key: &str| status[key].as_str().and_then(|text| times::parse(text).ok());
    let duration = match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), None) => age::since(Some(start), now),
        (Some(start), Some(end)) => age::since(Some(start), end),
    };
    let shown = selector(&spec["selector"]);
    vec![name, json!(state), json!(completions), json!(duration), age, names, images, shown]
}

fn service(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let kind = text(&spec["type"]);
    let addresses: Vec<String> = list(&spec["externalIPs"]).map(text).collect();
    let external = match kind.as_str() {
        "ExternalName" => text(&spec["externalName"]),
        "LoadBalancer" => {
            let mut all: Vec<String> = list(&status["loadBalancer"]["ingress"])
                .map(|ingress| match text(&ingress["ip"]) {
                    ip if ip.is_empty() => text(&ingress["hostname"]),
                    ip => ip,
                })
                .collect();
            all.extend(addresses);
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ if addresses.is_empty() => "<none>".into(),
        _ => addresses.join(","),
    };
    let ports: Vec<String> = list(&spec["ports"])
        .map(|port| match port["nodePort"].as_i64().unwrap_or(0) {
            0 => format!("{}/{}", port["port"], text(&port["protocol"])),
            node => format!("{}:{node}/{}", port["port"], text(&port["protocol"])),
        })
        .collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    let address = or(&spec["clusterIP"], "<none>");
    vec![name, json!(kind), address, json!(external), json!(ports), age, labels(&spec["selector"])]
}

fn ingress(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let hosts: Vec<String> =
        list(&spec["rules"]).map(|rule| text(&rule["host"])).filter(|host| !host.is_empty()).collect();
    let hosts = match hosts.len() {
        0 => "*".to_owned(),
        1..=3 => hosts.join(","),
        more => format!("{} + {} more...", hosts[..3].join(","), more - 3),
    };
    let addresses: Vec<String> = list(&object["status"]["loadBalancer"]["ingress"])
        .map(|ingress| match text(&ingress["ip"]) {
            ip if ip.is_empty() => text(&ingress["hostname"]),
            ip => ip,
        })
        .collect();
    let ports = if list(&spec["tls"]).next().is_some() { "80, 443" } else { "80" };
    vec![name, or(&spec["ingressClassName"], "<none>"), json!(hosts), json!(addresses.join(",")), json!(ports), age]
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(&object["subsets"]) {
        for address in list(&subset["addresses"]) {
            if list(&subset["ports"]).next().is_none() {
                all.push(text(&address["ip"]));
            }
            for port in list(&subset["ports"]) {
                all.push(format!("{}:{}", text(&address["ip"]), port["port"]));
            }
        }
    }
    match all.len() {
        0 => "<none>".into(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    }
}

fn endpoint_slice(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let limited = |all: Vec<String>, empty: &str| match all.len() {
        0 => empty.to_owned(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    };
    let ports = list(&object["ports"]).map(|port| match &port["port"] {
        Value::Null => "*".to_owned(),
        number => number.to_string(),
    });
    let ports = limited(ports.collect(), "<unset>");
    let addresses = list(&object["endpoints"]).flat_map(|endpoint| list(&endpoint["addresses"]).map(text)).collect();
    vec![name, or(&object["addressType"], ""), json!(ports), json!(limited(addresses, "<unset>")), age]
}

fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let ready = list(&status["conditions"]).find(|condition| condition["type"] == "Ready");
    let mut state = match ready {
        Some(condition) if condition["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if spec["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<String> = Vec::new();
    for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        if let Some(role) = key.strip_prefix("node-role.kubernetes.io/").filter(|role| !role.is_empty()) {
            roles.push(role.to_owned());
        } else if key == "kubernetes.io/role" && !text(value).is_empty() {
            roles.push(text(value));
        }
    }
    roles.sort();
    roles.dedup();
    let roles = if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") };
    let address = |kind: &str| {
        let found = list(&status["addresses"]).find(|address| address["type"] == kind);
        found.map_or(json!("<none>"), |address| address["address"].clone())
    };
    let info = &status["nodeInfo"];
    let mut kernel = text(&or(&info["kernelVersion"], "<unknown>"));
    if !text(&info["architecture"]).is_empty() {
        kernel = format!("{kernel} ({})", text(&info["architecture"]));
    }
    let (image, runtime) = (or(&info["osImage"], "<unknown>"), or(&info["containerRuntimeVersion"], "<unknown>"));
    let version = or(&info["kubeletVersion"], "");
    vec![
        name,
        json!(state),
        json!(roles),
        age,
        version,
        address("InternalIP"),
        address("ExternalIP"),
        image,
        json!(kernel),
        runtime,
    ]
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let time = |key: &str| object[key].as_str().and_then(|text| times::parse(text).ok());
    let pick = |keys: &[&str]| {
        keys.iter().find(|key| !object[**key].is_null()).map(|key| &object[*key]).unwrap_or(&Value::Null)
    };
    let first = time("firstTimestamp").or_else(|| time("deprecatedFirstTimestamp")).or_else(|| time("eventTime"));
    let mut last = time("lastTimestamp").or_else(|| time("deprecatedLastTimestamp")).or(first);
    let mut count = pick(&["count", "deprecatedCount"]).as_i64().unwrap_or(0);
    if object["series"].is_object() {
        last = object["series"]["lastObservedTime"].as_str().and_then(|text| times::parse(text).ok()).or(last);
        count = object["series"]["count"].as_i64().unwrap_or(count);
    } else if count == 0 {
        count = 1;
    }
    let target = pick(&["involvedObject", "regarding"]);
    let object_text = match text(&target["name"]) {
        name if name.is_empty() => text(&target["kind"]).to_lowercase(),
        name => format!("{}/{name}", text(&target["kind"]).to_lowercase()),
    };
    let source = pick(&["source", "deprecatedSource"]);
    let component = match text(&source["component"]) {
        name if name.is_empty() => text(pick(&["reportingComponent", "reportingController"])),
        name => name,
    };
    let host = match text(&source["host"]) {
        host if host.is_empty() => text(&object["reportingInstance"]),
        host => host,
    };
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    let message = text(pick(&["message", "note"]));
    vec![
        json!(age::since(last, now)),
        or(&object["type"], ""),
        or(&object["reason"], ""),
        json!(object_text),
        or(&target["fieldPath"], ""),
        json!(source),
        json!(message.trim()),
        json!(age::since(first, now)),
        json!(count),
        object["metadata"]["name"].clone(),
    ]
}

fn modes(value: &Value) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => Some("RWO"),
        Some("ReadOnlyMany") => Some("ROX"),
        Some("ReadWriteMany") => Some("RWX"),
        Some("ReadWriteOncePod") => Some("RWOP"),
        _ => None,
    };
    let mut modes: Vec<&str> = Vec::new();
    for mode in list(value).filter_map(short) {
        if !modes.contains(&mode) {
            modes.push(mode);
        }
    }
    modes.join(",")
}

fn volume(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let claim = &spec["claimRef"];
    let claim = if claim.is_object() {
        format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
    } else {
        String::new()
    };
    let phase = if object["metadata"].get("deletionTimestamp").is_some() {
        json!("Terminating")
    } else {
        or(&status["phase"], "")
    };
    vec![
        name,
        or(&spec["capacity"]["storage"], ""),
        json!(modes(&spec["accessModes"])),
        or(&spec["persistentVolumeReclaimPolicy"], ""),
        phase,
        json!(claim),
        or(&spec["storageClassName"], ""),
        or(&spec["volumeAttributesClassName"], "<unset>"),
        or(&status["reason"], ""),
        age,
        or(&spec["volumeMode"], "<unset>"),
    ]
}

fn claim(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let bound = !text(&spec["volumeName"]).is_empty();
    let phase = if object["metadata"].get("deletionTimestamp").is_some() {
        json!("Terminating")
    } else {
        or(&status["phase"], "")
    };
    let capacity = if bound { or(&status["capacity"]["storage"], "0") } else { json!("") };
    let access = if bound { modes(&status["accessModes"]) } else { String::new() };
    vec![
        name,
        phase,
        or(&spec["volumeName"], ""),
        capacity,
        json!(access),
        or(&spec["storageClassName"], ""),
        or(&spec["volumeAttributesClassName"], "<unset>"),
        age,
        or(&spec["volumeMode"], "<unset>"),
    ]
}

fn quota(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let hard = object["status"]["hard"].as_object().cloned().unwrap_or_default();
    let mut names: Vec<&String> = hard.keys().collect();
    names.sort();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for resource in names {
        let used = &object["status"]["used"][resource.as_str()];
        let entry = format!("{resource}: {}/{}", text(&or(used, "0")), text(&hard[resource]));
        if resource.starts_with("limits") { limits.push(entry) } else { requests.push(entry) }
    }
    vec![name, json!(requests.join(", ")), json!(limits.join(", ")), age]
}

fn autoscaler(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let reference = format!("{}/{}", text(&spec["scaleTargetRef"]["kind"]), text(&spec["scaleTargetRef"]["name"]));
    let mut targets: Vec<String> = Vec::new();
    if let Some(target) = spec["targetCPUUtilizationPercentage"].as_i64() {
        let current =
            status["currentCPUUtilizationPercentage"].as_i64().map_or("<unknown>".to_owned(), |n| format!("{n}%"));
        targets.push(format!("cpu: {current}/{target}%"));
    }
    for metric in list(&spec["metrics"]) {
        let resource = &metric["resource"];
        let current = list(&status["currentMetrics"]).find(|m| m["resource"]["name"] == resource["name"]);
        let label = text(&resource["name"]);
        if let Some(target) = resource["target"]["averageUtilization"].as_i64() {
            let current = current.and_then(|m| m["resource"]["current"]["averageUtilization"].as_i64());
            let current = current.map_or("<unknown>".to_owned(), |n| format!("{n}%"));
            targets.push(format!("{label}: {current}/{target}%"));
        } else if let Some(target) = resource["target"]["averageValue"].as_str() {
            targets.push(format!("{label}: <unknown>/{target}"));
        }
    }
    let shown = match targets.len() {
        0 => "<none>".to_owned(),
        1 | 2 => targets.join(", "),
        more => format!("{} + {} more...", targets[..2].join(", "), more - 2),
    };
    let least = spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |n| n.to_string());
    vec![
        name,
        json!(reference),
        json!(shown),
        json!(least),
        number(&spec["maxReplicas"]),
        number(&status["currentReplicas"]),
        age,
    ]
}
