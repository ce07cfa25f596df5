//! A pod's status as its kubelet reports it.

use super::containers::{Container, Ended, State};
use super::pods::Run;
use crate::clock::wire;
use crate::key::Key;
use crate::op::{Op, Style};
use crate::world::Kind;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, Pod};
use serde_json::{Value, json};

/// The patch that makes the status true, if it is not.
pub fn patch(pod: &Pod, run: &Run, host_ip: &str, now: Timestamp) -> Option<Op> {
    let mut status = of(pod, run, host_ip, now);
    if same(pod, &status) {
        return None;
    }
    keep_transitions(pod, &mut status);
    Some(op(pod, status))
}

/// A pod the kubelet will not run.
pub fn rejected(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Op {
    op(
        pod,
        json!({"phase": "Failed", "reason": reason, "message": message, "startTime": wire(now),
        "observedGeneration": pod.metadata.generation}),
    )
}

/// A pod the kubelet ended.
pub fn failed(pod: &Pod, run: &Run, reason: &str, message: &str, now: Timestamp) -> Op {
    let mut run = run.clone();
    run.init.iter_mut().chain(&mut run.main).for_each(|c| c.stop(now, 137));
    let mut status = of(pod, &run, "", now);
    status["phase"] = json!("Failed");
    status["reason"] = json!(reason);
    status["message"] = json!(message);
    keep_transitions(pod, &mut status);
    op(pod, status)
}

fn op(pod: &Pod, status: Value) -> Op {
    let body = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    Op::Patch { kind: Kind::Pod, key: Key::of(&pod.metadata), subresource: "status", style: Style::Strategic, body }
}

fn of(pod: &Pod, run: &Run, host_ip: &str, now: Timestamp) -> Value {
    let Some(spec) = &pod.spec else { return json!({}) };
    let init: Vec<&v1::Container> = spec.init_containers.iter().flatten().collect();
    let initialized = run.starting && init.iter().zip(&run.init).all(|(c, r)| has_served(c, r, now));
    let all_done = run.starting && run.main.iter().all(Container::is_done);
    let succeeded = run.main.iter().all(|c| matches!(c.state, State::Done(Ended { code: 0, .. })));
    let init_failed = init
        .iter()
        .zip(&run.init)
        .any(|(c, r)| !is_sidecar(c) && matches!(r.state, State::Done(Ended { code, .. }) if code != 0));
    let phase = match (all_done, succeeded) {
        (_, _) if init_failed => "Failed",
        (true, true) => "Succeeded",
        (true, false) => "Failed",
        (false, _) if run.main.iter().any(Container::has_started) => "Running",
        (false, _) => "Pending",
    };
    let ready = run.starting && phase == "Running" && run.main.iter().all(|c| c.is_ready(now));
    let gates = spec.readiness_gates.iter().flatten().all(|g| {
        pod.status
            .iter()
            .flat_map(|s| s.conditions.iter().flatten())
            .any(|c| c.type_ == g.condition_type && c.status == "True")
    });
    let names: Vec<&str> = spec
        .containers
        .iter()
        .zip(run.main.iter().map(Some).chain(std::iter::repeat(None)))
        .filter(|(_, r)| !r.is_some_and(|r| r.is_ready(now)))
        .map(|(c, _)| c.name.as_str())
        .collect();
    let init_names: Vec<&str> = init
        .iter()
        .zip(run.init.iter().map(Some).chain(std::iter::repeat(None)))
        .filter(|(c, r)| !r.is_some_and(|r| has_served(c, r, now)))
        .map(|(c, _)| c.name.as_str())
        .collect();
    let time = wire(now);
    let condition = |kind: &str, on: bool, reason: Option<&str>, message: Option<String>| {
        let mut c = json!({"type": kind, "status": if on { "True" } else { "False" }, "lastProbeTime": null,
            "lastTransitionTime": time, "observedGeneration": pod.metadata.generation});
        c["reason"] = json!(reason);
        c["message"] = json!(message);
        c
    };
    let unready =
        || (Some("ContainersNotReady"), Some(format!("containers with unready status: [{}]", names.join(" "))));
    let (reason, message) = match (ready, phase) {
        (true, _) => (None, None),
        (false, "Succeeded") => (Some("PodCompleted"), None),
        (false, "Failed") => (Some("PodFailed"), None),
        (false, _) => unready(),
    };
    let sandbox = run.starting
        && phase != "Succeeded"
        && phase != "Failed"
        && run.main.iter().chain(&run.init).any(Container::has_started);
    let not_initialized =
        (!initialized).then(|| format!("containers with incomplete status: [{}]", init_names.join(" ")));
    let (pod_reason, pod_message) = if ready && !gates {
        (
            Some("ReadinessGatesNotReady"),
            Some("corresponding condition of pod readiness gate does not exist.".to_owned()),
        )
    } else {
        (reason, message.clone())
    };
    let mut status = json!({
        "phase": phase,
        "observedGeneration": pod.metadata.generation,
        "startTime": wire(run.started),
        "conditions": [
            condition("PodReadyToStartContainers", sandbox, None, None),
            condition("Initialized", initialized || phase == "Succeeded", if initialized && phase == "Succeeded" { Some("PodCompleted") } else if initialized { None } else { Some("ContainersNotInitialized") }, not_initialized),
            condition("Ready", ready && gates, pod_reason, pod_message),
            condition("ContainersReady", ready, reason, message),
        ],
        "containerStatuses": container_statuses(pod, &spec.containers, &run.main, now, initialized),
    });
    if !init.is_empty() {
        let all: Vec<v1::Container> = init.into_iter().cloned().collect();
        status["initContainerStatuses"] = container_statuses(pod, &all, &run.init, now, true);
    }
    if !host_ip.is_empty() {
        status["hostIP"] = json!(host_ip);
        status["hostIPs"] = json!([{"ip": host_ip}]);
    }
    if sandbox {
        status["podIP"] = json!(run.ip);
        status["podIPs"] = json!([{"ip": run.ip}]);
    }
    status
}

fn is_sidecar(container: &v1::Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// An init container has ended well; a sidecar has started.
fn has_served(container: &v1::Container, run: &Container, now: Timestamp) -> bool {
    if is_sidecar(container) {
        return run.has_started() && (run.is_ready(now) || run.is_done());
    }
    matches!(run.state, State::Done(Ended { code: 0, .. }))
}

fn container_statuses(
    pod: &Pod,
    specs: &[v1::Container],
    runs: &[Container],
    now: Timestamp,
    may_start: bool,
) -> Value {
    let one = |(i, spec): (usize, &v1::Container)| {
        let run = runs.get(i);
        let image = spec.image.clone().unwrap_or_default();
        let id = format!(
            "containerd://{:016x}{:016x}",
            crate::chance::draw(2, &[pod.metadata.uid.as_deref().unwrap_or_default(), &spec.name]),
            run.map_or(0, |r| r.restarts)
        );
        let ended = |e: &Ended| {
            json!({"exitCode": e.code, "reason": if e.code == 0 { "Completed" } else { "Error" },
                "startedAt": wire(e.started), "finishedAt": wire(e.at), "containerID": id})
        };
        let state = match run.map(|r| &r.state) {
            Some(State::Running { since }) => json!({"running": {"startedAt": wire(*since)}}),
            Some(State::Done(e)) => json!({"terminated": ended(e)}),
            Some(State::Waiting { crashed: true, .. }) => {
                json!({"waiting": {"reason": "CrashLoopBackOff", "message": format!("back-off restarting failed container={} pod={}", spec.name, crate::key::name(&pod.metadata))}})
            }
            Some(State::Waiting { .. }) if !may_start => json!({"waiting": {"reason": "PodInitializing"}}),
            Some(State::Waiting { .. }) | None => json!({"waiting": {"reason": "ContainerCreating"}}),
        };
        let running = run.is_some_and(|r| matches!(r.state, State::Running { .. }));
        let started = run.is_some_and(Container::has_started);
        json!({
            "name": spec.name,
            "image": image,
            "imageID": if started { format!("sha256:{:016x}", crate::chance::draw(3, &[&image])) } else { String::new() },
            "containerID": if started { json!(id) } else { Value::Null },
            "ready": run.is_some_and(|r| r.is_ready(now) || (matches!(r.state, State::Done(Ended { code: 0, .. })) && spec.restart_policy.is_none() && pod.spec.as_ref().is_some_and(|s| s.init_containers.iter().flatten().any(|c| c.name == spec.name)))),
            "started": running,
            "restartCount": run.map_or(0, |r| r.restarts),
            "state": state,
            "lastState": run.and_then(|r| r.last.as_ref()).map_or(json!({}), |e| json!({"terminated": ended(e)})),
        })
    };
    Value::Array(specs.iter().enumerate().map(one).collect())
}

/// Whether the pod says all this already, transition times aside.
fn same(pod: &Pod, wanted: &Value) -> bool {
    let Some(status) = &pod.status else { return false };
    let have = |key: &str| match key {
        "phase" => json!(status.phase),
        "containerStatuses" => essence(&json!(status.container_statuses)),
        "initContainerStatuses" => essence(&json!(status.init_container_statuses)),
        "podIP" => json!(status.pod_ip),
        "observedGeneration" => json!(status.observed_generation),
        _ => Value::Null,
    };
    let keys = ["phase", "containerStatuses", "podIP", "observedGeneration"];
    let init = wanted.get("initContainerStatuses").is_some().then_some("initContainerStatuses");
    // An address once given stays when the containers are gone.
    let compared = |k: &&str| wanted.get(*k).is_some() || *k != "podIP";
    let equal = keys.into_iter().chain(init).filter(compared).all(|k| {
        let want = if k.ends_with("Statuses") { essence(&wanted[k]) } else { wanted[k].clone() };
        have(k) == want
    });
    let conditions = wanted["conditions"].as_array().into_iter().flatten().all(|w| {
        status
            .conditions
            .iter()
            .flatten()
            .any(|c| w["type"] == c.type_ && w["status"] == c.status && w["reason"] == json!(c.reason))
    });
    equal && conditions
}

/// What of container statuses is worth a write.
fn essence(statuses: &Value) -> Value {
    let one = |s: &Value| {
        json!([
            s["name"],
            s["ready"],
            s["restartCount"],
            s["state"].as_object().and_then(|o| o.keys().next().cloned()),
            s["state"]["waiting"]["reason"],
            s["state"]["terminated"]["exitCode"]
        ])
    };
    Value::Array(statuses.as_array().into_iter().flatten().map(one).collect())
}

fn keep_transitions(pod: &Pod, status: &mut Value) {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        let before =
            pod.status.iter().flat_map(|s| s.conditions.iter().flatten()).find(|c| condition["type"] == c.type_);
        if let Some(same) = before.filter(|c| condition["status"] == c.status && c.last_transition_time.is_some()) {
            condition["lastTransitionTime"] = json!(same.last_transition_time);
        }
    }
}
