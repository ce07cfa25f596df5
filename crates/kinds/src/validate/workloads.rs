//! Deployments, their like, and jobs.

use serde_json::Value;

use super::pod::{self, Owner};
use super::{immutable, label_selector, non_negative};
use crate::fielderror::FieldError;
use crate::selector::Selector;

pub(super) fn validate(kind: &str, object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    if kind == "StatefulSet" {
        errors.extend(stateful_set(spec));
    }
    errors.extend(non_negative("spec.replicas", &spec["replicas"]));
    errors.extend(selector(spec, kind));
    errors.extend(template(spec, kind));
    if kind == "Deployment" {
        errors.extend(strategy(spec));
    }
    errors.extend(non_negative("spec.minReadySeconds", &spec["minReadySeconds"]));
    if kind == "DaemonSet" {
        errors.extend(daemon_strategy(spec));
    }
    errors.extend(non_negative("spec.revisionHistoryLimit", &spec["revisionHistoryLimit"]));
    if kind == "Deployment" {
        errors.extend(progress_deadline(spec));
    }
    errors
}

fn stateful_set(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let policy = text(&spec["podManagementPolicy"]);
    if !["OrderedReady", "Parallel"].contains(&policy.as_str()) {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid("spec.podManagementPolicy", policy, detail));
    }
    let strategy = text(&spec["updateStrategy"]["type"]);
    if !["RollingUpdate", "OnDelete"].contains(&strategy.as_str()) {
        let mut error = FieldError::invalid("spec.updateStrategy", "", "must be 'RollingUpdate' or 'OnDelete'");
        error.value = Some(format!("{{\"Type\":{strategy:?},\"RollingUpdate\":null}}"));
        errors.push(error);
    }
    let service = text(&spec["serviceName"]);
    if !service.is_empty() {
        for message in crate::names::dns_label(&service).err().into_iter().flatten() {
            errors.push(FieldError::invalid("spec.serviceName", service.as_str(), message));
        }
    }
    errors
}

fn selector(spec: &Value, kind: &str) -> Vec<FieldError> {
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    let mismatch = |spec: &Value| {
        let labels = spec["template"]["metadata"].get("labels").cloned().unwrap_or(Value::Null);
        FieldError::invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    };
    // No selector selects nothing, so also not the template.
    let Some(found) = selector else { return vec![FieldError::required("spec.selector", ""), mismatch(spec)] };
    let mut errors = label_selector(found, "spec.selector");
    let unusable = !errors.is_empty();
    let empty = ["matchLabels", "matchExpressions"].iter().all(|key| match &found[*key] {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    });
    if empty {
        let shown = "{}";
        let detail = match kind {
            "Deployment" => "empty selector is invalid for deployment",
            "DaemonSet" => "empty selector is invalid for daemonset",
            "StatefulSet" => "empty selector is invalid for statefulset",
            _ => "empty selector is invalid for deployment",
        };
        let mut error = FieldError::invalid("spec.selector", "", detail);
        error.value = Some(shown.into());
        errors.push(error);
    }
    if unusable {
        errors.push(FieldError::invalid("spec.selector", found, "invalid label selector"));
        return errors;
    }
    if !empty && !Selector::from_struct(Some(found)).matches_labels(spec["template"]["metadata"].get("labels")) {
        errors.push(mismatch(spec));
    }
    errors
}

