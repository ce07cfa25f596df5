//! What operators set that the AWS provider looks at. Reading flags and environment is somebody else's business.

use std::time::Duration;

use karpenter_ec2::Ec2Settings;

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub cluster_name: String,
    pub cluster_endpoint: String,
    /// Base64.
    pub ca_bundle: Option<String>,
    /// Address of the cluster's DNS service; an IPv6 one makes the cluster an IPv6 cluster.
    pub cluster_dns: Option<String>,
    /// `major.minor`.
    pub kubernetes_version: String,
    pub isolated_vpc: bool,
    pub disable_dry_run: bool,
    pub ami_refresh: Duration,
    pub subnet_refresh: Duration,
    pub interruption_queue: Option<String>,
    /// The cluster is registered with ARC, and its shifts are heeded.
    pub enable_zonal_shift: bool,
    pub ec2: Ec2Settings,
    /// `min-values-policy` Strict; BestEffort takes what there is.
    pub strict_min_values: bool,
}

impl Settings {
    /// Upstream's defaults for a cluster.
    pub fn new(cluster_name: &str, cluster_endpoint: &str, kubernetes_version: &str) -> Self {
        Self {
            cluster_name: cluster_name.to_owned(),
            cluster_endpoint: cluster_endpoint.to_owned(),
            ca_bundle: None,
            cluster_dns: None,
            kubernetes_version: kubernetes_version.to_owned(),
            isolated_vpc: false,
            disable_dry_run: false,
            ami_refresh: Duration::from_secs(60),
            subnet_refresh: Duration::from_secs(60),
            interruption_queue: None,
            enable_zonal_shift: false,
            ec2: Ec2Settings::default(),
            strict_min_values: true,
        }
    }

    pub fn is_ipv6(&self) -> bool {
        self.cluster_dns.as_ref().is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
    }
}
