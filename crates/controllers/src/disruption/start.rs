//! Starting a command: what is done before anybody waits, in an order that a crash between any two steps does not hurt.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use karpenter_api::NodeClaim;
use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
use karpenter_disruption::{Command as Proposed, Method, Target};
use karpenter_index::{Kind, MachineId, reduce};
use serde_json::json;

use super::mark;
use super::picture::Picture;
use super::queue::{Commands, Held, QUEUE, Replacement, key};
use crate::clock::later;
use crate::context::Context;
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::metrics::{DRIFT, EMPTINESS, MULTI, MethodName, SINGLE};
use crate::provisioning;
use crate::recorder::ObjectRef;
use crate::static_pools;

pub(super) fn named(method: Method) -> MethodName {
    match method {
        Method::Empty => EMPTINESS,
        Method::StaticDrift | Method::Drift => DRIFT,
        Method::Multi => MULTI,
        Method::Single => SINGLE,
    }
}

impl Commands {
    /// Sets the nodes apart, buys what takes their place, marks them, and enqueues the command. Replacements come before
    /// marks: the other way round the provisioner would buy for the same pods too. A command that fails here leaves
    /// taints behind, which the next pass takes back.
    pub(super) async fn start(&self, context: &Context, picture: &Picture, command: &Proposed) -> Result<()> {
        let held = held(picture, command)?;
        self.are_free(&held)?;
        context.heard_lately(&Kind::ALL)?;
        let method = named(command.method);
        log(command, &held, method);
        let held = set_apart(context, held, method.reason, command.buys()).await?;
        // Until they are marked, nobody shall make up for nodes that get a replacement here.
        let pending = command.method == Method::StaticDrift;
        let names = held.iter().filter(|_| pending).map(|target| target.claim.name.clone()).collect();
        let pending = context.static_nodes.replacing(names);
        let replacements = replace(context, picture, command, &held, method).await?;
        let ids: Vec<MachineId> = held.iter().map(|target| target.id.clone()).collect();
        context.index.mark(&ids);
        drop(pending);
        nominate(context, picture, command, &replacements);
        let mut pools: Vec<String> = held.iter().filter_map(|target| target.pool.metadata.name.clone()).collect();
        pools.sort();
        pools.dedup();
        context.metrics.choices.decided(method, command.decision(), pools);
        context.recorder.decided(Decision::Disrupt {
            reason: method.reason,
            method: command.method.label(),
            nodes: held.iter().map(|target| target.node.name.clone()).collect(),
            replacements: replacements.clone(),
            savings: command.savings,
        });
        let mut expected = command.replacements.iter().map(|replacement| replacement.node.launch.clone());
        let replacement = |claim| Replacement { claim, initialized: false, expected: expected.next() };
        let replacements = replacements.into_iter().map(replacement).collect();
        let id = self.enqueue(method, context.clock.now(), held, replacements);
        context.wake(QUEUE, key(id));
        Ok(())
    }
}

fn held(picture: &Picture, command: &Proposed) -> Result<Vec<Held>> {
    let of = |candidate: &karpenter_disruption::Candidate| {
        let machine = picture.machines[candidate.node].as_ref()?;
        let (node, object) = (machine.node.as_deref()?, machine.claim.clone()?);
        Some(Held {
            id: machine.id.clone(),
            node: ObjectRef::node(node),
            claim: ObjectRef::node_claim(&object),
            price: candidate.price,
            pool: picture.pools.get(&candidate.pool)?.clone(),
            object,
            pods: candidate.pods.len(),
        })
    };
    let held: Option<Vec<Held>> = command.candidates.iter().map(of).collect();
    held.ok_or_else(|| Error::other("a candidate is gone"))
}

/// Those that could be set apart. A command that buys something needs all of them; another needs one.
async fn set_apart(context: &Context, all: Vec<Held>, reason: &'static str, buys: bool) -> Result<Vec<Held>> {
    let mut markings: Vec<BoxFuture<'_, Result<()>>> = Vec::with_capacity(all.len());
    for target in &all {
        markings.push(Box::pin(mark::set_apart(context, &target.node.name, &target.claim.name, reason)));
    }
    let results = join_all(markings).await;
    let (mut held, mut errors) = (Vec::new(), Vec::new());
    for (target, result) in all.into_iter().zip(results) {
        match result {
            Ok(()) => held.push(target),
            Err(error) => errors.push(error),
        }
    }
    if held.is_empty() || buys && !errors.is_empty() {
        return Error::all(errors).map(|()| held);
    }
    errors.iter().for_each(|error| tracing::error!(%error, "a node cannot be set apart and stays"));
    Ok(held)
}

