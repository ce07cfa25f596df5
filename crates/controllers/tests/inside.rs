//! The controllers over the embedded API server and the embedded cluster, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "inside/buffers.rs"]
mod buffers;
#[path = "inside/consolidation.rs"]
mod consolidation;
#[path = "inside/disruption.rs"]
mod disruption;
#[path = "inside/drift.rs"]
mod drift;
#[path = "inside/engine.rs"]
mod engine;
#[path = "inside/lab.rs"]
mod lab;
#[path = "inside/lines.rs"]
mod lines;
#[path = "inside/overlays.rs"]
mod overlays;
#[path = "inside/provisioning.rs"]
mod provisioning;
#[path = "inside/rolling.rs"]
mod rolling;
#[path = "life/scythe.rs"]
mod scythe;
#[path = "inside/shop.rs"]
mod shop;
#[path = "life/silence.rs"]
mod silence;
#[path = "inside/static_pools.rs"]
mod static_pools;
#[path = "inside/whole.rs"]
mod whole;
