//! What the documents are about: names that are known, or that a template fills in later.

/// Texts may be those of a template, as in `${AWS::Region}`: nothing here looks into them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) partition: String,
    /// `amazonaws.com`, but in China and where nobody may look.
    pub(super) dns_suffix: String,
    pub(super) region: String,
    pub(super) account: String,
    pub(super) cluster: String,
}

impl Names {
    pub(super) fn known(cluster: String, account: String, region: String) -> Self {
        let partition = partition(&region);
        let (partition, dns_suffix) = (partition.to_owned(), dns_suffix(partition).to_owned());
        Self { partition, dns_suffix, region, account, cluster }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) names: Names,
    pub(super) node_role: String,
    /// The namespace and service account that the controller runs as.
    pub(super) namespace: String,
    pub(super) service_account: String,
    /// Without `https://`; with one the role is for web identities (IRSA), without for Pod Identity.
    pub(super) oidc_provider: Option<String>,
    /// None: no interruption handling, so no permissions for it.
    pub(super) queue: Option<String>,
    pub(super) uses: Uses,
    /// Parameters of the account's own that image selectors name.
    pub(super) parameters: Vec<String>,
}

/// What is switched on. A permission that nothing uses is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) zonal_shift: bool,
    /// Prices from the price list, and instance profiles made from a node class's role: neither service has an endpoint
    /// in an isolated network.
    pub(super) public_services: bool,
    pub(super) reservations: bool,
}

impl Scope {
    pub(super) fn controller_role(&self) -> String {
        format!("KarpenterControllerRole-{}", self.names.cluster)
    }

    pub(super) fn node_profile(&self) -> String {
        format!("KarpenterNodeInstanceProfile-{}", self.names.cluster)
    }

    pub(super) fn policy_name(&self, part: &str) -> String {
        format!("KarpenterController{part}Policy-{}", self.names.cluster)
    }

    /// In any account: networks and reservations may be shared, and what we make is told by its tags.
    pub(super) fn tagged(&self, resource: &str) -> String {
        format!("arn:{}:ec2:{}:*:{resource}/*", self.names.partition, self.names.region)
    }

    /// Of what EC2 keeps without an account: images and snapshots.
    pub(super) fn regional(&self, resource: &str) -> String {
        format!("arn:{}:ec2:{}::{resource}/*", self.names.partition, self.names.region)
    }

    pub(super) fn iam(&self, path: &str) -> String {
        format!("arn:{}:iam::{}:{path}", self.names.partition, self.names.account)
    }

    pub(super) fn aws_managed(&self, policy: &str) -> String {
        format!("arn:{}:iam::aws:policy/{policy}", self.names.partition)
    }

    pub(super) fn cluster_arn(&self) -> String {
        format!(
            "arn:{}:eks:{}:{}:cluster/{}",
            self.names.partition, self.names.region, self.names.account, self.names.cluster
        )
    }

    /// Every event rule of the account in this region.
    pub(super) fn rules_arn(&self) -> String {
        format!("arn:{}:events:{}:{}:rule/*", self.names.partition, self.names.region, self.names.account)
    }

    pub(super) fn queue_arn(&self, name: &str) -> String {
        format!("arn:{}:sqs:{}:{}:{name}", self.names.partition, self.names.region, self.names.account)
    }
}

pub(super) fn dns_suffix(partition: &str) -> &'static str {
    match partition {
        "aws-cn" => "amazonaws.com.cn",
        "aws-iso" => "c2s.ic.gov",
        "aws-iso-b" => "sc2s.sgov.gov",
        "aws-iso-e" => "cloud.adc-e.uk",
        "aws-iso-f" => "csp.hci.ic.gov",
        _ => "amazonaws.com",
    }
}

/// The partition a region belongs to.
pub(super) fn partition(region: &str) -> &'static str {
    const BY_PREFIX: [(&str, &str); 6] = [
        ("cn-", "aws-cn"),
        ("us-gov-", "aws-us-gov"),
        ("us-iso-", "aws-iso"),
        ("us-isob-", "aws-iso-b"),
        ("eu-isoe-", "aws-iso-e"),
        ("us-isof-", "aws-iso-f"),
    ];
    let known = BY_PREFIX.into_iter().find(|(prefix, _)| region.starts_with(prefix));
    known.map_or("aws", |(_, partition)| partition)
}
