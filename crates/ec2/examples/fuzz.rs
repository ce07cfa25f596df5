//! The invariants of `tests/merges` on mutated input, for as long as one likes: `cargo run --release -p karpenter-ec2
//! --example fuzz -- SECONDS [SEED]`. The seed and the number of the case are the whole bug report.

#[path = "../tests/merges/invariants.rs"]
mod invariants;

use std::time::{Duration, Instant};

/// A name, what must hold, and what mutations begin with.
type Target = (&'static str, fn(&str), &'static [&'static str]);

const TARGETS: [Target; 3] = [
    (
        "queue messages",
        invariants::message,
        &[
            r#"{"version":"0","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","time":"2026-01-02T03:04:05Z","detail":{"instance-id":"i-1"}}"#,
            r#"{"version":"0","source":"aws.health","detail-type":"AWS Health Event","detail":{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"i-1"}]}}"#,
            r#"{"version":"0","source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-1","state":"stopping"}}"#,
        ],
    ),
    (
        "user data",
        invariants::user_data,
        &[
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: text/x-shellscript\n\n#!/bin/bash\n--b\nContent-Transfer-Encoding: quoted-printable\n\na=3Db=\nc\n--b--\n",
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 5\n",
            "[settings.kubernetes]\nmax-pods = 5\nkube-api-qps = 30\n[settings.kubernetes.node-labels]\na = 'b'\n[settings.ntp]\ntime-servers = []\n",
            "#!/bin/bash\necho hi\n",
        ],
    ),
    ("image names", invariants::image, &["v20250505", "bottlerocket-aws-k8s-1.31-x86_64-v1.46.0-12345", "1.2.3"]),
];

#[expect(clippy::disallowed_methods, reason = "how long to go on is the one question that wants a clock")]
fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    let (seconds, seed) = (args.next().unwrap_or(10), args.next().unwrap_or(1));
    for (name, check, texts) in TARGETS {
        let (end, mut chance, mut cases) = (Instant::now() + Duration::from_secs(seconds), Chance(seed), 0_u64);
        while Instant::now() < end {
            for _ in 0..1000 {
                cases += 1;
                let text = mutated(texts, &mut chance);
                let outcome = std::panic::catch_unwind(|| check(&text));
                assert!(outcome.is_ok(), "{name}: seed {seed}, case {cases}: {text:?}");
            }
        }
        println!("{name}: {cases} cases, nothing found");
    }
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap_or(0)
    }
}

/// A text with a few pieces taken out, doubled, swapped in from another, or made odd.
fn mutated(texts: &[&str], chance: &mut Chance) -> String {
    let mut chars: Vec<char> = texts[chance.below(texts.len())].chars().collect();
    for _ in 0..=chance.below(6) {
        let (from, to) = (chance.below(chars.len() + 1), chance.below(chars.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        let to = to.min(from + 1 + chance.below(20)).min(chars.len());
        match chance.below(5) {
            0 => drop(chars.drain(from..to)),
            1 => {
                let piece: Vec<char> = chars[from..to].to_vec();
                chars.splice(from..from, piece);
            }
            2 => {
                let other: Vec<char> = texts[chance.below(texts.len())].chars().collect();
                let start = chance.below(other.len());
                let piece = other[start..(start + chance.below(30)).min(other.len())].to_vec();
                chars.splice(from..to, piece);
            }
            3 => {
                const ODD: [char; 14] =
                    ['"', '\\', '\n', '\r', '\0', '=', '-', '{', '[', ':', ' ', '%', '\u{fffd}', '9'];
                chars.insert(from, ODD[chance.below(ODD.len())]);
            }
            _ => {
                if let Some(held) = chars.get_mut(from) {
                    *held = char::from_u32(chance.below(0x250) as u32).unwrap_or('x');
                }
            }
        }
    }
    chars.into_iter().collect()
}
