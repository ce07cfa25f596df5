//! The one owner of what is known of the cluster: watch events in, immutable snapshots out.
//!
//! ```text
//!   Pod, Node, NodeClaim, DaemonSet, …  ──reduce──▶  stores ──▶ machines, usage, plans  ──snapshot──▶  Arc<World>
//!                                                      └──▶ Change: what each event changed
//! ```
//!
//! A full Pod is kilobytes; placing it needs a shape that its replicas share and a few fields of its own, so objects are
//! reduced as they come in. `reduce` is pure functions of objects; [`Index`] keeps the results and never does I/O: who
//! reads the objects, and when, is somebody else's business.

mod change;
pub mod facts;
mod index;
mod key;
mod kind;
mod machine;
mod object;
pub mod path;
pub mod reduce;
mod snapshot;
mod store;
mod unreadable;

pub use change::{Change, Pair, What};
pub use index::{Index, Options};
pub use key::Key;
pub use kind::{Features, Kind, NodeClassKind};
pub use machine::{Machine, MachineId};
pub use object::{Attachment, NodeClass, NodeClassStatus, Object, TrackedPod};
pub use path::Path;
pub use reduce::{Fault, Interner, Refused};
pub use unreadable::{News, Unreadable};
