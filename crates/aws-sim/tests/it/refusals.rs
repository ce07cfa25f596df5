//! What a refused launch is called: every row of the table of reasons, each as an error of one pool, of the call itself,
//! and of the template's call.

use karpenter_aws_sim::{Script, Target};
use karpenter_provider::{CloudProvider, LaunchError};
use serde_json::json;

use crate::lab::{CAPACITY, Lab, TYPE, claim, default_spec, on_demand, quiet};

const ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
const BOUNDARY: &str = "User: x is not authorized to perform: ec2:RunInstances on resource: y with an explicit deny in a permissions boundary";
const SCP: &str = "User: x is not authorized to perform: ec2:RunInstances on resource: y with an explicit deny in a service control policy";

struct Row {
    code: &'static str,
    text: &'static str,
    reason: &'static str,
    /// Part of what is said to the user.
    said: &'static str,
    /// As an error of a pool it means that there is nothing to be had there.
    capacity: bool,
}

const fn row(code: &'static str, text: &'static str, reason: &'static str, said: &'static str) -> Row {
    Row { code, text, reason, said, capacity: false }
}

const fn capacity(code: &'static str, reason: &'static str, said: &'static str) -> Row {
    Row { code, text: "none", reason, said, capacity: true }
}

const ROWS: [Row; 26] = [
    Row { capacity: true, ..row(ROLE, "none", "SpotSLRCreationFailed", "Spot ServiceLinkedRole") },
    row("UnauthorizedOperation", BOUNDARY, "Unauthorized", "permission boundary"),
    row("UnauthorizedOperation", SCP, "Unauthorized", "service control policy"),
    row("UnauthorizedOperation", "no", "Unauthorized", "no identity-based policy"),
    row("AccessDenied", "no", "Unauthorized", "no identity-based policy"),
    row("AuthFailure", "no", "Unauthorized", "no identity-based policy"),
    row("AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure", "AMI"),
    row("InvalidParameter", "groups belong to different networks", "SecurityGroupSubnetVPCMismatch", "same VPC"),
    row(
        "InvalidParameterValue",
        "Value (x) for parameter iamInstanceProfile.name is invalid",
        "InstanceProfileNameInvalid",
        "Instance profile name",
    ),
    row("InvalidLaunchTemplateId.NotFound", "gone", "LaunchTemplateNotFound", "Launch template"),
    row("InvalidUserData.Malformed", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded", "user data"),
    row("InvalidAMIID.Malformed", "odd", "InvalidAMIID", "invalid"),
    row("InvalidAMIID.NotFound", "gone", "AMINotFound", "does not exist"),
    row("RequestLimitExceeded", "slow down", "RequestLimitExceeded", "Request limit"),
    row("InternalError", "oops", "InternalError", "internal error"),
    row(
        "InvalidParameterCombination",
        "The specified instance type is not eligible for Free Tier",
        "FreeTierIneligible",
        "Free Tier",
    ),
    capacity("MaxFleetCountExceeded", "FleetQuotaExceeded", "fleet request quota"),
    row("PendingVerification", "wait", "AccountPendingVerification", "verified"),
    capacity("MaxSpotInstanceCountExceeded", "SpotQuotaExceeded", "spot instance quota"),
    capacity("VcpuLimitExceeded", "VCPULimitExceeded", "VCPU quota"),
    capacity("InsufficientFreeAddressesInSubnet", "InsufficientFreeAddressesInSubnet", "free IP addresses"),
    capacity("InsufficientInstanceCapacity", "LaunchFailed", "launch failed"),
    capacity("UnfulfillableCapacity", "LaunchFailed", "launch failed"),
    capacity("Unsupported", "LaunchFailed", "launch failed"),
    capacity("ReservationCapacityExceeded", "LaunchFailed", "launch failed"),
    row("Whatever", "new", "LaunchFailed", "launch failed"),
];

fn ask(name: &str) -> karpenter_api::NodeClaim {
    claim(name, &[(CAPACITY, "In", &["spot"]), (TYPE, "In", &["m5.large"])])
}

/// Reason, and what the user reads; `None` is a launch that ran out of capacity.
fn told(error: LaunchError) -> Option<(String, String)> {
    match error {
        LaunchError::Create { condition_reason, condition_message, .. } => {
            Some((condition_reason.to_string(), condition_message))
        }
        LaunchError::InsufficientCapacity { .. } => None,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_a_fleet_become_reasons() {
    // covers: AWS-ERR-02, AWS-ERR-05, AWS-ERR-06, AWS-SIM-16, AWS-FLEET-22, AWS-MET-04
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    for (number, row) in ROWS.iter().enumerate() {
        // What was learned from the last row is not to be heard in this one.
        tokio::time::sleep(std::time::Duration::from_secs(3700)).await;
        lab.region.clear_scripts();
        lab.failures.0.lock().unwrap().clear();
        let target = Target::Pool { class: None, instance_type: None, zone: None };
        let script = Script { message: row.text.to_owned(), ..Script::new(target, row.code, 1000) };
        lab.region.script(script);
        let refused = told(lab.provider.create(&ask(&format!("claim-{number}"))).await.unwrap_err());
        match refused {
            None => assert!(row.capacity, "{}", row.code),
            Some((reason, message)) => {
                assert_eq!((reason.as_str(), row.capacity), (row.reason, false), "{}", row.code);
                assert!(message.contains(row.said), "{}: {message}", row.code);
            }
        }
        let counted = lab.failures.0.lock().unwrap().clone();
        let as_reason = counted.iter().filter(|line| line.ends_with(&format!("spot {}", row.reason))).count();
        // A denial that does not say of what is tried again without tags on the spot request.
        let tries = if row.code == "UnauthorizedOperation" && row.text == "no" { 2 } else { 1 };
        assert_eq!((as_reason, counted.len()), (3 * tries, 3 * tries), "in each zone, {}: {counted:?}", row.code);
        assert!(counted.iter().all(|line| line.split(' ').all(|word| !word.is_empty())), "zone ids too: {counted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_call_become_reasons_and_nothing_is_asked_twice() {
    // covers: AWS-ERR-05, AWS-FLEET-28, AWS-SUBNET-07
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    for (number, row) in ROWS.iter().enumerate() {
        lab.region.clear_scripts();
        let target = Target::Call { operation: "CreateFleet", server_fault: false };
        lab.region.script(Script { message: row.text.to_owned(), ..Script::new(target, row.code, 1000) });
        let before = lab.region.calls()["CreateFleet"];
        let refused = lab.provider.create(&on_demand(&format!("claim-{number}"))).await.unwrap_err();
        let (reason, message) = told(refused).unwrap_or_else(|| panic!("{}: out of capacity", row.code));
        assert_eq!(reason, row.reason, "{}", row.code);
        assert!(message.starts_with("Error creating fleet request: ") && message.contains(row.said), "{message}");
        assert_eq!(lab.region.calls()["CreateFleet"] - before, 1, "{}", row.code);
    }
    assert!(lab.region.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_template_become_reasons() {
    // covers: AWS-ERR-05
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    lab.parts.launch_templates.sweep((lab.now)()).await.unwrap();
    let fleets = lab.region.calls()["CreateFleet"];
    for (number, row) in ROWS.iter().enumerate() {
        lab.region.clear_scripts();
        let target = Target::Call { operation: "CreateLaunchTemplate", server_fault: false };
        lab.region.script(Script { message: row.text.to_owned(), ..Script::new(target, row.code, 1000) });
        let refused = lab.provider.create(&on_demand(&format!("claim-{number}"))).await.unwrap_err();
        let (reason, message) = told(refused).unwrap_or_else(|| panic!("{}: out of capacity", row.code));
        assert_eq!(reason, row.reason, "{}", row.code);
        assert!(message.starts_with("Error getting launch template configs: "), "{message}");
    }
    assert_eq!(lab.region.calls()["CreateFleet"], fleets, "without a template nothing is launched");
}

#[tokio::test(start_paused = true)]
async fn a_mix_of_refusals_is_more_than_missing_capacity_and_none_is_exactly_that() {
    // covers: AWS-ERR-07, AWS-ERR-08, AWS-FLEET-22, AWS-FLEET-23
    let lab = Lab::new(quiet(1)).await;
    let pool = lab.ready().await;
    let in_zone = |zone: &str| Target::Pool { class: None, instance_type: None, zone: Some(zone.to_owned()) };
    lab.region.script(Script::new(in_zone("us-east-1a"), "InsufficientInstanceCapacity", 1));
    lab.region.script(Script::new(in_zone("us-east-1b"), "InvalidAMIID.NotFound", 1));
    lab.region.script(Script::new(in_zone("us-east-1c"), "InsufficientInstanceCapacity", 1));
    let (reason, _) = told(lab.provider.create(&ask("mixed")).await.unwrap_err()).unwrap();
    assert_eq!(reason, "AMINotFound");
    let spot_in = |types: &[std::sync::Arc<karpenter_core::InstanceType>]| {
        let kind = types.iter().find(|kind| &*kind.name == "m5.large").unwrap();
        let spot = kind.offerings.iter().filter(|o| o.available && o.capacity_type().as_deref() == Some("spot"));
        spot.filter_map(|offering| Some(offering.zone()?.to_string())).collect::<Vec<_>>()
    };
    let types = lab.provider.instance_types(&pool).await.unwrap();
    assert_eq!(spot_in(&types), ["us-east-1b"], "what a refusal teaches is learned all the same");
    // A launch that succeeds elsewhere teaches too.
    tokio::time::sleep(std::time::Duration::from_secs(200)).await;
    let anywhere = Target::Pool { class: None, instance_type: None, zone: None };
    lab.region.script(Script::new(anywhere, "InsufficientInstanceCapacity", 1));
    lab.provider.create(&ask("elsewhere")).await.unwrap();
    let left = spot_in(&lab.provider.instance_types(&pool).await.unwrap());
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn throttling_does_not_empty_a_reservation() {
    // covers: AWS-FLEET-27
    let reservation = karpenter_provider_aws::calls::CapacityReservation {
        id: "cr-1".into(),
        zone: "us-east-1a".into(),
        instance_type: "m5.large".into(),
        instance_match_criteria: "targeted".into(),
        owner_id: "111122223333".into(),
        reservation_type: "default".into(),
        interruptible: false,
        available: 5,
        end: None,
        tags: Default::default(),
    };
    let lab = Lab::new(karpenter_aws_sim::Options { reservations: vec![reservation], ..quiet(1) }).await;
    let mut spec = default_spec();
    spec["capacityReservationSelectorTerms"] = json!([{"id": "cr-1"}]);
    lab.ready_with(spec).await;
    let reserved = |name: &str| claim(name, &[(CAPACITY, "In", &["reserved"]), (TYPE, "In", &["m5.large"])]);
    for (code, left) in [("RequestLimitExceeded", 5), ("ReservationCapacityExceeded", 0)] {
        lab.region.script(Script::new(Target::Reservation("cr-1".into()), code, 1));
        assert!(lab.provider.create(&reserved(code)).await.is_err());
        assert_eq!(lab.parts.reservations.free("cr-1", (lab.now)()), left, "{code}");
    }
    let spot = lab.provider.create(&ask("spot")).await.unwrap();
    assert_eq!(spot.capacity_type, "spot", "the pool beside it is untouched");
    assert_eq!(lab.region.instances()[0].instance.instance_type, "m5.large");
}

#[tokio::test(start_paused = true)]
async fn without_subnets_there_is_nothing_to_launch_into() {
    // covers: AWS-FLEET-30, AWS-SUBNET-10
    let lab = Lab::new(quiet(1)).await;
    lab.ready().await;
    let mut class = lab.class().await;
    class.status.as_mut().unwrap().subnets = None;
    let api = kube::Api::<karpenter_api::EC2NodeClass>::all(lab.client.clone());
    api.replace_status("main", &Default::default(), &class).await.unwrap();
    let before = lab.region.calls()["CreateFleet"];
    let (reason, message) = told(lab.provider.create(&on_demand("one")).await.unwrap_err()).unwrap();
    assert!(
        ["SubnetResolutionFailed", "InstanceTypeResolutionFailed"].contains(&reason.as_str()),
        "{reason}: {message}"
    );
    assert_eq!(lab.region.calls()["CreateFleet"], before);
}
