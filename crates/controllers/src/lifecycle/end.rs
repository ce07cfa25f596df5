//! The end of a claim, step by step.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::NodeClaim;
use karpenter_api::conditions::{INSTANCE_TERMINATING, REGISTERED, Status};
use karpenter_api::labels::{TERMINATION_FINALIZER, TERMINATION_TIMESTAMP};
use karpenter_index::Kind;
use karpenter_provider::DeleteError;

use super::finalize::{Step, next};
use super::launched::Launched;
use super::questions::next_question;
use super::{launch, nodes_of};
use crate::clock::until;
use crate::context::Context;
use crate::error::{Error, Result, unless_gone};
use crate::ownership::{claim_provider_id, node_provider_id};
use crate::patch::Lock;
use crate::reconciler::Action;
use crate::recorder::{Event, ObjectRef};
use crate::termination::node::deadline;
use crate::unreadable::LOOK_AGAIN;

/// How often it is looked whether a Node that is there after all has gone.
const NODE_THERE: Duration = Duration::from_secs(1);

/// What the end of a claim is decided from.
const READS: [Kind; 2] = [Kind::NodeClaim, Kind::Node];

/// When to ask again whether the machine of a claim is gone.
pub(crate) fn ask_again(claim: &NodeClaim, now: Timestamp) -> Duration {
    until(now, next_question(terminating_since(claim).unwrap_or(now), now))
}

fn terminating_since(claim: &NodeClaim) -> Option<Timestamp> {
    let condition = claim.condition(INSTANCE_TERMINATING).filter(|condition| condition.status == "True");
    condition.map(|condition| condition.last_transition_time.0)
}

pub(super) async fn finalize(claim: &NodeClaim, context: &Context, launched: &Launched) -> Result<Action> {
    let mut claim = claim.clone();
    loop {
        let remembered = launched.get(&claim);
        let nodes: Vec<Node> = nodes_of(&claim, context).iter().map(|node| (**node).clone()).collect();
        let step = next(&claim, &nodes, remembered.as_ref().map(|machine| machine.provider_id.as_str()));
        match past_unreadable_node(step, &claim, context)? {
            Step::Nothing | Step::AwaitNodes => return Ok(Action::Done),
            Step::AwaitReading => return Ok(Action::After(LOOK_AGAIN)),
            Step::Adopt => {
                let mut adopted = claim.clone();
                if let Some(machine) = remembered {
                    launch::populate(&mut adopted, &machine, context.clock.now());
                }
                match unless_gone(context.write_status(&claim, &adopted, Lock::Version).await)? {
                    Some(stored) => claim = stored,
                    None => return Ok(Action::Done),
                }
            }
            Step::Annotate { deadline } => match annotate(&claim, &deadline, context).await? {
                Some(annotated) => claim = annotated,
                None => return Ok(Action::Done),
            },
            Step::DeleteNodes(names) => {
                for node in nodes.iter().filter(|node| node.metadata.name.as_ref().is_some_and(|n| names.contains(n))) {
                    let (name, uid) = (node.metadata.name.as_deref(), node.metadata.uid.as_deref());
                    context.delete::<Node>(name.unwrap_or_default(), uid.unwrap_or_default(), &READS).await?;
                }
                return Ok(Action::Done);
            }
            Step::Terminate { provider_id } => {
                if is_node_there(&claim, &provider_id, context).await? {
                    return Ok(Action::After(NODE_THERE));
                }
                let gone = terminate(&claim, &provider_id, context).await?;
                match record_termination(&claim, context).await? {
                    None => return Ok(Action::Done),
                    Some(recorded) if !gone => return Ok(Action::After(ask_again(&recorded, context.clock.now()))),
                    Some(recorded) => claim = recorded,
                }
                let since = claim.condition(INSTANCE_TERMINATING).map(|condition| condition.last_transition_time.0);
                let now = context.clock.now();
                context.metrics.life.instance_terminated(&claim, until(since.unwrap_or(now), now));
                return release(&claim, context, launched).await;
            }
            Step::Release => return release(&claim, context, launched).await,
        }
    }
}

/// A Node that cannot be read cannot be drained either: its pods keep the instance until the deadline, if there is one.
fn past_unreadable_node(step: Step, claim: &NodeClaim, context: &Context) -> Result<Step> {
    let provider_id = match (&step, claim_provider_id(claim)) {
        (Step::DeleteNodes(_) | Step::AwaitNodes | Step::Terminate { .. }, Some(id)) => id,
        _ => return Ok(step),
    };
    if context.index.unreadable_node_of(provider_id).is_none() {
        return Ok(step);
    }
    let deadline = deadline(claim).map_err(|error| Error::other(error.to_string()))?;
    let is_over = deadline.is_some_and(|deadline| deadline <= context.clock.now());
    Ok(if is_over { Step::Terminate { provider_id: provider_id.to_owned() } } else { Step::AwaitReading })
}

