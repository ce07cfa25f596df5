//! Pools of a definition as manifests.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::{AmiAlias, AmiFamily};
use karpenter_api::{Kind, apply_defaults, labels, validate};
use serde_json::{Map, Value, json};

use super::definition::Pool;

/// What the definition does not say.
#[derive(Debug)]
pub(super) struct Surroundings {
    pub(super) cluster: String,
    pub(super) role: String,
    pub(super) alias: String,
}

const DISCOVERY: &str = "karpenter.sh/discovery";
const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";

/// Keys whose values EC2 and Kubernetes write in lower case; the definition is more lenient.
const LOWER_CASE: [&str; 7] = [
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-size",
    labels::INSTANCE_TYPE,
    labels::ARCH,
    labels::OS,
    labels::CAPACITY_TYPE,
];

/// A class and a pool for each, sorted by name; with notes on what was changed on the way.
pub(super) fn manifests(
    pools: &BTreeMap<String, Pool>,
    surroundings: &Surroundings,
) -> Result<(Vec<Value>, Vec<String>), Vec<String>> {
    let (mut objects, mut notes, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    let Some(alias) = AmiAlias::parse(&surroundings.alias) else {
        return Err(vec![format!("ami-alias: {:?} is not family@version", surroundings.alias)]);
    };
    for (name, pool) in pools {
        let class = json!({"apiVersion": Kind::EC2NodeClass.api_version(), "kind": "EC2NodeClass",
            "metadata": {"name": name}, "spec": class_spec(pool, surroundings, alias.family)});
        let (spec, noted) = pool_spec(name, pool);
        let pool = json!({"apiVersion": Kind::NodePool.api_version(), "kind": "NodePool",
            "metadata": {"name": name}, "spec": spec});
        for (kind, object) in [(Kind::EC2NodeClass, class), (Kind::NodePool, pool)] {
            let mut filled = object.clone();
            apply_defaults(kind, &mut filled);
            let found = validate(kind, &filled).into_iter().chain(
                karpenter_api::validation::unknown_fields(kind, &object)
                    .into_iter()
                    .map(|field| karpenter_api::Fault { field, message: "unknown key".to_owned() }),
            );
            faults.extend(found.map(|fault| format!("node_pools.{name} as {}: {fault}", kind.as_str())));
            objects.push(object);
        }
        notes.extend(noted);
    }
    if faults.is_empty() { Ok((objects, notes)) } else { Err(faults) }
}

fn class_spec(pool: &Pool, surroundings: &Surroundings, family: AmiFamily) -> Value {
    let found = json!({DISCOVERY: surroundings.cluster});
    let mut subnets = found.clone();
    if let Some(public) = pool.public {
        subnets[if public { "kubernetes.io/role/elb" } else { "kubernetes.io/role/internal-elb" }] = "1".into();
    }
    let mut groups = vec![json!({"tags": found})];
    groups.extend(pool.extra_security_groups.iter().map(|id| json!({"id": id})));
    let mut spec = json!({
        "amiSelectorTerms": [{"alias": surroundings.alias}],
        "role": surroundings.role,
        "securityGroupSelectorTerms": groups,
        "subnetSelectorTerms": [{"tags": subnets}],
    });
    if pool.public == Some(true) {
        spec["associatePublicIPAddress"] = true.into();
    }
    if let Some(tags) = &pool.tags {
        spec["tags"] = tags.clone().into();
    }
    if let Some(size) = &pool.volume_size {
        spec["blockDeviceMappings"] = devices(family, size);
    }
    spec
}

/// The device that images and pods fill, at this size; those beside it keep the family's own.
fn devices(family: AmiFamily, size: &str) -> Value {
    let device = |name: &str, size: &str| json!({"deviceName": name, "ebs": {"encrypted": true, "volumeSize": size, "volumeType": "gp3"}});
    match family {
        AmiFamily::Bottlerocket => json!([device("/dev/xvda", "4Gi"), device("/dev/xvdb", size)]),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => json!([device("/dev/sda1", size)]),
        AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Custom => json!([device("/dev/xvda", size)]),
    }
}

fn pool_spec(name: &str, pool: &Pool) -> (Value, Vec<String>) {
    let (mut requirements, notes) = requirements(name, pool);
    if let Some(gpu) = pool.gpu_enabled
        && !requirements.iter().any(decides_gpus)
    {
        requirements.push(json!({"key": GPU_COUNT, "operator": if gpu { "Exists" } else { "DoesNotExist" }}));
    }
    let reference = json!({"group": labels::AWS_GROUP, "kind": "EC2NodeClass", "name": name});
    let mut template = json!({"spec": {"nodeClassRef": reference, "requirements": requirements}});
    let mut metadata = Map::new();
    for (field, given) in [("annotations", &pool.annotations), ("labels", &pool.labels)] {
        if let Some(given) = given {
            metadata.insert(field.to_owned(), given.clone().into());
        }
    }
    if !metadata.is_empty() {
        template["metadata"] = metadata.into();
    }
    if let Some(taints) = &pool.taints {
        template["spec"]["taints"] = taints.clone();
    }
    let mut spec = json!({"template": template});
    if let Some(limits) = &pool.limits {
        spec["limits"] = limits.clone().into();
    }
    (spec, notes)
}

fn decides_gpus(requirement: &Value) -> bool {
    let key = requirement.get("key").and_then(Value::as_str).unwrap_or_default();
    key.starts_with("karpenter.k8s.aws/instance-gpu-")
        || key == "karpenter.k8s.aws/instance-family"
        || key == labels::INSTANCE_TYPE
}

fn requirements(name: &str, pool: &Pool) -> (Vec<Value>, Vec<String>) {
    let mut notes = Vec::new();
    let mut all = pool.requirements.clone();
    for requirement in &mut all {
        let key = requirement.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !LOWER_CASE.contains(&key.as_str()) {
            continue;
        }
        for value in requirement.get_mut("values").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(text) = value.as_str() else { continue };
            let lower = text.to_lowercase();
            if lower != text {
                notes.push(format!("node_pools.{name}.requirements: {key} {text:?} is written {lower:?}"));
                *value = lower.into();
            }
        }
    }
    (all, notes)
}
