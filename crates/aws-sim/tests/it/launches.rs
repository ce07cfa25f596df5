//! Launches, seen from both sides.

use std::time::Duration;

use futures_util::future::join_all;
use karpenter_api::NodeClaim;
use karpenter_aws_sim::{Capacity, Options, Script, Target};
use karpenter_provider::{CloudProvider, LaunchError, Machine};
use karpenter_provider_aws::calls::InstanceState;
use karpenter_provider_aws::{AwsProvider, tagging};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::lab::{CAPACITY, Lab, TYPE, ZONE, claim, default_spec, on_demand, options, quiet, tags};

#[tokio::test(start_paused = true)]
async fn a_thousand_alike_claims_are_a_handful_of_calls() {
    // covers: AWS-BATCH-01, AWS-LT-08
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let claims: Vec<_> = (0..1000).map(|n| on_demand(&format!("claim-{n}"))).collect();
    let before = lab.region.calls();
    let machines = join_all(claims.iter().map(|claim| lab.provider.create(claim))).await;
    assert!(machines.iter().all(Result::is_ok));
    let after = lab.region.calls();
    let made = |call: &str| after.get(call).copied().unwrap_or(0) - before.get(call).copied().unwrap_or(0);
    assert_eq!(made("CreateFleet"), 1);
    assert!(made("CreateLaunchTemplate") <= 10, "{}", made("CreateLaunchTemplate"));
    assert_eq!(lab.region.instances().len(), 1000);
    for (claim, machine) in claims.iter().zip(&machines).step_by(20) {
        let machine = machine.as_ref().unwrap();
        let read = lab.provider.get(&machine.provider_id).await.unwrap();
        assert_eq!((&read.labels, &read.image_id, read.deleting), (&machine.labels, &machine.image_id, false));
        assert_eq!(lab.provider.is_drifted(&launched(claim, machine)).await.unwrap(), None);
    }
    let after = lab.region.calls();
    assert_eq!(after.get("DescribeInstances"), before.get("DescribeInstances"), "what the fleet told is enough");
}

/// Upstream asks EC2 for each template on its own and makes it, then joins equal fleet requests; and it reads and
/// terminates what is deleted together in one call each. No action is asked for more often here.
#[tokio::test(start_paused = true)]
async fn claims_of_a_few_shapes_are_a_call_for_each_shape() {
    // covers: AWS-BATCH-01, AWS-BATCH-04, AWS-BATCH-05, AWS-LT-03, AWS-LT-04, AWS-LT-08
    let lab = Lab::new(Options { capacity: Capacity::Unlimited, ..options(3) }).await;
    lab.ready().await;
    let shapes: [&[&str]; 3] =
        [&["m5.large", "c5.large", "r5.large"], &["m5.xlarge", "m6i.xlarge"], &["m5.4xlarge", "c5.2xlarge"]];
    let shaped = |n: usize| (CAPACITY, "In", &["on-demand"] as &[&str], TYPE, shapes[n % 3]);
    let claims: Vec<NodeClaim> = (0..12)
        .map(|n| {
            let (key, operator, values, of, types) = shaped(n);
            claim(&format!("claim-{n}"), &[(key, operator, values), (of, "In", types)])
        })
        .collect();
    let of_validation = lab.region.template_count();
    let before = lab.region.calls();
    let machines = join_all(claims.iter().map(|claim| lab.provider.create(claim))).await;
    let machines: Vec<Machine> = machines.into_iter().map(Result::unwrap).collect();
    let templates = (lab.region.template_count() - of_validation) as u64;
    let since = |before: &std::collections::BTreeMap<&'static str, u64>| {
        let mut made = lab.region.calls();
        made.iter_mut().for_each(|(call, count)| *count -= before.get(call).copied().unwrap_or(0));
        made.retain(|_, count| *count > 0);
        made.into_iter().collect::<Vec<_>>()
    };
    // 29, 58 and 234 pods: one template each, as the image is the same.
    assert_eq!(templates, 3);
    let want = [("CreateFleet", 3), ("CreateLaunchTemplate", templates), ("DescribeLaunchTemplates", 1)];
    assert_eq!(since(&before), want);
    // By then every part of EC2 has heard of them; before, each would be asked about again, as upstream does.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = lab.region.calls();
    let held: Vec<NodeClaim> = claims.iter().zip(&machines).map(|(claim, machine)| launched(claim, machine)).collect();
    for ended in join_all(held.iter().map(|claim| lab.provider.delete(claim))).await {
        ended.unwrap();
    }
    assert_eq!(since(&before), [("DescribeInstances", 1), ("TerminateInstances", 1)]);
}

