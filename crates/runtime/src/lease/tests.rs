use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use karpenter_apiserver::{ApiServer, Effect, Fault, Options};

use super::*;

fn clock() -> Clock {
    Clock::starting_at("2026-01-02T00:00:00Z".parse().unwrap())
}

fn server() -> (ApiServer, Client) {
    let server = ApiServer::new(Options::new());
    let client = Client::new(server.service(), "default");
    (server, client)
}

fn election(client: &Client, identity: &str) -> Election {
    Election::new(client.clone(), clock(), "default", "karpenter-leader-election", identity)
}

async fn lease(client: &Client) -> LeaseSpec {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    leases.get("karpenter-leader-election").await.unwrap().spec.unwrap()
}

#[test]
fn a_lease_is_taken_when_it_is_nobodys_or_has_not_changed_for_its_duration() {
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let held = |identity: &str| Lease { spec: Some(ours(identity, now, 3)), ..Lease::default() };
    let later = now + Duration::from_secs(60);
    for (lease, unchanged, want) in [
        (Lease::default(), 0, Some(1)),
        (held("me"), 0, Some(3)),
        (held("other"), 14, None),
        (held("other"), 15, Some(4)),
        (held(""), 0, Some(4)),
    ] {
        let taken = match step(&lease, "me", Duration::from_secs(unchanged), later) {
            Step::Write(spec) => {
                assert_eq!((spec.holder_identity.as_deref(), spec.renew_time), (Some("me"), Some(MicroTime(later))));
                spec.lease_transitions
            }
            Step::Wait => None,
        };
        assert_eq!(taken, want, "{lease:?} after {unchanged}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_leads_at_once_when_the_first_lets_go_and_after_the_lease_when_it_dies() {
    // covers: API-HM-53
    let (_server, client) = server();
    let (mut first, mut second) = (election(&client, "a"), election(&client, "b"));
    first.acquire().await;
    assert_eq!(lease(&client).await.holder_identity.as_deref(), Some("a"));
    assert_eq!(lease(&client).await.lease_duration_seconds, Some(15));

    // As long as it is renewed, nobody else gets it.
    tokio::select! {
        () = first.hold() => panic!("lost without a reason"),
        () = second.acquire() => panic!("two leaders"),
        () = sleep(Duration::from_secs(300)) => {}
    }
    first.release().await;
    let released = Instant::now();
    second.acquire().await;
    assert!(released.elapsed() <= RETRY, "{:?}", released.elapsed());

    // The holder dies without a word.
    let died = Instant::now();
    drop(second);
    first.acquire().await;
    assert!(died.elapsed() >= DURATION && died.elapsed() <= DURATION + RETRY * 2, "{:?}", died.elapsed());
    assert_eq!(lease(&client).await.lease_transitions, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_gives_up_before_somebody_else_takes_over() {
    // covers: API-HM-54
    let (server, client) = server();
    let mut first = election(&client, "a");
    first.acquire().await;
    server.inject(Fault {
        methods: vec!["PUT".to_owned()],
        path_contains: "/leases/".to_owned(),
        per_mille: 1000,
        times: None,
        effect: Effect::InternalError,
    });
    let start = Instant::now();
    first.hold().await;
    assert!(start.elapsed() >= RENEW_DEADLINE && start.elapsed() < DURATION, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn leaders_that_die_at_any_moment_are_followed_by_one_other_and_never_two() {
    let (_server, client) = server();
    let leading = Arc::new(AtomicUsize::new(0));
    let mut random = 0x9E37_79B9_u64;
    let mut standby = election(&client, "r0");
    for round in 1..=100_u64 {
        let mut leader = standby;
        standby = election(&client, &format!("r{round}"));
        leader.acquire().await;
        assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead");
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let alive = Duration::from_millis(random >> 33 & 0xffff);
        tokio::select! {
            () = leader.hold() => panic!("lost without a reason"),
            () = standby.acquire() => panic!("two lead"),
            () = sleep(alive) => {}
        }
        leading.fetch_sub(1, Ordering::SeqCst);
        if round % 3 == 0 {
            leader.release().await;
        }
        let ended = Instant::now();
        let mut next = standby;
        next.acquire().await;
        assert!(ended.elapsed() <= DURATION + RETRY * 2, "{:?}", ended.elapsed());
        next.release().await;
        standby = election(&client, &format!("s{round}"));
    }
}
