//! The reconcilers of EC2NodeClass: what its selectors mean, whether it can be used, and its end.
//!
//! ```text
//!   look   images, reservations, placement group, subnets, security groups, instance profile: each on its own
//!   judge  validation: what can be told by thinking, then what only AWS can tell, by dry run
//!   write  the whole status once, if it changed
//! ```

pub mod conditions;
pub mod hash;
pub mod termination;
pub mod validation;

mod status;

use std::sync::Arc;
use std::time::Duration;

use karpenter_api::conditions::Conditions;
use karpenter_api::{EC2NodeClass, labels};
use karpenter_provider::{BoxError, ProviderError};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::provider::Parts;
use conditions::{
    AMIS, INSTANCE_PROFILE, PLACEMENT_GROUP, RESERVATIONS, SECURITY_GROUPS, SUBNETS, VALIDATION, dependents, is_ours,
    say_failure,
};
use validation::Validation;

/// A whole look, which is some twenty calls to AWS, each of which may take minutes to fail when nobody answers. What does
/// not come in time is asked for again at the next look; whoever waits longer seems to have hung.
const LOOK: Duration = Duration::from_mins(5);

/// An object at one state of its spec.
pub type ClassKey = (String, String, i64);

pub fn class_key(class: &EC2NodeClass) -> ClassKey {
    let metadata = &class.metadata;
    (
        metadata.name.clone().unwrap_or_default(),
        metadata.uid.clone().unwrap_or_default(),
        metadata.generation.unwrap_or_default(),
    )
}

/// When to look again. Failures are the caller's to retry, with back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Not before something changes.
    Never,
    After(Duration),
}

impl Next {
    fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::After(a), Self::After(b)) => Self::After(a.min(b)),
            (Self::After(a), Self::Never) | (Self::Never, Self::After(a)) => Self::After(a),
            (Self::Never, Self::Never) => Self::Never,
        }
    }

    /// At once: somebody wrote first, or AWS asked for a moment.
    const AGAIN: Self = Self::After(Duration::ZERO);
}

/// What one step of the reconciliation found out.
pub(crate) type Step = Result<Next, BoxError>;

pub struct NodeClassController {
    pub parts: Arc<Parts>,
    pub client: kube::Client,
    validation: Validation,
}

impl NodeClassController {
    pub fn new(parts: Arc<Parts>, client: kube::Client) -> Self {
        Self { parts, client, validation: Validation::default() }
    }

    /// One pass over one object, as it was last seen.
    pub async fn reconcile(&self, class: &EC2NodeClass) -> Result<Next, ProviderError> {
        let failed = |error: BoxError| ProviderError::new("reconciling EC2NodeClass", error);
        if class.metadata.deletion_timestamp.is_some() {
            return in_time(Instant::now() + LOOK, self.terminate(class)).await.map_err(failed);
        }
        let mut class = class.clone();
        if !has_finalizer(&class) {
            match self.add_finalizer(&class).await {
                Ok(updated) => class = updated,
                Err(error) if is_status(&error, 409) => return Ok(Next::AGAIN),
                Err(error) if is_status(&error, 404) => return Ok(Next::Never),
                Err(error) => return Err(failed(error.into())),
            }
        }
        let stored = class.clone();
        let (next, errors) = self.look(&mut class).await;
        if class.status != stored.status {
            match self.write_status(&class).await {
                Ok(()) => {}
                Err(error) if is_status(&error, 409) => return Ok(Next::AGAIN),
                Err(error) if is_status(&error, 404) => return Ok(Next::Never),
                Err(error) => return Err(failed(error.into())),
            }
        }
        if errors.is_empty() {
            return Ok(next);
        }
        Err(failed(joined(&errors).into()))
    }

