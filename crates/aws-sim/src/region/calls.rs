//! EC2's calls, answered by the region.

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_ec2::catalogue::{CapacityClass, TypeFacts};
use karpenter_provider_aws::calls::{
    AwsError, CapacityReservation, CreateFleet, DescribeImages, DescribeInstances, DescribeLaunchTemplates, Ec2,
    Filter, FleetAnswer, Image, Instance, InstanceState, InstanceStatus, LaunchTemplate, NewLaunchTemplate,
    PlacementGroup, Result, RunInstances, SecurityGroup, SpotPrice, StateChange, Subnet, Tags,
};

use super::records::matches;
use super::staging::{Forbidden, health_matches};
use super::{Record, Region, matches_tags};

fn unknown_instance(operation: &'static str, id: &str) -> AwsError {
    AwsError::new(operation, "InvalidInstanceID.NotFound", format!("The instance ID '{id}' does not exist"))
}

#[async_trait]
impl Ec2 for Region {
    async fn describe_instance_types_dry_run(&self) -> Result<()> {
        self.arrive("DescribeInstanceTypes", &()).await?;
        Err(AwsError::new("DescribeInstanceTypes", "DryRunOperation", "Request would have succeeded"))
    }

    async fn describe_instance_types(&self, _max_results: u32) -> Result<Vec<TypeFacts>> {
        self.arrive("DescribeInstanceTypes", &()).await?;
        // What EC2 does not tell is taken out, so that the provider has to know it by itself.
        let plain = |facts: &TypeFacts| TypeFacts { network_mbps: None, branch_limits: None, ..facts.clone() };
        Ok(self.lock().market.types().map(plain).collect())
    }

    async fn describe_instance_type_offerings(&self, _max_results: u32) -> Result<Vec<(String, String)>> {
        self.arrive("DescribeInstanceTypeOfferings", &()).await?;
        Ok(self.lock().market.offerings().collect())
    }

    async fn describe_spot_price_history(&self, _from: Timestamp, _max_results: u32) -> Result<Vec<SpotPrice>> {
        self.arrive("DescribeSpotPriceHistory", &()).await?;
        self.must_tell_prices("DescribeSpotPriceHistory")?;
        let now = self.now();
        let state = self.lock();
        let record = |(instance_type, zone): (String, String)| {
            let price = state.market.price(CapacityClass::Spot, &instance_type, &zone, now)?;
            Some(SpotPrice { instance_type, zone, price: format!("{:.6}", price.dollars()), timestamp: Some(now) })
        };
        Ok(state.market.offerings().filter_map(record).collect())
    }

    async fn describe_subnets(&self, filters: &[Filter], _max_results: u32) -> Result<Vec<Subnet>> {
        self.arrive("DescribeSubnets", &filters).await?;
        if filters.is_empty() {
            return Err(AwsError::new("DescribeSubnets", "InvalidParameterValue", "no filters"));
        }
        let state = self.lock();
        let mut found = state.names.find_subnets(filters);
        for subnet in &mut found {
            subnet.free_addresses -= state.addresses.get(&subnet.id).copied().unwrap_or(0);
        }
        Ok(found)
    }

    async fn describe_security_groups(&self, filters: &[Filter], _max_results: u32) -> Result<Vec<SecurityGroup>> {
        self.arrive("DescribeSecurityGroups", &filters).await?;
        if filters.is_empty() {
            return Err(AwsError::new("DescribeSecurityGroups", "InvalidParameterValue", "no filters"));
        }
        Ok(self.lock().names.find_groups(filters))
    }

    async fn describe_images(&self, request: &DescribeImages) -> Result<Vec<Image>> {
        self.arrive("DescribeImages", &request).await?;
        Ok(self.lock().names.find_images(&request.filters).into_iter().map(|known| known.image).collect())
    }

    async fn describe_capacity_reservations(
        &self,
        ids: &[String],
        filters: &[Filter],
        max_results: Option<u32>,
    ) -> Result<Vec<CapacityReservation>> {
        self.arrive("DescribeCapacityReservations", &(ids, filters)).await?;
        let refuse = |code: &str, message: String| Err(AwsError::new("DescribeCapacityReservations", code, message));
        if !ids.is_empty() && max_results.is_some() {
            return refuse("InvalidParameterCombination", "MaxResults cannot be used with ids".to_owned());
        }
        let well_formed = |id: &str| {
            let digits = id.strip_prefix("cr-").unwrap_or_default();
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
        };
        if let Some(bad) = ids.iter().find(|id| !well_formed(id)) {
            return refuse("InvalidCapacityReservationId.Malformed", format!("Invalid id: \"{bad}\""));
        }
        let reservations = &self.shared.options.reservations;
        if let Some(missing) = ids.iter().find(|id| reservations.iter().all(|known| known.id != **id)) {
            // One that exists and is not shared with the account is answered likewise.
            let message = format!("The capacity reservation '{missing}' does not exist");
            return refuse("InvalidCapacityReservationId.NotFound", message);
        }
        let matches = |known: &&CapacityReservation| {
            let named = ids.is_empty() || ids.contains(&known.id);
            named
                && filters.iter().all(|filter| match filter.name.as_str() {
                    "state" => {
                        let ended = known.end.is_some_and(|end| end <= self.now());
                        filter.values.iter().any(|state| (state == "active") != ended)
                    }
                    "owner-id" => filter.values.contains(&known.owner_id),
                    "instance-match-criteria" => filter.values.contains(&known.instance_match_criteria),
                    _ => matches_tags(filter, &known.tags).unwrap_or(false),
                })
        };
        let state = self.lock();
        let free = |known: &CapacityReservation| CapacityReservation {
            available: known.available.saturating_sub(state.reserved.get(&known.id).copied().unwrap_or(0)),
            ..known.clone()
        };
        Ok(reservations.iter().filter(matches).map(free).collect())
    }

