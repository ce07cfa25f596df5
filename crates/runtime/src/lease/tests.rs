use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use karpenter_apiserver::{ApiServer, Effect, Fault, Options};

use super::*;
use crate::leadership::EFFECT;

fn clock() -> Clock {
    Clock::starting_at("2026-01-02T00:00:00Z".parse().unwrap())
}

fn server() -> (ApiServer, Client) {
    let server = ApiServer::new(Options::new());
    let client = Client::new(server.service(), "default");
    (server, client)
}

fn election(client: &Client, identity: &str) -> Election {
    elected(client, identity, Leadership::elected())
}

fn elected(client: &Client, identity: &str, leadership: Leadership) -> Election {
    Election::new(client.clone(), clock(), "default", "karpenter-leader-election", identity, leadership)
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

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_when_it_was_asked_for_and_not_from_the_answer() {
    // covers: API-HM-54
    let (server, client) = server();
    server.inject(Fault {
        methods: vec!["POST".to_owned()],
        path_contains: "/leases".to_owned(),
        per_mille: 1000,
        times: Some(1),
        effect: Effect::Latency(Duration::from_secs(2)),
    });
    let leadership = Leadership::elected();
    let mut first = elected(&client, "a", leadership.clone());
    let asked = Instant::now();
    first.acquire().await;
    assert!(asked.elapsed() >= Duration::from_secs(2), "the answer took its time");
    assert!(leadership.holds_for((asked + DURATION).duration_since(Instant::now())));
    assert!(!leadership.holds_for((asked + DURATION).duration_since(Instant::now()) + Duration::from_millis(10)));
}

#[tokio::test(start_paused = true)]
async fn a_try_that_hangs_is_given_up_in_time_for_another() {
    let (server, client) = server();
    let leadership = Leadership::elected();
    let mut first = elected(&client, "a", leadership.clone());
    first.acquire().await;
    server.inject(Fault {
        methods: vec!["PUT".to_owned()],
        path_contains: "/leases/".to_owned(),
        per_mille: 1000,
        times: Some(1),
        effect: Effect::Latency(Duration::from_secs(3600)),
    });
    tokio::select! {
        () = first.hold() => panic!("one connection that hangs has cost the lease"),
        () = sleep(Duration::from_secs(60)) => {}
    }
    assert!(leadership.holds_for(RENEW_DEADLINE));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_its_time_costs_no_lease() {
    let (server, client) = server();
    let leadership = Leadership::elected();
    let mut first = elected(&client, "a", leadership.clone());
    first.acquire().await;
    server.inject(Fault {
        methods: Vec::new(),
        path_contains: "/leases".to_owned(),
        per_mille: 1000,
        times: None,
        effect: Effect::Latency(Duration::from_secs(2)),
    });
    tokio::select! {
        () = first.hold() => panic!("an answer comes two seconds after each question"),
        () = sleep(Duration::from_secs(120)) => {}
    }
    // Somebody who looked away for too long finds out all the same.
    let mut second = election(&client, "b");
    tokio::select! {
        () = second.acquire() => {}
        () = sleep(Duration::from_secs(60)) => panic!("nobody renews it"),
    }
    first.hold().await;
    assert_eq!(lease(&client).await.holder_identity.as_deref(), Some("b"));
    assert!(!leadership.holds_for(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn leadership_ends_with_the_lease_and_does_not_come_back() {
    let (_server, client) = server();
    let leadership = Leadership::elected();
    let mut first = elected(&client, "a", leadership.clone());
    assert!(!leadership.holds_for(Duration::ZERO), "nobody was elected");
    first.acquire().await;
    assert!(leadership.holds_for(RENEW_DEADLINE));
    first.release().await;
    assert!(!leadership.holds_for(Duration::ZERO));
    first.acquire().await;
    assert!(!leadership.holds_for(Duration::ZERO), "what was decided before is void");
}

/// Not a test of tokio's: it has no runtime of its own, so nothing polls what belongs to the other one.
#[test]
fn a_lease_is_renewed_while_nothing_else_of_the_process_gets_anywhere() {
    // covers: API-HM-54
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (computing, watching) = (runtime(), runtime());
    let server = ApiServer::new(Options::new());
    let service = server.service();
    let candidacy = Candidacy {
        namespace: "default".to_owned(),
        lease: "karpenter-leader-election".to_owned(),
        identity: "a".to_owned(),
    };
    let leadership = Leadership::elected();
    let (of_thread, clock) = (leadership.clone(), clock());
    let thread = computing.block_on(async move {
        let connect = move || Ok(Client::new(service, "default"));
        let thread = ElectionThread::start(connect, candidacy, clock, of_thread).await.unwrap();
        thread.leads().await;
        thread
    });
    // From here on `computing` stands still, as if it solved for a minute.
    let renewed = watching.block_on(async {
        let client = Client::new(server.service(), "default");
        let leases: Api<Lease> = Api::namespaced(client, "default");
        let version = || async { leases.get("karpenter-leader-election").await.unwrap().metadata.resource_version };
        let first = version().await;
        let change = async {
            while version().await == first {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(DURATION, change).await.is_ok()
    });
    assert!(renewed, "the thread renews by itself");
    assert!(leadership.holds_for(EFFECT));
    computing.block_on(thread.release());
    assert!(!leadership.holds_for(Duration::ZERO));
}
