//! Bottlerocket: settings in TOML, ours over the user's.

use toml::{Table, Value};

use super::kubelet_args::Reader;
use super::toml_text;
use super::{Bootstrap, Rendered, UserDataError, custom_text};

/// The settings under `settings.kubernetes` that nodes are known to take. Others would keep the node from booting, so
/// they are dropped, and said. In the order in which upstream writes them.
const KNOWN: [&str; 49] = [
    "api-server",
    "cloud-provider",
    "cluster-certificate",
    "cluster-name",
    "cluster-dns-ip",
    "credential-providers",
    "node-labels",
    "node-taints",
    "max-pods",
    "static-pods",
    "eviction-hard",
    "eviction-soft",
    "eviction-soft-grace-period",
    "eviction-max-pod-grace-period",
    "kube-reserved",
    "system-reserved",
    "allowed-unsafe-sysctls",
    "server-tls-bootstrap",
    "registry-qps",
    "registry-burst",
    "event-qps",
    "event-burst",
    "kube-api-qps",
    "kube-api-burst",
    "container-log-max-size",
    "container-log-max-files",
    "cpu-manager-policy",
    "cpu-manager-policy-options",
    "cpu-manager-reconcile-period",
    "memory-manager-policy",
    "memory-manager-reserved-memory",
    "topology-manager-scope",
    "topology-manager-policy",
    "topology-manager-policy-options",
    "image-gc-high-threshold-percent",
    "image-gc-low-threshold-percent",
    "ids-per-pod",
    "cpu-cfs-quota-enforced",
    "shutdown-grace-period",
    "shutdown-grace-period-for-critical-pods",
    "cluster-domain",
    "seccomp-default",
    "pod-pids-limit",
    "device-ownership-from-security-context",
    "single-process-oom-kill",
    "container-log-max-workers",
    "container-log-monitor-interval",
    "hostname-override-source",
    "log-level",
];

const MOUNT_COMMAND: &str = "000-mount-instance-storage";

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<Rendered, UserDataError> {
    let mut document: Table = match custom_text(bootstrap) {
        Some(text) => text.parse().map_err(|error: toml::de::Error| custom(error.message().to_owned()))?,
        None => Table::new(),
    };
    let mut settings = take_table(&mut document, "settings")?;
    let mut notes: Vec<String> =
        document.keys().map(|key| format!("user data: {key} is outside of settings and was dropped")).collect();
    let mut kubernetes = take_table(&mut settings, "kubernetes")?;
    let unknown: Vec<String> = kubernetes.keys().filter(|key| !KNOWN.contains(&key.as_str())).cloned().collect();
    notes.extend(
        unknown
            .iter()
            .map(|key| format!("user data: settings.kubernetes.{key} is not a known setting and was dropped")),
    );
    if kubernetes.contains_key("node-taints") {
        notes.push("user data: settings.kubernetes.node-taints was replaced by the taints of the NodePool".to_owned());
    }
    for key in &unknown {
        kubernetes.remove(key);
    }
    overwrite(&mut kubernetes, bootstrap)?;
    kubernetes.retain(|_, value| {
        value.as_table().is_none_or(|table| !table.is_empty()) && value.as_array().is_none_or(|list| !list.is_empty())
    });
    settings.insert("kubernetes".to_owned(), Value::Table(kubernetes));
    if bootstrap.raid0 {
        let mut commands = take_table(&mut settings, "bootstrap-commands")?;
        commands.insert(MOUNT_COMMAND.to_owned(), Value::Table(mount_command(bootstrap)));
        settings.insert("bootstrap-commands".to_owned(), Value::Table(commands));
    }
    let document = Table::from_iter([("settings".to_owned(), Value::Table(settings))]);
    Ok(Rendered { text: toml_text::write(&document, upstreams_order), notes })
}

/// Where upstream's types give the keys of a table another order than the alphabet's.
fn upstreams_order(path: &[&str]) -> &'static [&'static str] {
    match path {
        ["settings", "kubernetes"] => &KNOWN,
        ["settings", "kubernetes", "credential-providers", _] => &["enabled", "cache-duration", "image-patterns"],
        ["settings", "kubernetes", "topology-manager-policy-options"] => {
            &["prefer-closest-numa-nodes", "max-allowable-numa-nodes"]
        }
        ["settings", "bootstrap-commands", _] => &["commands", "mode", "essential"],
        _ => &[],
    }
}

fn take_table(parent: &mut Table, key: &str) -> Result<Table, UserDataError> {
    match parent.remove(key) {
        None => Ok(Table::new()),
        Some(Value::Table(table)) => Ok(table),
        Some(_) => Err(custom(format!("{key} must be a table"))),
    }
}

