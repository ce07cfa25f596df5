use super::*;

fn error(code: &str, message: &str) -> AwsError {
    AwsError::new("CreateFleet", code, message)
}

fn fleet(code: &str) -> FleetError {
    FleetError {
        code: code.into(),
        message: "m".into(),
        instance_type: "m5.large".into(),
        zone: "a".into(),
        subnet_id: None,
    }
}

#[test]
fn codes_have_classes() {
    // covers: AWS-ERR-01, AWS-ERR-03, AWS-ERR-04
    for code in [
        "InvalidInstanceID.NotFound",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
        "InvalidCapacityReservationId.NotFound",
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchEntity",
        "ParameterNotFound",
    ] {
        assert!(error(code, "").is_not_found(), "{code}");
    }
    assert!(!error("InvalidAMIID.NotFound", "").is_not_found());
    assert!(error("EntityAlreadyExists", "").is_already_exists());
    assert!(error("DryRunOperation", "").is_dry_run());
    assert!(error("UnauthorizedOperation", "").is_unauthorized());
    assert!(error("RequestLimitExceeded", "").is_throttled() && error("RequestLimitExceeded", "").is_passing());
    assert!(AwsError { server_fault: true, ..error("InternalError", "") }.is_passing());
    assert!(!error("InternalError", "").is_passing());
    let profile = "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name";
    assert!(error("InvalidParameterValue", profile).is_profile_not_found());
    assert!(!error("InvalidParameterValue", "other").is_profile_not_found());
    assert!(error("InvalidUserData.Malformed", "User data is limited to 16384 bytes").is_user_data_too_large());
    assert!(!error("InvalidUserData.Malformed", "bad").is_user_data_too_large());
}

#[test]
fn launch_failures_get_the_reason_of_the_first_text() {
    // covers: AWS-ERR-05, API-CD-50, API-CD-51, API-CD-52, API-CD-53, API-CD-54, API-CD-55, API-CD-56, API-CD-57
    for (text, reason) in [
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted: x", "SpotSLRCreationFailed"),
        ("UnauthorizedOperation: x", "Unauthorized"),
        ("AccessDenied: x", "Unauthorized"),
        ("AuthFailure: Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
        ("InvalidParameter: groups and subnet belong to different networks", "SecurityGroupSubnetVPCMismatch"),
        ("Value for parameter iamInstanceProfile.name is invalid", "InstanceProfileNameInvalid"),
        ("InvalidLaunchTemplateId.NotFound: x", "LaunchTemplateNotFound"),
        ("InvalidUserData.Malformed: User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"),
        ("InvalidAMIID.Malformed: x", "InvalidAMIID"),
        ("InvalidAMIID.NotFound: x", "AMINotFound"),
        ("RequestLimitExceeded: x", "RequestLimitExceeded"),
        ("InternalError: x", "InternalError"),
        ("InvalidParameterCombination: not eligible for Free Tier", "FreeTierIneligible"),
        ("MaxFleetCountExceeded: x", "FleetQuotaExceeded"),
        ("PendingVerification: x", "AccountPendingVerification"),
        ("MaxSpotInstanceCountExceeded: x", "SpotQuotaExceeded"),
        ("VcpuLimitExceeded: x", "VCPULimitExceeded"),
        ("InsufficientFreeAddressesInSubnet: x", "InsufficientFreeAddressesInSubnet"),
        ("whatever", "LaunchFailed"),
        ("InternalError and VcpuLimitExceeded", "InternalError"),
    ] {
        assert_eq!(reason_and_message(text).0, reason, "{text}");
    }
    let boundary = "UnauthorizedOperation: with an explicit deny in a permissions boundary";
    let scp = "UnauthorizedOperation: with an explicit deny in a service control policy";
    assert!(reason_and_message(boundary).1.ends_with("permission boundary"));
    assert!(reason_and_message(scp).1.ends_with("service control policy"));
}

#[test]
fn a_fleet_without_instances_is_out_of_capacity_only_if_nothing_else_is_wrong() {
    // covers: AWS-ERR-02, AWS-ERR-07, AWS-ERR-08, AWS-FLEET-22
    let ice = |errors: &[&str]| {
        let errors: Vec<FleetError> = errors.iter().map(|code| fleet(code)).collect();
        matches!(fleet_refusal(&errors), LaunchError::InsufficientCapacity { .. })
    };
    for code in CAPACITY {
        assert!(ice(&[code]), "{code}");
    }
    assert!(ice(&[]));
    assert!(ice(&["InsufficientInstanceCapacity", SPOT_ROLE_NOT_PERMITTED]));
    assert!(!ice(&["InsufficientInstanceCapacity", "InvalidParameterValue"]));
    match fleet_refusal(&[fleet("VcpuLimitExceeded"), fleet("RequestLimitExceeded"), fleet("RequestLimitExceeded")]) {
        LaunchError::Create { condition_reason, message, .. } => {
            assert_eq!(condition_reason, "RequestLimitExceeded");
            assert_eq!(message.matches("RequestLimitExceeded").count(), 1, "{message}");
        }
        other => panic!("{other:?}"),
    }
}
