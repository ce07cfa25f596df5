//! From settings to a running autoscaler: what runs, how it is asked after its health, and what it says.
//!
//! ```text
//!   client, clock ─┐
//!   AWS calls ─────┼─▶ Amazon: provider, its reconcilers, its tasks ─┐
//!   settings ──────┘                                                 ├─▶ Autoscaler ──▶ Engine + tasks
//!                        roster: everything that runs ───────────────┘        └──▶ serve: /healthz /readyz /metrics
//!   lease: which replica works; leadership: nothing is done without it; webhook: objects of v1beta1
//!   client: the way to the API server; requests: how fast we ask; deadline: how long we wait
//!   log: tracing events as lines people and log shippers read
//! ```
//!
//! Nothing here knows whether the client speaks to EKS or to a server in the same process, whether the AWS calls go
//! over the wire, or whether time is virtual.

mod amazon;
mod autoscaler;
pub mod client;
mod connections;
pub mod deadline;
pub mod leadership;
pub mod lease;
pub mod log;
mod metered;
pub mod metrics;
mod process;
mod profile;
pub mod requests;
mod roster;
pub mod serve;
pub mod webhook;

pub use amazon::Amazon;
pub use autoscaler::Autoscaler;
pub use roster::roster;
