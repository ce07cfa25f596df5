//! Virtual time around all of it: a cluster, a simulated region and the real controllers in one process; scripts and
//! faults in, reports out.
//!
//! ```text
//!   Season: who scales when, what users change ─┐
//!   Trouble: what goes wrong ───────────────────┼──▶ World: API server, cluster, region, controllers ──▶ Audit ──▶ Report
//!   a seed ─────────────────────────────────────┘
//! ```
//!
//! Time is tokio's: on a single-threaded runtime with paused time a week takes as long as the machine needs for what
//! happens in it, and the same seed gives the same history to the byte. The seed is the whole bug report.

pub mod audit;
pub mod machines;
mod pools;
mod process;
pub mod report;
pub mod season;
pub mod trouble;
pub mod unreadable;
mod wire;
mod workload;
pub mod world;

pub use audit::{Audit, EventFate};
pub use report::Report;
pub use season::{Season, run};
pub use world::{Setup, StartError, World};
