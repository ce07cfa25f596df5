//! IAM policies of older releases: everything works but the feature that lacks a permission, which is said once.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_api::NodeClaim;
use karpenter_aws_sim::{Forbidden, Script, Target};
use karpenter_provider::{CloudProvider, LaunchError};
use karpenter_provider_aws::instance_status::InstanceHealth;
use karpenter_provider_aws::{LiveObjects, Parts, Unobserved, startup, sweep, tagging, tasks};
use karpenter_testkit::lines::Lines;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tracing::Level;

use crate::lab::{CAPACITY, Lab, TYPE, claim, default_spec, holding, on_demand, quiet, tags};

impl Lab {
    /// For good, in the words of the service.
    fn deny(&self, operation: &'static str) {
        let code = if operation.contains("Profile") { "AccessDenied" } else { "UnauthorizedOperation" };
        let target = Target::Call { operation, server_fault: false };
        self.region.script(Script::new(target, code, u32::MAX));
    }

    fn called(&self, operation: &str) -> u64 {
        self.region.calls().get(operation).copied().unwrap_or(0)
    }
}

fn spot(name: &str) -> NodeClaim {
    claim(name, &[(CAPACITY, "In", &["spot"]), (TYPE, "In", &["m5.large"])])
}

#[tokio::test(start_paused = true)]
async fn spot_requests_go_untagged_where_they_may_not_be_tagged() {
    // covers: API-IAM-40
    let (lines, _listening) = Lines::heard(Level::WARN);
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    lab.region.forbid(Forbidden::SpotRequestTags);
    let before = lab.called("CreateFleet");
    assert_eq!(lab.provider.create(&spot("one")).await.unwrap().capacity_type, "spot");
    assert_eq!(lab.called("CreateFleet") - before, 2, "denied, and repeated at once");
    let fleets = lab.called("CreateFleet");
    lab.provider.create(&spot("two")).await.unwrap();
    assert_eq!(lab.called("CreateFleet") - fleets, 1, "the outcome is remembered");
    assert_eq!(lines.with("ec2:CreateTags on spot-instances-request"), 1);
    tokio::time::sleep(Duration::from_secs(3601)).await;
    let fleets = lab.called("CreateFleet");
    lab.provider.create(&spot("three")).await.unwrap();
    assert_eq!(lab.called("CreateFleet") - fleets, 2, "somebody may have given it meanwhile");
    assert_eq!(lines.with("ec2:CreateTags on spot-instances-request"), 1, "said once");
    assert_eq!(lab.provider.create(&on_demand("four")).await.unwrap().capacity_type, "on-demand");
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_is_denied_for_another_reason_is_told_as_it_was() {
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    lab.deny("CreateFleet");
    let fleets = lab.called("CreateFleet");
    match lab.provider.create(&spot("one")).await.unwrap_err() {
        LaunchError::Create { condition_reason, .. } => assert_eq!(condition_reason, "Unauthorized"),
        other => panic!("{other:?}"),
    }
    assert_eq!(lab.called("CreateFleet") - fleets, 2, "it did not say why, so it might have been the tags");
    lab.region.clear_scripts();
    lab.provider.create(&spot("two")).await.unwrap();
    assert!(lab.region.templates().iter().any(|template| template.tag_spot_requests), "tags were not to blame");
}

#[tokio::test(start_paused = true)]
async fn running_instances_get_the_tags_that_may_be_set() {
    // covers: API-IAM-41
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    lab.region.forbid(Forbidden::TagKey("eks:eks-cluster-name"));
    let claims = Api::<NodeClaim>::all(lab.client.clone());
    let mut sent = Vec::new();
    for name in ["one", "two"] {
        let machine = lab.provider.create(&on_demand(name)).await.unwrap();
        let id = machine.provider_id.rsplit('/').next().unwrap().to_owned();
        // As a release launched it that did not know the tag.
        lab.region.untag(&id, "eks:eks-cluster-name");
        let mut stored = on_demand(name);
        stored.metadata.uid = None;
        let mut stored = claims.create(&PostParams::default(), &stored).await.unwrap();
        let status = stored.status.get_or_insert_default();
        (status.provider_id, status.node_name) = (Some(machine.provider_id), Some(format!("node-{name}")));
        let stored = claims.replace_status(name, &PostParams::default(), &stored).await.unwrap();
        let before = lab.called("CreateTags");
        tagging::tag(&lab.parts, &lab.client, &stored).await.unwrap();
        sent.push(lab.called("CreateTags") - before);
        let instance = lab.region.instances().into_iter().find(|one| one.instance.id == id).unwrap().instance;
        let want = tags(&[("Name", &format!("node-{name}")), ("karpenter.sh/nodeclaim", name)]);
        assert!(want.iter().all(|(key, value)| instance.tags.get(key) == Some(value)), "{:?}", instance.tags);
        let stored = claims.get(name).await.unwrap();
        assert!(!tagging::is_taggable(&stored), "marked all the same: {:?}", stored.metadata.annotations);
    }
    assert_eq!(sent, [2, 1], "tried once, then known");
}

#[tokio::test(start_paused = true)]
async fn profiles_that_may_not_be_listed_are_deleted_by_name() {
    // covers: API-IAM-42
    let (lines, _listening) = Lines::heard(Level::WARN);
    let lab = Lab::new(quiet(1)).await;
    lab.deny("ListInstanceProfiles");
    lab.ready().await;
    let profile = lab.class().await.status.unwrap().instance_profile.unwrap();
    for _ in 0..5 {
        assert_eq!(sweep::profiles(&lab.parts, &lab.client).await.unwrap(), 0);
        tokio::time::sleep(Duration::from_secs(1800)).await;
    }
    assert_eq!(lab.called("ListInstanceProfiles"), 3, "once an hour");
    assert_eq!(lines.with("iam:ListInstanceProfiles"), 1);
    lab.delete_class().await;
    lab.bury_class().await;
    let iam = lab.region.aws().iam;
    assert!(iam.get_instance_profile(&profile).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_profile_of_somebody_else_is_left_alone_when_nothing_can_be_listed() {
    // covers: API-IAM-42
    let lab = Lab::new(quiet(1)).await;
    lab.deny("ListInstanceProfiles");
    let theirs = karpenter_provider_aws::calls::NewInstanceProfile {
        name: "theirs".into(),
        path: "/".into(),
        tags: BTreeMap::new(),
    };
    let iam = lab.region.aws().iam;
    iam.create_instance_profile(&theirs).await.unwrap();
    let mut spec = default_spec();
    spec["role"] = serde_json::Value::Null;
    spec["instanceProfile"] = json!("theirs");
    lab.ready_with(spec).await;
    lab.delete_class().await;
    lab.bury_class().await;
    assert!(iam.get_instance_profile("theirs").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_no_class_selects_is_not_asked_for() {
    // covers: API-IAM-43, API-IAM-44, API-IAM-45, API-IAM-46
    let lab = Lab::new(quiet(1)).await;
    for operation in
        ["DescribeCapacityReservations", "DescribePlacementGroups", "GetManagedResource", "DescribeInstanceStatus"]
    {
        lab.deny(operation);
    }
    lab.ready().await;
    for task in tasks(&lab.parts, &lab.client) {
        let _ = tokio::time::timeout(Duration::from_secs(30), (task.round)()).await;
    }
    lab.provider.create(&on_demand("one")).await.unwrap();
    for operation in ["DescribeCapacityReservations", "DescribePlacementGroups", "GetManagedResource"] {
        assert_eq!(lab.called(operation), 0, "{operation}");
    }
    assert_eq!(lab.called("DescribeInstanceStatus"), 1, "health is polled until it is denied");
    assert_eq!(InstanceHealth::default().round(&lab.parts).await.unwrap(), Duration::from_secs(3600));

    lab.patch_class(json!({"spec": {"capacityReservationSelectorTerms": [{"tags": {"team": "a"}}]}})).await;
    lab.settle_class().await;
    let (status, _, message) = lab.condition("CapacityReservationsReady").await;
    assert!(status == "False" && message.contains("ec2:DescribeCapacityReservations"), "{status} {message}");
    assert_eq!(lab.condition("Ready").await.0, "False");
    lab.patch_class(json!({"spec": {
        "capacityReservationSelectorTerms": null, "placementGroupSelector": {"name": "here"},
    }}))
    .await;
    lab.settle_class().await;
    assert_eq!(lab.condition("CapacityReservationsReady").await.0, "True");
    let (status, reason, message) = lab.condition("PlacementGroupReady").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "PlacementGroupResolutionFailed"), "{message}");
    assert_eq!(lab.condition("Ready").await.0, "False");
    // Nobody asks for zonal shift, unless it is switched on.
    let mut settings = lab.settings.clone();
    settings.enable_zonal_shift = true;
    let reads = std::sync::Arc::new(LiveObjects(lab.client.clone()));
    let shifting = Parts::new(
        lab.region.aws(),
        settings,
        lab.now.clone(),
        reads,
        lab.notices.clone(),
        std::sync::Arc::new(Unobserved),
    );
    assert!(shifting.start().await.is_err());
    assert_eq!(lab.called("GetManagedResource"), 1);
}

#[tokio::test(start_paused = true)]
async fn prices_that_may_not_be_read_are_the_bundled_ones() {
    // covers: API-IAM-47
    let lab = Lab::new(quiet(1)).await;
    let pool = lab.ready().await;
    let price = |types: &[std::sync::Arc<karpenter_core::InstanceType>], class: &str| {
        let kind = types.iter().find(|kind| &*kind.name == "m5.large").unwrap();
        kind.offerings.iter().find(|o| o.capacity_type().as_deref() == Some(class)).unwrap().price
    };
    lab.deny("GetProducts");
    lab.deny("DescribeSpotPriceHistory");
    let refresh = async || {
        for task in tasks(&lab.parts, &lab.client) {
            if task.name.starts_with("providers.pricing") {
                let _ = (task.round)().await;
            }
        }
        lab.provider.instance_types(&pool).await.unwrap()
    };
    let types = refresh().await;
    assert_eq!(price(&types, "on-demand").0, 96_000, "as bundled");
    assert_eq!(price(&types, "spot"), price(&types, "on-demand"), "until spot prices are known");
    lab.region.clear_scripts();
    let known = price(&refresh().await, "spot");
    assert!(known.0 < 96_000);
    lab.deny("DescribeSpotPriceHistory");
    tokio::time::sleep(Duration::from_secs(12 * 3600)).await;
    assert_eq!(price(&refresh().await, "spot"), known, "the last that were known");
    assert_eq!(lab.provider.create(&spot("one")).await.unwrap().capacity_type, "spot");
}

#[tokio::test(start_paused = true)]
async fn eks_is_asked_only_for_what_nobody_told() {
    // covers: API-IAM-49
    let lab = Lab::unprepared(quiet(1)).await;
    lab.deny("DescribeCluster");
    let mut settings = lab.settings.clone();
    startup::discover(&lab.region.aws(), &lab.client, &mut settings, None).await.unwrap();
    lab.parts.start().await.unwrap();
    let mut spec = default_spec();
    spec["amiSelectorTerms"] = json!([{"alias": "bottlerocket@latest"}]);
    lab.ready_with(spec).await;
    lab.provider.create(&on_demand("one")).await.unwrap();
    assert_eq!(lab.called("DescribeCluster"), 0);
    let mut open = lab.settings.clone();
    open.cluster_endpoint = String::new();
    assert!(startup::discover(&lab.region.aws(), &lab.client, &mut open, None).await.is_err());
    let mut eks = lab.settings.clone();
    eks.eks_control_plane = true;
    assert!(startup::discover(&lab.region.aws(), &lab.client, &mut eks, None).await.is_err());
    lab.patch_class(json!({"spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}]}})).await;
    let _ = lab.classes.reconcile(&lab.class().await).await;
    let (status, reason, _) = lab.condition("ValidationSucceeded").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ClusterCIDRResolutionFailed"));
}

/// Whatever 0.32 did not know at once: nodes come, are tagged, and go, and so does their class.
#[tokio::test(start_paused = true)]
async fn a_policy_of_0_32_runs_a_cluster() {
    // covers: EXT-10
    let (lines, _listening) = Lines::heard(Level::WARN);
    let lab = Lab::new(quiet(1)).await;
    lab.region.forbid(Forbidden::SpotRequestTags);
    lab.region.forbid(Forbidden::TagKey("eks:eks-cluster-name"));
    for operation in [
        "ListInstanceProfiles",
        "DescribeInstanceStatus",
        "DescribeCapacityReservations",
        "DescribePlacementGroups",
        "GetManagedResource",
    ] {
        lab.deny(operation);
    }
    lab.ready().await;
    let machines = [spot("one"), on_demand("two")];
    for ask in &machines {
        let machine = lab.provider.create(ask).await.unwrap();
        assert!(lab.provider.get(&machine.provider_id).await.is_ok());
    }
    for task in tasks(&lab.parts, &lab.client) {
        // A queue that is empty is waited at.
        let done = tokio::time::timeout(Duration::from_secs(30), (task.round)()).await;
        assert!(done.is_err() || done.unwrap().is_ok(), "{}", task.name);
    }
    assert_eq!(lab.provider.list().await.unwrap().len(), 2);
    for machine in lab.provider.list().await.unwrap() {
        lab.provider.delete(&holding(&machine)).await.unwrap();
    }
    lab.delete_class().await;
    lab.bury_class().await;
    let calls = lab.region.calls();
    assert!(calls["DeleteInstanceProfile"] > 0, "{calls:?}");
    for permission in
        ["ec2:CreateTags on spot-instances-request", "iam:ListInstanceProfiles", "ec2:DescribeInstanceStatus"]
    {
        assert_eq!(lines.with(permission), 1, "{permission}");
    }
}
