//! The controllers: one module per reconciler, each observing, deciding and applying.
//!
//! ```text
//!   API server ──watch──▶ Index ──Change──▶ queues ──key──▶ Reconciler ──┬─▶ API server (the answers go into the Index)
//!                           ▲                                          ├─▶ CloudProvider
//!                           └──────────── snapshots, marks, plans ◀────┴─▶ Recorder: decisions, Events, logs
//! ```
//!
//! [`Engine`] is the one task that reads, wakes and retries. On a single-threaded runtime with paused time the same
//! seed gives the same writes in the same order. Every decision is a pure function beside its reconciler.

pub mod amounts;
pub mod buffers;
pub mod clock;
mod compute;
pub mod consistency;
mod context;
pub mod decision;
pub mod disruption;
pub mod engine;
pub mod error;
pub mod expiration;
pub mod freshness;
pub mod garbage;
pub mod hydration;
pub mod lifecycle;
pub mod metrics;
pub mod nodepool;
pub mod nomination;
pub mod overlays;
pub mod ownership;
pub mod patch;
pub mod pods;
pub mod pricing;
pub mod provisioning;
pub mod pulse;
pub mod reconciler;
pub mod recorder;
pub mod repair;
pub mod roster;
mod settings;
pub mod static_pools;
pub mod termination;
pub mod transitions;
mod unreadable;
pub mod waiting;
pub mod write;

pub use clock::Clock;
pub use compute::ComputeTime;
pub use context::{CommandObserver, Context, PlanObserver};
pub use engine::{Doing, Engine, Shift, as_controller, controller_name, doing, panic_text};
pub use error::{Error, Result};
pub use reconciler::{Action, Backoff, Reconciler};
pub use recorder::{ObjectRef, Recorder};
pub use settings::Settings;
