use super::*;
use karpenter_api::{NillableDuration, Time};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn claim(expire_after: &str) -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.creation_timestamp = Some(Time(at(0)));
    claim.spec.expire_after = NillableDuration::parse(expire_after).unwrap();
    claim
}

#[test]
fn a_claim_lives_as_long_as_it_says() {
    // covers: LC-EXP-01, LC-EXP-03, LC-EXP-06
    let left = |seconds| Verdict::In(Duration::from_secs(seconds));
    for (expire_after, now, want) in [
        ("1h", 0, left(3_600)),
        ("1h", 3_599, left(1)),
        ("1h", 3_600, Verdict::Expired),
        ("1h", 1_000_000, Verdict::Expired),
        ("0s", 0, Verdict::Expired),
        ("Never", i64::from(i32::MAX), Verdict::Stays),
        ("720h", 86_400, left(29 * 86_400)),
    ] {
        assert_eq!(judge(&claim(expire_after), at(now)), want, "{expire_after} at {now}");
    }
    assert_eq!(NodeClaim::default().spec.expire_after.to_string(), "720h");
}

#[test]
fn one_that_is_going_already_is_left_alone() {
    // covers: LC-EXP-03, CP-F1
    let mut claim = claim("1h");
    claim.metadata.deletion_timestamp = Some(Time(at(10)));
    assert_eq!(judge(&claim, at(7_200)), Verdict::Stays);
}
