//! What a failed call means in plain words, and what to do about it.

use karpenter_provider_aws::calls::AwsError;

use super::{Finding, Verdict};
use crate::iam::statement_for;

/// AWS has many ways to say no; these mean that a policy is missing.
const DENIED: [&str; 4] = ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthorizationError"];
/// And these that it does not know us at all.
const UNKNOWN: [&str; 8] = [
    "AuthFailure",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "IncompleteSignature",
];

pub(super) fn is_denied(error: &AwsError) -> bool {
    DENIED.contains(&error.code.as_str())
}

/// A call that failed, made for `subject`, which needs the permission `action`.
pub(super) fn finding(subject: &str, verdict: Verdict, action: &str, error: &AwsError) -> Finding {
    let seen = format!("{}: {}", error.code, error.message);
    Finding::bad(subject, verdict, seen, advice(action, error))
}

fn advice(action: &str, error: &AwsError) -> String {
    let code = error.code.as_str();
    if is_denied(error) {
        let whose = if error.message.contains("explicit deny") {
            "an explicit deny stands against it, in a boundary or a service control policy: ask whoever set it"
        } else {
            "the role needs it"
        };
        let wanted = match statement_for(action) {
            Some((policy, statement)) => {
                format!("; `karpenter iam` prints it: statement {statement} of the policy {policy}")
            }
            None => String::new(),
        };
        return format!("allow {action}: {whose}{wanted}");
    }
    let text = error.message.to_ascii_lowercase();
    if UNKNOWN.contains(&code) || text.contains("credentials") {
        return "AWS takes no credentials of ours: check AWS_PROFILE and the environment, and in a cluster the Pod \
                Identity association or the annotation eks.amazonaws.com/role-arn of the service account"
            .to_owned();
    }
    if error.is_throttled() {
        return "AWS asks to slow down: try again in a minute, and see who else makes many calls".to_owned();
    }
    if error.server_fault {
        return "no answer: check the route (a NAT gateway, or an endpoint of the service in the VPC), HTTPS_PROXY and \
                NO_PROXY, AWS_CA_BUNDLE and AWS_ENDPOINT_URL"
            .to_owned();
    }
    format!("{action} was refused: see the message")
}
