//! Bad manifests: what the embedded API server refuses, `plan` refuses, with the server's words where the kind is built in,
//! and what the server takes, `plan` takes. Mutations of the examples and of a good object of every kind that plans read,
//! drawn from a fixed seed; and the mistakes that people make, by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod good;
mod judges;
mod mutations;

use judges::{Answer, Server, plan};
use mutations::{Draw, Mutant};
use serde_json::{Value, json};

/// What became of an object.
#[derive(Debug, Default)]
struct Tally {
    taken: usize,
    refused: usize,
    /// NodePools that the server takes, and that the controller calls not ready.
    not_ready: usize,
    /// Where the two differ, or a refusal is of no use.
    wrong: Vec<String>,
}

impl Tally {
    async fn compare(&mut self, server: &Server, what: &str, object: &Value, beside: &[Value]) {
        let ours = plan(object, beside);
        if ours.seconds > 2.0 {
            self.wrong.push(format!("{what}: {} s", ours.seconds));
        }
        let theirs = server.create(object).await;
        match (&ours.answer, &theirs) {
            (Answer::Taken, Err(message)) if !ours.says_server_refuses => {
                self.wrong.push(format!("{what}: only the server refuses: {message}"));
            }
            (Answer::Refused(_), Ok(())) if judges::is_not_ready(object) => self.not_ready += 1,
            (Answer::Refused(lines), Ok(())) => self.wrong.push(format!("{what}: only plan refuses: {}", lines[0])),
            (Answer::Refused(lines), Err(_)) => {
                self.refused += 1;
                let useless = lines.iter().filter(|line| line.object.is_empty() || line.field.is_empty());
                self.wrong.extend(useless.map(|line| format!("{what}: names no object or no field: {line}")));
            }
            (Answer::Taken, _) => self.taken += 1,
        }
    }
}

/// As many as are asked for, from the seed asked for.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

#[tokio::test]
async fn two_hundred_bad_inputs_are_refused_by_both_and_good_ones_by_neither() {
    let server = Server::start().await;
    let objects = good::all();
    let mut tally = Tally::default();
    for object in &objects {
        tally.compare(&server, &good::name(object), object, &good::beside(object)).await;
    }
    assert!(tally.wrong.is_empty() && tally.taken == objects.len(), "good objects: {tally:#?}");
    let mut draw = Draw::from_seed(setting("BAD_INPUT_SEED", 25));
    let wanted = setting("BAD_INPUTS", 200);
    tally = Tally::default();
    while (tally.refused as u64) < wanted {
        let object = draw.one_of(&objects);
        let Some(Mutant { object: mutant, what }) = mutations::mutate(object, &mut draw) else { continue };
        let what = format!("{} with {what}", good::name(object));
        tally.compare(&server, &what, &mutant, &good::beside(object)).await;
    }
    let Tally { taken, refused, not_ready, wrong } = &tally;
    assert!(wrong.is_empty(), "{} wrong, {taken} taken, {refused} refused:\n{}", wrong.len(), wrong.join("\n"));
    println!("{refused} mutants refused by both, {taken} taken by both, {not_ready} NodePools taken and not ready");
}

