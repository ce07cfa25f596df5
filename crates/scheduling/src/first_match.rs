//! The reference's order: largest pods first, existing nodes before open claims before new ones, and the first target
//! that accepts wins. Price plays no part.

use std::collections::VecDeque;

use karpenter_core::plan::Reason;
use smallvec::SmallVec;

use crate::bits::{Bits, Ones};
use crate::place::{Reserving, Verdict, View};
use crate::problem::Problem;
use crate::state::{ClaimTies, State};

/// Where the pods of a pass ended up; claims and nodes are in the state.
pub(crate) struct Outcome {
    /// Pods of `Problem::pods` without a place, in queue order.
    pub(crate) left: Vec<(usize, Missed)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// Worked out when somebody asks.
    NoTarget,
    DevicesIgnored,
    Deferred,
}

impl Missed {
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            Self::NoTarget => None,
            Self::DevicesIgnored => Some(Reason::DevicesIgnored),
            Self::Deferred => Some(Reason::ReservedCapacityDeferred),
        }
    }
}

enum Attempt {
    Placed,
    Failed,
    Deferred,
}

/// Tries every pod until a full cycle places none, or there is no more time.
pub(crate) fn solve(problem: &mut Problem<'_>, state: &mut State, queue: &[usize], reserving: Reserving) -> Outcome {
    let mut waiting: VecDeque<usize> = queue.iter().copied().collect();
    let mut missed: Vec<Option<Missed>> = vec![None; problem.pods.len()];
    // The queue's length when each pod was last put back: seeing it unchanged means a cycle without progress.
    let mut length_when_queued: Vec<usize> = vec![usize::MAX; problem.pods.len()];
    while let Some(pod) = waiting.pop_front() {
        if length_when_queued[pod] == waiting.len() + 1 || problem.deadline.is_over() {
            break;
        }
        match place(problem, state, pod, reserving) {
            Ok(()) => missed[pod] = None,
            Err(why) => {
                missed[pod] = Some(why);
                waiting.push_back(pod);
                length_when_queued[pod] = waiting.len();
            }
        }
    }
    let left = queue.iter().filter_map(|pod| missed[*pod].take().map(|why| (*pod, why))).collect();
    Outcome { left }
}

/// One attempt: as the pod is, then with one soft constraint after the other given up.
pub(crate) fn place(
    problem: &mut Problem<'_>,
    state: &mut State,
    pod: usize,
    reserving: Reserving,
) -> Result<(), Missed> {
    let class = problem.pods[pod].class;
    if problem.world.settings.ignore_device_requests && problem.classes[class].wants_devices {
        return Err(Missed::DevicesIgnored);
    }
    for variant in 0..problem.classes[class].variants.len() {
        match attempt(problem, state, pod, variant, reserving) {
            Attempt::Placed => return Ok(()),
            Attempt::Deferred => return Err(Missed::Deferred),
            Attempt::Failed => {}
        }
    }
    Err(Missed::NoTarget)
}

fn attempt(problem: &mut Problem<'_>, state: &mut State, pod: usize, variant: usize, reserving: Reserving) -> Attempt {
    let class = problem.pods[pod].class;
    if problem.classes[class].variants[variant].contradiction.is_some() {
        return Attempt::Failed;
    }
    if on_existing(problem, state, pod, variant) {
        return Attempt::Placed;
    }
    match on_open_claim(problem, state, pod, variant, reserving) {
        Attempt::Failed => on_new_claim(problem, state, pod, variant, reserving),
        done => done,
    }
}

/// The first thing [`place`] tries: a node that is there already, nothing given up.
pub(crate) fn place_on_existing(problem: &mut Problem<'_>, state: &mut State, pod: usize) -> bool {
    let class = problem.pods[pod].class;
    let of = &problem.classes[class];
    let ignored = problem.world.settings.ignore_device_requests && of.wants_devices;
    let possible = !ignored && of.variants[0].contradiction.is_none();
    possible && on_existing(problem, state, pod, 0)
}

fn on_existing(problem: &mut Problem<'_>, state: &mut State, pod: usize, variant: usize) -> bool {
    if problem.nodes.is_empty() {
        return false;
    }
    let nodes = open_nodes(problem, state, pod, variant);
    let class = problem.pods[pod].class;
    let size = problem.classes[class].size;
    for node in nodes.iter() {
        if !problem.classes[class].requests.fits(&state.nodes[node].free) {
            state.no_room(size, node);
            continue;
        }
        if problem.node_takes(state, node, pod) {
            problem.put_on_node(state, node, (pod, variant));
            return true;
        }
        // Ports and attachments only shrink too. Attachments are each pod's own, so those say nothing of the class.
        if !problem.classes[class].has_claims {
            state.refuse_node(class, node);
        }
    }
    false
}

