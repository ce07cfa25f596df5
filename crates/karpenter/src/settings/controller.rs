//! The settings that only a running controller looks at.

use std::time::Duration;

use karpenter_runtime::log::Threshold;

use super::given::{Env, Given};
use super::table::Scope;
use super::{Resolved, flags_of_the_table, resolve};

/// All settings.
#[derive(Debug, Default)]
pub(crate) struct ControllerSettingsArgs {
    given: Given,
}

flags_of_the_table!(ControllerSettingsArgs, Scope::Running);

/// Whether the cluster has to be named: in a simulated region any name will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    Real,
    Simulated,
}

/// All settings of a controller, checked.
#[derive(Debug)]
pub(crate) struct ControllerSettings {
    pub(crate) shared: Resolved,
    pub(crate) cluster_name: Option<String>,
    pub(crate) cluster_endpoint: Option<String>,
    pub(crate) cluster_ca_bundle: Option<String>,
    pub(crate) interruption_queue: Option<String>,
    pub(crate) isolated_vpc: bool,
    pub(crate) eks_control_plane: bool,
    pub(crate) disable_dry_run: bool,
    pub(crate) enable_zonal_shift: bool,
    pub(crate) ami_refresh: Duration,
    pub(crate) subnet_refresh: Duration,
    pub(crate) batch_max: Duration,
    pub(crate) batch_idle: Duration,
    pub(crate) quiet_status: bool,
    pub(crate) client_rate: ClientRate,
    pub(crate) metrics_port: u16,
    pub(crate) health_probe_port: u16,
    pub(crate) profiling: bool,
    pub(crate) log_level: Threshold,
    pub(crate) log_output_paths: String,
    pub(crate) log_error_output_paths: String,
    /// `None`: work without a lease.
    pub(crate) election: Option<Election>,
    pub(crate) legacy_metrics: bool,
    pub(crate) compat_log_lines: bool,
    /// `None`: serve no webhook.
    pub(crate) webhook: Option<Webhook>,
    /// Where the controller itself runs.
    pub(crate) namespace: Option<String>,
}

/// The cluster's name, where nobody gave one.
const DEFAULT_NAME: &str = "simulated";

/// An annotation on it, in the controller's namespace, pauses voluntary disruption.
const CONFIG_MAP: &str = "karpenter";

