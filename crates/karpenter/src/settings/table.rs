//! Every setting there is, in one table: flags, help, the environment and the reference page are made from it.

use std::time::Duration;

use karpenter_api::GoDuration;

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    Integer,
    Number,
    Boolean,
    Duration,
    Port,
}

/// Who looks at a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Plans, types and hashes depend on it, so those commands take it as well.
    Planning,
    /// Only a running controller does.
    Running,
}

#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) flag: &'static str,
    pub(crate) env: &'static str,
    pub(crate) shape: Shape,
    /// As one would write it; empty is none.
    pub(crate) default: &'static str,
    pub(crate) scope: Scope,
    /// Where the chart has it: `settings.` and so on, or `-` for `controller.env`.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reference page"))]
    pub(crate) chart: &'static str,
    pub(crate) value_name: &'static str,
    pub(crate) help: &'static str,
}

const fn setting(
    names: (&'static str, &'static str),
    shape: Shape,
    default: &'static str,
    scope: Scope,
    chart: &'static str,
    value_name: &'static str,
    help: &'static str,
) -> Setting {
    Setting { flag: names.0, env: names.1, shape, default, scope, chart, value_name, help }
}

use Scope::{Planning, Running};
use Shape::{Boolean, Integer, Number, Port, Text};

/// In the order of the reference page.
#[rustfmt::skip]
pub(crate) const SETTINGS: &[Setting] = &[
    setting(("cluster-name", "CLUSTER_NAME"), Text, "", Running, "settings.clusterName", "NAME",
        "Name of the cluster, in tags, discovery and user data; required, except with a simulated region"),
    setting(("cluster-endpoint", "CLUSTER_ENDPOINT"), Text, "", Running, "settings.clusterEndpoint", "URL",
        "URL that nodes find the API server under; discovered with eks:DescribeCluster when absent"),
    setting(("cluster-ca-bundle", "CLUSTER_CA_BUNDLE"), Text, "", Running, "settings.clusterCABundle", "BASE64",
        "Certificate authority of the API server for nodes; the controller's own when absent"),
    setting(("interruption-queue", "INTERRUPTION_QUEUE"), Text, "", Running, "settings.interruptionQueue", "NAME",
        "SQS queue with interruption messages; none when absent"),
    setting(("isolated-vpc", "ISOLATED_VPC"), Boolean, "false", Running, "settings.isolatedVPC", "BOOL",
        "Call no service that has no VPC endpoint: no price list, no IAM"),
    setting(("eks-control-plane", "EKS_CONTROL_PLANE"), Boolean, "false", Running, "settings.eksControlPlane", "BOOL",
        "Take details of the cluster, its version included, from eks:DescribeCluster"),
    setting(("vm-memory-overhead-percent", "VM_MEMORY_OVERHEAD_PERCENT"), Number, "0.075", Planning,
        "settings.vmMemoryOverheadPercent", "SHARE",
        "Share of nominal memory that hypervisor and kernel keep, until a node of the type has been seen"),
    setting(("reserved-enis", "RESERVED_ENIS"), Integer, "0", Planning, "settings.reservedENIs", "COUNT",
        "Network interfaces that pods get no addresses from"),
    setting(("disable-dry-run", "DISABLE_DRY_RUN"), Boolean, "false", Running, "settings.disableDryRun", "BOOL",
        "Do not check with EC2 whether a node class may be used"),
    setting(("enable-zonal-shift", "ENABLE_ZONAL_SHIFT"), Boolean, "false", Running, "settings.enableZonalShift", "BOOL",
        "Keep away from zones that ARC has shifted traffic away from"),
    setting(("ami-refresh-interval", "AMI_REFRESH_INTERVAL"), Shape::Duration, "1m", Running,
        "settings.amiRefreshInterval", "DURATION", "How old what is known of images may be; at least a minute"),
    setting(("subnet-refresh-interval", "SUBNET_REFRESH_INTERVAL"), Shape::Duration, "1m", Running,
        "settings.subnetRefreshInterval", "DURATION", "How old what is known of subnets may be; at least a minute"),
    setting(("aws-feature-gates", "AWS_FEATURE_GATES"), Text, "NodeClassCEL=false", Planning, "settings.awsFeatureGates",
        "GATES", "Name=true,Other=false: NodeClassCEL allows expressions in kubelet settings"),
    setting(("feature-gates", "FEATURE_GATES"), Text,
        "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false",
        Planning, "settings.featureGates", "GATES", "Name=true,Other=false; gates that are not named keep their default"),
    setting(("batch-max-duration", "BATCH_MAX_DURATION"), Shape::Duration, "10s", Running, "settings.batchMaxDuration",
        "DURATION", "Pods that come within this time are planned together"),
    setting(("batch-idle-duration", "BATCH_IDLE_DURATION"), Shape::Duration, "1s", Running, "settings.batchIdleDuration",
        "DURATION", "A pause of this length closes the batch"),
    setting(("preference-policy", "PREFERENCE_POLICY"), Text, "Respect", Planning, "settings.preferencePolicy", "POLICY",
        "Respect or Ignore: whether preferences are hard before they are given up"),
    setting(("min-values-policy", "MIN_VALUES_POLICY"), Text, "Strict", Planning, "settings.minValuesPolicy", "POLICY",
        "Strict or BestEffort: whether minValues may be lowered"),
    setting(("ignore-dra-requests", "IGNORE_DRA_REQUESTS"), Boolean, "true", Planning, "settings.ignoreDRARequests",
        "BOOL", "Leave out pods that ask for devices through ResourceClaims; the controller takes only true"),
    setting(("scheduler-config", "SCHEDULER_CONFIG"), Text, "", Planning, "settings.schedulerConfig", "TEXT",
        "kube-scheduler's podTopologySpread.defaultConstraints, as YAML or JSON"),
    setting(("disable-cluster-state-observability", "DISABLE_CLUSTER_STATE_OBSERVABILITY"), Boolean, "false", Running,
        "settings.disableClusterStateObservability", "BOOL",
        "Leave out metrics of pods, nodes, pools and conditions, and events about conditions"),
    setting(("kube-client-qps", "KUBE_CLIENT_QPS"), Integer, "200", Running, "-", "COUNT",
        "Requests per second to the API server, in the long run"),
    setting(("kube-client-burst", "KUBE_CLIENT_BURST"), Integer, "300", Running, "-", "COUNT",
        "Requests to the API server at once"),
    setting(("metrics-port", "METRICS_PORT"), Port, "8080", Running, "controller.metrics.port", "PORT",
        "Port of /metrics"),
    setting(("health-probe-port", "HEALTH_PROBE_PORT"), Port, "8081", Running, "controller.healthProbe.port", "PORT",
        "Port of /healthz and /readyz"),
    setting(("enable-profiling", "ENABLE_PROFILING"), Boolean, "false", Running, "-", "BOOL",
        "Serve profiles under /debug/pprof/ on the port of the metrics"),
    setting(("log-level", "LOG_LEVEL"), Text, "info", Running, "logLevel", "LEVEL", "debug, info or error"),
    setting(("log-output-paths", "LOG_OUTPUT_PATHS"), Text, "stdout", Running, "logOutputPaths", "PATHS",
        "stdout, stderr or files, joined by commas"),
    setting(("log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS"), Text, "stderr", Running, "logErrorOutputPaths", "PATHS",
        "Where it is told that a line could not be written"),
    setting(("memory-limit", "MEMORY_LIMIT"), Integer, "-1", Running, "controller.resources.limits.memory", "BYTES",
        "The container's memory limit; there is no garbage collector that would want to know"),
    setting(("cpu-requests", "CPU_REQUESTS"), Integer, "1000", Planning, "controller.resources.requests.cpu",
        "MILLICORES", "How much is done at once; plans do not depend on it"),
    setting(("consolidation-threshold", "CONSOLIDATION_THRESHOLD"), Number, "", Planning, "-", "DOLLARS",
        "Dollars per hour that consolidation must save for each pod it moves; without it any saving will do"),
    setting(("disable-leader-election", "DISABLE_LEADER_ELECTION"), Boolean, "false", Running, "-", "BOOL",
        "Work without a lease: for a single replica"),
    setting(("leader-election-name", "LEADER_ELECTION_NAME"), Text, "karpenter-leader-election", Running, "-", "NAME",
        "Name of the Lease"),
    setting(("leader-election-namespace", "LEADER_ELECTION_NAMESPACE"), Text, "", Running, "-", "NAME",
        "Namespace of the Lease; the controller's own when absent"),
    setting(("disable-controller-warmup", "DISABLE_CONTROLLER_WARMUP"), Boolean, "true", Running, "-", "BOOL",
        "Replicas that do not lead keep nothing in memory"),
    setting(("karpenter-service", "KARPENTER_SERVICE"), Text, "", Running, "the Service's name", "NAME",
        "Service that the API server finds the conversion webhook under"),
    setting(("legacy-metrics", "LEGACY_METRICS"), Boolean, "true", Running, "settings.legacyMetrics", "BOOL",
        "Write some series also under the names they had before 1.0"),
    setting(("compat-log-lines", "COMPAT_LOG_LINES"), Boolean, "true", Running, "settings.compatLogLines", "BOOL",
        "Write three lines also in the words that log shippers of old match on"),
    setting(("webhook-port", "WEBHOOK_PORT"), Port, "8443", Running, "webhook.port", "PORT",
        "Port of the conversion webhook"),
    setting(("disable-webhook", "DISABLE_WEBHOOK"), Boolean, "false", Running, "webhook.enabled, negated", "BOOL",
        "Serve no conversion webhook: objects of v1beta1 are then refused"),
];

