//! New nodes, one at a time: whatever they become must hold their pods and be what their pool allows.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use karpenter_core::labels::CAPACITY_TYPE;
use karpenter_core::ports::HostPort;
use karpenter_core::requirement::Expression;
use karpenter_core::settings::MinValuesPolicy;
use karpenter_core::{Operator, Pod, PodShape, World};

use crate::amounts::{Amounts, allocatable};
use crate::claim::{Claim, Possible, offerings, template_labels};
use crate::cluster::Cluster;
use crate::labels::{admits, canonical, holds, selects_node};
use crate::violation::Violation;
use crate::{daemons, launch, tolerations, volumes};

/// A claim names at most this many types.
const LISTED: usize = 600;

pub(crate) fn judge(cluster: &Cluster<'_>, found: &mut Vec<Violation>) {
    for claim in &cluster.claims {
        let pods: Vec<&Pod> = claim.node.pods.iter().map(|pod| cluster.pod(*pod)).collect();
        list_of_types(claim, found);
        claim_labels(cluster.world, claim, &pods, found);
        requests(cluster, claim, &pods, found);
        min_values(cluster.world, claim, found);
        taints(claim, &pods, found);
        as_it_may_be(cluster, claim, &pods, found);
        ports_among(&claim.name, &pods, found);
        launch::judge(claim, found);
        if pods.is_empty() {
            found.push(Violation::NoPods { node: claim.name.clone() });
        }
    }
}

fn list_of_types(claim: &Claim<'_>, found: &mut Vec<Violation>) {
    let node = || claim.name.clone();
    let requirements = &claim.node.requirements;
    let count = claim.node.instance_types.len();
    if count == 0 {
        found.push(Violation::NoTypes { node: node() });
    }
    if count > LISTED {
        found.push(Violation::TooManyTypes { node: node(), count });
    }
    let mut names = BTreeSet::new();
    let mut capacity_types = BTreeSet::new();
    let mut before = None;
    for kind in claim.types() {
        if !names.insert(&*kind.name) {
            found.push(Violation::TypeTwice { node: node(), instance_type: kind.name.to_string() });
        }
        let sold = offerings(kind, requirements);
        if sold.is_empty() {
            found.push(Violation::NotForSale { node: node(), instance_type: kind.name.to_string() });
        }
        let of = sold.iter().filter_map(|o| o.requirements.0.get(CAPACITY_TYPE));
        capacity_types.extend(of.flat_map(|declared| declared.values.iter().map(|value| &**value)));
        let price = launch::cheapest(&sold);
        if let Some((dearer, was)) = before.replace((kind.name.clone(), price))
            && was > price
        {
            let (dearer, cheaper) = (dearer.to_string(), kind.name.to_string());
            found.push(Violation::TypesUnsorted { node: node(), dearer, cheaper });
        }
    }
    let lists = |key: &str, want: &BTreeSet<&str>| {
        let asked = requirements.0.get(key);
        asked.is_some_and(|asked| !asked.open && asked.values.iter().map(|v| &**v).eq(want.iter().copied()))
    };
    if !capacity_types.is_empty() && !lists(CAPACITY_TYPE, &capacity_types) {
        found.push(Violation::CapacityTypesNotRequired { node: node() });
    }
}

/// The claim's labels are the template's and those that pool or pods leave to it, each as its requirement says.
fn claim_labels(world: &World, claim: &Claim<'_>, pods: &[&Pod], found: &mut Vec<Violation>) {
    let words = &world.vocabulary;
    let mut report = |violation: fn(String, String) -> Violation, key: &str| {
        found.push(violation(claim.name.clone(), key.to_owned()));
    };
    let template = template_labels(world, claim.pool);
    for (key, value) in &template {
        let said = claim.node.labels.iter().find(|(said, _)| canonical(words, said) == *key);
        if said.is_none_or(|(_, said)| said != value) {
            report(|node, key| Violation::TemplateLabelLost { node, key }, key);
        }
    }
    for key in claim.node.labels.keys() {
        let key = canonical(words, key);
        if !template.contains_key(key) && !may_be_labelled(world, claim, pods, key) {
            report(|node, key| Violation::InventedLabel { node, key }, key);
        }
    }
    for (key, asked) in &claim.node.requirements.0 {
        if !words.well_known.contains(&**key) && !admits(asked, claim.label(key)) {
            report(|node, key| Violation::LabelNotRequired { node, key }, key);
        }
    }
}

