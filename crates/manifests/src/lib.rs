//! Manifests in, a whole cluster out: what `plan` and its relatives read instead of an API server.
//!
//! ```text
//!   files, folders, stdin ──source──▶ text ──document──▶ one JSON value at a time ──checks, strict──▶ typed objects
//!                                                                                                       │
//!     World ◀──world── nodes, pools, volumes completed ◀──complete── pods ◀──admission, workload────────┘
//! ```
//!
//! Input is read item by item and pods are reduced at once, so a dump of a hundred thousand pods costs little more than
//! its text. Whatever an API server would refuse in a new object is collected, in its words, and nothing is planned from
//! half-read input: [`load`] gives a world or every fault there is.

mod admission;
mod budget;
mod checks;
mod complete;
mod document;
mod gather;
mod identity;
mod kinds;
mod older;
mod parse_errors;
mod position;
mod raw;
mod refusals;
pub mod source;
mod strict;
mod workload;
mod world;
mod written;

pub use document::Place;
pub use raw::{RawObject, raw_objects};
pub use source::{Input, Source, SourceError, read_input, read_sources};
pub use strict::read_strictly;
pub use world::{InstanceTypesOf, Loaded, Options, load};
pub use written::{Lever, Written};

/// Something that is wrong with the input, where it is, and in which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFault {
    pub place: Place,
    /// `Pod default/web`; empty where it is not known what it would have been.
    pub object: String,
    pub field: String,
    pub message: String,
}

impl std::fmt::Display for InputFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.place)?;
        for part in [&self.object, &self.field, &self.message] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        Ok(())
    }
}
