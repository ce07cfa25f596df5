//! What surrounds an autoscaler in a cluster.
pub mod chance;
pub mod key;
pub mod quantity;
pub mod resources;
pub mod scheduler;
pub mod selector;
