//! The kinds we mirror, each named once.

use super::store::{Store, version};
use crate::key::{Key, controller_of, uid};
use crate::selector::Selector;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

macro_rules! kinds {
    ($($kind:ident $field:ident $group:literal $plural:literal $scope:ident)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind { $($kind),* }

        #[derive(Clone, Debug)]
        pub enum Object { $($kind(Arc<$kind>)),* }

        /// What is known of the cluster.
        #[derive(Clone, Debug, Default)]
        pub struct World {
            $(pub $field: Store<$kind>,)*
            /// Which pods are bound to a node.
            pods_on: BTreeMap<String, BTreeSet<Key>>,
            /// What an object controls, by its uid.
            children: BTreeMap<String, BTreeSet<(Kind, Key)>>,
            /// Pods and replica sets that nobody controls and somebody may adopt.
            orphans: BTreeSet<(Kind, Key)>,
            /// Pods by namespace and label, so that a selector need not look at all of them.
            labelled: BTreeMap<(Arc<str>, String, String), BTreeSet<Key>>,
            /// How far the watch on each kind has told.
            told: BTreeMap<Kind, u64>,
        }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind)),* }
            }

            /// The API prefix, such as `/apis/apps/v1`.
            pub fn group_path(self) -> &'static str {
                match self { $(Self::$kind => $group),* }
            }

            pub fn plural(self) -> &'static str {
                match self { $(Self::$kind => $plural),* }
            }

            pub fn namespaced(self) -> bool {
                match self { $(Self::$kind => stringify!($scope).eq("Namespaced")),* }
            }

            /// Reads an object of this kind, without its managed fields.
            pub fn decode(self, json: &str) -> serde_json::Result<Object> {
                let json = unmanaged(json);
                Ok(match self { $(Self::$kind => Object::$kind(Arc::new(serde_json::from_str(&json)?))),* })
            }

            /// Reads the object of a watch event.
            pub fn decode_wrapped(self, json: &str) -> serde_json::Result<Object> {
                let json = unmanaged(json);
                Ok(match self {
                    $(Self::$kind => Object::$kind(Arc::new(serde_json::from_str::<Wrapped<$kind>>(&json)?.object))),*
                })
            }
        }

        impl Object {
            pub fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind),* }
            }

            pub fn meta(&self) -> &ObjectMeta {
                match self { $(Self::$kind(o) => &o.metadata),* }
            }

            pub fn encode(&self) -> serde_json::Result<Vec<u8>> {
                match self { $(Self::$kind(o) => serde_json::to_vec(&**o)),* }
            }
        }

        $(impl From<$kind> for Object {
            fn from(object: $kind) -> Self {
                Self::$kind(Arc::new(object))
            }
        })*

        impl World {
            /// Whether a watch event would change anything.
            pub fn wants(&self, kind: Kind, key: &Key, version: u64, uid: &str) -> bool {
                match kind { $(Kind::$kind => self.$field.wants(key, version, uid)),* }
            }

            fn put(&mut self, key: &Key, object: Object) -> Option<Change> {
                let version = version(object.meta());
                let id = uid(object.meta()).to_owned();
                match object {
                    $(Object::$kind(new) => {
                        let old = self.$field.put(key.clone(), version, &id, new.clone()).ok()?;
                        Some(Change {
                            key: key.clone(),
                            old: old.map(Object::$kind),
                            new: Some(Object::$kind(new)),
                        })
                    })*
                }
            }

            fn take(&mut self, kind: Kind, key: &Key, version: u64) -> Option<Object> {
                match kind { $(Kind::$kind => self.$field.remove(key, version).map(Object::$kind)),* }
            }

            fn take_buried(&mut self, kind: Kind, key: &Key, id: &str) -> Option<Object> {
                match kind { $(Kind::$kind => self.$field.bury(key, id).map(Object::$kind)),* }
            }

            pub fn object(&self, kind: Kind, key: &Key) -> Option<Object> {
                match kind { $(Kind::$kind => self.$field.get(key).cloned().map(Object::$kind)),* }
            }

            pub fn keys_of(&self, kind: Kind) -> Vec<Key> {
                match kind { $(Kind::$kind => self.$field.keys().cloned().collect()),* }
            }
        }
    };
}

