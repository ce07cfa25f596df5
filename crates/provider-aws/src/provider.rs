//! The AWS provider: the seam's trait over everything in this crate.

mod describe;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::{EC2NODECLASS_HASH_VERSION, EC2NodeClass, NodeClaim, NodePool, ec2nodeclass_hash, labels};
use karpenter_core::InstanceType;
use karpenter_core::labels::{RESERVED, Vocabulary};
use karpenter_ec2::labels as aws_labels;
use karpenter_ec2::userdata::ClusterFacts;
use karpenter_provider::node_class::{READY, Readiness, readiness};
use karpenter_provider::overlay::Store;
use karpenter_provider::{
    BoxError, CloudProvider, DeleteError, GetError, InstanceTypes, LaunchError, Machine, NodeClassKind, Notice,
    ProviderError, Recorder, Registration, RepairPolicy, Severity, TypesError, Verdict,
};

use crate::batcher::Measure;
use crate::calls::{Aws, Instance, InstanceState};
use crate::images::Images;
use crate::instances::{Instances, Look, capacity_type, instance_id};
use crate::launch::{FleetBatch, Launched, Plans, reservation_labels};
use crate::objects::{Objects, claim_subject, pool_subject};
use crate::offering_series::Sold;
use crate::own_kubelet;
use crate::permissions::Permissions;
use crate::placement_groups::PlacementGroups;
use crate::profiles::Profiles;
use crate::reservations::Reservations;
use crate::security_groups::SecurityGroups;
use crate::settings::Settings;
use crate::startup;
use crate::subnets::Subnets;
use crate::tags::{launch_tags, ownership_tag};
use crate::templates::Templates;
use crate::ttl::Now;
use crate::types::{ListError, Types};
use crate::unavailable::Unavailable;
use crate::version::Version;
use crate::zonal_shift::ZonalShifts;

use describe::{describe, group_labels};

/// The pieces, shared by the provider and the reconcilers of this crate.
pub struct Parts {
    pub aws: Aws,
    pub settings: Settings,
    pub now: Now,
    pub recorder: Arc<dyn Recorder>,
    pub observer: Arc<dyn Observer>,
    pub objects: Arc<dyn Objects>,
    pub types: Types,
    pub unavailable: Unavailable,
    pub subnets: Subnets,
    pub security_groups: SecurityGroups,
    pub images: Images,
    pub profiles: Profiles,
    pub reservations: Reservations,
    pub zonal_shifts: Arc<ZonalShifts>,
    pub placement_groups: PlacementGroups,
    pub launch_templates: Templates,
    pub version: Version,
    /// Shared with whoever finds one missing.
    pub permissions: Arc<Permissions>,
    pub instances: Instances,
    /// Where people may say what types cost and hold.
    pub overlays: Option<Arc<Store>>,
    pub(crate) tags_ahead: crate::tagging::Ahead,
    pub(crate) fleets: FleetBatch,
    pub(crate) plans: Plans,
    pub(crate) words: Vocabulary,
    cluster_cidr: Mutex<Option<String>>,
}

