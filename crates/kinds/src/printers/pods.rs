//! A pod's row: what its containers come to in one word.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let status = &pod["status"];
    let summary = Summary::of(pod);
    let restarts = match summary.last_restart.filter(|_| summary.restarts != 0) {
        Some(time) => format!("{} ({} ago)", summary.restarts, age::since(Some(time), now)),
        None => summary.restarts.to_string(),
    };
    let text = |value: &Value| match value.as_str().filter(|text| !text.is_empty()) {
        Some(text) => json!(text),
        None => json!("<none>"),
    };
    let gates = pod["spec"]["readinessGates"].as_array().cloned().unwrap_or_default();
    let gates = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        let met = gates.iter().filter(|gate| {
            let conditions = status["conditions"].as_array();
            conditions.into_iter().flatten().any(|c| c["type"] == gate["conditionType"] && c["status"] == "True")
        });
        format!("{}/{}", met.count(), gates.len())
    };
    vec![
        pod["metadata"]["name"].clone(),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(restarts),
        json!(super::cells::age_of(pod, now)),
        text(&status["podIPs"][0]["ip"]),
        text(&pod["spec"]["nodeName"]),
        text(&status["nominatedNodeName"]),
        json!(gates),
    ]
}

struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

fn has_condition(pod: &Value, name: &str) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| condition["type"] == name && condition["status"] == "True")
}

fn last_termination(container: &Value) -> Option<Timestamp> {
    let text = container.pointer("/lastState/terminated/finishedAt")?.as_str()?;
    crate::times::parse(text).ok()
}

fn ended(terminated: &Value, prefix: &str) -> String {
    let reason = terminated["reason"].as_str().unwrap_or_default();
    if !reason.is_empty() {
        return format!("{prefix}{reason}");
    }
    match terminated["signal"].as_i64().unwrap_or(0) {
        0 => format!("{prefix}ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        signal => format!("{prefix}Signal:{signal}"),
    }
}

impl Summary {
    fn of(pod: &Value) -> Summary {
        let status = &pod["status"];
        let phase = status["phase"].as_str().unwrap_or_default();
        let mut reason = status["reason"].as_str().filter(|reason| !reason.is_empty()).unwrap_or(phase).to_owned();
        let gated = |c: &Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
        if status["conditions"].as_array().into_iter().flatten().any(gated) {
            reason = "SchedulingGated".into();
        }
        let init = pod["spec"]["initContainers"].as_array().cloned().unwrap_or_default();
        let sidecar = |name: &Value| init.iter().any(|one| one["name"] == *name && one["restartPolicy"] == "Always");
        let sidecars = init.iter().filter(|one| one["restartPolicy"] == "Always").count();
        let total = pod["spec"]["containers"].as_array().map_or(0, Vec::len) + sidecars;
        let mut summary = Summary { reason, ready: 0, total, restarts: 0, last_restart: None };
        let (mut side_restarts, mut side_last) = (0, None);
        let mut initializing = false;
        for (index, container) in status["initContainerStatuses"].as_array().into_iter().flatten().enumerate() {
            let count = container["restartCount"].as_i64().unwrap_or(0);
            summary.restarts += count;
            summary.last_restart = summary.last_restart.max(last_termination(container));
            let is_sidecar = sidecar(&container["name"]);
            if is_sidecar {
                side_restarts += count;
                side_last = side_last.max(last_termination(container));
            }
            let terminated = container["state"].get("terminated").filter(|state| state.is_object());
            if terminated.is_some_and(|state| state["exitCode"].as_i64().unwrap_or(0) == 0) {
                continue;
            }
            if is_sidecar && container["started"] == true {
                summary.ready += usize::from(container["ready"] == true);
                continue;
            }
            initializing = true;
            let waiting = container.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default();
            summary.reason = match terminated {
                Some(state) => ended(state, "Init:"),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", init.len()),
            };
            break;
        }
        if !initializing || has_condition(pod, "Initialized") {
            summary.restarts = side_restarts;
            summary.last_restart = side_last;
            summary.containers(pod);
        }
        let deleting = pod["metadata"].get("deletionTimestamp").is_some();
        if deleting && status["reason"] == "NodeLost" {
            summary.reason = "Unknown".into();
        } else if deleting && !matches!(phase, "Succeeded" | "Failed") {
            summary.reason = "Terminating".into();
        }
        summary
    }

    fn containers(&mut self, pod: &Value) {
        let (mut running, mut failure) = (false, None);
        let statuses = pod["status"]["containerStatuses"].as_array();
        for container in statuses.into_iter().flatten().rev() {
            self.restarts += container["restartCount"].as_i64().unwrap_or(0);
            self.last_restart = self.last_restart.max(last_termination(container));
            let waiting = container.pointer("/state/waiting/reason").and_then(Value::as_str).unwrap_or_default();
            let terminated = container["state"].get("terminated").filter(|state| state.is_object());
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(state) = terminated {
                self.reason = ended(state, "");
                if state["exitCode"].as_i64().unwrap_or(0) != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container["ready"] == true && container["state"].get("running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && has_condition(pod, "Ready") {
                self.reason = "Running".into();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".into();
            }
        }
    }
}
