//! What the controller takes on a cluster of a size that people have. `.ci/run rights` names the program to measure; without
//! it there is nothing to run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

#[test]
fn a_processor_and_a_gibibyte_are_enough_for_a_thousand_nodes() {
    // covers: SEED1-08
    let Some(karpenter) = std::env::var_os("KARPENTER") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join(".ci/start-time"));
    command.args(["--nodes", "1000", "--pods", "10000", "--one-cpu", "--healthy", "30", "--most-mib", "1024"]);
    let output = command.arg(karpenter).current_dir(&root).output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
