//! What stands around the controller: who may be it, what nodes are, and how the queue is filled.

use serde_json::{Value, json};

use super::scope::Scope;
use super::statements::document;

/// What every node may do: join, get addresses, pull images, be reached through Systems Manager.
const NODE_POLICIES: [&str; 4] = [
    "AmazonEKS_CNI_Policy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
];

/// Interruptions are told within two minutes, so older news is no news.
pub(super) const RETENTION_SECONDS: u32 = 300;
pub(super) const TARGET: &str = "KarpenterInterruptionQueueTarget";

/// Logical name in a template, source and kind of the events.
pub(super) const RULES: [(&str, &str, &str); 5] = [
    ("ScheduledChangeRule", "aws.health", "AWS Health Event"),
    ("SpotInterruptionRule", "aws.ec2", "EC2 Spot Instance Interruption Warning"),
    ("RebalanceRule", "aws.ec2", "EC2 Instance Rebalance Recommendation"),
    ("InstanceStateChangeRule", "aws.ec2", "EC2 Instance State-change Notification"),
    ("CapacityReservationInterruptionRule", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
];

pub(super) fn pattern(source: &str, kind: &str) -> Value {
    json!({"source": [source], "detail-type": [kind]})
}

/// Who may be the controller.
pub(super) fn controller_trust(scope: &Scope) -> Value {
    let statement = match &scope.oidc_provider {
        None => json!({
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
        }),
        Some(provider) => {
            let subject = format!("system:serviceaccount:{}:{}", scope.namespace, scope.service_account);
            let keys =
                [(format!("{provider}:aud"), "sts.amazonaws.com".to_owned()), (format!("{provider}:sub"), subject)];
            let keys: serde_json::Map<String, Value> =
                keys.into_iter().map(|(key, value)| (key, value.into())).collect();
            json!({
                "Effect": "Allow",
                "Principal": {"Federated": scope.iam(&format!("oidc-provider/{provider}"))},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {"StringEquals": keys},
            })
        }
    };
    document(vec![statement])
}

pub(super) fn node_trust(scope: &Scope) -> Value {
    document(vec![json!({
        "Effect": "Allow",
        "Principal": {"Service": format!("ec2.{}", scope.names.dns_suffix)},
        "Action": "sts:AssumeRole",
    })])
}

pub(super) fn node_policies(scope: &Scope) -> Vec<String> {
    NODE_POLICIES.map(|policy| scope.aws_managed(policy)).into()
}

/// Events of this account's rules in, and nothing over an open line. Without the condition rules of any account could
/// send us warnings of their making.
pub(super) fn queue_policy(scope: &Scope, name: &str) -> Value {
    let arn = scope.queue_arn(name);
    document(vec![
        json!({
            "Sid": "EC2InterruptionPolicy",
            "Effect": "Allow",
            "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnLike": {"aws:SourceArn": scope.rules_arn()}},
        }),
        json!({
            "Sid": "DenyHTTP",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:*",
            "Resource": arn,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }),
    ])
}
