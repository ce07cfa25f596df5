//! For tests: real instance types under a node class, and an EC2 that answers what it was told to and remembers what it
//! was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_api::{EC2NodeClass, NodeClaim, NodePool};
use karpenter_core::InstanceType;
use karpenter_ec2::catalogue::{SpotPrices, TypeFacts, builtin};
use karpenter_ec2::nodeclass::{NodeClassFacts, Subnet as FactsSubnet};
use karpenter_ec2::{Circumstances, Ec2Settings, Place, resolve};
use karpenter_provider::{BoxError, Notice, Recorder};
use serde_json::{Value, json};

use crate::calls::*;
use crate::objects::Objects;
use crate::provider::{Observer, Parts};
use crate::settings::Settings;

pub(crate) const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];

pub(crate) fn facts() -> NodeClassFacts {
    let subnet = |zone: &str| FactsSubnet { id: format!("subnet-{zone}").into(), zone: zone.into(), zone_id: None };
    NodeClassFacts { subnets: Some(ZONES.map(subnet).to_vec()), ..NodeClassFacts::default() }
}

/// Types of us-east-1 as such a class would run them, spot at 40 percent.
pub(crate) fn types(class: &NodeClassFacts, names: &[&str]) -> Vec<Arc<InstanceType>> {
    let mut region = builtin::catalogue().regions["us-east-1"].clone();
    region.spot = SpotPrices::Assumed;
    let place = Place { name: "us-east-1", facts: &region };
    let facts: Vec<TypeFacts> = names.iter().map(|name| builtin::catalogue().find(name).unwrap().clone()).collect();
    let settings = Ec2Settings::default();
    let found = resolve(&facts, place, class, &settings, &Circumstances::default()).unwrap();
    found.into_iter().map(Arc::new).collect()
}

