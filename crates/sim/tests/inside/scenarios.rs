//! What happens to a node from its purchase to its end, on the very provider that buys on AWS.

use karpenter_aws_sim::{Rates, Script, Target};
use serde_json::{Value, json};

use super::ground::Ground;
use super::place::{
    ATTACHMENTS, CLAIMS, CLASSES, DAEMON_SETS, NODES, PODS, POOLS, Place, STATEFUL_SETS, condition, never,
};

scenarios![
    nodes_come_with_pods_and_go_with_them,
    a_budget_of_pods_holds_a_drain_until_there_is_room_elsewhere,
    a_pod_that_may_not_be_disturbed_is_waited_for,
    a_bounded_drain_ends_what_may_not_be_disturbed_and_no_sooner,
    a_node_is_replaced_when_its_time_is_over,
    what_is_sold_out_is_bought_as_something_else,
    a_node_class_that_finds_no_network_buys_nothing_until_it_does,
    the_nodes_of_a_pool_that_is_deleted_go,
    controllers_that_die_again_and_again_lose_nothing,
    an_attached_volume_keeps_its_machine,
    a_finalizer_of_somebody_else_keeps_the_node_object_and_no_machine,
];

async fn nodes_come_with_pods_and_go_with_them(ground: &Ground) {
    // covers: INV-1
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]});
    let place = Place::new(ground, 1, Rates::default(), disruption, json!({})).await;
    let agent = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {"metadata": {"labels": {"app": "agent"}},
            "spec": {"terminationGracePeriodSeconds": 5,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}}}});
    place.create(DAEMON_SETS, agent).await;
    place.deploy("web", 12, json!({}), json!({})).await;
    let all = async || {
        let nodes = place.list(NODES).await.len();
        nodes > 0 && place.running().await == 12 + nodes
    };
    place.until("all pods run, and the agent on every node", 240, all).await;
    assert_eq!(place.instances().len(), place.list(NODES).await.len());
    assert!(place.is_even().await);
    place.scale("web", 0).await;
    place.until_empty(300).await;
    place.close().await;
}

async fn a_budget_of_pods_holds_a_drain_until_there_is_room_elsewhere(ground: &Ground) {
    let place = Place::quiet(ground).await;
    place.budget("web", 1).await;
    place.deploy("web", 6, json!({}), json!({})).await;
    place.until_running(6, 180).await;
    let old = place.names(CLAIMS).await;
    for name in &old {
        place.delete(&format!("{CLAIMS}/{name}")).await;
    }
    place.until_moved(&old, 6).await;
    assert!(place.is_even().await);
    place.close().await;
}

async fn a_pod_that_may_not_be_disturbed_is_waited_for(ground: &Ground) {
    let place = Place::quiet(ground).await;
    place.deploy("web", 1, json!({}), json!({"karpenter.sh/do-not-disrupt": "true"})).await;
    place.until_running(1, 180).await;
    let (claim, pod) = (place.names(CLAIMS).await.remove(0), place.names(PODS).await.remove(0));
    place.delete(&format!("{CLAIMS}/{claim}")).await;
    place.pass(30).await;
    assert!(place.names(PODS).await.contains(&pod) && place.names(CLAIMS).await.contains(&claim));
    let annotations = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}});
    place.patch(&format!("{PODS}/{pod}"), annotations).await;
    place.until_gone(&claim, 120).await;
    place.until_running(1, 120).await;
    place.close().await;
}

async fn a_bounded_drain_ends_what_may_not_be_disturbed_and_no_sooner(ground: &Ground) {
    let place = Place::new(ground, 1, Rates::default(), never(), json!({"terminationGracePeriod": "1m"})).await;
    place.deploy("web", 1, json!({}), json!({"karpenter.sh/do-not-disrupt": "true"})).await;
    place.until_running(1, 180).await;
    let (claim, pod) = (place.names(CLAIMS).await.remove(0), place.names(PODS).await.remove(0));
    place.delete(&format!("{CLAIMS}/{claim}")).await;
    place.pass(40).await;
    let object = place.get(&format!("{PODS}/{pod}")).await;
    assert!(object["metadata"]["deletionTimestamp"].is_null(), "it has a minute, of which it needs ten seconds to end");
    place.until_gone(&claim, 90).await;
    place.until_running(1, 120).await;
    assert!(!place.names(PODS).await.contains(&pod), "it runs elsewhere");
    assert_eq!(place.instances().len(), 1);
    // A pod is deleted where its time is up, which is not to be seen as a fault.
    place.clear().await;
}

