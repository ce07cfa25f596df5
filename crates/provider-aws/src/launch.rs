//! A launch: choose types, subnets and templates, ask for a fleet, learn from its answer.

pub mod candidates;
pub mod fleet;
pub mod template;

mod batch;
mod plans;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use karpenter_api::{EC2NodeClass, NodeClaim};
use karpenter_core::labels::{ON_DEMAND, RESERVED, SPOT, Vocabulary};
use karpenter_core::{InstanceType, Offering};
use karpenter_ec2::catalogue::CapacityClass;
use karpenter_ec2::labels as aws_labels;
use karpenter_ec2::userdata::{UserDataError, WARN_SIZE};
use karpenter_provider::{InstanceTypes, LaunchError, Notice, Severity};

use crate::calls::{CreateFleet, FleetAnswer, FleetError, Instance, InstanceState, PlacementGroup, Tags};
use crate::errors::{UNAUTHORIZED, fleet_refusal, reason_and_message};
use crate::objects::claim_subject;
use crate::permissions::{Feature, denies_spot_request_tags};
use crate::provider::Parts;
use crate::subnets::ZonalSubnet;
use crate::unavailable::Scope;

use candidates::Ask;
use template::{Choice, Planned, Surroundings, TemplateError};

pub(crate) use batch::FleetBatch;
pub(crate) use plans::{Plan, Plans};

/// Below this many types, falling back to on-demand deserves a word.
const FLEXIBLE: usize = 5;

/// A launched instance, and the type it became.
pub(crate) struct Launched {
    pub(crate) instance: Instance,
    pub(crate) kind: Option<InstanceType>,
    pub(crate) capacity_type: &'static str,
    pub(crate) reservation: Option<Offering>,
    pub(crate) partition: Option<u32>,
}

impl Launched {
    /// Whether nothing that is decided by is left open: where it is, and from which image it came.
    fn is_told_whole(&self) -> bool {
        self.instance.subnet_id.is_some() && !self.instance.image_id.is_empty()
    }
}

impl Parts {
    pub(crate) async fn launch(
        &self,
        class: &EC2NodeClass,
        claim: &NodeClaim,
        tags: &Tags,
        types: &InstanceTypes,
        group: Option<&PlacementGroup>,
        words: &Vocabulary,
    ) -> Result<Launched, LaunchError> {
        let ask = Ask::of(claim, words);
        let partition = group.and_then(|group| template::partition(&ask.requirements, group.partitions));
        let frame = Frame { class, claim, tags, ask: &ask, group, partition };
        let tagged = self.permissions.allow(Feature::SpotRequestTags, (self.now)());
        match self.launch_as(&frame, types, tagged).await {
            // Policies of older releases know no tags of spot requests. If it works without, that was it.
            Err(Failure::SpotTagsDenied(refused)) => {
                let again = self.launch_as(&frame, types, false).await;
                let still_denied = matches!(&again, Err(failure) if failure.is_denied());
                if still_denied {
                    return Err(refused);
                }
                self.permissions.denied(Feature::SpotRequestTags, &refused.to_string(), (self.now)());
                again.map_err(Failure::into_launch_error)
            }
            Ok(launched) => {
                if tagged && launched.capacity_type == SPOT {
                    self.permissions.granted(Feature::SpotRequestTags);
                }
                Ok(launched)
            }
            other => other.map_err(Failure::into_launch_error),
        }
    }

    /// With or without tags on spot requests.
    async fn launch_as(&self, frame: &Frame<'_>, types: &InstanceTypes, tagged: bool) -> Result<Launched, Failure> {
        let Frame { class, claim, ask, partition, .. } = *frame;
        let plan = match self.plans.find(class, claim, types, (partition, tagged)) {
            Some(plan) => plan,
            None => {
                let plan = Arc::new(self.plan(frame, types, tagged)?);
                self.plans.keep(class, claim, types, (partition, tagged), plan.clone());
                plan
            }
        };
        let (types, capacity_type) = (&plan.types, plan.capacity_type);
        let attempt = Attempt { frame, types, capacity_type, tenancy: plan.tenancy, templates: &plan.templates };
        if capacity_type == ON_DEMAND && ask.allows_capacity_type(SPOT) && types.len() < FLEXIBLE {
            tracing::warn!(
                claim = %claim.metadata.name.as_deref().unwrap_or_default(),
                types = types.len(),
                "at least {FLEXIBLE} instance types are recommended when flexible to spot but requesting on-demand"
            );
        }
        match self.attempt(&attempt).await {
            // Somebody deleted the template behind our back; it was forgotten, and is made anew.
            Err(Failure::TemplateGone(_)) => self.attempt(&attempt).await,
            other => other,
        }
    }