/// Nodes that a pod may go to if there is room; those known to have none are left out.
pub(crate) fn open_nodes(problem: &mut Problem<'_>, state: &State, pod: usize, variant: usize) -> Bits {
    let class = problem.pods[pod].class;
    let form = &problem.classes[class].variants[variant];
    let (set, tolerations) = (form.set, form.tolerations.clone());
    let mut nodes = Bits::clone(&problem.node_index.satisfying(set, &mut problem.terms));
    nodes.and(&problem.node_index.tolerated(&tolerations));
    nodes.and_not(&state.closed);
    let size = problem.classes[class].size;
    state.no_room.leave_out(size, &mut nodes);
    if let Some(refused) = state.refused.get(&(class, 0)) {
        nodes.and_not(&refused.nodes);
    }
    if nodes.is_empty() {
        return nodes;
    }
    let hosts = problem.hosts(state, class, variant);
    nodes.and_not(&hosts.without_nodes);
    if let Some(only) = &hosts.nodes {
        nodes.and(only);
    }
    problem.keep_acceptable_nodes(state, class, variant, &mut nodes);
    nodes
}

/// Fewest pods first, then the claim that was opened first.
fn on_open_claim(
    problem: &mut Problem<'_>,
    state: &mut State,
    pod: usize,
    variant: usize,
    reserving: Reserving,
) -> Attempt {
    let class = problem.pods[pod].class;
    let hosts = problem.hosts(state, class, variant);
    let mut skip = hosts.without_claims.clone();
    if let Some(refused) = state.refused.get(&(class, variant)) {
        skip.or(&refused.claims);
    }
    let mut views: Views = SmallVec::new();
    for count in 1..state.by_count.len() {
        if state.ties().claims == ClaimTies::Latest {
            let claims = state.in_turn(count);
            let claims =
                claims.into_iter().filter(|index| hosts.claims.as_ref().is_none_or(|only| only.contains(*index)));
            for index in claims {
                if !skip.contains(index)
                    && try_claim(problem, state, (pod, variant), index, &mut views, &mut skip, reserving)
                {
                    return Attempt::Placed;
                }
            }
            continue;
        }
        for at in 0..state.by_count[count].words().len() {
            let only = hosts.claims.as_ref().map_or(u64::MAX, |only| only.word(at));
            while let Some(bit) = Ones(state.by_count[count].word(at) & !skip.word(at) & only).next() {
                let index = at * 64 + bit;
                if try_claim(problem, state, (pod, variant), index, &mut views, &mut skip, reserving) {
                    return Attempt::Placed;
                }
            }
        }
    }
    Attempt::Failed
}

/// How a pod sees the shapes of claims it came by.
type Views = SmallVec<[(usize, Option<View>); 4]>;

/// Puts the pod on the claim if it takes it; otherwise the claim, or all that look like it, are skipped from now on.
fn try_claim(
    problem: &mut Problem<'_>,
    state: &mut State,
    (pod, variant): (usize, usize),
    index: usize,
    views: &mut Views,
    skip: &mut Bits,
    reserving: Reserving,
) -> bool {
    let class = problem.pods[pod].class;
    let shape = state.shape_of(index);
    let at = match views.iter().position(|(of, _)| *of == shape) {
        Some(at) => at,
        None => {
            let (template, set) = (state.shapes[shape].template, state.shapes[shape].set);
            views.push((shape, problem.view(state, class, variant, template, set)));
            views.len() - 1
        }
    };
    let Some(view) = &views[at].1 else {
        skip.or(&state.shapes[shape].claims);
        return false;
    };
    match problem.judge(state, &state.claims[index], class, view, reserving, false) {
        Verdict::Fits { set, types, reserved } => {
            problem.put_on_claim(state, index, (pod, variant), set, types, reserved);
            return true;
        }
        Verdict::RefusedForGood => state.refuse_claim((class, variant), index),
        // A claim that would lose its reservation keeps it; another claim, or a new one, may take the pod.
        Verdict::Refused | Verdict::Deferred => {}
    }
    skip.insert(index);
    false
}
/// Template by template; a deferral stops the search, so that a lighter pool does not take what a reservation will serve.
fn on_new_claim(
    problem: &mut Problem<'_>,
    state: &mut State,
    pod: usize,
    variant: usize,
    reserving: Reserving,
) -> Attempt {
    let class = problem.pods[pod].class;
    if !problem.hosts(state, class, variant).new_allowed {
        return Attempt::Failed;
    }
    for template in 0..problem.templates.len() {
        let Some(view) = problem.view(state, class, variant, template, problem.templates[template].base) else {
            continue;
        };
        let Ok(mut claim) = problem.fresh_claim(state, template) else {
            continue;
        };
        match problem.judge(state, &claim, class, &view, reserving, true) {
            Verdict::Fits { set, types, reserved } => {
                claim.min_values_relaxed = !view.narrowed.contains(&set);
                let charged = problem.worst_capacity(template, &types);
                let index = state.open(claim);
                if problem.templates[template].is_limited() {
                    state.charge(template, &charged);
                }
                problem.put_on_claim(state, index, (pod, variant), set, types, reserved);
                return Attempt::Placed;
            }
            Verdict::Deferred => return Attempt::Deferred,
            Verdict::Refused | Verdict::RefusedForGood => {}
        }
    }
    Attempt::Failed
}
