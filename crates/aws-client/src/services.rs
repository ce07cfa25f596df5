//! The services beside EC2.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_pricing::types::FilterType;
use aws_sdk_sqs::types::MessageSystemAttributeName;
use jiff::Timestamp;
use karpenter_provider_aws::calls::{
    AwsError, Cluster, Eks, Iam, InstanceProfile, NewInstanceProfile, PriceQuery, Pricing, QueueMessage,
    ReceiveMessages, Result, Shift, Sqs, Ssm, ZonalShift,
};

use crate::faults::fault;
use crate::plain::{page, text, timestamp};

/// AWS answered and left out what the answer is about.
fn incomplete(operation: &'static str, what: &str) -> AwsError {
    AwsError::new(operation, "UnreadableResponse", format!("the answer has no {what}"))
}

pub(crate) struct SsmClient(pub(crate) aws_sdk_ssm::Client);

#[async_trait]
impl Ssm for SsmClient {
    async fn get_parameter(&self, name: &str) -> Result<String> {
        const CALL: &str = "GetParameter";
        let answer = self.0.get_parameter().name(name).send().await.map_err(|error| fault("SSM", CALL, error))?;
        let value = answer.parameter.and_then(|parameter| parameter.value);
        value.ok_or_else(|| incomplete(CALL, "value"))
    }
}

#[derive(Clone)]
pub(crate) struct IamClient(pub(crate) aws_sdk_iam::Client);

fn profile(found: &aws_sdk_iam::types::InstanceProfile) -> InstanceProfile {
    InstanceProfile {
        name: found.instance_profile_name().to_owned(),
        path: found.path().to_owned(),
        roles: found.roles().iter().map(|role| role.role_name().to_owned()).collect(),
        created_at: timestamp(found.create_date()),
    }
}

#[async_trait]
impl Iam for IamClient {
    async fn get_instance_profile(&self, name: &str) -> Result<InstanceProfile> {
        const CALL: &str = "GetInstanceProfile";
        let answer = self.0.get_instance_profile().instance_profile_name(name).send().await;
        let answer = answer.map_err(|error| fault("IAM", CALL, error))?;
        answer.instance_profile().map(profile).ok_or_else(|| incomplete(CALL, "profile"))
    }

    async fn create_instance_profile(&self, new: &NewInstanceProfile) -> Result<InstanceProfile> {
        const CALL: &str = "CreateInstanceProfile";
        let mut request = self.0.create_instance_profile().instance_profile_name(&new.name);
        if !new.path.is_empty() {
            request = request.path(&new.path);
        }
        for (key, value) in &new.tags {
            let tag = aws_sdk_iam::types::Tag::builder().key(key).value(value).build();
            request = request.tags(tag.map_err(|error| AwsError::new(CALL, "InvalidTag", error.to_string()))?);
        }
        let answer = request.send().await.map_err(|error| fault("IAM", CALL, error))?;
        answer.instance_profile().map(profile).ok_or_else(|| incomplete(CALL, "profile"))
    }

    async fn add_role_to_instance_profile(&self, name: &str, role: &str) -> Result<()> {
        let request = self.0.add_role_to_instance_profile().instance_profile_name(name).role_name(role);
        request.send().await.map_err(|error| fault("IAM", "AddRoleToInstanceProfile", error))?;
        Ok(())
    }

    async fn remove_role_from_instance_profile(&self, name: &str, role: &str) -> Result<()> {
        let request = self.0.remove_role_from_instance_profile().instance_profile_name(name).role_name(role);
        request.send().await.map_err(|error| fault("IAM", "RemoveRoleFromInstanceProfile", error))?;
        Ok(())
    }

    async fn delete_instance_profile(&self, name: &str) -> Result<()> {
        let request = self.0.delete_instance_profile().instance_profile_name(name);
        request.send().await.map_err(|error| fault("IAM", "DeleteInstanceProfile", error))?;
        Ok(())
    }

    async fn list_instance_profiles(&self, path_prefix: &str) -> Result<Vec<InstanceProfile>> {
        let mut request = self.0.list_instance_profiles();
        if !path_prefix.is_empty() {
            request = request.path_prefix(path_prefix);
        }
        let all = request.into_paginator().items().send().collect::<std::result::Result<Vec<_>, _>>().await;
        let all = all.map_err(|error| fault("IAM", "ListInstanceProfiles", error))?;
        Ok(all.iter().map(profile).collect())
    }
}

pub(crate) struct EksClient(pub(crate) aws_sdk_eks::Client);

