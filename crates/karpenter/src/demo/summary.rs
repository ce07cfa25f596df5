//! The last word.

use std::time::Duration;

use serde_json::{Value, json};

use super::ledger::percentile;
use super::script::Outcome;
use super::view::counted;
use super::world::World;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) nodes_launched: usize,
    pub(crate) pods_run: usize,
    pub(crate) usd: f64,
    pub(crate) p50: Option<Duration>,
    pub(crate) p99: Option<Duration>,
    pub(crate) violations: Vec<String>,
    pub(crate) never_ran: Vec<String>,
    pub(crate) stayed: Vec<String>,
    /// Kinds of faults and how often each struck.
    pub(crate) faults: Vec<(String, u64)>,
}

impl Summary {
    pub(crate) fn of(world: &World, outcome: Outcome) -> Self {
        let waits = world.ledger.waits();
        Self {
            nodes_launched: world.ledger.instances(),
            pods_run: world.ledger.run(),
            usd: world.region.spent().dollars(),
            p50: percentile(&waits, 0.5),
            p99: percentile(&waits, 0.99),
            violations: world.audit.faulty_plans(),
            never_ran: outcome.never_ran,
            stayed: outcome.stayed,
            faults: world.region.faults_fired().into_iter().collect(),
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.never_ran.is_empty() && self.stayed.is_empty()
    }

    pub(crate) fn json(&self) -> Value {
        let seconds = |wait: Option<Duration>| wait.map(|wait| (wait.as_secs_f64() * 1000.0).round() / 1000.0);
        json!({
            "nodesLaunched": self.nodes_launched,
            "podsRun": self.pods_run,
            "usd": (self.usd * 1e6).round() / 1e6,
            "pendingToRunningSeconds": {"p50": seconds(self.p50), "p99": seconds(self.p99)},
            "violations": self.violations.len(),
            "neverRan": self.never_ran,
            "stayed": self.stayed,
        })
    }

    /// Lines for people.
    pub(crate) fn text(&self) -> String {
        let seconds =
            |wait: Option<Duration>| wait.map_or("-".to_owned(), |wait| format!("{:.1} s", wait.as_secs_f64()));
        let mut lines = vec![format!(
            "{} launched, {} run, ${:.4} spent; from pending to running {} (median), {} (p99)",
            counted(self.nodes_launched, "node"),
            counted(self.pods_run, "pod"),
            self.usd,
            seconds(self.p50),
            seconds(self.p99)
        )];
        if !self.faults.is_empty() {
            let faults: Vec<String> = self.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            lines.push(format!("what went wrong in the region: {}", faults.join(", ")));
        }
        for (what, list) in [
            ("pods that never ran", &self.never_ran),
            ("nodes that stayed", &self.stayed),
            ("plans that verify faults", &self.violations),
        ] {
            if !list.is_empty() {
                lines.push(format!("{what}: {}", list.join(", ")));
            }
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_object_and_a_few_lines() {
        let good = Summary {
            nodes_launched: 3,
            pods_run: 12,
            usd: 0.012_345_678,
            p50: Some(Duration::from_millis(41_200)),
            p99: None,
            violations: Vec::new(),
            never_ran: Vec::new(),
            stayed: Vec::new(),
            faults: Vec::new(),
        };
        assert!(good.is_good());
        assert_eq!(
            good.json().to_string(),
            r#"{"nodesLaunched":3,"podsRun":12,"usd":0.012346,"pendingToRunningSeconds":{"p50":41.2,"p99":null},"violations":0,"neverRan":[],"stayed":[]}"#
        );
        assert_eq!(
            good.text(),
            "3 nodes launched, 12 pods run, $0.0123 spent; from pending to running 41.2 s (median), - (p99)"
        );
        let one = Summary { nodes_launched: 1, pods_run: 1, ..good.clone() };
        assert!(one.text().starts_with("1 node launched, 1 pod run, "), "{}", one.text());
        let bad = Summary { stayed: vec!["node/n".to_owned()], ..good };
        assert!(!bad.is_good());
        assert!(bad.text().ends_with("nodes that stayed: node/n"));
    }
}
