//! The other services of the region.

use async_trait::async_trait;
use std::time::Duration;

use karpenter_provider_aws::calls::{
    AwsError, Cluster, Eks, Iam, InstanceProfile, NewInstanceProfile, PriceQuery, Pricing, QueueMessage,
    ReceiveMessages, Result, Shift, Sqs, Ssm, ZonalShift,
};
use karpenter_provider_aws::ttl::later;
use serde_json::json;

use super::Region;

#[async_trait]
impl Ssm for Region {
    /// Every release that anybody asks for has been made.
    async fn get_parameter(&self, name: &str) -> Result<String> {
        self.arrive("GetParameter", &name).await?;
        Ok(self.lock().names.image_of_parameter(name))
    }
}

fn no_such_profile(operation: &'static str, name: &str) -> AwsError {
    AwsError::new(operation, "NoSuchEntity", format!("Instance Profile {name} cannot be found."))
}

#[async_trait]
impl Iam for Region {
    async fn get_instance_profile(&self, name: &str) -> Result<InstanceProfile> {
        self.arrive("GetInstanceProfile", &name).await?;
        self.lock().profiles.get(name).cloned().ok_or_else(|| no_such_profile("GetInstanceProfile", name))
    }

    async fn create_instance_profile(&self, profile: &NewInstanceProfile) -> Result<InstanceProfile> {
        self.arrive("CreateInstanceProfile", &profile).await?;
        let now = self.now();
        let mut state = self.lock();
        if state.profiles.contains_key(&profile.name) {
            let message = format!("Instance Profile {} already exists.", profile.name);
            return Err(AwsError::new("CreateInstanceProfile", "EntityAlreadyExists", message));
        }
        let made = InstanceProfile {
            name: profile.name.clone(),
            path: profile.path.clone(),
            roles: Vec::new(),
            created_at: Some(now),
        };
        state.profiles.insert(profile.name.clone(), made.clone());
        Ok(made)
    }

    /// Every role exists.
    async fn add_role_to_instance_profile(&self, name: &str, role: &str) -> Result<()> {
        self.arrive("AddRoleToInstanceProfile", &(name, role)).await?;
        let mut state = self.lock();
        let profile = state.profiles.get_mut(name).ok_or_else(|| no_such_profile("AddRoleToInstanceProfile", name))?;
        if !profile.roles.is_empty() {
            let message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1";
            return Err(AwsError::new("AddRoleToInstanceProfile", "LimitExceeded", message));
        }
        profile.roles.push(role.to_owned());
        Ok(())
    }

    async fn remove_role_from_instance_profile(&self, name: &str, role: &str) -> Result<()> {
        self.arrive("RemoveRoleFromInstanceProfile", &(name, role)).await?;
        let mut state = self.lock();
        let profile =
            state.profiles.get_mut(name).ok_or_else(|| no_such_profile("RemoveRoleFromInstanceProfile", name))?;
        profile.roles.retain(|attached| attached != role);
        Ok(())
    }

    async fn delete_instance_profile(&self, name: &str) -> Result<()> {
        self.arrive("DeleteInstanceProfile", &name).await?;
        let mut state = self.lock();
        let profile = state.profiles.get(name).ok_or_else(|| no_such_profile("DeleteInstanceProfile", name))?;
        if !profile.roles.is_empty() {
            let message = "Cannot delete entity, must remove roles from instance profile first.";
            return Err(AwsError::new("DeleteInstanceProfile", "DeleteConflict", message));
        }
        state.profiles.remove(name);
        Ok(())
    }

    async fn list_instance_profiles(&self, path_prefix: &str) -> Result<Vec<InstanceProfile>> {
        self.arrive("ListInstanceProfiles", &path_prefix).await?;
        let state = self.lock();
        Ok(state.profiles.values().filter(|profile| profile.path.starts_with(path_prefix)).cloned().collect())
    }
}

