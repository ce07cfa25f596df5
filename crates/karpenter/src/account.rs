//! The AWS account that our credentials lead to, where this program was built with AWS's SDK.

use std::sync::Arc;

use async_trait::async_trait;
use karpenter_provider_aws::Aws;
use karpenter_provider_aws::calls::Result;
use prometheus_client::registry::Registry;

/// What commands ask beside what the controller does.
#[async_trait]
pub(crate) trait Asks: Send + Sync {
    async fn caller(&self) -> Result<Caller>;
    /// Name and id of every zone that is open to the account.
    async fn zones(&self) -> Result<Vec<(String, String)>>;
    /// Counts and times what is asked, in a registry without a prefix.
    fn register(&self, registry: &mut Registry);
}

/// Whom AWS takes us for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) account: String,
    pub(crate) arn: String,
}

#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) aws: Aws,
    pub(crate) asks: Arc<dyn Asks>,
}

/// In the region given, or else the configured one.
#[cfg(feature = "aws")]
pub(crate) async fn connect(region: Option<String>) -> anyhow::Result<Account> {
    let options = karpenter_aws_client::Options { region, version: env!("CARGO_PKG_VERSION"), ..Default::default() };
    let connection = karpenter_aws_client::connect(options).await?;
    Ok(Account { aws: connection.aws.clone(), asks: Arc::new(connection) })
}

#[cfg(not(feature = "aws"))]
#[expect(clippy::unused_async, reason = "with the SDK it waits for the machine's metadata")]
pub(crate) async fn connect(_: Option<String>) -> anyhow::Result<Account> {
    anyhow::bail!("this program was built without AWS's SDK, which takes minutes: cargo build --release --features aws")
}

#[cfg(feature = "aws")]
#[async_trait]
impl Asks for karpenter_aws_client::Connection {
    async fn caller(&self) -> Result<Caller> {
        let karpenter_aws_client::Caller { account, arn } = self.caller().await?;
        Ok(Caller { account, arn })
    }

    async fn zones(&self) -> Result<Vec<(String, String)>> {
        self.zones().await
    }

    fn register(&self, registry: &mut Registry) {
        self.requests.register(registry);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{Account, Arc, Asks, Caller, Registry, Result, async_trait};
    use karpenter_aws_sim::{Options, Region};
    use karpenter_provider_aws::calls::AwsError;

    /// An account whose region is simulated.
    pub(crate) struct Simulated {
        pub(crate) zones: Result<Vec<(String, String)>>,
        pub(crate) caller: Result<Caller>,
    }

    #[async_trait]
    impl Asks for Simulated {
        async fn caller(&self) -> Result<Caller> {
            self.caller.clone()
        }

        async fn zones(&self) -> Result<Vec<(String, String)>> {
            self.zones.clone()
        }

        fn register(&self, _: &mut Registry) {}
    }

    pub(crate) fn region() -> Region {
        let start = jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(500_000);
        Region::new(Options::new("us-east-1", 1, "shop"), Arc::new(move || start))
    }

    pub(crate) fn account(region: &Region) -> Account {
        let facts = karpenter_ec2::catalogue::builtin::catalogue().region("us-east-1").unwrap();
        let zones = facts.zones.iter().map(|(name, id)| (name.to_string(), id.to_string())).collect();
        let arn = "arn:aws:sts::111122223333:assumed-role/KarpenterControllerRole-shop/x".to_owned();
        let caller = Caller { account: "111122223333".to_owned(), arn };
        Account { aws: region.aws(), asks: Arc::new(Simulated { zones: Ok(zones), caller: Ok(caller) }) }
    }

    pub(crate) fn denied(operation: &'static str) -> AwsError {
        AwsError::new(operation, "UnauthorizedOperation", "You are not authorized to perform this operation.")
    }
}
