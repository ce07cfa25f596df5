//! Kubelet settings as command-line arguments, for families whose boot script takes those.

use serde_json::{Map, Value};

use super::quoting::double;
use super::{Bootstrap, UserDataError, go_duration};

/// In upstream's order; what is not set is left out.
pub(super) fn kubelet_args(bootstrap: &Bootstrap<'_>) -> Result<Vec<String>, UserDataError> {
    let kubelet = Reader { settings: bootstrap.kubelet };
    let mut args: Vec<String> = node_labels(bootstrap).into_iter().collect();
    let taints: Vec<String> = bootstrap.taints.iter().map(ToString::to_string).collect();
    args.push(format!("--register-with-taints={}", double(&taints.join(","))));
    args.extend(kubelet.integer("maxPods")?.map(|n| format!("--max-pods={n}")));
    args.extend(kubelet.integer("podsPerCore")?.map(|n| format!("--pods-per-core={n}")));
    args.extend(joined("--system-reserved", "=", kubelet.texts("systemReserved")?));
    args.extend(joined("--kube-reserved", "=", kubelet.texts("kubeReserved")?));
    args.extend(joined("--eviction-hard", "<", kubelet.texts("evictionHard")?));
    args.extend(joined("--eviction-soft", "<", kubelet.texts("evictionSoft")?));
    args.extend(joined("--eviction-soft-grace-period", "=", kubelet.durations("evictionSoftGracePeriod")?));
    for (field, flag) in [
        ("evictionMaxPodGracePeriod", "--eviction-max-pod-grace-period"),
        ("imageGCHighThresholdPercent", "--image-gc-high-threshold"),
        ("imageGCLowThresholdPercent", "--image-gc-low-threshold"),
    ] {
        args.extend(kubelet.integer(field)?.map(|n| format!("{flag}={n}")));
    }
    args.extend(kubelet.truth("cpuCFSQuota")?.map(|on| format!("--cpu-cfs-quota={on}")));
    Ok(args)
}

pub(super) fn node_labels(bootstrap: &Bootstrap<'_>) -> Option<String> {
    let pairs: Vec<String> = bootstrap.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    (!pairs.is_empty()).then(|| format!("--node-labels={}", double(&pairs.join(","))))
}

fn joined(flag: &str, separator: &str, pairs: Vec<(String, String)>) -> Option<String> {
    let items: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}{separator}{value}")).collect();
    (!items.is_empty()).then(|| format!("{flag}={}", double(&items.join(","))))
}

/// The interpreted settings, with an error where one has a type it cannot have.
pub(super) struct Reader<'a> {
    pub(super) settings: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.settings.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn integer(&self, field: &str) -> Result<Option<i64>, UserDataError> {
        self.get(field).map(|value| value.as_i64().ok_or_else(|| fault(field, "must be an integer"))).transpose()
    }

    pub(super) fn truth(&self, field: &str) -> Result<Option<bool>, UserDataError> {
        self.get(field).map(|value| value.as_bool().ok_or_else(|| fault(field, "must be true or false"))).transpose()
    }

    pub(super) fn cluster_dns(&self) -> Result<Option<&'a str>, UserDataError> {
        let wrong = || fault("clusterDNS", "must be a list of addresses");
        let Some(value) = self.get("clusterDNS") else { return Ok(None) };
        let first = value.as_array().ok_or_else(wrong)?.first();
        first.map(|address| address.as_str().ok_or_else(wrong)).transpose()
    }

    /// Sorted by key. Numbers are taken as their text, as quantities may be written so.
    pub(super) fn texts(&self, field: &str) -> Result<Vec<(String, String)>, UserDataError> {
        let Some(value) = self.get(field) else { return Ok(Vec::new()) };
        let map = value.as_object().ok_or_else(|| fault(field, "must be a map"))?;
        let text = |(key, value): (&String, &Value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            Value::Number(number) => Ok((key.clone(), number.to_string())),
            _ => Err(fault(&format!("{field}[{key}]"), "must be a string")),
        };
        let mut pairs: Vec<_> = map.iter().map(text).collect::<Result<_, _>>()?;
        pairs.sort();
        Ok(pairs)
    }

    pub(super) fn durations(&self, field: &str) -> Result<Vec<(String, String)>, UserDataError> {
        let duration = |(key, text): (String, String)| match go_duration::canonical(&text) {
            Some(canonical) => Ok((key, canonical)),
            None => Err(fault(&format!("{field}[{key}]"), "must be a duration")),
        };
        self.texts(field)?.into_iter().map(duration).collect()
    }
}

fn fault(field: &str, message: &str) -> UserDataError {
    UserDataError::Kubelet { field: field.to_owned(), message: message.to_owned() }
}
