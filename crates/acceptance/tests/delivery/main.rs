//! What an operator installs, read as data. Charts are rendered by the real helm where there is one; where there is none
//! the tests that need it say that they are passed over.

#![allow(clippy::unwrap_used, reason = "what surrounds the tests is test code too")]

mod cloudformation;
mod dashboards;
mod helm;
mod legacy;
mod objects;
mod permissions;
mod publishing;
mod reasons;
mod terraform;
mod upstream;
mod values;
