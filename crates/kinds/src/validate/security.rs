//! Security contexts of pods and containers.

use serde_json::Value;

use super::items;
use crate::fielderror::FieldError;

const MOST: i64 = i32::MAX as i64;

fn ids(context: &Value, field: &str, keys: &[&str], errors: &mut Vec<FieldError>) {
    for key in keys {
        if let Some(id) = context[*key].as_i64().filter(|id| !(0..=MOST).contains(id)) {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(format!("{field}.{key}"), id, detail));
        }
    }
}

pub(super) fn of_container(context: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    ids(context, field, &["runAsUser", "runAsGroup"], &mut errors);
    if context["allowPrivilegeEscalation"] == false {
        let added = context["capabilities"]["add"].as_array();
        let admin = added.into_iter().flatten().any(|name| name == "CAP_SYS_ADMIN");
        for (bad, detail) in [
            (context["privileged"] == true, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"),
            (admin, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"),
        ] {
            if bad {
                let mut error = FieldError::invalid(field, "", detail);
                error.value = Some(internal(context));
                errors.push(error);
            }
        }
    }
    errors
}

/// The context as the server's internal type prints: every field, by its Go name.
fn internal(context: &Value) -> String {
    const FIELDS: [&str; 12] = [
        "capabilities",
        "privileged",
        "seLinuxOptions",
        "windowsOptions",
        "runAsUser",
        "runAsGroup",
        "runAsNonRoot",
        "readOnlyRootFilesystem",
        "allowPrivilegeEscalation",
        "procMount",
        "seccompProfile",
        "appArmorProfile",
    ];
    let go_name = |name: &str| match name {
        "seLinuxOptions" => "SELinuxOptions".to_owned(),
        _ => name[..1].to_uppercase() + &name[1..],
    };
    let parts: Vec<String> = FIELDS.iter().map(|name| format!("\"{}\":{}", go_name(name), context[*name])).collect();
    format!("{{{}}}", parts.join(","))
}

pub(super) fn of_pod(context: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    ids(context, field, &["fsGroup", "runAsUser", "runAsGroup"], &mut errors);
    for (index, group) in context["supplementalGroups"].as_array().into_iter().flatten().enumerate() {
        if let Some(id) = group.as_i64().filter(|id| !(0..=MOST).contains(id)) {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(format!("{field}.supplementalGroups[{index}]"), id, detail));
        }
    }
    let mut known: Vec<&str> = Vec::new();
    for (field, sysctl) in items(&context["sysctls"], &format!("{field}.sysctls")) {
        let name = sysctl["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        } else if !is_sysctl(name) {
            let detail = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.push(FieldError::invalid(format!("{field}.name"), name, detail));
        } else if known.contains(&name) {
            errors.push(FieldError::duplicate(format!("{field}.name"), name));
        }
        known.push(name);
    }
    let policies = ["Always", "OnRootMismatch"];
    if let Some(policy) = context["fsGroupChangePolicy"].as_str().filter(|policy| !policies.contains(policy)) {
        errors.push(FieldError::not_supported(format!("{field}.fsGroupChangePolicy"), policy, &policies));
    }
    errors
}

fn is_sysctl(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(plain) && part.ends_with(plain) && part.chars().all(|c| plain(c) || c == '-' || c == '_')
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}
