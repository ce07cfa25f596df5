//! What Kubernetes 1.36 knows of its built-in kinds, as pure functions and tables.
//!
//! ```text
//!   resources   what is served: groups, versions, names, verbs, subresources
//!   types       the structs behind the kinds, field by field
//!   decode      JSON in, the JSON a Go server would store out; duplicates finds fields that are given twice
//!   protobuf    the same objects as Go clients send them
//!   defaults    what a version fills in
//!   strategy    what a create or an update may touch, and when the generation moves
//!   validate    what is refused, and in which words
//!   review      all of that at once, for whoever wrote the object: misfit says what does not fit its type, suggest
//!               what was meant
//!   printers    the tables kubectl shows
//!   selector    label and field selectors; selectable says which fields there are
//! ```
//!
//! Messages are those of kube-apiserver, because users and their tests read them.

pub mod decode;
pub mod defaults;
pub mod duplicates;
pub mod fielderror;
pub mod misfit;
pub mod names;
pub mod pods;
pub mod printers;
pub mod protobuf;
pub mod quantity;
pub mod resources;
pub mod review;
pub mod selectable;
pub mod selector;
pub mod strategy;
pub mod suggest;
pub mod times;
pub mod types;
pub mod validate;
pub mod warnings;
