//! The series of these controllers, in one registry. Names are upstream's; each controller adds its own here.

use std::sync::Mutex;

use prometheus_client::registry::Registry;

#[derive(Debug, Default)]
pub struct Metrics {
    /// Rendered by whoever serves `/metrics`.
    pub registry: Mutex<Registry>,
}
