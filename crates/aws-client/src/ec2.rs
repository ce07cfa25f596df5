//! EC2.

mod fleet;
mod instance_types;
mod instances;
mod reads;
mod template;

use async_trait::async_trait;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::{LocationType, ResourceType};
use jiff::Timestamp;
use karpenter_ec2::catalogue::TypeFacts;
use karpenter_provider_aws::calls::{
    AwsError, CapacityReservation, CreateFleet, DescribeImages, DescribeInstances, DescribeLaunchTemplates, Ec2,
    Filter, FleetAnswer, Image, Instance, InstanceStatus, LaunchTemplate, NewLaunchTemplate, PlacementGroup, Result,
    RunInstances, SecurityGroup, SpotPrice, StateChange, Subnet, Tags,
};

use crate::faults::fault as fault_of;
use crate::plain::{date_time, filters, list, page, tag_list, tag_specification};

pub(crate) struct Ec2Client(pub(crate) Client);

/// Of a collected stream of pages.
type Pages<T, E> = std::result::Result<Vec<T>, SdkError<E, HttpResponse>>;

fn fault<E>(operation: &'static str) -> impl FnOnce(SdkError<E, HttpResponse>) -> AwsError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    move |error| fault_of("EC2", operation, error)
}

/// A check of permissions is asked for once: whoever wants to know more asks again later.
fn once() -> aws_sdk_ec2::config::Builder {
    aws_sdk_ec2::Config::builder().retry_config(RetryConfig::disabled())
}

impl Ec2Client {
    /// Only commands ask this: the controller learns of zones from subnets and offerings.
    pub(crate) async fn zones(&self) -> Result<Vec<(String, String)>> {
        let answer = self.0.describe_availability_zones().send().await.map_err(fault("DescribeAvailabilityZones"))?;
        let pair = |zone: &aws_sdk_ec2::types::AvailabilityZone| {
            Some((zone.zone_name()?.to_owned(), zone.zone_id()?.to_owned()))
        };
        Ok(answer.availability_zones().iter().filter_map(pair).collect())
    }
}

#[async_trait]
impl Ec2 for Ec2Client {
    async fn describe_instance_types_dry_run(&self) -> Result<()> {
        let request = self.0.describe_instance_types().dry_run(true).max_results(5);
        request.send().await.map_err(fault("DescribeInstanceTypes"))?;
        Ok(())
    }

    async fn describe_instance_types(&self, max_results: u32) -> Result<Vec<TypeFacts>> {
        let wanted = [
            Filter::new("supported-virtualization-type", ["hvm"]),
            Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
        ];
        let request = self.0.describe_instance_types().set_filters(filters(&wanted));
        let pages = request.into_paginator().page_size(page(max_results)).items().send();
        let all: Pages<_, _> = pages.collect().await;
        Ok(all.map_err(fault("DescribeInstanceTypes"))?.iter().filter_map(instance_types::facts).collect())
    }

    async fn describe_instance_type_offerings(&self, max_results: u32) -> Result<Vec<(String, String)>> {
        let request = self.0.describe_instance_type_offerings().location_type(LocationType::AvailabilityZone);
        let pages = request.into_paginator().page_size(page(max_results)).items().send();
        let all: Pages<_, _> = pages.collect().await;
        let pair = |offering: &aws_sdk_ec2::types::InstanceTypeOffering| {
            Some((offering.instance_type()?.as_str().to_owned(), offering.location()?.to_owned()))
        };
        Ok(all.map_err(fault("DescribeInstanceTypeOfferings"))?.iter().filter_map(pair).collect())
    }

    async fn describe_spot_price_history(&self, from: Timestamp, max_results: u32) -> Result<Vec<SpotPrice>> {
        let request = self
            .0
            .describe_spot_price_history()
            .product_descriptions("Linux/UNIX")
            .product_descriptions("Linux/UNIX (Amazon VPC)")
            .start_time(date_time(from));
        let pages = request.into_paginator().page_size(page(max_results)).items().send();
        let all: Pages<_, _> = pages.collect().await;
        Ok(all.map_err(fault("DescribeSpotPriceHistory"))?.iter().filter_map(reads::spot_price).collect())
    }

    async fn describe_subnets(&self, of: &[Filter], max_results: u32) -> Result<Vec<Subnet>> {
        let request = self.0.describe_subnets().set_filters(filters(of));
        let pages = request.into_paginator().page_size(page(max_results)).items().send();
        let all: Pages<_, _> = pages.collect().await;
        Ok(all.map_err(fault("DescribeSubnets"))?.iter().filter_map(reads::subnet).collect())
    }

    async fn describe_security_groups(&self, of: &[Filter], max_results: u32) -> Result<Vec<SecurityGroup>> {
        let request = self.0.describe_security_groups().set_filters(filters(of));
        let pages = request.into_paginator().page_size(page(max_results)).items().send();
        let all: Pages<_, _> = pages.collect().await;
        Ok(all.map_err(fault("DescribeSecurityGroups"))?.iter().filter_map(reads::security_group).collect())
    }

