//! What only ever happens because somebody says so: sick instances, shifted zones, placement groups that go.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_provider_aws::calls::{Filter, InstanceStatus, NewLaunchTemplate, PlacementGroup, Shift, StatusCheck};

use super::Region;

#[derive(Debug, Default)]
pub(super) struct Staged {
    /// Instances that are not well.
    pub(super) health: BTreeMap<String, InstanceStatus>,
    /// `None`: the cluster is not registered with ARC.
    pub(super) shifts: Option<Vec<Shift>>,
    pub(super) placement_groups: Vec<PlacementGroup>,
    pub(super) forbidden: BTreeSet<Forbidden>,
}

/// What the policies of older releases do not allow, beside whole calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forbidden {
    /// Launches whose template tags the spot request.
    SpotRequestTags,
    /// This key on instances that run.
    TagKey(&'static str),
}

impl Region {
    /// From now on the instance's status is this one; what was said of it before is forgotten.
    pub fn set_health(&self, status: InstanceStatus) {
        self.lock().staged.health.insert(status.instance_id.clone(), status);
    }

    pub fn heal(&self, instance: &str) {
        self.lock().staged.health.remove(instance);
    }

    /// The cluster is registered with ARC, and these are its shifts.
    pub fn set_shifts(&self, shifts: Vec<Shift>) {
        self.lock().staged.shifts = Some(shifts);
    }

    /// Every launch template there is.
    pub fn templates(&self) -> Vec<NewLaunchTemplate> {
        self.lock().templates.values().map(|held| held.template.clone()).collect()
    }

    /// From now on the policy does not allow it.
    pub fn forbid(&self, what: Forbidden) {
        self.lock().staged.forbidden.insert(what);
    }

    /// Somebody takes a tag off an instance.
    pub fn untag(&self, instance: &str, key: &str) {
        if let Some(record) = self.lock().records.get_mut(instance) {
            record.instance.tags.remove(key);
        }
    }

    pub fn set_placement_groups(&self, groups: Vec<PlacementGroup>) {
        self.lock().staged.placement_groups = groups;
    }
}

/// Filters of different names must all match.
pub(super) fn health_matches(status: &InstanceStatus, filters: &[Filter]) -> bool {
    let impaired = |checks: &[StatusCheck]| checks.iter().any(|check| check.status != "passed");
    filters.iter().all(|filter| {
        let has = |text: &str| filter.values.iter().any(|value| value == text);
        match filter.name.as_str() {
            "instance-status.status" => has("impaired") && impaired(&status.instance_checks),
            "system-status.status" => has("impaired") && impaired(&status.system_checks),
            "event.code" => status.events.iter().any(|code| has(code)),
            _ => false,
        }
    })
}