/// The claim as it is once its machine has launched and registered.
fn launched(claim: &NodeClaim, machine: &Machine) -> NodeClaim {
    let mut claim = claim.clone();
    let name = claim.metadata.name.clone().unwrap();
    claim.metadata.labels.get_or_insert_default().extend(machine.labels.clone());
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id = Some(machine.image_id.clone());
    status.node_name = Some(format!("node-{name}"));
    claim
}

async fn store(lab: &Lab, claim: &NodeClaim) -> NodeClaim {
    let api = Api::<NodeClaim>::all(lab.client.clone());
    let mut new = claim.clone();
    new.metadata.uid = None;
    let made = api.create(&PostParams::default(), &new).await.unwrap();
    let whole = NodeClaim { metadata: made.metadata, ..claim.clone() };
    api.replace_status(whole.metadata.name.as_deref().unwrap(), &PostParams::default(), &whole).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn many_new_machines_get_their_tags_with_few_reads() {
    // covers: AWS-TAG-06, AWS-TAG-07, AWS-BATCH-04
    const MACHINES: usize = 120;
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let claims: Vec<_> = (0..MACHINES).map(|n| on_demand(&format!("claim-{n}"))).collect();
    let machines = join_all(claims.iter().map(|claim| lab.provider.create(claim))).await;
    let mut held = Vec::new();
    for (claim, machine) in claims.iter().zip(&machines) {
        held.push(store(&lab, &launched(claim, machine.as_ref().unwrap())).await);
    }
    // Somebody else was quicker with the first one: that was read after the launch.
    let first = lab.region.instances()[0].instance.id.clone();
    let theirs = tags(&[("Name", "theirs")]);
    lab.region.aws().ec2.create_tags(std::slice::from_ref(&first), &theirs).await.unwrap();
    let before = lab.region.calls();
    let start = tokio::time::Instant::now();
    for claim in held.iter().rev() {
        tagging::tag(&lab.parts, &lab.client, claim).await.unwrap();
    }
    let made = |call: &str| lab.region.calls()[call] - before.get(call).copied().unwrap_or(0);
    assert_eq!(made("CreateTags"), MACHINES as u64);
    let seconds = start.elapsed().as_secs();
    assert!(seconds >= MACHINES as u64, "at most one a second");
    assert!(made("DescribeInstances") <= seconds / 15 + 1, "{} reads in {seconds} s", made("DescribeInstances"));
    for instance in lab.region.instances() {
        let own = instance.instance.tags["Name"].starts_with("node-claim-");
        assert_eq!(own, instance.instance.id != first, "{:?}", instance.instance.tags);
        assert!(instance.instance.tags.contains_key("karpenter.sh/nodeclaim"));
    }
}

#[tokio::test(start_paused = true)]
async fn instances_carry_tags_and_template_settings() {
    // covers: AWS-CP-12, AWS-FLEET-21, AWS-TAG-01, AWS-SIM-05, AWS-SIM-06, AWS-FLEET-19, AWS-SIM-03, AWS-LT-10
    let lab = Lab::new(quiet(1)).await;
    let mut spec = default_spec();
    spec["tags"] = json!({"team": "a"});
    lab.ready_with(spec).await;
    let machine = lab.provider.create(&claim("one", &[(CAPACITY, "In", &["spot"])])).await.unwrap();
    let instance = lab.region.instances().remove(0).instance;
    let want = tags(&[
        ("team", "a"),
        ("kubernetes.io/cluster/simulated", "owned"),
        ("karpenter.sh/nodepool", "pool"),
        ("eks:eks-cluster-name", "simulated"),
        ("karpenter.k8s.aws/ec2nodeclass", "main"),
    ]);
    assert_eq!(instance.tags, want);
    assert_eq!(machine.provider_id, format!("aws:///{}/{}", instance.zone, instance.id));
    assert!(instance.id.starts_with("i-") && instance.id.len() == 19, "{}", instance.id);
    assert_eq!((machine.capacity_type.as_str(), instance.state), ("spot", InstanceState::Running));
    assert!(instance.spot_request_id.is_some());
    let status = lab.class().await.status.unwrap();
    let groups: Vec<String> = status.security_groups.unwrap().into_iter().map(|group| group.id).collect();
    assert_eq!(instance.security_groups, groups);
    assert_eq!(instance.tenancy.as_deref(), Some("default"));
    assert!(instance.zone_id.is_some());
    assert_eq!((machine.launched_at, &machine.image_id), ((lab.now)(), &instance.image_id));
    assert_eq!((&machine.instance_type, &machine.zone), (&instance.instance_type, &instance.zone));
    assert_eq!(machine.annotations.len(), 3);
    let hash = karpenter_api::ec2nodeclass_hash(&lab.class().await, None);
    assert_eq!(machine.annotations["karpenter.k8s.aws/ec2nodeclass-hash"], hash);
    assert_eq!(machine.annotations["karpenter.k8s.aws/instance-profile-name"], status.instance_profile.unwrap());
    assert_eq!(machine.annotations["karpenter.k8s.aws/ec2nodeclass-hash-version"], "v6");
}

#[tokio::test(start_paused = true)]
async fn the_cheapest_type_is_bought_and_nothing_exotic() {
    // covers: AWS-SIM-04, AWS-FLEET-06, AWS-FLEET-08, AWS-FLEET-09, AWS-FLEET-13
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let allowed: &[&str] = &["m5.large", "m5.xlarge", "c5.large", "g4dn.xlarge", "m5.metal"];
    let machine = lab.provider.create(&claim("one", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", allowed)])).await;
    assert_eq!(machine.unwrap().instance_type, "c5.large");
    let only_gpu = claim("gpu", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["g4dn.xlarge"])]);
    let machine = lab.provider.create(&only_gpu).await.unwrap();
    assert_eq!(machine.instance_type, "g4dn.xlarge", "where nothing else is left");
    assert_eq!(machine.capacity.get("nvidia.com/gpu").units(), 1);
    let mixed = claim("mixed", &[(CAPACITY, "In", &["on-demand", "spot"]), (TYPE, "In", &["m5.large", "m5.xlarge"])]);
    lab.parts
        .types
        .set_spot_prices(karpenter_provider_aws::prices::spot(&lab.region.aws(), (lab.now)()).await.unwrap())
        .unwrap();
    assert_eq!(lab.provider.create(&mixed).await.unwrap().capacity_type, "spot");
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_ran_out_is_avoided_for_a_while() {
    // covers: AWS-FLEET-23, AWS-FLEET-24, AWS-OFF-02, AWS-OFF-13, AWS-MET-04
    let lab = Lab::new(Options { capacity: Capacity::Exactly(1), ..quiet(1) }).await;
    let pool = lab.ready().await;
    let ask = |name: &str| claim(name, &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["m5.large", "c5.large"])]);
    let mut bought = Vec::new();
    for n in 0..6 {
        let machine = lab.provider.create(&ask(&format!("claim-{n}"))).await.unwrap();
        bought.push((machine.instance_type, machine.zone));
    }
    let types: Vec<&str> = bought.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(types, ["c5.large", "c5.large", "c5.large", "m5.large", "m5.large", "m5.large"]);
    let refused = lab.provider.create(&ask("too-much")).await.unwrap_err();
    assert!(matches!(refused, LaunchError::InsufficientCapacity { .. }), "{refused}");
    let offered = |types: &[std::sync::Arc<karpenter_core::InstanceType>], name: &str| {
        let kind = types.iter().find(|kind| &*kind.name == name).unwrap();
        kind.offerings.iter().filter(|o| o.available && o.capacity_type().as_deref() == Some("on-demand")).count()
    };
    let types = lab.provider.instance_types(&pool).await.unwrap();
    assert_eq!((offered(&types, "m5.large"), offered(&types, "c5.large"), offered(&types, "m5.xlarge")), (0, 0, 3));
    let fleets = lab.region.calls()["CreateFleet"];
    assert!(lab.provider.create(&ask("again")).await.is_err());
    assert_eq!(lab.region.calls()["CreateFleet"], fleets, "what is known to be gone is not asked for");
    assert!(!lab.failures.0.lock().unwrap().is_empty());
    tokio::time::sleep(Duration::from_secs(181)).await;
    let types = lab.provider.instance_types(&pool).await.unwrap();
    assert_eq!(offered(&types, "m5.large"), 3, "after three minutes it may have come back");
}

