//! Objects that upstream 1.14.1 wrote are taken over as they are.

use karpenter_api::{EC2NodeClass, NodeClaim, labels};
use karpenter_provider::CloudProvider;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::lab::{Lab, on_demand, quiet};

/// As 1.14.1 leaves a claim whose node runs: annotations of its way of hashing, and none of the labels it does not know.
async fn claim_of_upstream(lab: &Lab, name: &str, hash: &str, drifted: bool) -> NodeClaim {
    let machine = lab.provider.create(&on_demand(name)).await.unwrap();
    let mut claim = on_demand(name);
    claim.metadata.uid = None;
    claim.metadata.finalizers = Some(vec!["karpenter.sh/termination".to_owned()]);
    let all = claim.metadata.labels.get_or_insert_default();
    all.extend(machine.labels.clone());
    all.remove("karpenter.k8s.aws/nitro-sandbox");
    let annotations = [
        (labels::EC2NODECLASS_HASH, hash),
        (labels::EC2NODECLASS_HASH_VERSION, "v5"),
        (labels::INSTANCE_TAGGED, "true"),
        (labels::CLUSTER_NAME_TAGGED, "true"),
    ];
    claim.metadata.annotations = Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    let api = Api::<NodeClaim>::all(lab.client.clone());
    let mut made = api.create(&PostParams::default(), &claim).await.unwrap();
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let mut conditions: Vec<Value> =
        ["Launched", "Registered", "Initialized", "Ready"].map(|kind| condition(kind, kind)).into();
    conditions.extend(drifted.then(|| condition("Drifted", "NodeClassDrift")));
    let status = made.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id = Some(machine.image_id.clone());
    status.node_name = Some(format!("node-{name}"));
    status.conditions = Some(serde_json::from_value(json!(conditions)).unwrap());
    api.replace_status(name, &PostParams::default(), &made).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn claims_of_1_14_are_taken_over_and_drifted_ones_stay_drifted() {
    // covers: AWS-DRIFT-16
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let annotate = json!({"metadata": {"annotations": {
        labels::EC2NODECLASS_HASH: "15379597991425564585", labels::EC2NODECLASS_HASH_VERSION: "v5",
    }}});
    let classes = Api::<EC2NodeClass>::all(lab.client.clone());
    classes.patch("main", &PatchParams::default(), &Patch::Merge(annotate)).await.unwrap();
    let calm = claim_of_upstream(&lab, "calm", "15379597991425564585", false).await;
    let drifted = claim_of_upstream(&lab, "drifted", "11111111111111111111", true).await;
    assert_eq!(lab.provider.is_drifted(&calm).await.unwrap(), None, "before anything is written");
    assert_eq!(lab.provider.is_drifted(&drifted).await.unwrap().as_deref(), Some("NodeClassDrift"));

    lab.classes.reconcile_hash(&lab.class().await).await.unwrap();
    let claims = Api::<NodeClaim>::all(lab.client.clone());
    let annotation = |claim: &NodeClaim, key: &str| claim.metadata.annotations.clone().unwrap()[key].clone();
    for (name, want) in [("calm", None), ("drifted", Some("NodeClassDrift"))] {
        let claim = claims.get(name).await.unwrap();
        assert_eq!(annotation(&claim, labels::EC2NODECLASS_HASH_VERSION), "v6", "{name}");
        assert_eq!(lab.provider.is_drifted(&claim).await.unwrap().as_deref(), want, "{name}");
    }
    let class = lab.class().await.metadata.annotations.unwrap();
    assert_eq!(class[labels::EC2NODECLASS_HASH_VERSION], "v6");
    let calm = claims.get("calm").await.unwrap();
    assert_eq!(annotation(&calm, labels::EC2NODECLASS_HASH), class[labels::EC2NODECLASS_HASH]);
    // A second look, and a restart in the middle, change nothing any more.
    let before = claims.list(&Default::default()).await.unwrap().items;
    lab.classes.reconcile_hash(&lab.class().await).await.unwrap();
    assert_eq!(claims.list(&Default::default()).await.unwrap().items, before);
    // What changes afterwards drifts the one that was carried over, as ever.
    lab.patch_class(json!({"spec": {"detailedMonitoring": true}})).await;
    lab.classes.reconcile_hash(&lab.class().await).await.unwrap();
    let calm = claims.get("calm").await.unwrap();
    assert_eq!(lab.provider.is_drifted(&calm).await.unwrap().as_deref(), Some("NodeClassDrift"));
}
