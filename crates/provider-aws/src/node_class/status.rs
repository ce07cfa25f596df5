//! What the selectors of a node class mean, step by step. A failed look leaves the last word in place.

use std::time::Duration;

use k8s_openapi::api::core::v1::NodeSelectorRequirement;
use karpenter_api::conditions::Conditions;
use karpenter_api::ec2nodeclass::{Ami, CapacityReservation, EC2NodeClassStatus, SecurityGroup, Subnet};
use karpenter_api::{EC2NodeClass, Time};
use karpenter_ec2::images::ChosenImage;

use super::conditions::{AMIS, INSTANCE_PROFILE, PLACEMENT_GROUP, RESERVATIONS, SECURITY_GROUPS, SUBNETS, repeatable};
use super::{Next, Step};
use crate::images::ImagesError;
use crate::provider::Parts;
use crate::reservations::is_expiring;

const MINUTE: Next = Next::After(Duration::from_secs(60));
const FIVE_MINUTES: Next = Next::After(Duration::from_secs(300));

fn status(class: &mut EC2NodeClass) -> &mut EC2NodeClassStatus {
    class.status.get_or_insert_default()
}

pub(super) async fn images(parts: &Parts, class: &mut EC2NodeClass, conditions: &mut Conditions<'_>) -> Step {
    match parts.images.list(class, &parts.version.current(), (parts.now)()).await {
        Ok(found) if found.is_empty() => {
            status(class).amis = None;
            conditions.set_false(AMIS, "AMINotFound", "AMISelector did not match any AMIs");
            Ok(MINUTE)
        }
        Ok(found) => {
            status(class).amis = Some(found.into_iter().map(ami).collect());
            let assumed = class.ami_alias().filter(|alias| alias.assumed_latest);
            let message = assumed.map(|alias| alias.family.alias_name()).map_or_else(String::new, |family| {
                format!("alias {family} has no version, {family}@latest is assumed")
            });
            conditions.set_true_because(AMIS, AMIS, &message);
            Ok(FIVE_MINUTES)
        }
        Err(ImagesError::UnsupportedAlias(why)) => {
            conditions.set_false(AMIS, "UnsupportedAlias", &why);
            Ok(Next::Never)
        }
        Err(error) => Err(format!("getting amis, {error}").into()),
    }
}

fn ami(image: ChosenImage) -> Ami {
    let requirement = |entry: &karpenter_core::requirement::Expression| NodeSelectorRequirement {
        key: entry.key.to_string(),
        operator: entry.operator.as_str().to_owned(),
        values: (!entry.values.is_empty()).then(|| entry.values.iter().map(|value| value.to_string()).collect()),
    };
    Ami {
        id: image.id,
        deprecated: image.deprecated.then_some(true),
        name: Some(image.name).filter(|name| !name.is_empty()),
        requirements: image.requirements.iter().map(requirement).collect(),
    }
}

pub(super) async fn subnets(parts: &Parts, class: &mut EC2NodeClass, conditions: &mut Conditions<'_>) -> Step {
    let found = parts.subnets.list(class, (parts.now)()).await.map_err(|e| format!("getting subnets, {e}"))?;
    if found.is_empty() {
        status(class).subnets = None;
        conditions.set_false(SUBNETS, "SubnetsNotFound", "SubnetSelector did not match any Subnets");
        return Ok(MINUTE);
    }
    let subnet = |found: crate::calls::Subnet| Subnet {
        id: found.id,
        zone: found.zone,
        zone_id: Some(found.zone_id).filter(|id| !id.is_empty()),
    };
    status(class).subnets = Some(found.into_iter().map(subnet).collect());
    conditions.set_true(SUBNETS);
    Ok(MINUTE)
}

pub(super) async fn security_groups(parts: &Parts, class: &mut EC2NodeClass, conditions: &mut Conditions<'_>) -> Step {
    let found = parts.security_groups.list(class, (parts.now)()).await;
    let found = found.map_err(|error| format!("getting security groups, {error}"))?;
    if found.is_empty() {
        status(class).security_groups = None;
        conditions.set_false(
            SECURITY_GROUPS,
            "SecurityGroupsNotFound",
            "SecurityGroupSelector did not match any SecurityGroups",
        );
        return Ok(MINUTE);
    }
    let group = |found: crate::calls::SecurityGroup| SecurityGroup {
        id: found.id,
        name: Some(found.name).filter(|name| !name.is_empty()),
    };
    status(class).security_groups = Some(found.into_iter().map(group).collect());
    conditions.set_true(SECURITY_GROUPS);
    Ok(FIVE_MINUTES)
}

