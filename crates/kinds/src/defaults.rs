//! Defaults of the built-in kinds, as their versions fill them in when an object is read.

use serde_json::{Value, json};

mod pod;

/// Fills in what the kind's version defaults. Objects are decoded, so empty values are absent.
pub fn apply(group: &str, version: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(&mut object["template"]),
        ("", "ReplicationController") => replication_controller(object),
        ("", "Service") => service(object),
        ("", "Secret") => {
            fold_string_data(object);
            set(object, "type", json!("Opaque"));
        }
        ("", "PersistentVolume") => {
            set(&mut object["status"], "phase", json!("Pending"));
            set(&mut object["spec"], "persistentVolumeReclaimPolicy", json!("Retain"));
            set(&mut object["spec"], "volumeMode", json!("Filesystem"));
            pod::persistent_source(&mut object["spec"]);
        }
        ("", "PersistentVolumeClaim") => {
            set(&mut object["status"], "phase", json!("Pending"));
            set(&mut object["spec"], "volumeMode", json!("Filesystem"));
        }
        ("", "Endpoints") => {
            for subset in each(&mut object["subsets"]) {
                each(&mut subset["ports"]).for_each(|port| set(port, "protocol", json!("TCP")));
            }
        }
        ("", "Namespace") => {
            let name = object["metadata"]["name"].clone();
            if name.as_str().is_some_and(|name| !name.is_empty()) {
                object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
            }
            set(&mut object["status"], "phase", json!("Active"));
        }
        ("", "Node") => {
            if object["status"].get("allocatable").is_none()
                && let Some(capacity) = object["status"].get("capacity")
            {
                object["status"]["allocatable"] = capacity.clone();
            }
        }
        ("", "LimitRange") => each(&mut object["spec"]["limits"]).for_each(limit_range_item),
        ("apps", "Deployment") => deployment(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "ReplicaSet") => {
            set(&mut object["spec"], "replicas", json!(1));
            pod::template(&mut object["spec"]["template"]);
        }
        ("batch", "Job") => {
            job_spec(&mut object["spec"]);
            let labels = object["spec"]["template"]["metadata"].get("labels").cloned();
            if let Some(labels) = labels
                && object["metadata"].get("labels").is_none()
            {
                object["metadata"]["labels"] = labels;
            }
        }
        ("batch", "CronJob") => cron_job(object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            fill_empty(&mut object["roleRef"], "apiGroup", "rbac.authorization.k8s.io");
            for subject in each(&mut object["subjects"]) {
                if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
                    set(subject, "apiGroup", json!("rbac.authorization.k8s.io"));
                }
            }
        }
        ("storage.k8s.io", "StorageClass") => {
            set(object, "reclaimPolicy", json!("Delete"));
            set(object, "volumeBindingMode", json!("Immediate"));
        }
        ("storage.k8s.io", "CSIDriver") => {
            let spec = &mut object["spec"];
            set(spec, "attachRequired", json!(true));
            set(spec, "podInfoOnMount", json!(false));
            set(spec, "storageCapacity", json!(false));
            set(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
            set(spec, "volumeLifecycleModes", json!(["Persistent"]));
            set(spec, "requiresRepublish", json!(false));
            set(spec, "seLinuxMount", json!(false));
        }
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(object, version),
        ("networking.k8s.io", "NetworkPolicy") => network_policy(object),
        ("networking.k8s.io", "IngressClass") if object["spec"].get("parameters").is_some() => {
            set(&mut object["spec"]["parameters"], "scope", json!("Cluster"));
        }
        ("scheduling.k8s.io", "PriorityClass") => set(object, "preemptionPolicy", json!("PreemptLowerPriority")),
        ("discovery.k8s.io", "EndpointSlice") => {
            for port in each(&mut object["ports"]) {
                set(port, "name", json!(""));
                set(port, "protocol", json!("TCP"));
            }
        }
        ("resource.k8s.io", "ResourceClaim") => device_requests(&mut object["spec"]),
        ("resource.k8s.io", "ResourceClaimTemplate") => device_requests(&mut object["spec"]["spec"]),
        ("admissionregistration.k8s.io", _) => admission_registration(kind, object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => custom_resource_definition(object),
        _ => {}
    }
}

