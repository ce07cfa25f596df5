//! What a NodePool says of itself.

pub mod counter;
pub mod hash;
pub mod health;
pub mod readiness;
pub mod validation;
