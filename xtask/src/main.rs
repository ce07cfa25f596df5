//! `cargo xtask`: makes the generated files of the repository, and tells when one is stale.

use clap::{Parser, Subcommand};

mod catalogue;
mod workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Makes and checks generated files")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Make crates/ec2/data/catalogue.txt anew from packages on the registries (needs the network, pip and go)
    Catalogue,
    /// Fail if a generated file is not what its generator would write, as far as that can be told offline
    Check,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Catalogue => catalogue::make(),
        Task::Check => catalogue::check(),
    }
}