/// A custom key of the pool's requirements, or one that a pod on the node only excludes values of.
fn may_be_labelled(world: &World, claim: &Claim<'_>, pods: &[&Pod], key: &str) -> bool {
    let words = &world.vocabulary;
    let of_key = |e: &&Expression| canonical(words, &e.key) == key;
    let excludes = |pod: &&Pod| {
        let terms = pod.shape.required_node_affinity.iter().flat_map(|term| &term.expressions);
        terms.filter(of_key).any(|e| e.operator == Operator::NotIn)
    };
    !words.well_known.contains(key) && (claim.pool.requirements.iter().any(|e| of_key(&e)) || pods.iter().any(excludes))
}

/// At least what the pods ask for, and no more than all daemons that could come ask for on top.
fn requests(cluster: &Cluster<'_>, claim: &Claim<'_>, pods: &[&Pod], found: &mut Vec<Violation>) {
    let least = requests_of(pods);
    let tolerate =
        |daemon: &&daemons::Daemon<'_>| tolerations::hard(&claim.pool.taints, &daemon.shape.tolerations).is_none();
    let mut most = least.clone();
    most.add_amounts(&daemons::requests(cluster.daemons.iter().filter(tolerate).copied()));
    let said = Amounts::of(&claim.node.requests);
    let names: BTreeSet<&str> = least.0.keys().chain(said.0.keys()).copied().collect();
    for resource in names {
        let said = said.get(resource);
        if said < least.get(resource) || said > most.get(resource) {
            let resource = resource.to_owned();
            found.push(Violation::RequestsWrong { node: claim.name.clone(), resource });
        }
    }
}

fn requests_of<'p>(pods: &[&'p Pod]) -> Amounts<'p> {
    let mut sum = Amounts::default();
    pods.iter().for_each(|pod| sum.add(&pod.shape.requests));
    sum
}

/// Counted over what the listed types declare, however the claim itself has been narrowed.
fn min_values(world: &World, claim: &Claim<'_>, found: &mut Vec<Violation>) {
    let words = &world.vocabulary;
    let mut lowered = false;
    for expression in &claim.pool.requirements {
        let Some(wanted) = expression.min_values else { continue };
        let key = canonical(words, &expression.key);
        let declared = claim.types().filter_map(|kind| kind.requirements.0.get(key));
        let values: BTreeSet<&str> = declared.flat_map(|d| d.values.iter().map(|value| &**value)).collect();
        let carried = claim.node.requirements.0.get(key).and_then(|asked| asked.min_values);
        let wanted = match world.settings.min_values {
            MinValuesPolicy::Strict => wanted,
            MinValuesPolicy::BestEffort => {
                lowered |= carried.unwrap_or(0) < wanted;
                // The list may have been cut to size after the number was lowered.
                if claim.node.instance_types.len() < LISTED { carried.unwrap_or(0) } else { 0 }
            }
        };
        // A claim that holds reservations had its choice before it was bound to them.
        if values.len() < wanted as usize && claim.node.reservations.is_empty() {
            let (node, key, values) = (claim.name.clone(), key.to_owned(), values.len());
            found.push(Violation::MinValuesUnmet { node, key, values, wanted });
        }
    }
    let said = claim.node.min_values_relaxed;
    if said != lowered {
        found.push(Violation::MinValuesRelaxation { node: claim.name.clone(), said });
    }
}

fn taints(claim: &Claim<'_>, pods: &[&Pod], found: &mut Vec<Violation>) {
    for pod in pods {
        if let Some(taint) = tolerations::hard(&claim.pool.taints, &pod.shape.tolerations) {
            found.push(Violation::Untolerated {
                pod: format!("{}/{}", pod.namespace, pod.name),
                node: claim.name.clone(),
                taint: taint.to_string(),
            });
        }
    }
}

/// What must hold whichever type is launched in whichever offering. Each fault is reported once, with an example.
fn as_it_may_be(cluster: &Cluster<'_>, claim: &Claim<'_>, pods: &[&Pod], found: &mut Vec<Violation>) {
    let pods_want = requests_of(pods);
    let mut once = HashSet::new();
    let mut example = |fault: Fault<'_>, possible: &Possible<'_>, found: &mut Vec<Violation>| {
        if once.insert(fault.identity()) {
            found.push(fault.violation(claim.name.clone(), possible.to_string()));
        }
    };
    let different = different(pods);
    for kind in claim.types() {
        let room = allocatable(kind);
        for possible in claim.possible(kind) {
            for key in pool_faults(cluster.world, claim, &possible) {
                example(Fault::Pool(key), &possible, found);
            }
            for pod in &different {
                if !selects_node(&cluster.world.vocabulary, &pod.shape, &possible) {
                    example(Fault::Selection(pod), &possible, found);
                }
                if let Some(name) = volumes::out_of_reach(cluster.world, pod, &possible) {
                    example(Fault::Volume(pod, name), &possible, found);
                }
            }
            let taints = &claim.pool.taints;
            let running = cluster.daemons.iter().filter(|d| d.runs_on(cluster.world, taints, &possible));
            let running: Vec<_> = running.copied().collect();
            let mut wanted = daemons::requests(running.iter().copied());
            wanted.add_amounts(&pods_want);
            if let Some((resource, wanted, allocatable)) = wanted.first_over(&room) {
                example(Fault::Room(resource.to_owned(), wanted, allocatable), &possible, found);
            }
            for daemon in running {
                for pod in &different {
                    if clash(&daemon.shape.host_ports, &pod.shape.host_ports) {
                        example(Fault::DaemonPort(pod, daemon.name), &possible, found);
                    }
                }
            }
        }
    }
}

