//! Commands that validation refused: none is proposed again before something it depends on has changed.
//!
//! A command holds on the snapshot that it is decided on, so whatever validation refuses was decided on another. Were the same
//! command found again all the same, it would be refused again, and the ones that save less would never have their turn.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_disruption::{Command, Refused, Target};
use rustc_hash::{FxHashMap, FxHasher};

use super::picture::Picture;
use crate::clock::later;

/// After this it is tried again, whatever it depends on that is not looked at here.
const FORGOTTEN: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct RefusedCommands {
    known: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    command: Refused,
    /// Every node it concerns.
    nodes: BTreeSet<Arc<str>>,
    /// What those were when it was refused.
    seen: u64,
    at: Timestamp,
}

impl RefusedCommands {
    /// `decided` is the cluster that the command was decided on, `now` the one that it did not hold in.
    pub(super) fn add(&mut self, decided: &Picture, command: &Command, now: &Picture) {
        let targets = command.moves.iter().chain(&command.later.moves).filter_map(|moved| match moved.to {
            Target::Node(at) => Some(decided.world.nodes[at].name.clone()),
            Target::Replacement(_) => None,
        });
        let candidates = command.all_candidates().map(|candidate| candidate.name.clone());
        let nodes: BTreeSet<Arc<str>> =
            candidates.chain(targets).chain(command.assumes.closed.iter().cloned()).collect();
        let seen = state_of(now, &nodes);
        self.known.push(Known { command: Refused::of(command), nodes, seen, at: now.world.now });
    }

    /// Those for which everything is as it was.
    pub(super) fn still(&mut self, now: &Picture) -> BTreeSet<Refused> {
        self.known
            .retain(|known| now.world.now < later(known.at, FORGOTTEN) && known.seen == state_of(now, &known.nodes));
        self.known.iter().map(|known| known.command.clone()).collect()
    }
}

/// These nodes with their facts and pods, the pods that wait, and the rules of all pools.
fn state_of(picture: &Picture, names: &BTreeSet<Arc<str>>) -> u64 {
    let snapshot = picture.snapshot();
    let mut hasher = FxHasher::default();
    let mut text = String::new();
    let mut pods: FxHashMap<Option<&str>, Vec<&str>> = FxHashMap::default();
    for pod in &snapshot.world.pods {
        let node = pod.node.as_deref();
        if node.is_none_or(|name| names.contains(name)) {
            pods.entry(node).or_default().push(&pod.uid);
        }
    }
    for (node, facts) in snapshot.world.nodes.iter().zip(&snapshot.nodes) {
        if names.contains(&node.name) {
            node.name.hash(&mut hasher);
            node.deleting.hash(&mut hasher);
            pods.get(&Some(&*node.name)).hash(&mut hasher);
            text.clear();
            let _ = write!(text, "{facts:?} {:?}", node.labels);
            text.hash(&mut hasher);
        }
    }
    pods.get(&None).hash(&mut hasher);
    for (name, pool) in &snapshot.pools {
        name.hash(&mut hasher);
        (Arc::as_ptr(&pool.instance_types).cast::<u8>() as usize).hash(&mut hasher);
        text.clear();
        let _ = write!(text, "{:?} {:?} {:?} {}", pool.policy, pool.consolidate_after, pool.budgets, pool.paused);
        text.hash(&mut hasher);
    }
    hasher.finish()
}