pub(crate) fn class(spec: Value) -> EC2NodeClass {
    let mut object = json!({
        "metadata": {"name": "main", "uid": "u-1", "generation": 1},
        "spec": {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}]},
        "status": {
            "instanceProfile": "profile",
            "subnets": [{"id": "subnet-us-east-1a", "zone": "us-east-1a"}, {"id": "subnet-us-east-1b", "zone": "us-east-1b"}],
            "securityGroups": [{"id": "sg-1"}, {"id": "sg-2"}],
            "amis": [
                {"id": "ami-arm", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]},
                {"id": "ami-x86", "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]},
            ],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

pub(crate) fn claim(requirements: &[(&str, &str, &[&str])]) -> karpenter_api::NodeClaim {
    let requirements: Vec<Value> = requirements
        .iter()
        .map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}))
        .collect();
    let object = json!({
        "metadata": {"name": "claim", "uid": "claim-1", "labels": {"karpenter.sh/nodepool": "pool"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"},
            "requirements": requirements,
            "resources": {"requests": {"cpu": "1"}},
        },
    });
    serde_json::from_value(object).unwrap()
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[derive(Default)]
pub(crate) struct Fake {
    /// What is said about launch templates, one answer for each question.
    pub(crate) templates: Mutex<VecDeque<Result<Vec<LaunchTemplate>>>>,
    pub(crate) subnets: Mutex<Vec<Subnet>>,
    pub(crate) instances: Mutex<Vec<Instance>>,
    /// Ids that EC2 leaves as they are when asked to terminate them together with others.
    pub(crate) stubborn: Mutex<Vec<String>>,
    pub(crate) profiles: Mutex<Vec<InstanceProfile>>,
    /// Of the profile that was made last.
    pub(crate) profile_tags: Mutex<Tags>,
    /// What the queue holds: id and body. Every poll gets all of it.
    pub(crate) messages: Mutex<Vec<(String, String)>>,
    pub(crate) polls: Mutex<Vec<ReceiveMessages>>,
    pub(crate) parameters: Mutex<Vec<(String, String)>>,
    pub(crate) images: Mutex<Vec<Image>>,
    /// Names of types, and the zones that sell each; no types at all is a failure.
    pub(crate) sold: Mutex<Vec<(&'static str, Vec<&'static str>)>>,
    pub(crate) asked: Mutex<Vec<String>>,
    /// Deletions of launch templates are not answered.
    pub(crate) deletions_stall: Mutex<bool>,
    /// What calls about instances fail with from now on, whatever they ask.
    pub(crate) outage: Mutex<Option<AwsError>>,
}

impl Fake {
    pub(crate) fn aws(self: &Arc<Self>) -> Aws {
        Aws {
            region: "us-east-1".to_owned(),
            ec2: self.clone(),
            ssm: self.clone(),
            iam: self.clone(),
            eks: self.clone(),
            pricing: self.clone(),
            sqs: self.clone(),
            zonal_shift: self.clone(),
        }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().drain(..).collect()
    }

    fn ask(&self, what: impl Into<String>) {
        self.asked.lock().unwrap().push(what.into());
    }

    fn is_up(&self) -> Result<()> {
        self.outage.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

fn not_scripted<T>(operation: &'static str) -> Result<T> {
    Err(AwsError::new(operation, "NotScripted", "this fake does not answer that"))
}

pub(crate) fn instance(id: &str) -> Instance {
    Instance {
        id: id.to_owned(),
        state: InstanceState::Running,
        instance_type: "m5.large".into(),
        image_id: "ami-x86".into(),
        zone: ZONES[0].into(),
        zone_id: None,
        subnet_id: None,
        launched_at: at(0),
        tags: Tags::new(),
        spot_request_id: None,
        capacity_reservation_id: None,
        reservation_preference: None,
        lifecycle: None,
        tenancy: None,
        security_groups: Vec::new(),
        efa_interfaces: 0,
        placement_group_id: None,
        partition: None,
    }
}

#[async_trait]
impl Ec2 for Fake {
    async fn describe_instance_types_dry_run(&self) -> Result<()> {
        not_scripted("DescribeInstanceTypes")
    }

    async fn describe_instance_types(&self, page: u32) -> Result<Vec<TypeFacts>> {
        self.ask(format!("DescribeInstanceTypes {page}"));
        let sold = self.sold.lock().unwrap().clone();
        if sold.is_empty() {
            return not_scripted("DescribeInstanceTypes");
        }
        Ok(sold.iter().map(|(name, _)| builtin::catalogue().find(name).unwrap().clone()).collect())
    }

    async fn describe_instance_type_offerings(&self, page: u32) -> Result<Vec<(String, String)>> {
        self.ask(format!("DescribeInstanceTypeOfferings {page}"));
        let sold = self.sold.lock().unwrap().clone();
        let pairs = sold.into_iter().flat_map(|(name, zones)| zones.into_iter().map(move |zone| (name, zone)));
        Ok(pairs.map(|(name, zone)| (name.to_owned(), zone.to_owned())).collect())
    }

    async fn describe_spot_price_history(&self, _: Timestamp, _: u32) -> Result<Vec<SpotPrice>> {
        not_scripted("DescribeSpotPriceHistory")
    }

    async fn describe_subnets(&self, filters: &[Filter], max_results: u32) -> Result<Vec<Subnet>> {
        self.ask(format!("DescribeSubnets {max_results} {filters:?}"));
        Ok(self.subnets.lock().unwrap().clone())
    }

    async fn describe_security_groups(&self, filters: &[Filter], max_results: u32) -> Result<Vec<SecurityGroup>> {
        self.ask(format!("DescribeSecurityGroups {max_results} {filters:?}"));
        let group = |id: &str| SecurityGroup { id: id.into(), name: "n".into(), tags: Tags::new() };
        Ok(vec![group("sg-2"), group("sg-1"), group("sg-2")])
    }

    async fn describe_images(&self, _: &DescribeImages) -> Result<Vec<Image>> {
        self.ask("DescribeImages");
        Ok(self.images.lock().unwrap().clone())
    }

    async fn describe_capacity_reservations(
        &self,
        _: &[String],
        _: &[Filter],
        _: Option<u32>,
    ) -> Result<Vec<CapacityReservation>> {
        not_scripted("DescribeCapacityReservations")
    }

    async fn describe_placement_groups(&self, _: &[Filter]) -> Result<Vec<PlacementGroup>> {
        not_scripted("DescribePlacementGroups")
    }

    async fn describe_instances(&self, request: &DescribeInstances) -> Result<Vec<Instance>> {
        self.ask(format!("DescribeInstances {:?} {}", request.ids, request.filters.len()));
        self.is_up()?;
        let known = self.instances.lock().unwrap().clone();
        if request.ids.iter().any(|id| known.iter().all(|instance| instance.id != *id)) {
            return Err(AwsError::new("DescribeInstances", "InvalidInstanceID.NotFound", "one of them"));
        }
        let asked = |instance: &Instance| request.ids.is_empty() || request.ids.contains(&instance.id);
        Ok(known.into_iter().filter(asked).collect())
    }

    async fn describe_instance_status(&self, _: &[Filter]) -> Result<Vec<InstanceStatus>> {
        not_scripted("DescribeInstanceStatus")
    }

    async fn create_fleet(&self, request: &CreateFleet) -> Result<FleetAnswer> {
        self.ask(format!("CreateFleet {}", request.total));
        not_scripted("CreateFleet")
    }

    async fn run_instances_dry_run(&self, _: &RunInstances) -> Result<()> {
        not_scripted("RunInstances")
    }

    async fn terminate_instances(&self, ids: &[String]) -> Result<Vec<StateChange>> {
        self.ask(format!("TerminateInstances {ids:?}"));
        self.is_up()?;
        let known = self.instances.lock().unwrap().clone();
        if ids.iter().any(|id| known.iter().all(|instance| instance.id != *id)) {
            return Err(AwsError::new("TerminateInstances", "InvalidInstanceID.NotFound", "one of them"));
        }
        let stubborn = self.stubborn.lock().unwrap().clone();
        let state = |id: &String| {
            if ids.len() > 1 && stubborn.contains(id) { InstanceState::Running } else { InstanceState::ShuttingDown }
        };
        Ok(ids.iter().map(|id| StateChange { id: id.clone(), state: state(id) }).collect())
    }

    async fn create_tags(&self, _: &[String], _: &Tags) -> Result<()> {
        not_scripted("CreateTags")
    }

    async fn create_launch_template(&self, new: &NewLaunchTemplate) -> Result<LaunchTemplate> {
        self.ask(format!("CreateLaunchTemplate {}", new.name));
        Ok(LaunchTemplate { id: "lt-new".to_owned(), name: new.name.clone() })
    }

    async fn describe_launch_templates(&self, request: &DescribeLaunchTemplates) -> Result<Vec<LaunchTemplate>> {
        self.ask(format!("DescribeLaunchTemplates {}", request.names.join(",")));
        let next = self.templates.lock().unwrap().pop_front();
        next.unwrap_or_else(|| not_scripted("DescribeLaunchTemplates"))
    }

    async fn delete_launch_template_by_id(&self, _: &str) -> Result<()> {
        if *self.deletions_stall.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        not_scripted("DeleteLaunchTemplate")
    }

    async fn delete_launch_template_by_name(&self, _: &str) -> Result<()> {
        not_scripted("DeleteLaunchTemplate")
    }
}

#[async_trait]
impl Ssm for Fake {
    async fn get_parameter(&self, name: &str) -> Result<String> {
        self.ask(format!("GetParameter {name}"));
        let found = self.parameters.lock().unwrap().iter().find(|(known, _)| known == name).cloned();
        found.map(|(_, value)| value).ok_or_else(|| AwsError::new("GetParameter", "ParameterNotFound", "none"))
    }
}

#[async_trait]
impl Iam for Fake {
    async fn get_instance_profile(&self, name: &str) -> Result<InstanceProfile> {
        self.ask(format!("GetInstanceProfile {name}"));
        let found = self.profiles.lock().unwrap().iter().find(|profile| profile.name == name).cloned();
        found.ok_or_else(|| AwsError::new("GetInstanceProfile", "NoSuchEntity", "no such profile"))
    }

    async fn create_instance_profile(&self, profile: &NewInstanceProfile) -> Result<InstanceProfile> {
        self.ask(format!("CreateInstanceProfile {}", profile.path));
        *self.profile_tags.lock().unwrap() = profile.tags.clone();
        let made =
            InstanceProfile { name: profile.name.clone(), path: profile.path.clone(), roles: vec![], created_at: None };
        self.profiles.lock().unwrap().push(made.clone());
        Ok(made)
    }

    async fn add_role_to_instance_profile(&self, name: &str, role: &str) -> Result<()> {
        self.ask(format!("AddRole {role}"));
        for profile in self.profiles.lock().unwrap().iter_mut().filter(|profile| profile.name == name) {
            profile.roles.push(role.to_owned());
        }
        Ok(())
    }

    async fn remove_role_from_instance_profile(&self, _: &str, role: &str) -> Result<()> {
        self.ask(format!("RemoveRole {role}"));
        Ok(())
    }

    async fn delete_instance_profile(&self, name: &str) -> Result<()> {
        self.ask(format!("DeleteInstanceProfile {name}"));
        self.profiles.lock().unwrap().retain(|profile| profile.name != name);
        Ok(())
    }

    /// Ignores the prefix, as some endpoints do.
    async fn list_instance_profiles(&self, _: &str) -> Result<Vec<InstanceProfile>> {
        Ok(self.profiles.lock().unwrap().clone())
    }
}

#[async_trait]
impl Eks for Fake {
    async fn describe_cluster(&self, _: &str) -> Result<Cluster> {
        not_scripted("DescribeCluster")
    }
}

#[async_trait]
impl Pricing for Fake {
    async fn get_products(&self, _: &PriceQuery) -> Result<Vec<String>> {
        not_scripted("GetProducts")
    }
}

#[async_trait]
impl Sqs for Fake {
    async fn get_queue_url(&self, name: &str) -> Result<String> {
        self.ask(format!("GetQueueUrl {name}"));
        Ok(format!("https://queues/{name}"))
    }

    async fn receive_messages(&self, request: &ReceiveMessages) -> Result<Vec<QueueMessage>> {
        self.polls.lock().unwrap().push(request.clone());
        let message = |(id, body): &(String, String)| QueueMessage {
            id: id.clone(),
            receipt_handle: id.clone(),
            body: body.clone(),
            sent_at: None,
        };
        Ok(self.messages.lock().unwrap().iter().map(message).collect())
    }

    async fn delete_message(&self, _: &str, receipt_handle: &str) -> Result<()> {
        self.ask(format!("DeleteMessage {receipt_handle}"));
        self.messages.lock().unwrap().retain(|(id, _)| id != receipt_handle);
        Ok(())
    }
}

#[async_trait]
impl ZonalShift for Fake {
    async fn get_managed_resource(&self, _: &str) -> Result<Vec<Shift>> {
        not_scripted("GetManagedResource")
    }
}

/// A cluster of claims, which remembers what was ended and told.
#[derive(Default)]
pub(crate) struct FakeCluster {
    pub(crate) claims: Mutex<Vec<Arc<NodeClaim>>>,
    /// A claim of this name cannot be deleted.
    pub(crate) stuck: Mutex<String>,
    /// One of this name brings out a bug of ours.
    pub(crate) panics: Mutex<String>,
    pub(crate) fake: Arc<Fake>,
    pub(crate) told: Mutex<Vec<String>>,
}

impl FakeCluster {
    pub(crate) fn add(&self, name: &str, instance: &str, labels: &[(&str, &str)]) {
        let labels: std::collections::BTreeMap<&str, &str> = labels.iter().copied().collect();
        let object = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": labels},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"}, "requirements": []},
            "status": {"providerID": format!("aws:///us-east-1a/{instance}")},
        });
        self.claims.lock().unwrap().push(Arc::new(serde_json::from_value(object).unwrap()));
    }

    pub(crate) fn parts(self: &Arc<Self>, now: Timestamp) -> Arc<Parts> {
        let settings = Settings::new("here", "https://api", "1.36");
        Parts::new(self.fake.aws(), settings, Arc::new(move || now), self.clone(), self.clone(), self.clone())
    }

    pub(crate) fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().drain(..).collect()
    }

    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }
}

