//! What is served under which path: the built-in resources, and those that CRDs add while the server runs.

use std::sync::Arc;

use karpenter_kinds::resources::{self, api_version};
use karpenter_kinds::selectable;
use karpenter_kinds::types::{StructId, Types};
use rustc_hash::FxHashMap;

use crate::custom::CustomVersion;
use crate::store::{FieldSource, SelectableFields, Store, TableId};

/// One resource in one version.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) group: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) plural: Arc<str>,
    pub(crate) singular: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) list_kind: Arc<str>,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Vec<&'static str>,
    pub(crate) storage_version_hash: Option<String>,
    pub(crate) subresources: Vec<Subresource>,
    /// Where its objects are; reviews and bindings are nowhere.
    pub(crate) table: Option<TableId>,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    pub(crate) kind: String,
    pub(crate) kind_group_version: Option<(String, String)>,
    pub(crate) verbs: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Builtin(StructId),
    Custom(Arc<CustomVersion>),
}

impl Served {
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        self.subresources.iter().any(|sub| sub.name == name)
    }

    /// The key of an object in its table.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        &*self.group == group && &*self.kind == kind && matches!(self.origin, Origin::Builtin(_))
    }

    pub(crate) fn custom(&self) -> Option<&Arc<CustomVersion>> {
        match &self.origin {
            Origin::Custom(custom) => Some(custom),
            Origin::Builtin(_) => None,
        }
    }
}

/// A group, a version and what they serve, in order.
pub(crate) type GroupVersion = (Arc<str>, Arc<str>, Vec<Arc<Served>>);

/// Groups and versions in the order discovery shows them.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// By `group/version/plural`.
    served: FxHashMap<String, Arc<Served>>,
    /// (group, version, resources in order); built-in ones first, custom ones sorted after them.
    builtin: Vec<GroupVersion>,
    /// By `group/plural`.
    tables: FxHashMap<String, TableId>,
}

impl Registry {
    pub(crate) fn with_builtin(store: &mut Store) -> Self {
        let mut registry = Registry::default();
        let all = resources::all();
        for main in all.iter().filter(|resource| resource.subresource.is_empty()) {
            let subresources = all
                .iter()
                .filter(|r| {
                    r.group == main.group
                        && r.version == main.version
                        && r.plural == main.plural
                        && !r.subresource.is_empty()
                })
                .map(|r| Subresource {
                    name: r.subresource,
                    kind: r.kind.to_owned(),
                    kind_group_version: r.kind_group_version.map(|(g, v)| (g.to_owned(), v.to_owned())),
                    verbs: r.verbs.clone(),
                })
                .collect();
            let stored = main.verbs.contains(&"list") && main.kind != "ComponentStatus";
            // Events have two faces and one store.
            let (group, plural) = (if main.kind == "Event" { "" } else { main.group }, main.plural);
            let table = stored.then(|| {
                *registry.tables.entry(format!("{group}/{plural}")).or_insert_with(|| {
                    let name = crate::error::qualified(group, plural);
                    store.add_table(&name, builtin_fields(group, main.kind))
                })
            });
            let id = Types::get()
                .kind(&main.api_version(), main.kind)
                .expect("a test holds that every served kind has a type");
            registry.add(Arc::new(Served {
                group: main.group.into(),
                version: main.version.into(),
                plural: main.plural.into(),
                singular: main.singular.into(),
                kind: main.kind.into(),
                list_kind: format!("{}List", main.kind).into(),
                namespaced: main.namespaced,
                short_names: main.short_names.iter().map(ToString::to_string).collect(),
                categories: main.categories.iter().map(ToString::to_string).collect(),
                verbs: main.verbs.clone(),
                storage_version_hash: main.storage_version_hash.map(str::to_owned),
                subresources,
                table,
                origin: Origin::Builtin(id),
            }));
        }
        registry
    }

    fn add(&mut self, served: Arc<Served>) {
        let at =
            self.builtin.iter().position(|(group, version, _)| *group == served.group && *version == served.version);
        let at = at.unwrap_or_else(|| {
            self.builtin.push((served.group.clone(), served.version.clone(), Vec::new()));
            self.builtin.len() - 1
        });
        self.builtin[at].2.push(served.clone());
        self.served.insert(path(&served.group, &served.version, &served.plural), served);
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.served.get(&path(group, version, plural))
    }

    pub(crate) fn table(&self, group: &str, plural: &str) -> Option<TableId> {
        self.tables.get(&format!("{group}/{plural}")).copied()
    }

    /// The table of a custom resource, made on first use and kept when its CRD goes, so that a new CRD finds it empty.
    pub(crate) fn custom_table(
        &mut self,
        store: &mut Store,
        group: &str,
        plural: &str,
        fields: SelectableFields,
    ) -> TableId {
        let key = format!("{group}/{plural}");
        match self.tables.get(&key) {
            Some(table) => {
                store.set_selectable(*table, fields);
                *table
            }
            None => {
                let table = store.add_table(&crate::error::qualified(group, plural), fields);
                self.tables.insert(key, table);
                table
            }
        }
    }

    /// Serves exactly `served` for the CRD of this group and plural.
    pub(crate) fn set_custom(&mut self, group: &str, plural: &str, served: Vec<Arc<Served>>) {
        self.served.retain(|_, s| !(&*s.group == group && &*s.plural == plural && s.custom().is_some()));
        for one in served {
            self.served.insert(path(&one.group, &one.version, &one.plural), one);
        }
    }

    pub(crate) fn builtin(&self) -> &[GroupVersion] {
        &self.builtin
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.served.values()
    }

    /// Custom resources, sorted.
    pub(crate) fn custom(&self) -> Vec<Arc<Served>> {
        let mut custom: Vec<Arc<Served>> = self.served.values().filter(|s| s.custom().is_some()).cloned().collect();
        custom.sort_by(|a, b| (&a.group, &a.version, &a.plural).cmp(&(&b.group, &b.version, &b.plural)));
        custom
    }

    pub(crate) fn find_kind(&self, group: &str, kind: &str) -> Option<Arc<Served>> {
        let mut found: Vec<&Arc<Served>> =
            self.served.values().filter(|s| &*s.group == group && &*s.kind == kind && s.table.is_some()).collect();
        found.sort_by(|a, b| a.version.cmp(&b.version));
        found.first().map(|served| (*served).clone())
    }

    /// Any served version of what a table holds.
    pub(crate) fn of_table(&self, table: TableId) -> Option<Arc<Served>> {
        let mut found: Vec<&Arc<Served>> = self.served.values().filter(|s| s.table == Some(table)).collect();
        found.sort_by(|a, b| (&a.group, &a.version).cmp(&(&b.group, &b.version)));
        found.first().map(|served| (*served).clone())
    }
}

fn path(group: &str, version: &str, plural: &str) -> String {
    [group, version, plural].join("/")
}

fn builtin_fields(group: &str, kind: &str) -> SelectableFields {
    let fields = selectable::fields(group, kind).iter().map(|(name, pointers)| {
        let mut sources: Vec<FieldSource> =
            pointers.iter().map(|pointer| FieldSource::Pointer((*pointer).to_owned())).collect();
        sources.push(FieldSource::Constant(selectable::absent(kind, name)));
        (Arc::from(*name), sources)
    });
    SelectableFields(fields.collect())
}
