//! Takes objects as they are read: pods are reduced at once, the few others are kept until all are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1 as storage_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use karpenter_api::{EC2NodeClass, Kind, NodeClaim, NodePool};
use karpenter_core::Pod;
use karpenter_core::labels::Labels;
use karpenter_core::storage::Storage;
use karpenter_core::world::{DaemonSet, Service};
use karpenter_index::reduce::{self, Fault, Interner, Refused};
use rustc_hash::FxHashSet;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::InputFault;
use crate::admission::Admission;
use crate::checks::{self, Checked, Checks, Weight};
use crate::complete;
use crate::document::{Place, Sink};
use crate::identity::{Identity, uid};
use crate::kinds::{Known, Lookup, lookup};
use crate::older;
use crate::position;
use crate::refusals::Refusals;
use crate::strict::read_checked;
use crate::workload::{self, Workload, controller};
use crate::written::Written;

/// A NodePool or node class together with where it stands, for later faults.
pub(crate) struct Found<T> {
    pub(crate) place: Place,
    pub(crate) object: T,
}

/// In the order of the input, because creation times follow it.
pub(crate) enum Slot {
    Pod {
        pod: Box<Pod>,
        /// The manifest says when it was created.
        dated: bool,
    },
    /// A position in `workloads`.
    Workload(usize),
}

/// Everything that was read.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) faults: Vec<InputFault>,
    /// The fields that faults have been told of.
    fields_told: FxHashSet<(Place, Vec<position::Step>)>,
    pub(crate) notes: Vec<String>,
    pub(crate) interner: Interner,
    pub(crate) slots: Vec<Slot>,
    pub(crate) workloads: Vec<Workload>,
    /// Controllers of pods that are in the input, as (namespace, kind, name).
    pub(crate) controllers: FxHashSet<(Arc<str>, Arc<str>, Arc<str>)>,
    pub(crate) identities: FxHashSet<Identity>,
    pub(crate) pools: Vec<Found<NodePool>>,
    pub(crate) overlays: Vec<Arc<karpenter_api::NodeOverlay>>,
    pub(crate) classes: BTreeMap<String, Found<(EC2NodeClass, Value)>>,
    pub(crate) nodes: Vec<Found<core_v1::Node>>,
    pub(crate) claims: Vec<Found<NodeClaim>>,
    pub(crate) csi_nodes: BTreeMap<String, storage_v1::CSINode>,
    pub(crate) daemon_sets: Vec<DaemonSet>,
    pub(crate) storage: Storage,
    pub(crate) default_class: Option<Arc<str>>,
    /// Claims that the cluster makes for generic ephemeral volumes.
    pub(crate) ephemeral_claims: Vec<complete::NamedClaim>,
    pub(crate) services: Vec<Service>,
    pub(crate) namespaces: BTreeMap<Arc<str>, Labels>,
    pub(crate) budgets: Vec<Found<PodDisruptionBudget>>,
    pub(crate) written: Written,
    /// Objects of whatever kind.
    pub(crate) objects: usize,
    skipped: BTreeMap<String, usize>,
    refusals: Refusals,
    checks: Checks,
    /// Names made for objects that leave it to the server.
    generated: usize,
}

impl Gathered {
    /// A line for each kind that was passed over, and for each thing that a server of today would refuse.
    pub(crate) fn finish_notes(&mut self) {
        for (kind, count) in std::mem::take(&mut self.skipped) {
            self.notes.push(format!("skipped {count} {kind}: plans do not depend on this kind"));
        }
        self.notes.extend(std::mem::take(&mut self.refusals).notes());
    }

    pub(crate) fn fault(&mut self, place: &Place, object: &str, fault: Fault) {
        let Fault { field, message } = fault;
        let message = on_one_screen(message);
        let same = |told: &InputFault| told.place == *place && told.field == field && told.message == message;
        if self.faults.iter().rev().take_while(|told| told.place == *place).any(same) {
            return;
        }
        self.fields_told.insert((place.clone(), below_the_top(&field)));
        self.faults.push(InputFault { place: place.clone(), object: object.to_owned(), field, message });
    }

