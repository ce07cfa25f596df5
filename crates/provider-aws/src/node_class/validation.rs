//! Whether a node class can be used: first what can be told by thinking, then what only AWS can tell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use karpenter_api::conditions::{Conditions, Status};
use karpenter_api::ec2nodeclass::AmiFamily as WireFamily;
use karpenter_api::{EC2NodeClass, NodeClaim, NodePool, validation};
use karpenter_core::labels::ON_DEMAND;
use karpenter_core::requirement::Expression;
use karpenter_core::{InstanceType, MicroUsd, Operator, Requirements};
use karpenter_ec2::images::{self, Variant};
use karpenter_ec2::kubelet::expression;
use karpenter_ec2::labels as aws_labels;
use karpenter_ec2::userdata::UserDataError;
use karpenter_provider::{Notice, Severity};

use super::conditions::{AMIS, INSTANCE_PROFILE, SECURITY_GROUPS, SUBNETS, VALIDATION};
use super::{Next, Step};
use crate::calls::{AwsError, CreateFleet, FleetConfig, FleetKind, Override, RunInstances, Tags};
use crate::errors::reason_and_message;
use crate::fnv::fnv1_64;
use crate::launch::template::{Choice, Planned, Surroundings, TemplateError, plan, status_images};
use crate::objects::class_subject;
use crate::provider::Parts;
use crate::tags::launch_tags;
use crate::ttl::Ttl;
use crate::types::{ListError, wire_facts};

const TEN_MINUTES: Next = Next::After(Duration::from_secs(600));
const REMEMBERED: Duration = Duration::from_secs(30 * 60);
/// What most pools can run, for classes that no pool uses yet.
const FALLBACK_TYPES: [&str; 2] = ["m5.large", "m6g.large"];

pub struct Validation {
    /// Name and content of the class; reason and message of what failed, if anything.
    results: Ttl<(String, u64), Option<(String, String)>>,
    /// By name of the class and reason: what was last said to be ignored of it.
    ignored: Mutex<BTreeMap<String, BTreeMap<&'static str, String>>>,
}

impl Default for Validation {
    fn default() -> Self {
        Self { results: Ttl::new(REMEMBERED), ignored: Mutex::default() }
    }
}

/// What a check says.
enum Outcome {
    Passed,
    Failed {
        reason: &'static str,
        message: String,
    },
    /// AWS could not tell just now; the condition stays as it is.
    AskAgain,
}

impl Validation {
    pub(super) async fn judge(&self, parts: &Parts, class: &EC2NodeClass, conditions: &mut Conditions<'_>) -> Step {
        if class.ami_family() == WireFamily::Al2023 {
            match parts.resolve_cluster_cidr().await {
                Ok(true) => {}
                Err(error) if error.server_fault => return Ok(Next::AGAIN),
                other => {
                    conditions.set_false(
                        VALIDATION,
                        "ClusterCIDRResolutionFailed",
                        "Failed to detect the cluster CIDR",
                    );
                    let why = other.map_or_else(|error| error.to_string(), |_| "EKS tells none".to_owned());
                    return Err(format!("failed to detect the cluster CIDR, {why}").into());
                }
            }
        }
        if let Some((reason, message)) = kubelet_fault(class, parts.settings.ec2.kubelet_expressions) {
            conditions.set_false(VALIDATION, reason, &message);
            return Ok(Next::Never);
        }
        self.say_ignored_settings(parts, class);
        let needed = [AMIS, INSTANCE_PROFILE, SECURITY_GROUPS, SUBNETS].map(|name| conditions.status(name));
        let waiting = "Awaiting AMI, Instance Profile, Security Group, and Subnet resolution";
        if needed.contains(&Status::False) {
            conditions.set_false(VALIDATION, "DependenciesNotReady", waiting);
            return Ok(TEN_MINUTES);
        }
        if needed.contains(&Status::Unknown) {
            conditions.set_unknown(VALIDATION, "DependenciesNotReady", waiting);
            return Ok(TEN_MINUTES);
        }
        match parts.types.kubelets(class, (parts.now)()) {
            Ok(_) => {}
            Err(ListError::NoTypes) => return Ok(Next::AGAIN),
            Err(error) => {
                conditions.set_false(VALIDATION, "KubeletExpressionEvaluationFailed", &error.to_string());
                return Ok(Next::Never);
            }
        }
        let tags = match launch_tags(class, None, &parts.settings.cluster_name) {
            Ok(tags) => tags,
            Err(message) => {
                conditions.set_false(VALIDATION, "TagValidationFailed", &message);
                return Ok(Next::Never);
            }
        };
        let key = (class.metadata.name.clone().unwrap_or_default(), content(class, &tags));
        let known = match self.results.get(&key, (parts.now)()) {
            Some(result) => result,
            None if parts.settings.disable_dry_run => None,
            None => match self.ask_aws(parts, class, &tags).await? {
                Outcome::Passed => None,
                Outcome::Failed { reason, message } => Some((reason.to_owned(), message)),
                Outcome::AskAgain => return Ok(Next::AGAIN),
            },
        };
        match &known {
            None => conditions.set_true(VALIDATION),
            Some((reason, message)) => conditions.set_false(VALIDATION, reason, message),
        };
        if self.results.get(&key, (parts.now)()).is_none() {
            self.results.set(key, known, (parts.now)());
        }
        Ok(TEN_MINUTES)
    }

