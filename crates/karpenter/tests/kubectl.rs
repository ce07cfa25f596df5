//! kubectl and helm at home: the same commands, run against `karpenter cluster` and against a real control plane, print
//! the same.
//!
//! `KUBECTL_DIR` holds the two programs, `REFERENCE_KUBECONFIG` leads to an empty real cluster without nodes; without them
//! there is nothing to compare and the test says so. Kubelets of ours run on both sides, so that what is compared is the
//! API server, the scheduler and the controllers. `KUBECTL_SCRIPTS=03,07` runs some scripts only.
//!
//! A script is a line per command, run by bash among `kubectl/files`. Words in front of a command:
//!
//! - `settled:` asks again until both sides say the same, for what comes about by itself;
//! - `last:` compares the last line only, for progress that depends on the moment;
//! - `sorted:` compares lines in any order.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "kubectl/normal.rs"]
mod normal;
#[path = "kubectl/side.rs"]
mod side;

use std::path::{Path, PathBuf};
use std::time::Duration;

use side::{Embedded, Reference, Side};

/// How often something that comes about by itself is asked for, and how long in between.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// A command with what stands in front of it.
struct Step {
    command: String,
    settled: bool,
    last: bool,
    sorted: bool,
}

impl Step {
    fn read(line: &str) -> Option<Self> {
        let mut step = Self { command: String::new(), settled: false, last: false, sorted: false };
        let mut rest = line.trim();
        loop {
            let word = ["settled: ", "last: ", "sorted: "].into_iter().find(|word| rest.starts_with(word));
            match word {
                Some("settled: ") => step.settled = true,
                Some("last: ") => step.last = true,
                Some(_) => step.sorted = true,
                None => break,
            }
            rest = &rest[word.map_or(0, str::len)..];
        }
        step.command = rest.to_owned();
        (!rest.is_empty() && !rest.starts_with('#')).then_some(step)
    }

    /// What a side answers, as far as it is compared.
    fn answer(&self, side: &Side, namespace: &str) -> String {
        let text = side.run(&self.command.replace("NAMESPACE", namespace), namespace);
        let mut lines: Vec<&str> = text.lines().collect();
        if self.last {
            // The exit status is the line after the last one printed.
            lines.drain(..lines.len().saturating_sub(2));
        }
        if self.sorted {
            lines.sort_unstable();
        }
        lines.join("\n")
    }

    /// Both answers at once, since waiting is most of it.
    fn answers(&self, sides: &[Side; 2], namespace: &str) -> [String; 2] {
        let mut answers = [String::new(), String::new()];
        for attempt in 0..ATTEMPTS {
            answers = std::thread::scope(|scope| {
                let asked = sides.each_ref().map(|side| scope.spawn(|| self.answer(side, namespace)));
                asked.map(|answer| answer.join().unwrap())
            });
            if answers[0] == answers[1] || !self.settled || attempt + 1 == ATTEMPTS {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        answers
    }
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl/scripts");
    let wanted = std::env::var("KUBECTL_SCRIPTS").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').collect();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| wanted.iter().any(|number| name_of(path).starts_with(number)));
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

#[test]
fn kubectl_and_helm_are_at_home() {
    let (Some(programs), Some(kubeconfig)) =
        (std::env::var_os("KUBECTL_DIR"), std::env::var_os("REFERENCE_KUBECONFIG"))
    else {
        eprintln!("passed over: no KUBECTL_DIR and REFERENCE_KUBECONFIG, so nothing to compare with");
        return;
    };
    let embedded = Embedded::start();
    let reference = Reference::furnish(Path::new(&kubeconfig));
    let sides = [
        Side::new("embedded", Path::new(&programs), &embedded.kubeconfig),
        Side::new("reference", Path::new(&programs), &reference.kubeconfig),
    ];
    let (mut commands, mut different) = (0, 0);
    for path in scripts() {
        let name = name_of(&path);
        println!("== {name}");
        for side in &sides {
            side.enter(&name);
        }
        for step in std::fs::read_to_string(&path).unwrap().lines().filter_map(Step::read) {
            commands += 1;
            let [own, real] = step.answers(&sides, &name);
            if own != real {
                different += 1;
                println!("-- {}\n{}", step.command, normal::difference(&own, &real));
            }
        }
    }
    println!("{commands} commands, {different} with different answers");
    assert!(commands > 0, "no script was found");
    assert_eq!(different, 0, "answers differ, see above");
}
