//! The fields of `kubelet.config.k8s.io/v1beta1` KubeletConfiguration in Kubernetes 1.36, with their types in JSON.
//! Raising the Kubernetes version of the workspace means going through this table.

use serde_json::Value;

use super::super::Fault;
use super::super::path::Path;
use crate::duration::GoDuration;
use crate::ec2nodeclass::KubeletConfiguration;
use crate::quantity::sign;

enum Field {
    Bool,
    Text,
    Int32,
    Int64,
    Uint32,
    Float,
    Duration,
    /// A duration, or a number of nanoseconds.
    DurationOrNanos,
    Quantity,
    Time,
    List(&'static Field),
    Map(&'static Field),
    Struct(&'static [(&'static str, Field)]),
}

use Field::{Bool, Duration, DurationOrNanos, Float, Int32, Int64, List, Map, Quantity, Struct, Text, Time, Uint32};

static CONFIGURATION: &[(&str, Field)] = &[
    ("apiVersion", Text),
    ("kind", Text),
    ("enableServer", Bool),
    ("staticPodPath", Text),
    ("podLogsDir", Text),
    ("syncFrequency", Duration),
    ("fileCheckFrequency", Duration),
    ("httpCheckFrequency", Duration),
    ("staticPodURL", Text),
    ("staticPodURLHeader", Map(&List(&Text))),
    ("address", Text),
    ("port", Int32),
    ("readOnlyPort", Int32),
    ("tlsCertFile", Text),
    ("tlsPrivateKeyFile", Text),
    ("tlsCipherSuites", List(&Text)),
    ("tlsCurvePreferences", List(&Int32)),
    ("tlsMinVersion", Text),
    ("rotateCertificates", Bool),
    ("serverTLSBootstrap", Bool),
    (
        "authentication",
        Struct(&[
            ("x509", Struct(&[("clientCAFile", Text)])),
            ("webhook", Struct(&[("enabled", Bool), ("cacheTTL", Duration)])),
            ("anonymous", Struct(&[("enabled", Bool)])),
        ]),
    ),
    (
        "authorization",
        Struct(&[
            ("mode", Text),
            ("webhook", Struct(&[("cacheAuthorizedTTL", Duration), ("cacheUnauthorizedTTL", Duration)])),
        ]),
    ),
    ("registryPullQPS", Int32),
    ("registryBurst", Int32),
    ("imagePullCredentialsVerificationPolicy", Text),
    ("preloadedImagesVerificationAllowlist", List(&Text)),
    ("eventRecordQPS", Int32),
    ("eventBurst", Int32),
    ("enableDebuggingHandlers", Bool),
    ("enableContentionProfiling", Bool),
    ("healthzPort", Int32),
    ("healthzBindAddress", Text),
    ("oomScoreAdj", Int32),
    ("clusterDomain", Text),
    ("clusterDNS", List(&Text)),
    ("streamingConnectionIdleTimeout", Duration),
    ("nodeStatusUpdateFrequency", Duration),
    ("nodeStatusReportFrequency", Duration),
    ("nodeLeaseDurationSeconds", Int32),
    ("imageMinimumGCAge", Duration),
    ("imageMaximumGCAge", Duration),
    ("imageGCHighThresholdPercent", Int32),
    ("imageGCLowThresholdPercent", Int32),
    ("volumeStatsAggPeriod", Duration),
    ("kubeletCgroups", Text),
    ("systemCgroups", Text),
    ("cgroupRoot", Text),
    ("cgroupsPerQOS", Bool),
    ("cgroupDriver", Text),
    ("cpuManagerPolicy", Text),
    ("singleProcessOOMKill", Bool),
    ("cpuManagerPolicyOptions", Map(&Text)),
    ("cpuManagerReconcilePeriod", Duration),
    ("memoryManagerPolicy", Text),
    ("topologyManagerPolicy", Text),
    ("topologyManagerScope", Text),
    ("topologyManagerPolicyOptions", Map(&Text)),
    ("qosReserved", Map(&Text)),
    ("runtimeRequestTimeout", Duration),
    ("hairpinMode", Text),
    ("maxPods", Int32),
    ("podCIDR", Text),
    ("podPidsLimit", Int64),
    ("resolvConf", Text),
    ("runOnce", Bool),
    ("cpuCFSQuota", Bool),
    ("cpuCFSQuotaPeriod", Duration),
    ("nodeStatusMaxImages", Int32),
    ("maxOpenFiles", Int64),
    ("contentType", Text),
    ("kubeAPIQPS", Int32),
    ("kubeAPIBurst", Int32),
    ("serializeImagePulls", Bool),
    ("maxParallelImagePulls", Int32),
    ("evictionHard", Map(&Text)),
    ("evictionSoft", Map(&Text)),
    ("evictionSoftGracePeriod", Map(&Text)),
    ("evictionPressureTransitionPeriod", Duration),
    ("evictionMaxPodGracePeriod", Int32),
    ("evictionMinimumReclaim", Map(&Text)),
    ("mergeDefaultEvictionSettings", Bool),
    ("podsPerCore", Int32),
    ("enableControllerAttachDetach", Bool),
    ("protectKernelDefaults", Bool),
    ("makeIPTablesUtilChains", Bool),
    ("iptablesMasqueradeBit", Int32),
    ("iptablesDropBit", Int32),
    ("featureGates", Map(&Bool)),
    ("failSwapOn", Bool),
    ("memorySwap", Struct(&[("swapBehavior", Text)])),
    ("containerLogMaxSize", Text),
    ("containerLogMaxFiles", Int32),
    ("containerLogMaxWorkers", Int32),
    ("containerLogMonitorInterval", Duration),
    ("configMapAndSecretChangeDetectionStrategy", Text),
    ("systemReserved", Map(&Text)),
    ("kubeReserved", Map(&Text)),
    ("reservedSystemCPUs", Text),
    ("showHiddenMetricsForVersion", Text),
    ("systemReservedCgroup", Text),
    ("kubeReservedCgroup", Text),
    ("enforceNodeAllocatable", List(&Text)),
    ("allowedUnsafeSysctls", List(&Text)),
    ("volumePluginDir", Text),
    ("providerID", Text),
    ("kernelMemcgNotification", Bool),
    (
        "logging",
        Struct(&[
            ("format", Text),
            ("flushFrequency", DurationOrNanos),
            ("verbosity", Uint32),
            ("vmodule", List(&Struct(&[("filePattern", Text), ("verbosity", Uint32)]))),
            (
                "options",
                Struct(&[
                    ("text", Struct(&[("splitStream", Bool), ("infoBufferSize", Quantity)])),
                    ("json", Struct(&[("splitStream", Bool), ("infoBufferSize", Quantity)])),
                ]),
            ),
        ]),
    ),
    ("enableSystemLogHandler", Bool),
    ("enableSystemLogQuery", Bool),
    ("shutdownGracePeriod", Duration),
    ("shutdownGracePeriodCriticalPods", Duration),
    ("shutdownGracePeriodByPodPriority", List(&Struct(&[("priority", Int32), ("shutdownGracePeriodSeconds", Int64)]))),
    ("crashLoopBackOff", Struct(&[("maxContainerRestartPeriod", Duration)])),
    ("reservedMemory", List(&Struct(&[("numaNode", Int32), ("limits", Map(&Quantity))]))),
    ("enableProfilingHandler", Bool),
    ("enableDebugFlagsHandler", Bool),
    ("seccompDefault", Bool),
    ("memoryThrottlingFactor", Float),
    ("memoryReservationPolicy", Text),
    ("registerWithTaints", List(&Struct(&[("key", Text), ("value", Text), ("effect", Text), ("timeAdded", Time)]))),
    ("registerNode", Bool),
    ("tracing", Struct(&[("endpoint", Text), ("samplingRatePerMillion", Int32)])),
    ("localStorageCapacityIsolation", Bool),
    ("containerRuntimeEndpoint", Text),
    ("imageServiceEndpoint", Text),
    ("failCgroupV1", Bool),
    ("userNamespaces", Struct(&[("idsPerPod", Int64)])),
];