    async fn describe_placement_groups(&self, filters: &[Filter]) -> Result<Vec<PlacementGroup>> {
        self.arrive("DescribePlacementGroups", &filters).await?;
        let matches = |group: &&PlacementGroup| {
            filters.iter().all(|filter| match filter.name.as_str() {
                "group-id" => filter.values.contains(&group.id),
                "group-name" => filter.values.contains(&group.name),
                _ => true,
            })
        };
        Ok(self.lock().staged.placement_groups.iter().filter(matches).cloned().collect())
    }

    async fn describe_instances(&self, request: &DescribeInstances) -> Result<Vec<Instance>> {
        self.arrive("DescribeInstances", &request).await?;
        let now = self.now();
        let state = self.lock();
        let seen = |id: &String| state.records.get(id).and_then(|record| record.seen(now));
        if let Some(missing) = request.ids.iter().find(|id| seen(id).is_none()) {
            return Err(unknown_instance("DescribeInstances", missing));
        }
        let mut found = Vec::new();
        for record in state.records.values() {
            let (instance, Some(seen)) = (&record.instance, record.seen(now)) else { continue };
            let named = request.ids.is_empty() || request.ids.contains(&instance.id);
            if named && matches(instance, seen, &request.filters)? {
                found.push(Instance { state: seen, ..instance.clone() });
            }
        }
        Ok(found)
    }

    async fn describe_instance_status(&self, filters: &[Filter]) -> Result<Vec<InstanceStatus>> {
        self.arrive("DescribeInstanceStatus", &filters).await?;
        let state = self.lock();
        let sick = state.staged.health.values().filter(|status| health_matches(status, filters));
        Ok(sick.cloned().collect())
    }

    async fn create_fleet(&self, request: &CreateFleet) -> Result<FleetAnswer> {
        self.arrive("CreateFleet", &request).await?;
        let now = self.now();
        let answer = self.lock().fleet(&self.shared.options, request, now);
        self.answer("CreateFleet", answer)
    }

    async fn run_instances_dry_run(&self, request: &RunInstances) -> Result<()> {
        self.arrive("RunInstances", &request).await?;
        if !self.lock().templates.contains_key(&request.template_name) {
            return Err(super::templates::not_found("RunInstances", &request.template_name));
        }
        Err(AwsError::new("RunInstances", "DryRunOperation", "Request would have succeeded, but DryRun flag is set."))
    }

    async fn terminate_instances(&self, ids: &[String]) -> Result<Vec<StateChange>> {
        self.arrive("TerminateInstances", &ids).await?;
        if let Some(observe) = self.shared.terminations.get() {
            let state = self.lock();
            let asked = ids.iter().filter_map(|id| state.records.get(id));
            let running: Vec<_> = asked.filter(|record| record.ended_at.is_none()).map(Record::view).collect();
            drop(state);
            observe(&running);
        }
        let now = self.now();
        let mut state = self.lock();
        if let Some(missing) = ids.iter().find(|id| !state.records.contains_key(*id)) {
            return Err(unknown_instance("TerminateInstances", missing));
        }
        for id in ids {
            let stopped = state.records.get(id).is_some_and(|record| record.state == InstanceState::Stopped);
            if stopped {
                state.discard(&self.shared.options, id, now);
            } else {
                state.end(&self.shared.options, id, InstanceState::ShuttingDown, now);
            }
        }
        let changes = ids.iter().map(|id| StateChange { id: id.clone(), state: state.records[id].state }).collect();
        drop(state);
        self.answer("TerminateInstances", Ok(changes))
    }

    async fn create_tags(&self, resources: &[String], tags: &Tags) -> Result<()> {
        self.arrive("CreateTags", &(resources, tags)).await?;
        let mut state = self.lock();
        let forbidden = |what: &Forbidden| matches!(what, Forbidden::TagKey(key) if tags.contains_key(*key));
        if state.staged.forbidden.iter().any(forbidden) {
            let message = "You are not authorized to perform this operation.";
            return Err(AwsError::new("CreateTags", "UnauthorizedOperation", message));
        }
        if let Some(missing) = resources.iter().find(|id| !state.records.contains_key(*id)) {
            return Err(unknown_instance("CreateTags", missing));
        }
        for id in resources {
            if let Some(record) = state.records.get_mut(id) {
                record.instance.tags.extend(tags.clone());
            }
        }
        state.dirty = true;
        Ok(())
    }

    async fn create_launch_template(&self, template: &NewLaunchTemplate) -> Result<LaunchTemplate> {
        self.arrive("CreateLaunchTemplate", &template).await?;
        self.lock().create_template(self.shared.options.seed, template)
    }

    async fn describe_launch_templates(&self, request: &DescribeLaunchTemplates) -> Result<Vec<LaunchTemplate>> {
        self.arrive("DescribeLaunchTemplates", &request).await?;
        self.lock().describe_templates(request)
    }

    async fn delete_launch_template_by_id(&self, id: &str) -> Result<()> {
        self.arrive("DeleteLaunchTemplate", &id).await?;
        self.lock().delete_template(|held| held.id == id, id)
    }

    async fn delete_launch_template_by_name(&self, name: &str) -> Result<()> {
        self.arrive("DeleteLaunchTemplate", &name).await?;
        self.lock().delete_template(|held| held.template.name == name, name)
    }
}
