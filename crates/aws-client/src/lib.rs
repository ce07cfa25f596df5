//! AWS over the wire: the provider's calls on the official SDK.
//!
//! ```text
//!   provider-aws::calls ◀── ec2, services: one method, one call, plain types in and out
//!                            │  faults: the SDK's errors as ours
//!                            │  requests: each call and each attempt counted and timed
//!                            ▼
//!                          connect: credentials, region, endpoints, retries ──▶ network: proxy, certificates, TLS
//! ```
//!
//! Thin on purpose: pages are read to their end, and nothing is decided here. The SDK takes minutes to build, so all of
//! it is behind the feature `sdk`.
#![cfg(feature = "sdk")]

pub mod connect;
mod ec2;
mod faults;
mod network;
mod plain;
pub mod requests;
mod retries;
mod services;

pub use connect::{CallTimeouts, ConnectError, Connection, Options, connect};
pub use requests::Requests;
pub use services::Caller;
