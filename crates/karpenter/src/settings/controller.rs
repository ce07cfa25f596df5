//! The settings that only a running controller looks at.

use std::time::Duration;

use karpenter_api::GoDuration;
use karpenter_runtime::log::Threshold;

use super::{Resolved, SettingsArgs, go_bool, parsed};

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Settings (each also as an environment variable, e.g. BATCH_MAX_DURATION)")]
pub(crate) struct ControllerSettingsArgs {
    #[command(flatten)]
    shared: SettingsArgs,
    /// Name of the cluster, in tags and user data [default: simulated]
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// URL that nodes find the API server under [default: the kubeconfig's]
    #[arg(long, value_name = "URL")]
    cluster_endpoint: Option<String>,
    /// Certificate of the API server for nodes, in base64 [default: the kubeconfig's]
    #[arg(long, value_name = "TEXT")]
    cluster_ca_bundle: Option<String>,
    /// Pods that come within this time are planned together [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    batch_max_duration: Option<Duration>,
    /// A pause of this length closes the batch [default: 1s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    batch_idle_duration: Option<Duration>,
    /// Port of /metrics [default: 8080]
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,
    /// Port of /healthz and /readyz [default: 8081]
    #[arg(long, value_name = "PORT")]
    health_probe_port: Option<u16>,
    /// debug, info or error [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// stdout, stderr or files, joined by commas [default: stdout]
    #[arg(long, value_name = "PATHS")]
    log_output_paths: Option<String>,
    /// Leave out events about conditions and the like [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    disable_cluster_state_observability: Option<bool>,
    /// Do not check with EC2 whether a node class may be used [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    disable_dry_run: Option<bool>,
}

/// All settings of a controller, checked.
#[derive(Debug)]
pub(crate) struct ControllerSettings {
    pub(crate) shared: Resolved,
    pub(crate) cluster_name: Option<String>,
    pub(crate) cluster_endpoint: Option<String>,
    pub(crate) cluster_ca_bundle: Option<String>,
    pub(crate) batch_max: Duration,
    pub(crate) batch_idle: Duration,
    pub(crate) metrics_port: u16,
    pub(crate) health_probe_port: u16,
    pub(crate) log_level: Threshold,
    pub(crate) log_output_paths: String,
    pub(crate) quiet_status: bool,
    pub(crate) disable_dry_run: bool,
    /// Where the controller itself runs.
    pub(crate) namespace: Option<String>,
}

/// An annotation on it, in the controller's namespace, pauses voluntary disruption.
const CONFIG_MAP: &str = "karpenter";

impl ControllerSettingsArgs {
    /// Everything that is wrong, each line naming its setting.
    pub(crate) fn resolve(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<ControllerSettings, Vec<String>> {
        let text =
            |flag: &Option<String>, name: &str| flag.clone().or_else(|| env(name)).filter(|text| !text.is_empty());
        let length = |flag: Option<Duration>, name: &str, otherwise: u64| {
            let given = flag.or_else(|| env(name).and_then(|text| duration(&text).ok()));
            given.unwrap_or(Duration::from_secs(otherwise))
        };
        let port = |flag: Option<u16>, name: &str, otherwise| flag.or_else(|| parsed(env(name))).unwrap_or(otherwise);
        let yes = |flag: Option<bool>, name: &str| {
            flag.or_else(|| env(name).and_then(|text| go_bool(&text))).unwrap_or(false)
        };
        let mut faults = Vec::new();
        let endpoint = text(&self.cluster_endpoint, "CLUSTER_ENDPOINT");
        if let Some(url) = endpoint.as_deref().filter(|url| !is_absolute(url)) {
            faults.push(format!("cluster-endpoint: {url:?} is not an absolute URL with a host"));
        }
        let level = text(&self.log_level, "LOG_LEVEL").unwrap_or_default();
        let log_level = Threshold::parse(&level).unwrap_or_else(|| {
            faults.push(format!("log-level: {level:?} is not one of debug, info, error"));
            Threshold::Info
        });
        let shared = match self.shared.resolve(env) {
            Ok(shared) if faults.is_empty() => shared,
            Ok(_) => return Err(faults),
            Err(more) => return Err(faults.into_iter().chain(more).collect()),
        };
        Ok(ControllerSettings {
            shared,
            cluster_name: text(&self.cluster_name, "CLUSTER_NAME"),
            cluster_endpoint: endpoint,
            cluster_ca_bundle: text(&self.cluster_ca_bundle, "CLUSTER_CA_BUNDLE"),
            batch_max: length(self.batch_max_duration, "BATCH_MAX_DURATION", 10),
            batch_idle: length(self.batch_idle_duration, "BATCH_IDLE_DURATION", 1),
            metrics_port: port(self.metrics_port, "METRICS_PORT", 8080),
            health_probe_port: port(self.health_probe_port, "HEALTH_PROBE_PORT", 8081),
            log_level,
            log_output_paths: text(&self.log_output_paths, "LOG_OUTPUT_PATHS").unwrap_or_else(|| "stdout".to_owned()),
            quiet_status: yes(self.disable_cluster_state_observability, "DISABLE_CLUSTER_STATE_OBSERVABILITY"),
            disable_dry_run: yes(self.disable_dry_run, "DISABLE_DRY_RUN"),
            namespace: env("SYSTEM_NAMESPACE").filter(|text| !text.is_empty()),
        })
    }
}

impl ControllerSettings {
    /// As the controllers want them.
    pub(crate) fn of_controllers(&self) -> karpenter_controllers::Settings {
        karpenter_controllers::Settings {
            batch_max: self.batch_max,
            batch_idle: self.batch_idle,
            cpu_requests: self.shared.cpu_requests,
            scheduling: self.shared.core.clone(),
            nominate_pods: true,
            node_repair: self.shared.gates.node_repair,
            quiet_status: self.quiet_status,
            disruption: self.shared.disruption.clone(),
            config_map: self.namespace.clone().map(|namespace| (namespace, CONFIG_MAP.to_owned())),
        }
    }
}

/// As Go writes durations: `90s`, `1m30s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let parsed = GoDuration::parse(text).map_err(|error| error.to_string())?;
    if parsed.nanos() < 0 { Err("it is negative".to_owned()) } else { Ok(parsed.to_std()) }
}

