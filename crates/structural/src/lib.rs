//! What a Kubernetes API server knows of the shape of objects, as pure functions over JSON values.
//!
//! ```text
//!   apply   server-side apply, and who owns which field
//!   cel     the validation rules of custom resources
//!   patch   a patch and an object in, the patched object out: JSON patch, merge patch, strategic merge patch
//!   schema  the schema of a custom resource: checks, pruning, defaults, validation
//!   shape   which lists are keyed, which maps are atomic: of the built-in kinds, and of custom resources
//!   strict  reading JSON, with the fields that are unknown or come twice
//!   field   errors about fields, and their paths
//! ```
//!
//! Messages are those of kube-apiserver 1.36, because users and their tests read them.

pub mod apply;
pub mod cel;
pub mod field;
pub mod patch;
pub mod schema;
pub mod shape;
pub mod strict;

mod go;
mod net;
mod re2;
#[cfg(test)]
mod testing;
mod time;
