//! One life of a cluster with everything in it makes every call there is a permission for, and no other.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_aws_sim::{Options, Warning};
use karpenter_provider::CloudProvider;
use karpenter_provider_aws::calls::{CapacityReservation, PERMISSIONS, PlacementGroup};
use karpenter_provider_aws::{sweep, tagging, tasks};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::lab::{CAPACITY, Lab, TYPE, claim, default_spec, holding, on_demand, quiet};

/// Rights that no call bears the name of: to hand the role on, to tag in the creating request, and to run instances.
/// RunInstances is called as a dry run, and by the fleet in our name.
const WITHOUT_A_CALL: [&str; 2] = ["iam:PassRole", "iam:TagInstanceProfile"];

#[tokio::test(start_paused = true)]
async fn a_whole_life_makes_the_calls_that_the_policy_allows() {
    let reservation = CapacityReservation {
        id: "cr-1".into(),
        zone: "us-east-1a".into(),
        instance_type: "m5.large".into(),
        instance_match_criteria: "targeted".into(),
        owner_id: "111122223333".into(),
        reservation_type: "default".into(),
        interruptible: false,
        available: 1,
        end: None,
        tags: [("team".to_owned(), "a".to_owned())].into(),
    };
    let group = PlacementGroup { id: "pg-1".into(), name: "here".into(), strategy: "partition".into(), partitions: 2 };
    let options = Options { reservations: vec![reservation], placement_groups: vec![group], ..quiet(1) };
    let lab = Lab::with(options, |settings| {
        settings.interruption_queue = Some("simulated".to_owned());
        settings.eks_control_plane = true;
    })
    .await;
    lab.region.set_shifts(Vec::new());
    lab.parts.zonal_shifts.start().await.unwrap();
    let mut spec = default_spec();
    spec["capacityReservationSelectorTerms"] = json!([{"tags": {"team": "a"}}]);
    spec["placementGroupSelector"] = json!({"name": "here"});
    lab.ready_with(spec).await;
    let claims = Api::<NodeClaim>::all(lab.client.clone());
    for (name, ask) in [
        ("spot", claim("spot", &[(CAPACITY, "In", &["spot"]), (TYPE, "In", &["m5.large"])])),
        ("bought", on_demand("bought")),
    ] {
        let machine = lab.provider.create(&ask).await.unwrap();
        let mut stored = ask;
        stored.metadata.uid = None;
        let mut stored = claims.create(&PostParams::default(), &stored).await.unwrap();
        let status = stored.status.get_or_insert_default();
        (status.provider_id, status.node_name) = (Some(machine.provider_id), Some(format!("node-{name}")));
        let stored = claims.replace_status(name, &PostParams::default(), &stored).await.unwrap();
        tagging::tag(&lab.parts, &lab.client, &stored).await.unwrap();
    }
    let gone = lab.provider.list().await.unwrap().remove(0).provider_id;
    lab.region.warn(gone.rsplit('/').next().unwrap(), Warning::SpotInterruption);
    for task in tasks(&lab.parts, &lab.client) {
        let done = tokio::time::timeout(Duration::from_secs(30), (task.round)()).await;
        assert!(done.is_ok_and(|done| done.is_ok()), "{}", task.name);
    }
    lab.patch_class(json!({"spec": {"role": "another"}})).await;
    lab.settle_class().await;
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    for name in ["spot", "bought"] {
        let _ = claims.delete(name, &DeleteParams::default()).await;
    }
    sweep::profiles(&lab.parts, &lab.client).await.unwrap();
    for machine in lab.provider.list().await.unwrap() {
        lab.provider.delete(&holding(&machine)).await.unwrap();
    }
    lab.delete_class().await;
    lab.bury_class().await;

    let calls = lab.region.calls();
    let made: BTreeSet<&str> = calls.keys().copied().collect();
    let rights: BTreeSet<&str> = PERMISSIONS.iter().flat_map(|(_, actions)| *actions).copied().collect();
    let named: BTreeSet<&str> = rights.iter().filter_map(|right| right.split_once(':')).map(|(_, name)| name).collect();
    let missing: Vec<&&str> = made.difference(&named).collect();
    assert!(missing.is_empty(), "calls that no policy allows: {missing:?}");
    let unused: BTreeSet<&str> =
        rights.iter().filter(|right| !made.contains(right.split_once(':').unwrap().1)).copied().collect();
    assert_eq!(unused, BTreeSet::from(WITHOUT_A_CALL), "rights that nothing uses");
}