/// What the server answers and `plan` says are the same words, fault by fault.
#[tokio::test]
async fn the_mistakes_that_people_make_are_told_in_the_servers_words() {
    let server = Server::start().await;
    let pod = |spec: Value| {
        let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": whole})
    };
    let container = |more: Value| {
        let mut whole = json!({"name": "c", "image": "i"});
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod(json!({"containers": [whole]}))
    };
    let deployment = |path: &str, value: Value| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        *object.pointer_mut(path).unwrap() = value;
        object
    };
    let spread = |more: Value| {
        let mut whole = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}}});
        whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod(json!({"topologySpreadConstraints": [whole]}))
    };
    let node_term = |expression: Value| {
        pod(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}))
    };
    let cluster = |api_version: &str, kind: &str, rest: Value| {
        let mut whole = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        whole.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        whole
    };
    let mut named = pod(json!({}));
    named["metadata"]["name"] = "Bad_Name".into();
    let mut labelled = pod(json!({}));
    labelled["metadata"]["labels"] = json!({"a b": "c d"});
    let port = |ports: Value| container(json!({"ports": ports}));
    let mistakes = [
        ("a pod of negative CPU", container(json!({"resources": {"requests": {"cpu": "-2"}}}))),
        (
            "a request above its limit",
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
        ),
        ("a GPU asked for without a limit", container(json!({"resources": {"requests": {"nvidia.com/gpu": "1"}}}))),
        (
            "half a GPU",
            container(
                json!({"resources": {"limits": {"nvidia.com/gpu": "0.5"}, "requests": {"nvidia.com/gpu": "0.5"}}}),
            ),
        ),
        ("a resource without a domain", container(json!({"resources": {"requests": {"gpu": "1"}}}))),
        ("no containers", pod(json!({"containers": []}))),
        ("a container without image", pod(json!({"containers": [{"name": "c"}]}))),
        (
            "a duplicate container",
            pod(json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]})),
        ),
        ("a duplicate port name", port(json!([{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]))),
        ("a port out of range", port(json!([{"containerPort": 70_000}]))),
        (
            "a duplicate host port",
            port(json!([{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}])),
        ),
        ("a mount of no volume", container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}))),
        ("maxSkew 0", spread(json!({"maxSkew": 0}))),
        ("minDomains where it does not apply", spread(json!({"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"}))),
        ("an unknown whenUnsatisfiable", spread(json!({"whenUnsatisfiable": "Maybe"}))),
        (
            "weight 0",
            pod(json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}}})),
        ),
        ("Gt with two values", node_term(json!({"key": "a", "operator": "Gt", "values": ["1", "2"]}))),
        ("In without values", node_term(json!({"key": "a", "operator": "In"}))),
        ("an unknown operator", node_term(json!({"key": "a", "operator": "Like", "values": ["b"]}))),
        (
            "an Exists toleration with a value",
            pod(json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]})),
        ),
        ("a toleration without a key", pod(json!({"tolerations": [{"operator": "Equal", "value": "b"}]}))),
        (
            "anti-affinity without a topology",
            pod(json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"labelSelector": {}}]}}})),
        ),
        ("a bad name", named),
        ("a bad label", labelled),
        ("an unknown restart policy", pod(json!({"restartPolicy": "Sometimes"}))),
        ("a negative grace period", pod(json!({"terminationGracePeriodSeconds": -1}))),
        ("a priority of its own", pod(json!({"priority": 5}))),
        ("replicas -1", deployment("/spec/replicas", json!(-1))),
        ("a selector that does not match", deployment("/spec/selector/matchLabels", json!({"app": "b"}))),
        (
            "a restart policy that no Deployment has",
            deployment(
                "/spec/template/spec",
                json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}),
            ),
        ),
        (
            "both fields of a budget",
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {}}}),
        ),
        ("a StorageClass without provisioner", cluster("storage.k8s.io/v1", "StorageClass", json!({}))),
        (
            "a claim without a size",
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "default"}, "spec": {"accessModes": ["ReadWriteOnce"]}}),
        ),
        ("a taint without effect", cluster("v1", "Node", json!({"spec": {"taints": [{"key": "a"}]}}))),
        (
            "a priority that is the system's",
            cluster("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 2_000_000_000})),
        ),
        (
            "a job that restarts for ever",
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
        ),
        (
            "a service port out of range",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"},
            "spec": {"ports": [{"port": 0}]}}),
        ),
    ];
    let mut wrong = Vec::new();
    for (what, object) in &mistakes {
        let Err(theirs) = server.create(object).await else {
            wrong.push(format!("{what}: the server takes it"));
            continue;
        };
        let Answer::Refused(lines) = plan(object, &[]).answer else {
            wrong.push(format!("{what}: plan takes it, the server says {theirs}"));
            continue;
        };
        for line in lines {
            // Admission names no field.
            let said = if theirs.contains(" is forbidden: ") {
                line.message.clone()
            } else {
                format!("{}: {}", line.field, line.message)
            };
            if !theirs.contains(&said) {
                wrong.push(format!("{what}: plan says {said}\n  the server {theirs}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn objects_of_a_dump_get_notes() {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}});
    assert!(matches!(plan(&pod, &[]).answer, Answer::Refused(_)));
    pod["metadata"]["uid"] = "0b5e".into();
    let dumped = plan(&pod, &[]);
    assert!(matches!(dumped.answer, Answer::Taken) && dumped.says_server_refuses, "{:?}", dumped.answer);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots".into();
    assert!(matches!(plan(&pod, &[]).answer, Answer::Refused(_)), "no server can have taken it");
}
