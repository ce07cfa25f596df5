//! Node classes: what their selectors come to, what is wrong with them, and their end.

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_aws_sim::{Script, Target};
use karpenter_provider_aws::node_class::Next;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::lab::{Lab, default_spec, on_demand, quiet};
use karpenter_provider::{CloudProvider, LaunchError, TypesError};

fn with(changes: Value) -> Value {
    let mut spec = default_spec();
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

#[tokio::test(start_paused = true)]
async fn a_node_class_gets_ready() {
    // covers: AWS-NC-01, AWS-NC-11, AWS-SUBNET-11, AWS-SG-04, AWS-IP-02, AWS-IP-03, AWS-NC-08, AWS-CR-15, AWS-NC-07
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(default_spec()).await;
    assert_eq!(lab.settle_class().await, Next::After(Duration::from_secs(60)));
    let class = lab.class().await;
    let status = class.status.unwrap();
    assert_eq!(status.subnets.as_ref().unwrap().len(), 3);
    assert!(status.subnets.unwrap().iter().all(|subnet| subnet.zone_id.is_some()));
    assert_eq!(status.security_groups.unwrap().len(), 1);
    assert_eq!(status.amis.unwrap().len(), 5);
    let profile = status.instance_profile.unwrap();
    assert!(profile.starts_with("simulated_"), "{profile}");
    for name in
        ["AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady", "ValidationSucceeded", "Ready"]
    {
        assert_eq!(lab.condition(name).await.0, "True", "{name}");
    }
    assert_eq!(class.metadata.finalizers, Some(vec!["karpenter.k8s.aws/termination".to_owned()]));
    let profiles = lab.region.aws().iam.list_instance_profiles("/").await.unwrap();
    let uid = class.metadata.uid.unwrap();
    assert_eq!(profiles[0].path, format!("/karpenter/us-east-1/simulated/{uid}/"));
    assert_eq!(profiles[0].roles, ["nodes"]);
    // A second look changes nothing and writes nothing.
    let version = lab.class().await.metadata.resource_version;
    tokio::time::sleep(Duration::from_secs(600)).await;
    lab.settle_class().await;
    assert_eq!(lab.class().await.metadata.resource_version, version);
}

#[tokio::test(start_paused = true)]
async fn an_alias_without_a_version_is_the_latest_and_says_so() {
    // covers: EXT-03, API-EC2-06
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(with(json!({"amiSelectorTerms": [{"alias": "al2023"}]}))).await;
    lab.settle_class().await;
    let (status, _, message) = lab.condition("AMIsReady").await;
    assert_eq!(status, "True");
    assert!(message.contains("al2023@latest"), "{message}");
    let stored = lab.class().await.spec.ami_selector_terms;
    assert_eq!(stored[0].alias.as_deref(), Some("al2023"), "what was written stays");
    let bare = lab.class().await.status.unwrap().amis;
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("AMIsReady").await.2, "");
    assert_eq!(lab.class().await.status.unwrap().amis, bare);
}

