//! What people say of instance types: judged, told and applied.

use std::sync::Arc;

use karpenter_api::NodeOverlay;
use karpenter_controllers::overlays::NodeOverlays;
use karpenter_controllers::roster::all;
use karpenter_controllers::{Action, Reconciler, Settings};
use karpenter_core::labels::Vocabulary;
use karpenter_index::{Key, Kind, Object};
use karpenter_provider::overlay::{Overlaid, Store};
use karpenter_provider::{CloudProvider, TypesError};
use serde_json::{Value, json};

use super::lab::{CLASSES, Lab, running};

const OVERLAYS: &str = "/apis/karpenter.sh/v1alpha1/nodeoverlays";

fn settings() -> Settings {
    Settings { node_overlays: true, ..Settings::default() }
}

fn overlay(name: &str, kind: &str, more: Value) -> Value {
    let requirements = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [kind]}]);
    let mut spec = json!({"requirements": requirements});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec})
}

/// All controllers, over a shop whose list is as overlays have it; with or without the one that judges them.
fn open(lab: &mut Lab, judge: bool) -> Arc<Store> {
    let store = Arc::new(Store::new(Vocabulary::kubernetes()));
    let mut reconcilers = all(&settings());
    if judge {
        reconcilers.push(Arc::new(NodeOverlays::new(lab.shop.clone(), store.clone())));
    }
    let provider = Arc::new(Overlaid::new(lab.shop.clone(), store.clone()));
    lab.run_over(provider, reconcilers, settings());
    store
}

