//! Judges the commands of a pass: whether each node may go, whether budgets cover all of them, whether every pod finds a
//! place and whether what is bought is worth buying.
//!
//! Of the disruption crate only plain types are used, none of its functions. Pods that move are judged as pods of any
//! plan are: the nodes that go are set to be going, and the moves are the plan.

mod budgets;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use karpenter_core::node::Stage;
use karpenter_core::plan::Plan;
use karpenter_core::pod::Phase;
use karpenter_core::{InstanceType, MicroUsd, Node, Pod, World};
use karpenter_disruption::{Command, ConsolidationPolicy, Method, Policy, Snapshot, Target};

use crate::claim::offerings;
use crate::violation::Violation;
use crate::waiting;

pub use budgets::allowed as allowed_disruptions;

/// What is wrong with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Nothing where it is the pass as a whole.
    pub command: Option<usize>,
    pub what: String,
}

/// Everything that no rule allows, in a fixed order.
pub fn verify_commands(snapshot: &Snapshot<'_>, policy: &Policy, commands: &[Command]) -> Vec<Fault> {
    let mut found = verify_decision(snapshot, policy, commands);
    budgets::judge(snapshot, commands, &mut found);
    found
}

/// As [`verify_commands`] for commands that wait before they are carried out, some of them until budgets have room: budgets
/// are judged when they start.
pub fn verify_decision(snapshot: &Snapshot<'_>, policy: &Policy, commands: &[Command]) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, command) in commands.iter().enumerate() {
        let mut report = |what: String| found.push(Fault { command: Some(number), what });
        for candidate in &command.candidates {
            if !seen.insert(candidate.node) {
                report(format!("{} goes twice", candidate.name));
            }
        }
        for candidate in command.all_candidates() {
            node(snapshot, policy, command.method, candidate.node, &mut report);
        }
        if matches!(command.method, Method::Multi | Method::Single) {
            price(snapshot, policy, command, &mut report);
        }
        moves(snapshot.world, command, &mut report);
    }
    // What is bought is bought for all that goes, now and later.
    let violations = placements(snapshot.world, &completed(commands));
    found.extend(violations.into_iter().map(|violation| Fault { command: None, what: violation.to_string() }));
    found
}

/// Judges commands that start together, in the cluster as it is then: whether each node may go now, and whether budgets have
/// room for all of them. Where the pods go was judged when they were decided, in a snapshot whose positions the commands
/// have; nodes are found by name.
pub fn verify_start(now: &Snapshot<'_>, policy: &Policy, commands: &[Command]) -> Vec<Fault> {
    let mut found = Vec::new();
    let at: BTreeMap<&str, usize> = now.world.nodes.iter().enumerate().map(|(at, node)| (&*node.name, at)).collect();
    for (number, command) in commands.iter().enumerate() {
        let mut report = |what: String| found.push(Fault { command: Some(number), what });
        for candidate in &command.candidates {
            match at.get(&*candidate.name) {
                Some(index) => node(now, policy, command.method, *index, &mut report),
                None => report(format!("{} is not there", candidate.name)),
            }
        }
    }
    budgets::judge(now, commands, &mut found);
    found
}

/// What is wrong with where the pods go when these commands are carried out.
fn placements(world: &World, commands: &[Command]) -> Vec<Violation> {
    let (world, plan, elsewhere) = after(world, commands);
    let waited_for = waited_for(&world, commands);
    let violations = crate::verify(&world, &plan).into_iter().filter(|violation| match violation {
        // Simulations may pass a reservation over, and whoever waited before may go on waiting.
        Violation::ReservationNotHeld { .. } | Violation::LighterPool { .. } => false,
        // Pods that waited before are left out of the plan, and some replacements are bought for them, too: the pods that
        // move took the room they would have had.
        Violation::NoPods { node } | Violation::RequestsWrong { node, .. } => !waited_for.contains(node),
        // Where pods are expected that wait, or whose nodes were going before, the commands do not say.
        Violation::Skew { pod, .. } => !spreads_with(&world, pod, &elsewhere),
        _ => true,
    });
    violations.collect()
}