#[tokio::test(start_paused = true)]
async fn a_full_subnet_and_a_missing_spot_role_close_what_they_concern() {
    // covers: AWS-FLEET-25, AWS-FLEET-26, AWS-OFF-08, AWS-OFF-09, AWS-SUBNET-09, API-IAM-33
    let lab = Lab::new(quiet(1)).await;
    let pool = lab.ready().await;
    let subnet = lab.class().await.status.unwrap().subnets.unwrap().remove(0);
    lab.region.script(Script::new(Target::Subnet(subnet.id.clone()), "InsufficientFreeAddressesInSubnet", 1));
    let there = [
        (CAPACITY, "In", ["on-demand"].as_slice()),
        (TYPE, "In", &["m5.large"]),
        (ZONE, "In", &[subnet.zone.as_str()]),
    ];
    assert!(lab.provider.create(&claim("full", &there)).await.is_err());
    let available = |types: &[std::sync::Arc<karpenter_core::InstanceType>], zone: &str, class: &str| {
        let offerings = types.iter().flat_map(|kind| &kind.offerings).filter(|offering| offering.available);
        offerings.filter(|o| o.zone().as_deref() == Some(zone) && o.capacity_type().as_deref() == Some(class)).count()
    };
    let types = lab.provider.instance_types(&pool).await.unwrap();
    assert_eq!(available(&types, &subnet.zone, "on-demand"), 0);
    let role = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
    lab.region.script(Script::new(Target::Pool { class: None, instance_type: None, zone: None }, role, 3));
    assert!(
        lab.provider.create(&claim("spot", &[(CAPACITY, "In", &["spot"]), (TYPE, "In", &["m5.large"])])).await.is_err()
    );
    let types = lab.provider.instance_types(&pool).await.unwrap();
    assert!(
        types
            .iter()
            .flat_map(|kind| &kind.offerings)
            .all(|o| !o.available || o.capacity_type().as_deref() != Some("spot"))
    );
    assert!(lab.notices.messages().iter().any(|message| message.contains(role)));
    let either = |name: &str| claim(name, &[(CAPACITY, "In", &["spot", "on-demand"]), (TYPE, "In", &["c5.large"])]);
    assert_eq!(lab.provider.create(&either("meanwhile")).await.unwrap().capacity_type, "on-demand");
    tokio::time::sleep(Duration::from_secs(181)).await;
    let types = lab.provider.instance_types(&pool).await.unwrap();
    assert!(available(&types, &subnet.zone, "spot") > 0, "after three minutes the role may be there");
}

