//! The client against a server that no one here wrote: moto's, as far as it goes.
#![allow(clippy::unwrap_used, reason = "tests, which this lint knows only inside the crates")]

#[path = "moto/calls.rs"]
mod calls;
#[path = "moto/provider.rs"]
mod provider;
#[path = "moto/proxy.rs"]
mod proxy;
#[path = "moto/server.rs"]
mod server;