/// Replacements that are bought for pods that waited before, by the names that the plan gives them.
fn waited_for(world: &World, commands: &[Command]) -> BTreeSet<String> {
    let all = commands.iter().flat_map(|command| &command.replacements).enumerate();
    let waits = |pods: &[usize]| pods.iter().any(|pod| world.pods[*pod].node.is_none());
    all.filter(|(_, new)| waits(&new.node.pods)).map(|(at, _)| format!("new-{at}")).collect()
}

/// Whether some of these pods count for the spread of a pod.
fn spreads_with(world: &World, name: &str, others: &[usize]) -> bool {
    let named = world.pods.iter().filter(|pod| format!("{}/{}", pod.namespace, pod.name) == name);
    let mut spreads = named.flat_map(|pod| pod.shape.spread.iter().map(move |spread| (&pod.namespace, spread)));
    spreads.any(|(namespace, spread)| {
        others.iter().map(|other| &world.pods[*other]).any(|other| {
            other.namespace == *namespace
                && crate::labels::selector_matches(spread.selector.as_ref(), &other.shape.labels)
        })
    })
}

/// The commands as they are when what they leave for later passes is gone too.
fn completed(commands: &[Command]) -> Vec<Command> {
    let mut commands = commands.to_vec();
    for command in &mut commands {
        let later = std::mem::take(&mut command.later);
        for moved in &later.moves {
            if let Target::Replacement(new) = moved.to {
                command.replacements[new].node.pods.push(moved.pod);
            }
        }
        command.candidates.extend(later.candidates);
        command.moves.extend(later.moves);
    }
    commands
}

/// Whether moves and replacements tell the same of the pods that leave.
fn moves(world: &World, command: &Command, report: &mut dyn FnMut(String)) {
    for (at, new) in command.replacements.iter().enumerate() {
        let to = |target: Target| target == Target::Replacement(at);
        let moved: BTreeSet<usize> = command.moves.iter().filter(|m| to(m.to)).map(|m| m.pod).collect();
        for pod in new.node.pods.iter().filter(|pod| world.pods[**pod].node.is_some() && !moved.contains(pod)) {
            report(format!(
                "{} is bought for {} and in no list of moves",
                new.node.launch.instance_type, world.pods[*pod].name
            ));
        }
    }
}

/// Whether a node may go for this reason at all.
fn node(snapshot: &Snapshot<'_>, policy: &Policy, method: Method, index: usize, report: &mut dyn FnMut(String)) {
    let (world, facts) = (snapshot.world, &snapshot.nodes[index]);
    let node = &world.nodes[index];
    let mut must = |holds: bool, what: &str| {
        if !holds {
            report(format!("{} {what}", node.name));
        }
    };
    must(node.claim.is_some() && node.stage == Stage::Initialized && node.has_node, "is not a complete node of ours");
    must(!node.deleting && !facts.in_queue, "is going already");
    must(!facts.nominated, "is nominated for a pod");
    must(!facts.do_not_disrupt, "is annotated not to be disrupted");
    let pool = node.labels.get(karpenter_core::labels::NODEPOOL).and_then(|name| snapshot.pools.get(name.as_str()));
    let Some(pool) = pool else { return must(false, "has no pool") };
    must(!policy.paused && !pool.paused, "is taken though disruption is paused");
    must(pool.is_static == (method == Method::StaticDrift), "is not of the kind of pool that the method is for");
    let pods: Vec<&Pod> = world.pods.iter().filter(|pod| pod.node.as_ref() == Some(&node.name)).collect();
    let waived = matches!(method, Method::StaticDrift | Method::Drift) && facts.bounded_drain;
    must(waived || facts.unreadable.is_none(), "has, or is, something that cannot be read");
    for pod in pods.iter().filter(|_| !waived) {
        let active = !waiting::is_terminal(pod) && !pod.terminating;
        must(!(active && waiting::protected(world, pod)), &format!("has {}, which is not to be disrupted", pod.name));
        must(!held(world, pod), &format!("has {}, which a PodDisruptionBudget holds", pod.name));
    }
    match method {
        Method::StaticDrift | Method::Drift => must(facts.drifted.is_some(), "has not drifted"),
        Method::Empty => {
            must(pool.consolidate_after.is_some() && facts.consolidatable, "is not consolidatable");
            let cost: f64 =
                pods.iter().filter(|pod| waiting::returns(pod)).map(|pod| eviction_cost(pod).max(0.0)).sum();
            must(cost == 0.0, "is not empty");
        }
        Method::Multi | Method::Single => {
            must(pool.consolidate_after.is_some() && facts.consolidatable, "is not consolidatable");
            must(pool.policy != ConsolidationPolicy::WhenEmpty, "is of a pool that gives up empty nodes only");
        }
    }
}

