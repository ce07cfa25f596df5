//! Answers of AWS, replayed over HTTP: what our requests say and what we make of what comes back. The answers' shapes
//! are checked against AWS's own models by `.ci/check-answers`.
#![allow(clippy::unwrap_used, reason = "tests, which this lint knows only inside the crates")]

#[path = "replay/ec2.rs"]
mod ec2;
#[path = "replay/errors.rs"]
mod errors;
#[path = "replay/mutated.rs"]
mod mutated;
#[path = "replay/server.rs"]
mod server;
#[path = "replay/services.rs"]
mod services;
