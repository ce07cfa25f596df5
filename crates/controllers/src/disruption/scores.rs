//! What Balanced pools thought of the moves of a pass: series for all of them, events for those they approved.

use std::collections::BTreeMap;

use karpenter_disruption::balanced::{self, Score};
use karpenter_disruption::calm::Calm;
use karpenter_disruption::candidate::{Class, Cluster};
use karpenter_disruption::{Candidate, Command, ConsolidationPolicy, Method, Proposal, Reason};

use super::picture::Picture;
use super::start::dollars;
use crate::context::Context;
use crate::recorder::{Event, ObjectRef};

/// A share of savings must be worth this many times the share of disruption, turned around.
const K: u32 = 2;

/// What was not worth it.
pub(super) fn rejected(context: &Context, picture: &Picture, proposal: &Proposal) {
    for reason in proposal.nodes.iter().flat_map(|node| &node.reasons) {
        if let Reason::Score { pool, score, .. } = reason {
            context.metrics.choices.moved("rejected", pool, &policy(picture, pool), Some(*score));
        }
    }
}

fn policy(picture: &Picture, pool: &str) -> String {
    picture.pools.get(pool).map(|pool| pool.spec.disruption.consolidation_policy.clone()).unwrap_or_default()
}

/// Commands that begin to wait.
pub(super) fn approved(context: &Context, picture: &Picture, commands: &[Command]) {
    let moves = || commands.iter().filter(|one| matches!(one.method, Method::Multi | Method::Single));
    if moves().next().is_none() {
        return;
    }
    let snapshot = picture.snapshot();
    let mut cluster = Cluster::new(&snapshot);
    let all: Vec<Candidate> =
        (0..snapshot.world.nodes.len()).filter_map(|node| cluster.candidate(node, Class::Graceful).ok()).collect();
    let totals = balanced::totals(&cluster, &all);
    let calm = Calm::of(snapshot.world);
    for command in moves() {
        for (pool, score) in scores(command, &totals, |candidate| calm.extra(candidate, snapshot.world)) {
            let balanced = snapshot.pools[pool].policy == ConsolidationPolicy::Balanced;
            let policy = policy(picture, pool);
            context.metrics.choices.moved("approved", pool, &policy, balanced.then(|| score.value()));
            if balanced {
                tell_approved(context, picture, command, pool, score);
            }
        }
    }
}

/// How a command looks to each pool that loses a node: savings are split by what each gives up.
fn scores<'c>(
    command: &'c Command,
    totals: &BTreeMap<std::sync::Arc<str>, balanced::Totals>,
    extra: impl Fn(&Candidate) -> f64,
) -> BTreeMap<&'c str, Score> {
    let mut by_pool: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for candidate in command.all_candidates() {
        let (price, disruption) = by_pool.entry(&candidate.pool).or_default();
        *price += candidate.price.dollars();
        *disruption += candidate.cost + extra(candidate);
    }
    let whole: f64 = command.all_candidates().map(|candidate| candidate.price.dollars()).sum();
    let several = by_pool.len() > 1;
    by_pool
        .into_iter()
        .map(|(pool, (price, disruption))| {
            let share = if several && whole > 0.0 { price / whole } else { 1.0 };
            let totals = totals.get(pool).copied().unwrap_or_default();
            (pool, Score::of(dollars(command.savings_in_all()) * share, disruption, totals))
        })
        .collect()
}

/// On the node and its claim, or on each pool if there are several nodes.
fn tell_approved(context: &Context, picture: &Picture, command: &Command, pool: &str, score: Score) {
    let message = format!(
        "score {:.2} >= threshold {:.2} (k: {K}, savings {:.1}%, disruption {:.1}%)",
        score.value(),
        Score::threshold(),
        score.savings_fraction * 100.0,
        score.disruption_fraction * 100.0
    );
    let tell = |object: ObjectRef| {
        context.recorder.publish(Event::normal(object, "ConsolidationApproved", message.clone()));
    };
    match command.candidates.as_slice() {
        [one] => picture.objects(one.node).for_each(tell),
        _ => picture.pools.get(pool).map(|pool| ObjectRef::node_pool(pool)).into_iter().for_each(tell),
    }
}