fn template(spec: &Value, kind: &str) -> Vec<FieldError> {
    // A selector that cannot be read leaves nothing to compare the template with.
    if spec.get("selector").is_some_and(|selector| !label_selector(selector, "").is_empty()) && kind != "DaemonSet" {
        return Vec::new();
    }
    let mut errors = pod::template(&spec["template"], "spec.template", Owner::Template);
    let policy = spec["template"]["spec"]["restartPolicy"].as_str().unwrap_or_default();
    if policy != "Always" && errors.iter().all(|error| error.field != "spec.template.spec.restartPolicy") {
        errors.push(FieldError::not_supported("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
    if spec["template"]["spec"].get("activeDeadlineSeconds").is_some() {
        let kind = if kind == "DaemonSet" || kind == "StatefulSet" { kind } else { "ReplicaSet" };
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", detail));
    }
    errors
}

fn daemon_strategy(spec: &Value) -> Vec<FieldError> {
    const FIELD: &str = "spec.updateStrategy";
    match spec["updateStrategy"]["type"].as_str().unwrap_or_default() {
        "OnDelete" => Vec::new(),
        "RollingUpdate" => {
            let rolling = &spec["updateStrategy"]["rollingUpdate"];
            let mut errors = Vec::new();
            for key in ["maxUnavailable", "maxSurge"] {
                errors.extend(int_or_percent(&rolling[key], &format!("{FIELD}.rollingUpdate.{key}")));
            }
            if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
                let detail = "cannot be 0 when maxSurge is 0";
                errors.push(FieldError::required(format!("{FIELD}.rollingUpdate.maxUnavailable"), detail));
            }
            errors
        }
        other => vec![FieldError::not_supported(FIELD, other, &["OnDelete", "RollingUpdate"])],
    }
}

fn strategy(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = spec["strategy"]["type"].as_str().unwrap_or_default();
    let rolling = spec["strategy"].get("rollingUpdate").filter(|rolling| !rolling.is_null());
    match kind {
        "Recreate" => {
            if rolling.is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
            }
        }
        "RollingUpdate" => {
            if let Some(rolling) = rolling {
                let path = "spec.strategy.rollingUpdate";
                for key in ["maxUnavailable", "maxSurge"] {
                    errors.extend(int_or_percent(&rolling[key], &format!("{path}.{key}")));
                }
                if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
                    let detail = "may not be 0 when `maxSurge` is 0";
                    errors.push(FieldError::invalid(
                        format!("{path}.maxUnavailable"),
                        &rolling["maxUnavailable"],
                        detail,
                    ));
                }
            }
        }
        other => {
            let mut error = FieldError::not_supported("spec.strategy", other, &["Recreate", "RollingUpdate"]);
            error.value = Some(format!("{{\"Type\":{other:?},\"RollingUpdate\":null}}"));
            errors.push(error);
        }
    }
    errors
}

fn progress_deadline(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (deadline, ready) = (spec["progressDeadlineSeconds"].as_i64(), spec["minReadySeconds"].as_i64().unwrap_or(0));
    if let Some(deadline) = deadline {
        errors.extend(non_negative("spec.progressDeadlineSeconds", &spec["progressDeadlineSeconds"]));
        if deadline <= ready {
            let detail = "must be greater than minReadySeconds";
            errors.push(FieldError::invalid("spec.progressDeadlineSeconds", deadline, detail));
        }
    }
    errors
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.trim_end_matches('%').parse::<i64>() == Ok(0),
        _ => true,
    }
}

/// A count, or a percentage.
pub(super) fn int_or_percent(value: &Value, field: &str) -> Vec<FieldError> {
    match value {
        Value::Number(_) => non_negative(field, value),
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            let valid = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
            if !valid {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                return vec![FieldError::invalid(field, text, detail)];
            }
            if digits.parse::<i64>().is_ok_and(|n| n > 100) && !field.ends_with("maxSurge") {
                return vec![FieldError::invalid(field, text, "must not be greater than 100%")];
            }
            Vec::new()
        }
        _ => Vec::new(),
    }
}

pub(super) fn update(kind: &str, object: &Value, old: &Value) -> Vec<FieldError> {
    let (spec, before) = (&object["spec"], &old["spec"]);
    if kind != "StatefulSet" {
        return immutable("spec.selector", spec.get("selector"), before.get("selector"));
    }
    let mutable = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let mut munged = spec.clone();
    for key in mutable {
        match before.get(key) {
            Some(value) => munged[key] = value.clone(),
            None => {
                if let Some(fields) = munged.as_object_mut() {
                    fields.shift_remove(key);
                }
            }
        }
    }
    if super::without_nulls(&munged) == super::without_nulls(before) {
        return Vec::new();
    }
    let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    vec![FieldError::forbidden("spec", detail)]
}

pub(super) fn replication_controller(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = non_negative("spec.replicas", &spec["replicas"]);
    let selector = &spec["selector"];
    if selector.as_object().is_none_or(serde_json::Map::is_empty) {
        errors.push(FieldError::required("spec.selector", ""));
    }
    if spec.get("template").is_none_or(Value::is_null) {
        errors.push(FieldError::required("spec.template", ""));
        return errors;
    }
    if !Selector::from_map(selector).matches_labels(spec["template"]["metadata"].get("labels")) {
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            &spec["template"]["metadata"]["labels"],
            detail,
        ));
    }
    errors.extend(template(spec, "ReplicationController"));
    errors
}