/// Every field there is.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CONFIGURATION.iter().map(|(name, _)| *name)
}

/// Unknown fields and values of the wrong type, at every depth.
pub(super) fn check(kubelet: &KubeletConfiguration) -> Vec<Fault> {
    let mut faults = Vec::new();
    let (spec, path) = (Path::Field(&Path::Root, "spec"), "kubelet");
    let path = Path::Field(&spec, path);
    for (name, value) in kubelet {
        // A textual maxPods is an expression for the controller to compute, not a number for the kubelet.
        if name == "maxPods" && value.is_string() {
            continue;
        }
        member(CONFIGURATION, name, value, &path, &mut faults);
    }
    faults
}

fn member(fields: &[(&str, Field)], name: &str, value: &Value, parent: &Path<'_>, faults: &mut Vec<Fault>) {
    let path = Path::Field(parent, name);
    match fields.iter().find(|(field, _)| *field == name) {
        Some((_, field)) => visit(field, value, path, faults),
        None => faults.push(Fault { field: path.to_string(), message: "unknown field".to_owned() }),
    }
}

fn visit(field: &Field, value: &Value, path: Path<'_>, faults: &mut Vec<Fault>) {
    // Go reads null into anything and leaves it unset.
    if value.is_null() {
        return;
    }
    match (field, value) {
        (List(item), Value::Array(items)) => {
            for (i, value) in items.iter().enumerate() {
                visit(item, value, Path::Index(&path, i), faults);
            }
        }
        (Map(item), Value::Object(entries)) => {
            for (key, value) in entries {
                visit(item, value, Path::Key(&path, key), faults);
            }
        }
        (Struct(fields), Value::Object(entries)) => {
            for (name, value) in entries {
                member(fields, name, value, &path, faults);
            }
        }
        _ if scalar_fits(field, value) => {}
        _ => faults.push(Fault { field: path.to_string(), message: format!("must be {}", expected(field)) }),
    }
}

fn scalar_fits(field: &Field, value: &Value) -> bool {
    let number = value.as_i64();
    let text = value.as_str();
    match field {
        Bool => value.is_boolean(),
        Text => value.is_string(),
        Int32 => number.is_some_and(|n| i32::try_from(n).is_ok()),
        Int64 => number.is_some(),
        Uint32 => number.is_some_and(|n| u32::try_from(n).is_ok()),
        Float => value.is_number(),
        Duration => text.is_some_and(|t| GoDuration::parse(t).is_ok()),
        DurationOrNanos => number.is_some() || text.is_some_and(|t| GoDuration::parse(t).is_ok()),
        Quantity => value.is_number() || text.is_some_and(|t| sign(t).is_some()),
        Time => text.is_some_and(|t| t.parse::<jiff::Timestamp>().is_ok()),
        List(_) | Map(_) | Struct(_) => false,
    }
}

fn expected(field: &Field) -> &'static str {
    match field {
        Bool => "true or false",
        Text => "a string",
        Int32 => "an integer of 32 bits",
        Int64 => "an integer",
        Uint32 => "an integer of 32 bits that is not negative",
        Float => "a number",
        Duration => "a duration such as 1m30s",
        DurationOrNanos => "a duration such as 5s, or nanoseconds",
        Quantity => "a quantity such as 100Mi",
        Time => "a time such as 2026-01-02T15:04:05Z",
        List(_) => "a list",
        Map(_) | Struct(_) => "an object",
    }
}
