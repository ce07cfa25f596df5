//! The whole cluster over the embedded API server, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "inside/bench.rs"]
mod bench;
#[path = "inside/corners.rs"]
mod corners;
#[path = "inside/lab.rs"]
mod lab;
#[path = "inside/life.rs"]
mod life;
#[path = "inside/nodes.rs"]
mod nodes;
#[path = "inside/storage.rs"]
mod storage;
#[path = "inside/workloads.rs"]
mod workloads;
