//! What goes wrong, and when: drawn from the seed, so many times each, over the whole season.

use std::time::Duration;

use karpenter_apiserver::{Effect, Fault};
use karpenter_aws_sim::chance::{between, draw};
use karpenter_aws_sim::{Rates, Region, Script, SimInstance, Target, Warning};
use karpenter_provider_aws::calls::InstanceState;

use crate::unreadable::{self, Target as Object};
use crate::world::World;

/// Every kind of trouble that is started by hand comes so often in a week.
const TIMES: u64 = 30;
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// EC2 takes a spot instance back this long after it said so.
const NOTICE: Duration = Duration::from_secs(120);

/// What happens to a region by itself.
pub const RATES: Rates = Rates {
    throttled: 0.02,
    server_faults: 0.01,
    refused_pools: 0.05,
    partial_fleets: 0.9,
    dead_machines: 0.03,
    slow_machines: 0.05,
    spot_reclaims_per_hour: 0.01,
    health_events_per_day: 0.05,
    stops_per_day: 0.05,
    lost_templates: 0.03,
};

/// One thing that is made to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Some pool of the region refuses, with one of the codes.
    Pool,
    Subnet,
    Reservation,
    /// A call is refused, or breaks.
    Call,
    ServerFault,
    /// A call succeeds and nobody hears of it.
    LostAnswer,
    Message(Warning),
    /// A spot instance is taken back, and no warning came.
    Reclaim,
    DropWatches,
    ExpireWatches,
    Compact,
    /// The controllers die and come back.
    Restart,
    /// The connections of watches are forgotten on the way. They stay open and say nothing.
    ForgetWatches,
    /// New watches say nothing either, for a while.
    MuteWatches,
    /// Nothing that is asked is answered, for a while.
    LoseRequests,
    /// An object comes in a shape of a later Kubernetes.
    Unreadable(Object),
    /// A computation takes long.
    StallSolve,
    /// The lease cannot be renewed.
    CutLease,
}

impl Trouble {
    pub const ALL: [Self; 26] = [
        Self::Pool,
        Self::Subnet,
        Self::Reservation,
        Self::Call,
        Self::ServerFault,
        Self::LostAnswer,
        Self::Message(Warning::SpotInterruption),
        Self::Message(Warning::RebalanceRecommendation),
        Self::Message(Warning::ScheduledChange),
        Self::Message(Warning::Stopping),
        Self::Message(Warning::Terminated),
        Self::Message(Warning::CapacityReservation),
        Self::Reclaim,
        Self::DropWatches,
        Self::ExpireWatches,
        Self::Compact,
        Self::Restart,
        Self::ForgetWatches,
        Self::MuteWatches,
        Self::LoseRequests,
        Self::Unreadable(Object::Pod),
        Self::Unreadable(Object::Node),
        Self::Unreadable(Object::NodeClaim),
        Self::Unreadable(Object::NodePool),
        Self::StallSolve,
        Self::CutLease,
    ];

    fn name(self) -> String {
        format!("{self:?}")
    }
}

/// When what goes wrong in a season of this length.
pub(crate) fn plan(seed: u64, length: Duration) -> Vec<(Duration, Trouble)> {
    let share = length.as_secs_f64() / WEEK.as_secs_f64();
    let times = (TIMES as f64 * share).ceil() as u64;
    let seconds = length.as_secs();
    let mut all = Vec::new();
    for trouble in Trouble::ALL {
        for nth in 0..times {
            let words = ["trouble", &trouble.name(), &nth.to_string()];
            all.push((Duration::from_millis(between(seed, &words, 0, seconds * 1000)), trouble));
        }
    }
    all
}

/// Of a thousand requests so many arrive late.
pub(crate) const LATE_REQUESTS: u64 = 3;

/// Faults of the API server that last the whole season.
pub(crate) fn faults() -> Vec<Fault> {
    let fault = |methods: &[&str], per_mille, effect| Fault {
        methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        path_contains: String::new(),
        per_mille,
        times: None,
        effect,
    };
    vec![
        fault(&["PATCH", "PUT", "DELETE"], 5, Effect::Conflict),
        fault(&["POST", "PATCH", "GET", "DELETE"], 2, Effect::InternalError),
        fault(&["POST", "PATCH", "PUT"], 2, Effect::TooManyRequests { retry_after_seconds: 1 }),
        fault(&[], 2, Effect::Unavailable),
        fault(&["POST", "PATCH", "PUT", "DELETE"], 2, Effect::Timeout),
    ]
}

/// Codes with which a pool may refuse.
const POOL_CODES: [&str; 4] =
    ["InsufficientInstanceCapacity", "UnfulfillableCapacity", "Unsupported", "MaxSpotInstanceCountExceeded"];
/// Calls that are made often enough to be broken.
const CALLS: [&str; 5] =
    ["CreateFleet", "DescribeInstances", "TerminateInstances", "CreateTags", "CreateLaunchTemplate"];
const REFUSALS: [&str; 3] = ["RequestLimitExceeded", "UnauthorizedOperation", "ServiceUnavailable"];

/// Collections whose watches go silent; the last is all of them.
const WATCHED: [&str; 8] =
    ["/pods", "/nodes", "/nodeclaims", "/nodepools", "/poddisruptionbudgets", "/ec2nodeclasses", "/nodeoverlays", ""];
/// How long silence, a missing answer, a computation, a lease that is not renewed, and an odd object last, in seconds.
const MUTE: (u64, u64) = (10, 240);
const UNANSWERED: (u64, u64) = (3, 45);
const STALL: (u64, u64) = (10, 150);
/// Longer than it takes to lose it.
const CUT: (u64, u64) = (15, 40);
const ODD: (u64, u64) = (300, 1200);