    async fn describe_images(&self, request: &DescribeImages) -> Result<Vec<Image>> {
        let call = self
            .0
            .describe_images()
            .set_owners(list(&request.owners))
            .set_filters(filters(&request.filters))
            .include_deprecated(request.include_deprecated);
        let pages = call.into_paginator().page_size(page(request.max_results)).items().send();
        let all: Pages<_, _> = pages.collect().await;
        Ok(all.map_err(fault("DescribeImages"))?.iter().filter_map(reads::image).collect())
    }

    async fn describe_capacity_reservations(
        &self,
        ids: &[String],
        of: &[Filter],
        max_results: Option<u32>,
    ) -> Result<Vec<CapacityReservation>> {
        let call = self
            .0
            .describe_capacity_reservations()
            .set_capacity_reservation_ids(list(ids))
            .set_filters(filters(of))
            .set_max_results(max_results.map(page));
        let all: Pages<_, _> = call.into_paginator().items().send().collect().await;
        Ok(all.map_err(fault("DescribeCapacityReservations"))?.iter().filter_map(reads::reservation).collect())
    }

    async fn describe_placement_groups(&self, of: &[Filter]) -> Result<Vec<PlacementGroup>> {
        let answer = self.0.describe_placement_groups().set_filters(filters(of)).send().await;
        let answer = answer.map_err(fault("DescribePlacementGroups"))?;
        Ok(answer.placement_groups().iter().filter_map(reads::placement_group).collect())
    }

    async fn describe_instances(&self, request: &DescribeInstances) -> Result<Vec<Instance>> {
        let call = self
            .0
            .describe_instances()
            .set_instance_ids(list(&request.ids))
            .set_filters(filters(&request.filters))
            .set_max_results(request.max_results.map(page));
        let all: Pages<_, _> = call.into_paginator().items().send().collect().await;
        let reservations = all.map_err(fault("DescribeInstances"))?;
        let all = reservations.iter().flat_map(|reservation| reservation.instances());
        Ok(all.filter_map(instances::instance).collect())
    }

    async fn describe_instance_status(&self, of: &[Filter]) -> Result<Vec<InstanceStatus>> {
        let call = self.0.describe_instance_status().set_filters(filters(of));
        let all: Pages<_, _> = call.into_paginator().items().send().collect().await;
        Ok(all.map_err(fault("DescribeInstanceStatus"))?.iter().filter_map(instances::status).collect())
    }

    async fn create_fleet(&self, request: &CreateFleet) -> Result<FleetAnswer> {
        let call = fleet::fill(self.0.create_fleet(), request);
        let answer =
            if request.dry_run { call.customize().config_override(once()).send().await } else { call.send().await };
        Ok(fleet::answer(&answer.map_err(fault("CreateFleet"))?))
    }

    async fn run_instances_dry_run(&self, request: &RunInstances) -> Result<()> {
        let call = fleet::fill_run(self.0.run_instances(), request).dry_run(true);
        call.customize().config_override(once()).send().await.map_err(fault("RunInstances"))?;
        Ok(())
    }

    async fn terminate_instances(&self, ids: &[String]) -> Result<Vec<StateChange>> {
        let answer = self.0.terminate_instances().set_instance_ids(Some(ids.to_vec())).send().await;
        let answer = answer.map_err(fault("TerminateInstances"))?;
        Ok(answer.terminating_instances().iter().filter_map(instances::change).collect())
    }

    async fn create_tags(&self, resources: &[String], tags: &Tags) -> Result<()> {
        let call = self.0.create_tags().set_resources(Some(resources.to_vec())).set_tags(Some(tag_list(tags)));
        call.send().await.map_err(fault("CreateTags"))?;
        Ok(())
    }

    async fn create_launch_template(&self, new: &NewLaunchTemplate) -> Result<LaunchTemplate> {
        let call = self
            .0
            .create_launch_template()
            .launch_template_name(&new.name)
            .launch_template_data(template::data(new))
            .tag_specifications(tag_specification(ResourceType::LaunchTemplate, &new.tags));
        let answer = call.send().await.map_err(fault("CreateLaunchTemplate"))?;
        let made = answer.launch_template().and_then(template::template);
        made.ok_or_else(|| {
            AwsError::new("CreateLaunchTemplate", "UnreadableResponse", "the answer has no launch template")
        })
    }

    async fn describe_launch_templates(&self, request: &DescribeLaunchTemplates) -> Result<Vec<LaunchTemplate>> {
        let call = self
            .0
            .describe_launch_templates()
            .set_launch_template_names(list(&request.names))
            .set_filters(filters(&request.filters))
            .set_max_results(request.max_results.map(page));
        let all: Pages<_, _> = call.into_paginator().items().send().collect().await;
        Ok(all.map_err(fault("DescribeLaunchTemplates"))?.iter().filter_map(template::template).collect())
    }

    async fn delete_launch_template_by_id(&self, id: &str) -> Result<()> {
        let call = self.0.delete_launch_template().launch_template_id(id);
        call.send().await.map_err(fault("DeleteLaunchTemplate"))?;
        Ok(())
    }

    async fn delete_launch_template_by_name(&self, name: &str) -> Result<()> {
        let call = self.0.delete_launch_template().launch_template_name(name);
        call.send().await.map_err(fault("DeleteLaunchTemplate"))?;
        Ok(())
    }
}