/// Status, reason, and whether it is ready.
async fn standing(lab: &Lab, name: &str) -> (String, String, String) {
    let overlay = lab.get(&format!("{OVERLAYS}/{name}")).await.unwrap();
    let conditions = overlay["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let find = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let validated = find("ValidationSucceeded");
    (text(&validated["status"]), text(&validated["reason"]), text(&find("Ready")["status"]))
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_left_alone_until_its_overlays_are_judged() {
    // covers: SCH-OVERLAY-07, SCH-OVERLAY-22
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.pool("broken", json!({"weight": 9})).await;
    lab.make_ready("broken").await;
    lab.deployment("web", 1, "1").await;
    open(&mut lab, false);
    lab.settle(60).await;
    assert!(lab.claims().await.is_empty(), "nobody has judged the overlays");
    let store = open(&mut lab, true);
    lab.settle(90).await;
    assert_eq!(running(&lab.pods("web").await), 1, "one pool that cannot be read does not hold up another");
    let types = lab.shop.instance_types(&lab.context.index.node_pool("main").unwrap()).await.unwrap();
    assert!(store.apply("main", &types).is_ok());
    assert!(matches!(store.apply("broken", &types), Err(TypesError::Unevaluated { .. })));
    let judge = NodeOverlays::new(lab.shop.clone(), store);
    let failed = judge.reconcile(&Key::cluster(""), &lab.context).await.unwrap_err().to_string();
    assert_eq!(failed, "listing instance types for nodepool \"broken\", no price list", "so it is tried again");
    // While the class is being resolved that is no error, and its change brings us back.
    let resolving = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "x", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    lab.patch(&format!("{CLASSES}/default/status"), resolving).await;
    lab.settle(1).await;
    assert!(matches!(judge.reconcile(&Key::cluster(""), &lab.context).await, Ok(Action::After(_))));
}

#[tokio::test(start_paused = true)]
async fn prices_people_give_decide_what_is_bought_and_what_is_replaced() {
    // covers: SCH-OVERLAY-05, SCH-OVERLAY-21, SCH-OVERLAY-24, API-NO-08, API-NO-09
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let disruption = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s",
        "budgets": [{"nodes": "100%"}]});
    lab.pool("main", json!({"disruption": disruption})).await;
    open(&mut lab, true);
    lab.deployment("web", 1, "1").await;
    lab.settle(120).await;
    let kinds = |claims: Vec<Value>| -> Vec<String> {
        let kind = |claim: &Value| {
            claim["metadata"]["labels"]["node.kubernetes.io/instance-type"].as_str().unwrap().to_owned()
        };
        claims.iter().map(kind).collect()
    };
    let marks = |claim: &Value| {
        ["price", "capacity"]
            .map(|what| claim["metadata"]["annotations"][format!("karpenter.sh/{what}-overlay-applied")] == "true")
    };
    let before = lab.claims().await;
    assert_eq!((marks(&before[0]), kinds(before)), ([false, false], vec!["small".to_owned()]));
    let unsettled = lab.context.index.unsettled();
    // Of two that differ in weight the heavier one has its way.
    lab.create(OVERLAYS, overlay("heavy", "large", json!({"price": "0.01", "weight": 10}))).await;
    lab.create(OVERLAYS, overlay("light", "large", json!({"priceAdjustment": "+100%"}))).await;
    lab.settle(2).await;
    assert!(lab.context.index.unsettled() > unsettled, "consolidation is told at once");
    lab.settle(300).await;
    let after = lab.claims().await;
    assert_eq!((marks(&after[0]), kinds(after)), ([true, false], vec!["large".to_owned()]));
    for name in ["heavy", "light"] {
        assert_eq!(standing(&lab, name).await, ("True".into(), "ValidationSucceeded".into(), "True".into()));
    }
    // What nobody sells becomes something to ask for, where somebody says that it is there.
    lab.create(OVERLAYS, overlay("dongles", "small", json!({"capacity": {"example.com/dongle": "2"}}))).await;
    let mut wants = super::lab::deployment("gadget", 1, "1");
    wants["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = json!({"example.com/dongle": "1"});
    lab.create(super::lab::DEPLOYMENTS, wants).await;
    lab.settle(20).await;
    let new = lab.claims().await.into_iter().find(|claim| marks(claim)[1]);
    assert!(new.is_some(), "a claim that was chosen for such capacity says so");
}

#[tokio::test(start_paused = true)]
async fn overlays_that_contradict_or_make_no_sense_are_told_so_and_do_not_hold() {
    // covers: API-NO-07, API-CD-30, SCH-OVERLAY-05, SCH-OVERLAY-19
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    let store = open(&mut lab, true);
    lab.create(OVERLAYS, overlay("a", "small", json!({"price": "1"}))).await;
    lab.create(OVERLAYS, overlay("b", "small", json!({"price": "2"}))).await;
    let mut wrong = overlay("wrong", "small", json!({"price": "3", "weight": 3}));
    let long = format!("{}/x", "a".repeat(260));
    wrong["spec"]["requirements"] = json!([{"key": long, "operator": "Exists"}]);
    lab.create(OVERLAYS, wrong).await;
    lab.settle(10).await;
    let ok = ("True".to_owned(), "ValidationSucceeded".to_owned(), "True".to_owned());
    let bad = |reason: &str| ("False".to_owned(), reason.to_owned(), "False".to_owned());
    assert_eq!(standing(&lab, "b").await, ok, "first in order");
    assert_eq!(standing(&lab, "a").await, bad("Conflict"));
    assert_eq!(standing(&lab, "wrong").await, bad("RuntimeValidation"));
    let price = |store: &Store, types: &karpenter_provider::InstanceTypes| {
        store.apply("main", types).unwrap().iter().find(|kind| &*kind.name == "small").unwrap().offerings[0].price.0
    };
    let types = lab.shop.instance_types(&lab.context.index.node_pool("main").unwrap()).await.unwrap();
    assert_eq!(price(&store, &types), 2_000_000);
    lab.delete(&format!("{OVERLAYS}/b")).await;
    lab.settle(10).await;
    assert_eq!(standing(&lab, "a").await, ok, "a change of any of them is a new look at all");
    assert_eq!(price(&store, &types), 1_000_000);
}

#[tokio::test(start_paused = true)]
async fn an_evaluation_of_what_has_changed_meanwhile_is_not_kept() {
    // covers: SCH-OVERLAY-20
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    // The cluster is known, and nobody works but us.
    open(&mut lab, false);
    lab.settle(5).await;
    lab.crash();
    let store = Arc::new(Store::new(Vocabulary::kubernetes()));
    let judge = NodeOverlays::new(lab.shop.clone(), store.clone());
    let types = lab.shop.instance_types(&lab.context.index.node_pool("main").unwrap()).await.unwrap();
    let key = Key::cluster("");
    let made = lab.create(OVERLAYS, overlay("a", "small", json!({"price": "1"}))).await;
    let seen = |object: &Value| -> NodeOverlay { serde_json::from_value(object.clone()).unwrap() };
    lab.context.saw(seen(&made));
    let edited = lab.patch(&format!("{OVERLAYS}/a"), json!({"spec": {"price": "2"}})).await;
    assert_eq!(judge.reconcile(&key, &lab.context).await.unwrap(), Action::Again, "somebody else wrote first");
    assert!(store.apply("main", &types).is_err(), "and nothing is stored");
    lab.context.saw(seen(&edited));
    lab.delete(&format!("{OVERLAYS}/a")).await;
    assert_eq!(judge.reconcile(&key, &lab.context).await.unwrap(), Action::Again, "it is gone");
    assert!(store.apply("main", &types).is_err());
    let gone = Object::decode(Kind::NodeOverlay, &edited.to_string()).unwrap();
    lab.context.index.remove(Kind::NodeOverlay, &Key::of(gone.metadata()), u64::MAX);
    let again = judge.reconcile(&key, &lab.context).await.unwrap();
    assert!(matches!(again, Action::After(pause) if pause.as_secs() == 6 * 3600), "every six hours: {again:?}");
    assert!(store.apply("main", &types).is_ok());
}
