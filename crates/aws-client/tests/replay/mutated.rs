//! Answers that no AWS would give: recorded ones with pieces missing, doubled and odd. Whatever comes back is an answer or
//! an error, in time, and never half a thing. `FUZZ_SECONDS` makes it go on.

use std::time::{Duration, Instant};

use karpenter_provider_aws::calls::{
    CreateFleet, DescribeImages, DescribeInstances, DescribeLaunchTemplates, FleetKind,
};

use crate::server::{Server, read};

const FILES: [&str; 6] = [
    "ec2.DescribeLaunchTemplates.one.xml",
    "ec2.CreateFleet.errors.xml",
    "ec2.DescribeInstances.last.xml",
    "ec2.DescribeImages.two.xml",
    "sqs.ReceiveMessage.two.json",
    "ssm.GetParameter.public.json",
];
const CASES: usize = 25;

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

fn mutated(text: &str, chance: &mut Chance) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=chance.below(4) {
        let from = chance.below(chars.len() + 1);
        let to = (from + chance.below(60)).min(chars.len());
        match chance.below(4) {
            0 => drop(chars.drain(from..to)),
            1 => {
                let piece = chars[from..to].to_vec();
                chars.splice(from..from, piece);
            }
            2 => chars.insert(from, ['<', '>', '&', '\0', '"', '{', '}', '-', '9', '\u{fffd}'][chance.below(10)]),
            _ => {
                if let Some(held) = chars.get_mut(from) {
                    *held = char::from_u32(chance.below(0x250) as u32).unwrap_or('x');
                }
            }
        }
    }
    chars.into_iter().collect()
}

/// One call of the action that the file answers. An answer must be whole.
async fn ask(server: &Server, file: &str) {
    let aws = &server.connection.aws;
    match file.split('.').nth(1).unwrap() {
        "DescribeLaunchTemplates" => {
            let request = DescribeLaunchTemplates { names: vec!["x".to_owned()], ..Default::default() };
            for found in aws.ec2.describe_launch_templates(&request).await.unwrap_or_default() {
                assert!(!found.id.is_empty() && !found.name.is_empty(), "{found:?}");
            }
        }
        "CreateFleet" => {
            let request = CreateFleet {
                client_token: None,
                dry_run: true,
                kind: FleetKind::OnDemand,
                total: 1,
                configs: Vec::new(),
                tags: [].into(),
                context: None,
                prioritized: false,
            };
            let answer = aws.ec2.create_fleet(&request).await.unwrap_or_default();
            assert!(answer.instances.iter().flat_map(|found| &found.ids).all(|id| !id.is_empty()), "{answer:?}");
        }
        "DescribeInstances" => {
            let request = DescribeInstances { ids: vec!["i-1".to_owned()], ..Default::default() };
            for found in aws.ec2.describe_instances(&request).await.unwrap_or_default() {
                assert!(!found.id.is_empty(), "{found:?}");
            }
        }
        "DescribeImages" => {
            for found in aws.ec2.describe_images(&DescribeImages::default()).await.unwrap_or_default() {
                assert!(!found.id.is_empty(), "{found:?}");
            }
        }
        "ReceiveMessage" => {
            let request = karpenter_provider_aws::calls::ReceiveMessages {
                url: format!("{}/1/q", "http://queue"),
                at_most: 10,
                visibility: Duration::from_secs(20),
                wait: Duration::ZERO,
            };
            for found in aws.sqs.receive_messages(&request).await.unwrap_or_default() {
                assert!(!found.receipt_handle.is_empty(), "what cannot be deleted comes again by itself: {found:?}");
            }
        }
        "GetParameter" => drop(aws.ssm.get_parameter("/x").await),
        other => panic!("no call is made for {other}"),
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how long to go on is the one question that wants a clock")]
async fn no_answer_is_too_odd() {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let began = Instant::now();
    let mut chance = Chance(1);
    let mut rounds = 0_usize;
    while rounds == 0 || seconds.is_some_and(|seconds: u64| began.elapsed().as_secs() < seconds) {
        rounds += 1;
        for file in FILES {
            let (action, _, body) = read(file);
            let bodies: Vec<String> = (0..CASES).map(|_| mutated(&body, &mut chance)).collect();
            // Three times each, should an odd one be taken for a fault that passes.
            let answers: Vec<(&str, u16, &String)> =
                bodies.iter().flat_map(|body| [(action.as_str(), 200, body); 3]).collect();
            let server = Server::answering(&answers).await;
            for _ in 0..CASES {
                let done = tokio::time::timeout(Duration::from_secs(60), ask(&server, file)).await;
                assert!(done.is_ok(), "{file}, round {rounds}: no end");
            }
        }
    }
    println!("{} mutated answers, nothing found", rounds * FILES.len() * CASES);
}
