//! From everything that was read to a world.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core_v1;
use karpenter_api::{EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
use karpenter_core::labels::Vocabulary;
use karpenter_core::settings::Settings;
use karpenter_core::{InstanceType, Pod, World};
use karpenter_disruption::{NodeFacts, PoolFacts};
use karpenter_index::facts;
use karpenter_index::reduce::{self, Fault, Refused};
use karpenter_provider::overlay::{self, Standing};
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::InputFault;
use crate::admission::Admission;
use crate::budget;
use crate::complete;
use crate::document::{Place, each_object};
use crate::gather::{AdmissionSink, Found, GatherSink, Gathered, Slot};
use crate::identity::{Identity, uid};
use crate::older;
use crate::source::Source;
use crate::workload::Workload;
use crate::written::Written;

/// What a node class can launch, in the order of names. Told for the raw object, defaults applied.
pub type InstanceTypesOf<'a> = dyn FnMut(&Value) -> Result<Arc<[Arc<InstanceType>]>, Vec<Fault>> + 'a;

/// What does not come from manifests.
pub struct Options<'a> {
    pub now: Timestamp,
    pub settings: Settings,
    pub vocabulary: Arc<Vocabulary>,
    /// Feature gate NodeOverlay.
    pub overlays: bool,
    pub instance_types: &'a mut InstanceTypesOf<'a>,
}

/// A cluster as the manifests describe it.
#[derive(Debug)]
pub struct Loaded {
    pub world: World,
    /// What disruption wants to know of `world.nodes`, position by position.
    pub node_facts: Vec<NodeFacts>,
    /// And of every NodePool, whether it is bought from or not.
    pub pool_facts: BTreeMap<Arc<str>, PoolFacts>,
    /// The objects behind `world.pools`, position by position.
    pub node_pools: Vec<NodePool>,
    pub node_classes: BTreeMap<String, EC2NodeClass>,
    /// What the user should know: kinds that were skipped, pools that are not used.
    pub notes: Vec<String>,
    /// Where the pods of the world are written down.
    pub written: Written,
}

/// The first pod without a creation time is this old; each pod after it a second younger.
const EPOCH: &str = "2026-01-01T00:00:00Z";

/// Reads everything and makes a world of it, or tells every fault.
pub fn load(sources: Vec<Source>, options: Options<'_>) -> Result<Loaded, Vec<InputFault>> {
    let mut admission = Admission::default();
    for source in sources.iter().filter(|source| AdmissionSink::concerns(&source.bytes)) {
        each_object(source, &mut AdmissionSink(&mut admission));
    }
    let mut gathered = Gathered::default();
    let order: Vec<Arc<str>> = sources.iter().map(|source| source.name.clone()).collect();
    // Each text is given back as soon as it has been read: it is most of what reading needs.
    for source in sources {
        each_object(&source, &mut GatherSink { gathered: &mut gathered, admission: &admission });
    }
    if gathered.objects == 0 {
        let file = order.first().cloned().unwrap_or_else(|| "-".into());
        let place = Place { file, document: 1, item: None };
        let message = "there is no Kubernetes object in the input".to_owned();
        gathered.fault(&place, "", Fault { field: String::new(), message });
    }
    gathered.finish_notes();
    assemble(gathered, &admission, options).map_err(|mut faults| {
        // What shows only when everything is known goes to where it stands.
        let position = |fault: &InputFault| {
            let file = order.iter().position(|name| *name == fault.place.file);
            (file, fault.place.document, fault.place.item)
        };
        faults.sort_by_key(position);
        faults
    })
}

