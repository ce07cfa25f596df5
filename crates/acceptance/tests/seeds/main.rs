//! What five teams do with it, as they wrote it down: `examples/seeds`, applied to the embedded API server, planned, and
//! lived through with the whole autoscaler over a simulated region in virtual time.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

mod account;
mod files;
mod heard;
mod kinds;
mod lab;
mod older;
mod pinned;
mod plans;
mod platform;
mod replicas;
mod shared_gpus;
mod spot;
mod swap;
mod words;