/// Whether the Node of a registered claim is there after all, past what the watch has told: then it is drained first.
/// Once the instance is on its way there is nothing left to drain.
async fn is_node_there(claim: &NodeClaim, provider_id: &str, context: &Context) -> Result<bool> {
    let going = claim.condition_status(INSTANCE_TERMINATING) == Status::True;
    let registered = claim.condition_status(REGISTERED) == Status::True;
    let name = claim.status.as_ref().and_then(|status| status.node_name.as_deref()).filter(|name| !name.is_empty());
    let deadline = deadline(claim).map_err(|error| Error::other(error.to_string()))?;
    let is_over = deadline.is_some_and(|deadline| deadline <= context.clock.now());
    let Some(name) = name.filter(|_| registered && !going && !is_over) else { return Ok(false) };
    let found = context.read::<Node>(name).await?;
    Ok(found.is_some_and(|node| node_provider_id(&node) == Some(provider_id)))
}

async fn annotate(claim: &NodeClaim, deadline: &str, context: &Context) -> Result<Option<NodeClaim>> {
    let mut annotated = claim.clone();
    let annotations = annotated.metadata.annotations.get_or_insert_default();
    annotations.insert(TERMINATION_TIMESTAMP.to_owned(), deadline.to_owned());
    let Some(annotated) = unless_gone(context.write(claim, &annotated, Lock::Version).await)? else {
        return Ok(None);
    };
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    tracing::info!(claim = name, "karpenter.sh/nodeclaim-termination-timestamp" = deadline, "annotated nodeclaim");
    let message = format!("All pods will be deleted by {deadline}");
    let event = Event::warning(ObjectRef::node_claim(claim), "TerminationGracePeriodExpiring", message);
    context.recorder.publish(event.same([name.to_owned()]));
    Ok(Some(annotated))
}

/// Asks the provider to terminate the machine; answers whether it is gone. Who comes too early for another question is told that
/// it is not.
pub(crate) async fn terminate(claim: &NodeClaim, provider_id: &str, context: &Context) -> Result<bool> {
    if context.gone.has(provider_id) {
        return Ok(true);
    }
    let now = context.clock.now();
    if terminating_since(claim).is_some_and(|since| !context.questions.is_due(provider_id, since, now)) {
        return Ok(false);
    }
    // A Node that we have not heard of may have joined, with pods on it.
    context.heard_lately(&READS)?;
    let mut target = claim.clone();
    target.status.get_or_insert_default().provider_id = Some(provider_id.to_owned());
    match context.provider.delete(&target).await {
        Ok(()) => {
            context.questions.asked(provider_id, now);
            Ok(false)
        }
        Err(DeleteError::NotFound { .. }) => {
            context.gone.remember(provider_id, context.clock.now());
            Ok(true)
        }
        Err(error @ DeleteError::Other(_)) => Err(Error::provider("terminating the machine", error)),
    }
}

/// `None` if the claim is gone.
async fn record_termination(claim: &NodeClaim, context: &Context) -> Result<Option<NodeClaim>> {
    let mut recorded = claim.clone();
    recorded.conditions_at(context.clock.now()).set_true(INSTANCE_TERMINATING);
    unless_gone(context.write_status(claim, &recorded, Lock::Version).await)
}

/// Lets the claim go. The lock keeps us from letting go of one whose machine was stored meanwhile.
async fn release(claim: &NodeClaim, context: &Context, launched: &Launched) -> Result<Action> {
    let mut released = claim.clone();
    if let Some(finalizers) = &mut released.metadata.finalizers {
        finalizers.retain(|finalizer| finalizer != TERMINATION_FINALIZER);
    }
    if unless_gone(context.write(claim, &released, Lock::Version).await)?.is_none() {
        return Ok(Action::Done);
    }
    launched.forget(claim);
    context.gone.forget(claim_provider_id(claim).unwrap_or_default());
    tracing::info!(claim = claim.metadata.name.as_deref().unwrap_or_default(), "deleted nodeclaim");
    let now = context.clock.now();
    let since = claim.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    context.metrics.life.claim_terminated(claim, until(since, now));
    Ok(Action::Done)
}
