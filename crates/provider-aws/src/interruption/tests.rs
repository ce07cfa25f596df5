use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::calls::CapacityReservation;
use crate::testing::{Fake, FakeCluster, at};

const SPOT: [(&str, &str); 3] = [
    ("karpenter.sh/capacity-type", "spot"),
    ("node.kubernetes.io/instance-type", "m5.large"),
    ("topology.kubernetes.io/zone", "us-east-1a"),
];

fn event(detail_type: &str, detail: Value) -> String {
    json!({
        "version": "0", "source": "aws.ec2", "detail-type": detail_type, "time": "1970-01-01T00:16:00Z", "detail": detail,
    })
    .to_string()
}

fn reclaimed(instance: &str) -> String {
    event("EC2 Spot Instance Interruption Warning", json!({"instance-id": instance}))
}

fn terminated(instance: &str) -> String {
    event("EC2 Instance State-change Notification", json!({"instance-id": instance, "state": "terminated"}))
}

struct Desk {
    fake: Arc<Fake>,
    cluster: Arc<FakeCluster>,
    parts: Arc<Parts>,
    queue: Interruption,
}

impl Desk {
    fn new(messages: &[(&str, String)]) -> Self {
        let fake = Arc::new(Fake::default());
        let cluster = Arc::new(FakeCluster { fake: fake.clone(), ..FakeCluster::default() });
        cluster.add("one", "i-1", &SPOT);
        cluster.add("two", "i-2", &SPOT);
        let parts = cluster.parts(at(1000));
        let desk = Self { fake, cluster, parts, queue: Interruption::new("q") };
        desk.put(messages);
        desk
    }

    fn put(&self, messages: &[(&str, String)]) {
        let owned = messages.iter().map(|(id, body)| ((*id).to_owned(), body.clone()));
        self.fake.messages.lock().unwrap().extend(owned);
    }

    async fn round(&self) -> Duration {
        self.queue.round(&self.parts).await.unwrap()
    }

    fn left(&self) -> Vec<String> {
        self.fake.messages.lock().unwrap().iter().map(|(id, _)| id.clone()).collect()
    }
}

#[tokio::test]
async fn ten_messages_are_waited_for_twenty_seconds() {
    // covers: AWS-INT-01, AWS-INT-02
    let desk = Desk::new(&[]);
    assert_eq!(desk.round().await, Duration::ZERO, "the next poll follows at once");
    desk.round().await;
    let twenty = Duration::from_secs(20);
    let want = ReceiveMessages { url: "https://queues/q".into(), at_most: 10, visibility: twenty, wait: twenty };
    assert_eq!(*desk.fake.polls.lock().unwrap(), [want.clone(), want]);
    assert_eq!(desk.fake.asked(), ["GetQueueUrl q"], "once");
}

#[tokio::test]
async fn a_message_is_deleted_after_what_it_asks_for_is_stored() {
    // covers: AWS-INT-08, AWS-MET-07
    let desk = Desk::new(&[("m", reclaimed("i-1"))]);
    desk.round().await;
    assert_eq!(desk.fake.asked(), ["GetQueueUrl q", "end one gracefully", "DeleteMessage m"]);
    let want = [
        "received spot_interrupted",
        "one SpotInterrupted",
        "one TerminatingOnInterruption",
        "interrupted spot_interrupted one",
        "handled 40s late",
        "deleted",
    ];
    assert_eq!(desk.cluster.told(), want);
}

#[tokio::test]
async fn a_message_that_cannot_be_handled_holds_up_no_other() {
    // covers: AWS-INT-07, AWS-INT-08
    let desk = Desk::new(&[("poison", reclaimed("i-1")), ("broken", "{".into()), ("good", reclaimed("i-2"))]);
    *desk.cluster.stuck.lock().unwrap() = "one".to_owned();
    assert_eq!(desk.round().await, Duration::ZERO, "nobody waits because of it");
    assert_eq!(desk.left(), ["poison"], "it comes again");
    assert!(desk.fake.asked().contains(&"end two gracefully".to_owned()));
    desk.put(&[("later", terminated("i-2"))]);
    for _ in 0..3 {
        assert_eq!(desk.round().await, Duration::ZERO);
        assert_eq!(desk.left(), ["poison"]);
    }
    desk.cluster.stuck.lock().unwrap().clear();
    desk.round().await;
    assert!(desk.left().is_empty());
    assert!(desk.fake.asked().contains(&"end one gracefully".to_owned()), "in the end it was carried out");
}

#[tokio::test]
async fn a_message_that_brings_out_a_bug_of_ours_holds_up_no_other() {
    let desk = Desk::new(&[("poison", reclaimed("i-1")), ("odd", "a-bug-of-ours".into()), ("good", reclaimed("i-2"))]);
    *desk.cluster.panics.lock().unwrap() = "one".to_owned();
    let round = || AssertUnwindSafe(desk.queue.round(&desk.parts)).catch_unwind();
    assert!(round().await.is_err(), "whoever runs it counts the panic");
    assert_eq!(desk.left(), ["poison"], "nobody will ever be able to read the odd one");
    assert!(desk.fake.asked().contains(&"end two gracefully".to_owned()));
    desk.put(&[("later", terminated("i-2"))]);
    assert!(round().await.is_err());
    assert_eq!(desk.left(), ["poison"]);
    desk.cluster.panics.lock().unwrap().clear();
    assert_eq!(desk.round().await, Duration::ZERO);
    assert!(desk.left().is_empty());
}

#[tokio::test]
async fn an_instance_is_ended_once_however_many_messages_say_so() {
    // covers: AWS-INT-10
    let desk = Desk::new(&[("a", reclaimed("i-1")), ("b", terminated("i-1")), ("a-again", reclaimed("i-1"))]);
    desk.round().await;
    assert!(desk.left().is_empty());
    let asked = desk.fake.asked();
    assert_eq!(asked.iter().filter(|call| call.starts_with("end one")).count(), 1, "{asked:?}");
    let counted = desk.cluster.told().into_iter().filter(|line| line.starts_with("interrupted ")).count();
    assert_eq!(counted, 1);
}

#[tokio::test]
async fn an_interrupted_reservation_has_no_places_left() {
    // covers: AWS-INT-14
    let warning =
        |id: &str| event("EC2 Capacity Reservation Instance Interruption Warning", json!({"instance-id": id}));
    let desk = Desk::new(&[("m", warning("i-3"))]);
    desk.cluster.add("three", "i-3", &[("karpenter.k8s.aws/capacity-reservation-id", "cr-1")]);
    let told = |id: &str| CapacityReservation {
        id: id.into(),
        zone: "us-east-1a".into(),
        instance_type: "m5.large".into(),
        instance_match_criteria: "targeted".into(),
        owner_id: "1".into(),
        reservation_type: "default".into(),
        interruptible: true,
        available: 5,
        end: None,
        tags: Default::default(),
    };
    desk.parts.reservations.told(&[told("cr-1"), told("cr-2")], at(999));
    desk.round().await;
    let free = |id: &str| desk.parts.reservations.free(id, at(1000));
    assert_eq!((free("cr-1"), free("cr-2")), (0, 5));
}
