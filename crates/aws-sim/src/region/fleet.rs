//! CreateFleet: the cheapest pools that have something, and an error for each that had not.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_core::MicroUsd;
use karpenter_ec2::catalogue::CapacityClass;
use karpenter_provider_aws::calls::{
    AwsError, CapacityReservationTarget, CreateFleet, FleetAnswer, FleetError, FleetInstances, FleetKind, Instance,
    InstanceState, Override, Result,
};
use karpenter_provider_aws::ttl::later;

use super::staging::Forbidden;
use super::templates::{HeldTemplate, not_found};
use super::{Record, State};
use crate::boot;
use crate::chance::{id, share};
use crate::faults::Asked;
use crate::machine::{MachineEvent, shape};
use crate::options::Options;

/// A fleet that was asked for before: EC2 answers the same token with the same answer.
pub(super) struct Remembered {
    request: CreateFleet,
    answer: FleetAnswer,
    until: Timestamp,
}

/// How long a token means the same fleet.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);

/// A pool the fleet may use, with the template it would launch from.
struct Candidate<'a> {
    price: Option<MicroUsd>,
    over: &'a Override,
    template: &'a HeldTemplate,
    class: CapacityClass,
    reservation: Option<String>,
}

impl State {
    pub(super) fn fleet(&mut self, options: &Options, request: &CreateFleet, now: Timestamp) -> Result<FleetAnswer> {
        if let Some(held) =
            request.client_token.as_ref().and_then(|token| self.fleets.get(token)).filter(|held| now < held.until)
        {
            if held.request != *request {
                let message =
                    "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).";
                return Err(AwsError::new("CreateFleet", "IdempotentParameterMismatch", message));
            }
            return Ok(held.answer.clone());
        }
        for config in &request.configs {
            let number = self.calls.get("CreateFleet").copied().unwrap_or(0).to_string();
            if share(options.seed, &["lost template", &number]) < options.rates.lost_templates
                && self.templates.remove(&config.template_name).is_some()
            {
                self.faults.count("lost_template");
            }
            if !self.templates.contains_key(&config.template_name) {
                return Err(not_found("CreateFleet", &config.template_name));
            }
        }
        if request.dry_run {
            return Err(AwsError::new(
                "CreateFleet",
                "DryRunOperation",
                "Request would have succeeded, but DryRun flag is set.",
            ));
        }
        let answer = self.launch(options, request, now);
        if let Some(token) = &request.client_token {
            let until = later(now, TOKEN_LIFE);
            self.fleets.retain(|_, held| now < held.until);
            self.fleets.insert(token.clone(), Remembered { request: request.clone(), answer: answer.clone(), until });
        }
        Ok(answer)
    }

    fn forbidden_tags(&self, candidate: &Candidate<'_>) -> Option<(String, String)> {
        let tagged = candidate.template.template.tag_spot_requests;
        if !tagged || !self.staged.forbidden.contains(&Forbidden::SpotRequestTags) {
            return None;
        }
        let message = "You are not authorized to perform this operation. User: arn:aws:sts::111122223333:assumed-role/karpenter is not authorized to perform: ec2:CreateTags on resource: arn:aws:ec2:us-east-1:111122223333:spot-instances-request/* because no identity-based policy allows the ec2:CreateTags action.";
        Some(("UnauthorizedOperation".to_owned(), message.to_owned()))
    }

    fn launch(&mut self, options: &Options, request: &CreateFleet, now: Timestamp) -> FleetAnswer {
        let number = self.calls.get("CreateFleet").copied().unwrap_or(0).to_string();
        let unique = request.client_token.clone().unwrap_or_else(|| number.clone());
        let fleet_id = id("fleet", options.seed, &["fleet", &unique]);
        let templates = self.templates.clone();
        let candidates = self.candidates(request, &templates, now);
        let mut wanted = request.total;
        let mut errors: BTreeSet<FleetError> = BTreeSet::new();
        let mut launched: Vec<FleetInstances> = Vec::new();
        if wanted > 1 && share(options.seed, &["partial", &number]) < options.rates.partial_fleets {
            self.faults.count("partial_fleet");
            wanted = wanted.div_ceil(2);
            if let Some(candidate) = candidates.first() {
                errors.insert(error(candidate, "InsufficientInstanceCapacity", "the fleet was fulfilled in part"));
            }
        }
        for candidate in &candidates {
            if wanted == 0 {
                break;
            }
            let refusal = self.forbidden_tags(candidate).or_else(|| self.refusal(options, candidate, &number));
            if let Some((code, message)) = refusal {
                errors.insert(error(candidate, &code, &message));
                continue;
            }
            let room = self.room(options, candidate).min(wanted);
            if room == 0 {
                self.faults.count("out_of_capacity");
                let message = "There is no capacity available that matches your request.";
                errors.insert(error(candidate, "InsufficientInstanceCapacity", message));
                continue;
            }
            let mut ids = Vec::new();
            for nth in 0..room {
                let nth = (launched.iter().map(|group| group.ids.len()).sum::<usize>() + nth as usize).to_string();
                let instance = id("i", options.seed, &["instance", &unique, &nth]);
                self.start(options, candidate, request, &instance, now);
                ids.push(instance);
            }
            wanted -= room;
            launched.push(FleetInstances {
                ids,
                instance_type: candidate.over.instance_type.clone(),
                zone: candidate.over.zone.clone(),
                subnet_id: Some(candidate.over.subnet_id.clone()),
                image_id: Some(candidate.over.image_id.clone()),
            });
        }
        FleetAnswer { fleet_id, instances: launched, errors: errors.into_iter().collect() }
    }

