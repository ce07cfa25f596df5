//! The placement group of a node class.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;

use crate::calls::{Aws, Filter, PlacementGroup, Result};
use crate::node_class::{ClassKey, class_key};
use crate::ttl::Ttl;

const FRESH: Duration = Duration::from_secs(60);
/// The last good answer outlives an outage of EC2.
const KEPT: Duration = Duration::from_secs(24 * 3600);

pub struct PlacementGroups {
    aws: Aws,
    fresh: Ttl<ClassKey, ()>,
    kept: Ttl<ClassKey, PlacementGroup>,
}

impl PlacementGroups {
    pub fn new(aws: Aws) -> Self {
        Self { aws, fresh: Ttl::new(FRESH), kept: Ttl::new(KEPT) }
    }

    /// Asks EC2, at most once a minute. `None`: there is no selector, or nothing matches it.
    pub async fn resolve(&self, class: &EC2NodeClass, now: Timestamp) -> Result<Option<PlacementGroup>> {
        let key = class_key(class);
        let Some(selector) = &class.spec.placement_group_selector else {
            self.kept.remove(&key);
            return Ok(None);
        };
        if self.fresh.get(&key, now).is_some() {
            return Ok(self.kept.get(&key, now));
        }
        let by = match (&selector.id, &selector.name) {
            (Some(id), _) if !id.is_empty() => Filter::new("group-id", [id]),
            (_, Some(name)) => Filter::new("group-name", [name]),
            _ => return Ok(None),
        };
        let filters = [by, Filter::new("state", ["available"])];
        let found = match self.aws.ec2.describe_placement_groups(&filters).await {
            Err(error) if error.is_not_found() => None,
            answer => answer?.into_iter().next(),
        };
        self.fresh.set(key.clone(), (), now);
        match &found {
            Some(group) => {
                if self.kept.get(&key, now).is_none_or(|known| known.id != group.id) {
                    tracing::debug!(id = group.id, name = group.name, "discovered placement group");
                }
                self.kept.set(key, group.clone(), now);
            }
            None => self.kept.remove(&key),
        }
        Ok(found)
    }

    /// As last resolved, for launches and drift.
    pub fn last(&self, class: &EC2NodeClass, now: Timestamp) -> Option<PlacementGroup> {
        class.spec.placement_group_selector.as_ref()?;
        self.kept.get(&class_key(class), now)
    }
}
