//! Nothing but tests: of what an operator installs (charts, stacks, modules, dashboards), and of what users do with it, as
//! they wrote it down.
//!
//! ```text
//!   tests/delivery/   charts, deploy, dashboards: read as data, rendered by helm where there is one (HELM)
//!   tests/seeds/      examples/seeds: applied to the embedded API server, planned, and lived through in virtual time
//! ```
