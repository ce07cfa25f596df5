//! An in-memory Kubernetes API server: the real semantics, in the process, without etcd.
//!
//! ```text
//!   request ── auth ── faults ── dispatch ─┬─ read    get, list, watch
//!                                          ├─ write   decode, admit, validate, store
//!                                          ├─ delete  grace, finalizers, garbage collection
//!                                          └─ discovery, OpenAPI, health
//! ```
//!
//! [`ApiServer::service`] is a tower service for a client in the process; `https` serves the same over TLS.
//! The clock is an argument, and everything drawn at random follows from a seed, but what keeps strangers out.

mod admission;
mod aggregation;
mod apply;
mod auth;
mod body;
mod bootstrap;
mod clock;
mod conversion;
mod convert;
mod crd;
mod custom;
mod delete;
mod discovery;
mod dispatch;
mod error;
mod escalation;
mod faults;
mod gc;
mod go_json;
mod history;
mod https;
mod ids;
mod input;
mod invariants;
mod managed;
mod openapi;
mod patch;
mod planted;
mod pods;
mod rbac;
mod read;
mod registry;
mod render;
mod request;
mod reviews;
mod scale;
mod server;
mod state;
mod store;
mod tokens;
mod watch;
mod write;

pub use body::Body;
pub use clock::{Clock, SystemClock, TokioClock};
pub use error::ApiError;
pub use faults::{Effect, Fault};
pub use history::{Digest, Verb, Write};
pub use https::{Listening, ServeError, clear_kubeconfig};
#[doc(hidden)]
pub use planted::Planted;
pub use request::User;
pub use server::{ApiServer, Options, Service};