/// Makes it happen. What follows from it later is answered.
pub(crate) async fn strike(world: &mut World, seed: u64, nth: u64, trouble: Trouble) -> Option<(Duration, Strike)> {
    let word = nth.to_string();
    let pick = |count: usize, kind: &str| (draw(seed, &[kind, &word]) % count.max(1) as u64) as usize;
    let lasts = |range: (u64, u64)| Duration::from_secs(between(seed, &["lasts", &word], range.0, range.1));
    let region = &world.region;
    let script = |target: Target, code: &str| region.script(Script::new(target, code, 1));
    match trouble {
        Trouble::Pool => {
            let any = Target::Pool { class: None, instance_type: None, zone: None };
            script(any, POOL_CODES[pick(POOL_CODES.len(), "code")]);
        }
        Trouble::Subnet => {
            let mut subnets: Vec<String> =
                region.instances().into_iter().filter_map(|one| one.instance.subnet_id).collect();
            subnets.sort();
            subnets.dedup();
            if let Some(subnet) = subnets.get(pick(subnets.len(), "subnet")) {
                script(Target::Subnet(subnet.clone()), "InsufficientFreeAddressesInSubnet");
            }
        }
        Trouble::Reservation => {
            let all = &region.options().reservations;
            if let Some(one) = all.get(pick(all.len(), "reservation")) {
                script(Target::Reservation(one.id.clone()), "ReservationCapacityExceeded");
            }
        }
        Trouble::Call => {
            let operation = CALLS[pick(CALLS.len(), "call")];
            script(Target::Call { operation, server_fault: false }, REFUSALS[pick(REFUSALS.len(), "refusal")]);
        }
        Trouble::ServerFault => {
            let operation = CALLS[pick(CALLS.len(), "call")];
            script(Target::Call { operation, server_fault: true }, "InternalError");
        }
        Trouble::LostAnswer => {
            let operation = ["CreateFleet", "TerminateInstances"][pick(2, "call")];
            script(Target::Answer { operation }, "RequestTimeout");
        }
        Trouble::Message(warning) => return warn(world, warning, &pick),
        Trouble::Reclaim => {
            let spot = |one: &SimInstance| one.instance.spot_request_id.is_some();
            let running = running(region, spot);
            if let Some(id) = running.get(pick(running.len(), "instance")) {
                region.reclaim(id);
            }
        }
        Trouble::DropWatches => world.server.drop_watches(),
        Trouble::ExpireWatches => world.server.expire_watches(),
        Trouble::Compact => world.server.compact(),
        Trouble::Restart => {
            if let Err(error) = world.restart().await {
                world.audit.violated(format!("the controllers cannot start again: {error}"));
            }
        }
        Trouble::ForgetWatches => world.wire.forget_watches(WATCHED[pick(WATCHED.len(), "watched")]),
        Trouble::MuteWatches => world.wire.mute_watches(WATCHED[pick(WATCHED.len(), "watched")], lasts(MUTE)),
        Trouble::LoseRequests => world.wire.lose_requests(lasts(UNANSWERED)),
        Trouble::Unreadable(target) => {
            let odd = unreadable::begin(world, target, &pick).await?;
            return Some((lasts(ODD), Strike::Readable(odd)));
        }
        Trouble::StallSolve => world.stalls.add(lasts(STALL)),
        Trouble::CutLease => world.wire.cut_lease(world.current.number(), lasts(CUT)),
    }
    None
}

/// Ids of the instances that run and are of this kind.
fn running(region: &Region, fits: impl Fn(&SimInstance) -> bool) -> Vec<String> {
    let running = region.instances().into_iter().filter(|one| one.ended_at.is_none() && fits(one));
    running.map(|one| one.instance.id).collect()
}

/// What follows.
#[derive(Clone, Debug)]
pub(crate) enum Strike {
    /// An instance is taken back.
    End(String),
    /// An object can be read again.
    Readable(unreadable::Odd),
}

impl Strike {
    pub(crate) async fn strike(self, world: &World) {
        match self {
            Self::End(id) => world.region.kill(&id, InstanceState::ShuttingDown),
            Self::Readable(odd) => odd.end(world).await,
        }
    }
}

fn warn(world: &World, warning: Warning, pick: &dyn Fn(usize, &str) -> usize) -> Option<(Duration, Strike)> {
    let region = &world.region;
    let fits = |one: &SimInstance| match warning {
        Warning::SpotInterruption | Warning::RebalanceRecommendation => one.instance.spot_request_id.is_some(),
        Warning::CapacityReservation => one.instance.capacity_reservation_id.is_some(),
        Warning::ScheduledChange | Warning::Stopping | Warning::Terminated => true,
    };
    let running = running(region, fits);
    // A message about an instance nobody has is a message, too.
    let Some(id) = running.get(pick(running.len(), "instance")).cloned() else {
        region.warn("i-0ffffffffffffffff", warning);
        return None;
    };
    region.warn(&id, warning);
    match warning {
        Warning::SpotInterruption | Warning::CapacityReservation => return Some((NOTICE, Strike::End(id))),
        Warning::Stopping => region.kill(&id, InstanceState::Stopped),
        Warning::Terminated => region.kill(&id, InstanceState::ShuttingDown),
        Warning::RebalanceRecommendation | Warning::ScheduledChange => {}
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_planned_often_enough_and_the_same_way_each_time() {
        let planned = plan(7, WEEK);
        for trouble in Trouble::ALL {
            let times = planned.iter().filter(|(_, one)| *one == trouble).count();
            assert!(times >= 20, "{trouble:?}: {times}");
        }
        assert_eq!(planned, plan(7, WEEK));
        assert_ne!(planned, plan(8, WEEK));
        assert!(planned.iter().all(|(at, _)| *at <= WEEK));
    }
}
