//! What a season came to.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub seed: u64,
    pub days: u32,
    pub deployments: usize,
    pub scalings: u64,
    pub pods_run: u64,
    pub nodes_launched: u64,
    pub usd: f64,
    pub pending_to_running: Waits,
    pub counts: BTreeMap<String, u64>,
    /// How often each kind of fault struck.
    pub faults: BTreeMap<String, u64>,
    /// Kinds of fault that struck too seldom to have been tried.
    pub untried: Vec<String>,
    pub violations: Vec<String>,
    /// Of every write to the API server: equal digests, equal histories.
    pub writes: u64,
    pub writes_by_kind: BTreeMap<String, u64>,
    pub digest: String,
}

/// In seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waits {
    pub p50: f64,
    pub p99: f64,
    pub most: f64,
}

impl Waits {
    pub(crate) fn of(sorted: &[Duration]) -> Self {
        let at = |share: f64| {
            let seconds = crate::audit::percentile(sorted, share).as_secs_f64();
            (seconds * 1000.0).round() / 1000.0
        };
        Self { p50: at(0.5), p99: at(0.99), most: at(1.0) }
    }
}

impl Report {
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.untried.is_empty()
    }

    pub fn json(&self) -> Value {
        json!(self)
    }

    /// Lines for people.
    pub fn text(&self) -> String {
        let listed = |map: &BTreeMap<String, u64>| {
            map.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
        };
        let Waits { p50, p99, most } = self.pending_to_running;
        let mut lines = vec![
            format!(
                "seed {}: {} days, {} deployments, scaled {} times",
                self.seed, self.days, self.deployments, self.scalings
            ),
            format!("  {} pods run, {} nodes launched, ${:.2}", self.pods_run, self.nodes_launched, self.usd),
            format!("  from pending to running {p50:.1} s (median), {p99:.1} s (p99), {most:.1} s (longest)"),
            format!("  {}", listed(&self.counts)),
            format!("  what went wrong: {}", listed(&self.faults)),
            format!("  history: {} writes, digest {}: {}", self.writes, self.digest, listed(&self.writes_by_kind)),
        ];
        if !self.untried.is_empty() {
            lines.push(format!("  too seldom: {}", self.untried.join(", ")));
        }
        match self.violations.len() {
            0 => lines.push("  no violations".to_owned()),
            count => {
                lines.push(format!("  {count} violations:"));
                lines.extend(self.violations.iter().take(50).map(|violation| format!("    {violation}")));
            }
        }
        lines.join("\n")
    }
}
