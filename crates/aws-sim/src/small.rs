//! A region for tests of single components: little of everything, always the same, and a record of what it was asked.
//!
//! Refusals of pools, errors that strike once and lost answers are scripted as in any region ([`crate::Script`]). Pages
//! are not: what comes in pages is put together by the client, below the calls that a region answers.

use std::sync::Arc;

use karpenter_ec2::catalogue::{Gpu, RegionFacts, TypeFacts, builtin};
use karpenter_provider_aws::calls::{SecurityGroup, Tags};

use crate::chance::Span;
use crate::options::{Capacity, Options};

/// One or two of every sort that is treated differently somewhere.
const TYPES: [&str; 17] = [
    "c6g.large",
    "g4ad.16xlarge",
    "g4dn.8xlarge",
    "g5.12xlarge",
    "inf2.24xlarge",
    "inf2.xlarge",
    "m5.large",
    "m5.metal",
    "m5.xlarge",
    "m6idn.32xlarge",
    "m7i-flex.large",
    "p5.48xlarge",
    "t3.large",
    "t4g.medium",
    "t4g.small",
    "t4g.xlarge",
    "trn1.2xlarge",
];

const ZONES: [(&str, &str); 3] =
    [("test-zone-1a", "tstz1-1a"), ("test-zone-1b", "tstz1-1b"), ("test-zone-1c", "tstz1-1c")];
const LOCAL_ZONE: (&str, &str) = ("test-zone-1a-local", "tstz1-1alocal");
const REGION: &str = "us-west-2";

impl Options {
    /// Three zones and a local one, with a subnet of a hundred addresses each; three security groups; `TYPES`. It answers
    /// at once, never runs out, tells no prices and remembers every request.
    pub fn small(seed: u64) -> Self {
        let mut catalogue = builtin::catalogue().clone();
        // The catalogue does not know it; but for its GPUs and disks it is as large as its sister.
        let sister = catalogue.find("g4dn.16xlarge").expect("the built-in catalogue has the whole family").clone();
        let gpu = Gpu { name: "radeon-pro-v520".into(), manufacturer: "AMD".into(), count: 4, memory_mib: 8192 };
        let name = "g4ad.16xlarge".into();
        catalogue.types.push(TypeFacts { name, gpus: vec![gpu], local_disk_gb: 2400, ..sister });
        catalogue.types.retain(|facts| TYPES.contains(&&*facts.name));
        catalogue.types.sort_by(|a, b| a.name.cmp(&b.name));
        let zone_names = Arc::new(ZONES.map(|(name, _)| Arc::from(name)).into());
        let facts = RegionFacts {
            zones: ZONES.into_iter().chain([LOCAL_ZONE]).map(|(name, id)| (name.into(), id.into())).collect(),
            offered: TYPES.map(|name| (Arc::from(name), Arc::clone(&zone_names))).into(),
            ..RegionFacts::default()
        };
        catalogue.regions = [(REGION.to_owned(), facts)].into();
        let group = |number: usize| SecurityGroup {
            id: format!("sg-test{number}"),
            name: format!("securityGroup-test{number}"),
            tags: Tags::from([
                ("Name".to_owned(), format!("test-security-group-{number}")),
                ("foo".to_owned(), "bar".to_owned()),
            ]),
        };
        Self {
            catalogue: Arc::new(catalogue),
            zones: ZONES.len() + 1,
            subnet_addresses: 100,
            capacity: Capacity::Unlimited,
            latency: Span::ZERO,
            staleness: Span::ZERO,
            groups: (1..=3).map(group).collect(),
            prices: false,
            recorded: true,
            ..Self::new(REGION, seed, "test-cluster")
        }
    }
}