#[async_trait]
impl Eks for Region {
    async fn describe_cluster(&self, name: &str) -> Result<Cluster> {
        self.arrive("DescribeCluster", &name).await?;
        let options = &self.shared.options;
        if name != options.cluster_name {
            let message = format!("No cluster found for name: {name}.");
            return Err(AwsError::new("DescribeCluster", "ResourceNotFoundException", message));
        }
        Ok(Cluster {
            arn: format!("arn:aws:eks:{}:000000000000:cluster/{name}", options.region),
            version: options.kubernetes_version.clone(),
            endpoint: options.cluster_endpoint.clone(),
            service_ipv4_cidr: Some("10.100.0.0/16".to_owned()),
            service_ipv6_cidr: None,
            certificate_authority: None,
        })
    }
}

#[async_trait]
impl Pricing for Region {
    async fn get_products(&self, query: &PriceQuery) -> Result<Vec<String>> {
        self.arrive("GetProducts", &query).await?;
        self.must_tell_prices("GetProducts")?;
        let metal = query.filters.iter().any(|(name, value)| *name == "productFamily" && value.contains("bare metal"));
        let state = self.lock();
        let listed = state.market.on_demand().iter().filter(|(name, _)| state.market.is_metal(name) == metal);
        let product = |(name, price): (&std::sync::Arc<str>, &karpenter_core::MicroUsd)| {
            let per_unit = json!({"USD": format!("{:.10}", price.dollars())});
            json!({
                "product": {"attributes": {"instanceType": &**name}},
                "terms": {"OnDemand": {"term": {"priceDimensions": {"rate": {"pricePerUnit": per_unit}}}}},
            })
            .to_string()
        };
        Ok(listed.map(product).collect())
    }
}

#[async_trait]
impl Sqs for Region {
    async fn get_queue_url(&self, name: &str) -> Result<String> {
        self.arrive("GetQueueUrl", &name).await?;
        if name != self.shared.options.queue {
            let message = "The specified queue does not exist.";
            return Err(AwsError::new("GetQueueUrl", "AWS.SimpleQueueService.NonExistentQueue", message));
        }
        Ok(format!("https://sqs.{}.simulated.local/000000000000/{name}", self.shared.options.region))
    }

    /// Waits for a message, for a while.
    async fn receive_messages(&self, request: &ReceiveMessages) -> Result<Vec<QueueMessage>> {
        self.arrive("ReceiveMessage", &request).await?;
        let end = later(self.now(), request.wait);
        loop {
            let arrived = self.shared.arrived.notified();
            let now = self.now();
            let (messages, next) = {
                let mut state = self.lock();
                (state.queue.receive(request, now), state.queue.next_visible())
            };
            if !messages.is_empty() || now >= end {
                return Ok(messages);
            }
            let wake = next.map_or(end, |next| next.min(end));
            let wait = Duration::try_from(wake.duration_since(now)).unwrap_or(Duration::ZERO);
            let _ = tokio::time::timeout(wait.max(Duration::from_millis(1)), arrived).await;
        }
    }

    async fn delete_message(&self, _url: &str, receipt_handle: &str) -> Result<()> {
        self.arrive("DeleteMessage", &receipt_handle).await?;
        if self.lock().queue.delete(receipt_handle) {
            return Ok(());
        }
        let message = "The input receipt handle is invalid.";
        Err(AwsError::new("DeleteMessage", "ReceiptHandleIsInvalid", message))
    }
}

#[async_trait]
impl ZonalShift for Region {
    async fn get_managed_resource(&self, arn: &str) -> Result<Vec<Shift>> {
        self.arrive("GetManagedResource", &arn).await?;
        self.lock().staged.shifts.clone().ok_or_else(|| {
            let message = format!("The resource {arn} is not registered for zonal shift.");
            AwsError::new("GetManagedResource", "ResourceNotFoundException", message)
        })
    }
}