kinds! {
    Namespace namespaces "/api/v1" "namespaces" Cluster
    Node nodes "/api/v1" "nodes" Cluster
    Pod pods "/api/v1" "pods" Namespaced
    Service services "/api/v1" "services" Namespaced
    ServiceAccount service_accounts "/api/v1" "serviceaccounts" Namespaced
    ConfigMap config_maps "/api/v1" "configmaps" Namespaced
    PersistentVolume volumes "/api/v1" "persistentvolumes" Cluster
    PersistentVolumeClaim claims "/api/v1" "persistentvolumeclaims" Namespaced
    ControllerRevision revisions "/apis/apps/v1" "controllerrevisions" Namespaced
    DaemonSet daemon_sets "/apis/apps/v1" "daemonsets" Namespaced
    Deployment deployments "/apis/apps/v1" "deployments" Namespaced
    ReplicaSet replica_sets "/apis/apps/v1" "replicasets" Namespaced
    StatefulSet stateful_sets "/apis/apps/v1" "statefulsets" Namespaced
    CronJob cron_jobs "/apis/batch/v1" "cronjobs" Namespaced
    Job jobs "/apis/batch/v1" "jobs" Namespaced
    Lease leases "/apis/coordination.k8s.io/v1" "leases" Namespaced
    EndpointSlice slices "/apis/discovery.k8s.io/v1" "endpointslices" Namespaced
    PodDisruptionBudget budgets "/apis/policy/v1" "poddisruptionbudgets" Namespaced
    CSIDriver csi_drivers "/apis/storage.k8s.io/v1" "csidrivers" Cluster
    CSINode csi_nodes "/apis/storage.k8s.io/v1" "csinodes" Cluster
    CSIStorageCapacity capacities "/apis/storage.k8s.io/v1" "csistoragecapacities" Namespaced
    StorageClass storage_classes "/apis/storage.k8s.io/v1" "storageclasses" Cluster
    VolumeAttachment attachments "/apis/storage.k8s.io/v1" "volumeattachments" Cluster
}

#[derive(serde::Deserialize)]
struct Wrapped<T> {
    object: T,
}

/// The text of an object without its managed fields. Nobody here reads them, they are half of many an object, and a server
/// takes a write without them as one that leaves them alone.
pub(super) fn unmanaged(json: &str) -> Cow<'_, str> {
    // Inside a string the quotes would be escaped, so this is a key.
    const KEY: &str = "\"managedFields\":[";
    let Some(from) = json.find(KEY) else { return Cow::Borrowed(json) };
    let Some(length) = list_length(&json.as_bytes()[from + KEY.len() - 1..]) else { return Cow::Borrowed(json) };
    let (before, after) = (&json[..from], &json[from + KEY.len() - 1 + length..]);
    // One of the commas around it goes with it.
    let (before, after) = match (before.strip_suffix(','), after.strip_prefix(',')) {
        (Some(before), _) => (before, after),
        (None, Some(after)) => (before, after),
        (None, None) => (before, after),
    };
    Cow::Owned([before, after].concat())
}

/// The length of the list a text begins with, brackets included.
fn list_length(text: &[u8]) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (i, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => {
                depth -= 1;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Something that happened to an object; one of the two sides is set, or both.
#[derive(Clone, Debug)]
pub struct Change {
    pub key: Key,
    pub old: Option<Object>,
    pub new: Option<Object>,
}

impl Change {
    pub fn kind(&self) -> Kind {
        self.latest().kind()
    }

    pub fn latest(&self) -> &Object {
        self.new.as_ref().or(self.old.as_ref()).expect("a change has at least one side")
    }
}

impl Kind {
    /// Where the objects are; a namespace narrows it down.
    pub fn path(self, namespace: &str) -> String {
        if namespace.is_empty() || !self.namespaced() {
            format!("{}/{}", self.group_path(), self.plural())
        } else {
            format!("{}/namespaces/{namespace}/{}", self.group_path(), self.plural())
        }
    }

    pub fn api_version(self) -> &'static str {
        let path = self.group_path();
        path.strip_prefix("/apis/").unwrap_or("v1")
    }

    /// Only what somebody here reads is watched.
    pub fn field_selector(self) -> Option<&'static str> {
        match self {
            Self::ConfigMap => Some("metadata.name=kube-root-ca.crt"),
            _ => None,
        }
    }
}

impl World {
    /// Takes in a newer object; `None` if it is not newer.
    pub fn apply(&mut self, object: Object) -> Option<Change> {
        let key = Key::of(object.meta());
        let change = self.put(&key, object)?;
        self.reindex(&change);
        Some(change)
    }

    /// Takes in what a write answered. Answers may be late: an object that is not here, and is no newer than what the watch
    /// has told, is one whose end the watch has told, and nobody would tell it again.
    pub fn answered(&mut self, object: Object) -> Option<Change> {
        let (kind, key) = (object.kind(), Key::of(object.meta()));
        let told = self.told.get(&kind).is_some_and(|told| version(object.meta()) <= *told);
        if told && self.object(kind, &key).is_none() { None } else { self.apply(object) }
    }

    /// The watch has told everything up to this version.
    pub fn heard(&mut self, kind: Kind, version: u64) {
        let told = self.told.entry(kind).or_default();
        *told = version.max(*told);
    }

