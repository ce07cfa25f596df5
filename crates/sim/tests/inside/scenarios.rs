//! What happens to a node from its purchase to its end, on the very provider that buys on AWS.

use karpenter_aws_sim::{Rates, Script, Target};
use serde_json::json;

use super::place::{CLAIMS, NODES, PODS, POOLS, Place, never};

#[tokio::test(start_paused = true)]
async fn nodes_come_with_pods_and_go_with_them() {
    // covers: INV-1
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
    let place = Place::new(1, Rates::default(), disruption, json!({})).await;
    let agent = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}}}});
    place.create("/apis/apps/v1/namespaces/default/daemonsets", agent).await;
    place.deploy("web", 12, json!({}), json!({})).await;
    place.pass(240).await;
    let nodes = place.names(NODES).await;
    assert_eq!(place.running().await, 12 + nodes.len(), "and the agent on every node");
    assert_eq!(place.instances().len(), nodes.len());
    place.scale("web", 0).await;
    place.pass(300).await;
    assert!(place.list(CLAIMS).await.is_empty() && place.list(NODES).await.is_empty() && place.instances().is_empty());
    place.is_sound();
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_pods_holds_a_drain_until_there_is_room_elsewhere() {
    let place = Place::quiet(1).await;
    let pdb = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    place.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", pdb).await;
    place.deploy("web", 6, json!({}), json!({})).await;
    place.pass(180).await;
    assert_eq!(place.running().await, 6);
    for name in place.names(CLAIMS).await {
        place.delete(&format!("{CLAIMS}/{name}")).await;
    }
    let mut fewest = 6;
    for _ in 0..120 {
        place.pass(5).await;
        fewest = fewest.min(place.running().await);
    }
    assert!(fewest >= 5, "{fewest} ran at a time");
    assert_eq!((place.running().await, place.instances().len()), (6, place.list(CLAIMS).await.len()));
    place.is_sound();
}

#[tokio::test(start_paused = true)]
async fn a_bounded_drain_ends_what_may_not_be_disturbed_and_no_sooner() {
    let place = Place::new(1, Rates::default(), never(), json!({"terminationGracePeriod": "10m"})).await;
    place.deploy("web", 1, json!({}), json!({"karpenter.sh/do-not-disrupt": "true"})).await;
    place.pass(180).await;
    let claim = place.names(CLAIMS).await.remove(0);
    let pod = place.names(PODS).await.remove(0);
    place.delete(&format!("{CLAIMS}/{claim}")).await;
    place.pass(9 * 60).await;
    assert!(place.names(PODS).await.contains(&pod), "it has ten minutes");
    place.pass(4 * 60).await;
    assert!(!place.names(PODS).await.contains(&pod) && !place.names(CLAIMS).await.contains(&claim));
    assert_eq!((place.running().await, place.instances().len()), (1, 1), "and runs elsewhere");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_replaced_when_its_time_is_over() {
    let place = Place::new(1, Rates::default(), never(), json!({"expireAfter": "20m"})).await;
    place.deploy("web", 2, json!({}), json!({})).await;
    place.pass(15 * 60).await;
    let first = place.names(CLAIMS).await;
    place.pass(10 * 60).await;
    let second = place.names(CLAIMS).await;
    assert!(!first.is_empty() && first.iter().all(|name| !second.contains(name)), "{first:?} {second:?}");
    assert_eq!((place.running().await, place.instances().len()), (2, second.len()));
    place.is_sound();
}

#[tokio::test(start_paused = true)]
async fn machines_that_never_join_are_given_up_and_others_bought() {
    let rates = Rates { dead_machines: 0.7, ..Rates::default() };
    let place = Place::new(4, rates, never(), json!({})).await;
    place.deploy("web", 4, json!({}), json!({})).await;
    place.pass(3 * 3600).await;
    let dead = place.world.region.faults_fired().get("dead_machine").copied().unwrap_or(0);
    assert!(dead > 0, "{:?}", place.world.region.faults_fired());
    assert_eq!(place.running().await, 4);
    assert_eq!(place.instances().len(), place.list(CLAIMS).await.len(), "none of the dead is left");
}

#[tokio::test(start_paused = true)]
async fn what_is_sold_out_is_bought_as_something_else() {
    let place = Place::quiet(1).await;
    let any = Target::Pool { class: None, instance_type: None, zone: None };
    place.world.region.script(Script::new(any, "InsufficientInstanceCapacity", 5));
    place.deploy("web", 3, json!({}), json!({})).await;
    place.pass(300).await;
    assert!(place.world.region.faults_fired()["scripted_pool"] > 0);
    assert_eq!((place.running().await, place.instances().len()), (3, place.list(CLAIMS).await.len()));
    place.is_sound();
}

#[tokio::test(start_paused = true)]
async fn a_node_class_that_finds_no_network_buys_nothing_until_it_does() {
    let place = Place::quiet(1).await;
    let terms = |id: &str| json!({"spec": {"securityGroupSelectorTerms": [{"id": id}]}});
    let path = format!("{}/default", super::place::CLASSES);
    place.patch(&path, terms("sg-0123456789abcdef0")).await;
    place.pass(60).await;
    place.deploy("web", 1, json!({}), json!({})).await;
    place.pass(300).await;
    assert!(place.list(CLAIMS).await.is_empty() && place.instances().is_empty());
    let ours = json!({"spec": {"securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "simulated"}}]}});
    place.patch(&path, ours).await;
    place.pass(420).await;
    assert_eq!(place.running().await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_nodes_of_a_pool_that_is_deleted_go() {
    let place = Place::quiet(1).await;
    place.deploy("web", 3, json!({}), json!({})).await;
    place.pass(180).await;
    assert_eq!(place.running().await, 3);
    place.delete(&format!("{POOLS}/default")).await;
    place.pass(300).await;
    assert!(place.list(CLAIMS).await.is_empty() && place.list(NODES).await.is_empty() && place.instances().is_empty());
    assert_eq!(place.running().await, 0, "and nobody has a place for their pods");
    place.is_sound();
}

#[tokio::test(start_paused = true)]
async fn controllers_that_die_again_and_again_lose_nothing() {
    // covers: INV-1, INV-5
    let mut place = Place::quiet(2).await;
    place.deploy("web", 6, json!({}), json!({})).await;
    for seconds in [1, 2, 3, 5, 8, 13, 21] {
        place.pass(seconds).await;
        place.world.restart().await.unwrap();
    }
    place.pass(300).await;
    assert_eq!(place.running().await, 6);
    assert_eq!(place.instances().len(), place.list(CLAIMS).await.len());
    place.is_sound();
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_of_somebody_else_keeps_the_node_object_and_no_machine() {
    let place = Place::quiet(1).await;
    place.deploy("web", 1, json!({}), json!({})).await;
    place.pass(180).await;
    let node = format!("{NODES}/{}", place.names(NODES).await.remove(0));
    let ours = place.list(NODES).await[0]["metadata"]["finalizers"].clone();
    let mut all = ours.as_array().unwrap().clone();
    all.push(json!("example.com/mine"));
    place.patch(&node, json!({"metadata": {"finalizers": all}})).await;
    place.scale("web", 0).await;
    place.pass(20).await;
    place.delete(&node).await;
    place.pass(300).await;
    assert!(place.instances().is_empty(), "nobody pays for a finalizer");
    let left = place.list(NODES).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["finalizers"], json!(["example.com/mine"]));
    place.patch(&node, json!({"metadata": {"finalizers": null}})).await;
    place.pass(60).await;
    assert!(place.list(NODES).await.is_empty() && place.list(CLAIMS).await.is_empty());
}
