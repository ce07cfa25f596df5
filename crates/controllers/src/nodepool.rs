//! What a NodePool says of itself: its hash, whether its class is ready, whether it makes sense, whether its nodes come
//! up, and what they are together.

pub mod counter;
pub mod hash;
pub mod health;
pub mod readiness;
pub mod validation;

mod controllers;

use std::sync::{Arc, Mutex, PoisonError};

pub use controllers::{Counter, Hash, Readiness, RegistrationHealth, Validation};
use health::Registrations;

/// The outcomes, shared by those who see them and those who judge them.
#[derive(Clone, Debug, Default)]
pub struct SharedRegistrations(Arc<Mutex<Registrations>>);

impl SharedRegistrations {
    pub fn with<T>(&self, f: impl FnOnce(&mut Registrations) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
