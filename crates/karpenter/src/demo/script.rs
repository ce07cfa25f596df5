//! What happens in the demo: a workload appears, grows, shrinks, and goes away.

use std::time::Duration;

use karpenter_api::NodePool;

use super::happenings;
use super::manifests::{Manifests, Part, Scalable};
use super::stage::Stage;
use super::story::{Placed, Step};
use super::world::World;
use crate::bad_input::BadInput;

/// By the world's clock. A machine may have to be bought twice, and a boot may take ten times as long on a rough day.
const PATIENCE: Duration = Duration::from_secs(20 * 60);
/// A node class is looked at at once, and a call to AWS takes a moment.
const READINESS: Duration = Duration::from_secs(60);
/// So long everything is left alone after a step, so that people can look.
const LOOK: Duration = Duration::from_secs(15);
/// After shrinking: long enough for empty nodes to be noticed and removed.
const SHRINK: Duration = Duration::from_secs(75);
const GLANCE: Duration = Duration::from_millis(500);
/// What the workload grows by.
const GROWTH: i64 = 4;

/// What went wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Pods that never ran.
    pub(crate) never_ran: Vec<String>,
    /// Nodes that were still there at the end.
    pub(crate) stayed: Vec<String>,
}

impl Outcome {
    pub(crate) fn is_good(&self) -> bool {
        self.never_ran.is_empty() && self.stayed.is_empty()
    }
}

/// The whole story: ours, or the user's between the workload's coming and its going.
pub(crate) async fn play(
    world: &World,
    stage: &Stage,
    manifests: &Manifests,
    story: Option<&[Placed]>,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    stage.step("apply a NodePool and an EC2NodeClass");
    manifests.apply(&world.client, Part::Supply).await?;
    until_ready(world).await;
    stage.step("apply a workload");
    let all = manifests.apply(&world.client, Part::Workload).await?;
    outcome.never_ran.extend(until_all_run(world, total(&all, |scalable| scalable.replicas)).await);
    tokio::time::sleep(LOOK).await;

    match story {
        None => grow_and_shrink(world, stage, &all, &mut outcome).await?,
        Some(steps) => follow(world, stage, all.clone(), steps, &mut outcome).await?,
    }
    if !all.is_empty() {
        scale(world, stage, "scale to zero", &all, |_| 0).await?;
    }
    happenings::forget_fleeting(world).await?;
    manifests.delete_the_rest(&world.client).await?;
    outcome.stayed = until_no_node(world).await;
    outcome.never_ran.sort();
    outcome.never_ran.dedup();
    Ok(outcome)
}

async fn grow_and_shrink(world: &World, stage: &Stage, all: &[Scalable], outcome: &mut Outcome) -> anyhow::Result<()> {
    let grown = |scalable: &Scalable| scalable.replicas * GROWTH;
    let shrunk = |scalable: &Scalable| (scalable.replicas / 3).max(1).min(scalable.replicas);
    if all.is_empty() {
        return Ok(());
    }
    scale(world, stage, "scale up", all, grown).await?;
    outcome.never_ran.extend(until_all_run(world, total(all, grown)).await);
    tokio::time::sleep(LOOK).await;

    scale(world, stage, "scale down", all, shrunk).await?;
    tokio::time::sleep(SHRINK).await;
    outcome.never_ran.extend(until_all_run(world, total(all, shrunk)).await);
    Ok(())
}

/// Step by step as the user wrote it.
async fn follow(
    world: &World,
    stage: &Stage,
    mut all: Vec<Scalable>,
    steps: &[Placed],
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    for (place, step) in steps {
        match step {
            Step::Wait(time) => tokio::time::sleep(*time).await,
            Step::UntilRunning => {
                outcome.never_ran.extend(until_all_run(world, total(&all, |scalable| scalable.replicas)).await);
            }
            Step::Scale { name, replicas } => {
                let Some(scalable) = all.iter_mut().find(|scalable| scalable.name == *name) else {
                    let fault = format!("{place}: scale: the manifests have nothing called {name} that can be scaled");
                    return Err(BadInput(vec![fault]).into());
                };
                scalable.replicas = *replicas;
                stage.step(&format!("scale {name} to {replicas}"));
                scalable.scale(&world.client, *replicas).await?;
            }
            Step::Happening(happening) => {
                happening.happen(world, stage).await.map_err(|why| BadInput(vec![format!("{place}: {why:#}")]))?;
            }
        }
    }
    Ok(())
}

async fn scale(
    world: &World,
    stage: &Stage,
    word: &str,
    all: &[Scalable],
    to: impl Fn(&Scalable) -> i64,
) -> anyhow::Result<()> {
    let parts: Vec<String> = all.iter().map(|scalable| format!("{} to {}", scalable.name, to(scalable))).collect();
    stage.step(&format!("{word}: {}", parts.join(", ")));
    for scalable in all {
        scalable.scale(&world.client, to(scalable)).await?;
    }
    Ok(())
}

fn total(all: &[Scalable], to: impl Fn(&Scalable) -> i64) -> usize {
    usize::try_from(all.iter().map(to).sum::<i64>()).unwrap_or(0)
}

/// Waits until some pool can be bought from; one that never will be is told by the pods that wait for it.
async fn until_ready(world: &World) {
    let end = tokio::time::Instant::now() + READINESS;
    let ready = |pool: &NodePool| {
        let mut conditions = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    while tokio::time::Instant::now() < end && !world.context.index.node_pools().iter().any(|pool| ready(pool)) {
        tokio::time::sleep(GLANCE).await;
    }
}

/// Waits until so many pods are there and all of them have run; those that have not when patience ends.
async fn until_all_run(world: &World, at_least: usize) -> Vec<String> {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        tokio::time::sleep(GLANCE).await;
        let waiting = world.ledger.waiting();
        if waiting.is_empty() && world.ledger.present() >= at_least {
            return Vec::new();
        }
        if tokio::time::Instant::now() >= end {
            let missing = at_least.saturating_sub(world.ledger.present());
            let unborn = (missing > 0).then(|| format!("{missing} that were never created"));
            return waiting.into_iter().chain(unborn).collect();
        }
    }
}

/// Waits until no claim, node or instance of ours is left.
async fn until_no_node(world: &World) -> Vec<String> {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        tokio::time::sleep(GLANCE).await;
        let left = left(world);
        if left.is_empty() || tokio::time::Instant::now() >= end {
            return left;
        }
    }
}

fn left(world: &World) -> Vec<String> {
    let index = &world.context.index;
    let claims = index.node_claims();
    let claims = claims.iter().filter_map(|claim| claim.metadata.name.clone()).map(|name| format!("nodeclaim/{name}"));
    let nodes = index.nodes();
    let nodes = nodes.iter().filter_map(|node| node.metadata.name.clone()).map(|name| format!("node/{name}"));
    let running = world.region.instances().into_iter().filter(|one| one.ended_at.is_none());
    claims.chain(nodes).chain(running.map(|one| one.instance.id)).collect()
}
