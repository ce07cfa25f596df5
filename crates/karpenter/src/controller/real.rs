//! AWS itself: what must be known of account and cluster before anything starts, in the order in which it is asked.

use anyhow::{Context as _, bail};
use karpenter_provider_aws::{Aws, Settings};

use crate::account::{self, Account};

/// The configured region, where EC2 must know us.
pub(super) async fn open() -> anyhow::Result<Account> {
    let account = account::connect(None).await.context("cannot start with AWS")?;
    reach(&account.aws).await?;
    Ok(account)
}

async fn reach(aws: &Aws) -> anyhow::Result<()> {
    match aws.ec2.describe_instance_types_dry_run().await {
        Ok(()) => Ok(()),
        Err(error) if error.is_dry_run() => Ok(()),
        Err(error) => Err(error).with_context(|| {
            format!("EC2 does not let us in, in {}; `karpenter doctor` says what to do about it", aws.region)
        }),
    }
}

/// What of the cluster only EKS knows, or is to be asked for there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FromEks {
    /// None was configured.
    pub(super) endpoint: bool,
    /// The setting `eks-control-plane`.
    pub(super) version: bool,
}

/// Nodes are told the endpoint that EKS gives, not the one we happen to use ourselves.
pub(super) async fn complete(aws: &Aws, wanted: FromEks, facts: &mut Settings) -> anyhow::Result<()> {
    if !wanted.endpoint && !wanted.version {
        return Ok(());
    }
    let name = &facts.cluster_name;
    let cluster = aws.eks.describe_cluster(name).await;
    let cluster = cluster.with_context(|| format!("EKS does not tell of the cluster {name}: set cluster-endpoint"))?;
    if wanted.endpoint {
        if cluster.endpoint.is_empty() {
            bail!("the cluster {name} has no endpoint yet: set cluster-endpoint, or wait until it is active");
        }
        facts.cluster_endpoint = cluster.endpoint;
    }
    if wanted.version {
        facts.kubernetes_version = cluster.version;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use karpenter_aws_sim::{Script, Target};

    use super::*;
    use crate::account::testing;

    fn facts(name: &str) -> Settings {
        Settings::new(name, "https://ours.example", "1.30")
    }

    #[tokio::test(start_paused = true)]
    async fn ec2_must_know_us() {
        // covers: AWS-OPS-05, API-ST-08
        let region = testing::region();
        reach(&region.aws()).await.unwrap();
        let operation = "DescribeInstanceTypes";
        region.script(Script::new(Target::Call { operation, server_fault: false }, "UnauthorizedOperation", 1));
        let error = format!("{:#}", reach(&region.aws()).await.unwrap_err());
        assert!(error.contains("karpenter doctor") && error.contains("UnauthorizedOperation"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_endpoint_is_eks_s_unless_one_is_given() {
        // covers: AWS-OPS-06
        let aws = testing::region().aws();
        let mut found = facts("shop");
        complete(&aws, FromEks { endpoint: false, version: false }, &mut found).await.unwrap();
        assert_eq!(found, facts("shop"));
        complete(&aws, FromEks { endpoint: true, version: false }, &mut found).await.unwrap();
        assert_eq!(
            (found.cluster_endpoint.as_str(), found.kubernetes_version.as_str()),
            ("https://simulated.local", "1.30")
        );
        complete(&aws, FromEks { endpoint: false, version: true }, &mut found).await.unwrap();
        assert_eq!(found.kubernetes_version, "1.36");
        let wanted = FromEks { endpoint: true, version: false };
        let error = complete(&aws, wanted, &mut facts("other")).await.unwrap_err();
        assert!(format!("{error:#}").contains("the cluster other"), "{error:#}");
    }
}