/// A Job without a manual selector selects its own pods by its uid, under the old and the new label.
pub fn job_selector(job: &mut Value) {
    if job["spec"]["manualSelector"] != true && job["metadata"]["uid"].is_string() {
        generate_job_selector(job);
    }
    // Defaults apply to what is read as well: a job without labels shows its template's.
    let labels = job["spec"]["template"]["metadata"].get("labels").cloned();
    if job["metadata"]["labels"].as_object().is_none_or(|labels| labels.is_empty())
        && let Some(labels) = labels
    {
        job["metadata"]["labels"] = labels;
    }
}

fn generate_job_selector(job: &mut Value) {
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    let labels = &mut job["spec"]["template"]["metadata"]["labels"];
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels[key] = value.clone();
    }
    if job["spec"].get("selector").is_none_or(Value::is_null) {
        job["spec"]["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    }
}

/// `stringData` is a convenience for writers: it is kept as data.
fn fold_string_data(secret: &mut Value) {
    let Some(plain) = secret.as_object_mut().and_then(|fields| fields.shift_remove("stringData")) else { return };
    for (key, text) in plain.as_object().into_iter().flatten() {
        secret["data"][key] = json!(crate::decode::base64(text.as_str().unwrap_or_default().as_bytes()));
    }
    if let Some(data) = secret["data"].as_object_mut() {
        data.sort_keys();
    }
}

/// Sets a key that is absent.
fn set(object: &mut Value, key: &str, value: Value) {
    if !object.is_object() {
        *object = json!({});
    }
    if object.get(key).is_none_or(Value::is_null) {
        object[key] = value;
    }
}

/// Sets a key that is absent or an empty text.
fn fill_empty(object: &mut Value, key: &str, value: &str) {
    if object[key].as_str().unwrap_or_default().is_empty() {
        object[key] = json!(value);
    }
}

/// The elements of a list that may be absent.
fn each(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    list.as_array_mut().into_iter().flatten()
}

fn replication_controller(object: &mut Value) {
    set(&mut object["spec"], "replicas", json!(1));
    let Some(template) = object["spec"].get_mut("template").filter(|template| template.is_object()) else { return };
    pod::template(template);
    let labels = template["metadata"].get("labels").cloned();
    if let Some(labels) = labels {
        set(&mut object["spec"], "selector", labels.clone());
        set(&mut object["metadata"], "labels", labels);
    }
}

fn service(object: &mut Value) {
    let spec = &mut object["spec"];
    set(spec, "sessionAffinity", json!("None"));
    if spec["sessionAffinity"] == "None"
        && let Some(spec) = spec.as_object_mut()
    {
        spec.shift_remove("sessionAffinityConfig");
    }
    if spec["sessionAffinity"] == "ClientIP" && spec.pointer("/sessionAffinityConfig/clientIP/timeoutSeconds").is_none()
    {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
    }
    set(spec, "type", json!("ClusterIP"));
    for port in each(&mut spec["ports"]) {
        set(port, "protocol", json!("TCP"));
        let target = &port["targetPort"];
        if target.is_null() || *target == 0 || *target == "" {
            port["targetPort"] = port["port"].clone();
        }
    }
    let kind = spec["type"].as_str().unwrap_or_default().to_owned();
    let external_ips = spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty());
    if kind == "NodePort" || kind == "LoadBalancer" || (kind == "ClusterIP" && external_ips) {
        set(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        set(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if kind == "LoadBalancer" {
        set(spec, "allocateLoadBalancerNodePorts", json!(true));
        for ingress in each(&mut object["status"]["loadBalancer"]["ingress"]) {
            if ingress["ip"].as_str().is_some_and(|ip| !ip.is_empty()) {
                set(ingress, "ipMode", json!("VIP"));
            }
        }
    }
}

fn limit_range_item(item: &mut Value) {
    if item["type"] != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        for (name, value) in item[from].as_object().cloned().into_iter().flatten() {
            if item[to].get(&name).is_none() {
                item[to][name] = value;
            }
        }
    }
}

fn deployment(object: &mut Value) {
    let spec = &mut object["spec"];
    set(spec, "replicas", json!(1));
    pod::template(&mut spec["template"]);
    set(&mut spec["strategy"], "type", json!("RollingUpdate"));
    if spec["strategy"]["type"] == "RollingUpdate" {
        let rolling = &mut spec["strategy"]["rollingUpdate"];
        set(rolling, "maxUnavailable", json!("25%"));
        set(rolling, "maxSurge", json!("25%"));
    }
    set(spec, "revisionHistoryLimit", json!(10));
    set(spec, "progressDeadlineSeconds", json!(600));
}

/// The annotation that stands for a field of an older version.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn daemon_set(object: &mut Value) {
    if object["metadata"]["annotations"].get(TEMPLATE_GENERATION).is_none() {
        object["metadata"]["annotations"][TEMPLATE_GENERATION] = json!("0");
    }
    let spec = &mut object["spec"];
    pod::template(&mut spec["template"]);
    set(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        let rolling = &mut spec["updateStrategy"]["rollingUpdate"];
        set(rolling, "maxUnavailable", json!(1));
        set(rolling, "maxSurge", json!(0));
    }
    set(spec, "revisionHistoryLimit", json!(10));
}

fn stateful_set(object: &mut Value) {
    let spec = &mut object["spec"];
    pod::template(&mut spec["template"]);
    for claim in each(&mut spec["volumeClaimTemplates"]) {
        claim["kind"] = json!("PersistentVolumeClaim");
        claim["apiVersion"] = json!("v1");
        set(&mut claim["status"], "phase", json!("Pending"));
        set(&mut claim["spec"], "volumeMode", json!("Filesystem"));
    }
    set(spec, "podManagementPolicy", json!("OrderedReady"));
    if spec["updateStrategy"]["type"].as_str().unwrap_or_default().is_empty() {
        set(&mut spec["updateStrategy"], "type", json!("RollingUpdate"));
        set(&mut spec["updateStrategy"], "rollingUpdate", json!({}));
    }
    if spec["updateStrategy"]["type"] == "RollingUpdate" && spec["updateStrategy"]["rollingUpdate"].is_object() {
        set(&mut spec["updateStrategy"]["rollingUpdate"], "partition", json!(0));
    }
    let retention = &mut spec["persistentVolumeClaimRetentionPolicy"];
    set(retention, "whenDeleted", json!("Retain"));
    set(retention, "whenScaled", json!("Retain"));
    set(spec, "replicas", json!(1));
    set(spec, "revisionHistoryLimit", json!(10));
}

fn job_spec(spec: &mut Value) {
    pod::template(&mut spec["template"]);
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        set(spec, "completions", json!(1));
    }
    set(spec, "parallelism", json!(1));
    let limit = if spec.get("backoffLimitPerIndex").is_some() { i32::MAX } else { 6 };
    set(spec, "backoffLimit", json!(limit));
    set(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    let failure_policy = spec.get("podFailurePolicy").is_some();
    set(spec, "podReplacementPolicy", json!(if failure_policy { "Failed" } else { "TerminatingOrFailed" }));
    set(spec, "manualSelector", json!(false));
    for rule in each(&mut spec["podFailurePolicy"]["rules"]) {
        for pattern in each(&mut rule["onPodConditions"]) {
            set(pattern, "status", json!("True"));
        }
    }
    if !failure_policy && let Some(spec) = spec.as_object_mut() {
        spec.shift_remove("podFailurePolicy");
    }
}

fn cron_job(object: &mut Value) {
    let spec = &mut object["spec"];
    set(spec, "concurrencyPolicy", json!("Allow"));
    set(spec, "suspend", json!(false));
    set(spec, "successfulJobsHistoryLimit", json!(3));
    set(spec, "failedJobsHistoryLimit", json!(1));
    // The template's job is defaulted when it is created; its pods are defaulted here.
    pod::template(&mut spec["jobTemplate"]["spec"]["template"]);
}

fn autoscaler(object: &mut Value, version: &str) {
    let spec = &mut object["spec"];
    set(spec, "minReplicas", json!(1));
    if version == "v1" {
        return;
    }
    set(
        spec,
        "metrics",
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]),
    );
    if spec.get("behavior").is_some_and(|behavior| !behavior.is_null()) {
        let up = &mut spec["behavior"]["scaleUp"];
        set(up, "stabilizationWindowSeconds", json!(0));
        set(up, "selectPolicy", json!("Max"));
        set(
            up,
            "policies",
            json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]),
        );
        let down = &mut spec["behavior"]["scaleDown"];
        set(down, "selectPolicy", json!("Max"));
        set(down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}