    async fn attempt(&self, attempt: &Attempt<'_>) -> Result<Launched, Failure> {
        let now = (self.now)();
        let Attempt { frame, types, capacity_type, .. } = *attempt;
        let Frame { class, claim, tags, ask, .. } = *frame;
        let subnets = self.subnets.choose(class, types, capacity_type, now);
        if subnets.is_empty() {
            let message = "getting subnets, no subnets in the node class status";
            return Err(LaunchError::create(message, "SubnetResolutionFailed", "Error getting subnets").into());
        }
        self.ensure_templates(attempt.templates).await?;
        let request = fleet::request(class, claim, ask, capacity_type, attempt.templates, &subnets, tags);
        let Some(request) = request else {
            let message = "no capacity offerings are currently available given the constraints";
            let (reason, _) = reason_and_message(message);
            return Err(LaunchError::create(
                message,
                reason,
                format!("Error getting launch template configs: {message}"),
            )
            .into());
        };
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        let answer = self.fleets.create(request.clone(), uid).await;
        self.subnets.give_back(&request, answer.as_ref().ok(), &subnets);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let (reason, text) = reason_and_message(&error.to_string());
                let refused = LaunchError::create(
                    format!("creating fleet request, {error}"),
                    reason,
                    format!("Error creating fleet request: {text}"),
                );
                if error.is_template_not_found() {
                    self.launch_templates.forget(names(&request)).await;
                    return Err(Failure::TemplateGone(refused));
                }
                if error.is_unauthorized() {
                    return Err(attempt.denied(refused, &error.to_string()));
                }
                return Err(refused.into());
            }
        };
        self.learn(attempt, &answer, &subnets);
        let launched = self.launched(attempt, &answer, &subnets);
        if let Some(launched) = launched.as_ref().filter(|launched| launched.is_told_whole()) {
            self.instances.launched(&launched.instance);
        }
        launched.ok_or_else(|| {
            let refused = fleet_refusal(&answer.errors);
            match answer.errors.iter().find(|error| error.code == UNAUTHORIZED) {
                Some(error) => attempt.denied(refused, &format!("{}: {}", error.code, error.message)),
                None => refused.into(),
            }
        })
    }

    /// What holds for every claim that asks for the same.
    fn plan(&self, frame: &Frame<'_>, types: &InstanceTypes, tagged: bool) -> Result<Plan, LaunchError> {
        let Frame { class, claim, tags, ask, group, partition } = *frame;
        let types = candidates::candidates(types, ask, self.settings.strict_min_values)?;
        let capacity_type = candidates::capacity_type(&types, ask);
        let tenancy = candidates::tenancy(ask);
        let cluster = self.cluster_facts();
        let kubelets = self.types.kubelets(class, (self.now)()).map_err(|error| no_templates(&error.to_string()))?;
        let around = Surroundings {
            region: &self.aws.region,
            cluster: &cluster,
            cluster_dns: self.settings.cluster_dns.as_deref(),
            ipv6: self.settings.is_ipv6(),
            reserved_capacity: self.settings.ec2.reserved_capacity,
            placement_group_id: group.map(|group| group.id.as_str()),
            partition,
            tag_spot_requests: tagged,
            kubelets: &kubelets,
        };
        let choice = Choice { types: &types, capacity_type, tenancy, tags };
        let templates = template::plan(class, claim, &choice, &around).map_err(|error| match error {
            TemplateError::UserData(UserDataError::NoClusterCidr) => {
                LaunchError::NodeClassNotReady { message: error.to_string() }
            }
            error => no_templates(&error.to_string()),
        })?;
        let name = class.metadata.name.as_deref().unwrap_or_default();
        for planned in &templates {
            self.observer.user_data(name, planned.user_data_bytes);
            if planned.user_data_bytes >= WARN_SIZE {
                tracing::warn!(
                    nodeclass = %name,
                    bytes = planned.user_data_bytes,
                    "rendered user data is approaching the EC2 user data size limit"
                );
            }
            for note in &planned.notes {
                tracing::warn!(nodeclass = %name, "{note}");
            }
        }
        Ok(Plan { types, capacity_type, tenancy, templates })
    }

    async fn ensure_templates(&self, templates: &[Planned]) -> Result<(), Failure> {
        let now = (self.now)();
        let ensured = templates.iter().map(|planned| self.launch_templates.ensure(&planned.template, now));
        try_join_all(ensured).await.map_err(|error| no_templates(&error.to_string()))?;
        Ok(())
    }

    /// Every error of a fleet teaches something, also when the fleet succeeded elsewhere.
    fn learn(&self, attempt: &Attempt<'_>, answer: &FleetAnswer, subnets: &BTreeMap<String, ZonalSubnet>) {
        let now = (self.now)();
        for error in &answer.errors {
            let zone_id = subnets.get(&error.zone).and_then(|subnet| subnet.zone_id.as_deref()).unwrap_or_default();
            self.observer.launch_failed(&error.zone, zone_id, attempt.capacity_type, launch_reason(error));
            if error.code == crate::errors::NO_FREE_ADDRESSES
                && let Some(subnet) = &error.subnet_id
            {
                self.unavailable.mark_subnet(subnet, now);
                self.subnets.exhausted(subnet, now);
            }
            if error.is_capacity() {
                self.refused(attempt, error, &answer.fleet_id);
            }
            if error.is_spot_role() && attempt.capacity_type == SPOT {
                self.unavailable.mark_class(CapacityClass::Spot, now);
                self.recorder.publish(Notice {
                    subject: claim_subject(attempt.frame.claim),
                    severity: Severity::Warning,
                    reason: "SpotServiceLinkedRoleCreationFailed",
                    message: format!(
                        "Attempted to launch a spot instance but failed due to \"{}\"",
                        crate::errors::SPOT_ROLE_NOT_PERMITTED
                    ),
                    dedupe: Vec::new(),
                });
            }
        }
    }

    fn refused(&self, attempt: &Attempt<'_>, error: &FleetError, fleet: &str) {
        let now = (self.now)();
        if attempt.capacity_type == RESERVED {
            if let Some(offering) =
                attempt.reservation(&error.instance_type, &error.zone).filter(|_| !error.is_spread_limit())
                && let Some(reservation) = &offering.reservation
            {
                tracing::info!(reservation = %reservation.id, code = %error.code, "capacity reservation is full");
                self.reservations.exhausted(&reservation.id);
            }
            return;
        }
        let class = if attempt.capacity_type == SPOT { CapacityClass::Spot } else { CapacityClass::OnDemand };
        tracing::info!(
            instance_type = %error.instance_type, zone = %error.zone, capacity_type = attempt.capacity_type,
            reason = %error.code, %fleet, "removing offering from offerings"
        );
        let group = attempt.frame.group.map(|group| group.id.clone());
        if error.is_spread_limit() && group.is_some() {
            let scope = Scope { placement_group: group, partition: None };
            for kind in attempt.types {
                self.unavailable.mark_pool(class, &kind.name, &error.zone, &scope, now);
            }
            return;
        }
        let partition = attempt.frame.partition.map(|partition| partition.to_string());
        let scope = Scope { placement_group: group, partition };
        self.unavailable.mark_pool(class, &error.instance_type, &error.zone, &scope, now);
    }

    /// The first instance of the answer. EC2 will tell the rest about it later; what we asked for is known now.
    fn launched(
        &self,
        attempt: &Attempt<'_>,
        answer: &FleetAnswer,
        subnets: &BTreeMap<String, ZonalSubnet>,
    ) -> Option<Launched> {
        let found = answer.instances.iter().find(|instances| !instances.ids.is_empty())?;
        let now = (self.now)();
        let kind = attempt.types.iter().find(|kind| *kind.name == *found.instance_type).cloned();
        let reservation = (attempt.capacity_type == RESERVED)
            .then(|| attempt.reservation(&found.instance_type, &found.zone).cloned())
            .flatten();
        let requests_efa = attempt.frame.ask.requests.0.contains_key(template::EFA);
        let efa =
            requests_efa || attempt.frame.class.spec.network_interfaces.as_ref().is_some_and(|list| !list.is_empty());
        let efas = kind.as_ref().filter(|_| efa).map_or(0, |kind| kind.capacity.get(template::EFA).units());
        let groups = attempt.frame.class.status.iter().filter_map(|status| status.security_groups.as_ref()).flatten();
        let instance = Instance {
            id: found.ids[0].clone(),
            state: InstanceState::Pending,
            instance_type: found.instance_type.clone(),
            image_id: found.image_id.clone().unwrap_or_default(),
            zone: found.zone.clone(),
            zone_id: subnets.get(&found.zone).and_then(|subnet| subnet.zone_id.clone()),
            subnet_id: found.subnet_id.clone(),
            launched_at: now,
            tags: attempt.frame.tags.clone(),
            spot_request_id: None,
            capacity_reservation_id: reservation
                .as_ref()
                .and_then(|o| o.reservation.as_ref())
                .map(|r| r.id.to_string()),
            reservation_preference: reservation.as_ref().map(|_| "capacity-reservations-only".to_owned()),
            lifecycle: lifecycle(attempt.capacity_type, reservation.as_ref()).map(str::to_owned),
            tenancy: Some(attempt.tenancy.to_owned()),
            security_groups: groups.map(|group| group.id.clone()).collect(),
            efa_interfaces: u32::try_from(efas).unwrap_or(0),
            placement_group_id: attempt.frame.group.map(|group| group.id.clone()),
            partition: attempt.frame.partition,
        };
        Some(Launched {
            instance,
            kind,
            capacity_type: attempt.capacity_type,
            reservation,
            partition: attempt.frame.partition,
        })
    }
}

