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
    /// `major.minor`, at the start.
    pub kubernetes_version: String,
    /// The version is asked of EKS, not of the API server.
    pub eks_control_plane: bool,
    pub isolated_vpc: bool,
    pub disable_dry_run: bool,
    pub ami_refresh: Duration,
    pub subnet_refresh: Duration,
    pub interruption_queue: Option<String>,
    /// The cluster is registered with ARC, and its shifts are heeded.
    pub enable_zonal_shift: bool,
    pub ec2: Ec2Settings,
    /// Feature gate `NodeOverlay`.
    pub node_overlays: bool,
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
            eks_control_plane: false,
            isolated_vpc: false,
            disable_dry_run: false,
            ami_refresh: Duration::from_secs(60),
            subnet_refresh: Duration::from_secs(60),
            interruption_queue: None,
            enable_zonal_shift: false,
            ec2: Ec2Settings::default(),
            node_overlays: false,
            strict_min_values: true,
        }
    }

    pub fn is_ipv6(&self) -> bool {
        self.cluster_dns.as_ref().is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dns_address_tells_the_family_of_the_cluster() {
        // covers: AWS-OPS-09
        for (address, want) in [(None, false), (Some("10.100.0.10"), false), (Some("fd00::a"), true)] {
            let mut settings = Settings::new("here", "https://api", "1.36");
            settings.cluster_dns = address.map(str::to_owned);
            assert_eq!(settings.is_ipv6(), want, "{address:?}");
        }
    }
}
