//! The controller's settings: a flag beats an environment variable beats the default. All of them stand in one
//! [`table`]; here are those that change plans, types and hashes.

pub(crate) mod controller;
pub(crate) mod gates;
mod given;
mod scheduler_config;
mod table;

use karpenter_core::MicroUsd;
use karpenter_core::settings::{MinValuesPolicy, PreferencePolicy, Settings};
use karpenter_ec2::Ec2Settings;

use gates::FeatureGates;
use given::{Env, Given, Values};
use table::Scope;

pub(crate) use table::duration;

/// The settings of commands that plan.
#[derive(Debug, Default)]
pub(crate) struct SettingsArgs {
    given: Given,
}

/// Flags from the table, the same way for each set of settings.
macro_rules! flags_of_the_table {
    ($args:ty, $scope:expr) => {
        impl clap::Args for $args {
            fn augment_args(command: clap::Command) -> clap::Command {
                crate::settings::given::augment(command, $scope)
            }

            fn augment_args_for_update(command: clap::Command) -> clap::Command {
                Self::augment_args(command)
            }
        }

        impl clap::FromArgMatches for $args {
            fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
                Ok(Self { given: crate::settings::given::Given::from_matches(matches, $scope) })
            }

            fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}
pub(crate) use flags_of_the_table;

flags_of_the_table!(SettingsArgs, Scope::Planning);

/// The settings that decide plans, checked.
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
    pub(crate) fn resolve(&self, env: Env<'_>) -> Result<Resolved, Vec<String>> {
        resolve(&self.given.values(env))
    }
}

fn resolve(values: &Values<'_>) -> Result<Resolved, Vec<String>> {
    let mut faults = Vec::new();
    let preferences = match values.text("preference-policy").as_str() {
        "Respect" => PreferencePolicy::Respect,
        "Ignore" => PreferencePolicy::Ignore,
        other => {
            faults.push(format!("preference-policy: {other:?} is not one of Respect, Ignore"));
            PreferencePolicy::Respect
        }
    };
    let min_values = match values.text("min-values-policy").as_str() {
        "Strict" => MinValuesPolicy::Strict,
        "BestEffort" => MinValuesPolicy::BestEffort,
        other => {
            faults.push(format!("min-values-policy: {other:?} is not one of Strict, BestEffort"));
            MinValuesPolicy::Strict
        }
    };
    let gates = FeatureGates::parse(&values.text("feature-gates")).unwrap_or_else(|fault| {
        faults.push(format!("feature-gates: {fault}"));
        FeatureGates::default()
    });
    let kubelet_expressions = gates::node_class_cel(&values.text("aws-feature-gates")).unwrap_or_else(|fault| {
        faults.push(format!("aws-feature-gates: {fault}"));
        false
    });
    let default_spread = scheduler_config::parse(&values.text("scheduler-config")).unwrap_or_else(|found| {
        faults.extend(found.into_iter().map(|fault| format!("scheduler-config: {fault}")));
        Vec::new()
    });
    let overhead = values.number("vm-memory-overhead-percent");
    if !(overhead >= 0.0 && overhead.is_finite()) {
        faults.push(format!("vm-memory-overhead-percent: {overhead} is negative or no number"));
    }
    let enis = values.integer("reserved-enis");
    let reserved_enis = u32::try_from(enis).unwrap_or_else(|_| {
        faults.push(format!("reserved-enis: {enis} is negative or too large"));
        0
    });
    let threshold = values.some("consolidation-threshold").and_then(|text| {
        let price = text.parse().ok().and_then(MicroUsd::from_dollars);
        if price.is_none() {
            faults.push(format!("consolidation-threshold: {text} is negative or no price"));
        }
        price
    });
    if !faults.is_empty() {
        return Err(faults);
    }
    let millicores = u32::try_from(values.integer("cpu-requests")).ok();
    let cpu_requests = millicores.filter(|given| *given > 0).unwrap_or(1000);
    let threads = usize::try_from(cpu_requests.div_ceil(1000)).unwrap_or(1);
    let spot_to_spot = gates.spot_to_spot_consolidation;
    Ok(Resolved {
        disruption: karpenter_disruption::Policy { spot_to_spot, threshold, threads, ..Default::default() },
        gates,
        cpu_requests,
        core: Settings {
            preferences,
            min_values,
            reserved_capacity: gates.reserved_capacity,
            ignore_device_requests: values.yes("ignore-dra-requests"),
            default_spread,
        },
        ec2: Ec2Settings {
            vm_memory_overhead_percent: overhead,
            reserved_enis,
            reserved_capacity: gates.reserved_capacity,
            kubelet_expressions,
        },
    })
}

#[cfg(test)]
mod tests;