/// Requests to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientRate {
    pub(crate) per_second: u32,
    pub(crate) burst: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Election {
    pub(crate) lease: String,
    /// Our own when absent.
    pub(crate) namespace: Option<String>,
    /// Whether replicas that do not lead fill their caches.
    pub(crate) warm_up: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Webhook {
    pub(crate) port: u16,
    /// Its Service, which the API server must be able to reach.
    pub(crate) service: Option<String>,
}

impl ControllerSettingsArgs {
    /// Everything that is wrong, each line naming its setting.
    pub(crate) fn resolve(&self, env: Env<'_>, region: Region) -> Result<ControllerSettings, Vec<String>> {
        let values = self.given.values(env);
        let mut faults = Vec::new();
        let cluster_name = values.some("cluster-name");
        if cluster_name.is_none() && region == Region::Real {
            faults.push("cluster-name: missing".to_owned());
        }
        let cluster_endpoint = values.some("cluster-endpoint");
        if let Some(url) = cluster_endpoint.as_deref().filter(|url| !is_absolute(url)) {
            faults.push(format!("cluster-endpoint: {url:?} is not an absolute URL with a host"));
        }
        let mut interval = |flag: &str| {
            let given = values.duration(flag);
            if given < Duration::from_secs(60) {
                faults.push(format!("{flag}: {} is less than a minute", values.text(flag)));
            }
            given
        };
        let (ami_refresh, subnet_refresh) = (interval("ami-refresh-interval"), interval("subnet-refresh-interval"));
        let level = values.text("log-level");
        let log_level = Threshold::parse(&level).unwrap_or_else(|| {
            faults.push(format!("log-level: {level:?} is not one of debug, info, error"));
            Threshold::Info
        });
        let mut positive = |flag: &str| {
            let given = values.integer(flag);
            u32::try_from(given).ok().filter(|given| *given > 0).unwrap_or_else(|| {
                faults.push(format!("{flag}: {given} is not a positive number"));
                1
            })
        };
        let client_rate = ClientRate { per_second: positive("kube-client-qps"), burst: positive("kube-client-burst") };
        // A plan may be asked what it would be; nodes are not bought for devices that nobody allocates.
        if !values.yes("ignore-dra-requests") {
            faults.push("ignore-dra-requests: false is not supported, devices of ResourceClaims are not allocated; leave it at true".to_owned());
        }
        let shared = match resolve(&values) {
            Ok(shared) if faults.is_empty() => shared,
            Ok(_) => return Err(faults),
            Err(more) => return Err(faults.into_iter().chain(more).collect()),
        };
        let election = (!values.yes("disable-leader-election")).then(|| Election {
            lease: values.text("leader-election-name"),
            namespace: values.some("leader-election-namespace"),
            warm_up: !values.yes("disable-controller-warmup"),
        });
        let webhook = (!values.yes("disable-webhook"))
            .then(|| Webhook { port: values.port("webhook-port"), service: values.some("karpenter-service") });
        Ok(ControllerSettings {
            shared,
            cluster_name,
            cluster_endpoint,
            cluster_ca_bundle: values.some("cluster-ca-bundle"),
            interruption_queue: values.some("interruption-queue"),
            isolated_vpc: values.yes("isolated-vpc"),
            eks_control_plane: values.yes("eks-control-plane"),
            disable_dry_run: values.yes("disable-dry-run"),
            enable_zonal_shift: values.yes("enable-zonal-shift"),
            ami_refresh,
            subnet_refresh,
            batch_max: values.duration("batch-max-duration"),
            batch_idle: values.duration("batch-idle-duration"),
            quiet_status: values.yes("disable-cluster-state-observability"),
            client_rate,
            metrics_port: values.port("metrics-port"),
            health_probe_port: values.port("health-probe-port"),
            profiling: values.yes("enable-profiling"),
            log_level,
            log_output_paths: values.text("log-output-paths"),
            log_error_output_paths: values.text("log-error-output-paths"),
            election,
            legacy_metrics: values.yes("legacy-metrics"),
            compat_log_lines: values.yes("compat-log-lines"),
            webhook,
            namespace: env("SYSTEM_NAMESPACE").filter(|text| !text.is_empty()),
        })
    }
}

impl ControllerSettings {
    /// What the provider looks at. What is left open here is found out at the start.
    pub(crate) fn of_provider(&self) -> karpenter_provider_aws::Settings {
        let name = self.cluster_name.clone().unwrap_or_else(|| DEFAULT_NAME.to_owned());
        let endpoint = self.cluster_endpoint.clone().unwrap_or_default();
        karpenter_provider_aws::Settings {
            ca_bundle: self.cluster_ca_bundle.clone(),
            isolated_vpc: self.isolated_vpc,
            disable_dry_run: self.disable_dry_run,
            ami_refresh: self.ami_refresh,
            subnet_refresh: self.subnet_refresh,
            interruption_queue: self.interruption_queue.clone(),
            enable_zonal_shift: self.enable_zonal_shift,
            eks_control_plane: self.eks_control_plane,
            ec2: self.shared.ec2,
            node_overlays: self.shared.gates.node_overlay,
            strict_min_values: self.shared.core.min_values == karpenter_core::settings::MinValuesPolicy::Strict,
            ..karpenter_provider_aws::Settings::new(&name, &endpoint, "")
        }
    }

    /// As the controllers want them.
    pub(crate) fn of_controllers(&self) -> karpenter_controllers::Settings {
        karpenter_controllers::Settings {
            batch_max: self.batch_max,
            batch_idle: self.batch_idle,
            cpu_requests: self.shared.cpu_requests,
            scheduling: self.shared.core.clone(),
            nominate_pods: true,
            node_repair: self.shared.gates.node_repair,
            node_overlays: self.shared.gates.node_overlay,
            capacity_buffers: self.shared.gates.capacity_buffer,
            static_capacity: self.shared.gates.static_capacity,
            quiet_status: self.quiet_status,
            disruption: self.shared.disruption.clone(),
            config_map: self.namespace.clone().map(|namespace| (namespace, CONFIG_MAP.to_owned())),
        }
    }
}

/// A scheme, then a host.
fn is_absolute(url: &str) -> bool {
    let scheme = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let rest = url.split_once("://").filter(|(name, _)| scheme(name)).map(|(_, rest)| rest);
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', ':', '?', '#']))
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

    fn resolve_in(region: Region, flags: &[&str], env: &[(&str, &str)]) -> Result<ControllerSettings, Vec<String>> {
        let line = Line::try_parse_from([&["x"], flags].concat()).map_err(|error| vec![error.to_string()])?;
        let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        line.settings.resolve(&lookup, region)
    }

    fn resolve(flags: &[&str], env: &[(&str, &str)]) -> Result<ControllerSettings, Vec<String>> {
        resolve_in(Region::Simulated, flags, env)
    }

    #[test]
    fn defaults_are_upstreams() {
        let found = resolve(&[], &[]).unwrap();
        assert_eq!((found.batch_max.as_secs(), found.batch_idle.as_secs()), (10, 1));
        assert_eq!((found.metrics_port, found.health_probe_port), (8080, 8081));
        assert_eq!((found.log_level, found.log_output_paths.as_str()), (Threshold::Info, "stdout"));
        assert_eq!(found.client_rate, ClientRate { per_second: 200, burst: 300 });
        let lease = "karpenter-leader-election".to_owned();
        assert_eq!(found.election, Some(Election { lease, namespace: None, warm_up: false }));
        assert_eq!(found.webhook, Some(Webhook { port: 8443, service: None }));
        assert!(
            found.legacy_metrics && found.compat_log_lines && !found.profiling && !found.shared.ec2.kubelet_expressions
        );
        assert_eq!((found.ami_refresh.as_secs(), found.subnet_refresh.as_secs()), (60, 60));
        assert_eq!(found.of_controllers(), karpenter_controllers::Settings::default());
    }

    #[test]
    fn devices_are_not_allocated_and_asking_for_it_is_refused() {
        assert!(resolve(&[], &[("IGNORE_DRA_REQUESTS", "true")]).unwrap().shared.core.ignore_device_requests);
        let faults = resolve(&["--ignore-dra-requests=false"], &[]).unwrap_err();
        assert!(faults[0].starts_with("ignore-dra-requests: false is not supported"), "{faults:?}");
    }

    #[test]
    fn flags_beat_the_environment_which_beats_defaults_if_it_parses() {
        // covers: API-ST-01, API-ST-02, API-ST-05, SCH-BATCH-08
        let env = [("BATCH_MAX_DURATION", "1m30s"), ("BATCH_IDLE_DURATION", "soon"), ("METRICS_PORT", "x")];
        let found = resolve(&["--health-probe-port=9"], &env).unwrap();
        assert_eq!((found.batch_max.as_secs(), found.batch_idle.as_secs()), (90, 1));
        assert_eq!((found.metrics_port, found.health_probe_port), (8080, 9));
        for (text, want) in [("1h0.5s", 3_600_500), ("1500us", 1), ("2000000ns", 2), ("1m2s3ms", 62_003)] {
            let flag = format!("--batch-max-duration={text}");
            assert_eq!(resolve(&[&flag], &env).unwrap().batch_max.as_millis(), want, "{text}");
        }
        assert!(resolve(&["--batch-idle-duration=soon"], &[]).is_err());
    }

    #[test]
    fn every_boolean_is_bare_true_or_false_and_nothing_else() {
        // covers: API-ST-03
        for setting in super::super::table::SETTINGS {
            if setting.shape != super::super::table::Shape::Boolean {
                continue;
            }
            let line = |value: &str| {
                let flag = format!("--{}{value}", setting.flag);
                let line = Line::try_parse_from(["x", &flag]).ok()?;
                // Anything the environment says gives way.
                let env = |_: &str| Some((setting.default != "true").to_string());
                Some(line.settings.given.values(&env).yes(setting.flag))
            };
            assert_eq!((line(""), line("=true"), line("=false")), (Some(true), Some(true), Some(false)), "{setting:?}");
            assert_eq!((line("=1"), line("=yes"), line("=")), (None, None, None), "{setting:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_all_together() {
        // covers: API-ST-07, AWS-OPS-02
        let flags = [
            "--log-level=loud",
            "--cluster-endpoint=/relative",
            "--reserved-enis=-1",
            "--vm-memory-overhead-percent=-0.1",
            "--min-values-policy=x",
            "--preference-policy=x",
            "--ami-refresh-interval=59s",
            "--subnet-refresh-interval=0s",
            "--aws-feature-gates=NodeClassCEL",
        ];
        let faults = resolve_in(Region::Real, &flags, &[]).unwrap_err();
        let named = |flag: &str| faults.iter().any(|fault| fault.starts_with(&format!("{flag}: ")));
        for flag in flags.iter().map(|flag| flag.trim_start_matches("--").split('=').next().unwrap()) {
            assert!(named(flag), "{flag}: {faults:?}");
        }
        assert!(named("cluster-name") && faults.len() == 10, "{faults:?}");
        let good = ["--cluster-endpoint=https://x.example", "--cluster-name=c"];
        assert!(resolve_in(Region::Real, &good, &[("LOG_LEVEL", "debug")]).is_ok());
        for url in ["x.example", "https://", "https:///path", "://x", "1s://x"] {
            assert!(resolve(&[&format!("--cluster-endpoint={url}")], &[]).is_err(), "{url}");
        }
    }

    #[test]
    fn each_setting_of_the_provider_is_a_flag_and_a_variable() {
        // covers: AWS-OPS-01
        type Of = fn(&karpenter_provider_aws::Settings) -> String;
        let rows: [(&str, &str, &str, &str, Of); 13] = [
            ("cluster-name", "simulated", "a", "b", |s| s.cluster_name.clone()),
            ("cluster-endpoint", "", "https://a", "https://b", |s| s.cluster_endpoint.clone()),
            ("cluster-ca-bundle", "", "a", "b", |s| s.ca_bundle.clone().unwrap_or_default()),
            ("isolated-vpc", "false", "true", "false", |s| s.isolated_vpc.to_string()),
            ("eks-control-plane", "false", "true", "false", |s| s.eks_control_plane.to_string()),
            ("vm-memory-overhead-percent", "0.075", "0.1", "0.2", |s| s.ec2.vm_memory_overhead_percent.to_string()),
            ("interruption-queue", "", "a", "b", |s| s.interruption_queue.clone().unwrap_or_default()),
            ("reserved-enis", "0", "1", "2", |s| s.ec2.reserved_enis.to_string()),
            ("disable-dry-run", "false", "true", "false", |s| s.disable_dry_run.to_string()),
            ("enable-zonal-shift", "false", "true", "false", |s| s.enable_zonal_shift.to_string()),
            ("ami-refresh-interval", "60", "2m", "3m", |s| s.ami_refresh.as_secs().to_string()),
            ("subnet-refresh-interval", "60", "2m", "3m", |s| s.subnet_refresh.as_secs().to_string()),
            ("aws-feature-gates", "false", "NodeClassCEL=true", "NodeClassCEL=false", |s| {
                s.ec2.kubelet_expressions.to_string()
            }),
        ];
        for (flag, default, first, second, of) in rows {
            let env = flag.to_uppercase().replace('-', "_");
            let as_read = |text: &str| match text.rsplit_once('=') {
                Some((_, value)) => value.to_owned(),
                None if text.ends_with('m') && flag.ends_with("interval") => {
                    (text.trim_end_matches('m').parse::<u64>().unwrap() * 60).to_string()
                }
                None => text.to_owned(),
            };
            let found = |flags: &[&str], env: &[(&str, &str)]| of(&resolve(flags, env).unwrap().of_provider());
            assert_eq!(found(&[], &[]), default, "{flag}");
            assert_eq!(found(&[], &[(&env, first)]), as_read(first), "{env}");
            assert_eq!(found(&[&format!("--{flag}={second}")], &[(&env, first)]), as_read(second), "{flag} wins");
        }
    }

    #[test]
    fn gates_of_the_provider_that_nobody_knows_are_ignored() {
        // covers: AWS-OPS-03
        let on =
            |text: &str| resolve(&[], &[("AWS_FEATURE_GATES", text)]).unwrap().of_provider().ec2.kubelet_expressions;
        assert!(on("Unheard=true,NodeClassCEL=true") && on("NodeClassCEL=true,Unheard=false"));
        assert!(!on("Unheard=true") && !on(""));
    }

    #[test]
    fn gates_switch_controllers() {
        assert!(resolve(&["--feature-gates=NodeRepair=true"], &[]).unwrap().of_controllers().node_repair);
        assert!(resolve(&[], &[("AWS_FEATURE_GATES", "NodeClassCEL=true")]).unwrap().shared.ec2.kubelet_expressions);
    }

    #[test]
    fn help_is_no_failure() {
        // covers: API-ST-04
        let help = Line::try_parse_from(["x", "--help"]).err().unwrap();
        assert_eq!(help.exit_code(), 0);
        for setting in super::super::table::SETTINGS {
            assert!(help.to_string().contains(&format!("--{}", setting.flag)), "{}", setting.flag);
        }
    }

    #[test]
    fn the_webhook_and_the_lease_can_be_done_without() {
        let found = resolve(&["--disable-webhook", "--disable-leader-election"], &[]).unwrap();
        assert_eq!((found.webhook, found.election), (None, None));
        let env = [("WEBHOOK_PORT", "9443"), ("KARPENTER_SERVICE", "k"), ("LEADER_ELECTION_NAMESPACE", "n")];
        let found = resolve(&["--disable-controller-warmup=false"], &env).unwrap();
        assert_eq!(found.webhook, Some(Webhook { port: 9443, service: Some("k".to_owned()) }));
        assert_eq!(found.election.map(|e| (e.namespace, e.warm_up)), Some((Some("n".to_owned()), true)));
    }
}