/// What a launch is about, whatever becomes of it.
#[derive(Clone, Copy)]
struct Frame<'a> {
    class: &'a EC2NodeClass,
    claim: &'a NodeClaim,
    tags: &'a Tags,
    ask: &'a Ask<'a>,
    group: Option<&'a PlacementGroup>,
    partition: Option<u32>,
}

#[derive(Clone, Copy)]
struct Attempt<'a> {
    frame: &'a Frame<'a>,
    types: &'a [InstanceType],
    capacity_type: &'static str,
    tenancy: &'static str,
    templates: &'a [Planned],
}

impl Attempt<'_> {
    /// The filters leave one reservation for each type and zone.
    fn reservation(&self, instance_type: &str, zone: &str) -> Option<&Offering> {
        let kind = self.types.iter().find(|kind| &*kind.name == instance_type)?;
        kind.offerings.iter().find(|o| o.reservation.is_some() && o.zone().as_deref() == Some(zone))
    }

    fn denied(&self, refused: LaunchError, why: &str) -> Failure {
        let tagged = self.templates.iter().any(|planned| planned.template.tag_spot_requests);
        if tagged && denies_spot_request_tags(why) {
            Failure::SpotTagsDenied(refused)
        } else {
            Failure::Denied(refused)
        }
    }
}

