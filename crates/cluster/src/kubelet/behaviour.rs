//! What a container does, read from its pod. Nothing is executed; but `sleep 30`, `false` and the like say how long it
//! would run and how it would end, and annotations say so for everything else.

use super::Settings;
use crate::key::{annotation, controller_of};
use k8s_openapi::api::core::v1::{Container, Pod};
use std::time::Duration;

/// Seconds every main container of the pod runs.
pub const RUN_SECONDS: &str = "kubelet.simulation/run-seconds";
/// The exit code of every main container that ends.
pub const EXIT_CODE: &str = "kubelet.simulation/exit-code";

/// How a container ends, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub after: Duration,
    pub code: i32,
}

/// The end of a main container, counted from its start.
pub fn of_main(pod: &Pod, container: &Container, settings: &Settings) -> Option<End> {
    let number = |key: &str| annotation(&pod.metadata, key).and_then(|v| v.parse::<u64>().ok());
    let code = number(EXIT_CODE).map(|c| c as i32);
    if let Some(seconds) = number(RUN_SECONDS) {
        return Some(End { after: Duration::from_secs(seconds), code: code.unwrap_or(0) });
    }
    match read_command(container) {
        Command::Ends(end) => Some(end),
        Command::RunsForEver => None,
        Command::Unknown => {
            let of_job = controller_of(&pod.metadata).is_some_and(|o| o.kind == "Job");
            let name = crate::key::name(&pod.metadata);
            let words = ["job", crate::key::namespace(&pod.metadata), name, &container.name];
            (of_job || code.is_some())
                .then(|| End { after: settings.job_run.draw(settings.seed, &words), code: code.unwrap_or(0) })
        }
    }
}

/// The end of an init container, which always has one.
pub fn of_init(pod: &Pod, container: &Container, settings: &Settings) -> End {
    let words = ["init", crate::key::namespace(&pod.metadata), crate::key::name(&pod.metadata), &container.name];
    match read_command(container) {
        Command::Ends(end) => end,
        Command::RunsForEver | Command::Unknown => {
            End { after: settings.init_run.draw(settings.seed, &words), code: 0 }
        }
    }
}

enum Command {
    Ends(End),
    RunsForEver,
    Unknown,
}

fn read_command(container: &Container) -> Command {
    let words: Vec<&str> =
        container.command.iter().flatten().chain(container.args.iter().flatten()).map(String::as_str).collect();
    let script = match words.as_slice() {
        [shell, "-c", script, ..] if shell.ends_with("sh") => (*script).to_owned(),
        [] => return Command::Unknown,
        plain => plain.join(" "),
    };
    read_script(&script)
}

/// Understands sleeps, exits, `true`, `false` and `echo`; anything else makes the whole script unknown.
fn read_script(script: &str) -> Command {
    let mut after = Duration::ZERO;
    for line in script.split([';', '\n', '&']).map(str::trim).filter(|l| !l.is_empty()) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("sleep"), Some("infinity" | "inf")) => return Command::RunsForEver,
            (Some("sleep"), Some(seconds)) => match seconds.trim_end_matches('s').parse::<f64>() {
                Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => {
                    after += Duration::from_secs_f64(seconds.min(1e9))
                }
                _ => return Command::Unknown,
            },
            (Some("exit"), code) => {
                return Command::Ends(End { after, code: code.and_then(|c| c.parse().ok()).unwrap_or(0) });
            }
            (Some("false" | "/bin/false"), None) => return Command::Ends(End { after, code: 1 }),
            (Some("true" | "/bin/true" | "echo" | ":"), _) => {}
            _ => return Command::Unknown,
        }
    }
    Command::Ends(End { after, code: 0 })
}
