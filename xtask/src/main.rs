//! `cargo xtask`: makes the generated files of the repository, tells when one is stale, and checks what compilers do not.

use clap::{Parser, Subcommand};

mod catalogue;
mod crds;
mod tidy;
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
    /// Write the CustomResourceDefinitions of the charts anew
    Crds,
    /// Fail if a generated file is not what its generator would write, as far as that can be told offline
    Check,
    /// Fail if a tracked file is part of nothing, names a machine, or breaks the fences between crates
    Tidy,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Catalogue => catalogue::make(),
        Task::Crds => crds::make(),
        Task::Check => catalogue::check().and_then(|()| crds::check()),
        Task::Tidy => tidy::check(),
    }
}
