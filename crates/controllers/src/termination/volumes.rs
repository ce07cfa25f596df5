//! Which volumes a Node's end waits for. A volume that is still attached when its machine dies can be attached elsewhere
//! only minutes later, and its pod waits so long.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_index::Attachment;

/// How many attachments an event names.
const NAMED: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volumes {
    Detached,
    Awaiting {
        message: String,
    },
    /// The deadline has passed; whatever is attached goes with the machine.
    GaveUp,
}

/// `kept` are the volumes of pods that stay until the end and so never let go of them.
pub fn judge(
    attachments: &[Arc<Attachment>],
    kept: &BTreeSet<Arc<str>>,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Volumes {
    let pending: Vec<&str> = attachments
        .iter()
        .filter(|attachment| attachment.volume.as_ref().is_some_and(|volume| !kept.contains(volume)))
        .map(|attachment| &*attachment.name)
        .collect();
    if pending.is_empty() {
        return Volumes::Detached;
    }
    if deadline.is_some_and(|deadline| now > deadline) {
        return Volumes::GaveUp;
    }
    let mut names = pending.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if pending.len() > NAMED {
        names.push_str(&format!(" and {} other(s)", pending.len() - NAMED));
    }
    Volumes::Awaiting { message: format!("Awaiting deletion of bound volumeattachments ({names})") }
}

#[cfg(test)]
mod tests;
