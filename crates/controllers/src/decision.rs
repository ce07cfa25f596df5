//! Decision records: one value for everything that was decided, from which views, logs and reports are rendered.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_core::plan;
use karpenter_core::{MicroUsd, Resources};

/// How many are kept for whoever comes later.
const KEPT: usize = 1000;

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// A NodeClaim was created for pods.
    Launch(Launch),
    /// A new node was planned and not bought after all.
    NotLaunched { pool: Arc<str>, why: String },
    /// No pool can host a pod.
    Unschedulable { pod: Arc<str>, why: String, nearest_miss: Option<String> },
    /// Nodes are taken out of service, once their replacements are there.
    Disrupt {
        reason: &'static str,
        /// `empty`, `drift`, `multi` or `single`.
        method: &'static str,
        nodes: Vec<String>,
        /// NodeClaims bought for them.
        replacements: Vec<String>,
        /// Millionths of a dollar per hour; only drift may pay more than before.
        savings: i64,
    },
    /// A static pool got claims, or lost some, to have as many as it should.
    Resized { pool: Arc<str>, replicas: u64, added: Vec<String>, removed: Vec<String> },
    /// A command was given up, and its nodes stay.
    RolledBack { reason: &'static str, nodes: Vec<String>, why: String },
}

/// A node that was bought, and what for.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    pub claim: Arc<str>,
    pub pool: Arc<str>,
    pub pods: Vec<String>,
    pub requests: Resources,
    /// All it may become, cheapest first.
    pub instance_types: Vec<Arc<str>>,
    /// What the cloud is expected to choose, and at what price.
    pub expected: plan::Launch,
}

/// A decision, when it was made, and its number: they count up without a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub number: u64,
    pub at: Timestamp,
    pub decision: Decision,
}

/// What the last pass of disruption found out about a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRecord {
    pub node: Arc<str>,
    pub price: MicroUsd,
    /// The reason for which a command takes it; nothing if it is kept.
    pub command: Option<&'static str>,
    /// Everything that keeps it, most telling first.
    pub kept_by: Vec<String>,
    pub nearest_miss: Option<String>,
}

/// The last decisions.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    kept: VecDeque<Arc<Record>>,
    next: u64,
}

impl Decisions {
    pub(crate) fn add(&mut self, at: Timestamp, decision: Decision) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Arc::new(Record { number: self.next, at, decision }));
        self.next += 1;
    }

    pub(crate) fn since(&self, number: u64) -> Vec<Arc<Record>> {
        self.kept.iter().filter(|record| record.number >= number).cloned().collect()
    }
}
