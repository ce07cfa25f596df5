//! What a watch event changed.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::{NodeClaim, NodeOverlay, NodePool};

use crate::key::Key;
use crate::kind::Kind;
use crate::object::{NodeClass, TrackedPod};

/// An object before and after. One of the two may be missing, never both.
#[derive(Clone, Debug)]
pub struct Change {
    pub kind: Kind,
    pub key: Key,
    /// It was there when we started: nothing has happened to it just now.
    pub initial: bool,
    pub what: What,
}

/// The kinds that somebody compares before and after; of the others only that they changed is told.
#[derive(Clone, Debug)]
pub enum What {
    Pod(Pair<TrackedPod>),
    Node(Pair<Node>),
    NodeClaim(Pair<NodeClaim>),
    NodePool(Pair<NodePool>),
    NodeClass(Pair<NodeClass>),
    NodeOverlay(Pair<NodeOverlay>),
    Other,
}

#[derive(Debug)]
pub struct Pair<T> {
    pub old: Option<Arc<T>>,
    pub new: Option<Arc<T>>,
}

impl<T> Clone for Pair<T> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

impl<T> Pair<T> {
    /// The object as it is now or, if it is gone, as it was.
    pub fn latest(&self) -> Option<&Arc<T>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    /// Both that exist, the older one first.
    pub fn both(&self) -> impl Iterator<Item = &Arc<T>> {
        self.old.iter().chain(&self.new)
    }
}

impl Change {
    pub fn pod(&self) -> Option<&Pair<TrackedPod>> {
        match &self.what {
            What::Pod(pair) => Some(pair),
            _ => None,
        }
    }

    pub fn node(&self) -> Option<&Pair<Node>> {
        match &self.what {
            What::Node(pair) => Some(pair),
            _ => None,
        }
    }

    pub fn node_claim(&self) -> Option<&Pair<NodeClaim>> {
        match &self.what {
            What::NodeClaim(pair) => Some(pair),
            _ => None,
        }
    }

    pub fn node_pool(&self) -> Option<&Pair<NodePool>> {
        match &self.what {
            What::NodePool(pair) => Some(pair),
            _ => None,
        }
    }

    pub fn node_class(&self) -> Option<&Pair<NodeClass>> {
        match &self.what {
            What::NodeClass(pair) => Some(pair),
            _ => None,
        }
    }
}
