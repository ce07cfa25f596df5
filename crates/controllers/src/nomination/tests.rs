use std::sync::Arc;

use karpenter_core::node::Stage;
use karpenter_index::MachineId;

use super::*;

fn machine(has_node: bool, stage: Stage, deleting: bool) -> Machine {
    let node = k8s_openapi::api::core::v1::Node {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("node-1".into()),
            ..Default::default()
        },
        ..Default::default()
    };
    let reduced = karpenter_core::Node {
        name: "claim-1".into(),
        claim: Some("claim-1".into()),
        provider_id: Some("aws:///a/i-1".into()),
        stage,
        has_node,
        labels: Default::default(),
        taints: Vec::new(),
        capacity: Default::default(),
        allocatable: Default::default(),
        deleting,
        volume_limits: Default::default(),
    };
    Machine {
        id: MachineId::Provider("aws:///a/i-1".into()),
        node: has_node.then(|| Arc::new(node)),
        claim: None,
        reduced: Some(Arc::new(reduced)),
        marked: false,
    }
}

fn initialized(machine: Machine, at: i64) -> Machine {
    let mut claim = karpenter_api::NodeClaim::default();
    claim.conditions_at(Timestamp::from_second(at).unwrap()).set_true(conditions::INITIALIZED);
    Machine { claim: Some(Arc::new(claim)), ..machine }
}

#[test]
fn pods_are_nominated_from_when_the_node_exists() {
    // covers: LC-POD-13
    let now = Timestamp::from_second(100).unwrap();
    let nominate = |until: Option<i64>| Step::Nominate {
        node: "node-1".into(),
        until: until.map(|second| Timestamp::from_second(second).unwrap()),
    };
    let on = |has_node, stage| machine(has_node, stage, false);
    for (machine, want) in [
        (on(false, Stage::Launched), Step::Wait),
        (on(true, Stage::Launched), nominate(None)),
        (on(true, Stage::Registered), nominate(None)),
        (machine(true, Stage::Registered, true), Step::Wait),
        (initialized(on(true, Stage::Initialized), 99), nominate(Some(120))),
        (initialized(on(true, Stage::Initialized), 80), nominate(Some(120))),
        (on(true, Stage::Unmanaged), Step::Wait),
    ] {
        assert_eq!(next_step(&machine, now, Duration::from_secs(20)), want, "{machine:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_nominations_are_set_again_when_the_node_moves_and_otherwise_now_and_then() {
    let face = |ready: bool, taints: &[&str]| Face {
        initialized: false,
        ready,
        taints: taints.iter().map(|text| (*text).to_owned()).collect(),
    };
    let now = Instant::now();
    let last = |times| Renewed { at: now, face: face(false, &["karpenter.sh/unregistered:NoExecute"]), times };
    let same = last(0).face;
    let millis = Duration::from_millis;
    for (times, pause) in [(0, 100), (1, 200), (3, 800), (6, 5000), (60, 5000)] {
        assert_eq!(last(times).wait(&same, now + millis(40)), Some(millis(pause - 40)), "{times}");
        assert_eq!(last(times).wait(&same, now + millis(pause)), None);
    }
    assert_eq!(last(6).wait(&face(true, &["karpenter.sh/unregistered:NoExecute"]), now + millis(1)), None, "ready");
    assert_eq!(last(6).wait(&face(false, &[]), now + millis(1)), None, "a taint is gone");
}
