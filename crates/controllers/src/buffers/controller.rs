//! The controller `capacitybuffer`, and what a pass says of buffers.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use karpenter_api::CapacityBuffer;
use karpenter_api::capacitybuffer::{LocalObjectRef, ScalableRef};
use karpenter_core::World;
use karpenter_core::plan::Plan;
use karpenter_index::{Change, Key, Kind};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::resolve::virtual_pods;
use super::{PROVISIONING, READY, outcomes, provisioning, set_condition};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::reconciler::{Action, Reconciler};
use crate::write::locked;

/// Workloads are not watched for this: how many replicas they have is looked up.
const AGAIN: Duration = Duration::from_secs(30);
const CONFLICT: Duration = Duration::from_secs(1);

/// Keyed by buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapacityBuffers;

/// What a reference leads to.
struct Found {
    template: PodTemplateSpec,
    /// Replicas of the workload, if it is one.
    workload: Option<i32>,
    /// Name and generation of the PodTemplate, if it is one.
    pod_template: Option<(String, Option<i64>)>,
}

enum Unfound {
    /// There is nothing there yet; whoever makes it wakes us, or we look again.
    Missing {
        reason: &'static str,
        message: String,
    },
    NoReference,
    Failed(Error),
}

#[async_trait]
impl Reconciler for CapacityBuffers {
    fn name(&self) -> &'static str {
        "capacitybuffer"
    }

    fn wake(&self, change: &Change, context: &Context) -> Vec<Key> {
        match change.kind {
            Kind::CapacityBuffer => vec![change.key.clone()],
            Kind::PodTemplate => {
                let refers = |buffer: &CapacityBuffer| {
                    let named = buffer.spec.pod_template_ref.as_ref().map(|named| named.name.as_str());
                    named == Some(&*change.key.name)
                        && buffer.metadata.namespace.as_deref() == Some(&*change.key.namespace)
                };
                let buffers = context.index.capacity_buffers();
                buffers.iter().filter(|buffer| refers(buffer)).map(|buffer| Key::of(&buffer.metadata)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(buffer) = context.index.capacity_buffer(key) else {
            context.buffers.remove(key);
            context.index.unsettle();
            return Ok(Action::Done);
        };
        let now = context.clock.now();
        let mut told = CapacityBuffer::clone(&buffer);
        let resolved = match find(&buffer, context).await {
            Ok(found) => {
                let pods = virtual_pods(&buffer, &found.template, found.workload);
                pods.map(|(count, pods)| (found, count, pods))
                    .map_err(|error| Unfound::Failed(Error::other(error.to_string())))
            }
            Err(unfound) => Err(unfound),
        };
        let outcome = match resolved {
            Ok((found, count, pods)) => {
                let status = told.status.get_or_insert_default();
                status.replicas = Some(count);
                status.pod_template_ref =
                    found.pod_template.as_ref().map(|(name, _)| LocalObjectRef { name: name.clone() });
                status.pod_template_generation = found.pod_template.and_then(|(_, generation)| generation);
                set_condition(&mut told, READY, true, "Resolved", "Pod template resolved successfully", now);
                Ok(Some(pods))
            }
            Err(Unfound::NoReference) => {
                let message = "Neither podTemplateRef nor scalableRef is set";
                set_condition(&mut told, READY, false, "ResolutionFailed", message, now);
                Ok(None)
            }
            Err(Unfound::Missing { reason, message }) => {
                set_condition(&mut told, READY, false, reason, &message, now);
                Ok(None)
            }
            Err(Unfound::Failed(error)) => {
                set_condition(&mut told, READY, false, "ResolutionFailed", &error.to_string(), now);
                Err(error)
            }
        };
        told.status.get_or_insert_default().provisioning_strategy = Some(buffer.spec.provisioning_strategy.clone());
        match write(&buffer, &told, context).await {
            Ok(()) => {}
            Err(error) if error.is_conflict() || error.is_not_found() => return Ok(Action::After(CONFLICT)),
            Err(error) => return Err(error),
        }
        match outcome {
            Ok(Some(pods)) => {
                context.buffers.put(key.clone(), pods);
                context.trigger_provisioning(buffer.metadata.uid.as_deref().unwrap_or_default());
                Ok(Action::After(AGAIN))
            }
            Ok(None) => {
                context.buffers.remove(key);
                Ok(Action::After(AGAIN))
            }
            Err(error) => {
                context.buffers.remove(key);
                Err(error)
            }
        }
    }
}

async fn find(buffer: &CapacityBuffer, context: &Context) -> Result<Found, Unfound> {
    let namespace = buffer.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(named) = &buffer.spec.pod_template_ref {
        let Some(found) = context.index.pod_template(&Key::new(namespace, &named.name)) else {
            let message = format!("podtemplates \"{}\" not found", named.name);
            return Err(Unfound::Missing { reason: "PodTemplateNotFound", message });
        };
        let generation = Some(found.metadata.generation.unwrap_or_default());
        return Ok(Found {
            template: found.template.clone().unwrap_or_default(),
            workload: None,
            pod_template: Some((named.name.clone(), generation)),
        });
    }
    let Some(named) = &buffer.spec.scalable_ref else { return Err(Unfound::NoReference) };
    let (template, replicas) = workload(named, namespace, context).await?;
    Ok(Found { template, workload: Some(replicas.unwrap_or(1)), pod_template: None })
}

async fn workload(
    named: &ScalableRef,
    namespace: &str,
    context: &Context,
) -> Result<(PodTemplateSpec, Option<i32>), Unfound> {
    let group = named.api_group.as_deref().unwrap_or_default();
    match (group, named.kind.as_str()) {
        ("" | "apps", "Deployment") => {
            let spec = get::<Deployment>(named, namespace, context).await?.spec.unwrap_or_default();
            Ok((spec.template, spec.replicas))
        }
        ("" | "apps", "StatefulSet") => {
            let spec = get::<StatefulSet>(named, namespace, context).await?.spec.unwrap_or_default();
            Ok((spec.template, spec.replicas))
        }
        ("" | "apps", "ReplicaSet") => {
            let spec = get::<ReplicaSet>(named, namespace, context).await?.spec.unwrap_or_default();
            Ok((spec.template.unwrap_or_default(), spec.replicas))
        }
        (group, kind) => {
            let message = format!("unsupported scalableRef: kind {kind:?} of group {group:?}");
            Err(Unfound::Failed(Error::other(message)))
        }
    }
}

async fn get<T>(named: &ScalableRef, namespace: &str, context: &Context) -> Result<T, Unfound>
where
    T: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let found = Api::<T>::namespaced(context.client.clone(), namespace).get_opt(&named.name).await;
    match found {
        Ok(Some(found)) => Ok(found),
        Ok(None) => {
            let message = format!("{} \"{}\" not found", T::plural(&()), named.name);
            Err(Unfound::Missing { reason: "ScalableRefNotFound", message })
        }
        Err(error) => Err(Unfound::Failed(error.into())),
    }
}

/// The status, if it differs.
async fn write(before: &CapacityBuffer, after: &CapacityBuffer, context: &Context) -> Result<()> {
    if before.status == after.status {
        return Ok(());
    }
    let metadata = &before.metadata;
    let api =
        Api::<CapacityBuffer>::namespaced(context.client.clone(), metadata.namespace.as_deref().unwrap_or_default());
    let mut status = json!(after.status);
    // What is not there any more is taken out.
    for field in ["podTemplateRef", "podTemplateGeneration"] {
        if status[field].is_null() {
            status[field] = json!(null);
        }
    }
    let body = locked(json!({"status": status}), metadata.resource_version.as_deref());
    let name = metadata.name.as_deref().unwrap_or_default();
    let written = api.patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await?;
    context.saw(written);
    Ok(())
}

/// Tells every buffer whether it is there. A failure is said and holds nothing up.
pub(crate) async fn report(context: &Context, world: &World, plan: &Plan) {
    let outcomes = outcomes(world, plan);
    let now = context.clock.now();
    for buffer in context.index.capacity_buffers() {
        let outcome = outcomes.get(&Key::of(&buffer.metadata)).copied();
        let Some((status, reason, message)) = provisioning(&buffer, outcome) else { continue };
        let mut told = CapacityBuffer::clone(&buffer);
        if !set_condition(&mut told, PROVISIONING, status, reason, &message, now) {
            continue;
        }
        if let Err(error) = write(&buffer, &told, context).await {
            let buffer = buffer.metadata.name.as_deref();
            tracing::error!(buffer, %error, "updating CapacityBuffer provisioning status");
        }
    }
}