    /// The three permissions a launch needs, each exercised as a launch would.
    async fn ask_aws(
        &self,
        parts: &Parts,
        class: &EC2NodeClass,
        tags: &Tags,
    ) -> Result<Outcome, karpenter_provider::BoxError> {
        let pools = linked_pools(parts, class).await?;
        let types = parts.class_types(class).map_err(|error| format!("listing instance types, {error}"))?;
        let Some(kind) = launchable(class, &types, &pools) else {
            let message = "no instance type can boot any of the images of this node class".to_owned();
            return Ok(Outcome::Failed { reason: "NoInstanceTypeMatchesAMIs", message });
        };
        let planned = match template(parts, class, kind, tags, tenancy(&pools)) {
            Ok(planned) => planned,
            // Only another spec can mend these; to try again would be the same again.
            Err(TemplateError::UserData(error @ UserDataError::Custom(_))) => {
                return Ok(Outcome::Failed { reason: "InvalidUserData", message: error.to_string() });
            }
            Err(TemplateError::UserData(error @ UserDataError::Kubelet { .. })) => {
                return Ok(Outcome::Failed { reason: "InvalidKubeletConfiguration", message: error.to_string() });
            }
            Err(error) => return Err(format!("validating ec2:CreateLaunchTemplate, {error}").into()),
        };
        self.say(parts, class, "UserDataIgnored", planned.notes.join("; "));
        if let Err(error) = parts.launch_templates.ensure(&planned.template, (parts.now)()).await {
            if error.is_user_data_too_large() {
                return Ok(failed("UserDataSizeLimitExceeded", "Rendered user data is too large", &error));
            }
            return judged(error, "CreateLaunchTemplateAuthCheckFailed", "CreateLaunchTemplate");
        }
        let fleet = dry_fleet(class, &planned, tags);
        match parts.aws.ec2.create_fleet(&fleet).await {
            Ok(_) => {}
            Err(error) if error.is_dry_run() => {}
            Err(error) if error.is_template_not_found() => {
                // Gone behind our back, or not known everywhere yet: made anew at the next look.
                parts.launch_templates.forget([planned.template.name.as_str()]).await;
                return Ok(Outcome::AskAgain);
            }
            Err(error) => return judged(error, "CreateFleetAuthCheckFailed", "CreateFleet"),
        }
        run_dry(parts, class, &planned, tags).await
    }

    fn say_ignored_settings(&self, parts: &Parts, class: &EC2NodeClass) {
        let kubelet = class.spec.kubelet.iter();
        let ignored = kubelet.flat_map(|kubelet| validation::kubelet::ignored_by(class.ami_family(), kubelet));
        let message = ignored.map(|fault| fault.to_string()).collect::<Vec<_>>().join("; ");
        self.say(parts, class, "KubeletSettingIgnored", message);
    }

