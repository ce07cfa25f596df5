//! The AWS provider: all its logic, over small traits of the AWS calls it needs.
//!
//! ```text
//!   NodeClaim ──▶ provider ──▶ launch: candidates ─▶ template ─▶ fleet ──┐
//!                    │           └ learns from refusals: unavailable     ├──▶ calls: traits in plain types
//!   EC2NodeClass ──▶ node_class: images, subnets, groups, profile ───────┤      aws-client  over the wire
//!                    tasks: prices, types, sweeps, tagging ──────────────┘      aws-sim     a simulated region
//! ```
//!
//! Decisions are pure functions beside the code that makes the calls. Nothing here names an SDK.

pub mod batcher;
pub mod calls;
pub mod demotion;
mod drift;
pub mod errors;
pub mod expiring_blocks;
mod fnv;
pub mod images;
pub mod instance_status;
pub mod instances;
pub mod interruption;
pub mod launch;
pub mod memory;
pub mod node_class;
pub mod objects;
pub mod offering_series;
mod own_kubelet;
pub mod permissions;
pub mod placement_groups;
pub mod prices;
pub mod profiles;
pub mod provider;
pub mod reservations;
pub mod security_groups;
pub mod settings;
pub mod startup;
pub mod subnets;
pub mod sweep;
pub mod tagging;
mod tags;
pub mod tasks;
pub mod templates;
#[cfg(test)]
mod testing;
pub mod ttl;
pub mod types;
pub mod unavailable;
pub mod version;
pub mod zonal_shift;

pub use calls::Aws;
pub use node_class::NodeClassController;
pub use objects::{LiveObjects, Objects};
pub use provider::{AwsProvider, Observer, Parts, Unobserved};
pub use settings::Settings;
pub use tasks::{Task, tasks};
