//! Reasons and near misses for people. Where the reference publishes a message for the case, it begins with that.

use std::fmt;

use karpenter_core::MicroUsd;

use crate::decision::{Miss, Reason};

fn dollars(price: MicroUsd) -> String {
    format!("${:.4}/h", price.dollars())
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked(why) => why.fmt(f),
            Self::Paused { pool: Some(pool) } => write!(f, "Disruption is paused for NodePool {pool:?}"),
            Self::Paused { pool: None } => f.write_str("Disruption is paused"),
            Self::StaticPool { pool } => write!(f, "NodePool {pool:?} is static"),
            Self::NoSpareNode { pool } => write!(f, "NodePool {pool:?} may have no other node to replace it"),
            Self::UnknownInstanceType { name } => write!(f, "Instance Type {name:?} not found"),
            Self::MissingLabel { label } => write!(f, "Node does not have label {label:?}"),
            Self::ConsolidationDisabled { pool } => write!(f, "NodePool {pool:?} has consolidation disabled"),
            Self::OnlyWhenEmpty { pool, pods } => {
                write!(f, "NodePool {pool:?} has consolidation policy WhenEmpty, but node is not empty (pods={pods})")
            }
            Self::NotYetQuiet { until: Some(until) } => {
                write!(f, "Pods came or went too recently, consolidateAfter ends at {until}")
            }
            Self::NotYetQuiet { until: None } => f.write_str("Node is not yet consolidatable"),
            Self::HoldsBuffer => f.write_str("Node holds room for a capacity buffer"),
            Self::Budget { pool, reason, allowed, consumed } => write!(
                f,
                "No allowed disruptions for disruption reason {reason} due to blocking budget \
                 (NodePool={pool}, allowed={allowed}, consumed={consumed})"
            ),
            Self::PodHasNoPlace { pod, .. } => write!(f, "Pod {pod} would not find another place"),
            Self::TargetNotReady { pod, node } => {
                write!(f, "Pod {pod} would schedule against uninitialized node/{node}")
            }
            Self::NotCheaper { price, cheapest: Some(cheapest) } => write!(
                f,
                "Can't replace with a cheaper node (it costs {}, the cheapest that would do up to {})",
                dollars(*price),
                dollars(*cheapest)
            ),
            Self::NotCheaper { price, cheapest: None } => {
                write!(f, "Can't replace with a cheaper node (it costs {}, and none would do)", dollars(*price))
            }
            Self::SameType { instance_type } => {
                write!(f, "Can't replace with a cheaper node (only another {instance_type} would do)")
            }
            Self::MinValues { keys } => {
                write!(f, "Filtering by price: minValues requirement is not met for label(s) ({})", keys.join(", "))
            }
            Self::SpotToSpotDisabled => {
                f.write_str("SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node")
            }
            Self::SpotToSpotFlexibility { found, wanted } => write!(
                f,
                "SpotToSpotConsolidation requires {wanted} cheaper instance type options than the current candidate to \
                 consolidate, got {found}"
            ),
            Self::Score { pool, score, threshold } => write!(
                f,
                "NodePool {pool:?} balances savings and disruption (score={score:.2}, threshold={threshold:.2})"
            ),
            Self::NotWorthIt { savings, priced_at } => {
                write!(f, "Would save {}, its disruption is priced at {}", dollars(*savings), dollars(*priced_at))
            }
            Self::NotWithOthers { savings } => write!(
                f,
                "Would save {} alone, but not together with the other commands of this pass",
                dollars(*savings)
            ),
            Self::NotAsScheduled { savings } => write!(
                f,
                "Would save {}, but kube-scheduler spreads pods, and some of them would find no place then",
                dollars(*savings)
            ),
            Self::ReceivesPods { command } => write!(f, "Pods of command {command} are to move here"),
        }
    }
}

impl Miss {
    /// What would have to change: the object, its field, the value it has and the one that would do.
    pub fn change(&self) -> [String; 4] {
        let of = |object: &str, field: &str, from: &str, to: &str| [object, field, from, to].map(str::to_owned);
        match self {
            Self::At(time) => of("Node", "age", "", &time.to_string()),
            Self::Budget { pool, reason, from, to } => of(
                &format!("NodePool {pool}"),
                &format!("spec.disruption.budgets ({reason})"),
                &from.to_string(),
                &to.to_string(),
            ),
            Self::PodDisruptionBudget { name } => {
                of(&format!("PodDisruptionBudget {name}"), "status.disruptionsAllowed", "0", "1")
            }
            Self::Annotation { object } => of(object, "metadata.annotations", "set", "absent"),
            Self::Price { below, cheapest } => of(
                "replacement",
                "price",
                &format!("{:.6}", cheapest.dollars()),
                &format!("below {:.6}", below.dollars()),
            ),
            Self::Threshold { from, to } => of(
                "controller",
                "--consolidation-threshold",
                &format!("{:.6}", from.dollars()),
                &format!("{:.6}", to.dollars()),
            ),
            Self::SpotToSpot => of("controller", "--feature-gates", "SpotToSpotConsolidation=false", "true"),
            Self::Pod { pod } => of(&format!("Pod {pod}"), "spec", "has no other place", "has one, or is gone"),
        }
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(time) => write!(f, "goes when no pod comes or goes until {time}"),
            Self::Budget { pool, reason, from, to } => {
                write!(f, "goes when the budget of NodePool {pool} for {reason} is {to} instead of {from}")
            }
            Self::PodDisruptionBudget { name } => {
                write!(f, "blocked by PodDisruptionBudget {name} until one more pod may go")
            }
            Self::Annotation { object } => write!(f, "goes without the annotation on {object}"),
            Self::Price { below, cheapest } => write!(
                f,
                "goes when a node that holds its pods costs less than {} instead of {}",
                dollars(*below),
                dollars(*cheapest)
            ),
            Self::Threshold { from, to } => write!(
                f,
                "goes with a --consolidation-threshold of {:.6} instead of {:.6}",
                to.dollars(),
                from.dollars()
            ),
            Self::SpotToSpot => f.write_str("goes with the feature gate SpotToSpotConsolidation"),
            Self::Pod { pod } => write!(f, "goes when Pod {pod} is gone or can go elsewhere"),
        }
    }
}
