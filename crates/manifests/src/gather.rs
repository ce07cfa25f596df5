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
use crate::complete;
use crate::document::{Place, Sink};
use crate::identity::{Identity, uid};
use crate::kinds::{Known, Lookup, lookup};
use crate::older;
use crate::strict::read_strictly;
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
    skipped: BTreeMap<String, usize>,
}

impl Gathered {
    /// A line for each kind that was passed over.
    pub(crate) fn note_skipped_kinds(&mut self) {
        for (kind, count) in std::mem::take(&mut self.skipped) {
            self.notes.push(format!("skipped {count} {kind}: plans do not depend on this kind"));
        }
    }

    pub(crate) fn fault(&mut self, place: &Place, object: &str, fault: Fault) {
        let Fault { field, message } = fault;
        let same = |told: &InputFault| told.place == *place && told.field == field && told.message == message;
        if self.faults.iter().rev().take_while(|told| told.place == *place).any(same) {
            return;
        }
        self.faults.push(InputFault { place: place.clone(), object: object.to_owned(), field, message });
    }

    pub(crate) fn refuse(&mut self, place: &Place, refused: Refused) {
        for fault in refused.faults {
            self.fault(place, &refused.object, fault);
        }
    }
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
        let object = Value::Object(object);
        // What cannot be read is reported by the second reading.
        match kind {
            Known::PriorityClass => {
                if let Ok(class) = read_strictly(object) {
                    self.0.priority_class(class);
                }
            }
            Known::RuntimeClass => {
                if let Ok(class) = read_strictly(object) {
                    self.0.runtime_class(class);
                }
            }
            Known::LimitRange => {
                if let Ok(range) = read_strictly::<core_v1::LimitRange>(object) {
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
        self.gathered.fault(&place, "", Fault { field: String::new(), message });
    }

    fn object(&mut self, place: Place, mut object: Map<String, Value>) {
        match older::modern(&object) {
            Some(Ok(converted)) => {
                let name = object.get("metadata").and_then(|all| all.get("name")).and_then(Value::as_str);
                let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
                let name = name.unwrap_or_default();
                self.gathered.notes.push(format!(
                    "{place}: {kind} {name} is v1beta1 and read as v1; `karpenter convert` writes it so"
                ));
                object = converted;
            }
            Some(Err(faults)) => {
                let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
                for karpenter_api::Fault { field, message } in faults {
                    self.gathered.fault(&place, &kind, Fault { field, message });
                }
                return;
            }
            None => {}
        }
        let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version.is_empty() || kind.is_empty() {
            let field = if kind.is_empty() { "kind" } else { "apiVersion" };
            let message = "is missing: this is no Kubernetes object".to_owned();
            return self.gathered.fault(&place, "", Fault { field: field.to_owned(), message });
        }
        let known = match lookup(&api_version, &kind) {
            Lookup::Known(known) => known,
            Lookup::OtherVersion(ours) => {
                let message = format!("{api_version} is not a version we read; {ours} is");
                return self.gathered.fault(&place, &kind, Fault { field: "apiVersion".to_owned(), message });
            }
            Lookup::Unknown => {
                *self.gathered.skipped.entry(format!("{api_version} {kind}")).or_default() += 1;
                return;
            }
        };
        let Some(identity) = self.identify(&place, known, &mut object) else {
            return;
        };
        if !self.gathered.identities.insert(identity.clone()) {
            self.gathered.notes.push(format!("{place}: {identity} is given more than once; the first one counts"));
            return;
        }
        self.take(place, known, identity, Value::Object(object));
    }
}

impl GatherSink<'_> {
    /// Name and namespace, the latter filled in where the kind has one.
    fn identify(&mut self, place: &Place, kind: Known, object: &mut Map<String, Value>) -> Option<Identity> {
        let mut complain = |field: &str, message: &str| {
            let fault = Fault { field: field.to_owned(), message: message.to_owned() };
            self.gathered.fault(place, kind.name(), fault);
            None
        };
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return complain("metadata", "is missing");
        };
        let name: Arc<str> = match metadata.get("name").and_then(Value::as_str) {
            Some(name) if !name.is_empty() => name.into(),
            _ => return complain("metadata.name", "is missing"),
        };
        let namespace = if kind.is_namespaced() {
            match metadata.get("namespace").and_then(Value::as_str) {
                Some(namespace) if !namespace.is_empty() => self.gathered.interner.text(namespace),
                _ => {
                    metadata.insert("namespace".to_owned(), DEFAULT.into());
                    self.gathered.interner.text(DEFAULT)
                }
            }
        } else {
            self.gathered.interner.text("")
        };
        Some(Identity { kind: kind.name(), namespace, name })
    }

