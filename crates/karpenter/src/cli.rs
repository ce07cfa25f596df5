//! The command line.

use clap::{Parser, Subcommand};

use crate::{
    catalogue, cluster, completions, controller, convert, crds, demo, doctor, hash, iam, import, man, plan, simulate,
    types, version,
};

/// Karpenter: nodes for Kubernetes on AWS, just in time.
#[derive(Debug, Parser)]
#[command(name = "karpenter", version, propagate_version = true, max_term_width = 120)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Controller(Box<controller::Args>),
    Demo(demo::Args),
    Simulate(simulate::Args),
    Plan(plan::Args),
    Types(types::Args),
    Hash(hash::Args),
    Convert(convert::Args),
    Import(import::Args),
    Cluster(cluster::Args),
    Crds(crds::Args),
    Iam(Box<iam::Args>),
    Doctor(doctor::Args),
    Catalogue(catalogue::refresh::Args),
    Completions(completions::Args),
    Man(man::Args),
    Version(version::Args),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