enum Failure {
    TemplateGone(LaunchError),
    /// Perhaps only for the tags of the spot request.
    SpotTagsDenied(LaunchError),
    Denied(LaunchError),
    Launch(LaunchError),
}

impl Failure {
    fn is_denied(&self) -> bool {
        match self {
            Self::SpotTagsDenied(_) | Self::Denied(_) => true,
            Self::TemplateGone(_) | Self::Launch(_) => false,
        }
    }

    fn into_launch_error(self) -> LaunchError {
        match self {
            Self::TemplateGone(error) | Self::SpotTagsDenied(error) | Self::Denied(error) | Self::Launch(error) => {
                error
            }
        }
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}

/// How EC2 will call the instance.
fn lifecycle(capacity_type: &str, reservation: Option<&Offering>) -> Option<&'static str> {
    if capacity_type == SPOT {
        return Some(SPOT);
    }
    let told = reservation_labels(reservation?);
    let is = |key: &str, value: &str| told.iter().any(|(told, held)| *told == key && **held == *value);
    if is(aws_labels::CAPACITY_RESERVATION_TYPE, "capacity-block") {
        Some("capacity-block")
    } else {
        is(aws_labels::CAPACITY_RESERVATION_INTERRUPTIBLE, "true").then_some("interruptible-capacity-reservation")
    }
}

fn no_templates(message: &str) -> LaunchError {
    let (reason, text) = reason_and_message(message);
    let said = format!("Error getting launch template configs: {text}");
    LaunchError::create(format!("getting launch template configs, {message}"), reason, said)
}

fn names(request: &CreateFleet) -> impl Iterator<Item = &str> {
    request.configs.iter().map(|config| config.template_name.as_str())
}

fn launch_reason(error: &FleetError) -> &'static str {
    reason_and_message(&format!("{}: {}", error.code, error.message)).0
}

/// The labels by which a reserved instance tells its reservation.
pub(crate) fn reservation_labels(offering: &Offering) -> Vec<(&'static str, Arc<str>)> {
    let of = |key: &'static str| {
        let requirement = offering.requirements.0.get(key)?;
        Some((key, requirement.values.first()?.clone()))
    };
    [
        aws_labels::CAPACITY_RESERVATION_ID,
        aws_labels::CAPACITY_RESERVATION_TYPE,
        aws_labels::CAPACITY_RESERVATION_INTERRUPTIBLE,
    ]
    .into_iter()
    .filter_map(of)
    .collect()
}