/// Keys of pool requirements and template labels that the node would not have as asked.
fn pool_faults<'w>(world: &'w World, claim: &Claim<'w>, possible: &Possible<'_>) -> Vec<&'w str> {
    let words = &world.vocabulary;
    let unmet = claim.pool.requirements.iter().filter(|e| !holds(words, e, possible));
    let mut keys: Vec<&str> = unmet.map(|e| canonical(words, &e.key)).collect();
    let template = template_labels(world, claim.pool);
    keys.extend(template.iter().filter(|(key, value)| possible.label_of(key) != Some(value)).map(|(key, _)| *key));
    keys
}

enum Fault<'w> {
    Pool(&'w str),
    Selection(&'w Pod),
    Volume(&'w Pod, &'w str),
    Room(String, i128, i128),
    DaemonPort(&'w Pod, &'w str),
}

impl Fault<'_> {
    /// Faults that differ only in the node's guise are one.
    fn identity(&self) -> (u8, String) {
        match self {
            Self::Pool(key) => (0, (*key).to_owned()),
            Self::Selection(pod) => (1, pod.uid.to_string()),
            Self::Volume(pod, claim) => (2, format!("{} {claim}", pod.uid)),
            Self::Room(..) => (3, String::new()),
            Self::DaemonPort(pod, daemon) => (4, format!("{} {daemon}", pod.uid)),
        }
    }

    fn violation(self, node: String, as_it_may_be: String) -> Violation {
        let name = |pod: &Pod| format!("{}/{}", pod.namespace, pod.name);
        match self {
            Self::Pool(key) => Violation::PoolNotMet { node, as_it_may_be, key: key.to_owned() },
            Self::Selection(pod) => Violation::NotSelected { pod: name(pod), node, as_it_may_be },
            Self::Volume(pod, claim) => {
                let (pod, claim) = (name(pod), claim.to_owned());
                Violation::VolumeOutOfReach { pod, claim, node, as_it_may_be }
            }
            Self::Room(resource, wanted, allocatable) => {
                Violation::Overfull { node, as_it_may_be, resource, wanted, allocatable }
            }
            Self::DaemonPort(pod, daemon) => {
                Violation::PortClash { node, pod: name(pod), other: format!("daemon {daemon}") }
            }
        }
    }
}

/// One pod of each kind: replicas need not be looked at one by one.
fn different<'p>(pods: &[&'p Pod]) -> Vec<&'p Pod> {
    type Identity<'p> = (&'p PodShape, &'p [Arc<str>], &'p str);
    let mut seen: HashSet<Identity<'p>> = HashSet::new();
    let new = |pod: &&&'p Pod| seen.insert((&pod.shape, &pod.claims, &pod.namespace));
    pods.iter().filter(new).copied().collect()
}

/// Pods of one node that want the same host port.
pub(crate) fn ports_among(node: &str, pods: &[&Pod], found: &mut Vec<Violation>) {
    let with_ports: Vec<&&Pod> = pods.iter().filter(|pod| !pod.shape.host_ports.is_empty()).collect();
    for (i, pod) in with_ports.iter().enumerate() {
        for other in &with_ports[..i] {
            if clash(&pod.shape.host_ports, &other.shape.host_ports) {
                let name = |pod: &Pod| format!("{}/{}", pod.namespace, pod.name);
                found.push(Violation::PortClash { node: node.to_owned(), pod: name(pod), other: name(other) });
            }
        }
    }
}

pub(crate) fn clash(mine: &[HostPort], theirs: &[HostPort]) -> bool {
    let any_address = |ip: &str| ip == "0.0.0.0" || ip == "::";
    let same = |a: &HostPort, b: &HostPort| {
        a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || any_address(&a.ip) || any_address(&b.ip))
    };
    mine.iter().any(|a| theirs.iter().any(|b| same(a, b)))
}
