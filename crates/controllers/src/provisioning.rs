//! From pods that wait to NodeClaims.

pub mod claim;
pub mod why;