/// What metrics want to know.
pub trait Observer: Send + Sync {
    fn launch_failed(&self, _zone: &str, _zone_id: &str, _capacity_type: &str, _reason: &'static str) {}
    fn termination_failed(&self, _zone: &str, _zone_id: &str) {}
    fn message_received(&self, _kind: &'static str) {}
    /// What it asks for is stored, so long after the event.
    fn message_handled(&self, _late: Duration) {}
    fn message_deleted(&self) {}
    /// A claim was deleted because its instance goes.
    fn interrupted(&self, _kind: &'static str, _claim: &NodeClaim) {}
    fn unhealthy_instance(&self, _category: &'static str) {}
    /// One call for so many requests, the first of which waited so long.
    fn batched(&self, _batcher: &'static str, _size: usize, _waited: Duration) {}
    /// User data was rendered for a new template.
    fn user_data(&self, _class: &str, _bytes: usize) {}
    fn node_class_gone(&self, _class: &str) {}
    /// What can be bought, as of now; replaces what was said before.
    fn offerings(&self, _sold: Sold) {}
}

/// For tests and tools without metrics.
pub struct Unobserved;

impl Observer for Unobserved {}

impl Parts {
    pub fn new(
        aws: Aws,
        settings: Settings,
        now: Now,
        objects: Arc<dyn Objects>,
        recorder: Arc<dyn Recorder>,
        observer: Arc<dyn Observer>,
    ) -> Arc<Self> {
        let zonal_shifts = Arc::new(ZonalShifts::new(aws.clone(), &settings.cluster_name));
        let (shifts, clock) = (zonal_shifts.clone(), now.clone());
        let measure = |batcher: &'static str| -> Measure {
            let observer = observer.clone();
            Arc::new(move |size, waited| observer.batched(batcher, size, waited))
        };
        let permissions = Arc::new(Permissions::default());
        let measures = [measure("describe_instances"), measure("terminate_instances")];
        Arc::new(Self {
            types: Types::new(aws.clone(), settings.ec2),
            unavailable: Unavailable::default(),
            subnets: Subnets::new(aws.clone(), settings.subnet_refresh),
            security_groups: SecurityGroups::new(aws.clone()),
            images: Images::new(aws.clone(), settings.ami_refresh),
            profiles: Profiles::new(aws.clone(), &settings.cluster_name, permissions.clone()),
            reservations: Reservations::new(aws.clone()),
            placement_groups: PlacementGroups::new(aws.clone()),
            version: Version::new(&settings.kubernetes_version),
            launch_templates: Templates::new(aws.clone(), &settings.cluster_name),
            instances: Instances::new(
                aws.clone(),
                &settings.cluster_name,
                Arc::new(move || shifts.shifted(clock())),
                measures,
            ),
            fleets: FleetBatch::new(aws.clone(), now.clone(), measure("create_fleet")),
            tags_ahead: Default::default(),
            zonal_shifts,
            permissions,
            overlays: settings.node_overlays.then(|| Arc::new(Store::new(karpenter_ec2::vocabulary()))),
            plans: Plans::default(),
            words: karpenter_ec2::vocabulary(),
            cluster_cidr: Mutex::new(None),
            aws,
            settings,
            now,
            recorder,
            observer,
            objects,
        })
    }

    /// Types and zones must be known before anything is decided, prices may come later.
    pub async fn start(&self) -> Result<(), ProviderError> {
        startup::connect(&self.aws).await?;
        if self.settings.enable_zonal_shift {
            self.zonal_shifts.start().await?;
        }
        self.types.refresh().await.map_err(|error| ProviderError::new("loading instance types", error))
    }

    pub fn cluster_facts(&self) -> ClusterFacts {
        ClusterFacts {
            name: self.settings.cluster_name.clone(),
            endpoint: self.settings.cluster_endpoint.clone(),
            ca_bundle: self.settings.ca_bundle.clone(),
            cidr: self.cluster_cidr.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Once for the life of the process: of services, IPv4 before IPv6.
    pub async fn resolve_cluster_cidr(&self) -> crate::calls::Result<bool> {
        if self.cluster_facts().cidr.is_some() {
            return Ok(true);
        }
        let cluster = self.aws.eks.describe_cluster(&self.settings.cluster_name).await?;
        let cidr = cluster.service_ipv4_cidr.or(cluster.service_ipv6_cidr).filter(|cidr| !cidr.is_empty());
        if let Some(cidr) = &cidr {
            tracing::debug!(cluster_cidr = cidr, "discovered cluster CIDR");
        }
        let found = cidr.is_some();
        *self.cluster_cidr.lock().unwrap_or_else(PoisonError::into_inner) = cidr;
        Ok(found)
    }

    pub fn class_types(&self, class: &EC2NodeClass) -> Result<InstanceTypes, ListError> {
        let now = (self.now)();
        if let Some(overlays) = &self.overlays {
            self.types.set_named_prices(overlays.named_prices());
        }
        let group = self.placement_groups.last(class, now);
        let shifted = self.zonal_shifts.shifted(now);
        self.types.list(class, group.as_ref(), &self.unavailable, &self.reservations, &shifted, now)
    }

    pub fn class_hash(&self, class: &EC2NodeClass) -> String {
        ec2nodeclass_hash(class, self.settings.ca_bundle.as_deref())
    }

    /// `None`: there is no such class, or it is on its way out, which for launches is the same.
    pub(crate) async fn usable_class(&self, name: &str) -> Result<Option<Arc<EC2NodeClass>>, BoxError> {
        let class = self.objects.node_class(name).await?;
        Ok(class.filter(|class| class.metadata.deletion_timestamp.is_none()))
    }

    /// A provider id is only text in a status: who can write it must not be able to end machines of others.
    fn refuse_foreign(&self, claim: &NodeClaim, instance: &Instance) -> DeleteError {
        let (key, value) = ownership_tag(&self.settings.cluster_name);
        let id = &instance.id;
        let message = format!("Not terminating instance {id}: it does not carry this cluster's tag {key}={value}");
        tracing::error!(instance = %id, tag = %key, "refusing to terminate an instance that is not this cluster's");
        // A sweep has no claim that anything could be said of.
        if claim.metadata.name.is_some() {
            self.recorder.publish(Notice {
                subject: claim_subject(claim),
                severity: Severity::Warning,
                reason: "InstanceNotOwned",
                message: message.clone(),
                dedupe: Vec::new(),
            });
        }
        ProviderError::new("terminating the instance", message).into()
    }

    pub(crate) fn tell_unresolved_pool(&self, pool: &NodePool) {
        self.recorder.publish(Notice {
            subject: pool_subject(pool),
            severity: Severity::Warning,
            reason: "NodeClassResolutionFailed",
            message: "Failed resolving NodeClass".to_owned(),
            dedupe: Vec::new(),
        });
    }
}

#[derive(Clone)]
pub struct AwsProvider {
    pub parts: Arc<Parts>,
}

const KINDS: [NodeClassKind; 1] =
    [NodeClassKind { group: "karpenter.k8s.aws", version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" }];

/// Resolved once for all machines of a pool.
type TypesOfPools = BTreeMap<String, Option<InstanceTypes>>;

impl AwsProvider {
    pub fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    fn machine(&self, instance: &Instance, kind: Option<&InstanceType>, class: Option<&EC2NodeClass>) -> Machine {
        let bought = capacity_type(instance, self.parts.settings.ec2.reserved_capacity);
        let mut machine = describe(instance, kind, class, bought);
        if bought == RESERVED {
            let lifecycle = instance.lifecycle.as_deref();
            let of_block = if lifecycle == Some("capacity-block") { "capacity-block" } else { "default" };
            let interruptible = lifecycle == Some("interruptible-capacity-reservation");
            let id = instance.capacity_reservation_id.clone().unwrap_or_default();
            let set = [
                (aws_labels::CAPACITY_RESERVATION_ID, id),
                (aws_labels::CAPACITY_RESERVATION_TYPE, of_block.to_owned()),
                (aws_labels::CAPACITY_RESERVATION_INTERRUPTIBLE, interruptible.to_string()),
            ];
            machine.labels.extend(set.map(|(key, value)| (key.to_owned(), value)));
        }
        if let Some(group) = class.and_then(|class| self.parts.placement_groups.last(class, (self.parts.now)())) {
            group_labels(&mut machine, &group, instance.partition);
        }
        machine
    }

    /// What of an instance's type is known: nothing, if its pool or class is gone. A type that cannot be resolved is
    /// said and left out; one bad pool must not hide the machines of all others.
    async fn kind_of(
        &self,
        instance: &Instance,
        known: &mut TypesOfPools,
    ) -> Result<Option<Arc<InstanceType>>, BoxError> {
        let Some(pool) = instance.tags.get(labels::NODEPOOL) else { return Ok(None) };
        if !known.contains_key(pool) {
            let types = self.types_of(pool).await?;
            known.insert(pool.clone(), types);
        }
        let types = known.get(pool).and_then(Option::as_ref);
        Ok(types.and_then(|types| types.iter().find(|kind| *kind.name == *instance.instance_type)).cloned())
    }

    async fn types_of(&self, pool: &str) -> Result<Option<InstanceTypes>, BoxError> {
        let Some(pool) = unless_unreadable(self.parts.objects.node_pool(pool).await)? else { return Ok(None) };
        let name = &pool.spec.template.spec.node_class_ref.name;
        let Some(class) = unless_unreadable(self.parts.usable_class(name).await)? else { return Ok(None) };
        let class = own_kubelet::effective(&class, &pool.metadata.annotations, &self.parts.settings.ec2);
        let types = class.and_then(|class| self.parts.class_types(&class).map_err(|error| error.to_string()));
        match types {
            Ok(types) => Ok(Some(types)),
            Err(error) => {
                let name = pool.metadata.name.as_deref().unwrap_or_default();
                tracing::warn!(pool = %name, %error, "the instance types of a pool cannot be resolved");
                Ok(None)
            }
        }
    }

    async fn class_of(&self, instance: &Instance) -> Result<Option<Arc<EC2NodeClass>>, BoxError> {
        match instance.tags.get(labels::EC2_NODE_CLASS) {
            Some(name) => unless_unreadable(self.parts.usable_class(name).await),
            None => Ok(None),
        }
    }

    fn created(&self, launched: &Launched, class: &EC2NodeClass) -> Machine {
        let mut machine = describe(&launched.instance, launched.kind.as_ref(), Some(class), launched.capacity_type);
        for (key, value) in launched.reservation.iter().flat_map(reservation_labels) {
            machine.labels.insert(key.to_owned(), value.to_string());
        }
        if let Some(group) = self.parts.placement_groups.last(class, (self.parts.now)()) {
            group_labels(&mut machine, &group, launched.partition);
        }
        let profile = class.status.as_ref().and_then(|status| status.instance_profile.clone()).unwrap_or_default();
        machine.annotations = [
            (labels::EC2NODECLASS_HASH, self.parts.class_hash(class)),
            (labels::EC2NODECLASS_HASH_VERSION, EC2NODECLASS_HASH_VERSION.to_owned()),
            (labels::INSTANCE_PROFILE_NAME, profile),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        machine
    }
}

#[async_trait]
impl CloudProvider for AwsProvider {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn node_class_kinds(&self) -> &'static [NodeClassKind] {
        &KINDS
    }

    async fn create(&self, claim: &NodeClaim) -> Result<Machine, LaunchError> {
        let parts = &self.parts;
        let name = &claim.spec.node_class_ref.name;
        let class = parts.usable_class(name).await.map_err(|error| LaunchError::other("resolving nodeclass", error))?;
        let Some(class) = class else {
            parts.recorder.publish(Notice {
                subject: claim_subject(claim),
                severity: Severity::Warning,
                reason: "NodeClassResolutionFailed",
                message: "Failed resolving NodeClass".to_owned(),
                dedupe: Vec::new(),
            });
            let message = format!("resolving nodeclass, there is no EC2NodeClass {name:?}, or it is terminating");
            return Err(LaunchError::InsufficientCapacity { message });
        };
        must_be_ready(&class)?;
        let tags = launch_tags(&class, Some(claim), &parts.settings.cluster_name)
            .map_err(|message| LaunchError::NodeClassNotReady { message })?;
        let wanted = own_kubelet::effective(&class, &claim.metadata.annotations, &parts.settings.ec2)
            .map_err(|why| LaunchError::create(why.clone(), "InvalidKubeletConfiguration", why))?;
        let types = parts.class_types(&wanted).map_err(|error| {
            let message = format!("resolving instance types, {error}");
            LaunchError::create(message, "InstanceTypeResolutionFailed", "Error resolving instance types")
        })?;
        let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get(labels::NODEPOOL));
        let types = match (&parts.overlays, pool) {
            (Some(overlays), Some(pool)) => {
                overlays.apply(pool, &types).map_err(|error| LaunchError::other("creating instance", error))?
            }
            _ => types,
        };
        let group = parts.placement_groups.last(&class, (parts.now)());
        let launched = parts.launch(&wanted, claim, &tags, &types, group.as_ref(), &parts.words).await?;
        if let Some(reservation) = launched.reservation.as_ref().and_then(|offering| offering.reservation.as_ref()) {
            parts.reservations.launched(&reservation.id, (parts.now)());
        }
        let mut machine = self.created(&launched, &class);
        machine.annotations.extend(own_kubelet::mark(claim));
        Ok(machine)
    }

    async fn delete(&self, claim: &NodeClaim) -> Result<(), DeleteError> {
        let told = claim.status.as_ref().and_then(|status| status.provider_id.clone()).unwrap_or_default();
        let Some(id) = instance_id(&told) else {
            return Err(ProviderError::new("getting instance ID", bad_id(&told)).into());
        };
        let not_found = || {
            let labels = claim.metadata.labels.as_ref();
            if let Some(reservation) = labels.and_then(|labels| labels.get(aws_labels::CAPACITY_RESERVATION_ID)) {
                self.parts.reservations.terminated(reservation);
            }
            DeleteError::NotFound { provider_id: told.clone() }
        };
        let instance = match self.parts.instances.get(id, Look::Fresh).await {
            Ok(instance) => instance,
            Err(error) if error.is_not_found() => return Err(not_found()),
            Err(error) => return Err(ProviderError::new("describing the instance", error).into()),
        };
        if instance.state == InstanceState::ShuttingDown {
            return Ok(());
        }
        if !is_owned(&instance, &self.parts.settings.cluster_name) {
            return Err(self.parts.refuse_foreign(claim, &instance));
        }
        match self.parts.instances.terminate(id).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_not_found() => Err(not_found()),
            // Nothing was asked, so nothing failed; it is tried again.
            Err(error) if error.is_zone_shifted() => Err(ProviderError::new("terminating the instance", error).into()),
            Err(error) => {
                let zone_id = instance.zone_id.as_deref().unwrap_or_default();
                self.parts.observer.termination_failed(&instance.zone, zone_id);
                Err(ProviderError::new("terminating the instance", error).into())
            }
        }
    }

    async fn get(&self, provider_id: &str) -> Result<Machine, GetError> {
        let failed = |what: &'static str| move |error: BoxError| GetError::Other(ProviderError::new(what, error));
        let Some(id) = instance_id(provider_id) else {
            return Err(ProviderError::new("getting instance ID", bad_id(provider_id)).into());
        };
        let instance = match self.parts.instances.get(id, Look::Cached).await {
            Ok(instance) => instance,
            Err(error) if error.is_not_found() => {
                return Err(GetError::NotFound { provider_id: provider_id.to_owned() });
            }
            Err(error) => return Err(ProviderError::new("describing the instance", error).into()),
        };
        let kind = self.kind_of(&instance, &mut BTreeMap::new()).await.map_err(failed("resolving instance type"))?;
        let class = self.class_of(&instance).await.map_err(failed("resolving nodeclass"))?;
        Ok(self.machine(&instance, kind.as_deref(), class.as_deref()))
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let found =
            self.parts.instances.list().await.map_err(|error| ProviderError::new("listing instances", error))?;
        let mut known = TypesOfPools::new();
        let mut classes: BTreeMap<String, Option<Arc<EC2NodeClass>>> = BTreeMap::new();
        let mut machines = Vec::with_capacity(found.len());
        for instance in &found {
            let kind = self
                .kind_of(instance, &mut known)
                .await
                .map_err(|error| ProviderError::new("resolving instance type", error))?;
            let name = instance.tags.get(labels::EC2_NODE_CLASS).cloned().unwrap_or_default();
            if !classes.contains_key(&name) {
                let class = self.class_of(instance).await;
                classes.insert(name.clone(), class.map_err(|error| ProviderError::new("resolving nodeclass", error))?);
            }
            machines.push(self.machine(instance, kind.as_deref(), classes[&name].as_deref()));
        }
        Ok(machines)
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, TypesError> {
        let name = &pool.spec.template.spec.node_class_ref.name;
        let class = self.parts.usable_class(name).await;
        let Some(class) = class.map_err(|error| ProviderError::new("resolving nodeclass", error))? else {
            self.parts.tell_unresolved_pool(pool);
            return Ok(Arc::from([]));
        };
        let class = own_kubelet::effective(&class, &pool.metadata.annotations, &self.parts.settings.ec2)
            .map_err(|message| TypesError::NotResolved { message })?;
        self.parts.class_types(&class).map_err(|error| TypesError::NotResolved { message: error.to_string() })
    }

    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<String>, GetError> {
        self.drift(claim).await.map(|reason| reason.map(str::to_owned))
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        let policy = |condition_type, unhealthy, minutes: u64| RepairPolicy {
            condition_type,
            unhealthy,
            toleration: Duration::from_secs(minutes * 60),
        };
        vec![
            policy("Ready", Verdict::False, 30),
            policy("Ready", Verdict::Unknown, 30),
            policy("AcceleratedHardwareReady", Verdict::False, 10),
            policy("StorageReady", Verdict::False, 30),
            policy("NetworkingReady", Verdict::False, 30),
            policy("KernelReady", Verdict::False, 30),
            policy("ContainerRuntimeReady", Verdict::False, 30),
        ]
    }

    /// Waits until a machine of a partition group knows its partition.
    async fn registration(&self, claim: &NodeClaim) -> Result<Registration, ProviderError> {
        let key = aws_labels::PLACEMENT_GROUP_PARTITION;
        let empty = claim.metadata.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(String::is_empty);
        if !empty {
            return Ok(Registration::Proceed);
        }
        let wait = |why: &str| Ok(Registration::Wait { why: why.to_owned() });
        let told = claim.status.as_ref().and_then(|status| status.provider_id.clone()).unwrap_or_default();
        let Some(id) = instance_id(&told) else { return wait("the claim has no provider id yet") };
        let instance = self.parts.instances.get(id, Look::Fresh).await;
        match instance.map_err(|error| ProviderError::new("describing the instance", error))?.partition {
            Some(partition) => Ok(Registration::Relabel(vec![(key.to_owned(), partition.to_string())])),
            None => wait("the instance has no partition yet"),
        }
    }
}

/// An object that is there and that no type takes tells nothing of a machine. The machine is there all the same, and all
/// others are: without them nothing is swept, and no node whose machine is gone is let go.
fn unless_unreadable<T>(read: Result<Option<T>, BoxError>) -> Result<Option<T>, BoxError> {
    match read {
        Err(error) if is_unreadable(&error) => {
            tracing::warn!(%error, "an object cannot be read, of its machines only what EC2 tells is known");
            Ok(None)
        }
        read => read,
    }
}

/// Whether the API server has answered with what no type takes.
fn is_unreadable(error: &BoxError) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::SerdeError(_)))
}

pub(crate) fn bad_id(provider_id: &str) -> BoxError {
    format!("{provider_id:?} is not of the form aws:///<zone>/<instance id>").into()
}

/// Policies that come with Karpenter allow terminations by the same tag.
fn is_owned(instance: &Instance, cluster: &str) -> bool {
    let (key, value) = ownership_tag(cluster);
    instance.tags.get(&key).is_some_and(|found| found == value)
}

fn must_be_ready(class: &EC2NodeClass) -> Result<(), LaunchError> {
    let conditions = class.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let known = conditions.iter().find(|condition| condition.type_ == READY);
    match readiness(&class.metadata, conditions) {
        Readiness::Ready => Ok(()),
        Readiness::NotReady { message, .. } => Err(LaunchError::NodeClassNotReady { message }),
        // The condition is true, but of an older generation.
        Readiness::Unknown { message } if known.is_some_and(|condition| condition.status == "True") => {
            Err(LaunchError::NodeClassNotReady { message })
        }
        Readiness::Unknown { message } => Err(LaunchError::create(
            format!("resolving nodeclass readiness, nodeclass is in Ready=Unknown, {message}"),
            "NodeClassReadinessUnknown",
            "NodeClass is in Ready=Unknown",
        )),
        Readiness::Deleting => {
            Err(LaunchError::InsufficientCapacity { message: "the EC2NodeClass is terminating".to_owned() })
        }
    }
}

#[cfg(test)]
mod tests;
