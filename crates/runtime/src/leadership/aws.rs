//! The fence between the provider and AWS.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_ec2::catalogue::TypeFacts;
use karpenter_provider_aws::Aws;
use karpenter_provider_aws::calls::{
    AwsError, CapacityReservation, CreateFleet, DescribeImages, DescribeInstances, DescribeLaunchTemplates, Ec2,
    Filter, FleetAnswer, Iam, Image, Instance, InstanceProfile, InstanceStatus, LaunchTemplate, NewInstanceProfile,
    NewLaunchTemplate, PlacementGroup, QueueMessage, ReceiveMessages, Result, RunInstances, SecurityGroup, SpotPrice,
    Sqs, StateChange, Subnet, Tags,
};

use super::Leadership;

/// The same account, in which nothing is changed unless we lead. What only reads goes through.
pub fn fence_aws(aws: Aws, leadership: &Leadership) -> Aws {
    Aws {
        ec2: Arc::new(FencedEc2 { inner: aws.ec2, leadership: leadership.clone() }),
        iam: Arc::new(FencedIam { inner: aws.iam, leadership: leadership.clone() }),
        sqs: Arc::new(FencedSqs { inner: aws.sqs, leadership: leadership.clone() }),
        ..aws
    }
}

/// What callers see of it. It is no refusal of EC2's, and nothing in it looks like one.
async fn guarded<T>(
    leadership: &Leadership,
    operation: &'static str,
    call: impl Future<Output = Result<T>>,
) -> Result<T> {
    match leadership.guard(call).await {
        Ok(answer) => answer,
        Err(closed) => Err(AwsError::new(operation, "NotLeading", closed.to_string())),
    }
}

struct FencedEc2 {
    inner: Arc<dyn Ec2>,
    leadership: Leadership,
}

#[async_trait]
impl Ec2 for FencedEc2 {
    async fn describe_instance_types_dry_run(&self) -> Result<()> {
        self.inner.describe_instance_types_dry_run().await
    }

    async fn describe_instance_types(&self, max_results: u32) -> Result<Vec<TypeFacts>> {
        self.inner.describe_instance_types(max_results).await
    }

    async fn describe_instance_type_offerings(&self, max_results: u32) -> Result<Vec<(String, String)>> {
        self.inner.describe_instance_type_offerings(max_results).await
    }

    async fn describe_spot_price_history(&self, from: Timestamp, max_results: u32) -> Result<Vec<SpotPrice>> {
        self.inner.describe_spot_price_history(from, max_results).await
    }

    async fn describe_subnets(&self, filters: &[Filter], max_results: u32) -> Result<Vec<Subnet>> {
        self.inner.describe_subnets(filters, max_results).await
    }

    async fn describe_security_groups(&self, filters: &[Filter], max_results: u32) -> Result<Vec<SecurityGroup>> {
        self.inner.describe_security_groups(filters, max_results).await
    }

    async fn describe_images(&self, request: &DescribeImages) -> Result<Vec<Image>> {
        self.inner.describe_images(request).await
    }

    async fn describe_capacity_reservations(
        &self,
        ids: &[String],
        filters: &[Filter],
        max_results: Option<u32>,
    ) -> Result<Vec<CapacityReservation>> {
        self.inner.describe_capacity_reservations(ids, filters, max_results).await
    }

    async fn describe_placement_groups(&self, filters: &[Filter]) -> Result<Vec<PlacementGroup>> {
        self.inner.describe_placement_groups(filters).await
    }

    async fn describe_instances(&self, request: &DescribeInstances) -> Result<Vec<Instance>> {
        self.inner.describe_instances(request).await
    }

    async fn describe_instance_status(&self, filters: &[Filter]) -> Result<Vec<InstanceStatus>> {
        self.inner.describe_instance_status(filters).await
    }

    async fn create_fleet(&self, request: &CreateFleet) -> Result<FleetAnswer> {
        guarded(&self.leadership, "CreateFleet", self.inner.create_fleet(request)).await
    }

    async fn run_instances_dry_run(&self, request: &RunInstances) -> Result<()> {
        self.inner.run_instances_dry_run(request).await
    }

    async fn terminate_instances(&self, ids: &[String]) -> Result<Vec<StateChange>> {
        guarded(&self.leadership, "TerminateInstances", self.inner.terminate_instances(ids)).await
    }

    async fn create_tags(&self, resources: &[String], tags: &Tags) -> Result<()> {
        guarded(&self.leadership, "CreateTags", self.inner.create_tags(resources, tags)).await
    }

    async fn create_launch_template(&self, template: &NewLaunchTemplate) -> Result<LaunchTemplate> {
        guarded(&self.leadership, "CreateLaunchTemplate", self.inner.create_launch_template(template)).await
    }

    async fn describe_launch_templates(&self, request: &DescribeLaunchTemplates) -> Result<Vec<LaunchTemplate>> {
        self.inner.describe_launch_templates(request).await
    }

    async fn delete_launch_template_by_id(&self, id: &str) -> Result<()> {
        guarded(&self.leadership, "DeleteLaunchTemplate", self.inner.delete_launch_template_by_id(id)).await
    }

    async fn delete_launch_template_by_name(&self, name: &str) -> Result<()> {
        guarded(&self.leadership, "DeleteLaunchTemplate", self.inner.delete_launch_template_by_name(name)).await
    }
}

struct FencedIam {
    inner: Arc<dyn Iam>,
    leadership: Leadership,
}

#[async_trait]
impl Iam for FencedIam {
    async fn get_instance_profile(&self, name: &str) -> Result<InstanceProfile> {
        self.inner.get_instance_profile(name).await
    }

    async fn create_instance_profile(&self, profile: &NewInstanceProfile) -> Result<InstanceProfile> {
        guarded(&self.leadership, "CreateInstanceProfile", self.inner.create_instance_profile(profile)).await
    }

    async fn add_role_to_instance_profile(&self, name: &str, role: &str) -> Result<()> {
        guarded(&self.leadership, "AddRoleToInstanceProfile", self.inner.add_role_to_instance_profile(name, role)).await
    }

    async fn remove_role_from_instance_profile(&self, name: &str, role: &str) -> Result<()> {
        guarded(
            &self.leadership,
            "RemoveRoleFromInstanceProfile",
            self.inner.remove_role_from_instance_profile(name, role),
        )
        .await
    }

    async fn delete_instance_profile(&self, name: &str) -> Result<()> {
        guarded(&self.leadership, "DeleteInstanceProfile", self.inner.delete_instance_profile(name)).await
    }

    async fn list_instance_profiles(&self, path_prefix: &str) -> Result<Vec<InstanceProfile>> {
        self.inner.list_instance_profiles(path_prefix).await
    }
}

struct FencedSqs {
    inner: Arc<dyn Sqs>,
    leadership: Leadership,
}

#[async_trait]
impl Sqs for FencedSqs {
    async fn get_queue_url(&self, name: &str) -> Result<String> {
        self.inner.get_queue_url(name).await
    }

    async fn receive_messages(&self, request: &ReceiveMessages) -> Result<Vec<QueueMessage>> {
        self.inner.receive_messages(request).await
    }

    async fn delete_message(&self, url: &str, receipt_handle: &str) -> Result<()> {
        guarded(&self.leadership, "DeleteMessage", self.inner.delete_message(url, receipt_handle)).await
    }
}