async fn a_node_is_replaced_when_its_time_is_over(ground: &Ground) {
    let place = Place::new(ground, 1, Rates::default(), never(), json!({"expireAfter": "90s"})).await;
    place.deploy("web", 2, json!({}), json!({})).await;
    place.until_running(2, 90).await;
    let first = place.names(CLAIMS).await;
    assert!(!first.is_empty());
    let replaced = async || {
        let now = place.names(CLAIMS).await;
        !first.iter().any(|name| now.contains(name)) && place.running().await == 2
    };
    place.until("others have taken their place", 240, replaced).await;
    place.close().await;
}

async fn what_is_sold_out_is_bought_as_something_else(ground: &Ground) {
    let place = Place::quiet(ground).await;
    let any = Target::Pool { class: None, instance_type: None, zone: None };
    place.region().script(Script::new(any, "InsufficientInstanceCapacity", 5));
    place.deploy("web", 3, json!({}), json!({})).await;
    place.until_running(3, 300).await;
    assert!(place.region().faults_fired()["scripted_pool"] > 0);
    place.until("no claim is without a machine", 60, async || place.is_even().await).await;
    place.close().await;
}

async fn a_node_class_that_finds_no_network_buys_nothing_until_it_does(ground: &Ground) {
    let place = Place::quiet(ground).await;
    let path = format!("{CLASSES}/default");
    let terms = |terms: Value| json!({"spec": {"securityGroupSelectorTerms": [terms]}});
    place.patch(&path, terms(json!({"id": "sg-0123456789abcdef0"}))).await;
    let unready = async || condition(&place.list(POOLS).await[0], "Ready") == Some("False".to_owned());
    place.until("the pool is not ready", 60, unready).await;
    place.deploy("web", 1, json!({}), json!({})).await;
    place.pass(30).await;
    assert!(place.list(CLAIMS).await.is_empty() && place.instances().is_empty());
    place.patch(&path, terms(json!({"tags": {"karpenter.sh/discovery": "simulated"}}))).await;
    place.until_running(1, 480).await;
    place.close().await;
}

async fn the_nodes_of_a_pool_that_is_deleted_go(ground: &Ground) {
    let place = Place::quiet(ground).await;
    place.deploy("web", 3, json!({}), json!({})).await;
    place.until_running(3, 180).await;
    place.delete(&format!("{POOLS}/default")).await;
    place.until_empty(300).await;
    assert_eq!(place.running().await, 0, "and nobody has a place for their pods");
    place.close().await;
}

async fn controllers_that_die_again_and_again_lose_nothing(ground: &Ground) {
    // covers: INV-1, INV-5
    let mut place = Place::quiet(ground).await;
    place.deploy("web", 6, json!({}), json!({})).await;
    for seconds in [1, 2, 3, 5, 8, 13] {
        place.pass(seconds).await;
        place.stage.restart().await;
    }
    place.until_running(6, 300).await;
    place.until("no claim is without a machine", 120, async || place.is_even().await).await;
    place.close().await;
}