pub(super) fn job_spec(spec: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        errors.extend(non_negative(&format!("{field}.{key}"), &spec[key]));
    }
    let modes = ["Indexed", "NonIndexed"];
    if let Some(mode) = spec["completionMode"].as_str().filter(|mode| !modes.contains(mode)) {
        let shown = ["NonIndexed", "Indexed"];
        errors.push(FieldError::not_supported(format!("{field}.completionMode"), mode, &shown));
    }
    if spec["completionMode"] == "Indexed" && spec.get("completions").is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(format!("{field}.completions"), detail));
    }
    errors.extend(pod::template(&spec["template"], &format!("{field}.template"), Owner::Job));
    if spec["template"]["spec"]["restartPolicy"] == "Always" {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        errors.push(FieldError::required(format!("{field}.template.spec.restartPolicy"), detail));
    }
    errors
}

pub(super) fn job_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let (spec, before) = (&object["spec"], &old["spec"]);
    let mut errors = Vec::new();
    let indexed = spec["completionMode"] == "Indexed";
    let elastic = indexed && spec["completions"] == spec["parallelism"];
    if !elastic {
        errors.extend(immutable("spec.completions", spec.get("completions"), before.get("completions")));
    }
    errors.extend(immutable("spec.selector", spec.get("selector"), before.get("selector")));
    let suspended = before["suspend"] == true;
    if !suspended {
        errors.extend(immutable("spec.template", spec.get("template"), before.get("template")));
    }
    for key in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        errors.extend(immutable(&format!("spec.{key}"), spec.get(key), before.get(key)));
    }
    errors
}

pub(super) fn cron_job(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    if schedule.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else if let Some(problem) = schedule_problem(schedule) {
        errors.push(FieldError::invalid("spec.schedule", schedule, problem));
    }
    errors.extend(non_negative("spec.startingDeadlineSeconds", &spec["startingDeadlineSeconds"]));
    let policies = ["Allow", "Forbid", "Replace"];
    errors.extend(super::one_of("spec.concurrencyPolicy", &spec["concurrencyPolicy"], &policies));
    errors.extend(job_spec(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec"));
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.extend(non_negative(&format!("spec.{key}"), &spec[key]));
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if name.len() > 52 {
        errors.push(FieldError::invalid("metadata.name", name, "must be no more than 52 characters"));
    }
    errors
}

/// What is wrong with a cron schedule, in the words of the parser the server uses.
fn schedule_problem(schedule: &str) -> Option<String> {
    if schedule.contains("TZ=") {
        return Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned());
    }
    if let Some(descriptor) = schedule.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        if known.contains(&descriptor) || descriptor.starts_with("every ") {
            return None;
        }
        return Some(format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        return Some(
            format!("expected exactly 5 fields, found {}: {:?}", fields.len(), fields)
                .replace(", \"", " \"")
                .replace('"', ""),
        );
    }
    const RANGES: [(u32, u32); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    const NAMES: [&str; 19] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "sun", "mon", "tue", "wed",
        "thu", "fri", "sat",
    ];
    for (field, (low, high)) in fields.iter().zip(RANGES) {
        for part in field.split(',') {
            let (range, _) = part.split_once('/').unwrap_or((part, ""));
            for end in range.split('-') {
                if end == "*" || end == "?" || NAMES.contains(&end.to_lowercase().as_str()) {
                    continue;
                }
                match end.parse::<u32>() {
                    Ok(number) if number < low => {
                        return Some(format!("beginning of range ({number}) below minimum ({low}): {part}"));
                    }
                    Ok(number) if number > high => {
                        return Some(format!("end of range ({number}) above maximum ({high}): {part}"));
                    }
                    Ok(_) => {}
                    Err(_) => {
                        return Some(format!(
                            "failed to parse int from {end}: strconv.Atoi: parsing {end:?}: invalid syntax"
                        ));
                    }
                }
            }
        }
    }
    None
}
