//! What people say about a simulated region.

use std::time::Duration;

use karpenter_aws_sim::{Capacity, Options, Rates, Region, Span};
use karpenter_controllers::Clock;
use karpenter_sim::machines;

/// Who plays the kubelets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kubelets {
    /// This process: nodes become ready and pods run
    Internal,
    /// kwok, or whoever looks after Nodes annotated kwok.x-k8s.io/node=fake
    External,
}

impl From<Kubelets> for machines::Kubelets {
    fn from(who: Kubelets) -> Self {
        match who {
            Kubelets::Internal => Self::Internal,
            Kubelets::External => Self::External,
        }
    }
}

/// What chance does to a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub(crate) seed: u64,
    /// A rough day, from this seed.
    pub(crate) faults: Option<u64>,
    /// Drawn for each machine unless given.
    pub(crate) boot_delay: Option<Duration>,
}

/// A region on paper.
pub(crate) fn options(region: &str, cluster: &str, fate: Fate) -> Options {
    let mut options = Options::new(region, fate.faults.unwrap_or(fate.seed), cluster);
    if let Some(delay) = fate.boot_delay {
        (options.boot, options.shutdown) = (Span::exactly(delay), Span::exactly(delay));
    }
    if fate.faults.is_some() {
        options.rates = Rates::ROUGH;
    } else {
        // On a good day whatever is asked for is there.
        options.capacity = Capacity::Unlimited;
    }
    options
}

pub(crate) fn region(options: Options, clock: &Clock) -> Region {
    let now = clock.clone();
    Region::new(options, std::sync::Arc::new(move || now.now()))
}

/// `--faults` and `--faults=SEED`: without a seed of its own, faults follow from the region's.
pub(crate) fn faults(given: Option<Option<u64>>, seed: u64) -> Option<u64> {
    given.map(|own| own.unwrap_or(seed))
}
