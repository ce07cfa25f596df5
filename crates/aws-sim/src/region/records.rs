//! Instances as the region knows them, and as a caller may see them.

use jiff::Timestamp;
use karpenter_core::MicroUsd;
use karpenter_ec2::catalogue::CapacityClass;
use karpenter_provider_aws::calls::{AwsError, Filter, Instance, InstanceState, Tags};

/// An instance, for tests and views: what is true now, not what EC2 would say.
#[derive(Clone, Debug, PartialEq)]
pub struct SimInstance {
    pub instance: Instance,
    pub price: MicroUsd,
    pub node_name: Option<String>,
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) instance: Instance,
    pub(crate) state: InstanceState,
    /// From when on callers see which state; the first entry is when they see it at all.
    pub(crate) seen_states: Vec<(Timestamp, InstanceState)>,
    pub(crate) class: CapacityClass,
    pub(crate) price: MicroUsd,
    /// Name of the Node and provider id, if the machine joins.
    pub(crate) node: Option<(String, String)>,
    /// Key of the shape, if the machine joins.
    pub(crate) shape: Option<String>,
    pub(crate) ended_at: Option<Timestamp>,
}

impl Record {
    pub(crate) fn view(&self) -> SimInstance {
        let instance = Instance { state: self.state, ..self.instance.clone() };
        let node_name = self.node.as_ref().map(|(name, _)| name.clone());
        SimInstance { instance, price: self.price, node_name, ended_at: self.ended_at }
    }

    /// The state that EC2 tells of at this moment; nothing before it has heard.
    pub(super) fn seen(&self, now: Timestamp) -> Option<InstanceState> {
        let visible = self.seen_states.iter().rev().find(|(from, _)| *from <= now)?;
        Some(visible.1)
    }

    /// By the second, from launch to end.
    pub(crate) fn cost(&self, now: Timestamp) -> MicroUsd {
        let until = self.ended_at.unwrap_or(now);
        let seconds = until.duration_since(self.instance.launched_at).as_secs().max(0);
        self.price.fraction(seconds.unsigned_abs(), 3600)
    }

    pub(crate) fn draws_from(&self) -> ((CapacityClass, String, String), Option<String>, Option<String>) {
        let pool = (self.class, self.instance.instance_type.clone(), self.instance.zone.clone());
        (pool, self.instance.capacity_reservation_id.clone(), self.instance.subnet_id.clone())
    }
}

/// `tag-key` and `tag:<key>`; `None` for other filters.
pub(crate) fn matches_tags(filter: &Filter, tags: &Tags) -> Option<bool> {
    if filter.name == "tag-key" {
        return Some(filter.values.iter().any(|key| tags.contains_key(key)));
    }
    let key = filter.name.strip_prefix("tag:")?;
    Some(tags.get(key).is_some_and(|value| filter.values.contains(value)))
}

/// All filters must match the instance in this state.
pub(super) fn matches(instance: &Instance, state: InstanceState, filters: &[Filter]) -> Result<bool, AwsError> {
    for filter in filters {
        let one_of = |text: &str| filter.values.iter().any(|value| value == text);
        let matched = match (filter.name.as_str(), matches_tags(filter, &instance.tags)) {
            (_, Some(matched)) => matched,
            ("instance-state-name", _) => one_of(state.as_str()),
            ("instance-id", _) => one_of(&instance.id),
            ("instance-type", _) => one_of(&instance.instance_type),
            ("availability-zone", _) => one_of(&instance.zone),
            (other, _) => {
                let message = format!("The filter '{other}' is invalid");
                return Err(AwsError::new("DescribeInstances", "InvalidParameterValue", message));
            }
        };
        if !matched {
            return Ok(false);
        }
    }
    Ok(true)
}
