//! `karpenter demo`.

mod happenings;
mod ledger;
mod manifests;
mod pace;
mod reporter;
mod screen;
mod script;
mod stage;
mod story;
mod summary;
mod view;
mod world;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use karpenter_apiserver::{Clock as _, SystemClock, clear_kubeconfig};
use karpenter_runtime::log::{self, Format, Log, Threshold};

use crate::cluster::{End, Kubeconfig, quoted};
use crate::simulated::{self, Fate};
use happenings::Happening;
use manifests::{Manifests, Part};
use pace::Speed;
use script::Outcome;
use stage::{LineKind, Stage};
use story::Placed;
use summary::Summary;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use world::World;

/// The script takes some six minutes of the world's time.
const DEFAULT_SPEED: f64 = 6.0;
/// The world starts this far in the past, so that running faster than the wall does not take it into the future, where
/// kubectl would show ages it does not believe itself.
const HEAD_START: Duration = Duration::from_secs(6 * 60);
const GLANCE: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "Examples:
  karpenter demo                              # about a minute
  karpenter demo --speed 1                    # in real time
  karpenter demo -f my-deployment.yaml        # your own workload; NodePool and node class are ours unless you bring them
  karpenter demo --faults=7                   # a rough day: stock-outs, throttling, dead machines, spot reclaims
  karpenter demo --script roll.txt            # your own story; its steps are below
  karpenter demo --serve --kubeconfig kc.yaml # a cluster to play with, without the script
  karpenter demo -o json | jq .usd";

/// Watch an autoscaler at work: a whole cluster in this process, nothing installed, nothing bought
///
/// An API server, a scheduler, kubelets and a simulated AWS region, all in memory, and in them the very controllers that
/// run on EKS. A workload appears, grows, shrinks and goes away, and nodes are bought and given back for it. kubectl works
/// against it. On a terminal it runs until q, and d, e and r make nodes drift, expire and be reclaimed; otherwise it prints a timeline and ends by itself: with status 0, or 1 if a
/// pod never ran or a node stayed.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", story::HELP))]
pub(crate) struct Args {
    /// Write a kubeconfig here once the cluster is ready; a temporary file unless given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Port on 127.0.0.1; a free one unless given
    #[arg(long, value_name = "P", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// No script: stay up and wait for what you do with kubectl
    #[arg(long)]
    serve: bool,
    /// Decides names, prices, delays and ties
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// How many times as fast as real time [default: 6, so that the script lasts about a minute; 1 with --serve]
    #[arg(long, value_name = "N", value_parser = speed)]
    speed: Option<f64>,
    /// Your own manifests in place of the demo's workload: files, folders, or - for standard input
    #[arg(short, long = "filename", value_name = "PATH")]
    filename: Vec<PathBuf>,
    /// A rough day: stock-outs, throttling, dead machines, spot reclaims; from the seed given, or else from --seed
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true)]
    faults: Option<Option<u64>>,
    /// Your own story between the workload's coming and its going, in place of growing and shrinking
    #[arg(long, value_name = "FILE", conflicts_with = "serve")]
    script: Option<PathBuf>,
    /// json: only a summary, as one object
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
    /// Append the controllers' log lines to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Json,
}

/// How much is said, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    Screen,
    Timeline,
    Json,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let audience = match args.output {
        Some(Output::Json) => Audience::Json,
        None if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() => Audience::Screen,
        None => Audience::Timeline,
    };
    let manifests = Manifests::read(&args.filename)?;
    let story = args.script.as_deref().map(story::read).transpose()?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().context("cannot start the demo")?;
    let outcome = runtime.block_on(live(args, audience, &manifests, story.as_deref(), out));
    // Whoever still watches would otherwise be waited for.
    runtime.shutdown_background();
    outcome
}

