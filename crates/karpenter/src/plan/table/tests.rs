use std::sync::Arc;

use karpenter_core::labels::Vocabulary;
use karpenter_core::plan::{Launch, NearestMiss, PoolReason, Reason};
use karpenter_core::pod::{Phase, PodShape};
use karpenter_core::requirements::Requirements;
use karpenter_core::settings::Settings;
use karpenter_core::{InstanceType, Pod, Pool};

use super::*;
use crate::plan::order::in_order;

fn list(items: &[(&str, &str)]) -> Resources {
    items.iter().map(|(name, text)| (*name, text.parse().unwrap())).collect()
}

fn pod(name: &str) -> Pod {
    Pod {
        namespace: "shop".into(),
        name: name.into(),
        uid: name.into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        shape: Arc::new(PodShape::default()),
        phase: Phase::Pending,
        terminating: false,
        node: None,
        nominated_node: None,
        scheduled_reason: None,
        unready: false,
        started: None,
        owners: Arc::from([]),
        claims: Arc::from([]),
        deletion_cost: None,
        restarts: 0,
        ready_after: None,
    }
}

fn world() -> World {
    let instance_type = |name: &str, cpu: &str, memory: &str| {
        Arc::new(InstanceType {
            name: name.into(),
            requirements: Requirements::new(),
            capacity: list(&[("cpu", cpu), ("memory", memory)]),
            overhead: Default::default(),
            offerings: Vec::new(),
        })
    };
    let pool = Pool {
        name: "default".into(),
        weight: 0,
        labels: Default::default(),
        node_class_label: ("c".into(), "d".into()),
        taints: Vec::new(),
        requirements: Vec::new(),
        limits: Resources::new(),
        instance_types: Arc::from([instance_type("m5.large", "2", "8Gi"), instance_type("m5.xlarge", "4", "16Gi")]),
    };
    World {
        now: jiff::Timestamp::UNIX_EPOCH,
        settings: Settings::default(),
        vocabulary: Arc::new(Vocabulary::kubernetes()),
        pools: vec![pool],
        nodes: Vec::new(),
        pods: ["web-1", "web-0", "big-0", "big-1", "cron-0"].map(pod).into(),
        daemon_sets: Vec::new(),
        namespaces: Default::default(),
        storage: Default::default(),
        services: Vec::new(),
        workload_selectors: Default::default(),
        disruption_budgets: Vec::new(),
    }
}

fn node(pods: &[usize], types: &[usize], zone: &str, capacity_type: &str, price: u64) -> NewNode {
    NewNode {
        pool: 0,
        pods: pods.to_vec(),
        requirements: Requirements::new(),
        labels: Default::default(),
        instance_types: types.into(),
        requests: list(&[("cpu", "1500m"), ("memory", "2Gi")]),
        min_values_relaxed: false,
        reservations: Vec::new(),
        launch: Launch {
            instance_type: if types[0] == 0 { "m5.large" } else { "m5.xlarge" }.into(),
            zone: zone.into(),
            capacity_type: capacity_type.into(),
            price: MicroUsd(price),
        },
    }
}

fn plan() -> Plan {
    let left = |pod| LeftOver {
        pod,
        reason: Reason::Pools(vec![(0, PoolReason::Limit { resource: "cpu".to_owned() })]),
        nearest_miss: Some(NearestMiss {
            pool: Some(0),
            object: "NodePool default".to_owned(),
            field: "spec.limits.cpu".to_owned(),
            from: "6".to_owned(),
            to: "10".to_owned(),
            text: "a limit of 10 instead of 6 CPUs would do".to_owned(),
        }),
    };
    Plan {
        new_nodes: vec![
            node(&[4], &[1], "us-east-1b", "on-demand", 192_000),
            node(&[0, 1], &[0, 1], "us-east-1a", "spot", 38_400),
        ],
        left_over: vec![left(3), left(2)],
        ..Plan::default()
    }
}

fn rendered(plan: Plan, took: Option<Duration>) -> String {
    let world = world();
    let plan = in_order(&world, plan);
    render(&world, &plan, View { style: Style::Plain, spot_is_assumed: true, took })
}

#[test]
fn a_plan_reads_like_this() {
    insta::assert_snapshot!(rendered(plan(), Some(Duration::from_micros(1234))));
}

#[test]
fn nothing_to_do_reads_like_this() {
    insta::assert_snapshot!(rendered(Plan::default(), None));
}

#[test]
fn money_is_grouped_and_rounded_to_cents() {
    for (micro, want) in [(0, "$0.00"), (5_000, "$0.01"), (4_999, "$0.00"), (1_234_567_890_000, "$1,234,567.89")] {
        assert_eq!(dollars(MicroUsd(micro)), want);
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let world = world();
    let plan = in_order(&world, plan());
    let view = |style| View { style, spot_is_assumed: true, took: None };
    let coloured = render(&world, &plan, view(Style::Colour));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain += before;
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(plain + rest, render(&world, &plan, view(Style::Plain)));
}
