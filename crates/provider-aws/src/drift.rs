//! Whether a machine is still what its node class asks for.

use std::collections::BTreeSet;

use karpenter_api::{EC2NodeClass, NodeClaim, labels};
use karpenter_core::labels::INSTANCE_TYPE;
use karpenter_ec2::{images, labels as aws_labels};
use karpenter_provider::{GetError, ProviderError};

use crate::calls::{AwsError, Instance};
use crate::instances::{Look, instance_id};
use crate::launch::template::status_images;
use crate::own_kubelet;
use crate::provider::{AwsProvider, bad_id};

impl AwsProvider {
    /// The first reason there is. Nothing can be said while the pool or its class is missing.
    pub(crate) async fn drift(&self, claim: &NodeClaim) -> Result<Option<&'static str>, GetError> {
        let failed = |what: &'static str| move |error| ProviderError::new(what, error);
        let claim_labels = claim.metadata.labels.clone().unwrap_or_default();
        let Some(pool_name) = claim_labels.get(labels::NODEPOOL) else { return Ok(None) };
        let pool = self.parts.objects.node_pool(pool_name).await.map_err(failed("resolving nodepool"))?;
        let Some(pool) = pool.filter(|pool| !pool.spec.template.spec.node_class_ref.name.is_empty()) else {
            return Ok(None);
        };
        let class = self.parts.usable_class(&pool.spec.template.spec.node_class_ref.name).await;
        let Some(class) = class.map_err(failed("resolving nodeclass"))? else {
            self.parts.tell_unresolved_pool(&pool);
            return Ok(None);
        };
        if hash_differs(claim, &class) || own_kubelet::drifted(claim, &pool, &class) {
            return Ok(Some("NodeClassDrift"));
        }
        if self.image_differs(claim, &class, claim_labels.get(INSTANCE_TYPE))? {
            return Ok(Some("AMIDrift"));
        }
        let told = claim.status.as_ref().and_then(|status| status.provider_id.clone()).unwrap_or_default();
        let id = instance_id(&told).ok_or_else(|| ProviderError::new("getting instance ID", bad_id(&told)))?;
        let describing = |error: AwsError| match error.is_not_found() {
            true => GetError::NotFound { provider_id: told.clone() },
            false => GetError::Other(ProviderError::new("describing the instance", error)),
        };
        let instance = self.parts.instances.get(id, Look::Cached).await.map_err(describing)?;
        if let Some(reason) = network_drift(&instance, &class)? {
            return Ok(Some(reason));
        }
        if leaves_reservation(&instance, &class) {
            // It may have fallen back to on-demand since; only a fresh look tells.
            let fresh = self.parts.instances.get(id, Look::Fresh).await.map_err(describing)?;
            if leaves_reservation(&fresh, &class) {
                return Ok(Some("CapacityReservationDrift"));
            }
        }
        let group = self.parts.placement_groups.last(&class, (self.parts.now)()).map(|group| group.id);
        let labelled = claim_labels.get(aws_labels::PLACEMENT_GROUP_ID).filter(|id| !id.is_empty());
        Ok((group.as_ref() != labelled).then_some("PlacementGroupDrift"))
    }

    fn image_differs(
        &self,
        claim: &NodeClaim,
        class: &EC2NodeClass,
        instance_type: Option<&String>,
    ) -> Result<bool, ProviderError> {
        let failed = |message: String| ProviderError::new("calculating ami drift", message);
        let name = instance_type.ok_or_else(|| failed("the claim has no instance type label".to_owned()))?;
        let types = self.parts.class_types(class).map_err(|error| failed(error.to_string()))?;
        let kind = types.iter().find(|kind| *kind.name == **name);
        let kind = kind.ok_or_else(|| failed(format!("there is no instance type {name}")))?;
        let images = status_images(class);
        if images.is_empty() {
            return Err(failed("no amis exist given constraints".to_owned()));
        }
        let image = claim.status.as_ref().and_then(|status| status.image_id.clone()).filter(|id| !id.is_empty());
        let image = image.ok_or_else(|| failed("no ami ID found in nodeClaim status".to_owned()))?;
        let wanted = images::image_for(kind, images.iter().map(|(id, set)| (id.as_str(), set)));
        Ok(wanted != Some(image.as_str()))
    }
}

/// Both sides must carry a hash of the same version; else nothing can be said.
fn hash_differs(claim: &NodeClaim, class: &EC2NodeClass) -> bool {
    let of = |annotations: &Option<std::collections::BTreeMap<String, String>>| {
        let annotations = annotations.as_ref()?;
        let version = annotations.get(labels::EC2NODECLASS_HASH_VERSION)?.clone();
        Some((annotations.get(labels::EC2NODECLASS_HASH)?.clone(), version))
    };
    match (of(&claim.metadata.annotations), of(&class.metadata.annotations)) {
        (Some((mine, my_version)), Some((wanted, version))) => my_version == version && mine != wanted,
        _ => false,
    }
}

fn network_drift(instance: &Instance, class: &EC2NodeClass) -> Result<Option<&'static str>, ProviderError> {
    let status = class.status.clone().unwrap_or_default();
    let groups: BTreeSet<String> = status.security_groups.unwrap_or_default().into_iter().map(|g| g.id).collect();
    let subnets: BTreeSet<String> = status.subnets.unwrap_or_default().into_iter().map(|subnet| subnet.id).collect();
    if groups.is_empty() {
        return Err(ProviderError::new(
            "calculating securitygroup drift",
            "no security groups are present in the status",
        ));
    }
    if subnets.is_empty() {
        return Err(ProviderError::new("calculating subnet drift", "no subnets are discovered"));
    }
    if groups != instance.security_groups.iter().cloned().collect() {
        return Ok(Some("SecurityGroupDrift"));
    }
    let inside = instance.subnet_id.as_ref().is_some_and(|id| subnets.contains(id));
    Ok((!inside).then_some("SubnetDrift"))
}

fn leaves_reservation(instance: &Instance, class: &EC2NodeClass) -> bool {
    let reserved = crate::instances::capacity_type(instance, true) == karpenter_core::labels::RESERVED;
    let known = class.status.iter().filter_map(|status| status.capacity_reservations.as_ref()).flatten();
    let listed = instance.capacity_reservation_id.as_ref().is_some_and(|id| known.into_iter().any(|r| r.id == *id));
    reserved && !listed
}
