//! The controller on a real control plane, under the account and the roles that charts render. `.ci/run rights` brings one up
//! and names it; without it there is nothing to run on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A control plane with an audit log, and the program to run beside it.
struct Place {
    state: PathBuf,
    karpenter: PathBuf,
}

fn place() -> Option<Place> {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    Some(Place { state: given("RIGHTS_STATE")?, karpenter: given("KARPENTER")? })
}

fn lives(place: &Place, chart: &Path, more: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join(".ci/rights"));
    command.arg(&place.karpenter).arg(place.state.join("audit.log")).arg(chart).args(more);
    command.env("KUBECONFIG", place.state.join("kubeconfig")).current_dir(&root);
    let output = command.output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// One after the other: they share the cluster and its audit log.
#[test]
fn the_roles_of_our_chart_are_enough_and_those_of_upstreams_nearly() {
    // covers: API-RB-24, API-RB-25, API-HM-41, API-HM-57, SEED1-06
    let Some(place) = place() else { return };
    let page = place.state.join("metrics.txt").display().to_string();
    let profile = place.state.join("profile.pb").display().to_string();
    let ours = Path::new("charts/karpenter");
    lives(&place, ours, &["--unused", ".ci/rights-unused.txt", "--metrics", &page, "--profile", &profile]);
    if let Some(upstream) = std::env::var_os("UPSTREAM_CHART") {
        lives(&place, Path::new(&upstream), &["--denied", ".ci/rights-upstream-denied.txt"]);
    }
}
