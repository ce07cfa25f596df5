//! What cannot be read is there: what is kept of it, and what is asked about it.

use std::sync::Arc;

use karpenter_core::selector::Selector;
use karpenter_core::world::DisruptionBudget;

use super::{Index, State};
use crate::change::{Change, Pair, What};
use crate::key::Key;
use crate::kind::Kind;
use crate::machine::MachineId;
use crate::object::{Attachment, NodeClass, TrackedPod};
use crate::reduce::{self, Fault, Reading, Refused};
use crate::store::version;
use crate::unreadable::{News, Unreadable};

/// What Kubernetes gives a pod that does not say.
const GRACE_SECONDS: i64 = 30;

impl Index {
    /// Objects that are there and cannot be read, or not in whole.
    pub fn unreadable_keys(&self, kind: Kind) -> Vec<Key> {
        self.state().unreadable.of(kind).map(|one| one.key.clone()).collect()
    }

    /// What could not be read since the last time this was asked, and how many objects of each kind cannot be read by
    /// now. Nothing if nothing has changed.
    pub fn take_unreadable(&self) -> Option<News> {
        self.state().unreadable.take_news()
    }

    /// Whether what is said of this object still holds.
    pub fn is_unreadable(&self, one: &Unreadable) -> bool {
        self.state().unreadable.get(one.kind, &one.key).is_some_and(|now| now.why == one.why && now.uid == one.uid)
    }

    /// The object of this name, if it cannot be read. It counts as it last was, and nothing is to be done to it.
    pub fn unreadable(&self, kind: Kind, key: &Key) -> Option<Arc<Unreadable>> {
        self.state().unreadable.get(kind, key).filter(|one| !one.partly).cloned()
    }

    /// The provider needs more of a node class than is kept here, and cannot read it. A later version is looked at anew.
    pub fn note_unreadable_class(&self, class: &NodeClass, why: &str) {
        let (key, at) = (Key::of(&class.metadata), version(&class.metadata));
        let mut state = self.state();
        if state.node_classes.get(&key).is_some_and(|known| version(&known.metadata) == at) {
            let fault = Fault { field: String::new(), message: why.to_owned() };
            let refused = Refused { object: String::new(), faults: vec![fault] };
            let uid = class.metadata.uid.as_deref().unwrap_or_default();
            state.unreadable.note(Unreadable::refused(Kind::NodeClass, &key, uid, at, &refused, true));
        }
    }

    /// NodeClaims that cannot be read: each holds an instance.
    pub fn unreadable_claims(&self) -> Vec<Arc<Unreadable>> {
        self.state().unreadable.of(Kind::NodeClaim).filter(|one| !one.partly).cloned().collect()
    }

    /// A NodeClaim that cannot be read and holds this instance.
    pub fn unreadable_claim_of(&self, provider_id: &str) -> Option<Arc<Unreadable>> {
        let state = self.state();
        let mut claims = state.unreadable.of(Kind::NodeClaim).filter(|one| !one.partly);
        claims.find(|one| one.provider_id.as_deref() == Some(provider_id)).cloned()
    }

    /// A Node that cannot be read and is, or may be, this instance's.
    pub fn unreadable_node_of(&self, provider_id: &str) -> Option<Arc<Unreadable>> {
        let state = self.state();
        let id = MachineId::Provider(provider_id.into());
        let known = state.machines.members(&id).map(|members| &members.nodes);
        // One that does not say whose it is may be that of any instance whose Node is not known.
        let may_be = |one: &&Arc<Unreadable>| match &one.provider_id {
            Some(id) => **id == *provider_id,
            None => known.is_none_or(|nodes| nodes.is_empty() || nodes.contains(&one.key.name)),
        };
        state.unreadable.of(Kind::Node).filter(|one| !one.partly).find(may_be).cloned()
    }

    /// A pod that may be running on this Node and whose needs are not known: no other place can be found for it.
    pub fn pinned_by(&self, node: &str) -> Option<Key> {
        self.state().pinned_on.get(node).and_then(|pods| pods.first()).cloned()
    }
}

