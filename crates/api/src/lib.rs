//! The custom resources as they are on the wire.
//!
//! ```text
//!   raw value ──apply_defaults──▶ ──validate──▶ typed object ──admission──▶ faults, all of them, by field
//!                                                    │
//!                                                    └──▶ drift hashes, bit for bit those of the reference
//!   v1beta1 object ◀──conversion──▶ v1 object
//! ```
//!
//! The types are deliberately plain: what Kubernetes calls a string is a `String`, also where only a few spellings are
//! legal. A watch must never fail because one object among thousands holds an operator or a policy we do not know;
//! deciding that such an object is wrong is the job of [`validation`], which can say so by name.
//!
//! Fields that the CRD schema defaults are not optional here: they take the schema's default when absent, which is
//! what an API server would have filled in.

pub mod capacitybuffer;
pub mod conditions;
pub mod conversion;
mod crd;
mod defaulting;
pub mod duration;
pub mod ec2nodeclass;
pub mod hash;
mod kind;
pub mod labels;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
mod object;
mod quantity;
pub mod requirement;
mod schema;
pub mod validation;
mod yaml;

pub use capacitybuffer::CapacityBuffer;
pub use crd::{
    ConversionService, conversion_path, convertible_crd, crd, crd_file_name, crd_yaml, crds, crds_yaml, v1beta1_version,
};
pub use defaulting::{apply_defaults, apply_v1beta1_defaults};
pub use duration::{GoDuration, NillableDuration};
pub use ec2nodeclass::EC2NodeClass;
pub use hash::{EC2NODECLASS_HASH_VERSION, NODEPOOL_HASH_VERSION, ec2nodeclass_hash, nodepool_hash};
pub use k8s_openapi::api::core::v1::Taint;
pub use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
pub use kind::Kind;
pub use nodeclaim::NodeClaim;
pub use nodeoverlay::NodeOverlay;
pub use nodepool::NodePool;
pub use object::{Object, parse};
pub use validation::{Fault, validate, validate_change, validate_create, validate_update, validate_v1beta1};
pub use yaml::to_yaml;

use std::collections::BTreeMap;

/// Resource names to quantities. Integers on the wire are read as their text, which is also how they are written back.
pub type ResourceList = BTreeMap<String, Quantity>;
