//! What the IAM policies of older releases do not allow. The feature that lacks a permission is left out and everything
//! else goes on. It is said once, with the permission to give; after an hour it is tried again, since nothing tells us
//! when somebody has given it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::calls::AwsError;
use crate::ttl::Ttl;

pub const TRIED_AGAIN: Duration = Duration::from_secs(3600);

/// What can be done without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    SpotRequestTags,
    ClusterNameTag,
    ProfileListing,
    InstanceStatus,
}

impl Feature {
    fn permission(self) -> &'static str {
        match self {
            Self::SpotRequestTags => "ec2:CreateTags on spot-instances-request",
            Self::ClusterNameTag => "ec2:CreateTags on instance with the key eks:eks-cluster-name",
            Self::ProfileListing => "iam:ListInstanceProfiles",
            Self::InstanceStatus => "ec2:DescribeInstanceStatus",
        }
    }

    fn consequence(self) -> &'static str {
        match self {
            Self::SpotRequestTags => "spot requests go untagged",
            Self::ClusterNameTag => "running instances are tagged with their node's and claim's names only",
            Self::ProfileListing => "instance profiles that nothing refers to are not collected",
            Self::InstanceStatus => "sick instances are not replaced",
        }
    }
}

pub struct Permissions {
    missing: Ttl<Feature, ()>,
    said: Mutex<BTreeSet<Feature>>,
}

impl Default for Permissions {
    fn default() -> Self {
        Self { missing: Ttl::new(TRIED_AGAIN), said: Mutex::default() }
    }
}

impl Permissions {
    /// Whether it is worth trying.
    pub fn allow(&self, feature: Feature, now: Timestamp) -> bool {
        self.missing.get(&feature, now).is_none()
    }

    pub fn denied(&self, feature: Feature, error: &str, now: Timestamp) {
        self.missing.set(feature, (), now);
        if self.said().insert(feature) {
            let (permission, consequence) = (feature.permission(), feature.consequence());
            tracing::error!(permission, consequence, %error, "the IAM policy lacks a permission; add it to have the feature");
        }
    }

    /// It worked. Should it be taken away again, that is news.
    pub fn granted(&self, feature: Feature) {
        self.missing.remove(&feature);
        self.said().remove(&feature);
    }

    fn said(&self) -> MutexGuard<'_, BTreeSet<Feature>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a launch may have been denied for the tags of its spot request. AWS names the action and the resource to most
/// callers; to the others any denial may be this one.
pub fn denies_spot_request_tags(error: &str) -> bool {
    let denied = error.contains("UnauthorizedOperation");
    denied
        && match error.split_once("is not authorized to perform: ") {
            Some((_, named)) => named.starts_with("ec2:CreateTags") && named.contains("spot-instances-request"),
            None => true,
        }
}

impl AwsError {
    /// In the words of any service.
    pub fn is_denied(&self) -> bool {
        self.is_unauthorized() || matches!(self.code.as_str(), "AccessDenied" | "AccessDeniedException")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    #[test]
    fn a_missing_permission_is_tried_again_after_an_hour() {
        let permissions = Permissions::default();
        let allow = |second| permissions.allow(Feature::SpotRequestTags, at(second));
        assert!(allow(0));
        permissions.denied(Feature::SpotRequestTags, "no", at(0));
        assert!(!allow(3599) && allow(3600));
        assert!(permissions.allow(Feature::ProfileListing, at(1)), "one says nothing of another");
        permissions.denied(Feature::SpotRequestTags, "no", at(3600));
        permissions.granted(Feature::SpotRequestTags);
        assert!(allow(3601));
    }

    #[test]
    fn only_denials_that_may_be_about_the_tags_are_taken_for_them() {
        let who = "UnauthorizedOperation: You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/x";
        for (text, want) in [
            (
                format!(
                    "{who} is not authorized to perform: ec2:CreateTags on resource: arn:aws:ec2:us-east-1:1:spot-instances-request/*"
                ),
                true,
            ),
            (
                format!(
                    "{who} is not authorized to perform: ec2:CreateTags on resource: arn:aws:ec2:us-east-1:1:volume/*"
                ),
                false,
            ),
            (
                format!(
                    "{who} is not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:spot-instances-request/*"
                ),
                false,
            ),
            ("UnauthorizedOperation: You are not authorized to perform this operation.".to_owned(), true),
            ("InsufficientInstanceCapacity: none".to_owned(), false),
        ] {
            assert_eq!(denies_spot_request_tags(&text), want, "{text}");
        }
    }
}
