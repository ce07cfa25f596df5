//! AWS itself: an account that lets us in.

use anyhow::Context as _;
use karpenter_provider_aws::{Aws, startup};

use crate::account::{self, Account};

/// The configured region, where EC2 must know us.
pub(super) async fn open() -> anyhow::Result<Account> {
    let account = account::connect(None).await.context("cannot start with AWS")?;
    reach(&account.aws).await?;
    Ok(account)
}

async fn reach(aws: &Aws) -> anyhow::Result<()> {
    startup::connect(aws).await.with_context(|| {
        format!("EC2 does not let us in, in {}; `karpenter doctor` says what to do about it", aws.region)
    })
}

#[cfg(test)]
mod tests {
    use karpenter_aws_sim::{Script, Target};

    use super::*;
    use crate::account::testing;

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
}
