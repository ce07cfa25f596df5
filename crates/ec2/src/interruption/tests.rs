use super::*;
use serde_json::json;

fn event(source: &str, detail_type: &str, detail: Value) -> String {
    json!({
        "version": "0", "id": "1", "account": "1", "region": "r", "resources": [], "time": "2026-01-02T03:04:05Z",
        "source": source, "detail-type": detail_type, "detail": detail, "something-new": {"a": 1},
    })
    .to_string()
}

fn kind_of(body: &str) -> (Kind, Vec<String>) {
    let message = parse(body).unwrap();
    (message.kind, message.instances)
}

#[test]
fn events_are_told_apart_by_source_and_detail_type() {
    // covers: AWS-INT-03, AWS-INT-04
    let ec2 = |detail_type: &str, detail: Value| event("aws.ec2", detail_type, detail);
    let one = json!({"instance-id": "i-1"});
    let state =
        |state: &str| ec2("EC2 Instance State-change Notification", json!({"instance-id": "i-1", "state": state}));
    let ours = vec!["i-1".to_owned()];
    for (body, kind) in [
        (ec2("EC2 Spot Instance Interruption Warning", one.clone()), Kind::SpotInterrupted),
        (ec2("EC2 Instance Rebalance Recommendation", one.clone()), Kind::RebalanceRecommendation),
        (
            ec2("EC2 Capacity Reservation Instance Interruption Warning", one.clone()),
            Kind::CapacityReservationInterrupted,
        ),
        (state("stopping"), Kind::InstanceStopped),
        (state("STOPPED"), Kind::InstanceStopped),
        (state("Shutting-Down"), Kind::InstanceTerminated),
        (state("terminated"), Kind::InstanceTerminated),
    ] {
        assert_eq!(kind_of(&body), (kind, ours.clone()), "{body}");
    }
    for body in [
        state("running"),
        state("pending"),
        event("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", json!({"EC2InstanceId": "i-1"})),
        event("aws.ec2", "EC2 Fleet Instance Change", one.clone()),
        event("aws.ec2", "EC2 Spot Instance Interruption Warning", one).replace("\"0\"", "\"1\""),
        "{}".to_owned(),
    ] {
        assert_eq!(kind_of(&body), (Kind::NoOp, vec![]), "{body}");
    }
    let at = parse(&state("stopped")).unwrap().time;
    assert_eq!(at, Some("2026-01-02T03:04:05Z".parse().unwrap()));
}

#[test]
fn health_events_count_for_scheduled_changes_of_ec2() {
    // covers: AWS-INT-03, AWS-INT-05
    let health = |service: &str, category: &str| {
        let entities = json!([{"entityValue": "i-1"}, {"entityValue": "i-2"}]);
        let detail = json!({"service": service, "eventTypeCategory": category, "affectedEntities": entities});
        event("aws.health", "AWS Health Event", detail)
    };
    let both = vec!["i-1".to_owned(), "i-2".to_owned()];
    assert_eq!(kind_of(&health("EC2", "scheduledChange")), (Kind::ScheduledChange, both));
    for (service, category) in [("EC2", "issue"), ("RDS", "scheduledChange")] {
        assert_eq!(kind_of(&health(service, category)).0, Kind::NoOp, "{service} {category}");
    }
}

#[test]
fn empty_bodies_are_nothing_and_broken_ones_are_said() {
    // covers: AWS-INT-06, AWS-INT-07
    for body in ["", " \n"] {
        assert_eq!(kind_of(body).0, Kind::NoOp);
    }
    let spot = "EC2 Spot Instance Interruption Warning";
    for body in [
        "not json".to_owned(),
        "[]".to_owned(),
        event("aws.ec2", spot, json!({})),
        event("aws.ec2", spot, json!({"instance-id": 5})),
        event("aws.ec2", spot, json!({"instance-id": "i-1"})).replace("2026-01-02T03:04:05Z", "yesterday"),
    ] {
        assert!(parse(&body).is_err(), "{body}");
    }
}

#[test]
fn kinds_have_actions() {
    // covers: AWS-INT-09
    for (kind, action) in [
        (Kind::SpotInterrupted, Action::Delete),
        (Kind::CapacityReservationInterrupted, Action::Delete),
        (Kind::ScheduledChange, Action::Delete),
        (Kind::InstanceStopped, Action::Delete),
        (Kind::InstanceTerminated, Action::Delete),
        (Kind::RebalanceRecommendation, Action::Tell),
        (Kind::NoOp, Action::Nothing),
    ] {
        assert_eq!(kind.action(), action, "{kind:?}");
    }
}
