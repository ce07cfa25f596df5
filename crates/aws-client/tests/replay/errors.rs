use karpenter_provider::LaunchError;
use karpenter_provider_aws::calls::{AwsError, CreateFleet, FleetKind, NewInstanceProfile};
use karpenter_provider_aws::errors::{fleet_refusal, reason_and_message};
use karpenter_testkit::lines::Lines;
use prometheus_client::registry::Registry;
use tracing::Level;

use crate::server::Server;

/// One call for each service and answer.
async fn refused(file: &str) -> AwsError {
    // A server fault is tried three times.
    let server = Server::with(&[file, file, file]).await;
    let aws = &server.connection.aws;
    let name = "x";
    match file.split('.').nth(1).unwrap() {
        "TerminateInstances" => aws.ec2.terminate_instances(&["i-1".to_owned()]).await.unwrap_err(),
        "DescribeInstanceTypes" => aws.ec2.describe_instance_types_dry_run().await.unwrap_err(),
        "DeleteLaunchTemplate" => aws.ec2.delete_launch_template_by_id(name).await.unwrap_err(),
        "DescribeCapacityReservations" => {
            aws.ec2.describe_capacity_reservations(&["cr-1".to_owned()], &[], None).await.unwrap_err()
        }
        "CreateInstanceProfile" => {
            let new = NewInstanceProfile { name: name.into(), path: "/".into(), tags: [].into() };
            aws.iam.create_instance_profile(&new).await.unwrap_err()
        }
        "GetInstanceProfile" => aws.iam.get_instance_profile(name).await.unwrap_err(),
        "AddRoleToInstanceProfile" => aws.iam.add_role_to_instance_profile(name, name).await.unwrap_err(),
        "GetParameter" => aws.ssm.get_parameter(name).await.unwrap_err(),
        "GetQueueUrl" => aws.sqs.get_queue_url(name).await.unwrap_err(),
        "DescribeCluster" => aws.eks.describe_cluster(name).await.unwrap_err(),
        "GetManagedResource" => aws.zonal_shift.get_managed_resource(name).await.unwrap_err(),
        other => panic!("no call is made for {other}"),
    }
}

#[tokio::test]
async fn codes_are_told_apart_in_every_protocol() {
    // covers: AWS-ERR-01, AWS-ERR-03
    type Kind = fn(&AwsError) -> bool;
    let rows: [(&str, &str, Kind); 11] = [
        ("ec2.TerminateInstances.400-not-found.xml", "InvalidInstanceID.NotFound", AwsError::is_not_found),
        ("ec2.DescribeInstanceTypes.412-dry-run.xml", "DryRunOperation", AwsError::is_dry_run),
        ("ec2.DescribeInstanceTypes.403-unauthorized.xml", "UnauthorizedOperation", AwsError::is_unauthorized),
        ("ec2.DeleteLaunchTemplate.400-not-found.xml", "InvalidLaunchTemplateId.NotFound", AwsError::is_not_found),
        (
            "ec2.DescribeCapacityReservations.400-not-found.xml",
            "InvalidCapacityReservationId.NotFound",
            AwsError::is_not_found,
        ),
        ("iam.CreateInstanceProfile.409-exists.xml", "EntityAlreadyExists", AwsError::is_already_exists),
        ("iam.GetInstanceProfile.404-not-found.xml", "NoSuchEntity", AwsError::is_not_found),
        ("iam.AddRoleToInstanceProfile.404-no-role.xml", "NoSuchEntity", AwsError::is_role_not_found),
        ("ssm.GetParameter.400-not-found.json", "ParameterNotFound", AwsError::is_not_found),
        ("sqs.GetQueueUrl.400-not-found.json", "QueueDoesNotExist", AwsError::is_not_found),
        ("eks.DescribeCluster.404-not-found.json", "ResourceNotFoundException", |_| true),
    ];
    for (file, code, kind) in rows {
        let error = refused(file).await;
        assert_eq!(error.code, code, "{file}");
        assert!(kind(&error), "{file}: {error:?}");
        assert!(!error.server_fault && !error.message.is_empty(), "{file}: {error:?}");
        assert!(error.request_id.is_some(), "{file}: {error:?}");
    }
}

