//! What AWS's error codes mean to us.

use karpenter_provider::LaunchError;

use crate::calls::{AwsError, FleetError};

const NOT_FOUND: [&str; 10] = [
    "InvalidInstanceID.NotFound",
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidLaunchTemplateId.NotFound",
    "InvalidLaunchTemplateId.NotFoundException",
    "InvalidCapacityReservationId.NotFound",
    "QueueDoesNotExist",
    "AWS.SimpleQueueService.NonExistentQueue",
    "NoSuchEntity",
    "ParameterNotFound",
    "InvalidPlacementGroup.Unknown",
];
const CAPACITY: [&str; 8] = [
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "InsufficientFreeAddressesInSubnet",
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
];
pub const SPOT_ROLE_NOT_PERMITTED: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
pub const NO_FREE_ADDRESSES: &str = "InsufficientFreeAddressesInSubnet";
pub const DRY_RUN: &str = "DryRunOperation";
pub const UNAUTHORIZED: &str = "UnauthorizedOperation";
pub const THROTTLED: &str = "RequestLimitExceeded";
pub const TEMPLATE_NAME_NOT_FOUND: &str = "InvalidLaunchTemplateName.NotFoundException";
/// Ours, not EC2's: nothing is asked about a machine in a zone that is shifted away from.
pub const ZONE_SHIFTED: &str = "ZoneShifted";
pub const TOKEN_MISMATCH: &str = "IdempotentParameterMismatch";

impl AwsError {
    pub fn is_not_found(&self) -> bool {
        NOT_FOUND.contains(&self.code.as_str())
    }

    pub fn is_already_exists(&self) -> bool {
        self.code == "EntityAlreadyExists"
    }

    pub fn is_dry_run(&self) -> bool {
        self.code == DRY_RUN
    }

    pub fn is_unauthorized(&self) -> bool {
        self.code == UNAUTHORIZED
    }

    pub fn is_throttled(&self) -> bool {
        self.code == THROTTLED
    }

    /// Asking again may simply work.
    pub fn is_passing(&self) -> bool {
        self.is_throttled() || self.server_fault
    }

    pub fn is_template_not_found(&self) -> bool {
        self.code == TEMPLATE_NAME_NOT_FOUND
    }

    pub fn is_zone_shifted(&self) -> bool {
        self.code == ZONE_SHIFTED
    }

    pub fn is_token_mismatch(&self) -> bool {
        self.code == TOKEN_MISMATCH
    }

    pub fn is_profile_not_found(&self) -> bool {
        self.code == "InvalidParameterValue" && self.message.contains("Invalid IAM Instance Profile name")
    }

    pub fn is_user_data_too_large(&self) -> bool {
        self.code == "InvalidUserData.Malformed" && self.message.contains("User data is limited to")
    }

    /// IAM says so both of a role and of a profile; the message tells which.
    pub fn is_role_not_found(&self) -> bool {
        self.code == "NoSuchEntity" && self.message.to_ascii_lowercase().contains("role")
    }
}

impl FleetError {
    pub fn is_capacity(&self) -> bool {
        CAPACITY.contains(&self.code.as_str())
    }

    pub fn is_spot_role(&self) -> bool {
        self.code == SPOT_ROLE_NOT_PERMITTED
    }

    pub fn is_spread_limit(&self) -> bool {
        self.message.contains("limit of instances in this spread placement group")
    }
}

/// Reason and message for the NodeClaim's `Launched` condition, by the first text that the error holds.
pub fn reason_and_message(error: &str) -> (&'static str, &'static str) {
    let has = |text: &str| error.contains(text);
    if has(SPOT_ROLE_NOT_PERMITTED) {
        return (
            "SpotSLRCreationFailed",
            "User does not have sufficient permission to create the Spot ServiceLinkedRole to launch spot instances",
        );
    }
    if has("UnauthorizedOperation") || has("AccessDenied") || has("AuthFailure") {
        return unauthorized(error);
    }
    if has("InvalidParameter") && has("belong to different networks") {
        return ("SecurityGroupSubnetVPCMismatch", "Security groups and subnets must be in the same VPC.");
    }
    TEXTS
        .into_iter()
        .find(|(text, ..)| has(text))
        .map_or(("LaunchFailed", "Instance launch failed"), |(_, reason, message)| (reason, message))
}

/// In this order: the causes that are nobody's capacity come first.
const TEXTS: [(&str, &str, &str); 13] = [
    (
        "iamInstanceProfile.name is invalid",
        "InstanceProfileNameInvalid",
        "Instance profile name used from EC2NodeClass status does not exist",
    ),
    (
        "InvalidLaunchTemplateId.NotFound",
        "LaunchTemplateNotFound",
        "Launch template used for instance launch wasn't found",
    ),
    ("User data is limited to", "UserDataSizeLimitExceeded", "Rendered user data exceeds the EC2 user data size limit"),
    ("InvalidAMIID.Malformed", "InvalidAMIID", "AMI used for instance launch is invalid"),
    (
        "InvalidAMIID.NotFound",
        "AMINotFound",
        "AMI used for instance launch either does not exist or you don't have permissions to use it",
    ),
    ("RequestLimitExceeded", "RequestLimitExceeded", "Request limit exceeded"),
    ("InternalError", "InternalError", "An internal error has occurred"),
    ("not eligible for Free Tier", "FreeTierIneligible", "The specified instance type is not eligible for Free Tier"),
    (
        "MaxFleetCountExceeded",
        "FleetQuotaExceeded",
        "A fleet launch was requested but this would exceed your fleet request quota",
    ),
    (
        "PendingVerification",
        "AccountPendingVerification",
        "An instance launch was requested but the request for launching resources in this region is still being verified",
    ),
    (
        "MaxSpotInstanceCountExceeded",
        "SpotQuotaExceeded",
        "A spot instance launch was requested but this would exceed your spot instance quota",
    ),
    ("VcpuLimitExceeded", "VCPULimitExceeded", "An instance was requested that would exceed your VCPU quota"),
    (
        NO_FREE_ADDRESSES,
        "InsufficientFreeAddressesInSubnet",
        "There are not enough free IP addresses to launch an instance in this subnet",
    ),
];

/// Who forbids it is worth saying: it decides whom to ask.
fn unauthorized(error: &str) -> (&'static str, &'static str) {
    if error.contains("with an explicit deny in a permissions boundary") {
        ("Unauthorized", "User is not authorized to perform this operation due to a permission boundary")
    } else if error.contains("with an explicit deny in a service control policy") {
        ("Unauthorized", "User is not authorized to perform this operation due to a service control policy")
    } else if error.contains("Not authorized for images") {
        ("AMIAuthorizationFailure", "User is not authorized for AMI used in instance launch")
    } else {
        ("Unauthorized", "User is not authorized to perform this operation because no identity-based policy allows it")
    }
}

/// A fleet that gave no instance: out of capacity if that is all it complains of, else a refusal with its reason.
pub fn fleet_refusal(errors: &[FleetError]) -> LaunchError {
    let mut texts: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.code, error.message)).collect();
    texts.sort();
    texts.dedup();
    let message = texts.join("; ");
    if errors.iter().all(|error| error.is_capacity() || error.is_spot_role()) {
        let message =
            if message.is_empty() { "the fleet launched no instance and gave no reason".to_owned() } else { message };
        return LaunchError::InsufficientCapacity {
            message: format!("no instance type could be launched, with fleet error(s), {message}"),
        };
    }
    let (reason, text) = reason_and_message(&message);
    LaunchError::create(format!("with fleet error(s), {message}"), reason, text)
}

#[cfg(test)]
mod tests;
