//! What a pass says to people: events, gauges, and a record for every node.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_disruption::validation::Refusal;
use karpenter_disruption::{Blocked, Command, Decision, Method, NodeDecision, Proposal, Reason, budgets};
use karpenter_index::facts;

use super::picture::Picture;
use super::start::dollars;
use super::why::{self, Told};
use crate::context::Context;
use crate::decision::NodeRecord;
use crate::metrics::{DRIFT, EMPTINESS, MULTI};
use crate::recorder::{Event, ObjectRef};

const BUDGET_WINDOW: Duration = Duration::from_secs(60);
const UNCONSOLIDATABLE_WINDOW: Duration = Duration::from_mins(15);

/// Answers the events about nodes, which hold as long as the decisions do.
pub(super) fn proposal(context: &Context, picture: &Picture, proposal: &Proposal) -> Vec<Event> {
    allowances(context, picture);
    let mut told = Vec::new();
    let mut eligible: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut records = Vec::with_capacity(proposal.nodes.len());
    for node in &proposal.nodes {
        let drifted = picture.drifted(node.node);
        told.extend(of_node(picture, node, drifted));
        for reason in reasons_to_go(proposal, node, drifted) {
            *eligible.entry(reason).or_default() += 1;
        }
        records.push(NodeRecord {
            node: node.name.clone(),
            price: node.price,
            command: match node.decision {
                Decision::Disrupt { command } => Some(proposal.commands[command].method.reason()),
                Decision::Keep => None,
            },
            kept_by: node.reasons.iter().map(|reason| why::text(&picture.world, reason)).collect(),
            nearest_miss: node.nearest_miss.as_ref().map(ToString::to_string),
        });
    }
    for method in [EMPTINESS, DRIFT, MULTI] {
        context.metrics.choices.eligible(method, eligible.get(method.reason).copied().unwrap_or(0));
    }
    context.recorder.judged(records);
    again(context, &told);
    told
}

/// The recorder knows what was told lately.
pub(super) fn again(context: &Context, events: &[Event]) {
    for event in events {
        context.recorder.publish(event.clone());
    }
}

