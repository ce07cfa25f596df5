//! Pools with `replicas`: so many nodes, whatever pods need.

use std::collections::BTreeSet;

use karpenter_apiserver::{Effect as Breakage, Fault};
use karpenter_controllers::Settings;
use karpenter_controllers::roster::all;
use serde_json::{Value, json};

use super::lab::{CLAIMS, CLASSES, Lab, NODES, POOLS, running};
use super::scythe::When;
use super::silence::Trouble;

fn settings() -> Settings {
    Settings { static_capacity: true, ..Settings::default() }
}

/// A static pool `fixed` with these fields in its spec, and everything running.
async fn with_pool(spec: Value) -> Lab {
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    lab.pool("fixed", spec).await;
    lab.run_with(all(&settings()), settings());
    lab
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Claims that nobody has asked to go.
async fn staying(lab: &Lab) -> BTreeSet<String> {
    let claims = lab.claims().await;
    claims.iter().filter(|claim| claim["metadata"]["deletionTimestamp"].is_null()).map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn claims_that_are_given_up_are_made_up_for_ever_more_slowly() {
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    lab.pool("fixed", json!({"replicas": 2})).await;
    ["small", "large"].iter().for_each(|kind| lab.shop.sell_out_secretly(kind));
    lab.run_with(all(&settings()), settings());
    lab.settle(10).await;
    let soon = lab.shop.attempts().len();
    assert!(soon >= 4, "two at a time, after one second, two, four: {soon}");
    lab.settle(590).await;
    let tried = lab.shop.attempts().len();
    assert!(tried <= 2 * 12, "after five minutes at most, and no more often: {tried}");
    ["small", "large"].iter().for_each(|kind| lab.shop.sell_out(kind, true));
    lab.settle(310).await;
    assert_eq!(staying(&lab).await.len(), 2, "when there are machines again");
}

async fn resize(lab: &Lab, replicas: u64) {
    lab.patch(&format!("{POOLS}/fixed"), json!({"spec": {"replicas": replicas}})).await;
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_has_as_many_nodes_as_it_says() {
    // covers: STATIC-06, STATIC-08, STATIC-11, STATIC-12, STATIC-13, STATIC-15, STATIC-16, STATIC-22
    // covers: SCH-STATIC-03, SCH-STATIC-10, SCH-STATIC-11, SCH-STATIC-13
    let lab = with_pool(json!({"replicas": 3, "disruption": {"consolidateAfter": "0s"}})).await;
    lab.settle(5).await;
    let first = staying(&lab).await;
    assert_eq!(first.len(), 3);
    lab.settle(120).await;
    assert_eq!((staying(&lab).await, lab.list(NODES).await.len()), (first.clone(), 3), "empty, and still there");
    assert!(lab.claims().await.iter().all(|claim| condition(claim, "Consolidatable").is_none()));
    // Somebody takes one away.
    lab.delete(&format!("{CLAIMS}/{}", first.first().unwrap())).await;
    lab.settle(2).await;
    assert_eq!(staying(&lab).await.len(), 3, "made up for at once");
    resize(&lab, 5).await;
    lab.settle(2).await;
    assert_eq!(staying(&lab).await.len(), 5);
    lab.settle(120).await;
    resize(&lab, 2).await;
    lab.settle(2).await;
    assert_eq!(staying(&lab).await.len(), 2);
    lab.settle(120).await;
    assert_eq!((lab.claims().await.len(), lab.shop.running().len()), (2, 2));
    // What is not ready gets nothing new, and loses what is too much.
    let conditions = json!([{"type": "Ready", "status": "False", "reason": "SubnetsNotFound", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]);
    lab.patch(&format!("{CLASSES}/default/status"), json!({"status": {"conditions": conditions}})).await;
    lab.settle(2).await;
    resize(&lab, 4).await;
    lab.settle(90).await;
    assert_eq!(staying(&lab).await.len(), 2);
    resize(&lab, 1).await;
    lab.settle(2).await;
    assert_eq!(staying(&lab).await.len(), 1);
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:10:00Z", "observedGeneration": 1}]);
    resize(&lab, 3).await;
    lab.patch(&format!("{CLASSES}/default/status"), json!({"status": {"conditions": conditions}})).await;
    lab.settle(2).await;
    assert_eq!(staying(&lab).await.len(), 3, "as soon as it is ready");
    resize(&lab, 0).await;
    lab.settle(180).await;
    assert_eq!((lab.claims().await.len(), lab.shop.running().len(), lab.list(NODES).await.len()), (0, 0, 0));
    resize(&lab, 2).await;
    lab.settle(120).await;
    lab.delete(&format!("{POOLS}/fixed")).await;
    lab.settle(180).await;
    assert_eq!((lab.claims().await.len(), lab.shop.running().len()), (0, 0), "nothing is left of a pool that is gone");
}

#[tokio::test(start_paused = true)]
async fn its_claims_are_its_template_and_nothing_else() {
    // covers: STATIC-05, SCH-STATIC-08, SCH-STATIC-09
    let template = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}], "terminationGracePeriod": "1h",
            "requirements": [{"key": "example.com/rack", "operator": "In", "values": ["7", "8"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b", "a"]}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}});
    let lab = with_pool(json!({"replicas": 1, "template": template})).await;
    lab.settle(60).await;
    let claims = lab.claims().await;
    let [claim] = claims.as_slice() else { panic!("{claims:?}") };
    assert!(name(claim).starts_with("fixed-"));
    let labels = &claim["metadata"]["labels"];
    assert_eq!((&labels["team"], &labels["karpenter.sh/nodepool"]), (&json!("a"), &json!("fixed")));
    assert!(["7", "8"].contains(&labels["example.com/rack"].as_str().unwrap()));
    assert_eq!(claim["metadata"]["annotations"]["note"], "b");
    assert!(claim["metadata"]["annotations"]["karpenter.sh/nodepool-hash"].is_string());
    assert_eq!(claim["metadata"]["ownerReferences"][0]["name"], "fixed");
    let spec = &claim["spec"];
    assert_eq!((&spec["taints"][0]["key"], &spec["terminationGracePeriod"]), (&json!("dedicated"), &json!("1h")));
    assert_eq!(spec["resources"], Value::Null);
    let requirements = spec["requirements"].as_array().unwrap();
    let of = |key: &str| requirements.iter().find(|one| one["key"] == key);
    assert_eq!(of("topology.kubernetes.io/zone").unwrap()["values"], json!(["a", "b"]), "in order");
    assert!(of("node.kubernetes.io/instance-type").is_none() && of("karpenter.sh/capacity-type").is_none());
    assert_eq!(lab.metric("karpenter_nodeclaims_created_total", "reason=\"provisioned\",nodepool=\"fixed\""), 1.0);
}

#[tokio::test(start_paused = true)]
async fn the_limit_on_nodes_holds_whatever_goes_on() {
    // covers: STATIC-03, STATIC-07, SCH-STATIC-05, SCH-STATIC-06, SCH-STATIC-07
    let lab = with_pool(json!({"replicas": 5, "limits": {"nodes": "3"}})).await;
    lab.settle(120).await;
    assert_eq!(lab.claims().await.len(), 3);
    // What goes away counts until it is gone: its machine is still paid for.
    let gone = staying(&lab).await.pop_first().unwrap();
    lab.patch(&format!("{CLAIMS}/{gone}"), json!({"metadata": {"finalizers": ["karpenter.sh/termination", "a.b/c"]}}))
        .await;
    lab.delete(&format!("{CLAIMS}/{gone}")).await;
    for _ in 0..90 {
        lab.settle(1).await;
        assert!(lab.claims().await.len() <= 3);
    }
    assert_eq!(staying(&lab).await.len(), 2);
    lab.patch(&format!("{CLAIMS}/{gone}"), json!({"metadata": {"finalizers": null}})).await;
    lab.settle(2).await;
    assert_eq!(staying(&lab).await.len(), 3, "gone is a reason to look");
    lab.patch(&format!("{POOLS}/fixed"), json!({"spec": {"limits": {"nodes": "4"}}})).await;
    lab.settle(31).await;
    assert_eq!(staying(&lab).await.len(), 4, "twice a minute while there is no room");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_created_is_made_up_for() {
    // covers: STATIC-05, SCH-STATIC-07, SCH-STATIC-10
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let fault = Fault {
        methods: vec!["POST".to_owned()],
        path_contains: "/nodeclaims".to_owned(),
        per_mille: 1_000,
        times: Some(2),
        effect: Breakage::InternalError,
    };
    lab.pool("fixed", json!({"replicas": 4, "limits": {"nodes": "4"}})).await;
    lab.server.inject(fault);
    lab.run_with(all(&settings()), settings());
    lab.settle(20).await;
    assert_eq!(lab.claims().await.len(), 4, "a right to create that failed is given back");
}

#[tokio::test(start_paused = true)]
async fn without_its_feature_gate_nothing_is_bought() {
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    lab.pool("fixed", json!({"replicas": 3})).await;
    lab.run(all(&Settings::default()));
    lab.settle(200).await;
    assert!(lab.claims().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_use_its_nodes_and_never_make_more() {
    // covers: STATIC-14, SCH-STATIC-02
    let lab = with_pool(json!({"replicas": 1})).await;
    lab.pool("main", json!({})).await;
    lab.deployment("web", 1, "1").await;
    lab.settle(20).await;
    assert_eq!(lab.claims().await.len(), 1, "the pod waits for what is on its way");
    lab.settle(100).await;
    assert_eq!((running(&lab.pods("web").await), lab.claims().await.len()), (1, 1));
    lab.scale("web", 12).await;
    lab.settle(120).await;
    assert_eq!(running(&lab.pods("web").await), 12);
    let of = |pool: &str, claims: &[Value]| {
        claims.iter().filter(|claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"] == pool).count()
    };
    let claims = lab.claims().await;
    assert!(of("fixed", &claims) == 1 && of("main", &claims) > 0, "{claims:?}");
}

#[tokio::test(start_paused = true)]
async fn nodes_without_pods_go_first() {
    // covers: STATIC-09
    let lab = with_pool(json!({"replicas": 3})).await;
    lab.settle(120).await;
    lab.deployment("web", 1, "1").await;
    lab.settle(20).await;
    let pods = lab.pods("web").await;
    assert_eq!(running(&pods), 1);
    resize(&lab, 1).await;
    lab.settle(120).await;
    assert_eq!(lab.pods("web").await[0]["metadata"]["uid"], pods[0]["metadata"]["uid"], "it was not moved");
    assert_eq!(lab.claims().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_neither_adds_nor_takes_too_many() {
    // covers: CP-A4, CP-F3
    for (when, method, replicas, limit) in
        [(When::Before, "POST", 3, 3), (When::After, "POST", 3, 3), (When::After, "DELETE", 1, 3)]
    {
        let mut lab = with_pool(json!({"replicas": 2, "limits": {"nodes": limit.to_string()}})).await;
        lab.settle(120).await;
        lab.scythe.arm(when, move |effect| effect.name.starts_with(&format!("{method} {CLAIMS}")));
        resize(&lab, replicas).await;
        lab.settle(10).await;
        assert!(lab.scythe.is_dead(), "{method}");
        lab.run_with(all(&settings()), settings());
        for _ in 0..120 {
            lab.settle(1).await;
            let (staying, all) = (staying(&lab).await.len() as u64, lab.claims().await.len());
            assert!(all <= limit && staying >= replicas.min(2), "{when:?} {method}: {staying} of {all}");
        }
        assert_eq!(lab.claims().await.len() as u64, replicas, "{when:?} {method}");
    }
}

/// Changes the template, so that every node is another than the pool asks for.
async fn edit(lab: &Lab) {
    lab.patch(&format!("{POOLS}/fixed"), json!({"spec": {"template": {"metadata": {"labels": {"team": "b"}}}}})).await;
}

async fn is_new(lab: &Lab) -> bool {
    let claims = lab.claims().await;
    claims.iter().all(|claim| claim["metadata"]["labels"]["team"] == "b")
}

#[tokio::test(start_paused = true)]
async fn drifted_nodes_are_replaced_one_for_one() {
    // covers: STATIC-17, DIS-CAND-12, STATE-35
    let lab = with_pool(json!({"replicas": 4, "disruption": {"budgets": [{"nodes": "2"}]}})).await;
    lab.settle(120).await;
    lab.deployment("web", 4, "1").await;
    lab.settle(30).await;
    edit(&lab).await;
    let (mut most, mut fewest) = (0, usize::MAX);
    for _ in 0..600 {
        lab.settle(1).await;
        let claims = lab.claims().await;
        // Those whose instances terminate have left their place in the budget to the next.
        let stays = |claim: &&Value| !condition(claim, "InstanceTerminating").is_some_and(|c| c["status"] == "True");
        most = most.max(claims.iter().filter(stays).count());
        let ready =
            claims.iter().filter(|claim| condition(claim, "Initialized").is_some_and(|c| c["status"] == "True"));
        fewest = fewest.min(ready.count());
        if claims.len() == 4 && is_new(&lab).await {
            break;
        }
    }
    assert!(is_new(&lab).await);
    assert_eq!((most, fewest), (6, 4), "two at a time, each replaced before it goes");
    assert_eq!(lab.shop.bought(), 8);
    lab.settle(120).await;
    assert_eq!((lab.claims().await.len(), running(&lab.pods("web").await)), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn drift_waits_for_room_under_the_limit() {
    // covers: STATIC-18, STATIC-19
    let lab =
        with_pool(json!({"replicas": 2, "limits": {"nodes": "2"}, "disruption": {"budgets": [{"nodes": "100%"}]}}))
            .await;
    lab.settle(120).await;
    let before = staying(&lab).await;
    edit(&lab).await;
    lab.settle(600).await;
    assert_eq!(staying(&lab).await, before);
    let told = lab.events("Node").await;
    assert!(told.iter().any(|event| event.contains("may have no other node to replace it")), "{told:?}");
    lab.patch(&format!("{POOLS}/fixed"), json!({"spec": {"limits": {"nodes": "3"}}})).await;
    let mut most = 0;
    for _ in 0..600 {
        lab.settle(1).await;
        most = most.max(lab.claims().await.len());
    }
    assert!(is_new(&lab).await);
    assert_eq!((most, staying(&lab).await.len()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_a_crash_orphaned_is_one_too_many() {
    // covers: CP-H11, CP-A3
    let mut lab = with_pool(json!({"replicas": 2, "disruption": {"budgets": [{"nodes": "1"}]}})).await;
    lab.settle(120).await;
    lab.scythe.arm(When::After, |effect| effect.name == format!("POST {CLAIMS}"));
    edit(&lab).await;
    lab.settle(60).await;
    assert!(lab.scythe.is_dead() && lab.claims().await.len() == 3);
    lab.run_with(all(&settings()), settings());
    for _ in 0..900 {
        lab.settle(1).await;
        assert!(staying(&lab).await.len() >= 2);
    }
    assert!(is_new(&lab).await);
    assert_eq!((lab.claims().await.len(), lab.shop.running().len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_away_while_pods_cannot_be_seen() {
    let lab = with_pool(json!({"replicas": 3})).await;
    lab.settle(120).await;
    // Which node is worth least, nobody knows any more.
    lab.reads.suffer("/pods", Trouble::Unanswered);
    lab.settle(100).await;
    resize(&lab, 1).await;
    lab.settle(300).await;
    assert_eq!(staying(&lab).await.len(), 3);
    lab.reads.recover();
    lab.settle(90).await;
    assert_eq!(staying(&lab).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_counts_and_is_not_taken_away() {
    let mut lab = with_pool(json!({"replicas": 3})).await;
    lab.settle(120).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 3);
    lab.scythe.garble("\"note\":\"odd\"", "\"note\":7");
    let odd = json!({"metadata": {"annotations": {"note": "odd"}}});
    lab.patch(&format!("{CLAIMS}/{}", name(&claims[0])), odd.clone()).await;
    lab.patch(&format!("{NODES}/{}", claims[1]["status"]["nodeName"].as_str().unwrap()), odd.clone()).await;
    let kept = BTreeSet::from([name(&claims[0]), name(&claims[1])]);
    resize(&lab, 0).await;
    lab.settle(300).await;
    assert_eq!(staying(&lab).await, kept, "nothing is done to what cannot be read");
    // A new process has never read them.
    resize(&lab, 2).await;
    lab.run_with(all(&settings()), settings());
    lab.settle(120).await;
    assert_eq!(staying(&lab).await, kept, "both are there");
    // A pool that cannot be read may want another number by now.
    lab.scythe.clear();
    lab.settle(120).await;
    lab.scythe.garble("\"note\":\"odd\"", "\"note\":7");
    lab.patch(&format!("{POOLS}/fixed"), odd).await;
    lab.create(CLAIMS, extra(&claims[2])).await;
    lab.settle(120).await;
    assert_eq!(staying(&lab).await.len(), 3, "one too many, as far as anybody knows");
}

/// A claim that somebody else made for the same pool.
fn extra(like: &Value) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "extra", "labels": like["metadata"]["labels"], "ownerReferences": like["metadata"]["ownerReferences"]},
        "spec": like["spec"]})
}
