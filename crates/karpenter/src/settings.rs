//! The controller's settings as far as they change plans, types and hashes: a flag beats an environment variable beats
//! the default.

pub(crate) mod controller;
pub(crate) mod gates;
mod scheduler_config;

use karpenter_core::MicroUsd;
use karpenter_core::settings::{MinValuesPolicy, PreferencePolicy, Settings};
use karpenter_ec2::Ec2Settings;

use gates::FeatureGates;

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Settings (each also as an environment variable, e.g. PREFERENCE_POLICY)")]
pub(crate) struct SettingsArgs {
    /// Respect or Ignore: whether preferences are hard before they are given up
    #[arg(long, value_name = "POLICY")]
    preference_policy: Option<String>,
    /// Strict or BestEffort: whether minValues may be lowered
    #[arg(long, value_name = "POLICY")]
    min_values_policy: Option<String>,
    /// Name=true,Other=false
    #[arg(long, value_name = "GATES")]
    feature_gates: Option<String>,
    /// Name=true,Other=false; unknown names are ignored
    #[arg(long, value_name = "GATES")]
    aws_feature_gates: Option<String>,
    /// Share of nominal memory that hypervisor and kernel keep [default: 0.075]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    vm_memory_overhead_percent: Option<f64>,
    /// Network interfaces that pods get no addresses from [default: 0]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    reserved_enis: Option<i64>,
    /// kube-scheduler's podTopologySpread.defaultConstraints, as YAML or JSON
    #[arg(long, value_name = "TEXT")]
    scheduler_config: Option<String>,
    /// Leave out pods that ask for devices through ResourceClaims [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    ignore_dra_requests: Option<bool>,
    /// Millicores, which say how much the controller does at once; plans do not depend on it [default: 1000]
    #[arg(long, value_name = "MILLICORES", allow_negative_numbers = true)]
    cpu_requests: Option<i64>,
    /// Dollars per hour that consolidation must save for each pod it moves; without it any saving will do
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true)]
    consolidation_threshold: Option<f64>,
}

/// All settings, checked.
#[derive(Debug, PartialEq)]
pub(crate) struct Resolved {
    pub(crate) core: Settings,
    pub(crate) ec2: Ec2Settings,
    pub(crate) gates: FeatureGates,
    /// Millicores.
    pub(crate) cpu_requests: u32,
    pub(crate) disruption: karpenter_disruption::Policy,
}

impl SettingsArgs {
    /// Everything that is wrong, each line naming its setting.
    pub(crate) fn resolve(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Resolved, Vec<String>> {
        let mut faults = Vec::new();
        let text = |flag: &Option<String>, name: &str| flag.clone().or_else(|| env(name)).unwrap_or_default();
        let preferences = match text(&self.preference_policy, "PREFERENCE_POLICY").as_str() {
            "" | "Respect" => PreferencePolicy::Respect,
            "Ignore" => PreferencePolicy::Ignore,
            other => {
                faults.push(format!("preference-policy: {other:?} is not one of Respect, Ignore"));
                PreferencePolicy::Respect
            }
        };
        let min_values = match text(&self.min_values_policy, "MIN_VALUES_POLICY").as_str() {
            "" | "Strict" => MinValuesPolicy::Strict,
            "BestEffort" => MinValuesPolicy::BestEffort,
            other => {
                faults.push(format!("min-values-policy: {other:?} is not one of Strict, BestEffort"));
                MinValuesPolicy::Strict
            }
        };
        let gates = FeatureGates::parse(&text(&self.feature_gates, "FEATURE_GATES")).unwrap_or_else(|fault| {
            faults.push(format!("feature-gates: {fault}"));
            FeatureGates::default()
        });
        let default_spread = scheduler_config::parse(&text(&self.scheduler_config, "SCHEDULER_CONFIG"));
        let default_spread = default_spread.unwrap_or_else(|found| {
            faults.extend(found.into_iter().map(|fault| format!("scheduler-config: {fault}")));
            Vec::new()
        });
        let overhead =
            self.vm_memory_overhead_percent.or_else(|| parsed(env("VM_MEMORY_OVERHEAD_PERCENT"))).unwrap_or(0.075);
        if !(overhead >= 0.0 && overhead.is_finite()) {
            faults.push(format!("vm-memory-overhead-percent: {overhead} is negative or no number"));
        }
        let enis = self.reserved_enis.or_else(|| parsed(env("RESERVED_ENIS"))).unwrap_or(0);
        let reserved_enis = u32::try_from(enis).unwrap_or_else(|_| {
            faults.push(format!("reserved-enis: {enis} is negative or too large"));
            0
        });
        let devices = || env("IGNORE_DRA_REQUESTS").and_then(|value| go_bool(&value));
        let ignore_device_requests = self.ignore_dra_requests.or_else(devices).unwrap_or(true);
        let millicores = self.cpu_requests.or_else(|| parsed(env("CPU_REQUESTS"))).unwrap_or(0);
        let cpu_requests = u32::try_from(millicores).ok().filter(|given| *given > 0).unwrap_or(1000);
        let threshold = self.consolidation_threshold.or_else(|| parsed(env("CONSOLIDATION_THRESHOLD")));
        let threshold = threshold.and_then(|dollars| {
            let price = MicroUsd::from_dollars(dollars);
            if price.is_none() {
                faults.push(format!("consolidation-threshold: {dollars} is negative or no price"));
            }
            price
        });
        if !faults.is_empty() {
            return Err(faults);
        }
        let threads = usize::try_from(cpu_requests.div_ceil(1000)).unwrap_or(1);
        let disruption =
            karpenter_disruption::Policy { spot_to_spot: gates.spot_to_spot, threshold, paused: false, threads };
        Ok(Resolved {
            disruption,
            gates,
            cpu_requests,
            core: Settings {
                preferences,
                min_values,
                reserved_capacity: gates.reserved_capacity,
                ignore_device_requests,
                default_spread,
            },
            ec2: Ec2Settings {
                vm_memory_overhead_percent: overhead,
                reserved_enis,
                reserved_capacity: gates.reserved_capacity,
                kubelet_expressions: aws_gate(&text(&self.aws_feature_gates, "AWS_FEATURE_GATES"), "NodeClassCEL"),
            },
        })
    }
}

/// An environment variable that does not parse counts as absent.
pub(crate) fn parsed<T: std::str::FromStr>(value: Option<String>) -> Option<T> {
    value.and_then(|value| value.trim().parse().ok())
}

/// Unknown names are ignored, and what is not listed is off.
fn aws_gate(text: &str, name: &str) -> bool {
    let listed = text.split(',').filter_map(|pair| pair.split_once('='));
    let found = listed.filter(|(key, _)| key.trim() == name).last();
    found.and_then(|(_, value)| go_bool(value.trim())).unwrap_or(false)
}

/// The spellings of booleans that the reference accepts in its environment.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