async fn live(
    args: &Args,
    audience: Audience,
    manifests: &Manifests,
    story: Option<&[Placed]>,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let mut end = End::new()?;
    let usual = if args.serve { 1.0 } else { DEFAULT_SPEED };
    let speed = Speed::new(args.speed.unwrap_or(usual));
    let _pacer = Pacer(tokio::spawn(pace::pace(speed.clone())));
    let start = start_time(speed.times());
    if let Some(file) = &args.log {
        keep_log(file, start)?;
    }
    let fate = Fate { seed: args.seed, faults: simulated::faults(args.faults, args.seed), boot_delay: None };
    if let Some(old) = &args.kubeconfig {
        // Whoever waits for the file must not find the one of a cluster that is gone.
        clear_kubeconfig(old)?;
    }
    let world = World::start(args.port, fate, start).await?;
    let kubeconfig = Kubeconfig::write(&world.listening, args.kubeconfig.as_deref())?;
    let export = format!("export KUBECONFIG={}", quoted(&kubeconfig.path().display().to_string()));
    let stage = Stage::new(&export);
    if audience == Audience::Timeline {
        writeln!(out, "# Kubernetes on {}, buying in a simulated us-east-1\n{export}", world.listening.url())?;
        out.flush()?;
    }
    let (keys, mut pressed) = tokio::sync::mpsc::unbounded_channel();
    let ended = tokio::select! {
        () = end.asked_for() => Ending::Interrupted,
        () = heed(&world, &stage, &mut pressed) => Ending::Interrupted,
        () = reporter::report(&world, &stage) => Ending::Interrupted,
        left = watch(audience, &stage, keys, out) => { left?; Ending::Interrupted }
        ended = perform(args, audience, &world, &stage, (manifests, story), &speed) => ended?,
    };
    match ended {
        Ending::Interrupted => {
            if audience == Audience::Screen {
                // The screen is gone with all that was on it.
                let summary = stage.shown().summary;
                let summary = summary.unwrap_or_else(|| Summary::of(&world, Outcome::default()).text());
                writeln!(out, "{summary}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Ending::Over(summary) => {
            flush_timeline(audience, &stage, out)?;
            match audience {
                Audience::Json => writeln!(out, "{}", summary.json())?,
                Audience::Timeline | Audience::Screen => writeln!(out, "\n{}", summary.text())?,
            }
            if audience == Audience::Json {
                summary.violations.iter().for_each(|violation| eprintln!("violation: {violation}"));
            }
            Ok(if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

enum Ending {
    Interrupted,
    Over(Box<Summary>),
}

/// The script; on a terminal the world goes on after it, in real time.
async fn perform(
    args: &Args,
    audience: Audience,
    world: &World,
    stage: &Stage,
    (manifests, story): (&Manifests, Option<&[Placed]>),
    speed: &Speed,
) -> anyhow::Result<Ending> {
    if args.serve {
        if !args.filename.is_empty() {
            manifests.apply(&world.client, Part::Supply).await?;
            manifests.apply(&world.client, Part::Workload).await?;
        }
        stage.step("serving; apply a NodePool and a workload with kubectl");
        std::future::pending::<()>().await;
    }
    let outcome: Outcome = script::play(world, stage, manifests, story).await?;
    let verdict =
        if outcome.is_good() { "the end: every pod ran, and no node is left" } else { "the end, and not a good one" };
    // What was bought since the last look counts, too.
    world.ledger.bought(world.region.instances().into_iter().map(|one| one.instance.id));
    let summary = Summary::of(world, outcome);
    stage.step(verdict);
    if audience != Audience::Screen {
        return Ok(Ending::Over(Box::new(summary)));
    }
    stage.finish(summary.text());
    speed.set(1.0);
    std::future::pending().await
}

/// Does what somebody at the keyboard wants to see.
async fn heed(world: &World, stage: &Stage, pressed: &mut UnboundedReceiver<Happening>) {
    while let Some(happening) = pressed.recv().await {
        if let Err(error) = happening.happen(world, stage).await {
            stage.step(&format!("that did not work: {error:#}"));
        }
    }
    std::future::pending().await
}

/// Shows what is to be seen, for as long as somebody looks.
async fn watch(
    audience: Audience,
    stage: &Stage,
    keys: UnboundedSender<Happening>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match audience {
        Audience::Screen => {
            let (stage, (done, left)) = (stage.clone(), tokio::sync::oneshot::channel());
            // Not one of tokio's blocking threads: those hold the clock still.
            std::thread::spawn(move || {
                let outcome = screen::show(&stage, &keys, &|| done.is_closed());
                let _ = done.send(outcome);
            });
            left.await.context("the screen went dark")?.context("the terminal does not work")
        }
        Audience::Timeline | Audience::Json => loop {
            flush_timeline(audience, stage, out)?;
            tokio::time::sleep(GLANCE).await;
        },
    }
}

fn flush_timeline(audience: Audience, stage: &Stage, out: &mut dyn Write) -> anyhow::Result<()> {
    let lines = stage.take_unread();
    if audience != Audience::Timeline || lines.is_empty() {
        return Ok(());
    }
    for line in lines {
        let seconds = line.at.as_secs();
        let (gap, mark) = match line.kind {
            LineKind::Step => ("\n", "=="),
            LineKind::Decision => ("", "->"),
            LineKind::Node | LineKind::Pods => ("", "  "),
        };
        writeln!(out, "{gap}{:>3}:{:02}  {mark} {}", seconds / 60, seconds % 60, line.text)?;
    }
    out.flush()?;
    Ok(())
}

fn start_time(speed: f64) -> Timestamp {
    let now = SystemClock.now();
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    if speed > 1.0 { whole.checked_sub(HEAD_START).unwrap_or(whole) } else { whole }
}

fn keep_log(file: &std::path::Path, start: Timestamp) -> anyhow::Result<()> {
    let outputs = log::outputs(&file.display().to_string()).context("--log")?;
    let clock = karpenter_controllers::Clock::starting_at(start);
    let log = Log::new(Threshold::Debug, Format::Json, clock, outputs);
    log.install().context("cannot start logging")
}

/// Time stands still when nobody paces it.
struct Pacer(tokio::task::JoinHandle<()>);

impl Drop for Pacer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let times: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if times > 0.0 && times <= 100_000.0 { Ok(times) } else { Err("it must be above 0 and at most 100000".to_owned()) }
}
