//! The vocabulary of the autoscaler: what pods ask for, what nodes have, what can be bought.
//!
//! ```text
//!   quantity ── resources ─┐
//!   labels ── requirements ┼─ pod, node, pool, instance ── world ──▶ solver ──▶ plan
//!   taints ── ports ───────┘
//! ```
//!
//! Everything here is plain data with exact semantics and no I/O. The solvers compile it into small integers;
//! `verify` reads it as it is and judges them.

pub mod do_not_disrupt;
pub mod duration;
pub mod instance;
pub mod labels;
pub mod named;
pub mod node;
pub mod plan;
pub mod pod;
pub mod pool;
pub mod ports;
pub mod price;
pub mod quantity;
pub mod requirement;
pub mod requirements;
pub mod resources;
pub mod selector;
pub mod settings;
pub mod storage;
pub mod taints;
pub mod world;

pub use instance::{InstanceType, Offering, Overhead, Reservation};
pub use labels::Labels;
pub use named::Named;
pub use node::Node;
pub use pod::{Pod, PodShape};
pub use pool::Pool;
pub use price::MicroUsd;
pub use quantity::Quantity;
pub use requirement::{Operator, Requirement};
pub use requirements::{RequirementMap, Requirements};
pub use resources::Resources;
pub use taints::{Taint, Toleration};
pub use world::World;
