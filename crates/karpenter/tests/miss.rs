//! Nearest misses come true: a program that knows nothing but the format applies each to the manifests, and the pod it
//! is about has a place afterwards.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Plans objects with the built-in catalogue.
fn plan(objects: &[Value]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    // Settings of whoever runs the tests must not decide them.
    command.env_clear().args(["plan", "-f", "-", "-o", "json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    child.stdin.take().unwrap().write_all(list.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

enum Step {
    Name(String),
    Entry(usize),
}

/// `spec.nodeSelector["a/b"]`, `spec.tolerations[0]`.
fn steps(mut path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    while !path.is_empty() {
        if let Some(rest) = path.strip_prefix('[') {
            let end = rest.find(']').unwrap();
            let (inside, after) = (&rest[..end], &rest[end + 1..]);
            steps.push(match inside.parse() {
                Ok(position) => Step::Entry(position),
                Err(_) => Step::Name(serde_json::from_str(inside).unwrap()),
            });
            path = after;
        } else {
            let rest = path.strip_prefix('.').unwrap_or(path);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Name(rest[..end].to_owned()));
            path = &rest[end..];
        }
    }
    steps
}

/// Puts `to` where `field` points. `null` takes away; one past the end of a list appends.
fn apply(objects: &mut [Value], miss: &Value) {
    let text = |name: &str| miss[name].as_str().unwrap();
    let (kind, name) = text("object").split_once(' ').unwrap();
    let (namespace, name) = name.split_once('/').map_or((None, name), |(namespace, name)| (Some(namespace), name));
    let is_it = |object: &&mut Value| {
        object["kind"] == kind
            && object["metadata"]["name"] == name
            && namespace.is_none_or(|wanted| object["metadata"]["namespace"].as_str().unwrap_or("default") == wanted)
    };
    let mut at = objects.iter_mut().find(is_it).unwrap_or_else(|| panic!("no {}", text("object")));
    let to: Value = serde_saphyr::from_str(text("to")).unwrap();
    let mut path = steps(text("field"));
    let last = path.pop().unwrap();
    for step in path {
        at = match step {
            Step::Name(name) => &mut at[name],
            Step::Entry(position) => &mut at[position],
        };
    }
    match (last, to) {
        (Step::Name(name), Value::Null) => assert!(at.as_object_mut().unwrap().remove(&name).is_some()),
        (Step::Name(name), to) => at[name] = to,
        (Step::Entry(position), Value::Null) => drop(at.as_array_mut().unwrap().remove(position)),
        (Step::Entry(position), to) => {
            if at.is_null() {
                *at = json!([]);
            }
            let list = at.as_array_mut().unwrap();
            match list.get_mut(position) {
                Some(entry) => *entry = to,
                None => list.push(to),
            }
        }
    }
}

/// Applies every miss on its own; what each was about.
fn come_true(objects: &[Value]) -> Vec<(String, String)> {
    let before = plan(objects);
    let left = before["unschedulable"].as_array().unwrap();
    assert!(!left.is_empty(), "nothing is left over");
    let mut told = Vec::new();
    for entry in left {
        let miss = &entry["nearestMiss"];
        assert!(miss.is_object(), "no miss: {entry}");
        let mut edited = objects.to_vec();
        apply(&mut edited, miss);
        let after = plan(&edited);
        let still = after["unschedulable"].as_array().unwrap().iter().any(|left| left["pod"] == entry["pod"]);
        assert!(!still, "{miss} changed nothing: {}", after["unschedulable"]);
        let text = |name: &str| miss[name].as_str().unwrap().to_owned();
        told.push((text("object"), text("field")));
    }
    told
}

fn world(pool: Value, more: &[Value]) -> Vec<Value> {
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {"role": "node", "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"a": "b"}}], "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]}
    });
    [class, pool].into_iter().chain(more.iter().cloned()).collect()
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a", "us-east-1b"]}
            ]
        }}}
    })
}

fn pod(spec: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}, "spec": whole})
}

fn asking(resources: Value) -> Value {
    named("c", resources)
}

fn named(name: &str, resources: Value) -> Value {
    json!({"name": name, "image": "i", "resources": resources})
}