fn overwrite(kubernetes: &mut Table, bootstrap: &Bootstrap<'_>) -> Result<(), UserDataError> {
    let (cluster, kubelet) = (bootstrap.cluster, Reader { settings: bootstrap.kubelet });
    let mut set = |key: &str, value: Value| {
        kubernetes.insert(key.to_owned(), value);
    };
    set("cluster-name", cluster.name.as_str().into());
    set("api-server", cluster.endpoint.as_str().into());
    if let Some(ca) = &cluster.ca_bundle {
        set("cluster-certificate", ca.as_str().into());
    }
    if let Some(max_pods) = kubelet.integer("maxPods")? {
        set("max-pods", max_pods.into());
    }
    set("node-taints", taints(bootstrap));
    if let Some(dns) = kubelet.cluster_dns()? {
        set("cluster-dns-ip", dns.into());
    }
    let is_set = |field: &str| bootstrap.kubelet.get(field).is_some_and(|value| !value.is_null());
    for (field, key) in [
        ("systemReserved", "system-reserved"),
        ("kubeReserved", "kube-reserved"),
        ("evictionHard", "eviction-hard"),
        ("evictionSoft", "eviction-soft"),
    ] {
        if is_set(field) {
            set(key, table(kubelet.texts(field)?));
        }
    }
    if is_set("evictionSoftGracePeriod") {
        set("eviction-soft-grace-period", table(kubelet.durations("evictionSoftGracePeriod")?));
    }
    if let Some(seconds) = kubelet.integer("evictionMaxPodGracePeriod")? {
        set("eviction-max-pod-grace-period", seconds.into());
    }
    for (field, key) in [
        ("imageGCHighThresholdPercent", "image-gc-high-threshold-percent"),
        ("imageGCLowThresholdPercent", "image-gc-low-threshold-percent"),
    ] {
        if let Some(percent) = kubelet.integer(field)? {
            set(key, percent.to_string().into());
        }
    }
    if let Some(on) = kubelet.truth("cpuCFSQuota")? {
        set("cpu-cfs-quota-enforced", on.into());
    }
    let mut labels = take_table(kubernetes, "node-labels")?;
    labels.extend(bootstrap.labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
    if !labels.is_empty() {
        kubernetes.insert("node-labels".to_owned(), Value::Table(labels));
    }
    Ok(())
}

fn taints(bootstrap: &Bootstrap<'_>) -> Value {
    let mut by_key = Table::new();
    for taint in bootstrap.taints {
        let entry = by_key.entry(taint.key.clone()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(effects) = entry {
            effects.push(format!("{}:{}", taint.value, taint.effect.as_str()).into());
        }
    }
    Value::Table(by_key)
}

fn table(pairs: Vec<(String, String)>) -> Value {
    Value::Table(pairs.into_iter().map(|(key, value)| (key, Value::from(value))).collect())
}

fn mount_command(bootstrap: &Bootstrap<'_>) -> Table {
    let words = |words: &[&str]| Value::Array(words.iter().map(|word| Value::from(*word)).collect());
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    if !bootstrap.bottlerocket_binds_by_default {
        bind.extend(["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]);
    }
    let commands = vec![words(&["apiclient", "ephemeral-storage", "init"]), words(&bind)];
    Table::from_iter([
        ("commands".to_owned(), Value::Array(commands)),
        ("mode".to_owned(), "always".into()),
        ("essential".to_owned(), true.into()),
    ])
}

fn custom(message: String) -> UserDataError {
    UserDataError::Custom(message)
}

/// Where the version of a Bottlerocket image may be read from, in that order.
#[derive(Clone, Debug, Default)]
pub struct ImageNames<'a> {
    /// `latest` in `bottlerocket@latest`.
    pub alias_version: Option<&'a str>,
    pub name_terms: Vec<&'a str>,
    pub id_terms: Vec<&'a str>,
    /// Id and name of every resolved image.
    pub resolved: Vec<(&'a str, &'a str)>,
}

/// Whether the image's bind command knows the directories by itself: from 1.46.0 on. An unknown version is old.
pub fn binds_by_default(names: &ImageNames<'_>) -> bool {
    let bottlerocket = || names.resolved.iter().filter(|(_, name)| name.contains("bottlerocket"));
    let by_id = || {
        names.id_terms.iter().find_map(|id| bottlerocket().find(|(found, _)| found == id).and_then(|(_, n)| part(n)))
    };
    let version = names
        .alias_version
        .or_else(|| names.name_terms.iter().find_map(|name| part(name)))
        .or_else(by_id)
        .or_else(|| bottlerocket().find_map(|(_, name)| part(name)));
    version.is_some_and(|version| version == "latest" || at_least(version, [1, 46, 0]))
}

/// `v1.46.0` in `bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-431fe75a`.
fn part(name: &str) -> Option<&str> {
    name.split('-').find(|part| part.starts_with('v') && part.contains('.'))
}

fn at_least(version: &str, least: [u64; 3]) -> bool {
    let numbers: Option<Vec<u64>> = version.trim_start_matches('v').split('.').map(|n| n.parse().ok()).collect();
    let Some(numbers) = numbers.filter(|numbers| numbers.len() <= 3) else { return false };
    let mut full = [0; 3];
    full[..numbers.len()].copy_from_slice(&numbers);
    full >= least
}