    /// Once, and again when it is another text; nothing to say is no text.
    fn say(&self, parts: &Parts, class: &EC2NodeClass, reason: &'static str, message: String) {
        let name = class.metadata.name.clone().unwrap_or_default();
        let mut said = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
        let said = said.entry(name.clone()).or_default();
        if message.is_empty() {
            said.remove(reason);
        } else if said.get(reason) != Some(&message) {
            parts.recorder.publish(Notice {
                subject: class_subject(class),
                severity: Severity::Warning,
                reason,
                message: message.clone(),
                dedupe: vec![name, message.clone()],
            });
            said.insert(reason, message);
        }
    }

    pub(super) fn forget(&self, class: &str, now: jiff::Timestamp) {
        self.ignored.lock().unwrap_or_else(PoisonError::into_inner).remove(class);
        for (key, _) in self.results.entries(now) {
            if key.0 == class {
                self.results.remove(&key);
            }
        }
    }
}

fn kubelet_fault(class: &EC2NodeClass, expressions: bool) -> Option<(&'static str, String)> {
    let kubelet = class.spec.kubelet.as_ref()?;
    let joined = |faults: Vec<validation::Fault>| {
        (!faults.is_empty()).then(|| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    if let Some(message) = joined(validation::kubelet::validate(kubelet)) {
        return Some(("InvalidKubeletConfiguration", message));
    }
    if validation::kubelet::has_expressions(kubelet) && !expressions {
        let message = "kubelet expressions need the feature gate NodeClassCEL".to_owned();
        return Some(("KubeletExpressionsDisabled", message));
    }
    if let Some(message) = expression_faults(class).filter(|_| expressions) {
        return Some(("KubeletExpressionInvalid", message));
    }
    let unsupported = joined(validation::kubelet::unsupported_by(class.ami_family(), kubelet));
    unsupported.map(|message| ("UnsupportedKubeletConfiguration", message))
}

fn expression_faults(class: &EC2NodeClass) -> Option<String> {
    let facts = match wire_facts(class) {
        Ok(facts) => facts,
        Err(error) => return Some(error.to_string()),
    };
    let fault = |(field, source): (String, &str)| {
        let fault = expression::compile(source).err()?;
        Some(format!("spec.kubelet.{field}: {fault}"))
    };
    let faults: Vec<String> = expression::expressions(&facts.kubelet).into_iter().filter_map(fault).collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Whatever could change the answer. Annotations are in it, so that adding one forces a new look.
fn content(class: &EC2NodeClass, tags: &Tags) -> u64 {
    let status = class.status.clone().unwrap_or_default();
    let parts = (
        &class.spec,
        &class.metadata.annotations,
        status.subnets,
        status.security_groups,
        status.amis,
        status.instance_profile,
        tags,
    );
    fnv1_64(&serde_json::to_vec(&parts).unwrap_or_default())
}

/// One subnet that works is enough; else the first one's answer counts.
async fn run_dry(
    parts: &Parts,
    class: &EC2NodeClass,
    planned: &Planned,
    tags: &Tags,
) -> Result<Outcome, karpenter_provider::BoxError> {
    let mut first: Option<AwsError> = None;
    let subnets = class.status.as_ref().and_then(|status| status.subnets.clone()).unwrap_or_default();
    for subnet in subnets {
        let request = RunInstances {
            template_name: planned.template.name.clone(),
            instance_type: planned.types.first().map(|kind| kind.name.to_string()).unwrap_or_default(),
            subnet_id: subnet.id,
            tags: tags.clone(),
        };
        match parts.aws.ec2.run_instances_dry_run(&request).await {
            Ok(()) => return Ok(Outcome::Passed),
            Err(error) if error.is_dry_run() => return Ok(Outcome::Passed),
            Err(error) => first = first.or(Some(error)),
        }
    }
    let Some(error) = first else { return Ok(Outcome::Passed) };
    if error.is_profile_not_found() {
        // A profile of ours is merely not known everywhere yet; one of the user's may never come.
        let theirs = class.spec.instance_profile.as_ref().is_some_and(|name| !name.is_empty());
        return Ok(if theirs {
            failed("InstanceProfileNotFound", "Instance profile not found", &error)
        } else {
            Outcome::AskAgain
        });
    }
    judged(error, "RunInstancesAuthCheckFailed", "RunInstances")
}

fn judged(error: AwsError, reason: &'static str, action: &str) -> Result<Outcome, karpenter_provider::BoxError> {
    if error.is_passing() {
        return Ok(Outcome::AskAgain);
    }
    if error.is_unauthorized() {
        tracing::error!(%error, "unauthorized to call ec2:{action}");
        return Ok(failed(reason, &format!("Controller isn't authorized to call ec2:{action}"), &error));
    }
    Err(format!("validating ec2:{action} authorization, {error}").into())
}

fn failed(reason: &'static str, what: &str, error: &AwsError) -> Outcome {
    let (_, why) = reason_and_message(&error.to_string());
    Outcome::Failed { reason, message: format!("{what}: {why}") }
}

async fn linked_pools(parts: &Parts, class: &EC2NodeClass) -> Result<Vec<Arc<NodePool>>, karpenter_provider::BoxError> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let mut pools = parts.objects.node_pools().await?;
    pools.retain(|pool| {
        let reference = &pool.spec.template.spec.node_class_ref;
        reference.name == name && reference.kind == "EC2NodeClass"
    });
    Ok(pools)
}

/// Preferring images without drivers: those need more disk than a class may give.
fn launchable<'a>(
    class: &EC2NodeClass,
    types: &'a [Arc<InstanceType>],
    pools: &[Arc<NodePool>],
) -> Option<&'a InstanceType> {
    let fitting: Vec<&InstanceType> = types
        .iter()
        .map(|kind| &**kind)
        .filter(|kind| kind.offerings.iter().any(|offering| offering.available))
        .collect();
    let words = karpenter_ec2::vocabulary();
    let asked: Vec<Requirements> = pools
        .iter()
        .map(|pool| {
            let mut asked = requirements(&pool.spec.template.spec.requirements);
            for (key, value) in pool.spec.template.labels() {
                asked.add(words.normalize(key), karpenter_core::Requirement::one(value));
            }
            asked
        })
        .collect();
    let mut wanted: Vec<&InstanceType> =
        fitting.iter().copied().filter(|kind| asked.iter().any(|asked| kind.requirements.overlaps(asked))).collect();
    if wanted.is_empty() || class.ami_family().is_windows() {
        wanted = fitting.iter().copied().filter(|kind| FALLBACK_TYPES.contains(&&*kind.name)).collect();
    }
    let images = status_images(class);
    let image_of = |kind: &InstanceType| images::image_for(kind, images.iter().map(|(id, set)| (id.as_str(), set)));
    let bootable = |types: &[&'a InstanceType]| -> Option<&'a InstanceType> {
        let standard = images::requirements(&Variant::Standard.requirements());
        let boots = types.iter().copied().filter(|kind| image_of(kind).is_some());
        let mut boots: Vec<&InstanceType> = boots.collect();
        boots.sort_by_key(|kind| kind.requirements.compatible(&standard, |_| false).is_err());
        boots.first().copied()
    };
    bootable(&wanted).or_else(|| bootable(&fitting))
}

pub(crate) fn requirements(entries: &[karpenter_api::requirement::NodeSelectorRequirement]) -> Requirements {
    let expressions: Vec<Expression> = entries
        .iter()
        .map(|entry| Expression {
            key: Arc::from(entry.key.as_str()),
            operator: Operator::parse(&entry.operator).unwrap_or(Operator::DoesNotExist),
            values: entry.values().iter().map(|value| Arc::from(value.as_str())).collect(),
            min_values: None,
        })
        .collect();
    Requirements::from_expressions(&expressions, &karpenter_ec2::vocabulary())
}

fn tenancy(pools: &[Arc<NodePool>]) -> &'static str {
    let dedicated = pools.iter().any(|pool| {
        let asked = requirements(&pool.spec.template.spec.requirements);
        asked.0.get(aws_labels::TENANCY).is_some_and(|requirement| requirement.allows("dedicated"))
    });
    if dedicated { "dedicated" } else { "default" }
}

