use super::*;
use karpenter_api::Time;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn claim() -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.creation_timestamp = Some(Time(at(0)));
    claim.conditions_at(at(0));
    claim
}

fn wait(seconds: u64) -> Verdict {
    Verdict::Wait(Duration::from_secs(seconds))
}

const NO_LAUNCH: Verdict = Verdict::TimedOut { timeout: LAUNCH_TIMEOUT, reason: "launch_timeout" };
const NO_NODE: Verdict = Verdict::TimedOut { timeout: REGISTRATION_TIMEOUT, reason: "registration_timeout" };

#[test]
fn a_claim_has_five_minutes_to_launch_and_fifteen_to_register() {
    // covers: LC-LIVE-01, LC-LIVE-02, LC-LIVE-03, LC-LIVE-04, LC-LIVE-06, API-NC-08
    let failing = {
        let mut claim = claim();
        claim.conditions_at(at(200)).set_unknown(LAUNCHED, "LaunchFailed", "");
        claim
    };
    let launched = {
        let mut claim = claim();
        claim.conditions_at(at(290)).set_true(LAUNCHED);
        claim.conditions_at(at(291)).set_unknown(REGISTERED, "NodeNotFound", "");
        claim
    };
    let doubled = {
        let mut claim = launched.clone();
        claim.conditions_at(at(600)).set_false(REGISTERED, "MultipleNodesFound", "");
        claim
    };
    let registered = {
        let mut claim = launched.clone();
        claim.conditions_at(at(600)).set_true(REGISTERED);
        claim
    };
    for (what, claim, now, want) in [
        ("new", &claim(), 0, wait(300)),
        ("new", &claim(), 299, wait(1)),
        ("never launched", &claim(), 300, NO_LAUNCH),
        ("a failure does not give more time", &failing, 300, NO_LAUNCH),
        ("launched", &launched, 300, wait(600)),
        ("launched", &launched, 899, wait(1)),
        ("no node, since creation", &launched, 900, NO_NODE),
        ("two nodes: from that moment", &doubled, 900, wait(600)),
        ("two nodes", &doubled, 1_500, NO_NODE),
        ("registered", &registered, 1_000_000, Verdict::Alive),
    ] {
        assert_eq!(judge(claim, LAUNCH_TIMEOUT, at(now)), want, "{what} at {now}");
    }
}

#[test]
fn the_launch_timeout_can_be_set() {
    // covers: LC-LIVE-07
    let timeout = Duration::from_secs(30);
    let want = Verdict::TimedOut { timeout, reason: "launch_timeout" };
    assert_eq!(judge(&claim(), timeout, at(30)), want);
    assert_eq!(judge(&claim(), timeout, at(29)), wait(1));
}