fn network_policy(object: &mut Value) {
    let spec = &mut object["spec"];
    for direction in ["ingress", "egress"] {
        for rule in each(&mut spec[direction]) {
            each(&mut rule["ports"]).for_each(|port| set(port, "protocol", json!("TCP")));
        }
    }
    if spec["policyTypes"].as_array().is_none_or(Vec::is_empty) {
        let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
        spec["policyTypes"] = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
    for direction in ["ingress", "egress"] {
        if spec[direction].is_null()
            && let Some(spec) = spec.as_object_mut()
        {
            spec.shift_remove(direction);
        }
    }
}

fn device_requests(spec: &mut Value) {
    fn exact(request: &mut Value) {
        set(request, "allocationMode", json!("ExactCount"));
        if request["allocationMode"] == "ExactCount" && request["count"].as_i64().unwrap_or(0) == 0 {
            request["count"] = json!(1);
        }
    }
    for request in each(&mut spec["devices"]["requests"]) {
        if request.get("exactly").is_some_and(Value::is_object) {
            exact(&mut request["exactly"]);
        }
        if request.get("firstAvailable").is_some() {
            each(&mut request["firstAvailable"]).for_each(exact);
        }
    }
}

fn admission_registration(kind: &str, object: &mut Value) {
    match kind {
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            for webhook in each(&mut object["webhooks"]) {
                set(webhook, "failurePolicy", json!("Fail"));
                match_resources(webhook);
                set(webhook, "timeoutSeconds", json!(10));
                if kind.starts_with("Mutating") {
                    set(webhook, "reinvocationPolicy", json!("Never"));
                }
                each(&mut webhook["rules"]).for_each(|rule| set(rule, "scope", json!("*")));
                if webhook.pointer("/clientConfig/service").is_some_and(Value::is_object) {
                    set(&mut webhook["clientConfig"]["service"], "port", json!(443));
                }
            }
        }
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
            set(&mut object["spec"], "failurePolicy", json!("Fail"));
            if object["spec"].get("matchConstraints").is_some() {
                match_resources(&mut object["spec"]["matchConstraints"]);
                for list in ["resourceRules", "excludeResourceRules"] {
                    if object["spec"]["matchConstraints"].get(list).is_some() {
                        let rules = &mut object["spec"]["matchConstraints"][list];
                        each(rules).for_each(|rule| set(rule, "scope", json!("*")));
                    }
                }
            }
        }
        _ => {
            if object["spec"].get("matchResources").is_some() {
                match_resources(&mut object["spec"]["matchResources"]);
            }
        }
    }
}

fn match_resources(object: &mut Value) {
    set(object, "matchPolicy", json!("Equivalent"));
    set(object, "namespaceSelector", json!({}));
    set(object, "objectSelector", json!({}));
}

fn custom_resource_definition(object: &mut Value) {
    let spec = &mut object["spec"];
    let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if !kind.is_empty() {
        set(&mut spec["names"], "singular", json!(kind.to_lowercase()));
        set(&mut spec["names"], "listKind", json!(format!("{kind}List")));
    }
    set(&mut spec["conversion"], "strategy", json!("None"));
    if spec.pointer("/conversion/webhook/clientConfig/service").is_some_and(Value::is_object) {
        set(&mut spec["conversion"]["webhook"]["clientConfig"]["service"], "port", json!(443));
    }
}

#[cfg(test)]
mod tests;
