//! The AWS provider over a simulated region, with its node classes in the embedded API server, in virtual time.

#![allow(clippy::unwrap_used, reason = "tests, which this lint knows only inside the crates")]

mod conformance;
mod details;
mod groups;
mod interruptions;
mod lab;
mod launches;
mod node_classes;
mod overlays;
mod permissions;
mod policies;
mod refusals;
mod regions;
mod seeds;
mod shifts;
mod small;
mod startup;
mod stores;
mod takeover;
