//! Claims and nodes from launch to end, on an API server with kubelets, a scheduler and workload controllers around it,
//! over a small cloud.
//!
//! A scenario is written once. Here it runs on the embedded server in virtual time: waiting costs nothing. Against a
//! control plane of one's own (`KARPENTER_TEST_KUBECONFIG`) the same text runs in real time.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

#[path = "life/cloud.rs"]
mod cloud;
#[path = "life/crashes.rs"]
mod crashes;
#[path = "life/end.rs"]
mod end;
#[path = "life/objects.rs"]
mod objects;
#[path = "life/pools.rs"]
mod pools;
#[path = "life/scythe.rs"]
mod scythe;
#[path = "life/stage.rs"]
mod stage;
#[path = "life/start.rs"]
mod start;