fn template(
    parts: &Parts,
    class: &EC2NodeClass,
    kind: &InstanceType,
    tags: &Tags,
    tenancy: &str,
) -> Result<Planned, TemplateError> {
    let cluster = parts.cluster_facts();
    let group = parts.placement_groups.last(class, (parts.now)());
    // What cannot be evaluated was told before it came to this.
    let kubelets = parts.types.kubelets(class, (parts.now)()).unwrap_or_default();
    let around = Surroundings {
        region: &parts.aws.region,
        cluster: &cluster,
        cluster_dns: parts.settings.cluster_dns.as_deref(),
        ipv6: parts.settings.is_ipv6(),
        reserved_capacity: parts.settings.ec2.reserved_capacity,
        placement_group_id: group.as_ref().map(|group| group.id.as_str()),
        partition: None,
        tag_spot_requests: true,
        kubelets: &kubelets,
    };
    let types = [kind.clone()];
    let choice = Choice { types: &types, capacity_type: ON_DEMAND, tenancy, tags };
    let planned = plan(class, &NodeClaim::default(), &choice, &around)?;
    Ok(planned.into_iter().next().expect("a plan without an error has a template"))
}

fn dry_fleet(class: &EC2NodeClass, planned: &Planned, tags: &Tags) -> CreateFleet {
    let subnets = class.status.iter().filter_map(|status| status.subnets.as_ref()).flatten();
    let overrides = subnets
        .flat_map(|subnet| {
            planned.types.iter().map(move |kind| Override {
                instance_type: kind.name.to_string(),
                zone: subnet.zone.clone(),
                subnet_id: subnet.id.clone(),
                image_id: planned.template.image_id.clone(),
                priority: MicroUsd(0),
            })
        })
        .collect();
    CreateFleet {
        client_token: None,
        dry_run: true,
        kind: FleetKind::OnDemand,
        total: 1,
        configs: vec![FleetConfig { template_name: planned.template.name.clone(), version: "$Latest", overrides }],
        tags: tags.clone(),
        context: None,
        prioritized: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{class, facts, types};

    fn pool(requirements: Value) -> Arc<NodePool> {
        let object = json!({"spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"},
            "requirements": requirements,
        }}}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn permissions_are_checked_with_a_type_that_would_be_launched() {
        // covers: AWS-NC-37
        let all = types(&facts(), &["c5.large", "g4dn.xlarge", "m5.large", "m6g.large", "r5.large"]);
        let class = class(json!({}));
        let name = |types: &[Arc<InstanceType>], pools: &[Arc<NodePool>]| {
            launchable(&class, types, pools).map(|kind| kind.name.to_string())
        };
        let of = |values: &[&str]| {
            vec![pool(json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": values}]))]
        };
        assert_eq!(name(&all, &of(&["r5.large"])).as_deref(), Some("r5.large"));
        assert_eq!(name(&all, &of(&["g4dn.xlarge", "r5.large"])).as_deref(), Some("r5.large"), "standard images first");
        assert_eq!(name(&all, &of(&["g4dn.xlarge"])).as_deref(), Some("g4dn.xlarge"));
        assert_eq!(name(&all, &[]).as_deref(), Some("m5.large"));
        assert_eq!(name(&all, &of(&["nobody"])).as_deref(), Some("m5.large"));
        let few = types(&facts(), &["c5.large"]);
        assert_eq!(name(&few, &[]).as_deref(), Some("c5.large"), "any that fits");
        let mut no_images = class.clone();
        no_images.status.as_mut().unwrap().amis = Some(Vec::new());
        assert!(launchable(&no_images, &all, &[]).is_none());
        let dedicated =
            |values: &[&str]| vec![pool(json!([{"key": aws_labels::TENANCY, "operator": "In", "values": values}]))];
        assert_eq!((tenancy(&[]), tenancy(&dedicated(&["dedicated"]))), ("default", "dedicated"));
        assert_eq!(tenancy(&dedicated(&["default"])), "default");
    }
}