async fn an_attached_volume_keeps_its_machine(ground: &Ground) {
    // covers: LC-TERM-34
    let place = Place::quiet(ground).await;
    place.deploy("web", 1, json!({}), json!({})).await;
    place.until_running(1, 180).await;
    let (claim, node) = (place.names(CLAIMS).await.remove(0), place.names(NODES).await.remove(0));
    let old = place.instances().remove(0);
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {"name": "held", "finalizers": ["example.com/holds-on"]},
        "spec": {"attacher": "other.example.com", "nodeName": node, "source": {"persistentVolumeName": "pv"}}});
    place.create(ATTACHMENTS, attachment).await;
    place.delete(&format!("{CLAIMS}/{claim}")).await;
    // Its pod has long gone elsewhere.
    let moved = async || place.running().await == 1 && place.instances().len() == 2;
    place.until("the pod has moved", 180, moved).await;
    place.pass(30).await;
    assert!(place.instances().contains(&old) && place.names(CLAIMS).await.contains(&claim), "a volume is attached");
    let held = format!("{ATTACHMENTS}/held");
    place.patch(&held, json!({"metadata": {"finalizers": null}})).await;
    // Whoever looks after attachments may have been waiting for that.
    if place.names(ATTACHMENTS).await.contains(&"held".to_owned()) {
        place.delete(&held).await;
    }
    place.until_gone(&claim, 120).await;
    assert!(!place.instances().contains(&old));
    place.close().await;
}

async fn a_finalizer_of_somebody_else_keeps_the_node_object_and_no_machine(ground: &Ground) {
    let place = Place::quiet(ground).await;
    place.deploy("web", 1, json!({}), json!({})).await;
    place.until_running(1, 180).await;
    let node = format!("{NODES}/{}", place.names(NODES).await.remove(0));
    let mut all = place.list(NODES).await[0]["metadata"]["finalizers"].as_array().unwrap().clone();
    all.push(json!("example.com/mine"));
    place.patch(&node, json!({"metadata": {"finalizers": all}})).await;
    place.scale("web", 0).await;
    place.pass(20).await;
    place.delete(&node).await;
    place.until("nobody pays for a finalizer", 300, async || place.instances().is_empty()).await;
    let only_theirs = async || place.get(&node).await["metadata"]["finalizers"] == json!(["example.com/mine"]);
    place.until("ours is taken", 60, only_theirs).await;
    place.patch(&node, json!({"metadata": {"finalizers": null}})).await;
    place.until_empty(60).await;
    place.close().await;
}

// What takes many minutes, or somebody who plays the storage, is for virtual time alone.

#[tokio::test(start_paused = true)]
async fn machines_that_never_join_are_given_up_and_others_bought() {
    let rates = Rates { dead_machines: 0.7, ..Rates::default() };
    let place = Place::new(&Ground::Embedded, 4, rates, never(), json!({})).await;
    place.deploy("web", 4, json!({}), json!({})).await;
    place.pass(3 * 3600).await;
    let dead = place.region().faults_fired().get("dead_machine").copied().unwrap_or(0);
    assert!(dead > 0, "{:?}", place.region().faults_fired());
    assert_eq!(place.running().await, 4);
    assert!(place.is_even().await, "none of the dead is left");
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_terminated_once_its_volumes_are_detached() {
    // covers: LC-TERM-34
    let place = Place::quiet(&Ground::Embedded).await;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"});
    place.create("/apis/storage.k8s.io/v1/storageclasses", class).await;
    let data = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}});
    let pod = json!({"terminationGracePeriodSeconds": 10, "containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "1"}}}]});
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {"replicas": 1, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": pod}, "volumeClaimTemplates": [data]}});
    place.create(STATEFUL_SETS, set).await;
    place.until_running(1, 240).await;
    let (claim, old) = (place.names(CLAIMS).await.remove(0), place.instances().remove(0));
    // Somebody holds on to the volume.
    let attachment = format!("{ATTACHMENTS}/{}", place.names(ATTACHMENTS).await.remove(0));
    let mut finalizers = place.list(ATTACHMENTS).await[0]["metadata"]["finalizers"].as_array().unwrap().clone();
    finalizers.push(json!("example.com/holds-on"));
    place.patch(&attachment, json!({"metadata": {"finalizers": finalizers}})).await;
    place.delete(&format!("{CLAIMS}/{claim}")).await;
    place.pass(600).await;
    assert!(
        place.instances().contains(&old) && place.names(CLAIMS).await.contains(&claim),
        "its volume is still there"
    );
    place.patch(&attachment, json!({"metadata": {"finalizers": null}})).await;
    place.until_gone(&claim, 120).await;
    assert!(!place.instances().contains(&old));
    place.until_running(1, 240).await;
    assert_eq!(place.instances().len(), 1, "it runs elsewhere, with its volume");
    place.close().await;
}