fn assemble(mut gathered: Gathered, admission: &Admission, options: Options<'_>) -> Result<Loaded, Vec<InputFault>> {
    let pods = pods(&mut gathered, admission);
    let storage = storage(&mut gathered);
    let (nodes, node_facts) = nodes(&mut gathered, options.now);
    let found = bought_from(&mut gathered, options.instance_types);
    let found = overlaid(&mut gathered, found, options.overlays, &options.vocabulary);
    let Pools { pools, objects: node_pools, facts: pool_facts } = pools(&mut gathered, found);
    let budgets = std::mem::take(&mut gathered.budgets);
    let mut disruption_budgets = Vec::new();
    for Found { place, object } in &budgets {
        match budget::disruption_budget(object, &pods) {
            Ok(budget) => disruption_budgets.push(budget),
            Err(fault) => {
                let object = reduce::object_name("PodDisruptionBudget", &object.metadata);
                gathered.refuse(place, Refused { object, faults: vec![fault] });
            }
        }
    }
    let mut namespaces = std::mem::take(&mut gathered.namespaces);
    for pod in &pods {
        if !namespaces.contains_key(&pod.namespace) {
            let mut object = core_v1::Namespace::default();
            object.metadata.name = Some(pod.namespace.to_string());
            namespaces.insert(pod.namespace.clone(), reduce::namespace_labels(&object));
        }
    }
    let selectors = gathered.workloads.iter();
    let workload_selectors =
        selectors.filter_map(|workload| Some((workload.uid.clone(), workload.selector.clone()?))).collect();
    let world = World {
        now: options.now,
        settings: options.settings,
        vocabulary: options.vocabulary,
        pools,
        nodes,
        pods,
        daemon_sets: gathered.daemon_sets,
        namespaces,
        storage,
        services: gathered.services,
        workload_selectors,
        disruption_budgets,
    };
    if !gathered.faults.is_empty() {
        return Err(gathered.faults);
    }
    let node_classes = gathered.classes.into_iter().map(|(name, found)| (name, found.object.0)).collect();
    Ok(Loaded {
        world,
        node_facts,
        pool_facts,
        node_pools,
        node_classes,
        notes: gathered.notes,
        written: gathered.written,
    })
}

/// All pods in the order of the input, workloads expanded where they stand.
fn pods(gathered: &mut Gathered, admission: &Admission) -> Vec<Pod> {
    note_deployments_with_pods(gathered);
    let slots = std::mem::take(&mut gathered.slots);
    let mut pods: Vec<Pod> = Vec::with_capacity(slots.len());
    let epoch: Timestamp = EPOCH.parse().expect("a constant in RFC 3339");
    let mut undated = Vec::new();
    for slot in slots {
        match slot {
            Slot::Pod { pod, dated } => {
                if !dated {
                    undated.push(pods.len());
                }
                pods.push(*pod);
            }
            Slot::Workload(position) => {
                let first = pods.len();
                expand(gathered, position, admission, &mut pods);
                undated.extend(first..pods.len());
            }
        }
    }
    for position in undated {
        pods[position].created = epoch + SignedDuration::from_secs(position as i64);
    }
    pods
}

/// A Deployment has the pods that its ReplicaSets have.
fn note_deployments_with_pods(gathered: &mut Gathered) {
    let kind: Arc<str> = "Deployment".into();
    for set in gathered.workloads.iter().filter(|workload| workload.identity.kind == "ReplicaSet") {
        let Identity { namespace, name, .. } = &set.identity;
        let has_pods = gathered.controllers.contains(&(namespace.clone(), "ReplicaSet".into(), name.clone()));
        if let Some(above) = set.deployment.as_ref().filter(|_| has_pods) {
            gathered.controllers.insert((namespace.clone(), kind.clone(), above.clone()));
        }
    }
}

/// Whether the pods of a workload are in the input themselves, or will be made from the Deployment above it.
fn is_represented(gathered: &Gathered, workload: &Workload) -> bool {
    let Identity { kind, namespace, name } = &workload.identity;
    let has_pods = |kind: &str, name: &Arc<str>| {
        gathered.controllers.contains(&(namespace.clone(), Arc::from(kind), name.clone()))
    };
    let is_given = |kind: &'static str, name: &Arc<str>| {
        let identity = Identity { kind, namespace: namespace.clone(), name: name.clone() };
        gathered.identities.contains(&identity)
    };
    has_pods(kind, name)
        || (*kind == "ReplicaSet" && workload.deployment.as_ref().is_some_and(|above| is_given("Deployment", above)))
}