    /// All steps; one that fails does not stop the others.
    async fn look(&self, class: &mut EC2NodeClass) -> (Next, Vec<BoxError>) {
        let reserved_capacity = self.parts.settings.ec2.reserved_capacity;
        let metadata = class.metadata.clone();
        let held = class.status.get_or_insert_default().conditions.take();
        let mut list = held.unwrap_or_default();
        list.retain(|condition| is_ours(&condition.type_, reserved_capacity));
        let mut conditions = Conditions::of(&metadata, &mut list, dependents(reserved_capacity), (self.parts.now)());
        let mut next = Next::Never;
        let mut errors = Vec::new();
        let mut take = |kind: &str, step: Step, conditions: &mut Conditions<'_>| match step {
            Ok(wish) => next = next.sooner(wish),
            Err(error) => {
                say_failure(conditions, kind, &error);
                errors.push(error);
            }
        };
        let (parts, end) = (&self.parts, Instant::now() + LOOK);
        let step = in_time(end, status::images(parts, class, &mut conditions)).await;
        take(AMIS, step, &mut conditions);
        if reserved_capacity {
            let step = in_time(end, status::reservations(parts, class, &mut conditions)).await;
            take(RESERVATIONS, step, &mut conditions);
        }
        let step = in_time(end, status::placement_group(parts, class, &mut conditions)).await;
        take(PLACEMENT_GROUP, step, &mut conditions);
        let step = in_time(end, status::subnets(parts, class, &mut conditions)).await;
        take(SUBNETS, step, &mut conditions);
        let step = in_time(end, status::security_groups(parts, class, &mut conditions)).await;
        take(SECURITY_GROUPS, step, &mut conditions);
        let step = in_time(end, status::instance_profile(parts, class, &mut conditions)).await;
        take(INSTANCE_PROFILE, step, &mut conditions);
        let step = in_time(end, self.validation.judge(parts, class, &mut conditions)).await;
        take(VALIDATION, step, &mut conditions);
        conditions.refresh_root();
        class.status.get_or_insert_default().conditions = Some(list);
        (next, errors)
    }

    async fn add_finalizer(&self, class: &EC2NodeClass) -> Result<EC2NodeClass, kube::Error> {
        let mut finalizers = class.metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(labels::EC2NODECLASS_TERMINATION_FINALIZER.to_owned());
        self.patch_finalizers(class, &finalizers).await
    }

    /// With the resource version: a list is replaced whole, so it must be the one we looked at.
    async fn patch_finalizers(&self, class: &EC2NodeClass, finalizers: &[String]) -> Result<EC2NodeClass, kube::Error> {
        let patch = json!({"metadata": {"resourceVersion": class.metadata.resource_version, "finalizers": finalizers}});
        let name = class.metadata.name.as_deref().unwrap_or_default();
        self.api().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    async fn write_status(&self, class: &EC2NodeClass) -> Result<(), kube::Error> {
        let name = class.metadata.name.as_deref().unwrap_or_default();
        self.api().replace_status(name, &PostParams::default(), class).await.map(|_| ())
    }

    fn api(&self) -> Api<EC2NodeClass> {
        Api::all(self.client.clone())
    }
}

/// Each with what caused it.
fn joined(errors: &[BoxError]) -> String {
    errors.iter().map(|error| karpenter_provider::chain(error.as_ref())).collect::<Vec<_>>().join("; ")
}

/// Every step may be cut off anywhere: the process may end there as well.
async fn in_time(end: Instant, step: impl Future<Output = Step>) -> Step {
    let late = |_| Err(format!("AWS did not answer within the {} s of a look", LOOK.as_secs()).into());
    timeout_at(end, step).await.unwrap_or_else(late)
}

fn has_finalizer(class: &EC2NodeClass) -> bool {
    let finalizers = class.metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|name| name == labels::EC2NODECLASS_TERMINATION_FINALIZER)
}

pub(crate) fn is_status(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_said_with_its_cause() {
        let cause = std::io::Error::other("no route to host");
        let nested = ProviderError::new("listing pools", cause);
        let errors: Vec<BoxError> = vec![nested.into(), "getting subnets".into()];
        assert_eq!(joined(&errors), "listing pools failed: no route to host; getting subnets");
    }

    /// Whoever drives these runs them on any thread. The compiler finds out late where one cannot be.
    #[expect(dead_code, reason = "compiled, never called")]
    fn futures_can_be_sent(controller: &NodeClassController, class: &EC2NodeClass, claim: &karpenter_api::NodeClaim) {
        fn must<T: Send>(_: T) {}
        must(controller.reconcile(class));
        must(controller.reconcile_hash(class));
        must(crate::tagging::tag(&controller.parts, &controller.client, claim));
        must(crate::sweep::profiles(&controller.parts, &controller.client));
    }
}
