//! The one binary. Parses, chooses and calls; what the commands do lives beside it, one module each.

mod account;
mod bad_input;
mod catalogue;
mod cli;
mod cluster;
mod completions;
mod controller;
mod convert;
mod crds;
mod demo;
mod doctor;
mod hash;
mod iam;
mod import;
mod man;
mod plan;
mod settings;
mod simulate;
mod simulated;
mod terminal;
mod types;
mod version;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use bad_input::BadInput;
use cli::{Cli, Command};

/// A controller lives for months and simulations allocate all the time: a quarter less CPU than with the system's, and less is
/// held that nobody uses. How it is tuned stands in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Not locked: the demo's screen is drawn by a thread of its own.
    let mut out = io::BufWriter::new(io::stdout());
    let outcome = match Cli::parse().command {
        Command::Controller(args) => controller::run(&args, &mut out),
        Command::Demo(args) => demo::run(&args, &mut out),
        Command::Simulate(args) => simulate::run(&args, &mut out),
        Command::Plan(args) => plan::run(&args, &mut out),
        Command::Types(args) => types::run(&args, &mut out),
        Command::Hash(args) => hash::run(&args, &mut out),
        Command::Convert(args) => convert::run(&args, &mut out),
        Command::Import(args) => import::run(&args, &mut out),
        Command::Cluster(args) => cluster::run(&args, &mut out),
        Command::Crds(args) => crds::run(&args, &mut out),
        Command::Doctor(args) => doctor::run(&args, &mut out),
        Command::Catalogue(args) => catalogue::refresh::run(&args, &mut out),
        Command::Iam(args) => iam::run(&args, &mut out),
        Command::Completions(args) => completions::run(&args, &mut out),
        Command::Man(args) => man::run(&args, &mut out),
        Command::Version(args) => version::run(&args, &mut out),
    };
    let outcome = outcome.and_then(|code| out.flush().map(|()| code).map_err(Into::into));
    match outcome {
        Ok(code) => code,
        // Whoever reads our output may stop when they have seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            match error.downcast_ref::<BadInput>() {
                Some(BadInput(lines)) => lines.iter().for_each(|line| eprintln!("error: {line}")),
                None => eprintln!("error: {error:#}"),
            }
            ExitCode::from(bad_input::STATUS)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
