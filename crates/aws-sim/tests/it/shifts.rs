//! Zonal shift: launches keep away from a zone that is not well, and its machines are left alone.

use std::sync::Arc;
use std::time::Duration;

use karpenter_aws_sim::{Script, Target};
use karpenter_core::InstanceType;
use karpenter_provider::{CloudProvider, DeleteError, Severity};
use karpenter_provider_aws::calls::{CapacityReservation, Shift};
use karpenter_provider_aws::{LiveObjects, Parts, Unobserved};
use serde_json::json;

use crate::lab::{CAPACITY, Lab, TYPE, ZONE, claim, default_spec, quiet};

const ZONE_A: &str = "us-east-1a";

fn shift(zone_id: &str, applied: bool, expires_at: Option<jiff::Timestamp>) -> Shift {
    Shift { zone_id: zone_id.to_owned(), applied, expires_at }
}

fn offered(types: &[Arc<InstanceType>], zone: &str) -> usize {
    let all = types.iter().flat_map(|kind| &kind.offerings);
    all.filter(|offering| offering.available && offering.zone().as_deref() == Some(zone)).count()
}

async fn zone_id(lab: &Lab, zone: &str) -> String {
    let subnets = lab.class().await.status.unwrap().subnets.unwrap();
    subnets.into_iter().find(|subnet| subnet.zone == zone).and_then(|subnet| subnet.zone_id).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_registered_cannot_heed_shifts() {
    // covers: AWS-ZS-01
    let lab = Lab::new(quiet(1)).await;
    let start = |enabled: bool| {
        let mut settings = lab.settings.clone();
        settings.enable_zonal_shift = enabled;
        let reads = Arc::new(LiveObjects(lab.client.clone()));
        let parts =
            Parts::new(lab.region.aws(), settings, lab.now.clone(), reads, lab.notices.clone(), Arc::new(Unobserved));
        async move { parts.start().await }
    };
    start(false).await.unwrap();
    assert!(!lab.region.calls().contains_key("GetManagedResource"), "nobody asked for it");
    let refused = karpenter_provider::chain(&start(true).await.unwrap_err());
    assert!(refused.contains("zonal shifts"), "{refused}");
    let denied = Target::Call { operation: "DescribeCluster", server_fault: false };
    lab.region.script(Script::new(denied, "AccessDenied", 1));
    let refused = karpenter_provider::chain(&start(true).await.unwrap_err());
    assert!(refused.contains("DescribeCluster") && refused.contains("ARN"), "{refused}");
    lab.region.set_shifts(Vec::new());
    start(true).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_launched_in_a_shifted_zone() {
    // covers: AWS-ZS-02, AWS-ZS-03, AWS-ZS-04, AWS-ZS-07, API-EV-35
    let reservation = CapacityReservation {
        id: "cr-1".into(),
        zone: ZONE_A.into(),
        instance_type: "m5.large".into(),
        instance_match_criteria: "targeted".into(),
        owner_id: "000000000000".into(),
        reservation_type: "default".into(),
        interruptible: false,
        available: 2,
        end: None,
        tags: Default::default(),
    };
    let options = karpenter_aws_sim::Options { reservations: vec![reservation], ..quiet(1) };
    let lab = Lab::with(options, |settings| settings.enable_zonal_shift = false).await;
    let mut spec = default_spec();
    spec["capacityReservationSelectorTerms"] = json!([{"id": "cr-1"}]);
    let pool = lab.ready_with(spec).await;
    let (a, b) = (zone_id(&lab, ZONE_A).await, zone_id(&lab, "us-east-1b").await);
    let shifts = &lab.parts.zonal_shifts;
    let round = || async { shifts.round(&lab.parts).await.unwrap() };
    let types = || async { lab.provider.instance_types(&pool).await.unwrap() };
    let told = || {
        let all = lab.notices.messages().into_iter().filter(|message| message.starts_with("ZonalShift"));
        all.collect::<Vec<_>>()
    };
    assert!(offered(&types().await, ZONE_A) > 0);
    let end = (lab.now)() + Duration::from_secs(600);
    lab.region.set_shifts(vec![shift(&a, true, Some(end)), shift(&b, false, Some(end))]);
    assert_eq!(round().await, Duration::from_secs(30));
    let listed = types().await;
    assert_eq!(offered(&listed, ZONE_A), 0, "reserved ones included");
    assert!(offered(&listed, "us-east-1b") > 0, "not applied");
    assert_eq!(told(), [format!("ZonalShiftActive Zone {ZONE_A} ({a}) is shifted away from")]);
    let ask = claim("one", &[(CAPACITY, "In", &["reserved", "on-demand"]), (ZONE, "In", &[ZONE_A])]);
    assert!(lab.provider.create(&ask).await.is_err());
    round().await;
    assert_eq!(told().len(), 1, "said once");
    // Another one begins while the first is taken back.
    lab.region.set_shifts(vec![shift(&b, true, Some(end))]);
    round().await;
    assert!(offered(&types().await, ZONE_A) > 0 && offered(&types().await, "us-east-1b") == 0);
    assert_eq!(told().len(), 3, "{:?}", told());
    assert!(told().contains(&format!("ZonalShiftCleared Zone {ZONE_A} ({a}) is no longer shifted away from")));
    for (reason, severity) in [("ZonalShiftActive", Severity::Warning), ("ZonalShiftCleared", Severity::Normal)] {
        for notice in lab.notices.with_reason(reason) {
            assert_eq!((notice.severity, notice.subject.kind.as_str()), (severity, "NodePool"), "{reason}");
        }
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(offered(&types().await, "us-east-1b") > 0, "expired, whatever ARC still says");
}

#[tokio::test(start_paused = true)]
async fn pools_are_told_of_zones_they_can_use_even_if_it_takes_two_attempts() {
    // covers: AWS-ZS-07
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let elsewhere = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "elsewhere"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"},
            "requirements": [{"key": ZONE, "operator": "NotIn", "values": [ZONE_A]}],
        }}},
    });
    let pool: karpenter_api::NodePool = serde_json::from_value(elsewhere).unwrap();
    kube::Api::all(lab.client.clone()).create(&Default::default(), &pool).await.unwrap();
    let a = zone_id(&lab, ZONE_A).await;
    lab.region.set_shifts(vec![shift(&a, true, None), shift("use1-az99", true, None)]);
    let denied = Target::Call { operation: "GetManagedResource", server_fault: true };
    lab.region.script(Script::new(denied, "InternalError", 1));
    assert!(lab.parts.zonal_shifts.round(&lab.parts).await.is_err());
    assert!(lab.notices.messages().is_empty());
    lab.parts.zonal_shifts.round(&lab.parts).await.unwrap();
    let told = lab.notices.messages();
    assert_eq!(told.len(), 1, "not the pool that keeps away, nor of a zone without subnets: {told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_in_a_shifted_zone_is_deleted_later() {
    // covers: AWS-ZS-05
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let mut one =
        claim("one", &[(CAPACITY, "In", &["on-demand"]), (TYPE, "In", &["m5.large"]), (ZONE, "In", &[ZONE_A])]);
    let machine = lab.provider.create(&one).await.unwrap();
    one.status.get_or_insert_default().provider_id = Some(machine.provider_id.clone());
    lab.provider.list().await.unwrap();
    lab.region.set_shifts(vec![shift(&zone_id(&lab, ZONE_A).await, true, None)]);
    lab.parts.zonal_shifts.round(&lab.parts).await.unwrap();
    let before = lab.region.calls();
    assert!(matches!(lab.provider.delete(&one).await, Err(DeleteError::Other(_))));
    assert_eq!(lab.provider.get(&machine.provider_id).await.unwrap().provider_id, machine.provider_id);
    assert_eq!(lab.region.calls(), before, "nothing was asked");
    assert!(lab.failures.0.lock().unwrap().iter().all(|line| !line.contains("termination")));
    lab.region.set_shifts(Vec::new());
    lab.parts.zonal_shifts.round(&lab.parts).await.unwrap();
    lab.provider.delete(&one).await.unwrap();
}
