//! What a Kubernetes API server knows of the shape of objects, as pure functions over JSON values.
//!
//! ```text
//!   patch   a patch and an object in, the patched object out: JSON patch, merge patch, strategic merge patch
//!   shape   which lists are keyed, which maps are atomic: of the built-in kinds, and of custom resources
//! ```
//!
//! Messages are those of kube-apiserver 1.36, because users and their tests read them.

pub mod patch;
pub mod shape;

mod go;
#[cfg(test)]
mod testing;
