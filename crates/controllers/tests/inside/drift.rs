//! Nodes that are no longer what their pool or node class asks for.

use karpenter_controllers::Settings;
use karpenter_controllers::roster::all;
use serde_json::{Value, json};

use super::lab::{CLAIMS, CLASSES, Lab, POOLS, running};
use super::shop::Saying;

/// One node with one pod, in a pool that lets nothing go.
async fn one_node(lab: &mut Lab) {
    lab.node_class().await;
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    lab.pool("main", json!({"disruption": disruption})).await;
    lab.run(all(&Settings::default()));
    lab.deployment("web", 1, "7").await;
    lab.settle(120).await;
    assert_eq!(running(&lab.pods("web").await), 1);
}

/// Why the one claim is drifted, and since when.
async fn drift(lab: &Lab) -> Option<(String, Value)> {
    let claims = lab.claims().await;
    let conditions = claims[0]["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == "Drifted")?;
    assert_eq!((&found["status"], &found["message"]), (&json!("True"), &found["reason"]));
    Some((found["reason"].as_str().unwrap().to_owned(), found["lastTransitionTime"].clone()))
}

async fn reason(lab: &Lab) -> Option<String> {
    drift(lab).await.map(|(reason, _)| reason)
}

#[tokio::test(start_paused = true)]
async fn what_a_pool_asks_for_is_compared_when_it_changes() {
    // covers: DIS-DRIFT-02, DIS-DRIFT-07, DIS-DRIFT-09, API-CD-24, SEED2-30
    let mut lab = Lab::new(1).await;
    one_node(&mut lab).await;
    assert_eq!(reason(&lab).await, None);
    let pool = format!("{POOLS}/main");
    // What decides how many nodes there are and when they go does not decide what they are.
    let harmless = json!({"spec": {"weight": 7, "limits": {"cpu": "1000"},
        "disruption": {"budgets": [{"nodes": "0"}, {"nodes": "1"}], "consolidationPolicy": "WhenEmptyOrUnderutilized"}}});
    lab.patch(&pool, harmless).await;
    lab.settle(5).await;
    assert_eq!(reason(&lab).await, None);
    let requirements = |zones: Value| {
        json!({"spec": {"template": {"spec": {"requirements":
            [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": zones}]}}}})
    };
    lab.patch(&pool, requirements(json!(["a", "b"]))).await;
    lab.settle(5).await;
    assert_eq!(reason(&lab).await, None, "it still matches");
    lab.patch(&pool, requirements(json!(["b"]))).await;
    lab.settle(5).await;
    assert_eq!(reason(&lab).await.as_deref(), Some("RequirementsDrifted"));
    let since = drift(&lab).await.unwrap().1;
    lab.settle(30).await;
    lab.patch(&pool, json!({"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})).await;
    lab.settle(5).await;
    let (reason_now, since_now) = drift(&lab).await.unwrap();
    assert_eq!(
        (reason_now.as_str(), since_now),
        ("NodePoolDrifted", since),
        "the first check that hits; drifted all along"
    );
    lab.patch(&pool, json!({"spec": {"template": {"metadata": null}}})).await;
    lab.patch(&pool, requirements(json!(["a"]))).await;
    lab.settle(5).await;
    assert_eq!(reason(&lab).await, None, "healed, and removed rather than False");
}

#[tokio::test(start_paused = true)]
async fn what_the_provider_says_is_asked_in_time() {
    // covers: DIS-DRIFT-07, DIS-DRIFT-08
    let mut lab = Lab::new(1).await;
    one_node(&mut lab).await;
    lab.shop.say(Some(Saying::Drifted("AMIDrift")));
    lab.settle(301).await;
    assert_eq!(reason(&lab).await.as_deref(), Some("AMIDrift"), "nothing changed that anybody watches");
    // Neither a machine that is gone nor a cloud that does not answer says anything new.
    for saying in [Saying::NotFound, Saying::Failure] {
        lab.shop.say(Some(saying));
        lab.settle(700).await;
        assert_eq!(reason(&lab).await.as_deref(), Some("AMIDrift"));
    }
    lab.shop.say(None);
    lab.settle(1001).await;
    assert_eq!(reason(&lab).await, None, "asked again until it answers");
    // A node class that changes is news.
    lab.shop.say(Some(Saying::Drifted("SubnetDrift")));
    lab.patch(&format!("{CLASSES}/default"), json!({"spec": {"tags": {"a": "b"}}})).await;
    lab.settle(2).await;
    assert_eq!(reason(&lab).await.as_deref(), Some("SubnetDrift"));
}

#[tokio::test(start_paused = true)]
async fn only_what_was_launched_from_a_pool_drifts() {
    // covers: DIS-DRIFT-01
    let mut lab = Lab::new(1).await;
    one_node(&mut lab).await;
    lab.shop.say(Some(Saying::Drifted("AMIDrift")));
    lab.settle(301).await;
    let name = lab.claims().await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let claim = lab.claims().await[0].clone();
    let mut conditions = claim["status"]["conditions"].as_array().unwrap().clone();
    for condition in &mut conditions {
        if condition["type"] == "Launched" {
            condition["status"] = json!("Unknown");
        }
    }
    lab.crash();
    lab.patch(&format!("{CLAIMS}/{name}/status"), json!({"status": {"conditions": conditions}})).await;
    // Nobody launches it again: only the conditions are kept.
    lab.run(karpenter_controllers::disruption::reconcilers());
    lab.settle(5).await;
    assert_eq!(reason(&lab).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_type_that_nobody_sells_any_more_is_found_missing() {
    // covers: DIS-DRIFT-05
    let mut lab = Lab::new(1).await;
    one_node(&mut lab).await;
    let kind =
        lab.claims().await[0]["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str().unwrap().to_owned();
    lab.shop.discontinue(&kind);
    lab.settle(3000).await;
    assert_eq!(reason(&lab).await, None, "not in its first hour");
    lab.settle(1000).await;
    assert_eq!(reason(&lab).await.as_deref(), Some("InstanceTypeNotFound"));
}
