//! From Kubernetes objects to what decisions are made from.
//!
//! ```text
//!   Pod, Node, NodeClaim, DaemonSet, …  ──reduce──▶  core's Pod, Node, …  ──▶  World
//! ```
//!
//! A full Pod is kilobytes; placing it needs a shape that its replicas share and a few fields of its own. Everything
//! here is a pure function of the objects: who reads them, and when, is somebody else's business.

pub mod path;
pub mod reduce;

pub use path::Path;
pub use reduce::{Fault, Interner, Refused};
