//! Zonal shift: traffic is moved away from a zone that is not well, and so are launches. Its machines are left alone as
//! far as possible, because EC2's answers about them may not be.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_api::{EC2NodeClass, NodePool};
use karpenter_core::labels::ZONE;
use karpenter_ec2::labels::ZONE_ID;
use karpenter_provider::{BoxError, Notice, ProviderError, Severity};

use crate::calls::{Aws, Shift};
use crate::node_class::validation::requirements;
use crate::objects::pool_subject;
use crate::provider::Parts;

pub const EVERY: Duration = Duration::from_secs(30);

pub struct ZonalShifts {
    aws: Aws,
    cluster: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    arn: Option<String>,
    /// As ARC said last.
    shifts: Vec<Shift>,
    /// The zone ids that pools were told about.
    told: BTreeSet<String>,
}

impl ZonalShifts {
    pub fn new(aws: Aws, cluster: &str) -> Self {
        Self { aws, cluster: cluster.to_owned(), state: Mutex::default() }
    }

    /// Ids of the zones that are shifted away from at this moment.
    pub fn shifted(&self, now: Timestamp) -> BTreeSet<String> {
        let in_force = |shift: &&Shift| shift.applied && shift.expires_at.is_none_or(|end| now < end);
        self.lock().shifts.iter().filter(in_force).map(|shift| shift.zone_id.clone()).collect()
    }

    /// Before anything is decided: the cluster must be registered with ARC.
    pub async fn start(&self) -> Result<(), ProviderError> {
        self.read().await
    }

    /// What ARC says replaces what it said before; a shift that is not in it any more is over.
    async fn read(&self) -> Result<(), ProviderError> {
        let known = self.lock().arn.clone();
        let arn = match known {
            Some(arn) => arn,
            None => {
                let cluster = self.aws.eks.describe_cluster(&self.cluster).await;
                let cluster = cluster.map_err(|error| ProviderError::new("finding the ARN of the cluster", error))?;
                self.lock().arn = Some(cluster.arn.clone());
                cluster.arn
            }
        };
        let shifts = self.aws.zonal_shift.get_managed_resource(&arn).await;
        let shifts = shifts.map_err(|error| ProviderError::new("reading zonal shifts", error))?;
        self.lock().shifts = shifts;
        Ok(())
    }

    pub async fn round(&self, parts: &Parts) -> Result<Duration, ProviderError> {
        self.read().await?;
        let (shifted, told) = (self.shifted((parts.now)()), self.lock().told.clone());
        if shifted != told {
            let said = self.tell(parts, &shifted, &told).await;
            said.map_err(|error| ProviderError::new("telling pools about zonal shifts", error))?;
            self.lock().told = shifted;
        }
        Ok(EVERY)
    }

    async fn tell(&self, parts: &Parts, shifted: &BTreeSet<String>, told: &BTreeSet<String>) -> Result<(), BoxError> {
        // First everything is read, so that a failure tells nobody half of it.
        let mut pools = Vec::new();
        for pool in parts.objects.node_pools().await? {
            let name = pool.spec.template.spec.node_class_ref.name.clone();
            if let Some(class) = parts.objects.node_class(&name).await? {
                pools.push((pool, class));
            }
        }
        for (pool, class) in &pools {
            for id in shifted.difference(told).chain(told.difference(shifted)) {
                let Some(zone) = used_zone(pool, class, id) else { continue };
                let (severity, reason, how) = if shifted.contains(id) {
                    (Severity::Warning, "ZonalShiftActive", "shifted away from")
                } else {
                    (Severity::Normal, "ZonalShiftCleared", "no longer shifted away from")
                };
                parts.recorder.publish(Notice {
                    subject: pool_subject(pool),
                    severity,
                    reason,
                    message: format!("Zone {zone} ({id}) is {how}"),
                    dedupe: vec![pool.metadata.uid.clone().unwrap_or_default(), id.clone()],
                });
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of the zone, if the pool can use it: by its own requirements and the subnets of its class.
fn used_zone(pool: &NodePool, class: &EC2NodeClass, id: &str) -> Option<String> {
    let subnets = class.status.as_ref()?.subnets.as_ref()?;
    let zone = subnets.iter().find(|subnet| subnet.zone_id.as_deref() == Some(id))?.zone.clone();
    let asked = requirements(&pool.spec.template.spec.requirements);
    (asked.get(ZONE).allows(&zone) && asked.get(ZONE_ID).allows(id)).then_some(zone)
}