fn expand(gathered: &mut Gathered, position: usize, admission: &Admission, pods: &mut Vec<Pod>) {
    if is_represented(gathered, &gathered.workloads[position]) {
        return;
    }
    let workload = &gathered.workloads[position];
    let (namespace, replicas) = (workload.identity.namespace.clone(), workload.replicas);
    let mut object = workload.pod();
    admission.admit(&object.metadata, object.spec.get_or_insert_default(), &namespace, true);
    complete::pod(&mut object);
    let (place, identity) = (workload.place.clone(), workload.identity.clone());
    let claims_differ = !workload.claim_templates.is_empty()
        || object.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).any(|volume| volume.ephemeral.is_some());
    let template = match reduce::pod(&object, &mut gathered.interner) {
        Ok(template) => template,
        Err(refused) => {
            let below = |fault: Fault| Fault { field: format!("spec.template.{}", fault.field), ..fault };
            let faults = refused.faults.into_iter().map(below).collect();
            return gathered.refuse(&place, Refused { object: identity.to_string(), faults });
        }
    };
    let first = pods.len();
    for replica in 0..replicas {
        let name: Arc<str> = format!("{}-{replica}", identity.name).into();
        let given = Identity { kind: "Pod", namespace: namespace.clone(), name: name.clone() };
        if gathered.identities.contains(&given) {
            continue;
        }
        let mut pod = Pod { uid: uid("Pod", &namespace, &name), name: name.clone(), ..template.clone() };
        if claims_differ {
            object.metadata.name = Some(name.to_string());
            let ephemeral = complete::ephemeral_claims(&object, &namespace);
            let mut claims = reduce::claims(object.spec.as_ref().expect("filled in above"), &name);
            for (claim, object) in gathered.workloads[position].claims(&name) {
                let claim: Arc<str> = claim.into();
                claims.push(claim.clone());
                let key = (namespace.clone(), claim);
                gathered.storage.claims.entry(key).or_insert_with(|| reduce::volume_claim(&object));
            }
            pod.claims = claims.into();
            gathered.ephemeral_claims.extend(ephemeral);
        }
        pods.push(pod);
    }
    let spec = object.spec.as_ref().expect("filled in above");
    gathered.written.workload(identity.to_string(), spec, first..pods.len());
}

/// Claims that were given count before those that the cluster would make; a claim without a class gets the default.
fn storage(gathered: &mut Gathered) -> karpenter_core::storage::Storage {
    let mut storage = std::mem::take(&mut gathered.storage);
    for (key, claim) in std::mem::take(&mut gathered.ephemeral_claims) {
        storage.claims.entry(key).or_insert(claim);
    }
    for claim in storage.claims.values_mut() {
        if claim.class.is_none() && claim.volume.is_none() {
            claim.class = gathered.default_class.clone();
        }
    }
    storage
}