/// The one with this flag.
pub(crate) fn named(flag: &str) -> &'static Setting {
    SETTINGS.iter().find(|setting| setting.flag == flag).expect("settings are asked for by the names of the table")
}

impl Shape {
    /// Whether a value can be read. The texts are judged later, by who knows what they mean.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        let fault = match self {
            Self::Text => return Ok(()),
            Self::Integer => text.parse::<i64>().err().map(|_| "it is no integer".to_owned()),
            Self::Number => text.parse::<f64>().err().map(|_| "it is no number".to_owned()),
            Self::Port => text.parse::<u16>().err().map(|_| "it is no port".to_owned()),
            Self::Boolean => boolean(text).is_none().then(|| "it is neither true nor false".to_owned()),
            Self::Duration => duration(text).err(),
        };
        fault.map_or(Ok(()), Err)
    }
}

/// The spellings of booleans that the reference accepts in its environment.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// As Go writes durations: `90s`, `1m30s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = GoDuration::parse(text).map_err(|error| error.to_string())?;
    if parsed.nanos() < 0 { Err("it is negative".to_owned()) } else { Ok(parsed.to_std()) }
}

/// The reference page, which a test writes.
#[cfg(test)]
pub(crate) fn markdown() -> String {
    let mut page = "# Settings\n\n\
        <!-- Made from crates/karpenter/src/settings/table.rs: `UPDATE=1 cargo test -p karpenter settings` writes it. -->\n\n\
        A flag beats an environment variable beats the default. An environment variable that cannot be read counts as \
        absent; a flag that cannot be read is fatal. Booleans are `--x`, `--x=true` or `--x=false`; durations are written \
        like `1m30s`. Those marked *planning* are also settings of `karpenter plan` and `karpenter types`.\n\n\
        | flag | environment | default | chart value | meaning |\n|---|---|---|---|---|\n"
        .to_owned();
    for setting in SETTINGS {
        let shown = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
        let scope = if setting.scope == Planning { " *planning*" } else { "" };
        let (flag, env, default, chart, help) =
            (setting.flag, setting.env, shown(&setting.default.replace(',', ", ")), setting.chart, setting.help);
        page += &format!("| `--{flag}` | {env} | {default} | {chart} | {help}{scope} |\n");
    }
    page + "\nAlso read: `AWS_REGION` and the standard AWS credential chain; `SYSTEM_NAMESPACE` (where the lease and the \
            webhook's certificate are). `KUBERNETES_MIN_VERSION`, `LEADER_ELECT`, `LOGGING_CONFIG`, `ASSUME_ROLE_ARN` \
            and `ASSUME_ROLE_DURATION` are accepted and ignored; so is the gate `Drift`, which is always on.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_each_other_and_defaults_can_be_read() {
        for setting in SETTINGS {
            assert_eq!(setting.env, setting.flag.to_uppercase().replace('-', "_"));
            let absent = setting.default.is_empty();
            let readable = if absent { Ok(()) } else { setting.shape.check(setting.default) };
            assert!(readable.is_ok(), "{}: {readable:?}", setting.flag);
        }
    }

    #[test]
    fn the_reference_page_is_made_from_the_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, markdown()).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == markdown(), "docs/settings.md is stale: UPDATE=1 cargo test -p karpenter settings");
    }
}