fn fleet(dry_run: bool) -> CreateFleet {
    CreateFleet {
        client_token: Some("token".to_owned()),
        dry_run,
        kind: FleetKind::OnDemand,
        total: 1,
        configs: Vec::new(),
        tags: [].into(),
        context: None,
        prioritized: false,
    }
}

#[tokio::test]
async fn a_throttled_launch_is_tried_again_with_its_token_and_counted() {
    // covers: AWS-MET-09
    let server = Server::with(&["ec2.CreateFleet.503-throttled.xml", "ec2.CreateFleet.launched.xml"]).await;
    let answer = server.connection.aws.ec2.create_fleet(&fleet(false)).await.unwrap();
    assert_eq!(answer.instances.len(), 1);
    let asked = server.asked();
    assert_eq!(asked.iter().map(|asked| asked.field("ClientToken")).collect::<Vec<_>>(), ["token", "token"]);

    let mut registry = Registry::default();
    server.connection.requests.register(&mut registry);
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
    let of = |code: &str| format!("{{service=\"EC2\",action=\"CreateFleet\",code=\"{code}\"}}");
    for line in [
        format!("aws_sdk_go_request_total{} 1", of("200")),
        format!("aws_sdk_go_request_attempt_total{} 1", of("200")),
        format!("aws_sdk_go_request_attempt_total{} 1", of("503")),
        format!("aws_sdk_go_request_retry_count_sum{} 1.0", of("200")),
        format!("aws_sdk_go_request_duration_seconds_count{} 1", of("200")),
        format!("aws_sdk_go_request_attempt_duration_seconds_count{} 1", of("503")),
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
}

#[tokio::test]
async fn a_check_of_permissions_is_asked_once() {
    let server = Server::with(&["ec2.CreateFleet.503-throttled.xml"]).await;
    let error = server.connection.aws.ec2.create_fleet(&fleet(true)).await.unwrap_err();
    assert!(error.is_throttled(), "{error:?}");
    assert_eq!(server.only().field("DryRun"), "true");
}

#[tokio::test]
async fn what_nobody_answers_is_a_server_fault() {
    let server = Server::with(&[]).await;
    let error = server.connection.aws.ec2.terminate_instances(&["i-1".to_owned()]).await.unwrap_err();
    assert!(error.server_fault && error.is_passing(), "{error:?}");
}

/// Code, reason of the `Launched` condition, and whether it is about capacity; in the order of the recorded answer.
const FLEET_ERRORS: [(&str, &str, bool); 25] = [
    ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "SpotSLRCreationFailed", true),
    ("UnauthorizedOperation", "Unauthorized", false),
    ("UnauthorizedOperation", "Unauthorized", false),
    ("UnauthorizedOperation", "Unauthorized", false),
    ("AccessDenied", "Unauthorized", false),
    ("AuthFailure", "AMIAuthorizationFailure", false),
    ("InvalidParameter", "SecurityGroupSubnetVPCMismatch", false),
    ("InvalidParameterValue", "InstanceProfileNameInvalid", false),
    ("InvalidLaunchTemplateId.NotFound", "LaunchTemplateNotFound", false),
    ("InvalidUserData.Malformed", "UserDataSizeLimitExceeded", false),
    ("InvalidAMIID.Malformed", "InvalidAMIID", false),
    ("InvalidAMIID.NotFound", "AMINotFound", false),
    ("RequestLimitExceeded", "RequestLimitExceeded", false),
    ("InternalError", "InternalError", false),
    ("InvalidParameterCombination", "FreeTierIneligible", false),
    ("MaxFleetCountExceeded", "FleetQuotaExceeded", true),
    ("PendingVerification", "AccountPendingVerification", false),
    ("MaxSpotInstanceCountExceeded", "SpotQuotaExceeded", true),
    ("VcpuLimitExceeded", "VCPULimitExceeded", true),
    ("InsufficientFreeAddressesInSubnet", "InsufficientFreeAddressesInSubnet", true),
    ("InsufficientInstanceCapacity", "LaunchFailed", true),
    ("UnfulfillableCapacity", "LaunchFailed", true),
    ("Unsupported", "LaunchFailed", true),
    ("ReservationCapacityExceeded", "LaunchFailed", true),
    ("SomethingNew", "LaunchFailed", false),
];