impl State {
    /// An object that could not be decoded. Pods, budgets and attachments count for the most they may be; of the others
    /// it is only remembered that they are there.
    pub(super) fn put_unreadable(&mut self, one: Unreadable) -> Option<Change> {
        self.panics += u64::from(one.panicked);
        let rest = Unreadable { pod: None, ..one.clone() };
        let kept = self.guarded(|state| state.keep(one));
        if kept.is_none() {
            self.unreadable.note(rest);
            self.unreadable.end();
        }
        kept?
    }

    fn keep(&mut self, mut one: Unreadable) -> Option<Change> {
        #[cfg(test)]
        super::planted(&one.key, "a-bug-about-the-unreadable");
        let (kind, key, at) = (one.kind, one.key.clone(), one.version);
        self.unreadable.begin(kind, &key);
        let what = match kind {
            Kind::Pod => {
                let object = one.pod.take().unwrap_or_default();
                let mut tracked = reduce::read_pod(&object, &mut self.interner);
                tracked.reading = Reading::Partial(Box::new(one.as_refused()));
                tracked.grace_seconds = tracked.grace_seconds.or(Some(GRACE_SECONDS));
                Some(self.file_pod(&key, at, tracked))
            }
            Kind::PodDisruptionBudget => {
                self.budgets.put(key.clone(), at, Arc::new(closed_budget(&key)));
                Some(What::Other)
            }
            Kind::VolumeAttachment => {
                let new = Arc::new(Attachment {
                    name: key.name.clone(),
                    node: one.node.clone().unwrap_or_default(),
                    volume: Some("unknown".into()),
                    deleting: false,
                });
                let old = self.attachments.put(key.clone(), at, new.clone());
                self.file_attachment(&key, old.as_deref(), Some(&new));
                Some(What::Other)
            }
            _ => None,
        };
        if kind == Kind::NodeClaim {
            // Nobody launches it as it is, and all others do not wait for it.
            self.unlaunched.remove(&key.name);
        }
        one.partly = what.is_some();
        self.unsettled += 1;
        self.unreadable.note(one);
        self.unreadable.end();
        let change = Change { kind, key, initial: false, what: what? };
        self.settle(&change);
        Some(change)
    }

    /// Keeps a pod, however well it could be read.
    pub(super) fn file_pod(&mut self, key: &Key, at: u64, tracked: TrackedPod) -> What {
        if let Some(refused) = tracked.reading.refused() {
            let (refused, uid) = (refused.clone(), tracked.pod.uid.clone());
            self.unreadable.note(Unreadable::refused(Kind::Pod, key, &uid, at, &refused, true));
        }
        let new = Arc::new(tracked);
        What::Pod(Pair { old: self.pods.put(key.clone(), at, new.clone()), new: Some(new) })
    }

    /// A budget whose selector is not understood may select any pod of its namespace.
    pub(super) fn file_budget(&mut self, key: &Key, at: u64, uid: &str, budget: DisruptionBudget) {
        let unknown = budget.selector.as_ref().is_some_and(Selector::is_invalid);
        if unknown {
            let fault =
                Fault { field: "spec.selector".to_owned(), message: "has an operator that is not known".to_owned() };
            let refused = Refused { object: String::new(), faults: vec![fault] };
            self.unreadable.note(Unreadable::refused(Kind::PodDisruptionBudget, key, uid, at, &refused, true));
        }
        let budget = if unknown { closed_budget(key) } else { budget };
        self.budgets.put(key.clone(), at, Arc::new(budget));
    }
}

/// Selects every pod of its namespace, and allows no eviction for now.
fn closed_budget(key: &Key) -> DisruptionBudget {
    DisruptionBudget {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        selector: Some(Selector::new([])),
        never_allows: false,
        disruptions_allowed: 0,
        always_allows_unready: false,
    }
}