/// Nodes with their claims, then claims that are still without a node.
fn nodes(gathered: &mut Gathered, now: Timestamp) -> (Vec<karpenter_core::Node>, Vec<NodeFacts>) {
    let mut nodes = std::mem::take(&mut gathered.nodes);
    for Found { object, .. } in &mut nodes {
        complete::node(object);
    }
    let by_name: FxHashMap<&str, &core_v1::Node> =
        nodes.iter().filter_map(|found| Some((found.object.metadata.name.as_deref()?, &found.object))).collect();
    let mut claims = std::mem::take(&mut gathered.claims);
    for Found { object, .. } in &mut claims {
        let name = object.status.as_ref().and_then(|status| status.node_name.as_deref()).unwrap_or("");
        let node = by_name.get(name).copied();
        complete::node_claim(object, node);
        complete::conditions(object, node, now);
    }
    let mut by_machine: BTreeMap<String, Found<_>> = BTreeMap::new();
    for claim in claims {
        let id = claim.object.status.as_ref().and_then(|status| status.provider_id.clone());
        by_machine.insert(id.unwrap_or_default(), claim);
    }
    let named =
        |found: &Found<NodePool>| (found.object.metadata.name.clone(), facts::pool(&found.object, Arc::new([])));
    let pools: BTreeMap<Option<String>, PoolFacts> = gathered.pools.iter().map(named).collect();
    let (mut reduced, mut of_nodes) = (Vec::new(), Vec::new());
    let mut add = |node: Option<karpenter_core::Node>, object: Option<&core_v1::Node>, claim: Option<&NodeClaim>| {
        let Some(node) = node else { return };
        let pool = node.pool().and_then(|pool| pools.get(&Some(pool.to_owned())));
        of_nodes.push(facts::node(object, claim, node.stage, pool));
        reduced.push(node);
    };
    for Found { place, object } in &nodes {
        let given = reduce::provider_id(object).and_then(|id| by_machine.remove(id)).map(|found| found.object);
        let made_up = || {
            let mut claim = made_up_claim(object, &gathered.pools)?;
            complete::conditions(&mut claim, Some(object), now);
            Some(claim)
        };
        let claim = given.or_else(made_up);
        let csi = object.metadata.name.as_ref().and_then(|name| gathered.csi_nodes.get(name));
        match reduce::node(Some(object), claim.as_ref(), csi) {
            Ok(node) => add(node, Some(object), claim.as_ref()),
            Err(refused) => gathered.refuse(place, refused),
        }
    }
    for Found { place, object } in by_machine.into_values() {
        match reduce::node(None, Some(&object), None) {
            Ok(node) => add(node, None, Some(&object)),
            Err(refused) => gathered.refuse(&place, refused),
        }
    }
    (reduced, of_nodes)
}

/// What became of the NodePools.
#[derive(Default)]
struct Pools {
    /// Those a plan may buy from, and the objects behind them.
    pools: Vec<karpenter_core::Pool>,
    objects: Vec<NodePool>,
    facts: BTreeMap<Arc<str>, PoolFacts>,
}

fn made_up_claim(node: &core_v1::Node, pools: &[Found<NodePool>]) -> Option<karpenter_api::NodeClaim> {
    let name = node.metadata.labels.as_ref()?.get(karpenter_core::labels::NODEPOOL)?;
    let pool = pools.iter().find(|pool| pool.object.metadata.name.as_ref() == Some(name))?;
    Some(complete::claim_for(node, &pool.object))
}

type Types = Arc<[Arc<InstanceType>]>;

/// Every pool with the types of its class; without, if nothing may be bought from it.
fn bought_from(
    gathered: &mut Gathered,
    instance_types: &mut InstanceTypesOf<'_>,
) -> Vec<(Found<NodePool>, Option<Types>)> {
    // By class, and by the kubelet settings that a pool may bring along.
    let mut known: BTreeMap<(String, Option<String>), Option<Types>> = BTreeMap::new();
    let mut all = Vec::new();
    for found in std::mem::take(&mut gathered.pools) {
        let name = reduce::object_name("NodePool", &found.object.metadata);
        let class = found.object.spec.template.spec.node_class_ref.name.clone();
        if let Some(why) = why_unused(&found.object) {
            gathered.notes.push(format!("{name} is not used: {why}"));
            all.push((found, None));
            continue;
        }
        if !gathered.classes.contains_key(&class) {
            let field = "spec.template.spec.nodeClassRef.name".to_owned();
            let message = format!("there is no EC2NodeClass {class} in the input");
            gathered.fault(&found.place, &name, Fault { field, message });
            all.push((found, None));
            continue;
        }
        let kubelet = older::own_kubelet(&found.object);
        let types = known.entry((class.clone(), kubelet.map(str::to_owned)));
        let types = types.or_insert_with(|| types_of(gathered, &class, kubelet, instance_types));
        let Some(types) = types.clone() else { continue };
        all.push((found, Some(types)));
    }
    all
}

