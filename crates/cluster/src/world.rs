//! A mirror of the cluster's objects, fed by watches and by the answers to our own writes.
//!
//! An answer is taken in at once, so that the next decision sees what the last one did; a watch event that brings
//! nothing newer is dropped. That is what upstream's controllers keep "expectations" for.

pub mod kinds;
pub mod store;

pub use kinds::{Change, Kind, Object, World};
pub use store::Store;

#[cfg(test)]
mod tests;
