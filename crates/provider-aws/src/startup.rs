//! What must be known before anything is decided, and what operators may leave for us to find out.

use k8s_openapi::api::core::v1::Service;
use karpenter_provider::ProviderError;
use kube::Api;

use crate::calls::Aws;
use crate::settings::Settings;
use crate::version;

/// Whether EC2 can be reached and knows us. A dry run that would have worked is told as an error of its own.
pub async fn connect(aws: &Aws) -> Result<(), ProviderError> {
    match aws.ec2.describe_instance_types_dry_run().await {
        Err(error) if !error.is_dry_run() => {
            tracing::error!(%error, "ec2 api connectivity check failed");
            Err(ProviderError::new("ec2 api connectivity check failed", error))
        }
        _ => {
            tracing::debug!(region = aws.region, "discovered region");
            Ok(())
        }
    }
}

/// Fills in what the settings leave open. `own_ca` is the authority that our own connection to the API server trusts, in
/// base64: nodes talk to the same server.
pub async fn discover(
    aws: &Aws,
    client: &kube::Client,
    settings: &mut Settings,
    own_ca: Option<String>,
) -> Result<(), ProviderError> {
    if settings.cluster_endpoint.is_empty() {
        let cluster = aws.eks.describe_cluster(&settings.cluster_name).await;
        let cluster = cluster.map_err(|error| {
            tracing::error!(%error, "failed detecting cluster endpoint");
            ProviderError::new("failed detecting cluster endpoint", error)
        })?;
        if cluster.endpoint.is_empty() {
            return Err(ProviderError::new("failed detecting cluster endpoint", "EKS tells none"));
        }
        tracing::debug!(endpoint = %cluster.endpoint, "discovered cluster endpoint");
        settings.cluster_endpoint = cluster.endpoint;
    }
    if settings.ca_bundle.is_none() {
        settings.ca_bundle = own_ca;
    }
    if settings.cluster_dns.is_none() {
        settings.cluster_dns = cluster_dns(client).await;
    }
    let seen = version::read(aws, client, settings).await;
    settings.kubernetes_version = seen.map_err(|error| ProviderError::new("reading the Kubernetes version", error))?;
    Ok(())
}

/// Nodes without it use what their image knows, so a failure is said and borne.
async fn cluster_dns(client: &kube::Client) -> Option<String> {
    let found = match Api::<Service>::namespaced(client.clone(), "kube-system").get("kube-dns").await {
        Ok(service) => service.spec.and_then(|spec| spec.cluster_ip),
        Err(error) => {
            tracing::warn!(%error, "unable to detect the IP of the kube-dns service");
            return None;
        }
    };
    let address = found.filter(|address| !address.is_empty() && address != "None");
    if let Some(address) = &address {
        tracing::debug!(%address, "discovered kube dns");
    }
    address
}
