//! Scenarios of a cluster's life on a simulated region, in virtual time.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

#[path = "inside/place.rs"]
mod place;
#[path = "inside/scenarios.rs"]
mod scenarios;