    /// Faults of an object that reading found; what validation has said of a field is not said again in other words.
    pub(crate) fn refuse(&mut self, place: &Place, refused: Refused) {
        for fault in refused.faults {
            if !self.fields_told.contains(&(place.clone(), below_the_top(&fault.field))) {
                self.fault(place, &refused.object, fault);
            }
        }
    }
}

/// A field without its first step: the server says `metadata.taints` of what stands at `spec.taints`.
fn below_the_top(field: &str) -> Vec<position::Step> {
    let mut steps = position::steps(field);
    if steps.len() > 1 {
        steps.remove(0);
    }
    steps
}

/// Messages show the values they are about, and those may be long.
fn on_one_screen(message: String) -> String {
    const MOST: usize = 1000;
    if message.chars().count() <= MOST {
        return message;
    }
    let letters: Vec<char> = message.chars().collect();
    let (start, end) = (&letters[..MOST / 2], &letters[letters.len() - MOST / 4..]);
    start.iter().chain(" … ".chars().collect::<Vec<_>>().iter()).chain(end).collect()
}

/// The first reading: only what admission consults, because it may stand behind the pods it applies to.
pub(crate) struct AdmissionSink<'a>(pub(crate) &'a mut Admission);

impl AdmissionSink<'_> {
    /// Whether a text can hold anything for this reading; most do not, and are then read once.
    pub(crate) fn concerns(text: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(text) else { return false };
        ["PriorityClass", "RuntimeClass", "LimitRange"].iter().any(|word| text.contains(word))
    }
}

impl Sink for AdmissionSink<'_> {
    fn object(&mut self, _: Place, object: Map<String, Value>) {
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let Lookup::Known(kind) = lookup(&text("apiVersion"), &text("kind")) else {
            return;
        };
        let object = &Value::Object(object);
        // What cannot be read is reported by the second reading.
        match kind {
            Known::PriorityClass => {
                if let Ok(class) = read_checked(object) {
                    self.0.priority_class(class);
                }
            }
            Known::RuntimeClass => {
                if let Ok(class) = read_checked(object) {
                    self.0.runtime_class(class);
                }
            }
            Known::LimitRange => {
                if let Ok(range) = read_checked::<core_v1::LimitRange>(object) {
                    let namespace = range.metadata.namespace.clone().unwrap_or_else(|| DEFAULT.to_owned());
                    self.0.limit_range(namespace.into(), range);
                }
            }
            _ => {}
        }
    }

    fn fault(&mut self, _: Place, _: String) {}
}

const DEFAULT: &str = "default";

/// The second reading: everything.
pub(crate) struct GatherSink<'a> {
    pub(crate) gathered: &'a mut Gathered,
    pub(crate) admission: &'a Admission,
}

impl Sink for GatherSink<'_> {
    fn fault(&mut self, place: Place, message: String) {
        self.gathered.objects += 1;
        self.gathered.fault(&place, "", Fault { field: String::new(), message });
    }

    fn object(&mut self, place: Place, object: Map<String, Value>) {
        self.gathered.objects += 1;
        let told = self.gathered.faults.len();
        let written = Value::Object(object);
        self.examine(&place, &written);
        self.gathered.faults[told..].sort_by_cached_key(|fault| position::of(&fault.field, &written));
    }
}