pub(super) async fn instance_profile(parts: &Parts, class: &mut EC2NodeClass, conditions: &mut Conditions<'_>) -> Step {
    let now = (parts.now)();
    // Unique enough: two profiles of one class are never made in the same nanosecond.
    let unique = format!("{}-{}", class.metadata.uid.as_deref().unwrap_or_default(), now.as_nanosecond());
    let made = parts.profiles.ensure(class, &unique, now).await;
    let name = match made {
        Ok(name) => name,
        // Something for the user to repair, so it is said where users look. The role is looked for again after a while.
        Err(error) if error.is_role_not_found() => {
            let role = class.spec.role.as_deref().unwrap_or_default();
            let message = format!("the role {role:?} does not exist, or IAM does not know it yet: {error}");
            conditions.set_false(INSTANCE_PROFILE, "NodeRoleNotFound", &message);
            return Ok(MINUTE);
        }
        Err(error) => return Err(format!("creating instance profile, {error}").into()),
    };
    if name.is_empty() {
        return Err("creating instance profile, the class names neither a role nor a profile".into());
    }
    status(class).instance_profile = Some(name);
    conditions.set_true(INSTANCE_PROFILE);
    Ok(Next::Never)
}

pub(super) async fn placement_group(parts: &Parts, class: &mut EC2NodeClass, conditions: &mut Conditions<'_>) -> Step {
    if class.spec.placement_group_selector.is_none() {
        conditions.set_true(PLACEMENT_GROUP);
        return Ok(Next::Never);
    }
    match parts.placement_groups.resolve(class, (parts.now)()).await {
        Ok(Some(_)) => {
            conditions.set_true(PLACEMENT_GROUP);
        }
        Ok(None) => {
            let message = "PlacementGroupSelector did not match any PlacementGroups";
            conditions.set_false(PLACEMENT_GROUP, "PlacementGroupNotFound", message);
        }
        Err(error) => {
            conditions.set_false(PLACEMENT_GROUP, "PlacementGroupResolutionFailed", repeatable(&error.to_string()));
            // The condition says it; to fail every round over a policy would say nothing more.
            if error.is_denied() {
                return Ok(MINUTE);
            }
            return Err(format!("getting placement group, {error}").into());
        }
    }
    Ok(MINUTE)
}

pub(super) async fn reservations(parts: &Parts, class: &mut EC2NodeClass, conditions: &mut Conditions<'_>) -> Step {
    let now = (parts.now)();
    let found = parts.reservations.list(class, now).await;
    if let Some(denied) = found.as_ref().err().filter(|error| error.is_denied()) {
        let message = format!(
            "capacity reservations are selected, and ec2:DescribeCapacityReservations is not allowed: {denied}"
        );
        conditions.set_false(RESERVATIONS, "Unauthorized", repeatable(&message));
        return Ok(MINUTE);
    }
    let found = found.map_err(|error| format!("getting capacity reservations, {error}"))?;
    conditions.set_true(RESERVATIONS);
    let known = |reservation: &crate::calls::CapacityReservation| {
        let known = matches!(reservation.instance_match_criteria.as_str(), "open" | "targeted")
            && matches!(reservation.reservation_type.as_str(), "default" | "capacity-block");
        if !known {
            tracing::warn!(reservation = %reservation.id, "a capacity reservation of a kind we do not know is left out");
        }
        known
    };
    let listed: Vec<CapacityReservation> = found
        .into_iter()
        .filter(known)
        .map(|found| {
            let expiring = is_expiring(&found, now);
            CapacityReservation {
                availability_zone: found.zone,
                end_time: found.end.map(Time),
                id: found.id,
                instance_match_criteria: found.instance_match_criteria,
                instance_type: found.instance_type,
                owner_id: found.owner_id,
                reservation_type: found.reservation_type,
                interruptible: Some(found.interruptible),
                state: if expiring { "expiring" } else { "active" }.to_owned(),
            }
        })
        .collect();
    let next_end = listed.iter().filter_map(|reservation| reservation.end_time.as_ref()).map(|end| end.0).min();
    let until_end = next_end.and_then(|end| Duration::try_from(end.duration_since(now)).ok());
    status(class).capacity_reservations = (!listed.is_empty()).then_some(listed);
    let minute = Duration::from_secs(60);
    Ok(Next::After(until_end.map_or(minute, |end| end.min(minute))))
}