/// Creates all replacements, or none: what was created before another failed is deleted again while nothing was bought.
async fn replace(
    context: &Context,
    picture: &Picture,
    command: &Proposed,
    held: &[Held],
    method: MethodName,
) -> Result<Vec<String>> {
    let mut creations: Vec<BoxFuture<'_, Result<NodeClaim>>> = Vec::with_capacity(command.replacements.len());
    for target in held.iter().filter(|_| command.method == Method::StaticDrift) {
        let right = context.static_nodes.reserve(&target.pool, 1, context).pop();
        let full = || Error::other(format!("replacing {}, its pool's node limit is reached", target.node.name));
        creations.push(Box::pin(static_pools::create(context, &target.pool, method.label, right.ok_or_else(full)?)));
    }
    for replacement in &command.replacements {
        let offer = &picture.offers[replacement.node.pool];
        creations.push(Box::pin(provisioning::create(context, &picture.world, offer, &replacement.node, method.label)));
    }
    let (mut made, mut errors) = (Vec::new(), Vec::new());
    for result in join_all(creations).await {
        match result {
            Ok(claim) => made.push(claim),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        return Ok(made.into_iter().filter_map(|claim| claim.metadata.name).collect());
    }
    for claim in made {
        take_back(context, &claim).await;
    }
    Error::all(errors).map(|()| Vec::new())
}

async fn take_back(context: &Context, made: &NodeClaim) {
    let (name, uid) = (made.metadata.name.as_deref().unwrap_or_default(), made.metadata.uid.as_deref());
    let now = context.index.node_claim(name);
    if now.is_some_and(|claim| reduce::claim_provider_id(&claim).is_some()) {
        tracing::info!(claim = name, "a replacement was launched for a command that failed, and stays");
        return;
    }
    if let Err(error) = context.delete::<NodeClaim>(name, uid.unwrap_or_default(), &[Kind::NodeClaim]).await {
        tracing::error!(claim = name, %error, "a replacement for a command that failed cannot be deleted, and stays");
    }
}

/// Nodes that pods will move to are left alone for a while, and the pods are told.
fn nominate(context: &Context, picture: &Picture, command: &Proposed, replacements: &[String]) {
    let until = later(context.clock.now(), context.settings.nomination_window());
    let mut homes: BTreeMap<Target, Vec<usize>> = BTreeMap::new();
    for to in &command.moves {
        homes.entry(to.to).or_default().push(to.pod);
    }
    for (target, pods) in homes {
        match target {
            Target::Node(at) => {
                let node = &picture.world.nodes[at];
                if let Some(id) = picture.id(at) {
                    let pods: Vec<_> = pods.iter().map(|pod| provisioning::keyed(&picture.world.pods[*pod])).collect();
                    context.index.nominate_for(id, until, &pods);
                }
                let name = node.has_node.then_some(&*node.name);
                provisioning::tell_nominated(context, &picture.world, &pods, node.claim.as_deref(), name);
            }
            Target::Replacement(at) => {
                let claim = replacements.get(at).map(String::as_str);
                provisioning::tell_nominated(context, &picture.world, &pods, claim, None);
            }
        }
    }
}

fn log(command: &Proposed, held: &[Held], method: MethodName) {
    let label = |target: &Held, key: &str| {
        target.object.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
    };
    let disrupted: Vec<_> = held
        .iter()
        .map(|target| {
            json!({"Node": {"name": target.node.name}, "NodeClaim": {"name": target.claim.name},
                "instance-type": label(target, INSTANCE_TYPE), "capacity-type": label(target, CAPACITY_TYPE)})
        })
        .collect();
    let bare = held.iter().filter(|_| command.method == Method::StaticDrift).map(|_| json!({}));
    let replacements: Vec<_> = command
        .replacements
        .iter()
        .map(|replacement| {
            let five: Vec<&Arc<str>> = replacement.instance_types.iter().take(5).collect();
            json!({"capacity-type": &*replacement.node.launch.capacity_type, "instance-types": five})
        })
        .chain(bare)
        .collect();
    tracing::info!(
        command = text(command, held, method),
        decision = command.decision(),
        "disrupted-node-count" = held.len(),
        "replacement-node-count" = replacements.len(),
        "pod-count" = held.iter().map(|target| target.pods).sum::<usize>(),
        "disrupted-nodes" = serde_json::Value::Array(disrupted).to_string(),
        "replacement-nodes" = serde_json::Value::Array(replacements).to_string(),
        "disrupting node(s)"
    );
    if method.is_consolidation() {
        for target in held {
            tracing::info!(compat = true, node = target.node.name, reason = method.label, "consolidation delete");
        }
    }
}

fn text(command: &Proposed, held: &[Held], method: MethodName) -> String {
    let nodes: Vec<&str> = held.iter().map(|target| target.node.name.as_str()).collect();
    let mut pools: Vec<&str> = held.iter().filter_map(|target| target.pool.metadata.name.as_deref()).collect();
    pools.dedup();
    let bare = if command.method == Method::StaticDrift { held.len() } else { 0 };
    let replacements = match command.replacements.len() + bare {
        0 => String::new(),
        1 => " -> [1 replacement]".to_owned(),
        many => format!(" -> [{many} replacements]"),
    };
    // Which command it is, the claim of its first node tells.
    let id = held.first().map_or("", |target| &*target.claim.uid);
    format!(
        "{}/{id}: {}: nodepools=[{}]: [{}]{replacements} (savings: ${:.2})",
        method.reason,
        command.decision(),
        pools.join(","),
        nodes.join(", "),
        dollars(command.savings)
    )
}

pub(super) fn dollars(micros: i64) -> f64 {
    micros as f64 / 1e6
}