    /// Cheapest first, unpriced ones last; by the caller's priorities where those count.
    fn candidates<'a>(
        &self,
        request: &'a CreateFleet,
        templates: &'a std::collections::BTreeMap<String, HeldTemplate>,
        now: Timestamp,
    ) -> Vec<Candidate<'a>> {
        let class = match request.kind {
            FleetKind::Spot => CapacityClass::Spot,
            FleetKind::OnDemand | FleetKind::Reserved | FleetKind::InterruptibleReservation => CapacityClass::OnDemand,
            FleetKind::CapacityBlock => CapacityClass::CapacityBlock,
        };
        let mut candidates: Vec<Candidate<'a>> = Vec::new();
        for config in &request.configs {
            let Some(template) = templates.get(&config.template_name) else { continue };
            let reservation = match &template.template.reservation {
                Some(CapacityReservationTarget::Only(id)) => Some(id.clone()),
                Some(CapacityReservationTarget::Never) | None => None,
            };
            for over in &config.overrides {
                let price = match &reservation {
                    Some(_) => Some(MicroUsd(0)),
                    None => self.market.price(class, &over.instance_type, &over.zone, now),
                };
                candidates.push(Candidate { price, over, template, class, reservation: reservation.clone() });
            }
        }
        candidates.sort_by_key(|candidate| {
            let price = candidate.price.unwrap_or(MicroUsd::UNKNOWN);
            let first = if request.prioritized { candidate.over.priority } else { price };
            (
                first,
                price,
                candidate.over.instance_type.clone(),
                candidate.over.zone.clone(),
                candidate.over.subnet_id.clone(),
            )
        });
        candidates
    }

    fn refusal(&mut self, options: &Options, candidate: &Candidate<'_>, number: &str) -> Option<(String, String)> {
        let over = candidate.over;
        let asked = Asked {
            class: candidate.class,
            instance_type: &over.instance_type,
            zone: &over.zone,
            subnet: &over.subnet_id,
            reservation: candidate.reservation.as_deref(),
        };
        if let Some(script) = self.faults.on_pool(&asked) {
            return Some((script.code, script.message));
        }
        let Some(subnet) = self.names.subnets.get(&over.subnet_id) else {
            let message = format!("The subnet ID '{}' does not exist", over.subnet_id);
            return Some(("InvalidSubnetID.NotFound".to_owned(), message));
        };
        if subnet.zone != over.zone {
            let message = format!("The subnet {} is not in {}", subnet.id, over.zone);
            return Some(("InvalidParameterCombination".to_owned(), message));
        }
        if self.addresses.get(&over.subnet_id).copied().unwrap_or(0) >= subnet.free_addresses {
            self.faults.count("subnet_full");
            let message = "There are not enough free addresses in subnet to satisfy the requested number of instances.";
            return Some(("InsufficientFreeAddressesInSubnet".to_owned(), message.to_owned()));
        }
        let words = ["refused", number, &over.instance_type, &over.zone];
        if share(options.seed, &words) < options.rates.refused_pools {
            self.faults.count("refused_pool");
            let message = "We currently do not have sufficient capacity in the Availability Zone you requested.";
            return Some(("InsufficientInstanceCapacity".to_owned(), message.to_owned()));
        }
        None
    }

    fn room(&self, options: &Options, candidate: &Candidate<'_>) -> u32 {
        let over = candidate.over;
        let free = self
            .names
            .subnets
            .get(&over.subnet_id)
            .map_or(0, |subnet| subnet.free_addresses - self.addresses.get(&over.subnet_id).copied().unwrap_or(0));
        let addresses = u32::try_from(free.max(0)).unwrap_or(u32::MAX);
        let stock = match &candidate.reservation {
            Some(id) => {
                let matching = |reservation: &&karpenter_provider_aws::calls::CapacityReservation| {
                    reservation.id == *id
                        && reservation.instance_type == over.instance_type
                        && reservation.zone == over.zone
                };
                let places = options.reservations.iter().find(matching).map_or(0, |reservation| reservation.available);
                places.saturating_sub(self.reserved.get(id).copied().unwrap_or(0))
            }
            None => {
                let key = (candidate.class, over.instance_type.clone(), over.zone.clone());
                let used = self.used.get(&key).copied().unwrap_or(0);
                self.market.stock(candidate.class, &over.instance_type, &over.zone).saturating_sub(used)
            }
        };
        stock.min(addresses)
    }

    fn start(&mut self, options: &Options, candidate: &Candidate<'_>, request: &CreateFleet, id: &str, now: Timestamp) {
        let (over, template) = (candidate.over, &candidate.template.template);
        let spot = candidate.class == CapacityClass::Spot;
        let subnet = self.names.subnets.get(&over.subnet_id).cloned();
        let group = |wanted: &String| options.placement_groups.iter().find(|group| group.id == *wanted);
        let partitions = template.placement_group_id.as_ref().and_then(group).map_or(0, |group| group.partitions);
        let drawn = |n: u32| (crate::chance::draw(options.seed, &["partition", id]) % u64::from(n)) as u32 + 1;
        let instance = Instance {
            id: id.to_owned(),
            state: InstanceState::Running,
            instance_type: over.instance_type.clone(),
            image_id: over.image_id.clone(),
            zone: over.zone.clone(),
            zone_id: subnet.map(|subnet| subnet.zone_id),
            subnet_id: Some(over.subnet_id.clone()),
            launched_at: now,
            tags: request.tags.clone(),
            spot_request_id: spot.then(|| crate::chance::id("sir", options.seed, &["spot", id])),
            capacity_reservation_id: candidate.reservation.clone(),
            reservation_preference: template.reservation.as_ref().map(|target| match target {
                CapacityReservationTarget::Only(_) => "capacity-reservations-only".to_owned(),
                CapacityReservationTarget::Never => "none".to_owned(),
            }),
            lifecycle: if spot { Some("spot".to_owned()) } else { template.market_type.clone() },
            tenancy: Some(template.tenancy.clone()),
            security_groups: template.interfaces.first().map(|first| first.security_groups.clone()).unwrap_or_default(),
            efa_interfaces: template.interfaces.iter().filter(|interface| interface.kind.is_some()).count() as u32,
            placement_group_id: template.placement_group_id.clone(),
            partition: template.partition.or_else(|| (partitions > 0).then(|| drawn(partitions))),
        };
        match &candidate.reservation {
            Some(reservation) => *self.reserved.entry(reservation.clone()).or_default() += 1,
            None => {
                let key = (candidate.class, over.instance_type.clone(), over.zone.clone());
                *self.used.entry(key).or_default() += 1;
            }
        }
        *self.addresses.entry(over.subnet_id.clone()).or_default() += 1;
        let price = match candidate.reservation {
            Some(_) => MicroUsd(0),
            None => candidate.price.unwrap_or_default(),
        };
        let lag = options.staleness.draw(options.seed, &["stale start", id]);
        let shape = self.shape_of(options, candidate, price, id);
        let mut record = Record {
            instance,
            state: InstanceState::Running,
            seen_states: vec![(later(now, lag), InstanceState::Running)],
            class: candidate.class,
            price,
            node: None,
            shape: shape.clone(),
            ended_at: None,
        };
        if let Some(shape) = shape.and_then(|key| self.shapes.get(&key).cloned()) {
            let mut boot = options.boot.draw(options.seed, &["boot", id]);
            if share(options.seed, &["slow", id]) < options.rates.slow_machines {
                self.faults.count("slow_machine");
                boot *= 10;
            }
            let machine = shape.machine(options.seed, &record.instance, boot);
            record.node = Some((machine.name.clone(), machine.provider_id.clone()));
            self.emit(MachineEvent::Started(Box::new(machine)));
        }
        self.records.insert(id.to_owned(), record);
        self.launched += 1;
        self.plan_fate(options, id, spot, now);
        self.dirty = true;
    }

    /// What the machine makes of its user data; `None` if it never joins.
    fn shape_of(&mut self, options: &Options, candidate: &Candidate<'_>, price: MicroUsd, id: &str) -> Option<String> {
        if share(options.seed, &["dead", id]) < options.rates.dead_machines {
            self.faults.count("dead_machine");
            return None;
        }
        let over = candidate.over;
        let key = format!("{}/{}/{}", candidate.template.template.name, over.instance_type, price.0);
        if self.shapes.contains_key(&key) {
            return Some(key);
        }
        let facts = self.market.find(&over.instance_type)?.clone();
        let family = self.names.family_of_image(&over.image_id);
        let settings = match boot::read(family, &candidate.template.user_data) {
            Ok(settings) => settings,
            Err(error) => {
                tracing::warn!(instance = %id, %error, "the machine cannot make sense of its user data and never joins");
                self.faults.count("unreadable_user_data");
                return None;
            }
        };
        let region = (options.region.as_str(), self.market.region_facts());
        let made = shape(options.seed, region, &facts, family, &candidate.template.template, &settings, Some(price))?;
        self.shapes.insert(key.clone(), made);
        Some(key)
    }
}

fn error(candidate: &Candidate<'_>, code: &str, message: &str) -> FleetError {
    FleetError {
        code: code.to_owned(),
        message: message.to_owned(),
        instance_type: candidate.over.instance_type.clone(),
        zone: candidate.over.zone.clone(),
        subnet_id: Some(candidate.over.subnet_id.clone()),
    }
}
