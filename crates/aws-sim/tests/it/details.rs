//! Smaller promises of the provider, each in a region of its own.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use karpenter_api::ec2nodeclass::CapacityReservationSelectorTerm as Term;
use karpenter_aws_sim::{Options, Script, Target};
use karpenter_core::InstanceType;
use karpenter_provider::{CloudProvider, LaunchError};
use karpenter_provider_aws::calls::{
    CapacityReservation, CreateFleet, DescribeInstances, DescribeLaunchTemplates, Filter, FleetConfig, FleetKind,
    Override,
};
use karpenter_provider_aws::node_class::Next;
use karpenter_provider_aws::{LiveObjects, Parts, Unobserved, tasks};
use serde_json::{Value, json};

use crate::lab::{CAPACITY, Lab, TYPE, claim, default_spec, on_demand, quiet, tags};

fn with(changes: Value) -> Value {
    let mut spec = default_spec();
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn calls(lab: &Lab, name: &str) -> u64 {
    lab.region.calls().get(name).copied().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn images_are_asked_for_no_more_often_than_needed() {
    // covers: AWS-AMI-20, AWS-AMI-21, AWS-AMI-22, AWS-SG-02, AWS-SG-03
    let lab = Lab::new(quiet(1)).await;
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    assert_eq!((calls(&lab, "GetParameter"), calls(&lab, "DescribeImages")), (5, 1));
    let groups = calls(&lab, "DescribeSecurityGroups");
    lab.settle_class().await;
    assert_eq!(
        (calls(&lab, "DescribeImages"), calls(&lab, "DescribeSecurityGroups")),
        (1, groups),
        "within the minute"
    );
    tokio::time::sleep(Duration::from_secs(61)).await;
    lab.settle_class().await;
    assert_eq!((calls(&lab, "GetParameter"), calls(&lab, "DescribeImages")), (5, 2), "parameters live a day");
    assert_eq!(calls(&lab, "DescribeSecurityGroups"), groups + 1);
    // A withdrawn image: its parameter is read again, others are not.
    lab.region
        .withdraw_image("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id");
    lab.parts.images.drop_withdrawn((lab.now)()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    lab.settle_class().await;
    assert_eq!(calls(&lab, "GetParameter"), 6);
}

#[tokio::test(start_paused = true)]
async fn parameters_of_the_users_own_may_be_wrong() {
    // covers: AWS-AMI-06, AWS-AMI-13
    let own =
        json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"ssmParameter": "/mine"}, {"ssmParameter": "/yours"}]});
    let lab = Lab::new(quiet(1)).await;
    let target = Target::Call { operation: "GetParameter", server_fault: false };
    lab.region.script(Script::new(target.clone(), "ParameterNotFound", 1));
    lab.create_class(with(own)).await;
    lab.settle_class().await;
    assert_eq!(lab.class().await.status.unwrap().amis.unwrap().len(), 1, "the missing one is left out");
    tokio::time::sleep(Duration::from_secs(301)).await;
    let before = calls(&lab, "GetParameter");
    lab.settle_class().await;
    assert_eq!(calls(&lab, "GetParameter"), before + 2, "they live five minutes");
    // An alias of which nothing exists is an error that names it.
    let lab = Lab::new(quiet(1)).await;
    lab.region.script(Script::new(target, "ParameterNotFound", 5));
    lab.create_class(default_spec()).await;
    let error = lab.classes.reconcile(&lab.class().await).await.unwrap_err();
    assert!(karpenter_provider::chain(&error).contains("al2023@latest"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_fleet_fails_all_who_joined_it() {
    // covers: AWS-BATCH-03
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let target = Target::Call { operation: "CreateFleet", server_fault: false };
    lab.region.script(Script::new(target, "RequestLimitExceeded", 1));
    let claims: Vec<_> = (0..5).map(|n| on_demand(&format!("claim-{n}"))).collect();
    let answers = join_all(claims.iter().map(|claim| lab.provider.create(claim))).await;
    for answer in answers {
        match answer.unwrap_err() {
            LaunchError::Create { condition_reason, .. } => assert_eq!(condition_reason, "RequestLimitExceeded"),
            other => panic!("{other:?}"),
        }
    }
    assert!(lab.region.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_cluster_cidr_is_found_once_and_missing_it_is_said() {
    // covers: AWS-NC-23, AWS-LT-27
    let lab = Lab::new(quiet(1)).await;
    let asked = calls(&lab, "DescribeCluster");
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    assert_eq!((asked, calls(&lab, "DescribeCluster")), (1, 1));
    let lab = Lab::unprepared(quiet(1)).await;
    let target = |server_fault| Target::Call { operation: "DescribeCluster", server_fault };
    lab.region.script(Script::new(target(false), "AccessDeniedException", 1));
    lab.create_class(default_spec()).await;
    assert!(lab.classes.reconcile(&lab.class().await).await.is_err());
    assert_eq!(lab.condition("ValidationSucceeded").await.1, "ClusterCIDRResolutionFailed");
    lab.region.script(Script::new(target(true), "ServerException", 1));
    assert!(lab.classes.reconcile(&lab.class().await).await.is_ok(), "a server fault is tried again");
    lab.settle_class().await;
    assert_eq!(lab.condition("Ready").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn one_failing_step_does_not_stop_the_others() {
    // covers: AWS-NC-02
    let lab = Lab::new(quiet(1)).await;
    lab.region.script(Script::new(
        Target::Call { operation: "DescribeImages", server_fault: true },
        "InternalError",
        1,
    ));
    lab.create_class(default_spec()).await;
    assert!(lab.classes.reconcile(&lab.class().await).await.is_err());
    for name in ["SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady"] {
        assert_eq!(lab.condition(name).await.0, "True", "{name}");
    }
    let (status, reason, _) = lab.condition("ValidationSucceeded").await;
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "DependenciesNotReady"));
    assert_eq!(lab.condition("Ready").await.0, "Unknown");
}

#[tokio::test(start_paused = true)]
async fn a_profile_that_is_not_there_is_said_if_it_is_the_users() {
    // covers: AWS-NC-34
    let lab = Lab::new(quiet(1)).await;
    let script = || Script {
        message: "Value (mine) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            .to_owned(),
        ..Script::new(Target::Call { operation: "RunInstances", server_fault: false }, "InvalidParameterValue", 3)
    };
    lab.region.script(script());
    lab.create_class(with(json!({"role": null, "instanceProfile": "mine"}))).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("ValidationSucceeded").await.1, "InstanceProfileNotFound");
    // Ours is merely not known everywhere yet.
    let lab = Lab::new(quiet(1)).await;
    lab.region.script(script());
    lab.create_class(default_spec()).await;
    lab.settle_class().await;
    assert_eq!(lab.condition("ValidationSucceeded").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn templates_are_found_by_all_filters_at_once() {
    // covers: AWS-SIM-11
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let ec2 = lab.region.aws().ec2;
    let find = |filters: Vec<Filter>| {
        let (ec2, request) = (ec2.clone(), DescribeLaunchTemplates { filters, ..Default::default() });
        async move { ec2.describe_launch_templates(&request).await.unwrap().len() }
    };
    let (ours, class) = (Filter::tag("eks:eks-cluster-name", "simulated"), "karpenter.k8s.aws/ec2nodeclass");
    assert_eq!(find(vec![ours.clone()]).await, 1);
    assert_eq!(find(vec![ours.clone(), Filter::tag(class, "main")]).await, 1);
    assert_eq!(find(vec![ours, Filter::tag(class, "other")]).await, 0);
    let named = DescribeLaunchTemplates { names: vec!["nobody".to_owned()], ..Default::default() };
    let missing = ec2.describe_launch_templates(&named).await.unwrap_err();
    assert_eq!(missing.code, "InvalidLaunchTemplateName.NotFoundException");
    let gone = ec2.delete_launch_template_by_id("lt-0").await.unwrap_err();
    assert!(gone.is_not_found());
}

fn reservation(id: &str, available: u32) -> CapacityReservation {
    CapacityReservation {
        id: id.to_owned(),
        zone: "us-east-1a".to_owned(),
        instance_type: "m5.large".to_owned(),
        instance_match_criteria: "targeted".to_owned(),
        owner_id: "000000000000".to_owned(),
        reservation_type: "default".to_owned(),
        interruptible: false,
        available,
        end: None,
        tags: tags(&[("team", "a")]),
    }
}

fn reserved_offering(types: &[Arc<InstanceType>]) -> Option<(bool, u32)> {
    let kind = types.iter().find(|kind| &*kind.name == "m5.large").unwrap();
    let offering = kind.offerings.iter().find(|offering| offering.reservation.is_some())?;
    Some((offering.available, offering.reservation.as_ref().unwrap().remaining))
}

#[tokio::test(start_paused = true)]
async fn reservations_are_used_counted_and_given_back() {
    // covers: AWS-CR-03, AWS-CR-04, AWS-CR-07, AWS-CR-08, AWS-CR-09, AWS-FLEET-27, API-CD-44
    let options = Options { reservations: vec![reservation("cr-1", 2), reservation("cr-2", 0)], ..quiet(1) };
    let lab = Lab::new(options).await;
    let pool = lab.ready_with(with(json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}))).await;
    assert_eq!(lab.condition("CapacityReservationsReady").await.0, "True");
    let listed = lab.class().await.status.unwrap().capacity_reservations.unwrap();
    assert_eq!((listed.len(), listed[0].id.as_str(), listed[0].state.as_str()), (1, "cr-1", "active"));
    let types = || async { lab.provider.instance_types(&pool).await.unwrap() };
    assert_eq!(reserved_offering(&types().await), Some((true, 2)));
    let ask = |name: &str| claim(name, &[(CAPACITY, "In", &["reserved"]), (TYPE, "In", &["m5.large"])]);
    let mut first = ask("one");
    let machine = lab.provider.create(&first).await.unwrap();
    assert_eq!(machine.capacity_type, "reserved");
    assert_eq!(machine.labels["karpenter.k8s.aws/capacity-reservation-id"], "cr-1");
    assert_eq!(machine.labels["karpenter.k8s.aws/capacity-reservation-type"], "default");
    assert_eq!(machine.labels["karpenter.k8s.aws/capacity-reservation-interruptible"], "false");
    assert_eq!(reserved_offering(&types().await), Some((true, 1)));
    let read = lab.provider.get(&machine.provider_id).await.unwrap();
    assert_eq!(read.labels["karpenter.k8s.aws/capacity-reservation-id"], "cr-1");
    // A refusal empties the reservation as far as we know, but closes no pool.
    lab.region.script(Script::new(Target::Reservation("cr-1".to_owned()), "ReservationCapacityExceeded", 1));
    assert!(matches!(lab.provider.create(&ask("two")).await, Err(LaunchError::InsufficientCapacity { .. })));
    assert_eq!(reserved_offering(&types().await), Some((false, 0)));
    lab.provider
        .create(&claim("plain", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["m5.large"])]))
        .await
        .unwrap();
    // A confirmed end frees a place.
    first.metadata.labels.get_or_insert_default().extend(machine.labels.clone());
    first.status.get_or_insert_default().provider_id = Some(machine.provider_id.clone());
    while lab.provider.delete(&first).await.is_ok() {
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(reserved_offering(&types().await), Some((true, 1)));
    tokio::time::sleep(Duration::from_secs(61)).await;
    lab.settle_class().await;
    assert_eq!(reserved_offering(&types().await), Some((true, 2)), "EC2 knows better");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_reservation_id_costs_only_itself() {
    // covers: AWS-CR-02, AWS-CR-03
    let options = Options { reservations: vec![reservation("cr-1", 2), reservation("cr-2", 1)], ..quiet(1) };
    let lab = Lab::new(options).await;
    let id = |id: &str| Term { id: Some(id.to_owned()), ..Term::default() };
    // Gone or not shared with us, and mistyped: EC2 fails a whole call for either.
    let terms = [id("cr-1"), id("cr-gone"), id("cr_2"), id("cr-2")];
    let found = || async {
        let found = lab.parts.reservations.find(&terms, (lab.now)()).await.unwrap();
        found.into_iter().map(|reservation| reservation.id).collect::<Vec<_>>()
    };
    let calls = || lab.region.calls().get("DescribeCapacityReservations").copied().unwrap_or(0);
    assert_eq!(found().await, ["cr-1", "cr-2"]);
    let before = calls();
    assert_eq!((found().await.len(), calls()), (2, before), "for a minute nothing is asked");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(found().await, ["cr-1", "cr-2"]);
    assert_eq!(calls(), before + 3, "the known ids together, each unknown one alone");
    let with_tags = Term { id: Some("cr-1".to_owned()), tags: Some(tags(&[("team", "a")])), ..Term::default() };
    let both = lab.parts.reservations.find(&[with_tags], (lab.now)()).await.unwrap();
    assert_eq!(both.len(), 2, "a term with an id and tags asks for both");
}

#[tokio::test(start_paused = true)]
async fn reservations_are_read_every_minute_and_at_their_end() {
    // covers: AWS-CR-06
    let selected = with(json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}));
    let lab = Lab::new(Options { reservations: vec![reservation("cr-1", 2)], ..quiet(1) }).await;
    lab.ready_with(selected.clone()).await;
    assert_eq!(lab.settle_class().await, Next::After(Duration::from_secs(60)));
    let start = (lab.now)();
    let end = start + jiff::SignedDuration::from_secs(150);
    let ending = CapacityReservation { end: Some(end), ..reservation("cr-1", 2) };
    let lab = Lab::new(Options { reservations: vec![ending], ..quiet(1) }).await;
    lab.ready_with(selected).await;
    let left = || Duration::try_from(end.duration_since((lab.now)())).unwrap();
    assert!(left() > Duration::from_secs(70), "{:?}", left());
    assert_eq!(lab.settle_class().await, Next::After(Duration::from_secs(60)), "the end is further away");
    tokio::time::sleep(left() - Duration::from_secs(20)).await;
    let Next::After(wait) = lab.settle_class().await else { panic!("it is looked at again") };
    assert!(wait <= Duration::from_secs(20) && wait > Duration::from_secs(5), "its end comes first: {wait:?}");
}

#[tokio::test(start_paused = true)]
async fn a_terminated_instance_reads_as_not_found_while_ec2_still_shows_it() {
    // covers: AWS-CP-21
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let machine = lab.provider.create(&on_demand("one")).await.unwrap();
    let id = lab.region.instances()[0].instance.id.clone();
    let ec2 = lab.region.aws().ec2;
    ec2.terminate_instances(std::slice::from_ref(&id)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let asked = DescribeInstances { ids: vec![id], ..Default::default() };
    let shown = ec2.describe_instances(&asked).await.unwrap();
    assert_eq!(shown[0].state, karpenter_provider_aws::calls::InstanceState::Terminated);
    // A sweep forgets what was known of instances that are gone.
    assert!(lab.provider.list().await.unwrap().is_empty());
    let answer = lab.provider.get(&machine.provider_id).await;
    assert!(matches!(answer, Err(karpenter_provider::GetError::NotFound { .. })), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_reservations_do_not_exist() {
    // covers: AWS-CR-16, API-CD-44
    let options = Options { reservations: vec![reservation("cr-1", 2)], ..quiet(1) };
    let lab = Lab::with(options, |settings| settings.ec2.reserved_capacity = false).await;
    let pool = lab.ready_with(with(json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}))).await;
    assert_eq!(calls(&lab, "DescribeCapacityReservations"), 0);
    assert_eq!(reserved_offering(&lab.provider.instance_types(&pool).await.unwrap()), None);
    assert_eq!(lab.condition("CapacityReservationsReady").await.0, "");
    // What was said while the gate was on goes, and holds nothing up.
    let mut conditions = serde_json::to_value(lab.class().await.status.unwrap().conditions.unwrap()).unwrap();
    conditions.as_array_mut().unwrap().push(json!({"type": "CapacityReservationsReady", "status": "False",
        "reason": "Unauthorized", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    lab.patch_class_status(json!({"status": {"conditions": conditions}})).await;
    assert_eq!(lab.condition("CapacityReservationsReady").await.0, "False");
    lab.settle_class().await;
    assert_eq!(lab.condition("CapacityReservationsReady").await.0, "");
    assert_eq!(lab.condition("Ready").await.0, "True");
}

#[tokio::test(start_paused = true)]
async fn one_bad_pool_does_not_hide_the_machines_of_others() {
    // covers: AWS-CP-16, AWS-CP-17, AWS-CP-20
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let machine = lab.provider.create(&on_demand("one")).await.unwrap();
    // The class has lost its subnets, so that its types cannot be resolved.
    lab.patch_class(json!({"spec": {"subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}]}})).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    lab.settle_class().await;
    let listed = lab.provider.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].provider_id, machine.provider_id);
    assert!(listed[0].capacity.is_empty());
    let asked = calls(&lab, "DescribeInstances");
    lab.provider.get(&machine.provider_id).await.unwrap();
    assert_eq!(calls(&lab, "DescribeInstances"), asked, "the list has filled the cache");
    lab.region.kill(&lab.region.instances()[0].instance.id, karpenter_provider_aws::calls::InstanceState::ShuttingDown);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(lab.provider.list().await.unwrap().is_empty());
    assert!(lab.provider.get(&machine.provider_id).await.is_err(), "and emptied it");
}

#[tokio::test(start_paused = true)]
async fn efa_interfaces_are_attached_where_they_are_asked_for() {
    // covers: AWS-FLEET-29
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let mut ask = claim("efa", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["m6i.32xlarge"])]);
    let plain = lab.provider.create(&ask).await.unwrap();
    assert!(!plain.capacity.0.contains_key("vpc.amazonaws.com/efa"));
    ask.metadata.uid = Some("another".to_owned());
    ask.spec.resources = serde_json::from_value(json!({"requests": {"vpc.amazonaws.com/efa": "1"}})).unwrap();
    let machine = lab.provider.create(&ask).await.unwrap();
    assert!(machine.capacity.get("vpc.amazonaws.com/efa").units() > 0);
    let attached: Vec<u32> = lab.region.instances().iter().map(|found| found.instance.efa_interfaces).collect();
    assert_eq!(attached.iter().filter(|count| **count > 0).count(), 1, "{attached:?}");
}

#[tokio::test(start_paused = true)]
async fn who_writes_second_looks_again() {
    // covers: AWS-NC-09
    let lab = Lab::new(quiet(1)).await;
    let stale = lab.create_class(default_spec()).await;
    lab.patch_class(json!({"metadata": {"annotations": {"a": "b"}}})).await;
    let next = lab.classes.reconcile(&stale).await.unwrap();
    assert_eq!(next, karpenter_provider_aws::node_class::Next::After(Duration::ZERO));
    assert_eq!(lab.class().await.metadata.finalizers, None, "nothing was written over the other's work");
}

#[tokio::test(start_paused = true)]
async fn types_are_resolved_once_and_anew_when_something_changed() {
    // covers: AWS-OFF-12, AWS-OFF-14, AWS-PRICE-14
    let lab = Lab::new(quiet(1)).await;
    let pool = lab.ready().await;
    let types = || async { lab.provider.instance_types(&pool).await.unwrap() };
    let first = types().await;
    assert!(Arc::ptr_eq(&first, &types().await));
    tokio::time::sleep(Duration::from_secs(301)).await;
    let second = types().await;
    assert!(!Arc::ptr_eq(&first, &second), "after five minutes");
    let now = (lab.now)();
    lab.parts.unavailable.mark_subnet("subnet-x", now);
    let third = types().await;
    assert!(!Arc::ptr_eq(&second, &third), "something was refused");
    lab.patch_class(json!({"spec": {"amiSelectorTerms": [{"alias": "windows2022@latest"}]}})).await;
    lab.settle_class().await;
    assert!(*third != *types().await, "another family is another operating system");
    // A refresh that waits for AWS keeps nobody waiting.
    let slow = Options { latency: karpenter_aws_sim::Span::exactly(Duration::from_secs(30)), ..quiet(1) };
    let lab = Lab::new(slow).await;
    let pool = lab.ready().await;
    let refresh = lab.parts.types.refresh();
    tokio::pin!(refresh);
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut refresh).await.is_err());
    let before = tokio::time::Instant::now();
    lab.provider.instance_types(&pool).await.unwrap();
    assert!(before.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_reserved_instance_without_reservation_is_called_on_demand() {
    // covers: AWS-CR-11, AWS-CR-12, AWS-CR-13
    let lab = Lab::new(Options { reservations: vec![reservation("cr-1", 2)], ..quiet(1) }).await;
    lab.ready_with(with(json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}))).await;
    let claims = kube::Api::<karpenter_api::NodeClaim>::all(lab.client.clone());
    let nodes = kube::Api::<k8s_openapi::api::core::v1::Node>::all(lab.client.clone());
    for (name, capacity) in [("kept", "reserved"), ("lost", "reserved"), ("plain", "on-demand")] {
        let mut ask = claim(name, &[(CAPACITY, "In", &[capacity]), (TYPE, "In", &["m5.large"])]);
        let machine = lab.provider.create(&ask).await.unwrap();
        ask.metadata.uid = None;
        ask.metadata.labels.get_or_insert_default().extend(machine.labels.clone());
        let mut labels = machine.labels.clone();
        labels.insert("karpenter.sh/registered".to_owned(), "true".to_owned());
        let node = json!({"metadata": {"name": name, "labels": labels}, "spec": {"providerID": machine.provider_id}});
        nodes.create(&Default::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        let mut stored = claims.create(&Default::default(), &ask).await.unwrap();
        let status = stored.status.get_or_insert_default();
        (status.provider_id, status.node_name) = (Some(machine.provider_id.clone()), Some(name.to_owned()));
        claims.replace_status(name, &Default::default(), &stored).await.unwrap();
        if name == "lost" {
            lab.region.end_reservation(machine.provider_id.rsplit('/').next().unwrap());
        }
    }
    assert_eq!(karpenter_provider_aws::demotion::round(&lab.parts, &lab.client).await.unwrap(), 1);
    for (name, capacity, reservation_labels) in
        [("kept", "reserved", 3), ("lost", "on-demand", 0), ("plain", "on-demand", 0)]
    {
        let of_claim = claims.get(name).await.unwrap().metadata.labels.unwrap();
        let of_node = nodes.get(name).await.unwrap().metadata.labels.unwrap();
        for found in [of_claim, of_node] {
            assert_eq!(found["karpenter.sh/capacity-type"], capacity, "{name}");
            let left = found.keys().filter(|key| key.contains("capacity-reservation")).count();
            assert_eq!(left, reservation_labels, "{name}");
        }
    }
    assert_eq!(karpenter_provider_aws::demotion::round(&lab.parts, &lab.client).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_loop_has_its_interval() {
    // covers: AWS-MET-12
    let lab = Lab::new(quiet(1)).await;
    lab.region.set_shifts(Vec::new());
    let mut settings = lab.settings.clone();
    (settings.interruption_queue, settings.enable_zonal_shift) = (Some("simulated".to_owned()), true);
    let reads = Arc::new(LiveObjects(lab.client.clone()));
    let parts =
        Parts::new(lab.region.aws(), settings, lab.now.clone(), reads, lab.notices.clone(), Arc::new(Unobserved));
    parts.start().await.unwrap();
    let (minute, hour) = (60, 3600);
    for task in tasks(&parts, &lab.client) {
        let want = match task.name {
            "providers.instancetype" | "providers.pricing.on_demand" | "providers.pricing.spot" => 12 * hour,
            "providers.version" => 5 * minute,
            "providers.ssm.invalidation" | "instanceprofile.garbagecollection" => 30 * minute,
            "capacityreservation.capacitytype" | "capacityreservation.expiration" => minute,
            "interruption.instancestatus" | "cloudprovider.metrics" => minute,
            "zonalshift" => 30,
            "providers.launchtemplate" => 60,
            "interruption" => 0,
            other => panic!("no interval is known of {other}"),
        };
        assert_eq!((task.round)().await.unwrap().as_secs(), want, "{}", task.name);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_known_is_asked_for_again_when_its_time_is_over() {
    // covers: AWS-MET-11, AWS-SUBNET-03, AWS-SG-03, AWS-IP-10
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    const ASKED: [&str; 6] = [
        "DescribeSubnets",
        "DescribeSecurityGroups",
        "DescribeImages",
        "GetInstanceProfile",
        "GetParameter",
        "RunInstances",
    ];
    let look = async || {
        lab.settle_class().await;
        let calls = lab.region.calls();
        ASKED.map(|call| calls.get(call).copied().unwrap_or(0))
    };
    let mut before = look().await;
    let mut news = async |wait: u64| {
        tokio::time::sleep(Duration::from_secs(wait)).await;
        let now = look().await;
        let new: Vec<&str> =
            ASKED.into_iter().zip(now.iter().zip(&before)).filter(|(_, (a, b))| a > b).map(|(call, _)| call).collect();
        before = now;
        new
    };
    let minute = ["DescribeSubnets", "DescribeSecurityGroups", "DescribeImages"];
    assert_eq!(news(58).await, Vec::<&str>::new(), "within the minute");
    assert_eq!(news(3).await, minute);
    assert_eq!(news(14 * 60).await, [&minute[..], &["GetInstanceProfile"]].concat(), "after a quarter of an hour");
    assert_eq!(news(14 * 60).await, minute);
    assert_eq!(news(60).await, [&minute[..], &["GetInstanceProfile", "RunInstances"]].concat(), "after half an hour");
    assert!(!news(23 * 3600).await.contains(&"GetParameter"));
    assert!(news(3600).await.contains(&"GetParameter"), "after a day");
}

#[tokio::test(start_paused = true)]
async fn what_is_bought_and_tagged_is_simulated_and_the_catalogue_stands_still() {
    // covers: AWS-SIM-01, AWS-SIM-02
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let ec2 = lab.region.aws().ec2;
    let everything = || async {
        let subnets = ec2.describe_subnets(&[Filter::tag("karpenter.sh/discovery", "simulated")], 10).await.unwrap();
        let ids: Vec<String> = subnets.into_iter().map(|subnet| subnet.id).collect();
        (ids, ec2.describe_instance_types(100).await.unwrap(), ec2.describe_instance_type_offerings(100).await.unwrap())
    };
    let before = everything().await;
    assert!(before.0.len() >= 3 && before.1.iter().any(|kind| &*kind.name == "m5.large"));
    lab.provider.create(&on_demand("one")).await.unwrap();
    let bought = lab.region.instances().remove(0).instance;
    let template = ec2.describe_launch_templates(&DescribeLaunchTemplates::default()).await.unwrap().remove(0);
    let over = Override {
        instance_type: bought.instance_type.clone(),
        subnet_id: bought.subnet_id.clone().unwrap(),
        image_id: bought.image_id.clone(),
        zone: bought.zone.clone(),
        priority: karpenter_core::MicroUsd(1),
    };
    let request = CreateFleet {
        client_token: None,
        dry_run: false,
        kind: FleetKind::OnDemand,
        total: 2,
        configs: vec![FleetConfig { template_name: template.name.clone(), version: "$Latest", overrides: vec![over] }],
        tags: tags(&[("team", "a")]),
        context: None,
        prioritized: false,
    };
    let fleet = ec2.create_fleet(&request).await.unwrap();
    let ids: Vec<&str> = fleet.instances.iter().flat_map(|some| &some.ids).map(String::as_str).collect();
    assert_eq!(ids.len(), 2, "{fleet:?}");
    let all = ids.iter().map(|id| ("i-", *id)).chain([("fleet-", &*fleet.fleet_id), ("lt-", &*template.id)]);
    for (prefix, id) in all {
        let rest = id.strip_prefix(prefix).unwrap_or_else(|| panic!("{id}"));
        assert!(rest.len() >= 17 && rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{id}");
    }
    assert!(ids.iter().all(|id| id.len() == "i-".len() + 17));
    ec2.create_tags(&[ids[0].to_owned()], &tags(&[("later", "b")])).await.unwrap();
    ec2.terminate_instances(&[ids[1].to_owned()]).await.unwrap();
    let found = lab.region.instances();
    let of = |id: &str| found.iter().find(|one| one.instance.id == id).unwrap();
    assert_eq!((of(ids[0]).instance.tags["team"].as_str(), of(ids[0]).instance.tags["later"].as_str()), ("a", "b"));
    assert!(of(ids[0]).ended_at.is_none() && of(ids[1]).ended_at.is_some());
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!(everything().await, before, "read once, whatever is bought and however long it takes");
}
