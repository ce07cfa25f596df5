//! From the environment to clients of every service: credentials, region, endpoints and retries, by AWS's usual rules.

use std::sync::Arc;
use std::time::Duration;

use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region, SdkConfig};
use aws_sdk_ec2::config::Credentials;
use aws_smithy_runtime_api::client::interceptors::SharedInterceptor;
use karpenter_ec2::catalogue::refresh::price_list_endpoint;
use karpenter_provider_aws::Aws;

use crate::ec2::Ec2Client;
use crate::network::{NetworkError, Surroundings};
use crate::requests::Requests;
use crate::retries::retries;
use crate::services::{Caller, EksClient, IamClient, PricingClient, SqsClient, SsmClient, ZonalShiftClient};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer is waited for. A connection that a NAT gateway or a load balancer has forgotten never answers, and
/// never fails either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimeouts {
    /// With one attempt of a call.
    pub attempt: Duration,
    /// With all attempts together.
    pub call: Duration,
}

impl CallTimeouts {
    /// EC2 takes its time over a fleet, but not a minute.
    pub const CALLS: Self = Self { attempt: Duration::from_secs(60), call: Duration::from_secs(4 * 60) };

    /// A receive waits twenty seconds by itself. What a stalled one has taken in comes again after another twenty; two
    /// attempts and that leave half of the two minutes of a spot warning.
    pub const RECEIVES: Self = Self { attempt: Duration::from_secs(25), call: Duration::from_secs(55) };
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(
        "no region is configured, and the instance metadata service names none either: set AWS_REGION, or choose a \
         profile that has one"
    )]
    NoRegion,
}

/// What is told from outside of AWS's own configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Instead of the configured one.
    pub region: Option<String>,
    /// Goes into the user agent, as `karpenter.sh-<version>`.
    pub version: &'static str,
    /// Every service at this address, with credentials that nobody checks, whatever the environment says.
    pub emulator: Option<String>,
    /// Other time-outs for every call, the queue's as well.
    pub timeouts: Option<CallTimeouts>,
}

/// Every service of the account that the credentials are of, in one region.
#[derive(Clone)]
pub struct Connection {
    pub aws: Aws,
    /// What was asked and how long it took.
    pub requests: Requests,
    ec2: Arc<Ec2Client>,
    sts: aws_sdk_sts::Client,
}

impl Connection {
    /// Who we are to AWS: needs no permission.
    pub async fn caller(&self) -> karpenter_provider_aws::calls::Result<Caller> {
        Caller::ask(&self.sts).await
    }

    /// Name and id of every zone that is open to the account.
    pub async fn zones(&self) -> karpenter_provider_aws::calls::Result<Vec<(String, String)>> {
        self.ec2.zones().await
    }
}

/// Reads the environment, profiles and, for a region or credentials that neither has, the machine's metadata. Calls no
/// service.
pub async fn connect(options: Options) -> Result<Connection, ConnectError> {
    let env = |name: &str| std::env::var(name).ok();
    let surroundings = match &options.emulator {
        None => Surroundings::read(&env),
        Some(_) => Surroundings::default(),
    };
    let (of_calls, of_receives) =
        (options.timeouts.unwrap_or(CallTimeouts::CALLS), options.timeouts.unwrap_or(CallTimeouts::RECEIVES));
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(surroundings.http_client()?)
        .timeout_config(timeout_config(of_calls));
    if let Some(retries) = retries(&env) {
        loader = loader.retry_config(retries);
    }
    if let Ok(name) = AppName::new(format!("karpenter.sh-{}", options.version)) {
        loader = loader.app_name(name);
    }
    if let Some(region) = options.region {
        loader = loader.region(Region::new(region));
    }
    if let Some(address) = options.emulator {
        let nobody = Credentials::new("emulator", "emulator", None, None, "emulator");
        loader = loader.endpoint_url(address).credentials_provider(nobody);
    }
    let config = loader.load().await;
    let region = config.region().map(ToString::to_string).ok_or(ConnectError::NoRegion)?;
    Ok(clients(&config, region, of_receives))
}

fn timeout_config(timeouts: CallTimeouts) -> TimeoutConfig {
    TimeoutConfig::builder()
        .operation_timeout(timeouts.call)
        .operation_attempt_timeout(timeouts.attempt)
        .connect_timeout(CONNECT_TIMEOUT.min(timeouts.attempt))
        .build()
}

fn clients(config: &SdkConfig, region: String, of_receives: CallTimeouts) -> Connection {
    let requests = Requests::default();
    let watch = || SharedInterceptor::new(requests.interceptor());
    macro_rules! client {
        ($sdk:ident) => {
            $sdk::Client::from_conf($sdk::config::Builder::from(config).interceptor(watch()).build())
        };
    }
    // Prices are told by a few regions only, whatever region they are of.
    let prices = aws_sdk_pricing::config::Builder::from(config)
        .region(aws_sdk_pricing::config::Region::new(price_list_endpoint(&region)))
        .interceptor(watch())
        .build();
    let queue = aws_sdk_sqs::config::Builder::from(config)
        .timeout_config(timeout_config(of_receives))
        .interceptor(watch())
        .build();
    let ec2 = Arc::new(Ec2Client(client!(aws_sdk_ec2)));
    let aws = Aws {
        region,
        ec2: ec2.clone(),
        ssm: Arc::new(SsmClient(client!(aws_sdk_ssm))),
        iam: Arc::new(IamClient(client!(aws_sdk_iam))),
        eks: Arc::new(EksClient(client!(aws_sdk_eks))),
        pricing: Arc::new(PricingClient(aws_sdk_pricing::Client::from_conf(prices))),
        sqs: Arc::new(SqsClient(aws_sdk_sqs::Client::from_conf(queue))),
        zonal_shift: Arc::new(ZonalShiftClient(client!(aws_sdk_arczonalshift))),
    };
    let sts = client!(aws_sdk_sts);
    Connection { aws, requests, ec2, sts }
}