#[tokio::test(start_paused = true)]
async fn a_lost_template_is_made_anew() {
    // covers: AWS-LT-26, AWS-LT-04, AWS-LT-05
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    lab.provider.create(&on_demand("one")).await.unwrap();
    lab.region.lose_templates();
    lab.provider.create(&on_demand("two")).await.unwrap();
    assert!(lab.region.template_count() > 0);
    let held = lab.region.template_count();
    tokio::time::sleep(Duration::from_secs(59)).await;
    lab.parts.launch_templates.sweep((lab.now)()).await.unwrap();
    assert_eq!(lab.region.template_count(), held, "used within the minute");
    tokio::time::sleep(Duration::from_secs(61)).await;
    lab.parts.launch_templates.sweep((lab.now)()).await.unwrap();
    assert_eq!(lab.region.template_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn leftover_templates_are_adopted() {
    // covers: AWS-LT-06
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    lab.provider.create(&on_demand("one")).await.unwrap();
    let restarted = lab.restarted().await;
    restarted.launch_templates.adopt((lab.now)()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    restarted.launch_templates.sweep((lab.now)()).await.unwrap();
    assert_eq!(lab.region.template_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_found_again() {
    // covers: LC-LAUNCH-10
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    lab.region.script(Script::new(Target::Answer { operation: "CreateFleet" }, "RequestTimeout", 1));
    assert!(lab.provider.create(&on_demand("one")).await.is_err());
    assert_eq!(lab.region.instances().len(), 1, "it was launched all the same");
    let again = AwsProvider::new(lab.restarted().await).create(&on_demand("one")).await.unwrap();
    assert_eq!(lab.region.instances().len(), 1);
    assert!(again.provider_id.ends_with(&lab.region.instances()[0].instance.id));
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_fleet_failed_may_try_again() {
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let target = Target::Pool { class: None, instance_type: None, zone: None };
    lab.region.script(Script::new(target, "Whatever", 3));
    let ask = claim("one", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["m5.large"])]);
    let refused = lab.provider.create(&ask).await.unwrap_err();
    assert!(matches!(refused, LaunchError::Create { .. }), "{refused}");
    assert!(lab.provider.create(&ask).await.is_ok(), "the old answer is not given again");
}

#[tokio::test(start_paused = true)]
async fn unknown_readiness_and_foreign_tags_launch_nothing() {
    // covers: AWS-CP-03, AWS-CP-04
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(default_spec()).await;
    match lab.provider.create(&on_demand("early")).await.unwrap_err() {
        LaunchError::Create { condition_reason, condition_message, .. } => {
            assert_eq!(condition_reason, "NodeClassReadinessUnknown");
            assert_eq!(condition_message, "NodeClass is in Ready=Unknown");
        }
        other => panic!("{other:?}"),
    }
    lab.settle_class().await;
    lab.patch_class(json!({"spec": {"detailedMonitoring": true}})).await;
    let stale = lab.provider.create(&on_demand("stale")).await.unwrap_err();
    assert!(matches!(stale, LaunchError::NodeClassNotReady { .. }), "{stale}");
    lab.settle_class().await;
    lab.provider.create(&on_demand("fine")).await.unwrap();
}