/// Several budgets hold whatever they allow; one holds while it allows nothing.
fn held(world: &World, pod: &Pod) -> bool {
    if waiting::is_terminal(pod) || pod.terminating || waiting::stays_with_its_node(world, pod) {
        return false;
    }
    let mine = world.disruption_budgets.iter().filter(|budget| {
        budget.namespace == pod.namespace
            && crate::labels::selector_matches(budget.selector.as_ref(), &pod.shape.labels)
    });
    let mine: Vec<_> = mine.collect();
    match mine.as_slice() {
        [] => false,
        [one] => one.disruptions_allowed <= 0 && !(one.always_allows_unready && pod.unready),
        _ => true,
    }
}

fn eviction_cost(pod: &Pod) -> f64 {
    let deletion: f64 = pod.deletion_cost.as_deref().and_then(|cost| cost.parse().ok()).unwrap_or(0.0);
    let cost = 1.0 + deletion / 2f64.powi(27) + f64::from(pod.shape.priority) / 2f64.powi(25);
    cost.clamp(-10.0, 10.0)
}

/// Strictly cheaper, whatever of the listed types a launch gets; and never another of what goes.
fn price(snapshot: &Snapshot<'_>, policy: &Policy, command: &Command, report: &mut dyn FnMut(String)) {
    let world = snapshot.world;
    let before: MicroUsd = command.all_candidates().map(|c| node_price(snapshot, &world.nodes[c.node])).sum();
    let after: MicroUsd = command.replacements.iter().map(|new| new.node.launch.price).sum();
    let later: MicroUsd = command.later.candidates.iter().map(|c| node_price(snapshot, &world.nodes[c.node])).sum();
    if before.0 as i64 - later.0 as i64 - after.0 as i64 != command.savings {
        report(format!("saves {} by {} less {} and {}", command.savings, before, later, after));
    }
    if command.replacements.is_empty() {
        return;
    }
    let mut dearest = MicroUsd(0);
    for new in &command.replacements {
        let types = &world.pools[new.node.pool].instance_types;
        let worst = |kind: &usize| worst_price(&types[*kind], &new.node.requirements);
        dearest += new.node.instance_types.iter().map(worst).max().unwrap_or_default();
        for candidate in command.all_candidates() {
            let gone = &world.nodes[candidate.node];
            let label = |key: &str| gone.labels.get(key).map(String::as_str);
            let launch = &new.node.launch;
            let same = label(INSTANCE_TYPE) == Some(&*launch.instance_type)
                && label(CAPACITY_TYPE) == Some(&*launch.capacity_type);
            if same && launch.price >= node_price(snapshot, gone) {
                report(format!("{} is replaced by another {}", gone.name, launch.instance_type));
            }
        }
    }
    if dearest >= before {
        report(format!("what is bought may cost {dearest}, what goes costs {before}"));
    }
    let spot = |labels: &karpenter_core::Labels| labels.get(CAPACITY_TYPE).is_some_and(|kind| kind == "spot");
    let all_spot = command.all_candidates().all(|candidate| spot(&world.nodes[candidate.node].labels));
    if all_spot
        && command.replacements.iter().any(|new| &*new.node.launch.capacity_type == "spot")
        && !policy.spot_to_spot
    {
        report("spot is replaced by spot though the gate is off".to_owned());
    }
}

