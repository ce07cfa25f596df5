//! Names that dashboards of old still ask for.

use std::fmt::Write as _;

use karpenter_controllers::Context;

const HISTOGRAM: &str = "karpenter_provisioner_scheduling_duration_seconds";
/// What both are made of.
const TODAY: &str = "karpenter_scheduler_scheduling_duration_seconds";
const PROVISIONER: &str = "controller=\"provisioner\"";

/// The provisioner's simulations: as a summary under the bare name that some dashboards have, and as a histogram under
/// the name of the releases before 1.0, from what the page has of them under today's.
pub(super) fn scheduling(context: &Context, page: &mut String) {
    context.metrics.choices.provisioner_scheduling().render(page);
    let mut histogram =
        format!("# HELP {HISTOGRAM} Duration of the provisioner's simulations\n# TYPE {HISTOGRAM} histogram\n");
    for line in page.lines().filter(|line| line.starts_with(TODAY) && line.contains(PROVISIONER)) {
        let renamed = line.replacen(TODAY, HISTOGRAM, 1);
        let without = renamed.replace(&format!(",{PROVISIONER}"), "").replace(&format!("{{{PROVISIONER}}}"), "");
        let _ = writeln!(histogram, "{}", without.replace(&format!("{PROVISIONER},"), ""));
    }
    page.push_str(&histogram);
}
