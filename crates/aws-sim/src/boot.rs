//! What a machine makes of its user data when it boots, in the manner of its operating system.
//!
//! Written from what the boot programs read, not from what our own renderer writes: that the two meet is the point.

mod arguments;

use std::collections::BTreeMap;

use karpenter_core::Taint;
use karpenter_core::taints::Effect;
use karpenter_ec2::AmiFamily;
use karpenter_ec2::userdata::mime;
use serde_json::{Map, Value};

use arguments::{flags, shell_words};

/// What the kubelet is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSettings {
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub max_pods: Option<i64>,
    pub kube_reserved: BTreeMap<String, String>,
    pub system_reserved: BTreeMap<String, String>,
    pub eviction_hard: BTreeMap<String, String>,
    pub cluster: Option<String>,
}

/// The machine boots, but no kubelet comes up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BootError(String);

/// `text` is what EC2 hands out, base64 undone.
pub fn read(family: AmiFamily, text: &str) -> Result<NodeSettings, BootError> {
    match family {
        AmiFamily::Al2023 => nodeadm(text),
        AmiFamily::Al2 => bootstrap_script(text),
        AmiFamily::Bottlerocket => bottlerocket(text),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => windows(text),
        AmiFamily::Custom => custom(text),
    }
}

/// An image of the user's own: whichever of the known programs understands the text.
fn custom(text: &str) -> Result<NodeSettings, BootError> {
    let readers = [nodeadm, bootstrap_script, bottlerocket, windows];
    Ok(readers.into_iter().find_map(|read| read(text).ok()).unwrap_or_default())
}

