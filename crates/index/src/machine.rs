//! Nodes and NodeClaims, joined: two objects, one machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;

use crate::reduce;

/// What makes two objects one machine: the provider id or, for somebody else's node that has none, its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineId {
    Provider(Arc<str>),
    Node(Arc<str>),
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Provider(id) => f.write_str(id),
            Self::Node(name) => write!(f, "node {name}"),
        }
    }
}

/// A machine and both its objects, of which one may be missing.
#[derive(Clone, Debug)]
pub struct Machine {
    pub id: MachineId,
    pub node: Option<Arc<Node>>,
    pub claim: Option<Arc<NodeClaim>>,
    /// As the solver sees it; `None` while there is nothing to place pods on.
    pub reduced: Option<Arc<karpenter_core::Node>>,
    /// A disruption command has chosen it.
    pub marked: bool,
}

/// Which objects belong to which machine, by name.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    members: BTreeMap<MachineId, Members>,
    id_of_node: BTreeMap<Arc<str>, MachineId>,
    id_of_claim: BTreeMap<Arc<str>, MachineId>,
}

#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) nodes: BTreeSet<Arc<str>>,
    pub(crate) claims: BTreeSet<Arc<str>>,
}

impl Machines {
    /// Files a Node under its machine; answers the machines that changed.
    pub(crate) fn node(&mut self, name: &Arc<str>, node: Option<&Node>) -> Vec<MachineId> {
        let id = node.map(|node| match reduce::provider_id(node) {
            Some(id) => MachineId::Provider(id.into()),
            None => MachineId::Node(name.clone()),
        });
        let before = match &id {
            Some(id) => self.id_of_node.insert(name.clone(), id.clone()),
            None => self.id_of_node.remove(name),
        };
        if let Some(old) = before.as_ref().filter(|old| Some(*old) != id.as_ref()) {
            self.leave(old, |members| members.nodes.remove(name));
        }
        if let Some(id) = &id {
            self.members.entry(id.clone()).or_default().nodes.insert(name.clone());
        }
        changed(before, id)
    }

    /// Files a NodeClaim under its machine; one that is not launched has none.
    pub(crate) fn claim(&mut self, name: &Arc<str>, claim: Option<&NodeClaim>) -> Vec<MachineId> {
        let id = claim.and_then(reduce::claim_provider_id).map(|id| MachineId::Provider(id.into()));
        let before = match &id {
            Some(id) => self.id_of_claim.insert(name.clone(), id.clone()),
            None => self.id_of_claim.remove(name),
        };
        if let Some(old) = before.as_ref().filter(|old| Some(*old) != id.as_ref()) {
            self.leave(old, |members| members.claims.remove(name));
        }
        if let Some(id) = &id {
            self.members.entry(id.clone()).or_default().claims.insert(name.clone());
        }
        changed(before, id)
    }

    pub(crate) fn members(&self, id: &MachineId) -> Option<&Members> {
        self.members.get(id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &MachineId> {
        self.members.keys()
    }

    pub(crate) fn of_node(&self, name: &str) -> Option<&MachineId> {
        self.id_of_node.get(name)
    }

    pub(crate) fn of_claim(&self, name: &str) -> Option<&MachineId> {
        self.id_of_claim.get(name)
    }

    fn leave(&mut self, id: &MachineId, remove: impl FnOnce(&mut Members) -> bool) {
        if let Some(members) = self.members.get_mut(id) {
            remove(members);
        }
        self.prune(id);
    }

    fn prune(&mut self, id: &MachineId) {
        if self.members.get(id).is_some_and(|members| members.nodes.is_empty() && members.claims.is_empty()) {
            self.members.remove(id);
        }
    }
}

fn changed(before: Option<MachineId>, now: Option<MachineId>) -> Vec<MachineId> {
    let mut ids: Vec<_> = before.into_iter().chain(now).collect();
    ids.dedup();
    ids
}