#[tokio::test(start_paused = true)]
async fn every_alias_resolves_and_ids_only_if_listed() {
    for alias in
        ["al2023@latest", "al2023@v20240807", "bottlerocket@latest", "bottlerocket@1.20.0", "windows2022@latest"]
    {
        let lab = Lab::new(quiet(1)).await;
        lab.create_class(with(json!({"amiSelectorTerms": [{"alias": alias}]}))).await;
        lab.settle_class().await;
        assert_eq!(lab.condition("Ready").await.0, "True", "{alias}");
    }
    let custom = json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"name": "my-image-*"}, {"tags": {"a": "b"}}]});
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(with(custom)).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("Ready").await.0, "True");
    let by_id = || with(json!({"subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}]}));
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(by_id()).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("SubnetsReady").await.1, "SubnetsNotFound");
    let mut listed = quiet(1);
    listed.listed_ids.push("subnet-0123456789abcdef0".to_owned());
    let lab = Lab::new(listed).await;
    lab.create_class(by_id()).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("Ready").await.0, "True");
    assert_eq!(lab.class().await.status.unwrap().subnets.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_said() {
    // covers: AWS-NC-03, AWS-NC-04, AWS-NC-05, AWS-NC-27, AWS-AMI-10, API-CD-40, API-CD-41, API-CD-42
    for (changes, condition, reason) in [
        (
            json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}]}),
            "AMIsReady",
            "AMINotFound",
        ),
        (json!({"subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}]}), "SubnetsReady", "SubnetsNotFound"),
        (
            json!({"securityGroupSelectorTerms": [{"id": "sg-0123456789abcdef0"}]}),
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
        ),
        (json!({"amiSelectorTerms": [{"alias": "al2@latest"}]}), "AMIsReady", "UnsupportedAlias"),
    ] {
        let lab = Lab::new(quiet(1)).await;
        lab.create_class(with(changes)).await;
        lab.settle_class().await;
        let (status, found, _) = lab.condition(condition).await;
        assert_eq!((status.as_str(), found.as_str()), ("False", reason));
        assert_eq!(lab.condition("ValidationSucceeded").await.1, "DependenciesNotReady");
        assert_eq!(lab.condition("Ready").await.0, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_look_keeps_the_last_word() {
    // covers: AWS-NC-06, AWS-AMI-07
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    let before = lab.class().await.status;
    tokio::time::sleep(Duration::from_secs(90)).await;
    for operation in ["DescribeSubnets", "DescribeImages", "DescribeSecurityGroups"] {
        let target = Target::Call { operation, server_fault: true };
        lab.region.script(Script::new(target, "InternalError", 1));
    }
    assert!(lab.classes.reconcile(&lab.class().await).await.is_err());
    assert_eq!(lab.class().await.status, before);
    // Nor does a parameter that cannot be read shorten the list of images.
    let lab = Lab::new(quiet(1)).await;
    let target = Target::Call { operation: "GetParameter", server_fault: false };
    lab.region.script(Script::new(target, "AccessDeniedException", 1));
    lab.create_class(default_spec()).await;
    assert!(lab.classes.reconcile(&lab.class().await).await.is_err());
    assert_eq!(lab.condition("AMIsReady").await.0, "Unknown");
    // One that does not exist is skipped.
    let target = Target::Call { operation: "GetParameter", server_fault: false };
    lab.region.script(Script::new(target, "ParameterNotFound", 1));
    lab.settle_class().await;
    assert_eq!(lab.class().await.status.unwrap().amis.unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_look_ends_in_time_however_slowly_aws_answers() {
    // Each call ends just before its time-out.
    let slow = karpenter_aws_sim::Span::millis(200_000, 230_000);
    let lab = Lab::new(karpenter_aws_sim::Options { latency: slow, ..quiet(1) }).await;
    let class = lab.create_class(default_spec()).await;
    let began = tokio::time::Instant::now();
    assert!(lab.classes.reconcile(&class).await.is_err());
    let took = began.elapsed();
    assert!(took > Duration::from_mins(4) && took < Duration::from_mins(6), "it took {took:?}");
    let (status, reason, _) = lab.condition("SubnetsReady").await;
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "ReconciliationFailed"), "it is said that it failed");
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_are_named() {
    // covers: AWS-NC-32, AWS-NC-33, AWS-NC-34, AWS-NC-35, AWS-NC-36, AWS-SIM-12, API-IAM-50
    for (operation, times, reason) in [
        ("CreateLaunchTemplate", 1, "CreateLaunchTemplateAuthCheckFailed"),
        ("CreateFleet", 1, "CreateFleetAuthCheckFailed"),
        ("RunInstances", 3, "RunInstancesAuthCheckFailed"),
    ] {
        let lab = Lab::new(quiet(1)).await;
        let target = Target::Call { operation, server_fault: false };
        let message = "You are not authorized with an explicit deny in a permissions boundary".to_owned();
        lab.region.script(Script { message, ..Script::new(target, "UnauthorizedOperation", times) });
        lab.create_class(default_spec()).await;
        assert_eq!(lab.settle_class().await, Next::After(Duration::from_secs(60)));
        let (status, found, message) = lab.condition("ValidationSucceeded").await;
        assert_eq!((status.as_str(), found.as_str()), ("False", reason));
        assert!(message.contains(operation) && message.contains("permission boundary"), "{message}");
    }
    // One subnet that works is enough, and throttling is no verdict.
    let lab = Lab::new(quiet(1)).await;
    let target = || Target::Call { operation: "RunInstances", server_fault: false };
    lab.region.script(Script::new(target(), "RequestLimitExceeded", 3));
    lab.region.script(Script::new(target(), "UnauthorizedOperation", 2));
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("ValidationSucceeded").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_kept_until_something_changes() {
    // covers: AWS-NC-30, AWS-NC-31, API-EC2-53
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    let runs = || lab.region.calls().get("RunInstances").copied().unwrap_or(0);
    let first = runs();
    assert!(first > 0);
    lab.settle_class().await;
    assert_eq!(runs(), first);
    lab.patch_class(json!({"metadata": {"annotations": {"look": "again"}}})).await;
    lab.settle_class().await;
    assert_eq!(runs(), first + 1);
    tokio::time::sleep(Duration::from_secs(31 * 60)).await;
    lab.settle_class().await;
    assert_eq!(runs(), first + 2);
    let lab = Lab::with(quiet(1), |settings| settings.disable_dry_run = true).await;
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("ValidationSucceeded").await.0, "True");
    let calls = lab.region.calls();
    assert!(!calls.contains_key("RunInstances") && !calls.contains_key("CreateFleet"));
}

#[tokio::test(start_paused = true)]
async fn what_thinking_can_tell_is_told_without_aws() {
    // covers: AWS-NC-22, AWS-NC-24, AWS-NC-25, AWS-NC-26, API-EC2-27, API-EC2-29
    for (changes, reason) in [
        (json!({"kubelet": {"maxPods": -1}}), "InvalidKubeletConfiguration"),
        (json!({"kubelet": {"maxPods": "vcpus * 4"}}), "KubeletExpressionsDisabled"),
        (
            json!({"kubelet": {"shutdownGracePeriod": "30s"}, "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}),
            "UnsupportedKubeletConfiguration",
        ),
    ] {
        let lab = Lab::new(quiet(1)).await;
        lab.create_class(with(changes)).await;
        lab.settle_class().await;
        assert_eq!(lab.condition("ValidationSucceeded").await.1, reason);
        assert!(!lab.region.calls().contains_key("RunInstances"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_upstream_ignores_is_accepted_and_said_once() {
    // covers: AWS-KC-10, AWS-NC-26
    let bottlerocket = json!([{"alias": "bottlerocket@latest"}]);
    let user_data = "[settings.kubernetes]\nmade-up = true\n";
    for (kubelet, user_data, reason, said) in [
        (json!({"podsPerCore": 3}), "", "KubeletSettingIgnored", "spec.kubelet.podsPerCore"),
        (json!({"clusterDNS": ["10.0.0.10", "1.1.1.1"]}), "", "KubeletSettingIgnored", "spec.kubelet.clusterDNS"),
        (json!({}), user_data, "UserDataIgnored", "settings.kubernetes.made-up"),
    ] {
        let lab = Lab::new(quiet(1)).await;
        let spec = json!({"kubelet": kubelet, "userData": user_data, "amiSelectorTerms": bottlerocket});
        lab.ready_with(with(spec)).await;
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(600)).await;
            lab.settle_class().await;
        }
        let notices = lab.notices.with_reason(reason);
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert!(notices[0].message.contains(said) && notices[0].subject.kind == "EC2NodeClass", "{notices:?}");
        lab.provider.create(&on_demand("one")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn user_data_that_cannot_be_merged_is_said() {
    // covers: AWS-UD-09, AWS-NC-06
    let lab = Lab::new(quiet(1)).await;
    let open = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\n\necho never closed\n";
    lab.create_class(with(json!({"userData": open}))).await;
    assert_eq!(lab.settle_class().await, Next::After(Duration::from_secs(60)), "nothing to retry but the looks");
    let (status, reason, message) = lab.condition("ValidationSucceeded").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "InvalidUserData"));
    assert!(message.contains("closing boundary"), "{message}");
    // Upstream's own suite has a document that ends with an opening boundary.
    let closed = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\n\necho\n--B";
    lab.patch_class(json!({"spec": {"userData": closed}})).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("Ready").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_be_looked_at_says_why() {
    // covers: AWS-NC-06
    let lab = Lab::new(quiet(1)).await;
    lab.region.script(Script::new(
        Target::Call { operation: "DescribeSubnets", server_fault: true },
        "InternalError",
        1000,
    ));
    let class = lab.create_class(default_spec()).await;
    assert!(lab.classes.reconcile(&class).await.is_err(), "it is tried again, with back-off");
    let (status, reason, message) = lab.condition("SubnetsReady").await;
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "ReconciliationFailed"));
    assert!(message.contains("InternalError"), "{message}");
    lab.region.clear_scripts();
    lab.settle_class().await;
    assert_eq!(lab.condition("Ready").await.0, "True");
    lab.region.script(Script::new(
        Target::Call { operation: "DescribeSubnets", server_fault: true },
        "InternalError",
        1000,
    ));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(lab.classes.reconcile(&lab.class().await).await.is_err());
    assert_eq!(lab.condition("SubnetsReady").await.0, "True", "what was found out before stands");
}

#[tokio::test(start_paused = true)]
async fn a_class_whose_images_no_type_can_boot_says_so() {
    // covers: AWS-NC-38
    let mut options = quiet(1);
    let mut catalogue = karpenter_ec2::Catalogue::clone(&options.catalogue);
    catalogue.types.retain(|facts| facts.name.starts_with("m6g."));
    options.catalogue = Arc::new(catalogue);
    let lab = Lab::new(options).await;
    lab.create_class(with(json!({"amiSelectorTerms": [{"alias": "windows2022@latest"}]}))).await;
    lab.settle_class().await;
    let (status, reason, message) = lab.condition("ValidationSucceeded").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NoInstanceTypeMatchesAMIs"));
    assert!(message.contains("no instance type can boot any of the images"), "{message}");
    assert_eq!(lab.condition("Ready").await.0, "False");
    assert!(!lab.region.calls().contains_key("RunInstances"), "there is nothing to try");
}

#[tokio::test(start_paused = true)]
async fn user_data_that_is_too_large_is_said() {
    // covers: AWS-NC-32
    let lab = Lab::new(quiet(1)).await;
    let long = format!("#!/bin/bash\n{}", "# x\n".repeat(5000));
    lab.create_class(with(json!({"userData": long}))).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("ValidationSucceeded").await.1, "UserDataSizeLimitExceeded");
}

#[tokio::test(start_paused = true)]
async fn a_changed_role_makes_a_new_profile_and_the_old_one_is_swept() {
    // covers: AWS-IP-01, AWS-IP-04, AWS-IP-11, AWS-GC-05, API-EC2-51
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    let profile = || async { lab.class().await.status.unwrap().instance_profile.unwrap() };
    let first = profile().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    lab.patch_class(json!({"spec": {"role": "other"}})).await;
    lab.settle_class().await;
    let second = profile().await;
    assert_ne!(first, second);
    let sweep = || karpenter_provider_aws::sweep::profiles(&lab.parts, &lab.client);
    assert_eq!(sweep().await.unwrap(), 0, "both are protected for an hour");
    tokio::time::sleep(Duration::from_secs(3601)).await;
    assert_eq!(sweep().await.unwrap(), 1);
    let left = lab.region.aws().iam.list_instance_profiles("/").await.unwrap();
    assert_eq!(left.iter().map(|profile| &profile.name).collect::<Vec<_>>(), [&second]);
    // A profile of the user's own is used as it is.
    lab.patch_class(json!({"spec": {"role": null, "instanceProfile": "mine"}})).await;
    let calls = lab.region.calls();
    lab.settle_class().await;
    assert_eq!(profile().await, "mine");
    let made = |name: &str| lab.region.calls().get(name).copied() == calls.get(name).copied();
    assert!(made("GetInstanceProfile") && made("CreateInstanceProfile"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_role_is_remembered_for_a_minute() {
    // covers: AWS-IP-07, AWS-IP-08, EXT-09, API-EC2-54, API-CD-43, API-IAM-21, SEED3-28
    let lab = Lab::new(quiet(1)).await;
    let target = Target::Call { operation: "AddRoleToInstanceProfile", server_fault: false };
    let message = "The role with name nodes cannot be found.".to_owned();
    lab.region.script(Script { message, ..Script::new(target, "NoSuchEntity", 1) });
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    let (status, reason, message) = lab.condition("InstanceProfileReady").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NodeRoleNotFound"));
    assert!(message.contains("\"nodes\""), "{message}");
    assert!(lab.region.aws().iam.list_instance_profiles("/").await.unwrap().is_empty(), "half a profile is removed");
    let calls = lab.region.calls()["CreateInstanceProfile"];
    lab.settle_class().await;
    assert_eq!(lab.region.calls()["CreateInstanceProfile"], calls);
    tokio::time::sleep(Duration::from_secs(61)).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("InstanceProfileReady").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_node_class_ends_after_its_claims() {
    // covers: AWS-NC-12, AWS-NC-13, AWS-LT-07, AWS-IP-12, API-EC2-50, API-EV-27
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let stored = Api::<karpenter_api::NodeClaim>::all(lab.client.clone());
    let mut claim = on_demand("one");
    claim.metadata.uid = None;
    stored.create(&PostParams::default(), &claim).await.unwrap();
    lab.provider.create(&on_demand("one")).await.unwrap();
    assert!(lab.region.template_count() > 0);
    lab.delete_class().await;
    let next = lab.classes.reconcile(&lab.class().await).await.unwrap();
    assert_eq!(next, Next::After(Duration::from_secs(600)));
    assert!(lab.notices.messages().iter().any(|m| m.starts_with("WaitingOnNodeClaimTermination") && m.contains("one")));
    stored.delete("one", &Default::default()).await.unwrap();
    lab.bury_class().await;
    assert_eq!(lab.region.template_count(), 0);
    assert!(lab.region.aws().iam.list_instance_profiles("/").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn drift_is_found_in_its_order() {
    // covers: AWS-DRIFT-02, AWS-DRIFT-03, AWS-DRIFT-04, AWS-DRIFT-05, AWS-DRIFT-06, AWS-DRIFT-09, AWS-DRIFT-15
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    lab.classes.reconcile_hash(&lab.class().await).await.unwrap();
    let mut claim = on_demand("one");
    let machine = lab.provider.create(&claim).await.unwrap();
    claim.metadata.labels.get_or_insert_default().extend(machine.labels.clone());
    claim.metadata.annotations.get_or_insert_default().extend(machine.annotations.clone());
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id = Some(machine.image_id.clone());
    let drift = |claim: &karpenter_api::NodeClaim| {
        let (provider, claim) = (lab.provider.clone(), claim.clone());
        async move { provider.is_drifted(&claim).await }
    };
    assert_eq!(drift(&claim).await.unwrap(), None);
    let mut other_image = claim.clone();
    other_image.status.as_mut().unwrap().image_id = Some("ami-other".to_owned());
    assert_eq!(drift(&other_image).await.unwrap().as_deref(), Some("AMIDrift"));
    let mut no_instance = claim.clone();
    no_instance.status.as_mut().unwrap().provider_id = Some("aws:///us-east-1a/i-99999999999999999".to_owned());
    let lost = drift(&no_instance).await;
    assert!(matches!(lost, Err(karpenter_provider::GetError::NotFound { .. })), "{lost:?}");
    let mut no_pool = claim.clone();
    no_pool.metadata.labels.as_mut().unwrap().remove("karpenter.sh/nodepool");
    assert_eq!(drift(&no_pool).await.unwrap(), None);
    // Other groups and subnets, which are not part of the hash.
    lab.patch_class(json!({"spec": {"securityGroupSelectorTerms": [{"name": "other"}]}})).await;
    lab.settle_class().await;
    assert_eq!(drift(&claim).await.unwrap().as_deref(), Some("SecurityGroupDrift"));
    // The hash goes before everything else.
    lab.patch_class(json!({"spec": {"userData": "echo hi"}})).await;
    lab.settle_class().await;
    assert_ne!(drift(&other_image).await.unwrap().as_deref(), Some("NodeClassDrift"), "not hashed yet");
    lab.classes.reconcile_hash(&lab.class().await).await.unwrap();
    assert_eq!(drift(&other_image).await.unwrap().as_deref(), Some("NodeClassDrift"));
    // Hashes that cannot be compared say nothing: what comes next in the order is found.
    for (annotation, value) in [
        (karpenter_api::labels::EC2NODECLASS_HASH, None),
        (karpenter_api::labels::EC2NODECLASS_HASH_VERSION, None),
        (karpenter_api::labels::EC2NODECLASS_HASH_VERSION, Some("v0")),
    ] {
        let mut unlike = other_image.clone();
        let annotations = unlike.metadata.annotations.as_mut().unwrap();
        match value {
            Some(value) => annotations.insert(annotation.to_owned(), value.to_owned()),
            None => annotations.remove(annotation),
        };
        assert_eq!(drift(&unlike).await.unwrap().as_deref(), Some("AMIDrift"), "{annotation} {value:?}");
    }
    let gone = json!({"metadata": {"annotations": {karpenter_api::labels::EC2NODECLASS_HASH: null}}});
    lab.patch_class(gone).await;
    assert_eq!(drift(&other_image).await.unwrap().as_deref(), Some("AMIDrift"), "the class has none");
}

#[tokio::test(start_paused = true)]
async fn kubelet_formulas_are_judged_before_anything_launches() {
    // covers: AWS-KC-09, AWS-KC-17, AWS-NC-25, AWS-NC-28
    for (gate, kubelet, want) in [
        (false, json!({"maxPods": "vcpus * 10"}), ("False", "KubeletExpressionsDisabled")),
        (true, json!({"maxPods": "cores * 10"}), ("False", "KubeletExpressionInvalid")),
        (true, json!({"maxPods": "instance_type"}), ("False", "KubeletExpressionInvalid")),
        (true, json!({"kubeReserved": {"cpu": "1 / (vcpus - 2)"}}), ("False", "KubeletExpressionEvaluationFailed")),
        (
            true,
            json!({"maxPods": "min(110, vcpus * 10)", "kubeReserved": {"cpu": "vcpus * 20"}}),
            ("True", "ValidationSucceeded"),
        ),
    ] {
        let lab = Lab::with(quiet(1), |settings| settings.ec2.kubelet_expressions = gate).await;
        let mut spec = default_spec();
        spec["kubelet"] = kubelet.clone();
        lab.create_class(spec).await;
        lab.settle_class().await;
        let (status, reason, message) = lab.condition("ValidationSucceeded").await;
        assert_eq!((status.as_str(), reason.as_str()), want, "{kubelet} {message}");
        assert!(status == "True" || !gate || message.contains("spec.kubelet."), "{message}");
    }
    let lab = Lab::new(quiet(1)).await;
    let mut spec = default_spec();
    spec["kubelet"] = json!({"podsPerCore": -1, "evictionHard": {"moon.available": "5%"}});
    lab.create_class(spec).await;
    lab.settle_class().await;
    let (_, reason, message) = lab.condition("ValidationSucceeded").await;
    assert_eq!(reason, "InvalidKubeletConfiguration");
    let (first, second) = message.split_once("; ").unwrap_or_else(|| panic!("{message}"));
    assert!(message.contains("podsPerCore") && message.contains("evictionHard"), "{first} and {second}");
}

#[tokio::test(start_paused = true)]
async fn restricted_tags_are_found_even_if_admission_let_them_through() {
    // covers: AWS-NC-29
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(default_spec()).await;
    let mut class = lab.class().await;
    lab.settle_class().await;
    class = EC2NodeClass { spec: class.spec, ..lab.class().await };
    class.spec.tags = Some(std::iter::once(("karpenter.sh/nodepool".to_owned(), "x".to_owned())).collect());
    lab.classes.reconcile(&class).await.ok();
    let (status, reason, _) = lab.condition("ValidationSucceeded").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "TagValidationFailed"));
}

#[tokio::test(start_paused = true)]
async fn a_pool_may_bring_kubelet_settings_of_its_own() {
    // covers: EXT-02, API-CV-07, API-CV-08, SEED4-17
    let lab = Lab::new(quiet(1)).await;
    let mut pool = lab.ready().await;
    lab.classes.reconcile_hash(&lab.class().await).await.unwrap();
    let key = karpenter_api::conversion::KUBELET;
    let pods = |types: &karpenter_provider::InstanceTypes| {
        types.iter().find(|kind| &*kind.name == "m5.large").unwrap().capacity.get("pods").units()
    };
    let of_class = pods(&lab.provider.instance_types(&pool).await.unwrap());
    let annotate = async |pool: &mut karpenter_api::NodePool, settings: Option<&str>| {
        let pools = Api::<karpenter_api::NodePool>::all(lab.client.clone());
        let patch = json!({"metadata": {"annotations": {key: settings}}});
        *pool = pools.patch("pool", &Default::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    };
    annotate(&mut pool, Some(r#"{"maxPods":17}"#)).await;
    assert_eq!(pods(&lab.provider.instance_types(&pool).await.unwrap()), 17);
    assert_ne!(of_class, 17);

    let mut claim = on_demand("one");
    claim.metadata.annotations.get_or_insert_default().insert(key.to_owned(), r#"{"maxPods":17}"#.to_owned());
    let machine = lab.provider.create(&claim).await.unwrap();
    assert_eq!(machine.capacity.get("pods").units(), 17);
    claim.metadata.labels.get_or_insert_default().extend(machine.labels.clone());
    claim.metadata.annotations.get_or_insert_default().extend(machine.annotations.clone());
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id = Some(machine.image_id.clone());
    assert_eq!(lab.provider.is_drifted(&claim).await.unwrap(), None);
    annotate(&mut pool, Some(r#"{"maxPods":18}"#)).await;
    assert_eq!(lab.provider.is_drifted(&claim).await.unwrap().as_deref(), Some("NodeClassDrift"));
    annotate(&mut pool, None).await;
    assert_eq!(lab.provider.is_drifted(&claim).await.unwrap().as_deref(), Some("NodeClassDrift"));
    assert_eq!(pods(&lab.provider.instance_types(&pool).await.unwrap()), of_class);

    // The API server takes any text for an annotation; what a kubelet would not take never gets to a machine.
    for text in [
        "maxPods: 17",
        "[17]",
        r#"{"maxPods":-1}"#,
        r#"{"evictionHard":{"memory.available":"1Gi' && reboot '"}}"#,
        r#"{"kubeReserved":{"cpu":"$(reboot)"}}"#,
        r#"{"systemReserved":{"x\"; reboot":"1"}}"#,
    ] {
        annotate(&mut pool, Some(text)).await;
        let error = lab.provider.instance_types(&pool).await.unwrap_err();
        assert!(matches!(error, TypesError::NotResolved { .. }) && error.to_string().contains(key), "{text}: {error}");
        let mut claim = on_demand("refused");
        claim.metadata.annotations.get_or_insert_default().insert(key.to_owned(), text.to_owned());
        match lab.provider.create(&claim).await.unwrap_err() {
            LaunchError::Create { condition_reason, .. } => assert_eq!(condition_reason, "InvalidKubeletConfiguration"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_options_are_checked_and_filled_in() {
    // covers: AWS-NC-18
    let lab = Lab::new(quiet(1)).await;
    let api = Api::<EC2NodeClass>::all(lab.client.clone());
    let class = |name: &str, options: &Value| -> EC2NodeClass {
        let spec = with(json!({"metadataOptions": options}));
        let object = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    };
    for (number, options) in [
        json!({"httpEndpoint": "on"}),
        json!({"httpProtocolIPv6": "maybe"}),
        json!({"httpPutResponseHopLimit": 0}),
        json!({"httpPutResponseHopLimit": 65}),
        json!({"httpTokens": "never"}),
    ]
    .iter()
    .enumerate()
    {
        let made = api.create(&PostParams::default(), &class(&format!("bad-{number}"), options)).await;
        assert!(made.is_err(), "{options}");
    }
    let stored = |name: &'static str, options: Value| {
        let (client, object) = (
            lab.client.clone(),
            json!({
                "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
                "spec": with(json!({"metadataOptions": options})),
            }),
        );
        async move {
            let request = http::Request::post("/apis/karpenter.k8s.aws/v1/ec2nodeclasses")
                .header("content-type", "application/json")
                .body(object.to_string().into_bytes())
                .unwrap();
            client.request::<Value>(request).await.unwrap()["spec"]["metadataOptions"].clone()
        }
    };
    let filled = |hops: u32, tokens: &str| json!({"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": hops, "httpTokens": tokens});
    assert_eq!(stored("hops", json!({"httpPutResponseHopLimit": 64})).await, filled(64, "required"));
    assert_eq!(stored("tokens", json!({"httpTokens": "optional"})).await, filled(1, "optional"));
}

#[tokio::test(start_paused = true)]
async fn the_first_fault_in_order_is_the_one_that_is_told() {
    // covers: API-EC2-53
    let lab = Lab::unprepared(quiet(1)).await;
    let deny = |operation: &'static str| {
        let target = Target::Call { operation, server_fault: false };
        lab.region.script(Script::new(target, "UnauthorizedOperation", u32::MAX));
    };
    let told = || async { lab.condition("ValidationSucceeded").await.1 };
    // Everything is wrong at once, and mended from the front.
    let all = ["CreateLaunchTemplate", "CreateFleet", "RunInstances"];
    deny("DescribeCluster");
    all.into_iter().for_each(deny);
    lab.create_class(with(json!({"kubelet": {"maxPods": -1}, "subnetSelectorTerms": [{"id": "subnet-0none"}]}))).await;
    // A failure to ask is one of the reconciler, so it is asked again by hand.
    for _ in 0..5 {
        let _ = lab.classes.reconcile(&lab.class().await).await;
    }
    assert_eq!(told().await, "ClusterCIDRResolutionFailed");
    lab.region.clear_scripts();
    all.into_iter().for_each(deny);
    lab.settle_class().await;
    assert_eq!(told().await, "InvalidKubeletConfiguration");
    lab.patch_class(json!({"spec": {"kubelet": null}})).await;
    lab.settle_class().await;
    assert_eq!(told().await, "DependenciesNotReady");
    lab.patch_class(json!({"spec": {"subnetSelectorTerms": default_spec()["subnetSelectorTerms"]}})).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    // Admission lets no such tag through, so it is on a copy.
    let mut tagged = lab.class().await;
    tagged.spec.tags = Some(std::iter::once(("karpenter.sh/nodepool".to_owned(), "x".to_owned())).collect());
    for _ in 0..3 {
        tagged.metadata = lab.class().await.metadata;
        let _ = lab.classes.reconcile(&tagged).await;
        tagged.status = lab.class().await.status;
    }
    assert_eq!(told().await, "TagValidationFailed");
    for (position, call) in all.into_iter().enumerate() {
        lab.patch_class(json!({"metadata": {"annotations": {"look": position.to_string()}}})).await;
        lab.settle_class().await;
        assert_eq!(told().await, format!("{call}AuthCheckFailed"));
        lab.region.clear_scripts();
        all[position + 1..].iter().copied().for_each(deny);
    }
    lab.patch_class(json!({"metadata": {"annotations": {"look": "once more"}}})).await;
    lab.settle_class().await;
    assert_eq!(told().await, "ValidationSucceeded");
}
