//! Everything the server knows, behind one lock: objects, what is served, and the source of names.

use jiff::Timestamp;
use karpenter_kinds::times;

use crate::ids::Ids;
use crate::planted::Planted;
use crate::registry::Registry;
use crate::store::Store;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) ids: Ids,
    /// The time of the request being served.
    pub(crate) now: Timestamp,
    /// Whether roles decide.
    pub(crate) rbac: bool,
    /// A fault of our own, in tests of the tests.
    pub(crate) planted: Option<Planted>,
}

impl State {
    pub(crate) fn now_text(&self) -> String {
        times::seconds(self.now)
    }
}
