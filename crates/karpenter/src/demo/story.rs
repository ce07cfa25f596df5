//! A script of one's own: one step on each line.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::happenings::Happening;
use crate::bad_input::BadInput;
use crate::settings::duration;

/// What `--help` says of it.
pub(crate) const HELP: &str = "Steps of a --script, one on each line; # begins a comment:
  scale NAME N      a Deployment, StatefulSet or ReplicaSet of the manifests
  until running     every pod has run
  wait 30s          by the world's clock
  drift [POOL]      a template changes, or that of all pools
  expire [2m]       nodes come that live for so long; the next expire ends that
  reclaim [N]       EC2 wants spot instances back";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Scale { name: String, replicas: i64 },
    UntilRunning,
    Wait(Duration),
    Happening(Happening),
}

/// A step and where it is written.
pub(crate) type Placed = (String, Step);

pub(crate) fn read(file: &Path) -> anyhow::Result<Vec<Placed>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("--script: cannot read {}", file.display()))?;
    Ok(parse(&file.display().to_string(), &text).map_err(BadInput)?)
}

/// Every line that cannot be read is told.
fn parse(name: &str, text: &str) -> Result<Vec<Placed>, Vec<String>> {
    let (mut steps, mut faults) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        let place = format!("{name}:{}", at + 1);
        match step(&words) {
            None => {}
            Some(Ok(step)) => steps.push((place, step)),
            Some(Err(why)) => faults.push(format!("{place}: {why}")),
        }
    }
    if faults.is_empty() { Ok(steps) } else { Err(faults) }
}

fn step(words: &[&str]) -> Option<Result<Step, String>> {
    let happening = |happening| Ok(Step::Happening(happening));
    Some(match words {
        [] => return None,
        ["scale", name, count] => match count.parse() {
            Ok(replicas) if replicas >= 0 => Ok(Step::Scale { name: (*name).to_owned(), replicas }),
            _ => Err(format!("scale: {count} is no number of replicas")),
        },
        ["until", "running"] => Ok(Step::UntilRunning),
        ["wait", time] => duration(time).map(Step::Wait).map_err(|why| format!("wait: {time}: {why}")),
        ["drift"] => happening(Happening::Drift(None)),
        ["drift", pool] => happening(Happening::Drift(Some((*pool).to_owned()))),
        ["expire"] => happening(Happening::Expiry(None)),
        ["expire", life] => match duration(life) {
            Ok(_) => happening(Happening::Expiry(Some((*life).to_owned()))),
            Err(why) => Err(format!("expire: {life}: {why}")),
        },
        ["reclaim"] => happening(Happening::Reclaim(1)),
        ["reclaim", count] => match count.parse() {
            Ok(count) => happening(Happening::Reclaim(count)),
            Err(_) => Err(format!("reclaim: {count} is no number of instances")),
        },
        [word, ..] => Err(format!("{word}: no such step, or not with these words; see karpenter demo --help")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_line_by_line_and_every_fault_is_told() {
        let text = "scale web 12 # up\n\nuntil running\nwait 1m30s\ndrift\ndrift blue\nexpire 90s\nreclaim 2\n";
        let steps: Vec<Step> = parse("s", text).unwrap().into_iter().map(|(_, step)| step).collect();
        let want = [
            Step::Scale { name: "web".to_owned(), replicas: 12 },
            Step::UntilRunning,
            Step::Wait(Duration::from_secs(90)),
            Step::Happening(Happening::Drift(None)),
            Step::Happening(Happening::Drift(Some("blue".to_owned()))),
            Step::Happening(Happening::Expiry(Some("90s".to_owned()))),
            Step::Happening(Happening::Reclaim(2)),
        ];
        assert_eq!(steps, want);
        let faults = parse("s", "scale web -1\nuntil running\nwait 5\nreclaim all\ndance\n").unwrap_err();
        let said: Vec<&str> = faults.iter().map(|fault| fault.split(':').nth(1).unwrap()).collect();
        assert_eq!(said, ["1", "3", "4", "5"], "{faults:?}");
    }
}