/// The reasons for which a node may go, whether it does in this pass or not.
fn reasons_to_go(proposal: &Proposal, node: &NodeDecision, drifted: bool) -> Vec<&'static str> {
    let mut found = Vec::new();
    if let Decision::Disrupt { command } = node.decision {
        found.push(proposal.commands[command].method.reason());
    }
    let blocked = node.reasons.iter().any(|reason| matches!(reason, Reason::Blocked(_)));
    if drifted && !blocked {
        found.push(Method::Drift.reason());
    }
    for reason in &node.reasons {
        match reason {
            Reason::Budget { reason, .. } => found.push(reason),
            Reason::PodHasNoPlace { .. }
            | Reason::TargetNotReady { .. }
            | Reason::NotCheaper { .. }
            | Reason::SameType { .. }
            | Reason::MinValues { .. }
            | Reason::SpotToSpotDisabled
            | Reason::SpotToSpotFlexibility { .. }
            | Reason::Score { .. }
            | Reason::NotWorthIt { .. }
            | Reason::NotWithOthers { .. }
            | Reason::NotAsScheduled { .. }
            | Reason::ReceivesPods { .. } => found.push(Method::Single.reason()),
            Reason::Blocked(_)
            | Reason::Paused { .. }
            | Reason::StaticPool { .. }
            | Reason::NoSpareNode { .. }
            | Reason::UnknownInstanceType { .. }
            | Reason::MissingLabel { .. }
            | Reason::ConsolidationDisabled { .. }
            | Reason::OnlyWhenEmpty { .. }
            | Reason::NotYetQuiet { .. }
            | Reason::HoldsBuffer => {}
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// On the Node and the NodeClaim, the most telling reason of each kind.
fn of_node(picture: &Picture, node: &NodeDecision, drifted: bool) -> Vec<Event> {
    let starts =
        |reason: &Reason| matches!(reason, Reason::Blocked(Blocked::NotInitialized)) && picture.is_starting(node.node);
    let first = |kind: Told| node.reasons.iter().find(|reason| why::told(reason, drifted) == kind && !starts(reason));
    let mut events = Vec::new();
    if let Some(reason) = first(Told::Blocked) {
        let text = why::text(&picture.world, reason);
        events
            .extend(picture.objects(node.node).map(|object| Event::normal(object, "DisruptionBlocked", text.clone())));
    }
    if let Some(reason) = first(Told::Unconsolidatable) {
        let text = why::text(&picture.world, reason);
        events.extend(
            picture
                .objects(node.node)
                .map(|object| Event::normal(object, "Unconsolidatable", text.clone()).within(UNCONSOLIDATABLE_WINDOW)),
        );
    }
    events
}

/// Commands that buy something, before they are looked at again.
pub(super) fn candidates(context: &Context, picture: &Picture, commands: &[Command]) {
    for command in commands.iter().filter(|command| !command.replacements.is_empty()) {
        each_node(picture, command, |object, text| {
            let message =
                format!("Consolidation candidate: {text} (savings: ${:.2})", dollars(command.savings_in_all()));
            let same = [object.uid.clone(), text.to_owned()];
            context.recorder.publish(Event::normal(object, "ConsolidationCandidate", message).same(same));
        });
    }
}

/// A command that did not hold. That empty nodes are not empty any more is nothing to tell.
pub(super) fn rejected(context: &Context, picture: &Picture, command: &Command, why: Refusal) {
    if command.method == Method::Empty {
        return;
    }
    each_node(picture, command, |object, text| {
        let why = why.label();
        let savings = dollars(command.savings_in_all());
        let message = format!("Consolidation rejected: {text}, reason: {why} (savings: ${savings:.2})");
        let same = [object.uid.clone(), text.to_owned(), why.to_owned()];
        context.recorder.publish(Event::normal(object, "ConsolidationRejected", message).same(same));
    });
}

fn each_node(picture: &Picture, command: &Command, mut tell: impl FnMut(ObjectRef, &str)) {
    let count = command.all_candidates().count();
    for candidate in &command.candidates {
        let of = if count == 1 { String::new() } else { format!(" (part of {count}-node consolidation)") };
        let replacements = match command.replacements.len() {
            _ if count > 1 => String::new(),
            0 => String::new(),
            1 => " -> [1 replacement]".to_owned(),
            many => format!(" -> [{many} replacements]"),
        };
        let text = format!("{}: [{}]{replacements}{of}", command.decision(), candidate.name);
        picture.objects(candidate.node).for_each(|object| tell(object, &text));
    }
}

/// What budgets allow now, for every reason; a pool that allows nothing says so.
fn allowances(context: &Context, picture: &Picture) {
    let snapshot = picture.snapshot();
    for method in [EMPTINESS, DRIFT, MULTI] {
        let reason = method.reason;
        for (pool, allowance) in budgets::allowances(&snapshot, reason) {
            context.metrics.choices.allowance(&pool, reason, allowance);
            if let Some(object) = picture.pools.get(&pool).filter(|_| allowance.nodes > 0 && allowance.allowed == 0) {
                let object = ObjectRef::node_pool(object);
                let same = [object.uid.clone(), reason.to_owned()];
                let message = format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
                let event = Event::normal(object, "DisruptionBlocked", message).same(same).within(BUDGET_WINDOW);
                context.recorder.publish(event);
            }
        }
    }
}

pub(super) fn unreadable_budgets(context: &Context) {
    for pool in context.index.node_pools() {
        if !context.index.is_managed_pool(&pool) {
            continue;
        }
        let budgets = facts::pool(&pool, std::sync::Arc::from([])).budgets;
        if let Err(error) = budgets::allowed(&budgets, 100, EMPTINESS.reason, context.clock.now()) {
            let pool = pool.metadata.name.as_deref().unwrap_or_default();
            tracing::error!(pool, error, "detected disruption budget errors");
        }
    }
}
