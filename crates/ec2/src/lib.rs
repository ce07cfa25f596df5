//! What EC2 facts mean: which instance types there are, what a node of each offers pods, and at what price.
//!
//! ```text
//!   folder ─▶ text ──┐
//!   builtin ─────────┼─▶ Catalogue ─┐
//!   EC2Client ───────┘              ├─▶ instance_types() ─▶ Vec<InstanceType> ─▶ scheduler, listing
//!   EC2NodeClass ─▶ NodeClassFacts ─┤     requirements, capacity, overhead,
//!   settings, circumstances ────────┘     fit, offerings
//! ```
//!
//! What a node class launches with is here too: `images` finds and chooses them, `userdata` tells a node who it is;
//! `interruption` reads what EventBridge says about instances.
//!
//! Pure, but for `catalogue::folder`, which reads files: no SDK, no clock, no environment.

pub mod capacity;
pub mod catalogue;
pub mod circumstances;
pub mod family;
mod fit;
pub mod images;
pub mod instance_types;
pub mod interruption;
pub mod kubelet;
pub mod labels;
pub mod listing;
pub mod nodeclass;
mod offerings;
mod overhead;
mod requirements;
pub mod settings;
#[cfg(test)]
mod testing;
mod texts;
pub mod userdata;
mod zones;

pub use catalogue::Catalogue;
pub use circumstances::Circumstances;
pub use family::AmiFamily;
pub use instance_types::{InstanceTypesError, Place, instance_types, resolve};
pub use labels::vocabulary;
pub use nodeclass::NodeClassFacts;
pub use settings::Ec2Settings;