    fn take(&mut self, place: Place, kind: Known, identity: Identity, object: Value) {
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

    fn read<T: DeserializeOwned + Resource>(&mut self, place: &Place, identity: &Identity, object: Value) -> Option<T> {
        match read_strictly(object) {
            Ok(object) => Some(object),
            Err(faults) => {
                for fault in faults {
                    self.gathered.fault(place, &identity.to_string(), fault);
                }
                None
            }
        }
    }

    fn check<T: DeserializeOwned + Resource>(&mut self, place: &Place, identity: &Identity, object: Value) {
        let _checked: Option<T> = self.read(place, identity, object);
    }

    fn pod(&mut self, place: &Place, identity: &Identity, object: Value) {
        let Some(mut object) = self.read::<core_v1::Pod>(place, identity, object) else {
            return;
        };
        let fresh = object.metadata.uid.is_none();
        if fresh {
            object.metadata.uid = Some(identity.uid().to_string());
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

    fn workload<T>(&mut self, place: Place, identity: Identity, object: Value, parts: fn(T) -> workload::Parts)
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

    fn storage_class(&mut self, place: &Place, identity: Identity, object: Value) {
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
    fn node_pool(&mut self, place: Place, identity: &Identity, mut object: Value) {
        if let Some(spec) = object.pointer_mut("/spec/template/spec") {
            drop_empty_taint_values(spec);
        }
        match karpenter_api::parse::<NodePool>(object) {
            Ok(mut object) => {
                object.metadata.uid.get_or_insert_with(|| identity.uid().to_string());
                for fault in karpenter_api::validation::runtime::nodepool(&object) {
                    self.api_fault(&place, identity, fault);
                }
                self.gathered.pools.push(Found { place, object });
            }
            Err(faults) => {
                for fault in faults {
                    self.api_fault(&place, identity, fault);
                }
            }
        }
    }

    fn api_fault(&mut self, place: &Place, identity: &Identity, fault: karpenter_api::Fault) {
        let fault = Fault { field: fault.field, message: fault.message };
        self.gathered.fault(place, &identity.to_string(), fault);
    }

    fn node_class(&mut self, place: Place, identity: &Identity, mut object: Value) {
        karpenter_api::apply_defaults(Kind::EC2NodeClass, &mut object);
        self.note_refusals(&place, identity, Kind::EC2NodeClass, &object);
        if let Some(class) = self.read::<EC2NodeClass>(&place, identity, object.clone()) {
            self.gathered.classes.insert(identity.name.to_string(), Found { place, object: (class, object) });
        }
    }

    fn node_claim(&mut self, place: Place, identity: &Identity, mut object: Value) {
        if let Some(spec) = object.get_mut("spec") {
            drop_empty_taint_values(spec);
        }
        karpenter_api::apply_defaults(Kind::NodeClaim, &mut object);
        if let Some(object) = self.read::<NodeClaim>(&place, identity, object) {
            self.gathered.claims.push(Found { place, object });
        }
    }

    fn node_overlay(&mut self, place: &Place, identity: &Identity, object: Value) {
        if let Some(overlay) = self.read::<karpenter_api::NodeOverlay>(place, identity, object) {
            self.gathered.overlays.push(Arc::new(overlay));
        }
    }

    /// What an API server would refuse in an object from which a plan can still be made: told, not fatal. A plan is
    /// often asked for before roles and selectors are filled in.
    fn note_refusals(&mut self, place: &Place, identity: &Identity, kind: Kind, object: &Value) {
        for fault in karpenter_api::validate(kind, object) {
            self.gathered.notes.push(format!("{place}: {identity}: {fault}: an API server would refuse this"));
        }
    }
}

/// An empty value and none are the same taint. The schema refuses the first, but whatever passes through a Go client
/// has lost it: such manifests are common, and mean no harm.
fn drop_empty_taint_values(spec: &mut Value) {
    for list in ["taints", "startupTaints"] {
        let taints = spec.get_mut(list).and_then(Value::as_array_mut);
        for taint in taints.into_iter().flatten().filter_map(Value::as_object_mut) {
            if taint.get("value").and_then(Value::as_str) == Some("") {
                taint.remove("value");
            }
        }
    }
}

impl Identity {
    pub(crate) fn uid(&self) -> Arc<str> {
        uid(self.kind, &self.namespace, &self.name)
    }
}