/// nodeadm merges every NodeConfig part in order; of the kubelet's settings the later word counts, flags add up.
fn nodeadm(text: &str) -> Result<NodeSettings, BootError> {
    let parts = mime::read(text).map_err(|error| BootError(error.to_string()))?.parts;
    let mut config = Map::new();
    let mut flag_words: Vec<String> = Vec::new();
    let mut cluster = None;
    for part in parts.iter().filter(|part| part.media_type() == mime::NODE_CONFIG) {
        let document: Value =
            serde_saphyr::from_str(&part.body).map_err(|error| BootError(format!("NodeConfig: {error}")))?;
        if document["apiVersion"] != "node.eks.aws/v1alpha1" || document["kind"] != "NodeConfig" {
            return Err(BootError("a part is no NodeConfig of node.eks.aws/v1alpha1".to_owned()));
        }
        let spec = &document["spec"];
        if let Some(name) = spec["cluster"]["name"].as_str() {
            cluster = Some(name.to_owned());
        }
        config.extend(spec["kubelet"]["config"].as_object().cloned().unwrap_or_default());
        let more = spec["kubelet"]["flags"].as_array().into_iter().flatten();
        flag_words.extend(more.filter_map(Value::as_str).flat_map(shell_words));
    }
    let Some(cluster) = cluster else { return Err(BootError("no NodeConfig names the cluster".to_owned())) };
    let mut settings = NodeSettings { cluster: Some(cluster), ..from_flags(&flag_words)? };
    settings.max_pods = config.get("maxPods").and_then(Value::as_i64).or(settings.max_pods);
    let texts = |field: &str| -> BTreeMap<String, String> {
        let map = config.get(field).and_then(Value::as_object).into_iter().flatten();
        map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    settings.kube_reserved = texts("kubeReserved");
    settings.system_reserved = texts("systemReserved");
    settings.eviction_hard = texts("evictionHard");
    for taint in config.get("registerWithTaints").and_then(Value::as_array).into_iter().flatten() {
        let effect = taint["effect"].as_str().and_then(Effect::parse);
        let (Some(key), Some(effect)) = (taint["key"].as_str(), effect) else {
            return Err(BootError(format!("registerWithTaints: {taint} is no taint")));
        };
        let value = taint["value"].as_str().unwrap_or_default().to_owned();
        settings.taints.push(Taint { key: key.to_owned(), value, effect });
    }
    Ok(settings)
}

/// The bootstrap script is called by a shell script, alone or among the parts of a MIME document.
fn bootstrap_script(text: &str) -> Result<NodeSettings, BootError> {
    let scripts: Vec<String> = match mime::read(text) {
        Ok(document) => document.parts.into_iter().map(|part| part.body).collect(),
        Err(_) => vec![text.to_owned()],
    };
    let calls = |script: &String| -> Option<String> {
        let joined = script.replace("\\\n", " ");
        joined.lines().find(|line| line.trim_start().starts_with("/etc/eks/bootstrap.sh")).map(str::to_owned)
    };
    let line = scripts.iter().filter_map(calls).next_back();
    let line = line.ok_or_else(|| BootError("nothing calls /etc/eks/bootstrap.sh".to_owned()))?;
    let words = shell_words(&line);
    let after = |flag: &str| words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
    let extra = after("--kubelet-extra-args").map(|args| shell_words(args)).unwrap_or_default();
    Ok(NodeSettings { cluster: words.get(1).cloned(), ..from_flags(&extra)? })
}

fn windows(text: &str) -> Result<NodeSettings, BootError> {
    let line = text.lines().find(|line| line.contains("$EKSBootstrapScriptFile -EKSClusterName"));
    let line = line.ok_or_else(|| BootError("nothing calls Start-EKSBootstrap.ps1".to_owned()))?;
    let words = shell_words(line);
    let after = |flag: &str| words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
    let extra = after("-KubeletExtraArgs").map(|args| shell_words(args)).unwrap_or_default();
    Ok(NodeSettings { cluster: after("-EKSClusterName").cloned(), ..from_flags(&extra)? })
}

fn bottlerocket(text: &str) -> Result<NodeSettings, BootError> {
    let document: toml::Table = text.parse().map_err(|error: toml::de::Error| BootError(error.message().to_owned()))?;
    let settings = document.get("settings").and_then(toml::Value::as_table);
    let kubernetes = settings.and_then(|settings| settings.get("kubernetes")).and_then(toml::Value::as_table);
    let kubernetes = kubernetes.ok_or_else(|| BootError("settings.kubernetes is missing".to_owned()))?;
    let texts = |key: &str| -> BTreeMap<String, String> {
        let table = kubernetes.get(key).and_then(toml::Value::as_table).into_iter().flatten();
        table.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let mut taints = Vec::new();
    for (key, entries) in kubernetes.get("node-taints").and_then(toml::Value::as_table).into_iter().flatten() {
        for entry in entries.as_array().into_iter().flatten().filter_map(toml::Value::as_str) {
            let (value, effect) = entry.rsplit_once(':').unwrap_or(("", entry));
            let effect = Effect::parse(effect).ok_or_else(|| BootError(format!("{entry:?} is no taint")))?;
            taints.push(Taint { key: key.clone(), value: value.to_owned(), effect });
        }
    }
    Ok(NodeSettings {
        labels: texts("node-labels"),
        taints,
        max_pods: kubernetes.get("max-pods").and_then(toml::Value::as_integer),
        kube_reserved: texts("kube-reserved"),
        system_reserved: texts("system-reserved"),
        eviction_hard: texts("eviction-hard"),
        cluster: kubernetes.get("cluster-name").and_then(toml::Value::as_str).map(str::to_owned),
    })
}

/// Kubelet flags. A flag nobody knows keeps the kubelet from starting.
fn from_flags(words: &[String]) -> Result<NodeSettings, BootError> {
    let mut settings = NodeSettings::default();
    let pairs = |text: &str, separator: char| -> BTreeMap<String, String> {
        let pair = |entry: &str| entry.split_once(separator).map(|(key, value)| (key.to_owned(), value.to_owned()));
        text.split(',').filter_map(pair).collect()
    };
    for (flag, value) in flags(words) {
        match flag.as_str() {
            "node-labels" => settings.labels.extend(pairs(&value, '=')),
            "register-with-taints" => {
                for entry in value.split(',').filter(|entry| !entry.is_empty()) {
                    let (name, effect) = entry.rsplit_once(':').unwrap_or((entry, ""));
                    let (key, value) = name.split_once('=').unwrap_or((name, ""));
                    let effect = Effect::parse(effect).ok_or_else(|| BootError(format!("{entry:?} is no taint")))?;
                    settings.taints.push(Taint { key: key.to_owned(), value: value.to_owned(), effect });
                }
            }
            "max-pods" => settings.max_pods = value.parse().ok(),
            "kube-reserved" => settings.kube_reserved = pairs(&value, '='),
            "system-reserved" => settings.system_reserved = pairs(&value, '='),
            "eviction-hard" => settings.eviction_hard = pairs(&value, '<'),
            "pods-per-core"
            | "eviction-soft"
            | "eviction-soft-grace-period"
            | "eviction-max-pod-grace-period"
            | "image-gc-high-threshold"
            | "image-gc-low-threshold"
            | "cpu-cfs-quota" => {}
            other => return Err(BootError(format!("the kubelet does not know --{other}"))),
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests;
