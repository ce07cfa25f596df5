//! Where the time goes: `/debug/pprof/profile`, in the format that `go tool pprof` reads.
//!
//! Only with `--enable-profiling`. Stacks are sampled a hundred times a second of CPU time; there is no garbage collector,
//! so there are no heap profiles.

mod proto;

use std::time::Duration;

use pprof::ProfilerGuardBuilder;

pub(crate) const INDEX: &str = "/debug/pprof/\n\nprofile?seconds=N   CPU time of the next N seconds (30), for go tool pprof\n\
     cmdline             how this was started\n";

const FREQUENCY: i32 = 100;
/// As upstream's server has it.
const DEFAULT: Duration = Duration::from_secs(30);
/// Longer than this nobody waits.
const LONGEST: Duration = Duration::from_secs(600);

/// The CPU profile of the next while. One at a time: a second one is told to come later.
pub(crate) async fn cpu(query: &str) -> Result<Vec<u8>, String> {
    let guard = ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        // Unwinding from within these may deadlock.
        .blocklist(&["libc", "libgcc", "pthread", "vdso"])
        .build()
        .map_err(|error| format!("cannot profile now: {error}"))?;
    let wanted = wanted(query);
    tokio::time::sleep(wanted).await;
    let report = guard.report().build().map_err(|error| format!("cannot make a report: {error}"))?;
    let stacks = report.data.iter().map(|(frames, count)| {
        let frame = |symbol: &pprof::Symbol| proto::Frame {
            function: symbol.name(),
            file: symbol.filename().into_owned(),
            line: i64::from(symbol.lineno()),
        };
        proto::Stack {
            frames: frames.frames.iter().flatten().map(frame).collect(),
            count: i64::try_from(*count).unwrap_or(i64::MAX),
        }
    });
    Ok(proto::encode(stacks, wanted, i64::from(FREQUENCY)))
}

fn wanted(query: &str) -> Duration {
    let given = query.split('&').find_map(|part| part.strip_prefix("seconds=")?.parse().ok());
    given.map_or(DEFAULT, Duration::from_secs).min(LONGEST)
}

pub(crate) fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join("\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_says_how_long() {
        for (query, want) in
            [("", 30), ("seconds=5", 5), ("debug=1&seconds=7", 7), ("seconds=x", 30), ("seconds=99999", 600)]
        {
            assert_eq!(wanted(query).as_secs(), want, "{query}");
        }
    }
}