/// With prices and capacities as NodeOverlays have them.
fn overlaid(
    gathered: &mut Gathered,
    pools: Vec<(Found<NodePool>, Option<Types>)>,
    gate: bool,
    words: &Vocabulary,
) -> Vec<(Found<NodePool>, Option<Types>)> {
    let overlays = std::mem::take(&mut gathered.overlays);
    if !gate {
        let name = |overlay: &Arc<NodeOverlay>| reduce::object_name("NodeOverlay", &overlay.metadata);
        let notes = overlays
            .iter()
            .map(|overlay| format!("{} is not applied: it needs the feature gate NodeOverlay", name(overlay)));
        gathered.notes.extend(notes.collect::<Vec<_>>());
        return pools;
    }
    let sold = pools.iter().filter_map(|(found, types)| Some((Arc::new(found.object.clone()), types.clone()?)));
    let (standings, accepted) = overlay::evaluate(&overlays, &sold.collect::<Vec<_>>(), words);
    for (name, standing) in standings {
        match standing {
            Standing::Valid => {}
            Standing::Invalid(why) => gathered.notes.push(format!("NodeOverlay {name} is not applied: {why}")),
            Standing::Conflict => {
                gathered.notes.push(format!("NodeOverlay {name} is not applied: it conflicts with another overlay"))
            }
        }
    }
    let apply = |(found, types): (Found<NodePool>, Option<Types>)| {
        let types = types.map(|types| accepted.apply(&found.object, &types, words));
        (found, types)
    };
    pools.into_iter().map(apply).collect()
}

fn pools(gathered: &mut Gathered, found: Vec<(Found<NodePool>, Option<Types>)>) -> Pools {
    let mut all = Pools::default();
    for (Found { place, object }, types) in found {
        let plain: Arc<str> = object.metadata.name.as_deref().unwrap_or_default().into();
        let Some(types) = types else {
            all.facts.insert(plain, facts::pool(&object, Arc::new([])));
            continue;
        };
        all.facts.insert(plain, facts::pool(&object, types.clone()));
        match reduce::pool(&object, types) {
            Ok(pool) => {
                all.pools.push(pool);
                all.objects.push(object);
            }
            Err(refused) => gathered.refuse(&place, refused),
        }
    }
    all
}

fn types_of(
    gathered: &mut Gathered,
    class: &str,
    kubelet: Option<&str>,
    instance_types: &mut InstanceTypesOf<'_>,
) -> Option<Types> {
    let found = gathered.classes.get(class)?;
    match instance_types(&older::with_kubelet(&found.object.1, kubelet)) {
        Ok(types) => Some(types),
        Err(faults) => {
            let place = found.place.clone();
            gathered.refuse(&place, Refused { object: format!("EC2NodeClass {class}"), faults });
            None
        }
    }
}

/// Why a pool that is there may not be bought from.
fn why_unused(pool: &NodePool) -> Option<String> {
    let class = &pool.spec.template.spec.node_class_ref;
    let conditions = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready: Vec<_> = conditions.filter(|condition| condition.type_ == "Ready").collect();
    if (class.group.as_str(), class.kind.as_str()) != ("karpenter.k8s.aws", "EC2NodeClass") {
        return Some(format!("its nodeClassRef is a {} of {}", class.kind, class.group));
    }
    if pool.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    if pool.spec.replicas.is_some() {
        return Some("it is static, and pods do not make it grow".to_owned());
    }
    let not_ready = ready.iter().find(|condition| condition.status != "True");
    not_ready.map(|condition| format!("its status says it is not ready ({})", condition.reason))
}

#[cfg(test)]
mod tests;
