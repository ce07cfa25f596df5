//! Nodes that leave because something else is better: a smaller fleet, a newer template.

use std::cell::Cell;

use karpenter_aws_sim::Rates;
use serde_json::{Value, json};

use super::ground::Ground;
use super::place::{BUDGETS, CLAIMS, NODES, POOLS, Place, condition};

scenarios![
    half_of_the_pods_need_half_of_the_money,
    a_new_template_rolls_through_the_pool_a_tenth_at_a_time,
    a_budget_of_pods_that_allows_nothing_holds_a_roll_and_costs_nothing,
];

fn lively(budget: &str) -> Value {
    json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": budget}]})
}

/// Dollars per hour, as the nodes say.
async fn price(place: &Place) -> f64 {
    let nodes = place.list(NODES).await;
    let of = |node: &Value| {
        let label = node["metadata"]["labels"]["eks-node-viewer/instance-price"].as_str()?;
        label.parse::<f64>().ok()
    };
    nodes.iter().filter_map(of).sum()
}

/// A label that nodes of the pool did not have makes all of them drift.
async fn change_template(place: &Place) {
    let labels = json!({"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}});
    place.patch(&format!("{POOLS}/default"), labels).await;
}

async fn half_of_the_pods_need_half_of_the_money(ground: &Ground) {
    let place = Place::new(ground, 1, Rates::default(), lively("100%"), json!({})).await;
    place.deploy("web", 24, json!({}), json!({})).await;
    place.until_running(24, 240).await;
    let before = price(&place).await;
    assert!(before > 0.0);
    place.scale("web", 12).await;
    let shrunk = async || place.running().await == 12 && price(&place).await < before * 0.6;
    place.until("the fleet costs half", 600, shrunk).await;
    // And then nothing moves.
    let resting = async || {
        let claims = place.names(CLAIMS).await;
        place.pass(60).await;
        claims == place.names(CLAIMS).await && place.running().await == 12
    };
    place.until("the fleet is at rest", 600, resting).await;
    assert!(place.is_even().await);
    place.close().await;
}

async fn a_new_template_rolls_through_the_pool_a_tenth_at_a_time(ground: &Ground) {
    let place = Place::new(ground, 1, Rates::default(), lively("10%"), json!({})).await;
    let apart = json!({"terminationGracePeriodSeconds": 1, "affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
    place.deploy("web", 10, apart, json!({})).await;
    place.until_running(10, 240).await;
    let old = place.names(CLAIMS).await;
    assert_eq!(old.len(), 10);
    change_template(&place).await;
    let fewest_running = Cell::new(10);
    let rolled = async || {
        let claims = place.list(CLAIMS).await;
        // Whose machine is as good as gone counts neither way.
        let there = claims.iter().filter(|claim| condition(claim, "InstanceTerminating") != Some("True".to_owned()));
        let (leaving, staying): (Vec<&Value>, Vec<&Value>) =
            there.partition(|claim| !claim["metadata"]["deletionTimestamp"].is_null());
        let (leaving, all) = (leaving.len(), leaving.len() + staying.len());
        assert!(leaving <= all.div_ceil(10), "{leaving} of {all} leave at a time");
        fewest_running.set(fewest_running.get().min(place.running().await));
        let names: Vec<_> = claims.iter().filter_map(|claim| claim["metadata"]["name"].as_str()).collect();
        !old.iter().any(|name| names.contains(&name.as_str())) && place.running().await == 10
    };
    place.until("every node is of the new template", 1200, rolled).await;
    assert!(fewest_running.get() >= 8, "{} ran at a time", fewest_running.get());
    for node in place.list(NODES).await {
        assert_eq!(node["metadata"]["labels"]["generation"], "two", "{}", node["metadata"]["name"]);
    }
    place.until("no claim is without a machine", 60, async || place.is_even().await).await;
    place.close().await;
}

async fn a_budget_of_pods_that_allows_nothing_holds_a_roll_and_costs_nothing(ground: &Ground) {
    let place = Place::new(ground, 1, Rates::default(), lively("100%"), json!({})).await;
    place.budget("web", 0).await;
    place.deploy("web", 3, json!({}), json!({})).await;
    place.until_running(3, 180).await;
    let old = place.names(CLAIMS).await;
    change_template(&place).await;
    for _ in 0..15 {
        place.pass(10).await;
        assert_eq!((place.names(CLAIMS).await, place.running().await), (old.clone(), 3));
        assert_eq!(place.instances().len(), old.len(), "nothing is bought for pods that may not leave");
    }
    place.patch(&format!("{BUDGETS}/web"), json!({"spec": {"maxUnavailable": 1}})).await;
    place.until_moved(&old, 3).await;
    place.close().await;
}