#[test]
fn edits_of_a_pod_come_true() {
    let near = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}]}});
    let apart = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1b"]}]}]}}});
    let widgets = json!({"example.com/widget": "1", "cpu": "1"});
    for (spec, field) in [
        (
            json!({"containers": [asking(json!({"requests": {"memory": "16Gi"}}))]}),
            "spec.containers[0].resources.requests.memory",
        ),
        (json!({"containers": [asking(json!({"limits": {"cpu": "5"}}))]}), "spec.containers[0].resources.requests.cpu"),
        (
            json!({"containers": [asking(json!({"requests": {"cpu": "1"}})), named("d", json!({"requests": {"cpu": "3500m"}}))]}),
            "spec.containers[1].resources.requests.cpu",
        ),
        (
            json!({"initContainers": [named("before", json!({"requests": {"cpu": "5"}}))]}),
            "spec.initContainers[0].resources.requests.cpu",
        ),
        (
            json!({"containers": [asking(json!({"requests": widgets, "limits": {"example.com/widget": "1"}}))]}),
            "spec.containers[0].resources",
        ),
        (json!({"affinity": near}), "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"),
        (
            json!({"affinity": apart, "nodeSelector": {"topology.kubernetes.io/zone": "us-east-1a"}}),
            r#"spec.nodeSelector["topology.kubernetes.io/zone"]"#,
        ),
        (json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}}), r#"spec.nodeSelector["kubernetes.io/arch"]"#),
    ] {
        let told = come_true(&world(pool(), &[pod(spec.clone())]));
        assert_eq!(told, [("Pod default/web".to_owned(), field.to_owned())], "{spec}");
    }
}

#[test]
fn edits_of_a_pool_come_true() {
    let requirements = "spec.template.spec.requirements";
    let zone = world(pool(), &[pod(json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-east-1c"}}))]);
    let label = world(pool(), &[pod(json!({"nodeSelector": {"team": "shop"}}))]);
    let mut limited = pool();
    limited["spec"]["limits"] = json!({"cpu": "1"});
    let mut flexible = pool();
    flexible["spec"]["template"]["spec"]["requirements"][1]["minValues"] = json!(2);
    let large = json!({"containers": [asking(json!({"requests": {"cpu": "3"}}))]});
    for (objects, field) in [
        (zone, format!("{requirements}[2].values")),
        (label, format!("{requirements}[3]")),
        (world(limited, &[pod(json!({}))]), "spec.limits.cpu".to_owned()),
        (world(flexible, &[pod(large)]), format!("{requirements}[1].minValues")),
    ] {
        assert_eq!(come_true(&objects), [("NodePool default".to_owned(), field)]);
    }
}

#[test]
fn a_toleration_is_appended() {
    let mut tainted = pool();
    tainted["spec"]["template"]["spec"]["taints"] = json!([{"key": "team", "value": "shop", "effect": "NoSchedule"}]);
    for (tolerations, field) in
        [(json!([]), "spec.tolerations[0]"), (json!([{"key": "other", "operator": "Exists"}]), "spec.tolerations[1]")]
    {
        let told = come_true(&world(tainted.clone(), &[pod(json!({"tolerations": tolerations}))]));
        assert_eq!(told, [("Pod default/web".to_owned(), field.to_owned())]);
    }
}

#[test]
fn what_comes_from_a_workload_is_edited_there() {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {
        "containers": [asking(json!({"requests": {"cpu": "5"}}))]}});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    for (api_version, kind, spec) in [
        (
            "apps/v1",
            "Deployment",
            json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}),
        ),
        (
            "apps/v1",
            "StatefulSet",
            json!({"replicas": 2, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}}, "template": template}),
        ),
        ("batch/v1", "Job", json!({"parallelism": 2, "template": once})),
    ] {
        let workload = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        let told = come_true(&world(pool(), &[workload]));
        let want = (format!("{kind} shop/web"), "spec.template.spec.containers[0].resources.requests.cpu".to_owned());
        assert!(told.iter().all(|edit| *edit == want), "{told:?}");
    }
}

#[test]
fn storage_and_ports_come_true() {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "now"},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "Immediate"});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"storageClassName": "now", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let user = pod(json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}));
    let told = come_true(&world(pool(), &[class, claim, user]));
    assert_eq!(told, [("StorageClass now".to_owned(), "volumeBindingMode".to_owned())]);

    let ports = json!([{"containerPort": 80}, {"containerPort": 9100, "hostPort": 9100}]);
    let listening = json!({"name": "c", "image": "i", "ports": ports});
    let agent = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [listening]}}}});
    let told = come_true(&world(pool(), &[agent, pod(json!({"containers": [listening]}))]));
    assert_eq!(told, [("Pod default/web".to_owned(), "spec.containers[0].ports[1].hostPort".to_owned())]);
}
