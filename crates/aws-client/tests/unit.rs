//! The tests beside the code, under a name of their own.
#![allow(unreachable_pub, dead_code, reason = "modules of the crate, seen alone")]

#[path = "../src/network.rs"]
mod network;
#[path = "../src/retries.rs"]
mod retries;
