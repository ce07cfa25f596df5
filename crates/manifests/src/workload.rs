//! Workloads and the pods they would make.

use std::sync::Arc;

use k8s_openapi::api::apps::v1 as apps_v1;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_core::selector::Selector;
use karpenter_index::reduce;

use crate::document::Place;
use crate::identity::Identity;

/// A controller of pods, reduced to what its pods need.
pub(crate) struct Workload {
    pub(crate) place: Place,
    pub(crate) identity: Identity,
    pub(crate) uid: Arc<str>,
    /// The Deployment that made this ReplicaSet.
    pub(crate) deployment: Option<Arc<str>>,
    pub(crate) replicas: u32,
    pub(crate) template: core_v1::PodTemplateSpec,
    pub(crate) claim_templates: Vec<core_v1::PersistentVolumeClaim>,
    pub(crate) selector: Option<Selector>,
}

/// The parts in which workloads differ.
pub(crate) struct Parts {
    replicas: i32,
    template: core_v1::PodTemplateSpec,
    claim_templates: Vec<core_v1::PersistentVolumeClaim>,
    selector: Option<Selector>,
}

pub(crate) fn deployment(object: apps_v1::Deployment) -> Parts {
    let spec = object.spec.unwrap_or_default();
    Parts {
        replicas: spec.replicas.unwrap_or(1),
        template: spec.template,
        claim_templates: Vec::new(),
        selector: Some(reduce::selector(&spec.selector)),
    }
}

pub(crate) fn replica_set(object: apps_v1::ReplicaSet) -> Parts {
    let spec = object.spec.unwrap_or_default();
    Parts {
        replicas: spec.replicas.unwrap_or(1),
        template: spec.template.unwrap_or_default(),
        claim_templates: Vec::new(),
        selector: Some(reduce::selector(&spec.selector)),
    }
}

pub(crate) fn stateful_set(object: apps_v1::StatefulSet) -> Parts {
    let spec = object.spec.unwrap_or_default();
    Parts {
        replicas: spec.replicas.unwrap_or(1),
        template: spec.template,
        claim_templates: spec.volume_claim_templates.unwrap_or_default(),
        selector: Some(reduce::selector(&spec.selector)),
    }
}

/// As many pods as run at once; none when the job is suspended or over.
pub(crate) fn job(object: Job) -> Parts {
    let spec = object.spec.unwrap_or_default();
    let status = object.status.unwrap_or_default();
    let ended = |c: &k8s_openapi::api::batch::v1::JobCondition| {
        matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True"
    };
    let over = status.conditions.iter().flatten().any(ended);
    let parallel = spec.parallelism.unwrap_or(1);
    let left = spec.completions.map_or(parallel, |count| count - status.succeeded.unwrap_or(0));
    Parts {
        replicas: if over || spec.suspend == Some(true) { 0 } else { parallel.min(left) },
        template: spec.template,
        claim_templates: Vec::new(),
        selector: None,
    }
}

impl Workload {
    pub(crate) fn new(place: Place, identity: Identity, metadata: &ObjectMeta, uid: Arc<str>, parts: Parts) -> Self {
        let deployment = controller(metadata).filter(|owner| owner.kind == "Deployment");
        Self {
            place,
            identity,
            uid,
            deployment: deployment.map(|owner| owner.name.as_str().into()),
            replicas: u32::try_from(parts.replicas).unwrap_or(0),
            template: parts.template,
            claim_templates: parts.claim_templates,
            selector: parts.selector,
        }
    }

    /// The pod all replicas are copies of. Pods of a Deployment belong to a ReplicaSet; which, only its controller
    /// knows, so the Deployment's own name and uid stand in.
    pub(crate) fn pod(&self) -> core_v1::Pod {
        let mut metadata = self.template.metadata.clone().unwrap_or_default();
        metadata.name = Some(self.identity.name.to_string());
        metadata.namespace = Some(self.identity.namespace.to_string());
        let (api_version, kind) = match self.identity.kind {
            "Job" => ("batch/v1", "Job"),
            "Deployment" => ("apps/v1", "ReplicaSet"),
            kind => ("apps/v1", kind),
        };
        metadata.owner_references = Some(vec![OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: self.identity.name.to_string(),
            uid: self.uid.to_string(),
            controller: Some(true),
            block_owner_deletion: None,
        }]);
        core_v1::Pod { metadata, spec: self.template.spec.clone(), status: None }
    }

    /// The claims of one replica, by name.
    pub(crate) fn claims(&self, pod: &str) -> Vec<(String, core_v1::PersistentVolumeClaim)> {
        let name = |claim: &core_v1::PersistentVolumeClaim| claim.metadata.name.clone().unwrap_or_default();
        self.claim_templates.iter().map(|claim| (format!("{}-{pod}", name(claim)), claim.clone())).collect()
    }
}

pub(crate) fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}
