//! A Node's end: closed, drained, its volumes detached, its machine terminated, and only then let go.

pub mod drain;
pub mod eviction;
pub mod node;
pub mod volumes;
