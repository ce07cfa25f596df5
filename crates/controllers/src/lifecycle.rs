//! A NodeClaim's life: launched, registered, initialized; given up if it takes too long; and its end.

pub mod finalize;
pub mod initialization;
pub mod launch;
pub mod liveness;
pub mod registration;