fn is_absolute(url: &str) -> bool {
    let rest = url.split_once("://").filter(|(scheme, _)| !scheme.is_empty()).map(|(_, rest)| rest);
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: ControllerSettingsArgs,
    }

    fn resolve(flags: &[&str], env: &[(&str, &str)]) -> Result<ControllerSettings, Vec<String>> {
        let line = Line::try_parse_from([&["x"], flags].concat()).map_err(|error| vec![error.to_string()])?;
        let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        line.settings.resolve(&lookup)
    }

    #[test]
    fn defaults_are_upstreams() {
        let found = resolve(&[], &[]).unwrap();
        assert_eq!((found.batch_max.as_secs(), found.batch_idle.as_secs()), (10, 1));
        assert_eq!((found.metrics_port, found.health_probe_port), (8080, 8081));
        assert_eq!((found.log_level, found.log_output_paths.as_str()), (Threshold::Info, "stdout"));
        assert_eq!(found.of_controllers(), karpenter_controllers::Settings::default());
    }

    #[test]
    fn flags_beat_the_environment_which_beats_defaults_if_it_parses() {
        // covers: API-ST-01, API-ST-02, API-ST-05
        let env = [("BATCH_MAX_DURATION", "1m30s"), ("BATCH_IDLE_DURATION", "soon"), ("METRICS_PORT", "x")];
        let found = resolve(&["--health-probe-port=9"], &env).unwrap();
        assert_eq!((found.batch_max.as_secs(), found.batch_idle.as_secs()), (90, 1));
        assert_eq!((found.metrics_port, found.health_probe_port), (8080, 9));
        assert_eq!(
            resolve(&["--batch-max-duration=1h0.5s"], &env).unwrap().batch_max,
            Duration::from_millis(3_600_500)
        );
        assert!(resolve(&["--batch-idle-duration=soon"], &[]).is_err());
    }

    #[test]
    fn what_is_wrong_is_named_all_together() {
        // covers: API-ST-07
        let faults = resolve(
            &["--log-level=loud", "--cluster-endpoint=/relative", "--reserved-enis=-1", "--min-values-policy=x"],
            &[],
        );
        let faults = faults.unwrap_err();
        for name in ["log-level", "cluster-endpoint", "reserved-enis", "min-values-policy"] {
            assert!(faults.iter().any(|fault| fault.starts_with(&format!("{name}: "))), "{name}: {faults:?}");
        }
        assert!(resolve(&["--cluster-endpoint=https://x.example"], &[("LOG_LEVEL", "debug")]).is_ok());
    }

    #[test]
    fn gates_switch_controllers() {
        assert!(resolve(&["--feature-gates=NodeRepair=true"], &[]).unwrap().of_controllers().node_repair);
    }
}