#[async_trait]
impl Objects for FakeCluster {
    async fn node_class(&self, _: &str) -> std::result::Result<Option<Arc<EC2NodeClass>>, BoxError> {
        Ok(None)
    }

    async fn node_pool(&self, _: &str) -> std::result::Result<Option<Arc<NodePool>>, BoxError> {
        Ok(None)
    }

    async fn node_pools(&self) -> std::result::Result<Vec<Arc<NodePool>>, BoxError> {
        Ok(Vec::new())
    }

    async fn node_claims(&self) -> std::result::Result<Vec<Arc<NodeClaim>>, BoxError> {
        Ok(self.claims.lock().unwrap().clone())
    }

    async fn node(&self, _: &str) -> std::result::Result<Option<Arc<k8s_openapi::api::core::v1::Node>>, BoxError> {
        Ok(None)
    }

    async fn end_claim(&self, claim: &NodeClaim, deadline: Option<Timestamp>) -> std::result::Result<bool, BoxError> {
        let name = claim.metadata.name.clone().unwrap();
        tokio::task::yield_now().await;
        if *self.stuck.lock().unwrap() == name {
            return Err("the API server refuses".into());
        }
        let panics = self.panics.lock().unwrap().clone();
        assert!(panics != name, "a bug of ours about {name}");
        let how = if deadline.is_some() { "at once" } else { "gracefully" };
        // Among the calls, because their order is what matters.
        self.fake.ask(format!("end {name} {how}"));
        Ok(true)
    }
}

impl Recorder for FakeCluster {
    fn publish(&self, notice: Notice) {
        self.tell(format!("{} {}", notice.subject.name, notice.reason));
    }
}

impl Observer for FakeCluster {
    fn message_received(&self, kind: &'static str) {
        self.tell(format!("received {kind}"));
    }

    fn message_handled(&self, late: std::time::Duration) {
        self.tell(format!("handled {}s late", late.as_secs()));
    }

    fn message_deleted(&self) {
        self.tell("deleted".to_owned());
    }

    fn interrupted(&self, kind: &'static str, claim: &NodeClaim) {
        self.tell(format!("interrupted {kind} {}", claim.metadata.name.clone().unwrap()));
    }
}