#[tokio::test]
async fn every_error_of_a_fleet_is_understood() {
    // covers: AWS-ERR-02, AWS-ERR-05
    let server = Server::with(&["ec2.CreateFleet.every-error.xml"]).await;
    let answer = server.connection.aws.ec2.create_fleet(&fleet(false)).await.unwrap();
    assert!(answer.instances.is_empty());
    assert_eq!(answer.errors.len(), FLEET_ERRORS.len());
    for (error, (code, reason, capacity)) in answer.errors.iter().zip(FLEET_ERRORS) {
        assert_eq!(error.code, code);
        assert_eq!((error.instance_type.as_str(), error.zone.as_str()), ("m5.large", "us-east-1a"), "{code}");
        assert_eq!(error.subnet_id.as_deref(), Some("subnet-1"), "{code}");
        assert_eq!(reason_and_message(&format!("{}: {}", error.code, error.message)).0, reason, "{code}");
        match fleet_refusal(std::slice::from_ref(error)) {
            LaunchError::InsufficientCapacity { .. } => assert!(capacity, "{code}"),
            LaunchError::Create { condition_reason, .. } => {
                assert_eq!((condition_reason.to_string().as_str(), capacity), (reason, false), "{code}")
            }
            other => panic!("{code}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn every_refusal_of_the_call_is_understood() {
    // covers: AWS-ERR-03, AWS-ERR-04, AWS-ERR-05
    let recorded = Server::with(&["ec2.CreateFleet.every-error.xml"]).await;
    let errors = recorded.connection.aws.ec2.create_fleet(&fleet(false)).await.unwrap().errors;
    for (error, (code, reason, _)) in errors.iter().zip(FLEET_ERRORS) {
        let body = format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>{}</Message></Error></Errors>\
             <RequestID>request-1</RequestID></Response>",
            error.message.replace('&', "&amp;").replace('<', "&lt;"),
        );
        // What the SDK takes for throttling or a passing fault it tries three times.
        let server = Server::answering(&[("CreateFleet", 400, &body); 3]).await;
        let refused = server.connection.aws.ec2.create_fleet(&fleet(false)).await.unwrap_err();
        assert_eq!((refused.code.as_str(), refused.operation), (code, "CreateFleet"));
        assert_eq!(refused.message, error.message, "{code}");
        assert_eq!(reason_and_message(&refused.to_string()).0, reason, "{code}: {refused}");
        assert_eq!(refused.is_throttled(), code == "RequestLimitExceeded", "{code}");
        assert_eq!(refused.is_unauthorized(), code == "UnauthorizedOperation", "{code}");
        assert_eq!(refused.is_user_data_too_large(), code == "InvalidUserData.Malformed", "{code}");
        assert_eq!(refused.is_profile_not_found(), code == "InvalidParameterValue", "{code}");
    }
}

#[tokio::test]
async fn a_failure_is_logged_with_all_that_finds_it_again() {
    // covers: AWS-OPS-14
    let (lines, _listening) = Lines::heard(Level::TRACE);
    refused("ec2.TerminateInstances.400-not-found.xml").await;
    let said = lines.all();
    let line = said.iter().find(|line| line.get("message") == "an AWS call failed");
    let line = line.unwrap_or_else(|| panic!("{said:?}"));
    for (field, value) in [
        ("service", "EC2"),
        ("operation", "TerminateInstances"),
        ("status", "400"),
        ("code", "InvalidInstanceID.NotFound"),
    ] {
        assert_eq!(line.get(field), value, "{line:?}");
    }
    assert!(!line.get("request_id").is_empty(), "{line:?}");
}