/// The dearest available offering within the first of reserved, spot and on-demand that there is.
fn worst_price(kind: &InstanceType, requirements: &karpenter_core::Requirements) -> MicroUsd {
    let sold = offerings(kind, requirements);
    let of = |capacity_type: &str| {
        let declares = |o: &&&karpenter_core::Offering| {
            o.requirements.0.get(CAPACITY_TYPE).is_some_and(|r| r.values.iter().any(|v| &**v == capacity_type))
        };
        sold.iter().filter(declares).map(|o| o.price).max()
    };
    of("reserved").or_else(|| of("spot")).or_else(|| of("on-demand")).unwrap_or_default()
}

fn node_price(snapshot: &Snapshot<'_>, node: &Node) -> MicroUsd {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    let pool = label(karpenter_core::labels::NODEPOOL).and_then(|name| snapshot.pools.get(name));
    let kind = pool.and_then(|pool| pool.instance_types.iter().find(|kind| Some(&*kind.name) == label(INSTANCE_TYPE)));
    let declares = |o: &karpenter_core::Offering, key: &str| {
        o.requirements.0.get(key).is_some_and(|r| r.values.iter().next().map(|v| &**v) == label(key))
    };
    let mut offerings = kind.into_iter().flat_map(|kind| &kind.offerings);
    offerings.find(|o| declares(o, ZONE) && declares(o, CAPACITY_TYPE)).map(|o| o.price).unwrap_or_default()
}

/// The cluster with the nodes on their way out, and the moves as a plan for it. Pods that waited before are left out, and
/// so are those on empty nodes, which go without a place, and those of static pools, whose nodes are replaced whatever
/// their pods need. Answers which were left out though they will be somewhere.
fn after(world: &World, commands: &[Command]) -> (World, Plan, Vec<usize>) {
    let mut world = world.clone();
    let mut plan = Plan::default();
    let (mut leaving, mut elsewhere) = (BTreeMap::new(), Vec::new());
    let going: BTreeSet<_> = world.nodes.iter().filter(|node| node.deleting).map(|node| node.name.clone()).collect();
    let moved: BTreeSet<usize> = commands.iter().flat_map(|c| &c.moves).map(|moved| moved.pod).collect();
    for command in commands {
        for candidate in &command.candidates {
            world.nodes[candidate.node].deleting = true;
            leaving.insert(candidate.name.clone(), command.method);
        }
    }
    for (index, pod) in world.pods.iter_mut().enumerate() {
        let left_out = match &pod.node {
            Some(node) => going.contains(node) || leaving.get(node) == Some(&Method::StaticDrift),
            None => true,
        };
        if left_out && !moved.contains(&index) && waiting::returns(pod) {
            elsewhere.push(index);
        }
        if pod.node.as_ref().is_some_and(|node| going.contains(node)) && !moved.contains(&index) {
            pod.phase = Phase::Succeeded;
        }
        match pod.node.as_ref().and_then(|node| leaving.get(node)) {
            Some(Method::Empty | Method::StaticDrift) if waiting::returns(pod) => pod.phase = Phase::Succeeded,
            None if pod.node.is_none() => pod.scheduled_reason = None,
            _ => {}
        }
    }
    for command in commands {
        let mut new: Vec<_> = command.replacements.iter().map(|new| new.node.clone()).collect();
        for node in &mut new {
            node.pods.retain(|pod| world.pods[*pod].node.is_some());
        }
        for moved in &command.moves {
            if let Target::Node(node) = moved.to
                && world.pods[moved.pod].node.is_some()
            {
                plan.existing.entry(node).or_default().push(moved.pod);
            }
        }
        plan.new_nodes.extend(new);
    }
    (world, plan, elsewhere)
}

#[cfg(test)]
mod tests;
