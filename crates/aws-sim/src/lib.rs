//! A region that is simulated below the provider: the AWS calls it needs, answered from a seed.
//!
//! ```text
//!   provider-aws ──calls──▶ Region: types, prices, stock, instances, templates, queue ──machines──▶ kubelets
//!                             ▲ latency, limits, staleness, refusals, reclaims: drawn from the seed, or scripted
//! ```
//!
//! One seed, one history: whatever is left to chance is drawn from the seed and the names involved, and time is
//! tokio's, so paused time is virtual time. A machine reads the user data it was launched with ([`boot`]); what its
//! Node says comes from there. Whoever plays the kubelets gets machines as plain data ([`Region::machines`]).

pub mod boot;
pub mod chance;
pub mod cloud_controller;
pub mod faults;
pub mod machine;
mod market;
mod names;
pub mod options;
pub mod queue;
pub mod region;
mod small;
pub mod store;

pub use chance::Span;
pub use faults::{Script, Target};
pub use machine::{Machine, MachineEvent};
pub use options::{Capacity, Limits, Options, Rates};
pub use queue::Warning;
pub use region::{Forbidden, Region, SimInstance};
