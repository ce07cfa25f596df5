//! Which label keys users may write where.
//!
//! The rule is a plain suffix test on the text before the first slash (or the whole key without one), so it also refuses
//! `notkarpenter.sh/x`. The controller's own check is exact; both are kept as the reference has them.

use super::Rule;
use crate::labels;

/// Keys of the AWS domain that NodePools and NodeClaims may use as requirement, and NodePools as template label.
pub(crate) const AWS_DOMAIN_LABELS: [&str; 29] = [
    "karpenter.k8s.aws/instance-tenancy",
    "karpenter.k8s.aws/capacity-reservation-type",
    "karpenter.k8s.aws/capacity-reservation-id",
    "karpenter.k8s.aws/capacity-reservation-interruptible",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.k8s.aws/instance-encryption-in-transit-supported",
    "karpenter.k8s.aws/nitro-sandbox",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-hypervisor",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-local-nvme",
    "karpenter.k8s.aws/instance-size",
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
    "karpenter.k8s.aws/instance-memory",
    "karpenter.k8s.aws/instance-ebs-bandwidth",
    "karpenter.k8s.aws/instance-network-bandwidth",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-count",
    "karpenter.k8s.aws/instance-gpu-memory",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-count",
    "karpenter.k8s.aws/instance-capability-flex",
    "karpenter.k8s.aws/placement-group-id",
    "karpenter.k8s.aws/placement-group-partition",
];

/// Keys of the AWS domain that NodeOverlays may use: those that tell instance types apart, not where one is launched.
pub(crate) const AWS_DOMAIN_OVERLAY_LABELS: [&str; 23] = [
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.k8s.aws/instance-encryption-in-transit-supported",
    "karpenter.k8s.aws/nitro-sandbox",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-hypervisor",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-local-nvme",
    "karpenter.k8s.aws/instance-size",
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
    "karpenter.k8s.aws/instance-memory",
    "karpenter.k8s.aws/instance-ebs-bandwidth",
    "karpenter.k8s.aws/instance-network-bandwidth",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-count",
    "karpenter.k8s.aws/instance-gpu-memory",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-count",
    "karpenter.k8s.aws/instance-capability-flex",
];

/// The keys of our own domain that are not refused as such.
const GROUP_LABELS: [&str; 2] = [labels::CAPACITY_TYPE, labels::NODEPOOL];

const KARPENTER_DOMAIN: &str = "label domain \"karpenter.sh\" is restricted";
const NODEPOOL_LABEL: &str = "label \"karpenter.sh/nodepool\" is restricted";
const HOSTNAME_LABEL: &str = "label \"kubernetes.io/hostname\" is restricted";
const AWS_DOMAIN: &str = "label domain \"karpenter.k8s.aws\" is restricted";

/// On a requirement's key in a NodePool.
pub(super) fn nodepool_key() -> [Rule; 4] {
    let [domain, hostname, aws] = nodeclaim_key();
    let nodepool =
        Rule::whole(NODEPOOL_LABEL, r#"self != "karpenter.sh/nodepool""#, |key| key.as_str() != Some(labels::NODEPOOL));
    [domain, nodepool, hostname, aws]
}

/// On a requirement's key in a NodeClaim, which may name its pool.
pub(super) fn nodeclaim_key() -> [Rule; 3] {
    let aws = Rule::whole(AWS_DOMAIN, key_rule(&AWS_DOMAIN_LABELS, labels::AWS_GROUP), |key| {
        key.as_str().is_none_or(allowed_in_aws_domain)
    });
    let [domain, hostname] = key();
    [domain, hostname, aws]
}

/// On a requirement's key in a NodeOverlay.
pub(super) fn overlay_key() -> [Rule; 3] {
    let aws = Rule::whole(AWS_DOMAIN, key_rule(&AWS_DOMAIN_OVERLAY_LABELS, labels::AWS_GROUP), |key| {
        key.as_str().is_none_or(|key| allowed(key, &AWS_DOMAIN_OVERLAY_LABELS, labels::AWS_GROUP))
    });
    let [domain, hostname] = key();
    [domain, hostname, aws]
}

/// On the labels of a NodePool's template.
pub(super) fn template_labels() -> [Rule; 4] {
    let all = |rule: String| format!("self.all(x, {})", rule.replace("self", "x"));
    [
        Rule::entry(KARPENTER_DOMAIN, all(key_rule(&GROUP_LABELS, labels::GROUP)), |key, _| {
            allowed(key, &GROUP_LABELS, labels::GROUP)
        }),
        Rule::entry(NODEPOOL_LABEL, r#"self.all(x, x != "karpenter.sh/nodepool")"#, |key, _| key != labels::NODEPOOL),
        Rule::entry(HOSTNAME_LABEL, r#"self.all(x, x != "kubernetes.io/hostname")"#, |key, _| key != labels::HOSTNAME),
        Rule::entry(AWS_DOMAIN, all(key_rule(&AWS_DOMAIN_LABELS, labels::AWS_GROUP)), |key, _| {
            allowed_in_aws_domain(key)
        }),
    ]
}

fn key() -> [Rule; 2] {
    [
        Rule::whole(KARPENTER_DOMAIN, key_rule(&GROUP_LABELS, labels::GROUP), |key| {
            key.as_str().is_none_or(|key| allowed(key, &GROUP_LABELS, labels::GROUP))
        }),
        Rule::whole(HOSTNAME_LABEL, r#"self != "kubernetes.io/hostname""#, |key| {
            key.as_str() != Some(labels::HOSTNAME)
        }),
    ]
}

fn key_rule(exceptions: &[&str], domain: &str) -> String {
    let quoted: Vec<String> = exceptions.iter().map(|key| format!("\"{key}\"")).collect();
    format!(r#"self in [{}] || !self.find("^([^/]+)").endsWith("{domain}")"#, quoted.join(", "))
}

fn allowed_in_aws_domain(key: &str) -> bool {
    allowed(key, &AWS_DOMAIN_LABELS, labels::AWS_GROUP)
}

fn allowed(key: &str, exceptions: &[&str], domain: &str) -> bool {
    let before_slash = key.split('/').next().unwrap_or_default();
    exceptions.contains(&key) || !before_slash.ends_with(domain)
}
