use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn pool(budgets: Value) -> NodePool {
    let class = json!({"group": "g", "kind": "K", "name": "n"});
    let mut pool: NodePool = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}, "disruption": {}},
    }))
    .unwrap();
    if !budgets.is_null() {
        pool.spec.disruption.budgets = serde_json::from_value(budgets).unwrap();
    }
    pool
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn the_least_budget_for_the_reason_counts() {
    // covers: DIS-BUDGET-01, DIS-BUDGET-02, DIS-BUDGET-07
    let now = at("2026-01-01T12:00:00Z");
    for (budgets, nodes, reason, want) in [
        (Value::Null, 10, "Empty", 1),
        (Value::Null, 11, "Empty", 2),
        (Value::Null, 0, "Empty", 0),
        (json!([]), 10, "Empty", UNLIMITED),
        (json!([{"nodes": "3"}, {"nodes": "50%"}]), 10, "Drifted", 3),
        (json!([{"nodes": "3"}, {"nodes": "20%"}]), 10, "Drifted", 2),
        (json!([{"nodes": "0", "reasons": ["Drifted"]}]), 10, "Drifted", 0),
        (json!([{"nodes": "0", "reasons": ["Drifted"]}]), 10, "Empty", UNLIMITED),
        (json!([{"nodes": "0", "reasons": []}]), 10, "Empty", UNLIMITED),
        (json!([{"nodes": "100%"}]), 7, "Empty", 7),
    ] {
        assert_eq!(allowed(&pool(budgets.clone()), nodes, reason, now), Ok(want), "{budgets} of {nodes} for {reason}");
    }
}

#[test]
fn a_schedule_holds_for_its_duration_from_each_hit_on() {
    // covers: DIS-BUDGET-05
    let nightly = pool(json!([{"nodes": "0", "schedule": "0 22 * * *", "duration": "2h"}]));
    for (now, want) in [
        ("2026-01-01T21:59:59Z", UNLIMITED),
        ("2026-01-01T22:00:00Z", 0),
        ("2026-01-01T23:59:59Z", 0),
        ("2026-01-02T00:00:00Z", UNLIMITED),
    ] {
        assert_eq!(allowed(&nightly, 10, "Empty", at(now)), Ok(want), "{now}");
    }
}

#[test]
fn a_budget_that_cannot_be_read_allows_nothing_for_any_reason() {
    // covers: DIS-BUDGET-06
    let now = at("2026-01-01T12:00:00Z");
    for wrong in [
        json!([{"nodes": "3"}, {"nodes": "many", "reasons": ["Drifted"]}]),
        json!([{"nodes": "3", "schedule": "61 * * * *", "duration": "1h"}]),
        json!([{"nodes": "-1"}]),
    ] {
        let pool = Arc::new(pool(wrong.clone()));
        assert!(allowed(&pool, 10, "Empty", now).is_err(), "{wrong}");
        assert_eq!(allowances(&[pool], &[], "Empty", now)["p"].left(), 0);
    }
}

fn machine(name: &str, stage: &str, ready: bool, deleting: bool, terminating: bool) -> Machine {
    let labels = match stage {
        "initialized" => {
            json!({"karpenter.sh/nodepool": "p", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"})
        }
        _ => json!({"karpenter.sh/nodepool": "p", "karpenter.sh/registered": "true"}),
    };
    let ready = if ready { "True" } else { "False" };
    let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": name},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }))
    .unwrap();
    let mut claim = karpenter_api::NodeClaim::default();
    claim.metadata.name = Some(name.into());
    claim.status.get_or_insert_default().provider_id = Some(name.into());
    if terminating {
        claim.conditions_at(Timestamp::UNIX_EPOCH).set_true(conditions::INSTANCE_TERMINATING);
    }
    let mut reduced = karpenter_index::reduce::node(Some(&node), Some(&claim), None).unwrap().unwrap();
    reduced.deleting |= deleting;
    Machine {
        id: karpenter_index::MachineId::Provider(name.into()),
        node: Some(Arc::new(node)),
        claim: Some(Arc::new(claim)),
        reduced: Some(Arc::new(reduced)),
        marked: deleting,
    }
}

#[test]
fn unready_and_leaving_nodes_take_from_the_budget_and_unfinished_ones_do_not_count() {
    // covers: DIS-BUDGET-03, DIS-BUDGET-04
    let machines = [
        machine("ready", "initialized", true, false, false),
        machine("also", "initialized", true, false, false),
        machine("unready", "initialized", false, false, false),
        machine("leaving", "initialized", true, true, false),
        machine("both", "initialized", false, true, false),
        machine("starting", "registered", true, false, false),
        machine("gone", "initialized", true, true, true),
    ];
    let pool = Arc::new(pool(json!([{"nodes": "80%"}])));
    let found = allowances(&[pool], &machines, "Empty", at("2026-01-01T12:00:00Z"))["p"];
    assert_eq!(found, Allowance { nodes: 5, allowed: 4, consumed: 3 });
    assert_eq!(found.left(), 1);
    assert_eq!(Allowance { nodes: 5, allowed: 1, consumed: 3 }.left(), 0, "never negative");
}
