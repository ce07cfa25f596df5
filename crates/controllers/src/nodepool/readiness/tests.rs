use super::*;
use karpenter_api::{Condition, Time};

fn class(ready: Option<(&str, &str, &str)>) -> NodeClass {
    let condition = |(status, reason, message): (&str, &str, &str)| Condition {
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
        message: message.to_owned(),
        observed_generation: Some(1),
        reason: reason.to_owned(),
        status: status.to_owned(),
        type_: READY.to_owned(),
    };
    let mut class = NodeClass::default();
    class.status.conditions.extend(ready.map(condition));
    class
}

#[test]
fn a_pool_is_as_ready_as_its_class() {
    // covers: NP-READY-01, API-CD-11
    let terminating = {
        let mut class = class(Some(("True", "Ready", "")));
        class.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        class
    };
    let unknown = ("False", "NodeClassReadinessUnknown", "Node Class Readiness Unknown");
    for (what, class, want) in [
        ("missing", None, ("False", "NodeClassNotFound", "NodeClass not found on cluster")),
        ("terminating", Some(terminating), ("False", "NodeClassTerminating", "NodeClass is Terminating")),
        ("never looked at", Some(class(None)), unknown),
        ("unknown", Some(class(Some(("Unknown", "Reconciling", "soon")))), unknown),
        (
            "not ready",
            Some(class(Some(("False", "UnhealthyDependents", "SubnetsReady=False")))),
            ("False", "UnhealthyDependents", "SubnetsReady=False"),
        ),
        ("ready", Some(class(Some(("True", "Ready", "")))), ("True", "NodeClassReady", "")),
    ] {
        let mut pool = NodePool::default();
        judge(&mut pool, class.as_ref(), Timestamp::UNIX_EPOCH);
        let said = pool.condition(NODE_CLASS_READY).unwrap();
        assert_eq!((said.status.as_str(), said.reason.as_str(), said.message.as_str()), want, "{what}");
    }
}
