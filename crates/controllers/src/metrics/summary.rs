//! A summary: quantiles over the last ten minutes, count and sum over all time. The registry's library has none.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_mins(10);
/// So many observations are kept at most; the newest count.
const KEPT: usize = 1_000;
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

#[derive(Debug)]
pub struct Summary {
    name: &'static str,
    label: &'static str,
    series: Mutex<BTreeMap<String, Series>>,
}

#[derive(Debug, Default)]
struct Series {
    recent: VecDeque<(Instant, f64)>,
    count: u64,
    sum: f64,
}

impl Summary {
    /// With one label.
    pub fn new(name: &'static str, label: &'static str) -> Self {
        Self { name, label, series: Mutex::default() }
    }

    /// Without any.
    pub fn plain(name: &'static str) -> Self {
        Self::new(name, "")
    }

    pub fn observe(&self, label: &str, value: f64) {
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let series = all.entry(label.to_owned()).or_default();
        series.count += 1;
        series.sum += value;
        series.recent.push_back((Instant::now(), value));
        if series.recent.len() > KEPT {
            series.recent.pop_front();
        }
    }

    /// In the text format of Prometheus.
    pub fn render(&self, out: &mut String) {
        let now = Instant::now();
        let (name, label) = (self.name, self.label);
        let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(out, "# HELP {name} Quantiles of the last ten minutes\n# TYPE {name} summary");
        for (value, series) in all.iter_mut() {
            series.recent.retain(|(at, _)| now.duration_since(*at) <= WINDOW);
            let mut sorted: Vec<f64> = series.recent.iter().map(|(_, value)| *value).collect();
            sorted.sort_by(f64::total_cmp);
            for quantile in QUANTILES {
                let at = nearest(&sorted, quantile);
                let own = if label.is_empty() { String::new() } else { format!("{label}=\"{value}\",") };
                let _ = writeln!(out, "{name}{{{own}quantile=\"{quantile}\"}} {at}");
            }
            let own = if label.is_empty() { String::new() } else { format!("{{{label}=\"{value}\"}}") };
            let _ = writeln!(out, "{name}_sum{own} {}", series.sum);
            let _ = writeln!(out, "{name}_count{own} {}", series.count);
        }
    }
}

fn nearest(sorted: &[f64], quantile: f64) -> f64 {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn quantiles_forget_and_sums_do_not() {
        let summary = Summary::new("seconds", "pool");
        (1..=100).for_each(|n| summary.observe("a", f64::from(n)));
        let text = |summary: &Summary| {
            let mut text = String::new();
            summary.render(&mut text);
            text
        };
        let now = text(&summary);
        for line in [
            "seconds{pool=\"a\",quantile=\"0\"} 1\n",
            "quantile=\"0.5\"} 50\n",
            "quantile=\"0.99\"} 99\n",
            "quantile=\"1\"} 100\n",
            "seconds_sum{pool=\"a\"} 5050\n",
            "seconds_count{pool=\"a\"} 100\n",
        ] {
            assert!(now.contains(line), "{line} in {now}");
        }
        tokio::time::advance(Duration::from_mins(11)).await;
        let later = text(&summary);
        assert!(
            later.contains("quantile=\"0.5\"} NaN\n") && later.contains("seconds_count{pool=\"a\"} 100\n"),
            "{later}"
        );
    }
}