#[async_trait]
impl Eks for EksClient {
    async fn describe_cluster(&self, name: &str) -> Result<Cluster> {
        const CALL: &str = "DescribeCluster";
        let answer = self.0.describe_cluster().name(name).send().await.map_err(|error| fault("EKS", CALL, error))?;
        let cluster = answer.cluster.ok_or_else(|| incomplete(CALL, "cluster"))?;
        let network = cluster.kubernetes_network_config();
        let set = |part: Option<&str>| part.filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Cluster {
            arn: text(cluster.arn()),
            version: text(cluster.version()),
            endpoint: text(cluster.endpoint()),
            service_ipv4_cidr: set(network.and_then(|network| network.service_ipv4_cidr())),
            service_ipv6_cidr: set(network.and_then(|network| network.service_ipv6_cidr())),
            certificate_authority: set(cluster.certificate_authority().and_then(|authority| authority.data())),
        })
    }
}

pub(crate) struct PricingClient(pub(crate) aws_sdk_pricing::Client);

#[async_trait]
impl Pricing for PricingClient {
    async fn get_products(&self, query: &PriceQuery) -> Result<Vec<String>> {
        const CALL: &str = "GetProducts";
        let mut request = self.0.get_products().service_code("AmazonEC2");
        for (field, value) in &query.filters {
            let filter = aws_sdk_pricing::types::Filter::builder().r#type(FilterType::TermMatch).field(*field);
            let filter = filter.value(value).build();
            request = request.filters(filter.map_err(|error| AwsError::new(CALL, "InvalidFilter", error.to_string()))?);
        }
        let pages = request.into_paginator().page_size(page(query.max_results)).items().send();
        let all = pages.collect::<std::result::Result<Vec<_>, _>>().await;
        all.map_err(|error| fault("Pricing", CALL, error))
    }
}

pub(crate) struct SqsClient(pub(crate) aws_sdk_sqs::Client);

#[async_trait]
impl Sqs for SqsClient {
    async fn get_queue_url(&self, name: &str) -> Result<String> {
        const CALL: &str = "GetQueueUrl";
        let answer = self.0.get_queue_url().queue_name(name).send().await.map_err(|error| fault("SQS", CALL, error))?;
        answer.queue_url.ok_or_else(|| incomplete(CALL, "URL"))
    }

    async fn receive_messages(&self, request: &ReceiveMessages) -> Result<Vec<QueueMessage>> {
        let seconds = |time: Duration| i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
        let call = self
            .0
            .receive_message()
            .queue_url(&request.url)
            .max_number_of_messages(page(request.at_most))
            .visibility_timeout(seconds(request.visibility))
            .wait_time_seconds(seconds(request.wait))
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_attribute_names("All");
        let answer = call.send().await.map_err(|error| fault("SQS", "ReceiveMessage", error))?;
        // What cannot be deleted is nothing to act on: it comes again.
        let deletable = |found: &QueueMessage| !found.receipt_handle.is_empty();
        Ok(answer.messages().iter().map(message).filter(deletable).collect())
    }

    async fn delete_message(&self, url: &str, receipt_handle: &str) -> Result<()> {
        let request = self.0.delete_message().queue_url(url).receipt_handle(receipt_handle);
        request.send().await.map_err(|error| fault("SQS", "DeleteMessage", error))?;
        Ok(())
    }
}

fn message(found: &aws_sdk_sqs::types::Message) -> QueueMessage {
    let sent = found.attributes().and_then(|all| all.get(&MessageSystemAttributeName::SentTimestamp));
    QueueMessage {
        id: text(found.message_id()),
        receipt_handle: text(found.receipt_handle()),
        body: text(found.body()),
        sent_at: sent.and_then(|millis| Timestamp::from_millisecond(millis.parse().ok()?).ok()),
    }
}

/// Whom AWS takes us for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub account: String,
    pub arn: String,
}

impl Caller {
    pub(crate) async fn ask(sts: &aws_sdk_sts::Client) -> Result<Self> {
        let answer =
            sts.get_caller_identity().send().await.map_err(|error| fault("STS", "GetCallerIdentity", error))?;
        Ok(Self { account: text(answer.account()), arn: text(answer.arn()) })
    }
}

pub(crate) struct ZonalShiftClient(pub(crate) aws_sdk_arczonalshift::Client);

#[async_trait]
impl ZonalShift for ZonalShiftClient {
    async fn get_managed_resource(&self, arn: &str) -> Result<Vec<Shift>> {
        let answer = self.0.get_managed_resource().resource_identifier(arn).send().await;
        let answer = answer.map_err(|error| fault("ARC Zonal Shift", "GetManagedResource", error))?;
        let shift = |shift: &aws_sdk_arczonalshift::types::ZonalShiftInResource| Shift {
            zone_id: shift.away_from().to_owned(),
            applied: shift.applied_status().as_str() == "APPLIED",
            expires_at: timestamp(shift.expiry_time()),
        };
        Ok(answer.zonal_shifts().iter().map(shift).collect())
    }
}