impl GatherSink<'_> {
    fn examine(&mut self, place: &Place, written: &Value) {
        let converted = match written.as_object().and_then(older::modern) {
            Some(Ok(converted)) => {
                self.gathered.notes.push(format!(
                    "{place}: {} is v1beta1 and read as v1; `karpenter convert` writes it so",
                    title(written, false)
                ));
                Some(Value::Object(converted))
            }
            Some(Err(faults)) => {
                for karpenter_api::Fault { field, message } in faults {
                    self.gathered.fault(place, &title(written, false), Fault { field, message });
                }
                return;
            }
            None => None,
        };
        let object = converted.as_ref().unwrap_or(written);
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("");
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version.is_empty() || kind.is_empty() {
            let field = if kind.is_empty() { "kind" } else { "apiVersion" };
            let message = "is missing: this is no Kubernetes object".to_owned();
            return self.gathered.fault(place, "", Fault { field: field.to_owned(), message });
        }
        let mut skip = || *self.gathered.skipped.entry(format!("{api_version} {kind}")).or_default() += 1;
        match lookup(api_version, kind) {
            Lookup::Known(known) => self.known(place, known, object),
            Lookup::Builtin(served) => {
                skip();
                let checked = self.gathered.checks.builtin(served, object);
                self.report(place, object, &title(object, served.resource.namespaced), &checked);
            }
            Lookup::Ours(kind) => {
                skip();
                let checked = checks::ours(kind, &mut object.clone());
                self.report(place, object, &title(object, kind.is_namespaced()), &checked);
            }
            Lookup::Foreign => skip(),
            Lookup::Nowhere(nowhere) if uid_of(object).is_none() => {
                let fault = Fault { field: nowhere.field.to_owned(), message: nowhere.message };
                self.gathered.fault(place, &title(object, false), fault);
            }
            // Some server has it, maybe a newer one.
            Lookup::Nowhere(_) => skip(),
        }
    }

    fn known(&mut self, place: &Place, known: Known, object: &Value) {
        let title = title(object, known.is_namespaced());
        let mut object = std::borrow::Cow::Borrowed(object);
        if let Some(served) = known.served() {
            let checked = self.gathered.checks.builtin(served, &object);
            self.report(place, &object, &title, &checked);
            if let Some(fitting) = checked.fitting {
                object = std::borrow::Cow::Owned(fitting);
            }
        }
        let Some(identity) = self.identify(known, &object) else {
            // Ours are otherwise checked when they are read, which takes a name.
            let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
            if let Some(kind) = Kind::of(text("apiVersion"), text("kind")) {
                let checked = checks::ours(kind, &mut object.clone().into_owned());
                self.report(place, &object, &title, &checked);
            }
            return;
        };
        if !self.gathered.identities.insert(identity.clone()) {
            self.gathered.notes.push(format!("{place}: {identity} is given more than once; the first one counts"));
            return;
        }
        self.take(place.clone(), known, identity, &object);
    }

    /// What a server would refuse in a new object is bad input. An object with a uid was accepted by some server once:
    /// what this one would refuse is worth a note, unless it cannot be read.
    fn report(&mut self, place: &Place, object: &Value, title: &str, checked: &Checked) {
        let accepted_once = uid_of(object).is_some();
        for finding in &checked.findings {
            if accepted_once && finding.weight == Weight::Refused {
                self.gathered.refusals.add(place, title, &finding.fault);
            } else {
                self.gathered.fault(place, title, finding.fault.clone());
            }
        }
    }

    /// Name and namespace, both filled in where they are left to the server. Objects without a name have been refused.
    fn identify(&mut self, kind: Known, object: &Value) -> Option<Identity> {
        let text = |key: &str| object.pointer(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let name: Arc<str> = match (text("/metadata/name"), text("/metadata/generateName")) {
            (Some(name), _) => name.into(),
            (None, Some(base)) => {
                self.gathered.generated += 1;
                format!("{base}{:05}", self.gathered.generated).into()
            }
            (None, None) => return None,
        };
        let namespace = if kind.is_namespaced() { text("/metadata/namespace").unwrap_or(DEFAULT) } else { "" };
        Some(Identity { kind: kind.name(), namespace: self.gathered.interner.text(namespace), name })
    }

    fn take(&mut self, place: Place, kind: Known, identity: Identity, object: &Value) {
        match kind {
            Known::Pod => self.pod(&place, &identity, object),
            Known::Deployment => self.workload(place, identity, object, workload::deployment),
            Known::ReplicaSet => self.workload(place, identity, object, workload::replica_set),
            Known::StatefulSet => self.workload(place, identity, object, workload::stateful_set),
            Known::Job => self.workload(place, identity, object, workload::job),
            Known::NodePool => self.node_pool(place, &identity, object),
            Known::EC2NodeClass => self.node_class(place, &identity, object),
            Known::NodeClaim => self.node_claim(place, &identity, object),
            Known::NodeOverlay => self.node_overlay(&place, &identity, object),
            Known::Node => {
                if let Some(object) = self.read::<core_v1::Node>(&place, &identity, object) {
                    self.gathered.nodes.push(Found { place, object });
                }
            }
            Known::DaemonSet => {
                let Some(mut object) = self.read::<k8s_openapi::api::apps::v1::DaemonSet>(&place, &identity, object)
                else {
                    return;
                };
                object.metadata.uid.get_or_insert_with(|| identity.uid().to_string());
                match reduce::daemon_set(&object, &mut self.gathered.interner) {
                    Ok(set) => self.gathered.daemon_sets.push(set),
                    Err(refused) => self.gathered.refuse(&place, refused),
                }
            }
            Known::PersistentVolume => {
                if let Some(object) = self.read::<core_v1::PersistentVolume>(&place, &identity, object) {
                    self.gathered.storage.volumes.insert(identity.name, reduce::volume(&object));
                }
            }
            Known::PersistentVolumeClaim => {
                if let Some(object) = self.read::<core_v1::PersistentVolumeClaim>(&place, &identity, object) {
                    let key = (identity.namespace, identity.name);
                    self.gathered.storage.claims.insert(key, reduce::volume_claim(&object));
                }
            }
            Known::StorageClass => self.storage_class(&place, identity, object),
            Known::CsiNode => {
                if let Some(object) = self.read::<storage_v1::CSINode>(&place, &identity, object) {
                    self.gathered.csi_nodes.insert(identity.name.to_string(), object);
                }
            }
            Known::PodDisruptionBudget => {
                if let Some(object) = self.read::<PodDisruptionBudget>(&place, &identity, object) {
                    self.gathered.budgets.push(Found { place, object });
                }
            }
            Known::Namespace => {
                if let Some(object) = self.read::<core_v1::Namespace>(&place, &identity, object) {
                    self.gathered.namespaces.insert(identity.name, reduce::namespace_labels(&object));
                }
            }
            Known::Service => {
                let read = self.read::<core_v1::Service>(&place, &identity, object);
                self.gathered.services.extend(read.as_ref().map(reduce::service));
            }
            // Admission has them since the first reading; here they are only checked.
            Known::PriorityClass => {
                self.check::<k8s_openapi::api::scheduling::v1::PriorityClass>(&place, &identity, object)
            }
            Known::RuntimeClass => self.check::<k8s_openapi::api::node::v1::RuntimeClass>(&place, &identity, object),
            Known::LimitRange => self.check::<core_v1::LimitRange>(&place, &identity, object),
        }
    }

    /// The typed object, its name and namespace filled in.
    fn read<T>(&mut self, place: &Place, identity: &Identity, object: &Value) -> Option<T>
    where
        T: DeserializeOwned + Resource + Metadata<Ty = ObjectMeta>,
    {
        match read_checked::<T>(object) {
            Ok(mut object) => {
                let metadata = object.metadata_mut();
                metadata.name = Some(identity.name.to_string());
                if !identity.namespace.is_empty() {
                    metadata.namespace = Some(identity.namespace.to_string());
                }
                Some(object)
            }
            Err(faults) => {
                self.gathered.refuse(place, Refused { object: identity.to_string(), faults });
                None
            }
        }
    }

    fn check<T>(&mut self, place: &Place, identity: &Identity, object: &Value)
    where
        T: DeserializeOwned + Resource + Metadata<Ty = ObjectMeta>,
    {
        let _checked: Option<T> = self.read(place, identity, object);
    }

    fn pod(&mut self, place: &Place, identity: &Identity, object: &Value) {
        let Some(mut object) = self.read::<core_v1::Pod>(place, identity, object) else {
            return;
        };
        let fresh = object.metadata.uid.is_none();
        if fresh {
            object.metadata.uid = Some(identity.uid().to_string());
            if let Some(fault) = object.spec.as_ref().and_then(|spec| self.admission.refused_priority(spec)) {
                self.gathered.fault(place, &identity.to_string(), fault);
            }
        }
        self.admission.admit(&object.metadata, object.spec.get_or_insert_default(), &identity.namespace, fresh);
        complete::pod(&mut object);
        self.remember_controller(&object.metadata, &identity.namespace);
        let claims = complete::ephemeral_claims(&object, &identity.namespace);
        self.gathered.ephemeral_claims.extend(claims);
        let dated = object.metadata.creation_timestamp.is_some();
        match reduce::pod(&object, &mut self.gathered.interner) {
            Ok(pod) => {
                let spec = object.spec.as_ref().expect("admission filled it in");
                self.gathered.written.pod(&pod.uid, spec);
                self.gathered.slots.push(Slot::Pod { pod: Box::new(pod), dated });
            }
            Err(refused) => self.gathered.refuse(place, refused),
        }
    }

    /// A pod in the input stands for its workload, which then is not expanded again. The ReplicaSet between a pod and
    /// its Deployment may be missing from a dump; its name is the Deployment's with the template's hash.
    fn remember_controller(&mut self, metadata: &ObjectMeta, namespace: &Arc<str>) {
        let Some(owner) = controller(metadata) else { return };
        let interner = &mut self.gathered.interner;
        let key = (namespace.clone(), interner.text(&owner.kind), interner.text(&owner.name));
        let hash = metadata.labels.as_ref().and_then(|labels| labels.get("pod-template-hash"));
        let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
        if let Some(deployment) = deployment {
            let key = (namespace.clone(), interner.text("Deployment"), interner.text(deployment));
            self.gathered.controllers.insert(key);
        }
        self.gathered.controllers.insert(key);
    }

    fn workload<T>(&mut self, place: Place, identity: Identity, object: &Value, parts: fn(T) -> workload::Parts)
    where
        T: DeserializeOwned + Resource + Metadata<Ty = ObjectMeta>,
    {
        let Some(object) = self.read::<T>(&place, &identity, object) else {
            return;
        };
        let metadata = object.metadata().clone();
        let uid = metadata.uid.as_deref().map_or_else(|| identity.uid(), Into::into);
        let workload = Workload::new(place, identity, &metadata, uid, parts(object));
        self.gathered.slots.push(Slot::Workload(self.gathered.workloads.len()));
        self.gathered.workloads.push(workload);
    }

    fn storage_class(&mut self, place: &Place, identity: Identity, object: &Value) {
        let Some(object) = self.read::<storage_v1::StorageClass>(place, &identity, object) else {
            return;
        };
        let annotations = object.metadata.annotations.iter().flatten();
        let mut default = annotations
            .filter(|(key, value)| *key == "storageclass.kubernetes.io/is-default-class" && *value == "true");
        if default.next().is_some() {
            self.gathered.default_class = Some(identity.name.clone());
        }
        match reduce::storage_class(&object) {
            Ok(class) => {
                self.gathered.storage.classes.insert(identity.name, class);
            }
            Err(refused) => self.gathered.refuse(place, refused),
        }
    }

    /// A NodePool that an API server or the controller would refuse is bad input.
    fn node_pool(&mut self, place: Place, identity: &Identity, object: &Value) {
        let mut object = object.clone();
        self.drop_empty_taint_values(&place, identity, &mut object, "/spec/template/spec");
        let checked = checks::ours(Kind::NodePool, &mut object);
        self.report(&place, &object, &identity.to_string(), &checked);
        if let Some(mut object) = self.read::<NodePool>(&place, identity, &object) {
            object.metadata.uid.get_or_insert_with(|| identity.uid().to_string());
            let faults = karpenter_api::validation::runtime::nodepool(&object);
            let faults = faults.into_iter().map(|fault| Fault { field: fault.field, message: fault.message }).collect();
            self.gathered.refuse(&place, Refused { object: identity.to_string(), faults });
            self.gathered.pools.push(Found { place, object });
        }
    }

    fn node_class(&mut self, place: Place, identity: &Identity, object: &Value) {
        let mut object = object.clone();
        let mut checked = checks::ours(Kind::EC2NodeClass, &mut object);
        // A plan is often asked for before roles and selectors are filled in, and can be made without them.
        let (left_open, findings) =
            checked.findings.into_iter().partition(|finding| checks::is_left_open(&object, &finding.fault));
        checked.findings = findings;
        for finding in left_open {
            self.gathered.refusals.add(&place, &identity.to_string(), &finding.fault);
        }
        self.report(&place, &object, &identity.to_string(), &checked);
        if let Some(class) = self.read::<EC2NodeClass>(&place, identity, &object) {
            self.gathered.classes.insert(identity.name.to_string(), Found { place, object: (class, object) });
        }
    }

    fn node_claim(&mut self, place: Place, identity: &Identity, object: &Value) {
        let mut object = object.clone();
        self.drop_empty_taint_values(&place, identity, &mut object, "/spec");
        let checked = checks::ours(Kind::NodeClaim, &mut object);
        self.report(&place, &object, &identity.to_string(), &checked);
        if let Some(object) = self.read::<NodeClaim>(&place, identity, &object) {
            self.gathered.claims.push(Found { place, object });
        }
    }

    fn node_overlay(&mut self, place: &Place, identity: &Identity, object: &Value) {
        let mut object = object.clone();
        let checked = checks::ours(Kind::NodeOverlay, &mut object);
        self.report(place, &object, &identity.to_string(), &checked);
        if let Some(overlay) = self.read::<karpenter_api::NodeOverlay>(place, identity, &object) {
            self.gathered.overlays.push(Arc::new(overlay));
        }
    }

    /// An empty value and none are the same taint. The schema refuses the first, but whatever passes through a Go client
    /// has lost it: such manifests are common, and mean no harm.
    fn drop_empty_taint_values(&mut self, place: &Place, identity: &Identity, object: &mut Value, below: &str) {
        let Some(spec) = object.pointer_mut(below) else { return };
        for list in ["taints", "startupTaints"] {
            let taints = spec.get_mut(list).and_then(Value::as_array_mut);
            for (index, taint) in taints.into_iter().flatten().enumerate() {
                if taint.get("value").and_then(Value::as_str) == Some("")
                    && let Some(taint) = taint.as_object_mut()
                {
                    taint.shift_remove("value");
                    let field = format!("{}.{list}[{index}].value", below.trim_start_matches('/').replace('/', "."));
                    let message = "is empty: leave it out".to_owned();
                    self.gathered.refusals.add(place, &identity.to_string(), &Fault { field, message });
                }
            }
        }
    }
}

fn uid_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/uid").and_then(Value::as_str).filter(|uid| !uid.is_empty())
}

/// How messages name an object of which little may be right.
fn title(object: &Value, namespaced: bool) -> String {
    let text = |key: &str| object.pointer(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = text("/kind").unwrap_or_default();
    let Some(name) = text("/metadata/name").or(text("/metadata/generateName")) else { return kind.to_owned() };
    match namespaced {
        true => format!("{kind} {}/{name}", text("/metadata/namespace").unwrap_or(DEFAULT)),
        false => format!("{kind} {name}"),
    }
}

impl Identity {
    pub(crate) fn uid(&self) -> Arc<str> {
        uid(self.kind, &self.namespace, &self.name)
    }
}
