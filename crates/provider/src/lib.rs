//! The seam between the autoscaler and a cloud.
//!
//! ```text
//!   controllers ──▶ CloudProvider ──▶ a cloud's own logic and calls
//!                     NodeClaim in, Machine out; errors cut by what the caller can do about them
//! ```
//!
//! The trait is object-safe, so that no caller is generic over a cloud. What a cloud hands back is plain data; nothing
//! here reads the cluster or writes to it, except that a provider may look up its own node classes.

mod error;
mod machine;
pub mod node_class;
mod notice;
pub mod overlay;
mod repair;

#[cfg(feature = "conformance")]
pub mod conformance;

use std::sync::Arc;

use async_trait::async_trait;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::InstanceType;

pub use error::{BoxError, DeleteError, GetError, LaunchError, ProviderError, TypesError, chain};
pub use machine::Machine;
pub use node_class::NodeClassKind;
pub use notice::{Notice, Recorder, Severity, Silent, Subject};
pub use repair::{RepairPolicy, Verdict};

/// Instance types as a pool would run them. Shared: a list of a thousand types is handed out at every pass.
pub type InstanceTypes = Arc<[Arc<InstanceType>]>;

/// Whether a launched machine's Node may be registered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    Proceed,
    /// The provider does not know everything about the machine yet; ask again.
    Wait {
        why: String,
    },
    /// These labels became known and belong on the claim before it registers; write them, then proceed.
    Relabel(Vec<(String, String)>),
}

#[async_trait]
pub trait CloudProvider: Send + Sync {
    /// For metrics and messages.
    fn name(&self) -> &'static str;

    /// The kinds a `nodeClassRef` may name. The first is the default.
    fn node_class_kinds(&self) -> &'static [NodeClassKind];

    /// Launches a machine for the claim. Calling it again with the same claim (the same UID) after a crash gives the
    /// same machine, as long as the cloud remembers the launch.
    async fn create(&self, claim: &NodeClaim) -> Result<Machine, LaunchError>;

    /// `Ok`: termination has begun or was under way already. Callers ask again until [`DeleteError::NotFound`] tells
    /// that the machine is gone.
    async fn delete(&self, claim: &NodeClaim) -> Result<(), DeleteError>;

    async fn get(&self, provider_id: &str) -> Result<Machine, GetError>;

    /// Every machine of this cluster that the cloud still has, also those on their way out.
    async fn list(&self) -> Result<Vec<Machine>, ProviderError>;

    /// Everything the pool's node class could run, also what nothing sells just now. A pool whose node class is missing
    /// or being deleted gets an empty list.
    async fn instance_types(&self, pool: &NodePool) -> Result<InstanceTypes, TypesError>;

    /// Why the claim's machine is no longer what its node class asks for, in the provider's own words.
    /// [`GetError::NotFound`]: there is no machine any more to say it of.
    async fn is_drifted(&self, claim: &NodeClaim) -> Result<Option<String>, GetError>;

    /// Node conditions that mean a machine should be replaced, and for how long they are borne.
    fn repair_policies(&self) -> Vec<RepairPolicy>;

    /// Disruption reasons beyond the autoscaler's own.
    fn disruption_reasons(&self) -> Vec<String> {
        Vec::new()
    }

    /// What of these types of the pool is not as the cloud has it, but as people say: see [`overlay`].
    fn overlay_marks(&self, _pool: &str, _types: &[&str]) -> overlay::Marks {
        overlay::Marks::default()
    }

    /// Asked before a claim's Node is registered.
    async fn registration(&self, _claim: &NodeClaim) -> Result<Registration, ProviderError> {
        Ok(Registration::Proceed)
    }
}