    /// The watch says the object is gone.
    pub fn remove(&mut self, kind: Kind, key: &Key, version: u64) -> Option<Change> {
        let old = self.take(kind, key, version)?;
        let change = Change { key: key.clone(), old: Some(old), new: None };
        self.reindex(&change);
        Some(change)
    }

    /// We deleted the object ourselves and it is gone.
    pub fn bury(&mut self, kind: Kind, key: &Key, id: &str) -> Option<Change> {
        let old = self.take_buried(kind, key, id)?;
        let change = Change { key: key.clone(), old: Some(old), new: None };
        self.reindex(&change);
        Some(change)
    }

    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods_on.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// The keys of the objects of a kind that the object with this uid controls.
    pub fn children(&self, of: &str, kind: Kind) -> impl Iterator<Item = &Key> {
        self.children.get(of).into_iter().flatten().filter(move |(k, _)| *k == kind).map(|(_, key)| key)
    }

    pub fn pods_of(&self, owner: &str) -> impl Iterator<Item = &Arc<Pod>> {
        self.children(owner, Kind::Pod).filter_map(|key| self.pods.get(key))
    }

    /// The pods of a namespace a selector selects, by name.
    pub fn select_pods<'a>(&'a self, namespace: &'a Arc<str>, selector: &Selector) -> Vec<&'a Arc<Pod>> {
        let matches = |pod: &&Arc<Pod>| {
            static NONE: crate::selector::Labels = crate::selector::Labels::new();
            selector.matches(pod.metadata.labels.as_ref().unwrap_or(&NONE))
        };
        let Some((key, value)) = selector.an_equality() else {
            return self.pods.in_namespace(namespace).map(|(_, pod)| pod).filter(matches).collect();
        };
        let candidates = self.labelled.get(&(namespace.clone(), key.to_owned(), value.to_owned()));
        candidates.into_iter().flatten().filter_map(|key| self.pods.get(key)).filter(matches).collect()
    }

    fn relabel(&mut self, change: &Change) {
        fn labels(object: &Option<Object>) -> Option<&BTreeMap<String, String>> {
            object.as_ref().and_then(|object| object.meta().labels.as_ref())
        }
        if labels(&change.old) == labels(&change.new) {
            return;
        }
        let owned = |object| labels(object).cloned().unwrap_or_default();
        let (old, new) = (owned(&change.old), owned(&change.new));
        let namespace = &change.key.namespace;
        for (key, value) in old {
            let entry = (namespace.clone(), key, value);
            if let Some(set) = self.labelled.get_mut(&entry) {
                set.remove(&change.key);
                if set.is_empty() {
                    self.labelled.remove(&entry);
                }
            }
        }
        for (key, value) in new {
            self.labelled.entry((namespace.clone(), key, value)).or_default().insert(change.key.clone());
        }
    }

    /// Objects of a kind in a namespace that nobody controls; only pods and replica sets are kept track of.
    pub fn orphans<'a>(&'a self, kind: Kind, namespace: &'a str) -> impl Iterator<Item = &'a Key> {
        let from = (kind, Key::new(namespace, ""));
        let rest = self.orphans.range(from..);
        rest.take_while(move |(k, key)| *k == kind && &*key.namespace == namespace).map(|(_, key)| key)
    }

    fn reindex(&mut self, change: &Change) {
        let kind = change.kind();
        if kind == Kind::Pod {
            self.relabel(change);
        }
        if matches!(kind, Kind::Pod | Kind::ReplicaSet) {
            let item = (kind, change.key.clone());
            match &change.new {
                Some(object) if controller_of(object.meta()).is_none() => self.orphans.insert(item),
                _ => self.orphans.remove(&item),
            };
        }
        let node = |object: &Option<Object>| match object {
            Some(Object::Pod(pod)) => pod.spec.as_ref().and_then(|s| s.node_name.clone()).filter(|n| !n.is_empty()),
            _ => None,
        };
        let owner =
            |object: &Option<Object>| object.as_ref().and_then(|o| controller_of(o.meta())).map(|o| o.uid.clone());
        let (old, new) = (node(&change.old), node(&change.new));
        if old != new {
            move_between(&mut self.pods_on, old, new, &change.key);
        }
        let (old, new) = (owner(&change.old), owner(&change.new));
        if old != new {
            move_between(&mut self.children, old, new, &(kind, change.key.clone()));
        }
    }
}

fn move_between<T: Ord + Clone>(
    index: &mut BTreeMap<String, BTreeSet<T>>,
    old: Option<String>,
    new: Option<String>,
    item: &T,
) {
    if let Some(old) = old
        && let Some(set) = index.get_mut(&old)
    {
        set.remove(item);
        if set.is_empty() {
            index.remove(&old);
        }
    }
    if let Some(new) = new {
        index.entry(new).or_default().insert(item.clone());
    }
}
